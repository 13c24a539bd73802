//! Softmax and layer normalisation of rows.

use device_kernels as kernels;

use super::{ours, random, theirs};
use crate::{Input, Measure, Outcome, Output, Task, Way};

/// Elements of a matrix: much more than the caches hold.
const LEN: usize = 1 << 27;
const EPSILON: f32 = 1e-5;

/// Normalises a row in double precision, with weights and biases.
type Reference = fn(&[f32], &[f32]) -> Vec<f64>;

/// One way of a task, of rows of a width.
type Kernel =
    fn(&cuda_rt::Stream<crate::Compute>, &Input<f32>, &mut Output<f32>, usize) -> cuda_rt::Result<()>;

pub(super) fn all(measure: &Measure<'_>) -> Outcome {
    for width in [1024, 2048, 4096, 8192, 32_768, 4095] {
        let other = if width % 4 == 0 {
            Some("nvcc_softmax")
        } else {
            None
        };
        one(
            measure,
            "softmax",
            width,
            other,
            softmax,
            |stream, input, output, width| kernels::softmax(stream, &input[0], output, width),
        )?;
    }
    for width in [1024, 2048, 4096, 8192, 32_768, 4095] {
        let has_other = width % 4 == 0 && width <= 8192;
        let other = if has_other { Some("nvcc_layer_norm") } else { None };
        one(
            measure,
            "layer norm",
            width,
            other,
            layer_norm,
            |stream, input, output, width| {
                let (weight, bias) = (&input[1][..width], &input[1][width..]);
                kernels::layer_norm(stream, &input[0], weight, bias, output, width, EPSILON)
            },
        )?;
    }
    Ok(())
}

fn softmax(row: &[f32], _: &[f32]) -> Vec<f64> {
    let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let terms = row
        .iter()
        .map(|value| (f64::from(*value) - f64::from(largest)).exp());
    let sum: f64 = terms.clone().sum();
    terms.map(|term| term / sum).collect()
}

fn layer_norm(row: &[f32], scale: &[f32]) -> Vec<f64> {
    let values = || row.iter().map(|value| f64::from(*value));
    let mean = values().sum::<f64>() / row.len() as f64;
    let variance = values().map(|value| (value - mean).powi(2)).sum::<f64>() / row.len() as f64;
    let factor = 1.0 / (variance + f64::from(EPSILON)).sqrt();
    let (weight, bias) = scale.split_at(row.len());
    let scale = weight.iter().zip(bias);
    values()
        .zip(scale)
        .map(|(value, (weight, bias))| (value - mean) * factor * f64::from(*weight) + f64::from(*bias))
        .collect()
}

fn one(
    measure: &Measure<'_>,
    name: &str,
    width: usize,
    other: Option<&'static str>,
    reference: Reference,
    kernel: Kernel,
) -> Outcome {
    let name = format!("{name}, {width} wide");
    if !measure.wants(&name) {
        return Ok(());
    }
    let stream = &measure.stream;
    let rows = (LEN / width / measure.divide).max(3);
    let values: Vec<f32> = random(rows * width)
        .map(|bits| (bits % 4096) as f32 / 256.0 - 8.0)
        .collect();
    let scale: Vec<f32> = random(2 * width)
        .map(|bits| (bits % 256) as f32 / 128.0 - 1.0)
        .collect();
    let input = [
        stream.alloc_from_slice(&values)?,
        stream.alloc_from_slice(&scale)?,
    ];
    let mut output = stream.alloc_zeroed::<f32>(rows * width)?;
    let mut ways: Vec<Way<'_, f32, f32>> = vec![ours("ours", move |stream, input, output| {
        kernel(stream, input, output, width)
    })];
    theirs(measure, other.as_slice(), [rows, width], &mut ways)?;
    ways.push(ours("the driver's copy", |stream, input, output| {
        stream.copy(&input[0], output)
    }));
    let task = Task {
        name: &name,
        bytes: 2 * rows * width * 4,
        before: vec![0.0; rows * width],
        check: &|found: &[f32]| {
            if found == values {
                return Ok(()); // the copy
            }
            // Some rows, because double precision takes long.
            for row in (0..rows).step_by(61).chain([rows - 1]) {
                let range = row * width..(row + 1) * width;
                let expected = reference(&values[range.clone()], &scale);
                for (column, (found, expected)) in found[range].iter().zip(expected).enumerate() {
                    let error = (f64::from(*found) - expected).abs();
                    // A softmax is a small part of 1; the rest is about 1.
                    if error.is_nan()
                        || error
                            > 1e-4 * expected.abs() + 1e-9 + if name.starts_with('l') { 1e-5 } else { 0.0 }
                    {
                        return Err(format!(
                            "row {row}, column {column} is {found} instead of {expected}"
                        ));
                    }
                }
            }
            Ok(())
        },
    };
    measure.task(&task, &input, &mut output, &ways)
}
