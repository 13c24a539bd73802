//! [`time`]: the processor time of this process.

use std::time::Duration;

/// The processor time of all threads of the process so far (`CLOCK_PROCESS_CPUTIME_ID`).
pub(crate) fn time() -> Duration {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a live struct, which the call writes.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut now) };
    assert_eq!(status, 0, "there is no clock of processor time");
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_processor_time() {
        let before = time();
        while time() < before + Duration::from_millis(2) {}
        std::thread::sleep(Duration::from_millis(200));
        assert!(time() < before + Duration::from_millis(200));
    }
}
