//! The run of rustc for the search for mutable statics, assembly and symbols (`statics.rs`). It
//! comes before the compilation of a crate, in the same process of the wrapper: one unit of cargo
//! makes both outputs, so both are fresh or neither is.
//!
//! It writes the LLVM module of the crate without optimisation. A source sees the environment, the
//! directories, the flags of its target and its own path. All of them are those of the compilation.
//! It sees neither the kind of output nor the optimisation.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::SEARCH_EXTENSION;

/// Flags for the search. The last flag of a kind counts. rustc writes the LLVM module of a crate
/// only if it makes the crate in one unit, and it shows what LLVM makes of all crates if it
/// optimises them together.
const FLAGS: [&str; 6] = [
    "--crate-type=lib",
    "--emit=llvm-ir",
    "-Cno-prepopulate-passes",
    "-Zmir-opt-level=0",
    "-Ccodegen-units=1",
    "-Clto=no",
];

/// The path of the crate's outputs without an extension. `krate` is the name of the crate.
///
/// # Errors
/// Cargo names no directory.
pub(crate) fn outputs(arguments: &[OsString], krate: &str) -> Result<PathBuf, String> {
    let at = arguments.iter().position(|argument| argument == "--out-dir");
    let directory = at.and_then(|at| arguments.get(at + 1));
    let directory = directory.ok_or("cargo names no directory for the outputs")?;
    let suffix = arguments
        .windows(2)
        .filter(|pair| pair[0] == "-C")
        .find_map(|pair| pair[1].to_str()?.strip_prefix("extra-filename="));
    Ok(Path::new(directory).join(format!("{krate}{}", suffix.unwrap_or(""))))
}

/// The file of the LLVM module. An earlier one is removed: rustc would leave it if it wrote none.
///
/// # Errors
/// There is no name for the file, or an earlier file remains.
pub(crate) fn new_file(arguments: &[OsString], krate: &str) -> Result<PathBuf, String> {
    // The name of a crate has no dot.
    let file = outputs(arguments, krate)?.with_extension(SEARCH_EXTENSION);
    match fs::remove_file(&file) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(format!("{} cannot be removed: {error}", file.display()))
        }
        _ => Ok(file),
    }
}

/// The arguments for the search: those of the compilation, with another output. `file` gets the
/// LLVM module. It is in the directory of the compilation's outputs; beside a file, rustc ignores
/// the directory, and would warn the user of that.
///
/// The kernels' own crate is a `cdylib`, of which rustc compiles only what entries need. For the
/// search, it is a library.
pub(crate) fn arguments(compilation: &[OsString], file: &Path) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = Vec::new();
    let mut rest = compilation.iter();
    while let Some(argument) = rest.next() {
        let starts = |start: &[u8]| argument.as_encoded_bytes().starts_with(start);
        if argument == "--crate-type" || argument == "--emit" || argument == "--out-dir" {
            rest.next();
        } else if !starts(b"--crate-type=") && !starts(b"--emit=") && argument != "-Zno-link" {
            arguments.push(argument.clone());
        }
    }
    arguments.extend(FLAGS.map(OsString::from));
    arguments.extend(["-o".into(), file.into()]);
    arguments
}

/// Whether rustc would keep parts of the crate from an earlier compilation. It would then compile
/// the crate in many units.
pub(crate) fn is_incremental(arguments: &[OsString]) -> bool {
    let starts = |argument: &OsString, start: &str| argument.as_encoded_bytes().starts_with(start.as_bytes());
    let codegen = |argument: &OsString| argument == "-C" || argument == "--codegen";
    arguments
        .windows(2)
        .any(|pair| codegen(&pair[0]) && starts(&pair[1], "incremental"))
        || arguments
            .iter()
            .any(|argument| starts(argument, "-Cincremental") || starts(argument, "--codegen=incremental"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compilation() -> Vec<OsString> {
        let arguments = "--crate-name k --edition=2024 src/lib.rs --error-format=json --crate-type cdylib \
            --emit=dep-info,link -C opt-level=3 -C lto -C codegen-units=16 --remap-path-scope=all --cfg a \
            -C metadata=1 -C extra-filename=-2 --out-dir /t/deps --target nvptx64-nvidia-cuda \
            -L dependency=/t/deps --extern core=/t/deps/libcore.rlib --emit=asm,llvm-ir -Zno-link \
            --remap-path-prefix=/k= -Ctarget-cpu=sm_90 -Zallow-features=f16";
        arguments.split_whitespace().map(OsString::from).collect()
    }

    /// A source sees the environment, the directories, the profile and the features of the target.
    /// It sees neither the kind of output nor the optimisation.
    #[test]
    fn both_compilations_look_alike_to_a_source() {
        let search = arguments(&compilation(), Path::new("/t/deps/k.search.ll"));
        let unseen = [
            "--emit=dep-info,link",
            "--emit=asm,llvm-ir",
            "-Zno-link",
            "--crate-type",
            "cdylib",
            "--out-dir",
            "/t/deps",
        ];
        let seen: Vec<OsString> = compilation()
            .into_iter()
            .filter(|argument| !unseen.iter().any(|unseen| argument == unseen))
            .collect();
        let (same, added) = search.split_at(seen.len());
        assert_eq!(same, seen);
        let added: Vec<&str> = added.iter().map(|argument| argument.to_str().unwrap()).collect();
        let expected: Vec<&str> = FLAGS.into_iter().chain(["-o", "/t/deps/k.search.ll"]).collect();
        assert_eq!(added, expected);
        for flag in [
            "--crate-type=lib",
            "-Ccodegen-units=1",
            "-Clto=no",
            "-Zmir-opt-level=0",
            "-Cno-prepopulate-passes",
        ] {
            assert!(FLAGS.contains(&flag), "{flag}");
        }
        // A build script may run rustc with these forms.
        let other = ["--crate-type=bin", "--emit", "link", "a.rs"].map(OsString::from);
        assert_eq!(arguments(&other, Path::new("/t/k.search.ll"))[0], "a.rs");
    }

    /// rustc may write no module. The module of an earlier compilation is then no answer.
    #[test]
    fn the_module_of_an_earlier_compilation_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let mut arguments = compilation();
        let at = arguments
            .iter()
            .position(|argument| argument == "/t/deps")
            .unwrap();
        arguments[at] = directory.path().into();
        let file = directory.path().join("k-2.search.ll");
        for _ in 0..2 {
            assert_eq!(new_file(&arguments, "k").unwrap(), file);
            assert!(!file.exists());
            fs::write(&file, "; an earlier module").unwrap();
        }
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert!(new_file(&arguments, "k").unwrap_err().contains("removed"));
        arguments.remove(at - 1);
        assert!(new_file(&arguments, "k").unwrap_err().contains("directory"));
    }

    #[test]
    fn incremental_compilations_are_known() {
        assert!(!is_incremental(&compilation()));
        for words in [
            "-C incremental=/t",
            "-Cincremental=/t",
            "--codegen incremental=/t",
            "--codegen=incremental=/t",
        ] {
            let mut arguments = compilation();
            arguments.extend(words.split(' ').map(OsString::from));
            assert!(is_incremental(&arguments), "{words}");
        }
    }
}
