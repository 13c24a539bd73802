//! Tensors of Python that become memory of this project.

use cuda_rt_runtime::interop::dlpack::{
    DL_BFLOAT, DL_CPU, DL_CUDA, DL_CUDA_HOST, DLDataType, DLDevice, DlpackElement, DlpackTensor, VERSION,
};
use cuda_rt_runtime::{Device, Idle, Live, PinnedBuffer, Stream, StreamTag};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::capsule::Managed;
use crate::error::{buffer_error, exchange_error};
use crate::given_back;
use crate::interface::Entries;
use crate::interpreter;

/// Takes a tensor of Python over, by `__dlpack__` if the object has it
/// ([`from_dlpack`]), and else by `__cuda_array_interface__` ([`from_cuda_array_interface`]).
/// `stream` waits for the producer's work on the GPU; the host does not wait.
///
/// # Safety
/// As for these functions.
///
/// # Errors
/// `TypeError` if the object has neither, and the errors of these functions.
///
/// ```no_run,standalone_crate
/// use pyo3::prelude::*;
/// use cuda_rt_python::{from_object, runtime_error};
///
/// cuda_rt::streams! { pub Compute; }
///
/// #[pyfunction]
/// fn total(py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<f32> {
///     let gpu = cuda_rt::Device::open_or_simulate().map_err(runtime_error)?;
///     let compute = gpu.stream::<Compute>().map_err(runtime_error)?;
///     // SAFETY: `x` is a tensor of a library, and its caller waits for this function.
///     let x = unsafe { from_object::<f32, _>(&compute, x) }?;
///     // It blocks, so it releases the GIL.
///     let host = py.detach(|| compute.copy_to_vec(&x.elements)).map_err(runtime_error)?;
///     Ok(host.iter().sum())
/// }
/// ```
pub unsafe fn from_object<T, S>(stream: &Stream<S>, object: &Bound<'_, PyAny>) -> PyResult<DlpackTensor<T, S>>
where
    T: DlpackElement,
    S: StreamTag,
    S::Device: Live,
{
    if object.hasattr("__dlpack__")? {
        // SAFETY: this function's contract.
        return unsafe { from_dlpack(stream, object) };
    }
    if object.hasattr("__cuda_array_interface__")? {
        // SAFETY: this function's contract.
        return unsafe { from_cuda_array_interface(stream, object) };
    }
    Err(PyTypeError::new_err(format!(
        "{} has neither `__dlpack__` nor `__cuda_array_interface__`: pass a tensor in {}, such as {}",
        object.get_type().name()?,
        device_of_stream(stream),
        on_gpu(T::DTYPE),
    )))
}

/// A tensor of elements of this type, made of any `x`, as the caller in Python may write it.
fn on_gpu(dtype: DLDataType) -> String {
    format!("`torch.asarray(x, dtype=torch.{dtype}, device=\"cuda\")`")
}

/// As [`on_gpu`], for memory of the host. NumPy has no `bfloat16`.
fn on_host(dtype: DLDataType) -> String {
    match dtype.code {
        DL_BFLOAT => format!("`torch.asarray(x, dtype=torch.{dtype})`"),
        _ => format!("`numpy.asarray(x, dtype=\"{dtype}\")`"),
    }
}

/// Takes a tensor of Python over, by `__dlpack__`. The producer is told the number of `stream`, and
/// makes this stream wait for its own work, on the GPU. The host does not wait, unless the producer
/// does.
///
/// The tensor goes back to its producer after the last use on the GPU, as the host has seen, with
/// the GIL, on the device's thread for closures. A refused tensor goes back at once.
///
/// # Hazards prevented
/// [H01](cuda_rt_runtime::hazards#h01)–[H03](cuda_rt_runtime::hazards#h03),
/// [H13](cuda_rt_runtime::hazards#h13): the memory moves through handoffs only.
/// [H21](cuda_rt_runtime::hazards#h21): the producer gets it back after its last use.
///
/// # Safety
/// 1. The object keeps the protocol: the capsule of `__dlpack__` holds a well-formed tensor, whose
///    memory this device can use, and `stream` waits for the work that writes it. Any thread with
///    the GIL may call its deleter. Libraries do this; code that forges capsules may not.
/// 2. Until the tensor goes back, nobody else uses its memory: the program leaves the object alone
///    meanwhile, and its views. What is done to the object's memory before the call, on the
///    producer's current stream, is ordered before; work on its other streams is not.
///
/// # Errors
/// `BufferError` if the tensor is of another device, has another element type, is not compact in
/// row-major order, is read-only or misaligned, or is of another major version. `TypeError` if the
/// object has no `__dlpack__`. `RuntimeError` in a subinterpreter. What `__dlpack__` raises comes
/// through.
///
/// ```no_run,standalone_crate
/// use cuda_rt::Stream;
/// use cuda_rt::interop::dlpack::DlpackTensor;
/// use cuda_rt_python::from_dlpack;
/// use pyo3::prelude::*;
///
/// cuda_rt::streams! { pub Compute; }
///
/// /// An argument that a library owns, and does not use before we return it.
/// fn argument(
///     compute: &Stream<Compute>,
///     x: &Bound<'_, PyAny>,
/// ) -> PyResult<DlpackTensor<f32, Compute>> {
///     // SAFETY: the callers of our module promise it.
///     unsafe { from_dlpack(compute, x) }
/// }
/// ```
pub unsafe fn from_dlpack<T, S>(stream: &Stream<S>, object: &Bound<'_, PyAny>) -> PyResult<DlpackTensor<T, S>>
where
    T: DlpackElement,
    S: StreamTag,
    S::Device: Live,
{
    let expected = device_of_stream(stream);
    let found = device_of(object, || on_gpu(T::DTYPE))?;
    // Compared before the call: a producer on another device could not wait on this stream.
    if found != expected {
        let advice = match found.device_type {
            DL_CPU | DL_CUDA_HOST => {
                ": copy it to the GPU first, for example with `torch.asarray(x, device=\"cuda\")` or \
                 `cupy.asarray(x)`. For memory of the host, the function's author has `pinned_from_object`"
            }
            _ => "",
        };
        return Err(buffer_error(format_args!(
            "the tensor is {found}, and the function takes {expected}{advice}"
        )));
    }
    // SAFETY: this function's contract is that of `capsule`.
    let tensor = unsafe { taken(object, Some(stream.dlpack_stream())) }?;
    let managed = given_back::of_managed(tensor).as_ptr();
    // SAFETY: the tensor was given away just now. The producer was told the number of this stream.
    // The rest is this function's contract.
    let tensor = unsafe { stream.from_dlpack::<T>(managed) };
    tensor.map_err(|error| exchange_error(&error))
}

/// Takes a tensor of Python over, by `__cuda_array_interface__`. `stream` waits, on the GPU, for
/// the present work of the stream in the entry `stream`; for `None` nothing is pending. Without the
/// entry, before version 3, it waits for the legacy default stream. The host does not wait.
///
/// The object is kept, and let go after the last use on the GPU, as the host has seen, with the
/// GIL, on the device's thread for closures.
///
/// # Hazards prevented
/// As for [`from_dlpack`].
///
/// # Safety
/// 1. The object keeps the protocol: the entries describe live memory that this device can use, as
///    long as a reference to the object exists, and the entry `stream` names a live stream of this
///    device's primary context behind which the memory may be used.
/// 2. As for [`from_dlpack`].
///
/// # Errors
/// `BufferError` as for [`from_dlpack`], and for a mask; `KeyError` for a missing entry;
/// `ValueError` for stream 0, which the interface forbids; `RuntimeError` in a subinterpreter.
///
/// ```no_run,standalone_crate
/// use cuda_rt::Stream;
/// use cuda_rt::interop::dlpack::DlpackTensor;
/// use cuda_rt_python::from_cuda_array_interface;
/// use pyo3::prelude::*;
///
/// cuda_rt::streams! { pub Compute; }
///
/// /// An argument of Numba, which does not use it before we return it.
/// fn argument(
///     compute: &Stream<Compute>,
///     x: &Bound<'_, PyAny>,
/// ) -> PyResult<DlpackTensor<f32, Compute>> {
///     // SAFETY: the callers of our module promise it.
///     unsafe { from_cuda_array_interface(compute, x) }
/// }
/// ```
pub unsafe fn from_cuda_array_interface<T, S>(
    stream: &Stream<S>,
    object: &Bound<'_, PyAny>,
) -> PyResult<DlpackTensor<T, S>>
where
    T: DlpackElement,
    S: StreamTag,
    S::Device: Live,
{
    interpreter::check(object.py())?;
    let entries = Entries::of(object)?;
    if let Some(theirs) = entries.stream {
        // SAFETY: by this function's contract the entry names a live stream of this device.
        let waits = object.py().detach(|| unsafe { stream.wait_for_foreign(theirs) });
        waits.map_err(|error| exchange_error(&error))?;
    }
    let owner = object.clone().unbind();
    let managed = given_back::of_interface(entries, owner, ordinal(&stream.device())).as_ptr();
    // SAFETY: the tensor was made just now. This stream waits for the work that its producer named,
    // and the tensor keeps the object. The rest is this function's contract.
    let tensor = unsafe { stream.from_dlpack::<T>(managed) };
    tensor.map_err(|error| exchange_error(&error))
}

/// Takes memory of the host from Python, with its shape. A page-locked tensor (`kDLCUDAHost`) is
/// taken over without a copy, and goes back as [`from_dlpack`] describes. An ordinary one
/// (`kDLCPU`), for example of NumPy, is copied into page-locked memory, and goes back at once. It
/// is only read, so it may be read-only, and misaligned.
///
/// The copy is made by the host, without the GIL (**blocks**).
///
/// # Safety
/// As for [`from_dlpack`], and the memory is not written meanwhile, also not by work that is
/// pending. A page-locked tensor is page-locked for every GPU of the process.
///
/// # Errors
/// As [`from_dlpack`], but an ordinary tensor may be read-only and misaligned.
///
/// ```no_run,standalone_crate
/// use pyo3::prelude::*;
/// use cuda_rt_python::{pinned_from_object, runtime_error};
///
/// #[pyfunction]
/// fn first(x: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
///     let gpu = cuda_rt::Device::open_or_simulate().map_err(runtime_error)?;
///     // SAFETY: `x` is an array of NumPy, and its caller waits for this function.
///     let (host, _shape) = unsafe { pinned_from_object::<i64, _>(&gpu, x) }?;
///     Ok(host.first().copied())
/// }
/// ```
pub unsafe fn pinned_from_object<T, D>(
    gpu: &Device<D>,
    object: &Bound<'_, PyAny>,
) -> PyResult<(PinnedBuffer<T, Idle<D>>, Vec<usize>)>
where
    T: DlpackElement,
    D: Live,
{
    let found = device_of(object, || on_host(T::DTYPE))?;
    if !matches!(found.device_type, DL_CPU | DL_CUDA_HOST) {
        return Err(buffer_error(format_args!(
            "the tensor is {found}, and the function takes memory of the host: copy it to the host \
             first, for example with `torch.from_dlpack(x).cpu()` or `cupy.asnumpy(x)`"
        )));
    }
    // SAFETY: this function's contract is that of `taken`.
    let tensor = unsafe { taken(object, None) }?;
    // The tensor decides, not the object: PyTorch's pinned tensors say `kDLCPU`, and their objects
    // `kDLCUDAHost`.
    let host = if tensor.is_ordinary() {
        object.py().detach(|| {
            let managed = given_back::of_managed(tensor).as_ptr();
            // SAFETY: the tensor was given away just now, and nothing writes its memory meanwhile,
            // by this function's contract.
            unsafe { PinnedBuffer::copy_of_dlpack(gpu, managed) }
        })
    } else {
        let managed = given_back::of_managed(tensor).as_ptr();
        // SAFETY: the tensor was given away just now, and nothing that uses it is pending, by this
        // function's contract.
        unsafe { PinnedBuffer::from_dlpack(gpu, managed) }
    };
    host.map_err(|error| exchange_error(&error))
}

/// The device of an object, as it says. `such_as` is an object that would do, in words.
fn device_of(object: &Bound<'_, PyAny>, such_as: impl FnOnce() -> String) -> PyResult<DLDevice> {
    if !object.hasattr("__dlpack__")? {
        return Err(PyTypeError::new_err(format!(
            "{} has no `__dlpack__`: pass an array, such as {}",
            object.get_type().name()?,
            such_as(),
        )));
    }
    let (device_type, device_id) = object.call_method0("__dlpack_device__")?.extract()?;
    Ok(DLDevice {
        device_type,
        device_id,
    })
}

/// The device of a stream, as DLPack names it.
fn device_of_stream<S>(stream: &Stream<S>) -> DLDevice
where
    S: StreamTag,
    S::Device: Live,
{
    DLDevice {
        device_type: DL_CUDA,
        device_id: ordinal(&stream.device()),
    }
}

/// The number of a device, as DLPack counts.
fn ordinal<D: Live>(gpu: &Device<D>) -> i32 {
    gpu.properties().ordinal as i32
}

/// Asks the object for its tensor, and takes the tensor out of the capsule. A producer that is
/// older than DLPack 1.0 does not know `max_version`, and is asked without.
///
/// # Safety
/// As for [`from_dlpack`].
unsafe fn taken(object: &Bound<'_, PyAny>, stream: Option<i64>) -> PyResult<Managed> {
    let py = object.py();
    interpreter::check(py)?;
    let arguments = PyDict::new(py);
    if let Some(stream) = stream {
        arguments.set_item("stream", stream)?;
    }
    let old = arguments.copy()?;
    arguments.set_item("max_version", (VERSION.major, VERSION.minor))?;
    let capsule = match object.call_method("__dlpack__", (), Some(&arguments)) {
        Err(error) if error.is_instance_of::<PyTypeError>(py) => {
            object.call_method("__dlpack__", (), Some(&old))
        }
        asked => asked,
    }?;
    // SAFETY: this function's contract.
    unsafe { Managed::from_capsule(&capsule) }
}
