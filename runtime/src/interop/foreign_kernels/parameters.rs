//! The parameters of a declared kernel as types: a tuple with [`Read`], [`Write`] or [`Value`] for
//! each.

use std::any::TypeId;
use std::marker::PhantomData;

use crate::kernel::{ReadArg, WriteArg};
use crate::memory::Element;
use cuda_rt_driver::{DeviceAddress, ForeignUse};

/// `&[T]`: memory that the kernel reads. A launch passes its address.
#[derive(Debug)]
pub struct Read<T>(PhantomData<T>);
/// `&mut [T]`: memory that the kernel reads and writes. A launch passes its address.
#[derive(Debug)]
pub struct Write<T>(PhantomData<T>);
/// A value, which a launch copies.
#[derive(Debug)]
pub struct Value<T>(PhantomData<T>);

/// A parameter, as a declaration says.
#[derive(Clone, Copy, Debug)]
pub struct Declared {
    pub(super) what: &'static str,
    pub(super) bytes: usize,
    pub(super) kind: fn() -> Kind,
}

/// What PTX may state about a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Pointer,
    Integer,
    Float,
    /// Another value, such as a struct.
    Other,
}

impl Kind {
    /// The kind of a value of this type, of 4 or 8 bytes. Smaller floats and integers have no type
    /// of their own in heads of PTX.
    fn of_value<T: 'static>() -> Self {
        let this = TypeId::of::<T>();
        let integers = [
            TypeId::of::<u32>(),
            TypeId::of::<i32>(),
            TypeId::of::<u64>(),
            TypeId::of::<i64>(),
        ];
        if [TypeId::of::<f32>(), TypeId::of::<f64>()].contains(&this) {
            Self::Float
        } else if integers.contains(&this) {
            Self::Integer
        } else {
            Self::Other
        }
    }

    /// Whether PTX states another kind by this type. A type of bits (`.b32`) states none.
    pub(super) fn contradicts(self, stated: &str) -> bool {
        match stated {
            ".f32" | ".f64" => matches!(self, Self::Integer | Self::Pointer),
            ".u32" | ".s32" | ".u64" | ".s64" => self == Self::Float,
            _ => false,
        }
    }

    /// The kind in a message.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pointer => "a pointer",
            Self::Integer => "an integer",
            Self::Float => "a float",
            Self::Other => "a value",
        }
    }
}

/// The arguments of one launch: the values in words of their own, and the memory behind addresses.
#[derive(Clone, Debug, Default)]
pub struct Packed {
    /// Each value begins at a word. No value has padding.
    words: Vec<u128>,
    /// The first word of each value.
    starts: Vec<usize>,
    /// The number of elements behind each address; 0 for a value.
    lens: Vec<usize>,
    uses: Vec<ForeignUse>,
}

impl Packed {
    fn push<T: Element>(&mut self, value: T, len: usize) {
        let start = self.words.len();
        self.starts.push(start);
        self.lens.push(len);
        self.words
            .resize(start + size_of::<T>().div_ceil(size_of::<u128>()), 0);
        let bytes = bytemuck::bytes_of(&value);
        bytemuck::cast_slice_mut(&mut self.words[start..])[..bytes.len()].copy_from_slice(bytes);
    }

    fn push_address<T>(&mut self, address: u64, len: usize, writes: bool) {
        self.push(address, len);
        let bytes = len * size_of::<T>();
        if bytes > 0 {
            let address = DeviceAddress(address);
            self.uses.push(ForeignUse {
                address,
                bytes,
                writes,
            });
        }
    }

    fn value<T: Element>(&self, at: usize) -> T {
        bytemuck::pod_read_unaligned(&bytemuck::cast_slice(&self.words[self.starts[at]..])[..size_of::<T>()])
    }

    /// The address of a slice, and its length in elements.
    fn slice<T>(&self, at: usize) -> (*mut T, usize) {
        let address = self.value::<u64>(at) as usize;
        (std::ptr::with_exposed_provenance_mut(address), self.lens[at])
    }

    /// A pointer to each value.
    pub(super) fn pointers(&self) -> Vec<*const std::ffi::c_void> {
        self.starts
            .iter()
            .map(|start| self.words[*start..].as_ptr().cast())
            .collect()
    }

    /// The memory behind the addresses.
    pub(super) fn uses(&self) -> &[ForeignUse] {
        &self.uses
    }
}

/// A parameter of a declared kernel.
///
/// # Safety
/// `pass` packs one value, of the size that `DECLARED` says. `read` makes of this value what the
/// kernel may do with it: a slice to read, a slice to write, or the value.
pub unsafe trait ForeignParameter: 'static {
    /// What a launch on the stream `S` gets.
    type Passed<'a, S>;
    /// What a stand-in gets.
    type StandIn<'k>;
    #[doc(hidden)]
    const DECLARED: Declared;

    #[doc(hidden)]
    fn pass<S>(passed: &Self::Passed<'_, S>, into: &mut Packed);

    /// # Safety
    /// Parameter `at` of `packed` was packed by `pass`. For `'k` the memory behind it is live, and
    /// nothing else uses it in conflict with this parameter.
    #[doc(hidden)]
    unsafe fn read<'k>(packed: &Packed, at: usize) -> Self::StandIn<'k>;
}

// SAFETY: an address, and a slice to read.
unsafe impl<T: Element> ForeignParameter for Read<T> {
    type Passed<'a, S> = ReadArg<'a, S, T>;
    type StandIn<'k> = &'k [T];
    const DECLARED: Declared = Declared {
        what: "a pointer (`&[..]`)",
        bytes: size_of::<u64>(),
        kind: || Kind::Pointer,
    };

    fn pass<S>(passed: &Self::Passed<'_, S>, into: &mut Packed) {
        into.push_address::<T>(passed.address(), passed.len(), false);
    }

    unsafe fn read<'k>(packed: &Packed, at: usize) -> Self::StandIn<'k> {
        let (start, len) = packed.slice::<T>(at);
        if len == 0 {
            return &[];
        }
        // SAFETY: by this function's contract the memory of the slice is live for `'k`, and nothing
        // writes it. On a simulated device an address is the host's. Slices are aligned (SLICE-1).
        unsafe { std::slice::from_raw_parts(start, len) }
    }
}

// SAFETY: an address, and a slice to write.
unsafe impl<T: Element> ForeignParameter for Write<T> {
    type Passed<'a, S> = WriteArg<'a, S, T>;
    type StandIn<'k> = &'k mut [T];
    const DECLARED: Declared = Declared {
        what: "a pointer (`&mut [..]`)",
        bytes: size_of::<u64>(),
        kind: || Kind::Pointer,
    };

    fn pass<S>(passed: &Self::Passed<'_, S>, into: &mut Packed) {
        into.push_address::<T>(passed.address(), passed.len(), true);
    }

    unsafe fn read<'k>(packed: &Packed, at: usize) -> Self::StandIn<'k> {
        let (start, len) = packed.slice::<T>(at);
        if len == 0 {
            return &mut [];
        }
        // SAFETY: by this function's contract the memory of the slice is live for `'k`, and nothing
        // else uses it. On a simulated device an address is the host's. Slices are aligned
        // (SLICE-1).
        unsafe { std::slice::from_raw_parts_mut(start, len) }
    }
}

// SAFETY: the value itself.
unsafe impl<T: Element> ForeignParameter for Value<T> {
    type Passed<'a, S> = T;
    type StandIn<'k> = T;
    const DECLARED: Declared = {
        // The layout is computed for each type: a value with padding does not build.
        let _ = T::LAYOUT;
        assert!(size_of::<T>() > 0, "a kernel has no parameter of size 0");
        Declared {
            what: "a value",
            bytes: size_of::<T>(),
            kind: Kind::of_value::<T>,
        }
    };

    fn pass<S>(passed: &T, into: &mut Packed) {
        into.push(*passed, 0);
    }

    unsafe fn read<'k>(packed: &Packed, at: usize) -> Self::StandIn<'k> {
        packed.value(at)
    }
}

/// All parameters of a declared kernel: a tuple of up to 24.
///
/// # Safety
/// `pass` packs the values in their order, as `DECLARED` says. `read` makes of them what the kernel
/// may do with them.
pub unsafe trait ForeignParameters: 'static {
    /// What a launch on the stream `S` gets.
    type Passed<'a, S>;
    /// What a stand-in gets.
    type StandIn<'k>;
    #[doc(hidden)]
    const DECLARED: &'static [Declared];

    #[doc(hidden)]
    fn pass<S>(passed: &Self::Passed<'_, S>) -> Packed;

    /// # Safety
    /// `packed` was made by `pass`. For `'k` the memory behind it is live, and nothing else uses it
    /// in conflict with the parameters.
    #[doc(hidden)]
    unsafe fn read<'k>(packed: &Packed) -> Self::StandIn<'k>;
}

macro_rules! tuples {
    ($($Parameter:ident $at:tt)*) => {
        tuples! { @each [] $([$Parameter $at])* }
    };
    (@each [$([$Parameter:ident $at:tt])*] $next:tt $($rest:tt)*) => {
        tuples! { @one $([$Parameter $at])* }
        tuples! { @each [$([$Parameter $at])* $next] $($rest)* }
    };
    (@each [$([$Parameter:ident $at:tt])*]) => {
        tuples! { @one $([$Parameter $at])* }
    };
    (@one $([$Parameter:ident $at:tt])*) => {
        // SAFETY: each parameter keeps the contract for its own value.
        #[allow(unused_variables, unused_mut, clippy::unused_unit, reason = "a tuple may be empty")]
        unsafe impl<$($Parameter: ForeignParameter),*> ForeignParameters for ($($Parameter,)*) {
            type Passed<'a, S> = ($($Parameter::Passed<'a, S>,)*);
            type StandIn<'k> = ($($Parameter::StandIn<'k>,)*);
            const DECLARED: &'static [Declared] = &[$($Parameter::DECLARED),*];

            fn pass<S>(passed: &Self::Passed<'_, S>) -> Packed {
                let mut packed = Packed::default();
                $($Parameter::pass(&passed.$at, &mut packed);)*
                packed
            }

            unsafe fn read<'k>(packed: &Packed) -> Self::StandIn<'k> {
                ($(
                    // SAFETY: this function's contract, for the value that `pass` packed.
                    unsafe { $Parameter::read(packed, $at) },
                )*)
            }
        }
    };
}

tuples! {
    P0 0 P1 1 P2 2 P3 3 P4 4 P5 5 P6 6 P7 7 P8 8 P9 9 P10 10 P11 11 P12 12 P13 13 P14 14 P15 15
    P16 16 P17 17 P18 18 P19 19 P20 20 P21 21 P22 22 P23 23
}
