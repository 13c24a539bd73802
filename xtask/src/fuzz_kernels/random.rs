//! Pseudo-random numbers (SplitMix64), the same for one seed on every machine.

/// The generator.
pub(super) struct Random(u64);

impl Random {
    /// The generator for the case `number`. A generator for each case makes the case independent of
    /// earlier cases.
    pub(super) fn of_case(seed: u64, number: usize) -> Self {
        let mut random = Self(seed ^ (number as u64 + 1).wrapping_mul(0xa076_1d64_78bd_642f));
        random.bits();
        random
    }

    pub(super) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.bits() >> 11) as usize % end
    }

    /// A number from `start` to `last`.
    pub(super) fn within(&mut self, start: usize, last: usize) -> usize {
        start + self.below(last - start + 1)
    }

    /// Returns true with the probability `times` in `of`.
    pub(super) fn chance(&mut self, times: usize, of: usize) -> bool {
        self.below(of) < times
    }

    pub(super) fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    pub(super) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.bits() as u8).collect()
    }
}
