// H38 (E0382): what a rank gives to a collective is both given up and kept.
// Twin: h38_buffer_used_in_flight
// Through a bound: cuda_rt_runtime::collective::ranks::sealed::Ranks
#![forbid(unsafe_code)]
use cuda_rt::InPlace;

fn keep<T, G, R: InPlace<T, G>>(ranks: R) -> R::Buffers {
    let _parts = ranks.parts();
    ranks.leak();
    ranks.into_given()
}

fn main() {}
