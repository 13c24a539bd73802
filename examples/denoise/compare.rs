//! Comparison of two results, byte for byte.

use std::io::{self, BufRead};

/// The offset of the first byte in which two streams differ, if any. If one stream ends earlier,
/// they differ at its end.
pub(super) fn first_difference(mut left: impl BufRead, mut right: impl BufRead) -> io::Result<Option<u64>> {
    let mut offset = 0;
    loop {
        let (a, b) = (left.fill_buf()?, right.fill_buf()?);
        if let Some(at) = a.iter().zip(b).position(|(a, b)| a != b) {
            return Ok(Some(offset + at as u64));
        }
        let common = a.len().min(b.len());
        if common == 0 {
            return Ok((a.len() != b.len()).then_some(offset));
        }
        left.consume(common);
        right.consume(common);
        offset += common as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    fn compare(left: &[u8], right: &[u8]) -> Option<u64> {
        // The buffers have different sizes, so that their ends fall on different bytes.
        first_difference(
            BufReader::with_capacity(3, left),
            BufReader::with_capacity(4, right),
        )
        .unwrap()
    }

    #[test]
    fn only_different_streams_differ_and_the_first_difference_is_found() {
        assert_eq!(compare(b"", b""), None);
        assert_eq!(compare(b"0123456789", b"0123456789"), None);
        assert_eq!(compare(b"0123456789", b"0123x5678y"), Some(4));
        assert_eq!(compare(b"0123456789", b"012345678"), Some(9));
        assert_eq!(compare(b"", b"0"), Some(0));
    }
}
