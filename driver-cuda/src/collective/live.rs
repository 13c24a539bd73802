//! Whether the ranks of a communicator take calls.

use std::sync::MutexGuard;

use cuda_rt_driver::{DriverError, DriverResult, ErrorCode};

use super::{NcclCommunicator, Rank};
use crate::loader;

impl NcclCommunicator {
    /// The ranks, or an error if they were aborted, or if this is a child of `fork`.
    pub(super) fn live_ranks(&self, call: &'static str) -> DriverResult<MutexGuard<'_, Vec<Rank>>> {
        // Not behind the lock, which a thread of the parent may have held as it forked.
        loader::check(call)?;
        let ranks = self.lock();
        if ranks.len() == self.count {
            return Ok(ranks);
        }
        Err(DriverError::with_detail(
            call,
            ErrorCode::NCCL_INVALID_USAGE,
            "the communicator was aborted",
        ))
    }
}
