//! What `#[derive(Resource)]` puts into a user's crate that is `unsafe`.

use super::Resource;
use crate::place::DeviceTag;

/// Holds where all of `R` is on the device `D`.
#[inline(always)]
pub fn on_device<R: Resource<Device = D>, D: DeviceTag>() {}

/// [`Resource`] and [`OwnedBy`](crate::OwnedBy) for a struct of buffers.
///
/// A macro of this crate, since only that can name this crate, whatever else the user's calls `cuda_rt` (H42). Its output is structural
/// whatever it is called with: it names every field, or the patterns do not compile; plain fields are copied and so are `Copy`;
/// buffers are converted by their own impls, on the one device, and views have the types that those say. Generics, bounds and types
/// come in as fragments, so that nothing of the user's but those can stand in the impls.
#[doc(hidden)]
#[macro_export]
macro_rules! __resource {
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
        buffers = [$($member:tt: $part:ident, $part_type:ty;)*],
        plain = [$($plain_member:tt: $plain:ident;)*],
    ) => {
        // SAFETY: structural, as above.
        unsafe impl<$($lifetime,)* $($type,)* $(const $constant: $constant_type,)* __D: $crate::DeviceTag>
            $crate::Resource for $name<$($lifetime,)* $($idle,)*>
        where
            $($longer: $($shorter +)*,)*
            $(for<$($idle_for),*> $idle_bounded: $($($idle_outlives +)? $(?$idle_maybe +)? $(for<$($idle_higher),*> $idle_bound +)?)*,)*
        {
            type Device = __D;
            type On<__S: $crate::StreamTag> = $name<$($lifetime,)* $($on,)*>;
            type View<'__v, __S: $crate::StreamTag> = $view<$($lifetime,)* '__v, $($other,)* __D, __S>;
            type Ref<'__v, __S: $crate::StreamTag> = $by_ref<$($lifetime,)* '__v, $($other,)* __D, __S>;

            #[inline]
            unsafe fn attach<__S: $crate::StreamTag>(self, __at: $crate::__private::StreamAt) -> Self::On<__S> {
                $($crate::__private::on_device::<$part_type, __D>();)*
                let $name { $($member: $part,)* $($plain_member: $plain,)* } = self;
                $name {
                    // SAFETY, here and below: the caller's promise covers every part.
                    $($member: unsafe { $crate::Resource::attach::<__S>($part, __at) },)*
                    $($plain_member: $plain,)*
                }
            }

            #[inline]
            unsafe fn back<__S: $crate::StreamTag>(__on: Self::On<__S>) -> Self {
                let $name { $($member: $part,)* $($plain_member: $plain,)* } = __on;
                $name {
                    $($member: unsafe { <$part_type as $crate::Resource>::back::<__S>($part) },)*
                    $($plain_member: $plain,)*
                }
            }

            unsafe fn view<'__v, __S: $crate::StreamTag>(&mut self) -> Self::View<'__v, __S> {
                let $name { $($member: $part,)* $($plain_member: $plain,)* } = self;
                $(let $part: <$part_type as $crate::Resource>::View<'__v, __S> =
                    unsafe { $crate::Resource::view::<__S>($part) };)*
                $view { $($member: $part,)* $($plain_member: *$plain,)* }
            }

            unsafe fn by_ref<'__v, __S: $crate::StreamTag>(&self) -> Self::Ref<'__v, __S> {
                let $name { $($member: $part,)* $($plain_member: $plain,)* } = self;
                $(let $part: <$part_type as $crate::Resource>::Ref<'__v, __S> =
                    unsafe { $crate::Resource::by_ref::<__S>($part) };)*
                $by_ref { $($member: $part,)* $($plain_member: *$plain,)* }
            }

            unsafe fn retire(self, __fence: &mut $crate::__private::Fence) {
                let $name { $($member: $part,)* $($plain_member: _,)* } = self;
                // Where one unwinds, those behind it would be dropped as if they were idle.
                $(let $part = $crate::__private::Unless::leaked($part);)*
                $(unsafe { $crate::Resource::retire($part.take_back(), __fence) };)*
            }

            fn host_has(&self, __passed: $crate::__private::ToHost) {
                let $name { $($member: $part,)* $($plain_member: _,)* } = self;
                $($crate::Resource::host_has($part, __passed);)*
            }
        }

        // SAFETY: structural: every buffer is owned by the stream.
        unsafe impl<$($lifetime,)* $($type,)* $(const $constant: $constant_type,)* __S: $crate::StreamTag>
            $crate::OwnedBy<__S> for $name<$($lifetime,)* $($on,)*>
        where
            $($longer: $($shorter +)*,)*
            $(for<$($on_for),*> $on_bounded: $($($on_outlives +)? $(?$on_maybe +)? $(for<$($on_higher),*> $on_bound +)?)*,)*
        {
            type Idle = $name<$($lifetime,)* $($idle_of_stream,)*>;

            #[inline]
            unsafe fn detach(self) -> Self::Idle {
                let $name { $($member: $part,)* $($plain_member: $plain,)* } = self;
                $name {
                    // SAFETY: the caller's promise covers every part.
                    $($member: unsafe { $crate::OwnedBy::<__S>::detach($part) },)*
                    $($plain_member: $plain,)*
                }
            }
        }
    };
}
