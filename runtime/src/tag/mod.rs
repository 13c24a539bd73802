//! Tags: types that name a device, a stream, or a buffer's present owner.
//!
//! A buffer's type parameter is its *place*: a stream tag, or [`Idle`]. Two tags are never the same
//! type by accident, and one tag names exactly one CUDA stream of one device instance, so equal
//! types prove equal streams.
//!
//! Every trait here that mentions a tag is `unsafe` to implement. Tags are the user's own types, so
//! the orphan rule lets a user implement a foreign trait for a foreign type if a tag is among its
//! parameters: `impl OwnedBy<Download> for DeviceBuffer<f32, Compute>` would be accepted if the
//! trait were safe, and would forge ownership.
//!
//! Every such trait is `Sized` too. Otherwise its object type, `dyn ReadBy<S>`, would implement the
//! trait by itself.
//!
//! Types hold their tags as `PhantomData<fn(S) -> S>`. It is invariant, so no brand can be widened
//! or narrowed ([H24](crate::hazards#h24)), and neither `Send` nor `Sync` depends on the tag.

use std::any::TypeId;
use std::marker::PhantomData;

/// A type that names one device instance.
///
/// # Safety
/// Two device instances that are alive never share a tag.
pub unsafe trait DeviceTag: Sized {}

/// A device whose work runs. The device inside a capture is not live: its work is recorded into a
/// graph.
///
/// # Safety
/// Work given to a stream of the device is run, not recorded.
///
/// A function for any device, also for scoped ones:
///
/// ```
/// # use cuda_rt::simulator::SimConfig;
/// use cuda_rt::{Device, Idle, Live, PinnedBuffer, Result};
///
/// fn staging<D: Live>(gpu: &Device<D>) -> Result<PinnedBuffer<u8, Idle<D>>> {
///     gpu.pinned(4096)
/// }
///
/// let gpu = Device::open_or_simulate()?;
/// assert_eq!(staging(&gpu)?.len(), 4096);
/// Device::simulated(SimConfig::new(), |gpu| assert_eq!(staging(&gpu).unwrap().len(), 4096))?;
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "nothing has run yet: this stream is being captured",
    label = "a graph that is being recorded cannot be waited for, shared, or given host memory",
    note = "H25: give resources to `capture`, and take results from the graph once it has been launched"
)]
pub unsafe trait Live: DeviceTag {}

/// A device tag that a program binds to an ordinal at run time. [`devices!`](crate::devices) makes
/// these tags.
///
/// # Safety
/// `Key` is a type of no other device tag.
pub unsafe trait NamedDevice: Live {
    /// The tag's name.
    const NAME: &'static str;
    /// What identifies the tag at run time.
    #[doc(hidden)]
    type Key: 'static;
}

/// The GPU of ordinal `N`: one instance for the whole process.
pub struct Gpu<const N: usize>;
// SAFETY: `Device::open` keeps one instance for each `N` and never replaces it.
unsafe impl<const N: usize> DeviceTag for Gpu<N> {}
// SAFETY: its streams are never captured: captures use streams of their own, tagged `Captured`.
unsafe impl<const N: usize> Live for Gpu<N> {}

/// A device instance of its own, for one closure; the brand `'id` is fresh at each call.
pub struct Scoped<'id>(PhantomData<fn(&'id ()) -> &'id ()>);
// SAFETY: values with this tag are made for a closure that is generic over `'id`, so no other
// instance has the same `'id`.
unsafe impl DeviceTag for Scoped<'_> {}
// SAFETY: as for `Gpu`.
unsafe impl Live for Scoped<'_> {}

/// Who owns a buffer: a stream tag or [`Idle`].
///
/// # Safety
/// `Device` is the device instance that the place is on.
///
/// A struct whose buffers are on a stream, or idle:
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::{Bundle, DeviceBuffer, Idle, Place};
///
/// #[derive(Bundle)]
/// struct Model<P: Place = Idle> {
///     weights: DeviceBuffer<f32, P>,
/// }
///
/// /// On any place.
/// fn parameters<P: Place>(model: &Model<P>) -> usize {
///     model.weights.len()
/// }
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let model = Model { weights: compute.alloc_zeroed(100)? };
/// assert_eq!(parameters(&model), 100);
/// let model: Model<Idle> = compute.release(model)?.synchronize()?;
/// assert_eq!(parameters(&model), 100);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
pub unsafe trait Place: Sized {
    /// The device.
    type Device: DeviceTag;
}

/// The place of a buffer that no stream owns and no pending work uses. Idle pinned memory
/// dereferences to `[T]`.
pub struct Idle<D = Gpu<0>>(PhantomData<fn(D) -> D>);
// SAFETY: `Idle<D>` names no stream, and the device `D` by definition.
unsafe impl<D: DeviceTag> Place for Idle<D> {
    type Device = D;
}

/// A type that names exactly one CUDA stream of its device instance.
///
/// # Safety
/// All [`Stream`](crate::Stream)s with this tag are one CUDA stream.
///
/// A function for any stream of any device:
///
/// ```
/// # cuda_rt::streams! { pub Compute; pub Upload; }
/// use cuda_rt::{DeviceBuffer, Element, Result, Stream, StreamTag};
///
/// fn repeated<S: StreamTag, T: Element>(
///     stream: &Stream<S>,
///     value: T,
///     len: usize,
/// ) -> Result<DeviceBuffer<T, S>> {
///     stream.init_filled(stream.alloc_uninit(len)?, value)
/// }
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let (compute, upload) = (gpu.stream::<Compute>()?, gpu.stream::<Upload>()?);
/// assert_eq!(repeated(&compute, 1_u8, 64)?.len(), 64);
/// assert_eq!(upload.copy_to_vec(&repeated(&upload, 2.5, 2)?)?, [2.5; 2]);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a stream",
    label = "no stream owns this",
    note = "name streams with `streams! {{ pub Compute; }}`, and move what is idle onto one with `stream.adopt(..)`"
)]
pub unsafe trait StreamTag: Place {
    /// The tag's identity at run time, if a device can open its stream.
    #[doc(hidden)]
    fn key() -> Option<TypeId> {
        None
    }
}

/// The tag of views that no stream may use: no [`Stream`](crate::Stream) has it.
///
/// The views of [`Handoff::peek`](crate::Handoff::peek) have it. They show lengths and plain
/// fields, and no memory.
pub struct NoStream<D = Gpu<0>>(PhantomData<fn(D) -> D>);
// SAFETY: `NoStream<D>` names no stream, and the device `D` by definition.
unsafe impl<D: DeviceTag> Place for NoStream<D> {
    type Device = D;
}
// SAFETY: no stream has this tag: streams are made for the tags of `streams!`, of pools, of
// captures and of adoptions.
unsafe impl<D: DeviceTag> StreamTag for NoStream<D> {}

/// The tag of views that only the host may use, while no work of a GPU uses the memory. No
/// [`Stream`](crate::Stream) has it.
///
/// The views of [`Graph::host`](crate::Graph::host) and [`Kept::host`](crate::Kept::host) have it.
/// There [`PinnedSlice::as_slice`](crate::PinnedSlice) gives the elements.
pub struct OnHost<D = Gpu<0>>(PhantomData<fn(D) -> D>);
// SAFETY: `OnHost<D>` names no stream, and the device `D` by definition.
unsafe impl<D: DeviceTag> Place for OnHost<D> {
    type Device = D;
}
// SAFETY: as for `NoStream`.
unsafe impl<D: DeviceTag> StreamTag for OnHost<D> {}

/// The place of write-combined memory that belongs to `P`
/// ([`WriteCombinedBuffer`](crate::WriteCombinedBuffer)). If `P` is a stream, this stream reads it.
/// No stream writes it, and the host has no slice of it.
pub struct WriteCombined<P = Idle>(PhantomData<fn(P) -> P>);
// SAFETY: the device of `P` by definition.
unsafe impl<P: Place> Place for WriteCombined<P> {
    type Device = P::Device;
}

/// The place of memory that the host may use. Only [`OnHost`] qualifies.
///
/// # Safety
/// Views of that place exist only while no work of a GPU writes the memory, and views for writing
/// only while none uses it.
#[diagnostic::on_unimplemented(
    message = "the host cannot read or write memory that belongs to `{Self}`",
    label = "belongs to `{Self}`, and nothing says that its work on this memory is over",
    note = "H13/H14/H25: wait first: `graph.host(|views| ..)` waits for the launches of a graph and lends views for the host, \
            `stream.release(buffer)?.synchronize()?` gives a buffer to the host (`stream.synchronize()` alone gives none)",
    note = "H13: `NoStream` stands for memory that is pending, shared, leased or kept by a stream: `handoff.synchronize()?`, \
            `shared.host()?`, `kept.host(..)?`",
    note = "`WriteCombined<..>` memory has no elements for the host to read: it writes an idle buffer by \
            `buffer.copy_from_slice(range, source)?`, `buffer.fill(range, value)?`, `buffer.write_with(range, |at| ..)?`"
)]
pub unsafe trait HostPlace: Sized {}
// SAFETY: only `Graph::host` and `Kept::host` make views with this tag, after their wait, for a
// closure that borrows the graph or the bundle.
unsafe impl<D: DeviceTag> HostPlace for OnHost<D> {}

/// A place whose memory no work uses. Only [`Idle`] on a live device qualifies.
///
/// # Safety
/// No work of a GPU uses memory of that place; or it is shared, and none writes it.
#[diagnostic::on_unimplemented(
    message = "the host cannot use memory that belongs to `{Self}`",
    label = "belongs to `{Self}`, and nothing says that its work on this memory is over",
    note = "H13/H14: wait first: `let buffer = stream.release(buffer)?.synchronize()?;` (`stream.synchronize()` alone gives none)"
)]
pub unsafe trait IdlePlace: Sized {}
// SAFETY: `Idle` is the place of memory that no work uses, by BUFFER-2, PINNED-3, MANAGED-3 and
// WRITE-COMBINED-3.
unsafe impl<D: Live> IdlePlace for Idle<D> {}

/// A stream tag whose stream a device can open. [`streams!`](crate::streams) makes these tags.
///
/// # Safety
/// `Key` is a type of no other stream tag of the same device.
///
/// ```
/// # cuda_rt::streams! { pub Compute, priority = High; }
/// use cuda_rt::{Device, Live, NamedStream, Priority, Result, Stream};
///
/// fn announced<S: NamedStream>(gpu: &Device<S::Device>) -> Result<Stream<S>>
/// where
///     S::Device: Live,
///     Device<S::Device>: cuda_rt::Opens<S, S::Device>,
/// {
///     println!("opens {}", S::NAME);
///     gpu.stream()
/// }
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// let compute: Stream<Compute> = announced(&gpu)?;
/// assert_eq!((Compute::<cuda_rt::Gpu<0>>::NAME, compute.is_done()?), ("Compute", true));
/// assert!(matches!(<Compute as NamedStream>::PRIORITY, Priority::High));
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be asked of a device",
    label = "not a tag declared with `streams!`",
    note = "H43: captured and pooled streams exist only inside the closure that they are made for"
)]
pub unsafe trait NamedStream: StreamTag {
    /// The tag's name.
    const NAME: &'static str;
    /// The priority of the stream's kernels.
    const PRIORITY: Priority;
    /// What identifies the tag at run time.
    #[doc(hidden)]
    type Key: 'static;
}

/// The priority of a stream's kernels (`cuStreamCreateWithPriority`). It does not affect copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// The lowest priority of the device, and the default.
    #[default]
    Low,
    /// Half-way between the lowest and the highest priority.
    Normal,
    /// The highest priority of the device.
    High,
}

impl Priority {
    /// The priority as CUDA counts, where a lower number is more urgent.
    pub(crate) fn within(self, (least, greatest): (i32, i32)) -> i32 {
        match self {
            Self::Low => least,
            Self::Normal => least + (greatest - least) / 2,
            Self::High => greatest,
        }
    }
}

/// Stream `S` may read memory of the place `Self`. Only the place `S` itself qualifies, and
/// [`WriteCombined`] memory of `S`.
///
/// # Safety
/// Every earlier write to memory of that place is ordered before later work of `S`.
///
/// A function that takes what its stream may read, and what it may write:
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::{DeviceSlice, ReadBy, Result, Stream, StreamTag, WriteBy};
///
/// fn twice<S: StreamTag, P: ReadBy<S>, Q: WriteBy<S>>(
///     stream: &Stream<S>,
///     from: &DeviceSlice<u32, P>,
///     to: &mut DeviceSlice<u32, Q>,
/// ) -> Result<()> {
///     let (first, second) = to.split_at_mut(from.len());
///     stream.copy(from, first)?;
///     stream.copy(from, second)
/// }
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let from = compute.alloc_from_slice(&[1, 2])?;
/// let mut to = compute.alloc_zeroed(4)?;
/// twice(&compute, &from, &mut to)?;
/// assert_eq!(compute.copy_to_vec(&to)?, [1, 2, 1, 2]);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "stream `{S}` may not read memory that belongs to `{Self}`",
    label = "belongs to `{Self}`, and nothing orders its work before that of `{S}`",
    note = "H01: hand it over first: `let handoff = owner.release(buffer)?; let buffer = reader.acquire(handoff)?;`",
    note = "H30: what is `Idle` belongs to no stream yet: `let buffer = reader.adopt(buffer)?;`",
    note = "H01: `NoStream` stands for a handoff (`reader.acquire(handoff)?`), for what is shared (`reader.lease(&shared)?`), \
            for what a stream keeps (`reader.open(kept)?`), and for a lease or a constant (`&lease.view()`)",
    note = "H25: in a capture, where streams are `Captured<..>`, memory of outside cannot be used: give it to `capture`, and use the view that it lends",
    note = "H36: memory of another GPU is copied: `reader.copy_from_peer(handoff, .., &mut here)?`"
)]
pub unsafe trait ReadBy<S>: Sized {}
// SAFETY: a stream runs its work in order.
unsafe impl<S: StreamTag> ReadBy<S> for S {}
// SAFETY: memory of that place belongs to `S`, whose work runs in order.
#[diagnostic::do_not_recommend]
unsafe impl<S: StreamTag> ReadBy<S> for WriteCombined<S> {}

/// Stream `S` may write memory of the place `Self`. Only the place `S` itself qualifies.
///
/// # Safety
/// Every earlier access to memory of that place is ordered before later work of `S`.
#[diagnostic::on_unimplemented(
    message = "stream `{S}` may not write memory that belongs to `{Self}`",
    label = "belongs to `{Self}`, and nothing orders its work before that of `{S}`",
    note = "H02/H03: hand it over first, whether the owner reads or writes it: `let handoff = owner.release(buffer)?; \
            let buffer = writer.acquire(handoff)?;`",
    note = "H30: what is `Idle` belongs to no stream yet: `let buffer = writer.adopt(buffer)?;`",
    note = "H08: `NoStream` stands for a handoff (`writer.acquire(handoff)?`), for what a stream keeps \
            (`writer.view(&mut kept)?`), and for what is shared, leased or constant, which no stream writes",
    note = "`WriteCombined<..>` memory is for uploads, and no stream writes it: a download needs `gpu.pinned(len)?`",
    note = "H25: in a capture, where streams are `Captured<..>`, memory of outside cannot be used: give it to `capture`, and use the view that it lends",
    note = "H36: memory of another GPU is copied: `writer.copy_from_peer(handoff, .., &mut here)?`"
)]
pub unsafe trait WriteBy<S>: Sized {}
// SAFETY: a stream runs its work in order.
unsafe impl<S: StreamTag> WriteBy<S> for S {}

/// The device `Self` is the device `D`.
///
/// # Safety
/// Implemented for equal types only.
#[diagnostic::on_unimplemented(
    message = "this belongs to device `{Self}`, and what it goes with to device `{D}`",
    label = "cannot cross devices, nor enter or leave a capture",
    note = "H25: give what a graph needs to `capture`, and use the views that it lends",
    note = "H36: between GPUs, memory is copied: `stream.copy_from_peer(handoff, .., &mut here)?`; idle pinned memory moves: `host.for_device(&gpu)?`"
)]
pub unsafe trait SameAs<D>: Sized {}
// SAFETY: `Self` and `D` are one type.
unsafe impl<D: DeviceTag> SameAs<D> for D {}

/// Proof that the place `P` is on the device `D`. A `Lease` or `Constant` implements `Bundle` for
/// every device, so that structs can hold it. Each of its values holds this proof, so the value is
/// of its bundle's own device.
///
/// # Invariants
/// ON-DEVICE-1. A value exists only if `P::Device` and `D` name one device: they are equal, or a
/// comparison at run time has shown it (KEPT-1).
pub(crate) struct OnDevice<D, P>(PhantomData<fn(D, P) -> (D, P)>);

impl<D, P> Clone for OnDevice<D, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D, P> Copy for OnDevice<D, P> {}

impl<D, P: Place> OnDevice<D, P> {
    /// A new proof. ON-DEVICE-1 holds by the bound.
    pub(crate) fn new() -> Self
    where
        D: SameAs<P::Device>,
    {
        Self(PhantomData)
    }

    /// The proof for `Idle` on the same device. ON-DEVICE-1 holds because it held for `self`.
    pub(crate) fn idle(self) -> OnDevice<D, Idle<P::Device>> {
        OnDevice(PhantomData)
    }

    /// The proof for another place on the same device.
    ///
    /// # Safety
    /// `P::Device` and `Q::Device` name one device.
    pub(crate) unsafe fn moved<Q: Place>(self) -> OnDevice<D, Q> {
        OnDevice(PhantomData)
    }
}

/// Declares stream tags: types that each name one CUDA stream on every device.
///
/// For each name it makes a struct of no size, `Compute<D = Gpu<0>>`, with the visibility and the
/// documentation that stand before the name. It implements [`Place`](crate::Place),
/// [`StreamTag`](crate::StreamTag) and [`NamedStream`](crate::NamedStream) for each device `D`. No
/// stream is made before a device is asked for it.
///
/// `priority` is one of `Low` (the default), `Normal`, `High`; it affects kernels, not copies.
///
/// All code that asks a device for one tag shares one stream
/// ([`Device::stream`](crate::Device::stream) says what two engines can do). For N streams, where N
/// is known at run time, there is [`AnyStream`](crate::AnyStream).
///
/// ```
/// cuda_rt::streams! {
///     /// Runs kernels.
///     pub Compute, priority = High;
///     /// Copies results back.
///     pub Download;
/// }
///
/// use cuda_rt::{Device, DeviceBuffer, Stream};
///
/// /// On GPU 0. For any device: `Stream<Compute<D>>`.
/// fn zeros(compute: &Stream<Compute>) -> cuda_rt::Result<DeviceBuffer<u32, Compute>> {
///     compute.alloc_zeroed(16)
/// }
///
/// let gpu = Device::open_or_simulate()?;
/// let (compute, again) = (gpu.stream::<Compute>()?, gpu.stream::<Compute>()?);
/// assert_eq!(compute.raw(), again.raw()); // one tag is one stream
/// assert_eq!(zeros(&again)?.len(), 16);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[macro_export]
macro_rules! streams {
    ($($(#[doc = $doc:expr])* $visibility:vis $name:ident $(, priority = $priority:ident)?;)*) => { $(
        $(#[doc = $doc])*
        #[allow(dead_code)]
        $visibility struct $name<D = $crate::Gpu<0>>($crate::__private::core::marker::PhantomData<fn(D) -> D>);

        // SAFETY: invariant: `Device::stream` makes one CUDA stream for each device instance and
        // `Key`, and `Key` is this type, which nothing else uses.
        unsafe impl<D: $crate::DeviceTag> $crate::Place for $name<D> {
            type Device = D;
        }
        // SAFETY: as above.
        unsafe impl<D: $crate::DeviceTag> $crate::StreamTag for $name<D> {
            fn key() -> $crate::__private::core::option::Option<$crate::__private::core::any::TypeId> {
                $crate::__private::core::option::Option::Some($crate::__private::core::any::TypeId::of::<$name>())
            }
        }
        // SAFETY: as above.
        unsafe impl<D: $crate::DeviceTag> $crate::NamedStream for $name<D> {
            const NAME: &'static $crate::__private::core::primitive::str = $crate::__private::core::stringify!($name);
            const PRIORITY: $crate::Priority = $crate::__priority!($($priority)?);
            type Key = $name;
        }
    )* };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __priority {
    () => {
        $crate::Priority::Low
    };
    ($priority:ident) => {
        $crate::Priority::$priority
    };
}

/// Declares device tags for programs that choose the GPU of each tag at run time. Bind each tag
/// with [`Device::bind`](crate::Device::bind).
///
/// For each name it makes a struct of no size, with the visibility and the documentation that stand
/// before the name. It implements [`DeviceTag`](crate::DeviceTag), [`Live`](crate::Live) and
/// [`NamedDevice`](crate::NamedDevice).
///
/// ```
/// cuda_rt::devices! {
///     /// Decodes.
///     pub Front;
/// }
/// cuda_rt::streams! { pub Decode; }
///
/// use cuda_rt::{Device, OpenError};
///
/// match Device::bind::<Front>(0) {
///     // Streams and memory of this device name it in their types.
///     Ok(front) => drop(front.stream::<Decode<Front>>()?),
///     Err(OpenError::NoGpu(why)) => println!("there is no GPU here: {why}"),
///     Err(error) => return Err(error.into()),
/// }
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[macro_export]
macro_rules! devices {
    ($($(#[doc = $doc:expr])* $visibility:vis $name:ident;)*) => { $(
        $(#[doc = $doc])*
        #[allow(dead_code)]
        $visibility struct $name;

        // SAFETY: `Device::bind` keeps one instance for each `Key`, and `Key` is this type.
        unsafe impl $crate::DeviceTag for $name {}
        // SAFETY: captures use streams and tags of their own.
        unsafe impl $crate::Live for $name {}
        // SAFETY: as above.
        unsafe impl $crate::NamedDevice for $name {
            const NAME: &'static $crate::__private::core::primitive::str = $crate::__private::core::stringify!($name);
            type Key = $name;
        }
    )* };
}
