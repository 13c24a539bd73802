//! [`Tensor`]: an object of Python that owns memory of this project.

use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use cuda_rt_runtime::driver::RawStream;
use cuda_rt_runtime::interop::dlpack::{DL_CUDA, DlpackElement, DlpackShared};
use cuda_rt_runtime::{Device, DeviceBuffer, Handoff, Idle, Live, PinnedBuffer};
use pyo3::exceptions::{PyAttributeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::capsule::Managed;
use crate::error::{exchange_error, shape_error};
use crate::held::{Held, Typed};
use crate::interface;
use crate::request::{LEGACY, Request, is_default, is_download};

/// An object of Python that owns a buffer, and lends it to other libraries without a copy.
///
/// A function that Python calls returns it; the class need not be added to a module. In Python it
/// has `shape`, `dtype`, and two protocols:
///
/// - `__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None)` and
///   `__dlpack_device__()`, of the [array API standard], for `torch.from_dlpack`,
///   `cupy.from_dlpack`, `jax.dlpack.from_dlpack` and `numpy.from_dlpack`
/// - `__cuda_array_interface__`, [version 3], for `cupy.asarray` and Numba; an `AttributeError` for
///   page-locked memory, and for elements without a name in NumPy. Each reading makes the legacy
///   default stream wait
///
/// and `__array__(dtype=None, copy=None)`, for `numpy.asarray`: the array that `numpy.from_dlpack`
/// makes of page-locked memory. For memory of the GPU it is a `TypeError`, as with other libraries:
/// a copy to the host is asked for by its name, `numpy.from_dlpack(x, device="cpu")`.
///
/// **`stream`.** For memory of the GPU: `None` and 1 are the legacy default stream, 2 is the
/// default stream of the calling thread, −1 is no stream, and other numbers are handles. The
/// consumer's stream waits on the GPU. For −1 the host waits, without the GIL, because no stream
/// can. For page-locked memory `None` and −1 are no stream; a number orders the end of the
/// consumer's uses. **`max_version`.** Without it, and for version 0, the capsule is a `"dltensor"`
/// without flags; else a `"dltensor_versioned"`. **`dl_device`.** The device that
/// `__dlpack_device__` returns; page-locked memory may be called ordinary memory of the host too.
/// For ordinary memory of the host (`kDLCPU`), memory of the GPU is copied to page-locked memory,
/// and the host waits for the copy, without the GIL. **`copy`.** `True` makes a copy, on the GPU
/// for memory of the GPU. The rest is a `BufferError`.
///
/// The memory is freed when the object and all consumers have ended, behind their work. Dropping it
/// never blocks.
///
/// [array API standard]: https://data-apis.org/array-api/latest/API_specification/array_object.html
/// [version 3]: https://nvidia.github.io/numba-cuda/user/cuda_array_interface.html
#[pyclass(frozen, module = "cuda_handoff")]
pub struct Tensor {
    /// What consumers of the interface have, once someone has read it. Ends before `held`.
    interface: Mutex<Option<Managed>>,
    held: Box<dyn Held>,
}

impl Tensor {
    /// Gives memory of the GPU to Python, as a tensor of this shape in row-major order. Calls
    /// nothing of the driver: a consumer's stream waits for the handoff when it asks for the
    /// tensor.
    ///
    /// # Hazards prevented
    /// [H01](cuda_rt_runtime::hazards#h01)–[H03](cuda_rt_runtime::hazards#h03) between the work of
    /// this project and each consumer, and [H21](cuda_rt_runtime::hazards#h21), under the promises
    /// below.
    ///
    /// # Safety
    /// For all code that Python gives the object to:
    /// 1. A number that it passes for `stream` names a live stream of this GPU's primary context,
    ///    which is not being captured, and is not destroyed before the consumer has ended. PyTorch,
    ///    CuPy and JAX pass their current stream.
    /// 2. When it calls a deleter of DLPack, its uses of the memory are over, or ordered before the
    ///    present end of the stream that it named; if it named −1, they are over. Code that
    ///    uses a tensor on another stream orders that stream's work before the named one.
    /// 3. When it drops the last reference to an object whose `__cuda_array_interface__` it used,
    ///    its uses of the memory are over, or ordered before the present end of the legacy default
    ///    stream. Work of the default streams and of streams without `cudaStreamNonBlocking` is.
    /// 4. It orders its own consumers: no one writes what another uses.
    ///
    /// # Errors
    /// `BufferError` if the shape has another number of elements; the memory is then freed.
    ///
    /// ```no_run,standalone_crate
    /// use pyo3::prelude::*;
    /// use cuda_rt_python::{Tensor, runtime_error};
    ///
    /// cuda_rt::streams! { pub Compute; }
    ///
    /// #[pyfunction]
    /// fn ones() -> PyResult<Tensor> {
    ///     let gpu = cuda_rt::Device::open_or_simulate().map_err(runtime_error)?;
    ///     let compute = gpu.stream::<Compute>().map_err(runtime_error)?;
    ///     let ones = compute.alloc_from_slice(&[1.0_f32; 6]).map_err(runtime_error)?;
    ///     let ones = compute.release(ones).map_err(runtime_error)?;
    ///     // SAFETY: this function's documentation asks for these promises.
    ///     unsafe { Tensor::new(&gpu, ones, &[2, 3]) }
    /// }
    /// ```
    pub unsafe fn new<T, D>(
        gpu: &Device<D>,
        handoff: Handoff<DeviceBuffer<T, Idle<D>>>,
        shape: &[usize],
    ) -> PyResult<Self>
    where
        T: DlpackElement,
        D: Live + 'static,
    {
        let gpu = gpu.clone();
        let shared = DlpackShared::new(&gpu, handoff, shape);
        let shared = shared.map_err(|refused| shape_error("Tensor::new", shape, &refused.error))?;
        Ok(Self::of(Box::new(Typed { gpu, shared })))
    }

    /// Gives page-locked memory to Python, as a tensor of this shape in row-major order. NumPy
    /// takes it (`numpy.from_dlpack`), and so do libraries that copy it to a GPU.
    ///
    /// # Safety
    /// As for [`new`](Self::new), and the memory is not used in a child of `fork`. A consumer that
    /// names no stream has finished when it calls the deleter, also with its copies to a GPU.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    ///
    /// ```no_run,standalone_crate
    /// use pyo3::prelude::*;
    /// use cuda_rt_python::{Tensor, runtime_error};
    ///
    /// #[pyfunction]
    /// fn counted() -> PyResult<Tensor> {
    ///     let gpu = cuda_rt::Device::open_or_simulate().map_err(runtime_error)?;
    ///     let host = gpu.pinned_from(&[0_i32, 1, 2, 3]).map_err(runtime_error)?;
    ///     // SAFETY: this function's documentation asks for these promises.
    ///     unsafe { Tensor::of_pinned(&gpu, host, &[4]) }
    /// }
    /// ```
    pub unsafe fn of_pinned<T, D>(
        gpu: &Device<D>,
        buffer: PinnedBuffer<T, Idle<D>>,
        shape: &[usize],
    ) -> PyResult<Self>
    where
        T: DlpackElement,
        D: Live + 'static,
    {
        let gpu = gpu.clone();
        let shared = DlpackShared::of_pinned(buffer, shape);
        let shared = shared.map_err(|refused| shape_error("Tensor::of_pinned", shape, &refused.error))?;
        Ok(Self::of(Box::new(Typed { gpu, shared })))
    }

    fn of(held: Box<dyn Held>) -> Self {
        let interface = Mutex::new(None);
        Self { interface, held }
    }

    /// The stream that waits where a consumer names `stream`: none on a simulated device, which has
    /// no default streams.
    fn waiting(&self, stream: Option<RawStream>) -> Option<RawStream> {
        stream.filter(|stream| !(self.held.is_simulated() && is_default(*stream)))
    }

    /// Lends the memory, without the GIL.
    fn lend(&self, py: Python<'_>, consumer: Option<RawStream>, versioned: bool) -> PyResult<Managed> {
        // SAFETY: the contract of `new` or `of_pinned`, which alone make such an object.
        let lent = py.detach(|| unsafe { self.held.lend(consumer, versioned) });
        lent.map_err(|error| exchange_error(&error))
    }
}

#[pymethods]
impl Tensor {
    /// A capsule of the tensor, for a consumer that works on `stream`.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let request = Request::new(self.held.device(), stream, max_version, dl_device, copy)?;
        let consumer = self.waiting(request.consumer);
        let mut lent = match request.copy {
            false => self.lend(py, consumer, request.versioned)?,
            true => {
                let copy = match is_download(self.held.device(), request.device) {
                    // SAFETY: the contract of `new` or `of_pinned`.
                    true => py.detach(|| unsafe { self.held.downloaded() }),
                    // SAFETY: as above.
                    false => py.detach(|| unsafe { self.held.copied() }),
                };
                let copy = Self::of(copy.map_err(|error| exchange_error(&error))?);
                copy.lend(py, consumer, request.versioned)?
            }
        };
        lent.describe(request.device, request.copy);
        lent.into_capsule(py)
    }

    /// The device as `(type, id)`, with the numbers of DLPack.
    fn __dlpack_device__(&self) -> (i32, i32) {
        let device = self.held.device();
        (device.device_type, device.device_id)
    }

    /// NumPy's array of page-locked memory, which keeps the memory. The host waits, without the
    /// GIL, until no consumer's work is pending.
    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let device = slf.get().held.device();
        if device.device_type == DL_CUDA {
            return Err(PyTypeError::new_err(format!(
                "the tensor is {device}, and NumPy reads memory of the host: copy it to the host, with \
                 `numpy.from_dlpack(x, device=\"cpu\")` (NumPy 2.1) or `torch.from_dlpack(x).cpu().numpy()`"
            )));
        }
        let numpy = slf.py().import("numpy")?;
        let array = numpy.call_method1("from_dlpack", (slf,))?;
        let arguments = PyDict::new(slf.py());
        arguments.set_item("dtype", dtype)?;
        arguments.set_item("copy", copy)?;
        // Before version 2, NumPy passes no `copy`, and takes `None` for `False`: a copy if needed.
        numpy.call_method("array", (array,), Some(&arguments))
    }

    /// The CUDA array interface, version 3.
    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let held = &self.held;
        if held.device().device_type != DL_CUDA {
            return Err(PyAttributeError::new_err(
                "__cuda_array_interface__ is for memory of a GPU; this is page-locked memory of the host",
            ));
        }
        let Some(typestr) = interface::typestr(held.dtype()) else {
            return Err(PyAttributeError::new_err(format!(
                "__cuda_array_interface__ has no name for {}; use `__dlpack__`",
                held.dtype()
            )));
        };
        let stream = self.waiting(Some(LEGACY));
        let lent = self.lend(py, stream, true)?;
        let before = {
            let mut interface = self.interface.lock().unwrap_or_else(PoisonError::into_inner);
            interface.replace(lent)
        };
        drop(before);
        let dict = PyDict::new(py);
        dict.set_item("shape", PyTuple::new(py, held.shape())?)?;
        dict.set_item("typestr", typestr)?;
        dict.set_item("data", (held.address().0, false))?;
        dict.set_item("strides", py.None())?;
        dict.set_item("stream", stream.map(|stream| stream.0))?;
        dict.set_item("version", 3)?;
        Ok(dict)
    }

    /// The extents, in elements.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.held.shape())
    }

    /// The type of the elements, for example `"float32"`.
    #[getter]
    fn dtype(&self) -> String {
        self.held.dtype().to_string()
    }

    fn __repr__(&self) -> String {
        let held = &self.held;
        let mut text = format!("Tensor({}, {:?}, ", held.dtype(), held.shape());
        // Writing to a string does not fail.
        let _ = write!(text, "{})", held.device());
        text
    }
}
