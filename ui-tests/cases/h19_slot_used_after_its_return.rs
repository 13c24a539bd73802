// H19 (E0382): a slot used after its return to the ring, when another thread may use it.
// Twin: pipeline
#![forbid(unsafe_code)]
use cuda_rt::Handoff;
use cuda_rt::pipeline::Ring;

fn main() {
    let gpu = cuda_rt::Device::open_or_simulate().unwrap();
    let ring = Ring::new(&gpu, vec![Handoff::ready(gpu.pinned::<u8>(8).unwrap())]);
    let mut slot = ring.take();
    drop(slot);
    slot.host(|memory| memory.fill(1)).unwrap();
}
