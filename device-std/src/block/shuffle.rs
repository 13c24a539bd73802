use super::phases::Block;
use super::private::Private;
use super::thread::Dimensions;
#[cfg(target_arch = "nvptx64")]
use crate::device::warp;
use crate::element::Element;

/// Lanes of a warp.
pub(super) const WARP: usize = 32;

mod sealed {
    pub trait Sealed {}
}

/// An element of 32 bits, which lanes can exchange through registers.
pub trait ShuffleElement: Element + sealed::Sealed {}

macro_rules! shuffle_elements {
    ($($type:ty)*) => { $(
        impl sealed::Sealed for $type {}
        impl ShuffleElement for $type {}
    )* };
}
shuffle_elements!(u32 i32 f32);

impl<D: Dimensions> Block<'_, D> {
    /// Each lane gets the value of the lane `delta` further up its warp; the last ones keep their own (`__shfl_down_sync`).
    ///
    /// # Panics
    /// If `delta` is not below 32, or the block is not made of whole warps.
    #[inline(always)]
    pub fn shuffle_down<T: ShuffleElement>(&mut self, value: &Private<T>, delta: usize) -> Private<T> {
        self.assert_whole_warps(delta);
        #[cfg(target_arch = "nvptx64")]
        return value.exchange(|own| {
            // SAFETY: whole warps, in block-level code, which is the same in every lane.
            bytemuck::cast(unsafe { warp::shuffle_down(bytemuck::cast(own), delta as u32) })
        });
        #[cfg(not(target_arch = "nvptx64"))]
        value.exchange(|thread| {
            if thread % WARP + delta < WARP {
                thread + delta
            } else {
                thread
            }
        })
    }

    /// Each lane gets the value of the lane whose number differs in the bits of `mask` (`__shfl_xor_sync`).
    ///
    /// # Panics
    /// If `mask` is not below 32, or the block is not made of whole warps.
    #[inline(always)]
    pub fn shuffle_xor<T: ShuffleElement>(&mut self, value: &Private<T>, mask: usize) -> Private<T> {
        self.assert_whole_warps(mask);
        #[cfg(target_arch = "nvptx64")]
        return value.exchange(|own| {
            // SAFETY: whole warps, in block-level code, which is the same in every lane.
            bytemuck::cast(unsafe { warp::shuffle_xor(bytemuck::cast(own), mask as u32) })
        });
        #[cfg(not(target_arch = "nvptx64"))]
        value.exchange(|thread| thread ^ mask)
    }

    #[inline(always)]
    fn assert_whole_warps(&self, distance: usize) {
        assert!(
            self.size().is_multiple_of(WARP),
            "a shuffle needs blocks of whole warps of 32 threads"
        );
        assert!(distance < WARP, "a shuffle stays inside a warp of 32 lanes");
    }
}
