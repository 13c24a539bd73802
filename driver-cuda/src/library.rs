//! The driver library, found and loaded at run time, so that one binary starts with or without a
//! GPU.

use std::ffi::{c_char, c_int, c_uchar, c_uint, c_ulonglong, c_ushort, c_void};
use std::sync::OnceLock;

use super::error::check;
use super::ffi;
use super::ffi::driver::driver_entry_points;
use super::function_table::{self, function_table};
use super::loader::{self, Status};
use super::process_end::{self, Inside};
use cuda_rt_driver::host_function;
use cuda_rt_driver::{DriverError, DriverResult, ErrorCode};

/// Names of the library that NVIDIA's driver installs, in the order of trying.
const NAMES: &[&str] = if cfg!(windows) {
    &["nvcuda.dll"]
} else {
    &["libcuda.so.1", "libcuda.so"]
};

/// The oldest driver that has all entry points, for messages.
const OLDEST_DRIVER: &str = "CUDA 11.4 (driver 470)";

driver_entry_points!(function_table [Entries returns ffi::CUresult]);
use table::{Entries, Passed};

impl Status for ffi::CUresult {
    const PROCESS_ENDS: Self = Self::CUDA_ERROR_DEINITIALIZED;
    const FORKED: Self = Self::CUDA_ERROR_NOT_INITIALIZED;
}

/// The driver library.
pub(super) struct Library(Entries);

/// The driver library, for a thread that may make calls: it has passed the gate
/// ([`process_end`](super::process_end)), and is not inside a host function.
#[derive(Clone, Copy)]
pub(crate) struct Permitted<'a>(Passed<'a>);

/// Declares two methods for each entry point, which return the status as a `Result`: the one of
/// `Library` asks whether the call is permitted.
macro_rules! checked_methods {
    ($(since $since:literal $(until $until:literal)?: fn $name:ident($($argument:ident: $type:ty),* $(,)?);)*) => {
        impl Library { $(
            /// # Safety
            /// What the driver API's documentation demands of the call of this name.
            #[inline]
            #[allow(
                clippy::too_many_arguments,
                dead_code,
                non_snake_case,
                reason = "names and arguments are CUDA's; not every status is checked by this method"
            )]
            pub(super) unsafe fn $name(&self, $($argument: $type),*) -> DriverResult<()> {
                // Here every call of CUDA passes that does not come from an `Entered` context.
                host_function::check(stringify!($name))?;
                // SAFETY: this method's contract is the call's own contract.
                check(stringify!($name), unsafe { self.0.$name($($argument),*) })
            }
        )* }

        impl Permitted<'_> { $(
            /// # Safety
            /// What the driver API's documentation demands of the call of this name.
            #[inline]
            #[allow(
                clippy::too_many_arguments,
                dead_code,
                non_snake_case,
                reason = "names and arguments are CUDA's; most calls are made by `Library`"
            )]
            pub(super) unsafe fn $name(&self, $($argument: $type),*) -> DriverResult<()> {
                // SAFETY: this method's contract is the call's own contract.
                check(stringify!($name), unsafe { self.0.$name($($argument),*) })
            }
        )* }
    };
}

driver_entry_points!(checked_methods);

impl<'a> Permitted<'a> {
    /// The entry points that return their status.
    #[inline]
    pub(super) fn entries(self) -> Passed<'a> {
        self.0
    }
}

impl Library {
    /// The calls of a thread that is not inside a host function.
    #[inline]
    pub(super) fn permitted<'a>(&'a self, inside: &'a Inside) -> Permitted<'a> {
        Permitted(self.0.passed(inside))
    }

    /// Loads the first of these libraries that exists, and looks up every entry point.
    fn find(names: &[&str]) -> DriverResult<Self> {
        let (name, library) = function_table::load(names).map_err(|why| {
            let names = names.join(", ");
            let detail =
                format!("no CUDA driver library ({names}) was found: is NVIDIA's driver installed? ({why})");
            DriverError::with_detail("cuInit", ErrorCode::NO_DEVICE, detail)
        })?;
        Entries::of(library).map(Self).map_err(|missing| {
            let detail = format!("{name} lacks {missing}: needed is {OLDEST_DRIVER} or later");
            DriverError::with_detail(missing.name, ErrorCode::NOT_FOUND, detail)
        })
    }
}

/// The library, loaded and initialised (`cuInit`), once for the process.
pub(super) fn library() -> DriverResult<&'static Library> {
    static LIBRARY: OnceLock<DriverResult<Library>> = OnceLock::new();
    // Not below, where the refusal would be remembered for later calls.
    host_function::check("cuInit")?;
    if LIBRARY.get().is_none() {
        // A child that was forked meanwhile would wait for its parent's thread for ever.
        loader::check("cuInit")?;
    }
    LIBRARY
        .get_or_init(|| {
            loader::begin()?;
            let library = Library::find(NAMES)?;
            // SAFETY: the flags must be 0, and are.
            unsafe { library.cuInit(0) }?;
            process_end::shut_at_exit();
            Ok(library)
        })
        .as_ref()
        .map_err(Clone::clone)
}

/// Number of GPUs that the driver shows to this process (`cuDeviceGetCount`).
pub(super) fn device_count() -> DriverResult<usize> {
    let mut count = 0;
    // SAFETY: the pointer is to a live int.
    unsafe { library()?.cuDeviceGetCount(&mut count) }?;
    Ok(usize::try_from(count).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_driver_the_error_says_what_to_install() {
        let error = Library::find(&["libcuda-of-no-driver.so.1"])
            .err()
            .expect("there is no such file");
        assert_eq!((error.call(), error.code()), ("cuInit", ErrorCode::NO_DEVICE));
        for part in ["libcuda-of-no-driver.so.1", "is NVIDIA's driver installed?"] {
            assert!(error.detail().contains(part), "{error}");
        }
    }

    /// Any library that is not the driver stands for a driver that is too old.
    #[cfg(unix)]
    #[test]
    fn a_driver_that_lacks_an_entry_point_is_named_with_it() {
        let error = Library::find(&["libcuda-of-no-driver.so.1", "libc.so.6"])
            .err()
            .expect("the C library has no cuInit");
        assert_eq!((error.call(), error.code()), ("cuInit", ErrorCode::NOT_FOUND));
        for part in ["libc.so.6", "cuInit, which is new in CUDA 2.0", OLDEST_DRIVER] {
            assert!(error.detail().contains(part), "{error}");
        }
    }
}
