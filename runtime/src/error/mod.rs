//! Errors of the typed API: [`Error`] for all operations, and one type for each family of
//! operations whose errors a caller distinguishes.
//!
//! - **opening a device**: [`OpenError`], which the functions that open a device return: programs
//!   choose a fallback by its variant
//! - **pinned memory**: [`PinnedError`] in [`Error::Pinned`]
//! - **collectives**: [`CollectiveError`] in [`Error::Collective`]
//! - **a launch's grid**: [`GridError`] in [`Error::Grid`]
//! - **rows of a copy**: [`LayoutError`] in [`Error::Layout`]
//! - **tensors of other libraries**: [`DlpackError`] in [`Error::Dlpack`]
//!
//! All other operations return [`Error`] itself, because they are called in closures that return
//! `cuda_rt::Result` and in functions with an error type of their own. Errors of the driver are one
//! variant for all operations. A launch has one error of its own ([`Error::Launch`]), and so does
//! the update of a graph ([`Error::NotAnUpdate`]), so neither is a family.

mod collective;
mod dlpack;
mod during;
mod grid;
mod layout;
mod open;
mod pinned;

pub use collective::CollectiveError;
pub use dlpack::DlpackError;
pub(crate) use during::{During, Unordered};
pub use grid::GridError;
pub use layout::{CopySide, LayoutError};
pub use open::OpenError;
pub use pinned::PinnedError;

use std::error::Error as StdError;
use std::panic::Location;
use std::{fmt, io};

use cuda_rt_driver::{DriverError, ErrorCode};

/// The result of the typed API's operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of a refused or failed operation.
///
/// Nothing was enqueued, unless a variant or the call's `# Errors` says otherwise: a copy or fill
/// of several driver calls may be done in part, and the closure of a loan may have run. A value
/// that was passed in and is not part of the error was freed if that was safe, and leaked
/// otherwise. Calls that return [`Refused`] give the value back: `try_release`, `try_acquire` and
/// the other `try_` methods, [`query`](crate::Handoff::query),
/// [`for_device`](crate::PinnedBuffer::for_device), and launches whose output is
/// [`alloc_uninit`](crate::Stream::alloc_uninit) memory.
///
/// A message names the call of this crate, or the kernel. An error of the driver also names the
/// driver's call, and the driver's code with its meaning. The message marks
/// [sticky](Self::is_sticky) codes:
///
/// ```text
/// Handoff::synchronize: cuEventSynchronize failed: CUDA_ERROR_LAUNCH_FAILED (719):
/// a kernel trapped: …; the device is lost to this process
/// ```
///
/// CUDA reports a failed kernel at the next call, on any stream. So the named call is seldom the
/// cause. If possible, the message names the kernel.
///
/// # What is still usable
///
/// An error is *sticky* if every later call for the device fails too, and *plain* otherwise
/// ([`is_sticky`](Self::is_sticky)). After a plain error everything works as before, except a
/// [`Communicator`](crate::Communicator) that is [aborted](Self::Aborted). After a sticky error:
///
/// - **idle pinned memory, results that were waited for**: as before: this crate owns the
///   mapping, not the context
/// - **pending handoffs**: every wait fails: the host never gets the bundle. `try_synchronize` and
///   `query` give the handoff back, other waits leak the bundle
/// - **streams, buffers and graphs of the device**: every call fails, with the same code
/// - **dropping and leaking anything**: leaks device memory and pending pinned memory, which would
///   otherwise be freed in order; never blocks or panics
/// - **new pinned memory**: fails, unless the pool has a block whose last use was seen over before
/// - **other GPUs, simulated devices**: as before
/// - **opening the device again**: the same instance, which is lost; only a new process gets the
///   GPU back
///
/// [`Unordered`](Self::Unordered) counts as sticky, but pending results can still be waited for.
///
/// # When memory runs out
///
/// [`is_out_of_memory`](Self::is_out_of_memory) is true for device memory and for pinned memory.
/// The error is plain, so a program can make room and repeat the call. Memory of dropped buffers is
/// free once the work that uses it is over, so a wait is part of the recovery:
///
/// 1. Drop buffers that can be made again: a cache, a prefetched batch.
/// 2. Wait for the work that uses them: [`Device::synchronize`](crate::Device::synchronize).
/// 3. If other processes or libraries need the memory, give it back:
///    [`trim`](crate::Device::trim), [`trim_pinned`](crate::Device::trim_pinned). Allocations of
///    this device need no `trim`: the pool gives them the free memory.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::simulator::SimConfig;
/// use cuda_rt::{Device, DeviceBuffer, DeviceTag, Live, Result, Stream};
///
/// fn alloc<D: Live>(
///     gpu: &Device<D>,
///     stream: &Stream<Compute<D>>,
///     cache: &mut Vec<DeviceBuffer<f32, Compute<D>>>,
///     len: usize,
/// ) -> Result<DeviceBuffer<f32, Compute<D>>> {
///     match stream.alloc_zeroed(len) {
///         Err(error) if error.is_out_of_memory() && !cache.is_empty() => {
///             cache.clear(); // enqueues the frees
///             gpu.synchronize()?; // the frees are done
///             stream.alloc_zeroed(len)
///         }
///         other => other,
///     }
/// }
///
/// Device::simulated(SimConfig::default().memory_bytes(1 << 20), |gpu| {
///     let compute = gpu.stream::<Compute<_>>()?;
///     let mut cache = vec![compute.alloc_zeroed(200_000)?];
///     let buffer = alloc(&gpu, &compute, &mut cache, 200_000)?; // 800 kB of 1 MiB
///     assert!(buffer.len() == 200_000 && cache.is_empty());
///     # drop(buffer);
///     # Ok::<(), cuda_rt::Error>(())
/// })??;
/// # Ok::<(), cuda_rt::Error>(())
/// ```
///
/// ```
/// # use cuda_rt::simulator::SimConfig;
/// use cuda_rt::driver::ErrorCode;
/// use cuda_rt::{Device, Error};
///
/// # cuda_rt::streams! { pub Compute; }
/// # Device::simulated(SimConfig::new(), |gpu| {
/// # let compute = gpu.stream::<Compute<_>>()?;
/// # let simulator = gpu.simulator().expect("the device is simulated");
/// # simulator.fail_next(cuda_rt::simulator::Call::Alloc, ErrorCode::OUT_OF_MEMORY);
/// match compute.alloc_zeroed::<f32>(1 << 20) {
///     Ok(buffer) => println!("{} elements", buffer.len()),
///     Err(error) if error.is_out_of_memory() => {
///         println!("{error}"); // names the call of this crate, and CUDA's code
///         assert!(!error.is_sticky()); // the device works as before
///         assert_eq!(error.driver().map(|error| error.code()), Some(ErrorCode::OUT_OF_MEMORY));
///         gpu.trim(0)?; // and try again, with less
///     }
///     Err(error) => return Err(error),
/// }
/// # Ok(())
/// # })??;
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A device could not be opened.
    Open(OpenError),

    /// A driver call failed.
    Driver {
        /// Our call.
        during: &'static str,
        /// The driver's error.
        source: DriverError,
    },

    /// The device takes no more work: an ordering at the end of this or an earlier
    /// [`Stream::lend`](crate::Stream::lend) could not be made, neither on the GPU nor by a wait of
    /// the host. Sticky: memory that is dropped from then on is leaked.
    Unordered {
        /// Our call.
        during: &'static str,
        /// The error of the ordering.
        cause: DriverError,
    },

    /// The communicator is aborted: a collective could not be enqueued, now or earlier, or
    /// [`abort`](crate::Communicator::abort) was called. To repeat the call does not help: make a
    /// new [`Communicator`](crate::Communicator). If this call began the abort, its buffers were
    /// leaked.
    Aborted {
        /// Our call.
        during: &'static str,
        /// The error that aborted the communicator.
        cause: DriverError,
    },

    /// The two sides of a copy have different lengths.
    LengthMismatch {
        /// Our call.
        during: &'static str,
        /// Elements of the source.
        source_len: usize,
        /// Elements of the destination.
        destination_len: usize,
    },

    /// The rows of a copy do not fit their memory, or each other.
    Layout {
        /// Our call.
        during: &'static str,
        /// The number that is wrong.
        why: LayoutError,
    },

    /// A tensor of DLPack cannot be taken over, or memory cannot be given away as one.
    Dlpack {
        /// Our call.
        during: &'static str,
        /// The property of the tensor that is wrong.
        why: DlpackError,
    },

    /// A length in bytes that no allocation of device memory can have.
    TooLarge {
        /// Our call.
        during: &'static str,
        /// Elements asked for.
        len: usize,
        /// Bytes of one.
        element_bytes: usize,
    },

    /// Pinned memory could not be allocated, or cannot be used on this device.
    Pinned(PinnedError),

    /// A kernel could not be launched.
    Launch {
        /// The kernel.
        kernel: &'static str,
        /// The file in which it is written, or declared.
        file: &'static str,
        /// The line in that file.
        line: u32,
        /// The place of the launch.
        called_at: &'static Location<'static>,
        /// The driver's error.
        source: DriverError,
    },

    /// A grid that cannot be launched, or that does not cover the output of a kernel that returns
    /// its element.
    Grid {
        /// The kernel.
        kernel: &'static str,
        /// The file in which it is written, or declared.
        file: &'static str,
        /// The line in that file.
        line: u32,
        /// The place of the launch.
        called_at: &'static Location<'static>,
        /// What is wrong with the grid.
        why: GridError,
    },

    /// The thread that waits for handoffs, or the thread that runs closures, does not exist: it
    /// could not be started, or the process was forked after its start.
    HostThread {
        /// Our call.
        during: &'static str,
        /// The operating system's error.
        source: io::Error,
    },

    /// The devices or buffers of a collective do not match. Nothing was enqueued.
    Collective(CollectiveError),

    /// A timeline of this device is already being recorded; only one recording at a time is
    /// possible.
    AlreadyRecording,

    /// Two parts cannot be joined, because they are not adjacent parts of one block.
    NotAdjacent {
        /// Our call.
        during: &'static str,
    },

    /// Parts cannot be joined, because one does not begin where the part before it ends, in the
    /// same block.
    PartNotAdjacent {
        /// Our call.
        during: &'static str,
        /// The first part that does not follow; 0 if there are no parts.
        index: usize,
    },

    /// Memory cannot hold elements of another type.
    Cast {
        /// Our call.
        during: &'static str,
        /// Bytes of the memory.
        bytes: usize,
        /// Bytes of an element of the new type.
        element_bytes: usize,
        /// Bytes by which the memory begins behind a place where such an element may begin.
        misaligned_by: usize,
    },

    /// A graph cannot be updated to the body's present calls: they are other calls than the
    /// captured calls, or changes that CUDA cannot make.
    NotAnUpdate {
        /// Our call.
        during: &'static str,
        /// The number of the body's operation, counted from 1. Allocations, copies, fills, launches
        /// and foreign calls count.
        operation: usize,
        /// The captured operation and the present operation.
        why: String,
    },

    /// A [`Slot`](crate::Slot) lost its bundle to an earlier error.
    SlotEmpty,

    /// A bundle or graph that a stream keeps was opened on another stream.
    /// [`Stream::open_ordered`](crate::Stream::open_ordered) orders the two streams instead.
    OtherStream {
        /// Our call.
        during: &'static str,
        /// The stream that keeps the value, with its device.
        owner: Box<str>,
        /// The stream that was asked to use it, with its device.
        asked: Box<str>,
    },

    /// A stream, or a bundle that a stream keeps, was used with another device.
    OtherDevice {
        /// Our call.
        during: &'static str,
        /// The stream, with its device.
        owner: Box<str>,
        /// The other device.
        asked: Box<str>,
    },

    /// The error of a library with a safe interface of its own, such as
    /// `cuda_rt_cublas::BlasError`. It comes out of closures that return this type, for example in
    /// [`Stream::capture`](crate::Stream::capture).
    Library(Box<dyn StdError + Send + Sync>),

    /// [`Device::claim_stream`](crate::Device::claim_stream) was called for a tag that other code
    /// has asked for before.
    StreamInUse {
        /// The tag.
        tag: &'static str,
    },
}

impl Error {
    /// Whether the device is lost to this process: every later call fails too. After
    /// [`Unordered`](Self::Unordered) only calls that enqueue fail.
    pub fn is_sticky(&self) -> bool {
        matches!(self, Self::Unordered { .. }) || self.driver().is_some_and(DriverError::is_sticky)
    }

    /// Whether memory ran out: of the device, of the system's page-lockable memory, or below
    /// [`Device::set_pinned_limit`](crate::Device::set_pinned_limit). The call may then succeed
    /// after the program has [made room](Self#when-memory-runs-out).
    ///
    /// It is false for [`Unordered`](Self::Unordered) and [`Aborted`](Self::Aborted), whatever
    /// their cause, because the same call would fail again.
    pub fn is_out_of_memory(&self) -> bool {
        match self {
            Self::Pinned(error) => {
                matches!(error, PinnedError::Limit { .. } | PinnedError::HostMemory { .. })
            }
            Self::Unordered { .. } | Self::Aborted { .. } => false,
            other => other
                .driver()
                .is_some_and(|source| source.code() == ErrorCode::OUT_OF_MEMORY),
        }
    }

    /// The driver's error behind this one, if there is one.
    pub fn driver(&self) -> Option<&DriverError> {
        match self {
            Self::Driver { source, .. } | Self::Launch { source, .. } => Some(source),
            Self::Unordered { cause, .. } | Self::Aborted { cause, .. } => Some(cause),
            Self::Open(error) => error.driver(),
            Self::LengthMismatch { .. }
            | Self::Layout { .. }
            | Self::Dlpack { .. }
            | Self::TooLarge { .. }
            | Self::Pinned(_)
            | Self::Grid { .. }
            | Self::HostThread { .. }
            | Self::Collective(_)
            | Self::AlreadyRecording
            | Self::NotAdjacent { .. }
            | Self::PartNotAdjacent { .. }
            | Self::Cast { .. }
            | Self::NotAnUpdate { .. }
            | Self::SlotEmpty
            | Self::OtherStream { .. }
            | Self::OtherDevice { .. }
            | Self::Library(_)
            | Self::StreamInUse { .. } => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(error) => error.fmt(f),
            Self::Driver { during, source } => write!(f, "{during}: {source}"),
            Self::Unordered { during, cause } => write!(
                f,
                "{during}: the device takes no more work, because the end of a `Stream::lend` could not be ordered: {cause}"
            ),
            Self::Aborted { during, cause } => {
                write!(f, "{during}: the communicator is aborted, make a new one: {cause}")
            }
            Self::LengthMismatch {
                during,
                source_len,
                destination_len,
            } => write!(
                f,
                "{during}: the source has {source_len} elements, the destination {destination_len}; pass ranges of equal length"
            ),
            Self::Layout { during, why } => write!(f, "{during}: {why}"),
            Self::Dlpack { during, why } => write!(f, "{during}: {why}"),
            Self::TooLarge {
                during,
                len,
                element_bytes,
            } => write!(
                f,
                "{during}: {len} elements of {element_bytes} bytes are more than an address space holds"
            ),
            Self::Launch {
                kernel,
                file,
                line,
                called_at,
                source,
            } => write!(
                f,
                "launch of `{kernel}` at {} (declared at {file}:{line}): {source}",
                grid::place(called_at)
            ),
            Self::Grid {
                kernel,
                file,
                line,
                called_at,
                why,
            } => write!(
                f,
                "launch of `{kernel}` at {} (declared at {file}:{line}): {why}",
                grid::place(called_at)
            ),
            Self::Pinned(error) => error.fmt(f),
            Self::HostThread { during, source } => {
                write!(f, "{during}: the thread of this crate that the call needs: {source}")
            }
            Self::Collective(error) => error.fmt(f),
            Self::AlreadyRecording => f.write_str(
                "Device::record_timeline: the timeline of this device is being recorded already: finish or drop that recording first",
            ),
            Self::NotAdjacent { during } => write!(
                f,
                "{during}: these are not neighbouring parts of one block, the second right after the first"
            ),
            Self::PartNotAdjacent { during, index: 0 } => write!(f, "{during}: there are no parts to join"),
            Self::PartNotAdjacent { during, index } => write!(
                f,
                "{during}: part {index} does not begin where part {} ends, in the same block; pass the parts in order",
                index - 1
            ),
            Self::Cast {
                during,
                bytes,
                element_bytes,
                misaligned_by: 0,
            } => write!(
                f,
                "{during}: {bytes} bytes are no whole number of elements of {element_bytes} bytes"
            ),
            Self::Cast {
                during,
                element_bytes,
                misaligned_by,
                ..
            } => write!(
                f,
                "{during}: the memory begins {misaligned_by} bytes behind a place where an element of {element_bytes} bytes may begin"
            ),
            Self::NotAnUpdate {
                during,
                operation,
                why,
            } => write!(
                f,
                "{during}: operation {operation} of the body {why}; capture another graph for other work"
            ),
            Self::SlotEmpty => {
                f.write_str("Slot: the slot is empty: an earlier operation on it failed and its bundle was lost")
            }
            Self::OtherStream { during, owner, asked } => write!(
                f,
                "{during}: kept by the stream {owner}, and used on {asked}; `open_ordered`, `view_ordered` and `by_ref_ordered` order the two"
            ),
            Self::OtherDevice { during, owner, asked } => write!(
                f,
                "{during}: belongs to the stream {owner}, and was used on {asked}; between devices, memory is copied with `copy_from_peer`"
            ),
            Self::Library(error) => error.fmt(f),
            Self::StreamInUse { tag } => write!(
                f,
                "Device::claim_stream: other code has the stream `{tag}` of this device, and the work of both would run one after another; `Device::create_stream` makes a stream of its own"
            ),
        }
    }
}

impl StdError for Error {
    /// The source of the inner error. The inner error itself is skipped, because its text is part
    /// of this error's text, and chains should print nothing twice. [`driver`](Self::driver)
    /// returns the driver's error.
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Driver { source, .. } | Self::Launch { source, .. } => source.source(),
            Self::Unordered { cause, .. } | Self::Aborted { cause, .. } => cause.source(),
            Self::HostThread { source, .. } => source.source(),
            Self::Open(error) => error.source(),
            Self::Pinned(error) => error.source(),
            Self::Collective(error) => error.source(),
            Self::Grid { why, .. } => why.source(),
            Self::Layout { why, .. } => why.source(),
            Self::Dlpack { why, .. } => why.source(),
            Self::Library(error) => error.source(),
            Self::LengthMismatch { .. }
            | Self::TooLarge { .. }
            | Self::AlreadyRecording
            | Self::NotAdjacent { .. }
            | Self::PartNotAdjacent { .. }
            | Self::Cast { .. }
            | Self::NotAnUpdate { .. }
            | Self::SlotEmpty
            | Self::OtherStream { .. }
            | Self::OtherDevice { .. }
            | Self::StreamInUse { .. } => None,
        }
    }
}

/// An error, and the value that was passed in.
///
/// `Display` and `source` are the same as for the error.
///
/// `?` makes an [`Error`] of it, and leaves the value behind. Where a function returns another
/// error, such as `Box<dyn Error>`, write `.map_err(Error::from)?`: the box would hold the value
/// too, and so demand that the device's tag is `'static`, which that of a scoped device is not. To
/// log it, pass `&refused.error`, for the same reason.
///
/// ```
/// # use std::error::Error as StdError;
/// use cuda_rt::{DeviceBuffer, Error, Handoff, Idle, Live, Query};
///
/// type Pending<D> = Handoff<DeviceBuffer<f32, Idle<D>>>;
///
/// fn poll<D: Live>(pending: Pending<D>) -> Result<bool, Box<dyn StdError>> {
///     Ok(matches!(pending.query().map_err(Error::from)?, Query::Done(_)))
/// }
/// # cuda_rt::streams! { pub Compute; }
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// # let pending = compute.release(compute.alloc_zeroed::<f32>(64)?)?;
/// # compute.synchronize()?;
/// # assert!(poll(pending)?);
/// # Ok::<(), Box<dyn StdError>>(())
/// ```
#[derive(Debug)]
pub struct Refused<R> {
    /// The error.
    pub error: Error,
    /// The value that was passed in, unchanged.
    pub value: R,
}

impl<R> fmt::Display for Refused<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<R: fmt::Debug> StdError for Refused<R> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.error.source()
    }
}

impl<R> From<Refused<R>> for Error {
    fn from(refused: Refused<R>) -> Self {
        refused.error
    }
}

#[cfg(test)]
mod tests;
