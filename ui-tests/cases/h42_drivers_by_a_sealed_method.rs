// H42 (E0616): drivers and addresses are taken from what a communicator and a collective are given.
// Twin: h38_buffer_used_in_flight
// Through a bound: cuda_rt_runtime::collective::ranks::sealed::Devices
#![forbid(unsafe_code)]
use cuda_rt::{Devices, InPlace};

fn drivers<L: Devices>(devices: &L) -> usize {
    devices.drivers().0.len()
}

fn addresses<T, G, R: InPlace<T, G>>(ranks: &R) {
    for rank in ranks.parts() {
        println!("{:?} of {:?}", rank.part, rank.stream.check());
    }
}

fn main() {}
