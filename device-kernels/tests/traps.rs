//! A kernel with wrong arguments ends in an error, and never accesses memory of others. The tests
//! run on the simulated device only, because a process whose kernel traps loses the GPU.
#![forbid(unsafe_code)]

use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Grid1, Grid2};

cuda_rt::streams! {
    Compute;
}

fn message(launch: impl FnOnce(&Device<cuda_rt::Scoped<'_>>) -> Result<(), Error>) -> String {
    let result = Device::simulated(SimConfig::default(), |gpu| launch(&gpu)).unwrap();
    format!("{:?}", result.expect_err("the kernel traps"))
}

macro_rules! traps {
    ($name:ident, $expected:literal, |$stream:ident| $body:expr) => {
        #[test]
        fn $name() {
            let message = message(|gpu| {
                let $stream = gpu.stream::<Compute<_>>()?;
                $body?;
                $stream.synchronize()
            });
            assert!(
                message.contains("LAUNCH_FAILED") && message.contains($expected),
                "{message}"
            );
        }
    };
}

traps!(
    an_input_that_is_too_short_traps,
    "index out of bounds: the len is 99",
    |stream| {
        let input = stream.alloc_zeroed::<f32>(99)?;
        let mut output = stream.alloc_zeroed::<f32>(100)?;
        device_kernels::scale(&stream, Grid1::covering(100), &input, &mut output, 1.0)
    }
);

traps!(
    an_image_that_is_too_short_traps,
    "shorter than the image",
    |stream| {
        let input = stream.alloc_zeroed::<u8>(99)?;
        let mut output = stream.alloc_zeroed::<u8>(100)?;
        device_kernels::bilateral(
            &stream,
            Grid2::covering(10, 10),
            &input,
            &mut output,
            10,
            10,
            1,
            1.0,
            1.0,
        )
    }
);

traps!(an_image_whose_area_wraps_traps, "2^32 pixels or more", |stream| {
    let input = stream.alloc_zeroed::<u8>(16)?;
    let mut output = stream.alloc_zeroed::<u8>(16)?;
    device_kernels::bilateral(
        &stream,
        Grid2::covering(4, 4),
        &input,
        &mut output,
        1 << 16,
        1 << 16,
        1,
        1.0,
        1.0,
    )
});

traps!(
    sums_for_fewer_blocks_than_there_are,
    "more blocks than elements",
    |stream| {
        let input = stream.alloc_zeroed::<f32>(1000)?;
        let mut sums = stream.alloc_zeroed::<f32>(3)?;
        device_kernels::block_sum(&stream, Grid1::covering(1000), &input, &mut sums)
    }
);

traps!(fewer_bins_than_values, "beyond the end", |stream| {
    let input = stream.alloc_zeroed::<u8>(1000)?;
    let mut counts = stream.alloc_zeroed::<u32>(0)?;
    device_kernels::histogram(&stream, Grid1::covering(1000), &input, &mut counts)
});

traps!(
    an_input_shorter_than_four_elements_for_each_thread_traps,
    "an input is shorter than the output",
    |stream| {
        let input = stream.alloc_zeroed::<f32>(99)?;
        let mut output = stream.alloc_zeroed::<f32>(100)?;
        device_kernels::scale4(&stream, Grid1::covering(25), &input, &mut output, 1.0)
    }
);

traps!(
    a_matrix_that_is_too_short_is_not_transposed,
    "the input is shorter than the matrix",
    |stream| {
        let input = stream.alloc_zeroed::<f32>(99)?;
        let mut output = stream.alloc_zeroed::<f32>(100)?;
        device_kernels::transpose(&stream, Grid2::covering(10, 1), &input, &mut output, 10, 10)
    }
);

traps!(
    a_reduction_with_fewer_partial_results_than_blocks_traps,
    "beyond the end",
    |stream| {
        let input = stream.alloc_zeroed::<u32>(5000)?;
        let mut partials = stream.alloc_zeroed::<u32>(1)?;
        let mut finished = stream.alloc_zeroed::<u32>(1)?;
        let mut result = stream.alloc_zeroed::<u32>(1)?;
        device_kernels::reduce::<u32, device_std::Sum, _>(
            &stream,
            Grid1::blocks(2),
            &input,
            &mut partials,
            &mut finished,
            &mut result,
        )
    }
);

traps!(
    rows_that_are_not_the_outputs_trap,
    "more or fewer elements than the rows of the launch",
    |stream| {
        let input = stream.alloc_zeroed::<f32>(100)?;
        let mut output = stream.alloc_zeroed::<f32>(100)?;
        device_kernels::softmax_long::<32, _>(&stream, Grid1::covering(32 * 9), &input, &mut output, 10)
    }
);

traps!(
    rows_of_a_shorter_input_trap,
    "the input is shorter than the rows",
    |stream| {
        let input = stream.alloc_zeroed::<f32>(99)?;
        let mut output = stream.alloc_zeroed::<f32>(100)?;
        device_kernels::softmax_long::<256, _>(&stream, Grid1::blocks(10), &input, &mut output, 10)
    }
);

traps!(
    rows_that_threads_cannot_hold_trap,
    "do not begin at multiples of 16 bytes, or are too long to be held",
    |stream| {
        let input = stream.alloc_zeroed::<f32>(132)?;
        let mut output = stream.alloc_zeroed::<f32>(132)?;
        device_kernels::softmax_held::<32, 1, _>(&stream, Grid1::covering(32), &input, &mut output, 132)
    }
);

traps!(
    rows_without_chunks_are_not_held,
    "do not begin at multiples of 16 bytes, or are too long to be held",
    |stream| {
        let input = stream.alloc_zeroed::<f32>(101)?;
        let mut output = stream.alloc_zeroed::<f32>(100)?;
        let grid = Grid1::covering(32);
        device_kernels::softmax_held::<32, 1, _>(&stream, grid, &input[1..], &mut output, 100)
    }
);

traps!(
    too_few_weights_trap,
    "the weights or the biases are fewer than a row's elements",
    |stream| {
        let input = stream.alloc_zeroed::<f32>(100)?;
        let mut output = stream.alloc_zeroed::<f32>(100)?;
        let grid = Grid1::covering(320);
        device_kernels::layer_norm_long::<32, _>(
            &stream,
            grid,
            &input,
            &input,
            &input[..9],
            &mut output,
            10,
            0.0,
        )
    }
);

traps!(
    a_scan_of_a_shorter_input_traps,
    "the input is shorter than the output",
    |stream| {
        let input = stream.alloc_zeroed::<u32>(99)?;
        let mut words = stream.alloc_zeroed::<u64>(2)?;
        let mut output = stream.alloc_zeroed::<u32>(100)?;
        let grid = Grid1::blocks(1);
        device_kernels::inclusive_scan_tiles::<u32, device_std::Sum, _>(
            &stream,
            grid,
            &input,
            &mut words,
            &mut output,
        )
    }
);

/// Words that were not 0, as an older scan or another use of the memory may leave them.
fn scan_of_two_tiles(words: &[u64]) -> String {
    message(|gpu| {
        let stream = gpu.stream::<Compute<_>>()?;
        let input = stream.alloc_zeroed::<u32>(10_000)?;
        let mut output = stream.alloc_zeroed::<u32>(10_000)?;
        let mut words = stream.alloc_from_slice(words)?;
        let grid = Grid1::blocks(2);
        device_kernels::inclusive_scan_tiles::<u32, device_std::Sum, _>(
            &stream,
            grid,
            &input,
            &mut words,
            &mut output,
        )?;
        stream.synchronize()
    })
}

#[test]
fn a_scan_whose_words_were_not_zero_traps() {
    for (words, expected) in [
        // The first ticket of the launch is 2, and 1.
        (
            [2, 0, 0],
            "were not 0, or a block of an earlier launch took no tile",
        ),
        ([1, 0, 0], "a tile waits for a tile that no block has"),
        (
            [u64::from(u32::MAX), 0, 0],
            "were not 0, or a block of an earlier launch took no tile",
        ),
        // A generation that another one's tile belongs to.
        (
            [1 << 32 | 1, word(0), 0],
            "a tile waits for a tile that no block has",
        ),
        (
            [1, word(0) & !(3 << 32), 0],
            "a tile waits for a tile that no block has",
        ),
    ] {
        let message = scan_of_two_tiles(&words);
        assert!(
            message.contains("LAUNCH_FAILED") && message.contains(expected),
            "{words:?}: {message}"
        );
    }
    assert!(scan_of_two_tiles(&[0, 0]).contains("fewer words than the launch needs"));
    assert!(scan_of_two_tiles(&[]).contains("fewer words than the launch needs"));
}

/// What a tile publishes as its prefix in the first launch.
fn word(value: u32) -> u64 {
    2 << 32 | u64::from(value)
}
