//! Compares the declarations with cudarc's bindings, which bindgen made from NVIDIA's headers.
//!
//! The compiler does the comparison: if this module compiles, each declaration is equal. Two
//! functions are equal if their results and each of their arguments are [`Same`]. Two types are the
//! same if both are the same type of number, pointers to the same type, handles of the same name,
//! or structs whose fields have the same names, offsets and types.

#[cfg(feature = "cupti")]
mod cupti;
mod driver;
#[cfg(feature = "nccl")]
mod nccl;

use std::ffi::c_void;

/// A type that passes to and from C exactly as `Theirs` does.
trait Same<Theirs> {}

/// A function with the same arguments and result as `Theirs`.
trait SameFunction<Theirs> {}

impl<A: Same<B>, B> Same<*mut B> for *mut A {}
impl<A: Same<B>, B> Same<*const B> for *const A {}

/// Declares that types are the same for C, and compares their sizes and alignments.
macro_rules! same {
    ($($ours:ty = $theirs:ty),* $(,)?) => { $(
        impl Same<$theirs> for $ours {}
        const _: () = assert!(size_of::<$ours>() == size_of::<$theirs>());
        const _: () = assert!(align_of::<$ours>() == align_of::<$theirs>());
    )* };
}
use same;

same!(
    c_void = c_void,
    i8 = i8,
    u8 = u8,
    u16 = u16,
    i32 = i32,
    u32 = u32,
    i64 = i64,
    u64 = u64,
    usize = usize,
    f32 = f32
);

/// Compares fields of two structs: their offsets and types.
macro_rules! same_fields {
    ($ours:ty = $theirs:ty: $($field:ident = $their_field:ident),* $(,)?) => { $(
        const _: () = assert!(
            std::mem::offset_of!($ours, $field) == std::mem::offset_of!($theirs, $their_field)
        );
        const _: () = same_field(
            |ours: &$ours| &raw const ours.$field,
            |theirs: &$theirs| &raw const theirs.$their_field,
        );
    )* };
}
use same_fields;

/// Compiles if the two fields are of the same type.
const fn same_field<S, T, A: Same<B>, B>(_: fn(&S) -> *const A, _: fn(&T) -> *const B) {}

/// Compiles if `Ours` is the same function as the argument.
const fn same_function<Ours: SameFunction<Theirs>, Theirs: Copy>(_: Theirs) {}

/// Makes functions comparable, by the names of their arguments' types.
macro_rules! functions {
    ($($a:ident $b:ident)*) => {
        impl<R: Same<S>, S, $($a: Same<$b>, $b),*> SameFunction<unsafe fn($($b),*) -> S>
            for unsafe extern "C" fn($($a),*) -> R
        {
        }
    };
}

functions!();
functions!(A0 B0);
functions!(A0 B0 A1 B1);
functions!(A0 B0 A1 B1 A2 B2);
functions!(A0 B0 A1 B1 A2 B2 A3 B3);
functions!(A0 B0 A1 B1 A2 B2 A3 B3 A4 B4);
functions!(A0 B0 A1 B1 A2 B2 A3 B3 A4 B4 A5 B5);
functions!(A0 B0 A1 B1 A2 B2 A3 B3 A4 B4 A5 B5 A6 B6);
functions!(A0 B0 A1 B1 A2 B2 A3 B3 A4 B4 A5 B5 A6 B6 A7 B7 A8 B8 A9 B9 A10 B10);

/// Compares a list of entry points with the functions of the same names in `$bindings`. An entry
/// point with a later version in a later header is compared only with bindings of a header that
/// still has it. `cargo xtask coexist` brings bindings of CUDA 11 and 13.
macro_rules! same_entry_points {
    (@returned $status:ty) => { $status };
    (@returned $status:ty, $returned:ty) => { $returned };
    (@any $type:ty) => { _ };
    (@compare [] $($comparison:tt)*) => { $($comparison)* };
    (@compare ["CUDA 12.0"] $($comparison:tt)*) => { #[cfg(bindings_of_cuda_11)] $($comparison)* };
    (@compare ["CUDA 13.0"] $($comparison:tt)*) => { #[cfg(not(bindings_of_cuda_13))] $($comparison)* };
    (
        [$bindings:ident returns $status:ty]
        $(since $since:literal $(until $until:tt)?:
            fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $returned:ty)?;)*
    ) => { $(
        same_entry_points!(@compare [$($until)?] const _: () = same_function::<
            unsafe extern "C" fn($($type),*) -> same_entry_points!(@returned $status $(, $returned)?),
            unsafe fn($(same_entry_points!(@any $type)),*) -> _,
        >($bindings::$name););
    )* };
}
use same_entry_points;

/// Compares numbers with the numbers of the same names in `$bindings`, and the sizes of their
/// types.
macro_rules! same_numbers {
    ([$bindings:ident] $($(#[$attribute:meta])* enum $type:ident { $($name:ident = $value:literal),* $(,)? })*) => { $(
        same!($type = $bindings::$type);
        $(const _: () = assert!($bindings::$type::$name as u32 == $value);)*
    )* };
}
use same_numbers;
