//! Failures, and the state after them.

use std::sync::Arc;

use cuda_rt::driver::{Driver, DriverError, ErrorCode};
use cuda_rt::kernel::{Extent, Kernel, LaunchShape};

#[cfg(feature = "cuda")]
use crate::fixtures::{BROKEN, FORGED_LAYOUT, MISSING, OTHER_LAYOUT, UNTOLD_LAYOUT};
use crate::fixtures::{CRASH, STEP, Step};
use crate::support::{Block, Rig, SLOW, shape};

const HUNDRED: Extent = Extent { x: 100, y: 1, z: 1 };

fn launch_step(
    rig: &Rig,
    data: Block,
    shape: &LaunchShape,
    stream: cuda_rt::driver::RawStream,
) -> Result<(), DriverError> {
    let parameters = Step {
        data,
        length: 100,
        cycles: 0,
        factor: 1,
        term: 1,
        extent: HUNDRED,
    };
    // SAFETY: the parameters are the kernel's, and the block has 100 words.
    unsafe { rig.driver.launch(&STEP, shape, &parameters.pointers(), stream) }
}

#[track_caller]
fn still_works(rig: &Rig, stream: cuda_rt::driver::RawStream) {
    let data = rig.zeroed(400, stream);
    rig.step(data, SLOW, 1, 1, stream);
    assert_eq!(rig.read_words(data, stream), [1; 100]);
}

pub(crate) fn invalid_launch_shapes_are_refused(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let data = rig.zeroed(400, stream);
    let good = shape(HUNDRED);
    let most = driver.properties().max_threads_per_block;
    let shapes = [
        LaunchShape {
            grid: [0, 1, 1],
            ..good
        },
        LaunchShape {
            grid: [1, 0, 1],
            ..good
        },
        LaunchShape {
            grid: [1, 1, 0],
            ..good
        },
        LaunchShape {
            grid: [1, u32::MAX, 1],
            ..good
        },
        LaunchShape {
            block: [0, 1, 1],
            ..good
        },
        LaunchShape {
            block: [1, 0, 1],
            ..good
        },
        LaunchShape {
            block: [most + 1, 1, 1],
            ..good
        },
        LaunchShape {
            block: [most, 2, 1],
            ..good
        },
        LaunchShape {
            shared_bytes: 1 << 30,
            ..good
        },
    ];
    for shape in shapes {
        let error = launch_step(&rig, data, &shape, stream).expect_err(&format!("{shape:?}"));
        assert_eq!(error.code(), ErrorCode::INVALID_VALUE, "{shape:?}: {error}");
        if rig.is_cuda() {
            assert!(
                error.detail().contains(STEP.name),
                "the error names the kernel: {error}"
            );
        }
        assert!(!error.is_sticky());
    }
    assert_eq!(rig.read_words(data, stream), [0; 100]);
    still_works(&rig, stream);
}

pub(crate) fn a_refused_launch_enqueues_nothing(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let data = rig.zeroed(400, stream);
    rig.step(data, SLOW, 0, 5, stream);
    launch_step(
        &rig,
        data,
        &LaunchShape {
            grid: [0, 1, 1],
            ..shape(HUNDRED)
        },
        stream,
    )
    .expect_err("no grid");
    rig.step(data, 0, 2, 0, stream);
    assert_eq!(rig.read_words(data, stream), [10; 100]);
}

/// The error names the kernel. Every later call fails too, and none blocks.
pub(crate) fn a_kernel_that_traps(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let (host, event) = (rig.host(400), rig.event());
    let data = rig.zeroed(400, stream);
    rig.synchronize(stream);

    let extent = Extent { x: 1, y: 1, z: 1 };
    let parameters = [std::ptr::from_ref(&extent).cast()];
    // SAFETY: the parameters are the kernel's. A device that runs the kernel at once may return the
    // error here.
    let launched = unsafe { driver.launch(&CRASH, &shape(extent), &parameters, stream) };
    // SAFETY: the rig keeps the stream live.
    let waited = unsafe { driver.synchronize_stream(stream) };
    let error = launched.and(waited).expect_err("the kernel traps");
    assert!(error.is_sticky(), "{error}");
    assert_eq!(error.code(), ErrorCode::LAUNCH_FAILED, "{error}");
    assert!(
        error.to_string().contains(CRASH.name),
        "the error names the kernel: {error}"
    );

    // SAFETY: the rig keeps this handle live, and all handles below.
    let wait = unsafe { driver.synchronize_stream(stream) };
    // SAFETY: as above.
    let record = unsafe { driver.record_event(event, stream) };
    // SAFETY: as above.
    let query =
        unsafe { driver.query_event(event) }.map(|done| assert!(!done, "a lost device finishes nothing"));
    // SAFETY: as above.
    let synchronize = unsafe { driver.synchronize_event(event) };
    // SAFETY: as above; the block has at least 400 bytes.
    let fill = unsafe { driver.fill(data.address, &[1], 400, stream) };
    let alloc = rig.alloc(400, stream).map(drop);
    let launch = launch_step(&rig, data, &shape(HUNDRED), stream);
    let calls = [
        ("synchronize_stream", wait),
        ("record_event", record),
        ("query_event", query),
        ("synchronize_event", synchronize),
        ("fill", fill),
        ("alloc", alloc),
        ("launch", launch),
    ];
    for (call, result) in calls {
        let error = result.expect_err(call);
        assert!(error.is_sticky(), "{call}: {error}");
    }
    // Host memory belongs to the process: it stays readable.
    assert_eq!(host.words(), [0; 100]);
}

#[cfg(feature = "cuda")]
#[track_caller]
fn refused(driver: &Arc<dyn Driver>, kernel: &'static Kernel, codes: &[ErrorCode], says: &[&str]) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    // Twice, because a failure must not be remembered as a success.
    for _ in 0..2 {
        let error = driver.prepare(kernel).expect_err(kernel.name);
        assert!(codes.contains(&error.code()), "{error}");
        assert!(!error.is_sticky(), "{error}");
        for text in says {
            assert!(error.to_string().contains(text), "{text:?} is missing: {error}");
        }
        let extent = HUNDRED;
        let parameters = [std::ptr::from_ref(&extent).cast()];
        // SAFETY: the parameters are the kernel's. It cannot be prepared, so it is not launched.
        unsafe { driver.launch(kernel, &shape(extent), &parameters, stream) }.expect_err(kernel.name);
    }
    still_works(&rig, stream);
}

#[cfg(feature = "cuda")]
pub(crate) fn ptx_that_does_not_compile(driver: &Arc<dyn Driver>) {
    let says = ["cuModuleLoadDataEx", "conformance, broken", "no_such_instruction"];
    refused(driver, &BROKEN, &[ErrorCode::INVALID_PTX], &says);
}

#[cfg(feature = "cuda")]
pub(crate) fn a_kernel_missing_from_its_ptx(driver: &Arc<dyn Driver>) {
    let says = ["cuModuleGetFunction", MISSING.name, "`missing`", "xtask ptx"];
    refused(driver, &MISSING, &[ErrorCode::NOT_FOUND], &says);
}

#[cfg(feature = "cuda")]
pub(crate) fn layouts_that_differ(driver: &Arc<dyn Driver>) {
    for (kernel, why) in [
        (&OTHER_LAYOUT, "differ"),
        (&UNTOLD_LAYOUT, "no layout table"),
        (
            &FORGED_LAYOUT,
            "number 1 has [4, 4] bytes (size, alignment) on the host, and [256, 4] in the PTX",
        ),
    ] {
        refused(
            driver,
            kernel,
            &[ErrorCode::INVALID_IMAGE],
            &[kernel.name, why, "xtask ptx"],
        );
    }
}
