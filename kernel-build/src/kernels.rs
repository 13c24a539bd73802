use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::compilation::Compilation;
use crate::compiled;
use crate::error::BuildError;
use crate::features::{self, SEARCH_EXTENSION};
use crate::inspect::inspect;
use crate::local_memory;
use crate::shared_memory;
use crate::shim;
use crate::statics;
use crate::text::{plain_file_names, renumber_crate_hashes};
use crate::toolchain::Toolchain;
use crate::type_sizes;
use crate::verify::provable;

/// The architecture of PTX without [`Kernels::architecture`]. Its PTX has version 7.0, which every
/// driver since CUDA 11.0 compiles for sm_80 and newer GPUs.
const DEFAULT_ARCHITECTURE: &str = "sm_80";

/// A set of kernels, and the options of their build.
///
/// ```no_run
/// // Builds a package of kernels outside a build script.
/// # fn main() -> Result<(), kernel_build::BuildError> {
/// let module = kernel_build::Kernels::new("device-kernels")
///     .architecture("sm_90")
///     .compile("target/kernels")?;
/// println!("{:?}", module.entries);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "only `build_script`, `build` and `compile` build the kernels"]
pub struct Kernels {
    pub(crate) source: Source,
    pub(crate) committed: Option<PathBuf>,
    toolchain: String,
    architectures: Vec<String>,
    pub(crate) debug_info: bool,
    local_memory: Vec<String>,
}

/// The place of the kernels' sources.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// A package of their own. The path is the directory of its `Cargo.toml`.
    Package(PathBuf),
    /// A module of the package that is being built. The path is the module's file.
    Module(PathBuf),
}

/// Built PTX, with its entries and its compiler.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Module {
    /// The text: a module for each architecture, one after another. The runtime loads the module
    /// that fits the GPU best. The first line of each module names its package and compiler.
    pub ptx: String,
    /// The names of the entries. All architectures have the same entries.
    pub entries: Vec<String>,
    /// The compiler, as `rustc --version` prints it.
    pub compiler: String,
    /// What a user of the kernels should know, though nothing is refused: kernels that declare more
    /// shared memory than GPUs of an architecture have. A build script prints these lines as
    /// warnings.
    pub warnings: Vec<String>,
    /// The source files of the kernels' own crate, which the compiler read.
    pub(crate) files: Vec<PathBuf>,
}

impl Kernels {
    /// Kernels in a package of their own, whose `Cargo.toml` lies in the directory `path`. In a
    /// build script, `path` is relative to the script's package: `"."` in the script of the
    /// kernels' own package.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self::from_source(Source::Package(path.into()))
    }

    /// Kernels in a module of the build script's package. `path` is the module's file:
    /// `"src/kernels.rs"` or `"src/kernels/mod.rs"`. Submodules in files of their own lie in
    /// `src/kernels`.
    ///
    /// For the GPU, the file is compiled again, as the only module of a library that depends on
    /// `device-std` alone, in the package's version. So the module cannot refer to other modules of
    /// the package. It refers to itself by `crate::kernels::…`. `kernel_module!` stands in the
    /// package's root, not in this file.
    ///
    /// The package declares the module by its name, `mod kernels;`, and not by a `#[path]`. Then
    /// its submodules are the same files for the host and for the GPU.
    ///
    /// The library forbids `unsafe` code. Kernels that need `unsafe` code go into a
    /// [package](Self::new) of their own.
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
            local_memory: Vec::new(),
        }
    }

    /// Builds with this toolchain of rustup, instead of `nightly`.
    pub fn toolchain(mut self, name: impl Into<String>) -> Self {
        self.toolchain = name.into();
        self
    }

    /// Builds for this architecture, instead of `sm_80`. `name` is a value of rustc's
    /// `-Ctarget-cpu`: `sm_80`, `sm_90`, `sm_90a`. Each further call adds an architecture; the
    /// runtime loads the module that fits the GPU best.
    ///
    /// PTX for an older architecture runs on every newer GPU. A second architecture is worth its
    /// compile time only if the compiler uses instructions that only the newer one has.
    pub fn architecture(mut self, name: impl Into<String>) -> Self {
        let name = name.into();
        if !self.architectures.contains(&name) {
            self.architectures.push(name);
        }
        self
    }

    /// Keeps source lines, as `nvcc -lineinfo` does. Profilers, for example Nsight Compute, then
    /// show a kernel's source. The code stays the same. The text then holds the paths of the
    /// sources.
    pub fn debug_info(mut self, on: bool) -> Self {
        self.debug_info = on;
        self
    }

    /// Lets a kernel keep arrays in local memory. `kernel` is the name of its function, or `"*"`
    /// for every kernel. A name of no kernel is refused ([`BuildError::NoSuchKernel`]).
    ///
    /// A thread's array lies in local memory, which is part of device memory, if the compiler does
    /// not know each index into it. This is often a mistake that makes a kernel many times slower.
    /// So the build refuses it ([`BuildError::LocalMemory`]). `device_std::unroll!` is the usual
    /// mend. Some kernels need such memory: for the stack of a traversal, or for
    /// `accurate::sin`. Arrays of up to 24 bytes, the memory of functions that are called, and the
    /// memory of kernels that print need not be asked for. No kernel gets more than CUDA allows for
    /// a thread, 512 KiB with the functions that it calls ([`BuildError::TooLarge`]).
    ///
    /// ```no_run
    /// # fn main() -> std::process::ExitCode {
    /// kernel_build::Kernels::new(".")
    ///     .local_memory("walk_tree")
    ///     .build_script()
    /// # }
    /// ```
    pub fn local_memory(mut self, kernel: impl Into<String>) -> Self {
        self.local_memory.push(kernel.into());
        self
    }

    /// Uses the PTX file at `path` if the toolchain is missing, and prints a warning that says
    /// this. `path` is relative to the package. Users of the package then need neither nightly nor
    /// its sources. [`build`](Self::build) writes the file if `CUDA_RT_UPDATE_PTX=1` is set, but
    /// never with [`debug_info`](Self::debug_info).
    ///
    /// The file holds a hash of its sources. It is never used for other sources. The hash covers
    /// the `Cargo.toml` and `src` of a package, or the file and the directory of a module. A build
    /// with the toolchain refuses kernels that include any other file
    /// ([`UncoveredSource`](BuildError::UncoveredSource)).
    pub fn committed(mut self, path: impl Into<PathBuf>) -> Self {
        self.committed = Some(path.into());
        self
    }

    /// The architectures to build for, in order.
    pub(crate) fn architectures(&self) -> Vec<String> {
        if self.architectures.is_empty() {
            return vec![DEFAULT_ARCHITECTURE.to_owned()];
        }
        self.architectures.clone()
    }

    /// Finds the toolchain of the build.
    pub(crate) fn find_toolchain(&self) -> Result<Toolchain, BuildError> {
        Toolchain::find(&self.toolchain)
    }

    /// Builds the kernels in `target_dir`, and waits for the compiler. No other build may use
    /// `target_dir`: the outer build would hold its lock until this build ends.
    ///
    /// # Errors
    /// - Something that the build needs is missing: [`BuildError::NoRustup`],
    ///   [`NoToolchain`](BuildError::NoToolchain), [`NoRustSrc`](BuildError::NoRustSrc),
    ///   [`NotAKernelCrate`](BuildError::NotAKernelCrate),
    ///   [`NoDeviceStd`](BuildError::NoDeviceStd), [`Architecture`](BuildError::Architecture).
    /// - The kernels do not compile: [`Compile`](BuildError::Compile), with the compiler's text.
    /// - The module is refused: [`NoEntries`](BuildError::NoEntries),
    ///   [`OtherEntries`](BuildError::OtherEntries), [`MutableStatic`](BuildError::MutableStatic),
    ///   [`UnstableFeature`](BuildError::UnstableFeature),
    ///   [`HiddenUnsafe`](BuildError::HiddenUnsafe), [`Assembly`](BuildError::Assembly),
    ///   [`SymbolTwice`](BuildError::SymbolTwice), [`NoBuiltins`](BuildError::NoBuiltins),
    ///   [`ProfileFlags`](BuildError::ProfileFlags),
    ///   [`ProfileSetting`](BuildError::ProfileSetting),
    ///   [`FlagsUnknown`](BuildError::FlagsUnknown),
    ///   [`InexactRemainder`](BuildError::InexactRemainder),
    ///   [`MaskedVector`](BuildError::MaskedVector),
    ///   [`WideRounding`](BuildError::WideRounding),
    ///   [`LocalMemory`](BuildError::LocalMemory), [`TooLarge`](BuildError::TooLarge),
    ///   [`NoSuchKernel`](BuildError::NoSuchKernel),
    ///   [`Unsearched`](BuildError::Unsearched),
    ///   [`NoLayoutTable`](BuildError::NoLayoutTable),
    ///   [`OtherVersion`](BuildError::OtherVersion),
    ///   [`Refused`](BuildError::Refused).
    /// - A file cannot be read or written: [`Io`](BuildError::Io).
    pub fn compile(&self, target_dir: impl AsRef<Path>) -> Result<Module, BuildError> {
        let toolchain = self.find_toolchain()?;
        self.compile_with(&toolchain, target_dir.as_ref())
    }

    pub(crate) fn compile_with(
        &self,
        toolchain: &Toolchain,
        target_dir: &Path,
    ) -> Result<Module, BuildError> {
        // Cargo prints absolute paths, and `statics` compares them with this one.
        let target_dir = &std::path::absolute(target_dir).map_err(BuildError::io(target_dir))?;
        let shim_dir = target_dir.join("shim");
        let (package, remap) = match &self.source {
            Source::Package(path) => (path.clone(), None),
            Source::Module(path) => {
                let shim = shim::write(toolchain, path, &shim_dir)?;
                (shim.package, Some(shim.remap))
            }
        };
        let manifest = package.join("Cargo.toml");
        let manifest = manifest
            .canonicalize()
            .map_err(|error| BuildError::not_a_crate(&package, error.to_string()))?;
        let library = library(toolchain, &package, &manifest)?;

        let architectures = self.architectures();
        // Cargo decides by compiler, profile and flags whether a build is fresh, but it puts the
        // text of a `cdylib` into one place for all of them. Therefore each compiler, profile and
        // architecture has a directory of its own.
        let lines = if self.debug_info { "-lines" } else { "" };
        let target_dir = target_dir.join(toolchain.slug() + lines);
        let mut module = Module {
            ptx: String::new(),
            entries: Vec::new(),
            compiler: toolchain.version.clone(),
            warnings: Vec::new(),
            files: Vec::new(),
        };
        let wrapper = features::wrapper(toolchain, &target_dir)?;
        for architecture in &architectures {
            toolchain.check_architecture(architecture)?;
            let compilation = Compilation {
                toolchain,
                wrapper: &wrapper,
                architecture,
                manifest: &manifest,
                remap: remap.as_deref().filter(|_| !self.debug_info),
                lines: self.debug_info,
                target_dir: &target_dir.join(architecture),
            };
            let (ptx, entries, files) = compile_for(&compilation, &library)?;
            local_memory::refuse(&ptx, &self.local_memory)?;
            module
                .warnings
                .extend(shared_memory::warnings(&ptx, architecture)?);
            if !module.ptx.is_empty() && entries != module.entries {
                return Err(BuildError::OtherEntries {
                    architecture: architecture.clone(),
                    entries,
                });
            }
            module.ptx.push_str(&ptx);
            module.entries = entries;
            module.files.extend(files);
        }
        module.files.sort();
        module.files.dedup();
        if let (Source::Module(_), Ok(shim)) = (&self.source, shim_dir.canonicalize()) {
            module.files.retain(|file| !file.starts_with(&shim));
        }
        Ok(module)
    }
}

/// Builds the text for one architecture. Returns the text, its entries and its source files.
fn compile_for(
    compilation: &Compilation<'_>,
    library: &Library,
) -> Result<(String, Vec<String>, Vec<PathBuf>), BuildError> {
    let built = compilation.directory().join("deps");
    let file = |extension| built.join(&library.name).with_extension(extension);
    // The text of an earlier build must never pass for the text of this one.
    let own_module = file(SEARCH_EXTENSION);
    for path in [file("s"), file("ll"), file("d"), own_module.clone()] {
        if path.exists() {
            fs::remove_file(&path).map_err(BuildError::io(&path))?;
        }
    }
    features::refuse_flags(&compilation.unit_graph()?, &library.name, compilation.lines)?;
    let (messages, compiled) = compilation.run()?;
    // If rustc has compiled all crates for the search, but not the kernels, then the search has the
    // better error: of a symbol that two crates define, it names both crates.
    let is_for_search = matches!(compiled, Err(BuildError::Compile { .. })) && own_module.is_file();
    if compiled.is_ok() || is_for_search {
        statics::refuse(compilation, &messages, (&library.name, own_module))?;
    }
    compiled?;

    let read = |path: PathBuf| fs::read_to_string(&path).map_err(BuildError::io(&path));
    let (ptx, llvm_ir) = (read(file("s"))?, read(file("ll"))?);
    type_sizes::refuse(&llvm_ir)?;
    let ptx = provable(renumber_crate_hashes(&plain_file_names(&ptx))?)?;
    let entries = inspect(&library.package, &ptx, &llvm_ir)?;
    let (package, compiler) = (&library.package, &compilation.toolchain.version);
    let ptx = format!("// Built from the package `{package}` by {compiler}. Don't edit.\n{ptx}");
    let files = compiled::files(&file("d"), &library.workspace)?;
    Ok((ptx, entries, files))
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
        .ok_or_else(|| BuildError::not_a_crate(package, "the package has no library".to_owned()))
}

struct Library {
    package: String,
    /// The library's name with underscores, as in the names of its files.
    name: String,
    /// The directory in which cargo runs the compiler.
    workspace: PathBuf,
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
            workspace: PathBuf::from(metadata["workspace_root"].as_str()?),
        })
    }
}
