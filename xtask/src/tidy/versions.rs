//! The versions by which the packages of this workspace ask for each other.
//!
//! They call each other's hidden items, which any version may change: a macro of one package writes
//! calls of another, and both must be of one version. So each asks for exactly the other's version.
//! Counterexample: `version = "0.1.0"` admits 0.1.7, and cargo takes the newest package of each
//! name that it finds.

use std::error::Error;
use std::process::Command;

use serde::Deserialize;

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    dependencies: Vec<Dependency>,
    /// The registries that may have it: an empty list for a package that is never published.
    publish: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    req: String,
    /// `dev`, `build`, or nothing.
    kind: Option<String>,
    path: Option<String>,
}

/// The errors of all manifests of the workspace.
pub(crate) fn wrong() -> Result<Vec<String>, Box<dyn Error>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version=1"])
        .current_dir(super::root())
        .output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`cargo metadata` cannot read the manifests: {said}").into());
    }
    let (between, wrong) = of(&String::from_utf8(output.stdout)?)?;
    if between == 0 {
        return Err("no package depends on another: has the form of the metadata changed?".into());
    }
    Ok(wrong)
}

/// The number of dependencies between packages of the workspace, and the errors.
fn of(metadata: &str) -> Result<(usize, Vec<String>), serde_json::Error> {
    let Metadata { packages } = serde_json::from_str(metadata)?;
    let (mut between, mut wrong) = (0, Vec::new());
    for package in &packages {
        for dependency in &package.dependencies {
            let Some(of) = packages.iter().find(|other| other.name == dependency.name) else {
                continue;
            };
            between += 1;
            // No registry hears of a path alone: publishing leaves it out.
            let is_published = package
                .publish
                .as_ref()
                .is_none_or(|registries| !registries.is_empty());
            let stays_here = dependency.path.is_some() && dependency.req == "*";
            let may_stay = !is_published || dependency.kind.as_deref() == Some("dev");
            let exact = format!("={}", of.version);
            if (dependency.req != exact || dependency.path.is_none()) && !(stays_here && may_stay) {
                wrong.push(format!(
                    "{}: asks for `{}` of version `{}`: write `{exact}`, and the path",
                    package.name, dependency.name, dependency.req
                ));
            }
        }
    }
    Ok((between, wrong))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(req: &str, kind: &str, path: &str, publish: &str) -> String {
        format!(
            r#"{{"packages": [
                {{"name": "a", "version": "0.1.2", "dependencies": [], "publish": null}},
                {{"name": "b", "version": "0.1.2", "publish": {publish}, "dependencies": [
                    {{"name": "a", "req": "{req}", "kind": {kind}, "path": {path}}},
                    {{"name": "libc", "req": "^0.2", "kind": null, "path": null}}
                ]}}
            ]}}"#
        )
    }

    #[test]
    fn the_packages_of_this_workspace_ask_for_exact_versions() {
        assert_eq!(wrong().unwrap(), [""; 0]);
    }

    #[test]
    fn a_dependency_without_its_exact_version_is_refused() {
        let here = "\"/a\"";
        let wrong = |req: &str, kind, path, publish| {
            let (between, wrong) = of(&metadata(req, kind, path, publish)).unwrap();
            assert_eq!(between, 1);
            wrong
        };
        assert_eq!(
            wrong("^0.1.2", "null", here, "null"),
            ["b: asks for `a` of version `^0.1.2`: write `=0.1.2`, and the path"]
        );
        for kind in ["null", "\"dev\"", "\"build\""] {
            assert_eq!(wrong("=0.1.2", kind, here, "null"), [""; 0]);
            assert_eq!(wrong("^0.1.2", kind, here, "null").len(), 1);
            assert_eq!(wrong("=0.1.1", kind, here, "null").len(), 1);
            assert_eq!(wrong("=0.1.2", kind, "null", "null").len(), 1);
        }
        // A path alone.
        assert_eq!(wrong("*", "null", here, "null").len(), 1);
        assert_eq!(wrong("*", "\"dev\"", here, "null"), [""; 0]);
        assert_eq!(wrong("*", "null", here, "[]"), [""; 0]);
        assert_eq!(wrong("*", "null", "null", "[]").len(), 1);
    }
}
