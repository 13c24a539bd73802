//! What a transform costs the host: through `Plan::forward`, and by the raw call of cuFFT with
//! nothing around it. Needs a GPU with cuFFT.
//!
//! All ways enqueue the same transform of a short signal on the same stream. A sample is the mean
//! of some hundred calls; samples of all ways take turns, and medians are printed with their ratios
//! to the raw call. To show where the difference comes from, raw calls are measured again in the
//! relaxed capture mode, in which `Plan::forward` makes them.

#![allow(clippy::disallowed_methods, reason = "raw calls are what is compared")]

use std::time::Instant;

use cuda_rt::{Device, DeviceSlice, Stream};
use cuda_rt_cufft::{Complex, Plan, Shape};
use cudarc::cufft::sys;
use cudarc::driver::sys as driver;

cuda_rt::streams! { Compute; }

const LEN: usize = 1024;
const CALLS: usize = 200;
const SAMPLES: usize = 200;

const WAYS: [&str; 3] = ["raw call", "raw call, in relaxed capture mode", "Plan::forward"];

/// cuFFT by raw calls, with a work area of its own.
struct Raw(sys::cufftHandle);

impl Raw {
    fn new(stream: &Stream<Compute>) -> Self {
        let mut handle = -1;
        // SAFETY: the pointer is to a live variable.
        let status = unsafe { sys::cufftPlan1d(&mut handle, LEN as i32, sys::cufftType::CUFFT_C2C, 1) };
        assert_eq!(status, sys::cufftResult::CUFFT_SUCCESS);
        let raw = std::ptr::with_exposed_provenance_mut(stream.raw().0 as usize);
        // SAFETY: the handle was made above, and the stream is live.
        let status = unsafe { sys::cufftSetStream(handle, raw) };
        assert_eq!(status, sys::cufftResult::CUFFT_SUCCESS);
        Self(handle)
    }

    /// With the context asked for, and in relaxed capture mode, as calls of libraries are made.
    fn forward_apart_from_captures(&self, pointers: [*mut sys::cufftComplex; 2]) {
        let mut context = std::ptr::null_mut();
        // SAFETY: the pointer is to a live variable.
        let status = unsafe { driver::cuCtxGetCurrent(&mut context) };
        assert_eq!(status, driver::CUresult::CUDA_SUCCESS);
        let mut mode = driver::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the pointer is to a live variable.
        let status = unsafe { driver::cuThreadExchangeStreamCaptureMode(&mut mode) };
        assert_eq!(status, driver::CUresult::CUDA_SUCCESS);
        self.forward(pointers);
        // SAFETY: the pointer is to a live variable.
        let status = unsafe { driver::cuThreadExchangeStreamCaptureMode(&mut mode) };
        assert_eq!(status, driver::CUresult::CUDA_SUCCESS);
    }

    fn forward(&self, [from, to]: [*mut sys::cufftComplex; 2]) {
        const FORWARD: i32 = -1;
        // SAFETY: both have `LEN` elements, are live, and used on this stream only.
        let status = unsafe { sys::cufftExecC2C(self.0, from, to, FORWARD) };
        assert_eq!(status, sys::cufftResult::CUFFT_SUCCESS);
    }
}

/// Mean time of a call, in ns. The stream is idle before, so that its queue never fills.
fn sample(stream: &Stream<Compute>, mut call: impl FnMut()) -> f64 {
    stream.synchronize().unwrap();
    let began = Instant::now();
    for _ in 0..CALLS {
        call();
    }
    let ns = began.elapsed().as_nanos() as f64;
    stream.synchronize().unwrap();
    ns / CALLS as f64
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn main() {
    let gpu = match Device::open() {
        Ok(gpu) => gpu,
        Err(error) => return println!("SKIPPED: {error}"),
    };
    let compute = gpu.stream::<Compute>().unwrap();
    let plan = Plan::<Complex<f32>, Complex<f32>, _>::new(&compute, Shape::line(LEN)).unwrap();
    let raw = Raw::new(&compute);
    let signal = compute.alloc_from_slice(&[Complex::from(1.0_f32); LEN]).unwrap();
    let mut spectrum = compute.alloc_zeroed::<Complex<f32>>(LEN).unwrap();
    let at = |memory: &DeviceSlice<Complex<f32>, Compute>| {
        std::ptr::with_exposed_provenance_mut::<sys::cufftComplex>(memory.address().0 as usize)
    };
    let pointers = [at(&signal), at(&spectrum)];
    let mut times: [Vec<f64>; WAYS.len()] = Default::default();
    for round in 0..SAMPLES {
        // Each way is first as often as the others.
        for turn in 0..WAYS.len() {
            let way = (round + turn) % WAYS.len();
            let time = match way {
                0 => sample(&compute, || raw.forward(pointers)),
                1 => sample(&compute, || raw.forward_apart_from_captures(pointers)),
                _ => sample(&compute, || plan.forward(&signal, &mut spectrum).unwrap()),
            };
            times[way].push(time);
        }
    }
    assert_eq!(
        compute.copy_to_vec(&spectrum).unwrap()[0],
        Complex::from(LEN as f32)
    );
    println!(
        "{}, cuFFT {:?}: host time of a transform of {LEN} complex numbers",
        gpu.properties().name,
        plan.version().unwrap(),
    );
    for (name, of_way) in WAYS.iter().zip(&times) {
        // Within a round, clocks hardly change.
        let ratios = of_way.iter().zip(&times[0]).map(|(way, raw)| way / raw);
        let ratio = median(ratios.collect());
        println!("{name:35} {:6.0} ns {ratio:.3}", median(of_way.clone()));
    }
}
