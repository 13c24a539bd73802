//! [`foreign_kernel!`](crate::foreign_kernel), which declares kernels that cuda-rt did not build.

use super::function::ForeignFunction;
use super::parameters::ForeignParameters;

/// A kernel that [`foreign_kernel!`](crate::foreign_kernel) declared: a name, parameters, and the
/// promise of the declaration. The macro implements it.
///
/// # Safety
/// In each module from which the program [gets](super::ForeignModule::get) the kernel, the entry
/// `NAME` keeps the promise of [`foreign_kernel!`](crate::foreign_kernel) for `Parameters`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no declared kernel",
    note = "declare it: `cuda_rt::foreign_kernel! {{ pub unsafe fn entry(..) as {Self}; }}`"
)]
pub unsafe trait ForeignKernel: Sized + 'static {
    /// The parameters, as types.
    type Parameters: ForeignParameters;
    /// The name of the entry.
    const NAME: &'static str;
    #[doc(hidden)]
    const FILE: &'static str;
    #[doc(hidden)]
    const LINE: u32;
    #[doc(hidden)]
    const PARAMETER_NAMES: &'static [&'static str];

    #[doc(hidden)]
    fn from_function(function: ForeignFunction<Self>) -> Self;
}

/// Declares kernels that cuda-rt did not build: of PTX, cubins or fatbins that are loaded at run
/// time ([`ForeignModule`](crate::interop::ForeignModule)). Each declaration makes a type with a
/// method `launch`.
///
/// ```
/// use cuda_rt::interop::{ForeignGrid, ForeignModule};
///
/// cuda_rt::streams! { pub Compute; }
///
/// cuda_rt::foreign_kernel! {
///     /// Adds `a` times `x` to `y`, up to the shorter length.
///     ///
///     /// In CUDA C++: `extern "C" __global__ void saxpy(unsigned n, float a, const float *x,
///     /// float *y)`. The promise: the kernel touches the first `n` elements only, which both
///     /// slices have.
///     pub unsafe fn saxpy(n: u32 = y.len(), a: f32, x: &[f32], y: &mut [f32]) as Saxpy;
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let gpu = cuda_rt::Device::open_or_simulate()?;
/// let module = ForeignModule::load(&gpu, include_bytes!("saxpy.ptx"))?;
/// let module = module.stand_in::<Saxpy>(|_grid, (n, a, x, y)| {
///     for (y, x) in y.iter_mut().zip(x).take(n as usize) {
///         *y += a * x;
///     }
/// });
/// let saxpy = module.get::<Saxpy>()?;
///
/// let compute = gpu.stream::<Compute>()?;
/// let x = compute.alloc_from_slice(&[1.0_f32, 2.0, 3.0])?;
/// let mut y = compute.alloc_from_slice(&[10.0_f32, 20.0, 30.0])?;
/// let grid = ForeignGrid::covering([3, 1, 1], [128, 1, 1]);
/// saxpy.launch(&compute, grid, 2.0, &x, &mut y)?; // `n` is no argument
/// assert_eq!(compute.copy_to_vec(&y)?, [12.0, 24.0, 36.0]);
/// # Ok(())
/// # }
/// ```
///
/// # Syntax
///
/// `unsafe fn entry(parameters) as Type;`: `entry` is the name of the kernel in the module, as it
/// stands there (C++ changes names, except behind `extern "C"`). `Type` is the type that the
/// declaration makes. Parameters stand in the order of the kernel's own:
///
/// | declared | passed to the kernel | a launch takes |
/// |---|---|---|
/// | `x: &[T]` | a pointer, and **no length** | `&DeviceSlice<T, _>` of the stream |
/// | `y: &mut [T]` | a pointer, and **no length** | `&mut DeviceSlice<T, _>` of the stream |
/// | `a: T` | the value, `size_of::<T>()` bytes | a `T` that is an [`Element`] |
/// | `n: T = x.len()` | the length of `x` in elements, as a `T` | nothing |
///
/// Some types of C++:
///
/// | C++ | declared |
/// |---|---|
/// | `float`, `double`, `int`, `unsigned`, `size_t` | `f32`, `f64`, `i32`, `u32`, `u64` |
/// | `bool` | `u8`: a launch passes 0 or 1 |
/// | a struct, by value | a struct of the same layout that derives [`Element`] |
/// | `const float *`, `float *` | `&[f32]`, `&mut [f32]` |
/// | a pointer that is always null | `u64`: a launch passes 0; a slice is never null |
///
/// `x` in `x.len()` is a declared slice, before or after it. A length that is too large for its
/// type is an error of the launch. An empty slice has the address of no memory. A declaration has
/// 24 parameters at most.
///
/// [`Element`]: trait@crate::Element
///
/// # Safety
///
/// The word `unsafe` stands for a promise about **each module from which code that can name the
/// type gets the kernel** ([`ForeignModule::get`](crate::interop::ForeignModule::get)). So keep the
/// type as private as the code that chooses modules. For each launch with a grid that this code can
/// pass:
///
/// 1. The kernel reads only the declared slices, and writes only slices declared `&mut`, within
///    their lengths. The checks that this needs are the kernel's own: a launch compares no grid
///    with a length. Other memory of the device (`__device__` variables, memory of its own
///    allocation) is not in a data race with other launches either.
/// 2. It takes the parameters with the declared types: a slice of `f32` is no slice of `double`. It
///    leaves values of the element type, which any bits are.
/// 3. There is no data race between its threads.
/// 4. It ends, and keeps no pointer for a later launch.
///
/// What is compared at run time: the entry exists, and takes as many parameters, of the same sizes.
/// Where PTX states `.f32` or `.f64`, an integer or a slice is refused, and where it states an
/// integer (`.u32`, `.s32`, `.u64` or `.s64`), a float. Otherwise, and in a cubin, nothing tells
/// `float` from `int`. Nothing tells a pointer from an integer of 8 bytes.
///
/// The lint `unsafe_code` sees the word: where it is forbidden, no kernel can be declared.
///
/// # Hazards prevented
/// [H01](crate::hazards#h01)–[H03](crate::hazards#h03): a launch takes memory of its own stream.
/// [H29](crate::hazards#h29): no memory is read and written in one launch.
#[macro_export]
macro_rules! foreign_kernel {
    ($($declarations:tt)*) => {
        $crate::__foreign_kernel! { @declarations [] $($declarations)* }
    };
}

/// The rules of [`foreign_kernel!`](crate::foreign_kernel), parameter by parameter. The lists are
/// the parameters of `launch`, the types of the parameters, their names, the arguments, and the
/// lengths.
#[doc(hidden)]
#[macro_export]
macro_rules! __foreign_kernel {
    // One declaration after another. `unsafe` and the semicolon are kept as the user's tokens.
    (@declarations []) => {};
    (@declarations [$($about:tt)*] #[$next:meta] $($rest:tt)*) => {
        $crate::__foreign_kernel! { @declarations [$($about)* #[$next]] $($rest)* }
    };
    (
        @declarations [$($about:tt)*]
        pub ($($in:tt)*) $keyword:tt fn $entry:ident($($parameters:tt)*) as $Kernel:ident $end:tt $($rest:tt)*
    ) => {
        $crate::__foreign_kernel! {
            @promised $keyword $end { [$($about)*] [pub ($($in)*)] $keyword $entry $Kernel $end } $($parameters)*
        }
        $crate::__foreign_kernel! { @declarations [] $($rest)* }
    };
    (
        @declarations [$($about:tt)*]
        pub $keyword:tt fn $entry:ident($($parameters:tt)*) as $Kernel:ident $end:tt $($rest:tt)*
    ) => {
        $crate::__foreign_kernel! {
            @promised $keyword $end { [$($about)*] [pub] $keyword $entry $Kernel $end } $($parameters)*
        }
        $crate::__foreign_kernel! { @declarations [] $($rest)* }
    };
    (
        @declarations [$($about:tt)*]
        $keyword:tt fn $entry:ident($($parameters:tt)*) as $Kernel:ident $end:tt $($rest:tt)*
    ) => {
        $crate::__foreign_kernel! {
            @promised $keyword $end { [$($about)*] [] $keyword $entry $Kernel $end } $($parameters)*
        }
        $crate::__foreign_kernel! { @declarations [] $($rest)* }
    };
    (@promised unsafe ; $head:tt $($parameters:tt)*) => {
        $crate::__foreign_kernel! { @munch $head [] [] [] [] [] $($parameters)*, }
    };
    // Behind the rule above: the rules below may be called by hand.
    (@checked unsafe ;) => {};
    ($(@promised $($other:tt)*)? $(@checked $($unchecked:tt)*)? $(@declarations $($unread:tt)*)?) => {
        $crate::__private::core::compile_error! {
            "write `unsafe fn entry(parameters) as Type;`, where `unsafe` stands for a promise about the kernel \
             (H42: see the page of `foreign_kernel!`)"
        }
    };
    (
        @munch $head:tt [$($taken:tt)*] [$($type:tt)*] [$($name:tt)*] [$($passed:tt)*] [$($len:tt)*]
        $next:ident: &mut [$T:ty], $($rest:tt)*
    ) => {
        $crate::__foreign_kernel! {
            @munch $head
            [$($taken)* [$next: &mut $crate::DeviceSlice<$T, impl $crate::WriteBy<__CudaRtStream>>]]
            [$($type)* [$crate::interop::Write<$T>]]
            [$($name)* $next]
            [$($passed)* [$crate::kernel::WriteArg::new($next)]]
            [$($len)*]
            $($rest)*
        }
    };
    (
        @munch $head:tt [$($taken:tt)*] [$($type:tt)*] [$($name:tt)*] [$($passed:tt)*] [$($len:tt)*]
        $next:ident: &[$T:ty], $($rest:tt)*
    ) => {
        $crate::__foreign_kernel! {
            @munch $head
            [$($taken)* [$next: &$crate::DeviceSlice<$T, impl $crate::ReadBy<__CudaRtStream>>]]
            [$($type)* [$crate::interop::Read<$T>]]
            [$($name)* $next]
            [$($passed)* [$crate::kernel::ReadArg::new($next)]]
            [$($len)*]
            $($rest)*
        }
    };
    (
        @munch $head:tt $taken:tt $type:tt $name:tt $passed:tt $len:tt
        $next:ident: * $($rest:tt)*
    ) => {
        $crate::__private::core::compile_error! {
            $crate::__private::core::concat!(
                "`", $crate::__private::core::stringify!($next), "` is a raw pointer, and a launch takes memory of its \
                 stream: declare `", $crate::__private::core::stringify!($next), ": &[T]` if the kernel reads it, and `",
                $crate::__private::core::stringify!($next), ": &mut [T]` if it writes it (H31)"
            )
        }
    };
    (
        @munch $head:tt $taken:tt $type:tt $name:tt $passed:tt $len:tt
        $next:ident: bool $($rest:tt)*
    ) => {
        $crate::__private::core::compile_error! {
            $crate::__private::core::concat!(
                "`", $crate::__private::core::stringify!($next), "` is a `bool`, and not any bits are one: a `bool` of \
                 C++ is one byte, so declare `", $crate::__private::core::stringify!($next), ": u8`, and pass 0 or 1 (H31)"
            )
        }
    };
    (
        @munch $head:tt [$($taken:tt)*] [$($type:tt)*] [$($name:tt)*] [$($passed:tt)*] [$($len:tt)*]
        $next:ident: $T:ty = $of:ident.len(), $($rest:tt)*
    ) => {
        $crate::__foreign_kernel! {
            @munch $head
            [$($taken)*]
            [$($type)* [$crate::interop::Value<$T>]]
            [$($name)* $next]
            [$($passed)* [$next]]
            [$($len)* [$next: $T = $of]]
            $($rest)*
        }
    };
    (
        @munch $head:tt $taken:tt $type:tt $name:tt $passed:tt $len:tt
        $next:ident: $T:ty = $($rest:tt)*
    ) => {
        $crate::__private::core::compile_error! {
            $crate::__private::core::concat!(
                "`", $crate::__private::core::stringify!($next), "` is not filled in: a length is `",
                $crate::__private::core::stringify!($next), ": u32 = y.len()`, where `y` is a declared slice; for \
                 any other number declare `", $crate::__private::core::stringify!($next), ": u32`, and pass it at the launch"
            )
        }
    };
    (
        @munch $head:tt [$($taken:tt)*] [$($type:tt)*] [$($name:tt)*] [$($passed:tt)*] [$($len:tt)*]
        $next:ident: $T:ty, $($rest:tt)*
    ) => {
        $crate::__foreign_kernel! {
            @munch $head
            [$($taken)* [$next: $T]]
            [$($type)* [$crate::interop::Value<$T>]]
            [$($name)* $next]
            [$($passed)* [$next]]
            [$($len)*]
            $($rest)*
        }
    };
    // The comma behind the last parameter, or behind none.
    (
        @munch { [$($about:tt)*] [$($vis:tt)*] $keyword:tt $entry:ident $Kernel:ident $end:tt }
        [$([$taken:ident: $($Taken:tt)*])*] [$([$($Type:tt)*])*] [$($name:ident)*] [$([$($passed:tt)*])*]
        [$([$length:ident: $Length:ty = $of:ident])*]
        $(,)?
    ) => {
        $($about)*
        #[derive($crate::__private::core::clone::Clone, $crate::__private::core::fmt::Debug)]
        $($vis)* struct $Kernel($crate::interop::ForeignFunction<Self>);

        // Of the user's tokens only, so that the lint `unsafe_code` sees the user's `unsafe`: rustc
        // reports no lint about the tokens of another crate's macro.
        const _: () = {
            #[allow(dead_code, non_snake_case, reason = "stands for the declaration")]
            trait Declaration {
                $keyword fn $entry() $end
            }
        };

        $crate::__foreign_kernel! { @checked $keyword $end }

        // SAFETY: the declaration promises it: a declaration without `unsafe` does not compile.
        unsafe impl $crate::interop::ForeignKernel for $Kernel {
            type Parameters = ($($($Type)*,)*);
            const NAME: &'static $crate::__private::core::primitive::str =
                $crate::__private::core::stringify!($entry);
            const FILE: &'static $crate::__private::core::primitive::str = $crate::__private::core::file!();
            const LINE: $crate::__private::core::primitive::u32 = $crate::__private::core::line!();
            const PARAMETER_NAMES: &'static [&'static $crate::__private::core::primitive::str] =
                &[$($crate::__private::core::stringify!($name)),*];

            fn from_function(function @ _: $crate::interop::ForeignFunction<Self>) -> Self {
                Self(function)
            }
        }

        impl $Kernel {
            /// Launches the kernel (`cuLaunchKernel`). Stream-ordered. If the grid has no blocks,
            /// nothing is launched.
            ///
            /// # Errors
            /// `Error::Grid` and `Error::Launch`. A simulated device refuses a kernel without a
            /// stand-in, and each device a kernel of a module that another device loaded.
            #[track_caller]
            #[allow(clippy::too_many_arguments, reason = "the parameters of a foreign kernel")]
            $($vis)* fn launch<__CudaRtStream: $crate::StreamTag>(
                &self,
                stream @ _: &$crate::Stream<__CudaRtStream>,
                grid @ _: $crate::interop::ForeignGrid,
                $($taken @ _: $($Taken)*,)*
            ) -> $crate::Result<()> {
                // Before the slices are borrowed as the kernel uses them.
                $(
                    let $length @ _: $Length = $crate::interop::__length::<Self, $Length>(
                        $crate::DeviceSlice::len($of),
                        $crate::__private::core::stringify!($length),
                    )?;
                )*
                $crate::interop::ForeignFunction::__launch(&self.0, stream, grid, ($($($passed)*,)*))
            }
        }
    };
    // What is no parameter. Behind all other rules of `@munch`.
    (
        @munch $head:tt $taken:tt $type:tt $name:tt $passed:tt $len:tt
        $($rest:tt)*
    ) => {
        $crate::__private::core::compile_error! {
            "a parameter of a foreign kernel is `x: &[T]`, `x: &mut [T]`, a value `x: T`, or a length `n: u32 = x.len()`"
        }
    };
}
