//! Errors of this project as exceptions of Python.

use std::fmt::Display;

use cuda_rt_runtime::Error;
use pyo3::PyErr;
use pyo3::exceptions::{PyBufferError, PyRuntimeError, PyValueError};

/// An error of cuda-rt as Python's `RuntimeError`, with the error's words. For `map_err` in
/// functions that Python calls.
///
/// ```no_run,standalone_crate
/// use pyo3::prelude::*;
/// use cuda_rt_python::runtime_error;
///
/// #[pyfunction]
/// fn gpus() -> PyResult<usize> {
///     cuda_rt::Device::<cuda_rt::Gpu<0>>::count().map_err(runtime_error)
/// }
/// ```
pub fn runtime_error(error: impl Display) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

/// The exception for an error of an exchange. Python's standard asks for `BufferError` where a
/// tensor cannot be exchanged; other errors are those of the device.
pub(crate) fn exchange_error(error: &Error) -> PyErr {
    match error {
        Error::Dlpack { .. } => buffer_error(error),
        other => runtime_error(other),
    }
}

/// The exception for a tensor that cannot be exchanged.
pub(crate) fn buffer_error(why: impl Display) -> PyErr {
    PyBufferError::new_err(why.to_string())
}

/// The exception for an argument that has no meaning.
pub(crate) fn value_error(why: impl Display) -> PyErr {
    PyValueError::new_err(why.to_string())
}
