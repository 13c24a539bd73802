//! What macros put into a user's crate that is `unsafe`.
//!
//! Here, and not in the procedural macros, because only a macro of this crate can name this crate: `::device_std` in the output of a
//! procedural macro means whatever the user's crate calls so, and the `unsafe` beside it would vouch for that (H42). So a procedural
//! macro writes no `unsafe` at all: a stand-in for this crate must bring its own, where `forbid(unsafe_code)` finds it.

/// The entry of a kernel in the PTX, and the tables of its layouts and parameters.
///
/// `$symbol` is the promise: whoever calls this by hand with another kernel's makes PTX that is not what the host takes it for, as
/// with a false file in `kernel_module!`.
#[doc(hidden)]
#[macro_export]
macro_rules! __entry {
    (
        $symbol:literal, $table:literal, $parameters:literal, $function:ident($($given:ident),*),
        ($($value:ident: $type:ty),*),
        slices = [$($slice:ident, $slice_len:ident, $slice_element:ident;)*],
        exclusive = [$($output:ident, $output_len:ident, $output_type:ident;)*],
        atomics = [$($atomic:ident, $atomic_len:ident, $atomic_type:ident;)*],
        shared = [$($shared:ident, $shared_type:ident, [$($before:ident)*];)*],
        index = [$($index:ident, $of:ident)?],
        block = [$($block:ident, $dimensions:ident, $x:literal, $y:literal)?],
        layout = [$($layout:ident $crossing:ident $(<$brand:lifetime>)?;)*],
        passed = [$($use:ident $passed:ty;)*],
    ) => {
        // Not an `unsafe` function, in whose body the kernel would be called where `unsafe` may go unsaid.
        #[unsafe(export_name = $symbol)]
        #[allow(improper_ctypes_definitions)]
        pub extern "ptx-kernel" fn __cuda_rt_entry($($value: $type,)* extent: $crate::Extent) {
            // SAFETY, of each: the launch is of this kernel, and passes what its signature says.
            $(let $slice = unsafe { $crate::rt::entry::slice::<$slice_element>($slice, $slice_len) };)*
            $(let $output = unsafe { $crate::rt::entry::exclusive::<$output_type<'_>>($output, $output_len) };)*
            $(let $atomic = unsafe { $crate::rt::entry::atomic::<$atomic_type<'_>>($atomic, $atomic_len) };)*
            $(let $shared = unsafe {
                $crate::rt::entry::shared::<
                    $shared_type<'_>,
                    { 0 $(+ <$before<'_> as $crate::rt::SharedArgument>::BYTES)* },
                >()
            };)*
            $(let $block = unsafe { $crate::rt::entry::block::<$crate::$dimensions>([$x, $y], extent) };)?
            $(let ::core::option::Option::Some($index) = (unsafe { $crate::rt::entry::$of(extent) }) else {
                return;
            };)?
            $function($($given),*);
        }

        #[unsafe(export_name = $table)]
        pub static __CUDA_RT_LAYOUT: [u64; const { [$(::core::stringify!($crossing)),*].len() }] =
            [$($crate::rt::$layout::<$crossing $(<$brand>)?>()),*];

        // What a launch passes, to be compared with what the entry in the PTX takes.
        #[unsafe(export_name = $parameters)]
        pub static __CUDA_RT_PARAMETERS: [u64; const { [$(::core::stringify!($use)),*].len() + 1 }] =
            [$($crate::rt::entry::$use::<$passed>(),)* $crate::rt::entry::value::<$crate::Extent>()];
    };
}

/// `Element` and `Scalar` for a struct of elements.
///
/// True whatever it is called with: `Pod`, a supertrait, has no padding, takes any bits, and is derived for `repr(C)` only; all fields
/// are in the hash, each once and with its own type, or the checks do not compile.
#[doc(hidden)]
#[macro_export]
macro_rules! __element {
    ($name:ident { $($member:tt: $type:ty,)* }) => {
        const _: fn($name) = |$name { $($member: _),* }| ();
        $(const _: fn($name) -> $type = |all| all.$member;)*

        // SAFETY: as above.
        unsafe impl $crate::Element for $name {
            const LAYOUT: u64 = $crate::layout::Layout::of::<$name>("struct")
                $(.field(
                    ::core::stringify!($member),
                    ::core::mem::offset_of!($name, $member),
                    <$type as $crate::Element>::LAYOUT,
                ))*
                .finish();
        }
        // SAFETY: as above.
        unsafe impl $crate::Scalar for $name {
            const LAYOUT: u64 = <$name as $crate::Element>::LAYOUT;
        }
    };
    // With parameters. They come as what they are, each a name, a type, a path or a lifetime: as mere tokens, bounds could end the
    // `impl` early and bring a body of their own, and a macro's name could swallow the one below.
    (
        $name:ident { $($member:tt: $type:ty,)* },
        types = [$($parameter:ident)*],
        constants = [$($constant:ident: $constant_type:ty;)*],
        arguments = [$($argument:ty,)*],
        bounds = [$([$($for:lifetime)*] $bounded:ty: $({ $($outlives:lifetime)? $(? $maybe:path;)? $([$($higher:lifetime)*] $bound:path)? })*;)*],
    ) => {
        const _: () = {
            #[allow(dead_code)]
            fn all<$($parameter,)* $(const $constant: $constant_type,)*>(all: $name<$($argument,)*>)
            where
                $(for<$($for),*> $bounded: $($($outlives +)? $(?$maybe +)? $(for<$($higher),*> $bound +)?)*,)*
            {
                let $name { $($member: _),* } = all;
            }
            #[allow(dead_code)]
            fn parts<$($parameter,)* $(const $constant: $constant_type,)*>(all: $name<$($argument,)*>) -> ($($type,)*)
            where
                $(for<$($for),*> $bounded: $($($outlives +)? $(?$maybe +)? $(for<$($higher),*> $bound +)?)*,)*
            {
                ($(all.$member,)*)
            }
        };

        // SAFETY: as above.
        #[allow(trivial_bounds)]
        unsafe impl<$($parameter,)* $(const $constant: $constant_type,)*> $crate::Element for $name<$($argument,)*>
        where
            $name<$($argument,)*>: $crate::bytemuck::Pod,
            $($type: $crate::Element,)*
            $(for<$($for),*> $bounded: $($($outlives +)? $(?$maybe +)? $(for<$($higher),*> $bound +)?)*,)*
        {
            const LAYOUT: u64 = $crate::layout::Layout::of::<$name<$($argument,)*>>("struct")
                $(.field(
                    ::core::stringify!($member),
                    ::core::mem::offset_of!(Self, $member),
                    <$type as $crate::Element>::LAYOUT,
                ))*
                .finish();
        }
        // SAFETY: as above.
        unsafe impl<$($parameter,)* $(const $constant: $constant_type,)*> $crate::Scalar for $name<$($argument,)*>
        where
            $name<$($argument,)*>: $crate::Element,
            $(for<$($for),*> $bounded: $($($outlives +)? $(?$maybe +)? $(for<$($higher),*> $bound +)?)*,)*
        {
            const LAYOUT: u64 = <$name<$($argument,)*> as $crate::Element>::LAYOUT;
        }
    };
}
