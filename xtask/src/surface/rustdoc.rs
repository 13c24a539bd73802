//! Rustdoc's data of each crate: the JSON that nightly's rustdoc writes.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustdoc_types::{Crate, FORMAT_VERSION};
use serde::Deserialize;

const TOOLCHAIN: &str = "nightly";

/// A crate, built with one set of features for one target.
pub(super) struct Source {
    /// The name of its list.
    pub(super) list: &'static str,
    package: &'static str,
    library: &'static str,
    features: &'static str,
    target: Option<&'static str>,
    /// Another list, whose entries this crate's list leaves out.
    pub(super) adds_to: Option<&'static str>,
}

const DEVICE: &str = "nvptx64-nvidia-cuda";

/// The published crates. The feature `nvtx` is left out: it adds no callable item, and needs
/// libclang.
pub(super) const SOURCES: [Source; 16] = [
    Source::new(
        "runtime",
        "cuda-handoff-runtime",
        "cuda_rt_runtime",
        "cupti,nccl,half,rustacuda,cust,tracing",
    ),
    Source::new(
        "cuda-rt",
        "cuda-handoff",
        "cuda_rt",
        "cupti,nccl,half,rustacuda,cust,tracing",
    ),
    Source::new("driver", "cuda-handoff-driver", "cuda_rt_driver", ""),
    Source::new(
        "driver-cuda",
        "cuda-handoff-driver-cuda",
        "cuda_rt_driver_cuda",
        "cupti,nccl,cust",
    ),
    Source::new("checker", "cuda-handoff-checker", "cuda_rt_checker", ""),
    Source::new("simulator", "cuda-handoff-simulator", "cuda_rt_simulator", ""),
    Source::new("timeline", "cuda-handoff-timeline", "cuda_rt_timeline", ""),
    Source::new("cublas", "cuda-handoff-cublas", "cuda_rt_cublas", "half"),
    Source::new("cufft", "cuda-handoff-cufft", "cuda_rt_cufft", ""),
    // Built as without Python.
    Source::new(
        "python",
        "cuda-handoff-python",
        "cuda_rt_python",
        "pyo3/abi3-py39",
    ),
    Source::new("pipeline", "cuda-handoff-pipeline", "cuda_rt_pipeline", ""),
    Source::new(
        "device-std",
        "cuda-handoff-device",
        "device_std",
        "half,num-complex,rustacuda",
    ),
    Source {
        list: "device-std-on-the-device",
        package: "cuda-handoff-device",
        library: "device_std",
        features: "half,rustacuda",
        target: Some(DEVICE),
        adds_to: Some("device-std"),
    },
    Source::new("kernel-build", "cuda-handoff-build", "kernel_build", ""),
    Source::new("cuda-rt-macros", "cuda-handoff-macros", "cuda_rt_macros", ""),
    Source::new("device-kernels", "cuda-handoff-kernels", "device_kernels", ""),
];

impl Source {
    const fn new(
        list: &'static str,
        package: &'static str,
        library: &'static str,
        features: &'static str,
    ) -> Self {
        Self {
            list,
            package,
            library,
            features,
            target: None,
            adds_to: None,
        }
    }

    /// Runs rustdoc on the crate, and reads the result. It includes private items: an item without
    /// a name outside may still be reached.
    pub(super) fn read(&self, root: &Path) -> Result<Crate, Box<dyn Error>> {
        let target = target_directory(root);
        let mut command = rustup("cargo");
        command
            .current_dir(root)
            .args([
                "rustdoc",
                "--quiet",
                "--locked",
                "--lib",
                "--package",
                self.package,
            ])
            .args(["--features", self.features, "--target-dir"])
            .arg(&target);
        if let Some(triple) = self.target {
            command.args(["--target", triple, "-Zbuild-std=core"]);
        }
        if self.features.contains("cust") {
            command.env("CUDA_LIBRARY_PATH", stub_libcuda(root, &target)?);
        }
        command.args([
            "--",
            "-Zunstable-options",
            "--output-format=json",
            "--cap-lints=allow",
        ]);
        command.args(["--document-hidden-items", "--document-private-items"]);
        let status = command.status()?;
        if !status.success() {
            return Err(format!("{}: rustdoc failed ({status})", self.list).into());
        }
        let folder = self.target.map_or(target.clone(), |triple| target.join(triple));
        let file = folder.join("doc").join(self.library).with_extension("json");
        parse(&fs::read_to_string(&file)?).map_err(|error| format!("{}: {error}", file.display()).into())
    }
}

/// Reads the JSON, if it has the format version of `rustdoc-types`.
fn parse(json: &str) -> Result<Crate, Box<dyn Error>> {
    #[derive(Deserialize)]
    struct Version {
        format_version: u32,
    }
    let Version { format_version } = serde_json::from_str(json)?;
    if format_version != FORMAT_VERSION {
        return Err(format!(
            "this nightly writes format {format_version}, and `rustdoc-types` reads {FORMAT_VERSION}: take its version 0.{format_version} \
             in Cargo.toml, and write the lists anew"
        )
        .into());
    }
    Ok(serde_json::from_str(json)?)
}

/// The command that installs a missing tool, if the lists cannot be made without it.
pub(super) fn missing() -> Option<String> {
    let output = |argument: &[&str]| {
        let output = rustup("rustc")
            .args(argument)
            .stderr(Stdio::null())
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success().then_some(text)
    };
    let Some(sysroot) = output(&["--print", "sysroot"]) else {
        return Some(format!("`rustup toolchain install {TOOLCHAIN}`"));
    };
    let core = Path::new(&sysroot).join("lib/rustlib/src/rust/library/core/src/lib.rs");
    (!core.is_file()).then(|| format!("`rustup component add rust-src --toolchain {TOOLCHAIN}`"))
}

/// A command of nightly, without the environment of the build that runs this task. It goes through
/// `rustup run`, because a toolchain's own cargo does not know `+nightly`.
fn rustup(program: &str) -> Command {
    let mut command = Command::new("rustup");
    for name in [
        "CARGO",
        "RUSTC",
        "RUSTDOC",
        "RUSTFLAGS",
        "RUSTDOCFLAGS",
        "RUSTUP_TOOLCHAIN",
        "RUSTC_WRAPPER",
        "CARGO_TARGET_DIR",
    ] {
        command.env_remove(name);
    }
    command.args(["run", TOOLCHAIN, program]);
    command
}

fn target_directory(root: &Path) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    target.join("surface")
}

/// A stub of libcuda, to build the feature `cust`. No code calls it.
fn stub_libcuda(root: &Path, target: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let stub = target.join("stub-libcuda");
    let status = Command::new(root.join(".ci/stub-libcuda"))
        .arg(&stub)
        .stdout(Stdio::null())
        .status()?;
    match status.success() {
        true => Ok(stub),
        false => Err(format!(".ci/stub-libcuda failed ({status})").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::{FORMAT_VERSION, parse};

    #[test]
    fn another_format_is_refused_with_a_message() {
        let other = FORMAT_VERSION + 1;
        let error = parse(&format!(r#"{{"format_version": {other}, "root": []}}"#)).unwrap_err();
        assert!(
            error.to_string().contains(&format!("version 0.{other}")),
            "{error}"
        );
    }
}
