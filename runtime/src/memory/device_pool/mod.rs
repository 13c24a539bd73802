//! [`DevicePool`]: the memory of a device's buffers, kept for reuse.
//!
//! A buffer that is dropped leaves its block to the stream that owned it. The stream's next buffer
//! of that size takes the block: the stream runs its work in order, so all work of the last owner
//! is over before the next owner's work begins. Neither step calls CUDA.
//!
//! ```text
//!                      drop on S                  alloc on S
//!   DeviceBuffer<T, S> ─────────▶ blocks of S     ─────────▶ DeviceBuffer<U, S>
//!                                 (stream_blocks)      ▲ ▲
//!           │ drop on another stream, which expects    │ │ cuMemAllocFromPoolAsync on the stream
//!           │ no block of this size: records an event  │ │ for allocations, once for each block
//!           └──────────────────▶ shared blocks ────────┘ device
//!                                the event was seen over
//! ```
//! Blocks that a stream drops in a row share an event ([`shared_end`]).
//!
//! All blocks come from CUDA's pool, on a stream that does nothing else. Counterexample: a stream
//! that has allocated from the pool itself pays for it at each later event. On an H200 a record and
//! a wait then take 310 ns instead of 223, and 993 ns once 220 streams have allocated.
//!
//! A stream keeps no more blocks of a size than were allocated for it. Counterexample: one stream
//! allocates, and another stream drops what it gets. If the second stream kept all blocks, the
//! first would allocate for ever. Blocks that have ended do not count, whether CUDA, another owner
//! or nobody has them (STREAM-BLOCKS-3). So a stream whose new allocation is made has at most as
//! many blocks of the size as are in use or pending, and the number of all blocks is bounded.

mod shared_end;
mod size_class;
mod stream_blocks;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::shared_end::{Latest, SharedEnd, SharedEnds};
use self::size_class::SizeClass;
use self::stream_blocks::{StreamBlocks, StreamTable};
use super::free_blocks::FreeBlocks;
use crate::observability;
use crate::order::event_pool::EventPool;
use crate::order::stream_ref::{StreamId, StreamRef};
use cuda_rt_driver::process::Process;
use cuda_rt_driver::{DeviceAddress, Driver, DriverResult, ErrorCode, RawStream};

/// The allocation of a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceBlock {
    pub(crate) address: DeviceAddress,
    /// The size of the allocation, if the pool may keep it for reuse; otherwise 0.
    pub(crate) pooled_bytes: usize,
}

impl DeviceBlock {
    /// No memory, for an allocation of no bytes. Nothing uses its address.
    pub(crate) const NONE: Self = Self {
        address: DeviceAddress(0),
        pooled_bytes: 0,
    };
}

/// The address of a buffer, and whether the pool may keep its allocation. Both are one number,
/// because buffers are moved often. No device has addresses with the number's highest bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockAddress(u64);

impl BlockAddress {
    const POOLED: u64 = 1 << 63;

    /// # Panics
    /// If the address has the highest bit.
    #[inline]
    pub(crate) fn new(block: DeviceBlock) -> Self {
        let DeviceBlock {
            address: DeviceAddress(address),
            pooled_bytes,
        } = block;
        assert!(
            address < Self::POOLED,
            "{address:#x} is no address of device memory"
        );
        Self(if pooled_bytes == 0 {
            address
        } else {
            address | Self::POOLED
        })
    }

    #[inline]
    pub(crate) fn address(self) -> DeviceAddress {
        DeviceAddress(self.0 & !Self::POOLED)
    }

    /// The allocation that begins here, for a buffer of `bytes` bytes.
    #[inline]
    pub(crate) fn block(self, bytes: usize) -> DeviceBlock {
        DeviceBlock {
            address: self.address(),
            pooled_bytes: match self.0 & Self::POOLED {
                0 => 0,
                _ => SizeClass::of(bytes).bytes(),
            },
        }
    }

    /// The address `bytes` bytes further on.
    pub(crate) fn plus(self, bytes: usize) -> Self {
        Self(self.0 + bytes as u64)
    }
}

/// Memory of a device, for reuse.
///
/// # Invariants
/// DEVICE-POOL-1. A block in `shared` has no owner. Every use of it is over once its end is over,
/// and the driver was told before that the block is free.
/// DEVICE-POOL-2. `for_allocations` is live until the pool is closed. Its only work is allocations,
/// and frees of memory whose last use was seen over. It waits for no event, so a wait of the host
/// for this stream waits for no other work.
#[derive(Debug)]
pub(crate) struct DevicePool {
    driver: Arc<dyn Driver>,
    events: Arc<EventPool>,
    stream_for_frees: StreamRef,
    /// The stream on which blocks are allocated, made when the first is.
    for_allocations: Mutex<Option<RawStream>>,
    /// Whether blocks are kept.
    caching: AtomicBool,
    /// The most bytes that are kept in free blocks.
    most_bytes: AtomicU64,
    streams: StreamTable,
    /// Free blocks of no stream, each with the end of its last use.
    shared: FreeBlocks<DeviceAddress, Arc<SharedEnd>>,
    shared_ends: SharedEnds,
    /// The blocks of the pool that have not ended: for which stream each was allocated.
    allocated: Mutex<HashMap<DeviceAddress, (SizeClass, StreamId)>>,
    process: Process,
}

/// Number of shared blocks of a size, the oldest first, of which an allocation asks whether their
/// last use is over.
const ASKED: usize = 8;

/// The variable of the environment that turns the reuse off, as `PYTORCH_NO_CUDA_MEMORY_CACHING`
/// does in PyTorch.
const VARIABLE: &str = "CUDA_RT_NO_MEMORY_CACHING";

impl DevicePool {
    /// A pool that keeps blocks, unless the environment says otherwise. In a capture (`graph`) it
    /// keeps none: the graph owns what is allocated there.
    pub(crate) fn new(
        driver: Arc<dyn Driver>,
        events: Arc<EventPool>,
        stream_for_frees: StreamRef,
        graph: bool,
    ) -> Self {
        let off = || std::env::var_os(VARIABLE).is_some_and(|value| !value.is_empty() && value != "0");
        Self {
            driver,
            events,
            stream_for_frees,
            for_allocations: Mutex::default(),
            caching: AtomicBool::new(!graph && !off()),
            most_bytes: AtomicU64::new(u64::MAX),
            streams: StreamTable::default(),
            shared: FreeBlocks::default(),
            shared_ends: SharedEnds::default(),
            allocated: Mutex::default(),
            process: Process::current(),
        }
    }

    /// Whether blocks are kept. A child of `fork` keeps none: another thread of its parent may have
    /// held a lock of this pool.
    #[inline]
    fn keeps_blocks(&self) -> bool {
        self.caching.load(Ordering::Relaxed) && !self.process.has_forked()
    }

    /// The free blocks of `at`, if blocks were allocated for it and are kept.
    #[inline]
    fn blocks_of(&self, at: StreamRef) -> Option<&StreamBlocks> {
        match self.keeps_blocks() {
            true => self.streams.find(at.id()),
            false => None,
        }
    }

    /// Allocates `bytes` bytes (more than 0) for `at`, a stream of this device. The memory may be
    /// used from the present end of `at` on.
    #[inline]
    pub(crate) fn alloc(&self, bytes: usize, at: StreamRef) -> DriverResult<DeviceBlock> {
        let class = SizeClass::of(bytes);
        if let Some(blocks) = self.blocks_of(at)
            && let Some(address) = blocks.take(class)
        {
            // SAFETY: STREAM-BLOCKS-2: the block was taken out of the list, and the driver was told
            // in the order of `at` that it is free.
            return unsafe { self.reused(address, class, at) };
        }
        self.alloc_missing(bytes, class, at)
    }

    /// A free block, for its next owner on `at`.
    ///
    /// # Safety
    /// Nothing else has the block. Its uses, and the call that told the driver that it is free, are
    /// over or ordered before the present end of `at`.
    #[inline]
    unsafe fn reused(
        &self,
        address: DeviceAddress,
        class: SizeClass,
        at: StreamRef,
    ) -> DriverResult<DeviceBlock> {
        // SAFETY: this function's contract is the call's. The core keeps the stream.
        match at.enqueue(|at| unsafe { self.driver.note_alloc(address, at) }) {
            Ok(()) => Ok(DeviceBlock {
                address,
                pooled_bytes: class.bytes(),
            }),
            Err(error) => {
                self.ended(address);
                // SAFETY: by this function's contract, as for the call above.
                unsafe { self.free_on(address, at) };
                Err(error)
            }
        }
    }

    /// Frees a block (`cuMemFreeAsync`). An error leaks it.
    ///
    /// # Safety
    /// Nothing else has the block, and every use of it is over, or ordered before the present end
    /// of `at`.
    unsafe fn free_on(&self, address: DeviceAddress, at: StreamRef) {
        // SAFETY: this function's contract is the call's. The core keeps the stream.
        let _ = at.enqueue(|at| unsafe { self.driver.free(address, at) });
    }

    /// An allocation for which `at` has no free block.
    #[cold]
    fn alloc_missing(&self, bytes: usize, class: SizeClass, at: StreamRef) -> DriverResult<DeviceBlock> {
        // An adopted stream may be destroyed at any time after its adoption, so it keeps nothing.
        if !self.keeps_blocks() || at.is_adopted() {
            // SAFETY: the stream is live: the core keeps it, or it is adopted at present.
            let address = at.enqueue(|at| unsafe { self.driver.alloc(bytes, at) })?;
            return Ok(DeviceBlock {
                address,
                pooled_bytes: 0,
            });
        }
        if let Some(address) = self.shared.reuse_among(class.bytes(), ASKED) {
            // SAFETY: DEVICE-POOL-1: the block was taken out, and a query saw its end over.
            return unsafe { self.reused(address, class, at) };
        }
        let blocks = self.streams.find_or_insert(at);
        let reserved = observability::reserved(&*self.driver);
        let address = self.alloc_new(class, blocks)?;
        self.began(address, class, blocks);
        reserved.told(&*self.driver);
        Ok(DeviceBlock {
            address,
            pooled_bytes: class.bytes(),
        })
    }

    /// Allocates a block that work of any stream may use from now on. If there is not enough
    /// memory, gives back what is kept. What cannot be given back at once is the memory that other
    /// streams still use.
    fn alloc_new(&self, class: SizeClass, blocks: &StreamBlocks) -> DriverResult<DeviceAddress> {
        let is_full = |error: &cuda_rt_driver::DriverError| error.code() == ErrorCode::OUT_OF_MEMORY;
        match self.alloc_idle(class) {
            Err(error) if is_full(&error) => {}
            done => return done,
        }
        self.give_back(usize::MAX);
        match self.alloc_idle(class) {
            Err(error) if is_full(&error) => {}
            done => return done,
        }
        // Work of this stream may be pending on its blocks. CUDA reuses their memory in the order
        // of the stream.
        let at = blocks.at();
        for (_, address) in blocks.take_out(usize::MAX) {
            self.ended(address);
            // SAFETY: STREAM-BLOCKS-2.
            unsafe { self.free_on(address, at) };
        }
        // SAFETY: STREAM-BLOCKS-1: the stream is live.
        at.enqueue(|at| unsafe { self.driver.alloc(class.bytes(), at) })
    }

    /// Allocates a block on the stream for allocations, and waits for that.
    fn alloc_idle(&self, class: SizeClass) -> DriverResult<DeviceAddress> {
        let for_allocations = self.for_allocations()?;
        // SAFETY: DEVICE-POOL-2: the stream is live.
        let address = unsafe { self.driver.alloc(class.bytes(), for_allocations) }?;
        // SAFETY: DEVICE-POOL-2.
        if let Err(error) = unsafe { self.driver.synchronize_stream(for_allocations) } {
            // SAFETY: nothing has used the block. DEVICE-POOL-2: the stream is live.
            let _ = unsafe { self.driver.free(address, for_allocations) };
            return Err(error);
        }
        Ok(address)
    }

    /// The stream for allocations (`cuStreamCreateWithPriority` at the first call).
    fn for_allocations(&self) -> DriverResult<RawStream> {
        // The value is consistent after any panic: it changes by one store.
        let lock = || {
            self.for_allocations
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        if let Some(stream) = *lock() {
            return Ok(stream);
        }
        let (least_urgent, _) = self.driver.properties().priority_range;
        // Outside of the lock: see `FreeBlocks::take_if_over`.
        let new = self.driver.create_stream(least_urgent)?;
        let stream = *lock().get_or_insert(new);
        if stream != new {
            // SAFETY: the stream was created above, and another thread's is used instead.
            let _ = unsafe { self.driver.destroy_stream(new) };
        }
        Ok(stream)
    }

    /// Ends a buffer: keeps its block for reuse, or frees it (`cuMemFreeAsync`). Does not block. If
    /// the order of the free cannot be made, the block is leaked.
    ///
    /// # Safety
    /// Nothing else owns the block, and every use of it is over, or ordered before the present end
    /// of `at`, a stream of this device. `pooled_bytes` is as [`alloc`](Self::alloc) returned it,
    /// or 0.
    #[inline]
    pub(crate) unsafe fn free(&self, block: DeviceBlock, at: StreamRef) {
        if block.pooled_bytes != 0
            && let Some(blocks) = self.blocks_of(at)
            && self.has_room(block.pooled_bytes)
        {
            let class = SizeClass::of(block.pooled_bytes);
            if blocks.has_place(class) {
                // From here on the block is leaked, unless it gets a place below.
                // SAFETY: by this function's contract, as for `free`. The core keeps the stream.
                let noted = at.enqueue(|at| unsafe { self.driver.note_free(block.address, at) });
                if noted.is_err() {
                    self.ended(block.address);
                } else if !blocks.put(class, block.address) {
                    // SAFETY: by this function's contract, and the driver was told.
                    unsafe { self.share_noted(block, at, None) };
                }
                return;
            }
        }
        // SAFETY: this function's contract.
        unsafe { self.free_elsewhere(block, at) };
    }

    fn allocated(&self) -> MutexGuard<'_, HashMap<DeviceAddress, (SizeClass, StreamId)>> {
        // A panic under the lock can only have lost an entry, which bounds and frees nothing.
        self.allocated.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a new block: one more may come back to its stream.
    fn began(&self, address: DeviceAddress, class: SizeClass, blocks: &StreamBlocks) {
        self.allocated().insert(address, (class, blocks.at().id()));
        blocks.raise(class);
    }

    /// Notes that a block has ended: CUDA gets it next, another owner has it, or it is leaked. One
    /// less comes back to the stream for which it was allocated. The caller has not freed it yet:
    /// CUDA may give the address to a new block at once.
    #[cold]
    fn ended(&self, address: DeviceAddress) {
        // Another thread of the parent may have held a lock.
        if self.process.has_forked() {
            return;
        }
        let ended = self.allocated().remove(&address);
        if let Some((class, stream)) = ended
            && let Some(blocks) = self.streams.find(stream)
        {
            blocks.lower(class);
        }
    }

    /// Notes that a buffer's block has another owner from now on, who frees it.
    pub(crate) fn give_away(&self, block: DeviceBlock) {
        if block.pooled_bytes != 0 {
            self.ended(block.address);
        }
    }

    /// Ends a buffer on a stream that keeps no more blocks, or for which there is no room.
    ///
    /// # Safety
    /// As for [`free`](Self::free).
    #[cold]
    unsafe fn free_elsewhere(&self, block: DeviceBlock, at: StreamRef) {
        if block.pooled_bytes == 0 {
            // SAFETY: this function's contract.
            return unsafe { self.free_on(block.address, at) };
        }
        if !self.keeps_blocks() {
            self.ended(block.address);
            // SAFETY: this function's contract.
            return unsafe { self.free_on(block.address, at) };
        }
        if !self.has_room(block.pooled_bytes) {
            self.ended(block.address);
            // A stream that frees nothing itself has faster events.
            let waited = self
                .events
                .record(at, false)
                .and_then(|end| end.wait_on(self.stream_for_frees));
            let at = match waited {
                Ok(()) => self.stream_for_frees,
                Err(_) => at,
            };
            // SAFETY: this function's contract; the stream for frees waits for the end of `at`.
            return unsafe { self.free_on(block.address, at) };
        }
        // Asked before the note, which is work.
        let latest = self.shared_ends.latest(at);
        // SAFETY: by this function's contract, as for `free`. The core keeps the stream, or it is
        // adopted at present.
        let noted = at.enqueue(|at| unsafe { self.driver.note_free(block.address, at) });
        match noted {
            // SAFETY: this function's contract, and the driver was told.
            Ok(()) => unsafe { self.share_noted(block, at, latest) },
            Err(_) => self.ended(block.address),
        }
    }

    /// Leaves a block to the first stream that needs one of its size after its last use was seen
    /// over. `latest` is the end to which only this drop was added.
    ///
    /// # Safety
    /// As for [`free`](Self::free), and the driver was told in the order of `at` that the block is
    /// free.
    unsafe fn share_noted(&self, block: DeviceBlock, at: StreamRef, latest: Option<Latest>) {
        match self.events.record(at, false) {
            // DEVICE-POOL-1 holds by this function's contract.
            Ok(record) => {
                let end = self.shared_ends.end(at, latest, record);
                self.shared.give_back(block.pooled_bytes, block.address, end);
            }
            Err(_) => {
                self.ended(block.address);
                // SAFETY: this function's contract.
                unsafe { self.free_on(block.address, at) };
            }
        }
    }

    /// Whether a block of this size may be kept.
    #[inline]
    fn has_room(&self, bytes: usize) -> bool {
        let most = self.most_bytes.load(Ordering::Relaxed);
        most == u64::MAX || (self.free_bytes() + bytes) as u64 <= most
    }

    /// Bytes in the blocks that are kept for reuse.
    pub(crate) fn free_bytes(&self) -> usize {
        if self.process.has_forked() {
            return 0;
        }
        let of_streams: usize = self.streams.iter().map(StreamBlocks::free_bytes).sum();
        of_streams + self.shared.size().1
    }

    /// The blocks that are kept for reuse, and their bytes.
    pub(crate) fn kept(&self) -> (usize, usize) {
        if self.process.has_forked() {
            return (0, 0);
        }
        let of_streams: usize = self.streams.iter().map(StreamBlocks::count).sum();
        (of_streams + self.shared.size().0, self.free_bytes())
    }

    /// Whether there is a stream for allocations.
    pub(crate) fn has_stream(&self) -> bool {
        let made = self
            .for_allocations
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        made.is_some()
    }

    /// Limits the bytes in free blocks, and gives back what is too much. `u64::MAX` is no limit.
    pub(crate) fn set_most_bytes(&self, bytes: u64) {
        self.most_bytes.store(bytes, Ordering::Relaxed);
        let too_much = (self.free_bytes() as u64).saturating_sub(bytes);
        if too_much > 0 {
            self.give_back(usize::try_from(too_much).unwrap_or(usize::MAX));
        }
    }

    /// Keeps blocks from now on, or no longer. Blocks that are kept stay until they are
    /// [given back](Self::give_back).
    pub(crate) fn set_caching(&self, caching: bool) {
        self.caching
            .store(caching && !self.process.has_forked(), Ordering::Relaxed);
    }

    /// Gives free blocks back to CUDA, until they have `most_bytes` bytes together, and waits until
    /// CUDA has them. Blocks whose last use was not seen over stay.
    pub(crate) fn give_back(&self, most_bytes: usize) {
        if self.process.has_forked() {
            return;
        }
        let Ok(for_allocations) = self.for_allocations() else {
            return;
        };
        let free = |address| {
            self.ended(address);
            // SAFETY: nothing has the block any more, and its last use was seen over. The stream is
            // live (DEVICE-POOL-2). An error leaks the block.
            let _ = unsafe { self.driver.free(address, for_allocations) };
        };
        let (shared, mut given_back) = self.shared.take_over(most_bytes);
        shared.into_iter().for_each(free);
        for blocks in self.streams.iter() {
            // If a call unwinds, the blocks that were taken out are leaked.
            let taken = blocks.take_out(most_bytes.saturating_sub(given_back));
            if taken.is_empty() {
                continue;
            }
            // SAFETY: STREAM-BLOCKS-1: the stream is live. By STREAM-BLOCKS-2, which held when the
            // blocks were taken out, the query asks for all their uses. An error says nothing about
            // the work (docs/soundness.md, obligation 4).
            let over = blocks
                .at()
                .host_waits(|at| unsafe { self.driver.query_stream(at) })
                .unwrap_or(false);
            if over {
                given_back += taken.iter().map(|(class, _)| class.bytes()).sum::<usize>();
                taken.into_iter().for_each(|(_, address)| free(address));
            } else {
                blocks.put_back(taken);
            }
        }
        // SAFETY: DEVICE-POOL-2. After an error the memory becomes free later.
        let _ = unsafe { self.driver.synchronize_stream(for_allocations) };
        observability::pool_trimmed(&*self.driver, "device", given_back);
    }

    /// Frees all blocks behind their last uses, and destroys the stream for allocations. Does not
    /// block. A block whose order cannot be made is leaked.
    pub(crate) fn close(&mut self) {
        for blocks in self.streams.iter() {
            for (_, address) in blocks.take_out(usize::MAX) {
                // SAFETY: STREAM-BLOCKS-2.
                unsafe { self.free_on(address, blocks.at()) };
            }
        }
        for (end, address) in self.shared.take_all() {
            // A failed wait is not a finished wait (docs/soundness.md, obligation 4).
            if end.wait_on(self.stream_for_frees).is_ok() {
                // SAFETY: DEVICE-POOL-1, and the stream for frees waits for the end.
                unsafe { self.free_on(address, self.stream_for_frees) };
            }
        }
        let made = self
            .for_allocations
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = made.take() {
            // SAFETY: DEVICE-POOL-2: the stream is live, and nothing uses it any more.
            let _ = unsafe { self.driver.destroy_stream(stream) };
        }
    }
}
