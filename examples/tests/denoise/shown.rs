//! Tests of what the program shows: pictures of the run, and the live view.
#![forbid(unsafe_code)]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::program::{Scene, program};

/// A small clip, and nothing said about pictures.
const SMALL: [&str; 5] = ["--frames", "3", "--size", "64x36", "--"];

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Size and pixels of a PNG.
fn pixels(path: &Path) -> (u32, u32, Vec<u8>) {
    let file = std::io::BufReader::new(fs::File::open(path).unwrap());
    let mut reader = png::Decoder::new(file).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    (info.width, info.height, pixels)
}

/// Mean difference between the green of neighbours, in columns `from` to `to`: how much noise there
/// is.
fn noise((width, height, pixels): &(u32, u32, Vec<u8>), from: usize, to: usize) -> f64 {
    let (width, height) = (*width as usize, *height as usize);
    let at = |x: usize, y: usize| f64::from(pixels[3 * (y * width + x) + 1]);
    // The sky, where nothing but noise differs.
    let rows = 0..height / 6;
    let sum: f64 = rows
        .clone()
        .flat_map(|y| (from..to - 1).map(move |x| (x, y)))
        .map(|(x, y)| (at(x, y) - at(x + 1, y)).abs())
        .sum();
    sum / (rows.len() * (to - from)) as f64
}

#[test]
fn a_run_draws_two_pictures_and_says_where_they_are() {
    let scene = Scene::new();
    let first = text(&scene.succeed(&SMALL, b"").stdout);
    let (both, timeline) = ("denoise-out/before-and-after.png", "denoise-out/timeline.svg");
    assert_eq!(scene.files(), ["denoise-out"]);
    let mut names: Vec<_> = fs::read_dir(scene.path("denoise-out"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["before-and-after.png", "timeline.svg"]);
    assert!(first.contains(both) && first.contains(timeline), "{first}");
    assert!(!first.contains("replaces"), "{first}");
    let drawing = fs::read_to_string(scene.path(timeline)).unwrap();
    assert_eq!(drawing.matches("::bilateral (kernel)").count(), 3);

    let picture = pixels(&scene.path(both));
    assert_eq!((picture.0, picture.1), (64, 36));
    // At radius 1 the filter sees nine samples.
    let (left, right) = (noise(&picture, 0, 31), noise(&picture, 33, 64));
    assert!(right < 0.6 * left, "noise of {left} and {right}");

    let second = text(&scene.succeed(&SMALL, b"").stdout);
    assert_eq!(second.matches("replaces an earlier file").count(), 2, "{second}");
    assert_eq!(
        fs::read_to_string(scene.path(timeline)).unwrap(),
        drawing,
        "modelled times repeat"
    );
    assert_eq!(pixels(&scene.path(both)), picture);
}

#[test]
fn a_long_clip_has_the_timeline_of_its_first_frames() {
    let scene = Scene::new();
    scene.succeed(&["--frames", "200", "--size", "16x8", "--"], b"");
    let drawing = fs::read_to_string(scene.path("denoise-out/timeline.svg")).unwrap();
    let kernels = drawing.matches("::bilateral (kernel)").count();
    // The pipeline holds further frames when the recording ends.
    assert!((24..24 + 12).contains(&kernels), "{kernels}");
}

#[test]
fn programs_get_pictures_only_if_they_ask() {
    let scene = Scene::new();
    for quiet in [["--json"], ["--quiet"], ["--no-pictures"]] {
        scene.succeed(&[&quiet[..], &SMALL].concat(), b"");
        assert!(scene.files().is_empty(), "{quiet:?}");
    }
    let output = scene.succeed(&[&["--json", "--pictures", "a/b"][..], &SMALL].concat(), b"");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["pictures"][0]["file"], "a/b/before-and-after.png");
    assert_eq!(report["pictures"][1]["file"], "a/b/timeline.svg");
    assert!(scene.path("a/b/timeline.svg").is_file());
}

#[test]
fn a_place_without_room_for_pictures_is_no_failure_unless_pictures_were_asked_for() {
    let scene = Scene::new();
    scene.write("denoise-out", b"a file of the user's");
    let output = scene.succeed(&SMALL, b"");
    assert!(text(&output.stderr).starts_with("denoise: no pictures: denoise-out: "));
    assert!(!text(&output.stdout).contains("pictures"));
    let message = scene.fail(&["--pictures", "denoise-out", "--frames", "1", "--size", "8x8"]);
    assert!(message.starts_with("denoise: denoise-out: "), "{message}");
    assert_eq!(
        fs::read(scene.path("denoise-out")).unwrap(),
        b"a file of the user's"
    );
}

#[test]
fn a_live_view_without_a_terminal_is_refused() {
    let message = Scene::new().fail(&["--watch"]);
    assert!(
        message.contains("standard output, which is no terminal"),
        "{message}"
    );
}

/// Runs the program in a terminal of `script`'s, in which somebody has typed `keys`. Returns the
/// status, and what the terminal got; `None` without `script`.
fn in_terminal(scene: &Scene, words: &str, keys: &[u8]) -> Option<(Option<i32>, String)> {
    let command = format!(
        "stty rows 24 cols 90; {} --device sim --no-pictures {words}",
        program().display()
    );
    let script = Command::new("script")
        .args(["--quiet", "--return", "--command", &command, "/dev/null"])
        .current_dir(scene.path("."))
        .env("TERM", "xterm-256color")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    match script {
        Ok(mut script) => {
            script.stdin.as_mut().unwrap().write_all(keys).unwrap();
            let output = script.wait_with_output().unwrap();
            Some((output.status.code(), text(&output.stdout)))
        }
        Err(_) => {
            eprintln!("SKIPPED: `script` is not installed, so the live view had no terminal");
            None
        }
    }
}

#[test]
fn a_live_view_is_drawn_and_the_terminal_is_restored() {
    let scene = Scene::new();
    let Some((status, shown)) = in_terminal(&scene, "--watch --frames 40 --size 320x180", b"") else {
        return;
    };
    let (enter, leave, cursor) = ("\u{1b}[?1049h", "\u{1b}[?1049l", "\u{1b}[?25h");
    assert_eq!(status, Some(0), "{shown}");
    let (_, rest) = shown.split_once(enter).expect("the view's screen");
    let (view, after) = rest.split_once(leave).expect("the screen of before");
    assert!(view.contains("of 40") && view.contains("utilisation"), "{view}");
    assert!(
        after.contains("kernel utilisation") && !after.contains(enter),
        "the report: {after}"
    );

    // A failure restores the terminal before its message.
    scene.write("short.y4m", b"YUV4MPEG2 W4 H4 F1:1\nFRAME\n12345");
    let (status, shown) = in_terminal(&scene, "--watch short.y4m", b"").expect("there a moment ago");
    assert_eq!(status, Some(2), "{shown}");
    let (_, after) = shown.split_once(leave).expect("the screen of before");
    assert!(after.contains("short.y4m: read failed: frame 0"), "{after}");

    // So does the key q, which ends the program like Ctrl-C.
    let words = "--watch --frames 100000000 --size 64x36 -o out.y4m";
    let (status, shown) = in_terminal(&scene, words, b"q").expect("there a moment ago");
    assert_eq!(status, Some(130), "{shown}");
    let (_, after) = shown.split_once(leave).expect("the screen of before");
    assert_eq!(after, cursor, "the cursor is shown again, and nothing is drawn");
    assert_eq!(scene.files(), ["short.y4m"]);
}
