// H27, mended: the bundle exists once the future is ready. A future dropped or leaked before that
// leaks at most its memory.
use cuda_rt::simulator::{Order, SimConfig};
use cuda_rt::{Device, Error, Handoff, HandoffFuture, Idle, Live, PinnedBuffer, Stream};
use std::future::{Future, IntoFuture};
use std::mem::forget;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

cuda_rt::streams! {
    Compute;
}

fn main() -> Result<(), Error> {
    program(&Device::open_or_simulate()?)?;
    for seed in 0..8 {
        Device::simulated(SimConfig::default().seed(seed), |gpu| program(&gpu))??;
        let lazy = SimConfig::default().seed(seed).order(Order::Lazy);
        Device::simulated(lazy, |gpu| program(&gpu))??;
    }
    Ok(())
}

/// An executor that polls in a loop.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
    }
}

type Host<D> = PinnedBuffer<f32, Idle<D>>;

fn start<D: Live>(
    gpu: &Device<D>,
    compute: &Stream<Compute<D>>,
    value: f32,
) -> Result<Handoff<Host<D>>, Error> {
    let mut frame = compute.alloc_zeroed::<f32>(64)?;
    compute.fill(&mut frame, value)?;
    let mut host = compute.adopt(gpu.pinned::<f32>(64)?)?;
    compute.copy_to_host(&frame, &mut host)?;
    compute.release(host)
}

fn polled<D: Live>(handoff: Handoff<Host<D>>) -> HandoffFuture<Host<D>> {
    let mut future = handoff.into_future();
    let _ = Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop()));
    future
}

fn program<D: Live>(gpu: &Device<D>) -> Result<(), Error> {
    let compute = gpu.stream::<Compute<D>>()?;
    let first = start(gpu, &compute, 1.0)?;
    drop(polled(start(gpu, &compute, 2.0)?));
    forget(polled(start(gpu, &compute, 3.0)?));
    let taken_back = polled(start(gpu, &compute, 4.0)?).into_handoff();
    // If the dropped buffers were freed early, these get their blocks.
    let last = start(gpu, &compute, 5.0)?;
    block_on(async {
        assert_eq!(*first.await?, [1.0; 64]);
        if let Some(handoff) = taken_back {
            assert_eq!(*handoff.await?, [4.0; 64]);
        }
        assert_eq!(*last.await?, [5.0; 64]);
        Ok(())
    })
}
