//! Lanes: places side by side in a row, for spans that overlap, such as branches of a graph or
//! scopes inside scopes.

use super::Span;

/// The lane of each span, and the number of lanes. Spans are sorted by start, then the longer
/// first. Spans of one lane follow each other; with `nest` a span may also lie inside another.
pub(super) fn lanes(spans: &[Span], nest: bool) -> (Vec<usize>, usize) {
    // For each lane: the open spans, as start and end, with the innermost span last.
    let mut open: Vec<Vec<(u64, u64)>> = Vec::new();
    let lane_of = |span: &Span| {
        for (lane, open) in open.iter_mut().enumerate() {
            while open.last().is_some_and(|(_, end)| *end <= span.start_ns) {
                open.pop();
            }
            // A span of no length at the start of another span comes before it, and overlaps
            // nothing.
            let before = |start: u64| start == span.start_ns && span.end_ns == span.start_ns;
            let fits = |&(start, end): &(u64, u64)| before(start) || (nest && span.end_ns <= end);
            if open.last().is_none_or(fits) {
                open.push((span.start_ns, span.end_ns));
                return lane;
            }
        }
        open.push(vec![(span.start_ns, span.end_ns)]);
        open.len() - 1
    };
    let lanes: Vec<usize> = spans.iter().map(lane_of).collect();
    let count = lanes.iter().max().map_or(1, |most| most + 1);
    (lanes, count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_rt_driver::Kind;

    fn lanes_of(spans: &[(u64, u64)], nest: bool) -> (Vec<usize>, usize) {
        let span = |&(start_ns, end_ns): &(u64, u64)| Span {
            kind: Kind::Stage,
            label: "".into(),
            row: 0,
            start_ns,
            end_ns,
            bytes: 0,
            waits_for: None,
        };
        lanes(&spans.iter().map(span).collect::<Vec<_>>(), nest)
    }

    #[test]
    fn a_span_that_overlaps_another_gets_a_lane_of_its_own() {
        assert_eq!(lanes_of(&[], false), (vec![], 1));
        assert_eq!(lanes_of(&[(0, 10), (10, 20)], false), (vec![0, 0], 1));
        assert_eq!(
            lanes_of(&[(0, 10), (2, 8), (9, 12), (12, 13)], false),
            (vec![0, 1, 1, 0], 2)
        );
        assert_eq!(lanes_of(&[(5, 10), (5, 5), (7, 7)], false), (vec![0, 0, 1], 2));
    }

    #[test]
    fn nested_spans_may_share_a_lane_and_crossing_spans_may_not() {
        assert_eq!(
            lanes_of(&[(0, 10), (2, 8), (3, 8), (8, 9)], true),
            (vec![0; 4], 1)
        );
        assert_eq!(lanes_of(&[(0, 10), (9, 12)], true), (vec![0, 1], 2));
    }
}
