//! What is measured.

use cuda_rt::{Element, Grid1, Grid2};
use device_kernels as kernels;
use device_std::{Max, Min, Sum};

mod rows;
mod scan;

use crate::{Call, Input, Measure, Outcome, Output, Task, Way};

/// Elements of elementwise kernels, of 4 bytes: much more than the caches hold.
const LEN: usize = 1 << 26;
/// The side of matrices of elements of 4 bytes.
const SIDE: usize = 8192;

pub(crate) fn all(measure: &Measure<'_>) -> Outcome {
    elementwise(measure)?;
    transpose(measure)?;
    histogram(measure)?;
    reduce(measure)?;
    rows::all(measure)?;
    scan::all(measure)
}

/// Pseudo-random numbers, equal in every run (xorshift64*).
fn random(count: usize) -> impl Iterator<Item = u32> {
    let mut state = 0x1234_5678_9abc_def1_u64;
    std::iter::repeat_with(move || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    })
    .take(count)
}

/// One way of this package.
fn ours<'a, I, O>(
    name: &str,
    call: impl Fn(&cuda_rt::Stream<crate::Compute>, &Input<I>, &mut Output<O>) -> cuda_rt::Result<()> + 'a,
) -> Way<'a, I, O> {
    let call: Box<Call<'a, I, O>> = Box::new(move |stream, input, output| Ok(call(stream, input, output)?));
    (name.to_owned(), call)
}

/// The ways of the library, if there is one.
fn theirs<I: Element, O: Element>(
    measure: &Measure<'_>,
    names: &[&'static str],
    sizes: [usize; 2],
    ways: &mut Vec<Way<'_, I, O>>,
) -> Outcome {
    if let Some(library) = measure.library {
        for name in names {
            let call: Box<Call<'static, I, O>> = Box::new(library.function::<I, O>(name, sizes)?);
            ways.push(((*name).to_owned(), call));
        }
    }
    Ok(())
}

/// Compares every element.
fn equals<O: PartialEq + std::fmt::Debug>(found: &[O], expected: impl Fn(usize) -> O) -> Result<(), String> {
    for (at, found) in found.iter().enumerate() {
        if *found != expected(at) {
            return Err(format!("element {at} is {found:?} instead of {:?}", expected(at)));
        }
    }
    Ok(())
}

fn elementwise(measure: &Measure<'_>) -> Outcome {
    let names = ["scale", "saxpy", "add", "process", "block_sum"];
    if !names.iter().any(|name| measure.wants(name)) {
        return Ok(());
    }
    let (stream, len) = (&measure.stream, (LEN / measure.divide).max(1000));
    // Small whole numbers, so that every result is exact.
    let values = |shift: u32| -> Vec<f32> { random(len).map(|bits| (bits >> shift & 63) as f32).collect() };
    let [x, y] = [values(3), values(13)];
    let input = [stream.alloc_from_slice(&x)?, stream.alloc_from_slice(&y)?];
    let mut output = stream.alloc_zeroed::<f32>(len)?;
    let (one, four) = (Grid1::covering(len), Grid1::covering(len.div_ceil(4)));
    let mut task =
        |name, arrays: usize, check: &dyn Fn(usize) -> f32, mut ways: Vec<Way<'_, f32, f32>>, other| {
            if !measure.wants(name) {
                return Ok(());
            }
            theirs(measure, &[other], [len, 0], &mut ways)?;
            ways.push(ours("the driver's copy", |stream, input, output| {
                stream.copy(&input[0], output)
            }));
            let before = y.clone();
            let written = if name == "block_sum" {
                len.div_ceil(256)
            } else {
                len
            };
            let task = Task {
                name,
                bytes: arrays * len * 4,
                before,
                check: &|found| {
                    // A copy writes all, and has no other result.
                    if found == x {
                        Ok(())
                    } else {
                        equals(&found[..written], check)
                    }
                },
            };
            measure.task(&task, &input, &mut output, &ways)
        };
    task(
        "scale",
        2,
        &|at| x[at] * 2.0,
        vec![
            ours("ours", |stream, input, output| {
                kernels::scale(stream, one, &input[0], output, 2.0)
            }),
            ours("ours, four elements", |stream, input, output| {
                kernels::scale4(stream, four, &input[0], output, 2.0)
            }),
        ],
        "nvcc_scale",
    )?;
    task(
        "saxpy",
        3,
        &|at| x[at] * 0.5 + y[at],
        vec![
            ours("ours", |stream, input, output| {
                kernels::saxpy(stream, one, 0.5, &input[0], output)
            }),
            ours("ours, four elements", |stream, input, output| {
                kernels::saxpy4(stream, four, 0.5, &input[0], output)
            }),
        ],
        "nvcc_saxpy",
    )?;
    task(
        "add",
        3,
        &|at| x[at] + y[at],
        vec![
            ours("ours", |stream, input, output| {
                kernels::add(stream, one, &input[0], &input[1], output).map(|_| ())
            }),
            ours("ours, four elements", |stream, input, output| {
                kernels::add4(stream, four, &input[0], &input[1], output)
            }),
        ],
        "nvcc_add",
    )?;
    task(
        "process",
        2,
        &|at| x[at] + 8.0,
        vec![
            ours("ours", |stream, input, output| {
                kernels::process(stream, one, &input[0], output, 1.0, 0.5)
            }),
            ours("ours, four elements", |stream, input, output| {
                kernels::process4(stream, four, &input[0], output, 1.0, 0.5)
            }),
        ],
        "nvcc_process",
    )?;
    let block = |at: usize| x[at * 256..len.min(at * 256 + 256)].iter().sum();
    task(
        "block_sum",
        1,
        &block,
        vec![ours("ours", |stream, input, output| {
            kernels::block_sum(stream, one, &input[0], output)
        })],
        "nvcc_block_sum",
    )
}

fn transpose(measure: &Measure<'_>) -> Outcome {
    macro_rules! each {
        ($($name:literal, $kernel:ident, $type:ty, $rows:literal, |$bits:ident| $value:expr, $others:expr;)*) => { $(
            if measure.wants($name) {
                // Matrices of about equal sizes in bytes. One side is a multiple of 64 only.
                let scale = measure.divide.isqrt().max(1);
                let width = (SIDE / scale).next_multiple_of(64);
                let height = (SIDE * 4 / size_of::<$type>().max(2) / scale).next_multiple_of(64);
                one_transpose::<$type>(measure, $name, [width, height], |$bits| $value, &$others,
                    &|stream, input, output| {
                        let grid = Grid2::covering(height, width.div_ceil($rows));
                        kernels::$kernel(stream, grid, &input[0], output, width as u32, height as u32)
                    })?;
            }
        )* };
    }
    each! {
        "transpose, 1 byte", transpose, u8, 16, |bits| bits as u8, ["nvcc_transpose_1"];
        "transpose, 2 bytes", transpose, u16, 16, |bits| bits as u16, ["nvcc_transpose_2"];
        "transpose, 4 bytes", transpose, u32, 16, |bits| bits, ["nvcc_transpose_4", "nvcc_transpose_wide_4"];
        "transpose, 8 bytes", transpose, u64, 16, |bits| u64::from(bits) << 9, ["nvcc_transpose_8"];
        "transpose, 16 bytes", transpose_wide, [u32; 4], 4, |bits| [bits, !bits, 1, 2], ["nvcc_transpose_16"];
    }
    if measure.wants("transpose, odd sides") {
        let scale = measure.divide.isqrt().max(1);
        let [width, height] = [(8191 / scale) | 1, (8189 / scale) | 1];
        one_transpose::<u32>(
            measure,
            "transpose, odd sides, 4 bytes",
            [width, height],
            |bits| bits,
            &["nvcc_transpose_4"],
            &|stream, input, output| {
                let grid = Grid2::covering(height, width.div_ceil(16));
                kernels::transpose(stream, grid, &input[0], output, width as u32, height as u32)
            },
        )?;
    }
    Ok(())
}

fn one_transpose<T: Element + PartialEq + std::fmt::Debug>(
    measure: &Measure<'_>,
    name: &str,
    [width, height]: [usize; 2],
    value: impl Fn(u32) -> T,
    others: &[&'static str],
    kernel: &dyn Fn(&cuda_rt::Stream<crate::Compute>, &Input<T>, &mut Output<T>) -> cuda_rt::Result<()>,
) -> Outcome {
    let (stream, len) = (&measure.stream, width * height);
    let elements: Vec<T> = random(len).map(value).collect();
    let input = [stream.alloc_from_slice(&elements)?, stream.alloc_zeroed(1)?];
    let mut output = stream.alloc_zeroed::<T>(len)?;
    let mut ways = vec![ours("ours", kernel)];
    theirs(measure, others, [width, height], &mut ways)?;
    ways.push(ours("the driver's copy", |stream, input, output| {
        stream.copy(&input[0], output)
    }));
    let task = Task {
        name,
        bytes: 2 * len * size_of::<T>(),
        before: vec![T::zeroed(); len],
        check: &|found| {
            // The copy, which is no transpose.
            if found == elements {
                return Ok(());
            }
            equals(found, |at| elements[at % height * width + at / height])
        },
    };
    measure.task(&task, &input, &mut output, &ways)
}

fn histogram(measure: &Measure<'_>) -> Outcome {
    let (stream, grid) = (&measure.stream, Grid1::blocks(8 * measure.multiprocessors));
    macro_rules! each {
        ($($name:literal, $type:ty, $len:expr, |$bits:ident| $value:expr, $others:expr;)*) => { $(
            if measure.wants($name) {
                let len: usize = ($len / measure.divide).next_multiple_of(16);
                let elements: Vec<$type> = random(len).map(|$bits| $value).collect();
                let input = [stream.alloc_from_slice(&elements)?, stream.alloc_zeroed(1)?];
                let mut output = stream.alloc_zeroed::<u32>(256)?;
                let mut expected = vec![0_u32; 256];
                for element in &elements {
                    expected[*element as usize] += 1;
                }
                let mut ways = vec![ours("ours", |stream, input: &Input<$type>, output| {
                    kernels::histogram(stream, grid, &input[0], output)
                })];
                theirs(measure, &$others, [len, 0], &mut ways)?;
                let task = Task {
                    name: $name,
                    bytes: len * size_of::<$type>(),
                    before: vec![0; 256],
                    check: &|found| equals(found, |at| expected[at]),
                };
                measure.task(&task, &input, &mut output, &ways)?;
            }
        )* };
    }
    each! {
        "histogram of bytes", u8, 1 << 30, |bits| (bits >> 7) as u8,
            ["nvcc_histogram_1", "nvcc_histogram_wide_1", "cub_histogram_1"];
        "histogram of equal bytes", u8, 1 << 30, |_bits| 7,
            ["nvcc_histogram_1", "nvcc_histogram_wide_1", "cub_histogram_1"];
        "histogram of words", u32, 1 << 28, |bits| bits >> 7 & 255,
            ["nvcc_histogram_wide_4", "cub_histogram_4"];
    }
    Ok(())
}

fn reduce(measure: &Measure<'_>) -> Outcome {
    let (stream, blocks) = (&measure.stream, 8 * measure.multiprocessors);
    macro_rules! each {
        ($($name:literal, $type:ty, $operator:ty, $len:expr, $from:expr, |$bits:ident| $value:expr,
            |$left:ident, $right:ident| $fold:expr, $others:expr;)*) => { $(
            if measure.wants($name) {
                let len: usize = ($len / measure.divide).next_multiple_of(16);
                let elements: Vec<$type> = random(len).map(|$bits| $value).collect();
                let input = [stream.alloc_from_slice(&elements)?, stream.alloc_zeroed(1)?];
                let mut output = stream.alloc_zeroed::<$type>(1)?;
                let partials = std::cell::RefCell::new(stream.alloc_zeroed::<$type>(blocks)?);
                let finished = std::cell::RefCell::new(stream.alloc_zeroed::<u32>(1)?);
                let expected = elements.iter().copied().fold($from, |$left: $type, $right: $type| $fold);
                let mut ways = vec![ours("ours", |stream, input: &Input<$type>, output| {
                    let (partials, finished) = (&mut *partials.borrow_mut(), &mut *finished.borrow_mut());
                    let grid = Grid1::blocks(blocks);
                    kernels::reduce::<$type, $operator, _>(stream, grid, &input[0], partials, finished, output)
                })];
                theirs(measure, &$others, [len, 0], &mut ways)?;
                let task = Task {
                    name: $name,
                    bytes: len * size_of::<$type>(),
                    before: vec![$from; 1],
                    check: &|found| equals(found, |_| expected),
                };
                measure.task(&task, &input, &mut output, &ways)?;
            }
        )* };
    }
    // The sums of f32 stay below 2^24, so that every order gives the same.
    each! {
        "sum of f32", f32, Sum, 1 << 28, 0.0, |bits| if bits % 64 == 0 { 1.0 } else { 0.0 }, |a, b| a + b,
            ["nvcc_sum_f32", "cub_sum_f32"];
        "min of f32", f32, Min, 1 << 28, f32::INFINITY, |bits| bits as f32, |a, b| a.min(b), ["cub_min_f32"];
        "sum of f64", f64, Sum, 1 << 27, 0.0, |bits| f64::from(bits % 1024), |a, b| a + b, ["cub_sum_f64"];
        "sum of u32", u32, Sum, 1 << 28, 0, |bits| bits, |a, b| a.wrapping_add(b), ["cub_sum_u32"];
        "max of i32", i32, Max, 1 << 28, i32::MIN, |bits| bits as i32, |a, b| a.max(b), ["cub_max_i32"];
    }
    Ok(())
}
