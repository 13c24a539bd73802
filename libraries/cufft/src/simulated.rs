//! The same transforms on simulated devices: plain functions, enqueued like kernels. So the device
//! chooses when they run, the checker sees what they read and write, and their times are modelled.
//! The crate `rustfft` transforms lines.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::Arc;

use cuda_rt_runtime::kernel::{Kernel, KernelCache, LaunchShape, ModuleImage, Parameter, ParameterKind};
use num_complex::Complex;
use rustfft::{Fft, FftDirection, FftNum, FftPlanner};

use crate::element::Kernels;

// SAFETY: the PTX is empty. Kernels of the module are launched on simulated devices only, which
// load no PTX.
static MODULE: ModuleImage = unsafe { ModuleImage::new("cuFFT on simulated devices", "") };

type Simulate = unsafe fn(&LaunchShape, *const *const c_void);

const fn word(kind: ParameterKind) -> Parameter {
    Parameter {
        size_bytes: 8,
        align_bytes: 8,
        kind,
    }
}

const fn read<T>() -> Parameter {
    word(ParameterKind::Read {
        element_bytes: size_of::<T>(),
    })
}

const fn write<T>() -> Parameter {
    word(ParameterKind::Write {
        element_bytes: size_of::<T>(),
    })
}

const LENGTH: Parameter = word(ParameterKind::Length);
const WORDS: Parameter = Parameter {
    size_bytes: 8 * 13,
    align_bytes: 8,
    kind: ParameterKind::Scalar,
};

/// Parameters of functions with elements of these types.
struct Parameters<I, O>(PhantomData<(I, O)>);

impl<I: 'static, O: 'static> Parameters<I, O> {
    const APART: &[Parameter] = &[read::<I>(), LENGTH, write::<O>(), LENGTH, WORDS];
    const BOTH_WRITTEN: &[Parameter] = &[write::<I>(), LENGTH, write::<O>(), LENGTH, WORDS];
    const IN_PLACE: &[Parameter] = &[write::<I>(), LENGTH, WORDS];
}

const fn function(name: &'static str, parameters: &'static [Parameter], simulate: Simulate) -> Kernel {
    Kernel {
        name,
        symbol: c"simulated",
        file: file!(),
        line: line!(),
        module: &MODULE,
        parameters,
        layout: &[],
        simulate,
        cache: KernelCache::new(),
    }
}

macro_rules! kernels {
    ($($name:ident: $real:ident, $transform:literal $forward:literal $inverse:literal;)*) => { $(
        pub(crate) static $name: Kernels = Kernels {
            transform: function(
                $transform,
                Parameters::<Complex<$real>, Complex<$real>>::APART,
                transform::<$real>,
            ),
            in_place: function(
                $transform,
                Parameters::<Complex<$real>, Complex<$real>>::IN_PLACE,
                in_place::<$real>,
            ),
            forward: function($forward, Parameters::<$real, Complex<$real>>::APART, forward::<$real>),
            inverse: function($inverse, Parameters::<Complex<$real>, $real>::BOTH_WRITTEN, inverse::<$real>),
        };
    )* };
}

kernels! {
    KERNELS_F32: f32, "cufftExecC2C" "cufftExecR2C" "cufftExecC2R";
    KERNELS_F64: f64, "cufftExecZ2Z" "cufftExecD2Z" "cufftExecZ2D";
}

/// The arguments of a simulated launch.
///
/// # Safety
/// `parameters` has `N` pointers.
unsafe fn arguments<const N: usize>(parameters: *const *const c_void) -> [*const c_void; N] {
    // SAFETY: this function's contract.
    unsafe { parameters.cast::<[*const c_void; N]>().read() }
}

/// Numbers among the arguments.
///
/// # Safety
/// `argument` points to `N` numbers.
unsafe fn numbers<const N: usize>(argument: *const c_void) -> [u64; N] {
    // SAFETY: this function's contract.
    unsafe { argument.cast::<[u64; N]>().read() }
}

/// A slice among the arguments. On simulated devices an address is the host's.
///
/// # Safety
/// The arguments are the address of a slice and its length, and the slice is initialised. Nothing
/// writes it for `'a`.
unsafe fn slice<'a, T>(address: *const c_void, len: *const c_void) -> &'a [T] {
    // SAFETY: this function's contract.
    let [start] = unsafe { numbers::<1>(address) };
    // SAFETY: this function's contract.
    let [len] = unsafe { numbers::<1>(len) };
    let start = std::ptr::with_exposed_provenance(start as usize);
    // SAFETY: this function's contract.
    unsafe { std::slice::from_raw_parts(start, len as usize) }
}

/// As [`slice`], to write.
///
/// # Safety
/// As for [`slice`], and nothing else uses the slice for `'a`.
unsafe fn slice_mut<'a, T>(address: *const c_void, len: *const c_void) -> &'a mut [T] {
    // SAFETY: this function's contract.
    let [start] = unsafe { numbers::<1>(address) };
    // SAFETY: this function's contract.
    let [len] = unsafe { numbers::<1>(len) };
    let start = std::ptr::with_exposed_provenance_mut(start as usize);
    // SAFETY: this function's contract.
    unsafe { std::slice::from_raw_parts_mut(start, len as usize) }
}

/// Where the elements of one side stand.
struct Places {
    rows: usize,
    row: usize,
    stride: usize,
    distance: usize,
}

impl Places {
    fn new([rows, row, stride, distance]: [usize; 4]) -> Self {
        Self {
            rows,
            row,
            stride,
            distance,
        }
    }

    fn at(&self, signal: usize, [x, y, z]: [usize; 3]) -> usize {
        signal * self.distance + ((x * self.rows + y) * self.row + z) * self.stride
    }
}

/// What a plan's [`words`](crate::shape::Transforms::words) say.
struct Batch {
    direction: FftDirection,
    sizes: [usize; 3],
    count: usize,
    input: Places,
    output: Places,
}

impl Batch {
    fn new(words: [u64; 13]) -> Self {
        let [is_inverse, n0, n1, n2, count, input @ .., o0, o1, o2, o3] = words.map(|word| word as usize);
        Self {
            direction: match is_inverse {
                0 => FftDirection::Forward,
                _ => FftDirection::Inverse,
            },
            sizes: [n0, n1, n2],
            count,
            input: Places::new(input),
            output: Places::new([o0, o1, o2, o3]),
        }
    }
}

/// All indices of these sizes, the last one fastest.
fn indices([slabs, rows, columns]: [usize; 3]) -> impl Iterator<Item = [usize; 3]> {
    let of_slab = move |x| (0..rows).flat_map(move |y| (0..columns).map(move |z| [x, y, z]));
    (0..slabs).flat_map(of_slab)
}

/// Transforms of signals that stand without gaps, dimension by dimension.
struct Transformer<R: FftNum> {
    sizes: [usize; 3],
    lines: [Arc<dyn Fft<R>>; 3],
}

impl<R: FftNum> Transformer<R> {
    fn new(sizes: [usize; 3], direction: FftDirection) -> Self {
        let mut planner = FftPlanner::new();
        let lines = sizes.map(|len| planner.plan_fft(len, direction));
        Self { sizes, lines }
    }

    fn apply(&self, signal: &mut [Complex<R>]) {
        let [_, rows, columns] = self.sizes;
        // Elements from one to the next of each dimension.
        let steps = [rows * columns, columns, 1];
        let mut line = Vec::new();
        for ((len, step), fft) in self.sizes.into_iter().zip(steps).zip(&self.lines) {
            if len == 1 {
                continue;
            }
            for first in (0..signal.len()).filter(|at| (at / step).is_multiple_of(len)) {
                line.clear();
                line.extend((0..len).map(|index| signal[first + index * step]));
                fft.process(&mut line);
                for (index, value) in line.iter().enumerate() {
                    signal[first + index * step] = *value;
                }
            }
        }
    }
}

/// Complex to complex, apart. Reading is done before anything is written, signal by signal.
///
/// # Safety
/// The contract of `Kernel::simulate`, for the parameters `APART`.
unsafe fn transform<R: FftNum>(_: &LaunchShape, parameters: *const *const c_void) {
    // SAFETY: there are five parameters.
    let [input, input_len, output, output_len, words] = unsafe { arguments::<5>(parameters) };
    // SAFETY: the last parameter has 13 numbers.
    let batch = Batch::new(unsafe { numbers(words) });
    // SAFETY: the launch's memory is initialised, and nothing else uses it now.
    let input = unsafe { slice::<Complex<R>>(input, input_len) };
    // SAFETY: as above; a shared and a unique borrow do not overlap.
    let output = unsafe { slice_mut::<Complex<R>>(output, output_len) };
    let transformer = Transformer::new(batch.sizes, batch.direction);
    for index in 0..batch.count {
        let read = indices(batch.sizes).map(|at| input[batch.input.at(index, at)]);
        let mut signal: Vec<_> = read.collect();
        transformer.apply(&mut signal);
        for (at, value) in indices(batch.sizes).zip(signal) {
            output[batch.output.at(index, at)] = value;
        }
    }
}

/// Complex to complex, in place.
///
/// # Safety
/// The contract of `Kernel::simulate`, for the parameters `IN_PLACE`.
unsafe fn in_place<R: FftNum>(_: &LaunchShape, parameters: *const *const c_void) {
    // SAFETY: there are three parameters.
    let [memory, len, words] = unsafe { arguments::<3>(parameters) };
    // SAFETY: the last parameter has 13 numbers.
    let batch = Batch::new(unsafe { numbers(words) });
    // SAFETY: the launch's memory is initialised, and nothing else uses it now.
    let memory = unsafe { slice_mut::<Complex<R>>(memory, len) };
    let transformer = Transformer::new(batch.sizes, batch.direction);
    for index in 0..batch.count {
        let read = indices(batch.sizes).map(|at| memory[batch.input.at(index, at)]);
        let mut signal: Vec<_> = read.collect();
        transformer.apply(&mut signal);
        for (at, value) in indices(batch.sizes).zip(signal) {
            memory[batch.output.at(index, at)] = value;
        }
    }
}

/// Real to complex: of the whole spectrum, the first half is written.
///
/// # Safety
/// The contract of `Kernel::simulate`, for the parameters `APART`.
unsafe fn forward<R: FftNum>(_: &LaunchShape, parameters: *const *const c_void) {
    // SAFETY: there are five parameters.
    let [input, input_len, output, output_len, words] = unsafe { arguments::<5>(parameters) };
    // SAFETY: the last parameter has 13 numbers.
    let batch = Batch::new(unsafe { numbers(words) });
    // SAFETY: the launch's memory is initialised, and nothing else uses it now.
    let input = unsafe { slice::<R>(input, input_len) };
    // SAFETY: as above; a shared and a unique borrow do not overlap.
    let output = unsafe { slice_mut::<Complex<R>>(output, output_len) };
    let transformer = Transformer::new(batch.sizes, FftDirection::Forward);
    for index in 0..batch.count {
        let read = indices(batch.sizes).map(|at| Complex::new(input[batch.input.at(index, at)], R::zero()));
        let mut signal: Vec<_> = read.collect();
        transformer.apply(&mut signal);
        for (at, value) in indices(batch.sizes).zip(signal) {
            if at[2] <= batch.sizes[2] / 2 {
                output[batch.output.at(index, at)] = value;
            }
        }
    }
}

/// Complex to real: the second half of the spectrum are the conjugates of the first. What was read
/// becomes NaN, as cuFFT may destroy it.
///
/// # Safety
/// The contract of `Kernel::simulate`, for the parameters `BOTH_WRITTEN`.
unsafe fn inverse<R: FftNum>(_: &LaunchShape, parameters: *const *const c_void) {
    // SAFETY: there are five parameters.
    let [input, input_len, output, output_len, words] = unsafe { arguments::<5>(parameters) };
    // SAFETY: the last parameter has 13 numbers.
    let batch = Batch::new(unsafe { numbers(words) });
    // SAFETY: the launch's memory is initialised, and nothing else uses it now.
    let input = unsafe { slice_mut::<Complex<R>>(input, input_len) };
    // SAFETY: as above; two unique borrows do not overlap.
    let output = unsafe { slice_mut::<R>(output, output_len) };
    let transformer = Transformer::new(batch.sizes, FftDirection::Inverse);
    let (nan, half) = (R::zero() / R::zero(), batch.sizes[2] / 2);
    for index in 0..batch.count {
        let read = indices(batch.sizes).map(|at| match at[2] <= half {
            true => input[batch.input.at(index, at)],
            false => {
                let mut other = [0; 3];
                for dimension in 0..3 {
                    let len = batch.sizes[dimension];
                    other[dimension] = (len - at[dimension]) % len;
                }
                input[batch.input.at(index, other)].conj()
            }
        });
        let mut signal: Vec<_> = read.collect();
        for at in indices([batch.sizes[0], batch.sizes[1], half + 1]) {
            input[batch.input.at(index, at)] = Complex::new(nan, nan);
        }
        transformer.apply(&mut signal);
        for (at, value) in indices(batch.sizes).zip(signal) {
            output[batch.output.at(index, at)] = value.re;
        }
    }
}
