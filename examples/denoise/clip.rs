//! [`NoisyClip`]: a noisy clip made from a seed, for runs without an input file.

use std::io::{self, Read};

use super::scene::Scene;
use crate::y4m::{FrameLine, Header, Writer};

/// A moving scene under noise in its luma, as the bytes of a YUV4MPEG2 stream. The rest of the
/// program reads it like a file.
///
/// It is made with integers only, so it is the same on every machine.
#[derive(Debug)]
pub struct NoisyClip {
    header: Header,
    scene: Scene,
    chroma: Vec<u8>,
    seed: u64,
    frames: u64,
    next_frame: u64,
    /// Bytes that are made; the bytes from `position` on are not read yet.
    made: Vec<u8>,
    position: usize,
}

/// Standard deviation of the noise, in steps of a sample, which has 256.
const NOISE: i64 = 16;

impl NoisyClip {
    /// A clip of `frames` frames of `width` × `height` pixels, 4:2:0, at 30 frames a second.
    ///
    /// # Panics
    /// If the size is 0 or too large.
    pub fn new(width: u32, height: u32, frames: u64, seed: u64) -> Self {
        let header = Header::new(width, height, 30);
        let mut made = header.line().to_vec();
        made.push(b'\n');
        let scene = Scene::new(width, height);
        Self {
            header,
            chroma: scene.chroma(),
            scene,
            seed,
            frames,
            next_frame: 0,
            made,
            position: 0,
        }
    }

    /// The stream's header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The luma plane of a frame without noise.
    pub fn clean_luma(&self, frame: u64) -> Vec<u8> {
        self.scene.luma(frame)
    }

    fn make_frame(&mut self) {
        let mut random = SplitMix64(self.seed ^ self.next_frame.wrapping_mul(0x9e6c_63d0_876a_68de));
        let mut luma = self.clean_luma(self.next_frame);
        for pair in luma.chunks_mut(2) {
            // The sum of four evenly distributed bytes is close to a normal distribution, with mean
            // 510 and deviation 148.
            let bytes = random.next().to_le_bytes();
            for (sample, noise) in pair.iter_mut().zip(bytes.chunks_exact(4)) {
                let noise = noise.iter().map(|&byte| i64::from(byte)).sum::<i64>() - 510;
                *sample = (i64::from(*sample) + noise * NOISE / 148).clamp(0, 255) as u8;
            }
        }
        self.made.clear();
        self.position = 0;
        // Write the frame without a header: the stream began with the header.
        Writer::resume(&mut self.made, &self.header)
            .write_frame(&FrameLine::plain(), &luma, &self.chroma)
            .expect("writing to memory");
        self.next_frame += 1;
    }
}

impl Read for NoisyClip {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.position == self.made.len() && self.next_frame < self.frames {
            self.make_frame();
        }
        let bytes = (&self.made[self.position..]).read(buffer)?;
        self.position += bytes;
        Ok(bytes)
    }
}

/// SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (OOPSLA
/// 2014).
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::y4m::Reader;

    fn bytes(seed: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        NoisyClip::new(33, 17, 3, seed).read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_seed_names_one_clip() {
        assert_eq!(bytes(1), bytes(1));
        assert_ne!(bytes(1), bytes(2));
    }

    #[test]
    fn a_clip_has_the_requested_number_of_frames() {
        let bytes = bytes(1);
        let mut reader = Reader::new(bytes.as_slice()).unwrap();
        let (mut luma, mut chroma) = (vec![0; 33 * 17], vec![0; 2 * 17 * 9]);
        let mut frames = 0;
        while reader
            .read_frame(&mut FrameLine::default(), &mut luma, &mut chroma)
            .unwrap()
        {
            frames += 1;
        }
        assert_eq!(frames, 3);
    }

    #[test]
    fn noise_has_the_stated_deviation() {
        let clip = NoisyClip::new(320, 180, 1, 7);
        let clean = clip.clean_luma(0);
        let (mut noisy, mut chroma) = (vec![0; 320 * 180], vec![0; 320 * 180 / 2]);
        Reader::new(clip)
            .unwrap()
            .read_frame(&mut FrameLine::default(), &mut noisy, &mut chroma)
            .unwrap();
        let differences = noisy
            .iter()
            .zip(&clean)
            .map(|(&a, &b)| f64::from(a) - f64::from(b));
        let mean = differences.clone().sum::<f64>() / clean.len() as f64;
        let deviation = (differences.map(|d| d * d).sum::<f64>() / clean.len() as f64).sqrt();
        assert!(
            mean.abs() < 0.5 && (deviation - NOISE as f64).abs() < 1.0,
            "{mean} {deviation}"
        );
    }
}
