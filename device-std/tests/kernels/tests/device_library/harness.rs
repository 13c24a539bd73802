//! Pseudo-random inputs, transfers to a device and back, and comparisons of bits.

use std::fmt::Debug;

use cuda_rt::{DeviceBuffer, Element, Stream, StreamTag, bytemuck};
use device_std::{Bf16x2, F16x2};
use half::{bf16, f16};

/// Threads of a block in the kernels of this crate, three warps, unless a test says otherwise.
pub(crate) const THREADS: usize = 96;
/// Threads of a launch; they do not fill its last block.
pub(crate) const COUNT: usize = THREADS * 4 + 37;

pub(crate) fn upload<T: Element, S: StreamTag>(stream: &Stream<S>, values: &[T]) -> DeviceBuffer<T, S>
where
    S::Device: cuda_rt::Live,
{
    let host = stream.device().pinned_from(values).unwrap();
    let host = stream.adopt(host).unwrap();
    let buffer = stream.alloc_uninit::<T>(values.len()).unwrap();
    stream.init_from_host(buffer, &host).unwrap()
}

pub(crate) fn download<T: Element, S: StreamTag>(stream: &Stream<S>, buffer: &DeviceBuffer<T, S>) -> Vec<T>
where
    S::Device: cuda_rt::Live,
{
    let host = stream.device().pinned::<T>(buffer.len()).unwrap();
    let mut host = stream.adopt(host).unwrap();
    stream.copy_to_host(buffer, &mut host).unwrap();
    stream.release(host).unwrap().synchronize().unwrap().to_vec()
}

/// Pseudo-random numbers, equal in every run (xorshift64*).
pub(crate) fn random(count: usize, seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed | 1;
    std::iter::repeat_with(move || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    })
    .take(count)
}

/// An element with pseudo-random samples.
pub(crate) trait Sample: Element + Debug {
    /// A sample made from 64 random bits.
    fn sample(bits: u64) -> Self;

    /// Pseudo-random values, equal in every run.
    fn samples(count: usize) -> Vec<Self> {
        random(count, 7).map(Self::sample).collect()
    }
}

macro_rules! integers {
    ($($type:ident)*) => { $(
        impl Sample for $type {
            fn sample(bits: u64) -> Self {
                (bits >> (64 - $type::BITS)) as $type
            }
        }
    )* };
}
integers!(u8 u16 u32 i32 u64 i64);

/// A float in [-1, 1); the samples have many magnitudes.
impl Sample for f64 {
    fn sample(bits: u64) -> Self {
        (bits as i64 as f64) / (1u64 << 63) as f64 * f64::from(2f32.powi(-((bits % 8) as i32)))
    }
}
impl Sample for f32 {
    fn sample(bits: u64) -> Self {
        f64::sample(bits) as f32
    }
}
impl Sample for f16 {
    fn sample(bits: u64) -> Self {
        Self::from_f64(f64::sample(bits))
    }
}
impl Sample for bf16 {
    fn sample(bits: u64) -> Self {
        Self::from_f64(f64::sample(bits))
    }
}
impl<const N: usize> Sample for [u32; N] {
    fn sample(bits: u64) -> Self {
        std::array::from_fn(|at| (bits.rotate_left(at as u32 * 19) >> 32) as u32)
    }
}

/// Asserts that all bits are equal, also the signs of zeros and the payloads of NaNs.
#[track_caller]
pub(crate) fn assert_bits<T: Element + Debug>(got: &[T], expected: &[T]) {
    assert_eq!(got.len(), expected.len());
    for (at, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert_eq!(
            bytemuck::bytes_of(got),
            bytemuck::bytes_of(expected),
            "element {at}: {got:?} for {expected:?}"
        );
    }
}

/// The values of each warp's or block's threads.
pub(crate) fn groups<T: Copy>(input: &[T], group: usize) -> impl Iterator<Item = &[T]> {
    assert!(
        input.len().is_multiple_of(group),
        "an input for each thread of all blocks"
    );
    input.chunks_exact(group)
}

/// Equality of all bits, except for the payload of a NaN, which the hardware does not specify.
pub(crate) trait Alike: Copy + std::fmt::Debug {
    fn is_alike(self, other: Self) -> bool;
}

macro_rules! alike {
    ($($float:ident)*) => { $(
        impl Alike for $float {
            fn is_alike(self, other: Self) -> bool {
                self.to_bits() == other.to_bits() || self.is_nan() && other.is_nan()
            }
        }
    )* };
}
alike!(f16 bf16 f32 f64);

impl Alike for F16x2 {
    fn is_alike(self, other: Self) -> bool {
        self.low().is_alike(other.low()) && self.high().is_alike(other.high())
    }
}
impl Alike for Bf16x2 {
    fn is_alike(self, other: Self) -> bool {
        self.low().is_alike(other.low()) && self.high().is_alike(other.high())
    }
}

/// Asserts that the values are alike. A failure prints the `arguments` of the place.
#[track_caller]
pub(crate) fn assert_alike<T: Alike>(got: &[T], expected: &[T], arguments: impl Fn(usize) -> String) {
    assert_eq!(got.len(), expected.len());
    for (at, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert!(
            got.is_alike(*expected),
            "of {}: {got:?} for {expected:?}",
            arguments(at)
        );
    }
}
