//! Scans of all elements.

use std::cell::RefCell;

use device_kernels::{self as kernels, Max, Sum};

use super::{ours, random, theirs};
use crate::{Input, Measure, Outcome, Task};

pub(super) fn all(measure: &Measure<'_>) -> Outcome {
    let stream = &measure.stream;
    macro_rules! each {
        ($($name:literal, $kernel:ident, $type:ty, $operator:ty, $len:expr, $from:expr, $is_inclusive:literal,
            |$bits:ident| $value:expr, |$left:ident, $right:ident| $next:expr, $other:literal;)*) => { $(
            if measure.wants($name) {
                let len: usize = ($len / measure.divide).next_multiple_of(16);
                let elements: Vec<$type> = random(len).map(|$bits| $value).collect();
                let input = [stream.alloc_from_slice(&elements)?, stream.alloc_zeroed(1)?];
                let mut output = stream.alloc_zeroed::<$type>(len)?;
                let words = kernels::scan_words::<$type>(len);
                let words = RefCell::new(stream.alloc_zeroed::<u64>(words)?);
                let mut ways = vec![ours("ours", |stream, input: &Input<$type>, output| {
                    let words = &mut *words.borrow_mut();
                    kernels::$kernel::<$type, $operator, _>(stream, &input[0], words, output)
                })];
                theirs(measure, &[$other], [len, 0], &mut ways)?;
                ways.push(ours("the driver's copy", |stream, input, output| {
                    stream.copy(&input[0], output)
                }));
                let task = Task {
                    name: $name,
                    bytes: 2 * len * size_of::<$type>(),
                    before: vec![<$type>::default(); len],
                    check: &|found: &[$type]| {
                        if found == elements {
                            return Ok(()); // the copy
                        }
                        let mut $left: $type = $from;
                        for (at, found) in found.iter().enumerate() {
                            let $right = elements[at];
                            let next = $next;
                            let expected = if $is_inclusive { next } else { $left };
                            if *found != expected {
                                return Err(format!("element {at} is {found} instead of {expected}"));
                            }
                            $left = next;
                        }
                        Ok(())
                    },
                };
                measure.task(&task, &input, &mut output, &ways)?;
            }
        )* };
    }
    // The sums of floats stay exact, so that every order gives the same.
    each! {
        "scan, sum of u32", inclusive_scan, u32, Sum, 1 << 28, 0, true,
            |bits| bits, |left, right| left.wrapping_add(right), "cub_scan_u32";
        "scan, sum of f32", inclusive_scan, f32, Sum, 1 << 28, 0.0, true,
            |bits| if bits % 64 == 0 { 1.0 } else { 0.0 }, |left, right| left + right, "cub_scan_f32";
        "scan, sum of u64", inclusive_scan, u64, Sum, 1 << 27, 0, true,
            |bits| u64::from(bits), |left, right| left.wrapping_add(right), "cub_scan_u64";
        "scan, sum of f64", inclusive_scan, f64, Sum, 1 << 27, 0.0, true,
            |bits| f64::from(bits % 1024), |left, right| left + right, "cub_scan_f64";
        "scan, max of i32", inclusive_scan, i32, Max, 1 << 28, i32::MIN, true,
            |bits| bits as i32, |left, right| left.max(right), "cub_scan_max_i32";
        "exclusive scan, sum of u32", exclusive_scan, u32, Sum, 1 << 28, 0, false,
            |bits| bits, |left, right| left.wrapping_add(right), "cub_exclusive_scan_u32";
        "scan, sum of u32, short", inclusive_scan, u32, Sum, 1 << 20, 0, true,
            |bits| bits, |left, right| left.wrapping_add(right), "cub_scan_u32";
    }
    Ok(())
}
