//! Tests of the program as users run it: exit codes, messages, files.
#![forbid(unsafe_code)]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::stream_420;
use tempfile::TempDir;

/// The example, which `cargo test` builds beside the directory of the tests.
pub(crate) fn program() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().unwrap().with_file_name("examples").join("denoise");
    let program = program.with_extension(std::env::consts::EXE_EXTENSION);
    assert!(
        program.exists(),
        "build it first: cargo build --example denoise ({})",
        program.display()
    );
    program
}

/// A temporary directory for one test, in which the program runs.
pub(crate) struct Scene(TempDir);

impl Scene {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path(name), bytes).unwrap();
    }

    /// The files in the directory, in no order. A hidden file would be left over from an output.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// The program, on the simulated device. It writes no pictures unless a test is about them.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command
            .args(["--device", "sim", "--radius", "1"])
            .args(arguments)
            .current_dir(self.0.path());
        if !arguments.iter().any(|word| word.contains("pictures")) && !arguments.contains(&"--") {
            command.arg("--no-pictures");
        }
        command
    }

    pub(crate) fn run(&self, arguments: &[&str], input: &[u8]) -> Output {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The program may end without reading its input.
        let _ = child.stdin.take().unwrap().write_all(input);
        child.wait_with_output().unwrap()
    }

    pub(crate) fn succeed(&self, arguments: &[&str], input: &[u8]) -> Output {
        let output = self.run(arguments, input);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {stderr}");
        output
    }

    /// Expects exit code 2, one sentence, and no new file. Returns the sentence.
    pub(crate) fn fail(&self, arguments: &[&str]) -> String {
        let before = self.files();
        let output = self.run(arguments, b"");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(output.stdout.is_empty());
        assert_eq!(self.files(), before);
        stderr.trim_end().to_owned()
    }
}

#[test]
fn errors_of_the_input_name_their_place() {
    let scene = Scene::new();
    let frame = 14 * 10 + 2 * 7 * 5 + "FRAME\n".len();
    let mut clip = stream_420(14, 10, 4);
    let header = clip.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    scene.write("clip.png", b"\x89PNG\r\n\x1a\n");
    scene.write("empty", b"");
    scene.write("deep.y4m", b"YUV4MPEG2 W4 H4 F25:1 C420p10 XYSCSS=420P10\n");
    scene.write("huge.y4m", b"YUV4MPEG2 W4294967295 H4294967295 F25:1\n");
    clip.truncate(header + frame + 5);
    scene.write("line.y4m", &clip);
    clip.truncate(header + frame - 1);
    scene.write("frame.y4m", &clip);
    for (input, message) in [
        (
            "none.y4m",
            "none.y4m: No such file or directory (os error 2)".to_owned(),
        ),
        (
            "clip.png",
            "clip.png: header, byte 0: not a YUV4MPEG2 stream: it does not begin with `YUV4MPEG2 `"
                .to_owned(),
        ),
        (
            "empty",
            "empty: header, byte 0: not a YUV4MPEG2 stream: it does not begin with `YUV4MPEG2 `".to_owned(),
        ),
        (
            "deep.y4m",
            "deep.y4m: header, byte 44: chroma format `420p10` is not supported: \
             only 8-bit mono, 411, 420, 422 and 444 are"
                .to_owned(),
        ),
        (
            "huge.y4m",
            "huge.y4m: header, byte 40: frames of 4294967295x4294967295 are larger than 1073741824 bytes"
                .to_owned(),
        ),
        (
            "frame.y4m",
            format!(
                "frame.y4m: read failed: frame 0, byte {}: the stream ends here, 1 bytes short of the frame's 210",
                clip.len()
            ),
        ),
        (
            "line.y4m",
            format!(
                "line.y4m: read failed: frame 1, byte {}: the stream ends inside a line",
                header + frame + 5
            ),
        ),
    ] {
        assert_eq!(
            scene.fail(&[input, "-o", "out.y4m"]),
            format!("denoise: {message}")
        );
    }
}

#[test]
fn an_existing_output_survives_a_failure() {
    let scene = Scene::new();
    scene.write("out.y4m", b"before");
    scene.write("clip.y4m", &stream_420(14, 10, 4)[..700]);
    scene.fail(&["clip.y4m", "-o", "out.y4m"]);
    assert_eq!(fs::read(scene.path("out.y4m")).unwrap(), b"before");
}

#[test]
fn a_timeline_is_drawn_traced_and_charted() {
    let scene = Scene::new();
    let made = ["--frames", "6", "--size", "64x32"];
    for name in ["run.svg", "run.json"] {
        let output = scene.run(&[&made[..], &["--timeline", name, "--gantt"]].concat(), b"");
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        for row in ["Upload", "Compute", "Download", "source", "sink"] {
            assert!(text.lines().any(|line| line.starts_with(row)), "{row} in {text}");
        }
        assert!(text.contains("MODELLED") && text.contains("efficiency"));
    }
    let picture = fs::read_to_string(scene.path("run.svg")).unwrap();
    assert_eq!(picture.matches("::bilateral (kernel)").count(), 6);
    let trace: serde_json::Value =
        serde_json::from_slice(&fs::read(scene.path("run.json")).unwrap()).unwrap();
    let of = |kind| {
        let events = trace["traceEvents"].as_array().unwrap().iter();
        events
            .filter(|event| event["cat"] == kind && event["ph"] == "X")
            .count()
    };
    assert_eq!(["copy to device", "kernel", "copy to host"].map(of), [6; 3]);
    assert!(scene.fail(&["--timeline", "run.png"]).contains(".svg"));
    assert!(
        scene
            .fail(&["--timeline", "none/run.svg"])
            .starts_with("denoise: none/run.svg: ")
    );
}

#[test]
fn an_impossible_output_is_refused_before_any_work() {
    let scene = Scene::new();
    assert!(
        scene
            .fail(&["-o", "none/out.y4m"])
            .starts_with("denoise: none/out.y4m: ")
    );
    assert!(scene.fail(&["-o", "."]).starts_with("denoise: .: "));
    assert!(scene.fail(&["-", "--compare"]).contains("needs a file"));
    assert!(
        scene
            .fail(&["--json", "-o", "-"])
            .contains("both want standard output")
    );
}

#[cfg(target_os = "linux")]
#[test]
fn the_error_of_a_full_disk_names_the_frame() {
    let message = Scene::new().fail(&["--size", "640x360", "--frames", "3", "-o", "/dev/full"]);
    assert_eq!(
        message,
        "denoise: /dev/full: write failed: frame 0, byte 43: No space left on device (os error 28)"
    );
    assert!(!fs::metadata("/dev/full").unwrap().is_file());
}

/// The command, in which no file may be larger than `blocks` blocks of 512 bytes.
#[cfg(target_os = "linux")]
fn with_small_files(command: &Command, blocks: u32) -> Command {
    let mut limited = Command::new("sh");
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    limited
        .args(["-c", &script])
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir(command.get_current_dir().unwrap());
    limited
}

#[cfg(target_os = "linux")]
#[test]
fn an_output_without_room_for_a_later_frame_leaves_nothing_of_any_thread() {
    let scene = Scene::new();
    let clip = stream_420(64, 48, 40);
    scene.write("clip.y4m", &clip);
    scene.write("out.y4m", b"before");
    // Frames before byte 51,200 have room. `dash` counts in blocks of 512 bytes, `bash` of 1,024.
    let frame_bytes = 64 * 48 * 3 / 2;
    for threads in ["1", "2", "5"] {
        let command = scene.command(&["clip.y4m", "-o", "out.y4m", "--threads", threads]);
        let output = with_small_files(&command, 100).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{threads} threads: {stderr}");
        let (place, cause) = stderr
            .strip_prefix("denoise: out.y4m: write failed: frame ")
            .and_then(|rest| rest.split_once(": "))
            .unwrap_or_else(|| panic!("{stderr}"));
        assert_eq!(cause, "File too large (os error 27)\n");
        let (frame, byte) = place.split_once(", byte ").unwrap();
        let (frame, byte): (usize, usize) = (frame.parse().unwrap(), byte.parse().unwrap());
        // The earliest frame without room, however many threads failed.
        assert!([51_200, 102_400].contains(&byte), "{stderr}");
        assert_eq!(frame, byte / frame_bytes, "{stderr}");
        assert_eq!(scene.files(), ["clip.y4m", "out.y4m"], "{threads} threads");
        assert_eq!(fs::read(scene.path("out.y4m")).unwrap(), b"before");
    }
}

#[test]
fn any_number_of_threads_writes_the_same_file() {
    let scene = Scene::new();
    let clip = stream_420(30, 22, 25);
    scene.write("clip.y4m", &clip);
    scene.succeed(&["clip.y4m", "-o", "one.y4m", "--quiet", "--threads", "1"], b"");
    let expected = fs::read(scene.path("one.y4m")).unwrap();
    for threads in ["2", "4", "9"] {
        let several = ["--quiet", "--threads", threads];
        scene.succeed(&[&["clip.y4m", "-o", "out.y4m"], &several[..]].concat(), b"");
        assert!(
            fs::read(scene.path("out.y4m")).unwrap() == expected,
            "{threads} threads"
        );
        // From a pipe, which one thread reads, to a file, and the other way round.
        scene.succeed(&[&["-", "-o", "piped.y4m"], &several[..]].concat(), &clip);
        assert!(
            fs::read(scene.path("piped.y4m")).unwrap() == expected,
            "{threads} threads"
        );
        let piped = scene.succeed(&[&["clip.y4m", "-o", "-"], &several[..]].concat(), b"");
        assert!(piped.stdout == expected, "{threads} threads");
    }
    // A file that is its own output, and a comparison with one stream.
    scene.succeed(
        &["clip.y4m", "-o", "clip.y4m", "--threads", "3", "--compare"],
        b"",
    );
    assert!(fs::read(scene.path("clip.y4m")).unwrap() == expected);
}

#[test]
fn a_run_is_compared_with_a_copy_by_as_many_threads() {
    let scene = Scene::new();
    let clip = stream_420(64, 48, 20);
    scene.write("clip.y4m", &clip);
    let words = ["clip.y4m", "-o", "out.y4m", "--threads", "3", "--compare-copy"];
    let report = scene.succeed(&[&words[..], &["--json"]].concat(), b"");
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).unwrap();
    let (run, copy) = (&report["overlapped"], &report["copy"]);
    assert_eq!((&run["readers"], &run["writers"]), (&3.into(), &3.into()));
    assert_eq!(
        (&copy["threads"], &copy["bytes"]),
        (&6.into(), &clip.len().into())
    );
    let number = |name: &str| copy[name].as_f64().unwrap();
    assert!(number("copy_ms") > 0.0 && number("run_ms") > 0.0);
    assert!((number("ratio") - number("copy_ms") / number("run_ms")).abs() < 1e-9);
    assert!((number("run_frames_per_second") - 20e3 / number("run_ms")).abs() < 1e-6);
    let text = String::from_utf8(scene.succeed(&words, b"").stdout).unwrap();
    for words in [
        "threads: 3 read, 3 write",
        "copied by 6 threads",
        "of the copy's rate",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
    assert_eq!(scene.files(), ["clip.y4m", "out.y4m"]);
    let refused = scene.fail(&["clip.y4m", "-o", "/dev/null", "--compare-copy"]);
    assert!(refused.contains("`-o` is a file"), "{refused}");
    assert!(
        scene
            .fail(&["--compare-copy", "-o", "out.y4m"])
            .contains("needs a file")
    );
}

#[test]
fn a_missing_gpu_is_an_error_if_one_is_requested() {
    if Path::new("/dev/nvidiactl").exists() {
        eprintln!("SKIPPED: this machine has a GPU");
        return;
    }
    let output = Command::new(program())
        .args(["--device", "cuda"])
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.starts_with("denoise: no usable GPU: ") && stderr.lines().count() == 1,
        "{stderr}"
    );
}

#[test]
fn standard_streams_carry_the_same_bytes_as_files() {
    let scene = Scene::new();
    let clip = stream_420(14, 10, 4);
    scene.write("clip.y4m", &clip);
    scene.succeed(&["clip.y4m", "-o", "out.y4m", "--compare"], b"");
    let piped = scene.succeed(&["-", "-o", "-"], &clip);
    assert_eq!(piped.stdout, fs::read(scene.path("out.y4m")).unwrap());
    assert!(
        String::from_utf8(piped.stderr)
            .unwrap()
            .contains("times are MODELLED")
    );
    assert_eq!(scene.files(), ["clip.y4m", "out.y4m"]);
}

#[test]
fn the_output_may_be_the_input() {
    let scene = Scene::new();
    scene.write("clip.y4m", &stream_420(14, 10, 4));
    scene.succeed(&["clip.y4m", "-o", "out.y4m", "--quiet"], b"");
    scene.succeed(&["clip.y4m", "-o", "clip.y4m", "--quiet"], b"");
    assert_eq!(
        fs::read(scene.path("clip.y4m")).unwrap(),
        fs::read(scene.path("out.y4m")).unwrap()
    );
}

#[test]
fn json_is_one_object_and_the_only_output() {
    let output = Scene::new().succeed(&["--size", "31x17", "--frames", "5", "--compare", "--json"], b"");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(output.stderr.is_empty());
    assert_eq!(report["times"], "modelled");
    assert_eq!(report["overlapped"]["frames"], 5);
    let header = "YUV4MPEG2 W31 H17 F30:1 Ip A1:1 C420jpeg\n".len();
    let frame = "FRAME\n".len() + 31 * 17 + 2 * 16 * 9;
    assert_eq!(report["comparison"]["identical_bytes"], header + 5 * frame);
    let (overlapped, serial) = (
        &report["overlapped"]["wall_ms"],
        &report["comparison"]["serial"]["wall_ms"],
    );
    assert!(
        overlapped.as_f64() > Some(0.0) && overlapped.as_f64() < serial.as_f64(),
        "{report:#}"
    );
}

/// Runs ffmpeg; `None` if it is not installed.
fn ffmpeg(scene: &Scene, arguments: &[&str]) -> Option<Output> {
    let mut command = Command::new("ffmpeg");
    match command
        .args(["-v", "error", "-y"])
        .args(arguments)
        .current_dir(scene.0.path())
        .output()
    {
        Ok(output) => {
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.success() && stderr.is_empty(),
                "{arguments:?}: {stderr}"
            );
            Some(output)
        }
        Err(_) => {
            eprintln!("SKIPPED: ffmpeg is not installed, so nothing was compared with it");
            None
        }
    }
}

#[test]
fn the_program_reads_ffmpegs_output_and_ffmpeg_reads_the_programs() {
    let scene = Scene::new();
    for format in ["yuv420p", "yuv422p", "yuv444p", "yuv411p", "yuvj420p", "gray"] {
        let source = "testsrc2=size=66x50:rate=25:duration=0.4";
        let Some(_) = ffmpeg(
            &scene,
            &["-f", "lavfi", "-i", source, "-pix_fmt", format, "in.y4m"],
        ) else {
            return;
        };
        scene.succeed(&["in.y4m", "-o", "out.y4m", "--compare"], b"");
        let frames = |file| {
            ffmpeg(&scene, &["-i", file, "-f", "framecrc", "-"])
                .expect("there a moment ago")
                .stdout
        };
        let (before, after) = (frames("in.y4m"), frames("out.y4m"));
        let count = |crc: &[u8]| {
            crc.split(|&byte| byte == b'\n')
                .filter(|line| line.starts_with(b"0,"))
                .count()
        };
        assert_eq!((count(&before), count(&after)), (10, 10), "{format}");
        assert_ne!(before, after, "{format}: nothing was denoised");
    }
    let deep = [
        "-f",
        "lavfi",
        "-i",
        "testsrc2=d=0.1",
        "-pix_fmt",
        "yuv420p10le",
        "-strict",
        "-1",
        "deep.y4m",
    ];
    ffmpeg(&scene, &deep);
    assert!(
        scene
            .fail(&["deep.y4m"])
            .contains("chroma format `420p10` is not supported")
    );
}
