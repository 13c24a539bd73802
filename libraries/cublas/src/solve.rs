//! Triangular systems.

use cuda_rt_runtime::driver::RawStream;
use cuda_rt_runtime::{ReadBy, StreamTag, WriteBy};

use crate::blas::{Blas, Engine, ON_HOST, pointer};
use crate::element::Real;
use crate::error::{BlasError, Result, refusal};
use crate::ffi::{self, Cublas, cublasHandle_t};
use crate::matrix::{Matrix, MatrixMut};
use crate::plan::{TriangularPlan, int, simulated_shape};
use crate::triangle::{Side, Triangle};

impl<S: StreamTag> Blas<S> {
    /// Solves A·X = alpha·B, or X·A = alpha·B, for a triangular matrix A, and writes X over B
    /// (`cublasStrsm`, `cublasDtrsm`). Stream-ordered.
    ///
    /// A zero on the diagonal makes infinite or undefined numbers, and no error.
    ///
    /// # Hazards prevented
    /// As [`gemm`](Self::gemm).
    ///
    /// # Errors
    /// As [`gemm`](Self::gemm). Batches are refused.
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// use cuda_rt_cublas::{Blas, Matrix, MatrixMut, Side, Triangle};
    ///
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let compute = gpu.stream::<Compute>()?;
    /// let a = compute.alloc_from_slice(&[2.0_f32, 7.0, 1.0, 4.0])?; // 2 . / 1 4: 7 is not read
    /// let mut b = compute.alloc_from_slice(&[2.0_f32, 9.0])?;
    /// let (lower, right) = (Matrix::new(&a, 2, 2), MatrixMut::new(&mut b, 2, 1));
    /// Blas::new(&compute)?.trsm(Side::Left, Triangle::LOWER, 1.0, lower, right)?;
    /// assert_eq!(compute.copy_to_vec(&b)?, [1.0, 2.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn trsm<T, P, W>(
        &self,
        side: Side,
        triangle: Triangle,
        alpha: T,
        a: Matrix<'_, T, P>,
        b: MatrixMut<'_, T, W>,
    ) -> Result<()>
    where
        T: Real,
        P: ReadBy<S>,
        W: WriteBy<S>,
    {
        const DURING: &str = "Blas::trsm";
        let plan = TriangularPlan::new(
            side,
            triangle,
            (&a.shape, a.memory.len()),
            (&b.shape, b.memory.len()),
        );
        let refused = refusal(DURING);
        let Some(plan) = plan.map_err(refused)? else {
            return Ok(());
        };
        let library = match &self.engine {
            Engine::Library(library) => library,
            Engine::Simulated => {
                let kernels = T::FUNCTIONS.kernels.ok_or(BlasError::NoSimulator)?();
                let launch = self.stream.foreign_kernel(&kernels.trsm);
                let launch = launch.read(a.memory).write(b.memory);
                let launch = launch.value(plan.words(T::BITS(alpha)));
                let products = if plan.is_right { plan.n } else { plan.m } as u64;
                let threads = [plan.m as u64, plan.n as u64, products.div_ceil(64)];
                // SAFETY: the kernel is `triangular::simulate` for this type, on a simulated
                // device. By PLAN-2 it reads A and B and writes B, in bounds.
                return Ok(unsafe { launch.launch(&simulated_shape(threads)) }?);
            }
        };
        let [matrix, right] = [a.memory.address(), b.memory.address()];
        let trsm = |cublas: &Cublas, handle: cublasHandle_t| {
            let choose = |is: bool, yes, no| if is { yes } else { no };
            // SAFETY: PLAN-2: the matrices lie in memory that `call` borrows, on the handle's
            // stream. The factor is read before the call returns, in host mode.
            unsafe {
                (T::FUNCTIONS.trsm)(
                    cublas,
                    DURING,
                    handle,
                    choose(plan.is_right, ffi::CUBLAS_SIDE_RIGHT, ffi::CUBLAS_SIDE_LEFT),
                    choose(
                        plan.is_upper,
                        ffi::CUBLAS_FILL_MODE_UPPER,
                        ffi::CUBLAS_FILL_MODE_LOWER,
                    ),
                    choose(plan.transposed, ffi::CUBLAS_OP_T, ffi::CUBLAS_OP_N),
                    choose(
                        plan.unit_diagonal,
                        ffi::CUBLAS_DIAG_UNIT,
                        ffi::CUBLAS_DIAG_NON_UNIT,
                    ),
                    int(plan.m),
                    int(plan.n),
                    &alpha,
                    pointer(matrix),
                    int(plan.leading_a),
                    pointer(right),
                    int(plan.leading_b),
                )
            }
        };
        let mut workspace = library.workspace();
        let space = (workspace.address(), workspace.len());
        let call = self.stream.foreign("cublasStrsm").writes(&mut workspace);
        let call = call.reads(a.memory).writes(b.memory);
        // SAFETY: `enqueue` gives the stream `S`. The workspace is locked and stated.
        let body = |stream: RawStream| unsafe { library.make(DURING, stream, space, ON_HOST, trsm) };
        // SAFETY: cuBLAS enqueues one solution on the stream that it is set to. It reads A and B
        // and writes B and the workspace, all stated, in bounds by PLAN-2. The rest is as in
        // `product`.
        unsafe { call.enqueue(body) }?
    }
}
