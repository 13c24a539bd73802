//! One list of calls for each group. The list makes the group's trait, and a macro by which a
//! driver writes the calls without their signatures.
//!
//! The crate's page shows how a driver that wraps another driver uses the macro. A group is
//! declared once, in its own file; nothing else lists its calls.
//!
//! Every crate can call these macros, also a crate that forbids `unsafe`. The code that the caller
//! writes must therefore be safe code, as everywhere in that crate:
//!
//! - A body stands in an `unsafe fn`. The lint `unsafe_code` does not see the keyword, because the
//!   keyword comes from here. `forbid(unsafe_op_in_unsafe_fn)` therefore requires an `unsafe`
//!   block, written by the caller, around each unsafe operation of the body.
//! - The only attribute accepted is `#[track_caller]`. `#[export_name = "…"]` on a function made
//!   here would replace a function of the C library, and no lint would see it.

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
        /// - `forward to |this| inner; call, call`: passed on to the driver that `inner` refers to;
        /// - `|this, call| name(arguments) => body;`: with a body, in which `call(inner)` makes the
        ///   call on another driver;
        /// - `|this| name(arguments) => body;`: with a body that does not pass the call on;
        /// - `each |this, name, call| body`: every call of the group with one body.
        ///
        /// A call that is not written is missing from the `impl`, which then does not compile. The
        /// types in the signatures must be in scope. `#[track_caller]` may stand before a name.
        #[macro_export]
        macro_rules! $calls {
            (forward to |$d this:ident| $d inner:expr; $d($d name:ident),* $d(,)?) => {
                $d( $d crate::$calls! { @forward $d name |$d this| $d inner } )*
            };
            (each |$d this:ident, $d name:ident, $d call:ident| $d body:expr) => {
                $( $d crate::$calls! { @each $name |$d this, $d name, $d call| $d body } )*
            };
            $(
                (@forward $name |$d this:ident| $d inner:expr) => {
                    #[forbid(unsafe_op_in_unsafe_fn)]
                    $(unsafe $([$never])?)? fn $name(&self $(, $arg: $type)*) -> $result {
                        let $d this = self;
                        let inner = $d inner;
                        // SAFETY: the same contract.
                        $(unsafe $([$never])?)? { $d crate::$Group::$name(inner $(, $arg)*) }
                    }
                };
                (@each $name |$d this:ident, $d name:ident, $d call:ident| $d body:expr) => {
                    #[forbid(unsafe_op_in_unsafe_fn)]
                    $(unsafe $([$never])?)? fn $name(&self $(, $arg: $type)*) -> $result {
                        let $d this = self;
                        let $d name = stringify!($name);
                        // For a call that takes a `&mut` argument, the closure is an `FnMut`.
                        #[allow(unused_mut)]
                        let mut $d call = |inner: &_| {
                            // SAFETY: the same contract.
                            $(unsafe $([$never])?)? { $d crate::$Group::$name(inner $(, $arg)*) }
                        };
                        $d body
                    }
                };
                (
                    @body |$d this:ident $d(, $d call:ident)?| $d(#[track_caller $d([$d traced:tt])?])?
                    $name($($d $arg:ident),*) => $d body:expr
                ) => {
                    $d(#[track_caller $d([$d traced])?])?
                    #[forbid(unsafe_op_in_unsafe_fn)]
                    $(unsafe $([$never])?)? fn $name(&self $(, $d $arg: $type)*) -> $result {
                        let $d this = self;
                        $d(
                            #[allow(unused_mut)]
                            let mut $d call = |inner: &_| {
                                // SAFETY: the same contract.
                                $(unsafe $([$never])?)? { $d crate::$Group::$name(inner $(, $d $arg)*) }
                            };
                        )?
                        $d body
                    }
                };
            )*
            (
                |$d this:ident, $d call:ident|
                $d(
                    $d(#[track_caller $d([$d traced:tt])?])?
                    $d name:ident($d($d given:ident),* $d(,)?) => $d body:expr;
                )*
            ) => {
                $d( $d crate::$calls! {
                    @body |$d this, $d call| $d(#[track_caller $d([$d traced])?])? $d name($d($d given),*) => $d body
                } )*
            };
            (
                |$d this:ident|
                $d(
                    $d(#[track_caller $d([$d traced:tt])?])?
                    $d name:ident($d($d given:ident),* $d(,)?) => $d body:expr;
                )*
            ) => {
                $d( $d crate::$calls! {
                    @body |$d this| $d(#[track_caller $d([$d traced])?])? $d name($d($d given),*) => $d body
                } )*
            };
        }
    };
}

pub(super) use group;
