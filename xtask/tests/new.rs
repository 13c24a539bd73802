//! `cargo xtask new`: the new program runs, passes its own CI, and says what a build lacks. Paths
//! that cannot become a program are refused, and nothing is left there.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const NAME: &str = "my-program";

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Runs `cargo xtask new` in the folder `at`.
fn new(at: &Path, arguments: &[&str]) -> Output {
    let mut task = Command::new(env!("CARGO_BIN_EXE_xtask"));
    task.arg("new").args(arguments).current_dir(at);
    task.output().unwrap()
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Cargo in the folder of a program, offline, with the nightly compiler or as if there were none.
fn cargo(program: &Path, toolchain: bool) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    for (name, _) in std::env::vars_os() {
        let is_of_this_build = name.to_str().is_some_and(|name| name.starts_with("CARGO_"));
        if is_of_this_build && name != "CARGO_HOME" {
            cargo.env_remove(name);
        }
    }
    // All runs share this directory, so the dependencies are compiled once.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("new");
    cargo
        .env("CARGO_TARGET_DIR", target)
        .env("CARGO_NET_OFFLINE", "true");
    if !toolchain {
        // Uses the compiler of this test. Without rustup it finds no other.
        let bin = Path::new(env!("CARGO")).parent().unwrap();
        let path = std::env::var_os("PATH").unwrap();
        let others = std::env::split_paths(&path).filter(|place| !place.join("rustup").exists());
        let path = std::env::join_paths([bin.to_owned()].into_iter().chain(others)).unwrap();
        cargo.env("PATH", path).env("RUSTC", bin.join("rustc"));
    }
    cargo.current_dir(program);
    cargo
}

fn assert_runs(output: &Output) {
    let text = words(output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains(": 8 of 8 batches are right"), "{text}");
}

fn has_toolchain() -> bool {
    let sysroot = Command::new("rustup")
        .args(["run", "nightly", "rustc", "--print", "sysroot"])
        .output();
    let Some(sysroot) = sysroot.ok().filter(|output| output.status.success()) else {
        return false;
    };
    let sysroot = PathBuf::from(String::from_utf8_lossy(&sysroot.stdout).trim());
    sysroot.join("lib/rustlib/src/rust/library/core").is_dir()
}

/// The cargo commands of the program's CI, in order and once each.
fn commands_of_ci(program: &Path) -> Vec<Vec<String>> {
    let text = fs::read_to_string(program.join(".github/workflows/ci.yml")).unwrap();
    let lines = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- run: cargo "));
    let mut commands: Vec<Vec<String>> = Vec::new();
    for line in lines {
        let command = line.split_whitespace().map(str::to_owned).collect();
        if !commands.contains(&command) {
            commands.push(command);
        }
    }
    commands
}

#[test]
fn a_new_program_runs_and_passes_its_own_ci() {
    let directory = tempfile::tempdir().unwrap();
    let made = new(directory.path(), &[NAME]);
    assert!(made.status.success(), "{}", words(&made));
    let program = directory.path().join(NAME);
    assert!(
        words(&made).contains(program.to_str().unwrap()),
        "{}",
        words(&made)
    );
    // This repository's tested versions of all dependencies.
    fs::copy(repository().join("Cargo.lock"), program.join("Cargo.lock")).unwrap();

    // Without rustup the build takes the committed PTX, and says so.
    let output = cargo(&program, false).arg("run").output().unwrap();
    assert_runs(&output);
    let text = words(&output);
    assert!(text.contains("the kernels come from kernels.ptx"), "{text}");

    // The committed PTX does not stand in for a changed kernel.
    let source = program.join("kernels/src/lib.rs");
    let before = fs::read_to_string(&source).unwrap();
    fs::write(&source, before.replace("a.mul_add", "(a + 0.0).mul_add")).unwrap();
    let output = cargo(&program, false).arg("run").output().unwrap();
    let text = words(&output);
    assert!(!output.status.success(), "{text}");
    for needed in [
        "kernels.ptx was not built from the present kernels",
        "https://rustup.rs",
        "rustup toolchain install nightly --component rust-src",
    ] {
        assert!(text.contains(needed), "no {needed:?} in\n{text}");
    }
    fs::write(&source, &before).unwrap();

    let toolchain = has_toolchain();
    if toolchain {
        the_committed_ptx_is_fresh(&program);
    } else {
        eprintln!("SKIPPED: building the template's kernels needs nightly with rust-src");
    }
    let commands = commands_of_ci(&program);
    let tasks: Vec<&str> = commands.iter().map(|command| command[0].as_str()).collect();
    assert_eq!(tasks, ["fmt", "clippy", "test", "run"]);
    for command in commands {
        let output = cargo(&program, toolchain).args(&command).output().unwrap();
        let text = words(&output);
        assert!(output.status.success(), "cargo {}\n{text}", command.join(" "));
        // Both tests of `tests/seeds.rs` ran.
        let ran = text.contains("test result: ok. 2 passed; 0 failed; 0 ignored");
        assert!(command[0] != "test" || ran, "{text}");
    }
}

/// Builds the kernels, and compares their PTX with the template's.
fn the_committed_ptx_is_fresh(program: &Path) {
    let committed = program.join("kernels/kernels.ptx");
    let shipped = fs::read_to_string(&committed).unwrap();
    fs::remove_file(&committed).unwrap();
    let mut build = cargo(program, true);
    assert_runs(&build.arg("run").env("CUDA_RT_UPDATE_PTX", "1").output().unwrap());
    let built = fs::read_to_string(&committed).unwrap();
    let compiler = |text: &str| text.lines().nth(1).map(str::to_owned);
    if compiler(&shipped) != compiler(&built) {
        eprintln!("SKIPPED: whether the template's PTX is fresh: another compiler built it");
        return;
    }
    assert!(
        shipped == built,
        "templates/program/kernels/kernels.ptx is stale: run `cargo xtask ptx`"
    );
}

/// The files below a folder, with their texts.
fn files(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = fs::read_to_string(&path).unwrap();
                found.insert(path.strip_prefix(folder).unwrap().to_owned(), text);
            }
        }
    }
    found
}

#[test]
fn cargo_generate_makes_the_same_program() {
    let directory = tempfile::tempdir().unwrap();
    let (ours, theirs) = (directory.path().join("ours"), directory.path().join("theirs"));
    fs::create_dir(&ours).unwrap();
    fs::create_dir(&theirs).unwrap();
    let made = new(&ours, &[NAME]);
    assert!(made.status.success(), "{}", words(&made));

    let mut generate = Command::new("cargo-generate");
    generate.args(["generate", "--silent", "--vcs", "none", "--name", NAME, "--path"]);
    generate.arg(repository().join("templates/program"));
    generate.args(["-d", "cuda_rt_url=URL", "-d", "cuda_rt_tag=v1"]);
    // It asks for a user's name, which nothing here uses.
    generate.env("USER", "nobody").current_dir(&theirs);
    match generate.output() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            eprintln!("SKIPPED: the template by cargo-generate: `cargo install cargo-generate`");
            return;
        }
        output => assert!(
            output.as_ref().unwrap().status.success(),
            "{}",
            words(&output.unwrap())
        ),
    }
    let mut ours = files(&ours.join(NAME));
    for (package, folder) in [
        ("cuda-handoff", "cuda-rt"),
        ("cuda-handoff-device", "device-std"),
        ("cuda-handoff-build", "kernel-build"),
    ] {
        let place = repository().join(folder);
        let line = format!("package = \"{package}\"\npath = {place:?}\n");
        let manifest = ours.get_mut(Path::new("Cargo.toml")).unwrap();
        assert_eq!(manifest.matches(&line).count(), 1, "{manifest}");
        let git = format!("package = \"{package}\"\ngit = \"URL\"\ntag = \"v1\"\n");
        *manifest = manifest.replace(&line, &git);
    }
    assert_eq!(files(&theirs.join(NAME)), ours);
}

#[test]
fn a_path_that_cannot_become_a_program_is_refused_and_nothing_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let full = directory.path().join("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("mine.txt"), "mine").unwrap();
    fs::write(directory.path().join("file"), "mine").unwrap();
    for (path, why) in [
        ("full", "exists, and is not empty"),
        ("file", "file"),
        (
            "match",
            "`match` cannot be the name of a program: it is a word of Rust",
        ),
        (
            "2nd",
            "`2nd` cannot be the name of a program: it must begin with a letter",
        ),
        ("nowhere/mine", "the folder above does not exist"),
    ] {
        let output = new(directory.path(), &[path]);
        let text = words(&output);
        assert_eq!(output.status.code(), Some(1), "{path}: {text}");
        assert!(
            text.starts_with("error: ") && text.contains(why),
            "{path}: {text}"
        );
        let names = fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.collect();
        names.sort();
        assert_eq!(names, ["file", "full"], "{path}");
    }
    assert_eq!(fs::read_to_string(full.join("mine.txt")).unwrap(), "mine");
    assert_eq!(fs::read_dir(&full).unwrap().count(), 1);

    let usage = new(directory.path(), &[]);
    assert_eq!(usage.status.code(), Some(2));
    assert!(words(&usage).contains("new PATH"), "{}", words(&usage));
}

#[test]
fn an_empty_folder_becomes_the_program() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join(NAME);
    fs::create_dir(&program).unwrap();
    let output = new(directory.path(), &[NAME]);
    assert!(output.status.success(), "{}", words(&output));
    let manifest = fs::read_to_string(program.join("Cargo.toml")).unwrap();
    assert!(manifest.contains("name = \"my-program\""), "{manifest}");
    assert!(!program.join("cargo-generate.toml").exists());
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}
