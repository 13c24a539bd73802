//! The same memory with elements of another type.

use super::{DeviceBuffer, DeviceSlice, Element, PinnedBuffer, PinnedSlice, size_in_bytes};
use crate::error::{Error, Refused, Result};

/// The length of the memory of `len` elements of `T` at `address`, in elements of `U`, for the call
/// `during`.
fn cast_len<T: Element, U: Element>(address: u64, len: usize, during: &'static str) -> Result<usize> {
    // Cannot overflow: the memory was allocated.
    let bytes = len * size_of::<T>();
    let fits = match size_of::<U>() {
        // Of elements of no size, memory may hold any number.
        0 => (size_of::<T>() == 0).then_some(len),
        element_bytes => bytes
            .is_multiple_of(element_bytes)
            .then_some(bytes / element_bytes),
    };
    let misaligned_by = (address % align_of::<U>() as u64) as usize;
    // As for each buffer that is made: an element that no allocation can hold does not build.
    match fits.filter(|len| misaligned_by == 0 && size_in_bytes::<U>(*len).is_some()) {
        Some(len) => Ok(len),
        None => Err(Error::Cast {
            during,
            bytes,
            element_bytes: size_of::<U>(),
            misaligned_by,
        }),
    }
}

macro_rules! casts {
    ($($buffer:ident, $slice:ident, $example:literal;)*) => { $(
        impl<T, P> $buffer<T, P> {
            /// The same memory, with elements of another type: four `f32` as one `[f32; 4]`, bits
            /// as a number. Both types are [`Element`]s, to which any bits are a value, so the host
            /// writes and checks nothing. No GPU work.
            ///
            /// # Hazards prevented
            /// [H39](crate::hazards#h39): memory that nothing wrote (`MaybeUninit`) has no elements
            /// to cast.
            ///
            /// # Errors
            /// [`Error::Cast`] if the memory is no whole number of the new elements, or begins
            /// where they cannot begin, as a part of a block may. The buffer is then dropped;
            /// [`try_cast`](Self::try_cast) gives it back.
            ///
            /// ```
            /// # cuda_rt::streams! { pub Compute; }
            /// # let gpu = cuda_rt::Device::open_or_simulate()?;
            /// # let compute = gpu.stream::<Compute>()?;
            #[doc = $example]
            /// let vectors = numbers.cast::<[f32; 4]>()?;
            /// assert_eq!(vectors.len(), 2);
            /// let refused = vectors.try_cast::<[u32; 3]>().unwrap_err();
            /// assert_eq!(refused.value.cast::<u32>()?.len(), 8);
            /// # Ok::<(), cuda_rt::Error>(())
            /// ```
            pub fn cast<U: Element>(self) -> Result<$buffer<U, P>>
            where
                T: Element,
            {
                Ok(self.try_cast()?)
            }

            /// Like [`cast`](Self::cast), but gives the buffer back on an error.
            ///
            /// # Errors
            /// [`Refused`] with the buffer.
            pub fn try_cast<U: Element>(self) -> Result<$buffer<U, P>, Refused<Self>>
            where
                T: Element,
            {
                match cast_len::<T, U>(self.address().0, self.len(), concat!(stringify!($buffer), "::cast")) {
                    // SAFETY: the elements have the same bytes as before, all of which are
                    // initialised, and any bits are a value of `U`. `U` may begin at the address.
                    Ok(len) => Ok(unsafe { self.with_elements(len) }),
                    Err(error) => Err(Refused { error, value: self }),
                }
            }
        }

        impl<T, P> $slice<T, P> {
            #[doc = concat!("The same memory, with elements of another type, as [`", stringify!($buffer), "::cast`](crate::", stringify!($buffer), "::cast).")]
            ///
            /// # Errors
            /// [`Error::Cast`].
            pub fn cast<U: Element>(&self) -> Result<&$slice<U, P>>
            where
                T: Element,
            {
                const CALL: &str = concat!(stringify!($slice), "::cast");
                let len = cast_len::<T, U>(self.device_address().0, self.len(), CALL)?;
                // SAFETY: the view has the memory and the place of `self`, for as long as `self` is
                // borrowed; any bits are a value of `U`, which may begin at the address.
                Ok(unsafe { $slice::from_raw(self.device_address(), len) })
            }

            /// Like [`cast`](Self::cast), for writing.
            ///
            /// # Errors
            /// [`Error::Cast`].
            pub fn cast_mut<U: Element>(&mut self) -> Result<&mut $slice<U, P>>
            where
                T: Element,
            {
                const CALL: &str = concat!(stringify!($slice), "::cast_mut");
                let len = cast_len::<T, U>(self.device_address().0, self.len(), CALL)?;
                // SAFETY: as in `cast`, and `self` is borrowed uniquely. Any bits that are written
                // are values of `T` too.
                Ok(unsafe { $slice::from_raw_mut(self.device_address(), len) })
            }
        }
    )* };
}

casts! {
    DeviceBuffer, DeviceSlice, "let numbers = compute.alloc_zeroed::<f32>(8)?;";
    PinnedBuffer, PinnedSlice, "let numbers = gpu.pinned::<f32>(8)?;";
}
