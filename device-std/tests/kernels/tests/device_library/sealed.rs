//! Calls the methods of sealed traits through a bound, as any crate may do. The methods compute,
//! and touch no memory.

// Through a bound: device_std::Half, device_std::Printable, device_std::ShuffleElement
//
// Through a bound: device_std::TileValue, device_std::accurate::Real, device_std::print::Arguments

use device_std::accurate::Real;
use device_std::print::Arguments;
use device_std::{Half, Printable, ShuffleElement, TileValue};
use half::{bf16, f16};

fn doubled_and_one<T: Half>(value: f32) -> f32 {
    T::narrow(value).mul_add(T::narrow(2.0), T::narrow(1.0)).widen()
}

#[test]
fn halves_convert_and_multiply() {
    assert_eq!(doubled_and_one::<f16>(1.5), 4.0);
    assert_eq!(doubled_and_one::<bf16>(1.5), 4.0);
}

fn shown<T: Printable>(value: T) -> (String, T::Promoted) {
    (value.show(), value.promote())
}

#[test]
fn numbers_are_shown_and_promoted() {
    assert_eq!(shown(true), ("true".to_owned(), 1));
    assert_eq!(shown(-7i8), ("-7".to_owned(), -7));
    assert_eq!(shown(1.5f32), ("1.5".to_owned(), 1.5));
}

fn packed<A: Arguments + Copy>(arguments: A) -> (Vec<String>, A::Packed) {
    (arguments.show(), arguments.pack())
}

#[test]
fn arguments_of_print_are_packed() {
    let (shown, packed) = packed((3u8, -1.5f32));
    assert_eq!(shown, ["3", "-1.5"]);
    assert_eq!(format!("{packed:?}"), "Packed2(3, -1.5)");
}

fn negated<T: ShuffleElement>(value: T) -> T {
    value.exchange(&|word| !word)
}

#[test]
fn an_exchange_calls_the_function_on_each_word() {
    assert_eq!(negated(0u64), u64::MAX);
    assert_eq!(negated(0xff00u16), 0x00ff);
    assert_eq!(negated([1i32, -1]), [-2, 0]);
}

fn through_halves<T: TileValue>(value: T) -> (usize, [u32; 2], T) {
    (T::WORDS, value.halves(), T::of_halves(value.halves()))
}

#[test]
fn values_of_tiles_are_put_together_from_their_halves() {
    assert_eq!(through_halves(7u32), (1, [7, 0], 7));
    assert_eq!(through_halves(-1i32), (1, [u32::MAX, 0], -1));
    assert_eq!(through_halves(1.5f32), (1, [1.5f32.to_bits(), 0], 1.5));
    assert_eq!(through_halves(3u64 << 32 | 2), (2, [2, 3], 3 << 32 | 2));
    assert_eq!(through_halves(-2i64), (2, [u32::MAX - 1, u32::MAX], -2));
    assert_eq!(through_halves(-1.5f64), (2, [0, 0xbff8_0000], -1.5));
    assert_eq!(through_halves([1u32, 2]), (2, [1, 2], [1, 2]));
    assert_eq!(through_halves([-1i32, 2]), (2, [u32::MAX, 2], [-1, 2]));
    assert_eq!(through_halves([0.5f32, 2.0]).2, [0.5, 2.0]);
}

fn all_of<T: Real>(x: T, one: T) -> [T; 10] {
    let (sin, cos) = (T::sin(x), T::cos(x));
    [
        T::exp(x),
        T::exp2(x),
        T::ln(one),
        T::log2(one),
        sin,
        cos,
        T::tanh(x),
        T::pow(one, x),
        T::rem(x, one),
        T::rem_euclid(x, one),
    ]
}

#[test]
fn real_functions_compute_their_values() {
    let expected = [1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0];
    assert_eq!(all_of(0.0, 1.0), expected);
    assert_eq!(all_of(0.0f32, 1.0), expected.map(|value| value as f32));
}
