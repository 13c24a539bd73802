//! Whether entries take what launches pass: the head of an entry against the table that `#[kernel]`
//! left beside it.
//!
//! The table is made by rustc of the same types as the entry, and of the same macro as the launch.
//! What LLVM makes of the types is another matter: for a value of no size the entry has no
//! parameter at all.

use super::error::Refusal;
use super::parse::{Function, Module};

const PREFIX: &str = "__cuda_rt_parameters_";

/// What a parameter is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// No address.
    Value,
    /// The address of what nobody writes during the launch.
    Reads,
    /// The address of what the launch may write.
    Writes,
}

/// What a launch passes.
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

/// Compares, and returns what each parameter is for.
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
            "there is no table `{PREFIX}{}` that says what is passed: was the entry made by another version of `#[kernel]`?",
            entry.name
        ));
    };
    let passed: Vec<CallSite> = table.into_iter().map(CallSite::of).collect();
    for (at, passed) in passed.iter().enumerate() {
        if passed.size == 0 {
            return refuse(format!(
                "number {at} has no size, so the entry has no parameter for it, and all later ones would be shifted: leave it out"
            ));
        }
    }
    if passed.len() != entry.parameters.len() {
        return refuse(format!(
            "{} are passed, and the entry takes {}",
            passed.len(),
            entry.parameters.len()
        ));
    }
    for (at, (passed, taken)) in passed.iter().zip(&entry.parameters).enumerate() {
        if Some(passed.size) != taken.size || passed.align != taken.align {
            return refuse(format!(
                "number {at} is passed as {} bytes aligned to {}, and taken as {} aligned to {}",
                passed.size,
                passed.align,
                taken.size.unwrap_or(0),
                taken.align
            ));
        }
    }
    Ok(passed.iter().map(|passed| passed.role).collect())
}
