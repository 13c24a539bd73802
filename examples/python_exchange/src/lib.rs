//! A Python module in Rust that exchanges tensors with PyTorch, CuPy and NumPy, without copies.
//!
//! `Program` has two streams. Its methods take tensors of other libraries, enqueue work on one of
//! the streams, and return tensors. Nothing in a method waits for the GPU, except where it says so:
//! each exchange is a handoff.
//!
//! **What callers promise**, in the place of Rust's types: a tensor that was passed in is left
//! alone until its result has been used or dropped; and a tensor that came from here is used in the
//! order of the stream that was current when it was taken (PyTorch's and CuPy's rule too).
//!
//! `run` builds the module and runs all programs of this folder; `README.md` says how.

use cuda_rt::checker::Check;
use cuda_rt::interop::dlpack::DlpackTensor;
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Gpu, Grid1, NamedStream, PinnedBuffer, Stream};
use cuda_rt_python::{Tensor, from_cuda_array_interface, from_object, pinned_from_object, runtime_error};
use device_kernels::scale;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

cuda_rt::streams! {
    Compute;
    Other;
}

/// A tensor of Python while a stream owns it.
type Taken<S> = DlpackTensor<f32, S>;

/// The device, and the streams on it.
#[pyclass(frozen)]
struct Program {
    gpu: Device,
    compute: Stream<Compute>,
    other: Stream<Other>,
}

impl Program {
    /// Keeps `stream` busy, as a program with more to do: writes `delay` times to memory that
    /// nobody reads.
    fn delay<S: NamedStream<Device = Gpu<0>>>(
        &self,
        stream: &Stream<S>,
        delay: usize,
    ) -> cuda_rt::Result<()> {
        if delay > 0 {
            let len = if self.gpu.is_simulated() { 256 } else { 64 << 20 };
            let mut scratch = stream.alloc_zeroed::<f32>(len)?;
            for _ in 0..delay {
                stream.fill(&mut scratch, 1.0)?;
            }
        }
        Ok(())
    }

    /// Twice the tensor, in new memory, on `stream`.
    fn double<S: NamedStream<Device = Gpu<0>>>(
        &self,
        py: Python<'_>,
        stream: &Stream<S>,
        x: Taken<S>,
        delay: usize,
    ) -> PyResult<Tensor> {
        let shape = x.shape.to_vec();
        let doubled = py.detach(|| {
            self.delay(stream, delay)?;
            let len = x.elements.len();
            let mut y = stream.alloc_zeroed::<f32>(len)?;
            if len > 0 {
                scale(stream, Grid1::covering(len), &x.elements, &mut y, 2.0)?;
            }
            // `x` goes back to its producer behind the kernel.
            drop(x);
            stream.release(y)
        });
        // SAFETY: the module's documentation asks its callers for the promises.
        unsafe { Tensor::new(&self.gpu, doubled.map_err(runtime_error)?, &shape) }
    }
}

#[pymethods]
impl Program {
    /// Opens a device: `"cuda"` for GPU 0, `"sim"` for the simulated device, `"auto"` for the GPU
    /// if there is one. `seed` chooses the order in which a simulated device runs pending work; a
    /// device that is open already keeps its order.
    #[new]
    #[pyo3(signature = (device="auto", seed=0))]
    fn new(py: Python<'_>, device: &str, seed: u64) -> PyResult<Self> {
        let config = SimConfig::default().seed(seed).check(Check::Record);
        let gpu = py.detach(|| match device {
            "cuda" => Device::open().map_err(runtime_error),
            "auto" | "sim" => Device::open_or_simulate_with(config).map_err(runtime_error),
            _ => Err(PyValueError::new_err("`device` is \"auto\", \"cuda\" or \"sim\"")),
        })?;
        if device == "sim" && !gpu.is_simulated() {
            return Err(PyValueError::new_err(
                "this machine has a GPU: hide it with CUDA_VISIBLE_DEVICES= for a simulated device",
            ));
        }
        let compute = gpu.stream().map_err(runtime_error)?;
        let other = gpu.stream().map_err(runtime_error)?;
        Ok(Self { gpu, compute, other })
    }

    /// The name of the device.
    #[getter]
    fn device(&self) -> String {
        self.gpu.properties().name.clone()
    }

    /// A tensor of `float32` with this shape, each element of which is `value`. The stream calls
    /// `after` on the host before it writes the elements.
    #[pyo3(signature = (shape, value, delay=0, after=None))]
    fn filled(
        &self,
        py: Python<'_>,
        shape: Vec<usize>,
        value: f32,
        delay: usize,
        after: Option<Py<PyAny>>,
    ) -> PyResult<Tensor> {
        let compute = &self.compute;
        let len = shape
            .iter()
            .try_fold(1_usize, |len, extent| len.checked_mul(*extent));
        let len =
            len.ok_or_else(|| PyValueError::new_err("the shape has more elements than a number holds"))?;
        let filled = py.detach(|| {
            // The memory holds something else until the delay is over.
            let mut y = compute.alloc_zeroed::<f32>(len)?;
            self.delay(compute, delay)?;
            if let Some(after) = after {
                // The stream waits for the GIL here. So whoever waits for the stream releases it.
                compute.host_fn((), move |()| {
                    Python::attach(|py| {
                        if let Err(error) = after.call0(py) {
                            error.write_unraisable(py, Some(after.bind(py)));
                        }
                    });
                })?;
            }
            compute.fill(&mut y, value)?;
            compute.release(y)
        });
        // SAFETY: as in `double`.
        unsafe { Tensor::new(&self.gpu, filled.map_err(runtime_error)?, &shape) }
    }

    /// Twice the elements of `x`, in a new tensor. `delay` keeps the stream busy before.
    #[pyo3(signature = (x, delay=0))]
    fn doubled(&self, py: Python<'_>, x: &Bound<'_, PyAny>, delay: usize) -> PyResult<Tensor> {
        // SAFETY: as in `double`.
        let x: Taken<Compute> = unsafe { from_object(&self.compute, x) }?;
        self.double(py, &self.compute, x, delay)
    }

    /// As `doubled`, on the other stream.
    #[pyo3(signature = (x, delay=0))]
    fn doubled_elsewhere(&self, py: Python<'_>, x: &Bound<'_, PyAny>, delay: usize) -> PyResult<Tensor> {
        // SAFETY: as in `double`.
        let x: Taken<Other> = unsafe { from_object(&self.other, x) }?;
        self.double(py, &self.other, x, delay)
    }

    /// As `doubled_elsewhere`, by `__cuda_array_interface__`, also if `x` has `__dlpack__`.
    #[pyo3(signature = (x, delay=0))]
    fn doubled_by_interface(&self, py: Python<'_>, x: &Bound<'_, PyAny>, delay: usize) -> PyResult<Tensor> {
        // SAFETY: as in `double`.
        let x: Taken<Other> = unsafe { from_cuda_array_interface(&self.other, x) }?;
        self.double(py, &self.other, x, delay)
    }

    /// The memory of `x` itself, with its elements set to `value`: it goes from one library through
    /// this one to the next without a copy. `x` gets it back when the result has ended.
    #[pyo3(signature = (x, value, delay=0))]
    fn passed_on(&self, py: Python<'_>, x: &Bound<'_, PyAny>, value: f32, delay: usize) -> PyResult<Tensor> {
        // SAFETY: as in `double`.
        let mut x: Taken<Compute> = unsafe { from_object(&self.compute, x) }?;
        let shape = x.shape.to_vec();
        let compute = &self.compute;
        let handoff = py.detach(|| {
            self.delay(compute, delay)?;
            compute.fill(&mut x.elements, value)?;
            compute.release(x.elements)
        });
        // SAFETY: as in `double`.
        unsafe { Tensor::new(&self.gpu, handoff.map_err(runtime_error)?, &shape) }
    }

    /// The elements of `x`, as a list. Waits for the other stream, without the GIL.
    fn values(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Vec<f32>> {
        // SAFETY: as in `double`.
        let x: Taken<Other> = unsafe { from_object(&self.other, x) }?;
        py.detach(|| self.other.copy_to_vec(&x.elements))
            .map_err(runtime_error)
    }

    /// The memory of `x` itself, as a tensor of another shape.
    fn reshaped(&self, py: Python<'_>, x: &Bound<'_, PyAny>, shape: Vec<usize>) -> PyResult<Tensor> {
        // SAFETY: as in `double`.
        let x: Taken<Compute> = unsafe { from_object(&self.compute, x) }?;
        let handoff = py.detach(|| self.compute.release(x.elements));
        // SAFETY: as in `double`.
        unsafe { Tensor::new(&self.gpu, handoff.map_err(runtime_error)?, &shape) }
    }

    /// Page-locked memory of the host, with the numbers 0, 1, 2, … (`int32`).
    #[pyo3(signature = (count, shape=None))]
    fn counted(&self, count: i32, shape: Option<Vec<usize>>) -> PyResult<Tensor> {
        let numbers: Vec<i32> = (0..count).collect();
        let host = self.gpu.pinned_from(&numbers).map_err(runtime_error)?;
        let shape = shape.unwrap_or(vec![numbers.len()]);
        // SAFETY: as in `double`.
        unsafe { Tensor::of_pinned(&self.gpu, host, &shape) }
    }

    /// Twice the elements of an array of NumPy, in page-locked memory that NumPy takes. Waits for
    /// the stream, without the GIL.
    fn doubled_on_host(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Tensor> {
        // SAFETY: as in `double`.
        let (host, shape) = unsafe { pinned_from_object::<f32, _>(&self.gpu, x) }?; // a copy
        let compute = &self.compute;
        let doubled = py.detach(|| {
            let mut host = compute.adopt(host)?;
            let x = compute.init_from_host(compute.alloc_uninit(host.len())?, &host)?;
            let mut y = compute.alloc_zeroed::<f32>(x.len())?;
            if !y.is_empty() {
                scale(compute, Grid1::covering(x.len()), &x, &mut y, 2.0)?;
            }
            compute.copy_to_host(&y, &mut host)?;
            compute.release(host)?.synchronize() // the host has waited: NumPy may read it
        });
        // SAFETY: as in `double`.
        unsafe { Tensor::of_pinned(&self.gpu, doubled.map_err(runtime_error)?, &shape) }
    }

    /// The sum of a tensor of the host (`int32`), for example of NumPy.
    fn sum_of_host(&self, x: &Bound<'_, PyAny>) -> PyResult<i64> {
        // SAFETY: as in `double`.
        let host: (PinnedBuffer<i32>, _) = unsafe { pinned_from_object(&self.gpu, x) }?;
        Ok(host.0.iter().map(|element| i64::from(*element)).sum())
    }

    /// The numbers of the two streams, as other libraries name them.
    #[getter]
    fn streams(&self) -> (i64, i64) {
        (self.compute.dlpack_stream(), self.other.dlpack_stream())
    }

    /// Waits until the device has finished all work, without the GIL.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.gpu.synchronize()).map_err(runtime_error)
    }

    /// The number of allocations on a simulated device; `None` on a GPU. Waits, without the GIL.
    fn allocations(&self, py: Python<'_>) -> PyResult<Option<usize>> {
        let Some(simulator) = self.gpu.simulator() else {
            return Ok(None);
        };
        let settled = py.detach(|| {
            self.gpu.synchronize()?;
            // What the streams keep for their next buffers goes back, too.
            self.gpu.trim(0)?;
            self.gpu.synchronize()
        });
        settled.map_err(runtime_error)?;
        Ok(Some(simulator.counters().allocations_live))
    }

    /// The races that the checker saw on a simulated device, in words.
    fn races(&self, py: Python<'_>) -> Vec<String> {
        let races = py.detach(|| self.gpu.races());
        races.iter().map(ToString::to_string).collect()
    }
}

#[pymodule]
fn python_exchange(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Program>()?;
    module.add_class::<Tensor>()
}
