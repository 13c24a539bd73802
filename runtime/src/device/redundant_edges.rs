//! [`Device::keep_redundant_edges`]: the switch for records and waits that order nothing new.

use crate::device::Device;
use crate::tag::Live;

impl<D: Live> Device<D> {
    /// Whether this device makes records and waits that order nothing new. By default it leaves
    /// them out. Calls nothing of the driver.
    ///
    /// Left out are
    ///
    /// - a wait of a stream (`cuStreamWaitEvent`) that is already ordered after the event: because
    ///   it waited for a later event of the same stream, because it waited for other work behind
    ///   the event, or because the host has seen the event over;
    /// - a record (`cuEventRecord`) on a stream that has got no work since its last record: the
    ///   last event serves again;
    /// - a wait or query of the host (`cuEventSynchronize`, `cuEventQuery`) for work that the host
    ///   has seen over.
    ///
    /// A device with `keep` makes all of them, for a comparison or a measurement. The switch says
    /// nothing about order: the same work is ordered in the same way. It may be changed at any
    /// time, and other devices have switches of their own.
    ///
    /// Always made are the edges of a capture, of adopted streams, of a stream whose
    /// [`raw`](crate::Stream::raw) handle was given away, and of streams beyond the first 32 of a
    /// device and its peers.
    ///
    /// ```
    /// # use cuda_rt::{Device, simulator::SimConfig};
    /// # cuda_rt::streams! { pub Compute; pub Download; }
    /// # Device::simulated(SimConfig::default(), |gpu| {
    /// let (compute, download) = (gpu.stream::<Compute<_>>()?, gpu.stream::<Download<_>>()?);
    /// let sums = compute.alloc_zeroed::<f32>(64)?;
    /// let norms = compute.alloc_zeroed::<f32>(64)?;
    /// let (sums, norms) = (compute.release(sums)?, compute.release(norms)?); // one record
    /// let (sums, norms) = (download.acquire(sums)?, download.acquire(norms)?); // one wait
    ///
    /// gpu.keep_redundant_edges(true);
    /// let (sums, norms) = (download.release(sums)?, download.release(norms)?); // two records
    /// let (sums, norms) = (compute.acquire(sums)?, compute.acquire(norms)?); // two waits
    /// # Ok::<(), cuda_rt::Error>(())
    /// # })??;
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn keep_redundant_edges(&self, keep: bool) {
        self.core().events().keep_redundant(keep);
    }
}
