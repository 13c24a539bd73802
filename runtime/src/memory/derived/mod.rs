//! What `#[derive(Bundle)]` puts into a user's crate.
//!
//! [`__bundle!`](crate::__bundle) writes two layers. Safe functions, of the traits in
//! `derived/parts.rs`, take the bundle apart, convert each part and build the bundle again. The
//! `unsafe` methods of [`Bundle`](crate::Bundle) hold nothing but a call of these functions. So no
//! name, type or pattern of the user stands where `unsafe` is allowed. A union, for example, does
//! not compile: safe code cannot read its fields. Counterexample: with the pattern in an
//! `unsafe fn`, a union was made with a number and read as a reference.
//!
//! A struct has one form, an enum has one for each variant. The variant is known while the bundle
//! is pending, because it is host memory, which moves with the bundle and which no GPU writes.

mod parts;

pub use parts::{
    Attach, Back, Borrow, BorrowMut, Detach, Exact, PartByPart, PartByPartOf, Retire, attach, by_ref, detach,
    has_parts, idle_from, note_host_access, retire, same_type, view,
};

/// [`Bundle`](crate::Bundle) and [`OwnedBy`](crate::OwnedBy) for a struct or an enum of buffers.
///
/// This is a macro of this crate because only its own macros can name a crate safely: the user may
/// call another crate `cuda_rt` ([H42](crate::hazards#h42)). The output is structural for every
/// input:
///
/// - The patterns name every field of every variant, in safe code, so the type is a struct or an
///   enum. Each field is bound (`part @ _`): a constant of the same name is refused, and compares
///   with nothing.
/// - A variant is built from the parts of the same variant: one path stands for both.
/// - The compiler infers a part's type from the field, and all parts are on one device. The caller
///   names no type.
/// - There is at least one part. No bundle is `Copy`, so the move of that part refuses a type with
///   a destructor.
/// - Plain fields are `Copy`, and have the same type in every form of the bundle. So no `Deref` of
///   a user runs.
///
/// Generics, bounds and types come in as fragments, so no other code of the user can stand in the
/// impls.
///
/// The rule `@built` is safe code, which the impls use to build one form from another.
#[doc(hidden)]
#[macro_export]
macro_rules! __bundle {
    (
        $name:ident, $view:ident, $by_ref:ident,
        lifetimes = [$($lifetime:lifetime)*],
        types = [$($type:ident)*],
        constants = [$($constant:ident: $constant_type:ty;)*],
        others = [$($other:ident)*],
        outlives = [$($longer:lifetime: $($shorter:lifetime)*;)*],
        idle = [$($idle:ty,)*],
        idle_where = [$([$($idle_for:lifetime)*] $idle_bounded:ty: $({ $($idle_outlives:lifetime)? $(? $idle_maybe:path;)? $([$($idle_higher:lifetime)*] $idle_bound:path)? })*;)*],
        on = [$($on:ty,)*],
        on_where = [$([$($on_for:lifetime)*] $on_bounded:ty: $({ $($on_outlives:lifetime)? $(? $on_maybe:path;)? $([$($on_higher:lifetime)*] $on_bound:path)? })*;)*],
        idle_of_stream = [$($idle_of_stream:ty,)*],
        forms = [$(
            [$($form:ident)::+, $($view_form:ident)::+, $($ref_form:ident)::+]
            buffers = [$($member:tt: $part:ident;)*],
            plain = [$($plain_member:tt: $plain:ident;)*];
        )*],
    ) => {
        const _: () =
            $crate::__private::has_parts(&[$($($crate::__private::core::stringify!($member),)*)*]);

        // SAFETY: structural: `PartByPart` below is safe code, and names every field.
        unsafe impl<$($lifetime,)* $($type,)* $(const $constant: $constant_type,)* __D: $crate::DeviceTag>
            $crate::Bundle for $name<$($lifetime,)* $($idle,)*>
        where
            $($longer: $($shorter +)*,)*
            $(for<$($idle_for),*> $idle_bounded: $($($idle_outlives +)? $(?$idle_maybe +)? $(for<$($idle_higher),*> $idle_bound +)?)*,)*
        {
            type Device = __D;
            type On<__S: $crate::StreamTag> = $name<$($lifetime,)* $($on,)*>;
            type View<'__v, __S: $crate::StreamTag> = $view<$($lifetime,)* '__v, $($other,)* __D, __S>;
            type Ref<'__v, __S: $crate::StreamTag> = $by_ref<$($lifetime,)* '__v, $($other,)* __D, __S>;

            #[inline]
            unsafe fn attach<__S: $crate::StreamTag>(self, __at @ _: $crate::__private::StreamRef) -> Self::On<__S> {
                // SAFETY: this function's contract covers the call.
                unsafe { $crate::__private::attach::<Self, __S>(self, __at) }
            }

            #[inline]
            unsafe fn idle_from<__S: $crate::StreamTag>(__on @ _: Self::On<__S>) -> Self {
                // SAFETY: this function's contract covers the call.
                unsafe { $crate::__private::idle_from::<Self, __S>(__on) }
            }

            unsafe fn view<'__v, __S: $crate::StreamTag>(&mut self) -> Self::View<'__v, __S> {
                // SAFETY: this function's contract covers the call.
                unsafe { $crate::__private::view::<Self, __S>(self) }
            }

            unsafe fn by_ref<'__v, __S: $crate::StreamTag>(&self) -> Self::Ref<'__v, __S> {
                // SAFETY: this function's contract covers the call.
                unsafe { $crate::__private::by_ref::<Self, __S>(self) }
            }

            unsafe fn retire(self, __fence @ _: &mut $crate::__private::Fence) {
                // SAFETY: this function's contract covers the call.
                unsafe { $crate::__private::retire::<Self>(self, __fence) }
            }

            fn note_host_access(&self, __passed @ _: $crate::__private::ToHost) {
                match self { $(
                    $($form)::+ { $($member: $part @ _,)* $($plain_member: _,)* } => {
                        $(
                            let $part @ _ = $crate::__private::Exact($part);
                            $crate::__private::note_host_access($part, __passed);
                        )*
                    }
                )* }
            }
        }

        // SAFETY: each method is safe code. It takes the bundle apart, and uses its token for the
        // parts only.
        unsafe impl<$($lifetime,)* $($type,)* $(const $constant: $constant_type,)* __D: $crate::DeviceTag>
            $crate::__private::PartByPart for $name<$($lifetime,)* $($idle,)*>
        where
            $($longer: $($shorter +)*,)*
            $(for<$($idle_for),*> $idle_bounded: $($($idle_outlives +)? $(?$idle_maybe +)? $(for<$($idle_higher),*> $idle_bound +)?)*,)*
        {
            #[inline]
            fn attach_parts<__S: $crate::StreamTag>(
                self,
                __with @ _: $crate::__private::Attach<__S, __D>,
            ) -> <Self as $crate::Bundle>::On<__S> {
                match self { $(
                    $($form)::+ { $($member: $part @ _,)* $($plain_member: $plain @ _,)* } => {
                        $(let $plain @ _ = $crate::__private::Exact($plain);)*
                        // If one part unwinds, the parts after it must leak: a drop would treat
                        // them as idle.
                        $(let $part @ _ = $crate::__private::Leaked::new($part);)*
                        $crate::__bundle! { @built $($form)::+
                            parts = [$($member: $crate::__private::Attach::part(__with, $crate::__private::Leaked::take_back($part));)*],
                            plain = [$($plain_member: $plain;)*],
                        }
                    }
                )* }
            }

            #[inline]
            fn parts_back<__S: $crate::StreamTag>(
                __on @ _: <Self as $crate::Bundle>::On<__S>,
                __with @ _: $crate::__private::Back<__S, __D>,
            ) -> Self {
                match __on { $(
                    $($form)::+ { $($member: $part @ _,)* $($plain_member: $plain @ _,)* } => {
                        $(let $plain @ _ = $crate::__private::Exact($plain);)*
                        // If one part unwinds, the parts before it must leak.
                        $(let $part @ _ = $crate::__private::Leaked::new($crate::__private::Back::part(__with, $part));)*
                        $crate::__bundle! { @built $($form)::+
                            parts = [$($member: $crate::__private::Leaked::take_back($part);)*],
                            plain = [$($plain_member: $plain;)*],
                        }
                    }
                )* }
            }

            fn view_parts<'__v, __S: $crate::StreamTag>(
                &mut self,
                __with @ _: $crate::__private::BorrowMut<'__v, __S, __D>,
            ) -> <Self as $crate::Bundle>::View<'__v, __S> {
                match self { $(
                    $($form)::+ { $($member: $part @ _,)* $($plain_member: $plain @ _,)* } => {
                        $(let $part @ _ = $crate::__private::Exact($part);)*
                        $(let $plain @ _ = $crate::__private::Exact(*$plain);)*
                        $crate::__bundle! { @built $($view_form)::+
                            parts = [$($member: $crate::__private::BorrowMut::part(__with, $part);)*],
                            plain = [$($plain_member: $plain;)*],
                        }
                    }
                )* }
            }

            fn parts_by_ref<'__v, __S: $crate::StreamTag>(
                &self,
                __with @ _: $crate::__private::Borrow<'__v, __S, __D>,
            ) -> <Self as $crate::Bundle>::Ref<'__v, __S> {
                match self { $(
                    $($form)::+ { $($member: $part @ _,)* $($plain_member: $plain @ _,)* } => {
                        $(let $part @ _ = $crate::__private::Exact($part);)*
                        $(let $plain @ _ = $crate::__private::Exact(*$plain);)*
                        $crate::__bundle! { @built $($ref_form)::+
                            parts = [$($member: $crate::__private::Borrow::part(__with, $part);)*],
                            plain = [$($plain_member: $plain;)*],
                        }
                    }
                )* }
            }

            fn retire_parts(self, mut __with: $crate::__private::Retire<'_, __D>) {
                match self { $(
                    $($form)::+ { $($member: $part @ _,)* $($plain_member: _,)* } => {
                        // As in `attach_parts`.
                        $(let $part @ _ = $crate::__private::Leaked::new($part);)*
                        $($crate::__private::Retire::part(&mut __with, $crate::__private::Leaked::take_back($part));)*
                    }
                )* }
            }
        }

        // SAFETY: structural: every buffer is owned by the stream, or `PartByPartOf` below does not
        // compile.
        unsafe impl<$($lifetime,)* $($type,)* $(const $constant: $constant_type,)* __S: $crate::StreamTag>
            $crate::OwnedBy<__S> for $name<$($lifetime,)* $($on,)*>
        where
            $($longer: $($shorter +)*,)*
            $(for<$($on_for),*> $on_bounded: $($($on_outlives +)? $(?$on_maybe +)? $(for<$($on_higher),*> $on_bound +)?)*,)*
        {
            type Idle = $name<$($lifetime,)* $($idle_of_stream,)*>;

            #[inline]
            unsafe fn detach(self) -> Self::Idle {
                // SAFETY: this function's contract covers the call.
                unsafe { $crate::__private::detach::<Self, __S>(self) }
            }
        }

        // SAFETY: as for `PartByPart` above: the method is safe code, and uses its token for the
        // parts only.
        unsafe impl<$($lifetime,)* $($type,)* $(const $constant: $constant_type,)* __S: $crate::StreamTag>
            $crate::__private::PartByPartOf<__S> for $name<$($lifetime,)* $($on,)*>
        where
            $($longer: $($shorter +)*,)*
            $(for<$($on_for),*> $on_bounded: $($($on_outlives +)? $(?$on_maybe +)? $(for<$($on_higher),*> $on_bound +)?)*,)*
        {
            #[inline]
            fn detach_parts(self, __with @ _: $crate::__private::Detach<__S>) -> <Self as $crate::OwnedBy<__S>>::Idle {
                match self { $(
                    $($form)::+ { $($member: $part @ _,)* $($plain_member: $plain @ _,)* } => {
                        $(let $plain @ _ = $crate::__private::Exact($plain);)*
                        // If one part unwinds, the parts before it must leak.
                        $(let $part @ _ = $crate::__private::Leaked::new($crate::__private::Detach::part(__with, $part));)*
                        $crate::__bundle! { @built $($form)::+
                            parts = [$($member: $crate::__private::Leaked::take_back($part);)*],
                            plain = [$($plain_member: $plain;)*],
                        }
                    }
                )* }
            }
        }
    };

    // One form of the bundle. Its plain fields have the types of the form that it is made from.
    (
        @built $($form:ident)::+
        parts = [$($member:tt: $part:expr;)*],
        plain = [$($plain_member:tt: $plain:ident;)*],
    ) => {{
        let __here @ _ = $crate::__private::Exact(($($plain.0,)*));
        let __made @ _ = $($form)::+ { $($member: $part,)* $($plain_member: $plain.0,)* };
        #[allow(irrefutable_let_patterns)]
        if let $($form)::+ { $($member: _,)* $($plain_member: $plain @ _,)* } = &__made {
            let __there @ _ = $crate::__private::Exact(($(*$plain,)*));
            $crate::__private::same_type(__here, __there);
        }
        __made
    }};
}
