//! Managed memory, used by the host and by work of the device in turns.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cuda_rt::driver::{Advice, DeviceAddress, Driver, ErrorCode, Location};

use crate::support::{Block, Host, Rig, SLOW};

/// Managed memory, as the host and as work of the device see it.
struct Managed<'a> {
    rig: &'a Rig,
    host: Host,
    block: Block,
}

impl<'a> Managed<'a> {
    /// `None` where there is no managed memory, which the driver must say.
    #[track_caller]
    fn new(rig: &'a Rig, bytes: usize) -> Option<Self> {
        let allocated = rig.driver.alloc_managed(bytes);
        if !rig.driver.properties().concurrent_managed_access {
            let error = allocated.expect_err("not supported");
            assert_eq!(error.code(), ErrorCode::NOT_SUPPORTED, "{error}");
            eprintln!("NO MANAGED MEMORY: {error}");
            return None;
        }
        let address = allocated.expect("managed memory");
        let on_device = DeviceAddress(address.as_ptr().expose_provenance() as u64);
        assert!(on_device.0.is_multiple_of(256), "{on_device:?}");
        Some(Self {
            rig,
            host: Host { address, bytes },
            block: Block {
                address: on_device,
                bytes,
            },
        })
    }

    /// Runs `body` while the memory stays mapped.
    fn on_host<O>(&self, body: impl FnOnce(Host) -> O) -> O {
        let (body, output) = (Cell::new(Some(body)), Cell::new(None));
        let run = || output.set(body.take().map(|body| body(self.host)));
        self.rig.driver.while_mapped(&run).expect("mapped");
        output.into_inner().expect("run once")
    }

    #[track_caller]
    fn prefetch(&self, start: usize, bytes: usize, to: Location, stream: cuda_rt::driver::RawStream) {
        let start = self.host.part(start, bytes).address;
        // SAFETY: the range is a part of live memory, and the stream is not captured.
        unsafe { self.rig.driver.prefetch(start, bytes, to, stream) }.expect("prefetch");
    }

    #[track_caller]
    fn advise(&self, advice: Advice) {
        // SAFETY: the memory is live.
        unsafe { self.rig.driver.advise(self.host.address, self.host.bytes, advice) }
            .unwrap_or_else(|error| panic!("{advice:?}: {error}"));
    }

    /// Ends the memory. The case has waited for all work on it.
    #[track_caller]
    fn free(self) {
        // SAFETY: no work uses the memory, and it is not used again.
        unsafe { self.rig.driver.free_managed(self.host.address) }.expect("free");
    }
}

pub(crate) fn the_host_and_kernels_take_turns(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    for bytes in [4, 4000, 300_000] {
        let Some(memory) = Managed::new(&rig, bytes) else {
            return;
        };
        for round in 0..5_u32 {
            memory.on_host(|host| host.write(&round.to_ne_bytes().repeat(bytes / 4)));
            rig.step(memory.block, SLOW, 3, 1, stream);
            rig.synchronize(stream);
            let words = memory.on_host(Host::words);
            assert!(
                words.iter().all(|word| *word == 3 * round + 1),
                "{bytes}, {round}"
            );
        }
        memory.free();
    }
}

/// The host uses one allocation while a kernel runs on another.
pub(crate) fn the_host_uses_other_memory_than_a_running_kernel(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let (Some(busy), Some(idle)) = (Managed::new(&rig, 4096), Managed::new(&rig, 4096)) else {
        return;
    };
    busy.on_host(|host| host.write(&[0; 4096]));
    for round in 0..20_u8 {
        rig.step(busy.block, SLOW, 1, 1, stream);
        idle.on_host(|host| host.write(&[round; 4096]));
        assert_eq!(idle.on_host(Host::read), [round; 4096]);
    }
    rig.synchronize(stream);
    assert_eq!(busy.on_host(Host::words), [20; 1024]);
    busy.free();
    idle.free();
}

/// Copies and fills take managed memory where they take memory of the device.
pub(crate) fn copies_and_fills_of_managed_memory(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let bytes = 70_001;
    let Some(memory) = Managed::new(&rig, bytes) else {
        return;
    };
    let values: Vec<u8> = (0..bytes).map(|i| (i * 7 + i / 251) as u8).collect();
    let (source, target) = (rig.host_with(&values), rig.host(bytes));
    let block = rig.block(bytes, stream);
    rig.upload(memory.block, source, stream);
    rig.copy(block, memory.block, stream);
    assert!(rig.read(block, stream) == values);
    assert!(memory.on_host(Host::read) == values);
    memory.on_host(|host| host.part(10, 3).write(&[9, 9, 9]));
    rig.download(target, memory.block, stream);
    rig.synchronize(stream);
    assert_eq!(target.part(9, 5).read(), [values[9], 9, 9, 9, values[13]]);
    rig.fill(memory.block.part(1, 30), &[1, 2, 3], stream);
    rig.copy(memory.block.part(40, 9), block.part(0, 9), stream);
    rig.synchronize(stream);
    let written = memory.on_host(Host::read);
    assert_eq!(written[1..31], [1, 2, 3].repeat(10));
    assert_eq!(written[40..49], values[..9]);
    memory.free();
}

/// Neither changes a byte, whatever is asked for.
pub(crate) fn prefetches_and_advice_change_no_bytes(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let bytes = 1 << 20;
    let Some(memory) = Managed::new(&rig, bytes) else {
        return;
    };
    let mut expected = 5_u32;
    memory.on_host(|host| host.write(&expected.to_ne_bytes().repeat(bytes / 4)));
    for advice in [
        Advice::SetReadMostly,
        Advice::UnsetReadMostly,
        Advice::SetPreferredLocation(Location::Host),
        Advice::SetPreferredLocation(Location::Device),
        Advice::SetAccessedBy(Location::Device),
        Advice::SetAccessedBy(Location::Host),
        Advice::UnsetAccessedBy(Location::Host),
        Advice::UnsetAccessedBy(Location::Device),
        Advice::UnsetPreferredLocation,
    ] {
        memory.advise(advice);
        memory.prefetch(0, bytes, Location::Device, stream);
        rig.step(memory.block, 10_000, 2, 1, stream);
        memory.prefetch(4096, 100_000, Location::Host, stream);
        // Neither begins nor ends at a page.
        memory.prefetch(12, 7, Location::Host, stream);
        memory.prefetch(5, bytes - 5, Location::Host, stream);
        rig.synchronize(stream);
        expected = 2 * expected + 1;
        let words = memory.on_host(Host::words);
        assert!(words.iter().all(|word| *word == expected), "{advice:?}");
    }
    memory.free();
}

pub(crate) fn a_graph_works_on_managed_memory(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let Some(memory) = Managed::new(&rig, 4000) else {
        return;
    };
    memory.on_host(|host| host.write(&[0; 4000]));
    rig.begin_capture(stream);
    rig.step(memory.block, 10_000, 1, 1, stream);
    rig.fill(memory.block.part(0, 4), &[9, 0, 0, 0], stream);
    let graph = rig.end_capture(stream).expect("a graph");
    for round in 1..4 {
        rig.launch_graph(graph, stream);
        rig.synchronize(stream);
        let words = memory.on_host(Host::words);
        assert_eq!((words[0], words[1], words[999]), (9, round, round));
    }
    rig.destroy_graph(graph);
    memory.free();
}

/// An update changes no copy of the device's memory to one of managed memory, or back. It changes
/// fills so.
pub(crate) fn an_update_keeps_the_kind_of_the_memory_of_copies(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let Some(memory) = Managed::new(&rig, 400) else {
        return;
    };
    let (block, other) = (rig.zeroed(400, stream), rig.zeroed(400, stream));
    let host = rig.host(400);
    rig.synchronize(stream);
    type Work<'a> = &'a dyn Fn(Block);
    let works: [(Work<'_>, bool); 5] = [
        (&|block| rig.upload(block, host, stream), false),
        (&|block| rig.download(host, block, stream), false),
        (&|block| rig.copy(block, other, stream), false),
        (&|block| rig.copy(other, block, stream), false),
        (&|block| rig.fill(block, &[1], stream), true),
    ];
    for (number, (work, changes)) in works.into_iter().enumerate() {
        for [from, to] in [[block, memory.block], [memory.block, block]] {
            rig.begin_capture(stream);
            work(from);
            let graph = rig.end_capture(stream).expect("a graph");
            rig.begin_capture(stream);
            work(to);
            let updated = rig.update_graph(graph, stream).map_err(|error| error.code());
            let refused = Err(ErrorCode::GRAPH_EXEC_UPDATE_FAILURE);
            assert_eq!(updated, if changes { Ok(()) } else { refused }, "{number}");
            // On an error the graph keeps its contents.
            rig.launch_graph(graph, stream);
            rig.synchronize(stream);
            rig.destroy_graph(graph);
        }
    }
    memory.free();
}

pub(crate) fn a_panic_leaves_the_closure(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _ = rig.driver.while_mapped(&|| panic!("on purpose"));
    }));
    assert!(panicked.is_err());
    // The driver goes on.
    let stream = rig.stream();
    let Some(memory) = Managed::new(&rig, 400) else {
        return;
    };
    rig.fill(memory.block, &[1], stream);
    rig.synchronize(stream);
    assert_eq!(memory.on_host(Host::read), [1; 400]);
    memory.free();
}
