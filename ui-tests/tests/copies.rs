//! A program with two copies of cuda-rt is refused by cargo, before it compiles anything.
//!
//! Cargo lets two versions of a package into one program, and two packages of one version from two
//! sources. Each copy has its own statics. The key `links` in `driver/Cargo.toml` forbids this for
//! the driver, and all packages with such statics depend on the driver of exactly their version.
#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a program that depends on `cuda-handoff` builds of this workspace.
const PACKAGES: [&str; 10] = [
    "cuda-rt",
    "runtime",
    "driver",
    "driver-cuda",
    "checker",
    "simulator",
    "timeline",
    "pipeline",
    "macros",
    "device-std",
];

const LINKS: &str = "links = \"cuda-handoff\"\n";

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Writes the manifests of another copy of the workspace, whose packages have this version.
fn copy(to: &Path, version: &str) {
    let manifest = fs::read_to_string(workspace().join("Cargo.toml")).unwrap();
    let (before, rest) = manifest.split_once("members = [").unwrap();
    let (_, after) = rest.split_once(']').unwrap();
    let exact = after.replace("\"=0.1.0\"", &format!("\"={version}\""));
    let exact = exact.replace("version = \"0.1.0\"", &format!("version = \"{version}\""));
    fs::create_dir_all(to).unwrap();
    fs::write(
        to.join("Cargo.toml"),
        format!("{before}members = {PACKAGES:?}{exact}"),
    )
    .unwrap();
    for package in PACKAGES {
        let folder = to.join(package);
        fs::create_dir_all(folder.join("src")).unwrap();
        let from = workspace().join(package);
        fs::copy(from.join("Cargo.toml"), folder.join("Cargo.toml")).unwrap();
        fs::write(folder.join("src/lib.rs"), "").unwrap();
        if from.join("build.rs").is_file() {
            fs::copy(from.join("build.rs"), folder.join("build.rs")).unwrap();
        }
    }
}

/// Lets cargo choose the packages of a program with these dependencies. The error is cargo's.
fn resolve(program: &Path, dependencies: &str) -> Result<(), String> {
    fs::create_dir_all(program.join("src")).unwrap();
    fs::write(program.join("src/lib.rs"), "").unwrap();
    let manifest = format!(
        "[package]\nname = \"program\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n{dependencies}"
    );
    fs::write(program.join("Cargo.toml"), manifest).unwrap();
    // The versions that the workspace has are those that are there without a network.
    fs::copy(workspace().join("Cargo.lock"), program.join("Cargo.lock")).unwrap();
    let output = Command::new(env!("CARGO"))
        .current_dir(program)
        .args(["metadata", "--offline", "--format-version=1"])
        .output()
        .unwrap();
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

#[test]
fn a_program_with_two_copies_of_the_runtime_is_refused() {
    // Outside of the target directory: cargo takes a workspace that it has read for the workspace
    // of all packages below it.
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let here = |package: &str| workspace().join(package);
    let depends = |name: &str, package: &str, path: &PathBuf| {
        format!("{name} = {{ package = \"{package}\", path = {path:?} }}\n")
    };
    let first = depends("first", "cuda-handoff", &here("cuda-rt"));
    resolve(&directory.join("alone"), &first).expect("one copy is no conflict");

    // Another version; and the same version from another source, for example a repository.
    for version in ["0.2.0", "0.1.0"] {
        let other = directory.join(format!("other-{version}"));
        copy(&other, version);
        for (package, folder) in [
            ("cuda-handoff", "cuda-rt"),
            ("cuda-handoff-runtime", "runtime"),
            ("cuda-handoff-driver-cuda", "driver-cuda"),
            ("cuda-handoff-simulator", "simulator"),
            ("cuda-handoff-pipeline", "pipeline"),
        ] {
            let second = depends("second", package, &other.join(folder));
            let program = directory.join(format!("program-{version}-{folder}"));
            let error = resolve(&program, &format!("{first}{second}")).expect_err(package);
            assert!(
                error.contains("links to the native library `cuda-handoff`"),
                "{package}: {error}"
            );
        }
    }

    // Without the key, cargo accepts two versions: nothing else refuses the program.
    let other = directory.join("other-0.2.0");
    let manifest = other.join("driver/Cargo.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    assert!(text.contains(LINKS), "{text}");
    fs::write(&manifest, text.replace(LINKS, "")).unwrap();
    let second = depends("second", "cuda-handoff", &other.join("cuda-rt"));
    resolve(&directory.join("program-unlinked"), &format!("{first}{second}")).expect("two copies");
}
