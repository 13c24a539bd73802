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
