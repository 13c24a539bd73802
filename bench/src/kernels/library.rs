//! The functions of `nvcc.cu`, from its library.
#![allow(unsafe_code, reason = "functions of a C library")]

use std::ffi::{CString, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use cuda_rt::{DeviceBuffer, Element, Stream};

use crate::{Compute, Outcome};

/// The stream, two inputs, the output, and two sizes. The result is CUDA's error.
type Function = unsafe extern "C" fn(*mut c_void, u64, u64, u64, usize, usize) -> c_int;

/// A library that is never closed.
pub(crate) struct Library(*mut c_void);

impl Library {
    pub(crate) fn open(path: &Path) -> Outcome<Self> {
        let name = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: the name ends in a NUL. The constructors of CUDA's runtime have no preconditions.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        if handle.is_null() {
            return Err(format!("{} cannot be loaded: is the path absolute?", path.display()).into());
        }
        Ok(Self(handle))
    }

    /// A call of the function `name`, for inputs and an output as large as `nvcc.cu` says.
    pub(crate) fn function<I: Element, O: Element>(
        &self,
        name: &'static str,
        sizes: [usize; 2],
    ) -> Outcome<
        impl Fn(&Stream<Compute>, &[DeviceBuffer<I, Compute>; 2], &mut DeviceBuffer<O, Compute>) -> Outcome
        + use<I, O>,
    > {
        let symbol = CString::new(name)?;
        // SAFETY: the library is open, and the name ends in a NUL.
        let address = unsafe { libc::dlsym(self.0, symbol.as_ptr()) };
        if address.is_null() {
            return Err(format!("the library has no {name}").into());
        }
        // SAFETY: each function that `nvcc.cu` exports has this type.
        let function = unsafe { std::mem::transmute::<*mut c_void, Function>(address) };
        Ok(
            move |stream: &Stream<Compute>, input: &[_; 2], output: &mut DeviceBuffer<O, Compute>| {
                let [first, second]: &[DeviceBuffer<I, Compute>; 2] = input;
                let (in1, in2, out) = (first.address(), second.address(), output.address());
                let [a, b] = sizes;
                let body = |stream: cuda_rt::driver::RawStream| {
                    let stream = std::ptr::with_exposed_provenance_mut(stream.0 as usize);
                    // SAFETY: the stream is live, and the memory is stated below.
                    unsafe { function(stream, in1.0, in2.0, out.0, a, b) }
                };
                let call = stream.foreign(name).reads(first).reads(second).writes(output);
                // SAFETY: the function enqueues its work on this stream only. The work reads the
                // inputs and writes the output, of these sizes. Its temporary memory is not freed
                // before the stream is idle.
                match unsafe { call.enqueue(body) }? {
                    0 => Ok(()),
                    error => Err(format!("{name} returned CUDA's error {error}").into()),
                }
            },
        )
    }
}
