//! [`HostLease`]: the host reads what streams read at the same time.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::{Block, Shared};
use crate::error::{During, Result};
use crate::memory::{Bundle, ToHost};
use crate::tag::Live;
use cuda_rt_driver::CallSite;

/// The host's right to read a shared bundle, while any stream may read it too.
///
/// It dereferences to the idle bundle, behind `&`. So the elements of a
/// [`PinnedBuffer`](crate::PinnedBuffer) are a `&[T]`, and nothing can be written. While it exists,
/// [`Shared::reclaim`] fails: no stream writes the bundle under the host's reads
/// ([H14](crate::hazards#h14), [H18](crate::hazards#h18)). Leaking it keeps the bundle shared for
/// ever, and does no other harm.
//
// # Invariants
// HOST-LEASE-1. All writes to the bundle are over.
#[must_use = "dropping a lease ends it at once"]
pub struct HostLease<R: Bundle>(Arc<Block<R>>);

impl<R: Bundle> fmt::Debug for HostLease<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostLease").finish_non_exhaustive()
    }
}

impl<R: Bundle> Deref for HostLease<R> {
    type Target = R;

    fn deref(&self) -> &R {
        // HOST-LEASE-1: the bundle may be read as an idle bundle. SHARED-1 and SHARED-3: nothing
        // writes it, because this lease holds the block.
        self.0.bundle()
    }
}

impl<R: Bundle> Drop for HostLease<R> {
    fn drop(&mut self) {
        let site = CallSite::here("drop of a HostLease");
        self.0.bundle().note_host_access(ToHost::reads(site));
    }
}

impl<R: Bundle> Shared<R>
where
    R::Device: Live,
{
    /// Lets the host read the bundle. Blocks the host until the writes are over
    /// (`cuEventSynchronize`), and for no reader. What [`Shared::new`] made is never waited for.
    ///
    /// # Hazards prevented
    /// [H13](crate::hazards#h13) (the writes are over), [H14](crate::hazards#h14) and
    /// [H18](crate::hazards#h18) (nothing writes while the lease exists), [H10](crate::hazards#h10)
    /// (a later writer waits for the streams that read meanwhile).
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver) if the wait fails. The host then gets nothing to
    /// read, and the bundle stays shared.
    ///
    /// ```
    /// # cuda_rt::streams! { pub Left; pub Right; }
    /// use cuda_rt::Shared;
    ///
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let (left, right) = (gpu.stream::<Left>()?, gpu.stream::<Right>()?);
    /// let samples = Shared::new(gpu.pinned_from(&[1.0_f32, 2.0, 3.0])?);
    /// let (to_left, to_right) = (left.lease(&samples)?, right.lease(&samples)?);
    /// let a = left.init_from_host(left.alloc_uninit(3)?, &to_left.view())?;
    /// let b = right.init_from_host(right.alloc_uninit(3)?, &to_right.view())?;
    /// let host = samples.host()?; // no wait: no stream has written the samples
    /// assert_eq!(host.iter().sum::<f32>(), 6.0); // while both uploads run
    /// drop((host, to_left, to_right));
    /// let mut samples = samples.reclaim().expect("no lease is left").synchronize()?;
    /// samples[0] = 4.0; // both uploads are over
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    #[track_caller]
    pub fn host(&self) -> Result<HostLease<R>> {
        self.0.synchronize_writes().during("Shared::host")?;
        let site = CallSite::here("Shared::host");
        self.0.bundle().note_host_access(ToHost::reads(site));
        // HOST-LEASE-1: the wait above has returned.
        Ok(HostLease(Arc::clone(&self.0)))
    }
}
