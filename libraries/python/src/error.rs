//! Errors of this project as exceptions of Python.

use std::fmt::Display;

use cuda_rt_runtime::{DlpackError, Error};
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
/// tensor cannot be exchanged; other errors are those of the device. Python's caller gets the
/// reason without our call, whose name in Rust the caller never wrote.
pub(crate) fn exchange_error(error: &Error) -> PyErr {
    match error {
        Error::Dlpack { why, .. } => buffer_error(why),
        other => runtime_error(other),
    }
}

/// The exception for memory that cannot become a tensor of this shape. `during` is the function of
/// this crate that the module's author called.
pub(crate) fn shape_error(during: &str, shape: &[usize], error: &Error) -> PyErr {
    let Error::Dlpack { why, .. } = error else {
        return exchange_error(error);
    };
    match why {
        DlpackError::Shape {
            elements: Some(elements),
            len,
        } => {
            let shape = python_shape(shape);
            buffer_error(format_args!(
                "{during}: the shape {shape} has {elements} elements, the buffer {len}"
            ))
        }
        why => buffer_error(format_args!("{during}: {why}")),
    }
}

/// A shape as Python writes it: `(2, 3)`, `(6,)`, `()`.
fn python_shape(shape: &[usize]) -> String {
    let extents: Vec<String> = shape.iter().map(ToString::to_string).collect();
    match &extents[..] {
        [extent] => format!("({extent},)"),
        extents => format!("({})", extents.join(", ")),
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
