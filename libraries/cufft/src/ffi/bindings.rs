//! Compares the declarations with cudarc's bindings, which bindgen made from NVIDIA's header.
//!
//! The compiler does the comparison: if this module compiles, each function has the same arguments.
//! Two types are the same if both are the same type of number, pointers to the same type, or a
//! number here and an enum of the same size there.

use std::ffi::c_void;

use cudarc::cufft::sys;

use super::*;

/// A type that passes to C exactly as `Theirs` does.
trait Same<Theirs> {}

impl<A: Same<B>, B> Same<*mut B> for *mut A {}

macro_rules! same {
    ($($ours:ty = $theirs:ty),* $(,)?) => { $(
        impl Same<$theirs> for $ours {}
        const _: () = assert!(size_of::<$ours>() == size_of::<$theirs>());
    )* };
}

same!(
    c_void = c_void,
    c_int = c_int,
    c_longlong = c_longlong,
    usize = usize,
    f32 = f32,
    f64 = f64,
    c_int = sys::cufftType,
    c_int = sys::cufftResult,
    // Passed by pointer only. The alignment of the header's types is checked at each call.
    cufftComplex = sys::cufftComplex,
    cufftDoubleComplex = sys::cufftDoubleComplex,
    // Handles of streams, which are pointers to one struct of CUDA's.
    cudaStream_t = sys::cudaStream_t,
);

const _: () = assert!(align_of::<sys::cufftComplex>() == size_of::<cufftComplex>());
const _: () = assert!(align_of::<sys::cufftDoubleComplex>() == size_of::<cufftDoubleComplex>());

/// A function with the same arguments and result as `Theirs`.
trait SameFunction<Theirs> {}

/// Compiles if `Ours` is the same function as the argument.
const fn same_function<Ours: SameFunction<Theirs>, Theirs: Copy>(_: Theirs) {}

/// Makes functions comparable, by the names of their arguments' types.
macro_rules! functions {
    ($($a:ident $b:ident)*) => {
        impl<$($a: Same<$b>, $b),*> SameFunction<unsafe fn($($b),*) -> sys::cufftResult>
            for unsafe extern "C" fn($($a),*) -> c_int
        {
        }
    };
}

functions!(A0 B0);
functions!(A0 B0 A1 B1);
functions!(A0 B0 A1 B1 A2 B2);
functions!(A0 B0 A1 B1 A2 B2 A3 B3);
functions!(A0 B0 A1 B1 A2 B2 A3 B3 A4 B4 A5 B5 A6 B6 A7 B7 A8 B8 A9 B9 A10 B10 A11 B11);

macro_rules! same_functions {
    (@any $type:ty) => { _ };
    ($(since $since:literal: fn $name:ident($($argument:ident: $type:ty),* $(,)?);)*) => { $(
        const _: () = same_function::<
            unsafe extern "C" fn($($type),*) -> c_int,
            unsafe fn($(same_functions!(@any $type)),*) -> _,
        >(sys::$name);
    )* };
}

cufft_functions!(same_functions);

macro_rules! same_numbers {
    ($($name:ident)*) => { $(
        const _: () = assert!(sys::cufftType::$name as i32 == $name);
    )* };
}

same_numbers! { CUFFT_C2C CUFFT_R2C CUFFT_C2R CUFFT_Z2Z CUFFT_D2Z CUFFT_Z2D }

#[test]
fn statuses_have_the_names_of_the_header() {
    for status in [
        sys::cufftResult::CUFFT_SUCCESS,
        sys::cufftResult::CUFFT_INVALID_PLAN,
        sys::cufftResult::CUFFT_ALLOC_FAILED,
        sys::cufftResult::CUFFT_INVALID_TYPE,
        sys::cufftResult::CUFFT_INVALID_VALUE,
        sys::cufftResult::CUFFT_INTERNAL_ERROR,
        sys::cufftResult::CUFFT_EXEC_FAILED,
        sys::cufftResult::CUFFT_SETUP_FAILED,
        sys::cufftResult::CUFFT_INVALID_SIZE,
        sys::cufftResult::CUFFT_UNALIGNED_DATA,
        sys::cufftResult::CUFFT_INCOMPLETE_PARAMETER_LIST,
        sys::cufftResult::CUFFT_INVALID_DEVICE,
        sys::cufftResult::CUFFT_PARSE_ERROR,
        sys::cufftResult::CUFFT_NO_WORKSPACE,
        sys::cufftResult::CUFFT_NOT_IMPLEMENTED,
        sys::cufftResult::CUFFT_LICENSE_ERROR,
        sys::cufftResult::CUFFT_NOT_SUPPORTED,
    ] {
        assert_eq!(Status(status as i32).name(), format!("{status:?}"));
    }
}
