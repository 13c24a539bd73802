//! What a loaded kernel needs, and the launches that suit it. Nothing here enqueues work.

use std::ffi::c_int;

use super::context::Context;
use super::ffi::CUfunction_attribute as Attribute;
use super::module::Modules;
use cuda_rt_driver::{DriverResult, Kernel, KernelAttributes, SuggestedBlock};

/// Reads a kernel's attributes (`cuFuncGetAttribute`).
pub(super) fn attributes(
    context: &Context,
    modules: &Modules,
    kernel: &'static Kernel,
) -> DriverResult<KernelAttributes> {
    let function = modules.function(context, kernel)?;
    let _entered = context.enter()?;
    let read = |attribute: Attribute| {
        let mut value: c_int = 0;
        // SAFETY: the pointer is to a live int. The function is of this context, and its module is
        // never unloaded.
        unsafe {
            context
                .library()
                .cuFuncGetAttribute(&mut value, attribute, function)
        }?;
        Ok(count(value))
    };
    let mut attributes = KernelAttributes::new(
        read(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
        read(Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
    );
    attributes.shared_bytes_per_block = read(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?;
    attributes.local_bytes_per_thread = read(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?;
    Ok(attributes)
}

/// Blocks that a multiprocessor holds (`cuOccupancyMaxActiveBlocksPerMultiprocessor`).
pub(super) fn active_blocks(
    context: &Context,
    modules: &Modules,
    kernel: &'static Kernel,
    threads: u32,
    shared_bytes: u32,
) -> DriverResult<u32> {
    let function = modules.function(context, kernel)?;
    let _entered = context.enter()?;
    let mut blocks: c_int = 0;
    // More threads than fit an int are more than any block has, like the largest int.
    let threads = c_int::try_from(threads).unwrap_or(c_int::MAX);
    // SAFETY: the pointer is to a live int. The function is of this context, and its module is
    // never unloaded.
    unsafe {
        context.library().cuOccupancyMaxActiveBlocksPerMultiprocessor(
            &mut blocks,
            function,
            threads,
            shared_bytes as usize,
        )
    }?;
    Ok(count(blocks))
}

/// Suggests a block size (`cuOccupancyMaxPotentialBlockSize`).
pub(super) fn suggestion(
    context: &Context,
    modules: &Modules,
    kernel: &'static Kernel,
    shared_bytes: u32,
) -> DriverResult<SuggestedBlock> {
    let function = modules.function(context, kernel)?;
    let _entered = context.enter()?;
    let (mut fewest_blocks, mut threads): (c_int, c_int) = (0, 0);
    // SAFETY: the pointers are to live ints. The function is of this context, and its module is
    // never unloaded. Without a function from threads to shared memory, CUDA takes `shared_bytes`.
    // A limit of 0 threads is no limit.
    unsafe {
        context.library().cuOccupancyMaxPotentialBlockSize(
            &mut fewest_blocks,
            &mut threads,
            function,
            None,
            shared_bytes as usize,
            0,
        )
    }?;
    Ok(SuggestedBlock {
        threads: count(threads),
        fewest_blocks: count(fewest_blocks),
    })
}

/// A number that CUDA counts in an int, and that is never negative.
fn count(value: c_int) -> u32 {
    u32::try_from(value).unwrap_or(0)
}
