//! [`SharedSum`]: the text of a compile error with numbers that only the compiler knows.

use crate::rt::MAX_SHARED_BYTES;

const ROOM: usize = 1024;

/// The arguments of a kernel in shared memory: their bytes together, and a text that names each.
///
/// ```
/// use device_std::rt::SharedSum;
///
/// const SUM: SharedSum = SharedSum::of(&[("tile", 131_072), ("halo", 110_592)]);
/// assert!(!SUM.fits());
/// assert_eq!(
///     SUM.text(),
///     "H32: a block has 232448 bytes of shared memory (227 KiB) at most, and these arguments \
///      have 241664 together: `tile` 131072, `halo` 110592; give them fewer elements"
/// );
/// ```
#[derive(Debug)]
pub struct SharedSum {
    bytes: usize,
    text: [u8; ROOM],
    len: usize,
}

impl SharedSum {
    /// The sum of arguments, each with its name and its bytes.
    ///
    /// # Panics
    /// If the sum does not fit a `usize`. No argument has more than [`MAX_SHARED_BYTES`].
    pub const fn of(arguments: &[(&str, usize)]) -> Self {
        let mut sum = Self {
            bytes: 0,
            text: [0; ROOM],
            len: 0,
        };
        let mut at = 0;
        while at < arguments.len() {
            sum.bytes += arguments[at].1;
            at += 1;
        }
        sum.push("H32: a block has ");
        sum.push_number(MAX_SHARED_BYTES);
        sum.push(" bytes of shared memory (227 KiB) at most, and these arguments have ");
        sum.push_number(sum.bytes);
        sum.push(" together: ");
        at = 0;
        while at < arguments.len() {
            let (name, bytes) = arguments[at];
            sum.push(if at == 0 { "`" } else { ", `" });
            sum.push(name);
            sum.push("` ");
            sum.push_number(bytes);
            at += 1;
        }
        sum.push("; give them fewer elements");
        sum
    }

    /// Whether some GPU has so much for a block.
    pub const fn fits(&self) -> bool {
        self.bytes <= MAX_SHARED_BYTES
    }

    /// The text. Long lists of names are cut off.
    pub const fn text(&self) -> &str {
        match core::str::from_utf8(self.text.split_at(self.len).0) {
            Ok(text) => text,
            Err(_) => {
                "H32: a block has 227 KiB of shared memory at most, and the arguments have more together"
            }
        }
    }

    const fn push(&mut self, part: &str) {
        let part = part.as_bytes();
        let mut at = 0;
        while at < part.len() && self.len < ROOM {
            self.text[self.len] = part[at];
            self.len += 1;
            at += 1;
        }
    }

    const fn push_number(&mut self, number: usize) {
        if number >= 10 {
            self.push_number(number / 10);
        }
        let (_, from) = "0123456789".split_at(number % 10);
        self.push(from.split_at(1).0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_up_to_the_limit_fits() {
        assert!(SharedSum::of(&[]).fits());
        assert!(SharedSum::of(&[("a", MAX_SHARED_BYTES - 16), ("b", 16)]).fits());
        assert!(!SharedSum::of(&[("a", MAX_SHARED_BYTES), ("b", 16)]).fits());
    }

    #[test]
    fn a_list_that_is_too_long_is_cut_off() {
        let long = "a".repeat(ROOM);
        let sum = SharedSum::of(&[(&long, 16)]);
        assert_eq!(sum.text().len(), ROOM);
        // Within a letter of two bytes, no text is left.
        let wide = "ä".repeat(ROOM);
        let texts = [
            SharedSum::of(&[(&wide, 16)]),
            SharedSum::of(&[("a", 1), (&wide, 16)]),
        ];
        assert!(
            texts
                .iter()
                .all(|sum| sum.text().starts_with("H32: a block has "))
        );
    }
}
