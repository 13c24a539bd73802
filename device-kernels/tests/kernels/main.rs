//! Launches each kernel through its typed function, and compares it with a plain loop. The kernels
//! run on a GPU if the machine has one, otherwise on the simulated device.
#![forbid(unsafe_code)]

mod memory_bound;
mod rows;
mod scan;

use cuda_rt::{Device, DeviceBuffer, Element, Grid1, Grid2, Stream};
use device_kernels::{
    add, add4, bilateral, block_sum, matmul, mul, process, process4, roots, saxpy, saxpy4, scale, scale4,
};

cuda_rt::streams! {
    Compute;
}

fn compute() -> Stream<Compute> {
    let gpu = Device::open_or_simulate().unwrap();
    if gpu.is_simulated() {
        eprintln!("no GPU: the kernels run on the simulated device");
    }
    gpu.stream::<Compute>().unwrap()
}

fn upload<T: Element>(stream: &Stream<Compute>, values: &[T]) -> DeviceBuffer<T, Compute> {
    let host = stream
        .adopt(stream.device().pinned_from(values).unwrap())
        .unwrap();
    let buffer = stream.alloc_uninit::<T>(values.len()).unwrap();
    stream.init_from_host(buffer, &host).unwrap()
}

fn download<T: Element>(stream: &Stream<Compute>, buffer: &DeviceBuffer<T, Compute>) -> Vec<T> {
    let mut host = stream
        .adopt(stream.device().pinned::<T>(buffer.len()).unwrap())
        .unwrap();
    stream.copy_to_host(buffer, &mut host).unwrap();
    stream.release(host).unwrap().synchronize().unwrap().to_vec()
}

/// Compares the message of a refused call, without the place of the call that stands in it.
#[track_caller]
fn assert_refused(result: cuda_rt::Result<()>, (file, line): (&str, u32), expected: &str) {
    let (function, why) = expected.split_once(": ").unwrap();
    let expected = format!("{function} ({file}:{line}): {why}");
    assert_eq!(result.unwrap_err().to_string(), expected);
}

/// A host crate derives `Element` through `cuda_rt`, a kernel crate through `device_std`. Both give
/// the same layout.
#[test]
fn both_derives_of_element_agree() {
    mod host {
        #[derive(Clone, Copy, cuda_rt::bytemuck::Pod, cuda_rt::bytemuck::Zeroable, cuda_rt::Element)]
        #[bytemuck(crate = "cuda_rt::bytemuck")]
        #[repr(C)]
        pub(super) struct Particle {
            position: [f32; 3],
            kind: u32,
        }
    }
    mod device {
        use device_std::{Element, bytemuck};
        #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable, Element)]
        #[bytemuck(crate = "device_std::bytemuck")]
        #[repr(C)]
        pub(super) struct Particle {
            position: [f32; 3],
            kind: u32,
        }
    }
    assert_eq!(
        <host::Particle as Element>::LAYOUT,
        <device::Particle as Element>::LAYOUT
    );
}

/// Pseudo-random numbers, equal in every run (xorshift64*).
fn random(count: usize, seed: u64) -> impl Iterator<Item = u32> {
    let mut state = seed | 1;
    std::iter::repeat_with(move || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    })
    .take(count)
}

/// Pseudo-random floats in [-1, 1).
fn random_floats(count: usize, seed: u64) -> Vec<f32> {
    random(count, seed)
        .map(|bits| bits as f32 / (1u64 << 31) as f32 - 1.0)
        .collect()
}

fn random_bytes(count: usize, seed: u64) -> Vec<u8> {
    random(count, seed).map(|bits| (bits >> 13) as u8).collect()
}

/// Lengths around the sizes of warps and blocks, and 0.
const LENGTHS: [usize; 9] = [0, 1, 31, 32, 33, 255, 256, 257, 10_000];

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn scale_is_a_product_bit_for_bit() {
    let stream = compute();
    for len in LENGTHS {
        let input = random_floats(len, 1);
        let mut output = stream.alloc_zeroed::<f32>(len).unwrap();
        scale(
            &stream,
            Grid1::covering(len),
            &upload(&stream, &input),
            &mut output,
            1.7,
        )
        .unwrap();
        let expected: Vec<f32> = input.iter().map(|x| x * 1.7).collect();
        assert_eq!(bits(&download(&stream, &output)), bits(&expected), "{len}");
    }
}

#[test]
fn saxpy_is_rounded_once() {
    let stream = compute();
    for len in LENGTHS {
        let (x, y) = (random_floats(len, 2), random_floats(len, 3));
        let mut out = upload(&stream, &y);
        saxpy(&stream, Grid1::covering(len), 1.1, &upload(&stream, &x), &mut out).unwrap();
        let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| 1.1f32.mul_add(*x, *y)).collect();
        assert_eq!(bits(&download(&stream, &out)), bits(&expected), "{len}");
    }
}

#[test]
fn roots_equal_the_hosts_after_any_number_of_steps() {
    let stream = compute();
    for (len, steps) in LENGTHS.into_iter().zip([0, 1, 2, 7, 40].into_iter().cycle()) {
        let input: Vec<f32> = random_floats(len, 6).into_iter().map(f32::abs).collect();
        let mut output = stream.alloc_zeroed::<f32>(len).unwrap();
        let uploaded = upload(&stream, &input);
        roots(&stream, Grid1::covering(len), &uploaded, &mut output, steps).unwrap();
        let root = |x: &f32| (0..steps).fold(1.0, |v: f32, _| 0.5 * (v + x / v));
        let expected: Vec<f32> = input.iter().map(root).collect();
        assert_eq!(
            bits(&download(&stream, &output)),
            bits(&expected),
            "{len}, {steps}"
        );
    }
}

#[test]
fn add_joins_two_inputs() {
    let stream = compute();
    for len in LENGTHS {
        let (left, right) = (random_floats(len, 4), random_floats(len, 5));
        let mut sum = stream.alloc_zeroed::<f32>(len).unwrap();
        add(
            &stream,
            Grid1::covering(len),
            &upload(&stream, &left),
            &upload(&stream, &right),
            &mut sum,
        )
        .unwrap();
        let expected: Vec<f32> = left
            .iter()
            .zip(&right)
            .map(|(left, right)| left + right)
            .collect();
        assert_eq!(bits(&download(&stream, &sum)), bits(&expected), "{len}");
    }
}

#[test]
fn process_makes_sixteen_multiply_adds() {
    let stream = compute();
    let input = random_floats(1000, 6);
    let mut output = stream.alloc_zeroed::<f32>(1000).unwrap();
    process(
        &stream,
        Grid1::covering(1000).block(96),
        &upload(&stream, &input),
        &mut output,
        0.9,
        0.1,
    )
    .unwrap();
    let expected: Vec<f32> = input
        .iter()
        .map(|x| (0..16).fold(*x, |v, _| v.mul_add(0.9, 0.1)))
        .collect();
    assert_eq!(bits(&download(&stream, &output)), bits(&expected));
}

/// Kernels with four elements in each thread give the results of kernels with one: for all tails,
/// and for slices that are not aligned for four elements.
#[test]
fn kernels_of_four_elements_equal_kernels_of_one() {
    let stream = compute();
    for len in LENGTHS.into_iter().chain([2, 3, 4, 5, 6, 7]) {
        for start in [0, 1, 2, 4] {
            let (x, y) = (random_floats(len + start, 11), random_floats(len + start, 12));
            let (x, y) = (upload(&stream, &x), upload(&stream, &y));
            let (x, y) = (&x[start..], &y[start..]);
            let (one, four) = (Grid1::covering(len), Grid1::covering(len.div_ceil(4)));
            // The buffer is longer than the output, and filled, so that a write beyond the output
            // shows.
            let whole = random_floats(len + start + 5, 13);
            let each: [DeviceBuffer<f32, Compute>; 8] = std::array::from_fn(|_| upload(&stream, &whole));
            let mut each = each.map(|buffer| (buffer, start..start + len));
            for (at, (buffer, range)) in each.iter_mut().enumerate() {
                let out = &mut buffer[range.clone()];
                match at {
                    0 => scale(&stream, one, x, out, 1.7),
                    1 => scale4(&stream, four, x, out, 1.7),
                    2 => add(&stream, one, x, y, out),
                    3 => add4(&stream, four, x, y, out),
                    4 => saxpy(&stream, one, -0.3, x, out),
                    5 => saxpy4(&stream, four, -0.3, x, out),
                    6 => process(&stream, one, x, out, 0.9, 0.1),
                    _ => process4(&stream, four, x, out, 0.9, 0.1),
                }
                .unwrap();
            }
            let outputs = each.map(|(buffer, _)| bits(&download(&stream, &buffer)));
            for (pair, kernel) in outputs.chunks_exact(2).zip(["scale", "add", "saxpy", "process"]) {
                assert_eq!(pair[0], pair[1], "{kernel}, {len} elements from {start}");
                assert_eq!(pair[0][..start], bits(&whole[..start]));
                assert_eq!(pair[0][start + len..], bits(&whole[start + len..]));
            }
        }
    }
}

#[test]
fn threads_outside_the_grid_write_nothing() {
    let stream = compute();
    let input = upload(&stream, &[1.0; 300]);
    let mut output = stream.alloc_zeroed::<f32>(300).unwrap();
    // One thread of the last block, which has 256 threads, lies inside the grid.
    scale(&stream, Grid1::covering(257), &input, &mut output, 2.0).unwrap();
    let output = download(&stream, &output);
    assert!(output[..257].iter().all(|x| *x == 2.0) && output[257..].iter().all(|x| *x == 0.0));
}

/// The filter by its definition, in double precision.
fn bilateral_reference(
    image: &[u8],
    width: usize,
    height: usize,
    radius: i64,
    space: f64,
    range: f64,
) -> Vec<f64> {
    let pixel = |x: i64, y: i64| {
        let (x, y) = (x.clamp(0, width as i64 - 1), y.clamp(0, height as i64 - 1));
        f64::from(image[y as usize * width + x as usize])
    };
    let mut out = Vec::new();
    for y in 0..height as i64 {
        for x in 0..width as i64 {
            let (mut sum, mut weights) = (0.0, 0.0);
            for dy in -radius..=radius {
                for dx in -radius..=radius {
                    let (value, distance) = (pixel(x + dx, y + dy), (dx * dx + dy * dy) as f64);
                    let difference = value - pixel(x, y);
                    let exponent = distance / (space * space) + difference * difference / (range * range);
                    let weight = (-0.5 * exponent).exp();
                    sum += weight * value;
                    weights += weight;
                }
            }
            out.push(sum / weights);
        }
    }
    out
}

#[test]
fn bilateral_equals_its_definition_within_half_a_level() {
    let stream = compute();
    for (width, height, radius) in [
        (1, 1, 3),
        (5, 3, 16),
        (70, 37, 1),
        (70, 37, 2),
        (70, 37, 3),
        (33, 40, 4),
        (33, 40, 16),
    ] {
        let image = random_bytes(width * height, 7);
        let mut output = stream.alloc_zeroed::<u8>(width * height).unwrap();
        let (input, grid) = (upload(&stream, &image), Grid2::covering(width, height));
        bilateral(
            &stream,
            grid,
            &input,
            &mut output,
            width as u32,
            height as u32,
            radius,
            2.5,
            40.0,
        )
        .unwrap();
        let expected = bilateral_reference(&image, width, height, i64::from(radius), 2.5, 40.0);
        for (at, (got, expected)) in download(&stream, &output).into_iter().zip(expected).enumerate() {
            // Half a level for the rounding, and a little for single precision.
            let error = (f64::from(got) - expected).abs();
            assert!(
                error < 0.5 + 1e-3,
                "{width}x{height} radius {radius}, pixel {at}: {got} for {expected}"
            );
        }
    }
}

#[test]
fn bilateral_keeps_a_constant_image_and_an_edge() {
    let stream = compute();
    let image: Vec<u8> = (0..64 * 8)
        .map(|at| if at % 64 < 32 { 10 } else { 250 })
        .collect();
    let mut output = stream.alloc_zeroed::<u8>(image.len()).unwrap();
    bilateral(
        &stream,
        Grid2::covering(64, 8),
        &upload(&stream, &image),
        &mut output,
        64,
        8,
        3,
        3.0,
        10.0,
    )
    .unwrap();
    assert_eq!(download(&stream, &output), image);
}

#[test]
fn block_sum_sums_each_block() {
    let stream = compute();
    for len in [1, 32, 255, 256, 257, 5000] {
        let input = random_floats(len, 8);
        let mut sums = stream.alloc_zeroed::<f32>(len.div_ceil(256)).unwrap();
        block_sum(&stream, Grid1::covering(len), &upload(&stream, &input), &mut sums).unwrap();
        for (sum, block) in download(&stream, &sums).into_iter().zip(input.chunks(256)) {
            let exact: f64 = block.iter().map(|x| f64::from(*x)).sum();
            let magnitude: f64 = block.iter().map(|x| f64::from(x.abs())).sum();
            // The sum is a tree of depth eight, so a value has at most eight roundings.
            let bound = 8.0 * f64::from(f32::EPSILON) * magnitude;
            assert!((f64::from(sum) - exact).abs() <= bound, "{sum} for {exact}");
        }
    }
}

#[test]
fn mul_is_a_product_bit_for_bit() {
    let stream = compute();
    for len in LENGTHS {
        let (left, right) = (random_floats(len, 11), random_floats(len, 12));
        let product = mul(
            &stream,
            Grid1::covering(len),
            &upload(&stream, &left),
            &upload(&stream, &right),
            stream.alloc_uninit(len).unwrap(),
        )
        .unwrap();
        let expected: Vec<f32> = left.iter().zip(&right).map(|(a, b)| a * b).collect();
        assert_eq!(bits(&download(&stream, &product)), bits(&expected), "{len}");
    }
}

/// Sides around the side of a tile, and depth 0.
#[test]
fn matmul_adds_the_products_in_order() {
    let stream = compute();
    let sides = [
        (1, 1, 1),
        (16, 16, 16),
        (17, 15, 16),
        (15, 17, 33),
        (3, 70, 1),
        (40, 2, 0),
        (50, 33, 47),
    ];
    for (height, width, depth) in sides {
        let (left, right) = (
            random_floats(height * depth, 13),
            random_floats(depth * width, 14),
        );
        let product = matmul(
            &stream,
            Grid2::covering(width, height),
            &upload(&stream, &left),
            &upload(&stream, &right),
            height as u32,
            width as u32,
            depth as u32,
            stream.alloc_uninit(height * width).unwrap(),
        )
        .unwrap();
        let element = |row: usize, column: usize| {
            (0..depth).fold(0.0_f32, |sum, k| {
                left[row * depth + k].mul_add(right[k * width + column], sum)
            })
        };
        let expected: Vec<f32> = (0..height * width)
            .map(|at| element(at / width, at % width))
            .collect();
        assert_eq!(
            bits(&download(&stream, &product)),
            bits(&expected),
            "{height}x{depth} by {depth}x{width}"
        );
    }
}
