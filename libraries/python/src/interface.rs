//! The entries of `__cuda_array_interface__`, version 3.
//!
//! The interface has no owner and no end: a consumer keeps a reference to the object. The entry
//! `stream` is a stream on which the data may be used, and the consumer orders itself behind it:
//! `None` means that nothing is pending, 1 and 2 are the default streams, 0 is forbidden.

use cuda_rt_runtime::driver::RawStream;
use cuda_rt_runtime::interop::dlpack::{
    DL_BOOL, DL_COMPLEX, DL_FLOAT, DL_INT, DL_READ_ONLY, DL_UINT, DLDataType,
};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{buffer_error, value_error};
use crate::request::LEGACY;

/// The name of a type in NumPy; `None` if it has none.
pub(crate) fn typestr(dtype: DLDataType) -> Option<String> {
    let bytes = dtype.bits / 8;
    let letter = match dtype.code {
        DL_INT => 'i',
        DL_UINT => 'u',
        DL_FLOAT => 'f',
        DL_COMPLEX => 'c',
        DL_BOOL => 'b',
        _ => return None,
    };
    let order = if bytes == 1 { '|' } else { '<' };
    (dtype.lanes == 1 && dtype.bits.is_multiple_of(8)).then(|| format!("{order}{letter}{bytes}"))
}

/// The type that NumPy calls `typestr`.
fn dtype(typestr: &str) -> Option<DLDataType> {
    let mut letters = typestr.chars();
    let (order, letter) = (letters.next()?, letters.next()?);
    let bytes: u8 = letters.as_str().parse().ok()?;
    let code = match letter {
        'i' => DL_INT,
        'u' => DL_UINT,
        'f' => DL_FLOAT,
        'c' => DL_COMPLEX,
        'b' => DL_BOOL,
        _ => return None,
    };
    let known = bytes > 0 && (order == '<' || order == '=' || (order == '|' && bytes == 1));
    known
        .then(|| bytes.checked_mul(8))?
        .map(|bits| DLDataType::scalar(code, bits))
}

/// The entries of an object's interface.
pub(crate) struct Entries {
    pub(crate) address: usize,
    pub(crate) flags: u64,
    pub(crate) dtype: DLDataType,
    pub(crate) shape: Vec<i64>,
    /// In elements; `None` in row-major order.
    pub(crate) strides: Option<Vec<i64>>,
    /// The stream for whose work the data waits; `None` if nothing is pending.
    pub(crate) stream: Option<RawStream>,
}

impl Entries {
    /// Reads the dictionary.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let dict = object.getattr("__cuda_array_interface__")?;
        let dict = dict.cast::<PyDict>()?;
        let required = |key: &'static str| {
            dict.get_item(key)?
                .ok_or_else(|| PyKeyError::new_err(format!("__cuda_array_interface__ has no entry '{key}'")))
        };
        let optional = |key| Ok::<_, PyErr>(dict.get_item(key)?.filter(|entry| !entry.is_none()));
        let name: String = required("typestr")?.extract()?;
        let Some(dtype) = dtype(&name) else {
            return Err(buffer_error(format_args!(
                "__cuda_array_interface__: elements of the type '{name}' cannot be exchanged"
            )));
        };
        if optional("mask")?.is_some() {
            return Err(buffer_error(
                "__cuda_array_interface__: a tensor with a mask cannot be exchanged",
            ));
        }
        let (address, read_only): (usize, bool) = required("data")?.extract()?;
        let shape: Vec<i64> = required("shape")?.extract()?;
        let strides: Option<Vec<i64>> = optional("strides")?.map(|entry| entry.extract()).transpose()?;
        let strides = strides
            .map(|bytes| in_elements(&bytes, dtype, shape.len()))
            .transpose()?;
        Ok(Self {
            address,
            flags: if read_only { DL_READ_ONLY } else { 0 },
            dtype,
            shape,
            strides,
            stream: stream(dict)?,
        })
    }
}

/// The entry `stream`. Version 3 demands it of work that is pending; an older version says nothing
/// of pending work, which is then that of the legacy default stream, where it was usual.
fn stream(dict: &Bound<'_, PyDict>) -> PyResult<Option<RawStream>> {
    match dict.get_item("stream")? {
        Some(entry) if entry.is_none() => Ok(None),
        Some(entry) => match entry.extract()? {
            0 => Err(value_error(
                "__cuda_array_interface__: stream 0 may mean two streams: the interface forbids it",
            )),
            handle => Ok(Some(RawStream(handle))),
        },
        None => Ok(Some(LEGACY)),
    }
}

/// Strides in elements, of strides in bytes.
fn in_elements(bytes: &[i64], dtype: DLDataType, dimensions: usize) -> PyResult<Vec<i64>> {
    let size = i64::from(dtype.bits / 8);
    if bytes.len() != dimensions || bytes.iter().any(|stride| stride % size != 0) {
        return Err(buffer_error(format_args!(
            "__cuda_array_interface__: the strides {bytes:?} are no multiples of {size} bytes for each of \
             {dimensions} dimensions"
        )));
    }
    Ok(bytes.iter().map(|stride| stride / size).collect())
}
