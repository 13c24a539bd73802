use std::process::Command;

/// Variables of cargo and rustup that hold places, and do not control the outer build.
const KEPT: [&str; 2] = ["CARGO_HOME", "RUSTUP_HOME"];
/// Prefixes of network settings, which the inner cargo needs as the outer one does.
const KEPT_PREFIXES: [&str; 4] = [
    "CARGO_HTTP_",
    "CARGO_NET_",
    "CARGO_REGISTRIES_",
    "CARGO_REGISTRY_",
];

/// Whether a variable of the outer build would change the inner build: its compiler, flags, target,
/// wrapper, profile or job server.
fn interferes(name: &str) -> bool {
    if KEPT.contains(&name) || KEPT_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        return false;
    }
    name == "CARGO"
        || name.starts_with("CARGO_")
        || name.starts_with("RUST")
        || matches!(name, "MAKEFLAGS" | "MFLAGS")
}

/// Removes the outer build's variables from the environment of `command`.
pub(crate) fn clean(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(interferes) {
            command.env_remove(name);
        }
    }
    command
}

#[cfg(test)]
mod tests {
    use super::interferes;

    #[test]
    fn variables_that_control_the_outer_build_are_removed() {
        for name in [
            "CARGO",
            "CARGO_TARGET_DIR",
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_BUILD_TARGET",
            "CARGO_PKG_NAME",
            "RUSTFLAGS",
            "RUSTC",
            "RUSTC_WRAPPER",
            "RUSTUP_TOOLCHAIN",
            "CARGO_MAKEFLAGS",
            "MAKEFLAGS",
        ] {
            assert!(interferes(name), "{name}");
        }
    }

    #[test]
    fn homes_and_network_settings_are_kept() {
        for name in [
            "CARGO_HOME",
            "RUSTUP_HOME",
            "CARGO_HTTP_PROXY",
            "CARGO_NET_OFFLINE",
            "CARGO_REGISTRIES_MINE_TOKEN",
            "PATH",
            "HOME",
        ] {
            assert!(!interferes(name), "{name}");
        }
    }
}
