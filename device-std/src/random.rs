//! Random numbers from a counter: Philox4x32-10 (J. K. Salmon et al., "Parallel random numbers: as
//! easy as 1, 2, 3", SC 2011).
//!
//! A number is a function of a seed, a stream and a count, so a thread needs no state in memory.
//! The results are equal to the bit on the simulated device, on every GPU, and in plain Rust on the
//! host.

use crate::accurate;
use crate::float::Float;

/// The block function: four random words for a counter and a key.
///
/// It equals `philox4x32` of ten rounds in the Random123 distribution; the tests compare it with
/// the known answers of that distribution.
///
/// ```
/// let words = device_std::philox4x32([0; 4], [0; 2]);
/// assert_eq!(words[0], 0x6627_e8d5);
/// ```
#[inline(always)]
pub fn philox4x32(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    const MULTIPLIERS: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];
    const WEYL: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];
    for round in 0..10 {
        if round > 0 {
            key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
        }
        let products = [
            u64::from(MULTIPLIERS[0]) * u64::from(counter[0]),
            u64::from(MULTIPLIERS[1]) * u64::from(counter[2]),
        ];
        let (high, low) = (products.map(|p| (p >> 32) as u32), products.map(|p| p as u32));
        counter = [
            high[1] ^ counter[1] ^ key[0],
            low[1],
            high[0] ^ counter[3] ^ key[1],
            low[0],
        ];
    }
    counter
}

/// A stream of random numbers: 2^64 streams for each seed, of 2^66 words each.
///
/// ```
/// # use device_std::prelude::*;
/// use device_std::Random;
///
/// /// Gives the same numbers for every block size, and on every device.
/// fn noise(i: Index1, mut output: PerThread<f32>, seed: u64) {
///     if let Some(out) = output.get_mut(i) {
///         *out = Random::new(seed, i.get() as u64).uniform();
///     }
/// }
/// ```
///
/// One number after another, of any kind:
///
/// ```
/// use device_std::Random;
///
/// let mut random = Random::new(7, 0);
/// let (word, wide, block) = (random.bits(), random.bits64(), random.block());
/// assert!((0.0..1.0).contains(&random.uniform()) && (0.0..1.0).contains(&random.uniform64()));
/// let [first, second] = random.normals();
/// assert!(first.abs() < 5.9 && second.abs() < 5.9 && random.normal().abs() < 5.9);
///
/// // The same numbers again, from any place of the stream: here after one block.
/// assert_eq!(Random::new(7, 0).bits(), word);
/// assert_eq!(Random::at(7, 0, 1).block(), block);
/// assert_ne!(wide, 0);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Random {
    key: [u32; 2],
    stream: [u32; 2],
    /// The number of blocks made so far.
    count: u64,
    words: [u32; 4],
    /// The number of words of the last block that are not used yet.
    left: u32,
}

#[inline(always)]
const fn halves(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

impl Random {
    /// The start of stream `stream`. Threads that draw numbers independently pass their position.
    #[inline(always)]
    pub const fn new(seed: u64, stream: u64) -> Self {
        Self::at(seed, stream, 0)
    }

    /// As [`new`](Self::new), after `count` blocks of four words.
    #[inline(always)]
    pub const fn at(seed: u64, stream: u64, count: u64) -> Self {
        Self {
            key: halves(seed),
            stream: halves(stream),
            count,
            words: [0; 4],
            left: 0,
        }
    }

    /// Four random words at once. Unused words of an earlier block are skipped.
    #[inline(always)]
    pub fn block(&mut self) -> [u32; 4] {
        let [low, high] = halves(self.count);
        self.count = self.count.wrapping_add(1);
        self.left = 0;
        philox4x32([low, high, self.stream[0], self.stream[1]], self.key)
    }

    /// 32 random bits.
    #[inline(always)]
    pub fn bits(&mut self) -> u32 {
        if self.left == 0 {
            self.words = self.block();
            self.left = 4;
        }
        self.left -= 1;
        // Comparisons select the word, because an array that is indexed lies in local memory.
        match self.left {
            3 => self.words[0],
            2 => self.words[1],
            1 => self.words[2],
            _ => self.words[3],
        }
    }

    /// 64 random bits; the first word is the low one.
    #[inline(always)]
    pub fn bits64(&mut self) -> u64 {
        let low = u64::from(self.bits());
        low | u64::from(self.bits()) << 32
    }

    /// Uniform in [0, 1): a multiple of 2^-24.
    #[inline(always)]
    pub fn uniform(&mut self) -> f32 {
        unit(self.bits())
    }

    /// Uniform in [0, 1): a multiple of 2^-53.
    #[inline(always)]
    pub fn uniform64(&mut self) -> f64 {
        (self.bits64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Two independent numbers of the normal distribution with mean 0 and variance 1, within ±5.8
    /// (G. E. P. Box, M. E. Muller, 1958). They are equal to the bit on every device, because the
    /// method uses [`accurate`] functions.
    #[inline(always)]
    pub fn normals(&mut self) -> [f32; 2] {
        let first = self.bits();
        box_muller(first, self.bits())
    }

    /// A number of the normal distribution: the first of [`normals`](Self::normals).
    #[inline(always)]
    pub fn normal(&mut self) -> f32 {
        self.normals()[0]
    }
}

#[inline(always)]
fn box_muller(first: u32, second: u32) -> [f32; 2] {
    // The distance lies in (0, 1], because the logarithm of 0 is infinite.
    let distance = unit(first) + 1.0 / (1u32 << 24) as f32;
    let angle = unit(second) * core::f32::consts::TAU;
    let radius = Float::sqrt(-2.0 * accurate::ln(distance));
    [radius * accurate::cos(angle), radius * accurate::sin(angle)]
}

#[inline(always)]
fn unit(bits: u32) -> f32 {
    (bits >> 8) as f32 * (1.0 / (1u32 << 24) as f32)
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use super::*;

    /// From `kat_vectors` of Random123 1.14.
    #[test]
    fn philox_has_the_known_answers() {
        let known = [
            (
                [0; 4],
                [0; 2],
                [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8],
            ),
            (
                [u32::MAX; 4],
                [u32::MAX; 2],
                [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd],
            ),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (counter, key, answer) in known {
            assert_eq!(philox4x32(counter, key), answer);
        }
    }

    #[test]
    fn words_come_in_the_order_of_their_blocks() {
        let (seed, stream) = (0x0123_4567_89ab_cdef, 0xfeed_0000_0001);
        let mut random = Random::new(seed, stream);
        let words: Vec<u32> = (0..12).map(|_| random.bits()).collect();
        for (at, block) in words.chunks(4).enumerate() {
            assert_eq!(
                block,
                philox4x32([at as u32, 0, 0x0000_0001, 0xfeed], [0x89ab_cdef, 0x0123_4567])
            );
            assert_eq!(block, Random::at(seed, stream, at as u64).block());
        }
    }

    #[test]
    fn a_whole_block_skips_the_unused_words_of_the_block_before() {
        let mut random = Random::new(1, 2);
        let first = random.bits();
        let second = random.block();
        assert_eq!(first, Random::new(1, 2).block()[0]);
        assert_eq!(second, Random::at(1, 2, 1).block());
        assert_eq!(random.bits(), Random::at(1, 2, 2).block()[0]);
    }

    /// Mean and variance of many numbers are within five standard deviations of the exact values.
    #[test]
    fn moments_match_the_distributions() {
        let count = 100_000;
        let moments = |mut draw: Box<dyn FnMut() -> f64>| {
            let values: Vec<f64> = (0..count).map(|_| draw()).collect();
            let mean = values.iter().sum::<f64>() / count as f64;
            let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count as f64;
            (mean, variance, values)
        };
        let near = |got: f64, expected: f64, deviation: f64| {
            assert!(
                (got - expected).abs() < 5.0 * deviation / (count as f64).sqrt(),
                "{got} for {expected}"
            );
        };
        let mut random = Random::new(5, 0);
        let (mean, variance, values) = moments(Box::new(move || f64::from(random.uniform())));
        near(mean, 0.5, 0.2887);
        near(variance, 1.0 / 12.0, 0.0745);
        assert!(values.iter().all(|x| (0.0..1.0).contains(x)));
        let mut random = Random::new(5, 1);
        let (mean, variance, values) = moments(Box::new(move || random.uniform64()));
        near(mean, 0.5, 0.2887);
        near(variance, 1.0 / 12.0, 0.0745);
        assert!(values.iter().all(|x| (0.0..1.0).contains(x)));
        for which in 0..2 {
            let mut random = Random::new(5, 2);
            let (mean, variance, values) = moments(Box::new(move || f64::from(random.normals()[which])));
            near(mean, 0.0, 1.0);
            near(variance, 1.0, 2f64.sqrt());
            assert!(values.iter().all(|x| x.abs() < 5.8));
        }
    }

    #[test]
    fn the_extremes_of_the_bits_stay_inside() {
        assert_eq!(unit(0), 0.0);
        assert!(unit(u32::MAX) < 1.0);
        for first in [0, 255, 256, u32::MAX - 256, u32::MAX] {
            for second in [0, 1 << 31, u32::MAX] {
                let [x, y] = box_muller(first, second);
                assert!(x.hypot(y) < 5.8, "{first:x} {second:x}: {x}, {y}");
            }
        }
        assert!(box_muller(0, 0)[0] > 5.7);
        assert_eq!(box_muller(u32::MAX, 0), [0.0; 2]);
    }
}
