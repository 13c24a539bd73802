//! What macros put into a user's crate that is `unsafe`.
//!
//! Here, and not in the procedural macros, because only a macro of this crate can name this crate:
//! `::device_std` in the output of a procedural macro means whatever the user's crate calls so, and
//! the `unsafe` beside it would vouch for that (H42). So a procedural macro writes no `unsafe` at
//! all: a stand-in for this crate must bring its own, where `forbid(unsafe_code)` finds it.

/// The entry of a kernel in the PTX, and the tables of its layouts and parameters.
///
/// `$symbol` is the promise: whoever calls this by hand with another kernel's makes PTX that is not
/// what the host takes it for, as with a false file in `kernel_module!` (docs/soundness.md,
/// "Doc-hidden macros called by hand").
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
        checked = $checked:ident,
    ) => {
        // Not an `unsafe` function, in whose body the kernel would be called where `unsafe` may go
        // unsaid.
        #[unsafe(export_name = $symbol)]
        #[allow(improper_ctypes_definitions)]
        pub extern "ptx-kernel" fn __cuda_rt_entry<'k>($($value: $type,)* extent: $crate::Extent) {
            $($crate::rt::entry::ends_with_launch::<'k, $output_type<'k>>();)*
            $($crate::rt::entry::ends_with_launch::<'k, $atomic_type<'k>>();)*
            $($crate::rt::entry::ends_with_launch::<'k, $shared_type<'k>>();)*
            // Types stand outside the blocks, and locals inside: what a name of the user's crate
            // means is never `unsafe` to say.
            $(let $slice: &[$slice_element] = {
                let (start, len) = ($slice, $slice_len);
                // SAFETY: the launch is of this kernel, and passes what its signature says, here
                // and below.
                unsafe { $crate::rt::entry::slice(start, len) }
            };)*
            $(let $output: $output_type<'_> = {
                let (start, len) = ($output, $output_len);
                // SAFETY: as above.
                unsafe { $crate::rt::entry::exclusive(start, len) }
            };)*
            $(let $atomic: $atomic_type<'_> = {
                let (start, len) = ($atomic, $atomic_len);
                // SAFETY: as above.
                unsafe { $crate::rt::entry::atomic(start, len) }
            };)*
            $(let $shared: $shared_type<'_> = {
                const OFFSET: $crate::__private::core::primitive::usize =
                    0 $(+ <$before<'static> as $crate::rt::SharedArgument>::BYTES)*;
                // SAFETY: as above; each argument begins where the last one ends.
                unsafe { $crate::rt::entry::shared::<_, { OFFSET }>() }
            };)*
            $(let $block: $crate::Block<'_, $crate::$dimensions> = {
                let size = [$x, $y];
                // SAFETY: as above.
                unsafe { $crate::rt::entry::block(size, extent) }
            };)?
            $(
                let current: $crate::__private::core::option::Option<$crate::$of<'_>> =
                    // SAFETY: as above.
                    unsafe { $crate::rt::entry::index(extent) };
                let $crate::__private::core::option::Option::Some($index) = current else {
                    return;
                };
            )?
            $function($($given),*);
        }

        #[unsafe(export_name = $table)]
        pub static __CUDA_RT_LAYOUT: [
            $crate::rt::Row;
            $crate::rt::count(&[$($crate::__private::core::stringify!($crossing)),*]) + 1
        ] = {
            $checked;
            [
                $($crate::rt::entry::index_layout::<$crate::$of<'static>>(),)?
                $($crate::rt::entry::block_layout::<$crate::$dimensions>([$x, $y]),)?
                $($crate::rt::$layout::<$crossing $(<$brand>)?>()),*
            ]
        };

        // What a launch passes, to be compared with what the entry in the PTX takes.
        #[unsafe(export_name = $parameters)]
        pub static __CUDA_RT_PARAMETERS: [
            $crate::__private::core::primitive::u64;
            $crate::rt::count(&[$($crate::__private::core::stringify!($use)),*]) + 1
        ] =
            [$($crate::rt::entry::$use::<$passed>(),)* $crate::rt::entry::value::<$crate::Extent>()];
    };
}

/// `Element` and `Scalar` for a struct of elements.
///
/// True whatever it is called with: `Pod`, a supertrait, takes any bits, and is derived for
/// `repr(C)` only. All fields are in the hash, each once, where it lies and with its own type, or
/// [`Fields`](crate::layout::Fields) does not compile.
#[doc(hidden)]
#[macro_export]
macro_rules! __element {
    ($name:ident { $($member:tt: $type:ty,)* }) => {
        // SAFETY: as above.
        unsafe impl $crate::Element for $name {
            const LAYOUT: $crate::__private::core::primitive::u64 =
                $crate::layout::Fields::<Self>::of(|Self { $($member: _),* }: Self| ())
                    $(.field::<$type>(
                        $crate::__private::core::stringify!($member),
                        $crate::__private::core::mem::offset_of!(Self, $member),
                        |all: Self| all.$member,
                    ))*
                    .finish();
        }
        // SAFETY: as above.
        unsafe impl $crate::Scalar for $name {
            const LAYOUT: $crate::__private::core::primitive::u64 = <Self as $crate::Element>::LAYOUT;
        }
        // Evaluated whether or not it is used.
        const _: $crate::__private::core::primitive::u64 = <$name as $crate::Element>::LAYOUT;
    };
    // With parameters. They come as what they are, each a name, a type, a path or a lifetime: as
    // mere tokens, bounds could end the `impl` early and bring a body of their own, and a macro's
    // name could swallow the one below.
    (
        $name:ident { $($member:tt: $type:ty,)* },
        types = [$($parameter:ident)*],
        constants = [$($constant:ident: $constant_type:ty;)*],
        arguments = [$($argument:ty,)*],
        bounds = [$([$($for:lifetime)*] $bounded:ty: $({ $($outlives:lifetime)? $(? $maybe:path;)? $([$($higher:lifetime)*] $bound:path)? })*;)*],
    ) => {
        // SAFETY: as above.
        #[allow(trivial_bounds)]
        unsafe impl<$($parameter,)* $(const $constant: $constant_type,)*> $crate::Element for $name<$($argument,)*>
        where
            $name<$($argument,)*>: $crate::bytemuck::Pod,
            $($type: $crate::Element,)*
            $(for<$($for),*> $bounded: $($($outlives +)? $(?$maybe +)? $(for<$($higher),*> $bound +)?)*,)*
        {
            const LAYOUT: $crate::__private::core::primitive::u64 =
                $crate::layout::Fields::<Self>::of(|Self { $($member: _),* }: Self| ())
                    $(.field::<$type>(
                        $crate::__private::core::stringify!($member),
                        $crate::__private::core::mem::offset_of!(Self, $member),
                        |all: Self| all.$member,
                    ))*
                    .finish();
        }
        // SAFETY: as above.
        unsafe impl<$($parameter,)* $(const $constant: $constant_type,)*> $crate::Scalar for $name<$($argument,)*>
        where
            $name<$($argument,)*>: $crate::Element,
            $(for<$($for),*> $bounded: $($($outlives +)? $(?$maybe +)? $(for<$($higher),*> $bound +)?)*,)*
        {
            const LAYOUT: $crate::__private::core::primitive::u64 = <Self as $crate::Element>::LAYOUT;
        }
    };
}
