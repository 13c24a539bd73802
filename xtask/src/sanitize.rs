//! `cargo xtask sanitize`: runs the tests of the simulated device under the compiler's sanitizers.
//!
//! The simulated device runs the library's unsafe code, and kernels, on real memory and real
//! threads. So an access out of bounds, a use after a free, a leak or a race on the host shows
//! without a GPU. The standard library is built with the sanitizer too; otherwise its own locks
//! would look like races.
//!
//! Each binary runs by itself, with few cases (`CUDA_RT_CASES`). A binary that does not end in time
//! counts as failed.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// A sanitizer of the compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sanitizer {
    Address,
    Leak,
    Thread,
}

impl Sanitizer {
    pub(crate) const ALL: [Self; 3] = [Self::Address, Self::Leak, Self::Thread];

    fn name(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Leak => "leak",
            Self::Thread => "thread",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|sanitizer| sanitizer.name() == name)
    }

    /// Whether it changes compiled code, so that the standard library must be built with it.
    fn instruments(self) -> bool {
        self != Self::Leak
    }

    /// The environment variable with its options for a binary, and their value.
    fn options(self, binary: &str) -> std::io::Result<(&'static str, String)> {
        Ok(match self {
            // The leak sanitizer reports leaks.
            Self::Address => (
                "ASAN_OPTIONS",
                "detect_leaks=0:detect_stack_use_after_return=1".into(),
            ),
            Self::Leak => (
                "LSAN_OPTIONS",
                // With the whole stack of each allocation, so that it names the test.
                format!(
                    "suppressions={}:print_suppressions=0:fast_unwind_on_malloc=0:malloc_context_size=200",
                    suppressions(binary)?.display()
                ),
            ),
            // In the tests, a child of `fork` starts threads.
            Self::Thread => ("TSAN_OPTIONS", "halt_on_error=0:die_after_fork=0".into()),
        })
    }
}

/// The file that says which leaks of a binary are no errors. The sanitizer takes one file.
fn suppressions(binary: &str) -> std::io::Result<PathBuf> {
    let folder = root().join("xtask/sanitize");
    let (all, own) = (
        folder.join("leak.supp"),
        folder.join(format!("leak-{binary}.supp")),
    );
    if !own.is_file() {
        return Ok(all);
    }
    let both = logs().join(format!("leak-{binary}.supp"));
    fs::write(&both, fs::read_to_string(all)? + &fs::read_to_string(own)?)?;
    Ok(both)
}

/// Binaries that run only if they are named, and the reason.
const LEFT_OUT: &[(&str, &str)] = &[
    ("completion_load", "measures time"),
    ("cust", "links the CUDA driver"),
    ("litmus", "uses no device"),
    ("nvtx", "links NVTX"),
    ("readme", "builds programs"),
    ("rustacuda", "uses no device"),
];

/// Number of plans, seeds or orders for each test.
const CASES: &str = "4";
/// Time limit of a binary, so that a deadlock ends. The build has no limit.
const LIMIT_S: u32 = 900;

/// Runs the binaries or modules called `names`, or all binaries, under each of `sanitizers`.
pub(crate) fn run(sanitizers: &[Sanitizer], names: &[&str]) -> Result<(), Box<dyn Error>> {
    let all = binaries()?;
    let is_known = |name: &&&str| all.iter().any(|known| known == parts(name).0);
    if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
        return Err(format!("there is no test binary `{unknown}`: {}", all.join(", ")).into());
    }
    let chosen: Vec<&str> = match names {
        [] => all
            .iter()
            .map(String::as_str)
            .filter(|name| !is_left_out(name))
            .collect(),
        names => names.to_vec(),
    };
    let host = host()?;
    let mut failed = Vec::new();
    for &sanitizer in sanitizers {
        for &name in &chosen {
            let began = Instant::now();
            let outcome = test(sanitizer, name, &host)?;
            println!(
                "{} {name}: {outcome}, {} s",
                sanitizer.name(),
                began.elapsed().as_secs()
            );
            if outcome != "ok" {
                failed.push(format!("{} {name}", sanitizer.name()));
            }
        }
    }
    if names.is_empty() {
        LEFT_OUT
            .iter()
            .for_each(|(name, why)| println!("left out: {name}, which {why}"));
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("not clean, see {}: {}", logs().display(), failed.join(", ")).into()),
    }
}

fn is_left_out(name: &str) -> bool {
    LEFT_OUT.iter().any(|(left_out, _)| *left_out == name)
}

/// Splits a name into its binary and module: `typed::order` stands for the tests in `order`.
fn parts(name: &str) -> (&str, Option<&str>) {
    match name.split_once("::") {
        Some((binary, module)) => (binary, Some(module)),
        None => (name, None),
    }
}

/// The package with the unit tests.
const LIBRARIES: [&str; 9] = [
    "cuda-handoff-runtime",
    "cuda-handoff-driver",
    "cuda-handoff-driver-cuda",
    "cuda-handoff-checker",
    "cuda-handoff-simulator",
    "cuda-handoff-timeline",
    "cuda-handoff-pipeline",
    "cuda-handoff-cublas",
    "cuda-handoff-cufft",
];

/// The names of all binaries: `lib` for the unit tests, and the integration tests.
fn binaries() -> Result<Vec<String>, Box<dyn Error>> {
    let mut names = vec!["lib".to_owned()];
    for entry in fs::read_dir(root().join("cuda-rt/tests"))? {
        let path = entry?.path();
        let is_test = match path.is_dir() {
            true => path.join("main.rs").is_file(),
            false => path.extension().is_some_and(|extension| extension == "rs"),
        };
        if is_test && let Some(name) = path.file_stem().and_then(|name| name.to_str()) {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Builds and runs one binary, or one of its modules, and keeps the log.
fn test(sanitizer: Sanitizer, name: &str, host: &str) -> Result<&'static str, Box<dyn Error>> {
    fs::create_dir_all(logs())?;
    let log = logs().join(format!("{}-{}.log", sanitizer.name(), name.replace("::", "-")));
    let mut code = cargo(sanitizer, name, host, &log, &["--no-run"], None)?;
    if code == Some(0) {
        code = cargo(sanitizer, name, host, &log, &[], Some(LIMIT_S))?;
    }
    Ok(outcome(code, &String::from_utf8_lossy(&fs::read(log)?)))
}

/// Runs `cargo test` for one binary, with its output in `log`. Returns the exit status.
fn cargo(
    sanitizer: Sanitizer,
    name: &str,
    host: &str,
    log: &Path,
    more: &[&str],
    limit_s: Option<u32>,
) -> Result<Option<i32>, Box<dyn Error>> {
    let out = fs::File::create(log)?;
    let (variable, mut options) = sanitizer.options(parts(name).0)?;
    if name == "fork" {
        // Signals end children of this test, which is no error.
        options.push_str(":handle_segv=0:handle_abort=0");
    }
    let mut command = Command::new("timeout");
    command
        // 0 means no limit.
        .args(["--kill-after=10", &limit_s.unwrap_or(0).to_string()])
        // Through rustup: the `cargo` that runs this task belongs to a toolchain and does not know
        // `+nightly`.
        .args(["rustup", "run", "nightly", "cargo", "test", "--locked"])
        .args(["--target", host])
        .args(more);
    if sanitizer.instruments() {
        command.arg("-Zbuild-std");
    }
    match name {
        "lib" => command
            .args(["--lib"])
            .args(LIBRARIES.map(|package| format!("--package={package}"))),
        name => {
            let (binary, module) = parts(name);
            command.args(["--package=cuda-handoff", "--test", binary]);
            // A test's name begins with its module.
            command.args(module.map(|module| format!("{module}::")))
        }
    };
    let status = command
        .current_dir(root())
        .env_remove("RUSTUP_TOOLCHAIN")
        .env("RUSTFLAGS", format!("-Zsanitizer={}", sanitizer.name()))
        .env(
            "CARGO_TARGET_DIR",
            target().join("sanitize").join(sanitizer.name()),
        )
        .env("CARGO_TERM_COLOR", "never")
        // Optimised a little, so that tests end in time, with the checks of a debug build.
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
        .env("CUDA_RT_CASES", CASES)
        .env(variable, options)
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(out)
        .status()?;
    Ok(status.code())
}

/// The outcome of a binary, from its exit status and its output.
fn outcome(code: Option<i32>, log: &str) -> &'static str {
    // Tests go on after a report, so the exit status alone is not enough.
    let reported = ["AddressSanitizer", "LeakSanitizer", "ThreadSanitizer"]
        .iter()
        .any(|name| log.contains(&format!("ERROR: {name}")) || log.contains(&format!("WARNING: {name}")));
    match code {
        _ if reported => "a report",
        Some(124 | 137) => "no end in time",
        Some(0) if log.contains("test result: ok. 0 passed; 0 failed; 0 ignored") => "no test",
        Some(0) if log.contains("test result: ok.") => "ok",
        _ if log.contains("could not compile") => "does not build",
        _ => "a test fails",
    }
}

/// Nightly's default target.
fn host() -> Result<String, Box<dyn Error>> {
    let printed = Command::new("rustup")
        .args(["run", "nightly", "rustc", "-vV"])
        .env_remove("RUSTUP_TOOLCHAIN")
        .output()?;
    let text = String::from_utf8_lossy(&printed.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host
        .ok_or("no nightly: run `rustup toolchain install nightly --component rust-src`")?
        .to_owned())
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

fn logs() -> PathBuf {
    target().join("sanitize").join("logs")
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the workspace")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_counts_even_if_the_tests_pass() {
        let passed = "test result: ok. 3 passed; 0 failed; 0 ignored";
        assert_eq!(outcome(Some(0), passed), "ok");
        let race = format!("{passed}\nWARNING: ThreadSanitizer: data race (pid=1)");
        assert_eq!(outcome(Some(0), &race), "a report");
        let error = "==1==ERROR: AddressSanitizer: heap-use-after-free";
        assert_eq!(outcome(Some(101), error), "a report");
        assert_eq!(outcome(Some(124), "running 3 tests"), "no end in time");
        assert_eq!(outcome(None, "running 3 tests"), "a test fails");
        assert_eq!(
            outcome(Some(101), "error: could not compile `cuda-rt`"),
            "does not build"
        );
        let empty = "test result: ok. 0 passed; 0 failed; 0 ignored";
        assert_eq!(outcome(Some(0), empty), "no test");
    }

    #[test]
    fn a_binary_may_have_suppressions_of_its_own() {
        fs::create_dir_all(logs()).unwrap();
        let read = |binary| fs::read_to_string(suppressions(binary).unwrap()).unwrap();
        let [all, of_faults] = ["typed", "faults"].map(read);
        assert!(of_faults.len() > all.len() && of_faults.starts_with(&all));
    }

    #[test]
    fn a_name_may_have_a_module() {
        assert_eq!(parts("typed"), ("typed", None));
        assert_eq!(parts("typed::order::join"), ("typed", Some("order::join")));
    }

    #[test]
    fn the_binaries_that_are_left_out_exist() {
        let all = binaries().unwrap();
        assert!(all.len() > 15, "{all:?}");
        for (name, _) in LEFT_OUT {
            assert!(all.iter().any(|known| known == name), "{name}");
        }
    }
}
