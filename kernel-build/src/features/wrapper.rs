//! A program that cargo runs in place of rustc. It runs rustc with one more flag for each crate
//! that is compiled for the GPU: the list of features that the crate may enable. The crates of
//! rustc's own library, which cargo compiles as such, get no list. It also leaves out what build
//! scripts ask to be linked: the GPU links nothing, and in a path for libraries rustc would find
//! crates that cargo does not know.
//!
//! Before, it lets rustc print the crate with its macros expanded, and refuses what is unsafe
//! without the word `unsafe` there (`expanded.rs`). This program then fails, so cargo never
//! takes the crate for fresh.
//!
//! It then runs rustc twice: first for the search for mutable statics, assembly and symbols
//! (`search.rs`), which another program makes in the LLVM module that rustc writes; then for the
//! compilation that cargo asks for. Nothing that a source can see differs between the two.
//!
//! Afterwards, it sees that the compilation read no file that may have changed since (`files.rs`).
//! So all three runs of rustc read the same files.
//!
//! `features.rs` compiles this file, with `expanded.rs`, `dep_info.rs`, `files.rs` and `search.rs`
//! as modules. The environment of that compilation has the lists.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{Write, stderr};
use std::path::Path;
use std::process::{Command, exit};
use std::thread::sleep;
use std::time::SystemTime;

/// The target of the crates for the GPU.
const TARGET: &str = env!("CUDA_RT_TARGET");
/// The directory of the sources of rustc's own library.
const LIBRARY: &str = env!("CUDA_RT_LIBRARY");
/// The features of every crate.
const FEATURES: &str = env!("CUDA_RT_FEATURES");
/// Words: the name of a crate, a colon, and its features.
const OF_CRATES: &str = env!("CUDA_RT_FEATURES_OF_CRATES");
/// The start of an error of this program.
const REFUSED: &str = env!("CUDA_RT_REFUSED");
/// The start of an error about a crate that cannot be searched.
const UNSEARCHED: &str = env!("CUDA_RT_UNSEARCHED");
/// The start of an error about a file that may have changed.
const CHANGED: &str = env!("CUDA_RT_CHANGED");
/// The extension of the file that the search reads.
const SEARCH_EXTENSION: &str = env!("CUDA_RT_SEARCH_EXTENSION");
/// The feature that opens `core::intrinsics`.
const INTRINSICS: &str = "core_intrinsics";
/// What cargo says to rustc of each crate that it compiles for `-Zbuild-std`, behind `-Z`.
const OF_LIBRARY: &str = "force-unstable-if-unmarked";
/// The crates of rustc's library that kernels use.
const LIBRARY_CRATES: [&str; 2] = ["core", "compiler_builtins"];

fn main() {
    let mut arguments = env::args_os().skip(1);
    let Some(rustc) = arguments.next() else {
        eprintln!("cargo named no compiler");
        exit(101);
    };
    let mut arguments: Vec<OsString> = arguments.collect();
    if arguments.iter().any(is_file) {
        refuse("rustc would read arguments from a file, because a build script asks for it, or because they are too long");
    }
    if arguments.iter().any(has_another_form) {
        refuse("cargo named the target in a form that is not known");
    }
    if !is_for_gpu(&arguments) || is_question(&arguments) {
        compile(&rustc, &arguments);
        return;
    }
    if search::is_incremental(&arguments) {
        refuse_unsearched(krate(&arguments), "a profile compiles it incrementally");
    }
    if is_of_library(&arguments) {
        write_for_search(&rustc, &arguments);
        compile(&rustc, &arguments);
        return;
    }
    // The last list of features is the one that counts.
    let list = list(&arguments);
    arguments = without_links(arguments);
    arguments.push(list);
    let began = SystemTime::now();
    sleep(files::CLOCK_LAG);
    refuse_hidden_unsafe(&rustc, &arguments);
    write_for_search(&rustc, &arguments);
    compile(&rustc, &arguments);
    if let Err(file) = dep_info(&arguments).and_then(|(path, text)| files::refuse_changed((&path, &text), began)) {
        eprintln!("{CHANGED}the crate `{}` reads {file}", krate(&arguments));
        exit(101);
    }
}

/// Lets rustc write the LLVM module of the crate for the search, and ends with an error if there is
/// none. The warnings of rustc are left out: the compilation prints them too.
fn write_for_search(rustc: &OsStr, arguments: &[OsString]) {
    let krate = krate(arguments);
    let file = search::new_file(arguments, krate);
    let file = file.unwrap_or_else(|why| refuse_unsearched(krate, &why));
    run_quietly(rustc, search::arguments(arguments, &file));
    if !file.is_file() {
        refuse_unsearched(krate, &format!("rustc did not write {}", file.display()));
    }
}

fn refuse_unsearched(krate: &str, why: &str) -> ! {
    eprintln!("{UNSEARCHED}the crate `{krate}`: {why}");
    exit(101);
}

/// Runs rustc and returns what it prints. Ends with its errors and its status if it fails.
fn run_quietly(rustc: &OsStr, arguments: Vec<OsString>) -> Vec<u8> {
    let output = Command::new(rustc).args(arguments).output();
    let output = output.unwrap_or_else(|error| not_started(&error));
    if !output.status.success() {
        // If nobody reads the errors, the exit status remains.
        let _ = stderr().write_all(&output.stderr);
        exit(output.status.code().unwrap_or(101));
    }
    output.stdout
}

/// Runs rustc, and ends with its status if it fails.
fn compile(rustc: &OsStr, arguments: &[OsString]) {
    match Command::new(rustc).args(arguments).status() {
        Ok(status) if status.success() => {}
        Ok(status) => exit(status.code().unwrap_or(101)),
        Err(error) => not_started(&error),
    }
}

/// The path and the text of rustc's list of the files that it read. Cargo asks for it.
///
/// # Errors
/// Why there is none, as what the crate reads.
fn dep_info(arguments: &[OsString]) -> Result<(String, String), String> {
    let outputs = search::outputs(arguments, krate(arguments));
    let outputs = outputs.map_err(|why| format!("files of which there is no list: {why}"))?;
    let path = outputs.with_extension("d");
    let text = std::fs::read_to_string(&path);
    let text = text.map_err(|error| format!("files without a list in {}: {error}", path.display()))?;
    let path = path.to_str().ok_or("files in a directory whose name is no UTF-8")?;
    Ok((path.to_owned(), text))
}

/// The name of the crate, which cargo puts in the second place.
fn krate(arguments: &[OsString]) -> &str {
    arguments.get(1).and_then(|name| name.to_str()).unwrap_or("?")
}

fn not_started(error: &std::io::Error) -> ! {
    eprintln!("the compiler cannot be started: {error}");
    exit(101);
}

fn refuse(why: &str) -> ! {
    eprintln!("{REFUSED}{why}");
    exit(101);
}

/// Whether rustc would read more arguments from this file: each `@FILE` is one, also in the place
/// of another argument's value. Cargo writes such a file if the arguments are too long.
fn is_file(argument: &OsString) -> bool {
    argument.as_encoded_bytes().starts_with(b"@")
}

/// Ends with an error if the crate, with its macros expanded, has something that is unsafe without
/// the word `unsafe`, or an intrinsic of `core` that is not right for any type.
fn refuse_hidden_unsafe(rustc: &OsStr, arguments: &[OsString]) {
    let for_text = arguments.iter().cloned().chain(["-Zunpretty=expanded".into()]);
    let expanded = run_quietly(rustc, for_text.collect());
    let (text, krate) = (String::from_utf8_lossy(&expanded), krate(arguments));
    if let Some(line) = expanded::found(&text) {
        refuse(&format!("the crate `{krate}` has, with its macros expanded: {line}"));
    }
    if features(krate).contains(&INTRINSICS)
        && let Some(line) = expanded::intrinsic(&text)
    {
        refuse(&format!("the crate `{krate}` names, with its macros expanded, an intrinsic that is not known: {line}"));
    }
}

/// Whether cargo names the target, or what is linked, in a form that the functions below do not
/// know, as `--target=NAME` and `-lNAME` would be. A crate of such a form would not be searched.
fn has_another_form(argument: &OsString) -> bool {
    let bytes = argument.as_encoded_bytes();
    bytes.starts_with(b"--target=")
        || bytes.len() > 2 && (bytes.starts_with(b"-l") || bytes.starts_with(b"-L"))
}

fn is_for_gpu(arguments: &[OsString]) -> bool {
    arguments
        .windows(2)
        .any(|pair| pair[0] == "--target" && pair[1] == TARGET)
}

/// Whether cargo asks what rustc makes for the target. A crate from standard input, which is empty,
/// stands for those of the build; the root of a crate has a name.
fn is_question(arguments: &[OsString]) -> bool {
    arguments.first().is_some_and(|root| root == "-")
}

/// The flag with the list of features.
fn list(arguments: &[OsString]) -> OsString {
    format!("-Zallow-features={}", features(krate(arguments)).join(",")).into()
}

/// The features that the crate of this name may enable.
fn features(krate: &str) -> Vec<&'static str> {
    let own = OF_CRATES.split(' ').filter_map(|word| word.split_once(':'));
    let own = own
        .filter(|(name, _)| *name == krate)
        .map(|(_, features)| features);
    let lists = [FEATURES].into_iter().chain(own);
    lists.flat_map(|features| features.split(',')).collect()
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

/// Whether cargo compiles the crate as one of rustc's library: it says so to rustc, and no crate
/// can add an argument. Cargo puts the name first and the root in the fourth place. If another
/// cargo does not, `core` gets a list, and its compilation fails.
///
/// The place of the root is not enough. Counterexample: a package names a file of the library as
/// its root, or has a link to one; its modules and its macros are its own.
fn is_of_library(arguments: &[OsString]) -> bool {
    let [name, _, edition, root, ..] = arguments else {
        return false;
    };
    let is_edition = edition
        .to_str()
        .is_some_and(|edition| edition.starts_with("--edition="));
    let says_so = |pair: &[OsString]| pair[0] == "-Z" && pair[1] == OF_LIBRARY;
    // The file itself is no link: rustc looks for modules beside it.
    let root = Path::new(root);
    let file = root.file_name().unwrap_or_default();
    let beside = root.parent().map(|beside| beside.canonicalize());
    let is_no_link = beside.is_some_and(|beside| beside.ok().map(|beside| beside.join(file)) == root.canonicalize().ok());
    let root = root.canonicalize();
    name == "--crate-name"
        && is_edition
        && arguments.windows(2).any(says_so)
        && LIBRARY_CRATES.contains(&krate(arguments))
        && is_no_link
        && root.is_ok_and(|root| root.starts_with(LIBRARY))
}
