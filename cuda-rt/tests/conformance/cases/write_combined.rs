//! Write-combined memory, written by the host and read by work of the device.

use std::cell::Cell;
use std::sync::Arc;

use cuda_rt::driver::{DeviceAddress, Driver};

use crate::support::{Block, Host, Rig, SLOW};

/// Write-combined memory of `bytes` bytes.
fn allocated(rig: &Rig, bytes: usize) -> Host {
    let address = rig
        .driver
        .alloc_write_combined(bytes)
        .expect("write-combined memory");
    assert!(address.addr().get().is_multiple_of(4096), "{address:?}");
    Host { address, bytes }
}

/// Writes while the memory stays mapped.
fn write(rig: &Rig, host: Host, values: &[u8]) {
    rig.driver.while_mapped(&|| host.write(values)).expect("mapped");
}

/// Ends the memory. The case has waited for all work on it.
fn free(rig: &Rig, host: Host) {
    // SAFETY: no work uses the memory, and it is not used again.
    unsafe { rig.driver.free_write_combined(host.address) }.expect("free");
}

pub(crate) fn uploads_read_what_the_host_wrote(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    for bytes in [4, 4096, 70_001 * 4] {
        let host = allocated(&rig, bytes);
        let block = rig.block(bytes, stream);
        for round in 0..4_usize {
            let values: Vec<u8> = (0..bytes).map(|at| (at * 7 + at / 251 + round) as u8).collect();
            write(&rig, host, &values);
            rig.upload(block, host, stream);
            // A part, over the same part.
            rig.upload(block.part(1, bytes / 2), host.part(1, bytes / 2), stream);
            assert!(rig.read(block, stream) == values, "{bytes}, {round}");
        }
        // The processor reads it too, slowly.
        let seen = Cell::new(Vec::new());
        let read = || drop(seen.replace(host.part(0, 4).read()));
        rig.driver.while_mapped(&read).expect("mapped");
        assert_eq!(seen.into_inner(), [3, 10, 17, 24]);
        free(&rig, host);
    }
}

/// Kernels and fills reach the memory at its device address.
pub(crate) fn a_kernel_reaches_write_combined_memory(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let host = allocated(&rig, 4000);
    write(&rig, host, &5_u32.to_ne_bytes().repeat(1000));
    let address: DeviceAddress = rig.driver.mapped_address(host.address).expect("mapped");
    let mapped = Block { address, bytes: 4000 };
    rig.step(mapped, SLOW, 3, 1, stream);
    let copy = rig.block(4000, stream);
    rig.upload(copy, host, stream);
    assert_eq!(rig.read(copy, stream), 16_u32.to_ne_bytes().repeat(1000));
    free(&rig, host);
}

/// A graph uploads what the host wrote last.
pub(crate) fn a_graph_uploads_from_write_combined_memory(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let (host, block) = (allocated(&rig, 4000), rig.block(4000, stream));
    rig.synchronize(stream);
    rig.begin_capture(stream);
    rig.upload(block, host, stream);
    let graph = rig.end_capture(stream).expect("a graph");
    for round in 1..4_u8 {
        write(&rig, host, &[round; 4000]);
        rig.launch_graph(graph, stream);
        assert_eq!(rig.read(block, stream), [round; 4000]);
    }
    rig.destroy_graph(graph);
    free(&rig, host);
}
