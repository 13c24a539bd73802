//! The parameters of a kernel as types: nested pairs `(Slice<K, 0>, (Value<K, 2>, ()))`, with one
//! type of head for each role of a parameter.

use std::ffi::c_void;
use std::marker::PhantomData;

use device_std::rt::{
    self, OutputArgument, Return, ReturnedValue, Row, SharedArgument, SharedMemory, Written,
};
use device_std::{Element, Scalar};

use super::{Extent, ReadBy, WriteBy};
use crate::memory::DeviceSlice;
use crate::tag::StreamTag;
use cuda_rt_driver::{Parameter, ParameterKind};

type Pointer = *const c_void;

/// A value before the others in a row. A row of one type has no gaps.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Cons<T, R>(pub(super) T, pub(super) R);

/// Values of one type in a row.
///
/// # Safety
/// The layout is the layout of `[T; LEN]`.
pub unsafe trait ArrayLike<T>: Copy {
    /// The number of values.
    const LEN: usize;
}
// SAFETY: the struct is `repr(C)`. Both fields have the alignment of `T`, and their sizes are
// multiples of it, so there is no gap.
unsafe impl<T: Copy, R: ArrayLike<T>> ArrayLike<T> for Cons<T, R> {
    const LEN: usize = 1 + R::LEN;
}
/// The end of a row, with the alignment of its elements.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Nil<T>([T; 0]);
// SAFETY: the struct is `repr(C)` and holds `[T; 0]`.
unsafe impl<T: Copy> ArrayLike<T> for Nil<T> {
    const LEN: usize = 0;
}

pub(super) const fn as_slice<T, R: ArrayLike<T>>(row: &R) -> &[T] {
    // SAFETY: `R` has the layout of `[T; LEN]` by the contract of `ArrayLike`. The slice borrows
    // the row.
    unsafe { std::slice::from_raw_parts((&raw const *row).cast::<T>(), R::LEN) }
}

/// A slice that `S` may read for `'a`.
#[derive(Debug)]
pub struct ReadArg<'a, S, T> {
    address: u64,
    len: u64,
    _borrowed: PhantomData<(&'a [T], fn(S) -> S)>,
}

impl<S, T> ReadArg<'_, S, T> {
    /// The address of the slice.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// The number of elements.
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }
}

impl<'a, S: StreamTag, T> ReadArg<'a, S, T> {
    /// Borrows the slice for `'a`.
    #[inline(always)]
    pub fn new<P: ReadBy<S>>(slice: &'a DeviceSlice<T, P>) -> Self {
        Self {
            address: slice.address().0,
            len: slice.len() as u64,
            _borrowed: PhantomData,
        }
    }
}

/// A slice that only `S` uses for `'a`.
#[derive(Debug)]
pub struct WriteArg<'a, S, T> {
    address: u64,
    len: u64,
    _borrowed: PhantomData<(&'a mut [T], fn(S) -> S)>,
}

impl<S, T> WriteArg<'_, S, T> {
    /// The address of the slice.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// The number of elements.
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }
}

impl<'a, S: StreamTag, T> WriteArg<'a, S, T> {
    /// Borrows the slice for `'a`.
    #[inline(always)]
    pub fn new<P: WriteBy<S>>(slice: &'a mut DeviceSlice<T, P>) -> Self {
        Self {
            address: slice.address().0,
            len: slice.len() as u64,
            _borrowed: PhantomData,
        }
    }
}

/// `&[T]`, the parameter `AT` of the kernel `K`.
#[derive(Debug)]
pub struct Slice<K, const AT: usize>(PhantomData<K>);
/// An output, the parameter `AT` of the kernel `K`. If `IS_EXCLUSIVE`, each thread has elements of
/// its own; otherwise all threads share all elements.
#[derive(Debug)]
pub struct Output<K, const AT: usize, const IS_EXCLUSIVE: bool = true>(PhantomData<K>);
/// An output that the kernel writes with atomic operations.
pub type AtomicOutput<K, const AT: usize> = Output<K, AT, false>;
/// An argument in shared memory, the parameter `AT` of the kernel `K`.
#[derive(Debug)]
pub struct SharedArg<K, const AT: usize>(PhantomData<K>);
/// A value, the parameter `AT` of the kernel `K`.
#[derive(Debug)]
pub struct Value<K, const AT: usize>(PhantomData<K>);

/// The element type of a slice. The types stand behind traits, so that rustc reports an unsuitable
/// type once, on the user's line.
pub trait SliceOf<const AT: usize> {
    /// The element.
    type Element: Element;
}

/// The type of an output. Its lifetime ends with the launch.
pub trait OutputOf<const AT: usize> {
    /// The element of the output.
    type Element: Element;
    /// The output.
    type At<'k>: OutputArgument<Element = Self::Element> + rt::Branded<'k>;
}

/// The type of an argument in shared memory. Its lifetime ends with the launch.
pub trait SharedArgOf<const AT: usize> {
    /// The argument.
    type At<'k>: SharedArgument + rt::Branded<'k>;
}

/// The type of a value.
pub trait ValueOf<const AT: usize> {
    /// The value.
    type Value: Scalar;
}

/// The value that a kernel returns, and that is written in the way `W`.
pub trait ReturnedOf<W> {
    /// The value.
    type Value: ReturnedValue<W>;
}

/// The parameters of a kernel.
///
/// # Safety
/// `DESCRIBED`, `LAYOUT`, `pointers` and `read_back` agree with each other and with the entry that
/// `#[kernel]` makes.
pub unsafe trait Parameters {
    /// The values that a launch gets.
    type Passed<'a, S>;
    /// The arguments that the kernel gets.
    type Arguments<'k>;
    #[doc(hidden)]
    type Pointers: ArrayLike<Pointer>;
    #[doc(hidden)]
    type Described: ArrayLike<Parameter> + 'static;
    #[doc(hidden)]
    type Layout: ArrayLike<Row> + 'static;
    #[doc(hidden)]
    type Values;
    #[doc(hidden)]
    const DESCRIBED: Self::Described;
    #[doc(hidden)]
    const LAYOUT: Self::Layout;
    /// Shared memory of a block, in bytes.
    const SHARED_BYTES: usize;
    /// What the kernel returns.
    type Return: Return;

    #[doc(hidden)]
    fn pointers<S>(passed: &Self::Passed<'_, S>, last: &LastParameters<'_>) -> Self::Pointers;

    /// Address and length of the memory for what the kernel returns; no memory if it returns
    /// nothing.
    #[doc(hidden)]
    fn output(values: &Self::Values) -> (*mut u8, usize);

    /// Reads the values that a launch passed.
    ///
    /// # Safety
    /// `parameters` has the pointers of a launch with these parameters, from `at` on.
    #[doc(hidden)]
    unsafe fn read_back(parameters: *const Pointer, at: usize) -> Self::Values;

    /// The arguments of one thread or block.
    ///
    /// # Safety
    /// For `'k` the memory that the values name is used as the kernel's signature says. `shared`
    /// points to the memory of one block, whose `SHARED_BYTES` from `offset` on are for these
    /// arguments alone.
    #[doc(hidden)]
    unsafe fn arguments<'k>(values: &Self::Values, shared: *mut u8, offset: usize) -> Self::Arguments<'k>;
}

const fn parameter<T>(kind: ParameterKind) -> Parameter {
    Parameter {
        size_bytes: size_of::<T>(),
        align_bytes: align_of::<T>(),
        kind,
    }
}

/// The parameters after the user's own.
#[derive(Debug)]
pub struct LastParameters<'a> {
    /// The number of threads that enter the kernel: its place in the launch's shape.
    pub(super) extent: &'a Extent,
    /// Address and length of the memory for what the kernel returns; not passed if it returns
    /// nothing.
    pub(super) output: [u64; 2],
}

/// The end of the parameters of a kernel that returns nothing: the launch's extent.
// SAFETY: an entry's last parameter is the extent.
unsafe impl Parameters for () {
    type Return = ();
    type Passed<'a, S> = ();
    type Arguments<'k> = ();
    type Pointers = Cons<Pointer, Nil<Pointer>>;
    type Described = Cons<Parameter, Nil<Parameter>>;
    type Layout = Nil<Row>;
    type Values = ();
    const DESCRIBED: Self::Described = Cons(parameter::<Extent>(ParameterKind::Extent), Nil([]));
    const LAYOUT: Self::Layout = Nil([]);
    const SHARED_BYTES: usize = 0;

    #[inline(always)]
    fn pointers<S>(_: &(), last: &LastParameters<'_>) -> Self::Pointers {
        Cons((&raw const *last.extent).cast(), Nil([]))
    }
    #[inline(always)]
    fn output(_: &()) -> (*mut u8, usize) {
        (std::ptr::null_mut(), 0)
    }
    #[inline(always)]
    unsafe fn read_back(_: *const Pointer, _: usize) {}
    #[inline(always)]
    unsafe fn arguments<'k>(_: &(), _: *mut u8, _: usize) -> Self::Arguments<'k> {}
}

/// The end of the parameters of a kernel that returns something: the memory for it, and the
/// launch's extent. The kernel's function gets no access to this memory.
#[derive(Debug)]
pub struct Fills<K, W>(PhantomData<(K, W)>);

// SAFETY: the entry takes the address and length of the memory after the user's parameters, and
// then the extent.
unsafe impl<W, K: ReturnedOf<W>> Parameters for Fills<K, W> {
    type Return = Written<K::Value, W>;
    type Passed<'a, S> = ();
    type Arguments<'k> = ();
    type Pointers = Cons<Pointer, Cons<Pointer, Cons<Pointer, Nil<Pointer>>>>;
    type Described = Cons<Parameter, Cons<Parameter, Cons<Parameter, Nil<Parameter>>>>;
    type Layout = Cons<Row, Nil<Row>>;
    type Values = (*mut <K::Value as ReturnedValue<W>>::Element, usize);
    const DESCRIBED: Self::Described = Cons(
        parameter::<u64>(ParameterKind::Write {
            element_bytes: size_of::<<K::Value as ReturnedValue<W>>::Element>(),
        }),
        Cons(parameter::<u64>(ParameterKind::Length), <()>::DESCRIBED),
    );
    const LAYOUT: Self::Layout = Cons(rt::returned_layout::<Self::Return>(), Nil([]));
    const SHARED_BYTES: usize = 0;

    #[inline(always)]
    fn pointers<S>(_: &(), last: &LastParameters<'_>) -> Self::Pointers {
        let [address, len] = &last.output;
        Cons(
            (&raw const *address).cast(),
            Cons((&raw const *len).cast(), <()>::pointers::<S>(&(), last)),
        )
    }
    #[inline(always)]
    fn output((start, len): &Self::Values) -> (*mut u8, usize) {
        (start.cast(), *len)
    }
    #[inline(always)]
    unsafe fn read_back(parameters: *const Pointer, at: usize) -> Self::Values {
        // SAFETY: by this function's contract the pointers at `at` are to an address and a length.
        unsafe { rt::output(parameters, at) }
    }
    #[inline(always)]
    unsafe fn arguments<'k>(_: &Self::Values, _: *mut u8, _: usize) -> Self::Arguments<'k> {}
}

/// Compiles only if an output's type has the role that its name says.
const fn has_role(is_exclusive: bool, called_exclusive: bool) {
    assert!(
        is_exclusive == called_exclusive,
        "H32: an output of this kernel has the name of another type: `Atomic` alone is called `Atomic`"
    );
}

/// The items of [`Parameters`] for a buffer, which is passed as a pointer and a length.
macro_rules! buffer {
    ($element:ty, $kind:ident, $layout:expr $(, $checked:expr)?) => {
        type Pointers = Cons<Pointer, Cons<Pointer, R::Pointers>>;
        type Described = Cons<Parameter, Cons<Parameter, R::Described>>;
        type Layout = Cons<Row, R::Layout>;
        type Values = ((*mut $element, usize), R::Values);
        type Return = R::Return;
        const DESCRIBED: Self::Described = {
            $($checked;)?
            Cons(
                parameter::<u64>(ParameterKind::$kind {
                    element_bytes: size_of::<$element>(),
                }),
                Cons(parameter::<u64>(ParameterKind::Length), R::DESCRIBED),
            )
        };
        const LAYOUT: Self::Layout = Cons($layout, R::LAYOUT);
        const SHARED_BYTES: usize = R::SHARED_BYTES;

        #[inline(always)]
        fn pointers<S>((slice, rest): &Self::Passed<'_, S>, last: &LastParameters<'_>) -> Self::Pointers {
            let (address, len) = (&raw const slice.address, &raw const slice.len);
            Cons(address.cast(), Cons(len.cast(), R::pointers(rest, last)))
        }

        #[inline(always)]
        fn output((_, rest): &Self::Values) -> (*mut u8, usize) {
            R::output(rest)
        }

        #[inline(always)]
        unsafe fn read_back(parameters: *const Pointer, at: usize) -> Self::Values {
            // SAFETY: by this function's contract the pointers at `at` are to an address and a
            // length.
            let slice = unsafe { rt::output(parameters, at) };
            // SAFETY: this function's contract covers the call.
            (slice, unsafe { R::read_back(parameters, at + 2) })
        }
    };
}

// SAFETY: an address and a length, and then the rest.
unsafe impl<K: SliceOf<AT>, const AT: usize, R: Parameters> Parameters for (Slice<K, AT>, R) {
    type Passed<'a, S> = (ReadArg<'a, S, K::Element>, R::Passed<'a, S>);
    type Arguments<'k> = (&'k [K::Element], R::Arguments<'k>);
    buffer!(K::Element, Read, rt::slice_layout::<K::Element>());

    #[inline(always)]
    unsafe fn arguments<'k>(
        ((start, len), rest): &Self::Values,
        shared: *mut u8,
        offset: usize,
    ) -> Self::Arguments<'k> {
        // SAFETY: `rt::output` made sure that the pointer is aligned. The memory is live and
        // readable for `'k` by this function's contract.
        let slice = unsafe { std::slice::from_raw_parts(*start, *len) };
        // SAFETY: this function's contract covers the call.
        (slice, unsafe { R::arguments(rest, shared, offset) })
    }
}

// SAFETY: an address and a length, and then the rest.
unsafe impl<K: OutputOf<AT>, const AT: usize, const IS_EXCLUSIVE: bool, R: Parameters> Parameters
    for (Output<K, AT, IS_EXCLUSIVE>, R)
{
    type Passed<'a, S> = (WriteArg<'a, S, K::Element>, R::Passed<'a, S>);
    type Arguments<'k> = (K::At<'k>, R::Arguments<'k>);
    // From the role the entry tells LLVM that nothing else writes the elements.
    buffer!(
        K::Element,
        Write,
        rt::output_layout::<K::At<'static>>(),
        has_role(<K::At<'static> as OutputArgument>::IS_EXCLUSIVE, IS_EXCLUSIVE)
    );

    #[inline(always)]
    unsafe fn arguments<'k>(
        ((start, len), rest): &Self::Values,
        shared: *mut u8,
        offset: usize,
    ) -> Self::Arguments<'k> {
        // SAFETY: this function's contract covers the call.
        let output = unsafe { <K::At<'k> as OutputArgument>::new(*start, *len) };
        // SAFETY: this function's contract covers the call.
        (output, unsafe { R::arguments(rest, shared, offset) })
    }
}

// SAFETY: nothing is passed: the launch gives a block the shared memory that all these arguments
// need.
unsafe impl<K: SharedArgOf<AT>, const AT: usize, R: Parameters> Parameters for (SharedArg<K, AT>, R) {
    type Passed<'a, S> = R::Passed<'a, S>;
    type Arguments<'k> = (K::At<'k>, R::Arguments<'k>);
    type Pointers = R::Pointers;
    type Described = R::Described;
    type Layout = Cons<Row, R::Layout>;
    type Values = R::Values;
    type Return = R::Return;
    const DESCRIBED: Self::Described = R::DESCRIBED;
    const LAYOUT: Self::Layout = Cons(rt::shared_layout::<K::At<'static>>(), R::LAYOUT);
    const SHARED_BYTES: usize = <K::At<'static> as SharedArgument>::BYTES + R::SHARED_BYTES;

    #[inline(always)]
    fn pointers<S>(passed: &Self::Passed<'_, S>, last: &LastParameters<'_>) -> Self::Pointers {
        R::pointers(passed, last)
    }

    #[inline(always)]
    fn output(values: &Self::Values) -> (*mut u8, usize) {
        R::output(values)
    }

    #[inline(always)]
    unsafe fn read_back(parameters: *const Pointer, at: usize) -> Self::Values {
        // SAFETY: this function's contract covers the call.
        unsafe { R::read_back(parameters, at) }
    }

    #[inline(always)]
    unsafe fn arguments<'k>(values: &Self::Values, shared: *mut u8, offset: usize) -> Self::Arguments<'k> {
        // SAFETY: `shared` is valid by this function's contract. Sizes are multiples of 16, so
        // offsets are too.
        let argument = unsafe { SharedMemory::argument::<K::At<'k>>(shared, offset) };
        let after = offset + <K::At<'k> as SharedArgument>::BYTES;
        // SAFETY: the contract is the same, and the memory after this argument belongs to the rest
        // alone.
        (argument, unsafe { R::arguments(values, shared, after) })
    }
}

// SAFETY: the value, and then the rest.
unsafe impl<K: ValueOf<AT>, const AT: usize, R: Parameters> Parameters for (Value<K, AT>, R) {
    type Passed<'a, S> = (K::Value, R::Passed<'a, S>);
    type Arguments<'k> = (K::Value, R::Arguments<'k>);
    type Pointers = Cons<Pointer, R::Pointers>;
    type Described = Cons<Parameter, R::Described>;
    type Layout = Cons<Row, R::Layout>;
    type Values = (K::Value, R::Values);
    type Return = R::Return;
    const DESCRIBED: Self::Described = Cons(parameter::<K::Value>(ParameterKind::Scalar), R::DESCRIBED);
    const LAYOUT: Self::Layout = Cons(rt::scalar_layout::<K::Value>(), R::LAYOUT);
    const SHARED_BYTES: usize = R::SHARED_BYTES;

    #[inline(always)]
    fn pointers<S>((value, rest): &Self::Passed<'_, S>, last: &LastParameters<'_>) -> Self::Pointers {
        Cons((&raw const *value).cast(), R::pointers(rest, last))
    }

    #[inline(always)]
    fn output((_, rest): &Self::Values) -> (*mut u8, usize) {
        R::output(rest)
    }

    #[inline(always)]
    unsafe fn read_back(parameters: *const Pointer, at: usize) -> Self::Values {
        // SAFETY: by this function's contract the pointer at `at` is to a value of this type.
        let value = unsafe { rt::scalar(parameters, at) };
        // SAFETY: this function's contract covers the call.
        (value, unsafe { R::read_back(parameters, at + 1) })
    }

    #[inline(always)]
    unsafe fn arguments<'k>(
        (value, rest): &Self::Values,
        shared: *mut u8,
        offset: usize,
    ) -> Self::Arguments<'k> {
        // SAFETY: this function's contract covers the call.
        (*value, unsafe { R::arguments(rest, shared, offset) })
    }
}
