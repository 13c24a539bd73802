//! A program that cargo runs in place of rustc. It runs rustc with more flags for each crate that
//! is compiled for the GPU: the list of features that the crate may enable, and lints that it may
//! not switch off. The crates of rustc's own library get none of them. It also leaves out what
//! build scripts ask to be linked: the GPU links nothing, and in a path for libraries rustc would
//! find crates that cargo does not know.
//!
//! The lints are about code of editions before 2024, where a block `extern "C" { }` and the
//! attribute `no_mangle` are unsafe without the word `unsafe`. rustc reports no lint about what the
//! macro of another crate wrote, in the edition of that crate. So a crate of these editions exports
//! no macro. Crates of a registry or of git are excepted, because cargo caps all their lints.
//!
//! `features.rs` compiles this file. The environment of that compilation has the lists.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{Write, stderr};
use std::path::Path;
use std::process::{Command, exit};

/// The target of the crates for the GPU.
const TARGET: &str = env!("CUDA_RT_TARGET");
/// The directory of the sources of rustc's own library.
const LIBRARY: &str = env!("CUDA_RT_LIBRARY");
/// The features of every crate.
const FEATURES: &str = env!("CUDA_RT_FEATURES");
/// Words: the name of a crate, a colon, and its features.
const OF_CRATES: &str = env!("CUDA_RT_FEATURES_OF_CRATES");
/// Lints about what is unsafe without the word `unsafe`, so that `forbid(unsafe_code)` does not
/// refuse it.
const LINTS: [&str; 2] = ["-Fmissing_unsafe_on_extern", "-Funsafe_attr_outside_unsafe"];
/// The attribute of each macro that other crates can use.
const EXPORTED: &[u8] = b"macro_export";

fn main() {
    let mut arguments = env::args_os().skip(1);
    let Some(rustc) = arguments.next() else {
        eprintln!("cargo named no compiler");
        exit(101);
    };
    let mut arguments: Vec<OsString> = arguments.collect();
    if is_for_gpu(&arguments) && !is_of_library(&arguments) {
        // The last list of features is the one that counts.
        let list = list(&arguments);
        arguments = without_links(arguments);
        arguments.push(list);
        arguments.extend(LINTS.map(OsString::from));
        if is_of_old_edition(&arguments) && !is_capped(&arguments) {
            refuse_exported_macros(&rustc, &arguments);
        }
    }
    let status = Command::new(rustc).args(&arguments).status();
    match status {
        Ok(status) => exit(status.code().unwrap_or(101)),
        Err(error) => {
            eprintln!("the compiler cannot be started: {error}");
            exit(101);
        }
    }
}

fn is_for_gpu(arguments: &[OsString]) -> bool {
    arguments
        .windows(2)
        .any(|pair| pair[0] == "--target" && pair[1] == TARGET)
}

/// The flag with the list of features.
fn list(arguments: &[OsString]) -> OsString {
    let at = arguments.iter().position(|argument| argument == "--crate-name");
    let krate = at
        .and_then(|at| arguments.get(at + 1))
        .and_then(|name| name.to_str());
    let own = OF_CRATES.split(' ').filter_map(|word| word.split_once(':'));
    let own = own
        .filter(|(name, _)| Some(*name) == krate)
        .map(|(_, features)| features);
    let features: Vec<&str> = [FEATURES].into_iter().chain(own).collect();
    format!("-Zallow-features={}", features.join(",")).into()
}

/// The arguments without libraries, and without their paths. Paths of dependencies stay: cargo
/// names them, and rustc finds no crate there that no other crate names.
fn without_links(arguments: Vec<OsString>) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut rest = arguments.into_iter();
    while let Some(argument) = rest.next() {
        if argument != "-l" && argument != "-L" {
            kept.push(argument);
            continue;
        }
        let value = rest.next();
        let stays = |value: &OsString| {
            value
                .to_str()
                .is_some_and(|value| value.starts_with("dependency="))
        };
        if let (true, Some(value)) = (argument == "-L", value.filter(stays)) {
            kept.extend([argument, value]);
        }
    }
    kept
}

/// Whether the edition is older than 2024. Cargo puts it in the third place, and names no edition
/// 2015.
fn is_of_old_edition(arguments: &[OsString]) -> bool {
    let edition = arguments.get(2).and_then(|edition| edition.to_str());
    let edition = edition.and_then(|edition| edition.strip_prefix("--edition=")?.parse::<u32>().ok());
    edition.is_none_or(|edition| edition < 2024)
}

/// Whether cargo caps the lints of the crate, because it comes from a registry or from git. A build
/// script cannot add these two words: rustc refuses them as a `--cfg`, and `without_links` removes
/// libraries.
fn is_capped(arguments: &[OsString]) -> bool {
    arguments
        .windows(2)
        .any(|pair| pair[0] == "--cap-lints" && (pair[1] == "allow" || pair[1] == "warn"))
}

/// Ends with an error if the crate exports a macro. The word is looked for in the crate with all
/// macros expanded, also in strings and in comments.
fn refuse_exported_macros(rustc: &OsStr, arguments: &[OsString]) {
    let expanded = Command::new(rustc).args(arguments).arg("-Zunpretty=expanded").output();
    let expanded = match expanded {
        Ok(expanded) => expanded,
        Err(error) => {
            eprintln!("the compiler cannot be started: {error}");
            exit(101);
        }
    };
    if !expanded.status.success() {
        // If nobody reads the errors, the exit status remains.
        let _ = stderr().write_all(&expanded.stderr);
        exit(expanded.status.code().unwrap_or(101));
    }
    if expanded.stdout.windows(EXPORTED.len()).any(|word| word == EXPORTED) {
        let krate = arguments.get(1).and_then(|name| name.to_str()).unwrap_or("?");
        eprintln!(
            "error: the crate `{krate}` exports a macro (`macro_export`), and has an edition before 2024, \
             where code can be unsafe without the word `unsafe`: set `edition = \"2024\"` in its Cargo.toml"
        );
        exit(101);
    }
}

/// Whether the crate's root lies in rustc's library. Cargo puts the root in the fourth place, and
/// no crate can move its own arguments there. If another cargo puts it elsewhere, `core` gets a
/// list, and its compilation fails.
fn is_of_library(arguments: &[OsString]) -> bool {
    let [name, _, edition, root, ..] = arguments else {
        return false;
    };
    let is_edition = edition
        .to_str()
        .is_some_and(|edition| edition.starts_with("--edition="));
    let root = Path::new(root).canonicalize();
    name == "--crate-name" && is_edition && root.is_ok_and(|root| root.starts_with(LIBRARY))
}
