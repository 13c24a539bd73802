//! Softmax and layer normalisation.

use cuda_rt::Grid1;
use device_kernels::{layer_norm, layer_norm_long, softmax, softmax_long};

use super::{assert_refused, compute, download, random_floats, upload};

/// Widths around the elements of a step, and of each number of steps that threads hold: of a warp
/// up to 1024, of a block up to 8192.
const WIDTHS: [usize; 22] = [
    1, 3, 31, 32, 33, 127, 128, 129, 256, 500, 512, 516, 1023, 1024, 1028, 1500, 2048, 4100, 8191, 8192,
    8196, 9001,
];

/// Softmax in double precision.
fn softmax_reference(row: &[f32]) -> Vec<f64> {
    let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let terms = row
        .iter()
        .map(|value| (f64::from(*value) - f64::from(largest)).exp());
    let sum: f64 = terms.clone().sum();
    terms.map(|term| term / sum).collect()
}

/// Layer normalisation in double precision.
fn layer_norm_reference(row: &[f32], weight: &[f32], bias: &[f32], epsilon: f32) -> Vec<f64> {
    let len = row.len() as f64;
    let values = || row.iter().map(|value| f64::from(*value));
    let mean = values().sum::<f64>() / len;
    let variance = values().map(|value| (value - mean).powi(2)).sum::<f64>() / len;
    let factor = 1.0 / (variance + f64::from(epsilon)).sqrt();
    let scale = weight.iter().zip(bias);
    values()
        .zip(scale)
        .map(|(value, (weight, bias))| (value - mean) * factor * f64::from(*weight) + f64::from(*bias))
        .collect()
}

/// Numbers of many sizes and both signs.
fn values(count: usize, seed: u64) -> Vec<f32> {
    random_floats(count, seed)
        .into_iter()
        .map(|value| value % 16.0)
        .collect()
}

/// Calls `launch` with the places of the input and of the output in memory, and compares the rows.
/// The places are aligned for chunks, and not.
macro_rules! each_row {
    ($threads:literal, $close:expr, |$stream:ident, $grid:ident, $input:ident, $output:ident, $width:ident| $launch:expr, |$row:ident| $reference:expr) => {{
        let $stream = compute();
        for $width in WIDTHS {
            let rows = 3 + 40 / $width;
            for (from, to) in [(0, 0), (1, 0), (0, 1), (3, 2)] {
                let len = rows * $width;
                let values = values(from + len, 30);
                let before = values.iter().map(|value| value + 1.0).chain([7.0; 9]).collect::<Vec<_>>();
                let (whole, mut written) = (upload(&$stream, &values), upload(&$stream, &before[..to + len + 5]));
                let $grid = Grid1::covering($threads * rows);
                {
                    let ($input, $output) = (&whole[from..], &mut written[to..to + len]);
                    $launch.unwrap();
                }
                let written = download(&$stream, &written);
                for (at, found) in written[to..to + len].chunks($width).enumerate() {
                    let $row = &values[from + at * $width..][..$width];
                    let expected: Vec<f64> = $reference;
                    for (column, (found, expected)) in found.iter().zip(&expected).enumerate() {
                        assert!(
                            $close(f64::from(*found), *expected),
                            "{rows}x{}, {from}, {to}: row {at}, column {column}: {found} instead of {expected}",
                            $width
                        );
                    }
                }
                // Nothing else is written.
                assert!(written[..to] == before[..to] && written[to + len..] == before[to + len..][..5]);
            }
        }
    }};
}

#[test]
fn softmax_equals_its_definition_for_each_width() {
    // The exponential is within 2 units in the last and a sum of n terms within some more.
    let close = |found: f64, expected: f64| (found - expected).abs() <= 2e-6 * expected;
    each_row!(
        256,
        close,
        |stream, _grid, input, output, width| softmax(&stream, input, output, width),
        |row| softmax_reference(row)
    );
    each_row!(
        32,
        close,
        |stream, grid, input, output, width| {
            softmax_long::<32, _>(&stream, grid, input, output, width as u32)
        },
        |row| softmax_reference(row)
    );
    each_row!(
        256,
        close,
        |stream, grid, input, output, width| {
            softmax_long::<256, _>(&stream, grid, input, output, width as u32)
        },
        |row| softmax_reference(row)
    );
}

#[test]
fn layer_norm_equals_its_definition_for_each_width() {
    let close = |found: f64, expected: f64| (found - expected).abs() <= 2e-5 * expected.abs().max(1.0);
    let stream = compute();
    let (weights, biases) = (values(9_100, 31), values(9_100, 32));
    let [weight, bias] = [&weights, &biases].map(|values| upload(&stream, values));
    let scale =
        |row: &[f32], start: usize| layer_norm_reference(row, &weights[start..], &biases[..row.len()], 1e-5);
    each_row!(
        256,
        close,
        |own, _grid, input, output, width| {
            let _ = &own;
            let (weight, bias) = (&weight[..width], &bias[..width]);
            layer_norm(&stream, input, weight, bias, output, width, 1e-5)
        },
        |row| scale(row, 0)
    );
    // Weights at an address at which no chunk begins.
    each_row!(
        256,
        close,
        |own, _grid, input, output, width| {
            let _ = &own;
            let (weight, bias) = (&weight[1..][..width], &bias[..width]);
            layer_norm(&stream, input, weight, bias, output, width, 1e-5)
        },
        |row| scale(row, 1)
    );
    each_row!(
        32,
        close,
        |own, grid, input, output, width| {
            let _ = &own;
            let width = width as u32;
            layer_norm_long::<32, _>(&stream, grid, input, &weight, &bias, output, width, 1e-5)
        },
        |row| scale(row, 0)
    );
}

/// Of what a sum of exponentials cannot hold, and of what it must not.
#[test]
fn softmax_of_extreme_rows() {
    let stream = compute();
    let (minus, plus) = (f32::NEG_INFINITY, f32::INFINITY);
    for width in [5_usize, 1024, 9_000] {
        let row = |values: &[f32]| {
            let mut row = vec![minus; width];
            row[..values.len()].copy_from_slice(values);
            // One value far from the others, in another thread.
            row[width - 1] = values[0];
            let input = upload(&stream, &row);
            let mut output = stream.alloc_zeroed::<f32>(width).unwrap();
            softmax(&stream, &input, &mut output, width).unwrap();
            download(&stream, &output)
        };
        // Masked elements are exactly 0, and large ones do not overflow.
        let found = row(&[3e38, minus, -3e38, 3e38 - 1e32]);
        assert_eq!(
            (found[0], found[1], found[2], found[width - 1]),
            (0.5, 0.0, 0.0, 0.5)
        );
        assert_eq!(row(&[-3e38])[0], 0.5);
        for values in [[f32::NAN, 1.0], [plus, 1.0], [minus, minus], [1.0, f32::NAN]] {
            assert!(
                row(&values).iter().all(|value| value.is_nan()),
                "{values:?}, {width}"
            );
        }
    }
}

/// A mean that is much larger than the differences from it.
#[test]
fn layer_norm_of_a_large_mean_keeps_the_differences() {
    let stream = compute();
    for width in [64_usize, 1000, 10_000] {
        let row: Vec<f32> = (0..width).map(|at| 1e4 + (at % 2) as f32).collect();
        let (ones, zeros) = (vec![1.0; width], vec![0.0; width]);
        let [input, weight, bias] = [&row, &ones, &zeros].map(|values| upload(&stream, values));
        let mut output = stream.alloc_zeroed::<f32>(width).unwrap();
        layer_norm(&stream, &input, &weight, &bias, &mut output, width, 0.0).unwrap();
        for (at, value) in download(&stream, &output).iter().enumerate() {
            let expected = if at % 2 == 0 { -1.0 } else { 1.0 };
            assert!(
                (value - expected).abs() < 0.05,
                "{width}: element {at} is {value}"
            );
        }
    }
}

#[test]
fn no_rows_are_left_as_they_are() {
    let stream = compute();
    let input = upload(&stream, &[1.0_f32; 8]);
    let mut output = stream.alloc_zeroed::<f32>(8).unwrap();
    softmax(&stream, &input[..0], &mut output[..0], 100).unwrap();
    softmax(&stream, &input[..0], &mut output[..0], 0).unwrap();
    layer_norm(&stream, &input[..0], &input, &input, &mut output[..0], 8, 0.0).unwrap();
    softmax_long::<256, _>(&stream, Grid1::covering(512), &input, &mut output[..0], 0).unwrap();
    assert_eq!(download(&stream, &output), [0.0; 8]);
}

#[test]
fn rows_refuse_lengths_before_they_launch() {
    let stream = compute();
    let input = upload(&stream, &[1.0_f32; 12]);
    let mut output = stream.alloc_zeroed::<f32>(12).unwrap();

    let line = line!() + 1;
    let result = softmax(&stream, &input, &mut output, 5);
    assert_refused(
        result,
        (file!(), line),
        "softmax: the output has 12 elements, which is no multiple of the width 5: \
                    pass whole rows",
    );

    let line = line!() + 1;
    let result = softmax(&stream, &input, &mut output, 0);
    assert_refused(
        result,
        (file!(), line),
        "softmax: the width is 0: pass the elements of a row",
    );

    let line = line!() + 1;
    let result = softmax(&stream, &input, &mut output[..8], 4);
    assert_refused(
        result,
        (file!(), line),
        "softmax: the input has 12 elements, the output 8: pass slices of one length",
    );

    let line = line!() + 1;
    let result = layer_norm(&stream, &input, &input[..4], &input, &mut output, 4, 0.0);
    assert_refused(
        result,
        (file!(), line),
        "layer_norm: weight has 4 elements, bias 12, and a row 4: pass one of each for \
                    each column",
    );

    let line = line!() + 1;
    let result = layer_norm(
        &stream,
        &input,
        &input[..4],
        &input[..4],
        &mut output[..8],
        4,
        0.0,
    );
    assert_refused(
        result,
        (file!(), line),
        "layer_norm: the input has 12 elements, the output 8: pass slices of one length",
    );

    assert_eq!(download(&stream, &output), [0.0; 12]);
}

/// What the page of `layer_norm` says about `epsilon`.
#[test]
fn layer_norm_divides_by_the_root_of_zero_and_less() {
    let stream = compute();
    let input = upload(&stream, &[1.0_f32, 2.0, 3.0, 3.0]);
    let [ones, zeros] = [[1.0_f32; 2], [0.0; 2]].map(|values| upload(&stream, &values));
    let mut output = stream.alloc_zeroed::<f32>(4).unwrap();
    for (epsilon, expected) in [(0.0, [false, true]), (-1.0, [true, true])] {
        layer_norm(&stream, &input, &ones, &zeros, &mut output, 2, epsilon).unwrap();
        let rows = download(&stream, &output);
        let is_nan = [0, 2].map(|at| rows[at].is_nan() && rows[at + 1].is_nan());
        assert_eq!(is_nan, expected, "{epsilon}");
    }
}
