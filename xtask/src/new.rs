//! `cargo xtask new PATH`: makes a program with a kernel of its own, from `templates/program`.
//!
//! The program takes cuda-rt from this checkout. cargo-generate makes the same program from the
//! same files, and asks for a git address and a tag. The new folder appears under its name when it
//! is complete: until then its files are in a folder beside it, which an error removes.

use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tidy::root;

/// The template, from the root of the tree.
const TEMPLATE: &str = "templates/program";

/// The files with placeholders, by their new names, as `cargo-generate.toml` includes them.
const SUBSTITUTED: [&str; 2] = ["Cargo.toml", "README.md"];

/// The end of the names of manifests in the template: cargo reads every `Cargo.toml` of a git
/// repository, and would print an error for one with placeholders.
const LIQUID: &str = ".liquid";

/// The committed PTX of a program.
const PTX: &str = "kernels/kernels.ptx";

/// What a program does not get: the file of cargo-generate, and what a build in the template left.
const LEFT_OUT: [&str; 3] = ["cargo-generate.toml", "Cargo.lock", "target"];

/// The place of a package in `Cargo.toml`, which cargo-generate asks for.
const PLACE: &str = "git = \"{{cuda_rt_url}}\"\ntag = \"{{cuda_rt_tag}}\"\n";

/// The published names of the packages that a program needs, with their folders.
const PACKAGES: [(&str, &str); 3] = [
    ("cuda-handoff", "cuda-rt"),
    ("cuda-handoff-device", "device-std"),
    ("cuda-handoff-build", "kernel-build"),
];

/// Names that cargo refuses for a program, and the names of the program's other crates.
const TAKEN: [&str; 11] = [
    "test",
    "core",
    "std",
    "alloc",
    "proc_macro",
    "build",
    "deps",
    "examples",
    "incremental",
    "kernels",
    "program",
];

/// The words of Rust that cannot name a crate.
const KEYWORDS: &str = "abstract as async await become box break const continue crate do dyn else enum \
    extern false final fn for gen if impl in let loop macro match mod move mut override priv pub ref \
    return self static struct super trait true try type typeof unsafe unsized use virtual where while \
    yield";

pub(crate) fn run(path: &str) -> Result<(), Box<dyn Error>> {
    let path = std::path::absolute(path)?;
    let name = make(&root().join(TEMPLATE), &path)?;
    println!(
        "made the program `{name}`:\n\n  cd {} && cargo run\n",
        path.display()
    );
    Ok(())
}

/// Makes a program at an absolute path. Returns its name.
fn make(template: &Path, path: &Path) -> Result<String, Box<dyn Error>> {
    let name = name_of(path)?;
    let parent = path.parent().filter(|parent| parent.is_dir());
    let parent = parent.ok_or_else(|| format!("{}: the folder above does not exist", path.display()))?;
    let exists = is_empty_folder(path)?;

    // Beside the new folder: a rename within a file system is one step.
    let unfinished = Unfinished(parent.join(format!(".{name}-{}", std::process::id())));
    fs::create_dir(&unfinished.0).map_err(|error| format!("{}: {error}", unfinished.0.display()))?;
    write(template, &unfinished.0, &name)?;
    if exists {
        fs::remove_dir(path)?;
    }
    fs::rename(&unfinished.0, path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(name)
}

/// Builds the kernels of a new program, and writes their PTX into the template.
pub(crate) fn write_ptx() -> Result<(), Box<dyn Error>> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let folder = target.join("template");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let program = std::path::absolute(folder.join("my-program"))?;
    make(&root().join(TEMPLATE), &program)?;
    // The tested versions of all dependencies.
    fs::copy(root().join("Cargo.lock"), program.join("Cargo.lock"))?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--package", "kernels", "--target-dir"]);
    build.arg(std::path::absolute(folder.join("target"))?);
    if !build
        .env("CUDA_RT_UPDATE_PTX", "1")
        .current_dir(&program)
        .status()?
        .success()
    {
        return Err(format!("the kernels of {TEMPLATE} do not build").into());
    }
    fs::copy(program.join(PTX), root().join(TEMPLATE).join(PTX))?;
    println!("{TEMPLATE}: {PTX}");
    Ok(())
}

/// The folder of a program that is not complete. The drop removes it, if it still has this name.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After the rename there is nothing to remove.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Whether there is an empty folder at this path. Anything else there is an error.
fn is_empty_folder(path: &Path) -> Result<bool, Box<dyn Error>> {
    match fs::read_dir(path).map(|mut entries| entries.next().is_none()) {
        Ok(true) => Ok(true),
        Ok(false) => Err(format!("{} exists, and is not empty: name a new folder", path.display()).into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(format!("{}: {error}", path.display()).into()),
    }
}

/// The program's name: the last part of its path.
fn name_of(path: &Path) -> Result<String, String> {
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| format!("{} does not end in a program's name", path.display()))?;
    let why = if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        "it must begin with a letter"
    } else if name.contains(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_') {
        "it must have only letters, digits, `-` and `_`"
    } else if KEYWORDS.split_whitespace().any(|word| word == name) {
        "it is a word of Rust"
    } else if TAKEN.contains(&name) {
        "cargo or the program has another use for it"
    } else {
        return Ok(name.to_owned());
    };
    Err(format!("`{name}` cannot be the name of a program: {why}"))
}

/// Writes the program `name` into the folder `to`.
fn write(template: &Path, to: &Path, name: &str) -> Result<(), Box<dyn Error>> {
    copy(template, to).map_err(|error| format!("{}: {error}", template.display()))?;
    for file in SUBSTITUTED {
        let path = to.join(file);
        let text = substitute(&fs::read_to_string(&path)?, name, root())?;
        fs::write(&path, text)?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let (path, to) = (entry.path(), to.join(name.trim_end_matches(LIQUID)));
        if LEFT_OUT.contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() {
            fs::create_dir(&to)?;
            copy(&path, &to)?;
        } else {
            fs::copy(&path, &to)?;
        }
    }
    Ok(())
}

/// A file of the template with the program's name, and with the packages of the checkout.
fn substitute(template: &str, name: &str, checkout: &Path) -> Result<String, String> {
    let known = template.replace("{{project-name}}", "").replace(PLACE, "");
    if let Some((_, rest)) = known.split_once("{{") {
        let unknown = rest.lines().next().unwrap_or(rest);
        return Err(format!(
            "the template has a placeholder that this task does not know: {{{{{unknown}"
        ));
    }
    let mut text = template.replace("{{project-name}}", name);
    for (package, folder) in PACKAGES {
        let package = format!("package = \"{package}\"\n");
        let path = format!("path = {}\n", quoted(&checkout.join(folder))?);
        text = text.replace(&format!("{package}{PLACE}"), &format!("{package}{path}"));
    }
    match text.contains(PLACE) {
        false => Ok(text),
        true => Err("the template names a package that this task does not know".to_owned()),
    }
}

/// A path as a string of TOML.
fn quoted(path: &Path) -> Result<String, String> {
    let text = path.to_str().filter(|text| !text.contains(char::is_control));
    let text = text.ok_or_else(|| format!("{}: a manifest cannot hold this path", path.display()))?;
    Ok(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_cargo_refuses_are_refused() {
        for name in ["my-program", "a", "Sums_2", "cuda-rt"] {
            assert_eq!(name_of(&Path::new("/somewhere").join(name)).as_deref(), Ok(name));
        }
        for (path, why) in [
            ("/somewhere/2nd", "begin with a letter"),
            ("/somewhere/_x", "begin with a letter"),
            ("/somewhere/my program", "only letters"),
            ("/somewhere/größe", "only letters"),
            ("/somewhere/a.b", "only letters"),
            ("/somewhere/match", "a word of Rust"),
            ("/somewhere/test", "another use"),
            ("/somewhere/kernels", "another use"),
            ("/somewhere/..", "does not end in a program's name"),
            ("/", "does not end in a program's name"),
        ] {
            let refused = name_of(Path::new(path)).expect_err(path);
            assert!(refused.contains(why), "{path}: {refused}");
        }
    }

    #[test]
    fn an_error_leaves_no_half_of_a_program() {
        let directory = tempfile::tempdir().unwrap();
        let template = directory.path().join("template");
        fs::create_dir(&template).unwrap();
        fs::write(template.join("Cargo.toml.liquid"), "name = \"{{project-name}}\"").unwrap();
        fs::write(template.join("README.md"), "{{unknown}}").unwrap();
        let error = make(&template, &directory.path().join("mine")).unwrap_err();
        assert!(error.to_string().contains("{{unknown}}"), "{error}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn both_ways_to_a_program_substitute_the_same_files() {
        let template = root().join(TEMPLATE);
        let options = fs::read_to_string(template.join("cargo-generate.toml")).unwrap();
        assert!(
            options.contains(&format!("\ninclude = {SUBSTITUTED:?}\n")),
            "{options}"
        );
        let manifest = fs::read_to_string(template.join("Cargo.toml.liquid")).unwrap();
        assert_eq!(manifest.matches(PLACE).count(), PACKAGES.len());
    }

    #[test]
    fn paths_become_strings_of_toml() {
        let quoted = |path: &str| quoted(Path::new(path));
        assert_eq!(quoted("/a b").unwrap(), "\"/a b\"");
        assert_eq!(quoted(r#"C:\x\"y""#).unwrap(), r#""C:\\x\\\"y\"""#);
        assert!(quoted("/a\nb").is_err());
    }

    #[test]
    fn an_unknown_placeholder_is_an_error() {
        let substitute = |text: &str| substitute(text, "mine", Path::new("/there"));
        assert_eq!(substitute("# {{project-name}}").as_deref(), Ok("# mine"));
        let known = format!("package = \"cuda-handoff\"\n{PLACE}");
        let expected = "package = \"cuda-handoff\"\npath = \"/there/cuda-rt\"\n";
        assert_eq!(substitute(&known).as_deref(), Ok(expected));
        assert!(
            substitute("{{crate_name}}")
                .unwrap_err()
                .contains("{{crate_name}}")
        );
        assert!(substitute(&format!("package = \"other\"\n{PLACE}")).is_err());
    }
}
