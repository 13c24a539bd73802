//! Kernels that return the elements of their output: into memory that nothing wrote before.
#![forbid(unsafe_code)]

use std::mem::MaybeUninit;

use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, Counters, Order, SimConfig};
use cuda_rt::{
    Captured, Device, DeviceBuffer, DeviceSlice, DeviceViewMut, Error, Grid1, GridError, KernelOutput, Live,
    Stream,
};
use device_kernels::add;
use device_std::prelude::*;

use crate::devices::for_each_device;

cuda_rt::streams! {
    Compute;
}

const LEN: usize = 300;
const GRID: fn(usize) -> Grid1 = Grid1::covering;

type Buffer<D> = DeviceBuffer<f32, Compute<D>>;

fn filled<D: Live>(stream: &Stream<Compute<D>>, value: f32) -> Buffer<D> {
    stream
        .init_filled(stream.alloc_uninit(LEN).unwrap(), value)
        .unwrap()
}

fn all<D: Live>(stream: &Stream<Compute<D>>, buffer: &DeviceSlice<f32, Compute<D>>, value: f32) {
    let bytes = stream.copy_to_vec(buffer).unwrap();
    assert!(bytes.iter().all(|at| *at == value), "{bytes:?}, not {value}");
}

/// The calls that differ between two counts.
fn calls(before: &Counters, after: &Counters) -> Vec<(Call, u64)> {
    let made = |call: &Call| (*call, after.calls(*call) - before.calls(*call));
    Call::ALL
        .iter()
        .map(made)
        .filter(|(_, count)| *count > 0)
        .collect()
}

/// Every driver call of 100 additions, and no other: an allocation, a launch and a free for each.
/// CUDA needs the same calls. With memory that is zeroed first, a quarter more.
#[test]
fn a_chain_of_additions_makes_the_calls_that_cuda_needs() {
    const STEPS: u64 = 100;
    Device::simulated(SimConfig::new(), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let simulator = gpu.simulator().unwrap();
        let one = filled(&compute, 1.0);
        drop([(); 2].map(|()| filled(&compute, 0.0)));

        let before = simulator.counters();
        let mut sum = add(
            &compute,
            GRID(LEN),
            &one,
            &one,
            compute.alloc_uninit(LEN).unwrap(),
        )
        .unwrap();
        for _ in 1..STEPS {
            sum = add(
                &compute,
                GRID(LEN),
                &sum,
                &one,
                compute.alloc_uninit(LEN).unwrap(),
            )
            .unwrap();
        }
        let made = calls(&before, &simulator.counters());
        assert_eq!(made, [(Call::Launch, STEPS)]);
        all(&compute, &sum, 101.0);

        let before = simulator.counters();
        let mut sum = compute.alloc_zeroed(LEN).unwrap();
        add(&compute, GRID(LEN), &one, &one, &mut sum).unwrap();
        for _ in 1..STEPS {
            let mut next = compute.alloc_zeroed(LEN).unwrap();
            add(&compute, GRID(LEN), &sum, &one, &mut next).unwrap();
            sum = next;
        }
        let made = calls(&before, &simulator.counters());
        let fills = made.iter().find(|(call, _)| *call == Call::Fill);
        assert_eq!(fills, Some(&(Call::Fill, STEPS)));
        all(&compute, &sum, 101.0);
    })
    .unwrap();
}

#[test]
fn each_kind_of_output_is_written_and_the_rest_of_its_buffer_is_not() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let (one, two) = (filled(&compute, 1.0), filled(&compute, 2.0));
        let owned = add(
            &compute,
            GRID(LEN),
            &one,
            &two,
            compute.alloc_uninit(LEN).unwrap(),
        )
        .unwrap();
        all(&compute, &owned, 3.0);

        let mut before = filled(&compute, 9.0);
        add(&compute, GRID(100), &one, &two, &mut before[100..200]).unwrap();
        all(&compute, &before[..100], 9.0);
        all(&compute, &before[100..200], 3.0);
        all(&compute, &before[200..], 9.0);
        add(&compute, GRID(LEN), &one, &two, &mut before).unwrap();
        all(&compute, &before, 3.0);

        // A part of memory that nothing wrote can be read for as long as it is borrowed.
        let mut uninit = compute.alloc_uninit::<f32>(LEN).unwrap();
        let (left, right) = uninit.split_at_mut(100);
        let left = add(&compute, GRID(100), &one, &two, left).unwrap();
        let right = add(&compute, GRID(LEN), &*left, &two[..100], &mut right[..100]).unwrap();
        all(&compute, right, 5.0);
        all(&compute, left, 3.0);
    });
}

#[test]
fn a_launch_that_covers_too_little_enqueues_nothing_and_gives_the_memory_back() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let (one, two) = (filled(&compute, 1.0), filled(&compute, 2.0));
        let output = compute.alloc_uninit::<f32>(LEN).unwrap();
        let address = output.address();
        let launches = || {
            gpu.simulator()
                .map(|simulator| simulator.counters().calls(Call::Launch))
        };
        let before = launches();
        for covered in [0, 1, LEN - 1] {
            let mut written = filled(&compute, 9.0);
            let error = add(&compute, GRID(covered), &one, &two, &mut written).unwrap_err();
            assert!(matches!(
                error,
                Error::Grid { kernel, line: 1.., why: GridError::Output { positions, of_blocks: false, each: 1, len: 300 }, .. }
                    if positions == covered as u64 && kernel.ends_with("add")
            ));
            all(&compute, &written, 9.0);
        }
        let refused = add(&compute, GRID(LEN - 1), &one, &two, output).unwrap_err();
        let said = refused.error.to_string();
        assert!(
            said.contains("299 threads return 299 elements, but the output has 300"),
            "{said}"
        );
        assert!(said.contains("cover at least 300 threads"), "{said}");
        // A block that no device can run is refused before the length is looked at.
        let refused = add(&compute, GRID(LEN).block(0), &one, &two, refused.value).unwrap_err();
        assert!(matches!(
            refused.error,
            Error::Grid {
                why: GridError::Block(_),
                ..
            }
        ));
        assert_eq!(launches(), before);
        assert_eq!(refused.value.address(), address);
        let sum = add(&compute, GRID(LEN).block(32), &one, &two, refused.value).unwrap();
        assert_eq!(sum.address(), address);
        all(&compute, &sum, 3.0);
    });
}

#[test]
fn an_output_of_no_elements_needs_no_launch() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let empty = compute.alloc_zeroed::<f32>(0).unwrap();
        for covered in [0, 5] {
            let output = compute.alloc_uninit(0).unwrap();
            let sum = add(&compute, GRID(covered), &empty, &empty, output).unwrap();
            assert!(compute.copy_to_vec(&sum).unwrap().is_empty());
        }
    });
}

#[test]
fn a_launch_that_fails_gives_the_memory_back_as_memory_that_nothing_wrote() {
    Device::simulated(SimConfig::new(), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let one = filled(&compute, 1.0);
        let output = compute.alloc_uninit(LEN).unwrap();
        let simulator = gpu.simulator().unwrap();
        simulator.fail_next(Call::Launch, ErrorCode::OUT_OF_MEMORY);
        let refused = add(&compute, GRID(LEN), &one, &one, output).unwrap_err();
        assert!(matches!(refused.error, Error::Launch { .. }));
        let output: DeviceBuffer<MaybeUninit<f32>, _> = refused.value;
        let sum = add(&compute, GRID(LEN), &one, &one, output).unwrap();
        all(&compute, &sum, 2.0);
    })
    .unwrap();
}

/// Panics in one thread, behind threads that returned their elements.
#[kernel]
fn reciprocal(i: Index1, input: &[u32]) -> u32 {
    1000 / input[i.get()]
}

#[test]
fn memory_of_a_kernel_that_panics_is_never_read() {
    for order in [Order::Eager, Order::Lazy] {
        Device::simulated(SimConfig::new().order(order), |gpu| {
            let compute = gpu.stream::<Compute<_>>().unwrap();
            let input = compute.alloc_from_slice(&[1, 2, 0, 4]).unwrap();
            let output = compute.alloc_uninit(4).unwrap();
            // In an eager order the launch itself may return the error.
            let Ok(output) = reciprocal(&compute, GRID(4), &input, output) else {
                return;
            };
            let error = compute.copy_to_vec(&output).unwrap_err();
            assert!(
                matches!(error, Error::Driver { .. } | Error::Pinned(_)),
                "{error}"
            );
            assert!(compute.synchronize().is_err());
            assert!(compute.copy_to_vec(&input).is_err(), "the device is lost");
        })
        .unwrap();
    }
}

type View<'g, D> = DeviceViewMut<'g, f32, Captured<'g, Compute<D>>>;

/// Computes `b = a + a + a` by way of memory that only the graph has.
fn tripled<'g, D: Live>(
    stream: &Stream<Captured<'g, Compute<D>>>,
    (a, mut b): (View<'g, D>, View<'g, D>),
    grid: Grid1,
) -> cuda_rt::Result<()> {
    let temporary = stream.alloc_uninit(a.len())?;
    let twice = add(stream, grid, &a, &a, temporary)?;
    add(stream, grid, &twice, &a, &mut b)
}

#[test]
fn a_graph_writes_its_temporaries_in_each_launch_and_update() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let pair = (filled(&compute, 1.0), filled(&compute, 0.0));
        let mut graph = compute
            .capture(pair, |stream, pair| tripled(stream, pair, GRID(LEN)))
            .unwrap();
        graph.launch(&compute).unwrap();
        all(&compute, &graph.views().1, 3.0);

        // An update whose grid covers too little changes nothing.
        let error = graph
            .update(|stream, pair| tripled(stream, pair, GRID(LEN - 1)))
            .unwrap_err();
        assert!(
            matches!(
                error,
                Error::Grid {
                    why: GridError::Output { .. },
                    ..
                }
            ),
            "{error}"
        );
        compute.fill(&mut graph.views().1, 0.0).unwrap();
        graph.launch(&compute).unwrap();
        all(&compute, &graph.views().1, 3.0);

        // A larger grid writes the same elements.
        graph
            .update(|stream, pair| tripled(stream, pair, GRID(LEN + 500).block(64)))
            .unwrap();
        compute.fill(&mut graph.views().0, 2.0).unwrap();
        graph.launch(&compute).unwrap();
        all(&compute, &graph.views().1, 6.0);

        // Another bundle, with a grid that does not cover it: the graph keeps the old bundle.
        let other = (filled(&compute, 5.0), filled(&compute, 0.0));
        let refused = graph
            .replace(other, |stream, pair| tripled(stream, pair, GRID(LEN / 2)))
            .unwrap_err();
        graph.launch(&compute).unwrap();
        all(&compute, &graph.views().1, 6.0);
        graph
            .replace(refused.value, |stream, pair| tripled(stream, pair, GRID(LEN)))
            .unwrap();
        graph.launch(&compute).unwrap();
        all(&compute, &graph.views().1, 15.0);
    });
}

/// A graph's bundle holds memory that nothing wrote. Each launch writes it before it reads it, and
/// outside the graph it stays memory that nothing wrote.
#[test]
fn a_graph_writes_the_uninitialised_part_of_its_bundle() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let between = compute.alloc_uninit::<f32>(LEN).unwrap();
        let bundle = (filled(&compute, 4.0), between, filled(&compute, 0.0));
        let mut graph = compute
            .capture(bundle, |stream, (a, mut between, mut b)| {
                let twice = add(stream, GRID(LEN), &a, &a, &mut between[..])?;
                add(stream, GRID(LEN), &*twice, &a, &mut b)
            })
            .unwrap();
        graph.launch(&compute).unwrap();
        let (_, between, b) = graph.into_inner();
        all(&compute, &b, 12.0);
        let _: DeviceBuffer<MaybeUninit<f32>, _> = between;
    });
}

/// Libraries write functions that are generic in the output.
fn sum_into<D: Live, O: KernelOutput<Compute<D>, f32>>(
    stream: &Stream<Compute<D>>,
    a: &Buffer<D>,
    output: O,
) -> Result<O::Written, O::Error> {
    add(stream, GRID(LEN), a, a, output)
}

#[test]
fn a_function_can_be_generic_in_its_output() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let one = filled(&compute, 1.0);
        let mut sum = sum_into(&compute, &one, compute.alloc_uninit(LEN).unwrap()).unwrap();
        sum_into(&compute, &one, &mut sum).unwrap();
        all(&compute, &sum, 2.0);
    });
}

/// A grid of blocks covers an output if it has a thread for each element, and is refused if not.
#[test]
fn a_grid_of_blocks_must_cover_the_output() {
    Device::simulated(SimConfig::new(), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let one = filled(&compute, 1.0);
        let output = || compute.alloc_uninit::<f32>(LEN).unwrap();
        let short = add(&compute, Grid1::blocks(2).block(128), &one, &one, output());
        let short = short.map(drop).unwrap_err();
        assert!(
            matches!(
                Error::from(short),
                Error::Grid {
                    why: GridError::Output {
                        positions: 256,
                        len: 300,
                        ..
                    },
                    ..
                }
            ),
            "256 threads write no 300 elements"
        );
        let sum = add(&compute, Grid1::blocks(3).block(128), &one, &one, output()).unwrap();
        all(&compute, &sum, 2.0);
    })
    .unwrap();
}
