//! Managed memory from the device's pool.

use std::mem::MaybeUninit;

use crate::device::Device;
use crate::error::Result;
use crate::memory::{Element, ManagedBuffer};
use crate::tag::{Idle, Live};

/// Managed memory, whose pages move between host and device by themselves.
///
/// The host and kernels both reach it in place, and it may be larger than the device's memory.
/// Kernels reach it in their own memory, once its pages are there. They reach
/// [`pinned`](Self::pinned) memory [over the bus](crate::Stream::mapped).
impl<D: Live> Device<D> {
    /// `len` zeroed elements of managed memory from the device's pool (`cuMemAllocManaged`). The
    /// host writes the zeros. Blocks only if the pool has no block of that size whose last use is
    /// over.
    ///
    /// # Errors
    /// [`Error::TooLarge`](crate::Error::TooLarge), and [`Error::Driver`](crate::Error::Driver):
    /// with `NOT_SUPPORTED` where the host may not use managed memory while kernels run
    /// ([`concurrent_managed_access`]), as on Windows. There the host would have to wait for all
    /// work of the device first, which ownership of one buffer cannot say.
    ///
    /// [`concurrent_managed_access`]: crate::driver::Properties::concurrent_managed_access
    #[track_caller]
    pub fn managed<T: Element>(&self, len: usize) -> Result<ManagedBuffer<T, Idle<D>>> {
        self.managed_uninit(len)?.init_with(|_| T::zeroed())
    }

    /// Like [`managed`](Self::managed), with a copy of `source`.
    ///
    /// # Errors
    /// As [`managed`](Self::managed).
    #[track_caller]
    pub fn managed_from<T: Element>(&self, source: &[T]) -> Result<ManagedBuffer<T, Idle<D>>> {
        self.managed_uninit(source.len())?.init_with(|at| source[at])
    }

    /// Like [`managed`](Self::managed), but nothing writes the memory, and the type does not allow
    /// reads of its elements ([H39](crate::hazards#h39)). These calls write it, and make it
    /// readable: [`init_with`](ManagedBuffer::init_with) on the host,
    /// [`init_managed_filled`](crate::Stream::init_managed_filled) on a stream, and a kernel that
    /// returns its element ([`KernelOutput`](crate::KernelOutput)).
    ///
    /// # Errors
    /// As [`managed`](Self::managed).
    ///
    /// ```
    /// # cuda_rt::streams! { Compute; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// # let compute = gpu.stream::<Compute>()?;
    /// let table = gpu.managed_from(&[2_u32, 3, 5])?;
    /// assert_eq!((table.len(), table.to_vec()?), (3, vec![2, 3, 5]));
    /// let squares = gpu.managed_uninit::<u32>(4)?.init_with(|at| (at * at) as u32)?;
    /// let mut squares = compute.adopt(squares)?;
    /// compute.fill(&mut squares[..2], 7)?;
    /// let squares = compute.release(squares)?.synchronize()?;
    /// squares.host(|squares| assert_eq!(squares, [7, 7, 4, 9]))?;
    ///
    /// drop((table, squares));
    /// gpu.trim_managed(); // the pool gives the blocks back
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    #[track_caller]
    pub fn managed_uninit<T: Element>(&self, len: usize) -> Result<ManagedBuffer<MaybeUninit<T>, Idle<D>>> {
        ManagedBuffer::uninit(self.core(), len)
    }

    /// Frees unused managed memory, and returns the number of bytes (`cuMemFree`, which may block
    /// until the device has no work). Memory in use, and memory whose last use was not seen
    /// complete, stays.
    pub fn trim_managed(&self) -> usize {
        self.core().managed().trim()
    }
}
