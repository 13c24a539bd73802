//! What an instruction computes from its operands. The result of a float instruction that is a NaN
//! is the GPU's: 0x7fffffff.

/// The bits of a type, and how it counts: `u`, `s`, `f` or `b`.
pub(super) fn type_of(part: &str) -> Option<(char, u32)> {
    if part == "pred" {
        return Some(('b', 1));
    }
    let kind = part.chars().next().filter(|kind| "usfb".contains(*kind))?;
    let bits = part[1..].parse().ok()?;
    [8, 16, 32, 64].contains(&bits).then_some((kind, bits))
}

pub(super) fn mask(value: u64, bits: u32) -> u64 {
    if bits >= 64 {
        value
    } else {
        value & ((1 << bits) - 1)
    }
}

fn signed(value: u64, bits: u32) -> i64 {
    let shift = 64 - bits;
    (value << shift).cast_signed() >> shift
}

/// A value of integers of a kind, as a number that is large enough for both.
fn wide(kind: char, value: u64, bits: u32) -> i128 {
    if kind == 's' {
        signed(value, bits).into()
    } else {
        mask(value, bits).into()
    }
}

fn f32_bits(value: f32) -> u64 {
    if value.is_nan() {
        0x7fff_ffff
    } else {
        value.to_bits().into()
    }
}

fn f64_bits(value: f64) -> u64 {
    if value.is_nan() {
        0x7fff_ffff_ffff_ffff
    } else {
        value.to_bits()
    }
}

fn to_f32(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn flush(value: f32, parts: &[&str]) -> f32 {
    let flushes = parts.contains(&"ftz") && value.is_subnormal();
    if flushes { 0_f32.copysign(value) } else { value }
}

macro_rules! float_functions {
    ($name:ident, $float:ident, $from:expr, $to:expr) => {
        fn $name(base: &str, parts: &[&str], x: &[u64]) -> Option<u64> {
            let value = |at: usize| x.get(at).map(|bits| $from(*bits));
            let (a, b) = (value(0)?, value(1).unwrap_or_default());
            // -0.0 is smaller than 0.0. A minimum with one NaN is the other operand.
            let takes_nans = parts.contains(&"NaN") && (a.is_nan() || b.is_nan());
            let smaller = |a: $float, b: $float| {
                if a.is_nan() || (!b.is_nan() && (b < a || (a == b && b.is_sign_negative()))) {
                    b
                } else {
                    a
                }
            };
            let larger = |a: $float, b: $float| {
                if a.is_nan() || (!b.is_nan() && (b > a || (a == b && b.is_sign_positive()))) {
                    b
                } else {
                    a
                }
            };
            Some($to(match base {
                "add" => a + b,
                "sub" => a - b,
                "mul" => a * b,
                "div" => a / b,
                "rcp" => 1.0 / a,
                "rsqrt" => 1.0 / a.sqrt(),
                "sqrt" => a.sqrt(),
                "fma" | "mad" => a.mul_add(b, value(2)?),
                "neg" => -a,
                "abs" => a.abs(),
                "copysign" => b.copysign(a),
                "min" | "max" if takes_nans => $float::NAN,
                "min" => x[2..]
                    .iter()
                    .fold(smaller(a, b), |a, b| smaller(a, $from(*b))),
                "max" => x[2..]
                    .iter()
                    .fold(larger(a, b), |a, b| larger(a, $from(*b))),
                "ex2" => a.exp2(),
                "lg2" => a.log2(),
                "sin" => a.sin(),
                "cos" => a.cos(),
                "tanh" => a.tanh(),
                _ => return None,
            }))
        }
    };
}
float_functions!(of_f32, f32, to_f32, f32_bits);
float_functions!(of_f64, f64, f64::from_bits, f64_bits);

/// A comparison, such as `lt` or `geu`.
fn compare(by: &str, kind: char, bits: u32, a: u64, b: u64) -> Option<bool> {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let order = match (kind, bits) {
        ('f', 32) => to_f32(a).partial_cmp(&to_f32(b)),
        ('f', 64) => f64::from_bits(a).partial_cmp(&f64::from_bits(b)),
        ('f', _) => return None,
        _ => Some(wide(kind, a, bits).cmp(&wide(kind, b, bits))),
    };
    // Of integers, `lo`, `ls`, `hi` and `hs` are the comparisons without a sign.
    let by = match by {
        "lo" => "lt",
        "ls" => "le",
        "hi" => "gt",
        "hs" => "ge",
        by => by,
    };
    let is_unordered = order.is_none();
    let holds = |by: &str| {
        Some(match by {
            "eq" => order == Some(Equal),
            "ne" => matches!(order, Some(Less | Greater)),
            "lt" => order == Some(Less),
            "le" => matches!(order, Some(Less | Equal)),
            "gt" => order == Some(Greater),
            "ge" => matches!(order, Some(Greater | Equal)),
            _ => return None,
        })
    };
    match by {
        "num" => Some(!is_unordered),
        "nan" => Some(is_unordered),
        by => match by.strip_suffix('u') {
            Some(by) => Some(is_unordered || holds(by)?),
            None => holds(by),
        },
    }
}

fn convert(parts: &[&str], x: u64) -> Option<u64> {
    let (from, to) = (type_of(parts.last()?)?, type_of(parts.get(parts.len() - 2)?)?);
    let has = |part: &str| parts.contains(&part);
    let value = match from {
        ('f', 32) => f64::from(flush(to_f32(x), parts)),
        ('f', 64) => f64::from_bits(x),
        ('f', _) => return None,
        (kind, bits) => {
            let value = wide(kind, x, bits);
            return Some(match to {
                ('f', 32) => f32_bits(value as f32),
                ('f', 64) => f64_bits(value as f64),
                ('f', _) => return None,
                ('s', bits) if has("sat") => {
                    let most = (1_i128 << (bits - 1)) - 1;
                    mask(value.clamp(-most - 1, most) as u64, bits)
                }
                (_, bits) if has("sat") => mask(value.clamp(0, (1 << bits) - 1) as u64, bits),
                (_, bits) => mask(value as u64, bits),
            });
        }
    };
    let whole = |value: f64| {
        if has("rni") {
            value.round_ties_even()
        } else if has("rzi") {
            value.trunc()
        } else if has("rmi") {
            value.floor()
        } else if has("rpi") {
            value.ceil()
        } else {
            value
        }
    };
    Some(match to {
        // Only to the nearest: the other directions of rounding are not modelled.
        ('f', 32) if !has("rz") && !has("rm") && !has("rp") => f32_bits(flush(whole(value) as f32, parts)),
        ('f', 64) => f64_bits(whole(value)),
        ('f', _) => return None,
        // PTX ISA, `cvt`, "floating-point to integer".
        (_, bits) if value.is_nan() && bits < 64 && from.1 == 32 => 0,
        (_, bits) if value.is_nan() => 1 << (bits - 1),
        ('s', bits) => {
            let most = (1_i128 << (bits - 1)) - 1;
            mask((whole(value) as i128).clamp(-most - 1, most) as u64, bits)
        }
        (_, bits) => mask((whole(value) as i128).clamp(0, (1 << bits) - 1) as u64, bits),
    })
}

fn permute(parts: &[&str], x: &[u64]) -> Option<u64> {
    if parts.len() > 2 {
        return None;
    }
    let bytes = (mask(x[1], 32) << 32 | mask(x[0], 32)).to_le_bytes();
    let byte = |at: u32| {
        let nibble = x[2] >> (4 * at) & 0xf;
        let byte = bytes[(nibble & 7) as usize];
        // The sign of the byte, in each bit.
        u64::from(if nibble & 8 == 0 {
            byte
        } else {
            (byte as i8 >> 7) as u8
        }) << (8 * at)
    };
    Some((0..4).map(byte).sum())
}

/// The result of an instruction of integers.
fn of_integers(base: &str, parts: &[&str], (kind, bits): (char, u32), x: &[u64]) -> Option<u64> {
    let has = |part: &str| parts.contains(&part);
    let number = |at: usize| x.get(at).map(|value| wide(kind, *value, bits));
    let (a, b) = (number(0)?, number(1).unwrap_or(0));
    let (p, q) = (x[0], x.get(1).copied().unwrap_or(0));
    let product = || {
        let product = a.wrapping_mul(b);
        if has("hi") { product >> bits } else { product }
    };
    let result_bits = if has("wide") { 2 * bits } else { bits };
    let zeros = |value: u64| u64::from(mask(value, bits).leading_zeros() - (64 - bits));
    let value = match base {
        "add" | "sub" if has("sat") => return None,
        "add" => (a + b) as u64,
        "sub" => (a - b) as u64,
        "mul" => product() as u64,
        "mad" => {
            let addend = wide(kind, *x.get(2)?, result_bits);
            product().wrapping_add(addend) as u64
        }
        // By zero, any value.
        "div" => a.checked_div(b).unwrap_or(-1) as u64,
        "rem" => a.checked_rem(b).unwrap_or(a) as u64,
        "min" => a.min(b) as u64,
        "max" => a.max(b) as u64,
        "abs" => a.unsigned_abs() as u64,
        "neg" => (-a) as u64,
        "not" if bits == 1 => u64::from(p & 1 == 0),
        "not" => !p,
        "cnot" => u64::from(mask(p, bits) == 0),
        "and" => p & q,
        "or" => p | q,
        "xor" => p ^ q,
        "shl" => {
            let by = mask(q, 32);
            if by >= u64::from(bits) { 0 } else { p << by }
        }
        "shr" => {
            let by = mask(q, 32).min(127) as u32;
            (wide(kind, p, bits) >> by) as u64
        }
        "popc" => return Some(mask(p, bits).count_ones().into()),
        "clz" => return Some(zeros(p)),
        "brev" => p.reverse_bits() >> (64 - bits),
        "bfind" => {
            let value = if kind == 's' && signed(p, bits) < 0 { !p } else { p };
            let found = 63 - i64::from(mask(value, bits).leading_zeros());
            let shift = has("shiftamt") && found >= 0;
            return Some(mask(
                if shift { i64::from(bits) - 1 - found } else { found } as u64,
                32,
            ));
        }
        "bfe" => {
            let (start, len) = (mask(q, 8) as u32, mask(*x.get(2)?, 8) as u32);
            let field = wide(kind, p, bits) >> start.min(127);
            let len = len.min(64);
            // The sign is that of the field's last bit. Behind the value's end lies its sign.
            return Some(match kind {
                _ if len == 0 => 0,
                's' if start + len < bits => mask(signed(field as u64, len) as u64, bits),
                's' => mask(field as u64, bits),
                _ => mask(field as u64, len.min(bits)),
            });
        }
        "bfi" => {
            let (start, len) = (mask(*x.get(2)?, 8) as u32, mask(*x.get(3)?, 8) as u32);
            if start >= bits || len == 0 {
                q
            } else {
                let field = mask(u64::MAX, len.min(bits - start)) << start;
                q & !field | p << start & field
            }
        }
        "szext" | "bmsk" => return None,
        _ => return None,
    };
    Some(mask(value, result_bits))
}

/// The result of an instruction that computes a value from its operands alone. `None` if it is not
/// known here.
pub(super) fn compute(name: &[String], x: &[u64]) -> Option<u64> {
    let parts: Vec<&str> = name.iter().map(String::as_str).collect();
    let base = parts[0];
    let (kind, bits) = type_of(parts.last()?)?;
    match base {
        "mov" => Some(mask(x[0], bits)),
        "selp" => Some(mask(if x[2] & 1 == 1 { x[0] } else { x[1] }, bits)),
        "cvt" => convert(&parts[1..], x[0]),
        "prmt" => permute(&parts, x),
        "setp" => {
            let mut holds = compare(parts[1], kind, bits, x[0], x[1])?;
            if parts.len() > 3 {
                let other = x.get(2)? & 1 == 1;
                holds = match parts[2] {
                    "and" => holds && other,
                    "or" => holds || other,
                    "xor" => holds != other,
                    "ftz" => holds,
                    _ => return None,
                };
            }
            Some(holds.into())
        }
        "shf" => {
            let both = mask(x[1], 32) << 32 | mask(x[0], 32);
            let by = if parts[2] == "wrap" {
                x[2] & 31
            } else {
                mask(x[2], 32).min(32)
            };
            Some(mask(
                if parts[1] == "l" {
                    both << by >> 32
                } else {
                    both >> by
                },
                32,
            ))
        }
        "lop3" => {
            let table = x[3];
            let bit = |at: u32| {
                let index = (x[0] >> at & 1) << 2 | (x[1] >> at & 1) << 1 | x[2] >> at & 1;
                (table >> index & 1) << at
            };
            Some((0..32).map(bit).sum())
        }
        _ if kind == 'f' && bits == 32 => {
            let flushed: Vec<u64> = x
                .iter()
                .map(|bits| flush(to_f32(*bits), &parts).to_bits().into())
                .collect();
            of_f32(base, &parts, &flushed).map(|bits| flush(to_f32(bits), &parts).to_bits().into())
        }
        _ if kind == 'f' && bits == 64 => of_f64(base, &parts, x),
        _ if kind == 'f' => None,
        _ => of_integers(base, &parts, (kind, bits), x),
    }
}
