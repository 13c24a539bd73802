//! The neighbours of cuda-rt, and the programs that are generated for them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A crate beside cuda-rt, or one way to use it.
pub(super) struct Neighbour {
    pub(super) name: &'static str,
    /// Description of the check, which is printed afterwards.
    pub(super) about: &'static str,
    /// What the dependency on cuda-rt says beside its path.
    ours: &'static str,
    /// The most packages that the program may build, without the program itself.
    pub(super) most_packages: usize,
    /// Lines of `[dependencies]`, in addition to cuda-rt.
    dependencies: &'static str,
    source: Source,
    /// Arguments of `cargo check`.
    pub(super) check: &'static [&'static str],
    pub(super) environment: &'static [(&'static str, &'static str)],
    /// Whether a build script runs `nvcc`. The program then gets a stub of it.
    pub(super) asks_nvcc: bool,
    /// Whether a build script reads the headers of CUDA 13, cuRAND's too. The variable
    /// `CUDA_TOOLKIT_PATH` names their toolkit.
    pub(super) reads_headers: bool,
    /// Packages whose versions are printed.
    pub(super) shows: &'static [&'static str],
}

/// The program's source.
enum Source {
    /// The given text.
    Text(&'static str),
    /// A file of the repository.
    File(&'static str),
    /// The declarations of `driver-cuda/src/ffi`, without cuda-rt, compared with the bindings in
    /// the dependencies.
    Declarations {
        /// The major version of CUDA. The headers of CUDA 12 and 13 have later versions of some
        /// entry points.
        of_cuda: u32,
    },
}

const PLAIN: Neighbour = Neighbour {
    name: "",
    about: "",
    ours: "",
    most_packages: usize::MAX,
    dependencies: "",
    source: Source::Text("pub use cuda_rt::Device;\n"),
    check: &[],
    environment: &[],
    asks_nvcc: false,
    reads_headers: false,
    shows: &["cudarc"],
};

pub(super) const NEIGHBOURS: &[Neighbour] = &[
    Neighbour {
        name: "alone",
        about: "cuda-rt by itself, with the environment variable that chooses cudarc's bindings",
        most_packages: 21,
        environment: &[("CUDARC_CUDA_VERSION", "13000")],
        ..PLAIN
    },
    Neighbour {
        name: "least",
        about: "the least of cuda-rt that drives a GPU",
        ours: ", default-features = false, features = [\"cuda\"]",
        most_packages: 11,
        ..PLAIN
    },
    Neighbour {
        name: "cudarc-13",
        about: "with cudarc's bindings of CUDA 13.0, loaded at run time",
        dependencies: r#"cudarc = { version = "*", default-features = false, features = ["std", "driver", "dynamic-loading", "cuda-13000"] }"#,
        source: Source::Text("pub fn both(_: cuda_rt::Error, _: cudarc::driver::sys::CUstream) {}\n"),
        ..PLAIN
    },
    Neighbour {
        name: "cudarc-linked",
        about: "with cudarc's bindings of CUDA 12.8, linked",
        dependencies: r#"cudarc = { version = "*", default-features = false, features = ["std", "driver", "dynamic-linking", "cuda-12080"] }"#,
        source: Source::Text("pub fn both(_: cuda_rt::Error, _: cudarc::driver::sys::CUstream) {}\n"),
        ..PLAIN
    },
    Neighbour {
        name: "cudarc-of-the-system",
        about: "with cudarc's bindings of the CUDA that the environment names",
        dependencies: r#"cudarc = { version = "*", default-features = false, features = ["std", "driver", "fallback-dynamic-loading", "cuda-version-from-build-system"] }"#,
        source: Source::Text("pub fn both(_: cuda_rt::Error, _: cudarc::driver::sys::CUstream) {}\n"),
        environment: &[("CUDARC_CUDA_VERSION", "13000")],
        ..PLAIN
    },
    Neighbour {
        name: "candle",
        about: "with candle-core and its feature `cuda`, all of it checked, its kernels by a stub of nvcc",
        dependencies: r#"candle-core = { version = "*", features = ["cuda"] }"#,
        source: Source::Text("pub fn both(_: cuda_rt::Error, _: candle_core::CudaDevice) {}\n"),
        asks_nvcc: true,
        shows: &["candle-core", "candle-kernels", "cudarc"],
        ..PLAIN
    },
    Neighbour {
        name: "cubecl",
        about: "with cubecl-cuda, all of it checked but its LLVM, which its build would download",
        dependencies: r#"cubecl-cuda = "*""#,
        // As on docs.rs: a check links nothing, and the download is from no registry.
        environment: &[("DOCS_RS", "1")],
        source: Source::Text("pub fn both(_: cuda_rt::Error, _: cubecl_cuda::CudaCompiler) {}\n"),
        asks_nvcc: true,
        shows: &["cubecl-cuda", "cudarc"],
        ..PLAIN
    },
    Neighbour {
        name: "cuda-core",
        about: "with NVIDIA's cuda-core, and the book's program for it",
        // The version that the book compares.
        dependencies: r#"cuda-core = "0.5""#,
        source: Source::File("docs/book/programs/cuda_core.rs"),
        reads_headers: true,
        shows: &["cuda-core"],
        ..PLAIN
    },
    Neighbour {
        name: "headers-of-cuda-11",
        about: "the declarations of the driver API equal CUDA 11.4's header",
        dependencies: r#"cudarc = { version = "*", default-features = false, features = ["std", "driver", "dynamic-loading", "cuda-11040"] }"#,
        source: Source::Declarations { of_cuda: 11 },
        check: &["--profile", "test"],
        ..PLAIN
    },
    Neighbour {
        name: "headers-of-cuda-13",
        about: "the declarations of the driver API equal CUDA 13.0's header",
        dependencies: r#"cudarc = { version = "*", default-features = false, features = ["std", "driver", "dynamic-loading", "cuda-13000"] }"#,
        source: Source::Declarations { of_cuda: 13 },
        check: &["--profile", "test"],
        ..PLAIN
    },
];

impl Neighbour {
    pub(super) fn manifest(&self, root: &Path) -> String {
        let ours = match self.source {
            Source::Text(_) | Source::File(_) => format!(
                "cuda-rt = {{ package = \"cuda-handoff\", path = '{}'{} }}\n",
                root.join("cuda-rt").display(),
                self.ours
            ),
            Source::Declarations { .. } => String::new(),
        };
        format!(
            "[package]\nname = \"{}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[features]\ncupti = []\nnccl = []\n\n\
             [dependencies]\n{ours}{}\n\n[workspace]\n",
            self.name, self.dependencies
        )
    }

    pub(super) fn source(&self, root: &Path) -> String {
        match self.source {
            Source::Text(text) => text.to_owned(),
            Source::File(file) => {
                let file = root.join(file);
                format!("pub use cuda_rt::Device;\n#[path = {file:?}]\npub mod program;\n")
            }
            Source::Declarations { .. } => {
                let file = root.join("driver-cuda/src/ffi/mod.rs");
                format!("#![allow(unused, unexpected_cfgs)]\n#[path = {file:?}]\nmod ffi;\n")
            }
        }
    }

    pub(super) fn build_script(&self) -> String {
        let told = match self.source {
            Source::Text(_) | Source::File(_) => String::new(),
            Source::Declarations { of_cuda } => {
                format!("    println!(\"cargo::rustc-cfg=bindings_of_cuda_{of_cuda}\");\n")
            }
        };
        format!("fn main() {{\n{told}}}\n")
    }
}

/// A stub for nvcc 12.8. It prints nvcc's version, and makes each requested file, without content.
/// Checked programs are never run.
const NVCC: &str = r#"#!/bin/sh
case "$*" in *--version*)
    printf 'nvcc\n\n\nCuda compilation tools, release 12.8, V12.8.93\n'
    exit 0 ;;
esac
while [ $# -gt 0 ]; do
    case "$1" in
        -o|--output-file) : >"$2"; shift ;;
        -odir|--output-directory) folder=$2; shift ;;
        *.cu) sources="$sources $1" ;;
    esac
    shift
done
if [ -n "$folder" ]; then
    for source in $sources; do : >"$folder/$(basename "$source" .cu).ptx"; done
fi
"#;

/// Makes a CUDA toolkit with just the files that build scripts look for.
pub(super) fn stub_toolkit(folder: &Path) -> io::Result<PathBuf> {
    let toolkit = folder.join("stub-toolkit");
    for folder in ["bin", "include", "lib64"] {
        fs::create_dir_all(toolkit.join(folder))?;
    }
    fs::write(toolkit.join("include/cuda.h"), "")?;
    let nvcc = toolkit.join("bin/nvcc");
    fs::write(&nvcc, NVCC)?;
    #[cfg(unix)]
    fs::set_permissions(&nvcc, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    Ok(toolkit)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_neighbour_has_its_own_name() {
        let names: BTreeSet<&str> = NEIGHBOURS.iter().map(|neighbour| neighbour.name).collect();
        assert_eq!(names.len(), NEIGHBOURS.len());
        assert!(names.contains("alone"));
    }

    #[test]
    fn the_stub_says_its_version_where_build_scripts_look_for_it() {
        let said = NVCC
            .split("printf '")
            .nth(1)
            .and_then(|rest| rest.split('\'').next());
        let line = said.and_then(|said| said.split("\\n").nth(3));
        assert_eq!(line, Some("Cuda compilation tools, release 12.8, V12.8.93"));
    }
}
