//! The calls of a [`Plan`], which enqueue its transforms.

use std::ptr;

use cuda_rt_runtime::driver::{DeviceAddress, RawStream};
use cuda_rt_runtime::kernel::{Extent, LaunchShape};
use cuda_rt_runtime::{DeviceSlice, ReadBy, StreamTag, WriteBy};
use num_complex::Complex;

use crate::element::Real;
use crate::error::{FftError, Operand, Result, ShapeError, refusal};
use crate::ffi::{CUFFT_FORWARD, CUFFT_INVERSE, Cufft, cufftHandle};
use crate::plan::{Engine, Plan};
use crate::shape::Transforms;

impl<R: Real, S: StreamTag> Plan<Complex<R>, Complex<R>, S> {
    /// Writes the spectra of `input` to `output`, not normalised (`cufftExecC2C`, `cufftExecZ2Z`).
    /// Element `k` of a spectrum of `n` elements is the sum over `j` of `input[j]·exp(-2πi·jk/n)`.
    /// Stream-ordered. Memory between the places of the shape is not changed.
    ///
    /// # Hazards prevented
    /// [H01](cuda_rt_runtime::hazards#h01)–[H03](cuda_rt_runtime::hazards#h03),
    /// [H29](cuda_rt_runtime::hazards#h29).
    ///
    /// # Errors
    /// [`FftError::Shape`], before anything is enqueued: a slice is shorter than
    /// [`input_len`](Self::input_len) or [`output_len`](Self::output_len), or begins at no multiple
    /// of the size of a complex number. [`FftError::Status`]: cuFFT refused the call or could not
    /// enqueue all of it. [`FftError::Runtime`].
    #[track_caller]
    pub fn forward<P, W>(
        &self,
        input: &DeviceSlice<Complex<R>, P>,
        output: &mut DeviceSlice<Complex<R>, W>,
    ) -> Result<()>
    where
        P: ReadBy<S>,
        W: WriteBy<S>,
    {
        self.transform("Plan::forward", false, input, output)
    }

    /// Writes the signals of which `input` has the spectra to `output`, times the number of their
    /// elements (`cufftExecC2C`, `cufftExecZ2Z`). As [`forward`](Self::forward) with
    /// `exp(+2πi·jk/n)`.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// use cuda_rt_cufft::{Complex, Plan, Shape};
    ///
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let compute = gpu.stream::<Compute>()?;
    /// let plan = Plan::<Complex<f64>, Complex<f64>, _>::new(&compute, Shape::plane(2, 2))?;
    /// let spectrum = compute.alloc_from_slice(&[4.0, 0.0, 0.0, 4.0].map(Complex::from))?;
    /// let mut image = compute.alloc_zeroed::<Complex<f64>>(4)?;
    /// plan.inverse(&spectrum, &mut image)?;
    /// assert_eq!(compute.copy_to_vec(&image)?, [8.0, 0.0, 0.0, 8.0].map(Complex::from));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn inverse<P, W>(
        &self,
        input: &DeviceSlice<Complex<R>, P>,
        output: &mut DeviceSlice<Complex<R>, W>,
    ) -> Result<()>
    where
        P: ReadBy<S>,
        W: WriteBy<S>,
    {
        self.transform("Plan::inverse", true, input, output)
    }

    /// As [`forward`](Self::forward), in one piece of memory.
    ///
    /// # Errors
    /// As [`forward`](Self::forward), and [`FftError::Shape`] if the shape has other places for the
    /// output than for the input.
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// use cuda_rt_cufft::{Complex, Plan, Shape};
    ///
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let compute = gpu.stream::<Compute>()?;
    /// let plan = Plan::<Complex<f32>, Complex<f32>, _>::new(&compute, Shape::line(4))?;
    /// let mut signal = compute.alloc_from_slice(&[1.0, 0.0, 0.0, 0.0].map(Complex::from))?;
    /// plan.forward_in_place(&mut signal)?;
    /// assert_eq!(compute.copy_to_vec(&signal)?, [Complex::from(1.0); 4]);
    /// plan.inverse_in_place(&mut signal)?; // times four
    /// assert_eq!(compute.copy_to_vec(&signal)?, [4.0, 0.0, 0.0, 0.0].map(Complex::from));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn forward_in_place<W>(&self, signal: &mut DeviceSlice<Complex<R>, W>) -> Result<()>
    where
        W: WriteBy<S>,
    {
        self.transform_in_place("Plan::forward_in_place", false, signal)
    }

    /// As [`inverse`](Self::inverse), in one piece of memory.
    ///
    /// # Errors
    /// As [`forward_in_place`](Self::forward_in_place).
    #[track_caller]
    pub fn inverse_in_place<W>(&self, signal: &mut DeviceSlice<Complex<R>, W>) -> Result<()>
    where
        W: WriteBy<S>,
    {
        self.transform_in_place("Plan::inverse_in_place", true, signal)
    }

    #[track_caller]
    fn transform<P, W>(
        &self,
        during: &'static str,
        is_inverse: bool,
        input: &DeviceSlice<Complex<R>, P>,
        output: &mut DeviceSlice<Complex<R>, W>,
    ) -> Result<()>
    where
        P: ReadBy<S>,
        W: WriteBy<S>,
    {
        let complex = size_of::<Complex<R>>();
        let places = ((input.address(), input.len()), (output.address(), output.len()));
        check_memory(&self.transforms, places, complex).map_err(refusal(during))?;
        let library = match &self.engine {
            Engine::Library(library) => library,
            Engine::Simulated => {
                let kernels = R::FUNCTIONS.kernels.ok_or(FftError::NoSimulator)?();
                let launch = self.stream.foreign_kernel(&kernels.transform);
                let launch = launch.read(input).write(output);
                let launch = launch.value(self.transforms.words(is_inverse));
                // SAFETY: the kernel is `transform` for this type, on a simulated device. By
                // TRANSFORMS-1 and the check above it reads the input and writes the output, in
                // bounds.
                return Ok(unsafe { launch.launch(&simulated_shape(&self.transforms, complex)) }?);
            }
        };
        let (from, to) = (pointer(input.address()), pointer(output.address()));
        let direction = if is_inverse { CUFFT_INVERSE } else { CUFFT_FORWARD };
        let transform = |cufft: &Cufft, handle: cufftHandle| {
            // SAFETY: by TRANSFORMS-1 and the check above all places lie in memory that `call`
            // borrows, on the handle's stream. Both begin at a multiple of a complex number. The
            // function is that of the plan's type.
            unsafe { (R::FUNCTIONS.transform)(cufft, during, handle, from, to, direction) }
        };
        let mut workspace = library.workspace();
        let area = workspace.address();
        let call = self.stream.foreign("cufftExecC2C").writes(&mut workspace);
        let call = call.reads(input).writes(output);
        // SAFETY: `enqueue` gives the stream `S`. The work area is locked and stated.
        let body = |stream: RawStream| unsafe { library.make(during, stream, area, transform) };
        // SAFETY: cuFFT enqueues the transforms on the stream that it is set to. They read the
        // input, and write the output and the work area, all stated, in bounds by TRANSFORMS-1.
        // The work area is freed in the order of the stream, and the handle never. In a capture the
        // work area is memory of the graph. Any bits are a complex number.
        unsafe { call.enqueue(body) }?
    }

    #[track_caller]
    fn transform_in_place<W>(
        &self,
        during: &'static str,
        is_inverse: bool,
        signal: &mut DeviceSlice<Complex<R>, W>,
    ) -> Result<()>
    where
        W: WriteBy<S>,
    {
        let complex = size_of::<Complex<R>>();
        let refused = refusal(during);
        self.transforms.check_in_place().map_err(refused)?;
        let place = (signal.address(), signal.len());
        check_memory(&self.transforms, (place, place), complex).map_err(refused)?;
        let library = match &self.engine {
            Engine::Library(library) => library,
            Engine::Simulated => {
                let kernels = R::FUNCTIONS.kernels.ok_or(FftError::NoSimulator)?();
                let launch = self.stream.foreign_kernel(&kernels.in_place).write(signal);
                let launch = launch.value(self.transforms.words(is_inverse));
                // SAFETY: the kernel is `in_place` for this type, on a simulated device. By
                // TRANSFORMS-1 and the check above it reads and writes the signal, in bounds.
                return Ok(unsafe { launch.launch(&simulated_shape(&self.transforms, complex)) }?);
            }
        };
        let at = pointer(signal.address());
        let direction = if is_inverse { CUFFT_INVERSE } else { CUFFT_FORWARD };
        let transform = |cufft: &Cufft, handle: cufftHandle| {
            // SAFETY: as in `transform`. With one address for both, cuFFT transforms in place; the
            // places of input and output are the same.
            unsafe { (R::FUNCTIONS.transform)(cufft, during, handle, at, at, direction) }
        };
        let mut workspace = library.workspace();
        let area = workspace.address();
        let call = self.stream.foreign("cufftExecC2C").writes(&mut workspace);
        let call = call.writes(signal);
        // SAFETY: `enqueue` gives the stream `S`. The work area is locked and stated.
        let body = |stream: RawStream| unsafe { library.make(during, stream, area, transform) };
        // SAFETY: as in `transform`, for the signal, which is read and written.
        unsafe { call.enqueue(body) }?
    }
}

impl<R: Real, S: StreamTag> Plan<R, Complex<R>, S> {
    /// Writes the spectra of real signals to `output`, not normalised (`cufftExecR2C`,
    /// `cufftExecD2Z`). Stream-ordered.
    ///
    /// A spectrum has the first `n / 2 + 1` elements of its last dimension; the others are their
    /// conjugates. Memory between the places of the shape is not changed.
    ///
    /// # Hazards prevented
    /// [H01](cuda_rt_runtime::hazards#h01)–[H03](cuda_rt_runtime::hazards#h03).
    ///
    /// # Errors
    /// [`FftError::Shape`], before anything is enqueued: a slice is shorter than
    /// [`input_len`](Self::input_len) or [`output_len`](Self::output_len), or begins at no multiple
    /// of the size of a complex number. [`FftError::Status`]: cuFFT refused the call or could not
    /// enqueue all of it. [`FftError::Runtime`].
    #[track_caller]
    pub fn forward<P, W>(
        &self,
        input: &DeviceSlice<R, P>,
        output: &mut DeviceSlice<Complex<R>, W>,
    ) -> Result<()>
    where
        P: ReadBy<S>,
        W: WriteBy<S>,
    {
        const DURING: &str = "Plan::forward";
        let complex = size_of::<Complex<R>>();
        let places = ((input.address(), input.len()), (output.address(), output.len()));
        check_memory(&self.transforms, places, complex).map_err(refusal(DURING))?;
        let library = match &self.engine {
            Engine::Library(library) => library,
            Engine::Simulated => {
                let kernels = R::FUNCTIONS.kernels.ok_or(FftError::NoSimulator)?();
                let launch = self.stream.foreign_kernel(&kernels.forward);
                let launch = launch.read(input).write(output);
                let launch = launch.value(self.transforms.words(false));
                // SAFETY: the kernel is `forward` for this type. The rest is as in `transform`.
                return Ok(unsafe { launch.launch(&simulated_shape(&self.transforms, complex)) }?);
            }
        };
        let (from, to) = (pointer(input.address()), pointer(output.address()));
        let forward = |cufft: &Cufft, handle: cufftHandle| {
            // SAFETY: as in `transform`. cuFFT does not write the input.
            unsafe { (R::FUNCTIONS.forward)(cufft, DURING, handle, from, to) }
        };
        let mut workspace = library.workspace();
        let area = workspace.address();
        let call = self.stream.foreign("cufftExecR2C").writes(&mut workspace);
        let call = call.reads(input).writes(output);
        // SAFETY: `enqueue` gives the stream `S`. The work area is locked and stated.
        let body = |stream: RawStream| unsafe { library.make(DURING, stream, area, forward) };
        // SAFETY: as in `transform`.
        unsafe { call.enqueue(body) }?
    }
}

impl<R: Real, S: StreamTag> Plan<Complex<R>, R, S> {
    /// Writes the real signals of which `input` has the spectra to `output`, times the number of
    /// their elements (`cufftExecC2R`, `cufftExecZ2D`). Stream-ordered.
    ///
    /// A spectrum has the first `n / 2 + 1` elements of its last dimension. The others are taken to
    /// be their conjugates, and so are elements whose conjugates are among the first; if they are
    /// not, the output is a GPU's choice. Memory between the places of the shape is not changed.
    ///
    /// **The input is destroyed:** cuFFT may use its memory for other numbers, and does for
    /// transforms of several dimensions. On simulated devices it is NaN afterwards.
    ///
    /// # Hazards prevented
    /// [H01](cuda_rt_runtime::hazards#h01)–[H03](cuda_rt_runtime::hazards#h03). Counterexample to
    /// an input that is borrowed as shared: another stream reads it at the same time, and gets what
    /// cuFFT wrote.
    ///
    /// # Errors
    /// [`FftError::Shape`], before anything is enqueued: a slice is shorter than
    /// [`input_len`](Self::input_len) or [`output_len`](Self::output_len), or begins at no multiple
    /// of the size of a complex number. [`FftError::Status`]: cuFFT refused the call or could not
    /// enqueue all of it. [`FftError::Runtime`].
    #[track_caller]
    pub fn inverse<P, W>(
        &self,
        input: &mut DeviceSlice<Complex<R>, P>,
        output: &mut DeviceSlice<R, W>,
    ) -> Result<()>
    where
        P: WriteBy<S>,
        W: WriteBy<S>,
    {
        const DURING: &str = "Plan::inverse";
        let complex = size_of::<Complex<R>>();
        let places = ((input.address(), input.len()), (output.address(), output.len()));
        check_memory(&self.transforms, places, complex).map_err(refusal(DURING))?;
        let library = match &self.engine {
            Engine::Library(library) => library,
            Engine::Simulated => {
                let kernels = R::FUNCTIONS.kernels.ok_or(FftError::NoSimulator)?();
                let launch = self.stream.foreign_kernel(&kernels.inverse);
                let launch = launch.write(input).write(output);
                let launch = launch.value(self.transforms.words(true));
                // SAFETY: the kernel is `inverse` for this type. It writes the input too, which is
                // borrowed so. The rest is as in `transform`.
                return Ok(unsafe { launch.launch(&simulated_shape(&self.transforms, complex)) }?);
            }
        };
        let (from, to) = (pointer(input.address()), pointer(output.address()));
        let inverse = |cufft: &Cufft, handle: cufftHandle| {
            // SAFETY: as in `transform`. What cuFFT writes to the input lies in bounds too.
            unsafe { (R::FUNCTIONS.inverse)(cufft, DURING, handle, from, to) }
        };
        let mut workspace = library.workspace();
        let area = workspace.address();
        let call = self.stream.foreign("cufftExecC2R").writes(&mut workspace);
        let call = call.writes(input).writes(output);
        // SAFETY: `enqueue` gives the stream `S`. The work area is locked and stated.
        let body = |stream: RawStream| unsafe { library.make(DURING, stream, area, inverse) };
        // SAFETY: as in `transform`, for an input that is written too, and stated so.
        unsafe { call.enqueue(body) }?
    }
}

/// Addresses and lengths of the input and the output.
type Memory = (DeviceAddress, usize);

fn check_memory(
    transforms: &Transforms,
    (input, output): (Memory, Memory),
    complex_bytes: usize,
) -> Result<(), ShapeError> {
    for (operand, places, (address, len)) in [
        (Operand::Input, &transforms.input, input),
        (Operand::Output, &transforms.output, output),
    ] {
        places.check_memory(operand, (address.0, len), complex_bytes)?;
    }
    Ok(())
}

/// A pointer to device memory.
fn pointer<T>(address: DeviceAddress) -> *mut T {
    ptr::without_provenance_mut(address.0 as usize)
}

/// The shape of a launch on a simulated device that is modelled as the transforms.
fn simulated_shape(transforms: &Transforms, complex_bytes: usize) -> LaunchShape {
    let [x, y, z] = transforms.modelled_threads(complex_bytes);
    LaunchShape {
        grid: [1; 3],
        block: [1; 3],
        shared_bytes: 0,
        extent: Extent { x, y, z },
    }
}
