use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;

use crate::error::BuildError;
use crate::inspect::inspect;
use crate::profile::{PROFILE, PROFILE_SETTINGS, WITH_LINES, WITHOUT_LINES};
use crate::shim;
use crate::statics;
use crate::text::renumber_crate_hashes;
use crate::toolchain::{TARGET, Toolchain};
use crate::verify::provable;

/// What PTX is built for unless it is said: PTX 7.0, which every driver since CUDA 11.0 compiles
/// for every GPU since.
const DEFAULT_ARCHITECTURE: &str = "sm_80";

/// Kernels, and how to build them.
#[derive(Clone, Debug)]
#[must_use = "nothing is built before `build_script`, `build` or `compile`"]
pub struct Kernels {
    pub(crate) source: Source,
    pub(crate) committed: Option<PathBuf>,
    toolchain: String,
    architectures: Vec<String>,
    pub(crate) debug_info: bool,
}

/// Where the kernels are.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// In a package of their own, whose `Cargo.toml` lies here.
    Package(PathBuf),
    /// In a module of the package that is being built.
    Module(PathBuf),
}

/// PTX, and what is in it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Module {
    /// The text: for each architecture a module, one after another, of which the runtime loads the
    /// one that fits best. The first line of each says which package and compiler it comes from.
    pub ptx: String,
    /// The names of its entries, which are the same for all architectures.
    pub entries: Vec<String>,
    /// The compiler, as `rustc --version` prints it.
    pub compiler: String,
}

impl Kernels {
    /// The package of kernels whose `Cargo.toml` lies in the directory `path`. In a build script,
    /// relative to the package that the script belongs to: `"."` in the script of the kernels' own
    /// package.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self::from_source(Source::Package(path.into()))
    }

    /// A module of the package whose build script this is, by its file: `"src/kernels.rs"`, which
    /// has no submodules in files of their own, or `"src/kernels/mod.rs"`, which may.
    ///
    /// The file is compiled once more for the GPU, as the only module of a library that depends on
    /// nothing but `device-std`, in the version that the package uses. So it refers to no other
    /// module of the package; by `crate::kernels::…` to itself. It needs no `kernel_module!`: that
    /// belongs into the package's root.
    ///
    /// That library forbids `unsafe` code. Kernels that need it are a [package](Self::new) of their
    /// own.
    pub fn module(path: impl Into<PathBuf>) -> Self {
        Self::from_source(Source::Module(path.into()))
    }

    fn from_source(source: Source) -> Self {
        Self {
            source,
            committed: None,
            toolchain: "nightly".to_owned(),
            architectures: Vec::new(),
            debug_info: false,
        }
    }

    /// Builds with this toolchain of rustup's instead of `nightly`.
    pub fn toolchain(mut self, name: impl Into<String>) -> Self {
        self.toolchain = name.into();
        self
    }

    /// Builds for this architecture, as rustc's `-Ctarget-cpu` calls it (`sm_80`, `sm_90`,
    /// `sm_90a`), instead of `sm_80`. Called again, for that one too: the runtime loads what fits
    /// the GPU best.
    ///
    /// PTX for an older architecture runs on every newer one, so a second one is worth its compile
    /// time only where the compiler uses what the newer one has.
    pub fn architecture(mut self, name: impl Into<String>) -> Self {
        let name = name.into();
        if !self.architectures.contains(&name) {
            self.architectures.push(name);
        }
        self
    }

    /// Keeps source lines (`-lineinfo` in nvcc's words), by which profilers such as Nsight Compute
    /// show a kernel's source. The code stays the same; the text then holds the paths at which the
    /// sources lie.
    pub fn debug_info(mut self, on: bool) -> Self {
        self.debug_info = on;
        self
    }

    /// Uses the PTX at `path`, relative to the package, where the toolchain is missing, and says so
    /// in a warning: users of the package then need neither nightly nor its sources.
    /// [`build`](Self::build) writes it when `CUDA_RT_UPDATE_PTX=1` is set, and never with
    /// [`debug_info`](Self::debug_info).
    ///
    /// The file notes which sources it was built from. Of other sources it is not used.
    pub fn committed(mut self, path: impl Into<PathBuf>) -> Self {
        self.committed = Some(path.into());
        self
    }

    /// What is built for, in order.
    pub(crate) fn architectures(&self) -> Vec<String> {
        if self.architectures.is_empty() {
            return vec![DEFAULT_ARCHITECTURE.to_owned()];
        }
        self.architectures.clone()
    }

    /// Looks for what the build needs.
    pub(crate) fn find_toolchain(&self) -> Result<Toolchain, BuildError> {
        Toolchain::find(&self.toolchain)
    }

    /// Builds in `target_dir`, which these kernels have for themselves: a lock of the outer build's
    /// would never be released.
    ///
    /// # Errors
    /// What is missing ([`BuildError::NoRustup`], [`NoToolchain`](BuildError::NoToolchain),
    /// [`NoRustSrc`](BuildError::NoRustSrc), [`NotAKernelCrate`](BuildError::NotAKernelCrate),
    /// [`NoDeviceStd`](BuildError::NoDeviceStd), [`Architecture`](BuildError::Architecture));
    /// [`Compile`](BuildError::Compile) with the compiler's words; or what is wrong with the module
    /// ([`NoEntries`](BuildError::NoEntries), [`OtherEntries`](BuildError::OtherEntries),
    /// [`MutableStatic`](BuildError::MutableStatic),
    /// [`InexactRemainder`](BuildError::InexactRemainder),
    /// [`NoLayoutTable`](BuildError::NoLayoutTable)).
    pub fn compile(&self, target_dir: impl AsRef<Path>) -> Result<Module, BuildError> {
        let toolchain = self.find_toolchain()?;
        self.compile_with(&toolchain, target_dir.as_ref())
    }

    pub(crate) fn compile_with(
        &self,
        toolchain: &Toolchain,
        target_dir: &Path,
    ) -> Result<Module, BuildError> {
        let (package, remap) = match &self.source {
            Source::Package(path) => (path.clone(), None),
            Source::Module(path) => {
                let shim = shim::write(toolchain, path, &target_dir.join("shim"))?;
                (shim.package, Some(shim.remap))
            }
        };
        let manifest = package.join("Cargo.toml");
        let manifest = manifest
            .canonicalize()
            .map_err(|error| BuildError::not_a_crate(&package, error.to_string()))?;
        let library = library(toolchain, &package, &manifest)?;

        let architectures = self.architectures();
        // Cargo takes a build for fresh by what it knows of the compiler and the profile, while the
        // text of a `cdylib` lies in one place for all of them: so they have a directory each.
        // Between architectures it builds anew.
        let lines = if self.debug_info { "-lines" } else { "" };
        let target_dir = target_dir.join(toolchain.slug() + lines);
        let mut module = Module {
            ptx: String::new(),
            entries: Vec::new(),
            compiler: toolchain.version.clone(),
        };
        for architecture in &architectures {
            toolchain.check_architecture(architecture)?;
            let (ptx, entries) = self.compile_for(
                architecture,
                toolchain,
                &manifest,
                &library,
                remap.as_deref(),
                &target_dir,
            )?;
            if !module.ptx.is_empty() && entries != module.entries {
                return Err(BuildError::OtherEntries {
                    architecture: architecture.clone(),
                    entries,
                });
            }
            module.ptx.push_str(&ptx);
            module.entries = entries;
        }
        Ok(module)
    }

    /// The text for one architecture, and its entries.
    fn compile_for(
        &self,
        architecture: &str,
        toolchain: &Toolchain,
        manifest: &Path,
        library: &Library,
        remap: Option<&str>,
        target_dir: &Path,
    ) -> Result<(String, Vec<String>), BuildError> {
        let mut cargo = toolchain.cargo();
        cargo.args([
            "rustc",
            "--lib",
            "--crate-type=cdylib",
            "--target",
            TARGET,
            "--profile",
            PROFILE,
        ]);
        cargo.args(["-Zbuild-std=core", "-Ztrim-paths", "--color=never"]);
        cargo
            .arg("--manifest-path")
            .arg(manifest)
            .arg("--target-dir")
            .arg(target_dir);
        let lines = if self.debug_info {
            WITH_LINES
        } else {
            WITHOUT_LINES
        };
        for setting in PROFILE_SETTINGS.iter().chain(&lines) {
            cargo.arg("--config").arg(format!("profile.{PROFILE}.{setting}"));
        }
        // Instead of `build.rustflags` in the user's configuration, which `statics` would not see.
        cargo.arg("--config").arg(format!(
            "target.{TARGET}.rustflags=[\"-Csymbol-mangling-version=v0\"]"
        ));
        cargo.args(["--", "--emit=asm,llvm-ir", "-Zno-link"]);
        cargo.arg(format!("-Ctarget-cpu={architecture}"));
        if let Some(remap) = remap.filter(|_| !self.debug_info) {
            cargo.arg(format!("--remap-path-prefix={remap}"));
        }
        let output = cargo.output().map_err(BuildError::NoRustup)?;
        if !output.status.success() {
            let diagnostics = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(BuildError::Compile { diagnostics });
        }

        statics::refuse(toolchain, architecture, manifest, target_dir)?;

        let built = target_dir.join(TARGET).join(PROFILE).join("deps");
        let ptx = read_newest(&built, &library.name, "s")?;
        let llvm_ir = read_newest(&built, &library.name, "ll")?;
        let ptx = provable(renumber_crate_hashes(&ptx))?;
        let entries = inspect(&library.package, &ptx, &llvm_ir)?;
        let (package, compiler) = (&library.package, &toolchain.version);
        let ptx = format!("// Built from the package `{package}` by {compiler}. Don't edit.\n{ptx}");
        Ok((ptx, entries))
    }
}

fn library(toolchain: &Toolchain, package: &Path, manifest: &Path) -> Result<Library, BuildError> {
    let mut cargo = toolchain.cargo();
    cargo
        .args(["metadata", "--no-deps", "--format-version=1", "--manifest-path"])
        .arg(manifest);
    let output = cargo.output().map_err(BuildError::NoRustup)?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(BuildError::not_a_crate(package, reason));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| BuildError::not_a_crate(package, error.to_string()))?;
    Library::of(&metadata, manifest)
        .ok_or_else(|| BuildError::not_a_crate(package, "it has no library".to_owned()))
}

struct Library {
    package: String,
    /// With underscores, as its files are called.
    name: String,
}

impl Library {
    fn of(metadata: &Value, manifest: &Path) -> Option<Self> {
        let packages = metadata["packages"].as_array()?;
        let package = packages
            .iter()
            .find(|p| p["manifest_path"].as_str().map(Path::new) == Some(manifest))?;
        let library = package["targets"].as_array()?.iter().find(|target| {
            let kinds = target["kind"].as_array();
            kinds.is_some_and(|kinds| {
                kinds
                    .iter()
                    .any(|kind| kind == "lib" || kind == "rlib" || kind == "cdylib")
            })
        })?;
        Some(Self {
            package: package["name"].as_str()?.to_owned(),
            name: library["name"].as_str()?.replace('-', "_"),
        })
    }
}

/// The file `name.extension` or `name-<hash>.extension`; the newest, where flags have changed the
/// hash.
fn read_newest(directory: &Path, name: &str, extension: &str) -> Result<String, BuildError> {
    let is_ours = |path: &Path| {
        let stem = path.file_stem().and_then(OsStr::to_str).unwrap_or("");
        let rest = stem.strip_prefix(name);
        path.extension() == Some(OsStr::new(extension))
            && rest.is_some_and(|r| r.is_empty() || r.starts_with('-'))
    };
    let newest = fs::read_dir(directory)
        .map_err(BuildError::io(directory))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| is_ours(path))
        .max_by_key(|path| {
            path.metadata()
                .and_then(|m| m.modified())
                .unwrap_or(SystemTime::UNIX_EPOCH)
        });
    let path = newest.unwrap_or_else(|| directory.join(name).with_extension(extension));
    fs::read_to_string(&path).map_err(BuildError::io(&path))
}
