//! One list of calls for each group. The list makes the group's trait, and a macro by which a
//! driver writes the calls without their signatures.
//!
//! The crate's page shows how a driver that wraps another driver uses the macro. A group is
//! declared once, in its own file; nothing else lists its calls.
//!
//! Every crate can call these macros, also a crate that forbids `unsafe`. The code that the caller
//! writes must therefore be safe code, as everywhere in that crate:
//!
//! - The code of the caller stands in a function of its own, `__body` or `__inner`, which is safe.
//!   The `unsafe fn` of the call holds this function, and calls it. So an unsafe operation of the
//!   caller needs an `unsafe` block of the caller. Counterexample: the code stood in the `unsafe
//!   fn` itself, under `forbid(unsafe_op_in_unsafe_fn)`. rustc reports no lint about the expansion
//!   of another crate's macro, so a macro of a third crate brought in the operation.
//! - The function gets the arguments of the call, and a closure that makes this call, with these
//!   arguments, at most once.
//! - The only attribute accepted is `#[track_caller]`. `#[export_name = "…"]` on a function made
//!   here would replace a function of the C library, and no lint would see it.
//!
//! A function inside another one sees neither `Self` nor generic parameters. Therefore the caller
//! states the types.

/// Makes a trait of calls, and the macro `$calls` that writes them in a driver.
macro_rules! group {
    (
        $(#[$about:meta])*
        // The caller passes the macro's name with its dollar sign.
        pub trait $Group:ident, forwarded by $d:tt $calls:ident {
            $(
                $(#[$doc:meta])*
                // The brackets never occur in a call. They let `unsafe` be repeated exactly where
                // it stood.
                $(unsafe $([$never:tt])?)? fn $name:ident(&self $(, $arg:ident: $type:ty)* $(,)?) -> $result:ty;
            )*
        }
    ) => {
        $(#[$about])*
        ///
        /// A group of the calls of [`Driver`](crate::Driver), whose page states what all calls
        /// promise.
        pub trait $Group {
            $(
                $(#[$doc])*
                $(unsafe $([$never])?)? fn $name(&self $(, $arg: $type)*) -> $result;
            )*
        }

        #[doc = concat!("Writes calls of [`", stringify!($Group), "`] in the `impl` of a driver:")]
        /// - `forward to |this: &Type| -> &Inner { .. }; call, call`: passed on to the driver that
        ///   the block refers to;
        /// - `|this: &Type, call(&Inner)| name(arguments) => body;`: with a body, in which
        ///   `call(inner)` makes the call on another driver, at most once;
        /// - `|this: &Type| name(arguments) => body;`: with a body that does not pass the call on;
        /// - `each |this: &Type, name, call(&Inner)| body`: every call of the group with one body.
        ///
        /// A type with a parameter needs `for<D: ?Sized + Trait>` in front. A body is a function of
        /// its own: it sees neither `Self` nor other generic parameters. It is safe code, even if
        /// the call is `unsafe`: the contract of the call holds for its arguments.
        ///
        /// A call that is not written is missing from the `impl`, which then does not compile. The
        /// types in the signatures must be in scope. `#[track_caller]` may stand before a name.
        #[macro_export]
        macro_rules! $calls {
            (for<$d G:ident: ?Sized + $d Bound:path> $d($d calls:tt)*) => {
                $d crate::$calls! { @in [<$d G: $d Bound>] $d($d calls)* }
            };
            (forward $d($d calls:tt)*) => { $d crate::$calls! { @in [] forward $d($d calls)* } };
            (each $d($d calls:tt)*) => { $d crate::$calls! { @in [] each $d($d calls)* } };
            (| $d($d calls:tt)*) => { $d crate::$calls! { @in [] | $d($d calls)* } };
            (
                @in $d generics:tt
                forward to |$d this:ident: &$d This:ty| -> &$d Inner:ty $d inner:block;
                $d($d name:ident),* $d(,)?
            ) => {
                $d( $d crate::$calls! {
                    @forward $d name $d generics |$d this: &$d This| -> &$d Inner $d inner
                } )*
            };
            (
                @in $d generics:tt
                each |$d this:ident: &$d This:ty, $d name:ident, $d call:ident(&$d Inner:ty)| $d body:expr
            ) => {
                $( $d crate::$calls! {
                    @each $name $d generics |$d this: &$d This, $d name, $d call(&$d Inner)| $d body
                } )*
            };
            (
                @in $d generics:tt
                |$d this:ident: &$d This:ty $d(, $d call:ident(&$d Inner:ty))?|
                $d(
                    $d(#[track_caller $d([$d traced:tt])?])?
                    $d name:ident $d given:tt => $d body:expr;
                )*
            ) => {
                $d crate::$calls! {
                    @bodies [$d generics |$d this: &$d This $d(, $d call(&$d Inner))?|]
                    $d( [$d(#[track_caller $d([$d traced])?])? $d name $d given => $d body] )*
                }
            };
            (@bodies $d types:tt $d($d call:tt)*) => {
                $d( $d crate::$calls! { @body $d types $d call } )*
            };
            $(
                (
                    @forward $name [$d(<$d G:ident: $d Bound:path>)?]
                    |$d this:ident: &$d This:ty| -> &$d Inner:ty $d inner:block
                ) => {
                    $(unsafe $([$never])?)? fn $name(&self $(, $arg @ _: $type)*) -> $result {
                        fn __inner $d(<$d G: ?$d crate::__private::core::marker::Sized + $d Bound>)?(
                            $d this @ _: &$d This,
                        ) -> &$d Inner {
                            $d inner
                        }
                        let inner @ _ = __inner(self);
                        // SAFETY: the same contract.
                        $(unsafe $([$never])?)? { $d crate::$Group::$name(inner $(, $arg)*) }
                    }
                };
                (
                    @each $name [$d(<$d G:ident: $d Bound:path>)?]
                    |$d this:ident: &$d This:ty, $d name:ident, $d call:ident(&$d Inner:ty)| $d body:expr
                ) => {
                    $(unsafe $([$never])?)? fn $name(&self $(, $arg @ _: $type)*) -> $result {
                        fn __body $d(<$d G: ?$d crate::__private::core::marker::Sized + $d Bound>)?(
                            $d this @ _: &$d This,
                            $d name @ _: &'static $d crate::__private::core::primitive::str,
                            $d call @ _: impl $d crate::__private::core::ops::FnOnce(&$d Inner) -> $result,
                        ) -> $result {
                            $d body
                        }
                        __body(self, $d crate::__private::core::stringify!($name), |inner @ _| {
                            // SAFETY: the same contract.
                            $(unsafe $([$never])?)? { $d crate::$Group::$name(inner $(, $arg)*) }
                        })
                    }
                };
                (
                    @body [[$d(<$d G:ident: $d Bound:path>)?] |$d this:ident: &$d This:ty, $d call:ident(&$d Inner:ty)|]
                    [$d(#[track_caller $d([$d traced:tt])?])? $name($($d $arg:ident),* $d(,)?) => $d body:expr]
                ) => {
                    $d(#[track_caller $d([$d traced])?])?
                    $(unsafe $([$never])?)? fn $name(&self $(, $arg @ _: $type)*) -> $result {
                        $d(#[track_caller $d([$d traced])?])?
                        fn __body $d(<$d G: ?$d crate::__private::core::marker::Sized + $d Bound>)?(
                            $d this @ _: &$d This,
                            $($d $arg @ _: $type,)*
                            $d call @ _: impl $d crate::__private::core::ops::FnOnce(&$d Inner) -> $result,
                        ) -> $result {
                            // `call` has the arguments too, and a body may use only `call`.
                            $(let _ = $d $arg;)*
                            $d body
                        }
                        __body(self, $($arg,)* |inner @ _| {
                            // SAFETY: the same contract.
                            $(unsafe $([$never])?)? { $d crate::$Group::$name(inner $(, $arg)*) }
                        })
                    }
                };
                (
                    @body [[$d(<$d G:ident: $d Bound:path>)?] |$d this:ident: &$d This:ty|]
                    [$d(#[track_caller $d([$d traced:tt])?])? $name($($d $arg:ident),* $d(,)?) => $d body:expr]
                ) => {
                    $d(#[track_caller $d([$d traced])?])?
                    $(unsafe $([$never])?)? fn $name(&self $(, $arg @ _: $type)*) -> $result {
                        $d(#[track_caller $d([$d traced])?])?
                        fn __body $d(<$d G: ?$d crate::__private::core::marker::Sized + $d Bound>)?(
                            $d this @ _: &$d This,
                            $($d $arg @ _: $type,)*
                        ) -> $result {
                            $d body
                        }
                        __body(self $(, $arg)*)
                    }
                };
            )*
        }
    };
}

pub(super) use group;
