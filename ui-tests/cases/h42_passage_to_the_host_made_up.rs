// H42 (E0624): the checker is told that the host has memory which nobody gave it.
// Twin: h13_read_before_download_is_done
#![forbid(unsafe_code)]
use cuda_rt::driver::CallSite;
use cuda_rt::{PinnedBuffer, Bundle};

fn lie(idle: &PinnedBuffer<u8>) {
    idle.note_host_access(cuda_rt::__private::ToHost::writes(CallSite::here("lie")));
}

fn main() {}
