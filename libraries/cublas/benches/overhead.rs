//! What a product costs the host: through `Blas::gemm`, and by the raw call of cuBLAS with nothing
//! around it. Needs a GPU with cuBLAS.
//!
//! Both ways enqueue the same product of small matrices on the same stream. A sample is the mean
//! of some hundred calls; samples of both ways alternate, and medians are printed with their ratio.

use std::ffi::{c_int, c_void};
use std::time::Instant;

use cuda_rt::{Device, DeviceSlice, Stream};
use cuda_rt_cublas::{Blas, Matrix, MatrixMut};
use cudarc::cublas::sys;

cuda_rt::streams! { Compute; }

const SIDE: usize = 64;
const CALLS: usize = 200;
const SAMPLES: usize = 101;

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
    let numbers = vec![1.0_f32; SIDE * SIDE];
    let a = compute.alloc_from_slice(&numbers).unwrap();
    let b = compute.alloc_from_slice(&numbers).unwrap();
    let mut c = compute.alloc_zeroed::<f32>(SIDE * SIDE).unwrap();
    let at = |memory: &DeviceSlice<f32, Compute>| {
        std::ptr::with_exposed_provenance_mut::<c_void>(memory.address().0 as usize)
    };
    let pointers = [at(&a), at(&b), at(&c)];
    let (mut safe, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..SAMPLES {
        bare.push(sample(&compute, || raw.gemm(pointers)));
        safe.push(sample(&compute, || {
            let (a, b) = (Matrix::new(&a, SIDE, SIDE), Matrix::new(&b, SIDE, SIDE));
            blas.gemm(1.0, a, b, 0.0, MatrixMut::new(&mut c, SIDE, SIDE))
                .unwrap();
        }));
    }
    assert_eq!(compute.copy_to_vec(&c).unwrap(), vec![SIDE as f32; SIDE * SIDE]);
    let (safe, bare) = (median(safe), median(bare));
    println!(
        "{}, cuBLAS {:?}: a product of {SIDE} x {SIDE} takes the host {bare:.0} ns by the raw call, \
         {safe:.0} ns by Blas::gemm: {:.3} times",
        gpu.properties().name,
        blas.version().unwrap(),
        safe / bare
    );
}
