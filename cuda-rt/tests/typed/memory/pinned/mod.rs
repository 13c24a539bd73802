//! Pinned memory that nothing wrote yet, and the calls that write all of it.
#![forbid(unsafe_code)]

use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};

use cuda_rt::simulator::{Call, SimConfig};
use cuda_rt::{Device, Error};

use crate::devices::for_each_device;

cuda_rt::streams! {
    Compute;
}

/// More than one piece of the reader, and no multiple of it.
const LEN: usize = 100_003;

fn values() -> Vec<u32> {
    (0..LEN as u32).map(|at| at.wrapping_mul(0x9e37_79b9)).collect()
}

#[test]
fn each_way_of_writing_writes_every_element() {
    for_each_device(|gpu| {
        let values = values();
        for len in [0, 1, 5, LEN] {
            // Earlier contents of the block show where a byte was not written.
            let uninit = || {
                gpu.pinned::<u32>(len).unwrap().fill(u32::MAX);
                gpu.pinned_uninit::<u32>(len).unwrap()
            };
            let of_slice = uninit().init_from_slice(&values[..len]).unwrap();
            assert_eq!(*of_slice, values[..len]);
            drop(of_slice);
            assert_eq!(*uninit().init_with(|at| values[at]), values[..len]);
            let bytes: Vec<u8> = values[..len]
                .iter()
                .flat_map(|value| value.to_ne_bytes())
                .collect();
            let of_reader = uninit().init_from_reader(Sparing(&bytes)).unwrap();
            assert_eq!(*of_reader, values[..len]);
            drop(of_reader);
            assert_eq!(*gpu.pinned_from(&values[..len]).unwrap(), values[..len]);
            assert_eq!(*gpu.pinned::<u32>(len).unwrap(), vec![0; len]);

            let compute = gpu.stream::<Compute<_>>().unwrap();
            let device = compute.alloc_from_slice(&values[..len]).unwrap();
            let host = compute.adopt(uninit()).unwrap();
            let host = compute.init_host_from(host, &device).unwrap();
            assert_eq!(
                *compute.release(host).unwrap().synchronize().unwrap(),
                values[..len]
            );
        }
    });
}

/// A reader that returns less than it is asked for.
struct Sparing<'a>(&'a [u8]);

impl Read for Sparing<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        // `Read` may read the buffer, so its bytes are initialised.
        assert!(to.iter().all(|byte| *byte == 0));
        let count = to.len().min(1000).min(self.0.len());
        to[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        Ok(count)
    }
}

#[test]
fn a_writer_that_fails_gives_the_block_back_to_its_pool() {
    for_each_device(|gpu| {
        let blocks = || gpu.pinned_stats().blocks_free;
        drop(gpu.pinned::<u32>(LEN).unwrap());
        let free = blocks();
        let error = gpu
            .pinned_uninit::<u32>(LEN)
            .unwrap()
            .init_from_reader(&[1u8; 70_000][..])
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(blocks(), free);
        let error = gpu
            .pinned_uninit::<u32>(LEN)
            .unwrap()
            .init_from_slice(&[1, 2])
            .unwrap_err();
        assert!(matches!(
            error,
            Error::LengthMismatch {
                source_len: 2,
                destination_len: LEN,
                ..
            }
        ));
        assert_eq!(blocks(), free);
        let uninit = gpu.pinned_uninit::<u32>(LEN).unwrap();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            uninit.init_with(|at| if at < 7 { 7 } else { panic!("on purpose") })
        }));
        assert!(panicked.is_err());
        assert_eq!(blocks(), free);
    });
}

#[test]
fn lengths_of_a_copy_to_uninitialised_memory_are_compared_before_anything_is_enqueued() {
    Device::simulated(SimConfig::new(), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let device = compute.alloc_zeroed::<u32>(4).unwrap();
        let calls = |call| gpu.simulator().unwrap().counters().calls(call);
        let host = compute.adopt(gpu.pinned_uninit::<u32>(5).unwrap()).unwrap();
        let error = compute.init_host_from(host, &device).unwrap_err();
        assert!(matches!(error, Error::LengthMismatch { .. }));
        let error = compute
            .init_from_slice(compute.alloc_uninit::<u32>(3).unwrap(), &[1, 2])
            .unwrap_err();
        assert!(matches!(error, Error::LengthMismatch { .. }));
        assert_eq!((calls(Call::CopyToHost), calls(Call::CopyToDevice)), (0, 0));
    })
    .unwrap();
}

/// An upload in one call needs an allocation and a copy for each piece, and no memset.
#[test]
fn memory_allocated_from_a_slice_is_not_filled_first() {
    Device::simulated(SimConfig::new(), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let values = values();
        let device = compute.alloc_from_slice(&values).unwrap();
        let calls = |call| gpu.simulator().unwrap().counters().calls(call);
        assert_eq!(calls(Call::Fill), 0);
        assert_eq!((calls(Call::Alloc), calls(Call::CopyToDevice)), (1, 1));
        assert_eq!(compute.copy_to_vec(&device).unwrap(), values);
        assert_eq!(compute.copy_to_vec(&device[7..9]).unwrap(), values[7..9]);
        let none = compute.alloc_from_slice::<u32>(&[]).unwrap();
        assert!(compute.copy_to_vec(&none).unwrap().is_empty());
    })
    .unwrap();
}
