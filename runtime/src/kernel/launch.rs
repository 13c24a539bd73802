//! The launch of a kernel, whose parameters others have made.

use std::ffi::c_void;

use crate::error::{Error, Result};
use crate::stream::Stream;
use crate::tag::StreamTag;
use cuda_rt_driver::{Kernel, Kind, LaunchShape};

impl<S: StreamTag> Stream<S> {
    /// Launches a kernel (`cuLaunchKernel`); what `#[kernel]` calls.
    ///
    /// # Safety
    /// `parameters` are those of `kernel`: one pointer to a live value without padding for each,
    /// and the slices among them are borrowed as the kernel uses them and belong to `S`.
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
        // SAFETY: the caller's.
        unsafe { self.launch(kernel, shape, parameters, false) }
    }

    /// # Safety
    /// As [`__launch`](Self::__launch), but that values may have padding where `padded` says so.
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
        let launched = call.attempt(Kind::Kernel, kernel.name, 0, |driver, at| {
            if padded {
                // SAFETY: the caller's promise; the memory is live until freed in this stream's
                // order.
                unsafe { driver.launch_padded(kernel, shape, parameters, at) }
            } else {
                // SAFETY: as above.
                unsafe { driver.launch(kernel, shape, parameters, at) }
            }
        });
        launched?.map_err(|source| Error::Launch {
            kernel: kernel.name,
            file: kernel.file,
            line: kernel.line,
            source,
        })
    }
}
