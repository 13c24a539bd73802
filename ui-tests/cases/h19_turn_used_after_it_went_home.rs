// H19 (E0382): a slot used after its turn, when it may be someone else's.
// Twin: pipeline
#![forbid(unsafe_code)]
use cuda_rt::Handoff;
use cuda_rt::pipeline::Ring;

fn main() {
    let gpu = cuda_rt::Device::open_or_simulate().unwrap();
    let ring = Ring::new(&gpu, vec![Handoff::ready(gpu.pinned::<u8>(8).unwrap())]);
    let mut turn = ring.take();
    drop(turn);
    turn.host(|memory| memory.fill(1)).unwrap();
}
