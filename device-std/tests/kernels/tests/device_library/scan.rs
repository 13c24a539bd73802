//! Rows of warps and blocks, and scans of all blocks.

use cuda_rt::Grid1;
use device_std::{LookBack, Operator};
use library_kernels::scan as kernels;

use crate::Compute;
use crate::devices::for_each_device;
use crate::harness::{Sample, download, upload};

#[test]
fn each_row_is_written_by_its_threads() {
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        for (rows, width) in [(1, 1), (5, 128), (3, 132), (2, 517), (9, 31), (1, 1000)] {
            for start in [0, 1] {
                let len = rows * width;
                let before = u32::samples(start + len + 9);
                for threads in [32, 128] {
                    let mut output = upload(&stream, &before);
                    let (grid, written) = (Grid1::covering(threads * rows), &mut output[start..start + len]);
                    match threads {
                        32 => kernels::rows::<32, _>(&stream, grid, written, width as u32).unwrap(),
                        _ => kernels::rows::<128, _>(&stream, grid, written, width as u32).unwrap(),
                    }
                    let mut expected = before.clone();
                    for at in 0..len {
                        expected[start + at] = (at * 10 + at % width / (4 * threads)) as u32;
                    }
                    assert_eq!(
                        download(&stream, &output),
                        expected,
                        "{rows}x{width} from {start}, {threads} threads"
                    );
                }
            }
        }
    });
}

#[test]
fn tiles_are_combined_in_order() {
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let mut words = stream
            .alloc_zeroed::<u64>(LookBack::words::<[u32; 2]>(500))
            .unwrap();
        for len in [0, 1, 127, 128, 129, 1000, 60_000] {
            let numbers = u32::samples(2 * len);
            let input: Vec<[u32; 2]> = numbers.chunks(2).map(|pair| [pair[0] | 1, pair[1]]).collect();
            let device = upload(&stream, &input);
            let mut output = stream.alloc_zeroed::<[u32; 2]>(len).unwrap();
            let grid = Grid1::covering(len.div_ceil(2));
            kernels::one_after_the_other(&stream, grid, &device, &mut words, &mut output).unwrap();
            let mut function = [1, 0];
            for (at, found) in download(&stream, &output).iter().enumerate() {
                function = kernels::Then::combine(function, input[at]);
                assert_eq!(*found, function, "{len} elements, element {at}");
            }
        }
    });
}

/// Also with words of earlier launches whose generation comes again, and far tiles.
#[test]
fn values_of_64_bits_are_published_whole() {
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        for tiles in [1, 2, 33, 100] {
            let input: Vec<u64> = u32::samples(tiles)
                .iter()
                .map(|n| u64::from(*n) << 29 | 1)
                .collect();
            let device = upload(&stream, &input);
            let count = LookBack::words::<u64>(tiles);
            let mut words = stream.alloc_zeroed::<u64>(count).unwrap();
            for first in [0_u64, 1 << 29, (1 << 30) - 1, 0] {
                // The generation, and no ticket.
                stream.copy_from_slice(&[first << 32], &mut words[..1]).unwrap();
                for launch in 0..2 {
                    let mut output = stream.alloc_zeroed::<u64>(32 * tiles).unwrap();
                    let grid = Grid1::blocks(tiles);
                    kernels::before_each_tile(&stream, grid, &device, &mut words, &mut output).unwrap();
                    let mut sum = 0_u64;
                    let output = download(&stream, &output);
                    for (tile, found) in output.chunks(32).enumerate() {
                        assert!(
                            found.iter().all(|found| *found == sum),
                            "tile {tile} of {tiles}: {found:?}"
                        );
                        sum = sum.wrapping_add(input[tile]);
                    }
                    let next = (first + launch + 1) % (1 << 30);
                    assert_eq!(download(&stream, &words)[0], next << 32);
                }
            }
        }
    });
}

/// A word that no launch has used since is cleared before its generation comes again.
#[test]
fn words_of_tiles_that_a_launch_has_not_are_cleared() {
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let device = upload(&stream, &[5_u64]);
        let mut output = stream.alloc_zeroed::<u64>(32).unwrap();
        let count = 1 + 1000;
        for generation in [0_u64, 1, 3, 4, 1 << 29, (1 << 29) + 2] {
            let mut before = vec![u64::MAX; count];
            before[0] = generation << 32;
            let mut words = upload(&stream, &before);
            kernels::before_each_tile(&stream, Grid1::blocks(1), &device, &mut words, &mut output).unwrap();
            let cleared = (generation % (1 << 29)) as usize * 256;
            for (at, word) in download(&stream, &words)[1..].iter().enumerate().skip(2) {
                let is_cleared = (cleared..cleared + 256).contains(&at);
                assert_eq!(
                    *word,
                    if is_cleared { 0 } else { u64::MAX },
                    "generation {generation}, word {at}"
                );
            }
        }
    });
}
