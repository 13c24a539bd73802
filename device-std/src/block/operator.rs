//! Operators with which reductions and scans combine values.

use crate::element::Element;
use crate::float::MinMax;

/// How a reduction or a scan combines two values.
///
/// An operator is a type without state. Its result depends on its arguments only, so all threads
/// that fold the same values get the same result. It should be associative, up to rounding: a fold
/// keeps the order of the values, but may group them in any way.
///
/// ```
/// use device_std::Operator;
///
/// /// Picks the (key, position) with the largest key; between equal keys, the first position.
/// enum ArgMax {}
///
/// impl Operator<[u32; 2]> for ArgMax {
///     const IDENTITY: [u32; 2] = [0, u32::MAX];
///     fn combine(left: [u32; 2], right: [u32; 2]) -> [u32; 2] {
///         let is_larger = right[0] > left[0];
///         let is_first = right[0] == left[0] && right[1] < left[1];
///         if is_larger || is_first { right } else { left }
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not combine values of `{T}`",
    label = "not an operator on `{T}`",
    note = "`Sum`, `Min` and `Max` are for numbers, `And`, `Or` and `Xor` for integers; for others `impl Operator<{T}>` for a type of your own"
)]
pub trait Operator<T: Element>: 'static {
    /// The value that, combined with any other value, gives the other value.
    const IDENTITY: T;

    /// Combines two values; `left` is the earlier one.
    fn combine(left: T, right: T) -> T;

    /// Whether `combine(a, b)` is always `combine(b, a)`, which saves instructions.
    const IS_COMMUTATIVE: bool = false;

    /// The instruction that reduces a whole warp with this operator.
    #[doc(hidden)]
    const REDUX: Redux = Redux::NONE;
}

/// An instruction that reduces a warp (`redux.sync`). Only this crate can name one.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redux(Option<ReduxKind>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReduxKind {
    Add,
    UnsignedMin,
    UnsignedMax,
    SignedMin,
    SignedMax,
    And,
    Or,
    Xor,
}

impl Redux {
    /// No instruction reduces a warp with this operator.
    pub const NONE: Self = Self(None);

    #[cfg_attr(not(target_arch = "nvptx64"), allow(dead_code))]
    pub(super) const fn kind(self) -> Option<ReduxKind> {
        self.0
    }
}

macro_rules! operators {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $name {}
    )* };
}

operators! {
    /// The sum. Integers wrap on overflow.
    Sum;
    /// The product. Integers wrap on overflow.
    Product;
    /// The smallest. A NaN loses to every number, and -0 is below +0.
    Min;
    /// The largest. A NaN loses to every number, and +0 is above -0.
    Max;
    /// The bitwise and.
    And;
    /// The bitwise or.
    Or;
    /// The bitwise exclusive or.
    Xor;
}

macro_rules! operator {
    ($name:ident, $type:ty, $identity:expr, $redux:expr, |$left:ident, $right:ident| $value:expr) => {
        impl Operator<$type> for $name {
            const IDENTITY: $type = $identity;
            const IS_COMMUTATIVE: bool = true;
            const REDUX: Redux = Redux($redux);
            #[inline(always)]
            fn combine($left: $type, $right: $type) -> $type {
                $value
            }
        }
    };
}

macro_rules! integers {
    ($($type:ident: $sum:expr, $min:expr, $max:expr, $and:expr, $or:expr, $xor:expr;)*) => { $(
        operator!(Sum, $type, 0, $sum, |left, right| left.wrapping_add(right));
        operator!(Product, $type, 1, None, |left, right| left.wrapping_mul(right));
        operator!(Min, $type, $type::MAX, $min, |left, right| Ord::min(left, right));
        operator!(Max, $type, $type::MIN, $max, |left, right| Ord::max(left, right));
        operator!(And, $type, !0, $and, |left, right| left & right);
        operator!(Or, $type, 0, $or, |left, right| left | right);
        operator!(Xor, $type, 0, $xor, |left, right| left ^ right);
    )* };
}

use ReduxKind as R;
integers! {
    u32: Some(R::Add), Some(R::UnsignedMin), Some(R::UnsignedMax), Some(R::And), Some(R::Or), Some(R::Xor);
    i32: Some(R::Add), Some(R::SignedMin), Some(R::SignedMax), Some(R::And), Some(R::Or), Some(R::Xor);
    u64: None, None, None, None, None, None;
    i64: None, None, None, None, None, None;
    usize: None, None, None, None, None, None;
    isize: None, None, None, None, None, None;
}

macro_rules! floats {
    ($($type:ident)*) => { $(
        operator!(Sum, $type, -0.0, None, |left, right| left + right);
        operator!(Product, $type, 1.0, None, |left, right| left * right);
        operator!(Min, $type, $type::INFINITY, None, |left, right| MinMax::minimum(left, right));
        operator!(Max, $type, $type::NEG_INFINITY, None, |left, right| MinMax::maximum(left, right));
    )* };
}
floats!(f32 f64);

/// Combines each component by itself.
impl<T: Element, O: Operator<T>, const N: usize> Operator<[T; N]> for Each<O> {
    const IDENTITY: [T; N] = [O::IDENTITY; N];
    const IS_COMMUTATIVE: bool = O::IS_COMMUTATIVE;
    #[inline(always)]
    fn combine(left: [T; N], right: [T; N]) -> [T; N] {
        core::array::from_fn(|at| O::combine(left[at], right[at]))
    }
}

/// Operator on arrays: `O` on each component.
#[derive(Debug)]
pub struct Each<O>(core::marker::PhantomData<O>, core::convert::Infallible);
