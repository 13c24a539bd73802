//! PTX is verified, not trusted: what a kernel's text must have before it may run, whatever
//! compiler wrote it.
//!
//! The types of `device-std` see to it that block-level code is the same for all threads. LLVM
//! keeps this only as far as it knows of it: it may give a NaN other bits in one thread than in
//! another, or make a register of a static. So the text that runs is proved once more:
//!
//! - every barrier is met by all threads of the block, and every exchange by all lanes of the warp
//!   (`uniform`, `graph`, `interval`);
//! - no memory of the module is written, and what goes through the read-only cache is not written
//!   (`origin`, `check`);
//! - entries take the parameters that a launch passes (`parameters`);
//! - no function is recursive.
//!
//! What cannot be proved is refused: the verifier may refuse a program that is right, and never
//! accepts one that is not.

mod body;
mod check;
mod definitions;
mod error;
mod graph;
mod instruction;
mod interval;
mod lex;
mod origin;
mod parameters;
mod parse;
mod reason;
mod uniform;
mod variable;

pub use check::Proved;
pub use error::{Place, Reasons, Refusal};

use check::{Checker, check_variables};
use parameters::Role;
use parse::{Function, Module};

/// What was proved of a module.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Verified {
    /// Each entry, and what it has of barriers and exchanges.
    pub entries: Vec<(String, Proved)>,
}

/// Proves that threads meet where they must, in each entry of a text of PTX: barriers and exchanges
/// only.
///
/// # Errors
/// The first thing that cannot be proved, or read.
pub fn verify_threads(ptx: &str) -> Result<Verified, Refusal> {
    let mut verified = Verified::default();
    for module in &modules(ptx)? {
        prove(module, &mut verified, |_| Ok(Vec::new()))?;
    }
    Ok(verified)
}

/// Proves of a text of PTX what kernels written with `device-std` have. It holds one module, or one
/// for each of several architectures.
///
/// # Errors
/// The first thing that cannot be proved, or read.
pub fn verify(ptx: &str) -> Result<Verified, Refusal> {
    let mut verified = Verified::default();
    for module in &modules(ptx)? {
        check_variables(module)?;
        prove(module, &mut verified, |entry| parameters::compare(module, entry))?;
    }
    Ok(verified)
}

/// The text with what the proof needs: where it fails for it, registers that some path would read
/// unwritten are written.
///
/// # Errors
/// What can't be read.
pub(crate) fn provable(ptx: String) -> Result<String, Refusal> {
    if verify(&ptx).is_ok() {
        return Ok(ptx);
    }
    definitions::write_unwritten(&ptx)
}

fn modules(ptx: &str) -> Result<Vec<Module<'_>>, Refusal> {
    let mut modules = Module::parse(ptx)?;
    modules.iter_mut().try_for_each(definitions::name_values)?;
    Ok(modules)
}

fn prove(
    module: &Module<'_>,
    verified: &mut Verified,
    roles: impl Fn(&Function<'_>) -> Result<Vec<Role>, Refusal>,
) -> Result<(), Refusal> {
    let checker = Checker::new(module)?;
    for function in module.functions.iter().filter(|function| function.is_entry) {
        let proved = checker.entry(function, &roles(function)?)?;
        verified.entries.push((function.name.to_owned(), proved));
    }
    Ok(())
}

#[cfg(test)]
mod called;
#[cfg(test)]
mod mutants;
#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;
