//! The library NVRTC, its functions and its version.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::{self, Write};
use std::sync::OnceLock;
use std::{mem, process};

use super::NvrtcError;
use cuda_rt_driver::DriverResult;
use cuda_rt_driver_cuda::NvidiaLibrary;

/// Names of the library, the newest first.
const NAMES: &[&str] = if cfg!(windows) {
    &["nvrtc64_130_0.dll", "nvrtc64_120_0.dll", "nvrtc64_112_0.dll"]
} else {
    &[
        "libnvrtc.so.13",
        "libnvrtc.so.12",
        "libnvrtc.so.11.2",
        "libnvrtc.so",
    ]
};

/// A file to load instead, if the process was started with this variable.
const FILE_VARIABLE: &str = "CUDA_RT_NVRTC";

/// A program of NVRTC's. Only the library knows what it points to.
#[allow(non_camel_case_types, reason = "the name is NVRTC's")]
pub(super) type nvrtcProgram = *mut c_void;

/// `NVRTC_ERROR_COMPILATION`.
pub(super) const COMPILATION_FAILED: c_int = 6;

/// Makes a call of NVRTC, which is written in C++. If `call` throws an exception, the process ends
/// with a message: no frame of the caller is left by the exception, and no destructor runs. NVRTC
/// 13.5 has an unwinder of its own, which ends the process before, without this message.
pub(super) fn no_exception<T>(name: &'static str, call: impl FnOnce() -> T) -> T {
    struct Thrown(&'static str);
    impl Drop for Thrown {
        fn drop(&mut self) {
            // Not `eprintln!`, which panics if standard error is closed.
            let _ = writeln!(
                io::stderr(),
                "cuda-rt: {} threw an exception of C++, which nothing can catch here; the process ends",
                self.0
            );
            process::abort();
        }
    }
    // Only an exception drops it.
    let thrown = Thrown(name);
    let returned = call();
    mem::forget(thrown);
    returned
}

macro_rules! functions {
    ($($since:literal $name:ident($($argument:ident: $type:ty),*);)*) => {
        #[allow(non_snake_case, reason = "the names are NVRTC's")]
        struct Functions {
            $($name: unsafe extern "C-unwind" fn($($type),*) -> c_int,)*
        }

        impl Functions {
            fn of(library: &NvidiaLibrary) -> DriverResult<Self> {
                Ok(Self {
                    $(
                        // SAFETY: NVRTC's header declares the function with these types.
                        $name: unsafe { library.function(stringify!($name), $since) }?,
                    )*
                })
            }
        }

        impl Library {
            $(
                /// The status of the call.
                ///
                /// # Safety
                /// What NVRTC's documentation demands of the call of this name.
                #[allow(non_snake_case, reason = "the names are NVRTC's")]
                pub(super) unsafe fn $name(&self, $($argument: $type),*) -> DriverResult<c_int> {
                    self.library.initialising_call(stringify!($name), || {
                        // SAFETY: this method's contract is the call's own contract.
                        no_exception(stringify!($name), || unsafe { (self.functions.$name)($($argument),*) })
                    })
                }
            )*
        }
    };
}

functions! {
    "CUDA 7.0" nvrtcVersion(major: *mut c_int, minor: *mut c_int);
    "CUDA 11.2" nvrtcGetNumSupportedArchs(count: *mut c_int);
    "CUDA 11.2" nvrtcGetSupportedArchs(list: *mut c_int);
    "CUDA 7.0" nvrtcCreateProgram(
        program: *mut nvrtcProgram,
        source: *const c_char,
        name: *const c_char,
        count: c_int,
        headers: *const *const c_char,
        names: *const *const c_char
    );
    "CUDA 7.0" nvrtcDestroyProgram(program: *mut nvrtcProgram);
    "CUDA 7.0" nvrtcCompileProgram(program: nvrtcProgram, count: c_int, options: *const *const c_char);
    "CUDA 7.0" nvrtcGetProgramLogSize(program: nvrtcProgram, bytes: *mut usize);
    "CUDA 7.0" nvrtcGetProgramLog(program: nvrtcProgram, log: *mut c_char);
    "CUDA 7.0" nvrtcGetPTXSize(program: nvrtcProgram, bytes: *mut usize);
    "CUDA 7.0" nvrtcGetPTX(program: nvrtcProgram, ptx: *mut c_char);
    "CUDA 11.1" nvrtcGetCUBINSize(program: nvrtcProgram, bytes: *mut usize);
    "CUDA 11.1" nvrtcGetCUBIN(program: nvrtcProgram, cubin: *mut c_char);
}

/// The loaded library.
pub(super) struct Library {
    library: NvidiaLibrary,
    functions: Functions,
    /// Returns a text that is never freed.
    error_string: unsafe extern "C-unwind" fn(c_int) -> *const c_char,
    version: (u32, u32),
    /// The architectures that it knows, (major, minor), in order.
    architectures: Vec<(u32, u32)>,
}

impl Library {
    /// The library, loaded once for the process. A failure is not remembered.
    pub(super) fn load() -> Result<&'static Self, NvrtcError> {
        static LIBRARY: OnceLock<Library> = OnceLock::new();
        if let Some(library) = LIBRARY.get() {
            return Ok(library);
        }
        let loaded = Self::find(NAMES, FILE_VARIABLE)?;
        // Another thread may have been faster. The file stays loaded either way.
        Ok(LIBRARY.get_or_init(|| loaded))
    }

    fn find(names: &[&str], variable: &str) -> Result<Self, NvrtcError> {
        // SAFETY: files with these names are NVIDIA's NVRTC, or the file that whoever started the
        // process named. Its initialisers set up its own state.
        let library = unsafe { NvidiaLibrary::load("NVRTC", names, variable) }?;
        let functions = Functions::of(&library)?;
        // SAFETY: NVRTC's header declares the function with these types.
        let error_string = unsafe { library.function("nvrtcGetErrorString", "CUDA 7.0") }?;
        let mut found = Self {
            library,
            functions,
            error_string,
            version: (0, 0),
            architectures: Vec::new(),
        };
        let (mut major, mut minor) = (0, 0);
        // SAFETY: the pointers are to live numbers.
        let status = unsafe { found.nvrtcVersion(&mut major, &mut minor) }?;
        found.check("nvrtcVersion", status)?;
        found.version = (major.unsigned_abs(), minor.unsigned_abs());
        let mut count = 0;
        // SAFETY: the pointer is to a live number.
        let status = unsafe { found.nvrtcGetNumSupportedArchs(&mut count) }?;
        found.check("nvrtcGetNumSupportedArchs", status)?;
        let mut list = vec![0; usize::try_from(count).unwrap_or(0)];
        // SAFETY: the list has as many places as the library has architectures.
        let status = unsafe { found.nvrtcGetSupportedArchs(list.as_mut_ptr()) }?;
        found.check("nvrtcGetSupportedArchs", status)?;
        // 90 is 9.0, and 120 is 12.0: the last digit is the minor number.
        let capability = |number: c_int| (number.unsigned_abs() / 10, number.unsigned_abs() % 10);
        found.architectures = list.into_iter().map(capability).collect();
        found.architectures.sort_unstable();
        Ok(found)
    }

    pub(super) fn name(&self) -> &str {
        self.library.name()
    }

    pub(super) fn version(&self) -> (u32, u32) {
        self.version
    }

    /// The newest architecture that the library knows and that code of `capability` runs on.
    pub(super) fn nearest(&self, capability: (u32, u32)) -> Result<(u32, u32), NvrtcError> {
        let older = self
            .architectures
            .iter()
            .rev()
            .find(|known| **known <= capability);
        older.copied().ok_or_else(|| {
            let ((major, minor), (first, second)) = (capability, self.version);
            NvrtcError::Call {
                call: "nvrtcGetSupportedArchs",
                status: 0,
                text: format!("NVRTC {first}.{second} compiles no code for compute capability {major}.{minor}: it is too new"),
            }
        })
    }

    /// An error if a call did not succeed.
    pub(super) fn check(&self, call: &'static str, status: c_int) -> Result<(), NvrtcError> {
        if status == 0 {
            return Ok(());
        }
        const CALL: &str = "nvrtcGetErrorString";
        // SAFETY: the function takes any status.
        let say = || unsafe { (self.error_string)(status) };
        let said = self.library.call(CALL, || no_exception(CALL, say))?;
        let text = if said.is_null() {
            "an unknown error".to_owned()
        } else {
            // SAFETY: the library returned a text that ends in a NUL and is never freed.
            unsafe { CStr::from_ptr(said) }.to_string_lossy().into_owned()
        };
        Err(NvrtcError::Call { call, status, text })
    }
}

/// The error of a library that is missing, for the tests.
#[cfg(test)]
pub(super) fn missing() -> cuda_rt_driver::DriverError {
    match Library::find(&["libnvrtc-of-no-toolkit.so.13"], "CUDA_RT_TEST_OF_NVRTC") {
        Err(NvrtcError::Library(error)) => error,
        _ => panic!("there is no such file"),
    }
}
