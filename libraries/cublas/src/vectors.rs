//! Operations of vectors. Sums go to device memory, so that the host does not wait.

use cuda_rt_runtime::driver::RawStream;
use cuda_rt_runtime::{DeviceSlice, ReadBy, StreamTag, WriteBy};

use crate::blas::{Blas, Engine, ON_DEVICE, ON_HOST, pointer};
use crate::element::Real;
use crate::error::{BlasError, Operand, Result, ShapeError, equal, refusal};
use crate::ffi::{Cublas, cublasHandle_t};
use crate::plan::{int, simulated_shape, vector};

impl<S: StreamTag> Blas<S> {
    /// y = alpha·x + y (`cublasSaxpy`, `cublasDaxpy`). Stream-ordered.
    ///
    /// # Errors
    /// [`BlasError::Shape`] if the lengths differ. The others are as for [`gemm`](Self::gemm).
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let compute = gpu.stream::<Compute>()?;
    /// let blas = cuda_rt_cublas::Blas::new(&compute)?;
    /// let x = compute.alloc_from_slice(&[3.0_f32, 4.0])?;
    /// let mut y = compute.alloc_from_slice(&[1.0_f32, 1.0])?;
    /// blas.axpy(2.0, &x, &mut y)?;
    /// assert_eq!(compute.copy_to_vec(&y)?, [7.0, 9.0]);
    ///
    /// let mut sum = compute.alloc_zeroed::<f32>(1)?;
    /// blas.dot(&x, &y, &mut sum)?;
    /// blas.scal(0.5, &mut y)?;
    /// assert_eq!(compute.copy_to_vec(&sum)?, [57.0]);
    /// blas.nrm2(&x, &mut sum)?;
    /// assert_eq!(compute.copy_to_vec(&sum)?, [5.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn axpy<T, P, W>(&self, alpha: T, x: &DeviceSlice<T, P>, y: &mut DeviceSlice<T, W>) -> Result<()>
    where
        T: Real,
        P: ReadBy<S>,
        W: WriteBy<S>,
    {
        const DURING: &str = "Blas::axpy";
        let n = length(DURING, x.len(), Some(y.len()))?;
        if n == 0 {
            return Ok(());
        }
        let library = match &self.engine {
            Engine::Library(library) => library,
            Engine::Simulated => {
                let kernels = T::FUNCTIONS.kernels.ok_or(BlasError::NoSimulator)?();
                let launch = self.stream.foreign_kernel(&kernels.axpy).read(x).write(y);
                let launch = launch.value([T::BITS(alpha)]);
                // SAFETY: the kernel is `axpy` for this type, on a simulated device. It reads x and
                // y and writes y.
                return Ok(unsafe { launch.launch(&simulated_shape([n as u64, 1, 1])) }?);
            }
        };
        let (from, to) = (x.address(), y.address());
        let axpy = |cublas: &Cublas, handle: cublasHandle_t| {
            // SAFETY: both vectors have `n` elements, in memory that `call` borrows, on the
            // handle's stream. The factor is read before the call returns, in host mode.
            unsafe {
                (T::FUNCTIONS.axpy)(
                    cublas,
                    DURING,
                    handle,
                    int(n),
                    &alpha,
                    pointer(from),
                    1,
                    pointer(to),
                    1,
                )
            }
        };
        let mut workspace = library.workspace();
        let space = (workspace.address(), workspace.len());
        let call = self.stream.foreign("cublasSaxpy").writes(&mut workspace);
        let call = call.reads(x).writes(y);
        // SAFETY: `enqueue` gives the stream `S`. The workspace is locked and stated.
        let body = |stream: RawStream| unsafe { library.make(DURING, stream, space, ON_HOST, axpy) };
        // SAFETY: cuBLAS enqueues one operation on the stream that it is set to. It reads x and y
        // and writes y and the workspace, all stated. The rest is as in `product`.
        unsafe { call.enqueue(body) }?
    }

    /// x = alpha·x (`cublasSscal`, `cublasDscal`). Stream-ordered.
    ///
    /// # Errors
    /// As [`axpy`](Self::axpy).
    #[track_caller]
    pub fn scal<T, W>(&self, alpha: T, x: &mut DeviceSlice<T, W>) -> Result<()>
    where
        T: Real,
        W: WriteBy<S>,
    {
        const DURING: &str = "Blas::scal";
        let n = length(DURING, x.len(), None)?;
        if n == 0 {
            return Ok(());
        }
        let library = match &self.engine {
            Engine::Library(library) => library,
            Engine::Simulated => {
                let kernels = T::FUNCTIONS.kernels.ok_or(BlasError::NoSimulator)?();
                let launch = self.stream.foreign_kernel(&kernels.scal).write(x);
                let launch = launch.value([T::BITS(alpha)]);
                // SAFETY: the kernel is `scal` for this type, on a simulated device. It reads and
                // writes x.
                return Ok(unsafe { launch.launch(&simulated_shape([n as u64, 1, 1])) }?);
            }
        };
        let to = x.address();
        let scal = |cublas: &Cublas, handle: cublasHandle_t| {
            // SAFETY: as in `axpy`.
            unsafe { (T::FUNCTIONS.scal)(cublas, DURING, handle, int(n), &alpha, pointer(to), 1) }
        };
        let mut workspace = library.workspace();
        let space = (workspace.address(), workspace.len());
        let call = self
            .stream
            .foreign("cublasSscal")
            .writes(&mut workspace)
            .writes(x);
        // SAFETY: `enqueue` gives the stream `S`. The workspace is locked and stated.
        let body = |stream: RawStream| unsafe { library.make(DURING, stream, space, ON_HOST, scal) };
        // SAFETY: as in `axpy`, for x.
        unsafe { call.enqueue(body) }?
    }

    /// Writes the sum of the products of the elements of x and y to `result`, of one element
    /// (`cublasSdot`, `cublasDdot`). Stream-ordered. The sum of no elements is 0.
    ///
    /// # Hazards prevented
    /// [H13](cuda_rt_runtime::hazards#h13): the result is device memory, which the host reads only
    /// behind a wait.
    ///
    /// # Errors
    /// As [`axpy`](Self::axpy), and [`BlasError::Shape`] if `result` has not one element.
    #[track_caller]
    pub fn dot<T, P, Q, W>(
        &self,
        x: &DeviceSlice<T, P>,
        y: &DeviceSlice<T, Q>,
        result: &mut DeviceSlice<T, W>,
    ) -> Result<()>
    where
        T: Real,
        P: ReadBy<S>,
        Q: ReadBy<S>,
        W: WriteBy<S>,
    {
        const DURING: &str = "Blas::dot";
        let n = length(DURING, x.len(), Some(y.len()))?;
        one_result(DURING, result.len())?;
        if n == 0 {
            return Ok(self.stream.fill(result, T::ZERO)?);
        }
        let library = match &self.engine {
            Engine::Library(library) => library,
            Engine::Simulated => {
                let kernels = T::FUNCTIONS.kernels.ok_or(BlasError::NoSimulator)?();
                let launch = self.stream.foreign_kernel(&kernels.dot);
                let launch = launch.read(x).read(y).write(result);
                // SAFETY: the kernel is `dot` for this type, on a simulated device. It reads x and
                // y and writes the result.
                return Ok(unsafe { launch.launch(&simulated_shape([n as u64, 1, 1])) }?);
            }
        };
        let [first, second, sum] = [x.address(), y.address(), result.address()];
        let dot = |cublas: &Cublas, handle: cublasHandle_t| {
            // SAFETY: both vectors have `n` elements and the result has one, in memory that `call`
            // borrows, on the handle's stream. In device mode the result is written there.
            unsafe {
                let (first, second) = (pointer(first), pointer(second));
                (T::FUNCTIONS.dot)(cublas, DURING, handle, int(n), first, 1, second, 1, pointer(sum))
            }
        };
        let mut workspace = library.workspace();
        let space = (workspace.address(), workspace.len());
        let call = self.stream.foreign("cublasSdot").writes(&mut workspace);
        let call = call.reads(x).reads(y).writes(result);
        // SAFETY: `enqueue` gives the stream `S`. The workspace is locked and stated.
        let body = |stream: RawStream| unsafe { library.make(DURING, stream, space, ON_DEVICE, dot) };
        // SAFETY: as in `axpy`, for x, y and the result.
        unsafe { call.enqueue(body) }?
    }

    /// Writes the length of the vector x, the square root of x·x, to `result`, of one element
    /// (`cublasSnrm2`, `cublasDnrm2`). Stream-ordered. The length of no elements is 0.
    ///
    /// # Hazards prevented
    /// As [`dot`](Self::dot).
    ///
    /// # Errors
    /// As [`dot`](Self::dot).
    #[track_caller]
    pub fn nrm2<T, P, W>(&self, x: &DeviceSlice<T, P>, result: &mut DeviceSlice<T, W>) -> Result<()>
    where
        T: Real,
        P: ReadBy<S>,
        W: WriteBy<S>,
    {
        const DURING: &str = "Blas::nrm2";
        let n = length(DURING, x.len(), None)?;
        one_result(DURING, result.len())?;
        if n == 0 {
            return Ok(self.stream.fill(result, T::ZERO)?);
        }
        let library = match &self.engine {
            Engine::Library(library) => library,
            Engine::Simulated => {
                let kernels = T::FUNCTIONS.kernels.ok_or(BlasError::NoSimulator)?();
                let launch = self.stream.foreign_kernel(&kernels.nrm2).read(x).write(result);
                // SAFETY: the kernel is `nrm2` for this type, on a simulated device. It reads x and
                // writes the result.
                return Ok(unsafe { launch.launch(&simulated_shape([n as u64, 1, 1])) }?);
            }
        };
        let (from, norm) = (x.address(), result.address());
        let nrm2 = |cublas: &Cublas, handle: cublasHandle_t| {
            // SAFETY: as in `dot`.
            unsafe { (T::FUNCTIONS.nrm2)(cublas, DURING, handle, int(n), pointer(from), 1, pointer(norm)) }
        };
        let mut workspace = library.workspace();
        let space = (workspace.address(), workspace.len());
        let call = self.stream.foreign("cublasSnrm2").writes(&mut workspace);
        let call = call.reads(x).writes(result);
        // SAFETY: `enqueue` gives the stream `S`. The workspace is locked and stated.
        let body = |stream: RawStream| unsafe { library.make(DURING, stream, space, ON_DEVICE, nrm2) };
        // SAFETY: as in `axpy`, for x and the result.
        unsafe { call.enqueue(body) }?
    }
}

/// The length of x, which y has too.
#[track_caller]
fn length(during: &'static str, x: usize, y: Option<usize>) -> Result<usize> {
    let same = match y {
        Some(y) => equal(
            ("elements of x", x),
            ("elements of y", y),
            &[],
            "pass slices of one length",
        ),
        None => Ok(()),
    };
    same.and_then(|()| vector(Operand::X, x)).map_err(refusal(during))
}

#[track_caller]
fn one_result(during: &'static str, len: usize) -> Result<()> {
    match len {
        1 => Ok(()),
        len => Err(refusal(during)(ShapeError::NotOneElement { len })),
    }
}
