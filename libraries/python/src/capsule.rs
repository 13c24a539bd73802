//! Capsules: objects of Python that hold a tensor of DLPack, and [`Managed`], the tensor itself.

use std::ffi::CStr;
use std::ptr::NonNull;

use cuda_rt_runtime::interop::dlpack::{
    DL_CPU, DL_IS_COPIED, DLDevice, DLManagedTensor, DLManagedTensorVersioned, VERSION,
};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

// The names of DLPack's protocol in Python. A consumer renames the capsule whose tensor it takes.
const VERSIONED: &CStr = c"dltensor_versioned";
const UNVERSIONED: &CStr = c"dltensor";
const USED_VERSIONED: &CStr = c"used_dltensor_versioned";
const USED_UNVERSIONED: &CStr = c"used_dltensor";

/// A tensor of DLPack that this value owns. Dropping it ends the tensor: the deleter runs.
///
/// # Invariants
/// CAPSULE-1. The struct is live, its fields are as DLPack demands of its version, and nobody else
/// ends it. Any thread may end it.
pub(crate) struct Managed(Pointer);

#[derive(Clone, Copy)]
pub(crate) enum Pointer {
    Versioned(NonNull<DLManagedTensorVersioned>),
    Unversioned(NonNull<DLManagedTensor>),
}

// SAFETY: CAPSULE-1: any thread may end the tensor, and a thread has it alone.
unsafe impl Send for Managed {}

impl Managed {
    /// # Safety
    /// CAPSULE-1 holds for the tensor.
    pub(crate) unsafe fn new(pointer: Pointer) -> Self {
        Self(pointer)
    }

    /// The pointer, to whoever ends the tensor from here on.
    pub(crate) fn into_pointer(self) -> Pointer {
        let pointer = self.0;
        std::mem::forget(self);
        pointer
    }

    /// Whether the tensor says that it is in ordinary memory of the host. `false` for a struct of
    /// another major version, which is not read.
    pub(crate) fn is_ordinary(&self) -> bool {
        let device = match self.0 {
            Pointer::Versioned(managed) => {
                // SAFETY: CAPSULE-1: every version begins with its number.
                let version = unsafe { (*managed.as_ptr()).version };
                if version.major != VERSION.major {
                    return false;
                }
                // SAFETY: CAPSULE-1: the struct is live, and of this version.
                unsafe { managed.as_ref() }.dl_tensor.device
            }
            // SAFETY: CAPSULE-1: the struct is live.
            Pointer::Unversioned(managed) => unsafe { managed.as_ref() }.dl_tensor.device,
        };
        device.device_type == DL_CPU
    }

    /// Changes the device that the tensor says it is on, and says that it is a copy.
    pub(crate) fn describe(&mut self, device: DLDevice, copied: bool) {
        match self.0 {
            Pointer::Versioned(mut managed) => {
                // SAFETY: CAPSULE-1: the struct is live, and nobody else has it.
                let managed = unsafe { managed.as_mut() };
                managed.dl_tensor.device = device;
                if copied {
                    managed.flags |= DL_IS_COPIED;
                }
            }
            Pointer::Unversioned(mut managed) => {
                // SAFETY: as above.
                unsafe { managed.as_mut() }.dl_tensor.device = device;
            }
        }
    }

    /// The capsule of the tensor. It ends the tensor, unless a consumer takes the tensor first.
    pub(crate) fn into_capsule(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let (pointer, name, destructor): (_, _, ffi::PyCapsule_Destructor) = match self.0 {
            Pointer::Versioned(managed) => (managed.cast(), VERSIONED, end_versioned),
            Pointer::Unversioned(managed) => (managed.cast(), UNVERSIONED, end_unversioned),
        };
        // SAFETY: the pointer is not null, and the name lives as long as the program.
        let capsule = unsafe { ffi::PyCapsule_New(pointer.as_ptr(), name.as_ptr(), Some(destructor)) };
        // SAFETY: a new reference, or null with an exception.
        let capsule = unsafe { Bound::from_owned_ptr_or_err(py, capsule) }?;
        // The capsule ends the tensor from here on.
        std::mem::forget(self);
        Ok(capsule)
    }

    /// Takes the tensor out of a producer's capsule, and renames the capsule, so that it does not
    /// end the tensor.
    ///
    /// # Safety
    /// If the capsule has a name of DLPack, its tensor is live and well-formed, and any thread may
    /// end it.
    pub(crate) unsafe fn from_capsule(capsule: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = capsule.py();
        if capsule.cast::<PyCapsule>().is_err() {
            return Err(PyTypeError::new_err(format!(
                "`__dlpack__` returned {}, and no capsule",
                capsule.get_type()
            )));
        }
        for (name, used) in [(VERSIONED, USED_VERSIONED), (UNVERSIONED, USED_UNVERSIONED)] {
            // SAFETY: `capsule` is a capsule, and `name` a string of C.
            if unsafe { ffi::PyCapsule_IsValid(capsule.as_ptr(), name.as_ptr()) } == 0 {
                continue;
            }
            // SAFETY: as above.
            let pointer = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), name.as_ptr()) };
            let Some(pointer) = NonNull::new(pointer) else {
                return Err(PyErr::fetch(py));
            };
            // SAFETY: as above; the name lives as long as the program.
            if unsafe { ffi::PyCapsule_SetName(capsule.as_ptr(), used.as_ptr()) } != 0 {
                return Err(PyErr::fetch(py));
            }
            let pointer = match name == VERSIONED {
                true => Pointer::Versioned(pointer.cast()),
                false => Pointer::Unversioned(pointer.cast()),
            };
            // SAFETY: CAPSULE-1: by this function's contract; the capsule, which was the tensor's
            // owner, has another name now, so nobody else ends the tensor.
            return Ok(unsafe { Self::new(pointer) });
        }
        Err(crate::error::buffer_error(
            "`__dlpack__` returned a capsule without a tensor: perhaps another consumer took it",
        ))
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        match self.0 {
            Pointer::Versioned(managed) => {
                // SAFETY: CAPSULE-1: `deleter` has one place in every version.
                if let Some(delete) = unsafe { (*managed.as_ptr()).deleter } {
                    // SAFETY: CAPSULE-1: nobody else ends the tensor, and this value is gone.
                    unsafe { delete(managed.as_ptr()) };
                }
            }
            Pointer::Unversioned(managed) => {
                // SAFETY: CAPSULE-1: the struct is live.
                if let Some(delete) = unsafe { (*managed.as_ptr()).deleter } {
                    // SAFETY: as above.
                    unsafe { delete(managed.as_ptr()) };
                }
            }
        }
    }
}

/// The pointer in a capsule that still has `name`. A consumer that took the tensor has renamed the
/// capsule. Sets no exception, and leaves one that is set alone.
///
/// # Safety
/// `capsule` is a capsule, and its thread is attached to Python.
unsafe fn untaken<T>(capsule: *mut ffi::PyObject, name: &CStr) -> Option<NonNull<T>> {
    // SAFETY: this function's contract.
    if unsafe { ffi::PyCapsule_IsValid(capsule, name.as_ptr()) } == 0 {
        return None;
    }
    // SAFETY: the capsule is valid for this name.
    NonNull::new(unsafe { ffi::PyCapsule_GetPointer(capsule, name.as_ptr()) }.cast())
}

/// The destructor of a capsule `"dltensor_versioned"`.
///
/// # Safety
/// Python calls it, once, with a capsule of [`Managed::into_capsule`].
unsafe extern "C" fn end_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls destructors with the capsule, and attached.
    if let Some(managed) = unsafe { untaken(capsule, VERSIONED) } {
        // SAFETY: CAPSULE-1: the capsule owned the tensor, nobody took it, and the capsule ends.
        drop(unsafe { Managed::new(Pointer::Versioned(managed)) });
    }
}

/// The destructor of a capsule `"dltensor"`.
///
/// # Safety
/// As for [`end_versioned`].
unsafe extern "C" fn end_unversioned(capsule: *mut ffi::PyObject) {
    // SAFETY: as in `end_versioned`.
    if let Some(managed) = unsafe { untaken(capsule, UNVERSIONED) } {
        // SAFETY: as in `end_versioned`.
        drop(unsafe { Managed::new(Pointer::Unversioned(managed)) });
    }
}
