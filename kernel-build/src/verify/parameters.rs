//! Compares the parameters of an entry with the parameters that a launch passes. `#[kernel]` puts a
//! table of them beside the entry.
//!
//! rustc makes the table from the entry's own types, and one macro makes the table and the launch.
//! LLVM may still compile the types in another way: for a value of no size, the entry has no
//! parameter at all.

use super::error::Refusal;
use super::parse::{Function, Module};

const PREFIX: &str = "__cuda_rt_parameters_";

/// The role of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A value that is not an address.
    Value,
    /// The address of memory that nobody writes during the launch.
    Reads,
    /// The address of memory that the launch may write.
    Writes,
}

/// A parameter that a launch passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CallSite {
    size: u64,
    align: u64,
    role: Role,
}

impl CallSite {
    fn of(word: u64) -> Self {
        let role = match word >> 48 {
            0 => Role::Value,
            1 => Role::Reads,
            _ => Role::Writes,
        };
        Self {
            size: word & 0xffff_ffff,
            align: word >> 32 & 0xffff,
            role,
        }
    }
}

/// Compares the parameters, and returns the role of each.
pub(super) fn compare(module: &Module<'_>, entry: &Function<'_>) -> Result<Vec<Role>, Refusal> {
    let refuse = |difference: String| {
        Err(Refusal::Parameters {
            kernel: entry.name.to_owned(),
            difference,
        })
    };
    let table = module
        .variables
        .iter()
        .find(|v| v.name.strip_prefix(PREFIX) == Some(entry.name));
    let Some(table) = table.and_then(|table| table.words()) else {
        return refuse(format!(
            "the table `{PREFIX}{}` of the passed parameters is missing: did another version of `#[kernel]` make the entry?",
            entry.name
        ));
    };
    let passed: Vec<CallSite> = table.into_iter().map(CallSite::of).collect();
    for (at, passed) in passed.iter().enumerate() {
        if passed.size == 0 {
            return refuse(format!(
                "parameter {at} has no size, so the entry has no parameter for it, and each later argument would arrive one place too early: remove it"
            ));
        }
    }
    if passed.len() != entry.parameters.len() {
        return refuse(format!(
            "a launch passes {} parameters, and the entry takes {}",
            passed.len(),
            entry.parameters.len()
        ));
    }
    for (at, (passed, taken)) in passed.iter().zip(&entry.parameters).enumerate() {
        if Some(passed.size) != taken.size || passed.align != taken.align {
            return refuse(format!(
                "parameter {at} is passed as {} bytes aligned to {}, and taken as {} bytes aligned to {}",
                passed.size,
                passed.align,
                taken.size.unwrap_or(0),
                taken.align
            ));
        }
    }
    Ok(passed.iter().map(|passed| passed.role).collect())
}
