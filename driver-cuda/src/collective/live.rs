//! Whether the ranks of a communicator take calls.

use cuda_rt_driver::process::Process;
use cuda_rt_driver::{DriverError, DriverResult, ErrorCode};

use super::{NcclCommunicator, Rank};

impl NcclCommunicator {
    /// An error if the ranks were aborted, or if this is a child of `fork`.
    pub(super) fn check_live(&self, ranks: &[Rank], call: &'static str) -> DriverResult<()> {
        check_process(self.process, call)?;
        if ranks.len() == self.count {
            return Ok(());
        }
        Err(DriverError::with_detail(
            call,
            ErrorCode::NCCL_INVALID_USAGE,
            "the communicator was aborted",
        ))
    }
}

/// NCCL works on memory that a child shares with its parent.
fn check_process(process: Process, call: &'static str) -> DriverResult<()> {
    if process.is_current() {
        return Ok(());
    }
    Err(DriverError::with_detail(
        call,
        ErrorCode::NOT_INITIALIZED,
        format!(
            "this process was forked, and the communicator stayed in its parent, process {}",
            process.id()
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_child_of_fork_makes_no_call() {
        let parent = Process::current();
        check_process(parent, "ncclGroupStart").unwrap();
        // SAFETY: the child makes calls that are safe after a fork, allocates by glibc's allocator,
        // which works there, and ends in this block.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let refused = check_process(parent, "ncclGroupStart").is_err() && parent.has_forked();
            // SAFETY: the call ends the process at once.
            unsafe { libc::_exit(i32::from(!refused)) };
        }
        let mut status = -1;
        // SAFETY: `child` is a child of this process, and `status` has room for its status.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
    }
}
