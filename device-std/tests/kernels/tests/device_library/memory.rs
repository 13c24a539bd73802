//! Indices, outputs, chunks, shared memory, random numbers and printing.

use std::cell::Cell;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Grid1, Grid2, Grid3};
use device_std::{Random, accurate};
use half::f16;
use library_kernels::memory as kernels;

use crate::Compute;
use crate::devices::for_each_device;
use crate::harness::{Sample, assert_bits, download, upload};

#[test]
fn an_index_of_one_dimension() {
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let mut output = stream.alloc_zeroed(1000).unwrap();
        kernels::index1(&stream, Grid1::covering(1000).block(96), &mut output).unwrap();
        assert_eq!(download(&stream, &output), (0..1000).collect::<Vec<u64>>());
    });
}

#[test]
fn an_index_of_two_dimensions() {
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let mut output = stream.alloc_zeroed(37 * 11).unwrap();
        kernels::index2(&stream, Grid2::covering(37, 11), &mut output).unwrap();
        let expected: Vec<_> = (0..37 * 11).map(|at| [at % 37, at / 37, 37]).collect();
        assert_eq!(download(&stream, &output), expected);
    });
}

#[test]
fn an_index_of_three_dimensions() {
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let mut output = stream.alloc_zeroed(7 * 5 * 11).unwrap();
        kernels::index3(&stream, Grid3::covering(7, 5, 11), &mut output).unwrap();
        let expected: Vec<_> = (0..7 * 5 * 11).map(|at| [at % 7, at / 7 % 5, at / 35]).collect();
        assert_eq!(download(&stream, &output), expected);
    });
}

#[test]
fn each_thread_reads_and_writes_its_element() {
    let input = u32::samples(1000);
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let mut output = upload(&stream, &input);
        // There are more threads than elements.
        kernels::get_and_set(&stream, Grid1::covering(1100), &mut output).unwrap();
        let expected: Vec<u32> = input
            .iter()
            .map(|value| value.wrapping_mul(3).wrapping_add(1))
            .collect();
        assert_eq!(download(&stream, &output), expected);
    });
}

#[test]
fn each_thread_writes_its_rows() {
    let (width, height) = (37usize, 10usize);
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let mut output = stream.alloc_zeroed(width * height).unwrap();
        kernels::columns(&stream, Grid2::covering(width, height.div_ceil(4)), &mut output).unwrap();
        let expected: Vec<u32> = (0..width * height)
            .map(|at| ((at / width / 4 * width + at % width) * 10 + at / width % 4) as u32)
            .collect();
        assert_eq!(download(&stream, &output), expected);
    });
}

/// Spans of columns that are whole and that are not, and outputs that are aligned for chunks and
/// that are not.
#[test]
fn each_thread_writes_its_chunks_of_rows() {
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        for (width, height) in [(1, 1), (64, 8), (63, 9), (65, 16), (132, 7), (200, 30)] {
            for start in [0, 1] {
                let len: usize = width * height;
                let before = u32::samples(start + len + 9);
                let mut output = upload(&stream, &before);
                let grid = Grid2::covering(width, height.div_ceil(8));
                kernels::tiles(&stream, grid, &mut output[start..start + len]).unwrap();
                let mut expected = before;
                for at in 0..len {
                    expected[start + at] = (at * 10 + at / width / 4 % 2) as u32;
                }
                assert_eq!(
                    download(&stream, &output),
                    expected,
                    "{width}x{height} from {start}"
                );
            }
        }
    });
}

#[test]
fn an_input_is_split_into_aligned_chunks() {
    let input = u16::samples(100);
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let device = upload(&stream, &input);
        for (start, end) in [(0, 100), (0, 96), (1, 100), (7, 40), (8, 8), (9, 12)] {
            let mut output = stream.alloc_zeroed::<u16>(end - start).unwrap();
            let grid = Grid1::covering((end - start).div_ceil(8));
            kernels::aligned_chunks(&stream, grid, &device[start..end], &mut output).unwrap();
            let before = start.next_multiple_of(8).min(end);
            let middle: Vec<&[u16]> = input[before..end].chunks_exact(8).collect();
            let mut expected = input[start..before].to_vec();
            middle
                .iter()
                .rev()
                .for_each(|chunk| expected.extend_from_slice(chunk));
            expected.extend(&input[before + 8 * middle.len()..end]);
            assert_eq!(download(&stream, &output), expected, "{start}..{end}");
        }
    });
}

#[test]
fn threads_write_several_elements_of_several_words() {
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let mut output = stream.alloc_zeroed(200).unwrap();
        kernels::strided(&stream, Grid1::covering(200), &mut output).unwrap();
        let expected: Vec<[u16; 8]> = (0..200)
            .map(|at| {
                let part = |k: usize, q: usize| ((63 - at % 64) * 100 + k * 10 + q) as u16;
                std::array::from_fn(|q| part(0, q) ^ (part(1, q) << 1) ^ (part(2, q) << 2))
            })
            .collect();
        assert_eq!(download(&stream, &output), expected);
    });
}

/// Tests lengths around whole chunks, and slices that are aligned for one element only.
macro_rules! chunks {
    ($($name:ident: $type:ty, $count:literal, $fill:expr, |$old:ident, $new:ident| $value:expr;)*) => { $(
        #[test]
        fn $name() {
            const TAIL: usize = 3;
            let starts = [(0, 0), (1, 1), (0, 3), (2, 0), ($count, 2 * $count)];
            for_each_device(|gpu| {
                let stream = gpu.stream::<Compute<_>>().unwrap();
                for len in [0, 1, $count - 1, $count, $count + 1, 1000, 1024] {
                    for (read_from, write_from) in starts {
                        let (input, before) = (<$type>::samples(len + read_from), <$type>::samples(len + write_from + TAIL));
                        let device = upload(&stream, &input);
                        let mut output = upload(&stream, &before);
                        let grid = Grid1::covering(len.div_ceil($count));
                        kernels::$name(
                            &stream,
                            grid,
                            &device[read_from..],
                            &mut output[write_from..write_from + len],
                        )
                        .unwrap();
                        let mut expected = before.clone();
                        for at in 0..len {
                            let ($old, $new) = (before[write_from + at], input[read_from + at]);
                            expected[write_from + at] = $value;
                        }
                        assert_bits(&download(&stream, &output), &expected);
                    }
                }
                // The input is too short: missing elements count as the filling.
                let (input, before) = (<$type>::samples(5), <$type>::samples(50));
                let mut output = upload(&stream, &before);
                let grid = Grid1::covering(50usize.div_ceil($count));
                kernels::$name(&stream, grid, &upload(&stream, &input), &mut output).unwrap();
                let expected: Vec<$type> = (0..50)
                    .map(|at| {
                        let ($old, $new) = (before[at], input.get(at).copied().unwrap_or($fill));
                        $value
                    })
                    .collect();
                assert_bits(&download(&stream, &output), &expected);
            });
        }
    )* };
}

chunks! {
    chunks_f32x4: f32, 4, 0.5, |old, new| old + new;
    chunks_f32x8: f32, 8, 0.5, |old, new| old + new;
    chunks_f64x2: f64, 2, 0.5, |old, new| old + new;
    chunks_u8x16: u8, 16, 9, |old, new| old ^ new;
    chunks_u16x2: u16, 2, 9, |old, new| old ^ new;
    chunks_u32x2: u32, 2, 9, |old, new| old ^ new;
    chunks_u32x3: u32, 3, 9, |old, new| old ^ new;
    chunks_f16x8: f16, 8, f16::ONE, |old, new| f16::from_bits(old.to_bits() ^ new.to_bits());
}

#[test]
fn shared_memory_opens_in_every_way() {
    let input = u32::samples(64 * 5);
    let count = 64 * 4 + 20;
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let mut reversed = stream.alloc_zeroed(count).unwrap();
        let mut of_blocks = [(); 3].map(|()| stream.alloc_zeroed::<u32>(5).unwrap());
        let [sums, firsts, of_second_warps] = &mut of_blocks;
        let device = upload(&stream, &input);
        kernels::shared_memory(
            &stream,
            Grid1::covering(count),
            &device,
            &mut reversed,
            sums,
            firsts,
            of_second_warps,
        )
        .unwrap();
        let mut expected: [Vec<u32>; 4] = Default::default();
        for block in input.chunks_exact(64) {
            let mut tile: Vec<u32> = (0..100).map(|at| block[at % 64]).collect();
            for at in 0..36 {
                tile[at] = tile[at].wrapping_add(tile[36 + at]);
            }
            tile[..64]
                .iter_mut()
                .for_each(|value| *value = value.rotate_left(1));
            let mine: Vec<u32> = (0..64)
                .map(|thread| tile[63 - thread].wrapping_add(thread as u32) ^ 1)
                .collect();
            expected[0].extend(&mine);
            expected[1].push(tile[5].wrapping_add(99));
            expected[2].push(mine[0]);
            expected[3].push(mine[32]);
        }
        assert_eq!(download(&stream, &reversed), expected[0][..count]);
        assert_eq!(download(&stream, sums), expected[1]);
        assert_eq!(download(&stream, firsts), expected[2]);
        assert_eq!(download(&stream, of_second_warps), expected[3]);
    });
}

#[test]
fn an_image_repeats_its_edges() {
    let (width, height) = (13usize, 9usize);
    let input = u32::samples(width * height);
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let mut output = stream.alloc_zeroed(20 * 16).unwrap();
        let (device, grid) = (upload(&stream, &input), Grid2::covering(20, 16));
        kernels::clamped(&stream, grid, &device, &mut output, width as u32, height as u32).unwrap();
        let clamp = |at: usize, side: usize| at.saturating_sub(3).min(side - 1);
        let expected: Vec<u32> = (0..20 * 16)
            .map(|at| input[clamp(at / 20, height) * width + clamp(at % 20, width)])
            .collect();
        assert_eq!(download(&stream, &output), expected);
    });
}

const SEED: u64 = 0x0123_4567_89ab_cdef;

/// Each of 1000 threads draws the numbers that the host draws from the thread's stream.
macro_rules! random {
    ($($name:ident: $type:ty, $count:literal, |$stream:ident| $expected:expr;)*) => { $(
        #[test]
        fn $name() {
            let expected: Vec<$type> = (0..1000u64).flat_map(|$stream| { let drawn: [$type; $count] = $expected; drawn }).collect();
            for_each_device(|gpu| {
                let stream = gpu.stream::<Compute<_>>().unwrap();
                let mut output = stream.alloc_zeroed(1000 * $count).unwrap();
                kernels::$name(&stream, Grid1::covering(1000), &mut output, SEED).unwrap();
                assert_bits(&download(&stream, &output), &expected);
            });
        }
    )* };
}

/// The words of a stream, computed by the block function alone.
fn words(stream: u64) -> impl Iterator<Item = u32> {
    let halves = |value: u64| [value as u32, (value >> 32) as u32];
    (0..).flat_map(move |count| {
        let [[a, b], [c, d]] = [halves(count), halves(stream)];
        device_std::philox4x32([a, b, c, d], halves(SEED))
    })
}

fn unit(word: u32) -> f32 {
    (word / 256) as f32 / 16_777_216.0
}

random! {
    random_bits: u32, 8, |stream| {
        let words: Vec<u32> = words(stream).take(12).collect();
        [words[0], words[1], words[2], words[4], words[5], words[6], words[7], words[8]]
    };
    random_uniform: f32, 4, |stream| {
        let mut words = words(stream).map(unit);
        [(); 4].map(|()| words.next().unwrap())
    };
    random_uniform64: f64, 2, |stream| {
        let mut random = Random::at(SEED, stream, 1 << 40);
        [(); 2].map(|()| (random.bits64() / 2048) as f64 / 9_007_199_254_740_992.0)
    };
    random_normal: f32, 3, |stream| {
        let units: Vec<f32> = words(stream).map(unit).take(4).collect();
        let [first, second] = [0, 2].map(|at| {
            let radius = (-2.0 * accurate::ln(units[at] + 1.0 / 16_777_216.0)).sqrt();
            let angle = units[at + 1] * std::f32::consts::TAU;
            [radius * accurate::cos(angle), radius * accurate::sin(angle)]
        });
        [first[0], first[1], second[0]]
    };
}

const PRINTS: &str = "LIBRARY_KERNELS_PRINT";

/// The next test runs this one alone, in a process of its own, and reads its output. On a GPU, the
/// driver prints the text through the C library's buffer.
#[test]
fn kernel_that_prints() {
    let values: Vec<f32> = (0..100).map(|at| at as f32 / 4.0).collect();
    let runs = Cell::new(0);
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let mut output = stream.alloc_zeroed(values.len()).unwrap();
        let device = upload(&stream, &values);
        kernels::print(&stream, Grid1::covering(values.len()), &device, &mut output).unwrap();
        assert_eq!(download(&stream, &output), vec![1; values.len()]);
        runs.set(runs.get() + 1);
    });
    if std::env::var_os(PRINTS).is_some() {
        eprintln!("runs: {}", runs.get());
        // Flushed before the test harness prints its own text.
        std::process::exit(0);
    }
}

#[test]
fn the_text_of_a_kernel_is_printed() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "memory::kernel_that_prints",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(PRINTS, "1")
        .output()
        .unwrap();
    let (text, errors) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    );
    let runs = errors.lines().find_map(|line| line.strip_prefix("runs: "));
    let runs: usize = runs.unwrap_or_else(|| panic!("{text}{errors}")).parse().unwrap();
    let mut counts = HashMap::new();
    let start = text.find('<').expect("some text");
    for line in text[start..].lines() {
        // A GPU prints a `bool` as a number.
        let line = line
            .replace(" true 100%>", " 1 100%>")
            .replace(" false 100%>", " 0 100%>");
        *counts.entry(line).or_insert(0) += 1;
    }
    let mut expected = HashMap::from([("<nothing>".to_owned(), 100 * runs)]);
    for at in 0..100 {
        let (value, even) = (at as f32 / 4.0, u8::from(at % 2 == 0));
        expected.insert(format!("<{at}: {value} {} {even} 100%>", -at), runs);
        expected.insert(format!("<{{{}}}>", u64::MAX - at as u64), runs);
    }
    assert_eq!(counts, expected);
}

/// A child process that runs one test of this file alone, under [`PRINTS`].
fn child(test: &str) -> Command {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    child.env(PRINTS, "1");
    child
}

/// Ends the process if it lasts longer than any test.
fn end_after_a_minute() {
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_secs(60));
        eprintln!("HANG: a minute is over");
        std::process::exit(3);
    });
}

/// Prints from simulated kernels on two threads, while the first has locked standard output.
#[test]
fn thread_that_has_locked_standard_output() {
    if std::env::var_os(PRINTS).is_none() {
        return;
    }
    end_after_a_minute();
    Device::simulated(SimConfig::default(), |gpu| {
        let run = || {
            let stream = gpu.stream::<Compute<_>>().unwrap();
            let values = upload(&stream, &[1.0_f32]);
            let mut output = stream.alloc_zeroed(1).unwrap();
            kernels::print(&stream, Grid1::covering(1), &values, &mut output).unwrap();
            assert_eq!(download(&stream, &output), [1]);
        };
        let mut locked = std::io::stdout().lock();
        writeln!(locked, "locked").unwrap();
        std::thread::scope(|scope| {
            let other = scope.spawn(run);
            // The other thread runs its kernel, and waits for the lock: outside of the device.
            std::thread::sleep(Duration::from_millis(300));
            run();
            writeln!(locked, "unlocked").unwrap();
            drop(locked);
            other.join().unwrap();
        });
    })
    .unwrap();
    eprintln!("passed");
    std::process::exit(0);
}

#[test]
fn a_kernel_that_prints_does_not_wait_for_standard_output_under_the_device() {
    let output = child("memory::thread_that_has_locked_standard_output")
        .output()
        .unwrap();
    let (text, errors) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    );
    assert!(errors.contains("passed"), "{text}{errors}");
    assert_eq!(text.matches("locked\n").count(), 2, "{text}");
    assert_eq!(text.matches("<nothing>\n").count(), 2, "{text}");
}

/// Prints from a simulated kernel to a pipe that nobody reads.
#[test]
fn thread_whose_standard_output_is_closed() {
    if std::env::var_os(PRINTS).is_none() {
        return;
    }
    println!("ready");
    // The parent has closed the pipe.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    Device::simulated(SimConfig::default(), |gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        for _ in 0..3 {
            let values = upload(&stream, &[1.0_f32; 100]);
            let mut output = stream.alloc_zeroed(100).unwrap();
            kernels::print(&stream, Grid1::covering(100), &values, &mut output).unwrap();
            assert_eq!(download(&stream, &output), vec![1; 100]);
        }
    })
    .unwrap();
    eprintln!("passed");
    std::process::exit(0);
}

#[test]
fn a_kernel_that_prints_to_a_closed_pipe_keeps_its_device() {
    let mut child = child("memory::thread_whose_standard_output_is_closed")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The test harness has written its text before.
    let mut text = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.ends_with("ready\n") {
        assert!(text.read_line(&mut line).unwrap() > 0, "{line}");
    }
    drop(text);
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("passed"), "{errors}");
}
