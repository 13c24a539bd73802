//! The device's `PhaseSafe`. It has a file of its own because a stable compiler parses all of a
//! file that it reads, even code that `cfg` removes.

use core::cell::UnsafeCell;

/// A type that the closure of a phase may capture: through it, no value that differs by thread can
/// reach block-level code.
///
/// # Safety
/// No safe use of a `&Self` lets a thread leave a value where block-level code can see it.
pub unsafe auto trait PhaseSafe {}

impl<T: ?Sized> !PhaseSafe for UnsafeCell<T> {}
impl<T: ?Sized> !PhaseSafe for &mut T {}
