//! [`StreamBlocks`]: the free blocks of one stream, which the stream reuses in its own order.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::size_class::SizeClass;
use crate::order::stream_ref::{StreamId, StreamRef};
use cuda_rt_driver::DeviceAddress;

/// A free block, and its size.
pub(super) type FreeBlock = (SizeClass, DeviceAddress);

/// The free blocks of one size.
#[derive(Debug, Default)]
struct List {
    free: Vec<DeviceAddress>,
    /// The most blocks that come back here (STREAM-BLOCKS-3).
    most: usize,
}

impl List {
    fn is_full(&self) -> bool {
        self.free.len() >= self.most
    }
}

#[derive(Debug)]
struct Lists {
    common: [List; SizeClass::COMMON],
    large: BTreeMap<usize, List>,
}

impl Lists {
    #[inline]
    fn of(&mut self, class: SizeClass) -> &mut List {
        match class.common() {
            Some(place) => &mut self.common[place],
            None => self.large.entry(class.bytes()).or_default(),
        }
    }
}

/// The free blocks of one stream.
///
/// The lock is held only while a block is moved: no call of the driver is made under it. Two
/// threads meet there only if both use one stream.
///
/// # Invariants
/// STREAM-BLOCKS-1. `at` is a stream that the core keeps (CORE-1). It is not adopted.
/// STREAM-BLOCKS-2. Nothing but this list owns a block in it. Every use of the block is ordered
/// before the present end of `at`, and the driver was told that the block is free.
/// STREAM-BLOCKS-3. For each size, `most` is the number of blocks that were allocated for `at` and
/// have not ended, once no call is under way. No use of memory rests on this: it bounds what the
/// stream keeps.
#[derive(Debug)]
pub(super) struct StreamBlocks {
    at: StreamRef,
    lists: Mutex<Lists>,
    /// Whether a list has a place for a block. Written under the lock, and perhaps old where it is
    /// read without.
    has_place: [AtomicBool; SizeClass::COMMON],
    /// Bytes in the lists. Written under the lock.
    free_bytes: AtomicUsize,
    next: Link,
}

type Link = OnceLock<Box<StreamBlocks>>;

impl StreamBlocks {
    fn new(at: StreamRef) -> Self {
        Self {
            at,
            lists: Mutex::new(Lists {
                common: std::array::from_fn(|_| List::default()),
                large: BTreeMap::new(),
            }),
            has_place: [const { AtomicBool::new(false) }; SizeClass::COMMON],
            free_bytes: AtomicUsize::new(0),
            next: Link::new(),
        }
    }

    #[inline]
    fn lock(&self) -> MutexGuard<'_, Lists> {
        // A panic under the lock can only have lost blocks: no block has two owners.
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn add_bytes(&self, bytes: usize) {
        self.free_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    #[inline]
    fn subtract_bytes(&self, bytes: usize) {
        self.free_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(super) fn at(&self) -> StreamRef {
        self.at
    }

    /// Bytes in free blocks.
    pub(super) fn free_bytes(&self) -> usize {
        self.free_bytes.load(Ordering::Relaxed)
    }

    /// The number of free blocks.
    pub(super) fn count(&self) -> usize {
        let lists = self.lock();
        let lists = lists.common.iter().chain(lists.large.values());
        lists.map(|list| list.free.len()).sum()
    }

    /// Takes the block that became free last.
    #[inline]
    pub(super) fn take(&self, class: SizeClass) -> Option<DeviceAddress> {
        let mut lists = self.lock();
        let list = lists.of(class);
        let address = list.free.pop()?;
        self.set_place(class, true);
        self.subtract_bytes(class.bytes());
        Some(address)
    }

    #[inline]
    fn set_place(&self, class: SizeClass, has_place: bool) {
        if let Some(place) = class.common() {
            // ORDER: a hint needs none.
            self.has_place[place].store(has_place, Ordering::Relaxed);
        }
    }

    /// Whether [`put`](Self::put) will probably take a block of the size.
    #[inline]
    pub(super) fn has_place(&self, class: SizeClass) -> bool {
        match class.common() {
            Some(place) => self.has_place[place].load(Ordering::Relaxed),
            None => !self.lock().of(class).is_full(),
        }
    }

    /// Takes a block back, by STREAM-BLOCKS-2. Returns false, and takes nothing, if the list of the
    /// size is full.
    #[inline]
    pub(super) fn put(&self, class: SizeClass, address: DeviceAddress) -> bool {
        let mut lists = self.lock();
        let list = lists.of(class);
        if list.is_full() {
            return false;
        }
        // There is room: `raise` has reserved it.
        list.free.push(address);
        if list.is_full() {
            self.set_place(class, false);
        }
        self.add_bytes(class.bytes());
        true
    }

    /// Notes that a block was allocated for this stream: one more may come back.
    pub(super) fn raise(&self, class: SizeClass) {
        let mut lists = self.lock();
        let list = lists.of(class);
        list.most += 1;
        list.free.reserve(list.most.saturating_sub(list.free.len()));
        self.set_place(class, !list.is_full());
    }

    /// Notes that a block that was allocated for this stream has ended: one less may come back.
    pub(super) fn lower(&self, class: SizeClass) {
        let mut lists = self.lock();
        let list = lists.of(class);
        // It is at least 1 by STREAM-BLOCKS-3. A wrong bound must not unwind.
        list.most = list.most.saturating_sub(1);
        self.set_place(class, !list.is_full());
    }

    /// Takes free blocks out, the largest first, until they have `most_bytes` bytes together. The
    /// caller puts them back, or notes that they have ended.
    pub(super) fn take_out(&self, most_bytes: usize) -> Vec<FreeBlock> {
        let mut lists = self.lock();
        let (mut taken, mut taken_bytes) = (Vec::new(), 0);
        let Lists { common, large } = &mut *lists;
        let large = large.iter_mut().rev();
        let large = large.map(|(bytes, list)| (SizeClass::of(*bytes), list));
        let common = common.iter_mut().enumerate().rev();
        let common = common.map(|(place, list)| (SizeClass::common_at(place), list));
        for (class, list) in large.chain(common) {
            while taken_bytes < most_bytes
                && let Some(address) = list.free.pop()
            {
                taken_bytes += class.bytes();
                taken.push((class, address));
            }
        }
        self.subtract_bytes(taken_bytes);
        taken
    }

    /// Puts blocks back that [`take_out`](Self::take_out) returned.
    pub(super) fn put_back(&self, blocks: Vec<FreeBlock>) {
        let mut lists = self.lock();
        for (class, address) in blocks {
            lists.of(class).free.push(address);
            self.add_bytes(class.bytes());
        }
    }
}

/// The free blocks of all streams that have allocated, by their streams.
///
/// An entry is never removed, so a look-up takes no lock: it reads a chain of entries, which are
/// few for each head.
#[derive(Debug)]
pub(super) struct StreamTable {
    heads: [Link; Self::HEADS],
}

impl Default for StreamTable {
    fn default() -> Self {
        Self {
            heads: std::array::from_fn(|_| Link::new()),
        }
    }
}

impl StreamTable {
    const HEADS: usize = 64;

    #[inline]
    fn head(&self, id: StreamId) -> &Link {
        &self.heads[id.modulo(Self::HEADS)]
    }

    /// The blocks of the stream `id`, if blocks were allocated for it.
    #[inline]
    pub(super) fn find(&self, id: StreamId) -> Option<&StreamBlocks> {
        let mut next = self.head(id);
        while let Some(blocks) = next.get() {
            if blocks.at.id() == id {
                return Some(blocks);
            }
            next = &blocks.next;
        }
        None
    }

    /// The blocks of `at`, by STREAM-BLOCKS-1.
    pub(super) fn find_or_insert(&self, at: StreamRef) -> &StreamBlocks {
        let mut next = self.head(at.id());
        loop {
            // If another thread inserts a stream here at once, this thread goes on behind it.
            let blocks = next.get_or_init(|| Box::new(StreamBlocks::new(at)));
            if blocks.at.id() == at.id() {
                return blocks;
            }
            next = &blocks.next;
        }
    }

    /// The blocks of all streams.
    pub(super) fn iter(&self) -> impl Iterator<Item = &StreamBlocks> {
        self.heads.iter().flat_map(|head| {
            std::iter::successors(head.get(), |blocks| blocks.next.get()).map(|blocks| &**blocks)
        })
    }
}
