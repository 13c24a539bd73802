//! Inputs that look random, the way to a device and back, and comparisons by bits.

use std::fmt::Debug;

use cuda_rt::{DeviceBuffer, Element, Stream, StreamTag, bytemuck};
use device_std::{Bf16x2, F16x2};
use half::{bf16, f16};

/// Threads of a block in the kernels of this crate, but where a test says otherwise: three warps.
pub(crate) const THREADS: usize = 96;
/// Threads of a launch: not whole blocks.
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

/// Numbers that look random, the same in every run (xorshift64*).
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

/// An element of which inputs are made.
pub(crate) trait Sample: Element + Debug {
    /// From 64 random bits.
    fn sample(bits: u64) -> Self;

    /// Values that look random, the same in every run.
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

/// In [-1, 1), of many magnitudes.
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

/// Equal in every bit: zeros by their sign, and what is not a number by its payload.
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

/// What the threads of each warp or block have.
pub(crate) fn groups<T: Copy>(input: &[T], group: usize) -> impl Iterator<Item = &[T]> {
    assert!(
        input.len().is_multiple_of(group),
        "an input for each thread of all blocks"
    );
    input.chunks_exact(group)
}

/// What is not a number may have another payload: the hardware does not say which.
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

/// Alike at each place, of which `arguments` tells.
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
