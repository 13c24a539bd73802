//! The `unsafe` code that macros put into a user's crate.
//!
//! Only a macro of this crate can name this crate, by `$crate`. In the output of a procedural
//! macro, `::device_std` means any crate that the user's crate calls `device_std`, and an `unsafe`
//! block beside that path would vouch for the wrong crate (H42). Therefore procedural macros write
//! no `unsafe`.
//!
//! Nor do the macros below believe their caller. Any crate can call them by hand, and a crate that
//! takes the place of this one can call them with other arguments than `#[kernel]` wrote. So each
//! writes its promise, and everything that the promise is about, from the same tokens.

/// The entry of a kernel in the PTX, and the tables of its layouts and parameters.
///
/// `parameters` has one group for each buffer, argument in shared memory and scalar of the kernel's
/// function, in any order. From a group, the macro writes the entry's parameters, the argument that
/// the function gets, the row of the layout table and the words of the table of parameters. So the
/// tables say how the entry uses its parameters, whoever calls the macro.
///
/// Each group, the parameters that it makes in the PTX, and the function's argument:
///
/// - `slice(start, len: T)`: address, length. Argument: `&[T]`.
/// - `exclusive(start, len: Output)`: address, length. Argument: `Output<'k>`, each thread with its
///   own elements.
/// - `atomic(start, len: Output)`: address, length. Argument: `Output<'k>`, changed atomically.
/// - `shared(memory: Shared)`: no parameter. Argument: `Shared<'k>`, behind the argument in shared
///   memory before it.
/// - `scalar(value: T)`: the value. Argument: `T`.
/// - `returned(start, len: Way T)`: address, length. No argument: the entry writes what the
///   function returns. Both names are `()` before the function is called. Counterexample: a
///   function got the memory as a `&mut [T; 0]`, and its length.
///
/// The host compares the layout table with its own before it launches the entry. Memory safety
/// rests on the rows alone. The name of the entry only decides which entry that is, so a caller may
/// choose any. Counterexample to separate lists of parameters, openings and rows: an entry took a
/// scalar for the length of its output, and wrote beyond it; another entry wrote to a buffer that
/// its row called an input.
///
/// All types are single names. Each name is bound with `mut`: rustc then refuses a constant of the
/// user's crate that has this name (E0530), where a name alone would be a pattern of the constant.
/// Counterexample: a constant `start` of type `&mut [T; 0]` was a pattern that always fits, and its
/// address took the place of the buffer's. Nothing but a launch can call the entry: rustc refuses
/// calls of functions with its ABI.
#[doc(hidden)]
#[macro_export]
macro_rules! __entry {
    (
        $symbol:literal, $function:ident($($given:ident),*),
        parameters = [$(
            $(slice($slice:ident, $slice_len:ident: $slice_element:ident))?
            $(exclusive($output:ident, $output_len:ident: $output_type:ident))?
            $(atomic($atomic:ident, $atomic_len:ident: $atomic_type:ident))?
            $(shared($shared:ident: $shared_type:ident))?
            $(scalar($scalar:ident: $scalar_type:ident))?
            $(returned($returned:ident, $returned_len:ident: $way:ident $returned_type:ident))?
        ;)*],
        $(index = $index:ident: $of:ident,)?
        $(block = $block:ident: $dimensions:ident($x:literal, $y:literal),)?
        checked = $checked:ident,
    ) => {
        // In a block of its own: no other code can name the entry or its tables.
        const _: () = {
            // The entry is a safe function: in the body of an `unsafe` function, the user's tokens
            // could call unsafe functions without a block.
            #[unsafe(export_name = $symbol)]
            #[allow(improper_ctypes_definitions, unused_mut, unused_variables)]
            pub extern "ptx-kernel" fn __cuda_rt_entry<'k>(
                $(
                    $(
                        mut $slice: &'k [$slice_element; 0],
                        mut $slice_len: $crate::__private::core::primitive::usize,
                    )?
                    $(
                        mut $output: &'k mut [<$output_type<'k> as $crate::rt::OutputArgument>::Element; 0],
                        mut $output_len: $crate::__private::core::primitive::usize,
                    )?
                    $(
                        mut $atomic: *mut <$atomic_type<'k> as $crate::rt::OutputArgument>::Element,
                        mut $atomic_len: $crate::__private::core::primitive::usize,
                    )?
                    $(mut $scalar: $scalar_type,)?
                    $(
                        mut $returned: &'k mut [
                            <$returned_type as $crate::rt::ReturnedValue<$crate::rt::$way>>::Element;
                            0
                        ],
                        mut $returned_len: $crate::__private::core::primitive::usize,
                    )?
                )*
                mut extent: $crate::Extent,
            ) {
                $(
                    $($crate::rt::entry::ends_with_launch::<'k, $output_type<'k>>();)?
                    $($crate::rt::entry::ends_with_launch::<'k, $atomic_type<'k>>();)?
                    $($crate::rt::entry::ends_with_launch::<'k, $shared_type<'k>>();)?
                )*
                // Types stand outside the `unsafe` blocks, and only locals of this macro inside: no
                // name that the user's crate can define is resolved in a block.
                $($(let mut $slice: &'k [$slice_element] = {
                    let (mut start, mut len) = ($slice, $slice_len);
                    // SAFETY: the layout table says that these two parameters are the address and
                    // length of elements of this type which nobody writes. A launch passes them:
                    // the host compared the table with its own.
                    unsafe { $crate::rt::entry::slice(start, len) }
                };)?)*
                $($(let mut $output: $output_type<'k> = {
                    let (mut start, mut len) = ($output, $output_len);
                    // SAFETY: the layout table says that these two parameters are the address and
                    // length of an output of this type, which only this launch uses.
                    unsafe { $crate::rt::entry::exclusive(start, len) }
                };)?)*
                $($(let mut $atomic: $atomic_type<'k> = {
                    let (mut start, mut len) = ($atomic, $atomic_len);
                    // SAFETY: the layout table says that these two parameters are the address and
                    // length of an output of this type, which only this launch uses.
                    unsafe { $crate::rt::entry::atomic(start, len) }
                };)?)*
                let mut offset = 0;
                $($(
                    let mut $shared: $shared_type<'k> = {
                        // SAFETY: the layout table has the size of each argument in shared memory,
                        // and a launch has as much. Each argument begins where the one before it
                        // ends.
                        unsafe { $crate::rt::entry::shared(offset) }
                    };
                    let mut offset = offset + <$shared_type<'static> as $crate::rt::SharedArgument>::BYTES;
                )?)*
                let _ = offset;
                // The caller's names for the memory of the returned values mean nothing from here
                // on: the function cannot get the memory.
                $($(
                    let (mut returned, mut returned_len) = ($returned, $returned_len);
                    let (mut $returned, mut $returned_len) = ((), ());
                )?)*
                $(let mut $block: $crate::Block<'k, $crate::$dimensions> = {
                    let mut size = [$x, $y];
                    // SAFETY: the layout table has this `size`, and the dimensions. This is the
                    // only block of the thread: the table has one row for index and block.
                    unsafe { $crate::rt::entry::block(size, extent) }
                };
                let mut place = || $crate::rt::HasPlace::place(&$block);)?
                $(
                    let mut current: $crate::__private::core::option::Option<$crate::$of<'k>> =
                        // SAFETY: the launch has this extent, and by the layout table the
                        // dimensions of the index.
                        unsafe { $crate::rt::entry::index(extent) };
                    let $crate::__private::core::option::Option::Some(mut $index) = current else {
                        return;
                    };
                    let mut place = || $crate::rt::HasPlace::place(&$index);
                )?
                $($(
                    let mut place = place();
                    let mut runs = $crate::rt::entry::runs::<$crate::rt::Written<$returned_type, $crate::rt::$way>>;
                    if !runs(returned, returned_len, &place) {
                        return;
                    }
                )?)*
                // In a closure, because `return` is an identifier to a macro: as the name of the
                // function it would leave the entry before the value is written.
                let mut _value = (|| $function($($given),*))();
                $($(
                    let mut write = $crate::rt::entry::returned::<$crate::rt::Written<$returned_type, $crate::rt::$way>>;
                    // SAFETY: the layout table says that these two parameters are the address and
                    // length of an output for what the function returns, which only this launch
                    // uses. `place` was made from this thread's own index or block, and `runs`
                    // holds.
                    unsafe { write(returned, returned_len, &place, _value) }
                )?)*
            }

            #[unsafe(export_name = $crate::__private::core::concat!("__cuda_rt_layout_", $symbol))]
            pub static __CUDA_RT_LAYOUT: [
                $crate::rt::Row;
                // One row for the index or the block, and not for both.
                1 + $crate::rt::count(&[$(
                    $($crate::__private::core::stringify!($slice),)?
                    $($crate::__private::core::stringify!($output),)?
                    $($crate::__private::core::stringify!($atomic),)?
                    $($crate::__private::core::stringify!($shared),)?
                    $($crate::__private::core::stringify!($scalar),)?
                    $($crate::__private::core::stringify!($returned),)?
                )*])
            ] = {
                $checked;
                $crate::rt::assert_entry_name($symbol);
                $crate::rt::one_look_back([
                    $($crate::rt::entry::index_layout::<$crate::$of<'static>>(),)?
                    $($crate::rt::entry::block_layout::<$crate::$dimensions>([$x, $y]),)?
                    $(
                        $($crate::rt::slice_layout::<$slice_element>(),)?
                        $($crate::rt::output_layout::<$output_type<'static>>(),)?
                        $($crate::rt::output_layout::<$atomic_type<'static>>(),)?
                        $($crate::rt::shared_layout::<$shared_type<'static>>(),)?
                        $($crate::rt::scalar_layout::<$scalar_type>(),)?
                        $($crate::rt::returned_layout::<$crate::rt::Written<$returned_type, $crate::rt::$way>>(),)?
                    )*
                ])
            };

            // The parameters that a launch passes; `kernel-build` compares them with the entry in
            // the PTX.
            #[unsafe(export_name = $crate::__private::core::concat!("__cuda_rt_parameters_", $symbol))]
            pub static __CUDA_RT_PARAMETERS: [
                $crate::__private::core::primitive::u64;
                1 + $crate::rt::count(&[$(
                    $(
                        $crate::__private::core::stringify!($slice),
                        $crate::__private::core::stringify!($slice_len),
                    )?
                    $(
                        $crate::__private::core::stringify!($output),
                        $crate::__private::core::stringify!($output_len),
                    )?
                    $(
                        $crate::__private::core::stringify!($atomic),
                        $crate::__private::core::stringify!($atomic_len),
                    )?
                    $($crate::__private::core::stringify!($scalar),)?
                    $(
                        $crate::__private::core::stringify!($returned),
                        $crate::__private::core::stringify!($returned_len),
                    )?
                )*])
            ] = [
                $(
                    $(
                        $crate::rt::entry::reads::<&[$slice_element; 0]>(),
                        $crate::rt::entry::value::<$crate::__private::core::primitive::usize>(),
                    )?
                    $(
                        $crate::rt::entry::writes::<
                            &mut [<$output_type<'static> as $crate::rt::OutputArgument>::Element; 0],
                        >(),
                        $crate::rt::entry::value::<$crate::__private::core::primitive::usize>(),
                    )?
                    $(
                        $crate::rt::entry::writes::<
                            *mut <$atomic_type<'static> as $crate::rt::OutputArgument>::Element,
                        >(),
                        $crate::rt::entry::value::<$crate::__private::core::primitive::usize>(),
                    )?
                    $($crate::rt::entry::value::<$scalar_type>(),)?
                    $(
                        $crate::rt::entry::fills::<
                            &mut [<$returned_type as $crate::rt::ReturnedValue<$crate::rt::$way>>::Element; 0],
                        >(),
                        $crate::rt::entry::value::<$crate::__private::core::primitive::usize>(),
                    )?
                )*
                $crate::rt::entry::value::<$crate::Extent>(),
            ];
        };
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
                        |all @ _: Self| all.$member,
                        |all @ _: &Self| &raw const all.$member,
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
                        |all @ _: Self| all.$member,
                        |all @ _: &Self| &raw const all.$member,
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
