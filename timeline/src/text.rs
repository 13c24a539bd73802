//! Times and sizes as text for readers.

use std::fmt;

/// A time in ns, displayed in a unit that fits its size.
///
/// ```
/// use cuda_rt_timeline::Ns;
///
/// assert_eq!(Ns(740).to_string(), "740 ns");
/// assert_eq!(Ns(1_250_000).to_string(), "1.250 ms");
/// ```
#[derive(Clone, Copy)]
pub struct Ns(pub u64);

impl fmt::Display for Ns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0 as f64;
        let (value, unit) = match self.0 {
            0..1_000 => return write!(f, "{} ns", self.0),
            1_000..1_000_000 => (ns / 1e3, "µs"),
            1_000_000..1_000_000_000 => (ns / 1e6, "ms"),
            _ => (ns / 1e9, "s"),
        };
        // Four digits tell neighbouring values apart.
        let decimals = match value {
            0.0..10.0 => 3,
            10.0..100.0 => 2,
            _ => 1,
        };
        write!(f, "{value:.decimals$} {unit}")
    }
}

/// A number of bytes, displayed in a decimal unit that fits its size, as rates are.
#[derive(Clone, Copy)]
pub(super) struct Bytes(pub(super) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        let (value, unit) = match self.0 {
            0..1_000 => return write!(f, "{} B", self.0),
            1_000..1_000_000 => (bytes / 1e3, "kB"),
            1_000_000..1_000_000_000 => (bytes / 1e6, "MB"),
            _ => (bytes / 1e9, "GB"),
        };
        let decimals = usize::from(value < 10.0);
        write!(f, "{value:.decimals$} {unit}")
    }
}

/// A step for an axis: 1, 2 or 5 times a power of ten. At most `most` steps fit into `length`.
pub(super) fn tick_ns(length_ns: u64, most: u64) -> u64 {
    let least = (length_ns / most.max(1)).max(1);
    let mut power = 1_u64;
    loop {
        for factor in [1, 2, 5] {
            let step = power.saturating_mul(factor);
            if step >= least {
                return step;
            }
        }
        power = power.saturating_mul(10);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_fits_the_time() {
        let shown = [0, 999, 1_000, 12_345, 999_900, 1_500_000, 2_000_000_000].map(|ns| Ns(ns).to_string());
        assert_eq!(
            shown,
            [
                "0 ns",
                "999 ns",
                "1.000 µs",
                "12.35 µs",
                "999.9 µs",
                "1.500 ms",
                "2.000 s"
            ]
        );
    }

    #[test]
    fn sizes_are_short() {
        let shown = [0, 999, 4_096, 230_400, 33_554_432].map(|bytes| Bytes(bytes).to_string());
        assert_eq!(shown, ["0 B", "999 B", "4.1 kB", "230 kB", "34 MB"]);
    }

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(
            [(100, 10), (101, 10), (1_000_000, 8), (0, 5), (7, 0)]
                .map(|(length, most)| tick_ns(length, most)),
            [10, 10, 200_000, 1, 10]
        );
        assert!(tick_ns(u64::MAX, 1) >= 10_000_000_000_000_000_000, "ends");
    }
}
