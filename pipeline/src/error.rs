//! Errors of pipelines: which stage failed, on which item, and why.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};

use cuda_rt_runtime::Error;

/// The error of closures that run on the host: any error. Closures of a device stage return
/// [`cuda_rt::Error`](Error).
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// The kind of work that a stage does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StageKind {
    /// The host fills pinned memory.
    Source,
    /// A stream fills device memory, without input.
    Generate,
    /// A stream copies to the device.
    Upload,
    /// A stream runs kernels.
    Kernel,
    /// A stream copies to the host.
    Download,
    /// The host reads pinned memory.
    Sink,
    /// A stream reads device memory, and nothing leaves it.
    Consume,
}

impl StageKind {
    /// The kind's name, as in reports and timelines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Generate => "generate",
            Self::Upload => "upload",
            Self::Kernel => "stage",
            Self::Download => "download",
            Self::Sink => "sink",
            Self::Consume => "consume",
        }
    }
}

/// A stage of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Stage {
    /// The kind of work that it does.
    pub kind: StageKind,
    /// The tag of the stream that it uses; `None` for a stage on the host.
    pub stream: Option<&'static str>,
    /// Its place in the pipeline, from 0.
    pub position: usize,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.name();
        match self.stream {
            // Two kernel stages may share a stream: the place tells them apart.
            Some(stream) if self.kind == StageKind::Kernel => {
                f.pad(&format!("{kind} {} `{stream}`", self.position))
            }
            Some(stream) => f.pad(&format!("{kind} `{stream}`")),
            None => f.pad(kind),
        }
    }
}

/// Why a stage failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Cause {
    /// The device, or a closure of a device stage, returned this error.
    Device(Error),
    /// A closure on the host returned this error.
    Host(BoxError),
    /// A closure panicked.
    Panicked(Panic),
    /// A closure returned a length greater than the buffer's.
    TooLong {
        /// The length that the closure returned, in elements.
        len: usize,
        /// The buffer's length, in elements.
        capacity: usize,
    },
    /// The operating system refused to start a thread.
    Thread(std::io::Error),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(error) => error.fmt(f),
            Self::Host(error) => error.fmt(f),
            Self::Panicked(panic) => write!(f, "panicked: {}", panic.message()),
            Self::TooLong { len, capacity } => write!(
                f,
                "the stage's closure says that it filled {len} elements, but a buffer has {capacity}"
            ),
            Self::Thread(error) => write!(f, "the stage's thread could not be started: {error}"),
        }
    }
}

impl StdError for Cause {
    /// The source of the inner error; the inner error's own text is part of this one's.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Device(error) => error.source(),
            Self::Host(error) => error.source(),
            Self::Thread(error) => error.source(),
            Self::Panicked(_) | Self::TooLong { .. } => None,
        }
    }
}

impl From<Panic> for Cause {
    fn from(panic: Panic) -> Self {
        Self::Panicked(panic)
    }
}

impl From<Error> for Cause {
    fn from(error: Error) -> Self {
        Self::Device(error)
    }
}

/// A panic that was caught.
///
/// ```
/// use cuda_rt::Device;
/// use cuda_rt::pipeline::{Cause, Pipeline};
///
/// # cuda_rt::streams! { Compute; Download; }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let gpu = Device::open_or_simulate()?;
/// let failed = Pipeline::new(&gpu, 2)
///     .generate::<Compute, u32, _>(16, 0..9_u32, |_stream, _item, data| Ok(data.len()))
///     .download::<Download>()
///     .sink(|_item, _data| panic!("no such frame"))
///     .run()
///     .expect_err("the sink panics");
/// let Cause::Panicked(panic) = failed.cause else { panic!("another cause") };
/// assert_eq!(panic.message(), "no such frame");
/// // `panic.resume()` goes on with it on this thread.
/// # let resumed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| panic.resume()));
/// # assert!(resumed.is_err());
/// # Ok(())
/// # }
/// ```
pub struct Panic {
    message: String,
    /// Never locked. The payload is `Send` only; the `Mutex` makes it `Sync`, as errors should be.
    payload: Mutex<Box<dyn Any + Send>>,
}

impl Panic {
    pub(super) fn new(payload: Box<dyn Any + Send>) -> Self {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        Self {
            message: text.unwrap_or_else(|| "(not a text)".to_owned()),
            payload: Mutex::new(payload),
        }
    }

    /// The panic's message, or `(not a text)` if its payload is no string.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Resumes the panic on the calling thread, as if it had not been caught.
    pub fn resume(self) -> ! {
        resume_unwind(self.payload.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Panic").field(&self.message).finish()
    }
}

/// A pipeline stopped before its end.
///
/// If several stages failed, this is the failure of the earliest item; for one item, the failure of
/// its earliest stage. Work on a GPU fails late: the next call reports a kernel that traps, perhaps
/// on a later item.
///
/// ```
/// use cuda_rt::Device;
/// use cuda_rt::pipeline::{Cause, Pipeline, StageKind};
///
/// # cuda_rt::streams! { Compute; Download; }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let gpu = Device::open_or_simulate()?;
/// let failed = Pipeline::new(&gpu, 2)
///     .generate::<Compute, u32, _>(16, 0..9_u32, |stream, item, data| {
///         stream.fill(data, *item)?;
///         Ok(data.len())
///     })
///     .download::<Download>()
///     .sink(|item, _data| match item {
///         5 => Err("the disk is full".into()),
///         _ => Ok(()),
///     })
///     .run()
///     .expect_err("the sink fails");
/// assert_eq!((failed.item, failed.finished, failed.stage.kind), (Some(5), 5, StageKind::Sink));
/// assert!(matches!(&failed.cause, Cause::Host(error) if error.to_string().contains("full")));
/// println!("{failed}");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct PipelineError {
    /// The stage that failed.
    pub stage: Stage,
    /// The item that it failed on, from 0; `None` while the pipeline was being built.
    pub item: Option<u64>,
    /// Why.
    pub cause: Cause,
    /// Number of items that the last stage has finished. These items are not lost. With
    /// [`sink_unordered`](crate::Stages::sink_unordered) they need not be the first ones: the other
    /// workers go on with items after the failed one.
    pub finished: u64,
}

impl fmt::Display for PipelineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            stage, item, cause, ..
        } = self;
        match item {
            Some(item) => write!(f, "{stage} failed on item {item}: {cause}"),
            None => write!(f, "{stage} could not be made ready: {cause}"),
        }
    }
}

impl StdError for PipelineError {
    /// The source of the cause; the cause's own text is part of this error's.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.source()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error of the host with a text of its own and a source.
    #[derive(Debug)]
    struct Outer(std::fmt::Error);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the disk is full")
        }
    }

    impl StdError for Outer {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn an_error_chain_names_the_cause_once_and_goes_on_with_its_source() {
        let error = PipelineError {
            stage: Stage {
                kind: StageKind::Sink,
                stream: None,
                position: 1,
            },
            item: Some(3),
            cause: Cause::Host(Box::new(Outer(fmt::Error))),
            finished: 3,
        };
        assert_eq!(error.to_string(), "sink failed on item 3: the disk is full");
        let behind = error.source().expect("what the disk said");
        assert_eq!(behind.to_string(), fmt::Error.to_string());
        assert!(behind.source().is_none());
    }
}
