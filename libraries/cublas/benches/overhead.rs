//! What a product costs the host: through `Blas::gemm`, and by the raw call of cuBLAS with nothing
//! around it. Needs a GPU with cuBLAS.
//!
//! All ways enqueue the same product of small matrices on the same stream. A sample is the mean of
//! some hundred calls; samples of all ways take turns, and medians are printed with their ratios to
//! the raw call. To show where the difference comes from, raw calls are measured again with one
//! habit of `Blas::gemm` each: a workspace of the caller, and the relaxed capture mode.

#![allow(clippy::disallowed_methods, reason = "raw calls are what is compared")]

use std::ffi::{c_int, c_void};
use std::time::Instant;

use cuda_rt::{Device, DeviceSlice, Stream};
use cuda_rt_cublas::{Blas, Matrix, MatrixMut};
use cudarc::cublas::sys;
use cudarc::driver::sys as driver;

cuda_rt::streams! { Compute; }

const SIDE: usize = 64;
const CALLS: usize = 200;
const SAMPLES: usize = 200;

const WAYS: [&str; 4] = [
    "raw call",
    "raw call, with a workspace of the caller",
    "raw call, in relaxed capture mode",
    "Blas::gemm",
];

/// cuBLAS by raw calls.
struct Raw(sys::cublasHandle_t);

impl Raw {
    fn new(stream: &Stream<Compute>) -> Self {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the pointer is to a live variable.
        let status = unsafe { sys::cublasCreate_v2(&mut handle) };
        assert_eq!(status, sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS);
        let raw = std::ptr::with_exposed_provenance_mut(stream.raw().0 as usize);
        // SAFETY: the handle was made above, and the stream is live.
        let status = unsafe { sys::cublasSetStream_v2(handle, raw) };
        assert_eq!(status, sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS);
        Self(handle)
    }

    /// The same, with a workspace of 32 MiB as [`Blas::new`] has it.
    fn with_workspace(stream: &Stream<Compute>, memory: &mut DeviceSlice<u8, Compute>) -> Self {
        let raw = Self::new(stream);
        let at = std::ptr::with_exposed_provenance_mut(memory.address().0 as usize);
        // SAFETY: the handle was made above, and the memory is live as long as the benchmark.
        let status = unsafe { sys::cublasSetWorkspace_v2(raw.0, at, memory.len()) };
        assert_eq!(status, sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS);
        raw
    }

    /// With the context asked for, and in relaxed capture mode, as calls of libraries are made.
    fn gemm_apart_from_captures(&self, pointers: [*mut c_void; 3]) {
        let mut context = std::ptr::null_mut();
        // SAFETY: the pointer is to a live variable.
        let status = unsafe { driver::cuCtxGetCurrent(&mut context) };
        assert_eq!(status, driver::CUresult::CUDA_SUCCESS);
        let mut mode = driver::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the pointer is to a live variable.
        let status = unsafe { driver::cuThreadExchangeStreamCaptureMode(&mut mode) };
        assert_eq!(status, driver::CUresult::CUDA_SUCCESS);
        self.gemm(pointers);
        // SAFETY: the pointer is to a live variable.
        let status = unsafe { driver::cuThreadExchangeStreamCaptureMode(&mut mode) };
        assert_eq!(status, driver::CUresult::CUDA_SUCCESS);
    }

    fn gemm(&self, [a, b, c]: [*mut c_void; 3]) {
        let (one, zero, side) = (1.0_f32, 0.0_f32, SIDE as c_int);
        let (alpha, beta) = (std::ptr::from_ref(&one).cast(), std::ptr::from_ref(&zero).cast());
        let plain = sys::cublasOperation_t::CUBLAS_OP_N;
        let float = sys::cudaDataType::CUDA_R_32F;
        // SAFETY: the matrices are live, of `SIDE` rows and columns, and used on this stream only.
        let status = unsafe {
            sys::cublasGemmEx(
                self.0,
                plain,
                plain,
                side,
                side,
                side,
                alpha,
                b,
                float,
                side,
                a,
                float,
                side,
                beta,
                c,
                float,
                side,
                sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
                sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
        };
        assert_eq!(status, sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS);
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
    let blas = Blas::new(&compute).unwrap();
    let raw = Raw::new(&compute);
    let mut workspace = compute.alloc_zeroed::<u8>(32 << 20).unwrap();
    let spacious = Raw::with_workspace(&compute, &mut workspace);
    let numbers = vec![1.0_f32; SIDE * SIDE];
    let a = compute.alloc_from_slice(&numbers).unwrap();
    let b = compute.alloc_from_slice(&numbers).unwrap();
    let mut c = compute.alloc_zeroed::<f32>(SIDE * SIDE).unwrap();
    let at = |memory: &DeviceSlice<f32, Compute>| {
        std::ptr::with_exposed_provenance_mut::<c_void>(memory.address().0 as usize)
    };
    let pointers = [at(&a), at(&b), at(&c)];
    let mut times: [Vec<f64>; WAYS.len()] = Default::default();
    for round in 0..SAMPLES {
        // Each way is first as often as the others.
        for turn in 0..WAYS.len() {
            let way = (round + turn) % WAYS.len();
            let time = match way {
                0 => sample(&compute, || raw.gemm(pointers)),
                1 => sample(&compute, || spacious.gemm(pointers)),
                2 => sample(&compute, || raw.gemm_apart_from_captures(pointers)),
                _ => sample(&compute, || {
                    let (a, b) = (Matrix::new(&a, SIDE, SIDE), Matrix::new(&b, SIDE, SIDE));
                    blas.gemm(1.0, a, b, 0.0, MatrixMut::new(&mut c, SIDE, SIDE))
                        .unwrap();
                }),
            };
            times[way].push(time);
        }
    }
    assert_eq!(compute.copy_to_vec(&c).unwrap(), vec![SIDE as f32; SIDE * SIDE]);
    println!(
        "{}, cuBLAS {:?}: host time of a product of {SIDE} x {SIDE}",
        gpu.properties().name,
        blas.version().unwrap(),
    );
    for (name, of_way) in WAYS.iter().zip(&times) {
        // Within a round, clocks hardly change.
        let ratios = of_way.iter().zip(&times[0]).map(|(way, raw)| way / raw);
        let ratio = median(ratios.collect());
        println!("{name:45} {:6.0} ns {ratio:.3}", median(of_way.clone()));
    }
}
