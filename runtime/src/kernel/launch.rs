//! The untyped launch of a kernel, from a list of pointers to its parameters.

use std::ffi::c_void;
use std::panic::Location;

use crate::error::{Error, Result};
use crate::observability;
use crate::stream::Stream;
use crate::tag::StreamTag;
use cuda_rt_driver::{DriverError, Kernel, Kind, LaunchShape};

impl<S: StreamTag> Stream<S> {
    /// Launches a kernel (`cuLaunchKernel`). The code of `#[kernel]` calls it. Stream-ordered.
    ///
    /// # Safety
    /// `parameters` has one pointer for each parameter of `kernel`, to a live value without
    /// padding. The slices among them are borrowed as the kernel uses them, and belong to `S`.
    ///
    /// # Errors
    /// [`Error::Driver`].
    #[doc(hidden)]
    #[inline]
    #[track_caller]
    pub unsafe fn __launch(
        &self,
        kernel: &'static Kernel,
        shape: &LaunchShape,
        parameters: &[*const c_void],
    ) -> Result<()> {
        // SAFETY: the contract is the same, and no value has padding.
        unsafe { self.launch(kernel, shape, parameters, false) }
    }

    /// # Safety
    /// As for [`__launch`](Self::__launch), but values may have padding if `padded` is true.
    #[inline]
    #[track_caller]
    pub(crate) unsafe fn launch(
        &self,
        kernel: &'static Kernel,
        shape: &LaunchShape,
        parameters: &[*const c_void],
        padded: bool,
    ) -> Result<()> {
        let call = self.call(kernel.name);
        if shape.is_empty() {
            return Ok(());
        }
        let launched = call.attempt(Kind::Kernel, kernel.name, 0, move |driver, at| {
            if padded {
                // SAFETY: by this function's contract there is one pointer to a live value for each
                // parameter, and the slices belong to `S`. Their memory is freed in this stream's
                // order, after the kernel.
                unsafe { driver.launch_padded(kernel, shape, parameters, at) }
            } else {
                // SAFETY: as above, and no value has padding.
                unsafe { driver.launch(kernel, shape, parameters, at) }
            }
        });
        match launched? {
            Ok(()) => Ok(()),
            Err(source) => Err(refused(kernel, source)),
        }
    }
}

/// The error of a launch by the caller.
#[cold]
#[track_caller]
fn refused(kernel: &'static Kernel, source: DriverError) -> Error {
    observability::failed(kernel.name, &source);
    Error::Launch {
        kernel: kernel.name,
        file: kernel.file,
        line: kernel.line,
        called_at: Location::caller(),
        source,
    }
}
