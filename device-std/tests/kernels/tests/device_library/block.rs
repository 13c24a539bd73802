//! Reductions, scans and votes of blocks.

use cuda_rt::{Grid1, Grid2};
use library_kernels::block as kernels;

use crate::Compute;
use crate::devices::for_each_device;
use crate::harness::{COUNT, Sample, THREADS, assert_bits, download, groups, upload};

fn inputs<T: Sample>() -> Vec<T> {
    T::samples(COUNT.next_multiple_of(THREADS))
}

fn compose(first: [u32; 2], then: [u32; 2]) -> [u32; 2] {
    let b = u64::from(first[1]) * u64::from(then[0]) + u64::from(then[1]);
    [(u64::from(first[0]) * u64::from(then[0])) as u32, b as u32]
}

/// Combines each warp's values as a tree, and the results of the warps one after the other.
fn by_warps<T: Copy>(block: &[T], combine: fn(T, T) -> T) -> T {
    fn tree<T: Copy>(values: &[T], combine: fn(T, T) -> T) -> T {
        match values {
            [value] => *value,
            _ => {
                let (left, right) = values.split_at(values.len() / 2);
                combine(tree(left, combine), tree(right, combine))
            }
        }
    }
    let warps = block.chunks_exact(32).map(|warp| tree(warp, combine));
    warps.reduce(combine).unwrap()
}

macro_rules! reductions {
    ($($name:ident: $type:ty, |$block:ident| $expected:expr;)*) => { $(
        #[test]
        fn $name() {
            let input = inputs::<$type>();
            let expected: Vec<$type> = groups(&input, THREADS).map(|$block| $expected).collect();
            for_each_device(|gpu| {
                let stream = gpu.stream::<Compute<_>>().unwrap();
                let mut output = stream.alloc_zeroed(expected.len()).unwrap();
                kernels::$name(&stream, Grid1::covering(COUNT), &upload(&stream, &input), &mut output).unwrap();
                assert_bits(&download(&stream, &output), &expected);
            });
        }
    )* };
}

reductions! {
    block_sum_u32: u32, |block| block.iter().map(|value| u64::from(*value)).sum::<u64>() as u32;
    block_sum_i64: i64, |block| block.iter().map(|value| i128::from(*value)).sum::<i128>() as i64;
    block_sum_f32: f32, |block| by_warps(block, |left, right| left + right);
    block_sum_f64: f64, |block| by_warps(block, |left, right| left + right);
    block_min_i32: i32, |block| *block.iter().min().unwrap();
    block_max_u64: u64, |block| *block.iter().max().unwrap();
    block_min_f32: f32, |block| block.iter().copied().fold(f32::INFINITY, f32::min);
    block_max_f64: f64, |block| block.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    block_and_u32: u32, |block| block.iter().fold(u32::MAX, |all, value| all & value);
    block_or_u64: u64, |block| block.iter().fold(0, |all, value| all | value);
    block_xor_i32: i32, |block| block.iter().fold(0, |all, value| all ^ value);
    block_product_u32: u32, |block| block.iter().fold(1, |all: u32, value| all.wrapping_mul(*value));
    block_each_max: [u32; 2], |block| [0, 1].map(|at| block.iter().map(|value| value[at]).max().unwrap());
    block_compose: [u32; 2], |block| block.iter().copied().fold([1, 0], compose);
}

/// Compares each thread's value with `$expected` of the block's values and the thread's index, and
/// the total with `$total`.
macro_rules! scans {
    ($($name:ident: $type:ty, |$block:ident, $at:ident| $expected:expr, $total:expr;)*) => { $(
        #[test]
        fn $name() {
            let input = inputs::<$type>();
            let expected: Vec<$type> = groups(&input, THREADS)
                .flat_map(|$block| (0..THREADS).map(move |$at| $expected))
                .take(COUNT)
                .collect();
            let expected_totals: Vec<$type> = groups(&input, THREADS).map(|$block| $total).collect();
            for_each_device(|gpu| {
                let stream = gpu.stream::<Compute<_>>().unwrap();
                let mut output = stream.alloc_zeroed(COUNT).unwrap();
                let mut totals = stream.alloc_zeroed(expected_totals.len()).unwrap();
                let input = upload(&stream, &input);
                kernels::$name(&stream, Grid1::covering(COUNT), &input, &mut output, &mut totals).unwrap();
                assert_bits(&download(&stream, &output), &expected);
                assert_bits(&download(&stream, &totals), &expected_totals);
            });
        }
    )* };
}

scans! {
    inclusive_sum_u32: u32, |block, at| block[..=at].iter().fold(0, |all: u32, value| all.wrapping_add(*value)),
        block.iter().fold(0, |all: u32, value| all.wrapping_add(*value));
    exclusive_sum_u64: u64, |block, at| block[..at].iter().fold(0, |all: u64, value| all.wrapping_add(*value)),
        block.iter().fold(0, |all: u64, value| all.wrapping_add(*value));
    exclusive_max_i32: i32, |block, at| block[..at].iter().copied().max().unwrap_or(i32::MIN),
        *block.iter().max().unwrap();
    exclusive_min_f64: f64, |block, at| block[..at].iter().copied().fold(f64::INFINITY, f64::min),
        block.iter().copied().fold(f64::INFINITY, f64::min);
    inclusive_compose: [u32; 2], |block, at| block[..=at].iter().copied().fold([1, 0], compose),
        block.iter().copied().fold([1, 0], compose);
    exclusive_compose: [u32; 2], |block, at| block[..at].iter().copied().fold([1, 0], compose),
        block.iter().copied().fold([1, 0], compose);
}

/// Threads add in another order than a loop: there is a rounding for each of five steps, and for
/// each warp.
#[test]
fn inclusive_sum_f32() {
    let input = inputs::<f32>();
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let mut output = stream.alloc_zeroed(COUNT).unwrap();
        let mut totals = stream.alloc_zeroed(input.len() / THREADS).unwrap();
        let device = upload(&stream, &input);
        kernels::inclusive_sum_f32(&stream, Grid1::covering(COUNT), &device, &mut output, &mut totals)
            .unwrap();
        let (output, totals) = (download(&stream, &output), download(&stream, &totals));
        let close = |got: f32, values: &[f32]| {
            let exact: f64 = values.iter().map(|value| f64::from(*value)).sum();
            let magnitude: f64 = values.iter().map(|value| f64::from(value.abs())).sum();
            let error = (f64::from(got) - exact).abs();
            assert!(
                error <= 8.0 * f64::from(f32::EPSILON) * magnitude,
                "{got} for {exact}"
            );
        };
        for (at, got) in output.into_iter().enumerate() {
            close(got, &input[at / THREADS * THREADS..=at]);
        }
        for (got, block) in totals.into_iter().zip(groups(&input, THREADS)) {
            close(got, block);
        }
    });
}

#[test]
fn votes_of_a_block() {
    let mut input = inputs::<u32>();
    input[..THREADS].iter_mut().for_each(|value| *value |= 1);
    input[THREADS..2 * THREADS]
        .iter_mut()
        .for_each(|value| *value &= !1);
    let odd = |block: &[u32]| block.iter().filter(|value| **value % 2 == 1).count();
    let counts: Vec<usize> = groups(&input, THREADS).map(odd).collect();
    let expect = |f: fn(usize) -> bool| {
        counts
            .iter()
            .map(|count| u32::from(f(*count)))
            .collect::<Vec<_>>()
    };
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let mut results = [(); 3].map(|()| stream.alloc_zeroed::<u32>(counts.len()).unwrap());
        let [any, all, count] = &mut results;
        kernels::votes(
            &stream,
            Grid1::covering(COUNT),
            &upload(&stream, &input),
            any,
            all,
            count,
        )
        .unwrap();
        assert_eq!(download(&stream, any), expect(|count| count > 0));
        assert_eq!(download(&stream, all), expect(|count| count == THREADS));
        assert_eq!(
            download(&stream, count),
            counts.iter().map(|count| *count as u32).collect::<Vec<_>>()
        );
    });
}

#[test]
fn a_loop_ends_when_all_threads_agree() {
    let mut input = inputs::<u32>();
    input[..THREADS].fill(1);
    input[THREADS..2 * THREADS]
        .iter_mut()
        .for_each(|value| *value %= 100);
    let rounds = |block: &[u32]| block.iter().max().unwrap().ilog2();
    let expected: Vec<u32> = groups(&input, THREADS).map(rounds).collect();
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let mut output = stream.alloc_zeroed::<u32>(expected.len()).unwrap();
        kernels::rounds(
            &stream,
            Grid1::covering(COUNT),
            &upload(&stream, &input),
            &mut output,
        )
        .unwrap();
        assert_eq!(download(&stream, &output), expected);
    });
}

#[test]
fn a_block_of_two_dimensions_counts_row_major() {
    let (width, height) = (32, 8);
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let mut sums = stream.alloc_zeroed::<u32>(4).unwrap();
        let mut output = stream.alloc_zeroed::<u32>(width * height).unwrap();
        kernels::block2_sum(&stream, Grid2::covering(width, height), &mut sums, &mut output).unwrap();
        assert_eq!(download(&stream, &sums), [64 * 63 / 2; 4]);
        let expected = (0..width * height).map(|at| {
            let thread = at / width % 4 * 16 + at % 16;
            (thread * (thread.max(1) - 1) / 2) as u32
        });
        assert_eq!(download(&stream, &output), expected.collect::<Vec<_>>());
    });
}

#[test]
fn a_block_has_as_much_shared_memory_as_the_device_allows() {
    use kernels::{LARGE, LARGE_WORDS, LargeSharedMemory, large_shared_memory};
    const BYTES: u32 = (LARGE * 4 + LARGE_WORDS * 8) as u32;
    let input: Vec<u32> = (0..1013u32).map(|at| at.wrapping_mul(2_654_435_761)).collect();
    let expected: Vec<u64> = (0..1500)
        .map(|at| u64::from(input[at * 7919 % LARGE % 1013]) + (at * 31 % LARGE_WORDS) as u64 * 3)
        .collect();
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let values = upload(&stream, &input);
        let mut output = stream.alloc_zeroed(1500).unwrap();
        let launched = large_shared_memory(&stream, Grid1::covering(1500), &values, &mut output);
        let most = gpu.properties().max_shared_bytes_per_block_optin;
        if most < BYTES {
            let text = launched.unwrap_err().to_string();
            assert!(
                text.contains("`large_shared_memory`") && text.contains(&most.to_string()),
                "{text}"
            );
            return;
        }
        launched.unwrap();
        assert_eq!(download(&stream, &output), expected);
        assert_eq!(gpu.max_active_blocks::<LargeSharedMemory>(256).unwrap(), 1);
    });
}

/// The memory is checked before any driver is asked, so a simulated device shows what a GPU says.
#[test]
fn a_device_with_less_shared_memory_refuses_the_kernel_by_name() {
    use cuda_rt::Device;
    use cuda_rt::simulator::SimConfig;
    use kernels::{LargeSharedMemory, large_shared_memory};
    let launched = |config: SimConfig| {
        Device::simulated(config, |gpu| {
            let stream = gpu.stream::<Compute<_>>().unwrap();
            let values = upload(&stream, &[1_u32; 64]);
            let mut output = stream.alloc_zeroed(256).unwrap();
            let launched = large_shared_memory(&stream, Grid1::covering(256), &values, &mut output);
            let blocks = gpu.max_active_blocks::<LargeSharedMemory>(256);
            launched.and(blocks).map_err(|error| error.to_string())
        })
        .unwrap()
    };
    for (major, minor) in [(8, 6), (8, 9), (12, 0)] {
        let text = launched(SimConfig::new().compute_capability(major, minor)).unwrap_err();
        let device = format!("(compute capability {major}.{minor}) has 101376 at most");
        assert!(
            text.contains("::large_shared_memory` needs 152000 bytes"),
            "{text}"
        );
        assert!(text.contains(&device), "{text}");
    }
    for (major, minor) in [(8, 0), (9, 0)] {
        let config = SimConfig::new().compute_capability(major, minor);
        assert_eq!(launched(config), Ok(1));
    }
}
