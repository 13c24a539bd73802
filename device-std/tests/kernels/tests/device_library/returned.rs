//! Kernels that return the elements of their output, into memory that nothing wrote before.

use cuda_rt::{Error, Grid1, Grid2, Grid3, GridError};
use half::f16;
use library_kernels::returned as kernels;

use crate::Compute;
use crate::devices::for_each_device;
use crate::harness::{Sample, assert_bits, groups};

#[test]
fn each_thread_of_a_line_returns_its_element() {
    let (a, b) = (f32::samples(1000), f32::samples(1000));
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let (x, y) = (
            stream.alloc_from_slice(&a).unwrap(),
            stream.alloc_from_slice(&b).unwrap(),
        );
        // Also a launch that covers more elements than there are: the others do not run, because
        // the inputs have no elements for them.
        for covered in [1000, 1001, 2000] {
            let output = stream.alloc_uninit(1000).unwrap();
            let grid = Grid1::covering(covered).block(96);
            let sums = kernels::return_sum(&stream, grid, &x, &y, output).unwrap();
            let expected: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
            assert_bits(&stream.copy_to_vec(&sums).unwrap(), &expected);
        }
    });
}

#[test]
fn a_returned_byte_and_another_output_are_both_written() {
    let input = u32::samples(777);
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let values = stream.alloc_from_slice(&input).unwrap();
        let mut high = stream.alloc_zeroed(777).unwrap();
        let output = stream.alloc_uninit(777).unwrap();
        let grid = Grid1::covering(777);
        let low = kernels::return_low_byte(&stream, grid, &values, &mut high, 8, output).unwrap();
        let expected: Vec<u8> = input.iter().map(|value| *value as u8).collect();
        assert_eq!(stream.copy_to_vec(&low).unwrap(), expected);
        let expected: Vec<u32> = input.iter().map(|value| value >> 8).collect();
        assert_eq!(stream.copy_to_vec(&high).unwrap(), expected);
    });
}

#[test]
fn each_thread_of_a_plane_and_of_a_volume_returns_its_element() {
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let output = stream.alloc_uninit(37 * 11).unwrap();
        let plane = kernels::return_of_plane(&stream, Grid2::covering(37, 11), output).unwrap();
        let expected: Vec<u64> = (0..37 * 11).map(|at| ((at / 37) << 32) | (at % 37)).collect();
        assert_eq!(stream.copy_to_vec(&plane).unwrap(), expected);

        let output = stream.alloc_uninit(7 * 5 * 11).unwrap();
        let volume = kernels::return_of_volume(&stream, Grid3::covering(7, 5, 11), output).unwrap();
        let expected: Vec<_> = (0..7 * 5 * 11).map(|at| [at % 7, at / 7 % 5, at / 35]).collect();
        assert_eq!(stream.copy_to_vec(&volume).unwrap(), expected);
    });
}

/// Tests lengths around whole chunks, and outputs that are aligned for one element only.
macro_rules! chunks {
    ($($name:ident: $type:ty, $count:literal, $fill:expr;)*) => { $(
        #[test]
        fn $name() {
            for_each_device(|gpu| {
                let stream = gpu.stream::<Compute<_>>().unwrap();
                for len in [0, 1, $count - 1, $count, $count + 1, 5 * $count + 1, 1000] {
                    for start in [0, 1] {
                        let input = <$type>::samples(len);
                        let values = stream.alloc_from_slice(&input).unwrap();
                        let mut output = stream.alloc_uninit(start + len).unwrap();
                        let grid = Grid1::covering(len.div_ceil($count)).block(96);
                        let written =
                            kernels::$name(&stream, grid, &values, &mut output[start..]).unwrap();
                        let expected: Vec<$type> = (0..len)
                            .map(|at| {
                                let from = at / $count * $count + ($count - 1 - at % $count);
                                input.get(from).copied().unwrap_or($fill)
                            })
                            .collect();
                        assert_bits(&stream.copy_to_vec(written).unwrap(), &expected);
                    }
                }
            });
        }
    )* };
}

chunks! {
    return_chunk_f32x4: f32, 4, 0.5;
    return_chunk_u8x16: u8, 16, 9;
    return_chunk_u16x3: u16, 3, 9;
    return_chunk_f16x8: f16, 8, f16::ONE;
}

#[test]
fn each_block_returns_its_elements() {
    let input = u32::samples(96 * 7);
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let values = stream.alloc_from_slice(&input).unwrap();
        let output = stream.alloc_uninit(7).unwrap();
        let sums = kernels::return_of_block(&stream, Grid1::covering(96 * 7), &values, output).unwrap();
        let expected: Vec<u32> = groups(&input, 96)
            .map(|block| block.iter().fold(0u32, |sum, value| sum.wrapping_add(*value)))
            .collect();
        assert_eq!(stream.copy_to_vec(&sums).unwrap(), expected);

        // 5 × 4 blocks; of the last block's two elements, one is outside the output. The blocks
        // beyond the output's end do not run.
        let output = stream.alloc_uninit(33).unwrap();
        let blocks = kernels::return_chunk_of_block(&stream, Grid2::covering(39, 13), output).unwrap();
        let expected: Vec<u32> = (0..33)
            .map(|at| if at % 2 == 0 { at / 2 % 5 } else { at / 2 / 5 })
            .collect();
        assert_eq!(stream.copy_to_vec(&blocks).unwrap(), expected);
    });
}

#[test]
fn each_thread_of_a_block_returns_its_element() {
    let input = u32::samples(64 * 5);
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let values = stream.alloc_from_slice(&input).unwrap();
        for (covered, len) in [(320, 320), (300, 300), (300, 270), (320, 0)] {
            let output = stream.alloc_uninit(len).unwrap();
            let grid = Grid1::covering(covered);
            let reversed = kernels::return_of_threads(&stream, grid, &values, output).unwrap();
            let expected: Vec<u32> = groups(&input, 64)
                .flat_map(|block| block.iter().rev().copied())
                .take(len)
                .collect();
            assert_eq!(stream.copy_to_vec(&reversed).unwrap(), expected);
        }
        let output = stream.alloc_uninit(50 * 7).unwrap();
        let grid = Grid2::covering(50, 7);
        let places = kernels::return_of_threads_of_plane(&stream, grid, output).unwrap();
        let expected: Vec<_> = (0..50 * 7).map(|at| [at % 50, at / 50]).collect();
        assert_eq!(stream.copy_to_vec(&places).unwrap(), expected);
    });
}

/// Each kind of position and of returned value: the refusal counts what the launch would return.
#[test]
fn a_grid_that_covers_too_little_is_refused() {
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let words = |error: cuda_rt::Refused<_>| -> String {
            assert!(matches!(
                error.error,
                Error::Grid {
                    why: GridError::Output { .. },
                    ..
                }
            ));
            error.error.to_string()
        };
        let output = stream.alloc_uninit::<u64>(37 * 11).unwrap();
        let refused = kernels::return_of_plane(&stream, Grid2::covering(37, 10), output).unwrap_err();
        let said = refused.error.to_string();
        assert!(
            said.contains("370 threads return 370 elements, but the output has 407"),
            "{said}"
        );
        let written = kernels::return_of_plane(&stream, Grid2::covering(37, 11), refused.value).unwrap();
        assert_eq!(stream.copy_to_vec(&written[406..]).unwrap(), [10 << 32 | 36]);

        // A whole block returns one chunk, however few threads of the block lie inside the extent.
        let output = stream.alloc_uninit::<u32>(5).unwrap();
        let said = words(kernels::return_chunk_of_block(&stream, Grid2::covering(9, 1), output).unwrap_err());
        assert!(
            said.contains("2 blocks return 4 elements, but the output has 5; cover at least 3 blocks"),
            "{said}"
        );

        let input = stream.alloc_zeroed::<u32>(320).unwrap();
        let output = stream.alloc_uninit::<u32>(6).unwrap();
        let grid = Grid1::covering(96 * 4 + 1);
        let said = words(kernels::return_of_block(&stream, grid, &input, output).unwrap_err());
        assert!(said.contains("5 blocks return 5 elements"), "{said}");

        // Threads outside the extent return nothing, though their block runs.
        let output = stream.alloc_uninit::<u32>(301).unwrap();
        let grid = Grid1::covering(300);
        let said = words(kernels::return_of_threads(&stream, grid, &input, output).unwrap_err());
        assert!(said.contains("300 threads return 300 elements"), "{said}");
    });
}
