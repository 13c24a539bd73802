//! Transposes, histograms and reductions.

use cuda_rt::{Grid1, Grid2};
use device_kernels::{histogram, reduce, transpose, transpose_wide};
use device_std::{Max, Min, Sum};

use super::{compute, download, random, random_bytes, random_floats, upload};

/// Also of slices whose chunks of 16 bytes begin behind the first element, and of none.
macro_rules! counts_every_value {
    ($type:ty, $input:expr) => {{
        let (stream, whole): (_, Vec<$type>) = (compute(), $input);
        let device = upload(&stream, &whole);
        let ends = [
            (0, 0),
            (1, 0),
            (3, 2),
            (5, 17),
            (16, 1),
            (0, whole.len() - 1),
            (4, whole.len()),
        ];
        for (start, end) in ends {
            let start = start.min(whole.len());
            let range = start..whole.len() - end.min(whole.len() - start);
            let mut expected = vec![0u32; 256];
            for value in &whole[range.clone()] {
                if let Some(count) = expected.get_mut(*value as usize) {
                    *count += 1;
                }
            }
            for threads in [1, 256, 313, 30_000] {
                let mut counts = stream.alloc_zeroed::<u32>(256).unwrap();
                let input = &device[range.clone()];
                histogram(&stream, Grid1::covering(threads), input, &mut counts).unwrap();
                assert_eq!(
                    download(&stream, &counts),
                    expected,
                    "{threads} threads, {range:?}"
                );
            }
        }
    }};
}

#[test]
fn histogram_counts_every_byte_for_any_grid() {
    counts_every_value!(u8, random_bytes(20_001, 9));
    // Bytes that are all equal: each addition meets another one.
    counts_every_value!(u8, vec![7; 5_000]);
}

/// Values from 256 on are not counted.
#[test]
fn histogram_counts_words_below_256() {
    let words: Vec<u32> = random(20_001, 9).map(|bits| bits % 300).collect();
    assert!(words.contains(&255) && words.contains(&256));
    counts_every_value!(u32, words);
    counts_every_value!(u32, vec![u32::MAX, 1 << 8, 1 << 16, 1 << 31, 255, 0]);
}

/// Sides around the sides of chunks, of tiles, and of spans of the output.
const SIDES: [(usize, usize); 14] = [
    (1, 1),
    (4, 4),
    (64, 64),
    (33, 31),
    (5, 100),
    (100, 5),
    (63, 65),
    (65, 63),
    (68, 60),
    (128, 64),
    (130, 67),
    (132, 200),
    (256, 192),
    (2, 70),
];

/// Launches a transpose of each size, from and to slices that are aligned for chunks and that are
/// not.
macro_rules! transposes {
    ($kernel:ident, $rows:literal, $type:ty, |$bits:ident| $value:expr) => {{
        let stream = compute();
        for (width, height) in SIDES {
            for (from, to) in [(0, 0), (1, 0), (0, 1)] {
                let len = width * height;
                let input: Vec<$type> = random(from + len, 10).map(|$bits| $value).collect();
                let before: Vec<$type> = random(to + len + 9, 11).map(|$bits| $value).collect();
                let (device, mut output) = (upload(&stream, &input), upload(&stream, &before));
                let (read, written) = (&device[from..], &mut output[to..to + len]);
                let grid = Grid2::covering(height, width.div_ceil($rows));
                $kernel(&stream, grid, read, written, width as u32, height as u32).unwrap();
                let output = download(&stream, &output);
                let at = |at: usize| input[from + at % height * width + at / height];
                let expected: Vec<$type> = (0..len).map(at).collect();
                assert!(output[to..to + len] == expected, "{width}x{height}, {from}, {to}");
                // Nothing else is written.
                assert!(output[..to] == before[..to] && output[to + len..] == before[to + len..]);
            }
        }
    }};
}

#[test]
fn transpose_moves_every_element_of_each_size() {
    transposes!(transpose, 16, u8, |bits| bits as u8);
    transposes!(transpose, 16, u16, |bits| bits as u16);
    transposes!(transpose, 16, u32, |bits| bits);
    transposes!(transpose, 16, i32, |bits| bits as i32);
    transposes!(transpose, 16, f32, |bits| bits as f32);
    transposes!(transpose, 16, u64, |bits| u64::from(bits) << 20 | 7);
    transposes!(transpose, 16, f64, |bits| f64::from(bits));
    transposes!(transpose_wide, 4, [f32; 4], |bits| [
        bits as f32,
        1.0,
        -(bits as f32),
        0.5
    ]);
    transposes!(transpose_wide, 4, [u32; 4], |bits| [bits, 1, !bits, 2]);
    transposes!(transpose_wide, 4, [f64; 2], |bits| [f64::from(bits), 1.0]);
}

/// A grid of more rows than the output writes nothing beyond it, as callers of an older kernel with
/// four rows for each thread would launch it.
#[test]
fn transpose_of_a_larger_grid_writes_the_same() {
    let stream = compute();
    let input = upload(&stream, &random_floats(100 * 64, 12));
    let mut outputs = [(); 2].map(|()| stream.alloc_zeroed::<f32>(100 * 64).unwrap());
    for (output, rows) in outputs.iter_mut().zip([16, 4]) {
        let grid = Grid2::covering(64, 100usize.div_ceil(rows));
        transpose(&stream, grid, &input, output, 100, 64).unwrap();
    }
    let [expected, larger] = outputs.map(|output| download(&stream, &output));
    assert_eq!(expected, larger);
    assert_eq!(expected[1], download(&stream, &input)[100]);
}

/// The result of each number of blocks, each launch after the other with the same `finished`.
macro_rules! reduces {
    ($type:ty, $operator:ty, $values:expr, $expected:expr) => {{
        let stream = compute();
        let values: Vec<$type> = $values;
        let device = upload(&stream, &values);
        let mut partials = stream.alloc_zeroed::<$type>(9).unwrap();
        let mut finished = stream.alloc_zeroed::<u32>(1).unwrap();
        let mut result = stream.alloc_zeroed::<$type>(1).unwrap();
        for blocks in [1, 2, 3, 9] {
            for (start, end) in [
                (0, values.len()),
                (1, values.len()),
                (3, values.len() - 2),
                (5, 6),
                (4, 4),
            ] {
                let grid = Grid1::blocks(blocks);
                let input = &device[start..end];
                reduce::<$type, $operator, _>(
                    &stream,
                    grid,
                    input,
                    &mut partials,
                    &mut finished,
                    &mut result,
                )
                .unwrap();
                let expected: $type = $expected(&values[start..end]);
                assert_eq!(
                    download(&stream, &result)[0],
                    expected,
                    "{blocks} blocks, {start}..{end}"
                );
                assert_eq!(download(&stream, &finished), [0]);
            }
        }
    }};
}

/// Of floats that are small whole numbers, every order gives the same sum.
#[test]
fn reduce_combines_every_element_for_any_number_of_blocks() {
    for len in [7, 300, 4_100, 50_000] {
        let words = || random(len, 20);
        let whole = |bits: u32| bits % 64;
        reduces!(
            f32,
            Sum,
            words().map(|bits| whole(bits) as f32).collect(),
            |values: &[f32]| { values.iter().fold(-0.0, |sum, value| sum + value) }
        );
        reduces!(f64, Sum, words().map(f64::from).collect(), |values: &[f64]| {
            values.iter().fold(-0.0, |sum, value| sum + value)
        });
        reduces!(f32, Min, random_floats(len, 21), |values: &[f32]| {
            values.iter().copied().fold(f32::INFINITY, f32::min)
        });
        reduces!(f32, Max, random_floats(len, 22), |values: &[f32]| {
            values.iter().copied().fold(f32::NEG_INFINITY, f32::max)
        });
        let sum = |values: &[u32]| values.iter().fold(0, |sum: u32, value| sum.wrapping_add(*value));
        reduces!(u32, Sum, words().collect(), sum);
        reduces!(u32, Min, words().collect(), |values: &[u32]| *values
            .iter()
            .min()
            .unwrap_or(&u32::MAX));
        reduces!(u32, Max, words().collect(), |values: &[u32]| *values
            .iter()
            .max()
            .unwrap_or(&0));
        let signed = || words().map(|bits| bits as i32).collect::<Vec<_>>();
        reduces!(i32, Sum, signed(), |values: &[i32]| {
            values.iter().fold(0, |sum: i32, value| sum.wrapping_add(*value))
        });
        reduces!(i32, Min, signed(), |values: &[i32]| *values
            .iter()
            .min()
            .unwrap_or(&i32::MAX));
        reduces!(i32, Max, signed(), |values: &[i32]| *values
            .iter()
            .max()
            .unwrap_or(&i32::MIN));
        let wide = |bits: u32| u64::from(bits) << 13;
        reduces!(u64, Sum, words().map(wide).collect(), |values: &[u64]| values
            .iter()
            .sum());
        reduces!(
            i64,
            Sum,
            words().map(|bits| -(wide(bits) as i64)).collect(),
            |values: &[i64]| { values.iter().sum() }
        );
    }
}
