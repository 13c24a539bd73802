//! Writes, builds and runs the packages of random kernels.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kernel_build::{BuildError, Kernels};

use super::case::Case;
use super::refused::Refused;
use super::{emit, signatures};
use crate::ptxas;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const ROOT: &str = "#![cfg_attr(target_arch = \"nvptx64\", no_std, feature(abi_ptx))]\n#![forbid(unsafe_code)]\n#![allow(warnings)]\n";

/// A separate workspace with two members: `kernels` and the binary `fuzzed`.
pub(super) struct Project {
    root: PathBuf,
    target: PathBuf,
}

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the workspace")
}

impl Project {
    /// Puts the workspace into the directory `keep`, or under the target directory.
    pub(super) fn new(keep: Option<PathBuf>) -> Result<Self> {
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from);
        let root = keep.unwrap_or_else(|| target.join("fuzz-kernels"));
        fs::create_dir_all(&root)?;
        Ok(Self {
            root: root.canonicalize()?,
            target: target.canonicalize()?,
        })
    }

    fn put(&self, path: &str, text: impl AsRef<[u8]>) -> Result<()> {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().expect("a file has a directory"))?;
        // Unchanged files are not written, so that cargo does not build them again.
        if fs::read(&path).is_ok_and(|there| there == text.as_ref()) {
            return Ok(());
        }
        Ok(fs::write(path, text)?)
    }

    /// Writes a package of kernels in the directory `name`.
    fn put_kernels(&self, name: &str, library: &str) -> Result<()> {
        let dependency = |name: &str, package: &str| {
            format!(
                "{name} = {{ package = {package:?}, path = {:?} }}\n",
                workspace().join(name)
            )
        };
        let manifest = format!(
            "[package]\nname = {name:?}\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n{}\n\
             [target.'cfg(not(target_arch = \"nvptx64\"))'.dependencies]\n{}",
            dependency("device-std", "cuda-handoff-device"),
            dependency("cuda-rt", "cuda-handoff")
        );
        self.put(&format!("{name}/Cargo.toml"), manifest)?;
        self.put(&format!("{name}/src/lib.rs"), library)
    }

    fn put_workspace(&self, members: &[&str]) -> Result<()> {
        let manifest = format!(
            "[workspace]\nresolver = \"3\"\nmembers = {members:?}\n\n\
             [profile.dev]\ndebug = false\nstrip = true\nincremental = false\n\
             debug-assertions = false\noverflow-checks = false\n\n\
             [profile.dev.package.kernels]\nopt-level = 1\n[profile.dev.package.cuda-handoff-device]\nopt-level = 1\n"
        );
        self.put("Cargo.toml", manifest)?;
        let lock = self.root.join("Cargo.lock");
        if !lock.exists() {
            fs::copy(workspace().join("Cargo.lock"), lock)?;
        }
        Ok(())
    }

    fn cargo(&self, arguments: &[&str]) -> Command {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo
            .args(arguments)
            .arg("--manifest-path")
            .arg(self.root.join("Cargo.toml"));
        cargo
            .arg("--target-dir")
            .arg(self.target.join("fuzz-kernels-target"));
        cargo
    }

    fn compile(&self, package: &str) -> std::result::Result<kernel_build::Module, BuildError> {
        Kernels::new(self.root.join(package))
            .local_memory("*")
            .compile(self.target.join("ptx"))
    }

    /// Builds kernels that must be refused. Fails unless the errors of each compiler name each of
    /// them.
    pub(super) fn must_not_build(&self, kernels: &[Refused]) -> Result<()> {
        if kernels.is_empty() {
            return Ok(());
        }
        let items: String = kernels.iter().map(|kernel| kernel.source.as_str()).collect();
        let library = format!(
            "{ROOT}device_std::kernel_module!(\"../../none.ptx\");\n{}{items}",
            signatures::PRELUDE
        );
        self.put("none.ptx", "")?;
        self.put_workspace(&["refused"])?;
        self.put_kernels("refused", &library)?;

        let output = self
            .cargo(&["check", "--quiet", "--package", "refused"])
            .output()?;
        let errors = format!("\n{}", String::from_utf8_lossy(&output.stderr));
        all_refused("the host's compiler", &errors, &library, kernels, |_| true)?;
        match self.compile("refused") {
            Err(BuildError::Compile { diagnostics }) => all_refused(
                "the device's compiler",
                &diagnostics,
                &library,
                kernels,
                |kernel| kernel.on_device,
            ),
            Ok(_) if kernels.iter().all(|kernel| !kernel.on_device) => Ok(()),
            Ok(_) => Err("the device's compiler builds kernels that must not build".into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes the kernels, the binary that launches them, and the binary's data.
    pub(super) fn write(&self, seed: u64, cases: &[Case]) -> Result<()> {
        let mut data = Vec::new();
        let launches: String = cases.iter().map(|case| case.host(&mut data)).collect();
        let list: String = cases
            .iter()
            .map(|case| format!("        ({:?}, {}::<S>),\n", case.name, case.name))
            .collect();
        let of = |module: &str| -> String {
            cases
                .iter()
                .filter(|case| case.module == module)
                .map(|case| case.source.as_str())
                .collect()
        };
        let library = format!(
            "{ROOT}device_std::kernel_module!(\"../../kernels.ptx\");\npub mod programs;\npub mod signatures;\n"
        );
        self.put_kernels("kernels", &library)?;
        self.put(
            "kernels/src/programs.rs",
            emit::PRELUDE.to_owned() + &of("programs"),
        )?;
        self.put(
            "kernels/src/signatures.rs",
            signatures::PRELUDE.to_owned() + &of("signatures"),
        )?;

        self.put_workspace(&["kernels", "fuzzed"])?;
        let manifest = format!(
            "[package]\nname = \"fuzzed\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n\
             cuda-rt = {{ package = \"cuda-handoff\", path = {:?} }}\nkernels = {{ path = \"../kernels\" }}\n",
            workspace().join("cuda-rt")
        );
        self.put("fuzzed/Cargo.toml", manifest)?;
        self.put("fuzzed/data.bin", data)?;
        let main = format!(
            "{HOST}\nconst SEED: u64 = {seed};\n\nfn cases<S: StreamTag>() -> Vec<(&'static str, fn(&Stream<S>) -> Outcome)>\nwhere\n    \
             S::Device: Live,\n{{\n    vec![\n{list}    ]\n}}\n\n{launches}"
        );
        self.put("fuzzed/src/main.rs", main)
    }

    /// Builds the kernels for the GPU, as users build theirs, and assembles them with `ptxas`.
    pub(super) fn build_ptx(&self, count: usize) -> Result<String> {
        let module = self.compile("kernels")?;
        if module.entries.len() != count {
            return Err(format!("{count} kernels became {} entries", module.entries.len()).into());
        }
        println!("{count} kernels are built, by {}", module.compiler);
        ptxas::assemble_quietly(&module.ptx)?;
        self.put("kernels.ptx", &module.ptx)?;
        Ok(module.ptx)
    }

    pub(super) fn build_host(&self) -> Result<PathBuf> {
        let status = self
            .cargo(&["build", "--quiet", "--package", "fuzzed"])
            .status()?;
        if !status.success() {
            return Err("the kernels do not build for the host".into());
        }
        Ok(self.target.join("fuzz-kernels-target/debug/fuzzed"))
    }

    pub(super) fn run(&self, binary: &Path) -> Result<()> {
        if !Command::new(binary).status()?.success() {
            return Err(format!("kernels differ from the reference: see {}", self.root.display()).into());
        }
        Ok(())
    }
}

/// Checks that an error points into each `wanted` kernel.
fn all_refused(
    whose: &str,
    errors: &str,
    library: &str,
    kernels: &[Refused],
    wanted: impl Fn(&Refused) -> bool,
) -> Result<()> {
    // Only errors of constants that do not evaluate, and of traits, count. The first one may be at
    // the start of the text.
    let text = format!("\n{errors}");
    let reasons = text
        .split("\nerror")
        .filter(|error| error.starts_with("[E0080]") || error.starts_with("[E0277]"));
    let places = reasons.flat_map(|error| error.split("refused/src/lib.rs:").skip(1));
    let lines: Vec<usize> = places
        .filter_map(|place| place.split(':').next()?.parse().ok())
        .collect();
    let is_refused = |kernel: &Refused| {
        let start = library.find(&kernel.source).expect("written there");
        let first = library[..start].lines().count() + 1;
        let last = first + kernel.source.lines().count() - 1;
        lines.iter().any(|line| (first..=last).contains(line))
    };
    let missing: Vec<&str> = kernels
        .iter()
        .filter(|kernel| wanted(kernel) && !is_refused(kernel))
        .map(|kernel| kernel.source.as_str())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{whose} does not refuse\n{}\nbut says\n{errors}",
        missing.join("\n")
    )
    .into())
}

/// The constant part of the binary's source.
const HOST: &str = r##"//! Launches random kernels on the simulated device and on each GPU, and compares bytes. Names as arguments choose among them.
#![forbid(unsafe_code)]
#![allow(warnings)]

use std::error::Error;
use std::process::ExitCode;

use cuda_rt::simulator::SimConfig;
use cuda_rt::{bytemuck, Device, DeviceBuffer, Element, Grid1, Grid2, Grid3, Live, Scoped, Stream, StreamTag};

cuda_rt::streams! {
    /// The stream of all work.
    Main;
}

static DATA: &[u8] = include_bytes!("../data.bin");

type Outcome = Result<(), Box<dyn Error>>;

/// The rest of a case's data.
struct Data(&'static [u8]);

impl Data {
    fn take(&mut self, bytes: usize) -> &'static [u8] {
        let (taken, rest) = self.0.split_at(bytes);
        self.0 = rest;
        taken
    }

    fn scalar<T: Element>(&mut self) -> T {
        bytemuck::pod_read_unaligned(self.take(size_of::<T>()))
    }

    fn flag(&mut self) -> bool {
        self.take(1) == [1]
    }

    fn upload<S: StreamTag, T: Element>(&mut self, main: &Stream<S>, len: usize) -> Result<DeviceBuffer<T, S>, Box<dyn Error>>
    where
        S::Device: Live,
    {
        let values: Vec<T> = self.take(len * size_of::<T>()).chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect();
        let host = main.adopt(main.device().pinned_from(&values)?)?;
        let buffer = main.alloc_uninit::<T>(len)?;
        Ok(main.init_from_host(buffer, &host).map_err(|error| format!("{error:?}"))?)
    }
}

fn compare<S: StreamTag, T: Element>(main: &Stream<S>, name: &str, buffer: &DeviceBuffer<T, S>, expected: &[u8]) -> Outcome
where
    S::Device: Live,
{
    let mut host = main.adopt(main.device().pinned::<T>(buffer.len())?)?;
    main.copy_to_host(buffer, &mut host)?;
    let host = main.release(host)?.synchronize()?;
    let found: &[u8] = bytemuck::cast_slice(&host);
    let size = size_of::<T>();
    let differs = |at: &usize| found[at * size..][..size] != expected[at * size..][..size];
    let wrong: Vec<usize> = (0..buffer.len()).filter(differs).collect();
    match wrong.first() {
        None => Ok(()),
        Some(&first) => Err(format!(
            "{name}: {} of {} elements differ; element {first} is {:02x?} instead of {:02x?}",
            wrong.len(),
            buffer.len(),
            &found[first * size..][..size],
            &expected[first * size..][..size]
        )
        .into()),
    }
}

/// Number of cases that fail on a device.
fn run(gpu: &Device<Scoped<'_>>) -> usize {
    let main = gpu.stream::<Main<_>>().expect("a device has a stream");
    let names: Vec<String> = std::env::args().skip(1).collect();
    let chosen = cases().into_iter().filter(|(name, _)| names.is_empty() || names.iter().any(|other| other == name));
    let (mut count, mut failed) = (0, 0);
    for (name, case) in chosen {
        count += 1;
        if let Err(error) = case(&main) {
            println!("FAILED: {name} of seed {SEED}: {error}");
            failed += 1;
        }
    }
    println!("{}: {} of {count} kernels of seed {SEED} give the expected bytes", gpu.properties().name, count - failed);
    failed
}

fn main() -> ExitCode {
    let mut failed = Device::simulated(SimConfig::default(), |gpu| run(&gpu)).expect("a simulated device opens");
    let gpus = Device::for_each_gpu(|gpu| run(&gpu)).expect("GPUs open");
    if gpus.is_empty() {
        println!("SKIPPED ON CUDA: there is no GPU");
        failed += usize::from(std::env::var_os("CUDA_RT_REQUIRE_GPU").is_some());
    }
    failed += gpus.iter().sum::<usize>();
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
"##;
