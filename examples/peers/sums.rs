//! Sums over two devices, and over four devices if there are four.

use cuda_rt::{Communicator, Device, DeviceBuffer, Live, OpenError, Reduction, Result, Stream};
use cuda_rt_examples::cli::Outcome;

use crate::Args;
use crate::clock::{Clock, best, gb_per_s};

cuda_rt::streams! {
    /// The stream of sums.
    Sums;
}

/// Number of sums that are timed together. Of modelled times, one sum is enough.
fn rounds<D: Live>(gpu: &Device<D>) -> usize {
    if gpu.is_simulated() { 1 } else { 20 }
}

/// Allocates a buffer whose elements are all `value`.
fn filled<D: Live>(stream: &Stream<Sums<D>>, len: usize, value: f32) -> Result<DeviceBuffer<f32, Sums<D>>> {
    let mut buffer = stream.alloc_zeroed(len)?;
    stream.fill(&mut buffer, value)?;
    Ok(buffer)
}

fn all_are<D: Live>(stream: &Stream<Sums<D>>, buffer: &DeviceBuffer<f32, Sums<D>>, value: f32) -> Outcome {
    let mut host = stream.adopt(stream.device().pinned::<f32>(buffer.len())?)?;
    stream.copy_to_host(buffer, &mut host)?;
    let host = stream.release(host)?.synchronize()?;
    match host.iter().position(|element| *element != value) {
        None => Ok(()),
        Some(wrong) => Err(format!("element {wrong} is {} instead of {value}", host[wrong]).into()),
    }
}

/// Prints the rate of sums over devices, each with a stream and a buffer called `$name`.
macro_rules! sum_over {
    ($args:expr, $count:literal, $first:ident $(, $gpu:ident)*) => {{
        let len = $args.mib_on($first) << 18;
        let ranks = Communicator::new(($first, $($gpu),*))?;
        let mut value = 0.0;
        // Streams and buffers have the names of their devices.
        let streams = ($first.stream::<Sums<_>>()?, $($gpu.stream::<Sums<_>>()?),*);
        sum_over!(@names streams, $first $(, $gpu)*);
        let mut sum = 0.0;
        let buffers = ({ value += 1.0; sum += value; filled($first, len, value)? },
            $({ value += 1.0; sum += value; filled($gpu, len, value)? }),*);
        let mut buffers = Some(sum_over!(@reduce ranks, buffers, $first $(, $gpu)*)?);
        {
            sum_over!(@all_are buffers.as_ref().expect("they came back"), sum, $first $(, $gpu)*);
        }
        let device = $first.device();
        let time = best(&device, || -> Result<_> {
            let clock = Clock::start(&device);
            for _ in 0..rounds(&device) {
                let given = buffers.take().expect("they came back");
                buffers = Some(sum_over!(@reduce ranks, given, $first $(, $gpu)*)?);
            }
            $first.synchronize()?;
            $($gpu.synchronize()?;)*
            Ok(clock.elapsed(&device))
        })?;
        let rate = gb_per_s(rounds(&device) * len * size_of::<f32>(), time);
        // The rate on each link, computed as in NCCL's own tests.
        let on_links = rate * 2.0 * ($count as f64 - 1.0) / $count as f64;
        println!("all-reduce over {:<12}{rate:>10.1} GB/s, {on_links:.1} GB/s on each link; every element was compared", $count);
    }};
    (@names $streams:ident, $a:ident, $b:ident) => { let ($a, $b) = (&$streams.0, &$streams.1); };
    (@names $streams:ident, $a:ident, $b:ident, $c:ident, $d:ident) => {
        let ($a, $b, $c, $d) = (&$streams.0, &$streams.1, &$streams.2, &$streams.3);
    };
    (@reduce $ranks:ident, $buffers:ident, $a:ident, $b:ident) => {
        $ranks.all_reduce(Reduction::Sum, ($a.rank($buffers.0), $b.rank($buffers.1)))
    };
    (@reduce $ranks:ident, $buffers:ident, $a:ident, $b:ident, $c:ident, $d:ident) => {
        $ranks.all_reduce(
            Reduction::Sum,
            ($a.rank($buffers.0), $b.rank($buffers.1), $c.rank($buffers.2), $d.rank($buffers.3)),
        )
    };
    (@all_are $buffers:expr, $sum:ident, $a:ident, $b:ident) => {
        all_are($a, &$buffers.0, $sum)?;
        all_are($b, &$buffers.1, $sum)?;
    };
    (@all_are $buffers:expr, $sum:ident, $a:ident, $b:ident, $c:ident, $d:ident) => {
        sum_over!(@all_are $buffers, $sum, $a, $b);
        all_are($c, &$buffers.2, $sum)?;
        all_are($d, &$buffers.3, $sum)?;
    };
}

fn over_two<A: Live, B: Live>(a: &Device<A>, b: &Device<B>, args: &Args) -> Outcome {
    sum_over!(args, 2, a, b);
    Ok(())
}

fn over_four<A: Live, B: Live, C: Live, D: Live>(
    a: &Device<A>,
    b: &Device<B>,
    c: &Device<C>,
    d: &Device<D>,
    args: &Args,
) -> Outcome {
    sum_over!(args, 4, a, b, c, d);
    Ok(())
}

pub(crate) fn report<A: Live, B: Live>(first: &Device<A>, second: &Device<B>, args: &Args) -> Outcome {
    if !first.is_simulated() && !cfg!(feature = "nccl") {
        println!("all-reduce: not built with the feature `nccl`");
        return Ok(());
    }
    #[cfg(feature = "nccl")]
    if !first.is_simulated() {
        let version = cuda_rt::driver_cuda::nccl_version().map_err(|error| error.to_string())?;
        println!(
            "NCCL {}.{}.{}",
            version / 10_000,
            version / 100 % 100,
            version % 100
        );
    }
    over_two(first, second, args)?;
    if first.is_simulated() {
        return first.simulated_peer(|third| {
            first.simulated_peer(|fourth| over_four(first, second, &third, &fourth, args))
        })??;
    }
    match Device::with_gpu(2, |third| {
        Device::with_gpu(3, |fourth| over_four(first, second, &third, &fourth, args))
    }) {
        Ok(Ok(done)) => done,
        Ok(Err(OpenError::NoGpu(_))) | Err(OpenError::NoGpu(_)) => Ok(()),
        Ok(Err(error)) | Err(error) => Err(error.into()),
    }
}
