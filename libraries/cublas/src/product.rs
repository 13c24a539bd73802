//! Products of matrices, and of matrices with vectors.

use cuda_rt_runtime::driver::{DeviceAddress, RawStream};
use cuda_rt_runtime::{DeviceBuffer, DeviceSlice, Element, Live, ReadBy, StreamTag, WriteBy};

use crate::blas::{Blas, Engine, ON_HOST, number, pointer};
use crate::element::{Factor, Multiply, Precision, ProductType, Real};
use crate::error::{BlasError, Operand, Result, ShapeError, equal, refusal};
use crate::ffi::{self, Cublas, cublasHandle_t};
use crate::matrix::{LARGEST, Matrix, MatrixMut, Shape};
use crate::plan::{FactorPlan, ProductPlan, int, long, simulated_shape};

/// cuBLAS' numbers for a product with this precision.
fn compute_type(product: &ProductType, precision: Precision) -> ffi::cublasComputeType_t {
    match precision {
        Precision::Full => product.compute,
        Precision::Tf32 => product.fast,
    }
}

/// Whether cuBLAS takes matrices of bytes at these places, in memory of `len` bytes.
///
/// Counterexample for the length: of a matrix of one byte, cuBLAS 13.1 reads four
/// (`compute-sanitizer` on an H200). The other three may be another stream's.
fn check_fours(
    operand: Operand,
    (address, len): (DeviceAddress, usize),
    shape: &Shape,
) -> Result<(), ShapeError> {
    let numbers = [
        ("address", address.0 as usize),
        ("leading dimension", shape.leading),
        ("stride", shape.stride()),
    ];
    match numbers.into_iter().find(|(_, number)| !number.is_multiple_of(4)) {
        None => shape.check_reach(operand, len, 4),
        Some((what, _)) => Err(ShapeError::Misaligned { operand, what }),
    }
}

impl<S: StreamTag> Blas<S> {
    /// A·B in new memory, row by row, or in a batch of matrices one behind the other
    /// (`cublasGemmEx`, `cublasGemmStridedBatchedEx`). Stream-ordered.
    ///
    /// The type of the product's elements is that of the factors', or one that the program names:
    /// `let c: DeviceBuffer<i32, _> = blas.multiply(a, b)?`. A factor that is no batch is used for
    /// each product of the batch.
    ///
    /// # Errors
    /// As [`gemm`](Self::gemm), and [`BlasError::Runtime`] if there is no memory.
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// use cuda_rt::DeviceBuffer;
    /// use cuda_rt_cublas::{Blas, Matrix};
    ///
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let compute = gpu.stream::<Compute>()?;
    /// let blas = Blas::new(&compute)?;
    /// let bytes = compute.alloc_from_slice(&[1_i8, 2, 3, 4, -1, -2, -3, -4])?; // two rows
    /// let (a, b) = (Matrix::new(&bytes, 2, 4), Matrix::new(&bytes, 2, 4).transposed());
    /// let c: DeviceBuffer<i32, _> = blas.multiply(a, b)?;
    /// assert_eq!(compute.copy_to_vec(&c)?, [30, -30, -30, 30]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn multiply<T, C, P, Q>(&self, a: Matrix<'_, T, P>, b: Matrix<'_, T, Q>) -> Result<DeviceBuffer<C, S>>
    where
        T: Multiply<C>,
        C: Element,
        P: ReadBy<S>,
        Q: ReadBy<S>,
    {
        const DURING: &str = "Blas::multiply";
        let refused = refusal(DURING);
        // The inputs are checked first, so that the numbers below are of 31 bits.
        a.shape.check(Operand::A, a.memory.len()).map_err(refused)?;
        b.shape.check(Operand::B, b.memory.len()).map_err(refused)?;
        let (rows, columns) = (a.rows(), b.columns());
        let count = a.shape.batch.or(b.shape.batch).map(|batch| batch.count);
        let stride = rows * columns;
        let shape = Shape::packed(rows, columns, count.map(|count| (count, stride)));
        let len = stride.saturating_mul(count.unwrap_or(1));
        // The output is checked before it is allocated: it may be too large.
        let inputs = ((&a.shape, a.memory.len()), (&b.shape, b.memory.len()));
        ProductPlan::new(inputs.0, inputs.1, (&shape, len)).map_err(refused)?;
        let mut c = self.stream.alloc_uninit::<C>(len)?;
        self.product::<T, C, _, _, _, _>(DURING, (T::Scalar::ONE, T::Scalar::ZERO), a, b, &mut c, shape)?;
        // SAFETY: the product writes each element of a matrix that is stored without gaps, and the
        // matrices of the batch stand one behind the other. It is in the order of the stream.
        Ok(unsafe { c.assume_init() })
    }

    /// C = alpha·A·B + beta·C (`cublasGemmEx`, `cublasGemmStridedBatchedEx`). Stream-ordered; the
    /// factors alpha and beta are read at the call.
    ///
    /// Each matrix may be stored by rows or by columns, with any leading dimension. If C is a
    /// [batch](MatrixMut::batch), each factor is a batch of as many matrices, or one matrix that
    /// every product uses. If beta is 0, C is not read. If C has no elements, nothing is enqueued.
    ///
    /// # Hazards prevented
    /// [H01](cuda_rt_runtime::hazards#h01)–[H03](cuda_rt_runtime::hazards#h03),
    /// [H29](cuda_rt_runtime::hazards#h29). Counterexample for the check of batches: with matrices
    /// of C that overlap, two products write one element at the same time.
    ///
    /// # Errors
    /// [`BlasError::Shape`], before anything is enqueued: a matrix does not fit its memory or the
    /// other matrices, numbers are too large for cuBLAS, or the inner dimension is 0: BLAS computes
    /// beta·C then, which here is [`scal`](Self::scal), or a fill. [`BlasError::Status`]: cuBLAS
    /// refused the call or could not enqueue all of it. [`BlasError::Runtime`].
    #[track_caller]
    pub fn gemm<T, C, P, Q, W>(
        &self,
        alpha: T::Scalar,
        a: Matrix<'_, T, P>,
        b: Matrix<'_, T, Q>,
        beta: T::Scalar,
        c: MatrixMut<'_, C, W>,
    ) -> Result<()>
    where
        T: Multiply<C>,
        C: Element,
        P: ReadBy<S>,
        Q: ReadBy<S>,
        W: WriteBy<S>,
    {
        self.product::<T, C, C, _, _, _>("Blas::gemm", (alpha, beta), a, b, c.memory, c.shape)
    }

    /// Enqueues a product. `E` is `C`, or memory for a `C`.
    #[track_caller]
    fn product<T, C, E, P, Q, W>(
        &self,
        during: &'static str,
        (alpha, beta): (T::Scalar, T::Scalar),
        a: Matrix<'_, T, P>,
        b: Matrix<'_, T, Q>,
        c: &mut DeviceSlice<E, W>,
        shape: Shape,
    ) -> Result<()>
    where
        T: Multiply<C>,
        C: Element,
        P: ReadBy<S>,
        Q: ReadBy<S>,
        W: WriteBy<S>,
    {
        const { assert!(size_of::<E>() == size_of::<C>()) };
        let refused = refusal(during);
        let plan = ProductPlan::new(
            (&a.shape, a.memory.len()),
            (&b.shape, b.memory.len()),
            (&shape, c.len()),
        );
        let Some(plan) = plan.map_err(refused)? else {
            return Ok(());
        };
        let product = T::PRODUCT;
        if product.in_fours {
            check_fours(Operand::A, (a.memory.address(), a.memory.len()), &a.shape).map_err(refused)?;
            check_fours(Operand::B, (b.memory.address(), b.memory.len()), &b.shape).map_err(refused)?;
        }
        let library = match &self.engine {
            Engine::Library(library) => library,
            Engine::Simulated => {
                let words = plan.words(T::Scalar::BITS(alpha), T::Scalar::BITS(beta));
                let threads = modelled_threads(&plan, &product);
                let kernel = product.kernel.ok_or(BlasError::NoSimulator)?();
                let launch = self.stream.foreign_kernel(kernel);
                let launch = match plan.swapped {
                    false => launch.read(a.memory).read(b.memory),
                    true => launch.read(b.memory).read(a.memory),
                };
                let launch = launch.write(c).value(words);
                // SAFETY: the kernel is `simulate` for these types, on a simulated device. By
                // PLAN-1 it reads the factors and writes the output, in bounds, and any bits are a
                // value of `C`.
                return Ok(unsafe { launch.launch(&simulated_shape(threads)) }?);
            }
        };
        let at = [a.memory.address(), b.memory.address(), c.address()];
        let [first, second] = if plan.swapped {
            [at[1], at[0]]
        } else {
            [at[0], at[1]]
        };
        let compute = compute_type(&product, self.precision);
        let gemm = |cublas: &Cublas, handle: cublasHandle_t| {
            // SAFETY: PLAN-1: the matrices lie in memory that `call` borrows, on the handle's
            // stream. The types are those of `T` and `C`, and the factors are read before the call
            // returns, in host mode.
            unsafe {
                gemm(
                    cublas,
                    during,
                    handle,
                    &plan,
                    &product,
                    compute,
                    (&alpha, &beta),
                    [first, second, at[2]],
                )
            }
        };
        let mut workspace = library.workspace();
        let space = (workspace.address(), workspace.len());
        let call = self
            .stream
            .foreign("cublasGemmEx")
            .writes(&mut workspace)
            .reads(a.memory)
            .reads(b.memory)
            .writes(c);
        // SAFETY: `enqueue` gives the stream `S`. The workspace is locked and stated.
        let body = |stream: RawStream| unsafe { library.make(during, stream, space, ON_HOST, gemm) };
        // SAFETY: cuBLAS enqueues one product on the stream that it is set to. The product reads A,
        // B and C and writes C and the workspace, all stated, in bounds by PLAN-1. The workspace is
        // freed in the order of the stream, and the handle never. In a capture the workspace is
        // memory of the graph. Any bits are a value of `C`.
        unsafe { call.enqueue(body) }?
    }

    /// C = alpha·A·B + beta·C for lists of matrices, which may lie anywhere
    /// (`cublasGemmBatchedEx`). Stream-ordered. The host first copies the addresses of the matrices
    /// to the device.
    ///
    /// All matrices of a list have the same rows, columns, layout and leading dimension. For
    /// matrices at equal distances in one buffer, [`gemm`](Self::gemm) with
    /// [`batch`](Matrix::batch) is faster. If a matrix does not begin at a multiple of 16 bytes,
    /// the products are enqueued one by one: cuBLAS cannot see where the matrices of a list begin,
    /// and may read beyond an alignment.
    ///
    /// # Hazards prevented
    /// As [`gemm`](Self::gemm). The outputs do not overlap, because each is borrowed by itself
    /// ([H11](cuda_rt_runtime::hazards#h11)).
    ///
    /// # Errors
    /// As [`gemm`](Self::gemm). If a list with other alignments fails half-way, the first products
    /// are enqueued.
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// use cuda_rt_cublas::{Blas, Matrix, MatrixMut};
    ///
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let compute = gpu.stream::<Compute>()?;
    /// let numbers = compute.alloc_from_slice(&[1.0_f32, 2.0, 3.0, 4.0])?;
    /// let (mut c, mut d) = (compute.alloc_zeroed::<f32>(1)?, compute.alloc_zeroed::<f32>(1)?);
    /// let row = Matrix::new(&numbers[..2], 1, 2);
    /// let columns = [&numbers[..2], &numbers[2..]].map(|part| Matrix::new(part, 2, 1));
    /// let mut products = [MatrixMut::new(&mut c, 1, 1), MatrixMut::new(&mut d, 1, 1)];
    /// Blas::new(&compute)?.gemm_batched(1.0, &[row, row], &columns, 0.0, &mut products)?;
    /// assert_eq!(compute.copy_to_vec(&c)?, [5.0]);
    /// assert_eq!(compute.copy_to_vec(&d)?, [11.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn gemm_batched<T, C, P, Q, W>(
        &self,
        alpha: T::Scalar,
        a: &[Matrix<'_, T, P>],
        b: &[Matrix<'_, T, Q>],
        beta: T::Scalar,
        c: &mut [MatrixMut<'_, C, W>],
    ) -> Result<()>
    where
        T: Multiply<C>,
        C: Element,
        P: ReadBy<S>,
        Q: ReadBy<S>,
        W: WriteBy<S>,
        S::Device: Live,
    {
        const DURING: &str = "Blas::gemm_batched";
        let refused = refusal(DURING);
        equal(
            ("matrices in the list A", a.len()),
            ("matrices in the list C", c.len()),
            &[],
            "pass lists of one length",
        )
        .map_err(refused)?;
        equal(
            ("matrices in the list B", b.len()),
            ("matrices in the list C", c.len()),
            &[],
            "pass lists of one length",
        )
        .map_err(refused)?;
        if c.len() > LARGEST {
            let (operand, what, number) = (Operand::C, "matrices", c.len());
            return Err(refused(ShapeError::TooLarge {
                operand,
                what,
                number,
            }));
        }
        // Each product is checked by itself, and all before the first is enqueued.
        let mut plans = Vec::with_capacity(c.len());
        let mut is_aligned = true;
        for ((a, b), c) in a.iter().zip(b).zip(c.iter()) {
            let plan = ProductPlan::new(
                (&a.shape, a.memory.len()),
                (&b.shape, b.memory.len()),
                (&c.shape, c.memory.len()),
            );
            plans.push(plan.map_err(refused)?);
            let addresses = [a.memory.address(), b.memory.address(), c.memory.address()];
            is_aligned &= addresses.iter().all(|address| address.0.is_multiple_of(16));
            if T::PRODUCT.in_fours {
                check_fours(Operand::A, (a.memory.address(), a.memory.len()), &a.shape).map_err(refused)?;
                check_fours(Operand::B, (b.memory.address(), b.memory.len()), &b.shape).map_err(refused)?;
            }
        }
        let shapes = (
            a.iter().map(|a| a.shape),
            b.iter().map(|b| b.shape),
            c.iter().map(|c| c.shape),
        );
        check_alike(Operand::A, shapes.0).map_err(refused)?;
        check_alike(Operand::B, shapes.1).map_err(refused)?;
        check_alike(Operand::C, shapes.2).map_err(refused)?;
        let Some(Some(plan)) = plans.first().copied() else {
            return Ok(());
        };
        let library = match &self.engine {
            Engine::Library(library) if is_aligned => library,
            _ => {
                for ((a, b), c) in a.iter().zip(b).zip(c) {
                    let c = c.reborrow();
                    self.product::<T, C, C, _, _, _>(DURING, (alpha, beta), *a, *b, c.memory, c.shape)?;
                }
                return Ok(());
            }
        };
        let at = [
            a.iter().map(|a| a.memory.address().0).collect::<Vec<u64>>(),
            b.iter().map(|b| b.memory.address().0).collect(),
            c.iter().map(|c| c.memory.address().0).collect(),
        ];
        let addresses = self.stream.alloc_from_slice(&at.concat())?;
        let list = |index: usize| addresses[index * c.len()..].address();
        let [first, second] = if plan.swapped {
            [list(1), list(0)]
        } else {
            [list(0), list(1)]
        };
        let (third, count) = (list(2), int(c.len()));
        let (product, compute) = (T::PRODUCT, compute_type(&T::PRODUCT, self.precision));
        let gemm = |cublas: &Cublas, handle: cublasHandle_t| {
            // SAFETY: PLAN-1 for each product, and all have one shape: the matrices lie in memory
            // that `call` borrows, on the handle's stream. The lists are of `count` addresses. The
            // factors are read before the call returns, in host mode.
            unsafe {
                cublas.cublasGemmBatchedEx(
                    DURING,
                    handle,
                    plan.first.operation(),
                    plan.second.operation(),
                    int(plan.m),
                    int(plan.n),
                    int(plan.k),
                    number(&alpha),
                    pointer(first),
                    product.factor,
                    int(plan.first.leading),
                    pointer(second),
                    product.factor,
                    int(plan.second.leading),
                    number(&beta),
                    pointer(third),
                    product.product,
                    int(plan.leading),
                    count,
                    compute,
                    ffi::CUBLAS_GEMM_DEFAULT,
                )
            }
        };
        let mut workspace = library.workspace();
        let space = (workspace.address(), workspace.len());
        let mut call = self
            .stream
            .foreign("cublasGemmBatchedEx")
            .writes(&mut workspace)
            .reads(&addresses);
        for ((a, b), c) in a.iter().zip(b).zip(c) {
            call = call.reads(a.memory).reads(b.memory).writes(c.memory);
        }
        // SAFETY: `enqueue` gives the stream `S`. The workspace is locked and stated.
        let body = |stream: RawStream| unsafe { library.make(DURING, stream, space, ON_HOST, gemm) };
        // SAFETY: as in `product`. The list of addresses is stated, and is freed in the order of
        // the stream.
        unsafe { call.enqueue(body) }?
    }

    /// y = alpha·A·x + beta·y (`cublasSgemv`, `cublasDgemv`). Stream-ordered. If beta is 0, y is
    /// not read.
    ///
    /// # Errors
    /// As [`gemm`](Self::gemm).
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// use cuda_rt_cublas::{Blas, Matrix};
    ///
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let compute = gpu.stream::<Compute>()?;
    /// let a = compute.alloc_from_slice(&[1.0_f64, 2.0, 3.0, 4.0, 5.0, 6.0])?;
    /// let x = compute.alloc_from_slice(&[1.0_f64, 0.0, -1.0])?;
    /// let mut y = compute.alloc_from_slice(&[10.0_f64, 10.0])?;
    /// Blas::new(&compute)?.gemv(1.0, Matrix::new(&a, 2, 3), &x, 0.5, &mut y)?;
    /// assert_eq!(compute.copy_to_vec(&y)?, [3.0, 3.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn gemv<T, P, Q, W>(
        &self,
        alpha: T,
        a: Matrix<'_, T, P>,
        x: &DeviceSlice<T, Q>,
        beta: T,
        y: &mut DeviceSlice<T, W>,
    ) -> Result<()>
    where
        T: Real,
        P: ReadBy<S>,
        Q: ReadBy<S>,
        W: WriteBy<S>,
    {
        const DURING: &str = "Blas::gemv";
        let refused = refusal(DURING);
        if a.shape.batch.is_some() {
            return Err(refused(ShapeError::IsBatch { operand: Operand::A }));
        }
        const ADVICE: &str = "pass a slice of that length, or `.transposed()` for A";
        let in_a = [(Operand::A, &a.shape)];
        let (inner, outer) = (("columns of A", a.columns()), ("rows of A", a.rows()));
        equal(inner, ("elements of x", x.len()), &in_a, ADVICE).map_err(refused)?;
        equal(outer, ("elements of y", y.len()), &in_a, ADVICE).map_err(refused)?;
        // Columns are vectors without gaps, so that the product has no factors exchanged.
        let (column_x, column_y) = (Shape::column(x.len()), Shape::column(y.len()));
        let plan = ProductPlan::new(
            (&a.shape, a.memory.len()),
            (&column_x, x.len()),
            (&column_y, y.len()),
        );
        let Some(plan) = plan.map_err(refused)? else {
            return Ok(());
        };
        let library = match &self.engine {
            Engine::Library(library) => library,
            Engine::Simulated => {
                let x = Matrix {
                    memory: x,
                    shape: column_x,
                };
                return self.product::<T, T, T, _, _, _>(DURING, (alpha, beta), a, x, y, column_y);
            }
        };
        // The matrix as it is stored, column by column.
        let (m, n) = match plan.first.transposed {
            false => (a.rows(), a.columns()),
            true => (a.columns(), a.rows()),
        };
        let [matrix, from, to] = [a.memory.address(), x.address(), y.address()];
        let gemv = |cublas: &Cublas, handle: cublasHandle_t| {
            let (operation, leading) = (plan.first.operation(), int(plan.first.leading));
            // SAFETY: PLAN-1: the matrix and the vectors lie in memory that `call` borrows, on the
            // handle's stream. The factors are read before the call returns, in host mode.
            unsafe {
                (T::FUNCTIONS.gemv)(
                    cublas,
                    DURING,
                    handle,
                    operation,
                    int(m),
                    int(n),
                    &alpha,
                    pointer(matrix),
                    leading,
                    pointer(from),
                    1,
                    &beta,
                    pointer(to),
                    1,
                )
            }
        };
        let mut workspace = library.workspace();
        let space = (workspace.address(), workspace.len());
        let call = self.stream.foreign("cublasSgemv").writes(&mut workspace);
        let call = call.reads(a.memory).reads(x).writes(y);
        // SAFETY: `enqueue` gives the stream `S`. The workspace is locked and stated.
        let body = |stream: RawStream| unsafe { library.make(DURING, stream, space, ON_HOST, gemv) };
        // SAFETY: as in `product`.
        unsafe { call.enqueue(body) }?
    }
}

/// Threads of the modelled launch.
fn modelled_threads(plan: &ProductPlan, product: &ProductType) -> [u64; 3] {
    let parts = (plan.k as u64).div_ceil(product.products_a_thread);
    [
        plan.m as u64,
        plan.n as u64,
        parts.saturating_mul(plan.count as u64),
    ]
}

/// The first matrix that differs from matrix 0, or is a batch.
fn check_alike(operand: Operand, shapes: impl Iterator<Item = Shape>) -> Result<(), ShapeError> {
    let mut first = None;
    for (index, shape) in shapes.enumerate() {
        if shape.batch.is_some() {
            return Err(ShapeError::IsBatch { operand });
        }
        if *first.get_or_insert(shape) != shape {
            return Err(ShapeError::NotAlike { operand, index });
        }
    }
    Ok(())
}

/// Enqueues a product, or a batch of them.
///
/// # Safety
/// PLAN-1 for memory at these addresses, which the handle's stream may use: the two factors in
/// cuBLAS' order, and the output. Their types are those of `product`, and `alpha` and `beta` are of
/// the type that it demands. The handle is in host mode.
#[expect(clippy::too_many_arguments, reason = "the arguments of a call of cuBLAS")]
unsafe fn gemm<F: Factor>(
    cublas: &Cublas,
    during: &'static str,
    handle: cublasHandle_t,
    plan: &ProductPlan,
    product: &ProductType,
    compute: ffi::cublasComputeType_t,
    (alpha, beta): (&F, &F),
    [first, second, output]: [DeviceAddress; 3],
) -> Result<()> {
    let ProductPlan { m, n, k, leading, .. } = *plan;
    let (one, two): (FactorPlan, FactorPlan) = (plan.first, plan.second);
    if plan.count == 1 {
        // SAFETY: this function's contract.
        return unsafe {
            cublas.cublasGemmEx(
                during,
                handle,
                one.operation(),
                two.operation(),
                int(m),
                int(n),
                int(k),
                number(alpha),
                pointer(first),
                product.factor,
                int(one.leading),
                pointer(second),
                product.factor,
                int(two.leading),
                number(beta),
                pointer(output),
                product.product,
                int(leading),
                compute,
                ffi::CUBLAS_GEMM_DEFAULT,
            )
        };
    }
    // SAFETY: this function's contract.
    unsafe {
        cublas.cublasGemmStridedBatchedEx(
            during,
            handle,
            one.operation(),
            two.operation(),
            int(m),
            int(n),
            int(k),
            number(alpha),
            pointer(first),
            product.factor,
            int(one.leading),
            long(one.stride),
            pointer(second),
            product.factor,
            int(two.leading),
            long(two.stride),
            number(beta),
            pointer(output),
            product.product,
            int(leading),
            long(plan.stride),
            int(plan.count),
            compute,
            ffi::CUBLAS_GEMM_DEFAULT,
        )
    }
}
