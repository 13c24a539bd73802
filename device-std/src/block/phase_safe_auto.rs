//! In a file of its own, because a stable compiler parses even what `cfg` leaves out of a file that
//! it reads.

use core::cell::UnsafeCell;

/// What the closure of a phase may capture: nothing through which a value that differs by thread
/// could reach the block-level code.
///
/// # Safety
/// No safe use of a `&Self` lets one thread leave something where block-level code can see it.
pub unsafe auto trait PhaseSafe {}

impl<T: ?Sized> !PhaseSafe for UnsafeCell<T> {}
impl<T: ?Sized> !PhaseSafe for &mut T {}
