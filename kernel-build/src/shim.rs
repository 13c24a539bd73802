//! A package around one module of the user's, so that it can be compiled for the GPU without the
//! rest.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::BuildError;
use crate::toolchain::Toolchain;

/// The package made.
pub(crate) struct Shim {
    pub(crate) package: PathBuf,
    /// For `--remap-path-prefix`: the user's paths, as they are within the package.
    pub(crate) remap: String,
}

/// Writes the package into `directory`. The module stays where it is, so that errors are shown
/// there.
pub(crate) fn write(toolchain: &Toolchain, module: &Path, directory: &Path) -> Result<Shim, BuildError> {
    let module = module
        .canonicalize()
        .map_err(|error| BuildError::not_a_crate(module, error.to_string()))?;
    let owner = owner(&module)
        .ok_or_else(|| BuildError::not_a_crate(&module, "no Cargo.toml lies above it".to_owned()))?;
    let metadata = metadata(toolchain, &owner)?;
    let (package, device_std) = packages(&metadata, &owner).ok_or_else(|| BuildError::NoDeviceStd {
        path: owner.to_owned(),
    })?;

    let name = module_name(&module)
        .ok_or_else(|| BuildError::not_a_crate(&module, "it is called by no name".to_owned()))?;
    let mut text = toml_manifest(package, &device_std);
    replace(&directory.join("Cargo.toml"), &text)?;
    // The package may forbid `unsafe` in its root, which is not compiled here.
    text = format!(
        "#![cfg_attr(target_arch = \"nvptx64\", no_std, feature(abi_ptx))]\n#![forbid(unsafe_code)]\n\
         #[path = {module:?}]\nmod {name};\n"
    );
    replace(&directory.join("src/lib.rs"), &text)?;
    // The versions that the user's package is built with, where they are locked.
    if let Some(root) = metadata["workspace_root"].as_str()
        && let Ok(lock) = fs::read_to_string(Path::new(root).join("Cargo.lock"))
    {
        // Only at first: cargo leaves out what the shim does not need, and would do it again each
        // time.
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

/// The directory of the nearest `Cargo.toml` above.
fn owner(module: &Path) -> Option<PathBuf> {
    let above = module.ancestors().skip(1);
    above
        .map(Path::to_owned)
        .find(|path| path.join("Cargo.toml").is_file())
}

/// `kernels` for `kernels.rs` and for `kernels/mod.rs`.
fn module_name(module: &Path) -> Option<&str> {
    let stem = module.file_stem()?.to_str()?;
    if stem == "mod" {
        return module.parent()?.file_name()?.to_str();
    }
    Some(stem)
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

/// The user's package, and where the `device-std` that it depends on lies.
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

/// Called as the user's package: entries are named after it.
fn toml_manifest(package: &Value, device_std: &Path) -> String {
    let field = |name: &str| package[name].as_str().unwrap_or("").to_owned();
    let dependencies = package["dependencies"].as_array().into_iter().flatten();
    // As the package asks for it: on the host it may be built with more, by others.
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

/// Leaves a file alone that is as it should be, so that cargo has nothing to build again.
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
    fn a_module_is_called_as_its_file_or_directory() {
        for (path, name) in [("src/kernels.rs", "kernels"), ("src/gpu/mod.rs", "gpu")] {
            assert_eq!(module_name(Path::new(path)), Some(name));
        }
    }
}
