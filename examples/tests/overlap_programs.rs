//! Runs the small examples like a user, on the simulated device.
#![forbid(unsafe_code)]

use std::process::Command;

/// Runs an example and returns its output; `cargo test` builds it beside the directory of the
/// tests.
fn output(example: &str, args: &[&str]) -> String {
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().unwrap().with_file_name("examples").join(example);
    let program = program.with_extension(std::env::consts::EXE_EXTENSION);
    let output = Command::new(program)
        .args(["--device", "sim"])
        .args(args)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    assert!(text.contains("times are modelled"), "{text}");
    text
}

/// The number before `unit` in the line that begins with `name`.
fn figure(text: &str, name: &str, unit: &str) -> f64 {
    let line = text.lines().find(|line| line.starts_with(name));
    let line = line.unwrap_or_else(|| panic!("no {name} in {text}"));
    let (before, _) = line
        .split_once(unit)
        .unwrap_or_else(|| panic!("no {unit} in {line}"));
    let number = before.split_whitespace().next_back().unwrap();
    number.parse().unwrap_or_else(|_| panic!("{number} in {line}"))
}

#[test]
fn a_chain_is_replayed_faster_than_it_is_launched() {
    let text = output("replay", &["--kernels", "30", "--chains", "40"]);
    let (one_by_one, replayed) = (
        figure(&text, "one by one", " ms"),
        figure(&text, "replayed", " ms"),
    );
    assert!(replayed < 0.8 * one_by_one, "{text}");
}

#[test]
fn the_diamond_gains_on_its_branches() {
    let text = output("diamond", &["--steps", "2000", "--len", "2000"]);
    let (three, one) = (
        figure(&text, "three streams", " ms"),
        figure(&text, "one stream", " ms"),
    );
    assert!(three < 0.7 * one, "{text}");
}

#[test]
fn batches_overlap_on_three_streams_and_less_on_two() {
    let text = output("process_batches", &["--kernels", "12"]);
    let ms = |name| figure(&text, name, " ms");
    let serial = ms("serial");
    assert!(ms("three streams, N = 2") < 0.55 * serial, "{text}");
    assert!(ms("two streams, N = 2") < 0.9 * serial, "{text}");
    assert!(
        ms("three streams, N = 2") < 0.75 * ms("two streams, N = 4"),
        "{text}"
    );
    assert!(
        ms("three streams, N = 1") > 1.2 * ms("three streams, N = 2"),
        "{text}"
    );
}

#[test]
fn on_the_default_stream_nothing_would_overlap() {
    let text = output("default_stream_trap", &["--items", "8"]);
    assert!(figure(&text, "the trap would cost", "x") > 1.8, "{text}");
}

#[test]
fn a_third_buffer_hides_uneven_stages() {
    let text = output("triple_buffer", &["--items", "48"]);
    let ms = |name| figure(&text, name, " ms");
    assert!(ms("N = 3") < 0.85 * ms("N = 2"), "{text}");
    assert!(ms("N = 5") > 0.97 * ms("N = 3"), "a fourth helps little: {text}");
    assert!(text.contains("buffers would save about"), "{text}");
}

#[test]
fn two_buffers_keep_a_decoder_busy() {
    let text = output("decode_chunks", &["--chunks", "24", "--elements", "65536"]);
    let busy = |name| figure(&text, name, " %");
    assert!(busy("two streams, two buffers") >= 99.9, "{text}");
    assert!(busy("two streams, one buffer") < 99.0, "{text}");
    assert!(busy("serial") < 99.0, "{text}");
}
