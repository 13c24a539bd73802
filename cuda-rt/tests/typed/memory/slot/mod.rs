//! Slots: a bundle stays in place while streams and the host use it in turn.
#![forbid(unsafe_code)]

mod attacks;

use cuda_rt::{DeviceBuffer, Error, Idle, Live, PinnedBuffer, Slot, Stream};

use crate::devices::for_each_device;

cuda_rt::streams! {
    Compute, priority = High;
    Download;
}

/// A double-buffered server, the program that slots are made for.
struct Server<D: Live> {
    compute: Stream<Compute<D>>,
    download: Stream<Download<D>>,
    slots: [Slot<(DeviceBuffer<u32, Idle<D>>, PinnedBuffer<u32, Idle<D>>)>; 2],
    steps: usize,
}

impl<D: Live> Server<D> {
    fn step(&mut self, sink: &mut Vec<u32>) -> Result<(), Error> {
        let slot = &mut self.slots[self.steps % 2];
        let step = self.steps as u32;
        self.steps += 1;
        slot.host(|(_, host)| sink.push(host[0]))?;
        slot.on(&self.compute, |(device, _)| self.compute.fill(device, step))??;
        slot.on(&self.download, |(device, host)| {
            self.download.copy_to_host(device, host)
        })?
    }
}

#[test]
fn slots_keep_a_server_double_buffered() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let slots = std::array::from_fn(|_| {
            let device = compute
                .release(compute.alloc_zeroed(64).unwrap())
                .unwrap()
                .synchronize()
                .unwrap();
            Slot::new((device, gpu.pinned(64).unwrap()))
        });
        let mut server = Server {
            compute,
            download: gpu.stream().unwrap(),
            slots,
            steps: 0,
        };
        let mut seen = Vec::new();
        for _ in 0..10 {
            server.step(&mut seen).unwrap();
        }
        assert_eq!(seen, [0, 0, 0, 1, 2, 3, 4, 5, 6, 7]);
    });
}

#[test]
fn a_slot_survives_a_panic_in_its_closure() {
    for_each_device(|gpu| {
        let (compute, download) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        let mut slot = Slot::from(compute.release(compute.alloc_zeroed::<u8>(16).unwrap()).unwrap());
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            slot.on(&compute, |buffer| {
                compute.fill(buffer, 1).unwrap();
                std::panic::panic_any("in the closure")
            })
            .unwrap();
        }));
        assert!(panicked.is_err());
        // The slot waits for the work that the closure had enqueued before its panic.
        let mut host = download.adopt(gpu.pinned::<u8>(16).unwrap()).unwrap();
        slot.on(&download, |buffer| download.copy_to_host(buffer, &mut host))
            .unwrap()
            .unwrap();
        assert_eq!(*download.release(host).unwrap().synchronize().unwrap(), [1; 16]);
    });
}
