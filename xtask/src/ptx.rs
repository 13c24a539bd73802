//! `cargo xtask ptx`: builds the committed PTX, or compares it with a new build.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use kernel_build::{Kernels, Module};

use crate::{new, ptxas};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the workspace")
}

/// The kernels that test the device library. Some use local memory, as the tests want it.
const TEST_KERNELS: &str = "device-std/tests/kernels";

/// Crates of kernels, each with its committed PTX: the shipped kernels, and the kernels that test
/// the device library and its panics.
const CRATES: [(&str, &str); 3] = [
    ("device-kernels", "ptx/device_kernels.ptx"),
    (TEST_KERNELS, "ptx/library_kernels.ptx"),
    ("device-std/tests/panics", "ptx/panicking_kernels.ptx"),
];

fn compile(path: &str) -> Result<Module, Box<dyn Error>> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let mut kernels = Kernels::new(root().join(path));
    if path == TEST_KERNELS {
        kernels = kernels.local_memory("*");
    }
    Ok(kernels.compile(target.join("ptx"))?)
}

/// Builds the crates of kernels and those of the template, and writes their PTX.
pub(crate) fn write() -> Result<(), Box<dyn Error>> {
    for (path, ptx) in CRATES {
        let module = compile(path)?;
        fs::write(root().join(path).join(ptx), &module.ptx)?;
        println!("{path}: {} kernels, by {}", module.entries.len(), module.compiler);
    }
    // A test compares the template's PTX: `xtask/tests/new.rs`.
    new::write_ptx()
}

/// Fails if committed PTX differs from a new build, or if `ptxas` refuses it.
pub(crate) fn check() -> Result<(), Box<dyn Error>> {
    for (path, ptx) in CRATES {
        let module = compile(path)?;
        let committed = fs::read_to_string(root().join(path).join(ptx))?;
        if let Some(difference) = difference(&committed, &module.ptx) {
            return Err(format!("{path}/{ptx} is stale: run `cargo xtask ptx`\n{difference}").into());
        }
        println!(
            "{path}: fresh, {} kernels, by {}",
            module.entries.len(),
            module.compiler
        );
        ptxas::assemble(&committed)?;
    }
    Ok(())
}

/// The first lines that differ. The very first line of PTX names the compiler, so the message tells
/// a change of compiler from a change of source.
fn difference(committed: &str, built: &str) -> Option<String> {
    let (mut left, mut right) = (committed.lines(), built.lines());
    let mut number = 0;
    loop {
        number += 1;
        match (left.next(), right.next()) {
            (None, None) => return None,
            (left, right) if left == right => {}
            (left, right) => {
                let [left, right] = [left, right].map(|line| line.unwrap_or("(the end)"));
                return Some(format!(
                    "line {number}\n  committed: {left}\n  built now: {right}"
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn the_first_line_that_differs_is_shown() {
        assert_eq!(difference("a\nb\n", "a\nb\n"), None);
        assert!(difference("a\nb\n", "a\nc\n").unwrap().contains("line 2"));
        assert!(difference("a\n", "a\nb\n").unwrap().contains("(the end)"));
    }
}
