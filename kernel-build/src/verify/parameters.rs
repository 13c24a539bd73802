//! Compares the parameters of an entry with the parameters that a launch passes. `#[kernel]` puts a
//! table of them beside the entry.
//!
//! `#[kernel]` also leaves a layout table, which the host compares with its own when the kernel is
//! first used (`compare_layouts` of `driver-cuda`). A launch passes an address for each row of a
//! buffer, as the row's use says. So both tables must give each parameter the same role: an input
//! of the layout table must not be an output here.
//!
//! rustc makes the table from the entry's own types, and one macro makes the table and the launch.
//! LLVM may still compile the types in another way: for a value of no size, the entry has no
//! parameter at all.

use super::EntryBlock;
use super::error::Refusal;
use super::parse::{Function, Module};

const PREFIX: &str = "__cuda_rt_parameters_";
const LAYOUT_PREFIX: &str = "__cuda_rt_layout_";

/// The words of a row of the layout table, and the uses in its last word (`device_std::rt::Row`).
const ROW: usize = 4;
const VALUE: u64 = 1;
const BOOL: u64 = 2;
const READS: u64 = 3;
const SHARED: u64 = 4;
const WRITES: u64 = 5;
const FILLS: u64 = 6;

/// The role of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A value that is not an address.
    Value,
    /// The address of memory that nobody writes during the launch.
    Reads,
    /// The address of memory that the launch may write.
    Writes,
    /// The address of memory that may hold nothing before the launch. The launch writes it, and
    /// does not read it.
    Fills,
}

impl Role {
    fn words(self) -> &'static str {
        match self {
            Self::Value => "a value",
            Self::Reads => "the address of an input",
            Self::Writes => "the address of an output",
            Self::Fills => "the address of the output of what the kernel returns",
        }
    }
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
            3 => Role::Fills,
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
    let layout = format!("{LAYOUT_PREFIX}{}", entry.name);
    let table = module.variables.iter().find(|v| v.name == layout);
    let Some(told) = table.and_then(|table| by_layout(&table.words()?)) else {
        return refuse(format!(
            "the layout table `{layout}` is missing, or has a form that the verifier does not know"
        ));
    };
    let told = told.iter().map(Some).chain(std::iter::repeat(None));
    let both = passed
        .iter()
        .map(Some)
        .chain(std::iter::repeat(None))
        .zip(told)
        .enumerate();
    for (at, (passed, told)) in both {
        match (passed, told) {
            (None, None) => break,
            (passed, told) if passed == told => {}
            (passed, told) => {
                let words = |site: Option<&CallSite>| {
                    site.map_or("nothing".to_owned(), |site| {
                        format!(
                            "{} of {} bytes aligned to {}",
                            site.role.words(),
                            site.size,
                            site.align
                        )
                    })
                };
                return refuse(format!(
                    "parameter {at} is {} in the table of parameters, and {} in the layout table",
                    words(passed),
                    words(told)
                ));
            }
        }
    }
    Ok(passed.iter().map(|passed| passed.role).collect())
}

/// The version of `device-std` that made each entry, from the upper half of the first number of its
/// layout table. Entries without a layout table that can be read are left out: [`compare`] refuses
/// them.
pub(crate) fn versions(ptx: &str) -> Result<Vec<(String, u64)>, Refusal> {
    let modules = Module::parse(ptx)?;
    let tables = modules.iter().flat_map(|module| &module.variables);
    let versions = tables.filter_map(|table| {
        let entry = table.name.strip_prefix(LAYOUT_PREFIX)?;
        Some((entry.to_owned(), table.words()?.first()? >> 32))
    });
    Ok(versions.collect())
}

/// The parameters of a kernel with this layout table: one for each scalar, an address and a length
/// for each buffer, and the extent of the launch at the end. The first row is about the launch.
fn by_layout(words: &[u64]) -> Option<Vec<CallSite>> {
    let (rows, []) = words.as_chunks::<ROW>() else {
        return None;
    };
    let (_, rows) = rows.split_first()?;
    let of = |size, align, role| CallSite { size, align, role };
    let buffer = |role| [of(8, 8, role), of(8, 8, Role::Value)];
    let mut told = Vec::new();
    for [_, size, align, used] in rows {
        match used & 0xff {
            VALUE | BOOL => told.push(of(*size, *align, Role::Value)),
            READS => told.extend(buffer(Role::Reads)),
            WRITES => told.extend(buffer(Role::Writes)),
            FILLS => told.extend(buffer(Role::Fills)),
            SHARED => {}
            _ => return None,
        }
    }
    told.push(of(24, 8, Role::Value));
    Some(told)
}

/// What the layout table of an entry says of its blocks; `None` without a table of a known form.
pub(super) fn block(module: &Module<'_>, entry: &str) -> Option<EntryBlock> {
    let layout = module
        .variables
        .iter()
        .find(|v| v.name.strip_prefix(LAYOUT_PREFIX) == Some(entry))?;
    let words = layout.words()?;
    by_layout(&words)?;
    let (rows, _) = words.as_chunks::<ROW>();
    let ([_, takes_a_block, x, y], rows) = rows.split_first()?;
    let shared = rows.iter().filter(|[.., used]| *used == SHARED);
    Some(EntryBlock {
        entry: entry.to_owned(),
        threads: (*takes_a_block == 1).then(|| x.saturating_mul(*y)),
        shared_bytes: shared.fold(0, |sum, [_, size, ..]| sum.saturating_add(*size)),
    })
}

/// A layout table for a test: its declaration, for an entry with these words in its table of
/// parameters. Behind each address must stand the word of a length, and at the end the word of an
/// extent.
#[cfg(test)]
pub(super) fn layout_for_tests(entry: &str, words: &[u64]) -> String {
    let mut rows = vec![[1, 0, 0, 0]];
    let mut words = words[..words.len() - 1].iter().map(|word| CallSite::of(*word));
    while let Some(CallSite { size, align, role }) = words.next() {
        let used = match role {
            Role::Value => VALUE,
            Role::Reads => READS,
            Role::Writes => WRITES | 0x100,
            Role::Fills => FILLS | 0x100,
        };
        rows.push([0, size, align, used]);
        if role != Role::Value {
            words.next();
        }
    }
    let words: Vec<String> = rows.as_flattened().iter().map(u64::to_string).collect();
    format!(
        ".visible .global .align 8 .u64 {LAYOUT_PREFIX}{entry}[{}] = {{{}}};\n",
        words.len(),
        words.join(", ")
    )
}
