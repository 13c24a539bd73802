//! Fills of any pattern length, built from CUDA's memsets: values of 1, 2 and 4 bytes, in one
//! dimension or two.

use super::context::Context;
use super::ffi::{CUdeviceptr, CUstream};
use super::stream;
use cuda_rt_driver::{DeviceAddress, DriverResult, RawStream};

/// One memset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Memset {
    /// Offset from the fill's destination, in bytes.
    offset: usize,
    /// Distance from one value to the next, in bytes.
    pitch: usize,
    value: Value,
    count: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    One(u8),
    Two(u16),
    Four(u32),
}

impl Value {
    fn of(bytes: &[u8]) -> Self {
        match *bytes {
            [a, b, c, d] => Self::Four(u32::from_ne_bytes([a, b, c, d])),
            [a, b] => Self::Two(u16::from_ne_bytes([a, b])),
            [a, ..] => Self::One(a),
            [] => Self::One(0),
        }
    }

    fn len(self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Two(_) => 2,
            Self::Four(_) => 4,
        }
    }
}

/// The largest of 1, 2 and 4 bytes that divides the pattern's length, at an address of this
/// alignment. CUDA requires each value to be aligned to its size.
#[inline]
fn largest_unit(destination: DeviceAddress, len: usize) -> usize {
    let either = destination.0 | len as u64 | 4;
    1 << either.trailing_zeros()
}

/// The shortest value that the pattern repeats, of at most `largest` bytes.
///
/// A pattern of 4 bytes repeats 2 of them if it is the same when it is rotated by 2 bytes.
#[inline]
fn repeated(pattern: &[u8], largest: usize) -> Option<Value> {
    if let (&[first, ref others @ ..], []) = pattern.as_chunks::<4>() {
        let value = u32::from_ne_bytes(first);
        return if others.iter().any(|other| *other != first) {
            None
        } else if value.rotate_left(8) == value {
            Some(Value::One(first[0]))
        } else if value.rotate_left(16) == value && largest >= 2 {
            Some(Value::Two(u16::from_ne_bytes([first[0], first[1]])))
        } else {
            (largest >= 4).then_some(Value::Four(value))
        };
    }
    if let (&[first, ref others @ ..], []) = pattern.as_chunks::<2>() {
        return if others.iter().any(|other| *other != first) {
            None
        } else if first[0] == first[1] {
            Some(Value::One(first[0]))
        } else {
            (largest >= 2).then(|| Value::Two(u16::from_ne_bytes(first)))
        };
    }
    let (&first, others) = pattern.split_first()?;
    others
        .iter()
        .all(|other| *other == first)
        .then_some(Value::One(first))
}

/// The memsets that write `pattern` `count` times, starting at `destination`, if the pattern
/// repeats no value: one column for each unit.
fn columns(destination: DeviceAddress, pattern: &[u8], count: usize) -> impl Iterator<Item = Memset> {
    let (len, unit) = (pattern.len(), largest_unit(destination, pattern.len()));
    let column = move |(column, bytes)| Memset {
        offset: column * unit,
        pitch: len,
        value: Value::of(bytes),
        count,
    };
    pattern.chunks_exact(unit).enumerate().map(column)
}

/// # Safety
/// As [`Copies::fill`](cuda_rt_driver::Copies::fill).
#[inline]
pub(super) unsafe fn fill(
    context: &Context,
    destination: DeviceAddress,
    pattern: &[u8],
    count: usize,
    stream: RawStream,
) -> DriverResult<()> {
    if count == 0 || pattern.is_empty() {
        return Ok(());
    }
    // Most patterns repeat 1, 2 or 4 bytes, and take one memset.
    let Some(value) = repeated(pattern, largest_unit(destination, pattern.len())) else {
        // SAFETY: the same contract.
        return unsafe { fill_columns(context, destination, pattern, count, stream) };
    };
    let count = count * (pattern.len() / value.len());
    // SAFETY: the memset writes the `pattern.len() * count` bytes from `destination`. By this
    // function's contract they are live, and nothing else accesses them. The value is no larger
    // than the destination's alignment.
    unsafe { memset(context, destination.0, value, count, stream::handle(stream)) }
}

/// # Safety
/// As [`fill`].
#[cold]
unsafe fn fill_columns(
    context: &Context,
    destination: DeviceAddress,
    pattern: &[u8],
    count: usize,
    stream: RawStream,
) -> DriverResult<()> {
    for (index, column) in columns(destination, pattern, count).enumerate() {
        // SAFETY: the memset writes inside the `pattern.len() * count` bytes from `destination`. By
        // this function's contract they are live, and nothing else accesses them. `columns` aligned
        // each value to its size, and the pitch keeps the alignment.
        let done = unsafe { memset_column(context, destination, column, stream::handle(stream)) };
        if let Err(error) = done {
            if index > 0 {
                // A failed call must leave nothing enqueued, so wait for the columns already
                // enqueued.
                // SAFETY: the stream is live.
                let _ = unsafe { stream::synchronize(context, stream) };
            }
            return Err(error);
        }
    }
    Ok(())
}

/// Writes `value` `count` times.
///
/// # Safety
/// The memset writes only live memory that nothing else accesses, from an address aligned to the
/// value, and the stream is live.
#[inline]
unsafe fn memset(
    context: &Context,
    start: CUdeviceptr,
    value: Value,
    count: usize,
    stream: CUstream,
) -> DriverResult<()> {
    match value {
        Value::One(value) => context.enqueue("cuMemsetD8Async", |library| {
            // SAFETY: this function's contract.
            unsafe { library.cuMemsetD8Async(start, value, count, stream) }
        }),
        Value::Two(value) => context.enqueue("cuMemsetD16Async", |library| {
            // SAFETY: as above.
            unsafe { library.cuMemsetD16Async(start, value, count, stream) }
        }),
        Value::Four(value) => context.enqueue("cuMemsetD32Async", |library| {
            // SAFETY: as above.
            unsafe { library.cuMemsetD32Async(start, value, count, stream) }
        }),
    }
}

/// Writes a value to each row of a column.
///
/// # Safety
/// As [`memset`]; the pitch is a multiple of the value's size.
unsafe fn memset_column(
    context: &Context,
    destination: DeviceAddress,
    column: Memset,
    stream: CUstream,
) -> DriverResult<()> {
    const WIDTH: usize = 1;
    let Memset {
        offset,
        pitch,
        value,
        count,
    } = column;
    let start = destination.0 + offset as u64;
    match value {
        Value::One(value) => context.enqueue("cuMemsetD2D8Async", |library| {
            // SAFETY: this function's contract.
            unsafe { library.cuMemsetD2D8Async(start, pitch, value, WIDTH, count, stream) }
        }),
        Value::Two(value) => context.enqueue("cuMemsetD2D16Async", |library| {
            // SAFETY: as above.
            unsafe { library.cuMemsetD2D16Async(start, pitch, value, WIDTH, count, stream) }
        }),
        Value::Four(value) => context.enqueue("cuMemsetD2D32Async", |library| {
            // SAFETY: as above.
            unsafe { library.cuMemsetD2D32Async(start, pitch, value, WIDTH, count, stream) }
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The memsets of a fill.
    fn memsets(destination: DeviceAddress, pattern: &[u8], count: usize) -> Vec<Memset> {
        match repeated(pattern, largest_unit(destination, pattern.len())) {
            Some(value) => vec![Memset {
                offset: 0,
                pitch: value.len(),
                value,
                count: count * (pattern.len() / value.len()),
            }],
            None => columns(destination, pattern, count).collect(),
        }
    }

    /// An address as an allocation has it, aligned to 256 bytes.
    const WHOLE: DeviceAddress = DeviceAddress(0x7f00);

    /// The bytes that the memsets leave in memory filled with 0xEE.
    fn run(destination: DeviceAddress, pattern: &[u8], count: usize) -> Vec<u8> {
        let mut bytes = vec![0xEE; pattern.len() * count + 8];
        for Memset {
            offset,
            pitch,
            value,
            count,
        } in memsets(destination, pattern, count)
        {
            for row in 0..count {
                let at = offset + row * pitch;
                let address = destination.0 as usize + at;
                assert!(
                    address.is_multiple_of(value.len()),
                    "{value:?} at {address:#x} is misaligned"
                );
                match value {
                    Value::One(value) => bytes[at] = value,
                    Value::Two(value) => bytes[at..at + 2].copy_from_slice(&value.to_ne_bytes()),
                    Value::Four(value) => bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes()),
                }
            }
        }
        bytes
    }

    #[test]
    fn writes_every_pattern_and_nothing_beyond() {
        for len in 1..=40 {
            for period in 1..=len {
                let pattern: Vec<u8> = (0..len).map(|i| (i % period) as u8 + 1).collect();
                for count in [0, 1, 2, 3, 17] {
                    let mut expected = pattern.repeat(count);
                    expected.resize(len * count + 8, 0xEE);
                    for offset in [0, 1, 2, 3, 4, 6, 8] {
                        assert_eq!(
                            run(DeviceAddress(WHOLE.0 + offset), &pattern, count),
                            expected,
                            "length {len}, period {period}, count {count}, offset {offset}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn repeated_patterns_take_one_memset() {
        for pattern in [
            &[0; 24][..],
            &[7; 3],
            &[1, 2, 1, 2, 1, 2],
            &[1, 2, 3, 4, 1, 2, 3, 4],
        ] {
            assert_eq!(memsets(WHOLE, pattern, 5).len(), 1, "{pattern:?}");
        }
        assert_eq!(memsets(WHOLE, &1.5_f64.to_ne_bytes(), 5).len(), 2);
        // The shortest one.
        for (pattern, len) in [
            (&[7; 8][..], 1),
            (&[1, 2, 1, 2], 2),
            (&[1, 2, 3, 4], 4),
            (&[5, 5], 1),
        ] {
            assert_eq!(memsets(WHOLE, pattern, 5)[0].value.len(), len, "{pattern:?}");
        }
    }
}
