// H42 (E0046, E0277): a type of the program's own indexes memory of a stream, past its end.
// Twin: h11_overlapping_views
#![forbid(unsafe_code)]
use cuda_rt::RangeIndex;

struct Everything;

impl RangeIndex for Everything {
    fn within(self, _: usize) -> std::ops::Range<usize> {
        0..usize::MAX
    }
}

fn main() {}
