//! The reference's arithmetic, in plain Rust, on values as bits.

use super::program::{Binary, Bits, Comparison, Narrow, Operator, Ty, Unary};

/// Runs `$body` with `$T` as the Rust type of `$ty`, which is one of the types listed. `$others` is
/// the arm of a `match` for the other types.
macro_rules! with_one_of {
    ($ty:expr, $T:ident => $body:expr, [$($variant:ident is $type:ident),*] $($others:tt)*) => {
        match $ty {
            $(Ty::$variant => {
                type $T = $type;
                $body
            })*
            $($others)*
        }
    };
}

macro_rules! with_type {
    ($ty:expr, $T:ident => $body:expr) => {
        with_one_of!($ty, $T => $body, [U32 is u32, I32 is i32, U64 is u64, I64 is i64, F32 is f32, F64 is f64])
    };
}

macro_rules! with_integer {
    ($ty:expr, $T:ident => $body:expr) => {
        with_one_of!($ty, $T => $body, [U32 is u32, I32 is i32, U64 is u64, I64 is i64]
            Ty::F32 | Ty::F64 => unreachable!("of integers only"))
    };
}

macro_rules! with_float {
    ($ty:expr, $T:ident => $body:expr) => {
        with_one_of!($ty, $T => $body, [F32 is f32, F64 is f64]
            Ty::U32 | Ty::I32 | Ty::U64 | Ty::I64 => unreachable!("of floats only"))
    };
}

pub(super) trait Value: Copy {
    fn of(bits: Bits) -> Self;
    fn bits(self) -> Bits;
}

macro_rules! values {
    ($($type:ident, |$bits:ident| $of:expr, |$value:ident| $to:expr;)*) => { $(
        impl Value for $type {
            fn of($bits: Bits) -> Self { $of }
            fn bits(self) -> Bits { let $value = self; $to }
        }
    )* };
}
values! {
    u32, |bits| bits as u32, |value| u64::from(value);
    i32, |bits| bits as u32 as i32, |value| u64::from(value as u32);
    u64, |bits| bits, |value| value;
    i64, |bits| bits as i64, |value| value as u64;
    f32, |bits| f32::from_bits(bits as u32), |value| u64::from(value.to_bits());
    f64, |bits| f64::from_bits(bits), |value| value.to_bits();
}

/// The value with any NaN replaced by one fixed NaN.
pub(super) fn canonical(ty: Ty, bits: Bits) -> Bits {
    match ty {
        Ty::F32 if f32::of(bits).is_nan() => 0x7fc0_0000,
        Ty::F64 if f64::of(bits).is_nan() => 0x7ff8_0000_0000_0000,
        _ => bits,
    }
}

pub(super) fn unary(operator: Unary, ty: Ty, a: Bits) -> Bits {
    match operator {
        Unary::Not => with_integer!(ty, T => (!T::of(a)).bits()),
        Unary::Negate if ty.is_float() => with_float!(ty, T => (-T::of(a)).bits()),
        Unary::Negate => with_integer!(ty, T => T::of(a).wrapping_neg().bits()),
        Unary::CountOnes => with_integer!(ty, T => (T::of(a).count_ones() as T).bits()),
        Unary::LeadingZeros => with_integer!(ty, T => (T::of(a).leading_zeros() as T).bits()),
        Unary::TrailingZeros => with_integer!(ty, T => (T::of(a).trailing_zeros() as T).bits()),
        Unary::SwapBytes => with_integer!(ty, T => T::of(a).swap_bytes().bits()),
        Unary::ReverseBits => with_integer!(ty, T => T::of(a).reverse_bits().bits()),
        Unary::Abs => with_float!(ty, T => T::of(a).abs().bits()),
        Unary::Sqrt => with_float!(ty, T => T::of(a).abs().sqrt().bits()),
        Unary::Floor => with_float!(ty, T => T::of(a).floor().bits()),
        Unary::Ceil => with_float!(ty, T => T::of(a).ceil().bits()),
        Unary::Trunc => with_float!(ty, T => T::of(a).trunc().bits()),
    }
}

pub(super) fn binary(operator: Binary, ty: Ty, a: Bits, b: Bits) -> Bits {
    if ty.is_float() {
        return with_float!(ty, T => float(operator, T::of(a), T::of(b), |a, b| {
            match operator {
                Binary::Rem => a % b,
                Binary::RemEuclid => a.rem_euclid(b),
                Binary::Min => if b < a || (b == a && b.is_sign_negative()) { b } else { a },
                Binary::Max => if b > a || (b == a && b.is_sign_positive()) { b } else { a },
                _ => a.mul_add(b, a),
            }
        }).bits());
    }
    with_integer!(ty, T => {
        let (a, b) = (T::of(a), T::of(b));
        let result = match operator {
            Binary::Add => a.wrapping_add(b),
            Binary::Sub => a.wrapping_sub(b),
            Binary::Mul => a.wrapping_mul(b),
            Binary::Div => if b == 0 { a } else { a.wrapping_div(b) },
            Binary::Rem => if b == 0 { a } else { a.wrapping_rem(b) },
            Binary::RemEuclid => if b == 0 { a } else { a.wrapping_rem_euclid(b) },
            Binary::And => a & b,
            Binary::Or => a | b,
            Binary::Xor => a ^ b,
            Binary::Shl => a.wrapping_shl(b.bits() as u32),
            Binary::Shr => a.wrapping_shr(b.bits() as u32),
            Binary::Rotate => a.rotate_left(b.bits() as u32 & 63),
            Binary::Min => a.min(b),
            Binary::Max => a.max(b),
            Binary::SaturatingAdd => a.saturating_add(b),
            Binary::SaturatingSub => a.saturating_sub(b),
            Binary::MulAdd => a.wrapping_mul(b).wrapping_add(a),
        };
        result.bits()
    })
}

fn float<T>(operator: Binary, a: T, b: T, other: impl Fn(T, T) -> T) -> T
where
    T: Copy
        + PartialOrd
        + std::ops::Add<Output = T>
        + std::ops::Sub<Output = T>
        + std::ops::Mul<Output = T>
        + std::ops::Div<Output = T>,
{
    match operator {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Div => a / b,
        Binary::Rem | Binary::RemEuclid | Binary::Min | Binary::Max | Binary::MulAdd => other(a, b),
        _ => unreachable!("of integers only"),
    }
}

pub(super) fn compare(comparison: Comparison, ty: Ty, a: Bits, b: Bits) -> bool {
    with_type!(ty, T => {
        let (a, b) = (T::of(a), T::of(b));
        match comparison {
            Comparison::Less => a < b,
            Comparison::LessOrEqual => a <= b,
            Comparison::Equal => a == b,
            Comparison::NotEqual => a != b,
        }
    })
}

pub(super) fn cast(from: Ty, to: Ty, bits: Bits) -> Bits {
    with_type!(from, F => with_type!(to, T => (F::of(bits) as T).bits()))
}

pub(super) fn narrow(through: Narrow, ty: Ty, bits: Bits) -> Bits {
    with_type!(ty, T => {
        let value = T::of(bits);
        match through {
            Narrow::U8 => (value as u8 as T).bits(),
            Narrow::I8 => (value as i8 as T).bits(),
            Narrow::U16 => (value as u16 as T).bits(),
            Narrow::I16 => (value as i16 as T).bits(),
        }
    })
}

/// The result of a reduction, a scan or an atomic operation for two values. `Min` and `Max` of
/// floats follow `device_std`: a NaN counts only if both values are NaN, and -0 is below +0.
pub(super) fn combine(operator: Operator, ty: Ty, a: Bits, b: Bits) -> Bits {
    if ty.is_float() {
        return with_float!(ty, T => {
            let (x, y) = (T::of(a), T::of(b));
            match operator {
                Operator::Sum => (x + y).bits(),
                _ if x.is_nan() => b,
                _ if y.is_nan() => a,
                Operator::Min if x == y => a | b,
                Operator::Max if x == y => a & b,
                Operator::Min => if x < y { a } else { b },
                Operator::Max => if x > y { a } else { b },
                _ => unreachable!("of integers only"),
            }
        });
    }
    let operator = match operator {
        Operator::Sum => Binary::Add,
        Operator::Min => Binary::Min,
        Operator::Max => Binary::Max,
        Operator::And => Binary::And,
        Operator::Or => Binary::Or,
        Operator::Xor => Binary::Xor,
    };
    binary(operator, ty, a, b)
}

/// The operator's identity.
pub(super) fn identity(operator: Operator, ty: Ty) -> Bits {
    match operator {
        Operator::Sum if ty.is_float() => with_float!(ty, T => (-0.0 as T).bits()),
        Operator::Min if ty.is_float() => with_float!(ty, T => T::INFINITY.bits()),
        Operator::Max if ty.is_float() => with_float!(ty, T => T::NEG_INFINITY.bits()),
        Operator::Sum | Operator::Or | Operator::Xor => 0,
        Operator::Min => with_integer!(ty, T => T::MAX.bits()),
        Operator::Max => with_integer!(ty, T => T::MIN.bits()),
        Operator::And => with_integer!(ty, T => (!(0 as T)).bits()),
    }
}
