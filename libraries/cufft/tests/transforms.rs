//! Transforms of random shapes and places, compared with direct sums: on simulated devices, and on
//! each GPU with cuFFT.
#![forbid(unsafe_code)]

mod common;

use std::f64::consts::TAU;

use common::{Compute, Random, for_each_device};
use cuda_rt::{Device, Element, Scoped};
use cuda_rt_cufft::{Complex, Placement, Plan, Real, Shape};

/// A number that a test computes with as `f64`.
trait Number: Real + PartialEq + std::fmt::Debug {
    /// Half the distance from 1 to the next number: the largest relative error of one rounding.
    const UNIT: f64;
    fn of(value: f64) -> Self;
    fn value(self) -> f64;
}

impl Number for f32 {
    const UNIT: f64 = f32::EPSILON as f64 / 2.0;
    fn of(value: f64) -> Self {
        value as f32
    }
    fn value(self) -> f64 {
        self.into()
    }
}

impl Number for f64 {
    const UNIT: f64 = f64::EPSILON / 2.0;
    fn of(value: f64) -> Self {
        value
    }
    fn value(self) -> f64 {
        self
    }
}

type Sizes = [usize; 3];

fn count(sizes: Sizes) -> usize {
    sizes.into_iter().product()
}

fn indices([slabs, rows, columns]: Sizes) -> impl Iterator<Item = Sizes> {
    (0..slabs).flat_map(move |x| (0..rows).flat_map(move |y| (0..columns).map(move |z| [x, y, z])))
}

/// The spectrum of a signal without gaps, or the signal of a spectrum, not normalised: each element
/// is a direct sum in `f64`. Angles are those of whole numbers modulo the lengths.
fn direct(signal: &[Complex<f64>], sizes: Sizes, is_inverse: bool) -> Vec<Complex<f64>> {
    let roots = sizes.map(|len| -> Vec<Complex<f64>> {
        let sign = if is_inverse { 1.0 } else { -1.0 };
        (0..len)
            .map(|part| Complex::cis(sign * TAU * part as f64 / len as f64))
            .collect()
    });
    let root = |to: Sizes, from: Sizes, dimension: usize| {
        roots[dimension][to[dimension] * from[dimension] % sizes[dimension]]
    };
    let element = |to: Sizes| {
        let terms = indices(sizes).zip(signal);
        terms
            .map(|(from, value)| value * root(to, from, 0) * root(to, from, 1) * root(to, from, 2))
            .sum()
    };
    indices(sizes).map(element).collect()
}

/// The largest error of an element of a transform of this signal.
///
/// A fast transform of `n` elements has at most log₂ n stages of butterflies. Each stage has a
/// relative error, in the norm of all elements, of at most 7 units of rounding for well-rounded
/// roots (Higham, *Accuracy and Stability of Numerical Algorithms*, theorem 24.2: η = µ +
/// γ₄(√2 + µ)). Lengths with large prime factors take three transforms of up to four times the
/// length (Bluestein): two stages more for each dimension, and one for the products with chirps,
/// thrice. The norm of the result is √n that of the signal, and bounds each element.
///
/// The direct sum adds at most (n + 4) units of `f64` to the sum of absolute values, which is at
/// most √n times the norm too; products of three roots add 12.
fn tolerance<R: Number>(signal: &[Complex<f64>], sizes: Sizes) -> f64 {
    let n = count(sizes) as f64;
    let norm = signal.iter().map(|value| value.norm_sqr()).sum::<f64>().sqrt();
    let dimensions = sizes.into_iter().filter(|len| *len > 1).count() as f64;
    let stages = n.log2() + 3.0 * dimensions;
    (21.0 * stages * R::UNIT + (n + 16.0) * f64::UNIT) * n.sqrt() * norm
}

/// Where the elements of one side stand.
#[derive(Clone, Copy, Debug)]
struct Side {
    sizes: Sizes,
    signals: usize,
    rows: usize,
    row: usize,
    stride: usize,
    distance: usize,
    /// Elements of the memory before the first place, and behind the last.
    before: usize,
    behind: usize,
}

impl Side {
    /// Random places that do not overlap. The first is even, as cuFFT demands of real numbers.
    fn random(random: &mut Random, sizes: Sizes, signals: usize) -> Self {
        let more = |random: &mut Random, number: usize| match random.flip() {
            true => number,
            false => number + random.below(4),
        };
        let (row, rows) = (more(random, sizes[2]), more(random, sizes[1]));
        let (stride, distance) = match random.below(3) {
            // Between the elements of one another.
            0 if signals > 1 => {
                let distance = random.from(1..3);
                (more(random, signals * distance), distance)
            }
            // Behind one another.
            _ => {
                let stride = more(random, 1);
                (stride, more(random, sizes[0] * rows * row * stride))
            }
        };
        let (before, behind) = (2 * random.below(3), random.below(4));
        Self {
            sizes,
            signals,
            rows,
            row,
            stride,
            distance,
            before,
            behind,
        }
    }

    fn placement(&self) -> Placement {
        Placement::new()
            .rows(self.rows)
            .row(self.row)
            .stride(self.stride)
            .distance(self.distance)
    }

    /// The places of one signal, in the memory behind `before`.
    fn places(&self, signal: usize) -> impl Iterator<Item = usize> {
        let side = *self;
        indices(self.sizes)
            .map(move |[x, y, z]| signal * side.distance + ((x * side.rows + y) * side.row + z) * side.stride)
    }

    fn reach(&self) -> usize {
        self.places(self.signals - 1).last().unwrap() + 1
    }

    /// Memory with these signals, and `gap` between them.
    fn memory<T: Copy>(&self, signals: &[Vec<T>], gap: T) -> Vec<T> {
        let mut memory = vec![gap; self.before + self.reach() + self.behind];
        for (index, signal) in signals.iter().enumerate() {
            for (place, value) in self.places(index).zip(signal) {
                memory[self.before + place] = *value;
            }
        }
        memory
    }

    /// Compares memory with signals, and what is between them with `gap`.
    fn compare<T: Copy + PartialEq + std::fmt::Debug>(
        &self,
        memory: &[T],
        signals: &[Vec<Complex<f64>>],
        gap: T,
        tolerance: impl Fn(usize) -> f64,
        value: impl Fn(T) -> Complex<f64>,
    ) {
        let mut is_gap = vec![true; memory.len()];
        for (index, signal) in signals.iter().enumerate() {
            for (place, expected) in self.places(index).zip(signal) {
                is_gap[self.before + place] = false;
                let found = value(memory[self.before + place]);
                let error = (found - expected).norm();
                assert!(
                    error <= tolerance(index),
                    "{self:?}: signal {index}, place {place}: {found} is no {expected}: {error:e} of {:e}",
                    tolerance(index),
                );
            }
        }
        for (place, is_gap) in is_gap.into_iter().enumerate() {
            assert!(
                !is_gap || memory[place] == gap,
                "{self:?}: place {place} was written"
            );
        }
    }
}

/// A random shape: rank, sizes, transforms.
fn random_shape(random: &mut Random) -> (Shape, Sizes, usize) {
    let lengths = [1, 2, 3, 4, 5, 7, 8, 9, 11, 13];
    let some = |random: &mut Random, most: usize| lengths[random.below(most)];
    let signals = if random.flip() { 1 } else { random.from(2..5) };
    let (shape, sizes) = match random.below(3) {
        0 => {
            // Of small factors, prime, and of a large prime, which cuFFT transforms in another way.
            let len = match random.below(4) {
                0 => [64, 128, 131, 139, 100][random.below(5)],
                _ => random.from(1..60),
            };
            (Shape::line(len), [1, 1, len])
        }
        1 => {
            let (rows, columns) = (some(random, 10), some(random, 10));
            (Shape::plane(rows, columns), [1, rows, columns])
        }
        _ => {
            let sizes = [(); 3].map(|()| some(random, 6));
            (Shape::volume(sizes[0], sizes[1], sizes[2]), sizes)
        }
    };
    (shape.batch(signals), sizes, signals)
}

fn half(sizes: Sizes) -> Sizes {
    [sizes[0], sizes[1], sizes[2] / 2 + 1]
}

/// The first half of a spectrum.
fn first_half(spectrum: &[Complex<f64>], sizes: Sizes) -> Vec<Complex<f64>> {
    let all = indices(sizes).zip(spectrum);
    all.filter(|(at, _)| at[2] <= sizes[2] / 2)
        .map(|(_, value)| *value)
        .collect()
}

fn narrow<R: Number>(value: Complex<f64>) -> Complex<R> {
    Complex::new(R::of(value.re), R::of(value.im))
}

fn wide<R: Number>(value: Complex<R>) -> Complex<f64> {
    Complex::new(value.re.value(), value.im.value())
}

fn some_complex(random: &mut Random, sizes: Sizes) -> Vec<Complex<f64>> {
    (0..count(sizes))
        .map(|_| Complex::new(random.small(), random.small()))
        .collect()
}

const CASES: usize = 60;

fn complex_to_complex<R: Number>(gpu: &Device<Scoped<'_>>, seed: u64)
where
    Complex<R>: Element,
{
    let compute = gpu.stream::<Compute<_>>().unwrap();
    let mut random = Random::new(seed);
    for _ in 0..CASES {
        let (shape, sizes, signals) = random_shape(&mut random);
        let (is_inverse, in_place) = (random.flip(), random.flip());
        let input = Side::random(&mut random, sizes, signals);
        let output = if in_place {
            input
        } else {
            Side::random(&mut random, sizes, signals)
        };
        // What is given is what is left out, if there are no gaps.
        let is_plain = random.below(4) == 0;
        let (shape, input, output) = match is_plain {
            true => {
                let whole = count(sizes);
                let plain = Side {
                    rows: sizes[1],
                    row: sizes[2],
                    stride: 1,
                    distance: whole,
                    ..input
                };
                (shape, plain, plain)
            }
            false => (
                shape.input(input.placement()).output(output.placement()),
                input,
                output,
            ),
        };
        let plan = Plan::<Complex<R>, Complex<R>, _>::new(&compute, shape).unwrap();
        assert_eq!(
            (plan.input_len(), plan.output_len()),
            (input.reach(), output.reach())
        );
        let read: Vec<_> = (0..signals).map(|_| some_complex(&mut random, sizes)).collect();
        let expected: Vec<_> = read
            .iter()
            .map(|signal| direct(signal, sizes, is_inverse))
            .collect();
        let tolerance = |index: usize| tolerance::<R>(&read[index], sizes);
        let gap = Complex::new(R::of(77.0), R::of(-1.0));
        let narrowed: Vec<Vec<_>> = read
            .iter()
            .map(|signal| signal.iter().map(|value| narrow::<R>(*value)).collect())
            .collect();
        let host = input.memory(&narrowed, gap);
        let mut from = compute.alloc_from_slice(&host).unwrap();
        if in_place {
            let part = &mut from[input.before..];
            match is_inverse {
                false => plan.forward_in_place(part).unwrap(),
                true => plan.inverse_in_place(part).unwrap(),
            }
            let memory = compute.copy_to_vec(&from).unwrap();
            input.compare(&memory, &expected, gap, tolerance, wide);
            continue;
        }
        let empty = output.memory::<Complex<R>>(&[], gap);
        let mut to = compute.alloc_from_slice(&empty).unwrap();
        let (read_part, written) = (&from[input.before..], &mut to[output.before..]);
        match is_inverse {
            false => plan.forward(read_part, written).unwrap(),
            true => plan.inverse(read_part, written).unwrap(),
        }
        let memory = compute.copy_to_vec(&to).unwrap();
        output.compare(&memory, &expected, gap, tolerance, wide);
        assert_eq!(compute.copy_to_vec(&from).unwrap(), host, "the input was written");
    }
}

fn real_there_and_back<R: Number>(gpu: &Device<Scoped<'_>>, seed: u64)
where
    Complex<R>: Element,
{
    let compute = gpu.stream::<Compute<_>>().unwrap();
    let mut random = Random::new(seed);
    for _ in 0..CASES {
        let (shape, sizes, signals) = random_shape(&mut random);
        let real = Side::random(&mut random, sizes, signals);
        let complex = Side::random(&mut random, half(sizes), signals);
        let read: Vec<Vec<_>> = (0..signals)
            .map(|_| {
                let signal = some_complex(&mut random, sizes);
                signal.into_iter().map(|value| Complex::from(value.re)).collect()
            })
            .collect();
        let spectra: Vec<_> = read.iter().map(|signal| direct(signal, sizes, false)).collect();
        let halves: Vec<_> = spectra
            .iter()
            .map(|spectrum| first_half(spectrum, sizes))
            .collect();

        // Forward.
        let there = shape.input(real.placement()).output(complex.placement());
        let plan = Plan::<R, Complex<R>, _>::new(&compute, there).unwrap();
        let narrowed: Vec<Vec<R>> = read
            .iter()
            .map(|signal| signal.iter().map(|value| R::of(value.re)).collect())
            .collect();
        let gap = R::of(55.0);
        let host = real.memory(&narrowed, gap);
        let from = compute.alloc_from_slice(&host).unwrap();
        let complex_gap = Complex::new(gap, R::of(-1.0));
        let empty = complex.memory::<Complex<R>>(&[], complex_gap);
        let mut to = compute.alloc_from_slice(&empty).unwrap();
        plan.forward(&from[real.before..], &mut to[complex.before..])
            .unwrap();
        let memory = compute.copy_to_vec(&to).unwrap();
        let error = |index: usize| tolerance::<R>(&read[index], sizes);
        complex.compare(&memory, &halves, complex_gap, error, wide);
        assert_eq!(compute.copy_to_vec(&from).unwrap(), host, "the input was written");

        // Back, from a spectrum that is rounded to `R` first: at most one unit of each element.
        let back = shape.input(complex.placement()).output(real.placement());
        let plan = Plan::<Complex<R>, R, _>::new(&compute, back).unwrap();
        let narrowed: Vec<Vec<_>> = halves
            .iter()
            .map(|half| half.iter().map(|value| narrow::<R>(*value)).collect())
            .collect();
        let mut from = compute
            .alloc_from_slice(&complex.memory(&narrowed, complex_gap))
            .unwrap();
        let mut to = compute.alloc_from_slice(&real.memory::<R>(&[], gap)).unwrap();
        plan.inverse(&mut from[complex.before..], &mut to[real.before..])
            .unwrap();
        let memory = compute.copy_to_vec(&to).unwrap();
        let n = count(sizes) as f64;
        let expected: Vec<Vec<_>> = read
            .iter()
            .map(|signal| signal.iter().map(|value| value * n).collect())
            .collect();
        let error = |index: usize| {
            let rounded =
                n.sqrt() * R::UNIT * spectra[index].iter().map(|v| v.norm_sqr()).sum::<f64>().sqrt();
            // The spectrum itself is a direct sum, and so is the signal of its rounded elements.
            rounded + 2.0 * tolerance::<R>(&spectra[index], sizes)
        };
        real.compare(&memory, &expected, gap, error, |value: R| {
            Complex::from(value.value())
        });
    }
}

#[test]
fn transforms_of_f32_are_those_of_direct_sums() {
    for_each_device(|gpu| complex_to_complex::<f32>(gpu, 1));
}

#[test]
fn transforms_of_f64_are_those_of_direct_sums() {
    for_each_device(|gpu| complex_to_complex::<f64>(gpu, 2));
}

#[test]
fn transforms_of_real_f32_are_those_of_direct_sums_and_back_again() {
    for_each_device(|gpu| real_there_and_back::<f32>(gpu, 3));
}

#[test]
fn transforms_of_real_f64_are_those_of_direct_sums_and_back_again() {
    for_each_device(|gpu| real_there_and_back::<f64>(gpu, 4));
}

/// Windows of a signal that overlap: inputs may, if they are only read.
#[test]
fn windows_of_one_signal_may_overlap() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let signal: Vec<f64> = (0..20).map(|at| (at * at % 7) as f64).collect();
        let windows = Shape::line(8).batch(4).input(Placement::new().distance(4));
        let plan = Plan::<f64, Complex<f64>, _>::new(&compute, windows).unwrap();
        assert_eq!((plan.input_len(), plan.output_len()), (20, 20));
        let from = compute.alloc_from_slice(&signal).unwrap();
        let mut to = compute.alloc_zeroed(20).unwrap();
        plan.forward(&from, &mut to).unwrap();
        let spectra = compute.copy_to_vec(&to).unwrap();
        for window in 0..4 {
            let values: Vec<_> = signal[4 * window..][..8]
                .iter()
                .map(|v| Complex::from(*v))
                .collect();
            let expected = direct(&values, [1, 1, 8], false);
            for (found, expected) in spectra[5 * window..][..5].iter().zip(&expected) {
                assert!((found - expected).norm() <= tolerance::<f64>(&values, [1, 1, 8]));
            }
        }
    });
}
