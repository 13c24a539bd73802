//! Generic kernels: each instance computes with its own types, on every device.

use cuda_rt::{Error, Grid1};
use library_kernels::generic::{self as kernels, SimpleKernel};

use crate::Compute;
use crate::devices::for_each_device;
use crate::harness::{Sample, THREADS, assert_bits, download, upload};

/// Scales samples by the instance that the arguments choose.
macro_rules! scales {
    ($($name:ident: $type:ty, $factor:expr;)*) => { $(
        #[test]
        fn $name() {
            let input = <$type>::samples(777);
            for_each_device(|gpu| {
                let stream = gpu.stream::<Compute<_>>().unwrap();
                let values = upload(&stream, &input);
                let mut output = stream.alloc_zeroed::<$type>(777).unwrap();
                kernels::scale(&stream, Grid1::covering(777), &values, &mut output, $factor).unwrap();
                let expected: Vec<$type> = input.iter().map(|value| value * $factor).collect();
                assert_bits(&download(&stream, &output), &expected);
            });
        }
    )* };
}

scales! {
    a_float_of_32_bits_is_scaled: f32, 1.5;
    a_float_of_64_bits_is_scaled: f64, -2.25;
}

#[test]
fn an_integer_is_scaled_by_an_instance_that_is_named() {
    let input: Vec<u32> = (0..777).collect();
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let values = upload(&stream, &input);
        let mut output = stream.alloc_zeroed(777).unwrap();
        let grid = Grid1::covering(777);
        // The stream is inferred.
        kernels::scale::<u32, _>(&stream, grid, &values, &mut output, 3).unwrap();
        let expected: Vec<u32> = input.iter().map(|value| value * 3).collect();
        assert_eq!(download(&stream, &output), expected);
    });
}

#[test]
fn both_types_of_a_conversion_are_the_instances_own() {
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let grid = Grid1::covering(256);
        let bytes: Vec<u8> = (0..=255).collect();
        let values = upload(&stream, &bytes);
        let output = stream.alloc_uninit::<f32>(256).unwrap();
        let floats = kernels::convert(&stream, grid, &values, output).unwrap();
        let expected: Vec<f32> = bytes.iter().map(|byte| f32::from(*byte)).collect();
        assert_bits(&download(&stream, &floats), &expected);

        let output = stream.alloc_uninit::<f64>(256).unwrap();
        let doubles = kernels::convert(&stream, grid, &floats, output).unwrap();
        let expected: Vec<f64> = bytes.iter().map(|byte| f64::from(*byte)).collect();
        assert_bits(&download(&stream, &doubles), &expected);

        let words: Vec<u16> = (0..256).map(|at| at * 257).collect();
        let values = upload(&stream, &words);
        let output = stream.alloc_uninit::<i32>(256).unwrap();
        let wide = kernels::convert(&stream, grid, &values, output).unwrap();
        let expected: Vec<i32> = words.iter().map(|word| i32::from(*word)).collect();
        assert_eq!(download(&stream, &wide), expected);
    });
}

/// Reverses chunks of `N` elements by the instance of this length.
macro_rules! reversed {
    ($($name:ident: $type:ty, $count:literal, $fill:expr;)*) => { $(
        #[test]
        fn $name() {
            let input = <$type>::samples(100);
            for_each_device(|gpu| {
                let stream = gpu.stream::<Compute<_>>().unwrap();
                let values = upload(&stream, &input);
                let output = stream.alloc_uninit::<$type>(100).unwrap();
                let grid = Grid1::covering(100usize.div_ceil($count));
                let reversed = kernels::reverse::<$type, $count, _, _>(
                    &stream, grid, &values, $fill, output,
                )
                .unwrap();
                let expected: Vec<$type> = (0..100)
                    .map(|at| {
                        let from = at / $count * $count + ($count - 1 - at % $count);
                        input.get(from).copied().unwrap_or($fill)
                    })
                    .collect();
                assert_bits(&download(&stream, &reversed), &expected);
            });
        }
    )* };
}

reversed! {
    four_words_in_a_row_are_reversed: u32, 4, 9;
    two_doubles_in_a_row_are_reversed: f64, 2, 0.5;
    sixteen_bytes_in_a_row_are_reversed: u8, 16, 7;
    eight_half_words_in_a_row_are_reversed: u16, 8, 7;
}

#[test]
fn a_constant_of_the_body_chooses_the_entry() {
    let input: Vec<u32> = (0..300).collect();
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let values = upload(&stream, &input);
        let mut once = stream.alloc_zeroed(300).unwrap();
        let mut thrice = stream.alloc_zeroed(300).unwrap();
        let grid = Grid1::covering(300);
        kernels::repeated::<1, _>(&stream, grid, &values, &mut once).unwrap();
        kernels::repeated::<3, _>(&stream, grid, &values, &mut thrice).unwrap();
        assert_eq!(download(&stream, &once), input);
        let expected: Vec<u32> = input.iter().map(|value| value * 3).collect();
        assert_eq!(download(&stream, &thrice), expected);
    });
}

#[test]
fn shared_memory_and_a_reduction_are_of_the_instances_type() {
    let whole: Vec<u32> = (0..3 * THREADS as u32).collect();
    let floats: Vec<f32> = whole.iter().map(|value| *value as f32).collect();
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let grid = Grid1::covering(whole.len());
        let values = upload(&stream, &whole);
        let output = stream.alloc_uninit::<u32>(3).unwrap();
        let sums = kernels::sum_of_block(&stream, grid, &values, output).unwrap();
        let expected: Vec<u32> = whole.chunks(THREADS).map(|block| block.iter().sum()).collect();
        assert_eq!(download(&stream, &sums), expected);

        let values = upload(&stream, &floats);
        let output = stream.alloc_uninit::<f32>(3).unwrap();
        let sums = kernels::sum_of_block(&stream, grid, &values, output).unwrap();
        // Whole numbers below 2^24, so each sum is exact in every order.
        let expected: Vec<f32> = floats.chunks(THREADS).map(|block| block.iter().sum()).collect();
        assert_bits(&download(&stream, &sums), &expected);
    });
}

#[test]
fn counters_of_two_types_are_added_atomically() {
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let values = upload(&stream, &[2u32; 300]);
        let mut counts = stream.alloc_zeroed::<u32>(3).unwrap();
        kernels::count(&stream, Grid1::covering(300), &values, &mut counts).unwrap();
        assert_eq!(download(&stream, &counts), [200; 3]);
        let values = upload(&stream, &[0.5f32; 300]);
        let mut counts = stream.alloc_zeroed::<f32>(3).unwrap();
        kernels::count(&stream, Grid1::covering(300), &values, &mut counts).unwrap();
        assert_eq!(download(&stream, &counts), [50.0; 3]);
    });
}

#[test]
fn a_type_that_a_trait_names_is_the_instances_own() {
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let grid = Grid1::covering(200);
        let bytes = upload(&stream, &[255u8; 200]);
        let bias = upload(&stream, &[1000u32; 200]);
        let output = stream.alloc_uninit(200).unwrap();
        let sums = kernels::widen::<u8, _, _>(&stream, grid, &bytes, &bias, output).unwrap();
        assert_eq!(download(&stream, &sums), [1255; 200]);
        let floats = upload(&stream, &[0.5f32; 200]);
        let bias = upload(&stream, &[1e300f64; 200]);
        let output = stream.alloc_uninit(200).unwrap();
        let sums = kernels::widen::<f32, _, _>(&stream, grid, &floats, &bias, output).unwrap();
        assert_bits(&download(&stream, &sums), &[0.5 + 1e300; 200]);
    });
}

/// CUDA's sample `cppOverload`: one name, three signatures, and a question about each.
#[test]
fn one_name_has_three_signatures() {
    let first: Vec<i32> = (0..512).collect();
    let second: Vec<i32> = (0..512).map(|at| 1000 - at).collect();
    let pairs: Vec<[i32; 2]> = first.iter().zip(&second).map(|(a, b)| [*a, *b]).collect();
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let (x, y, xy) = (
            upload(&stream, &first),
            upload(&stream, &second),
            upload(&stream, &pairs),
        );
        let mut output = stream.alloc_zeroed::<i32>(512).unwrap();
        let grid = Grid1::covering(512);

        kernels::simple_kernel::<_, 1, _>(&stream, grid, &x, &x[..0], &mut output, 3).unwrap();
        let expected: Vec<i32> = first.iter().map(|a| a * 3).collect();
        assert_eq!(download(&stream, &output), expected);

        kernels::simple_kernel::<_, 1, _>(&stream, grid, &xy, &xy[..0], &mut output, 3).unwrap();
        let expected: Vec<i32> = pairs.iter().map(|[a, b]| a * b * 3).collect();
        assert_eq!(download(&stream, &output), expected);

        kernels::simple_kernel::<_, 2, _>(&stream, grid, &x, &y, &mut output, 3).unwrap();
        assert_eq!(download(&stream, &output), [3000; 512]);

        for attributes in [
            gpu.kernel_attributes::<SimpleKernel<i32, 1>>().unwrap(),
            gpu.kernel_attributes::<SimpleKernel<[i32; 2], 1>>().unwrap(),
            gpu.kernel_attributes::<SimpleKernel<i32, 2>>().unwrap(),
        ] {
            assert!(attributes.max_threads_per_block >= 128, "{attributes:?}");
        }
    });
}

#[test]
fn names_of_the_list_are_the_programs_own() {
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let grid = Grid1::covering(1);
        let (double, word, byte) = (
            upload(&stream, &[1f64]),
            upload(&stream, &[1u16]),
            upload(&stream, &[1u8]),
        );
        let output = stream.alloc_uninit(2).unwrap();
        let sizes = kernels::names::swapped(&stream, grid, &double, &word, output).unwrap();
        assert_eq!(download(&stream, &sizes), [8, 2]);
        let output = stream.alloc_uninit(2).unwrap();
        let sizes = kernels::names::swapped(&stream, grid, &word, &byte, output).unwrap();
        assert_eq!(download(&stream, &sizes), [2, 1]);

        let word = upload(&stream, &[7u32]);
        let output = stream.alloc_uninit(1).unwrap();
        let same = kernels::names::r#type::<_, 5, _, _>(&stream, grid, &word, 1, output).unwrap();
        assert_eq!(download(&stream, &same), [7]);
    });
}

#[test]
fn a_grid_that_covers_too_little_is_refused() {
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let values = upload(&stream, &[1u8; 8]);
        let output = stream.alloc_uninit::<f32>(8).unwrap();
        let refused = kernels::convert(&stream, Grid1::covering(4), &values, output);
        let Err(refused) = refused else {
            panic!("the grid covers half of the output")
        };
        assert!(matches!(Error::from(refused), Error::Grid { .. }));
    });
}

#[test]
fn an_unrolled_loop_breaks_and_continues_like_a_loop() {
    let input: Vec<u32> = (0..800u32).map(|at| (at * at + at / 3) % 9).collect();
    let expected: Vec<u32> = input
        .chunks(8)
        .flat_map(|values| {
            let all = values.iter().sum();
            let up_to_seven = values.iter().take_while(|value| **value != 7).sum();
            let without_threes = values.iter().filter(|value| **value != 3).sum::<u32>() * 3;
            let equal = values.windows(2).filter(|pair| pair[0] == pair[1]).count() as u32;
            [all, up_to_seven, without_threes, equal]
        })
        .collect();
    assert!(input.contains(&7) && input.contains(&3));
    assert!(expected.iter().skip(3).step_by(4).any(|count| *count > 0));
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let values = upload(&stream, &input);
        let output = stream.alloc_uninit(400).unwrap();
        let sums = kernels::unrolled(&stream, Grid1::covering(100), &values, output).unwrap();
        assert_eq!(stream.copy_to_vec(&sums).unwrap(), expected);
    });
}
