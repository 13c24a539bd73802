//! What all outputs have: a constructor, and the number of elements.

/// The constructor of an output of the fields `ptr`, `len`, `host_thread` and `_buffer`, whose
/// caller keeps `$invariant`, and the number of the output's elements. `$fits` is what the compiler
/// must have checked before.
macro_rules! whole_output {
    ($invariant:literal, $fits:expr) => {
        /// # Safety
        #[doc = $invariant]
        #[inline(always)]
        pub(crate) unsafe fn new(ptr: *mut T, len: usize) -> Self {
            const { $fits };
            Self {
                ptr,
                len,
                host_thread: $crate::host_thread::HostThread::current(),
                _buffer: core::marker::PhantomData,
            }
        }

        $crate::output::whole::len_of_output!();
    };
}
pub(crate) use whole_output;

/// The number of elements of an output with a field `len`.
macro_rules! len_of_output {
    () => {
        /// The number of elements of the whole output.
        #[inline(always)]
        pub fn len(&self) -> usize {
            self.len
        }

        /// Whether the output has no elements.
        #[inline(always)]
        pub fn is_empty(&self) -> bool {
            self.len == 0
        }
    };
}
pub(crate) use len_of_output;
