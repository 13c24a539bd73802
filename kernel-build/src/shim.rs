//! A package around one module of the user's package, so that the module can be compiled for the
//! GPU alone.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::BuildError;
use crate::toolchain::Toolchain;

/// The package that was written.
pub(crate) struct Shim {
    pub(crate) package: PathBuf,
    /// Argument of `--remap-path-prefix`: shortens the user's paths to paths within the package.
    pub(crate) remap: String,
}

/// Writes the package into `directory`. The module stays in its place, so that errors name the
/// user's file.
pub(crate) fn write(toolchain: &Toolchain, module: &Path, directory: &Path) -> Result<Shim, BuildError> {
    let module = module
        .canonicalize()
        .map_err(|error| BuildError::not_a_crate(module, error.to_string()))?;
    let owner = owner(&module).ok_or_else(|| {
        BuildError::not_a_crate(&module, "no directory above it has a Cargo.toml".to_owned())
    })?;
    let metadata = metadata(toolchain, &owner)?;
    let (package, device_std) = packages(&metadata, &owner).ok_or_else(|| BuildError::NoDeviceStd {
        path: owner.to_owned(),
    })?;

    let (parent, name) = place(&module)
        .ok_or_else(|| BuildError::not_a_crate(&module, "its file has no name in `.rs`".to_owned()))?;
    if !is_identifier(name) {
        let why = format!("`{name}` is not the name of a Rust module: rename the file or folder");
        return Err(BuildError::not_a_crate(&module, why));
    }
    let mut text = toml_manifest(package, &device_std);
    replace(&directory.join("Cargo.toml"), &text)?;
    // The package may forbid `unsafe` in its root, but its root is not compiled here.
    //
    // The path stands at the module around it, and means a directory there. So rustc finds the file
    // by its name, and then its submodules where the host finds them: those of `kernels.rs` in
    // `kernels`. A path at the module itself would move them beside the file.
    //
    // The name is raw, because it may be a keyword: `mod r#match;` is in `match.rs`.
    text = format!(
        "#![cfg_attr(target_arch = \"nvptx64\", no_std, feature(abi_ptx))]\n#![forbid(unsafe_code)]\n\
         #[path = {parent:?}]\nmod {AROUND} {{\n    pub mod r#{name};\n}}\n\
         #[allow(unused_imports)]\npub use {AROUND}::r#{name};\n"
    );
    replace(&directory.join("src/lib.rs"), &text)?;
    // The same versions as in the user's package, if they are locked.
    if let Some(root) = metadata["workspace_root"].as_str()
        && let Ok(lock) = fs::read_to_string(Path::new(root).join("Cargo.lock"))
    {
        // Only the first build copies the file: cargo then removes the packages that the shim does
        // not need, and would have to do it again after each copy.
        let path = directory.join("Cargo.lock");
        if !path.exists() {
            replace(&path, &lock)?;
        }
    }
    Ok(Shim {
        package: directory.to_owned(),
        remap: format!("{}=", owner.display()),
    })
}

/// The directory of the nearest `Cargo.toml` above the module.
fn owner(module: &Path) -> Option<PathBuf> {
    let above = module.ancestors().skip(1);
    above
        .map(Path::to_owned)
        .find(|path| path.join("Cargo.toml").is_file())
}

/// The module around the user's module.
const AROUND: &str = "__cuda_rt_directory";

/// The directory in which a module is found, and its name: `src` and `kernels`, for
/// `src/kernels.rs` and for `src/kernels/mod.rs`.
fn place(module: &Path) -> Option<(&Path, &str)> {
    let file = if module.ends_with("mod.rs") {
        module.parent()?
    } else {
        module.extension().filter(|extension| *extension == "rs")?;
        module
    };
    Some((file.parent()?, file.file_stem()?.to_str()?))
}

/// Whether `r#name` is one identifier of Rust, and nothing more. rustc refuses the few characters
/// that are letters to Unicode, and not to Rust.
fn is_identifier(name: &str) -> bool {
    let mut letters = name.chars();
    letters
        .next()
        .is_some_and(|first| first == '_' || first.is_alphabetic())
        && letters.all(|letter| letter == '_' || letter.is_alphanumeric())
        && !["_", "crate", "self", "super", "Self"].contains(&name)
}

fn metadata(toolchain: &Toolchain, owner: &Path) -> Result<Value, BuildError> {
    let mut cargo = toolchain.cargo();
    cargo
        .args(["metadata", "--format-version=1", "--manifest-path"])
        .arg(owner.join("Cargo.toml"));
    let output = cargo.output().map_err(BuildError::NoRustup)?;
    if !output.status.success() {
        return Err(BuildError::not_a_crate(
            owner,
            String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        ));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| BuildError::not_a_crate(owner, error.to_string()))
}

/// The package whose library is `device_std`.
const DEVICE_STD: &str = "cuda-handoff-device";

/// The user's package, and the directory of the `device-std` that it depends on.
fn packages<'a>(metadata: &'a Value, owner: &Path) -> Option<(&'a Value, PathBuf)> {
    let packages = metadata["packages"].as_array()?;
    let directory = |package: &Value| {
        let manifest = Path::new(package["manifest_path"].as_str()?);
        manifest.parent().map(Path::to_owned)
    };
    let package = packages.iter().find(|p| {
        directory(p)
            .and_then(|directory| directory.canonicalize().ok())
            .as_deref()
            == Some(owner)
    })?;
    let nodes = metadata["resolve"]["nodes"].as_array()?;
    let node = nodes.iter().find(|node| node["id"] == package["id"])?;
    let dependencies = node["deps"].as_array()?;
    let device_std = dependencies.iter().find_map(|dependency| {
        let found = packages.iter().find(|p| p["id"] == dependency["pkg"])?;
        (found["name"] == DEVICE_STD).then_some(found)
    })?;
    Some((package, directory(device_std)?))
}

/// The manifest of the shim. It has the name of the user's package, because entries are named after
/// their package.
fn toml_manifest(package: &Value, device_std: &Path) -> String {
    let field = |name: &str| package[name].as_str().unwrap_or("").to_owned();
    let dependencies = package["dependencies"].as_array().into_iter().flatten();
    // The features that this package asks for. On the host, other packages may ask for more.
    let features: Vec<&str> = dependencies
        .filter(|dependency| dependency["name"] == DEVICE_STD && dependency["kind"].is_null())
        .filter_map(|dependency| dependency["features"].as_array())
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    format!(
        "[package]\nname = {:?}\nversion = {:?}\nedition = {:?}\n\n[lib]\nname = \"kernels_shim\"\n\n\
         [dependencies]\ndevice-std = {{ package = \"{DEVICE_STD}\", path = {device_std:?}, features = {features:?} }}\n\n[workspace]\n",
        field("name"),
        field("version"),
        field("edition"),
    )
}

/// Writes a file, unless it has this text already: cargo would build again after a write.
fn replace(path: &Path, text: &str) -> Result<(), BuildError> {
    if fs::read_to_string(path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(BuildError::io(directory))?;
    }
    fs::write(path, text).map_err(BuildError::io(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_has_the_name_of_its_file_or_directory() {
        for (path, name) in [("/src/kernels.rs", "kernels"), ("/src/gpu/mod.rs", "gpu")] {
            assert_eq!(place(Path::new(path)), Some((Path::new("/src"), name)));
        }
        assert_eq!(place(Path::new("/src/kernels.txt")), None);
    }

    /// The name goes into the source of the package.
    #[test]
    fn a_name_is_one_identifier() {
        for name in ["kernels", "match", "_gpu", "größe", "k2"] {
            assert!(is_identifier(name), "{name}");
        }
        for name in [
            "",
            "_",
            "self",
            "crate",
            "2k",
            "my-kernels",
            "a b",
            "a;",
            "a{}",
            "a\n",
            "r#a",
            "a\"",
            "a.b",
            "a//",
        ] {
            assert!(!is_identifier(name), "{name}");
        }
    }
}
