//! [`TryLock`]: a value for one thread at a time. No thread waits for it.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

/// A value that one thread at a time reaches. A thread that does not get it goes another way.
///
/// It costs one locked instruction, where a mutex costs two: the release of a mutex also looks for
/// threads that wait.
///
/// # Invariants
/// TRY-LOCK-1. `locked` is true as long as a [`Held`] of this lock lives, and there is at most one.
#[derive(Debug, Default)]
pub(super) struct TryLock<T> {
    locked: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: TRY-LOCK-1: threads reach the value one after another.
unsafe impl<T: Send> Sync for TryLock<T> {}

impl<T> TryLock<T> {
    /// The value, unless another thread has it now.
    #[inline]
    pub(super) fn try_lock(&self) -> Option<Held<'_, T>> {
        // ORDER: pairs with the release in the drop of the last `Held`.
        match self.locked.swap(true, Ordering::Acquire) {
            true => None,
            false => Some(Held(self)),
        }
    }
}

/// The right to a value. The drop gives the right back, also by unwinding.
#[derive(Debug)]
pub(super) struct Held<'a, T>(&'a TryLock<T>);

impl<T> Deref for Held<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: TRY-LOCK-1: no other `Held` lives.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: TRY-LOCK-1: no other `Held` lives, and this one is borrowed uniquely.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // ORDER: what the holder did happens before the next holder. A plain store is enough: no
        // other thread writes `locked` to anything but `true`.
        self.0.locked.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::TryLock;

    #[test]
    fn a_value_is_held_by_one_at_a_time() {
        let lock = TryLock::<u32>::default();
        let held = lock.try_lock().unwrap();
        assert!(lock.try_lock().is_none());
        drop(held);
        assert!(lock.try_lock().is_some());
    }

    #[test]
    fn what_one_holder_did_is_seen_by_the_next() {
        let (lock, start) = (TryLock::<[u64; 2]>::default(), Barrier::new(3));
        let count = || {
            start.wait();
            let mut held = 0;
            for _ in 0..10_000 {
                if let Some(mut pair) = lock.try_lock() {
                    assert_eq!(pair[0], pair[1]);
                    pair[0] += 1;
                    pair[1] += 1;
                    held += 1;
                }
            }
            held
        };
        let held: u64 = thread::scope(|scope| {
            let threads = [(); 3].map(|()| scope.spawn(count));
            threads.map(|thread| thread.join().unwrap()).iter().sum()
        });
        assert_eq!(lock.try_lock().unwrap()[0], held);
    }
}
