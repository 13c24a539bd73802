//! The `unsafe` code that macros put into a user's crate.
//!
//! Only a macro of this crate can name this crate, by `$crate`. In the output of a procedural
//! macro, `::device_std` means any crate that the user's crate calls `device_std`, and an `unsafe`
//! block beside that path would vouch for the wrong crate (H42). Therefore procedural macros write
//! no `unsafe`. A crate that takes the place of this one must write its own `unsafe`, and
//! `forbid(unsafe_code)` finds it there.

/// The entry of a kernel in the PTX, and the tables of its layouts and parameters.
///
/// The macro trusts `$symbol`. A program that calls the macro by hand with another kernel's symbol
/// makes PTX that the host mistakes for that kernel. A false file in `kernel_module!` has the same
/// effect (docs/soundness.md, "Doc-hidden macros called by hand").
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
        position = $position:ident,
        returned = [$($returned:ident, $returned_len:ident, $way:ident $returned_type:ident)?],
        layout = [$($layout:ident $crossing:ident $(<$brand:lifetime>)?;)*],
        passed = [$($use:ident $passed:ty;)*],
        checked = $checked:ident,
    ) => {
        // The entry is a safe function: in the body of an `unsafe` function, the user's tokens
        // could call unsafe functions without a block.
        #[unsafe(export_name = $symbol)]
        #[allow(improper_ctypes_definitions)]
        pub extern "ptx-kernel" fn __cuda_rt_entry<'k>($($value: $type,)* extent: $crate::Extent) {
            $($crate::rt::entry::ends_with_launch::<'k, $output_type<'k>>();)*
            $($crate::rt::entry::ends_with_launch::<'k, $atomic_type<'k>>();)*
            $($crate::rt::entry::ends_with_launch::<'k, $shared_type<'k>>();)*
            // Types stand outside the `unsafe` blocks, and only locals of this macro inside: no
            // name that the user's crate can define is resolved in a block.
            $(let $slice: &[$slice_element] = {
                let (start, len) = ($slice, $slice_len);
                // SAFETY: `$symbol` names this kernel, so the launch passes the arguments of this
                // signature: the address of `len` elements which nobody writes.
                unsafe { $crate::rt::entry::slice(start, len) }
            };)*
            $(let $output: $output_type<'_> = {
                let (start, len) = ($output, $output_len);
                // SAFETY: the launch passes the address of `len` elements which only it uses.
                unsafe { $crate::rt::entry::exclusive(start, len) }
            };)*
            $(let $atomic: $atomic_type<'_> = {
                let (start, len) = ($atomic, $atomic_len);
                // SAFETY: the launch passes the address of `len` elements which only its threads
                // use, atomically.
                unsafe { $crate::rt::entry::atomic(start, len) }
            };)*
            $(let $shared: $shared_type<'_> = {
                const OFFSET: $crate::__private::core::primitive::usize =
                    0 $(+ <$before<'static> as $crate::rt::SharedArgument>::BYTES)*;
                // SAFETY: the launch has the shared memory of all arguments, and each argument
                // begins where the argument before it ends.
                unsafe { $crate::rt::entry::shared::<_, { OFFSET }>() }
            };)*
            $(let $block: $crate::Block<'_, $crate::$dimensions> = {
                let size = [$x, $y];
                // SAFETY: the macro's caller gives the `size` that the kernel was compiled for, and
                // this is the only block of the thread.
                unsafe { $crate::rt::entry::block(size, extent) }
            };)?
            $(
                let current: $crate::__private::core::option::Option<$crate::$of<'_>> =
                    // SAFETY: the launch has this extent, and the dimensions of the index.
                    unsafe { $crate::rt::entry::index(extent) };
                let $crate::__private::core::option::Option::Some($index) = current else {
                    return;
                };
            )?
            $(
                let place = $crate::rt::HasPlace::place(&$position);
                let runs = $crate::rt::entry::runs::<$crate::rt::Written<$returned_type, $crate::rt::$way>>;
                if !runs($returned, $returned_len, &place) {
                    return;
                }
            )?
            let _value = $function($($given),*);
            $(
                let write = $crate::rt::entry::returned::<$crate::rt::Written<$returned_type, $crate::rt::$way>>;
                let (start, len) = ($returned, $returned_len);
                // SAFETY: the launch passes the address of `len` elements which only it uses.
                // `place` was made from this thread's own index or block, and `runs` holds.
                unsafe { write(start, len, &place, _value) }
            )?
        }

        #[unsafe(export_name = $table)]
        pub static __CUDA_RT_LAYOUT: [
            $crate::rt::Row;
            $crate::rt::count(&[
                $($crate::__private::core::stringify!($crossing),)*
                $($crate::__private::core::stringify!($returned_type),)?
            ]) + 1
        ] = {
            $checked;
            [
                $($crate::rt::entry::index_layout::<$crate::$of<'static>>(),)?
                $($crate::rt::entry::block_layout::<$crate::$dimensions>([$x, $y]),)?
                $($crate::rt::$layout::<$crossing $(<$brand>)?>(),)*
                $($crate::rt::returned_layout::<$crate::rt::Written<$returned_type, $crate::rt::$way>>(),)?
            ]
        };

        // The parameters that a launch passes; `kernel-build` compares them with the entry in the
        // PTX.
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
/// The impls are sound for all arguments. `Pod`, a supertrait, takes every bit pattern, and is
/// derived for `repr(C)` only. [`Fields`](crate::layout::Fields) compiles only if the hash holds
/// each field once, with the field's own offset and type.
#[doc(hidden)]
#[macro_export]
macro_rules! __element {
    ($name:ident { $($member:tt: $type:ty,)* }) => {
        // SAFETY: `Fields` below compiles only with every field in the hash, and `Pod` takes every
        // bit pattern.
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
        // SAFETY: the `Element` above has the same layout, and every bit pattern is a value.
        unsafe impl $crate::Scalar for $name {
            const LAYOUT: $crate::__private::core::primitive::u64 = <Self as $crate::Element>::LAYOUT;
        }
        // Evaluates the assertions in `Fields`, whether or not the constant is used.
        const _: $crate::__private::core::primitive::u64 = <$name as $crate::Element>::LAYOUT;
    };
    // For a struct with parameters. Each part of a bound is matched as a name, a type, a path or a
    // lifetime. As plain tokens, bounds could end the `impl` early and bring a body of their own,
    // or a macro call could swallow the body below.
    (
        $name:ident { $($member:tt: $type:ty,)* },
        types = [$($parameter:ident)*],
        constants = [$($constant:ident: $constant_type:ty;)*],
        arguments = [$($argument:ty,)*],
        bounds = [$([$($for:lifetime)*] $bounded:ty: $({ $($outlives:lifetime)? $(? $maybe:path;)? $([$($higher:lifetime)*] $bound:path)? })*;)*],
    ) => {
        // SAFETY: `Fields` below compiles only with every field in the hash, and `Pod` takes every
        // bit pattern.
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
        // SAFETY: the `Element` above has the same layout, and every bit pattern is a value.
        unsafe impl<$($parameter,)* $(const $constant: $constant_type,)*> $crate::Scalar for $name<$($argument,)*>
        where
            $name<$($argument,)*>: $crate::Element,
            $(for<$($for),*> $bounded: $($($outlives +)? $(?$maybe +)? $(for<$($higher),*> $bound +)?)*,)*
        {
            const LAYOUT: $crate::__private::core::primitive::u64 = <Self as $crate::Element>::LAYOUT;
        }
    };
}
