//! Fills of any pattern length, built from CUDA's memsets: values of 1, 2 and 4 bytes, in one
//! dimension or two.

use super::context::Context;
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

/// The memsets that write `pattern` `count` times, starting at `destination`.
///
/// A pattern that repeats 1, 2 or 4 bytes (mostly zeros) takes one memset. Any other pattern takes
/// one column for each unit; the unit is the largest that divides its length. CUDA requires each
/// value to be aligned to its size, so a unit is no larger than the destination's alignment.
fn memsets(destination: DeviceAddress, pattern: &[u8], count: usize) -> impl Iterator<Item = Memset> {
    let len = pattern.len();
    let largest = 1 << destination.0.trailing_zeros().min(len.trailing_zeros()).min(2);
    let repeated = [1, 2, 4]
        .into_iter()
        .filter(|unit| *unit <= largest)
        .find(|unit| {
            pattern
                .chunks_exact(*unit)
                .all(|chunk| chunk == &pattern[..*unit])
        });
    let (unit, columns, pitch, rows) = match repeated {
        Some(unit) => (unit, 1, unit, count * (len / unit)),
        None => (largest, len / largest, len, count),
    };
    pattern
        .chunks_exact(unit)
        .take(columns)
        .enumerate()
        .map(move |(column, bytes)| Memset {
            offset: column * unit,
            pitch,
            value: Value::of(bytes),
            count: rows,
        })
}

/// # Safety
/// As [`Copies::fill`](cuda_rt_driver::Copies::fill).
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
    for (index, memset) in memsets(destination, pattern, count).enumerate() {
        // SAFETY: the memset writes inside the `pattern.len() * count` bytes from `destination`. By
        // this function's contract they are live, and nothing else accesses them.
        let done = unsafe { enqueue(context, destination, memset, stream) };
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

/// # Safety
/// The memset writes only live memory that nothing else accesses, and the stream is live.
unsafe fn enqueue(
    context: &Context,
    destination: DeviceAddress,
    memset: Memset,
    stream: RawStream,
) -> DriverResult<()> {
    const WIDTH: usize = 1;
    let (library, stream) = (context.library(), stream::handle(stream));
    let Memset {
        offset,
        pitch,
        value,
        count,
    } = memset;
    let start = destination.0 + offset as u64;
    let dense = pitch == value.len();
    context.enqueue(|| match (value, dense) {
        // SAFETY: by this function's contract the range is live and exclusive. `memsets` aligned
        // each value to its size, and chose a pitch that keeps the alignment.
        (Value::One(value), true) => unsafe { library.cuMemsetD8Async(start, value, count, stream) },
        // SAFETY: as above.
        (Value::Two(value), true) => unsafe { library.cuMemsetD16Async(start, value, count, stream) },
        // SAFETY: as above.
        (Value::Four(value), true) => unsafe { library.cuMemsetD32Async(start, value, count, stream) },
        // SAFETY: as above.
        (Value::One(value), false) => unsafe {
            library.cuMemsetD2D8Async(start, pitch, value, WIDTH, count, stream)
        },
        // SAFETY: as above.
        (Value::Two(value), false) => unsafe {
            library.cuMemsetD2D16Async(start, pitch, value, WIDTH, count, stream)
        },
        // SAFETY: as above.
        (Value::Four(value), false) => unsafe {
            library.cuMemsetD2D32Async(start, pitch, value, WIDTH, count, stream)
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(memsets(WHOLE, pattern, 5).count(), 1, "{pattern:?}");
        }
        assert_eq!(memsets(WHOLE, &1.5_f64.to_ne_bytes(), 5).count(), 2);
    }
}
