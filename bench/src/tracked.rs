//! cudarc's safe interface, with its tracking of events, which is its default.
//!
//! In this mode each use of memory on a stream waits for the memory's events, and records one.
//! Streams are ordered by it, without a word in the program.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaFunction, CudaSlice, CudaStream, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;

use crate::raw::{BLOCK, entry};
use crate::rounds::Outcome;

/// A context of the first GPU, and the kernels in it.
pub(crate) struct Tracked {
    pub(crate) context: Arc<CudaContext>,
    scale: CudaFunction,
    add: CudaFunction,
}

impl Tracked {
    pub(crate) fn open() -> Outcome<Self> {
        let context = CudaContext::new(0)?;
        let module = context.load_module(Ptx::from_src(device_kernels::ptx()))?;
        Ok(Self {
            scale: module.load_function(entry("scale"))?,
            add: module.load_function(entry("add"))?,
            context,
        })
    }

    /// `output = input * factor`.
    pub(crate) fn scale(
        &self,
        stream: &CudaStream,
        input: &CudaSlice<f32>,
        output: &mut CudaSlice<f32>,
        factor: f32,
    ) -> Outcome {
        let (inputs, outputs) = (input.len() as u64, output.len() as u64);
        let extent = [outputs, 1, 1];
        let mut launch = stream.launch_builder(&self.scale);
        launch.arg(input).arg(&inputs).arg(output).arg(&outputs);
        launch.arg(&factor).arg(&extent);
        // SAFETY: these are the kernel's parameters, and the slices have the lengths beside them.
        unsafe { launch.launch(shape(outputs)) }?;
        Ok(())
    }

    /// `sum = left + right`.
    pub(crate) fn add(
        &self,
        stream: &CudaStream,
        left: &CudaSlice<f32>,
        right: &CudaSlice<f32>,
        sum: &mut CudaSlice<f32>,
    ) -> Outcome {
        let lens = [left.len(), right.len(), sum.len()].map(|len| len as u64);
        let extent = [lens[2], 1, 1];
        let mut launch = stream.launch_builder(&self.add);
        launch.arg(left).arg(&lens[0]).arg(right).arg(&lens[1]);
        launch.arg(sum).arg(&lens[2]).arg(&extent);
        // SAFETY: these are the kernel's parameters, and the slices have the lengths beside them.
        unsafe { launch.launch(shape(lens[2])) }?;
        Ok(())
    }
}

fn shape(threads: u64) -> LaunchConfig {
    LaunchConfig {
        grid_dim: (threads.div_ceil(u64::from(BLOCK)) as u32, 1, 1),
        block_dim: (BLOCK, 1, 1),
        shared_mem_bytes: 0,
    }
}

/// Pinned memory that the host also reads. cudarc's default is write-combined memory, from which
/// the host reads slowly.
pub(crate) fn pinned(
    context: &Arc<CudaContext>,
    len: usize,
) -> Outcome<cudarc::driver::PinnedHostSlice<f32>> {
    // SAFETY: the elements are written below before they are read.
    let mut memory = unsafe { context.alloc_pinned_with_flags::<f32>(len, 0) }?;
    memory.as_mut_slice()?.fill(0.0);
    Ok(memory)
}
