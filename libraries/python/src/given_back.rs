//! Tensors of Python that come in, wrapped so that they end with the GIL.
//!
//! The end of a tensor runs code of Python, or of a library that holds objects of Python. This
//! project ends a tensor on a thread of its own. So the wrapper's deleter attaches to Python first.
//! Once the interpreter ends, no thread can attach, and the tensor is leaked.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use cuda_rt_runtime::interop::dlpack::{DL_CUDA, DLDevice, DLManagedTensorVersioned, DLTensor, VERSION};
use pyo3::prelude::*;

use crate::capsule::{Managed, Pointer};
use crate::interface::Entries;

/// A tensor of Python, as this project takes it over.
///
/// # Invariants
/// GIVEN-1. It is in a box, whose address is that of `managed`, its first field. The wrapper's
/// deleter alone takes the box back, once.
#[repr(C)]
struct Given {
    managed: DLManagedTensorVersioned,
    /// Extents and strides, if `managed` refers to them here.
    numbers: Vec<i64>,
    owner: Owner,
}

/// What ends when the tensor does.
enum Owner {
    Tensor(Managed),
    Object(Py<PyAny>),
}

/// Wraps a tensor. One of a major version that this project does not know is not wrapped: only its
/// deleter may be used, and it is refused, and ended, before anything else.
pub(crate) fn of_managed(tensor: Managed) -> NonNull<DLManagedTensorVersioned> {
    let pointer = tensor.into_pointer();
    let (version, flags, dl_tensor) = match pointer {
        Pointer::Versioned(managed) => {
            // SAFETY: CAPSULE-1: every version begins with its number.
            let version = unsafe { (*managed.as_ptr()).version };
            if version.major != VERSION.major {
                return managed;
            }
            // SAFETY: CAPSULE-1: the struct is live, and of this version.
            let managed = unsafe { managed.as_ref() };
            (version, managed.flags, managed.dl_tensor)
        }
        Pointer::Unversioned(managed) => {
            // SAFETY: CAPSULE-1: the struct is live.
            (VERSION, 0, unsafe { managed.as_ref() }.dl_tensor)
        }
    };
    // SAFETY: CAPSULE-1: it was taken apart just now.
    let owner = Owner::Tensor(unsafe { Managed::new(pointer) });
    boxed(Given {
        managed: DLManagedTensorVersioned {
            version,
            manager_ctx: ptr::null_mut(),
            deleter: Some(end),
            flags,
            dl_tensor,
        },
        numbers: Vec::new(),
        owner,
    })
}

/// The tensor of an object with a `__cuda_array_interface__`, on the GPU with this number.
pub(crate) fn of_interface(
    entries: Entries,
    object: Py<PyAny>,
    ordinal: i32,
) -> NonNull<DLManagedTensorVersioned> {
    let ndim = entries.shape.len();
    let has_strides = entries.strides.is_some();
    let mut numbers = entries.shape;
    numbers.extend(entries.strides.into_iter().flatten());
    let shape = numbers.as_mut_ptr();
    boxed(Given {
        managed: DLManagedTensorVersioned {
            version: VERSION,
            manager_ctx: ptr::null_mut(),
            deleter: Some(end),
            flags: entries.flags,
            dl_tensor: DLTensor {
                data: ptr::with_exposed_provenance_mut::<c_void>(entries.address),
                device: DLDevice {
                    device_type: DL_CUDA,
                    device_id: ordinal,
                },
                ndim: ndim as i32,
                dtype: entries.dtype,
                shape,
                strides: match has_strides {
                    true => shape.wrapping_add(ndim),
                    false => ptr::null_mut(),
                },
                byte_offset: 0,
            },
        },
        numbers,
        owner: Owner::Object(object),
    })
}

fn boxed(given: Given) -> NonNull<DLManagedTensorVersioned> {
    NonNull::from(Box::leak(Box::new(given))).cast()
}

/// Ends a tensor that was wrapped: attaches to Python, and gives the tensor back.
///
/// # Safety
/// `managed` is from [`boxed`], and this is the only call with it.
unsafe extern "C" fn end(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: GIVEN-1: the box was leaked at this address, and this is the only call with it.
    let given = unsafe { Box::from_raw(managed.cast::<Given>()) };
    let Given { owner, numbers, .. } = *given;
    drop(numbers);
    let mut owner = Some(owner);
    // If Python cannot be attached to, the closure does not run, and the owner is leaked below.
    let _ = Python::try_attach(|_| match owner.take() {
        Some(Owner::Tensor(tensor)) => drop(tensor),
        Some(Owner::Object(object)) => drop(object),
        None => {}
    });
    std::mem::forget(owner);
}
