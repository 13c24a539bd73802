//! The driver calls of a program as data, for the replay and for the oracle.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ops::Range;

use cuda_rt::checker::AccessKind;
use cuda_rt::checker::AccessKind::{Read, Write};
use cuda_rt::driver::{CopyExtent, Location, Pitch};
use cuda_rt::kernel::{Kernel, LaunchShape, ParameterKind};

/// A piece of memory from one allocation to its end, numbered in the order of allocation. An
/// address that is given out twice has two lives.
pub(crate) type Life = usize;

/// An offset into a life, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) life: Life,
    pub(crate) offset: u64,
}

/// The driver calls of a program, on all its devices, in the order in which they were made.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) entries: Vec<Entry>,
    /// Their lengths in bytes.
    pub(crate) lives: Vec<u64>,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) device: usize,
    pub(crate) call: Call,
}

/// A call that succeeded. It names streams, events and graphs by the numbers of the recorded run,
/// which are never reused.
#[derive(Debug)]
pub(crate) enum Call {
    CreateStream(u64),
    DestroyStream(u64),
    SynchronizeStream(u64),
    /// A query that found all work of the stream done.
    SeenStreamDone(u64),
    CreateEvent {
        event: u64,
        timing: bool,
    },
    DestroyEvent(u64),
    Record {
        event: u64,
        stream: u64,
    },
    Wait {
        stream: u64,
        event: u64,
    },
    /// A query that found the event done. Other queries order nothing, and are left out.
    SeenDone(u64),
    SynchronizeEvent(u64),
    Alloc {
        life: Life,
        stream: u64,
    },
    Free {
        life: Life,
        stream: u64,
    },
    /// The life is free for its next owner. It goes on: each owner of a block that is kept for
    /// reuse must be ordered before the next one.
    NoteFree {
        life: Life,
        stream: u64,
    },
    /// The life has its next owner.
    NoteAlloc {
        life: Life,
        stream: u64,
    },
    Register(Life),
    Unregister(Life),
    AllocManaged(Life),
    FreeManaged(Life),
    Prefetch {
        at: Place,
        bytes: usize,
        to: Location,
        stream: u64,
    },
    /// A copy, or a function of the host that copies.
    Copy {
        direction: Direction,
        to: Place,
        from: Place,
        bytes: usize,
        stream: u64,
    },
    /// A copy between two devices, on a stream of this entry's device. `to` or `from` is memory of
    /// the other device.
    CopyPeer {
        to_peer: bool,
        to: Place,
        from: Place,
        bytes: usize,
        stream: u64,
    },
    CopyRows {
        direction: Direction,
        to: (Place, Pitch),
        from: (Place, Pitch),
        extent: CopyExtent,
        stream: u64,
    },
    Fill {
        to: Place,
        pattern: Vec<u8>,
        count: usize,
        stream: u64,
    },
    Launch {
        launch: Launch,
        stream: u64,
    },
    BeginCapture(u64),
    EndCapture {
        stream: u64,
        graph: u64,
    },
    LaunchGraph {
        graph: u64,
        stream: u64,
    },
    DestroyGraph(u64),
    /// Host memory with these bytes passes to a stream.
    HostWrote {
        to: Place,
        bytes: Vec<u8>,
    },
    /// Host memory passes to the host, which sees these bytes.
    HostSees {
        from: Place,
        bytes: Vec<u8>,
    },
    /// The host reads these bytes of memory that it may not write.
    HostReads {
        from: Place,
        bytes: Vec<u8>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    ToDevice,
    ToHost,
    Within,
}

#[derive(Debug)]
pub(crate) struct Launch {
    pub(crate) kernel: &'static Kernel,
    pub(crate) shape: LaunchShape,
    pub(crate) parameters: Vec<Parameter>,
}

#[derive(Debug)]
pub(crate) enum Parameter {
    Value(Value),
    Address(Place),
}

/// The bytes of a parameter, aligned for any type. They may contain padding, so they are never read
/// as numbers.
#[derive(Debug)]
pub(crate) struct Value(Box<[MaybeUninit<u128>]>);

impl Value {
    /// # Safety
    /// `from` points to that many bytes.
    pub(crate) unsafe fn copied(from: *const c_void, bytes: usize) -> Self {
        let mut value = Box::new_uninit_slice(bytes.div_ceil(size_of::<u128>()));
        let to = value.as_mut_ptr().cast::<u8>();
        // SAFETY: by this function's contract `from` points to `bytes` bytes; `value` has room for
        // as many.
        unsafe { to.copy_from_nonoverlapping(from.cast(), bytes) };
        Self(value)
    }

    pub(crate) fn pointer(&self) -> *const c_void {
        self.0.as_ptr().cast()
    }
}

impl Launch {
    /// Pointers to the values, with `addresses` for the buffers. The pointers are valid as long as
    /// `self` and `addresses`.
    pub(crate) fn pointers<'a>(&'a self, addresses: &'a [u64]) -> Vec<*const c_void> {
        let mut addresses = addresses.iter();
        let pointer = |parameter: &'a Parameter| match parameter {
            Parameter::Value(value) => value.pointer(),
            Parameter::Address(_) => {
                std::ptr::from_ref(addresses.next().expect("one for each buffer")).cast()
            }
        };
        self.parameters.iter().map(pointer).collect()
    }

    /// The places of the buffers, in order.
    pub(crate) fn places(&self) -> impl Iterator<Item = Place> {
        self.parameters.iter().filter_map(|parameter| match parameter {
            Parameter::Address(place) => Some(*place),
            Parameter::Value(_) => None,
        })
    }

    fn touches(&self) -> Vec<Touch> {
        let kinds = self.kernel.parameters.iter().enumerate();
        kinds
            .zip(&self.parameters)
            .filter_map(|((i, described), parameter)| {
                let (kind, element) = match described.kind {
                    ParameterKind::Read { element_bytes } => (Read, element_bytes),
                    ParameterKind::Write { element_bytes } => (Write, element_bytes),
                    _ => return None,
                };
                let (Parameter::Address(place), Parameter::Value(len)) = (parameter, &self.parameters[i + 1])
                else {
                    return None;
                };
                // SAFETY: a length is a `u64`, and these bytes were copied from one.
                let len = unsafe { len.pointer().cast::<u64>().read() };
                Some(Touch::new(kind, *place, len * element as u64))
            })
            .collect()
    }
}

/// The bytes that a call touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Touch {
    pub(crate) kind: AccessKind,
    pub(crate) life: Life,
    pub(crate) bytes: Range<u64>,
}

impl Touch {
    fn new(kind: AccessKind, Place { life, offset }: Place, bytes: u64) -> Self {
        let bytes = offset..offset + bytes;
        Self { kind, life, bytes }
    }
}

impl Log {
    /// The bytes that the call itself touches, on its stream or by the host.
    pub(crate) fn touches(&self, call: &Call) -> Vec<Touch> {
        let whole = |life: Life| vec![Touch::new(Write, Place { life, offset: 0 }, self.lives[life])];
        match call {
            Call::Alloc { life, .. }
            | Call::Free { life, .. }
            | Call::NoteFree { life, .. }
            | Call::NoteAlloc { life, .. }
            | Call::Unregister(life)
            | Call::FreeManaged(life) => whole(*life),
            Call::CopyRows { to, from, extent, .. } => {
                let rows = |kind, (place, pitch): (Place, Pitch)| {
                    extent.touched(place.offset, pitch).map(move |bytes| Touch {
                        kind,
                        life: place.life,
                        bytes,
                    })
                };
                rows(Read, *from).chain(rows(Write, *to)).collect()
            }
            Call::Prefetch { at, bytes, .. } => vec![Touch::new(Read, *at, *bytes as u64)],
            Call::Copy { to, from, bytes, .. } | Call::CopyPeer { to, from, bytes, .. } => {
                vec![
                    Touch::new(Read, *from, *bytes as u64),
                    Touch::new(Write, *to, *bytes as u64),
                ]
            }
            Call::Fill {
                to, pattern, count, ..
            } => vec![Touch::new(Write, *to, (pattern.len() * count) as u64)],
            Call::Launch { launch, .. } => launch.touches(),
            Call::HostWrote { to: place, bytes } | Call::HostSees { from: place, bytes } => {
                vec![Touch::new(Write, *place, bytes.len() as u64)]
            }
            Call::HostReads { from, bytes } => vec![Touch::new(Read, *from, bytes.len() as u64)],
            _ => Vec::new(),
        }
    }

    /// The stream on which a call enqueues an operation.
    pub(crate) fn stream(call: &Call) -> Option<u64> {
        match call {
            Call::Alloc { stream, .. }
            | Call::Free { stream, .. }
            | Call::NoteFree { stream, .. }
            | Call::NoteAlloc { stream, .. }
            | Call::Copy { stream, .. }
            | Call::CopyRows { stream, .. }
            | Call::CopyPeer { stream, .. }
            | Call::Prefetch { stream, .. }
            | Call::Fill { stream, .. }
            | Call::Launch { stream, .. }
            | Call::LaunchGraph { stream, .. } => Some(*stream),
            _ => None,
        }
    }

    /// The calls that make or use an edge; each mutant leaves one of them out.
    pub(crate) fn edges(&self) -> impl Iterator<Item = usize> {
        self.entries.iter().enumerate().filter_map(|(i, entry)| {
            let edge = matches!(
                entry.call,
                Call::Wait { .. }
                    | Call::Record { .. }
                    | Call::SeenDone(_)
                    | Call::SynchronizeEvent(_)
                    | Call::SynchronizeStream(_)
                    | Call::SeenStreamDone(_)
            );
            edge.then_some(i)
        })
    }
}
