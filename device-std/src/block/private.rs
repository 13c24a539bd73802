use core::fmt;

#[cfg(not(target_arch = "nvptx64"))]
use super::thread::WARP;
use super::thread::{Dimensions, Lane};
#[cfg(target_arch = "nvptx64")]
use crate::device::registers;

/// A value of each thread's own: a register on the device, a slot for each thread in simulation.
///
/// The value has a `Copy + 'static` type. It opens only with a [`Lane`], and block-level code never
/// has one. Therefore a `Private` cannot be printed or compared.
///
/// ```
/// # use device_std::prelude::*;
/// fn differences(mut block: Block, input: &[f32], output: PerThread<f32>) {
///     let value = block.map(|lane| input.get(lane.position()).copied().unwrap_or(0.0));
///     let next = block.shuffle_down(&value, 1);
///     block.threads(|thread| {
///         if let Some(index) = thread.index_in_launch() {
///             output.set(index, next.get(thread) - value.get(thread));
///         }
///     });
/// }
/// ```
pub struct Private<T> {
    #[cfg(target_arch = "nvptx64")]
    value: T,
    #[cfg(not(target_arch = "nvptx64"))]
    values: Vec<T>,
}

#[cfg(target_arch = "nvptx64")]
impl<T: Copy + 'static> Private<T> {
    #[inline(always)]
    pub(super) fn new(value: T) -> Self {
        Self { value }
    }

    /// This thread's value.
    #[inline(always)]
    pub fn get<D: Dimensions>(&self, _lane: &Lane<'_, D>) -> T {
        self.value
    }

    #[inline(always)]
    pub(super) fn slot(&mut self, _thread: usize) -> &mut T {
        &mut self.value
    }

    #[inline(always)]
    pub(super) fn exchange(&self, f: impl Fn(T) -> T) -> Self {
        Self::new(f(self.value))
    }

    /// This thread's value, as operand of an instruction that all threads execute.
    #[inline(always)]
    pub(super) fn of_this_thread(&self) -> T {
        self.value
    }

    /// This thread's value. Only the block's first thread may act on it: in the other threads the
    /// value differs.
    #[inline(always)]
    pub(crate) fn first(&self) -> T {
        self.value
    }

    /// Calls `f` with this thread's place in the block and this thread's value.
    #[inline(always)]
    pub(crate) fn each_thread(&self, _size: [u32; 2], mut f: impl FnMut([u32; 2], T)) {
        f([registers::thread_x(), registers::thread_y()], self.value);
    }
}

#[cfg(not(target_arch = "nvptx64"))]
impl<T: Copy + 'static> Private<T> {
    #[inline(always)]
    pub(super) fn new(values: Vec<T>) -> Self {
        Self { values }
    }

    /// This thread's value.
    #[inline(always)]
    pub fn get<D: Dimensions>(&self, lane: &Lane<'_, D>) -> T {
        self.values[lane.index()]
    }

    #[inline(always)]
    pub(super) fn slot(&mut self, thread: usize) -> &mut T {
        &mut self.values[thread]
    }

    /// Each thread gets the value of the thread that `from` names.
    #[inline(always)]
    pub(super) fn exchange(&self, from: impl Fn(usize) -> usize) -> Self {
        Self {
            values: (0..self.values.len())
                .map(|thread| self.values[from(thread)])
                .collect(),
        }
    }

    #[inline(always)]
    pub(super) fn of(&self, thread: usize) -> &T {
        &self.values[thread]
    }

    #[inline(always)]
    pub(super) fn all_threads(&self) -> &[T] {
        &self.values
    }

    /// Each warp gets the result of `f` on the warp's values.
    #[inline(always)]
    pub(super) fn by_warp<U: Copy>(&self, f: impl Fn(&[T]) -> [U; WARP]) -> Private<U> {
        Private {
            values: self.values.chunks_exact(WARP).flat_map(f).collect(),
        }
    }

    #[inline(always)]
    pub(crate) fn first(&self) -> T {
        self.values[0]
    }

    /// Calls `f` for each thread of a block of `size`, with its place in the block and its value.
    ///
    /// # Panics
    /// If the value belongs to a block of another size: a simulated kernel kept it after its
    /// launch.
    #[inline(always)]
    pub(crate) fn each_thread(&self, [x, y]: [u32; 2], mut f: impl FnMut([u32; 2], T)) {
        assert_eq!(
            self.values.len(),
            (x * y) as usize,
            "a `Private` of a block of another size was returned"
        );
        for (at, value) in (0..).zip(&self.values) {
            f([at % x, at / x], *value);
        }
    }
}

/// Copies the bits. Block-level code may clone a `Private`, and a user's `Clone` that ran there
/// would see one thread's value.
impl<T: Copy> Clone for Private<T> {
    #[allow(clippy::iter_cloned_collect, reason = "`to_vec` calls the user's `Clone`")]
    #[inline(always)]
    fn clone(&self) -> Self {
        Self {
            #[cfg(target_arch = "nvptx64")]
            value: self.value,
            #[cfg(not(target_arch = "nvptx64"))]
            values: self.values.iter().copied().collect(),
        }
    }
}

impl<T> fmt::Debug for Private<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Private").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use super::Private;

    #[derive(Copy)]
    struct Loud(u8);

    #[expect(clippy::non_canonical_clone_impl, reason = "a user may write this impl")]
    impl Clone for Loud {
        fn clone(&self) -> Self {
            panic!("block-level code sees {}, the value of one thread", self.0)
        }
    }

    #[test]
    fn cloning_a_private_does_not_call_the_users_clone() {
        let private = Private::new(vec![Loud(1), Loud(2)]);
        let clone = private.clone();
        assert_eq!((clone.of(0).0, clone.of(1).0), (1, 2));
    }
}
