//! The facts that the typed API tells the checker, and the places that its reports name.

use std::cell::Cell;

use cuda_rt::checker::{Check, Site, at_statement};
use cuda_rt::driver::{DeviceAddress, ForeignUse, RawStream};
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, DeviceBuffer};

cuda_rt::streams! {
    Compute, priority = High;
    Download;
}

/// One call of the typed API may make several driver calls. A race names the line of the program,
/// not a line of the library, or the statement that the call is part of.
#[test]
fn a_race_in_a_copy_made_of_others_is_reported_where_the_program_called() {
    let config = SimConfig::new().check(Check::Record);
    Device::simulated(config, |gpu| {
        let (compute, other) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        let mut host = [0; 64];
        let mut race_with = |copy: &mut dyn FnMut(&DeviceBuffer<u32, _>, &mut [u32])| {
            let memory = compute.alloc_zeroed::<u32>(64).unwrap();
            compute.synchronize().unwrap();
            // SAFETY: the memory is live and in bounds. Nothing orders the call before the copy:
            // that is the race to be found. The simulated device runs one operation at a time.
            unsafe { gpu.driver().fill(memory.address(), &[1], 256, other.raw()) }.unwrap();
            copy(&memory, &mut host);
            gpu.races().pop().expect("a race").second.operation
        };

        let line = line!() + 1;
        let operation = race_with(&mut |memory, host| compute.copy_to_slice(memory, host).unwrap());
        let Site::Code(location) = operation.site else {
            panic!("{operation:?}");
        };
        assert_eq!((location.file(), location.line()), (file!(), line));

        let operation = race_with(&mut |memory, host| {
            at_statement(7, || compute.copy_to_slice(memory, host)).unwrap();
        });
        assert_eq!(operation.site, Site::Statement(7));
    })
    .unwrap();
}

const LEN: usize = 64;

/// Anyone with access to the driver can state the uses of a foreign call. Nonsense in them must not
/// panic while the checker is locked.
#[test]
fn attack_tell_the_checker_of_memory_past_the_end() {
    Device::simulated(SimConfig::default(), |gpu| {
        let uses = [ForeignUse {
            address: DeviceAddress(u64::MAX - 1),
            bytes: 16,
            writes: false,
        }];
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let ran = Cell::new(false);
        let told = gpu
            .driver()
            .foreign("nonsense", stream.raw(), &uses, &|| ran.set(true));
        assert!(told.is_ok() && ran.get());
        let _ = gpu
            .driver()
            .foreign("of no one's", RawStream(u64::MAX), &uses, &|| ());
        drop(stream.alloc_zeroed::<u32>(LEN).unwrap());
        stream.synchronize().unwrap();
    })
    .unwrap();
}
