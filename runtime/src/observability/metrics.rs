//! [`Metrics`]: the figures of a device, all at once.

use crate::device::Device;
use crate::error::Result;
use crate::memory::PinnedStats;
use crate::tag::Live;
use cuda_rt_driver::MemoryPoolStats;

/// Figures of a device instance, as [`Device::metrics`] found them.
///
/// The parts are read one after another, while other threads go on: each figure was true at a
/// moment of the call.
///
/// Left out, because a count would cost an instruction with a lock at each call: waits of streams
/// (`cuStreamWaitEvent`), and records and waits that [order nothing
/// new](Device::keep_redundant_edges).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// CUDA's pool of device memory, in bytes, with its peaks. All instances of one GPU in the
    /// process share it.
    pub device_pool: MemoryPoolStats,
    /// Blocks of device memory that this instance keeps for the next buffers.
    pub device_kept: KeptMetrics,
    /// Pinned memory, in bytes and blocks, with its peak.
    pub pinned_pool: PinnedStats,
    /// Blocks of managed memory that are kept for the next buffers.
    pub managed_kept: KeptMetrics,
    /// Blocks of write-combined memory that are kept for the next buffers.
    pub write_combined_kept: KeptMetrics,
    /// CUDA streams of this instance.
    pub streams: StreamMetrics,
    /// CUDA events of this instance.
    pub events: EventMetrics,
    /// Waits of the host that called CUDA (`cuStreamSynchronize`, `cuEventSynchronize`) since the
    /// device was opened. A wait inside an allocation, and a question of a task, do not count.
    pub host_waits: u64,
}

/// Blocks of memory without an owner, kept for reuse; their last use may be pending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeptMetrics {
    /// The number of blocks.
    pub blocks: usize,
    /// Their bytes.
    pub bytes: usize,
}

impl KeptMetrics {
    fn of((blocks, bytes): (usize, usize)) -> Self {
        Self { blocks, bytes }
    }
}

/// CUDA streams. A stream lives as long as its device. Adopted streams do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamMetrics {
    /// Streams that exist: those of tags, of pools and of run time, the device's own stream for
    /// frees, and its stream for allocations once it has allocated.
    pub live: usize,
    /// Those of run time that nobody holds: the next stream of their priority is one of them.
    pub idle: usize,
}

/// CUDA events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventMetrics {
    /// Events that exist.
    pub live: usize,
    /// Events that no handoff, fence or block holds: the next records take them. Where another
    /// thread records at this moment, the events of its stream do not count as idle.
    pub idle: usize,
    /// Records that were not left out, since the device was opened (`cuEventRecord`). Those that
    /// failed count.
    pub records: u64,
}

impl EventMetrics {
    /// Events that a handoff, a fence or a block holds.
    pub fn leased(&self) -> usize {
        self.live.saturating_sub(self.idle)
    }
}

/// Figures and events, for programs that run for long; see
/// [`observability`](crate::observability).
impl<D: Live> Device<D> {
    /// The figures of this device: its pools, streams and events (`cuMemPoolGetAttribute`). Sizes
    /// are in bytes, and the rest are counts. Does not wait for work.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver) if CUDA does not tell the size of its pool, as on a
    /// lost device.
    ///
    /// ```
    /// # cuda_rt::streams! { pub Compute; }
    /// # cuda_rt::Device::simulated(cuda_rt::simulator::SimConfig::new(), |gpu| {
    /// let compute = gpu.stream::<Compute<_>>()?;
    /// let before = gpu.metrics()?;
    /// let buffer = compute.alloc_zeroed::<u8>(1 << 20)?;
    /// let (during, handoff) = (gpu.metrics()?, compute.release(buffer)?);
    /// assert_eq!(during.device_pool.used_bytes - before.device_pool.used_bytes, 1 << 20);
    /// assert_eq!(gpu.metrics()?.events.leased(), 1); // the handoff holds it
    ///
    /// drop(handoff.synchronize()?);
    /// let after = gpu.metrics()?;
    /// assert_eq!((after.device_kept.blocks, after.device_kept.bytes), (1, 1 << 20));
    /// assert_eq!(after.host_waits - before.host_waits, 1);
    /// println!("{} streams, {} records", after.streams.live, after.events.records);
    /// println!("{} bytes pinned", after.pinned_pool.bytes_held);
    /// # Ok::<(), cuda_rt::Error>(())
    /// # })??;
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn metrics(&self) -> Result<Metrics> {
        let core = self.core();
        let device_pool = self
            .memory_pool_stats()
            .map_err(|error| error.of_call("Device::metrics"))?;
        let (live, idle) = core.count_streams();
        let events = core.events().figures();
        Ok(Metrics {
            device_pool,
            device_kept: KeptMetrics::of(core.memory().kept()),
            pinned_pool: core.pinned().stats(),
            managed_kept: KeptMetrics::of(core.managed().kept()),
            write_combined_kept: KeptMetrics::of(core.write_combined().kept()),
            streams: StreamMetrics { live, idle },
            events: EventMetrics {
                live: events.live,
                idle: events.idle,
                records: events.records,
            },
            host_waits: core.observed().count_host_waits(),
        })
    }

    /// How long a wait of the host for the device may last before a subscriber is warned (the event
    /// `slow host wait`): 1 second at first, and for ever with `None`. The time is of the host's
    /// clock, also on a simulated device. Calls nothing of the driver.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let gpu = cuda_rt::Device::open_or_simulate()?;
    /// gpu.set_slow_wait(Some(Duration::from_millis(50)));
    /// gpu.synchronize()?; // a subscriber hears of it if it takes 50 ms
    /// gpu.set_slow_wait(None); // never
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    #[cfg(feature = "tracing")]
    pub fn set_slow_wait(&self, threshold: Option<std::time::Duration>) {
        self.core().observed().slow_wait().set(threshold);
    }
}
