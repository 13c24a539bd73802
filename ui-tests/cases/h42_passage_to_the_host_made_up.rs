// H42 (E0603): the checker is told that the host has memory which nobody gave it.
// Twin: h13_read_before_download_is_done
#![forbid(unsafe_code)]
use cuda_rt::driver::Passed;
use cuda_rt::{PinnedBuffer, Resource};

fn lie(idle: &PinnedBuffer<u8>) {
    idle.host_has(cuda_rt::__private::ToHost(Passed::here("lie")));
}

fn main() {}
