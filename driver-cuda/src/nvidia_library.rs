//! [`NvidiaLibrary`]: a library of NVIDIA's above the driver, such as cuBLAS, for the crate that
//! gives it a safe interface.
//!
//! The library is found and loaded at run time, and stays loaded. Its calls pass the gate of the
//! driver's own calls: no call is made in a child of `fork` ([`loader`]), and none goes on while
//! the library's exit handlers run ([`process_end`]).

use std::ffi::c_void;

use libloading::Library;

use super::function_table;
use super::loader;
use super::named_file::{initial_variable, is_relative_path};
use super::process_end;
use cuda_rt_driver::host_function;
use cuda_rt_driver::{DriverError, DriverResult, ErrorCode};

/// A library of NVIDIA's that was found and loaded at run time. It is never unloaded.
///
/// ```
/// use cuda_rt_driver_cuda::NvidiaLibrary;
///
/// // The C library stands for a library of NVIDIA's.
/// // SAFETY: a file of this name is the C library, which is loaded already.
/// let found = unsafe { NvidiaLibrary::load("the C library", &["libc.so.6"], "MY_C_LIBRARY") };
/// let library = match found {
///     Ok(library) => library,
///     Err(error) => return Ok(assert!(error.to_string().contains("libc.so.6"))), // no Linux
/// };
/// assert_eq!(library.name(), "libc.so.6");
///
/// type Abs = unsafe extern "C" fn(i32) -> i32;
/// // SAFETY: `abs` of C takes an int and returns an int.
/// let abs = unsafe { library.function::<Abs>("abs", "C")? };
/// // SAFETY: `abs` takes any number but the least.
/// assert_eq!(library.initialising_call("abs", || unsafe { abs(-3) })?, 3);
/// // SAFETY: as above.
/// assert_eq!(library.call("abs", || unsafe { abs(-4) })?, 4);
/// # Ok::<(), cuda_rt_driver::DriverError>(())
/// ```
#[derive(Debug)]
pub struct NvidiaLibrary {
    title: &'static str,
    name: String,
    library: &'static Library,
}

impl NvidiaLibrary {
    /// Loads the first of the files `names` that the system's loader finds (`dlopen`,
    /// `LoadLibrary`). If the process was started with the environment variable `variable`, only
    /// the file that it names is tried.
    ///
    /// # Safety
    /// A file with one of these names is the library called `title`. Its initialisers change only
    /// its own state.
    ///
    /// # Errors
    /// No file was found, which the message lists; the variable has a relative path; the process is
    /// a child of `fork`, or the call comes from inside a host function.
    pub unsafe fn load(title: &'static str, names: &[&str], variable: &str) -> DriverResult<Self> {
        const CALL: &str = "dlopen";
        host_function::check(CALL)?;
        loader::check(CALL)?;
        let named = initial_variable(variable);
        let refused = |why: String| DriverError::with_detail(CALL, ErrorCode::OPERATING_SYSTEM, why);
        if let Some(relative) = named.as_deref().filter(|name| is_relative_path(name)) {
            return Err(refused(format!(
                "{variable} is the relative path `{relative}`: give an absolute path, or a bare name that the loader finds"
            )));
        }
        let names: Vec<&str> = named.as_deref().map_or(names.to_vec(), |name| vec![name]);
        let (name, library) = function_table::load(&names).map_err(|why| {
            refused(format!(
                "{title} was not found: tried {} ({why}); install it, and put its directory on the loader's path \
                 or the full path of its file into {variable}",
                names.join(", ")
            ))
        })?;
        process_end::shut_at_exit();
        Ok(Self { title, name, library })
    }

    /// The name by which the file was found.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Looks up an entry point, which is new in the version `since` of the library.
    ///
    /// # Safety
    /// `F` is the type of a pointer to the function `name` of the library.
    ///
    /// # Errors
    /// The library has no such function: it is too old.
    pub unsafe fn function<F: Copy>(&self, name: &'static str, since: &'static str) -> DriverResult<F> {
        const {
            assert!(
                size_of::<F>() == size_of::<*const c_void>(),
                "a pointer to a function"
            )
        };
        // SAFETY: this function's contract.
        unsafe { function_table::symbol(self.library, name, since) }.map_err(|missing| {
            let detail = format!("{} ({}) lacks {missing}", self.title, self.name);
            DriverError::with_detail(name, ErrorCode::NOT_FOUND, detail)
        })
    }

    /// Makes a call of the library, which `call` contains: the end of the process waits for it, for
    /// some seconds. `call` runs no code of a user.
    ///
    /// # Errors
    /// The process ends, or was forked from the process that loaded the driver, or the call comes
    /// from inside a host function. `call` has then not run.
    #[inline]
    pub fn call<T>(&self, name: &'static str, call: impl FnOnce() -> T) -> DriverResult<T> {
        host_function::check(name)?;
        let _inside = process_end::enter().map_err(|refusal| refusal.error(name))?;
        Ok(call())
    }

    /// Like [`call`](Self::call), for a call in which the library may set up more of itself: the
    /// library may register exit handlers there, and ours must run before them.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn initialising_call<T>(&self, name: &'static str, call: impl FnOnce() -> T) -> DriverResult<T> {
        let made = self.call(name, call)?;
        process_end::shut_at_exit();
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VARIABLE: &str = "CUDA_RT_TEST_OF_A_LIBRARY";

    #[test]
    fn a_library_that_is_missing_is_named_with_all_files_that_were_tried() {
        let names = ["libcublas-of-no-toolkit.so.2", "libcublas-of-no-toolkit.so.1"];
        // SAFETY: there is no such file.
        let error = unsafe { NvidiaLibrary::load("cuBLAS", &names, VARIABLE) }.unwrap_err();
        for part in [names[0], names[1], "cuBLAS was not found", VARIABLE] {
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    /// Any library that is not the right one stands for one that is too old.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_function_that_is_missing_is_named_and_others_are_called() {
        // SAFETY: the C library, which is loaded already.
        let library = unsafe { NvidiaLibrary::load("the C library", &["libc.so.6"], VARIABLE) }.unwrap();
        assert_eq!(library.name(), "libc.so.6");
        type Abs = unsafe extern "C" fn(i32) -> i32;
        // SAFETY: the type is not used: there is no such function.
        let missing = unsafe { library.function::<Abs>("cublasCreate_v2", "CUDA 4.0") }.unwrap_err();
        for part in ["the C library (libc.so.6) lacks cublasCreate_v2", "CUDA 4.0"] {
            assert!(missing.to_string().contains(part), "{missing}");
        }
        // SAFETY: `abs` of C takes an int and returns an int.
        let abs = unsafe { library.function::<Abs>("abs", "C") }.unwrap();
        // SAFETY: `abs` takes any number but the least.
        assert_eq!(library.initialising_call("abs", || unsafe { abs(-3) }), Ok(3));
    }
}
