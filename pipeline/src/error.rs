//! What stops a pipeline: which stage, on which item, and why.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};

use cuda_rt_runtime::Error;

/// What closures of the host return: any error. Closures of a device stage return
/// [`cuda_rt::Error`](Error).
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// What a stage does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StageKind {
    /// The host fills pinned memory.
    Source,
    /// A stream fills device memory, from nothing.
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
    /// Its name, as in reports and timelines.
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
    /// What it does.
    pub kind: StageKind,
    /// The tag of the stream that it uses; `None` on the host.
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
    /// The device, or a closure of a device stage.
    Device(Error),
    /// A closure of the host.
    Host(BoxError),
    /// A closure panicked.
    Panicked(Panic),
    /// A closure said that it filled more elements than a buffer has.
    TooLong {
        /// Elements.
        len: usize,
        /// Elements of a buffer.
        capacity: usize,
    },
    /// The operating system gives no thread.
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
                "{len} elements were said to be filled, of {capacity} that a buffer has"
            ),
            Self::Thread(error) => write!(f, "no thread for the stage: {error}"),
        }
    }
}

impl StdError for Cause {
    /// What lies behind the error whose text is in this one's.
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
pub struct Panic {
    message: String,
    /// Locked by no one: what makes the payload, which is `Send` alone, `Sync` as errors should be.
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

    /// What it was called with, where that is a text.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Goes on with the panic, on the calling thread, as if it had not been caught.
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
/// Of several failures it is that of the first item, and there the first stage's. Work on a GPU
/// fails late: a kernel that traps is reported by whichever call comes next, perhaps on a later
/// item.
#[derive(Debug)]
#[non_exhaustive]
pub struct PipelineError {
    /// The stage that failed.
    pub stage: Stage,
    /// The item that it failed on, from 0; `None` while the pipeline was being built.
    pub item: Option<u64>,
    /// Why.
    pub cause: Cause,
    /// Items that the last stage has finished; none of them is lost.
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
    /// What lies behind the cause, whose text is in this one's.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.source()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error of the host whose words are its own, and another one behind it.
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
    fn a_chain_says_the_cause_once_and_goes_on_with_what_lies_behind_it() {
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
