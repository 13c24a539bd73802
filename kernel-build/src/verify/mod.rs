//! The verifier proves PTX before it may run, and trusts no compiler.
//!
//! The types of `device-std` make block-level code run alike in all threads. LLVM does not know
//! this rule, and may break it: it may give a NaN different bits in two threads, or turn a static
//! into a register. Therefore the verifier proves these properties of the text itself:
//!
//! - all threads of the block meet every barrier, and all lanes of the warp meet every exchange
//!   (`uniform`, `graph`, `interval`);
//! - a kernel writes neither memory of the module, nor memory that it reads through the read-only
//!   cache (`origin`, `check`);
//! - entries take the parameters that a launch passes (`parameters`);
//! - each thread ends by a return or by a trap (`ends`), and writes before what it returns
//!   (`filled`);
//! - each loop that may never end contains an instruction that NVIDIA's compiler keeps (`loops`,
//!   `counter`);
//! - where someone may look at the bits of a NaN, its sign is what LLVM believes (`nan_bits`);
//! - null is no address of shared or local memory, and comes back from there as null (`null`);
//! - a product of twice the size has the sign that LLVM means (`wide`);
//! - no name means two things (`names`);
//! - no variable is so large that offsets wrap (`sizes`);
//! - no function is recursive.
//!
//! It follows values only through instructions and operands that it understands, and refuses a text
//! with any other (`instruction`, `operands`). It reads each directive by its own grammar, and
//! skips nothing but spaces and comments (`lex`, `directives`).
//!
//! The verifier refuses each text that it cannot prove. It may refuse a correct program, but never
//! accepts a wrong one.

mod access;
mod body;
mod bytes;
mod check;
mod conversion;
mod counter;
mod definitions;
mod directives;
mod ends;
mod error;
mod exact_nans;
mod filled;
mod graph;
mod hints;
mod instruction;
mod interval;
mod lex;
mod loops;
mod name_parts;
mod names;
mod nan_bits;
mod null;
mod operands;
mod origin;
mod parameters;
mod parse;
mod reason;
mod sizes;
mod uniform;
mod variable;
mod wide;
mod written;

pub use check::Proved;
pub(crate) use error::text;
pub use error::{Place, Reasons, Refusal};

use check::{Checker, check_variables};
use parameters::Role;
pub(crate) use parameters::versions;
use parse::{Function, Module};
pub(crate) use sizes::MOST_LOCAL_BYTES;

/// The result of a proof.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Verified {
    /// Each entry, with its number of barriers and exchanges.
    pub entries: Vec<(String, Proved)>,
}

/// What `#[kernel]` has written beside an entry about the blocks of its launches.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EntryBlock {
    /// The entry's name.
    pub entry: String,
    /// Threads of a block; `None` for a kernel of single threads, whose launches choose the size.
    pub threads: Option<u64>,
    /// Shared memory of a block, in bytes: the sum of the kernel's `BlockUninit`s.
    pub shared_bytes: u64,
}

/// Reads what the entries of a PTX text say of their blocks. An entry that `#[kernel]` did not make
/// is left out.
///
/// ```
/// let ptx = ".version 7.0\n.target sm_80\n.address_size 64\n\
///     .visible .global .align 8 .u64 __cuda_rt_layout_k[8] = {1, 1, 32, 4, 0, 512, 16, 4};\n\
///     .visible .entry k() {\nret;\n}\n";
/// let blocks = kernel_build::verify::entry_blocks(ptx).unwrap();
/// assert_eq!((blocks[0].threads, blocks[0].shared_bytes), (Some(128), 512));
/// ```
///
/// # Errors
/// The first part of the text that cannot be read.
pub fn entry_blocks(ptx: &str) -> Result<Vec<EntryBlock>, Refusal> {
    let modules = Module::parse(ptx)?;
    let entries = modules.iter().flat_map(|module| {
        let entries = module.functions.iter().filter(|function| function.is_entry);
        entries.filter_map(|entry| parameters::block(module, entry.name))
    });
    Ok(entries.collect())
}

/// Proves for each entry of a PTX text that threads meet at barriers and exchanges. It proves
/// nothing about memory and parameters.
///
/// ```
/// use kernel_build::verify::verify_threads;
///
/// let kernel = |guard: &str| format!(
///     ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k() {{\n\
///      .reg .pred %p;\n.reg .b32 %r;\nmov.u32 %r, %tid.x;\nsetp.eq.s32 %p, %r, 0;\n\
///      {guard} bar.sync 0;\nret;\n}}\n"
/// );
/// assert_eq!(verify_threads(&kernel("")).unwrap().entries[0].1.barriers, 1);
/// assert!(verify_threads(&kernel("@%p")).is_err());
/// ```
///
/// # Hazards prevented
/// [H32](https://docs.rs/cuda-handoff-device/latest/device_std/hazards/index.html#h32) (threads
/// diverge at a barrier).
///
/// # Errors
/// The first part of the text that cannot be proved or read.
pub fn verify_threads(ptx: &str) -> Result<Verified, Refusal> {
    let mut verified = Verified::default();
    for module in &modules(ptx)? {
        prove(&Checker::new(module)?, &mut verified, |_| Ok(Vec::new()))?;
    }
    Ok(verified)
}

/// Proves all properties that kernels written with `device-std` must have. The text holds one
/// module, or one for each of several architectures.
///
/// # Errors
/// The first part of the text that cannot be proved or read.
pub fn verify(ptx: &str) -> Result<Verified, Refusal> {
    let mut verified = Verified::default();
    for module in &modules(ptx)? {
        check_variables(module)?;
        nan_bits::check(module)?;
        null::check(module)?;
        wide::check(module)?;
        let checker = Checker::new(module)?;
        prove(&checker, &mut verified, |entry| {
            parameters::compare(module, entry)
        })?;
        loops::check(&checker)?;
    }
    Ok(verified)
}

/// Makes a text provable. It leaves hints out. It writes a trap before each `exit`, and
/// instructions that are exact for NaNs where someone may look at their bits, and for null where
/// it may stand beside an address of shared or local memory. It adds an instruction to each loop
/// that may never end, so that NVIDIA's compiler keeps the loop. If the proof fails, it writes a
/// value into the registers that a path reads before any write. If the proof still fails, it does
/// the same for arguments of calls, and then for local memory.
///
/// # Errors
/// A part of the text that cannot be read.
pub(crate) fn provable(ptx: String) -> Result<String, Refusal> {
    let ptx = ends::trap_before_exits(&hints::without(&ptx));
    let ptx = exact_nans::rewrite(&ptx)?;
    let ptx = null::rewrite(&ptx)?;
    let ptx = loops::keep(&ptx)?;
    if verify(&ptx).is_ok() {
        return Ok(ptx);
    }
    let ptx = definitions::write_unwritten(&ptx)?;
    if verify(&ptx).is_ok() {
        return Ok(ptx);
    }
    let ptx = written::write_arguments(&ptx)?;
    if verify(&ptx).is_ok() {
        return Ok(ptx);
    }
    written::write_local(&ptx)
}

fn modules(ptx: &str) -> Result<Vec<Module<'_>>, Refusal> {
    let mut modules = Module::parse(ptx)?;
    modules.iter().try_for_each(names::check)?;
    modules.iter().try_for_each(operands::check)?;
    modules.iter().try_for_each(ends::check)?;
    modules.iter().try_for_each(sizes::check)?;
    modules.iter_mut().try_for_each(definitions::name_values)?;
    Ok(modules)
}

fn prove(
    checker: &Checker<'_, '_>,
    verified: &mut Verified,
    roles: impl Fn(&Function<'_>) -> Result<Vec<Role>, Refusal>,
) -> Result<(), Refusal> {
    for function in checker
        .module
        .functions
        .iter()
        .filter(|function| function.is_entry)
    {
        let proved = checker.entry(function, &roles(function)?)?;
        verified.entries.push((function.name.to_owned(), proved));
    }
    Ok(())
}

#[cfg(test)]
mod called;
#[cfg(test)]
mod converted_nans;
#[cfg(test)]
mod endless;
#[cfg(test)]
mod memory_oracle;
#[cfg(test)]
mod mutants;
#[cfg(test)]
mod nans;
#[cfg(test)]
mod oracle;
#[cfg(test)]
mod random_loops;
#[cfg(test)]
mod random_mutants;
#[cfg(test)]
mod refused;
#[cfg(test)]
mod refused_memory;
#[cfg(test)]
mod refused_null;
#[cfg(test)]
mod refused_wide;
#[cfg(test)]
mod spaces;
#[cfg(test)]
mod tests;
