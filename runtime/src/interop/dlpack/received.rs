//! [`Received`]: a producer's tensor that this crate owns, and the checks of its properties.

use std::ffi::c_void;
use std::ptr::NonNull;

use super::abi::{
    DL_CUDA, DL_IS_PADDED, DL_READ_ONLY, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLTensor,
    VERSION,
};
use super::{DlpackElement, dtype_of};
use crate::error::DlpackError;
use crate::memory::size_in_bytes;

/// A producer's tensor. Dropping it ends the tensor: the deleter runs. If it is leaked, the
/// producer's memory is.
///
/// # Invariants
/// RECEIVED-1. The struct is live, its fields are as DLPack demands of its version, and nobody else
/// ends it. Any thread may end it.
pub(super) struct Received(Managed);

#[derive(Clone, Copy)]
enum Managed {
    Versioned(NonNull<DLManagedTensorVersioned>),
    Unversioned(NonNull<DLManagedTensor>),
}

// SAFETY: RECEIVED-1: any thread may end the tensor, and nothing else is done with it after the
// checks.
unsafe impl Send for Received {}

/// The memory of a tensor that passed the checks.
pub(super) struct Checked {
    /// The first element. Any address if there are no elements.
    pub(super) start: *mut c_void,
    /// In elements.
    pub(super) len: usize,
    pub(super) bytes: usize,
    pub(super) shape: Vec<usize>,
}

impl Received {
    /// # Safety
    /// RECEIVED-1 holds for `managed`, unless it is null.
    pub(super) unsafe fn versioned(managed: *mut DLManagedTensorVersioned) -> Option<Self> {
        NonNull::new(managed).map(|managed| Self(Managed::Versioned(managed)))
    }

    /// # Safety
    /// As for [`versioned`](Self::versioned).
    pub(super) unsafe fn unversioned(managed: *mut DLManagedTensor) -> Option<Self> {
        NonNull::new(managed).map(|managed| Self(Managed::Unversioned(managed)))
    }

    /// Compares all that the memory of a buffer of `T` on `device` must have.
    pub(super) fn check<T: DlpackElement>(&self, device: DLDevice) -> Result<Checked, DlpackError> {
        let checked = self.check_readable::<T>(device)?;
        let (_, flags) = self.fields()?;
        if flags & DL_READ_ONLY != 0 {
            return Err(DlpackError::ReadOnly);
        }
        match checked.start.addr() % align_of::<T>() {
            misaligned_by if misaligned_by > 0 && checked.bytes > 0 => Err(DlpackError::Misaligned {
                misaligned_by,
                align: align_of::<T>(),
            }),
            _ => Ok(checked),
        }
    }

    /// Compares all that memory on `device` must have from which elements of `T` are copied. It may
    /// be read-only, and begin at any address.
    pub(super) fn check_readable<T: DlpackElement>(&self, device: DLDevice) -> Result<Checked, DlpackError> {
        let (tensor, flags) = self.fields()?;
        // The number counts among GPUs only: producers differ in what they write for the host.
        let same_number = device.device_type != DL_CUDA || tensor.device.device_id == device.device_id;
        if tensor.device.device_type != device.device_type || !same_number {
            return Err(DlpackError::OtherDevice {
                found: tensor.device,
                expected: device,
            });
        }
        let expected = dtype_of::<T>();
        if tensor.dtype != expected {
            let found = tensor.dtype;
            return Err(DlpackError::Dtype { found, expected });
        }
        // Otherwise such elements are packed, and the memory is smaller.
        if flags & DL_IS_PADDED != 0 && expected.bits < 8 {
            return Err(DlpackError::Padded(expected));
        }
        // SAFETY: RECEIVED-1: the fields are as DLPack demands.
        let shape = unsafe { extents(&tensor) }?;
        let len = elements(&shape).ok_or(DlpackError::TooLarge)?;
        let bytes = size_in_bytes::<T>(len).ok_or(DlpackError::TooLarge)?;
        if bytes == 0 {
            let start = tensor.data;
            return Ok(Checked {
                start,
                len,
                bytes,
                shape,
            });
        }
        // SAFETY: as above.
        if let Some(strides) = unsafe { listed(tensor.strides, shape.len()) } {
            check_strides(&shape, strides)?;
        }
        let start = start(&tensor, bytes)?;
        Ok(Checked {
            start,
            len,
            bytes,
            shape,
        })
    }

    /// The tensor and its flags, if the struct has the layout that this crate knows.
    fn fields(&self) -> Result<(DLTensor, u64), DlpackError> {
        match self.0 {
            Managed::Versioned(managed) => {
                // SAFETY: RECEIVED-1: every version begins with its number.
                let version = unsafe { (*managed.as_ptr()).version };
                if version.major != VERSION.major {
                    return Err(DlpackError::Version(version));
                }
                // SAFETY: RECEIVED-1: the struct is of this major version.
                let managed = unsafe { managed.as_ref() };
                Ok((managed.dl_tensor, managed.flags))
            }
            Managed::Unversioned(managed) => {
                // SAFETY: RECEIVED-1: the struct has one version.
                let managed = unsafe { managed.as_ref() };
                Ok((managed.dl_tensor, 0))
            }
        }
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        match self.0 {
            Managed::Versioned(managed) => {
                // SAFETY: RECEIVED-1: `deleter` has one place in every version.
                if let Some(delete) = unsafe { (*managed.as_ptr()).deleter } {
                    // SAFETY: RECEIVED-1: nobody else ends the tensor, and this value is gone.
                    unsafe { delete(managed.as_ptr()) };
                }
            }
            Managed::Unversioned(managed) => {
                // SAFETY: RECEIVED-1: the struct is live.
                if let Some(delete) = unsafe { (*managed.as_ptr()).deleter } {
                    // SAFETY: as above.
                    unsafe { delete(managed.as_ptr()) };
                }
            }
        }
    }
}

/// The numbers at `list`; `None` if it is null.
///
/// # Safety
/// `list` is null, or the address of `len` numbers that live and are not written for `'a`.
unsafe fn listed<'a>(list: *const i64, len: usize) -> Option<&'a [i64]> {
    match list.is_null() || len == 0 {
        true => None,
        // SAFETY: this function's contract.
        false => Some(unsafe { std::slice::from_raw_parts(list, len) }),
    }
}

/// The extents of the tensor.
///
/// # Safety
/// `shape` is null, or the address of `ndim` numbers.
unsafe fn extents(tensor: &DLTensor) -> Result<Vec<usize>, DlpackError> {
    let wrong = |dimension, extent| DlpackError::Extent { dimension, extent };
    let ndim = i64::from(tensor.ndim);
    let dimensions = usize::try_from(ndim).map_err(|_| wrong(None, ndim))?;
    // SAFETY: this function's contract.
    let shape = match unsafe { listed(tensor.shape, dimensions) } {
        Some(shape) => shape,
        None if dimensions == 0 => &[],
        None => return Err(wrong(None, ndim)),
    };
    let extent = |(dimension, &extent)| usize::try_from(extent).map_err(|_| wrong(Some(dimension), extent));
    shape.iter().enumerate().map(extent).collect()
}

/// The number of elements of a shape; `None` if a number cannot hold it.
pub(super) fn elements(shape: &[usize]) -> Option<usize> {
    match shape.contains(&0) {
        true => Some(0),
        false => shape
            .iter()
            .try_fold(1_usize, |len, extent| len.checked_mul(*extent)),
    }
}

/// Whether the strides are those of row-major order. The stride of a dimension of one element does
/// not count: nothing is one further there.
fn check_strides(shape: &[usize], strides: &[i64]) -> Result<(), DlpackError> {
    let mut expected = 1;
    for (dimension, (&extent, &stride)) in shape.iter().zip(strides).enumerate().rev() {
        if extent != 1 && stride != expected {
            return Err(DlpackError::Strides {
                dimension,
                stride,
                expected,
            });
        }
        // Cannot overflow: the product of all extents was computed.
        expected *= extent as i64;
    }
    Ok(())
}

/// The first of the tensor's elements, which have `bytes` bytes.
fn start(tensor: &DLTensor, bytes: usize) -> Result<*mut c_void, DlpackError> {
    let address = tensor.data.addr();
    if address == 0 {
        return Err(DlpackError::NoAddress);
    }
    let offset = usize::try_from(tensor.byte_offset).map_err(|_| DlpackError::TooLarge)?;
    let address = address.checked_add(offset).ok_or(DlpackError::TooLarge)?;
    address.checked_add(bytes).ok_or(DlpackError::TooLarge)?;
    Ok(tensor.data.wrapping_byte_add(offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_counted_with_overflow() {
        assert_eq!(elements(&[]), Some(1));
        assert_eq!(elements(&[2, 3, 4]), Some(24));
        assert_eq!(elements(&[usize::MAX, 0, usize::MAX]), Some(0));
        assert_eq!(elements(&[usize::MAX, 2]), None);
    }

    #[test]
    fn strides_are_compared_from_the_last_dimension() {
        assert_eq!(check_strides(&[2, 3, 4], &[12, 4, 1]), Ok(()));
        assert_eq!(check_strides(&[2, 1, 4], &[4, 77, 1]), Ok(()));
        let strides = |dimension, stride, expected| {
            Err(DlpackError::Strides {
                dimension,
                stride,
                expected,
            })
        };
        assert_eq!(check_strides(&[2, 3], &[1, 2]), strides(1, 2, 1));
        assert_eq!(check_strides(&[2, 3], &[4, 1]), strides(0, 4, 3));
        assert_eq!(check_strides(&[5], &[-1]), strides(0, -1, 1));
        assert_eq!(check_strides(&[2, 3], &[0, 1]), strides(0, 0, 3));
    }
}
