//! One list of each group's calls: it makes the group's trait, and the macro by which a driver
//! writes those calls without their signatures.
//!
//! The crate's page shows how a driver that wraps another uses it. A group is declared once, in its
//! own file; nothing else lists its calls.
//!
//! Every crate can call these macros, also one that forbids `unsafe`. So what the caller writes is
//! safe code there as anywhere:
//!
//! - A body stands in an `unsafe fn` whose keyword the lint `unsafe_code` does not see, for it
//!   comes from here. `forbid(unsafe_op_in_unsafe_fn)` has each unsafe operation in the body
//!   written in an `unsafe` block of the caller's.
//! - Of attributes only `#[track_caller]` is taken. `#[export_name = "…"]` on a function of ours
//!   would replace a function of the C library, and no lint would see it.

/// Makes a trait of calls, and the macro `$calls` that writes them in a driver.
macro_rules! group {
    (
        $(#[$about:meta])*
        // The name comes with the dollar that the macro is written with.
        pub trait $Group:ident, forwarded by $d:tt $calls:ident {
            $(
                $(#[$doc:meta])*
                // The brackets never come: with them `unsafe` can be repeated where it stood.
                $(unsafe $([$never:tt])?)? fn $name:ident(&self $(, $arg:ident: $type:ty)* $(,)?) -> $result:ty;
            )*
        }
    ) => {
        $(#[$about])*
        ///
        /// A group of the calls of [`Driver`](crate::Driver), which says what all of them promise.
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
        /// A call that is not written is missing from the `impl`, which does not compile. The types
        /// of the signatures are those in scope. `#[track_caller]` may stand before a name.
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
                        // Of a call that takes a `&mut` it is an `FnMut`.
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
