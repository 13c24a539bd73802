//! Tensors between `cuda-handoff` and Python, for authors of extension modules in Rust.
//!
//! A [`Tensor`] is an object of Python that owns a buffer of this crate. PyTorch, CuPy and JAX read
//! it without a copy, by `__dlpack__` or by `__cuda_array_interface__`. In the other direction
//! [`from_object`] takes a tensor of these libraries over, as a buffer of one stream. Each exchange
//! is a handoff: one stream waits for the other on the GPU, and the host does not wait.
//!
//! NumPy's arrays are memory of the host. [`pinned_from_object`] copies them into page-locked
//! memory, and NumPy takes a tensor of page-locked memory without a copy ([`Tensor::of_pinned`]).
//!
//! ```no_run,standalone_crate
//! use std::sync::OnceLock;
//!
//! use cuda_rt::{Device, Stream};
//! use pyo3::prelude::*;
//! use cuda_rt_python::{Tensor, from_object, runtime_error};
//!
//! cuda_rt::streams! { pub Compute; }
//!
//! static STATE: OnceLock<(Device, Stream<Compute>)> = OnceLock::new();
//!
//! /// The device and the stream of this module. The first call blocks while CUDA starts.
//! fn state(py: Python<'_>) -> PyResult<&'static (Device, Stream<Compute>)> {
//!     if let Some(state) = STATE.get() {
//!         return Ok(state);
//!     }
//!     let opened = py.detach(|| {
//!         let gpu = Device::open_or_simulate().map_err(runtime_error)?;
//!         let compute = gpu.stream().map_err(runtime_error)?;
//!         PyResult::Ok((gpu, compute))
//!     })?;
//!     // Another thread may have come first, with the same device and stream.
//!     Ok(STATE.get_or_init(|| opened))
//! }
//!
//! /// Sets the first element to 0, in the memory of `x`.
//! ///
//! /// The caller leaves `x` alone until the result has ended.
//! #[pyfunction]
//! fn cleared(py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Tensor> {
//!     let (gpu, compute) = state(py)?;
//!     // SAFETY: this function's documentation asks its callers for it.
//!     let mut x = unsafe { from_object::<f32, _>(compute, x) }?; // `compute` waits for `x`
//!     let shape = x.shape.to_vec();
//!     if !x.elements.is_empty() {
//!         compute.fill(&mut x.elements[..1], 0.0).map_err(runtime_error)?;
//!     }
//!     let x = compute.release(x.elements).map_err(runtime_error)?;
//!     // SAFETY: libraries that read the result name the streams on which they use it.
//!     unsafe { Tensor::new(gpu, x, &shape) } // who reads it waits for `compute`
//! }
//!
//! #[pymodule]
//! fn example(module: &Bound<'_, PyModule>) -> PyResult<()> {
//!     module.add_function(wrap_pyfunction!(cleared, module)?)
//! }
//! ```
//!
//! ```python
//! y = example.cleared(torch.ones(4, device="cuda"))
//! y = torch.from_dlpack(y)  # or cupy.from_dlpack(y), or cupy.asarray(y)
//! ```
//!
//! `Device::open` and `open_or_simulate` give the same device at each call, and `Device::stream`
//! the same stream for one tag, from every thread. So the examples of single functions open the
//! device themselves: the first call starts CUDA, and later calls look the device up.
//!
//! # Who waits for whom
//!
//! ```text
//!   in, by DLPack       our stream waits for the producer's work: the producer, which is told our
//!                       stream, enqueues the wait
//!   in, by the          our stream waits for the work of the stream in the entry `stream`: this
//!   interface           crate enqueues the wait
//!   its end             nobody waits: it goes back to its producer after our last use, as the host
//!                       has seen
//!
//!   out, by DLPack      the consumer's stream waits for our work, and for consumers that have
//!                       ended: this crate enqueues the wait. For stream -1 the host waits
//!   out, by the         the legacy default stream waits for the same, and the consumer orders
//!   interface           itself behind the legacy default stream
//!   out, page-locked    the host waits, if a consumer's work is pending
//!   out, to the host    the host waits for our work, and for a copy to page-locked memory
//!   its end             the next owner of the memory waits for the stream that the consumer named
//! ```
//!
//! # Design choices
//!
//! - A [`Tensor`] may be given to several consumers, as objects of Python share memory. Its memory
//!   is freed once the object and all its consumers have ended, behind the work of all.
//! - Calls that may block release the GIL. What goes back to Python goes back with the GIL, on the
//!   device's thread for closures, and is leaked once the interpreter ends. So a module must not
//!   hold the GIL while it waits for a closure of this thread.
//! - That thread belongs to the main interpreter. So objects of a subinterpreter are not taken
//!   over: a `RuntimeError` says so. A [`Tensor`] can be given to code of any interpreter.
//! - Capsules may be dropped on any thread, also after the last handle of the device.
//! - A simulated device has no default streams. Where a consumer names one, the host waits instead,
//!   and the entry `stream` of the interface is `None`.
//!
//! # Who validates what
//!
//! rustc proves the order of all that our side does with a tensor. This crate checks devices,
//! types, shapes, strides, versions and flags, and refuses in words (`BufferError`). The functions
//! that exchange memory are `unsafe`: nobody proves that Python code leaves a tensor alone while it
//! is ours, or that a number names a stream.
//!
//! # pyo3
//!
//! The module's own manifest depends on pyo3 too, with the features that choose Python's ABI and
//! how the module is linked; this crate asks for `macros` only. A program has one version of pyo3:
//! this crate takes 0.29 or 0.30, and re-exports it as [`pyo3`].
//!
//! ```toml
//! [lib]
//! name = "example"
//! crate-type = ["cdylib"]
//!
//! [dependencies] # with a checkout of the repository beside the module's package
//! cuda-rt = { package = "cuda-handoff", path = "../cuda-rt/cuda-rt" }
//! cuda-rt-python = { package = "cuda-handoff-python", path = "../cuda-rt/libraries/python" }
//! pyo3 = { version = "0.30", features = ["abi3-py39", "extension-module"] }
//! ```
//!
//! Python finds the module by the name of its file: `cargo build` makes `libexample.so`. Copy it to
//! `example.abi3.so` in a folder of `PYTHONPATH`, or beside the program. Or `maturin develop`
//! builds it and puts it into the virtual environment.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod capsule;
mod error;
mod given_back;
mod held;
mod import;
mod interface;
mod interpreter;
mod request;
mod tensor;

pub use error::runtime_error;
pub use import::{from_cuda_array_interface, from_dlpack, from_object, pinned_from_object};
pub use pyo3;
pub use tensor::Tensor;
