//! Arithmetic on 16-bit floats, by the hardware's own instructions.
//!
//! The operators and conversions of the crate `half` work in kernels too, but each takes many
//! instructions: the crate does not know this target.

#[cfg(not(target_arch = "nvptx64"))]
mod exact;

use core::ops::{Add, Mul, Sub};

use bytemuck::{Pod, Zeroable};
use half::{bf16, f16};

use crate::element::{Element, Scalar};
use crate::hash::Layout;

/// Conversions by the compiler's own type `f16`. Outside this module, `f16` means the type of the
/// crate `half`.
#[cfg(target_arch = "nvptx64")]
mod native {
    #[inline(always)]
    pub(super) fn widen(bits: u16) -> f32 {
        f16::from_bits(bits) as f32
    }

    #[inline(always)]
    pub(super) fn narrow(value: f32) -> u16 {
        (value as f16).to_bits()
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for half::f16 {}
    impl Sealed for half::bf16 {}
}

/// A float of 16 bits: `half::f16` or `half::bf16`.
///
/// Results are equal to the bit on the simulated device, except for the payload of a NaN.
///
/// ```
/// # #[cfg(feature = "half")] {
/// use device_std::Half;
/// use half::f16;
///
/// let three = f16::narrow(3.0);
/// assert_eq!(three.mul_add(three, three).widen(), 12.0);
/// # }
/// ```
pub trait Half: Element + Scalar + sealed::Sealed {
    /// The exact value as `f32` (`cvt.f32.f16`; a shift for `bf16`).
    fn widen(self) -> f32;
    /// The nearest value, ties to even (`cvt.rn.f16.f32`, `cvt.rn.bf16.f32`).
    fn narrow(value: f32) -> Self;
    /// `self * a + b`, rounded once (`fma.rn.f16`, `fma.rn.bf16`).
    fn mul_add(self, a: Self, b: Self) -> Self;
}

/// One instruction of three operands, on bits.
#[cfg(target_arch = "nvptx64")]
macro_rules! fused {
    ($register:ident, $bits:ty, $instruction:literal, $a:expr, $b:expr, $c:expr) => {{
        let (a, b, c): ($bits, $bits, $bits) = (
            bytemuck::cast($a),
            bytemuck::cast($b),
            bytemuck::cast($c),
        );
        let result: $bits;
        // SAFETY: the instruction computes on registers, and touches no memory.
        unsafe {
            core::arch::asm!(
                concat!($instruction, " {}, {}, {}, {};"),
                out($register) result, in($register) a, in($register) b, in($register) c,
                options(pure, nomem, nostack)
            );
        }
        result
    }};
}
/// One instruction of two operands, on bits.
#[cfg(target_arch = "nvptx64")]
macro_rules! packed {
    ($instruction:literal, $a:expr, $b:expr) => {{
        let result: u32;
        // SAFETY: the instruction computes on registers, and touches no memory.
        unsafe {
            core::arch::asm!(
                concat!($instruction, " {}, {}, {};"),
                out(reg32) result, in(reg32) $a, in(reg32) $b,
                options(pure, nomem, nostack)
            );
        }
        result
    }};
}

impl Half for f16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        #[cfg(target_arch = "nvptx64")]
        return native::widen(self.to_bits());
        #[cfg(not(target_arch = "nvptx64"))]
        self.to_f32()
    }

    #[inline(always)]
    fn narrow(value: f32) -> Self {
        #[cfg(target_arch = "nvptx64")]
        return Self::from_bits(native::narrow(value));
        #[cfg(not(target_arch = "nvptx64"))]
        Self::from_f32(value)
    }

    #[inline(always)]
    fn mul_add(self, a: Self, b: Self) -> Self {
        #[cfg(target_arch = "nvptx64")]
        return Self::from_bits(fused!(reg16, u16, "fma.rn.f16", self, a, b));
        #[cfg(not(target_arch = "nvptx64"))]
        Self::from_f32(exact::mul_add(self.into(), a.into(), b.into()))
    }
}

impl Half for bf16 {
    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }

    #[inline(always)]
    fn narrow(value: f32) -> Self {
        #[cfg(target_arch = "nvptx64")]
        return {
            unsafe extern "C" {
                #[link_name = "llvm.nvvm.f2bf16.rn"]
                safe fn convert(value: f32) -> u16;
            }
            Self::from_bits(convert(value))
        };
        #[cfg(not(target_arch = "nvptx64"))]
        Self::from_f32(value)
    }

    #[inline(always)]
    fn mul_add(self, a: Self, b: Self) -> Self {
        #[cfg(target_arch = "nvptx64")]
        return Self::from_bits(fused!(reg16, u16, "fma.rn.bf16", self, a, b));
        #[cfg(not(target_arch = "nvptx64"))]
        Self::from_f32(exact::mul_add(self.into(), a.into(), b.into()))
    }
}

macro_rules! pairs {
    ($($(#[$doc:meta])* $name:ident of $half:ident, $text:literal, $fma:literal,
        |$a:ident, $b:ident| $add:expr, $sub:expr, $mul:expr;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
        #[repr(transparent)]
        pub struct $name(u32);

        // SAFETY: the type is 32 bits, as `u32` is, on every target; the hash holds its name.
        unsafe impl Element for $name {
            const LAYOUT: u64 = Layout::of::<$name>($text).finish();
        }
        // SAFETY: the `Element` above has the same layout, and every bit pattern is a value.
        unsafe impl Scalar for $name {
            const LAYOUT: u64 = <$name as Element>::LAYOUT;
        }

        impl $name {
            /// A pair; `low` comes first in memory.
            #[inline(always)]
            pub const fn new(low: $half, high: $half) -> Self {
                Self(low.to_bits() as u32 | (high.to_bits() as u32) << 16)
            }

            /// A pair of two equal values.
            #[inline(always)]
            pub const fn splat(value: $half) -> Self {
                Self::new(value, value)
            }

            /// The value that comes first in memory.
            #[inline(always)]
            pub const fn low(self) -> $half {
                $half::from_bits(self.0 as u16)
            }

            /// The value that comes second in memory.
            #[inline(always)]
            pub const fn high(self) -> $half {
                $half::from_bits((self.0 >> 16) as u16)
            }

            /// `self * a + b` for each value of the pair, rounded once.
            #[inline(always)]
            pub fn mul_add(self, a: Self, b: Self) -> Self {
                #[cfg(target_arch = "nvptx64")]
                return Self(fused!(reg32, u32, $fma, self, a, b));
                #[cfg(not(target_arch = "nvptx64"))]
                Self::new(
                    Half::mul_add(self.low(), a.low(), b.low()),
                    Half::mul_add(self.high(), a.high(), b.high()),
                )
            }
        }

        pairs!($name, Add, add, |$a, $b| $add);
        pairs!($name, Sub, sub, |$a, $b| $sub);
        pairs!($name, Mul, mul, |$a, $b| $mul);
    )* };
    ($name:ident, $trait:ident, $method:ident, |$a:ident, $b:ident| $value:expr) => {
        impl $trait for $name {
            type Output = Self;

            /// Computes each value of the pair, rounded once.
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                let ($a, $b) = (self, other);
                $value
            }
        }
    };
}

const ONE: bf16 = bf16::ONE;
const MINUS_ONE: bf16 = bf16::NEG_ONE;
const MINUS_ZERO: bf16 = bf16::NEG_ZERO;

pairs! {
    /// Two `half::f16`. The hardware adds, subtracts or multiplies both in one instruction
    /// (`add.rn.f16x2`).
    ///
    /// ```
    /// # #[cfg(feature = "half")] {
    /// use device_std::F16x2;
    /// use half::f16;
    ///
    /// let [one, two] = [1.0, 2.0].map(f16::from_f32);
    /// let pair = F16x2::new(one, two) + F16x2::splat(one);
    /// assert_eq!([pair.low(), pair.high()], [2.0, 3.0].map(f16::from_f32));
    /// assert_eq!(pair.mul_add(pair, pair).high(), f16::from_f32(12.0));
    /// # }
    /// ```
    F16x2 of f16, "f16x2", "fma.rn.f16x2", |a, b| f16x2_add(a, b), f16x2_sub(a, b), f16x2_mul(a, b);
    /// Two `half::bf16`. The hardware multiplies and adds both in one instruction
    /// (`fma.rn.bf16x2`). sm_80 has no other instruction for them, so sums and products use it too.
    ///
    /// ```
    /// # #[cfg(feature = "half")] {
    /// use device_std::Bf16x2;
    /// use half::bf16;
    ///
    /// let [one, two] = [1.0, 2.0].map(bf16::from_f32);
    /// let pair = Bf16x2::new(one, two) * Bf16x2::splat(two);
    /// assert_eq!([pair.low(), pair.high()], [2.0, 4.0].map(bf16::from_f32));
    /// assert_eq!(pair.mul_add(pair, pair).low(), bf16::from_f32(6.0));
    /// # }
    /// ```
    Bf16x2 of bf16, "bf16x2", "fma.rn.bf16x2",
        |a, b| a.mul_add(Bf16x2::splat(ONE), b),
        b.mul_add(Bf16x2::splat(MINUS_ONE), a),
        a.mul_add(b, Bf16x2::splat(MINUS_ZERO));
}

macro_rules! f16x2 {
    ($($name:ident, $instruction:literal, |$a:ident, $b:ident| ($left:expr, $middle:expr, $right:expr);)*) => { $(
        #[inline(always)]
        fn $name($a: F16x2, $b: F16x2) -> F16x2 {
            #[cfg(target_arch = "nvptx64")]
            return F16x2(packed!($instruction, $a.0, $b.0));
            // A fused operation gives the same values, with one as factor or minus zero as summand.
            #[cfg(not(target_arch = "nvptx64"))]
            $left.mul_add($middle, $right)
        }
    )* };
}
f16x2! {
    f16x2_add, "add.rn.f16x2", |a, b| (a, F16x2::splat(f16::ONE), b);
    f16x2_sub, "sub.rn.f16x2", |a, b| (b, F16x2::splat(f16::NEG_ONE), a);
    f16x2_mul, "mul.rn.f16x2", |a, b| (a, b, F16x2::splat(f16::NEG_ZERO));
}
