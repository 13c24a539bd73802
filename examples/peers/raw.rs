//! The same copies by raw CUDA calls: memory of `cuMemAlloc`, a stream on each GPU, and
//! `cuMemcpyPeerAsync`.

use std::ffi::c_int;
use std::ptr;
use std::time::{Duration, Instant};

use cuda_rt_examples::cli::Outcome;
use cudarc::driver::sys::{self, CUresult, CUstream_flags};

use crate::clock::gb_per_s;
use crate::copies::Rates;

/// One GPU: its primary context, two buffers and a stream.
struct Gpu {
    context: sys::CUcontext,
    stream: sys::CUstream,
    here: sys::CUdeviceptr,
    lent: sys::CUdeviceptr,
}

fn check(status: CUresult) -> Outcome {
    match status {
        CUresult::CUDA_SUCCESS => Ok(()),
        failed => Err(format!("a raw call failed: {failed:?}").into()),
    }
}

impl Gpu {
    fn open(ordinal: c_int, bytes: usize) -> Outcome<Self> {
        let mut context = ptr::null_mut();
        // SAFETY: the pointer is to a live variable for a context. The driver is initialised,
        // because the typed API has opened both GPUs.
        check(unsafe { sys::cuDevicePrimaryCtxRetain(&mut context, ordinal) })?;
        let mut gpu = Self {
            context,
            stream: ptr::null_mut(),
            here: 0,
            lent: 0,
        };
        gpu.enter()?;
        // SAFETY: the pointer is to a live variable for a stream, and the context is current.
        check(unsafe {
            sys::cuStreamCreate(&mut gpu.stream, CUstream_flags::CU_STREAM_NON_BLOCKING as u32)
        })?;
        // SAFETY: the pointer is to a live variable for an address, and the context is current.
        check(unsafe { sys::cuMemAlloc_v2(&mut gpu.here, bytes) })?;
        // SAFETY: the pointer is to a live variable for an address, and the context is current.
        check(unsafe { sys::cuMemAlloc_v2(&mut gpu.lent, bytes) })?;
        Ok(gpu)
    }

    fn enter(&self) -> Outcome {
        // SAFETY: `open` retained the context, and no code releases it.
        check(unsafe { sys::cuCtxSetCurrent(self.context) })
    }

    /// Opens the link to `other`.
    fn enable(&self, other: &Self) -> Outcome {
        self.enter()?;
        // SAFETY: `open` retained the context, and no code releases it. The flags must be 0, and
        // are.
        match unsafe { sys::cuCtxEnablePeerAccess(other.context, 0) } {
            CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => Ok(()),
            status => check(status),
        }
    }

    /// Copies `bytes` bytes on this GPU's stream, to its memory or from it.
    fn copy(&self, to: (&Self, sys::CUdeviceptr), from: (&Self, sys::CUdeviceptr), bytes: usize) -> Outcome {
        // SAFETY: both addresses are of live memory in their contexts, at least `bytes` bytes long.
        // No code reads the copied data, so a race between copies shows nowhere.
        check(unsafe {
            sys::cuMemcpyPeerAsync(to.1, to.0.context, from.1, from.0.context, bytes, self.stream)
        })
    }

    fn pull(&self, from: &Self, bytes: usize) -> Outcome {
        self.copy((self, self.here), (from, from.lent), bytes)
    }

    fn push(&self, to: &Self, bytes: usize) -> Outcome {
        self.copy((to, to.lent), (self, self.here), bytes)
    }

    fn synchronize(&self) -> Outcome {
        // SAFETY: the stream is live: no code destroys it.
        check(unsafe { sys::cuStreamSynchronize(self.stream) })
    }
}

fn best(mut round: impl FnMut() -> Outcome) -> Outcome<Duration> {
    round()?;
    let mut best = Duration::MAX;
    for _ in 0..7 {
        let start = Instant::now();
        round()?;
        best = best.min(start.elapsed());
    }
    Ok(best)
}

fn rates(a: &Gpu, b: &Gpu, bytes: usize, copies: u32) -> Outcome<Rates> {
    let pull = best(|| {
        (0..copies).try_for_each(|_| a.pull(b, bytes))?;
        a.synchronize()
    })?;
    let push = best(|| {
        (0..copies).try_for_each(|_| a.push(b, bytes))?;
        a.synchronize()
    })?;
    let both = best(|| {
        (0..copies).try_for_each(|_| a.pull(b, bytes).and_then(|()| b.pull(a, bytes)))?;
        a.synchronize()?;
        b.synchronize()
    })?;
    let all = copies as usize * bytes;
    Ok(Rates {
        pull: gb_per_s(all, pull),
        push: gb_per_s(all, push),
        both: gb_per_s(2 * all, both),
    })
}

/// Rates of raw copies, before the link is opened and after. The memory stays allocated until the
/// process ends.
pub(crate) fn measure(mib: usize, copies: u32) -> Outcome<[(&'static str, Rates); 2]> {
    let bytes = mib << 20;
    let (a, b) = (Gpu::open(0, bytes)?, Gpu::open(1, bytes)?);
    let without = rates(&a, &b, bytes, copies)?;
    a.enable(&b)?;
    b.enable(&a)?;
    Ok([
        ("raw, without the link", without),
        ("raw", rates(&a, &b, bytes, copies)?),
    ])
}
