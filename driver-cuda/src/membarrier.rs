//! Linux's `membarrier`: a barrier in each running thread of this process.

#[cfg(target_os = "linux")]
const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
#[cfg(target_os = "linux")]
const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

#[cfg(target_os = "linux")]
fn call(command: libc::c_int) -> bool {
    // SAFETY: the call takes two numbers, and touches no memory.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0) == 0 }
}

/// Announces that this process will call [`execute`]. Returns whether it can.
#[cfg(target_os = "linux")]
pub(super) fn register() -> bool {
    call(REGISTER_PRIVATE_EXPEDITED)
}

/// Makes each running thread execute a full barrier. Returns whether it did.
#[cfg(target_os = "linux")]
pub(super) fn execute() -> bool {
    call(PRIVATE_EXPEDITED)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn register() -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
pub(super) fn execute() -> bool {
    false
}
