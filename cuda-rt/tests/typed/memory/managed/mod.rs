//! Managed memory, owned by one place at a time.
#![forbid(unsafe_code)]

mod attacks;
mod samples;

use cuda_rt::driver::{Advice, ErrorCode, Location};
use cuda_rt::simulator::{Call, SimConfig};
use cuda_rt::{Constant, Device, Error, Grid1, Live, ManagedBuffer, Shared};
use device_kernels::{add, scale};

use crate::devices::for_each_device;

cuda_rt::streams! {
    Compute;
    Other;
}

const LEN: usize = 1000;
const GRID: fn(usize) -> Grid1 = Grid1::covering;

/// Whether the device has managed memory. If not, the refusal must say so.
fn has_managed<D: Live>(gpu: &Device<D>) -> bool {
    let has = gpu.properties().concurrent_managed_access;
    if !has {
        let error = gpu.managed::<u8>(1).unwrap_err();
        assert_eq!(error.driver().unwrap().code(), ErrorCode::NOT_SUPPORTED);
        eprintln!("NO MANAGED MEMORY: {error}");
    }
    has
}

#[test]
fn the_host_and_a_kernel_take_turns() {
    for_each_device(|gpu| {
        if !has_managed(gpu) {
            return;
        }
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut data = gpu.managed::<f32>(LEN).unwrap();
        assert_eq!(data.to_vec().unwrap(), [0.0; LEN]);
        for round in 0..5 {
            data.host_mut(|data| data.fill(round as f32)).unwrap();
            let input = compute.adopt(data).unwrap();
            let output = compute.adopt(gpu.managed_uninit::<f32>(LEN).unwrap()).unwrap();
            let output = scale_into(&compute, &input, output);
            let (input, output) = compute.release((input, output)).unwrap().synchronize().unwrap();
            output
                .host(|output| assert!(output.iter().all(|at| *at == 2.0 * round as f32)))
                .unwrap();
            data = input;
        }
    });
}

/// Twice the input, by a kernel that returns its element.
fn scale_into<D: Live>(
    compute: &cuda_rt::Stream<Compute<D>>,
    input: &ManagedBuffer<f32, Compute<D>>,
    output: ManagedBuffer<std::mem::MaybeUninit<f32>, Compute<D>>,
) -> ManagedBuffer<f32, Compute<D>> {
    add(compute, GRID(LEN), input, input, output).unwrap()
}

#[test]
fn each_way_of_writing_writes_every_element() {
    for_each_device(|gpu| {
        if !has_managed(gpu) {
            return;
        }
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let values: Vec<u32> = (0..LEN as u32).map(|at| at.wrapping_mul(0x9e37_79b9)).collect();
        for len in [0, 1, LEN] {
            let values = &values[..len];
            let uninit = || {
                let mut before = gpu.managed::<u32>(len).unwrap();
                before.host_mut(|before| before.fill(u32::MAX)).unwrap();
                drop(before);
                gpu.managed_uninit::<u32>(len).unwrap()
            };
            assert_eq!(
                uninit().init_with(|at| values[at]).unwrap().to_vec().unwrap(),
                values
            );
            assert_eq!(gpu.managed_from(values).unwrap().to_vec().unwrap(), values);
            assert_eq!(gpu.managed::<u32>(len).unwrap().to_vec().unwrap(), vec![0; len]);
            let filled = compute.adopt(uninit()).unwrap();
            let filled = compute.init_managed_filled(filled, 7).unwrap();
            let filled = compute.release(filled).unwrap().synchronize().unwrap();
            assert_eq!(filled.to_vec().unwrap(), vec![7; len]);
            assert_eq!((filled.len(), filled.is_empty()), (len, len == 0));
        }
    });
}

/// All that takes device memory takes managed memory: copies, loans, bundles, graphs, leases.
#[test]
fn everything_that_takes_device_memory_takes_managed_memory() {
    for_each_device(|gpu| {
        if !has_managed(gpu) {
            return;
        }
        let (compute, other) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Other<_>>().unwrap(),
        );
        let numbers: Vec<f32> = (0..LEN).map(|at| at as f32).collect();
        let source = gpu.managed_from(&numbers).unwrap();
        let mut source = compute.adopt(source).unwrap();
        let mut device = compute.alloc_zeroed::<f32>(LEN).unwrap();
        compute.copy(&source, &mut device).unwrap();
        assert_eq!(compute.copy_to_vec(&device).unwrap(), numbers);
        compute.fill(&mut source[..10], -1.0).unwrap();
        assert_eq!(compute.copy_to_vec(&source[9..11]).unwrap(), [-1.0, 10.0]);
        compute
            .lend(&other, &mut source, |view| other.fill(&mut view[10..20], -2.0))
            .unwrap()
            .unwrap();
        compute
            .lend_all(&other, (&source, &mut device), |(source, mut device)| {
                other.copy(&source, &mut device)
            })
            .unwrap()
            .unwrap();
        assert_eq!(compute.copy_to_vec(&device[9..21]).unwrap(), {
            let mut expected = vec![-2.0; 12];
            (expected[0], expected[11]) = (-1.0, 20.0);
            expected
        });

        // A tuple, on another stream, and a graph.
        let (source, device) = other.acquire(compute.release((source, device)).unwrap()).unwrap();
        let mut graph = other
            .capture((source, device), |stream, (mut source, device)| {
                scale(stream, GRID(LEN), &device, &mut source, 10.0)
            })
            .unwrap();
        graph.launch(&other).unwrap();
        let (source, device) = graph.into_inner();
        drop(device);
        let source = other.release(source).unwrap().synchronize().unwrap();
        source
            .host(|source| assert_eq!(source[..2], [-10.0, -10.0]))
            .unwrap();

        // Readers on two streams and on the host at once.
        let shared = Shared::new(source);
        let leases = (compute.lease(&shared).unwrap(), other.lease(&shared).unwrap());
        let (mut a, mut b) = (
            compute.alloc_zeroed::<f32>(LEN).unwrap(),
            other.alloc_zeroed::<f32>(LEN).unwrap(),
        );
        compute.copy(&leases.0.view(), &mut a).unwrap();
        other.copy(&leases.1.view(), &mut b).unwrap();
        let host = shared.host().unwrap();
        assert_eq!(host.host(|host| host[30]).unwrap(), 300.0);
        assert_eq!(compute.copy_to_vec(&a[30..31]).unwrap(), [300.0]);
        assert_eq!(other.copy_to_vec(&b[30..31]).unwrap(), [300.0]);
        drop((host, leases));
        let constant = Constant::new(gpu.managed_from(&numbers).unwrap());
        let view = compute.adopt(constant).unwrap();
        assert_eq!(compute.copy_to_vec(&view.view()).unwrap(), numbers);
    });
}

#[test]
fn prefetches_and_advice_change_no_element() {
    for_each_device(|gpu| {
        if !has_managed(gpu) {
            return;
        }
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let numbers: Vec<u32> = (0..100_000).collect();
        let data = gpu.managed_from(&numbers).unwrap();
        data.advise(.., Advice::SetReadMostly).unwrap();
        let data = compute.adopt(data).unwrap();
        data.advise(10..20, Advice::SetPreferredLocation(Location::Device))
            .unwrap();
        compute.prefetch(&data, .., Location::Device).unwrap();
        compute.prefetch(&data, 5..5, Location::Device).unwrap();
        compute.prefetch(&data, 99_999.., Location::Host).unwrap();
        assert_eq!(compute.copy_to_vec(&data).unwrap(), numbers);
        compute.prefetch(&data, ..50_001, Location::Host).unwrap();
        let data = compute.release(data).unwrap().synchronize().unwrap();
        assert_eq!(data.to_vec().unwrap(), numbers);
        let none = gpu.managed::<u32>(0).unwrap();
        none.advise(.., Advice::SetReadMostly).unwrap();
        let none = compute.adopt(none).unwrap();
        compute.prefetch(&none, .., Location::Host).unwrap();
    });
}

/// A block about which something was advised is as new for its next owner.
#[test]
fn the_next_owner_of_a_block_gets_it_without_advice() {
    Device::simulated(SimConfig::new(), |gpu| {
        let calls = |call| gpu.simulator().unwrap().counters().calls(call);
        drop(gpu.managed::<u32>(8).unwrap());
        drop(gpu.managed::<u32>(8).unwrap());
        assert_eq!((calls(Call::AllocManaged), calls(Call::Advise)), (1, 0));
        let advised = gpu.managed::<u32>(8).unwrap();
        advised.advise(.., Advice::SetReadMostly).unwrap();
        drop(advised);
        assert_eq!(calls(Call::Advise), 1);
        drop(gpu.managed::<u32>(8).unwrap());
        assert_eq!(calls(Call::Advise), 5, "each kind of advice is undone");
        drop(gpu.managed::<u32>(8).unwrap());
        assert_eq!((calls(Call::AllocManaged), calls(Call::Advise)), (1, 5));
    })
    .unwrap();
}

#[test]
fn unused_memory_is_freed_when_asked_for() {
    Device::simulated(SimConfig::new(), |gpu| {
        let live = || gpu.simulator().unwrap().counters().managed_live;
        let kept = gpu.managed::<u32>(8).unwrap();
        drop(gpu.managed::<u32>(100_000).unwrap());
        assert_eq!(live(), 2);
        assert!(gpu.trim_managed() >= 400_000);
        assert_eq!((live(), gpu.trim_managed()), (1, 0));
        assert_eq!(kept.to_vec().unwrap(), [0; 8]);
    })
    .unwrap();
}

#[test]
fn failures_give_errors_that_name_the_call() {
    Device::simulated(SimConfig::new(), |gpu| {
        let simulator = gpu.simulator().unwrap();
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let fail = |call| simulator.fail_next(call, ErrorCode::INVALID_VALUE);
        fail(Call::AllocManaged);
        let error = gpu.managed::<u32>(8).unwrap_err().to_string();
        assert!(error.contains("Device::managed"), "{error}");
        let data = gpu.managed::<u32>(8).unwrap();
        fail(Call::Advise);
        let error = data.advise(.., Advice::SetReadMostly).unwrap_err().to_string();
        assert!(error.contains("ManagedBuffer::advise"), "{error}");
        let data = compute.adopt(data).unwrap();
        fail(Call::Prefetch);
        let error = compute
            .prefetch(&data, .., Location::Host)
            .unwrap_err()
            .to_string();
        assert!(error.contains("Stream::prefetch"), "{error}");
        drop(data);
        let uninit = compute.adopt(gpu.managed_uninit::<u32>(8).unwrap()).unwrap();
        fail(Call::Fill);
        let error = compute.init_managed_filled(uninit, 1).unwrap_err().to_string();
        assert!(error.contains("Stream::init_managed_filled"), "{error}");
        let error = gpu.managed::<u64>(usize::MAX / 4).unwrap_err();
        assert!(matches!(error, Error::TooLarge { .. }), "{error}");
        let uninit = compute.adopt(gpu.managed_uninit::<f32>(8).unwrap()).unwrap();
        let one = compute.alloc_zeroed::<f32>(8).unwrap();
        assert!(format!("{uninit:?}").contains("8 elements"));
        let refused = add(&compute, GRID(0), &one, &one, uninit).unwrap_err();
        add(&compute, GRID(8), &one, &one, refused.value).unwrap();
    })
    .unwrap();
    Device::simulated(SimConfig::new().managed_memory(false), |gpu| {
        assert!(!has_managed(&gpu));
    })
    .unwrap();
}
