//! The calls that reach cuBLAS, in their order: over a driver and a cuBLAS that do nothing
//! (`instructions/libcuda.c`, `null_cublas/libcublas.c`), so that no GPU is needed. Each test runs
//! in a process of its own, which finds these libraries.

#![cfg(target_os = "linux")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

use cuda_rt::{Device, DeviceBuffer, Error};
use cuda_rt_cublas::{Blas, BlasError, Matrix, MatrixMut, Precision, Side, Status, Triangle};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

cuda_rt::streams! { Compute; Other; }

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn fork() -> c_int;
    fn waitpid(process: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn alarm(seconds: u32) -> u32;
    fn _exit(status: c_int) -> !;
}

const VARIABLE: &str = "CUDA_RT_TEST_OVER_NULL_CUBLAS";

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
        &sources.join("tests/null_cublas/libcublas.c"),
        &folder.join("libcublas.so.12"),
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

/// A function of the cuBLAS that does nothing.
fn function(name: &CStr) -> *mut c_void {
    const RTLD_NOW: c_int = 2;
    const RTLD_NOLOAD: c_int = 4;
    // SAFETY: the name ends with a zero. The library is loaded already.
    let library = unsafe { dlopen(c"libcublas.so.12".as_ptr(), RTLD_NOW | RTLD_NOLOAD) };
    assert!(!library.is_null(), "cuBLAS is not loaded");
    // SAFETY: the library is loaded, and the name ends with a zero.
    let function = unsafe { dlsym(library, name.as_ptr()) };
    assert!(!function.is_null(), "another cuBLAS is loaded");
    function
}

/// The calls since the last question.
fn calls() -> Vec<String> {
    // SAFETY: `libcublas.c` declares the function like this.
    let function: extern "C" fn() -> *const c_char =
        unsafe { std::mem::transmute(function(c"cublas_calls")) };
    // SAFETY: the function returns text that ends with a zero.
    let text = unsafe { CStr::from_ptr(function()) };
    text.to_str().unwrap().lines().map(str::to_owned).collect()
}

/// The names of the calls since the last question.
fn names() -> Vec<String> {
    calls()
        .iter()
        .map(|call| call.split(' ').next().unwrap().to_owned())
        .collect()
}

/// Makes the call behind the next `after` calls fail.
fn fail(after: c_int, status: c_int) {
    // SAFETY: `libcublas.c` declares the function like this.
    let function: extern "C" fn(c_int, c_int) = unsafe { std::mem::transmute(function(c"cublas_fail")) };
    function(after, status);
}

fn matrix(memory: &DeviceBuffer<f32, Compute>) -> Matrix<'_, f32, Compute> {
    Matrix::new(memory, 2, 2)
}

#[test]
fn a_handle_is_set_once_and_arguments_are_those_of_columns() {
    over_null_libraries(
        "a_handle_is_set_once_and_arguments_are_those_of_columns",
        &[],
        || {
            let gpu = Device::open().unwrap();
            let compute = gpu.stream::<Compute>().unwrap();
            let stream = compute.raw().0;
            let blas = Blas::new(&compute).unwrap();
            assert_eq!(names(), ["create"]);
            let (a, b) = (
                compute.alloc_zeroed::<f32>(64).unwrap(),
                compute.alloc_zeroed::<f32>(64).unwrap(),
            );
            let mut c = compute.alloc_zeroed::<f32>(64).unwrap();
            let (at_a, at_b, at_c) = (a.address().0, b.address().0, c.address().0);

            // Row by row, the factors are exchanged.
            let (one, two) = (Matrix::new(&a, 2, 3).leading_dimension(5), Matrix::new(&b, 3, 4));
            blas.gemm(2.0, one, two, 0.5, MatrixMut::new(&mut c, 2, 4))
                .unwrap();
            let made = calls();
            assert_eq!(made[0], format!("stream 1 {stream}"));
            let workspace: Vec<u64> = made[1]
                .split(' ')
                .skip(1)
                .map(|word| word.parse().unwrap())
                .collect();
            let [1, at, bytes] = workspace[..] else {
                panic!("{made:?}")
            };
            assert!(at.is_multiple_of(256) && bytes == 32 << 20, "{made:?}");
            assert_eq!(made[2], "mode 1 0");
            let gemm = format!(
                "gemm 1 op 00 size 4 2 3 at {at_b} {at_a} {at_c} ld 4 5 4 types 0 0 0 compute 68 -1 alpha 2 beta 0.5"
            );
            assert_eq!(made[3..], [gemm]);

            // Column by column, with a factor in the other layout.
            let (one, two) = (Matrix::new(&a, 2, 3).column_major(), Matrix::new(&b, 3, 4));
            blas.gemm(1.0, one, two, 0.0, MatrixMut::new(&mut c, 2, 4).column_major())
                .unwrap();
            let gemm = format!(
                "gemm 1 op 01 size 2 4 3 at {at_a} {at_b} {at_c} ld 2 4 2 types 0 0 0 compute 68 -1 alpha 1 beta 0"
            );
            assert_eq!(calls(), [gemm]);

            // A batch, of which one factor is a single matrix.
            let output = MatrixMut::new(&mut c, 2, 2).batch(3, 4);
            blas.gemm(
                1.0,
                Matrix::new(&a, 2, 2).batch(3, 2),
                Matrix::new(&b, 2, 2),
                0.0,
                output,
            )
            .unwrap();
            let strided = format!(
                "strided 1 op 00 size 2 2 2 at {at_b} {at_a} {at_c} ld 2 2 2 types 0 0 0 compute 68 -1 alpha 1 beta 0 \
             strides 0 2 4 count 3"
            );
            assert_eq!(calls(), [strided]);

            // Sums go to device memory: the mode changes, and changes back.
            blas.dot(&a[..3], &b[..3], &mut c[7..8]).unwrap();
            blas.nrm2(&a[..5], &mut c[8..9]).unwrap();
            let made = calls();
            assert_eq!(made[0], "mode 1 1");
            assert_eq!(
                made[1],
                format!("dot 1 size 3 at {at_a} {at_b} {} inc 1 1", at_c + 28)
            );
            assert_eq!(made[2], format!("nrm2 1 size 5 at {at_a} {} inc 1", at_c + 32));
            blas.axpy(3.0, &a[..4], &mut c[1..5]).unwrap();
            blas.scal(4.0, &mut c[..6]).unwrap();
            let made = calls();
            assert_eq!(made[0], "mode 1 0");
            assert_eq!(
                made[1],
                format!("axpy 1 size 4 at {at_a} {} inc 1 1 alpha 3", at_c + 4)
            );
            assert_eq!(made[2], format!("scal 1 size 6 at {at_c} inc 1 alpha 4"));

            // A matrix of 3 rows and 2 columns, row by row: to cuBLAS, 2 rows and 3 columns,
            // turned.
            blas.gemv(1.0, Matrix::new(&a, 3, 2), &b[..2], 2.0, &mut c[..3])
                .unwrap();
            assert_eq!(
                calls(),
                [format!(
                    "gemv 1 op 1 size 2 3 at {at_a} {at_b} {at_c} ld 2 inc 1 1 alpha 1 beta 2"
                )]
            );
            // A·X = B, row by row: Xᵀ·Aᵀ = Bᵀ, and the lower half is the upper.
            let (lower, right) = (Matrix::new(&a, 2, 2), MatrixMut::new(&mut c, 2, 3));
            blas.trsm(
                Side::Left,
                Triangle::LOWER.with_unit_diagonal(),
                1.0,
                lower,
                right,
            )
            .unwrap();
            let trsm = format!("trsm 1 side 1 uplo 1 op 0 diag 1 size 3 2 at {at_a} {at_c} ld 2 3 alpha 1");
            assert_eq!(calls(), [trsm]);
        },
    );
}

#[test]
fn lists_are_passed_only_where_all_matrices_are_aligned() {
    over_null_libraries(
        "lists_are_passed_only_where_all_matrices_are_aligned",
        &[],
        || {
            let gpu = Device::open().unwrap();
            let compute = gpu.stream::<Compute>().unwrap();
            let mut blas = Blas::new(&compute).unwrap();
            blas.set_precision(Precision::Tf32);
            let a = compute.alloc_zeroed::<f32>(64).unwrap();
            let mut c = compute.alloc_zeroed::<f32>(64).unwrap();
            let list = [&a[..4], &a[4..], &a[8..]].map(|part| Matrix::new(part, 2, 2));
            let (left, rest) = c.split_at_mut(4);
            let (middle, right) = rest.split_at_mut(16);
            let mut outputs = [left, middle, right].map(|part| MatrixMut::new(part, 2, 2));
            names();
            blas.gemm_batched(1.0, &list, &list, 0.0, &mut outputs).unwrap();
            let made = calls();
            assert!(
                made.last().unwrap().starts_with("list 1 op 00 size 2 2 2"),
                "{made:?}"
            );
            assert!(
                made.last()
                    .unwrap()
                    .ends_with("compute 77 -1 alpha 1 beta 0 count 3"),
                "{made:?}"
            );
            let odd = [&a[..4], &a[5..], &a[8..]].map(|part| Matrix::new(part, 2, 2));
            blas.gemm_batched(1.0, &odd, &list, 0.0, &mut outputs).unwrap();
            assert_eq!(names(), ["gemm"; 3]);
        },
    );
}

#[test]
fn handles_are_used_again_and_never_destroyed() {
    over_null_libraries("handles_are_used_again_and_never_destroyed", &[], || {
        let gpu = Device::open().unwrap();
        let (compute, other) = (gpu.stream::<Compute>().unwrap(), gpu.stream::<Other>().unwrap());
        let a = compute.alloc_zeroed::<f32>(4).unwrap();
        let blas = Blas::new(&compute).unwrap();
        blas.multiply(matrix(&a), matrix(&a)).unwrap();
        assert_eq!(names(), ["create", "stream", "workspace", "mode", "gemm"]);
        drop(blas);
        // Another stream takes the handle, and sets its own stream and workspace before the call.
        let there = Blas::with_workspace(&other, 1).unwrap();
        let mut x = other.alloc_zeroed::<f32>(4).unwrap();
        there.scal(1.0, &mut x).unwrap();
        let made = calls();
        assert_eq!(made[0], format!("stream 1 {}", other.raw().0));
        assert!(made[1].ends_with(" 16384"), "{made:?}");
        assert_eq!(made[2..], ["mode 1 0", &made[3]]);
        // Two at once have two handles; a leaked one is not used again.
        let second = Blas::new(&compute).unwrap();
        assert_eq!(calls(), ["create 2"]);
        std::mem::forget(second);
        drop(Blas::new(&compute).unwrap());
        assert_eq!(calls(), ["create 3"]);
        drop(there);
        // GPUs have handles of their own.
        cuda_rt::devices! { Second; }
        let second = Device::bind::<Second>(1).unwrap();
        drop(Blas::new(&second.stream::<Compute<_>>().unwrap()).unwrap());
        assert_eq!(calls(), ["create 4"]);
    });
}

/// In a capture the handle is set to the capture's stream and to a workspace of the graph, and
/// back at the next call outside, also if the `Blas` of the capture was leaked.
#[test]
fn a_capture_has_its_own_stream_and_workspace() {
    over_null_libraries("a_capture_has_its_own_stream_and_workspace", &[], || {
        let gpu = Device::open().unwrap();
        let compute = gpu.stream::<Compute>().unwrap();
        let blas = Blas::new(&compute).unwrap();
        let a = compute.alloc_zeroed::<f32>(4).unwrap();
        blas.multiply(matrix(&a), matrix(&a)).unwrap();
        let outside = calls();
        for leaks in [false, true] {
            let memory = compute.alloc_zeroed::<f32>(4).unwrap();
            let graph = compute.capture(memory, |stream, mut memory| {
                let inside = blas.captured(stream)?;
                inside.scal(2.0, &mut memory)?;
                inside.scal(2.0, &mut memory)?;
                if leaks {
                    std::mem::forget(inside);
                }
                Ok(())
            });
            graph.unwrap();
            let inside = calls();
            assert_eq!(inside.len(), 4, "{inside:?}");
            assert!(
                inside[0].starts_with("stream 1 ") && inside[0] != outside[1],
                "{inside:?}"
            );
            assert!(
                inside[1].starts_with("workspace 1 ") && inside[1] != outside[2],
                "{inside:?}"
            );
            blas.multiply(matrix(&a), matrix(&a)).unwrap();
            let again = calls();
            assert_eq!(again[..2], outside[1..3]);
            assert_eq!(again.len(), 3, "{again:?}");
        }
    });
}

/// Whatever fails half-way, the next call finds the handle set, or sets it.
#[test]
fn a_handle_that_could_not_be_set_is_set_by_the_next_call() {
    over_null_libraries(
        "a_handle_that_could_not_be_set_is_set_by_the_next_call",
        &[],
        || {
            let gpu = Device::open().unwrap();
            let compute = gpu.stream::<Compute>().unwrap();
            let a = compute.alloc_zeroed::<f32>(4).unwrap();
            let mut sum = compute.alloc_zeroed::<f32>(1).unwrap();
            let all = ["stream", "workspace", "mode", "gemm"];
            for (failing, function) in [
                "cublasSetStream_v2",
                "cublasSetWorkspace_v2",
                "cublasSetPointerMode_v2",
                "cublasGemmEx",
            ]
            .into_iter()
            .enumerate()
            {
                let blas = Blas::new(&compute).unwrap();
                names();
                fail(failing as c_int, 13);
                match blas.multiply(matrix(&a), matrix(&a)) {
                    Err(BlasError::Status {
                        status,
                        function: name,
                        ..
                    }) => {
                        assert_eq!((status, name), (Status(13), function));
                    }
                    other => panic!("{other:?}"),
                }
                assert_eq!(names(), all[..=failing]);
                blas.multiply(matrix(&a), matrix(&a)).unwrap();
                let set_again = if failing < 2 { &all[..] } else { &all[failing..] };
                assert_eq!(names(), set_again, "{function}");
            }
            // A capture that changes the stream, and fails before it has changed the workspace.
            let blas = Blas::new(&compute).unwrap();
            blas.multiply(matrix(&a), matrix(&a)).unwrap();
            names();
            let memory = compute.alloc_zeroed::<f32>(4).unwrap();
            let captured = compute.capture(memory, |stream, mut memory| {
                fail(1, 3);
                Ok(blas.captured(stream)?.scal(1.0, &mut memory)?)
            });
            let error = captured.expect_err("the workspace is refused").to_string();
            assert!(error.contains("CUBLAS_STATUS_ALLOC_FAILED"), "{error}");
            assert_eq!(names(), ["stream", "workspace"]);
            blas.multiply(matrix(&a), matrix(&a)).unwrap();
            assert_eq!(names(), ["stream", "workspace", "gemm"]);
            drop(blas);
            // The mode for sums may fail too, in both directions.
            let blas = Blas::new(&compute).unwrap();
            blas.multiply(matrix(&a), matrix(&a)).unwrap();
            names();
            fail(0, 14);
            blas.dot(&a, &a, &mut sum).unwrap_err();
            blas.multiply(matrix(&a), matrix(&a)).unwrap();
            assert_eq!(calls()[..2], ["mode 1 1", "mode 1 0"]);
        },
    );
}

#[test]
fn a_refused_shape_reaches_no_library() {
    over_null_libraries("a_refused_shape_reaches_no_library", &[], || {
        let gpu = Device::open().unwrap();
        let compute = gpu.stream::<Compute>().unwrap();
        let blas = Blas::new(&compute).unwrap();
        let a = compute.alloc_zeroed::<f32>(4).unwrap();
        let mut c = compute.alloc_zeroed::<f32>(4).unwrap();
        names();
        let too_small = MatrixMut::new(&mut c, 2, 2).leading_dimension(3);
        let refused = blas.gemm(1.0, matrix(&a), matrix(&a), 0.0, too_small);
        let line = line!() - 1;
        let error = refused.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "Blas::gemm ({}:{}): C: 2 x 2 elements with leading dimension 3 need 5 elements, and the memory \
                 has 4: pass more memory or a smaller shape",
                file!(),
                line,
            )
        );
        let overlapping = MatrixMut::new(&mut c, 1, 2).batch(2, 1);
        let row = Matrix::new(&a, 1, 2);
        assert!(blas.gemm(1.0, row, matrix(&a), 0.0, overlapping).is_err());
        // Nothing to write is nothing to do.
        blas.scal(1.0, &mut c[..0]).unwrap();
        assert_eq!(names(), [""; 0]);
    });
}

#[test]
fn a_library_that_cannot_start_says_why() {
    over_null_libraries("a_library_that_cannot_start_says_why", &[], || {
        let gpu = Device::open().unwrap();
        let compute = gpu.stream::<Compute>().unwrap();
        drop(Blas::new(&compute).unwrap());
        let keep = Blas::new(&compute).unwrap();
        fail(0, 1);
        let error = Blas::new(&compute).unwrap_err().to_string();
        assert!(
            error.starts_with("Blas::new: cublasCreate_v2 failed: CUBLAS_STATUS_NOT_INITIALIZED (1)"),
            "{error}"
        );
        // SAFETY: `libcublas.c` declares the function like this.
        let set: extern "C" fn(c_int) = unsafe { std::mem::transmute(function(c"cublas_set_version")) };
        set(10_020);
        let error = Blas::new(&compute).unwrap_err().to_string();
        assert!(error.contains("libcublas.so.12 is version 10020"), "{error}");
        drop(keep);
    });
}

#[test]
fn a_named_file_is_loaded_and_no_other() {
    const NAME: &str = "a_named_file_is_loaded_and_no_other";
    over_null_libraries(NAME, &[("CUDA_RT_CUBLAS", "libcublas-of-nobody.so")], || {
        let gpu = Device::open().unwrap();
        let error = Blas::new(&gpu.stream::<Compute>().unwrap()).unwrap_err();
        assert!(matches!(error, BlasError::Library { .. }));
        let text = error.to_string();
        assert!(
            text.contains("tried libcublas-of-nobody.so (") && !text.contains("libcublas.so.12"),
            "{text}"
        );
    });
}

/// A child of `fork` makes no call of cuBLAS, and its drops make none either.
#[test]
fn no_call_reaches_the_library_in_a_child() {
    over_null_libraries("no_call_reaches_the_library_in_a_child", &[], || {
        let gpu = Device::open().unwrap();
        let compute = gpu.stream::<Compute>().unwrap();
        let blas = Blas::new(&compute).unwrap();
        let mut a = compute.alloc_zeroed::<f32>(4).unwrap();
        blas.scal(1.0, &mut a).unwrap();
        names();
        // SAFETY: the child makes the calls below, and ends in this block.
        let child = unsafe { fork() };
        assert!(child >= 0);
        if child == 0 {
            // SAFETY: the call takes no pointer. The signal ends a child that waits for ever.
            unsafe { alarm(60) };
            let refused = |result: Result<(), BlasError>| {
                let text = Error::from(result.unwrap_err()).to_string();
                assert!(text.contains("this process was forked"), "{text}");
            };
            // A panic must not end this thread alone: it is the child's only one.
            let body = std::panic::AssertUnwindSafe(|| {
                refused(blas.scal(1.0, &mut a));
                refused(Blas::new(&compute).map(drop));
                refused(blas.version().map(drop));
                drop(blas);
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
        blas.scal(1.0, &mut a).unwrap();
        assert_eq!(names(), ["scal"]);
    });
}

/// A subscriber of `tracing` that calls the library when it is told of an error.
struct Calling;

static BLAS: OnceLock<Blas<Compute>> = OnceLock::new();
static MEMORY: Mutex<Option<DeviceBuffer<f32, Compute>>> = Mutex::new(None);
static TOLD: AtomicU32 = AtomicU32::new(0);

impl Subscriber for Calling {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "cuda_rt::error"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn event(&self, _: &Event<'_>) {
        if let Ok(mut memory) = MEMORY.try_lock()
            && let Some(x) = &mut *memory
        {
            assert!(BLAS.get().unwrap().scal(1.0, x).is_err());
            TOLD.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The subscriber waited for ever for the lock of the workspace, which its own thread had.
#[test]
fn a_subscriber_may_call_the_blas_whose_error_it_is_told_of() {
    const NAME: &str = "a_subscriber_may_call_the_blas_whose_error_it_is_told_of";
    over_null_libraries(NAME, &[], || {
        // SAFETY: the call takes no pointer. The signal ends a process that waits for ever.
        unsafe { alarm(60) };
        tracing::subscriber::set_global_default(Calling).unwrap();
        let gpu = Device::open().unwrap();
        let compute = gpu.stream::<Compute>().unwrap();
        let blas = BLAS.get_or_init(|| Blas::new(&compute).unwrap());
        let [x, mut y] = [(); 2].map(|()| compute.alloc_zeroed::<f32>(4).unwrap());
        let mut c = compute.alloc_zeroed::<f32>(4).unwrap();
        // The device is lost: each later call fails.
        let mut host = compute.adopt(gpu.pinned_from(&[0_u32; 4]).unwrap()).unwrap();
        compute
            .host_fn(&mut host, |_: &mut [u32]| panic!("half-way"))
            .unwrap();
        assert!(compute.synchronize().is_err());
        *MEMORY.lock().unwrap() = Some(x);
        let matrix = |memory| Matrix::new(memory, 2, 2);
        let before = TOLD.load(Ordering::Relaxed);
        assert!(blas.scal(1.0, &mut y).is_err());
        let after_scal = TOLD.load(Ordering::Relaxed);
        let product = MatrixMut::new(&mut c, 2, 2);
        assert!(blas.gemm(1.0, matrix(&y), matrix(&y), 0.0, product).is_err());
        let left = MatrixMut::new(&mut c, 2, 2);
        let (side, triangle) = (Side::Left, Triangle::LOWER);
        assert!(blas.trsm(side, triangle, 1.0, matrix(&y), left).is_err());
        let told = [before, after_scal, TOLD.load(Ordering::Relaxed)];
        assert_eq!(told, [0, 1, 3], "each error is told, outside of the lock");
        std::process::exit(0);
    });
}
