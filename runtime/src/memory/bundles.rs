//! [`Bundle`] for tuples, arrays, `Vec` and `Option` of bundles.

use crate::memory::bundle::{Bundle, OwnedBy, ToHost};
use crate::order::fence::Fence;
use crate::order::stream_ref::StreamRef;
use crate::order::unless::Leaked;
use crate::tag::{SameAs, StreamTag};

macro_rules! tuples {
    ($(($first:ident $first_index:tt $(, $part:ident $index:tt)*);)*) => { $(
        // SAFETY: structural: every part is named once in each method.
        unsafe impl<$first: Bundle $(, $part: Bundle)*> Bundle for ($first, $($part,)*)
        where
            // With `Device = ..` rustc would only say that types mismatch.
            $($part::Device: SameAs<$first::Device>,)*
        {
            type Device = $first::Device;
            type On<S: StreamTag> = ($first::On<S>, $($part::On<S>,)*);
            type View<'v, S: StreamTag> = ($first::View<'v, S>, $($part::View<'v, S>,)*);
            type Ref<'v, S: StreamTag> = ($first::Ref<'v, S>, $($part::Ref<'v, S>,)*);

            #[inline]
            unsafe fn attach<S: StreamTag>(self, at: StreamRef) -> Self::On<S> {
                // If one part unwinds, the parts after it must leak: a drop would treat them as
                // idle.
                let parts = (Leaked::new(self.$first_index), $(Leaked::new(self.$index),)*);
                // SAFETY: this function's contract covers every part.
                (unsafe { parts.$first_index.take_back().attach(at) }, $(
                    // SAFETY: as above.
                    unsafe { parts.$index.take_back().attach(at) },
                )*)
            }

            #[inline]
            unsafe fn idle_from<S: StreamTag>(on: Self::On<S>) -> Self {
                // If one part unwinds, the parts before it must leak: a drop would treat them as
                // idle.
                // SAFETY: this function's contract covers every part.
                let parts = (Leaked::new(unsafe { $first::idle_from(on.$first_index) }), $(
                    // SAFETY: as above.
                    Leaked::new(unsafe { $part::idle_from(on.$index) }),
                )*);
                (parts.$first_index.take_back(), $(parts.$index.take_back(),)*)
            }

            unsafe fn view<'v, S: StreamTag>(&mut self) -> Self::View<'v, S> {
                // SAFETY: this function's contract covers every part.
                (unsafe { self.$first_index.view() }, $(
                    // SAFETY: as above.
                    unsafe { self.$index.view() },
                )*)
            }

            unsafe fn by_ref<'v, S: StreamTag>(&self) -> Self::Ref<'v, S> {
                // SAFETY: this function's contract covers every part.
                (unsafe { self.$first_index.by_ref() }, $(
                    // SAFETY: as above.
                    unsafe { self.$index.by_ref() },
                )*)
            }

            unsafe fn retire(self, fence: &mut Fence) {
                // As in `attach`.
                let parts = (Leaked::new(self.$first_index), $(Leaked::new(self.$index),)*);
                // SAFETY: this function's contract covers every part.
                unsafe { parts.$first_index.take_back().retire(fence) };
                $(
                    // SAFETY: as above.
                    unsafe { parts.$index.take_back().retire(fence) };
                )*
            }

            #[inline]
            fn note_host_access(&self, passed: ToHost) {
                self.$first_index.note_host_access(passed);
                $(self.$index.note_host_access(passed);)*
            }
        }

        // SAFETY: structural: every part is owned by `S`.
        unsafe impl<S: StreamTag, $first: OwnedBy<S> $(, $part: OwnedBy<S>)*> OwnedBy<S> for ($first, $($part,)*) {
            type Idle = ($first::Idle, $($part::Idle,)*);

            #[inline]
            unsafe fn detach(self) -> Self::Idle {
                // As in `idle_from`.
                // SAFETY: this function's contract covers every part.
                let parts = (Leaked::new(unsafe { self.$first_index.detach() }), $(
                    // SAFETY: as above.
                    Leaked::new(unsafe { self.$index.detach() }),
                )*);
                (parts.$first_index.take_back(), $(parts.$index.take_back(),)*)
            }
        }
    )* };
}

tuples! {
    (A 0);
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, E 3);
    (A 0, B 1, C 2, E 3, F 4);
    (A 0, B 1, C 2, E 3, F 4, G 5);
    (A 0, B 1, C 2, E 3, F 4, G 5, H 6);
    (A 0, B 1, C 2, E 3, F 4, G 5, H 6, I 7);
    (A 0, B 1, C 2, E 3, F 4, G 5, H 6, I 7, J 8);
    (A 0, B 1, C 2, E 3, F 4, G 5, H 6, I 7, J 8, K 9);
    (A 0, B 1, C 2, E 3, F 4, G 5, H 6, I 7, J 8, K 9, L 10);
    (A 0, B 1, C 2, E 3, F 4, G 5, H 6, I 7, J 8, K 9, L 10, M 11);
}

// SAFETY: structural: every element is mapped once in each method.
unsafe impl<R: Bundle, const N: usize> Bundle for [R; N] {
    type Device = R::Device;
    type On<S: StreamTag> = [R::On<S>; N];
    type View<'v, S: StreamTag> = [R::View<'v, S>; N];
    type Ref<'v, S: StreamTag> = [R::Ref<'v, S>; N];

    #[inline]
    unsafe fn attach<S: StreamTag>(self, at: StreamRef) -> Self::On<S> {
        // As in a tuple.
        let parts = self.map(Leaked::new);
        // SAFETY: this function's contract covers every element.
        parts.map(|part| unsafe { part.take_back().attach(at) })
    }

    #[inline]
    unsafe fn idle_from<S: StreamTag>(on: Self::On<S>) -> Self {
        // As in a tuple.
        // SAFETY: this function's contract covers every element.
        let parts = on.map(|part| Leaked::new(unsafe { R::idle_from(part) }));
        parts.map(Leaked::take_back)
    }

    unsafe fn view<'v, S: StreamTag>(&mut self) -> Self::View<'v, S> {
        // SAFETY: this function's contract covers every element.
        self.each_mut().map(|part| unsafe { part.view() })
    }

    unsafe fn by_ref<'v, S: StreamTag>(&self) -> Self::Ref<'v, S> {
        // SAFETY: this function's contract covers every element.
        self.each_ref().map(|part| unsafe { part.by_ref() })
    }

    unsafe fn retire(self, fence: &mut Fence) {
        // As in a tuple.
        for part in self.map(Leaked::new) {
            // SAFETY: this function's contract covers every element.
            unsafe { part.take_back().retire(fence) }
        }
    }

    #[inline]
    fn note_host_access(&self, passed: ToHost) {
        self.iter().for_each(|part| part.note_host_access(passed));
    }
}

// SAFETY: structural: every element is owned by `S`.
unsafe impl<S: StreamTag, R: OwnedBy<S>, const N: usize> OwnedBy<S> for [R; N] {
    type Idle = [R::Idle; N];

    #[inline]
    unsafe fn detach(self) -> Self::Idle {
        // As in a tuple.
        // SAFETY: this function's contract covers every element.
        let parts = self.map(|part| Leaked::new(unsafe { part.detach() }));
        parts.map(Leaked::take_back)
    }
}

// SAFETY: structural: every element is mapped once in each method.
unsafe impl<R: Bundle> Bundle for Vec<R> {
    type Device = R::Device;
    type On<S: StreamTag> = Vec<R::On<S>>;
    type View<'v, S: StreamTag> = Vec<R::View<'v, S>>;
    type Ref<'v, S: StreamTag> = Vec<R::Ref<'v, S>>;

    unsafe fn attach<S: StreamTag>(self, at: StreamRef) -> Self::On<S> {
        // As in a tuple. Unwinding leaks the iterator, and so the elements that are left.
        let mut left = Leaked::new(self.into_iter());
        let mut attached = Vec::with_capacity(left.len());
        for part in left.by_ref() {
            // SAFETY: this function's contract covers every element.
            attached.push(unsafe { part.attach(at) });
        }
        drop(left.take_back());
        attached
    }

    unsafe fn idle_from<S: StreamTag>(on: Self::On<S>) -> Self {
        // As in a tuple.
        let mut idle = Leaked::new(Vec::with_capacity(on.len()));
        for part in on {
            // SAFETY: this function's contract covers every element.
            idle.push(unsafe { R::idle_from(part) });
        }
        idle.take_back()
    }

    unsafe fn view<'v, S: StreamTag>(&mut self) -> Self::View<'v, S> {
        // SAFETY: this function's contract covers every element.
        self.iter_mut().map(|part| unsafe { part.view() }).collect()
    }

    unsafe fn by_ref<'v, S: StreamTag>(&self) -> Self::Ref<'v, S> {
        // SAFETY: this function's contract covers every element.
        self.iter().map(|part| unsafe { part.by_ref() }).collect()
    }

    unsafe fn retire(self, fence: &mut Fence) {
        // As in `attach`. A destructor calls this, so it makes no vector: one could be too long.
        let mut left = Leaked::new(self.into_iter());
        for part in left.by_ref() {
            // SAFETY: this function's contract covers every element.
            unsafe { part.retire(fence) }
        }
        drop(left.take_back());
    }

    #[inline]
    fn note_host_access(&self, passed: ToHost) {
        self.iter().for_each(|part| part.note_host_access(passed));
    }
}

// SAFETY: structural: every element is owned by `S`.
unsafe impl<S: StreamTag, R: OwnedBy<S>> OwnedBy<S> for Vec<R> {
    type Idle = Vec<R::Idle>;

    unsafe fn detach(self) -> Self::Idle {
        // As in `idle_from`.
        let mut idle = Leaked::new(Vec::with_capacity(self.len()));
        for part in self {
            // SAFETY: this function's contract covers every element.
            idle.push(unsafe { part.detach() });
        }
        idle.take_back()
    }
}

// SAFETY: structural: the element, where there is one, is mapped once in each method.
unsafe impl<R: Bundle> Bundle for Option<R> {
    type Device = R::Device;
    type On<S: StreamTag> = Option<R::On<S>>;
    type View<'v, S: StreamTag> = Option<R::View<'v, S>>;
    type Ref<'v, S: StreamTag> = Option<R::Ref<'v, S>>;

    #[inline]
    unsafe fn attach<S: StreamTag>(self, at: StreamRef) -> Self::On<S> {
        // SAFETY: this function's contract covers the element.
        self.map(|part| unsafe { part.attach(at) })
    }

    #[inline]
    unsafe fn idle_from<S: StreamTag>(on: Self::On<S>) -> Self {
        // SAFETY: this function's contract covers the element.
        on.map(|part| unsafe { R::idle_from(part) })
    }

    unsafe fn view<'v, S: StreamTag>(&mut self) -> Self::View<'v, S> {
        // SAFETY: this function's contract covers the element.
        self.as_mut().map(|part| unsafe { part.view() })
    }

    unsafe fn by_ref<'v, S: StreamTag>(&self) -> Self::Ref<'v, S> {
        // SAFETY: this function's contract covers the element.
        self.as_ref().map(|part| unsafe { part.by_ref() })
    }

    unsafe fn retire(self, fence: &mut Fence) {
        if let Some(part) = self {
            // SAFETY: this function's contract covers the element.
            unsafe { part.retire(fence) }
        }
    }

    #[inline]
    fn note_host_access(&self, passed: ToHost) {
        self.iter().for_each(|part| part.note_host_access(passed));
    }
}

// SAFETY: structural: the element is owned by `S`.
unsafe impl<S: StreamTag, R: OwnedBy<S>> OwnedBy<S> for Option<R> {
    type Idle = Option<R::Idle>;

    #[inline]
    unsafe fn detach(self) -> Self::Idle {
        // SAFETY: this function's contract covers the element.
        self.map(|part| unsafe { part.detach() })
    }
}
