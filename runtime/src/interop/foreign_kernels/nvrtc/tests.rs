use super::*;

/// The compiler, if it is installed.
fn nvrtc() -> Option<Nvrtc> {
    match Nvrtc::load() {
        Ok(nvrtc) => {
            eprintln!("found {nvrtc:?}");
            Some(nvrtc)
        }
        Err(error) => {
            let text = error.to_string();
            for part in [
                "libnvrtc.so.13",
                "libnvrtc.so.11.2",
                "CUDA_RT_NVRTC",
                "nvidia-cuda-nvrtc",
            ] {
                assert!(text.contains(part) || cfg!(windows), "{text}");
            }
            eprintln!("SKIPPED: {error}");
            None
        }
    }
}

fn options() -> NvrtcOptions {
    NvrtcOptions::for_capability((8, 0)).named("test.cu")
}

#[test]
fn a_library_that_is_missing_is_named_with_what_to_install() {
    let error = NvrtcError::from(library::missing()).to_string();
    assert!(
        error.starts_with("Nvrtc::load: NVRTC was not found: tried "),
        "{error}"
    );
    for part in [
        "libnvrtc-of-no-toolkit.so.13",
        "the full path of its file into CUDA_RT_TEST_OF_NVRTC",
        "pip install",
        "CUDA_RT_NVRTC=/full/path/libnvrtc.so.13",
    ] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn options_become_flags() {
    let options = options()
        .standard(CppStandard::Cpp17)
        .define("N", "3")
        .flag("--use_fast_math");
    let flags = [
        "--gpu-architecture=compute_75",
        "--std=c++17",
        "--define-macro=N=3",
        "--use_fast_math",
    ];
    assert_eq!(options.flags((7, 5)), flags);
    assert!(!options.may_read_files("int x;"));
    for flag in ["-I/usr/include", "--include-path=a", "-I a", "--pre-include=a.h"] {
        assert!(options.clone().flag(flag).may_read_files(""), "{flag}");
    }
    assert_eq!(options.cubin().flags((12, 0))[0], "--gpu-architecture=sm_120");
}

/// A precompiled header is an image of the compiler's memory. With one that a program had changed,
/// NVRTC wrote a vector of the program.
#[test]
fn attack_flags_that_read_more_than_text() {
    for flag in [
        "--use-pch=a.pch",
        "-use-pch=a.pch",
        "--create-pch=a.pch",
        "--pch",
        "-pch",
        "--pch-dir=.",
        "--options-file=a",
        "-optf=a",
        "--fdevice-time-trace=t",
        "--time=t",
        "--ptxas-options=-o,a",
        "--ptxas-options=-v -O1",
        "-Xptxas",
        " --restrict",
        "--restrict --use-pch=a.pch",
        "--restrict=--use-pch=a.pch",
        "--ftz=true,--use-pch=a.pch",
        "--ftz=true --pch",
        "--no-such-flag",
        "a.pch",
        "-",
        "-D",
        "--include-path=",
        "",
    ] {
        let error = options().flag(flag).check().unwrap_err();
        assert!(error.to_string().contains("flag_unchecked"), "{error}");
        // SAFETY: nothing is compiled.
        unsafe { options().flag_unchecked(flag) }.check().unwrap();
        if let Some(nvrtc) = nvrtc() {
            let refused = nvrtc.compile("", &options().flag(flag));
            assert!(matches!(refused, Err(NvrtcError::Flag { .. })), "{flag}");
        }
    }
    for named in [
        options().named("--create_pch=a.pch"),
        options().header("-o", "int x;"),
    ] {
        let error = named.check().unwrap_err();
        assert!(error.to_string().contains("begins with `-`"), "{error}");
    }
}

/// NVRTC throws an exception of C++ for the second number.
#[test]
fn attack_numbers_of_flags_out_of_their_range() {
    for (flag, range) in [
        ("--jump-table-density=102", "from 0 to 101"),
        ("--jump-table-density=2147483648", "from 0 to 101"),
        ("-jump-table-density=99999999999", "from 0 to 101"),
        ("--jump-table-density=+5", "from 0 to 101"),
        ("--jump-table-density=", "from 0 to 101"),
        ("--jump-table-density", "from 0 to 101"),
        ("--maxrregcount=256", "from 0 to 255"),
        ("-maxrregcount=-1", "from 0 to 255"),
        ("--maxrregcount= 1", "from 0 to 255"),
        ("--maxrregcount=32 --pch", "from 0 to 255"),
        ("--maxrregcount=٣", "from 0 to 255"),
    ] {
        let error = options().flag(flag).check().unwrap_err();
        assert!(matches!(error, NvrtcError::FlagNumber { .. }), "{flag}");
        let text = error.to_string();
        assert!(text.contains(range) && text.contains(flag), "{text}");
    }
    for flag in [
        "--jump-table-density=0",
        "--jump-table-density=101",
        "--maxrregcount=255",
    ] {
        options().flag(flag).check().unwrap();
        if let Some(nvrtc) = nvrtc() {
            nvrtc.compile("", &options().flag(flag)).unwrap();
        }
    }
}

/// Set in a child process: what throws there.
const THROWS: &str = "CUDA_RT_TEST_NVRTC_THROWS";

/// What a child process writes to standard error whose call throws, and how it ends.
fn child_that_throws(test: &str, what: &str) -> (std::process::ExitStatus, String) {
    let test = format!("{}::{test}", module_path!().split_once("::").unwrap().1);
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args([&*test, "--exact", "--nocapture"])
        .env(THROWS, what)
        .output()
        .unwrap();
    (child.status, String::from_utf8_lossy(&child.stderr).into_owned())
}

#[test]
fn an_exception_of_the_library_ends_the_process() {
    struct Ours;
    impl Drop for Ours {
        fn drop(&mut self) {
            eprintln!("a destructor ran");
        }
    }
    const TEST: &str = "an_exception_of_the_library_ends_the_process";
    match std::env::var(THROWS).as_deref() {
        // A panic leaves a frame as an exception does.
        Ok("panic") => {
            let _ours = Ours;
            library::no_exception("nvrtcCompileProgram", || panic!("thrown"));
        }
        Ok(_) => {
            let _ours = Ours;
            // SAFETY: the flag makes NVRTC throw an exception, which `no_exception` stops.
            let thrown = unsafe { options().flag_unchecked("--jump-table-density=2147483648") };
            let compiled = nvrtc().unwrap().compile("__global__ void f() {}", &thrown);
            eprintln!("compiled: {}", compiled.is_ok());
        }
        Err(_) => {
            let whats = ["panic", "exception"];
            for what in &whats[..if nvrtc().is_some() { 2 } else { 1 }] {
                let (status, said) = child_that_throws(TEST, what);
                assert!(!status.success(), "{what}: {said}");
                // NVRTC 13.5 has an unwinder of its own, which already ends the process as it asks
                // for the first frame of Rust.
                let expected = "nvrtcCompileProgram threw an exception of C++";
                assert!(said.contains(expected) || *what == "exception", "{what}: {said}");
                assert!(!said.contains("a destructor ran"), "{what}: {said}");
            }
        }
    }
}

/// A header's name of 2^24 characters, made by a macro, ended the process by a signal.
#[test]
fn attack_more_text_than_the_compiler_can_take() {
    let largest = options::MAX_BYTES - 1;
    let empty = options().named("");
    let long = |bytes: usize| "a".repeat(bytes);
    empty.check_size(&long(largest)).unwrap();
    for (source, options) in [
        (long(largest + 1), empty.clone()),
        (long(largest), empty.clone().named("a")),
        (long(largest), empty.clone().header("", "a")),
        (long(largest), empty.clone().header("a", "")),
        (long(largest), empty.clone().define("a", "")),
        (long(largest), empty.clone().flag("a")),
    ] {
        let error = options.check_size(&source).unwrap_err();
        assert!(matches!(error, NvrtcError::TooLarge { bytes: 0x0100_0000 }));
        assert!(error.to_string().contains("16777216 bytes together"), "{error}");
    }
    let Some(nvrtc) = nvrtc() else { return };
    let source = format!("#define Q <{}>\n#include Q\n", long(largest + 1));
    let refused = nvrtc.compile(&source, &options());
    assert!(matches!(refused, Err(NvrtcError::TooLarge { .. })));
}

#[test]
fn flags_of_the_list_reach_the_compiler() {
    let Some(nvrtc) = nvrtc() else { return };
    for flag in [
        "-G",
        "-lineinfo",
        "--use_fast_math",
        "-w",
        "-restrict",
        "-default-device",
        "--ftz=true",
        "-fmad=false",
        "--maxrregcount=32",
        "--std=c++17",
        "-DA=1",
        "-D A=1",
        "--define-macro=A",
        "-UA",
        "-I/usr/include",
        "--include-path=/usr/include",
        "-Xptxas=-v",
    ] {
        let compiled = nvrtc.compile("", &options().flag(flag));
        assert!(compiled.is_ok(), "{flag}: {}", compiled.unwrap_err());
    }
}

#[test]
fn macros_headers_and_standards_reach_the_compiler() {
    let Some(nvrtc) = nvrtc() else { return };
    let source = r#"
        #include "pair.h"
        static_assert(__cplusplus >= 201703L, "");
        extern "C" __global__ void sum(const Pair *pairs, FLOAT *sums) {
            sums[threadIdx.x] = pairs[threadIdx.x].a + pairs[threadIdx.x].b;
        }
    "#;
    let options = options()
        .define("FLOAT", "float")
        .header("pair.h", "struct Pair { float a, b; };")
        .standard(CppStandard::Cpp17);
    let ptx = nvrtc.compile(source, &options).unwrap();
    let text = std::str::from_utf8(&ptx).unwrap();
    assert_eq!(
        device_std::ptx::parameters(text, "sum"),
        Some(vec![(8, 8), (8, 8)])
    );
    let cubin = nvrtc.compile(source, &options.clone().cubin()).unwrap();
    assert!(cubin.starts_with(b"\x7fELF"));
    // The same again is the same result, and another option is another one.
    assert!(Arc::ptr_eq(&ptx, &nvrtc.compile(source, &options).unwrap()));
    let other = nvrtc.compile(source, &options.define("MORE", "1")).unwrap();
    assert!(!Arc::ptr_eq(&ptx, &other));
    // A header in a file may have changed.
    let from_files = || {
        nvrtc
            .compile("", &NvrtcOptions::for_capability((8, 0)).flag("-I."))
            .unwrap()
    };
    assert!(!Arc::ptr_eq(&from_files(), &from_files()));
    // NVRTC looks in the folder of the source, too.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("value.h");
    let name = folder.path().join("source.cu");
    let options = NvrtcOptions::for_capability((8, 0)).named(name.to_str().unwrap());
    let source = "#include \"value.h\"\nextern \"C\" __global__ void f(int *x) { *x = VALUE; }";
    for value in ["1111", "2222"] {
        std::fs::write(&path, format!("#define VALUE {value}")).unwrap();
        let ptx = nvrtc.compile(source, &options).unwrap();
        assert!(str::from_utf8(&ptx).unwrap().contains(value));
    }
}

#[test]
fn errors_have_the_log_with_lines() {
    let Some(nvrtc) = nvrtc() else { return };
    let Err(NvrtcError::Compile { name, log }) = nvrtc.compile("\n\nint f( { }\n", &options()) else {
        panic!("no C++");
    };
    assert_eq!(name, "test.cu");
    assert!(log.contains("test.cu(3): error"), "{log}");
    assert!(matches!(
        nvrtc.compile("\0", &options()),
        Err(NvrtcError::Text { what: "the source" })
    ));
    // SAFETY: NVRTC knows no such flag.
    let options_of_nobody = unsafe { options().flag_unchecked("--no-such-flag") };
    let error = nvrtc.compile("", &options_of_nobody).unwrap_err();
    assert!(
        matches!(
            error,
            NvrtcError::Call {
                call: "nvrtcCompileProgram",
                ..
            }
        ),
        "{error}"
    );
    let error = nvrtc
        .compile("", &NvrtcOptions::for_capability((1, 0)))
        .unwrap_err();
    assert!(error.to_string().contains("too new"), "{error}");
    // An architecture that is not known yet.
    nvrtc.compile("", &NvrtcOptions::for_capability((99, 0))).unwrap();
}

/// Compiled on these stacks, the first source writes the stack of another thread, and the second
/// overflows the stack of a usual thread.
#[test]
fn attack_compile_on_a_small_stack_and_from_a_deep_source() {
    let Some(nvrtc) = nvrtc() else { return };
    let on_a_stack = |bytes, source: String| {
        std::thread::scope(|scope| {
            let builder = std::thread::Builder::new().stack_size(bytes);
            let thread = builder.spawn_scoped(scope, || nvrtc.compile(&source, &options()));
            thread.unwrap().join().unwrap()
        })
    };
    let sum = " + x[2]".repeat(2000);
    let sum = format!("extern \"C\" __global__ void f(int *x) {{ x[0] = x[1]{sum}; }}");
    on_a_stack(88 << 10, sum).unwrap();
    let (open, close) = ("(".repeat(20_000), ")".repeat(20_000));
    on_a_stack(
        2 << 20,
        format!("__device__ int f() {{ return {open}1{close}; }}"),
    )
    .unwrap();
}
