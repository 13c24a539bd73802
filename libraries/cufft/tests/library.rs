//! The calls that reach cuFFT, in their order: over a driver and a cuFFT that do nothing
//! (`instructions/libcuda.c`, `null_cufft/libcufft.c`), so that no GPU is needed. Each test runs in
//! a process of its own, which finds these libraries.

#![cfg(target_os = "linux")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::process::Command;

use cuda_rt::{Device, Error, Stream};
use cuda_rt_cufft::{Complex, FftError, Placement, Plan, Shape, Status};

cuda_rt::streams! { Compute; Other; }

type ComplexPlan<S> = Plan<Complex<f32>, Complex<f32>, S>;

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn fork() -> c_int;
    fn waitpid(process: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn alarm(seconds: u32) -> u32;
    fn _exit(status: c_int) -> !;
}

const VARIABLE: &str = "CUDA_RT_TEST_OVER_NULL_CUFFT";

fn compile(source: &Path, library: &Path) {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let name = library.file_name().unwrap().to_str().unwrap();
    let mut compile = Command::new(&compiler);
    compile.args(["-shared", "-fPIC", "-O1", &format!("-Wl,-soname,{name}"), "-o"]);
    let compiled = compile.arg(library).arg(source).status();
    let compiled = compiled.unwrap_or_else(|error| panic!("{}: {error}", compiler.display()));
    assert!(compiled.success());
}

/// Runs `body`, the body of the test `name`, in a process that finds the libraries.
fn over_null_libraries(name: &str, variables: &[(&str, &str)], body: impl FnOnce()) {
    if std::env::var_os(VARIABLE).is_some() {
        return body();
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
    compile(
        &sources.join("../../instructions/libcuda.c"),
        &folder.join("libcuda.so.1"),
    );
    compile(
        &sources.join("tests/null_cufft/libcufft.c"),
        &folder.join("libcufft.so.11"),
    );
    let ended = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(VARIABLE, name)
        .env("LD_LIBRARY_PATH", &folder)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    assert!(ended.status.success(), "{ended:?}");
}

/// A function of the cuFFT that does nothing.
fn function(name: &CStr) -> *mut c_void {
    const RTLD_NOW: c_int = 2;
    const RTLD_NOLOAD: c_int = 4;
    // SAFETY: the name ends with a zero. The library is loaded already.
    let library = unsafe { dlopen(c"libcufft.so.11".as_ptr(), RTLD_NOW | RTLD_NOLOAD) };
    assert!(!library.is_null(), "cuFFT is not loaded");
    // SAFETY: the library is loaded, and the name ends with a zero.
    let function = unsafe { dlsym(library, name.as_ptr()) };
    assert!(!function.is_null(), "another cuFFT is loaded");
    function
}

/// The calls since the last question.
fn calls() -> Vec<String> {
    // SAFETY: `libcufft.c` declares the function like this.
    let function: extern "C" fn() -> *const c_char = unsafe { std::mem::transmute(function(c"cufft_calls")) };
    // SAFETY: the function returns text that ends with a zero.
    let text = unsafe { CStr::from_ptr(function()) };
    text.to_str().unwrap().lines().map(str::to_owned).collect()
}

/// The names of the calls since the last question.
fn names() -> Vec<String> {
    let name = |call: &String| call.split(' ').next().unwrap().to_owned();
    calls().iter().map(name).collect()
}

/// The number behind the name and the handle.
fn number(call: &str) -> u64 {
    call.split(' ').nth(2).unwrap().parse().unwrap()
}

/// Makes the call behind the next `after` calls fail.
fn fail(after: c_int, status: c_int) {
    // SAFETY: `libcufft.c` declares the function like this.
    let function: extern "C" fn(c_int, c_int) = unsafe { std::mem::transmute(function(c"cufft_fail")) };
    function(after, status);
}

fn line(stream: &Stream<Compute>) -> ComplexPlan<Compute> {
    Plan::new(stream, Shape::line(8)).unwrap()
}

#[test]
fn a_handle_is_planned_for_its_shape_and_set_once() {
    over_null_libraries("a_handle_is_planned_for_its_shape_and_set_once", &[], || {
        let gpu = Device::open().unwrap();
        let compute = gpu.stream::<Compute>().unwrap();
        let stream = compute.raw().0;
        let plan = line(&compute);
        let made = [
            "create 1",
            "auto 1 0",
            "plan 1 type 29 rank 1 size 8 | 8 stride 1 distance 8 | 8 stride 1 distance 8 | batch 1",
        ];
        assert_eq!(calls(), made);
        let from = compute.alloc_zeroed::<Complex<f32>>(16).unwrap();
        let mut to = compute.alloc_zeroed::<Complex<f32>>(16).unwrap();
        let (at_from, at_to) = (from.address().0, to.address().0);
        plan.forward(&from, &mut to).unwrap();
        let made = calls();
        assert_eq!(made[0], format!("stream 1 {stream}"));
        assert!(made[1].starts_with("area 1 "), "{made:?}");
        let area = number(&made[1]);
        assert!(
            area.is_multiple_of(256) && area != at_from && area != at_to,
            "{made:?}"
        );
        assert_eq!(made[2..], [format!("C2C 1 at {at_from} {at_to} direction -1")]);
        plan.inverse(&from[8..], &mut to).unwrap();
        plan.inverse_in_place(&mut to).unwrap();
        plan.forward_in_place(&mut to[2..]).unwrap();
        let made = [
            format!("C2C 1 at {} {at_to} direction 1", at_from + 64),
            format!("C2C 1 at {at_to} {at_to} direction 1"),
            format!("C2C 1 at {} {} direction -1", at_to + 16, at_to + 16),
        ];
        assert_eq!(calls(), made);
    });
}

#[test]
fn each_type_has_its_own_plan_and_call() {
    over_null_libraries("each_type_has_its_own_plan_and_call", &[], || {
        let gpu = Device::open().unwrap();
        let compute = gpu.stream::<Compute>().unwrap();
        let real = compute.alloc_zeroed::<f32>(600).unwrap();
        let mut complex = compute.alloc_zeroed::<Complex<f32>>(512).unwrap();
        let (at_real, at_complex) = (real.address().0, complex.address().0);
        let input = Placement::new().row(8).rows(5).stride(2).distance(200);
        let shape = Shape::volume(2, 4, 7).batch(3).input(input);
        let plan = Plan::<f32, Complex<f32>, _>::new(&compute, shape).unwrap();
        plan.forward(&real, &mut complex).unwrap();
        let made = calls();
        let planned = "plan 1 type 2a rank 3 size 2 4 7 | 2 5 8 stride 2 distance 200 | 2 4 4 stride 1 distance 32 | \
                       batch 3";
        assert_eq!(made[2], planned);
        assert_eq!(made[5..], [format!("R2C 1 at {at_real} {at_complex}")]);

        let mut real = real;
        let shape = Shape::plane(3, 5).output(Placement::new().row(6));
        let plan = Plan::<Complex<f32>, f32, _>::new(&compute, shape).unwrap();
        plan.inverse(&mut complex, &mut real).unwrap();
        let made = calls();
        let planned =
            "plan 2 type 2c rank 2 size 3 5 | 3 3 stride 1 distance 9 | 3 6 stride 1 distance 18 | batch 1";
        assert_eq!(made[2], planned);
        assert_eq!(made[5..], [format!("C2R 2 at {at_complex} {at_real}")]);

        let mut real = compute.alloc_zeroed::<f64>(512).unwrap();
        let mut complex = compute.alloc_zeroed::<Complex<f64>>(512).unwrap();
        let (at_real, at_complex) = (real.address().0, complex.address().0);
        let shape = Shape::line(6);
        let there = Plan::<f64, Complex<f64>, _>::new(&compute, shape).unwrap();
        there.forward(&real, &mut complex).unwrap();
        let back = Plan::<Complex<f64>, f64, _>::new(&compute, shape).unwrap();
        back.inverse(&mut complex, &mut real).unwrap();
        let both = Plan::<Complex<f64>, Complex<f64>, _>::new(&compute, shape).unwrap();
        both.forward_in_place(&mut complex).unwrap();
        let made = calls();
        let planned = made.iter().filter(|call| call.starts_with("plan")).cloned();
        let types: Vec<_> = planned.map(|call| call[7..14].to_owned()).collect();
        assert_eq!(types, ["type 6a", "type 6c", "type 69"]);
        let executed = made.iter().filter(|call| call.contains(" at ")).cloned();
        let expected = [
            format!("D2Z 3 at {at_real} {at_complex}"),
            format!("Z2D 4 at {at_complex} {at_real}"),
            format!("Z2Z 5 at {at_complex} {at_complex} direction -1"),
        ];
        assert_eq!(executed.collect::<Vec<_>>(), expected);
    });
}

#[test]
fn handles_are_used_again_for_the_same_shape_and_never_destroyed() {
    let name = "handles_are_used_again_for_the_same_shape_and_never_destroyed";
    over_null_libraries(name, &[], || {
        let gpu = Device::open().unwrap();
        let (compute, other) = (gpu.stream::<Compute>().unwrap(), gpu.stream::<Other>().unwrap());
        let mut signal = compute.alloc_zeroed::<Complex<f32>>(8).unwrap();
        let plan = line(&compute);
        plan.forward_in_place(&mut signal).unwrap();
        let first = calls();
        assert_eq!(first[..2], ["create 1", "auto 1 0"]);
        assert_eq!(first.len(), 6, "{first:?}");
        // A second one at the same time has a handle and a work area of its own.
        let second = line(&compute);
        second.forward_in_place(&mut signal).unwrap();
        let made = calls();
        assert_eq!(made[0], "create 2");
        assert_ne!(number(&made[4]), number(&first[4]));
        // Each sets its own handle once.
        plan.forward_in_place(&mut signal).unwrap();
        second.forward_in_place(&mut signal).unwrap();
        assert_eq!(names(), ["C2C", "C2C"]);
        std::mem::forget(second);
        drop(plan);
        // Another stream takes the handle, and sets its own stream and work area before the call.
        let there = ComplexPlan::new(&other, Shape::line(8)).unwrap();
        let mut elsewhere = other.alloc_zeroed::<Complex<f32>>(8).unwrap();
        there.forward_in_place(&mut elsewhere).unwrap();
        let made = calls();
        assert_eq!(made[0], format!("stream 1 {}", other.raw().0));
        assert!(
            made[1].starts_with("area 1 ") && made[2].starts_with("C2C 1 "),
            "{made:?}"
        );
        // While it is used nobody else gets it.
        drop(line(&compute));
        assert_eq!(calls()[0], "create 3");
        drop(there);
        // Another shape, another type, and another batch have handles of their own.
        for (index, shape) in [Shape::line(9), Shape::line(8).batch(2), Shape::plane(1, 8)]
            .into_iter()
            .enumerate()
        {
            drop(ComplexPlan::new(&compute, shape).unwrap());
            assert_eq!(calls()[0], format!("create {}", 4 + index));
        }
        drop(Plan::<f32, Complex<f32>, _>::new(&compute, Shape::line(8)).unwrap());
        assert_eq!(calls()[0], "create 7");
        // GPUs have handles of their own.
        cuda_rt::devices! { Second; }
        let second = Device::bind::<Second>(1).unwrap();
        let stream = second.stream::<Compute<_>>().unwrap();
        drop(Plan::<Complex<f32>, Complex<f32>, _>::new(&stream, Shape::line(8)).unwrap());
        assert_eq!(calls()[0], "create 8");
    });
}

/// In a capture the handle is set to the capture's stream and to a work area of the graph, and back
/// at the next call outside, also if the `Plan` of the capture was leaked.
#[test]
fn a_capture_has_its_own_stream_and_work_area() {
    over_null_libraries("a_capture_has_its_own_stream_and_work_area", &[], || {
        let gpu = Device::open().unwrap();
        let compute = gpu.stream::<Compute>().unwrap();
        let plan = line(&compute);
        let mut signal = compute.alloc_zeroed::<Complex<f32>>(8).unwrap();
        plan.forward_in_place(&mut signal).unwrap();
        let outside = calls().split_off(3);
        for leaks in [false, true] {
            let memory = compute.alloc_zeroed::<Complex<f32>>(8).unwrap();
            let graph = compute.capture(memory, |stream, mut memory| {
                let inside = plan.captured(stream)?;
                inside.forward_in_place(&mut memory)?;
                inside.inverse_in_place(&mut memory)?;
                if leaks {
                    std::mem::forget(inside);
                }
                Ok(())
            });
            graph.unwrap();
            let inside = calls();
            assert_eq!(inside.len(), 4, "{inside:?}");
            assert!(
                inside[0].starts_with("stream 1 ") && inside[0] != outside[0],
                "{inside:?}"
            );
            assert!(
                inside[1].starts_with("area 1 ") && inside[1] != outside[1],
                "{inside:?}"
            );
            plan.forward_in_place(&mut signal).unwrap();
            assert_eq!(calls(), outside);
        }
    });
}

/// Whatever fails half-way, the next call finds the handle set, or sets it.
#[test]
fn a_handle_that_could_not_be_set_is_set_by_the_next_call() {
    let name = "a_handle_that_could_not_be_set_is_set_by_the_next_call";
    over_null_libraries(name, &[], || {
        let gpu = Device::open().unwrap();
        let compute = gpu.stream::<Compute>().unwrap();
        let mut signal = compute.alloc_zeroed::<Complex<f32>>(8).unwrap();
        let all = ["stream", "area", "C2C"];
        let functions = ["cufftSetStream", "cufftSetWorkArea", "cufftExecC2C"];
        for (failing, function) in functions.into_iter().enumerate() {
            let plan = line(&compute);
            names();
            fail(failing as c_int, 6);
            match plan.forward_in_place(&mut signal) {
                Err(FftError::Status {
                    during,
                    status,
                    function: name,
                }) => {
                    assert_eq!(
                        (during, status, name),
                        ("Plan::forward_in_place", Status(6), function)
                    );
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(names(), all[..=failing]);
            plan.forward_in_place(&mut signal).unwrap();
            let set_again = if failing < 2 { &all[..] } else { &all[failing..] };
            assert_eq!(names(), set_again, "{function}");
        }
        // A capture that changes the stream, and fails before it has changed the work area.
        let plan = line(&compute);
        plan.forward_in_place(&mut signal).unwrap();
        names();
        let memory = compute.alloc_zeroed::<Complex<f32>>(8).unwrap();
        let captured = compute.capture(memory, |stream, mut memory| {
            fail(1, 4);
            Ok(plan.captured(stream)?.forward_in_place(&mut memory)?)
        });
        let error = captured.expect_err("the work area is refused").to_string();
        assert!(error.contains("CUFFT_INVALID_VALUE"), "{error}");
        assert_eq!(names(), ["stream", "area"]);
        plan.forward_in_place(&mut signal).unwrap();
        assert_eq!(names(), all);
    });
}

/// Each other call fails once, with its own name.
#[test]
fn each_failure_names_its_call_and_leaves_no_handle() {
    over_null_libraries("each_failure_names_its_call_and_leaves_no_handle", &[], || {
        let gpu = Device::open().unwrap();
        let compute = gpu.stream::<Compute>().unwrap();
        drop(line(&compute));
        names();
        let shape = Shape::line(5);
        let functions = ["cufftCreate", "cufftSetAutoAllocation", "cufftMakePlanMany64"];
        for (failing, function) in functions.into_iter().enumerate() {
            fail(failing as c_int, 8);
            let error = ComplexPlan::new(&compute, shape).unwrap_err().to_string();
            let words = format!("Plan::new: {function} failed: CUFFT_INVALID_SIZE (8): ");
            assert!(error.starts_with(&words), "{error}");
            // What was made is destroyed, so that failures do not fill the memory.
            let made = names();
            let all = ["create", "auto", "plan"];
            assert_eq!(made[..=failing], all[..=failing]);
            assert_eq!(
                made[failing + 1..],
                ["destroy"][..usize::from(failing > 0)],
                "{function}"
            );
        }
        let plan = ComplexPlan::new(&compute, shape).unwrap();
        assert_eq!(names(), ["create", "auto", "plan"]);
        drop(plan);
        macro_rules! fails {
            ($function:literal, $call:expr) => {
                names();
                fail(2, 6);
                match $call {
                    Err(FftError::Status {
                        function,
                        status: Status(6),
                        ..
                    }) => assert_eq!(function, $function),
                    other => panic!("{other:?}"),
                }
            };
        }
        macro_rules! fails_of {
            ($real:ident $both:literal $there:literal $back:literal) => {
                let mut real = compute.alloc_zeroed::<$real>(8).unwrap();
                let mut complex = compute.alloc_zeroed::<Complex<$real>>(8).unwrap();
                let mut other = compute.alloc_zeroed::<Complex<$real>>(8).unwrap();
                let plan = Plan::<Complex<$real>, Complex<$real>, _>::new(&compute, shape).unwrap();
                fails!($both, plan.forward(&other, &mut complex));
                let there = Plan::<$real, Complex<$real>, _>::new(&compute, shape).unwrap();
                fails!($there, there.forward(&real, &mut complex));
                let back = Plan::<Complex<$real>, $real, _>::new(&compute, shape).unwrap();
                fails!($back, back.inverse(&mut other, &mut real));
            };
        }
        fails_of!(f32 "cufftExecC2C" "cufftExecR2C" "cufftExecC2R");
        fails_of!(f64 "cufftExecZ2Z" "cufftExecD2Z" "cufftExecZ2D");
    });
}

#[test]
fn a_refused_shape_reaches_no_library() {
    over_null_libraries("a_refused_shape_reaches_no_library", &[], || {
        let gpu = Device::open().unwrap();
        let compute = gpu.stream::<Compute>().unwrap();
        let plan = line(&compute);
        let there = Plan::<f32, Complex<f32>, _>::new(&compute, Shape::line(8)).unwrap();
        let real = compute.alloc_zeroed::<f32>(16).unwrap();
        let mut signal = compute.alloc_zeroed::<Complex<f32>>(16).unwrap();
        names();
        assert!(ComplexPlan::new(&compute, Shape::line(0)).is_err());
        let overlapping = Shape::line(8).batch(2).output(Placement::new().distance(7));
        assert!(ComplexPlan::new(&compute, overlapping).is_err());
        assert!(plan.forward_in_place(&mut signal[..7]).is_err());
        // cuFFT demands that real numbers are aligned as complex ones.
        let refused = there.forward(&real[1..], &mut signal);
        let line = line!() - 1;
        let words = format!(
            "Plan::forward ({}:{line}): the input: it begins at no multiple of 8 bytes, which cuFFT demands of real \
             numbers too: begin the slice at an even element, or copy it",
            file!()
        );
        assert_eq!(refused.unwrap_err().to_string(), words);
        assert_eq!(names(), [""; 0]);
        there.forward(&real[2..], &mut signal).unwrap();
        assert_eq!(names(), ["stream", "area", "R2C"]);
    });
}

#[test]
fn a_plan_without_a_work_area_sets_its_own_all_the_same() {
    over_null_libraries(
        "a_plan_without_a_work_area_sets_its_own_all_the_same",
        &[],
        || {
            let gpu = Device::open().unwrap();
            let compute = gpu.stream::<Compute>().unwrap();
            drop(line(&compute));
            // SAFETY: `libcufft.c` declares the function like this.
            let set: extern "C" fn(usize) = unsafe { std::mem::transmute(function(c"cufft_set_work_bytes")) };
            set(0);
            names();
            let shape = Shape::line(4);
            let plans = [(); 2].map(|()| ComplexPlan::new(&compute, shape).unwrap());
            let mut signal = compute.alloc_zeroed::<Complex<f32>>(8).unwrap();
            for plan in &plans {
                plan.forward_in_place(&mut signal).unwrap();
            }
            let areas: Vec<u64> = calls()
                .iter()
                .filter(|call| call.starts_with("area"))
                .map(|call| number(call))
                .collect();
            assert!(
                areas.len() == 2 && areas[0] != areas[1] && areas[0] != 0,
                "{areas:?}"
            );
        },
    );
}

#[test]
fn a_library_that_is_too_old_says_so() {
    over_null_libraries("a_library_that_is_too_old_says_so", &[], || {
        let gpu = Device::open().unwrap();
        let compute = gpu.stream::<Compute>().unwrap();
        let plan = line(&compute);
        assert_eq!(plan.version().unwrap(), Some(12_000));
        // SAFETY: `libcufft.c` declares the function like this.
        let set: extern "C" fn(c_int) = unsafe { std::mem::transmute(function(c"cufft_set_version")) };
        set(10_102);
        names();
        let error = ComplexPlan::new(&compute, Shape::line(3))
            .unwrap_err()
            .to_string();
        assert!(error.contains("libcufft.so.11 is version 10102"), "{error}");
        assert_eq!(names(), [""; 0]);
    });
}

#[test]
fn a_named_file_is_loaded_and_no_other() {
    const NAME: &str = "a_named_file_is_loaded_and_no_other";
    over_null_libraries(NAME, &[("CUDA_RT_CUFFT", "libcufft-of-nobody.so")], || {
        let gpu = Device::open().unwrap();
        let error = ComplexPlan::new(&gpu.stream::<Compute>().unwrap(), Shape::line(8)).unwrap_err();
        assert!(matches!(error, FftError::Library { .. }));
        let text = error.to_string();
        assert!(
            text.contains("tried libcufft-of-nobody.so (") && !text.contains("libcufft.so.11"),
            "{text}"
        );
    });
}

/// A child of `fork` makes no call of cuFFT, and its drops make none either.
#[test]
fn no_call_reaches_the_library_in_a_child() {
    over_null_libraries("no_call_reaches_the_library_in_a_child", &[], || {
        let gpu = Device::open().unwrap();
        let compute = gpu.stream::<Compute>().unwrap();
        let plan = line(&compute);
        let mut signal = compute.alloc_zeroed::<Complex<f32>>(8).unwrap();
        plan.forward_in_place(&mut signal).unwrap();
        names();
        // SAFETY: the child makes the calls below, and ends in this block.
        let child = unsafe { fork() };
        assert!(child >= 0);
        if child == 0 {
            // SAFETY: the call takes no pointer. The signal ends a child that waits for ever.
            unsafe { alarm(60) };
            let refused = |result: Result<(), FftError>| {
                let text = Error::from(result.unwrap_err()).to_string();
                assert!(text.contains("this process was forked"), "{text}");
            };
            // A panic must not end this thread alone: it is the child's only one.
            let body = std::panic::AssertUnwindSafe(|| {
                refused(plan.forward_in_place(&mut signal));
                refused(ComplexPlan::new(&compute, Shape::line(8)).map(drop));
                refused(plan.version().map(drop));
                drop(plan);
                assert_eq!(names(), [""; 0]);
            });
            let right = std::panic::catch_unwind(body).is_ok();
            // SAFETY: the call ends the process at once, and runs no destructor.
            unsafe { _exit(c_int::from(!right)) };
        }
        let mut status = -1;
        // SAFETY: `child` is a child of this process, and `status` has room for its status.
        assert_eq!(unsafe { waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        plan.forward_in_place(&mut signal).unwrap();
        assert_eq!(names(), ["C2C"]);
    });
}
