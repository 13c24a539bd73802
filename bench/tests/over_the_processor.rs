//! Runs the benchmark over `libcuda.c`, a driver library that works on the processor, as late as it
//! may. So each way of each program, raw calls and cudarc included, is compared with the expected
//! elements where there is no GPU. The script for PyTorch runs over `torch.py` here, a
//! module with the names of PyTorch that it uses.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use serde_json::Value;

const TESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");

/// A C file of the functions that driver-cuda declares, and that `library` lacks. They fail.
/// cuda-rt looks for each function when it opens the driver, so that none may be missing.
fn other_functions(library: &Path) -> String {
    let library = std::fs::read_to_string(library).unwrap();
    let declared = Path::new(TESTS).join("../../driver-cuda/src/ffi/driver.rs");
    let declared = std::fs::read_to_string(declared).unwrap();
    let name = |rest: &'_ str| Some(format!("cu{}", rest.split_once('(')?.0));
    let names: Vec<_> = declared.split("fn cu").skip(1).filter_map(name).collect();
    assert!(names.len() > 50, "few functions are declared: {names:?}");
    let lacks = |name: &&String| {
        let has = [
            format!("int {name}("),
            format!("SUCCEEDS({name})"),
            format!("GIVES({name},"),
        ];
        !has.iter().any(|words| library.contains(words.as_str()))
    };
    let stub = |name: &String| format!("int {name}(void) {{ return 801; }}\n");
    names.iter().filter(lacks).map(stub).collect()
}

/// The folder of the library.
fn library() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("driver");
        std::fs::create_dir_all(&folder).unwrap();
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let mut compile = Command::new(compiler);
        compile.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror"]);
        compile.args(["-Wl,-soname,libcuda.so.1", "-o"]);
        compile.arg(folder.join("libcuda.so.1"));
        let source = Path::new(TESTS).join("libcuda.c");
        let others = folder.join("others.c");
        std::fs::write(&others, other_functions(&source)).unwrap();
        compile.arg(&source).arg(&others);
        let status = compile.status().expect("the tests need a C compiler: set CC");
        assert!(status.success(), "{compile:?}: {status}");
        folder
    })
}

fn has_python() -> bool {
    let has = Command::new("python3").arg("--version").output().is_ok();
    if !has {
        println!("SKIPPED: the script for PyTorch: install python3");
    }
    has
}

/// Runs the benchmark with files of its own in `folder`.
fn bench(folder: &str, arguments: &[&str], wrong: Option<&str>) -> (Output, PathBuf) {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    let mut command = Command::new(env!("CARGO_BIN_EXE_cuda-rt-bench"));
    command.args(arguments).arg("--out").arg(&out);
    command.env("LD_LIBRARY_PATH", library()).env("PYTHONPATH", TESTS);
    if let Some(wrong) = wrong {
        command.env("WRONG_ELEMENT", wrong);
    }
    (command.output().unwrap(), out)
}

fn words(output: &Output) -> String {
    format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// The names of the ways of a row of programs or of scaling.
fn ways(row: &Value) -> Vec<&str> {
    let figures = row["figures"].as_array().unwrap();
    let mut ways: Vec<_> = figures.iter().map(|one| one["way"].as_str().unwrap()).collect();
    ways.dedup();
    ways
}

#[test]
fn each_way_of_each_program_gives_the_expected_elements() {
    let arguments = ["--rounds", "1", "--quick", "--no-torch"];
    let (output, folder) = bench("all", &arguments, None);
    let words = words(&output);
    assert!(output.status.success(), "{words}");
    assert!(words.contains("objects left: 0\n"), "{words}");
    let text = std::fs::read_to_string(folder.join("bench.json")).unwrap();
    let report: Value = serde_json::from_str(&text).unwrap();
    let programs = report["programs"].as_array().unwrap();
    assert_eq!(programs.len(), 10);
    for program in programs {
        let ways = ways(program);
        assert_eq!(ways[0], "raw calls", "{program}");
        if program["program"] == "small-items-causes" {
            let others = ways[1..].iter().filter(|way| way.starts_with("raw, "));
            assert_eq!(others.count(), 4, "{program}");
            assert_eq!(ways[5], "cuda-rt", "{program}");
        } else {
            assert_eq!(ways[1], "cuda-rt", "{program}");
            assert!(ways.contains(&"cudarc, tracked"), "{program}");
        }
        for figure in program["figures"].as_array().unwrap() {
            assert!(figure["median"].as_f64().unwrap() > 0.0, "{figure}");
            assert_eq!(figure["rounds"], 1);
        }
    }
    let cells = report["scaling"].as_array().unwrap();
    let numbers = |operation: &str, of: &str| {
        let is_here = |cell: &&Value| cell["operation"] == operation && cell["of"] == of;
        let number = |cell: &Value| cell["number"].as_u64().unwrap();
        cells.iter().filter(is_here).map(number).collect::<Vec<_>>()
    };
    assert_eq!(numbers("launch", "buffers"), [1, 10, 100, 1000, 10_000]);
    assert_eq!(numbers("launch", "streams"), [1, 10, 100, 1000]);
    assert_eq!(numbers("launch", "threads on one stream"), [1, 2, 4, 8, 16]);
    let page = std::fs::read_to_string(folder.join("bench.md")).unwrap();
    assert!(
        page.contains("**small-items**") && page.contains("| raw calls |"),
        "{page}"
    );
}

#[test]
fn the_script_for_torch_gives_the_expected_elements() {
    if !has_python() {
        return;
    }
    let programs = ["small", "decode", "diamond", "server-4", "shared", "graph"];
    let arguments = [&["--rounds", "1", "--way", "PyTorch"], &programs[..]].concat();
    let (output, folder) = bench("torch", &arguments, None);
    let words = words(&output);
    assert!(output.status.success(), "{words}");
    let text = std::fs::read_to_string(folder.join("bench.json")).unwrap();
    let report: Value = serde_json::from_str(&text).unwrap();
    let measured = report["programs"].as_array().unwrap();
    assert_eq!(measured.len(), programs.len(), "{words}");
    assert!(
        measured.iter().all(|program| ways(program) == ["PyTorch"]),
        "{words}"
    );
    assert_eq!(report["torch"], "for tests, CUDA none");
}

/// One wrong element, the last that a kernel writes, must fail each way by its name.
#[test]
fn each_way_compares_every_element() {
    let mut ways = vec!["raw", "cudarc", "Pool", "Pipeline", "cuda-rt"];
    if has_python() {
        ways.push("PyTorch");
    }
    for way in ways {
        for program in ["small", "decode", "diamond", "server-4", "shared", "graph"] {
            let here = match way {
                "Pool" => ["server-4", "shared"].contains(&program),
                "Pipeline" => program == "small",
                _ => true,
            };
            if !here {
                continue;
            }
            let arguments = ["--rounds", "1", "--way", way, program];
            let (output, _) = bench("wrong", &arguments, Some("1"));
            let words = words(&output);
            assert!(!output.status.success(), "{way}, {program}: {words}");
            assert!(words.contains("with every element compared"), "{words}");
        }
    }
}

#[test]
fn a_missing_python_and_a_missing_torch_are_named() {
    let arguments = ["--rounds", "1", "--python", "/nonexistent/python", "graph"];
    let (output, folder) = bench("no-python", &arguments, None);
    let words = words(&output);
    assert!(output.status.success(), "{words}");
    assert!(words.contains("SKIPPED: PyTorch: /nonexistent/python"), "{words}");
    let page = std::fs::read_to_string(folder.join("bench.md")).unwrap();
    assert!(
        page.contains("Not measured: PyTorch: /nonexistent/python"),
        "{page}"
    );
}

#[test]
fn the_simulated_device_runs_cuda_rt_alone() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("simulated");
    let mut command = Command::new(env!("CARGO_BIN_EXE_cuda-rt-bench"));
    let output = command
        .arg("--simulated")
        .arg("--out")
        .arg(&out)
        .output()
        .unwrap();
    let words = words(&output);
    assert!(output.status.success(), "{words}");
    assert!(
        words.contains("SKIPPED: raw calls, cudarc and PyTorch"),
        "{words}"
    );
    let page = std::fs::read_to_string(out.join("bench.md")).unwrap();
    assert!(
        page.contains("**Simulated:") && !page.contains("| raw calls |"),
        "{page}"
    );
}

#[test]
fn an_unknown_program_is_an_error() {
    let (output, _) = bench("unknown", &["nonsense"], None);
    assert!(!output.status.success());
    assert!(words(&output).contains("--list"));
}
