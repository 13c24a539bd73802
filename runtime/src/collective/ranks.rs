//! [`Rank`]: the stream and the buffers that one device gives to a collective.

use std::any::type_name;

use crate::device::Device;
use crate::error::Unordered;
use crate::memory::{DeviceBuffer, Element, OwnedBy};
use crate::order::event_pool::EventLease;
use crate::order::observer::Operation;
use crate::stream::Stream;
use crate::tag::{Live, StreamTag};
use cuda_rt_driver::Kind;
use cuda_rt_driver::{Driver, DriverResult, Number, Part};

/// Numbers that can be reduced.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be reduced over several devices",
    label = "not `i8`, `u8`, `i32`, `u32`, `i64`, `u64`, `f32` or `f64`"
)]
pub trait Reducible: Element + sealed::Reducible {}

/// One rank's part of a collective: a stream with one or two of its buffers. [`Stream::rank`] makes
/// it.
#[must_use = "dropping it frees its buffers; give it to a collective, with those of the other ranks"]
#[derive(Debug)]
pub struct Rank<'a, S, B> {
    stream: &'a Stream<S>,
    buffers: B,
}

impl<S: StreamTag> Stream<S> {
    /// The part of this stream's device in a [collective](super::Communicator), which will run on
    /// this stream. `buffers` is one buffer, or the pair of a sent and a receiving buffer. Calls
    /// nothing of the driver.
    ///
    /// # Hazards prevented
    /// [H38](crate::hazards#h38): the buffers belong to this stream, and the program cannot use
    /// them until the collective is enqueued.
    pub fn rank<B: OwnedBy<S>>(&self, buffers: B) -> Rank<'_, S, B> {
        Rank {
            stream: self,
            buffers,
        }
    }
}

pub(super) mod sealed {
    use super::{Driver, DriverResult, Number, Part};

    // Safe code of other crates calls these methods through the bounds that imply the traits,
    // although it cannot name them. The results of the methods have no public fields.

    pub trait Reducible {
        const NUMBER: Number;
    }

    /// Devices by rank.
    pub trait Devices: Sized {
        type Tags;
        fn drivers(&self) -> Drivers<'_>;
    }

    /// The drivers of devices, by rank.
    pub struct Drivers<'a>(pub(in crate::collective) Vec<&'a dyn Driver>);

    /// The parts of all ranks, by rank. Each part's memory belongs to its stream.
    pub trait Ranks: Sized {
        /// The buffers that the ranks get back.
        type Given;
        fn parts(&self) -> Vec<RankPart<'_>>;
        fn into_given(self) -> Self::Given;
        /// Leaks the memory, which nothing may use or free any more. Leaks no other resource.
        fn leak(self);
    }

    /// The part of one rank.
    pub struct RankPart<'a> {
        pub(in crate::collective) part: Part,
        /// In elements.
        pub(in crate::collective) send_len: usize,
        /// In elements.
        pub(in crate::collective) receive_len: usize,
        /// The sent and the received buffer's start and end in bytes behind a multiple of 16, if
        /// others may own the rest of these 16 bytes.
        pub(in crate::collective) shared_units: [Option<(usize, usize)>; 2],
        pub(in crate::collective) stream: &'a dyn RankStream,
    }

    /// A rank's stream, whatever its tag.
    pub(in crate::collective) trait RankStream {
        /// An error if its device takes no more work.
        fn check(&self) -> Result<(), super::Unordered>;
        /// Runs `work`, a collective, and tells the observer of the stream's device.
        fn around(
            &self,
            label: &'static str,
            bytes: usize,
            work: &mut dyn FnMut() -> DriverResult<()>,
        ) -> DriverResult<()>;
        /// Records an event after the rank's part, which was just enqueued.
        fn end(&self) -> DriverResult<super::EventLease>;
        /// Makes the stream wait on the GPU for the end of another rank's part.
        fn wait_for(&self, end: &super::EventLease) -> DriverResult<()>;
    }
}
use sealed::{Drivers, RankPart, RankStream};

impl<S: StreamTag> RankStream for Stream<S> {
    fn check(&self) -> Result<(), Unordered> {
        self.core().check()
    }

    fn around(
        &self,
        label: &'static str,
        bytes: usize,
        work: &mut dyn FnMut() -> DriverResult<()>,
    ) -> DriverResult<()> {
        let operation = Operation {
            kind: Kind::CopyPeer,
            label,
            bytes: bytes as u64,
        };
        let (at, observed) = (self.at(), self.core().observed());
        at.enqueue(|_| observed.operation(at, type_name::<S>(), operation, work))
    }

    fn end(&self) -> DriverResult<EventLease> {
        self.core().events().record(self.at(), false)
    }

    fn wait_for(&self, end: &EventLease) -> DriverResult<()> {
        end.wait_on(self.at())
    }
}

impl<'a, S: StreamTag> Stream<S> {
    /// The part of a rank that sends `send` and receives in `receive`.
    fn part<T>(&'a self, send: &DeviceBuffer<T, S>, receive: &DeviceBuffer<T, S>) -> RankPart<'a> {
        RankPart {
            part: Part {
                stream: self.at().handle(), // the work is counted in `around`
                send: send.address(),
                receive: receive.address(),
            },
            send_len: send.len(),
            receive_len: receive.len(),
            shared_units: [send.shared_units(), receive.shared_units()],
            stream: self,
        }
    }
}

macro_rules! reducible {
    ($($type:ty = $number:ident;)*) => { $(
        impl sealed::Reducible for $type {
            const NUMBER: Number = Number::$number;
        }
        impl Reducible for $type {}
    )* };
}

reducible! {
    i8 = I8;
    u8 = U8;
    i32 = I32;
    u32 = U32;
    i64 = I64;
    u64 = U64;
    f32 = F32;
    f64 = F64;
}

/// Devices that can be ranks: a tuple of references to up to eight.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tuple of devices",
    label = "a communicator is made of its devices, by rank: `Communicator::new((&first, &second))`"
)]
pub trait Devices: sealed::Devices {}

/// The parts of all ranks of the devices `G` in a collective that leaves its result in place:
/// `(stream.rank(buffer), ..)`, by rank.
///
/// # Safety
/// There is one stream and one buffer of `T` for each device of `G`, by rank. The stream is of that
/// device.
#[diagnostic::on_unimplemented(
    message = "these are not one buffer of each of the devices `{G}`",
    label = "one `stream.rank(buffer)` for each rank, in the order of the communicator's devices, all of one type of element",
    note = "H38: a collective that lacks a rank waits for it for ever"
)]
pub unsafe trait InPlace<T, G>: sealed::Ranks<Given = Self::Buffers> {
    /// What they get back: their buffers.
    type Buffers;
}

/// The parts of all ranks of the devices `G` in a collective that sends one buffer and receives in
/// another: `(stream.rank((send, receive)), ..)`, by rank.
///
/// # Safety
/// There is one stream and two buffers of `T` for each device of `G`, by rank. The stream is of
/// that device.
#[diagnostic::on_unimplemented(
    message = "these are not two buffers of each of the devices `{G}`",
    label = "one `stream.rank((send, receive))` for each rank, in the order of the communicator's devices, all of one type of element",
    note = "H38: a collective that lacks a rank waits for it for ever"
)]
pub unsafe trait OutOfPlace<T, G>: sealed::Ranks<Given = Self::Buffers> {
    /// What they get back: their buffers.
    type Buffers;
}

macro_rules! ranks {
    ($(($($tag:ident $device:ident $index:tt),*);)*) => { $(
        impl<'a, $($device: Live),*> sealed::Devices for ($(&'a Device<$device>,)*) {
            type Tags = ($($device,)*);

            fn drivers(&self) -> Drivers<'_> {
                Drivers(vec![$(self.$index.core().driver()),*])
            }
        }
        #[diagnostic::do_not_recommend]
        impl<'a, $($device: Live),*> Devices for ($(&'a Device<$device>,)*) {}

        impl<'a, T, $($tag: StreamTag),*> sealed::Ranks for ($(Rank<'a, $tag, DeviceBuffer<T, $tag>>,)*) {
            type Given = ($(DeviceBuffer<T, $tag>,)*);

            fn parts(&self) -> Vec<RankPart<'_>> {
                vec![$({
                    let Rank { stream, buffers } = &self.$index;
                    stream.part(buffers, buffers)
                }),*]
            }

            fn into_given(self) -> Self::Given {
                ($(self.$index.buffers,)*)
            }

            fn leak(self) {
                $(self.$index.buffers.leak();)*
            }
        }
        // SAFETY: by the bounds on the tags.
        #[diagnostic::do_not_recommend]
        unsafe impl<'a, T, $($device: Live, $tag: StreamTag<Device = $device>),*> InPlace<T, ($($device,)*)>
            for ($(Rank<'a, $tag, DeviceBuffer<T, $tag>>,)*)
        {
            type Buffers = ($(DeviceBuffer<T, $tag>,)*);
        }

        impl<'a, T, $($tag: StreamTag),*> sealed::Ranks
            for ($(Rank<'a, $tag, (DeviceBuffer<T, $tag>, DeviceBuffer<T, $tag>)>,)*)
        {
            type Given = ($((DeviceBuffer<T, $tag>, DeviceBuffer<T, $tag>),)*);

            fn parts(&self) -> Vec<RankPart<'_>> {
                vec![$({
                    let Rank { stream, buffers: (send, receive) } = &self.$index;
                    stream.part(send, receive)
                }),*]
            }

            fn into_given(self) -> Self::Given {
                ($(self.$index.buffers,)*)
            }

            fn leak(self) {
                $(
                    let (send, receive) = self.$index.buffers;
                    send.leak();
                    receive.leak();
                )*
            }
        }
        // SAFETY: by the bounds on the tags.
        #[diagnostic::do_not_recommend]
        unsafe impl<'a, T, $($device: Live, $tag: StreamTag<Device = $device>),*> OutOfPlace<T, ($($device,)*)>
            for ($(Rank<'a, $tag, (DeviceBuffer<T, $tag>, DeviceBuffer<T, $tag>)>,)*)
        {
            type Buffers = ($((DeviceBuffer<T, $tag>, DeviceBuffer<T, $tag>),)*);
        }
    )* };
}

ranks! {
    (A D1 0);
    (A D1 0, B D2 1);
    (A D1 0, B D2 1, C D3 2);
    (A D1 0, B D2 1, C D3 2, E D4 3);
    (A D1 0, B D2 1, C D3 2, E D4 3, F D5 4);
    (A D1 0, B D2 1, C D3 2, E D4 3, F D5 4, H D6 5);
    (A D1 0, B D2 1, C D3 2, E D4 3, F D5 4, H D6 5, I D7 6);
    (A D1 0, B D2 1, C D3 2, E D4 3, F D5 4, H D6 5, I D7 6, J D8 7);
}
