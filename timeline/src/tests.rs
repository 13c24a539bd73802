//! Tests of figures, gaps and writers, with spans made by hand.

use super::*;

/// A timeline with the rows `up`, `compute`, `down` and the thread `main`.
fn rows() -> Vec<Row> {
    let row = |name: &str, is_host| Row {
        name: name.into(),
        is_host,
    };
    vec![
        row("up", false),
        row("compute", false),
        row("down", false),
        row("main", true),
    ]
}

fn span(kind: Kind, row: usize, start_ns: u64, end_ns: u64) -> Span {
    Span {
        kind,
        label: kind.name().into(),
        row,
        start_ns,
        end_ns,
        bytes: 0,
        waits_for: None,
    }
}

fn wait(row: usize, start_ns: u64, end_ns: u64, on: usize) -> Span {
    Span {
        waits_for: Some(on),
        ..span(Kind::Wait, row, start_ns, end_ns)
    }
}

/// Three items that take 10, 20 and 10 on the three streams, in 80 altogether: full overlap once
/// the pipeline is filled.
fn pipeline() -> Timeline {
    let mut spans = vec![wait(1, 0, 10, 0), wait(2, 0, 30, 1)];
    for item in 0..3 {
        let kernel = 10 + 20 * item;
        spans.push(span(Kind::CopyToDevice, 0, 10 * item, 10 * item + 10));
        spans.push(span(Kind::Kernel, 1, kernel, kernel + 20));
        spans.push(span(Kind::CopyToHost, 2, kernel + 20, kernel + 30));
        if item > 0 {
            spans.push(wait(2, kernel + 10, kernel + 20, 1));
        }
    }
    spans.push(span(Kind::Stage, 3, 0, 40));
    spans.push(span(Kind::HostWait, 3, 20, 40));
    Timeline::new("a device", Source::Model, rows(), spans)
}

#[test]
fn figures_follow_their_definitions() {
    let figures = pipeline().figures();
    assert_eq!((figures.wall_ns, figures.serial_ns), (80, 3 * 40));
    assert_eq!((figures.busy_ns, figures.idle_ns()), (80, 0));
    assert_eq!(figures.overlap_ratio(), Some(1.0 - 80.0 / 120.0));
    let bound = figures.bound().unwrap();
    assert_eq!(
        (bound.engine, bound.busy_ns, bound.active_ns),
        (Engine::Compute, 60, 60)
    );
    assert_eq!(bound.steady_utilisation(), Some(1.0));
    assert_eq!(figures.efficiency(), Some(0.75));
    assert_eq!(figures.utilisation(Engine::ToHost), Some(30.0 / 80.0));
    let of_rows: Vec<_> = figures
        .rows
        .iter()
        .map(|r| (r.busy_ns, r.waiting_ns, r.spans))
        .collect();
    assert_eq!(
        of_rows,
        [(30, 0, 3), (60, 10, 3), (30, 50, 3), (20, 20, 1)],
        "a host thread that waits within its stage does not work"
    );
}

#[test]
fn idle_time_does_not_make_the_overlap_ratio_negative() {
    // A copy and a kernel overlap for 10 of 40; then the device idles for 60.
    let spans = vec![
        span(Kind::CopyToDevice, 0, 0, 20),
        span(Kind::Kernel, 1, 10, 30),
        wait(1, 30, 90, 0),
        span(Kind::Kernel, 1, 90, 100),
    ];
    let timeline = Timeline::new("a device", Source::Events, rows(), spans);
    let figures = timeline.figures();
    assert_eq!(
        (figures.wall_ns, figures.busy_ns, figures.serial_ns),
        (100, 40, 50)
    );
    assert_eq!(
        (figures.overlap_ratio(), figures.idle_ns()),
        (Some(1.0 - 40.0 / 50.0), 60)
    );
    for text in [figures.to_string(), svg(&timeline)] {
        assert!(text.contains("overlap ratio 0.200, idle 60 ns"), "{text}");
    }
}

#[test]
fn overlapping_spans_of_one_engine_count_once_as_busy() {
    let spans = vec![
        span(Kind::Kernel, 0, 0, 60),
        span(Kind::Fill, 1, 40, 100),
        span(Kind::Kernel, 2, 50, 55),
    ];
    let figures = Timeline::new("a device", Source::Events, rows(), spans).figures();
    assert_eq!(figures.bound().unwrap().busy_ns, 100);
    assert_eq!(figures.efficiency(), Some(1.0));
    assert_eq!(figures.serial_ns, 125);
}

#[test]
fn an_empty_timeline_has_sensible_figures_and_pictures() {
    let empty = Timeline::new("a device", Source::Model, rows(), Vec::new());
    let figures = empty.figures();
    assert_eq!(
        (figures.overlap_ratio(), figures.efficiency(), figures.bound()),
        (None, None, None)
    );
    assert!(empty.gaps().is_empty());
    let text = format!("{figures}{}", empty.gantt(80));
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    let (mut svg, mut trace) = (Vec::new(), Vec::new());
    empty.write_svg(&mut svg).unwrap();
    empty.write_trace(&mut trace).unwrap();
    assert!(!String::from_utf8(svg).unwrap().contains("NaN"));
}

#[test]
fn a_window_cuts_spans_that_reach_out_of_it() {
    let steady = pipeline().window(20..60).figures();
    assert_eq!(
        (steady.wall_ns, steady.utilisation(Engine::Compute)),
        (40, Some(1.0))
    );
    assert_eq!(steady.utilisation(Engine::ToDevice), Some(0.25));
    assert_eq!(pipeline().active_ns(Engine::ToHost), Some(30..80));
}

#[test]
fn totals_are_counted_for_each_label() {
    let mut timeline = pipeline();
    timeline.spans[3].label = "other".into();
    assert_eq!(timeline.totals(Kind::CopyToDevice), [("copy to device", 3, 30)]);
    assert_eq!(
        timeline
            .totals(Kind::Kernel)
            .iter()
            .map(|(_, n, ns)| n * 1000 + *ns as usize)
            .sum::<usize>(),
        3060
    );
}

#[test]
fn each_gap_ends_with_its_cause() {
    let spans = vec![
        span(Kind::CopyToDevice, 0, 0, 10),
        span(Kind::CopyToDevice, 0, 10, 50),
        span(Kind::Kernel, 1, 10, 30),
        // The stream waited for the second copy, and went on at once.
        wait(1, 30, 50, 0),
        span(Kind::Kernel, 1, 50, 60),
        // The wait was over at 70, but the engine was not free until 90.
        span(Kind::Kernel, 2, 60, 90),
        wait(1, 60, 70, 0),
        span(Kind::Kernel, 1, 90, 95),
        // The device was ready; the host came late.
        span(Kind::Stage, 3, 90, 110),
        span(Kind::Kernel, 1, 120, 130),
        // Here is no gap.
        span(Kind::Kernel, 1, 130, 140),
        // Another stream held the engine for a part of the gap, but not until its end.
        span(Kind::Kernel, 2, 140, 150),
        span(Kind::Kernel, 1, 180, 190),
    ];
    let timeline = Timeline::new("a device", Source::Model, rows(), spans);
    let at = |kind, start_ns| {
        let found = |span: &Span| span.kind == kind && span.start_ns == start_ns;
        timeline.spans().iter().position(found).unwrap()
    };
    let gaps = timeline.gaps();
    let found: Vec<_> = gaps
        .iter()
        .map(|gap| (gap.row, gap.start_ns, gap.end_ns, gap.cause))
        .collect();
    let copy = Some(at(Kind::CopyToDevice, 10));
    let (kernel, stage) = (at(Kind::Kernel, 60), Some(at(Kind::Stage, 90)));
    assert_eq!(
        found,
        [
            (1, 30, 50, Cause::Wait { span: copy }),
            (1, 60, 90, Cause::Engine { span: kernel }),
            (1, 95, 120, Cause::Host { span: stage }),
            (1, 140, 180, Cause::Host { span: None }),
            (
                2,
                90,
                140,
                Cause::Engine {
                    span: at(Kind::Kernel, 130)
                }
            ),
        ]
    );
    assert_eq!(timeline.explain(&gaps[0]), "waited for `copy to device` of up");
    assert_eq!(gaps[2].before, at(Kind::Kernel, 120));
}

#[test]
fn measured_moments_need_not_meet_to_the_nanosecond() {
    let spans = vec![
        span(Kind::CopyToDevice, 0, 0, 50_000),
        span(Kind::Kernel, 1, 0, 10_000),
        wait(1, 10_000, 50_000, 0),
        span(Kind::Kernel, 1, 53_000, 60_000),
    ];
    let cause = |source| Timeline::new("a device", source, rows(), spans.clone()).gaps()[0].cause;
    assert_eq!(cause(Source::Events), Cause::Wait { span: Some(0) });
    assert_eq!(cause(Source::Model), Cause::Host { span: None });
}

#[test]
fn a_wait_that_ended_before_a_gap_is_not_its_cause() {
    let spans = vec![
        span(Kind::CopyToDevice, 0, 0, 50_000),
        wait(1, 40_000, 50_000, 0),
        span(Kind::Kernel, 1, 50_000, 52_000),
        span(Kind::Kernel, 1, 54_000, 60_000),
    ];
    let gaps = Timeline::new("a device", Source::Events, rows(), spans).gaps();
    assert_eq!((gaps.len(), gaps[0].cause), (1, Cause::Host { span: None }));
}

#[test]
#[should_panic(expected = "a row that does not exist")]
fn a_span_needs_a_row() {
    Timeline::new(
        "a device",
        Source::Model,
        rows(),
        vec![span(Kind::Kernel, 4, 0, 1)],
    );
}

fn trace(timeline: &Timeline) -> serde_json::Value {
    let mut bytes = Vec::new();
    timeline.write_trace(&mut bytes).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

#[test]
fn a_trace_follows_the_trace_event_format() {
    let mut timeline = pipeline();
    timeline.rows[1].name = "quote \" and \\ and \n".into();
    // Branches of a graph that overlap go to different threads: viewers take overlap in one thread
    // for nesting.
    timeline.spans.push(span(Kind::Kernel, 1, 12, 18));
    timeline.spans.push(span(Kind::Stage, 3, 30, 50));
    let timeline = Timeline::new("a \"device\"", Source::Model, timeline.rows, timeline.spans);
    let trace = trace(&timeline);
    let events = trace["traceEvents"].as_array().unwrap();
    let mut threads: std::collections::BTreeMap<(u64, u64), Vec<(f64, f64)>> = Default::default();
    let mut named = std::collections::BTreeSet::new();
    let (mut starts, mut ends) = (Vec::new(), Vec::new());
    for event in events {
        let number = |key: &str| {
            event[key]
                .as_f64()
                .unwrap_or_else(|| panic!("no {key} in {event}"))
        };
        let place = (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
        assert!(event["name"].is_string(), "{event}");
        match event["ph"].as_str().unwrap() {
            "M" if event["name"] == "thread_name" => {
                assert!(named.insert(place), "named once");
                assert!(event["args"]["name"].is_string());
            }
            "M" => assert!(event["args"].is_object()),
            "X" => {
                assert!(number("ts") >= 0.0 && number("dur") >= 0.0 && event["cat"].is_string());
                threads
                    .entry(place)
                    .or_default()
                    .push((number("ts"), number("ts") + number("dur")));
            }
            "s" => starts.push((event["id"].as_u64().unwrap(), number("ts"))),
            "f" => {
                assert_eq!(
                    event["bp"], "e",
                    "an arrow ends at the span around it, not at the next span"
                );
                ends.push((event["id"].as_u64().unwrap(), number("ts")));
            }
            other => panic!("{other} is not used"),
        }
    }
    assert_eq!(
        threads.values().map(Vec::len).sum::<usize>(),
        timeline.spans().len()
    );
    for (place, spans) in &threads {
        assert!(named.contains(place), "{place:?} has a name");
        for pair in spans.windows(2) {
            assert!(pair[0].0 <= pair[1].0, "monotone: {pair:?}");
            let nested = pair[1].1 <= pair[0].1 + 1e-9;
            assert!(
                pair[1].0 >= pair[0].1 - 1e-9 || (nested && place.0 == 2),
                "no overlap: {pair:?}"
            );
        }
    }
    assert_eq!(starts.len(), 2, "one for each gap that ended with a wait");
    for ((id, from), (other, to)) in starts.iter().zip(&ends) {
        assert!(id == other && from < to);
    }
}

/// Checks that every element is closed, in order, and that text holds no raw markup. Returns the
/// number of elements.
fn check_xml(text: &str) -> usize {
    let (mut open, mut count, mut rest) = (Vec::new(), 0, text);
    while let Some(at) = rest.find('<') {
        let (before, tag) = (&rest[..at], &rest[at + 1..]);
        assert!(!before.contains('>'), "raw > in {before}");
        for entity in before.split('&').skip(1) {
            assert!(
                ["amp;", "lt;", "gt;", "quot;"]
                    .iter()
                    .any(|known| entity.starts_with(known)),
                "raw & in {before}"
            );
        }
        let end = tag.find('>').expect("a tag ends");
        let (tag, after) = (&tag[..end], &tag[end + 1..]);
        rest = after;
        assert_eq!(tag.matches('"').count() % 2, 0, "quotes of {tag}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
            continue;
        }
        count += 1;
        if !tag.ends_with('/') {
            open.push(tag.split([' ', '\n']).next().unwrap());
        }
    }
    assert!(open.is_empty(), "{open:?}");
    count
}

fn svg(timeline: &Timeline) -> String {
    let mut bytes = Vec::new();
    timeline.write_svg(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_picture_is_well_formed_and_describes_each_span() {
    let mut timeline = pipeline();
    timeline.rows[0].name = "<up & \"away\">".into();
    timeline.spans[0].label = "a::<b>::c\u{1}".into();
    let picture = svg(&timeline);
    assert!(check_xml(&picture) > 30);
    assert!(picture.contains("&lt;up &amp; &quot;away&quot;&gt;"));
    assert!(
        !picture.contains("<script") && !picture.contains("href"),
        "stands alone"
    );
    assert!(picture.contains("MODELLED") && picture.contains("efficiency 75.0 %"));
    assert_eq!(picture.matches("<g><title>").count(), timeline.spans().len());
    assert!(picture.contains("waited for `kernel` of compute"));
    assert!(
        picture.contains("<title>kernel (kernel)\n20 ns, from 10 ns</title>"),
        "lines"
    );
}

/// The value of an attribute in the first tag of `text` that has it.
fn attribute(text: &str, name: &str) -> f64 {
    let rest = &text[text.find(&format!(" {name}=\"")).unwrap() + name.len() + 3..];
    rest[..rest.find('"').unwrap()].parse().unwrap()
}

#[test]
fn names_and_bars_have_room() {
    for name in [
        "copy",
        "download `Download`",
        "a name that is far too long for any picture",
    ] {
        let mut timeline = pipeline();
        timeline.rows[0].name = name.into();
        let picture = svg(&timeline);
        let (before, _) = picture.split_once(&format!(">{}", &name[..4])).unwrap();
        let tag = &before[before.rfind("<text").unwrap()..];
        // A character of this size of Helvetica takes 6.6 px, on average.
        let (end, shown) = (attribute(tag, "x"), name.len().min(32));
        assert!(
            end - shown as f64 * 6.6 >= 15.9,
            "{name} begins left of the picture"
        );
        assert_eq!(picture.contains(&format!(">{name}<")), name.len() <= 32);
        for bar in picture.split("<g><title>").skip(1) {
            assert!(attribute(bar, "x") >= end, "{bar} covers {name}");
            let right = attribute(bar, "x") + attribute(bar, "width");
            assert!(right <= 1120.0 - 76.0 + 0.41, "{bar}");
        }
    }
}

#[test]
fn a_long_recording_is_a_small_picture() {
    let many = (0..200_000)
        .map(|i| span(Kind::Kernel, 1, i * 10, i * 10 + 9))
        .collect();
    let picture = svg(&Timeline::new("a device", Source::Model, rows(), many));
    assert!(picture.len() < 600_000, "{} bytes", picture.len());
    check_xml(&picture);
}

#[test]
fn a_chart_fits_its_width() {
    for width in [0, 40, 80, 100, 237] {
        for ascii in [false, true] {
            let mut timeline = pipeline();
            timeline.rows[2].name = "a name that is far too long for this".into();
            let chart = timeline.gantt(width).ascii(ascii).to_string();
            assert_eq!(chart.lines().count(), 6, "{chart}");
            for line in chart.lines() {
                assert!(line.chars().count() <= width.max(40), "{line}");
            }
            assert!(!ascii || chart.is_ascii(), "{chart}");
        }
    }
}

#[test]
fn a_chart_shows_when_rows_worked() {
    let chart = pipeline().gantt(3 + 8 + 7 + 80).ascii(true).to_string();
    let bars: Vec<&str> = chart
        .lines()
        .map(|line| line.split('|').nth(1).unwrap_or(""))
        .collect();
    let expected = |parts: &[(char, usize)]| -> String {
        parts
            .iter()
            .flat_map(|(c, n)| std::iter::repeat_n(*c, *n))
            .collect()
    };
    assert_eq!(bars[0], expected(&[('U', 30), (' ', 50)]));
    assert_eq!(bars[1], expected(&[('.', 10), ('K', 60), (' ', 10)]));
    assert_eq!(
        bars[2],
        expected(&[('.', 30), ('D', 10), ('.', 10), ('D', 10), ('.', 10), ('D', 10)])
    );
    assert_eq!(bars[4], expected(&[('S', 20), ('.', 20), (' ', 40)]), "{chart}");
    let blocks = pipeline().gantt(58).ascii(false).to_string();
    assert!(
        blocks.contains('█') && blocks.contains('·') && blocks.contains("modelled"),
        "{blocks}"
    );
}
