//! Blocks that scan with words of the test.

use super::*;
use crate::block::{OneD, Sum};
use crate::{Extent, PerTile};

/// Runs block `at` of `blocks` blocks of `threads` threads, which scans with these words.
fn scan<T: TileValue>(
    words: &mut [u64],
    [at, blocks, threads]: [u32; 3],
    aggregate: T,
    f: impl for<'k> FnOnce(&mut Block<'k, OneD>, Tile<'k>),
) -> T
where
    Sum: Operator<T>,
{
    let extent = Extent {
        x: u64::from(blocks) * u64::from(threads),
        y: 1,
        z: 1,
    };
    // SAFETY: no launch runs, and the caller makes each block once.
    let mut block: Block<'_, OneD> = unsafe { Block::new([at, 0], [threads, 1], [blocks, 1], extent) };
    let mut memory = [0u128; 2];
    // SAFETY: the memory is aligned to 16 bytes, has 24 of them and more, and no other user.
    let mut seen: BlockUninit<'_, [u32; 3], 2> = unsafe { BlockUninit::new(memory.as_mut_ptr().cast()) };
    // SAFETY: LOOK-BACK-1: the words are borrowed for this call.
    let look_back = unsafe { LookBack::new(words.as_mut_ptr(), words.len()) };
    let (before, (), tile) = look_back.scan::<Sum, T, _, _, 2>(&mut block, &mut seen, |_, _| (aggregate, ()));
    f(&mut block, tile);
    before
}

/// The halves of an aggregate and of a prefix are no value.
#[test]
#[should_panic(expected = "a tile waits for a tile that no block has")]
fn halves_of_two_values_are_not_read() {
    let words = &mut [1, word(0, AGGREGATE, 7), word(0, PREFIX, 7), 0, 0];
    scan(words, [1, 2, 32], 1_u64, |_, _| ());
}

#[test]
#[should_panic(expected = "a tile waits for a tile that no block has")]
fn a_value_of_another_generation_is_not_read() {
    scan(&mut [1, word(1, PREFIX, 7), 0], [1, 2, 32], 1_u32, |_, _| ());
}

#[test]
#[should_panic(expected = "were not 0, or a block of an earlier launch took no tile")]
fn a_ticket_that_is_not_below_the_blocks_is_refused() {
    scan(&mut [2, 0, 0], [1, 2, 32], 1_u32, |_, _| ());
}

/// A later launch could not see that the count of tickets is wrong.
#[test]
#[should_panic(expected = "a block ends without `LookBack::scan`")]
fn a_block_that_takes_no_tile_traps() {
    let mut words = [0; 3];
    // SAFETY: LOOK-BACK-1: the words are borrowed by nothing else.
    drop(unsafe { LookBack::new(words.as_mut_ptr(), words.len()) });
}

/// Far tiles, of which all but the first have published aggregates only.
#[test]
fn aggregates_are_combined_up_to_a_prefix() {
    let tiles = 150;
    let mut words: Vec<u64> = (0..=tiles).map(|_| word(0, AGGREGATE, 3)).collect();
    words[0] = u64::from(tiles) - 1;
    words[1 + 20] = word(0, PREFIX, 1000);
    let before = 1000 + 3 * 128;
    let (own, next) = (word(0, PREFIX, before + 2), 1 << 32);
    assert_eq!(scan(&mut words, [5, tiles, 32], 2_u32, |_, _| ()), before);
    assert_eq!(words[tiles as usize], own);
    assert_eq!(words[0], next);
}

/// Each element of all tiles has one chunk of one thread, and nothing else is written.
#[test]
fn the_chunks_of_tiles_are_distinct_and_inside() {
    const BLOCKS: u32 = 3;
    for threads in [32, 64] {
        let whole = (BLOCKS * threads * 2 * 3) as usize;
        for (len, start) in [
            (whole, 0),
            (whole, 1),
            (whole - 1, 0),
            (whole - 7, 1),
            (5, 0),
            (0, 0),
        ] {
            let mut memory = vec![0u32; start + len + 100];
            let ptr = memory[start..].as_mut_ptr();
            let mut words = vec![0; 1 + BLOCKS as usize];
            let writes = std::sync::atomic::AtomicU32::new(0);
            for at in 0..BLOCKS {
                scan(&mut words, [at, BLOCKS, threads], 1_u32, |block, tile| {
                    // SAFETY: PER-TILE-1: `memory` outlives the call, and nothing else uses it.
                    let output = unsafe { PerTile::<u32, 2, 3>::new(ptr, len) };
                    block.threads(|thread| {
                        let number = |k: usize, q: usize| {
                            writes.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                            (tile.position::<2, 3>(thread, k) + q) as u32 + 1
                        };
                        output.set(
                            &tile,
                            thread,
                            core::array::from_fn(|k| core::array::from_fn(|q| number(k, q))),
                        );
                    });
                });
            }
            assert_eq!(writes.into_inner() as usize, whole);
            let (before, rest) = memory.split_at(start);
            let (output, after) = rest.split_at(len);
            assert!(before.iter().chain(after).all(|value| *value == 0));
            assert!(output.iter().copied().eq(1..=len as u32), "{len} from {start}");
        }
    }
}

/// A tile, and the rows of a launch, open on the launch's own thread of the host.
#[test]
fn no_other_thread_of_the_host_opens_a_tile_or_a_row() {
    let mut memory = [0u32; 256];
    let ptr = memory.as_mut_ptr();
    scan(&mut [0, 0], [0, 1, 32], 1_u32, |block, tile| {
        // SAFETY: PER-TILE-1: nothing is written.
        let output = unsafe { PerTile::<u32, 1, 1>::new(ptr, 32) };
        // SAFETY: PER-ROW-1: nothing is written.
        let rows = unsafe { crate::PerRow::<u32, 4, 32>::new(ptr, 128) };
        let rows = rows.rows(block, 128);
        let refused = |use_it: &(dyn Fn(&crate::Lane<'_>) + Sync)| {
            let other = || {
                let extent = Extent { x: 32, y: 1, z: 1 };
                // SAFETY: no launch runs, and this is the thread's only block.
                let mut block: Block<'_, OneD> = unsafe { Block::new([0, 0], [32, 1], [1, 1], extent) };
                block.threads(|thread| use_it(thread));
            };
            let said = std::thread::scope(|scope| scope.spawn(other).join()).expect_err("refused");
            let said = said.downcast_ref::<&str>().expect("a message");
            assert!(said.starts_with("H32: a kernel's output"), "{said}");
        };
        refused(&|lane| output.set(&tile, lane, [[1]]));
        refused(&|lane| rows.set(lane, 0, [1; 4]));
        refused(&|lane| rows.set_chunk(lane, 0, [1; 4]));
    });
    assert_eq!(memory, [0; 256]);
}
