//! Compiles many small crates against the libraries that this test was built with. Each crate is
//! one run of rustc, without cargo.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, OnceLock};
use std::thread;

use serde_json::Value;

/// `cuda_rt` and `device_std`, as cargo built them for this test.
#[derive(Debug)]
struct Libraries {
    cuda_rt: PathBuf,
    device_std: PathBuf,
}

pub(crate) struct Rustc {
    libraries: &'static Libraries,
    directory: PathBuf,
}

impl Rustc {
    /// Makes an empty directory to compile in.
    pub(crate) fn new(name: &str) -> Self {
        static LIBRARIES: OnceLock<Libraries> = OnceLock::new();
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hostile").join(name);
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        Self {
            libraries: LIBRARIES.get_or_init(libraries),
            directory,
        }
    }

    /// Writes a file beside the sources.
    pub(crate) fn file(&self, name: &str, text: &str) {
        fs::write(self.directory.join(name), text).unwrap();
    }

    /// Compiles another library, which the sources call `third`.
    pub(crate) fn third(&self, source: &str) {
        self.file("third.rs", source);
        let mut rustc = self.rustc();
        checked(&rustc.args(["--crate-type=rlib", "third.rs"]).output().unwrap());
    }

    /// Compiles each source to a library, two at a time. The error is rustc's output.
    pub(crate) fn libraries(&self, sources: &[(String, String)]) -> BTreeMap<String, Result<(), String>> {
        let (next, results) = (Mutex::new(sources.iter()), Mutex::new(BTreeMap::new()));
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    loop {
                        let Some((name, source)) = next.lock().unwrap().next() else {
                            return;
                        };
                        let result = self.library(name, source);
                        results.lock().unwrap().insert(name.clone(), result);
                    }
                });
            }
        });
        results.into_inner().unwrap()
    }

    /// The source with its macros expanded. rustc prints it for nightly only; the variable lets the
    /// pinned rustc print it too.
    pub(crate) fn expanded(&self, name: &str, source: &str) -> String {
        let file = format!("{name}.rs");
        self.file(&file, source);
        let mut rustc = self.rustc();
        rustc
            .env("RUSTC_BOOTSTRAP", "1")
            .args(["--crate-type=rlib", "--crate-name=hostile", "-Zunpretty=expanded"])
            .arg(&file);
        checked(&rustc.output().unwrap())
    }

    fn library(&self, name: &str, source: &str) -> Result<(), String> {
        let file = format!("{name}.rs");
        self.file(&file, source);
        let output = self
            .rustc()
            .args([
                "--crate-type=rlib",
                "--crate-name=hostile",
                "--error-format=human",
            ])
            .arg(format!("-Cmetadata={name}"))
            .arg("-L.")
            .arg("-o")
            .arg(self.rlib(name))
            .arg(&file)
            .output()
            .unwrap();
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    fn rlib(&self, name: &str) -> PathBuf {
        self.directory.join(format!("libhostile-{name}.rlib"))
    }

    fn rustc(&self) -> Command {
        let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        let Libraries { cuda_rt, device_std } = self.libraries;
        command
            .current_dir(&self.directory)
            // Set as cargo sets it for `env!` and for procedural macros.
            .env("CARGO_PKG_NAME", "hostile")
            .args(["--edition=2024", "-Cdebuginfo=0", "--color=never"])
            .arg(format!("--extern=cuda_rt={}", cuda_rt.display()))
            .arg(format!("--extern=device_std={}", device_std.display()))
            .arg(format!("-Ldependency={}", cuda_rt.parent().unwrap().display()));
        command
    }

    /// Runs `results` of each library, in one program. Returns the output of each, by name.
    pub(crate) fn run(&self, names: &[&str]) -> BTreeMap<String, String> {
        let calls: String = names
            .iter()
            .map(|name| format!("    println!(\"== {name}\");\n    the_{name}::results();\n"))
            .collect();
        self.file("main.rs", &format!("fn main() {{\n{calls}}}\n"));
        let mut rustc = self.rustc();
        rustc.args(["--crate-name=all", "-o", "all", "main.rs"]);
        for name in names {
            rustc.arg(format!("--extern=the_{name}={}", self.rlib(name).display()));
        }
        checked(&rustc.output().unwrap());
        let output = Command::new(self.directory.join("all")).output().unwrap();
        let text = checked(&output);
        text.split("== ")
            .filter_map(|part| part.split_once('\n'))
            .map(|(name, text)| (name.to_owned(), text.to_owned()))
            .collect()
    }
}

fn checked(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Asks cargo for the libraries. They are up to date, because cargo just built this test.
fn libraries() -> Libraries {
    let output = Command::new(env!("CARGO"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args([
            "test",
            "--no-run",
            "--package=ui-tests",
            "--test=hostile",
            "--message-format=json",
        ])
        .output()
        .unwrap();
    let text = checked(&output);
    let library = |name: &str| {
        let artifact = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .find(|message| message["reason"] == "compiler-artifact" && message["target"]["name"] == name);
        let artifact = artifact.unwrap_or_else(|| panic!("cargo names no {name}"));
        let files = artifact["filenames"].as_array().unwrap();
        let rlib = files
            .iter()
            .filter_map(Value::as_str)
            .find(|file| file.ends_with(".rlib"));
        PathBuf::from(rlib.unwrap_or_else(|| panic!("{name} has no rlib")))
    };
    Libraries {
        cuda_rt: library("cuda_rt"),
        device_std: library("device_std"),
    }
}
