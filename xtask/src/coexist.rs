//! `cargo xtask coexist`: checks that one program can use cuda-rt and other crates for CUDA.
//!
//! Cargo builds a dependency with the union of the features that its dependents ask for. If two
//! crates each force a different one of several exclusive features, no program can use both crates.
//! For each neighbour, this task generates a program that depends on cuda-rt and on the neighbour.
//! The program lies under the target directory and has its own lock file; the compiler checks it
//! (`cargo check`). Nothing is linked or run. The task takes the newest versions, so it needs a
//! network, and some minutes the first time. It is no part of `.ci/run`.

mod neighbours;

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use neighbours::{NEIGHBOURS, Neighbour};

/// Checks the programs of the neighbours called `names`, or of all neighbours.
pub(crate) fn run(names: &[&str]) -> Result<(), Box<dyn Error>> {
    if let Some(name) = names
        .iter()
        .find(|name| !NEIGHBOURS.iter().any(|neighbour| neighbour.name == **name))
    {
        let known: Vec<&str> = NEIGHBOURS.iter().map(|neighbour| neighbour.name).collect();
        return Err(format!("no neighbour is called {name}; there are: {}", known.join(", ")).into());
    }
    let mut refused = Vec::new();
    for neighbour in NEIGHBOURS {
        if !names.is_empty() && !names.contains(&neighbour.name) {
            continue;
        }
        if neighbour.reads_headers && std::env::var_os("CUDA_TOOLKIT_PATH").is_none() {
            println!(
                "SKIPPED: {}: set CUDA_TOOLKIT_PATH to a CUDA 13 with its headers (on PyPI: nvidia-cuda-runtime, \
                 nvidia-cuda-crt, nvidia-curand)",
                neighbour.name
            );
            continue;
        }
        match Program::new(neighbour).and_then(|program| program.check()) {
            Ok(what) => println!("ok: {}: {what}", neighbour.name),
            Err(error) => {
                println!("FAILED: {}: {error}", neighbour.name);
                refused.push(neighbour.name);
            }
        }
    }
    match refused.is_empty() {
        true => Ok(()),
        false => Err(format!("these do not coexist: {}", refused.join(", ")).into()),
    }
}

/// A generated package.
struct Program {
    neighbour: &'static Neighbour,
    /// The directory of all generated packages.
    folder: PathBuf,
    package: PathBuf,
}

impl Program {
    fn new(neighbour: &'static Neighbour) -> Result<Self, Box<dyn Error>> {
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
        let folder = target.join("coexist");
        let package = folder.join(neighbour.name);
        fs::create_dir_all(package.join("src"))?;
        let program = Self {
            neighbour,
            folder,
            package,
        };
        program.write("Cargo.toml", &neighbour.manifest(root()))?;
        program.write("src/lib.rs", &neighbour.source(root()))?;
        program.write("build.rs", &neighbour.build_script())?;
        // Without a lock file, cargo resolves the newest versions that fit.
        let lock = program.package.join("Cargo.lock");
        if lock.exists() {
            fs::remove_file(lock)?;
        }
        Ok(program)
    }

    /// Writes a file only if its content changes, because cargo builds again each file that was
    /// written.
    fn write(&self, file: &str, text: &str) -> std::io::Result<()> {
        let file = self.package.join(file);
        if fs::read_to_string(&file).is_ok_and(|there| there == text) {
            return Ok(());
        }
        fs::write(file, text)
    }

    /// Checks the program, and describes its packages.
    fn check(&self) -> Result<String, Box<dyn Error>> {
        let packages = self.packages()?;
        let mut check = vec!["check", "--quiet", "--lib"];
        check.extend(self.neighbour.check);
        self.cargo(&check)?;
        let most = self.neighbour.most_packages;
        if packages.len() > most {
            let packages: Vec<&str> = packages.iter().map(String::as_str).collect();
            return Err(format!(
                "it builds {} packages, of {most} at most: {}",
                packages.len(),
                packages.join(", ")
            )
            .into());
        }
        let shown = packages.iter().filter(|package| {
            let name = package.split(' ').next().unwrap_or_default();
            self.neighbour.shows.contains(&name)
        });
        let shown: Vec<&str> = shown.map(String::as_str).collect();
        Ok(format!(
            "{} ({} packages{}{})",
            self.neighbour.about,
            packages.len(),
            if shown.is_empty() { "" } else { ": " },
            shown.join(", ")
        ))
    }

    /// Names and versions of the packages that the program is built of, without the program itself.
    fn packages(&self) -> Result<BTreeSet<String>, Box<dyn Error>> {
        let tree = self.cargo(&[
            "tree",
            "--edges",
            "normal,build",
            "--prefix",
            "none",
            "--format",
            "{p}",
        ])?;
        let tree = String::from_utf8(tree.stdout)?;
        // The first line names the program itself.
        let packages = tree
            .lines()
            .skip(1)
            .map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" "));
        Ok(packages.filter(|package| !package.is_empty()).collect())
    }

    fn cargo(&self, arguments: &[&str]) -> Result<Output, Box<dyn Error>> {
        let mut cargo = Command::new("cargo");
        cargo
            .args(arguments)
            .current_dir(&self.package)
            .env("CARGO_TARGET_DIR", self.folder.join("target"))
            .env("CARGO_TERM_COLOR", "never")
            .env_remove("CUDARC_CUDA_VERSION")
            .envs(self.neighbour.environment.iter().copied());
        if self.neighbour.asks_nvcc {
            let toolkit = neighbours::stub_toolkit(&self.folder)?;
            let path = std::env::var_os("PATH").unwrap_or_default();
            let path = std::iter::once(toolkit.join("bin")).chain(std::env::split_paths(&path));
            cargo
                .env("PATH", std::env::join_paths(path)?)
                .env("CUDA_HOME", &toolkit)
                .env("CUDA_COMPUTE_CAP", "80");
        }
        let output = cargo.output()?;
        if output.status.success() {
            return Ok(output);
        }
        let words = String::from_utf8_lossy(&output.stderr);
        Err(format!("`cargo {}` fails:\n{words}", arguments.join(" ")).into())
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the workspace")
}
