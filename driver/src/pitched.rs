//! [`CopyExtent`] and [`Pitch`]: the rows of bytes that a 2-D or 3-D copy moves.

use std::ops::Range;

/// The size of a 2-D or 3-D copy: `depth` planes of `height` rows of `width_bytes` bytes. A 2-D
/// copy has one plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyExtent {
    /// Bytes of a row.
    pub width_bytes: usize,
    /// Rows of a plane.
    pub height: usize,
    /// Planes.
    pub depth: usize,
}

/// The distances between the rows of one side of a 2-D or 3-D copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pitch {
    /// Bytes from the start of a row to the start of the next.
    pub bytes: usize,
    /// Rows from the start of a plane to the start of the next.
    pub rows: usize,
}

impl CopyExtent {
    /// The bytes that a copy moves. Saturates.
    pub fn bytes(self) -> usize {
        self.width_bytes
            .saturating_mul(self.height)
            .saturating_mul(self.depth)
    }

    /// The bytes from the first byte that a copy touches on a side with this pitch to the end of
    /// the last. Saturates.
    pub fn span_bytes(self, pitch: Pitch) -> usize {
        if self.bytes() == 0 {
            return 0;
        }
        let rows = (self.depth - 1).saturating_mul(pitch.rows);
        rows.saturating_add(self.height - 1)
            .saturating_mul(pitch.bytes)
            .saturating_add(self.width_bytes)
    }

    /// The offset in bytes of each row on a side with this pitch, in order.
    pub fn rows(self, pitch: Pitch) -> impl Iterator<Item = usize> {
        (0..self.depth).flat_map(move |plane| {
            let first = plane.saturating_mul(pitch.rows);
            (0..self.height).map(move |row| first.saturating_add(row).saturating_mul(pitch.bytes))
        })
    }

    /// The bytes that a copy touches on a side with this pitch, in order. Rows that adjoin are one
    /// range. `start` is the address of the first row.
    pub fn touched(self, start: u64, pitch: Pitch) -> impl Iterator<Item = Range<u64>> {
        // Rows without a gap are one row.
        let joined = if self.height > 1 && self.width_bytes != pitch.bytes {
            self
        } else {
            let plane = self.width_bytes.saturating_mul(self.height);
            let planes_adjoin = pitch.rows.saturating_mul(pitch.bytes) == plane;
            let (planes_as_one, depth) = if planes_adjoin {
                (self.depth, 1)
            } else {
                (1, self.depth)
            };
            Self {
                width_bytes: plane.saturating_mul(planes_as_one),
                height: 1,
                depth,
            }
        };
        let empty = self.bytes() == 0;
        joined.rows(pitch).filter(move |_| !empty).map(move |offset| {
            let start = start.saturating_add(offset as u64);
            start..start.saturating_add(joined.width_bytes as u64)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(extent: (usize, usize, usize), pitch: (usize, usize)) -> Vec<(u64, u64)> {
        let extent = CopyExtent {
            width_bytes: extent.0,
            height: extent.1,
            depth: extent.2,
        };
        let pitch = Pitch {
            bytes: pitch.0,
            rows: pitch.1,
        };
        let ranges: Vec<_> = extent.touched(100, pitch).collect();
        let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        assert_eq!(bytes, extent.bytes() as u64);
        if let Some(last) = ranges.last() {
            assert_eq!(last.end, 100 + extent.span_bytes(pitch) as u64);
        }
        ranges.iter().map(|range| (range.start, range.end)).collect()
    }

    #[test]
    fn the_touched_bytes_are_the_rows_and_no_gap() {
        assert_eq!(ranges((4, 3, 1), (10, 3)), [(100, 104), (110, 114), (120, 124)]);
        assert_eq!(
            ranges((2, 2, 2), (3, 4)),
            [(100, 102), (103, 105), (112, 114), (115, 117)]
        );
        assert_eq!(ranges((2, 1, 3), (5, 2)), [(100, 102), (110, 112), (120, 122)]);
    }

    #[test]
    fn rows_that_adjoin_are_one_range() {
        assert_eq!(ranges((4, 3, 1), (4, 3)), [(100, 112)]);
        assert_eq!(ranges((4, 3, 2), (4, 3)), [(100, 124)]);
        assert_eq!(ranges((4, 3, 2), (4, 5)), [(100, 112), (120, 132)]);
        assert_eq!(ranges((4, 1, 1), (9, 7)), [(100, 104)]);
    }

    #[test]
    fn an_extent_of_nothing_touches_nothing() {
        for extent in [(0, 3, 2), (3, 0, 2), (3, 2, 0)] {
            assert_eq!(ranges(extent, (8, 8)), []);
        }
    }
}
