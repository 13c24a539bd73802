//! Sets of bytes of a variable.

use std::ops::Range;

/// A set of bytes: ranges in order, with a gap between any two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bytes(Vec<Range<u64>>);

impl Bytes {
    /// The bytes of an access at this offset; no byte if the offset or the width is not known.
    pub(super) fn of_access(offset: i64, width: Option<u64>) -> Self {
        let mut bytes = Self::default();
        if let (Ok(start), Some(width)) = (u64::try_from(offset), width)
            && let Some(end) = start.checked_add(width)
        {
            bytes.add(&(start..end));
        }
        bytes
    }

    /// The bytes of a variable of this size.
    pub(super) fn of_size(size: u64) -> Self {
        let mut bytes = Self::default();
        bytes.add(&(0..size));
        bytes
    }

    fn add(&mut self, range: &Range<u64>) {
        if range.is_empty() {
            return;
        }
        // The ranges that touch the new one become a part of it.
        let first = self.0.partition_point(|known| known.end < range.start);
        let last = self.0.partition_point(|known| known.start <= range.end);
        let mut whole = range.clone();
        for known in &self.0[first..last] {
            whole = whole.start.min(known.start)..whole.end.max(known.end);
        }
        self.0.splice(first..last, [whole]);
    }

    pub(super) fn add_all(&mut self, other: &Self) {
        other.0.iter().for_each(|range| self.add(range));
    }

    pub(super) fn contains(&self, other: &Self) -> bool {
        let holds = |range: &Range<u64>| {
            let known = self.0.iter();
            known
                .into_iter()
                .any(|known| known.start <= range.start && range.end <= known.end)
        };
        other.0.iter().all(holds)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes that are in both sets.
    pub(super) fn common(&self, other: &Self) -> Self {
        let mut common = Self::default();
        for a in &self.0 {
            for b in &other.0 {
                common.add(&(a.start.max(b.start)..a.end.min(b.end)));
            }
        }
        common
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All operations agree with sets of single bytes.
    #[test]
    fn ranges_agree_with_sets_of_bytes() {
        use std::collections::BTreeSet;

        let mut random = super::super::random_mutants::Random(7);
        for _ in 0..300 {
            let mut make = || {
                let (mut bytes, mut set) = (Bytes::default(), BTreeSet::new());
                for _ in 0..random.below(6) {
                    let (start, width) = (random.below(24) as u64, random.below(6) as u64);
                    let start_signed = i64::try_from(start).unwrap();
                    bytes.add_all(&Bytes::of_access(start_signed, Some(width)));
                    set.extend(start..start + width);
                }
                (bytes, set)
            };
            let ((a, a_set), (b, b_set)) = (make(), make());
            let listed = |bytes: &Bytes| bytes.0.iter().cloned().flatten().collect::<BTreeSet<u64>>();
            assert_eq!(listed(&a), a_set);
            assert!(a.0.windows(2).all(|pair| pair[0].end < pair[1].start), "{a:?}");
            assert_eq!(a.contains(&b), a_set.is_superset(&b_set), "{a:?} {b:?}");
            assert_eq!(listed(&a.common(&b)), &a_set & &b_set);
            assert_eq!(a.is_empty(), a_set.is_empty());
        }
        assert!(Bytes::of_access(-4, Some(4)).is_empty());
        assert!(Bytes::of_access(0, None).is_empty());
        assert!(Bytes::of_access(i64::MAX, Some(u64::MAX)).is_empty());
        assert_eq!(Bytes::of_size(8), Bytes::of_access(0, Some(8)));
    }
}
