//! The arguments of `__dlpack__`: what a consumer asks for.

use cuda_rt_runtime::driver::RawStream;
use cuda_rt_runtime::interop::dlpack::{DL_CPU, DL_CUDA, DL_CUDA_HOST, DLDevice};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::error::buffer_error;

/// The legacy default stream, `CU_STREAM_LEGACY`.
pub(crate) const LEGACY: RawStream = RawStream(1);
/// The default stream of the calling thread, `CU_STREAM_PER_THREAD`.
const PER_THREAD: RawStream = RawStream(2);

/// Whether `stream` is a default stream. A simulated device has none.
pub(crate) fn is_default(stream: RawStream) -> bool {
    stream == LEGACY || stream == PER_THREAD
}

/// What a consumer asks for.
pub(crate) struct Request {
    /// The stream that must wait; `None` if the host must.
    pub(crate) consumer: Option<RawStream>,
    /// Whether the consumer reads the struct with a version.
    pub(crate) versioned: bool,
    /// The device that the tensor says it is on.
    pub(crate) device: DLDevice,
    /// Whether the consumer gets a copy of its own.
    pub(crate) copy: bool,
}

/// Whether memory of a GPU must be copied to the host for this consumer.
pub(crate) fn is_download(device: DLDevice, asked: DLDevice) -> bool {
    device.device_type == DL_CUDA && asked.device_type == DL_CPU
}

impl Request {
    /// Reads the arguments of `__dlpack__` for memory of `device`.
    pub(crate) fn new(
        device: DLDevice,
        stream: Option<&Bound<'_, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Self> {
        let number = stream.map(|stream| {
            let number = stream.extract::<i64>();
            number.map_err(|_| PyTypeError::new_err("__dlpack__: `stream` is an int or None"))
        });
        let number = number.transpose()?;
        let asked = asked_device(device, dl_device)?;
        if asked.device_type == DL_CPU && number.is_some() {
            return Err(buffer_error(
                "__dlpack__: ordinary memory of the host has no streams: `stream` must be None",
            ));
        }
        let is_download = is_download(device, asked);
        if is_download && copy == Some(false) {
            return Err(buffer_error(format_args!(
                "__dlpack__: the tensor is {device}, which the host cannot read without a copy: \
                 leave `copy` out, or pass `copy=True`"
            )));
        }
        // The host waits for a download, and nobody else does.
        let consumer = if is_download {
            None
        } else {
            consumer(device, number)?
        };
        Ok(Self {
            consumer,
            versioned: max_version.is_some_and(|(major, _)| major >= 1),
            device: asked,
            copy: is_download || copy == Some(true),
        })
    }
}

/// The device that the consumer asks for, if memory of `device` can be said to be there, or can be
/// copied there.
fn asked_device(device: DLDevice, asked: Option<(i32, i32)>) -> PyResult<DLDevice> {
    let Some((device_type, device_id)) = asked else {
        return Ok(device);
    };
    let asked = DLDevice {
        device_type,
        device_id,
    };
    // Page-locked memory is memory of the host, too.
    let is_host = device.device_type == DL_CUDA_HOST && matches!(device_type, DL_CPU | DL_CUDA_HOST);
    if asked == device || is_host || is_download(device, asked) {
        return Ok(asked);
    }
    Err(buffer_error(format_args!(
        "__dlpack__: the tensor is {device}, and the consumer asks for {asked}: take it where it is, \
         and copy it there, for example with `torch.from_dlpack(x).to(device)`"
    )))
}

/// The stream that `number` names, for memory of `device`. `None` if the host must wait.
fn consumer(device: DLDevice, number: Option<i64>) -> PyResult<Option<RawStream>> {
    match number {
        // Python's standard: without a number, a consumer on a GPU uses the legacy default stream.
        None if device.device_type == DL_CUDA => Ok(Some(LEGACY)),
        None | Some(-1) => Ok(None),
        Some(0) => Err(buffer_error(
            "__dlpack__: stream 0 may mean two streams: pass 1 for the legacy default stream, \
             or 2 for the default stream of the calling thread",
        )),
        Some(number) => match u64::try_from(number) {
            Ok(handle) => Ok(Some(RawStream(handle))),
            Err(_) => Err(buffer_error(format_args!(
                "__dlpack__: the number {number} names no stream"
            ))),
        },
    }
}
