//! On the simulated device, a kernel's panic is an error that names the kernel and the place. On a
//! GPU, with the feature `panic-place`, it is `CUDA_ERROR_ASSERT`, and the driver prints the place.
//!
//! A process whose kernel panicked loses the GPU, so each panic has a process of its own.
#![forbid(unsafe_code)]

use std::process::Command;

use cuda_rt::{Device, Grid1, StreamTag};

cuda_rt::streams! {
    Compute;
}

const PANIC: &str = "PANICKING_KERNELS";

/// The number of the source's line that ends with this comment.
fn line(comment: &str) -> usize {
    let source = include_str!("../src/lib.rs");
    let at = source.lines().position(|line| line.ends_with(comment));
    at.expect("the comment is there") + 1
}

fn launch<S: StreamTag>(stream: &cuda_rt::Stream<S>, kernel: &str) -> Result<(), cuda_rt::Error>
where
    S::Device: cuda_rt::Live,
{
    let input = stream.alloc_zeroed::<u32>(90)?;
    let mut output = stream.alloc_zeroed::<u32>(100)?;
    match kernel {
        "read" => panicking_kernels::read(stream, Grid1::covering(100), &input, &mut output)?,
        _ => panicking_kernels::check(stream, Grid1::covering(100), &input, &mut output, 0)?,
    }
    stream.synchronize()
}

/// A test below runs this one alone, in a process of its own.
#[test]
fn kernel_that_panics() {
    let Ok(kernel) = std::env::var(PANIC) else { return };
    let gpu = Device::open().unwrap();
    let stream = gpu.stream::<Compute>().unwrap();
    let error = launch(&stream, &kernel).expect_err("the kernel panics");
    eprintln!("the error: {error}");
}

fn panics(kernel: &str, place: &str) {
    let line = line(place);
    let error = Device::simulated(Default::default(), |gpu| {
        launch(&gpu.stream::<Compute<_>>().unwrap(), kernel)
    });
    let error = format!("{:?}", error.unwrap().expect_err("the kernel panics"));
    for expected in [
        "LAUNCH_FAILED",
        &format!("kernel `panicking_kernels::{kernel}`"),
        &format!("src/lib.rs:{line}:"),
    ] {
        assert!(error.contains(expected), "{expected}: {error}");
    }

    if Device::open().is_err() {
        assert!(
            std::env::var_os("CUDA_RT_REQUIRE_GPU").is_none(),
            "CUDA_RT_REQUIRE_GPU is set, and there is no GPU"
        );
        eprintln!("SKIPPED ON CUDA: there is no GPU");
        return;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kernel_that_panics", "--nocapture"])
        .env(PANIC, kernel)
        .output()
        .unwrap();
    let text =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    // The driver prints CUDA's assertion with file, line, block and thread.
    for expected in ["CUDA_ERROR_ASSERT", &format!("src/lib.rs:{line}:"), "thread: ["] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn a_read_beyond_the_end_names_its_place() {
    panics("read", "// the place of a read beyond the end");
}

#[test]
fn a_failed_assertion_names_its_place() {
    panics("check", "// the place of an assertion");
}
