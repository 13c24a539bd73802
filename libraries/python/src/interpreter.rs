//! The interpreter that objects belong to.

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;

/// Refuses to take objects of a subinterpreter over. They end on a thread of this project, and that
/// thread attaches to the main interpreter (`PyGILState_Ensure`), which must not touch them.
pub(crate) fn check(_attached: Python<'_>) -> PyResult<()> {
    // SAFETY: the thread is attached, so it has an interpreter.
    let current = unsafe { ffi::PyInterpreterState_Get() };
    // SAFETY: the interpreter lives as long as the thread is attached.
    match unsafe { ffi::PyInterpreterState_GetID(current) } {
        // The main interpreter's number.
        0 => Ok(()),
        _ => Err(PyRuntimeError::new_err(
            "tensors of a subinterpreter cannot be taken over: only the main interpreter can let them \
             go later. Call this function from the main interpreter",
        )),
    }
}
