//! [`SizeClass`]: the sizes of the blocks that a device's pool keeps for reuse.

/// A size of blocks, in bytes. Buffers whose lengths are similar have blocks of one size, and reuse
/// each other's.
///
/// | buffer | sizes | waste |
/// |---|---|---|
/// | up to 8 KiB | multiples of 512 bytes | less than 512 bytes |
/// | up to 512 MiB | eight to each power of two | less than an eighth of the buffer |
/// | more | multiples of 32 MiB | less than 32 MiB |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SizeClass {
    bytes: usize,
    index: usize,
}

/// The binary logarithms of the least and of the largest distance between two sizes.
const LEAST: u32 = 9;
const MOST: u32 = 25;

impl SizeClass {
    /// Number of the sizes up to 512 MiB.
    pub(super) const COMMON: usize = (MOST - LEAST) as usize * 8 + 16;

    /// The size of a block for `bytes` bytes, at least 1 and at most `isize::MAX`.
    #[inline]
    pub(super) fn of(bytes: usize) -> Self {
        let last = bytes - 1;
        let power = usize::BITS - last.leading_zeros();
        let distance = power.saturating_sub(4).clamp(LEAST, MOST);
        let units = (last >> distance) + 1;
        Self {
            bytes: units << distance,
            index: (distance - LEAST) as usize * 8 + units - 1,
        }
    }

    /// The size at a place among [`COMMON`](Self::COMMON) places.
    pub(super) fn common_at(place: usize) -> Self {
        // The first 16 sizes have the least distance, and each 8 that follow twice the distance
        // before.
        let doubled = (place / 8).saturating_sub(1);
        Self {
            bytes: (place - doubled * 8 + 1) << (LEAST as usize + doubled),
            index: place,
        }
    }

    /// The size of the block.
    #[inline]
    pub(super) fn bytes(self) -> usize {
        self.bytes
    }

    /// The place of a size up to 512 MiB among [`COMMON`](Self::COMMON) places.
    #[inline]
    pub(super) fn common(self) -> Option<usize> {
        (self.index < Self::COMMON).then_some(self.index)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::SizeClass;

    #[test]
    fn each_size_has_a_place_of_its_own_and_wastes_less_than_stated() {
        let mut places = HashMap::new();
        let powers = (0..40).map(|power| 1_usize << power);
        let lengths = powers.flat_map(|power| {
            let near = [power - 1, power, power + 1, power + power / 2, power + power / 3];
            near.into_iter()
                .chain((0..32).map(move |part| power + power / 32 * part))
        });
        for bytes in lengths.filter(|bytes| *bytes > 0) {
            let class = SizeClass::of(bytes);
            let waste = class.bytes() - bytes;
            let most = match bytes {
                ..=0x2000 => 512,
                0x2001..=0x2000_0000 => bytes.div_ceil(8),
                _ => 32 << 20,
            };
            assert!(waste < most, "{bytes} -> {class:?}");
            assert!(class.bytes().is_multiple_of(512));
            assert_eq!(SizeClass::of(class.bytes()), class, "a block keeps its size");
            assert_eq!(class.common().is_some(), bytes <= 512 << 20);
            if let Some(place) = class.common() {
                assert_eq!(SizeClass::common_at(place), class);
                assert_eq!(*places.entry(place).or_insert(class.bytes()), class.bytes());
            }
        }
        let sizes: std::collections::HashSet<_> = places.values().collect();
        assert_eq!(sizes.len(), places.len(), "two places have one size");
        assert!(SizeClass::of(isize::MAX as usize).bytes() >= isize::MAX as usize);
    }
}
