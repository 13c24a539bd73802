//! Tests of the live view, drawn to memory.

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;

fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

/// Draws the view of a run, and returns the screen's lines.
fn screen(live: &Live, (width, height): (u16, u16), elapsed: Duration) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| live.draw_after(frame, elapsed)).unwrap();
    let buffer = terminal.backend().buffer();
    let rows = buffer.content().chunks(usize::from(width));
    rows.map(|row| row.iter().map(ratatui::buffer::Cell::symbol).collect())
        .collect()
}

/// A run in which a frame takes 100 µs to read and 50 µs in the kernel, and everything else takes
/// 10 µs.
fn run(frames: u64) -> Live {
    let live = Live::new("a device, times are modelled".into(), true, Some(40));
    for item in 0..frames {
        let read = 100 * item;
        for (stage, from, to) in [
            (0, read, read + 100),
            (1, read + 100, read + 110),
            (2, read + 110, read + 160),
            (3, read + 160, read + 170),
            (4, read + 170, read + 180),
        ] {
            live.worked(Worked::new(stage, item, us(from)..us(to)));
        }
        live.written(item, &[], item + 1);
    }
    live
}

fn line<'a>(screen: &'a [String], word: &str) -> &'a str {
    let found = screen.iter().find(|line| line.contains(word));
    found.unwrap_or_else(|| panic!("no {word} in {screen:#?}"))
}

#[test]
fn the_view_shows_frames_lanes_throughput_and_utilisation() {
    let screen = screen(&run(20), (80, 20), Duration::from_secs(4));
    assert!(line(&screen, "denoise").contains("a device, times are modelled"));
    assert!(line(&screen, " of 40").contains("20 of 40 frames, 5.0 a second here"));
    // The window is the millisecond that ends with the last download, at 2070 µs.
    assert!(line(&screen, "the last").contains("the last 1.00 ms: 1.07 ms to 2.07 ms, modelled"));
    assert!(line(&screen, "throughput").contains("10000 frames/s, modelled"));
    let busy = line(&screen, "kernel utilisation");
    assert!(busy.contains("50.0 %, 48.3 % since the start"), "{busy}");
    for (lane, share) in [
        ("read", "93.0 %"),
        ("upload ", "10.0 %"),
        ("kernel ", "50.0 %"),
        ("write ", "10.0 %"),
    ] {
        assert!(line(&screen, lane).contains(share), "{lane}: {screen:#?}");
    }
    let kernels = line(&screen, "kernel ");
    let full = kernels.chars().filter(|glyph| *glyph == '█').count();
    let empty = kernels.chars().filter(|glyph| *glyph == ' ').count();
    assert!((20..40).contains(&full) && empty > 20, "{kernels}");
}

#[test]
fn lanes_move_while_the_run_goes_on() {
    let kernels = |frames| line(&screen(&run(frames), (80, 20), us(1)), "kernel ").to_owned();
    // The same work at the same distance from the last download looks the same.
    assert_eq!(kernels(20), kernels(21));
    assert_ne!(kernels(3), kernels(20));
}

#[test]
fn any_size_and_any_state_can_be_drawn() {
    for frames in [0, 1, 2, 300] {
        for size in [(1, 1), (10, 3), (40, 12), (80, 24), (300, 100)] {
            let live = run(frames);
            for _ in 0..3 {
                screen(&live, size, Duration::ZERO);
            }
        }
    }
    let unknown = Live::new("a device".into(), false, None);
    let text = screen(&unknown, (80, 24), Duration::from_secs(2)).concat();
    assert!(
        text.contains("0 frames, 2.0 s so far") && text.contains("measured"),
        "{text}"
    );
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
}
