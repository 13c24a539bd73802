use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;

use crate::error::BuildError;
use crate::inspect::inspect;
use crate::text::renumber_crate_hashes;
use crate::toolchain::Toolchain;

const TARGET: &str = "nvptx64-nvidia-cuda";
/// A profile of our own, so that neither the crate's settings nor the workspace's change the code.
const PROFILE: &str = "cuda-rt-kernels";
/// Entries survive only under LTO, and only with a `cdylib` that names the crates which have them.
const PROFILE_SETTINGS: [&str; 9] = [
    "inherits=\"release\"",
    "opt-level=3",
    "panic=\"abort\"",
    "lto=true",
    "codegen-units=1",
    "debug=false",
    "overflow-checks=false",
    "debug-assertions=false",
    "trim-paths=\"all\"",
];

/// A crate of kernels, and how to build it.
#[derive(Clone, Debug)]
#[must_use = "nothing is built before `build` or `compile`"]
pub struct Kernels {
    path: PathBuf,
    toolchain: String,
}

/// PTX, and what is in it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Module {
    /// The text. Its first lines say which package and compiler it comes from.
    pub ptx: String,
    /// The names of its entries.
    pub entries: Vec<String>,
    /// The compiler, as `rustc --version` prints it.
    pub compiler: String,
}

impl Kernels {
    /// The crate whose `Cargo.toml` lies in the directory `path`. In a build script, relative to the package.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            toolchain: "nightly".to_owned(),
        }
    }

    /// Builds with this toolchain of rustup's instead of `nightly`.
    pub fn toolchain(mut self, name: impl Into<String>) -> Self {
        self.toolchain = name.into();
        self
    }

    /// In a build script: writes `kernels.ptx` into `OUT_DIR`, returns its path, and asks cargo to run the script again when the
    /// crate changes. (Not when crates that it depends on do; print `cargo::rerun-if-changed` for those.)
    ///
    /// # Errors
    /// As [`compile`](Self::compile), and [`BuildError::NoOutDir`].
    pub fn build(&self) -> Result<PathBuf, BuildError> {
        let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or(BuildError::NoOutDir)?);
        for part in ["Cargo.toml", "src"] {
            println!("cargo::rerun-if-changed={}", self.path.join(part).display());
        }
        let module = self.compile(out.join("kernels-target"))?;
        let path = out.join("kernels.ptx");
        fs::write(&path, module.ptx).map_err(BuildError::io(&path))?;
        Ok(path)
    }

    /// Builds in `target_dir`, which this crate of kernels has for itself: a lock of the outer build's would never be released.
    ///
    /// # Errors
    /// What is missing ([`BuildError::NoRustup`], [`NoToolchain`](BuildError::NoToolchain), [`NoRustSrc`](BuildError::NoRustSrc),
    /// [`NotAKernelCrate`](BuildError::NotAKernelCrate)); [`Compile`](BuildError::Compile) with the compiler's words; or what is wrong with
    /// the module ([`NoEntries`](BuildError::NoEntries), [`MutableStatic`](BuildError::MutableStatic),
    /// [`NoLayoutTable`](BuildError::NoLayoutTable)).
    pub fn compile(&self, target_dir: impl AsRef<Path>) -> Result<Module, BuildError> {
        let target_dir = target_dir.as_ref();
        let manifest = self.path.join("Cargo.toml");
        let manifest = manifest
            .canonicalize()
            .map_err(|error| self.not_a_crate(error.to_string()))?;
        let toolchain = Toolchain::find(&self.toolchain)?;
        let library = self.library(&toolchain, &manifest)?;

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
            .arg(&manifest)
            .arg("--target-dir")
            .arg(target_dir);
        for setting in PROFILE_SETTINGS {
            cargo.arg("--config").arg(format!("profile.{PROFILE}.{setting}"));
        }
        cargo.args([
            "--",
            "--emit=asm,llvm-ir",
            "-Zno-link",
            "-Ctarget-cpu=sm_80",
            "-Csymbol-mangling-version=v0",
        ]);
        let output = cargo.output().map_err(BuildError::NoRustup)?;
        if !output.status.success() {
            let diagnostics = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(BuildError::Compile { diagnostics });
        }

        let built = target_dir.join(TARGET).join(PROFILE).join("deps");
        let ptx = read_newest(&built, &library.name, "s")?;
        let llvm_ir = read_newest(&built, &library.name, "ll")?;
        let ptx = renumber_crate_hashes(&ptx);
        let entries = inspect(&library.package, &ptx, &llvm_ir)?;
        let compiler = toolchain.version;
        let ptx = format!(
            "// Built from the package `{}` by {compiler}. Don't edit.\n{ptx}",
            library.package
        );
        Ok(Module {
            ptx,
            entries,
            compiler,
        })
    }

    fn library(&self, toolchain: &Toolchain, manifest: &Path) -> Result<Library, BuildError> {
        let mut cargo = toolchain.cargo();
        cargo
            .args(["metadata", "--no-deps", "--format-version=1", "--manifest-path"])
            .arg(manifest);
        let output = cargo.output().map_err(BuildError::NoRustup)?;
        if !output.status.success() {
            return Err(self.not_a_crate(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        let metadata: Value =
            serde_json::from_slice(&output.stdout).map_err(|error| self.not_a_crate(error.to_string()))?;
        Library::of(&metadata, manifest).ok_or_else(|| self.not_a_crate("it has no library".to_owned()))
    }

    fn not_a_crate(&self, reason: String) -> BuildError {
        BuildError::NotAKernelCrate {
            path: self.path.clone(),
            reason,
        }
    }
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

/// The file `name.extension` or `name-<hash>.extension`; the newest, where flags have changed the hash.
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
