//! [`Nvrtc`]: NVIDIA's compiler of CUDA C++, loaded at run time.

mod error;
mod library;
mod options;
mod texts;

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use cuda_rt_driver_cuda::on_large_stack;
pub use error::NvrtcError;
use library::{Library, nvrtcProgram};
pub use options::{CppStandard, NvrtcOptions};

/// NVIDIA's compiler of CUDA C++ (`libnvrtc`), and what it has compiled so far.
///
/// The library is found and loaded at run time. It needs no GPU and no driver, so programs for
/// simulated devices can compile too.
///
/// ```
/// use cuda_rt::interop::{ForeignModule, Nvrtc, NvrtcError, NvrtcOptions};
///
/// let gpu = cuda_rt::Device::open_or_simulate()?;
/// let nvrtc = match Nvrtc::load() {
///     Ok(nvrtc) => nvrtc,
///     Err(error @ NvrtcError::Library(_)) => return Ok(println!("{error}")), // not installed
///     Err(other) => return Err(other.into()),
/// };
/// let source = r#"extern "C" __global__ void twice(float *x) { x[threadIdx.x] *= FACTOR; }"#;
/// let options = NvrtcOptions::for_device(&gpu).named("twice.cu").define("FACTOR", "2.0f");
/// let ptx = nvrtc.compile(source, &options)?;
/// assert_eq!(ForeignModule::load(&gpu, &ptx)?.entries(), ["twice"]);
///
/// // The log names file and line.
/// let error = nvrtc.compile("\n\nint f() { return g(); }", &options).unwrap_err();
/// assert!(error.to_string().contains("twice.cu(3): error"), "{error}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Nvrtc {
    library: &'static Library,
    /// The results of successful compilations.
    compiled: Mutex<HashMap<Key, Arc<[u8]>>>,
}

/// All that a result depends on, unless the compiler reads files. The version is the library's, of
/// which a process has one.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    source: String,
    options: NvrtcOptions,
}

impl fmt::Debug for Nvrtc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nvrtc")
            .field("library", &self.library.name())
            .field("version", &self.version())
            .finish_non_exhaustive()
    }
}

impl Nvrtc {
    /// Loads the compiler: the newest of `libnvrtc.so.13`, `libnvrtc.so.12` and
    /// `libnvrtc.so.11.2` that the system's loader finds (`nvrtc64_….dll` on Windows), once for the
    /// process. If the process was started with the environment variable `CUDA_RT_NVRTC`, only the
    /// file that it names is tried.
    ///
    /// # Errors
    /// [`NvrtcError::Library`]: the library was not found, and the message says what to install.
    pub fn load() -> Result<Self, NvrtcError> {
        Ok(Self {
            library: on_large_stack("dlopen", Library::load)??,
            compiled: Mutex::default(),
        })
    }

    /// The version of the library, (major, minor) (`nvrtcVersion`).
    ///
    /// ```
    /// # use cuda_rt::interop::Nvrtc;
    /// if let Ok(nvrtc) = Nvrtc::load() {
    ///     assert!(nvrtc.version() >= (11, 2));
    /// }
    /// ```
    pub fn version(&self) -> (u32, u32) {
        self.library.version()
    }

    /// Compiles CUDA C++ to PTX, or to a cubin if the options say so (`nvrtcCompileProgram`).
    /// Blocks the host, often for some hundred milliseconds.
    ///
    /// The compiler runs on a thread of its own with a stack of 256 MiB, because a deep source
    /// needs much stack. A source that overflows even this stack (some 100,000 nested parentheses)
    /// ends the process by a signal, as any overflow of a stack does.
    ///
    /// The result of an earlier call with the same source and options is returned at once. This
    /// value keeps all results until it is dropped. A result is not kept if the compiler may read
    /// files, which may change: if a text includes a header that the options do not hold, or if the
    /// options have a flag `-I`, `--pre-include`, or an unchecked one.
    ///
    /// Give it text that you trust. A compiler of C++ is not made for hostile text: NVRTC 13 ends
    /// the process by a signal on some texts of one line that are no C++. Compile a stranger's text
    /// in a process of its own. If NVRTC throws an exception, the process ends.
    ///
    /// # Errors
    /// [`NvrtcError::Flag`], [`NvrtcError::FlagNumber`], [`NvrtcError::Name`] and
    /// [`NvrtcError::TooLarge`], before NVRTC is called;
    /// [`NvrtcError::Compile`] with the log of the compiler, which names file and line;
    /// [`NvrtcError::Text`] if a text holds a NUL; [`NvrtcError::Call`].
    pub fn compile(&self, source: &str, options: &NvrtcOptions) -> Result<Arc<[u8]>, NvrtcError> {
        options.check()?;
        options.check_size(source)?;
        let key = Key {
            source: source.to_owned(),
            options: options.clone(),
        };
        let lock = || self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = lock().get(&key) {
            return Ok(Arc::clone(found));
        }
        // Not under the lock: other threads compile meanwhile.
        let compile = || self.compile_anew(source, options);
        let compiled: Arc<[u8]> = on_large_stack("nvrtcCompileProgram", compile)??.into();
        if !options.may_read_files(source) {
            lock().insert(key, Arc::clone(&compiled));
        }
        Ok(compiled)
    }

    /// Runs on a large stack: each call may recurse with the depth of the source.
    fn compile_anew(&self, source: &str, options: &NvrtcOptions) -> Result<Vec<u8>, NvrtcError> {
        let program = Program::new(self.library, source, options)?;
        let flags = options.flags(self.library.nearest(options.capability())?);
        let flags = texts(flags.iter().map(String::as_str), "an option")?;
        let flags: Vec<*const c_char> = flags.iter().map(|flag| flag.as_ptr()).collect();
        let count = count(&flags)?;
        // SAFETY: PROGRAM-1; the list has `count` texts, each of which ends in a NUL.
        let status = unsafe {
            self.library
                .nvrtcCompileProgram(program.raw, count, flags.as_ptr())
        }?;
        if status == library::COMPILATION_FAILED {
            return Err(NvrtcError::Compile {
                name: options.name().to_owned(),
                log: program.log()?,
            });
        }
        self.library.check("nvrtcCompileProgram", status)?;
        program.output(options.is_cubin())
    }
}

/// Texts for C.
fn texts<'a>(all: impl Iterator<Item = &'a str>, what: &'static str) -> Result<Vec<CString>, NvrtcError> {
    all.map(|text| CString::new(text).map_err(|_| NvrtcError::Text { what }))
        .collect()
}

/// The length of a list, as NVRTC takes it.
fn count<T>(list: &[T]) -> Result<c_int, NvrtcError> {
    c_int::try_from(list.len()).map_err(|_| NvrtcError::Text {
        what: "the list of options",
    })
}

/// A program of NVRTC. The drop destroys it.
///
/// # Invariants
/// PROGRAM-1. `raw` is live, and no other thread uses it.
struct Program {
    library: &'static Library,
    raw: nvrtcProgram,
}

impl Program {
    fn new(library: &'static Library, source: &str, options: &NvrtcOptions) -> Result<Self, NvrtcError> {
        let source = texts([source].into_iter(), "the source")?;
        let name = texts([options.name()].into_iter(), "the name of the source")?;
        let names = texts(options.headers().map(|(name, _)| name), "the name of a header")?;
        let headers = texts(options.headers().map(|(_, text)| text), "a header")?;
        let pointers = |list: &[CString]| list.iter().map(|text| text.as_ptr()).collect::<Vec<_>>();
        let (names, bodies) = (pointers(&names), pointers(&headers));
        let mut raw = ptr::null_mut();
        let count = count(&names)?;
        // SAFETY: the texts end in NULs, the two lists have `count` texts, and the pointer is to a
        // live variable for the program. NVRTC copies the texts.
        let status = unsafe {
            library.nvrtcCreateProgram(
                &mut raw,
                source[0].as_ptr(),
                name[0].as_ptr(),
                count,
                bodies.as_ptr(),
                names.as_ptr(),
            )
        }?;
        library.check("nvrtcCreateProgram", status)?;
        Ok(Self { library, raw })
    }

    /// The compiler's log.
    fn log(&self) -> Result<String, NvrtcError> {
        let mut bytes = 0;
        // SAFETY: PROGRAM-1; the pointer is to a live number.
        let status = unsafe { self.library.nvrtcGetProgramLogSize(self.raw, &mut bytes) }?;
        self.library.check("nvrtcGetProgramLogSize", status)?;
        // One more than NVRTC says, so that the log ends in a NUL.
        let mut log = vec![0_u8; bytes + 1];
        // SAFETY: PROGRAM-1; the memory has the bytes that NVRTC asked for.
        let status = unsafe { self.library.nvrtcGetProgramLog(self.raw, log.as_mut_ptr().cast()) }?;
        self.library.check("nvrtcGetProgramLog", status)?;
        let log = CStr::from_bytes_until_nul(&log).unwrap_or_default();
        Ok(log.to_string_lossy().trim().to_owned())
    }

    /// The PTX, or the cubin.
    fn output(&self, cubin: bool) -> Result<Vec<u8>, NvrtcError> {
        let (library, mut bytes) = (self.library, 0);
        let (sized, got) = if cubin {
            ("nvrtcGetCUBINSize", "nvrtcGetCUBIN")
        } else {
            ("nvrtcGetPTXSize", "nvrtcGetPTX")
        };
        let status = if cubin {
            // SAFETY: PROGRAM-1; the pointer is to a live number.
            unsafe { library.nvrtcGetCUBINSize(self.raw, &mut bytes) }
        } else {
            // SAFETY: as above.
            unsafe { library.nvrtcGetPTXSize(self.raw, &mut bytes) }
        };
        library.check(sized, status?)?;
        let mut output = vec![0_u8; bytes];
        let to = output.as_mut_ptr().cast();
        let status = if cubin {
            // SAFETY: PROGRAM-1; the memory has the bytes that NVRTC asked for.
            unsafe { library.nvrtcGetCUBIN(self.raw, to) }
        } else {
            // SAFETY: as above.
            unsafe { library.nvrtcGetPTX(self.raw, to) }
        };
        library.check(got, status?)?;
        if !cubin && output.last() == Some(&0) {
            // The NUL behind the text.
            output.pop();
        }
        Ok(output)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: PROGRAM-1, and the program is not used again. An error leaks it.
        let _ = unsafe { self.library.nvrtcDestroyProgram(&mut self.raw) };
    }
}

#[cfg(test)]
mod tests;
