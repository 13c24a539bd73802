//! Tests of results: they are right, and the same in any order, for any number of buffers and any
//! format.
#![forbid(unsafe_code)]

use crate::common::{FILTER, denoised, denoised_by_threads, denoised_serially, stream, stream_420};
use cuda_rt::simulator::{Order, SimConfig};
use cuda_rt_examples::denoise::clip::NoisyClip;
use cuda_rt_examples::y4m::{FrameLine, Reader};

/// The filter by its definition, in double precision.
fn reference(luma: &[u8], width: usize, height: usize) -> Vec<u8> {
    let at = |x: isize, y: isize| {
        let (x, y) = (x.clamp(0, width as isize - 1), y.clamp(0, height as isize - 1));
        f64::from(luma[y as usize * width + x as usize])
    };
    let gauss = |squared: f64, sigma: f32| (-squared / (2.0 * f64::from(sigma).powi(2))).exp();
    let radius = FILTER.radius as isize;
    let mut result = Vec::with_capacity(luma.len());
    for y in 0..height as isize {
        for x in 0..width as isize {
            let (mut sum, mut weights) = (0.0, 0.0);
            for dy in -radius..=radius {
                for dx in -radius..=radius {
                    let value = at(x + dx, y + dy);
                    let weight = gauss((dx * dx + dy * dy) as f64, FILTER.sigma_space)
                        * gauss((value - at(x, y)).powi(2), FILTER.sigma_range);
                    sum += weight * value;
                    weights += weight;
                }
            }
            result.push((sum / weights + 0.5) as u8);
        }
    }
    result
}

struct Frame {
    line: FrameLine,
    luma: Vec<u8>,
    chroma: Vec<u8>,
}

fn frames(stream: &[u8]) -> Vec<Frame> {
    let mut reader = Reader::new(stream).unwrap();
    let (luma_bytes, chroma_bytes) = (reader.header().luma_bytes(), reader.header().chroma_bytes());
    let mut frames = Vec::new();
    loop {
        let mut frame = Frame {
            line: FrameLine::default(),
            luma: vec![0; luma_bytes],
            chroma: vec![0; chroma_bytes],
        };
        if !reader
            .read_frame(&mut frame.line, &mut frame.luma, &mut frame.chroma)
            .unwrap()
        {
            return frames;
        }
        frames.push(frame);
    }
}

/// Checks every byte: text and chroma must be untouched, luma within one step of the reference.
fn check(before: &[u8], after: &[u8], what: &str) {
    let header = Reader::new(before).unwrap().header().clone();
    assert_eq!(Reader::new(after).unwrap().header(), &header, "{what}");
    let (width, height) = header.size();
    let (width, height) = (width as usize, height as usize);
    let (before, after) = (frames(before), frames(after));
    assert_eq!(before.len(), after.len(), "{what}: frames");
    for (index, (before, after)) in before.iter().zip(&after).enumerate() {
        assert_eq!(before.line, after.line, "{what}: line of frame {index}");
        assert!(before.chroma == after.chroma, "{what}: chroma of frame {index}");
        let expected = reference(&before.luma, width, height);
        let off = after.luma.iter().zip(&expected).map(|(a, b)| a.abs_diff(*b));
        assert!(off.clone().all(|off| off <= 1), "{what}: luma of frame {index}");
        // Single and double precision may round a mean near a half differently, but rarely.
        let rounded = off.filter(|off| *off == 1).count();
        assert!(
            rounded * 100 <= expected.len().max(100),
            "{what}: frame {index}: {rounded} samples rounded differently"
        );
    }
}

#[test]
fn every_format_and_odd_sizes_give_right_results() {
    for (format, chroma_bytes) in [
        ("Cmono", 0),
        ("C411", 2 * 9 * 19),
        ("C420", 2 * 17 * 10),
        ("C420mpeg2 It", 2 * 17 * 10),
        ("C422", 2 * 17 * 19),
        ("C444", 2 * 33 * 19),
        ("C444alpha", 3 * 33 * 19),
    ] {
        let before = stream(33, 19, format, chroma_bytes, 3);
        check(&before, &denoised(&before, SimConfig::default(), 2), format);
    }
    for (width, height) in [(1, 1), (1, 7), (7, 1), (2, 2), (64, 8)] {
        let before = stream_420(width, height, 2);
        check(
            &before,
            &denoised(&before, SimConfig::default(), 2),
            &format!("{width}x{height}"),
        );
    }
}

#[test]
fn any_order_and_any_number_of_buffers_give_the_same_bytes() {
    let before = stream_420(21, 13, 12);
    let expected = denoised_serially(&before);
    check(&before, &expected, "serial");
    for order in [Order::Random, Order::Lazy, Order::Eager] {
        for seed in 0..8 {
            for buffers in 1..=4 {
                let after = denoised(&before, SimConfig::new().seed(seed).order(order), buffers);
                assert!(after == expected, "{order:?}, seed {seed}, {buffers} buffers");
            }
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bytes() {
    let before = stream_420(21, 13, 12);
    let expected = denoised_serially(&before);
    for order in [Order::Random, Order::Lazy, Order::Eager] {
        for seed in 0..4 {
            for settings in [(1, 1), (2, 1), (2, 2), (3, 2), (1, 4), (4, 4), (5, 7)] {
                let config = SimConfig::new().seed(seed).order(order);
                let after = denoised_by_threads(&before, config, settings);
                assert!(
                    after == expected,
                    "{order:?}, seed {seed}, (buffers, threads) {settings:?}"
                );
            }
        }
    }
    for count in 0..4 {
        let before = stream(9, 5, "Cmono", 0, count);
        let after = denoised_by_threads(&before, SimConfig::default(), (4, 3));
        check(&before, &after, &format!("{count} frames"));
    }
}

#[test]
fn zero_frames_and_fewer_frames_than_buffers_pass() {
    for count in 0..4 {
        let before = stream_420(5, 5, count);
        for buffers in 1..=4 {
            check(
                &before,
                &denoised(&before, SimConfig::default(), buffers),
                &format!("{count} frames"),
            );
        }
    }
}

#[test]
fn the_generated_clip_loses_noise_and_keeps_its_edges() {
    let mut before = Vec::new();
    std::io::Read::read_to_end(&mut NoisyClip::new(480, 270, 2, 1), &mut before).unwrap();
    let clean = NoisyClip::new(480, 270, 2, 1).clean_luma(1);
    let error = |luma: &[u8]| {
        luma.iter()
            .zip(&clean)
            .map(|(a, b)| f64::from(a.abs_diff(*b)).powi(2))
            .sum::<f64>()
    };
    let after = denoised(&before, SimConfig::default(), 2);
    let (noisy, denoised) = (error(&frames(&before)[1].luma), error(&frames(&after)[1].luma));
    assert!(
        denoised < noisy / 4.0,
        "squared error went from {noisy} to {denoised} only"
    );
}
