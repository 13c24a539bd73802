//! Tests of interruptions: a signal ends the program with the status that shells expect, and leaves
//! no unfinished file.
#![forbid(unsafe_code)]

use std::fs;
use std::io::Write;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::stream_420;
use crate::program::{Scene, program};

/// Waits for `is_done`, for a minute at most.
fn wait_until(what: &str, mut is_done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_done() {
        assert!(started.elapsed() < Duration::from_secs(60), "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a signal, by the shell's own `kill`.
fn send(signal: &str, child: &Child) {
    let kill = format!("kill -{signal} {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
}

fn ended(child: &mut Child) -> ExitStatus {
    let mut status = None;
    wait_until("the program goes on", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap()
}

/// Signals 1, 2 and 15, in the mask of `/proc`.
const INTERRUPTIONS: u64 = 1 | 1 << 1 | 1 << 14;

/// Whether these tests run with such a signal ignored. A shell starts its background jobs with
/// SIGINT ignored, and the program keeps to that.
fn is_one_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & INTERRUPTIONS != 0)
}

/// The same command, in which no signal is ignored. `env` of GNU has the option.
fn ignoring_nothing(command: Command) -> Command {
    if !is_one_ignored() {
        return command;
    }
    let mut env = Command::new("env");
    env.arg("--default-signal=HUP,INT,TERM")
        .arg(command.get_program())
        .args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        env.current_dir(folder);
    }
    env
}

/// Starts the program on a pipe, with one frame that it gets and a second that never comes whole,
/// and waits until it has begun its output.
fn begun(scene: &Scene, mut command: Command) -> Child {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let clip = stream_420(14, 10, 2);
    let pipe = child.stdin.as_mut().unwrap();
    pipe.write_all(&clip[..clip.len() - 1]).unwrap();
    wait_until("no output has begun", || {
        scene.files().iter().any(|name| name.ends_with(".partial"))
    });
    child
}

#[test]
fn an_interrupted_run_leaves_no_unfinished_file() {
    for (signal, status, threads) in [("INT", 130, "1"), ("TERM", 143, "2"), ("HUP", 129, "4")] {
        let scene = Scene::new();
        scene.write("out.y4m", b"before");
        let command = scene.command(&["-", "-o", "out.y4m", "--threads", threads]);
        let command = ignoring_nothing(command);
        let mut child = begun(&scene, command);
        send(signal, &child);
        assert_eq!(ended(&mut child).code(), Some(status), "SIG{signal}");
        assert_eq!(scene.files(), ["out.y4m"], "SIG{signal}");
        assert_eq!(fs::read(scene.path("out.y4m")).unwrap(), b"before");
    }
}

#[test]
fn an_interrupted_run_of_several_readers_and_writers_leaves_no_unfinished_file() {
    for (signal, status) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let scene = Scene::new();
        scene.write("clip.y4m", &stream_420(64, 48, 3000));
        scene.write("out.y4m", b"before");
        let command = scene.command(&["clip.y4m", "-o", "out.y4m", "--threads", "4"]);
        let mut child = ignoring_nothing(command).stdout(Stdio::null()).spawn().unwrap();
        // Many frames are written, and many more are not.
        wait_until("no frame was written", || {
            let mut names = scene.files().into_iter();
            let part = names.find(|name| name.ends_with(".partial"));
            part.is_some_and(|part| fs::metadata(scene.path(&part)).is_ok_and(|file| file.len() > 100_000))
        });
        send(signal, &child);
        assert_eq!(ended(&mut child).code(), Some(status), "SIG{signal}");
        assert_eq!(scene.files(), ["clip.y4m", "out.y4m"], "SIG{signal}");
        assert_eq!(fs::read(scene.path("out.y4m")).unwrap(), b"before");
    }
}

#[test]
fn a_signal_that_was_ignored_stays_ignored() {
    if !cfg!(target_os = "linux") {
        eprintln!("SKIPPED: this system does not tell which signals are ignored");
        return;
    }
    let scene = Scene::new();
    let mut nohup = Command::new("sh");
    nohup
        .args(["-c", "trap '' HUP; exec \"$0\" \"$@\""])
        .arg(program())
        .args(["--device", "sim", "--no-pictures", "-", "-o", "out.y4m"])
        .current_dir(scene.path("."));
    let mut child = begun(&scene, nohup);
    send("HUP", &child);
    thread::sleep(Duration::from_millis(200));
    assert!(child.try_wait().unwrap().is_none(), "it ended");
    // The last byte of the second frame.
    child.stdin.take().unwrap().write_all(&[0]).unwrap();
    assert!(ended(&mut child).success());
    assert_eq!(scene.files(), ["out.y4m"]);
}
