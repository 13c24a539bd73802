//! Blocks that work in phases.
//!
//! A kernel that takes a [`Block`] is written for the whole block. Block-level code sees only
//! values on which all threads agree. Values that differ by thread exist only in closures; each
//! closure runs once in every thread. A closure that can reach shared memory ends in a barrier.
//! Therefore every thread meets every barrier, and a phase may read the shared memory that the
//! phase before it wrote:
//!
//! ```
//! # use device_std::prelude::*;
//! fn block_sum(
//!     mut block: Block,
//!     tile: BlockUninit<f32, 256>,
//!     input: &[f32],
//!     mut sums: PerBlock<f32>,
//! ) {
//!     let value = |at| input.get(at).copied().unwrap_or(0.0);
//!     let mut tile = tile.init(&mut block, |t, _| value(t.position()));
//!     let mut half = 128;
//!     while half > 0 {
//!         let (low, high) = tile.split_at_mut(half);
//!         block.threads(|t| {
//!             if let Some(sum) = low.get(t) {
//!                 low.set(t, sum + high.slice(t)[t.index()]);
//!             }
//!         });
//!         half /= 2;
//!     }
//!     let total = block.broadcast(&tile, 0);
//!     sums.set(&block, total);
//! }
//! ```
//!
//! What stops each mistake:
//!
//! - **put a barrier under a condition that differs by thread**: the condition exists only in a
//!   closure, and a closure cannot borrow the block: E0502
//! - **carry a value out of a closure in a cell**: [`PhaseSafe`]: E0277
//! - **read the content of a `Private` at block level**: a `Private` opens only with a [`Lane`]
//! - **read shared memory that another thread writes in this phase**: [`EachMut`] borrows it
//!   exclusively: E0502
//! - **read shared memory where no barrier follows**: a [`View`] opens only with a [`Thread`], and
//!   closures without a barrier get a [`Lane`]
//! - **read shared memory that nobody wrote**: the memory is a [`BlockUninit`] until `init` has
//!   written all of it

mod look_back;
mod opening;
mod operator;
mod phase_safe;
#[cfg(target_arch = "nvptx64")]
mod phase_safe_auto;
mod phases;
mod private;
mod reduce;
mod shared;
mod shuffle;
mod thread;
mod vote;

pub use look_back::{LookBack, Tile, TileValue};
pub use operator::{And, Each, Max, Min, Operator, Or, Product, Sum, Xor};
pub use phase_safe::PhaseSafe;
pub use phases::{Block, Block2};
pub use private::Private;
pub use shared::{BlockShared, BlockUninit, EachMut, SharedAtomic, View};
pub use shuffle::ShuffleElement;
pub use thread::{Dimensions, Lane, OneD, Thread, TwoD};
pub use vote::MatchElement;
