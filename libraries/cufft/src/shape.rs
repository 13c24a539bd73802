//! [`Shape`] and [`Placement`]: which transforms a plan makes, and where their elements stand.

use std::ffi::c_longlong;

use crate::element::Kind;
use crate::error::{Operand, ShapeError};
use crate::ffi::cufftType;

/// The lengths of transforms, how many there are, and where their elements stand in memory.
///
/// [`line`](Self::line), [`plane`](Self::plane) and [`volume`](Self::volume) describe one transform
/// whose elements stand row by row without gaps, as arrays of Rust. Lengths are those of the
/// signal: for a transform from or to real numbers, those of the real side. The complex side has
/// `n / 2 + 1` elements in the last dimension, because the others are their conjugates.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt_cufft::{Complex, Placement, Plan, Shape};
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// let compute = gpu.stream::<Compute>()?;
/// // Two signals of four elements each, interleaved: a b a b a b a b.
/// let interleaved = Placement::new().stride(2).distance(1);
/// let shape = Shape::line(4).batch(2).input(interleaved);
/// let plan = Plan::<f32, Complex<f32>, _>::new(&compute, shape)?;
/// assert_eq!((plan.input_len(), plan.output_len()), (8, 6));
///
/// let signals = compute.alloc_from_slice(&[1.0, 2.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0])?;
/// let mut spectra = compute.alloc_zeroed::<Complex<f32>>(6)?;
/// plan.forward(&signals, &mut spectra)?;
/// let spectra = compute.copy_to_vec(&spectra)?; // one behind the other
/// assert_eq!(spectra, [4.0, 0.0, 0.0, 2.0, 2.0, 2.0].map(Complex::from));
///
/// // Ten images of 4 rows and 6 columns, and volumes that go back into longer memory.
/// let plan = Plan::<f32, Complex<f32>, _>::new(&compute, Shape::plane(4, 6).batch(10))?;
/// assert_eq!((plan.input_len(), plan.output_len()), (10 * 4 * 6, 10 * 4 * 4));
/// let padded = Shape::volume(2, 4, 6).output(Placement::new().row(8));
/// let plan = Plan::<Complex<f32>, f32, _>::new(&compute, padded)?;
/// assert_eq!((plan.input_len(), plan.output_len()), (2 * 4 * 4, 7 * 8 + 6));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    rank: usize,
    /// The last dimension is the last. A shape of fewer dimensions begins with ones.
    sizes: [usize; 3],
    batch: usize,
    input: Placement,
    output: Placement,
}

/// Where the elements of the signals stand in memory, in elements of the memory's type ("advanced
/// data layout" in cuFFT's documentation).
///
/// Element `(x, y, z)` of signal `b` stands at `b * distance + ((x * rows + y) * row + z) *
/// stride`. What is not given is as short as the signal allows.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt_cufft::{Complex, Placement, Plan, Shape};
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// let compute = gpu.stream::<Compute>()?;
/// // The upper left quarter of an image of 4 rows and 4 columns.
/// let quarter = Placement::new().row(4);
/// let shape = Shape::plane(2, 2).input(quarter).output(quarter);
/// let plan = Plan::<Complex<f64>, Complex<f64>, _>::new(&compute, shape)?;
/// let mut image = compute.alloc_from_slice(&[Complex::new(1.0, 0.0); 16])?;
/// plan.forward_in_place(&mut image)?;
/// let image = compute.copy_to_vec(&image)?;
/// assert_eq!(image[..6], [4.0, 0.0, 1.0, 1.0, 0.0, 0.0].map(Complex::from));
///
/// // Of 3 x 3 slabs, spectra 30 elements apart.
/// let apart = Placement::new().rows(3).row(3).distance(30).stride(1);
/// let shape = Shape::volume(2, 2, 2).batch(2).output(apart);
/// assert_eq!(Plan::<Complex<f64>, Complex<f64>, _>::new(&compute, shape)?.output_len(), 44);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Placement {
    stride: Option<usize>,
    row: Option<usize>,
    rows: Option<usize>,
    distance: Option<usize>,
}

impl Placement {
    /// Without gaps.
    pub fn new() -> Self {
        Self::default()
    }

    /// From one element of a row to the next: 1 if it is not given.
    pub fn stride(self, stride: usize) -> Self {
        Self {
            stride: Some(stride),
            ..self
        }
    }

    /// Strides from one row to the next: the length of the last dimension if it is not given.
    pub fn row(self, row: usize) -> Self {
        Self {
            row: Some(row),
            ..self
        }
    }

    /// Rows from one slab of a volume to the next: the length of the second dimension if it is not
    /// given.
    pub fn rows(self, rows: usize) -> Self {
        Self {
            rows: Some(rows),
            ..self
        }
    }

    /// Elements from one signal of the batch to the next. If it is not given, signals stand one
    /// behind the other.
    pub fn distance(self, distance: usize) -> Self {
        Self {
            distance: Some(distance),
            ..self
        }
    }
}

impl Shape {
    fn new(rank: usize, sizes: [usize; 3]) -> Self {
        Self {
            rank,
            sizes,
            batch: 1,
            input: Placement::new(),
            output: Placement::new(),
        }
    }

    /// A transform of one dimension.
    pub fn line(len: usize) -> Self {
        Self::new(1, [1, 1, len])
    }

    /// A transform of two dimensions.
    pub fn plane(rows: usize, columns: usize) -> Self {
        Self::new(2, [1, rows, columns])
    }

    /// A transform of three dimensions.
    pub fn volume(slabs: usize, rows: usize, columns: usize) -> Self {
        Self::new(3, [slabs, rows, columns])
    }

    /// As many transforms of these lengths, of signals at equal distances.
    pub fn batch(self, count: usize) -> Self {
        Self { batch: count, ..self }
    }

    /// Where the elements that are read stand.
    pub fn input(self, placement: Placement) -> Self {
        Self {
            input: placement,
            ..self
        }
    }

    /// Where the elements that are written stand.
    pub fn output(self, placement: Placement) -> Self {
        Self {
            output: placement,
            ..self
        }
    }
}

/// The largest number of bytes, and of elements, of which all sums below stay in 64 bits.
const MOST: usize = isize::MAX as usize;

/// One side of a plan: its elements, and their places.
///
/// # Invariants
/// PLACES-1. Each element of each signal stands at an index below `reach`, and `reach` elements
/// have fewer bytes than an address space. Every number is positive and below 2⁶³, and so are the
/// places of a slab, of a row and of the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) sizes: [usize; 3],
    pub(crate) batch: usize,
    pub(crate) rows: usize,
    pub(crate) row: usize,
    pub(crate) stride: usize,
    pub(crate) distance: usize,
    pub(crate) reach: usize,
}

impl Places {
    fn new(
        operand: Operand,
        (sizes, batch): ([usize; 3], usize),
        placement: Placement,
        element_bytes: usize,
    ) -> Result<Self, ShapeError> {
        let too_large = ShapeError::TooLarge { operand };
        let least = |what, given: Option<usize>, least: usize| match given {
            Some(given) if given < least => Err(ShapeError::Short {
                operand,
                what,
                given,
                least,
            }),
            given => Ok(given.unwrap_or(least)),
        };
        let row = least("`row`", placement.row, sizes[2])?;
        let rows = least("`rows`", placement.rows, sizes[1])?;
        let stride = placement.stride.unwrap_or(1);
        let slab = Self::product([rows, row, stride]).ok_or(too_large.clone())?;
        let whole = Self::product([sizes[0], slab]).ok_or(too_large.clone())?;
        let distance = placement.distance.unwrap_or(whole);
        for (what, number) in [("stride", stride), ("distance", distance)] {
            if number == 0 {
                return Err(ShapeError::Zero { operand, what });
            }
        }
        let mut places = Self {
            sizes,
            batch,
            rows,
            row,
            stride,
            distance,
            reach: 0,
        };
        // Counts and steps; `cuFFT` computes the same products.
        let mut last = 0_usize;
        for (count, step, _) in places.levels() {
            let end = Self::product([count - 1, step]).and_then(|end| last.checked_add(end));
            last = end.ok_or(too_large.clone())?;
        }
        places.reach = last + 1;
        let numbers = [places.reach, distance, whole, batch];
        let fits = |number: usize| {
            number
                .checked_mul(element_bytes)
                .is_some_and(|bytes| bytes <= MOST)
        };
        match numbers.into_iter().all(fits) {
            true => Ok(places),
            false => Err(too_large),
        }
    }

    fn product<const N: usize>(numbers: [usize; N]) -> Option<usize> {
        let product = numbers.into_iter().try_fold(1_usize, usize::checked_mul)?;
        (product < MOST).then_some(product)
    }

    /// How many there are of each dimension, and of signals; elements from one to the next.
    fn levels(&self) -> [(usize, usize, &'static str); 4] {
        let row = self.row * self.stride;
        [
            (self.sizes[2], self.stride, "elements"),
            (self.sizes[1], row, "rows"),
            (self.sizes[0], self.rows * row, "slabs"),
            (self.batch, self.distance, "signals"),
        ]
    }

    /// Refuses places of which two are the same.
    ///
    /// Sorted by their steps, each level must step over all that the nearer levels span, as the
    /// digits of a number do. So signals may stand behind each other, side by side in longer rows,
    /// or between the elements of one another.
    fn check_written(&self, operand: Operand) -> Result<(), ShapeError> {
        let mut levels = self.levels();
        levels.sort_by_key(|(_, step, _)| *step);
        let mut span = 1;
        for (count, step, of) in levels.into_iter().filter(|(count, ..)| *count > 1) {
            if step < span {
                return Err(ShapeError::Overlap {
                    operand,
                    step,
                    of,
                    span,
                });
            }
            // At most the reach, which PLACES-1 bounds.
            span += (count - 1) * step;
        }
        Ok(())
    }

    /// Whether memory of `len` elements, at this address, holds the places.
    pub(crate) fn check_memory(
        &self,
        operand: Operand,
        (address, len): (u64, usize),
        complex_bytes: usize,
    ) -> Result<(), ShapeError> {
        if self.reach > len {
            let reach = self.reach;
            return Err(ShapeError::OutOfBounds { operand, reach, len });
        }
        match address.is_multiple_of(complex_bytes as u64) {
            true => Ok(()),
            false => Err(ShapeError::Misaligned {
                operand,
                bytes: complex_bytes,
            }),
        }
    }
}

/// A checked shape.
///
/// # Invariants
/// TRANSFORMS-1. Both sides are as PLACES-1 says, for the elements that `kind` reads and writes.
/// TRANSFORMS-2. No two elements that are written have one place. For a complex-to-real transform
/// that holds for the input too, which cuFFT may overwrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transforms {
    rank: usize,
    kind: Kind,
    /// The lengths of the signal.
    pub(crate) sizes: [usize; 3],
    pub(crate) input: Places,
    pub(crate) output: Places,
}

/// What cuFFT is told of a plan. Equal ones serve each other's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Description {
    pub(crate) kind: cufftType,
    pub(crate) rank: usize,
    /// Only the last `rank` numbers count.
    pub(crate) sizes: [c_longlong; 3],
    pub(crate) input: DescribedPlaces,
    pub(crate) output: DescribedPlaces,
    pub(crate) batch: c_longlong,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DescribedPlaces {
    /// The sizes of the array in which the signal stands. cuFFT does not read the first that
    /// counts.
    pub(crate) array: [c_longlong; 3],
    pub(crate) stride: c_longlong,
    pub(crate) distance: c_longlong,
}

fn long(number: usize) -> c_longlong {
    c_longlong::try_from(number).expect("PLACES-1: at most 63 bits")
}

impl Transforms {
    pub(crate) fn new(shape: &Shape, kind: Kind, real_bytes: usize) -> Result<Self, ShapeError> {
        let (sizes, batch) = (shape.sizes, shape.batch);
        let named = [
            ("number of slabs", sizes[0]),
            ("number of rows", sizes[1]),
            ("length", sizes[2]),
            ("number of transforms in the batch", batch),
        ];
        if let Some((what, _)) = named.into_iter().find(|(_, number)| *number == 0) {
            return Err(ShapeError::Empty { what });
        }
        let half = [sizes[0], sizes[1], sizes[2] / 2 + 1];
        let (complex_bytes, real) = (2 * real_bytes, (sizes, real_bytes));
        let (read, written) = match kind {
            Kind::ComplexToComplex => ((sizes, complex_bytes), (sizes, complex_bytes)),
            Kind::RealToComplex => (real, (half, complex_bytes)),
            Kind::ComplexToReal => ((half, complex_bytes), real),
        };
        let input = Places::new(Operand::Input, (read.0, batch), shape.input, read.1)?;
        let output = Places::new(Operand::Output, (written.0, batch), shape.output, written.1)?;
        if kind == Kind::ComplexToReal {
            input.check_written(Operand::Input)?;
        }
        output.check_written(Operand::Output)?;
        Ok(Self {
            rank: shape.rank,
            kind,
            sizes,
            input,
            output,
        })
    }

    pub(crate) fn describe(&self, kind: cufftType) -> Description {
        let describe = |places: &Places| DescribedPlaces {
            array: [places.sizes[0], places.rows, places.row].map(long),
            stride: long(places.stride),
            distance: long(places.distance),
        };
        Description {
            kind,
            rank: self.rank,
            sizes: self.sizes.map(long),
            input: describe(&self.input),
            output: describe(&self.output),
            batch: long(self.output.batch),
        }
    }

    /// Whether the output may stand where the input stood.
    pub(crate) fn check_in_place(&self) -> Result<(), ShapeError> {
        match self.input == self.output {
            true => Ok(()),
            false => Err(ShapeError::NotInPlace),
        }
    }

    /// The numbers that the function of the simulated device gets.
    pub(crate) fn words(&self, is_inverse: bool) -> [u64; 13] {
        let [slabs, rows, columns] = self.sizes;
        let (input, output) = (&self.input, &self.output);
        [
            usize::from(is_inverse),
            slabs,
            rows,
            columns,
            output.batch,
            input.rows,
            input.row,
            input.stride,
            input.distance,
            output.rows,
            output.row,
            output.stride,
            output.distance,
        ]
        .map(|number| number as u64)
    }

    /// As how many threads the simulated device models the transforms. A modelled thread takes
    /// 0.001 ns, in which an H200 moves about 4 bytes. Each dimension reads and writes all elements
    /// once, and once more for each further factor of 4096.
    pub(crate) fn modelled_threads(&self, complex_bytes: usize) -> [u64; 3] {
        let passes = |len: usize| match len {
            1 => 0,
            len => len.ilog2().div_ceil(12).max(1),
        };
        let passes: u32 = self.sizes.into_iter().map(passes).sum();
        let elements = self.sizes.into_iter().map(|size| size as u64);
        let elements = elements.fold(self.output.batch as u64, u64::saturating_mul);
        let bytes = elements.saturating_mul(2 * complex_bytes as u64);
        [bytes.div_ceil(4).saturating_mul(u64::from(passes.max(1))), 1, 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [Kind; 3] = [Kind::ComplexToComplex, Kind::RealToComplex, Kind::ComplexToReal];

    /// The indices of all elements of one side.
    fn elements(places: &Places) -> Vec<usize> {
        let mut all = Vec::new();
        for signal in 0..places.batch {
            for x in 0..places.sizes[0] {
                for y in 0..places.sizes[1] {
                    for z in 0..places.sizes[2] {
                        let row = (x * places.rows + y) * places.row + z;
                        all.push(signal * places.distance + row * places.stride);
                    }
                }
            }
        }
        all
    }

    fn is_each_once(mut places: Vec<usize>) -> bool {
        let all = places.len();
        places.sort_unstable();
        places.dedup();
        places.len() == all
    }

    fn placement(numbers: [usize; 4]) -> Placement {
        let [row, rows, stride, distance] = numbers.map(|number: usize| number.checked_sub(1));
        Placement {
            stride,
            row,
            rows,
            distance,
        }
    }

    /// All small shapes: what is accepted is in bounds, and written elements are written once.
    #[test]
    fn accepted_shapes_stay_in_bounds_and_write_no_element_twice() {
        let (mut accepted, mut refused) = (0, 0);
        for code in 0..2 * 4_u32.pow(3) * 5_u32.pow(4) {
            let mut rest = code;
            let mut digit = |base: u32| {
                let digit = rest % base;
                rest /= base;
                digit as usize
            };
            let sizes = [digit(2) + 1, digit(4), digit(4)];
            let batch = digit(4);
            // Not given, or 0, 1, 3 and 7.
            let given = [(); 4].map(|()| [0, 1, 2, 4, 8][digit(5)]);
            let shape = Shape {
                batch,
                input: placement(given),
                output: placement(given),
                ..Shape::new(3, sizes)
            };
            for kind in KINDS {
                let Ok(transforms) = Transforms::new(&shape, kind, 4) else {
                    refused += 1;
                    continue;
                };
                accepted += 1;
                let (read, written) = (elements(&transforms.input), elements(&transforms.output));
                assert_eq!(
                    read.iter().max(),
                    Some(&(transforms.input.reach - 1)),
                    "{shape:?}"
                );
                assert_eq!(
                    written.iter().max(),
                    Some(&(transforms.output.reach - 1)),
                    "{shape:?}"
                );
                assert!(is_each_once(written), "{shape:?}");
                // cuFFT may write the input of a transform to real numbers.
                assert!(kind != Kind::ComplexToReal || is_each_once(read), "{shape:?}");
            }
        }
        assert!(accepted > 5000 && refused > 5000, "{accepted} {refused}");
    }

    /// Signals behind each other, between the elements of one another, and side by side in longer
    /// rows; columns of a matrix.
    #[test]
    fn usual_places_may_be_written() {
        let place = Placement::new;
        for shape in [
            Shape::plane(3, 4).batch(5),
            Shape::line(8).batch(4).output(place().stride(4).distance(1)),
            Shape::plane(4, 3).batch(2).output(place().row(6).distance(3)),
            Shape::line(10).batch(7).output(place().stride(7).distance(1)),
        ] {
            let checked = Transforms::new(&shape, Kind::ComplexToComplex, 4);
            assert!(checked.is_ok(), "{shape:?}: {checked:?}");
        }
    }

    #[test]
    fn numbers_whose_sums_overflow_are_refused() {
        let numbers = [1, 2, 3, 1 << 20, 1 << 32, 1 << 61, usize::MAX / 2, usize::MAX];
        let (mut accepted, mut refused) = (0, 0);
        for code in 0..8_usize.pow(5) {
            let [len, rows, batch, stride, distance] =
                [1, 8, 64, 512, 4096].map(|place| numbers[code / place % 8]);
            let apart = Placement::new().stride(stride).distance(distance);
            let shape = Shape::plane(rows, len).batch(batch).input(apart);
            match Transforms::new(&shape, Kind::ComplexToComplex, 8) {
                Ok(transforms) => {
                    accepted += 1;
                    let wide = [len, rows, batch, stride, distance].map(|number| number as u128);
                    let [len, rows, batch, stride, distance] = wide;
                    let reach = (batch - 1) * distance + (rows * len - 1) * stride + 1;
                    assert_eq!(transforms.input.reach as u128, reach, "{shape:?}");
                    assert!(reach * 16 <= isize::MAX as u128, "{shape:?}");
                }
                Err(why) => {
                    refused += 1;
                    assert!(matches!(why, ShapeError::TooLarge { .. }), "{shape:?}: {why}");
                }
            }
        }
        assert!(accepted > 100 && refused > 10_000, "{accepted} {refused}");
    }
}
