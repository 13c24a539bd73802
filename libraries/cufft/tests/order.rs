//! The order of calls: on streams, in graphs, across threads, and after drops and leaks. What the
//! checker sees of them.

mod common;

use common::{Compute, Other, for_each_device, for_each_gpu};
use cuda_rt::checker::Check;
use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, SimConfig};
use cuda_rt::{Device, DeviceBuffer, DeviceSlice, Error, Pooled, Scoped, Stream};
use cuda_rt_cufft::{Complex, FftError, Placement, Plan, Shape, ShapeError};

const LEN: usize = 64;

type On<'id> = Compute<Scoped<'id>>;
type C32 = Complex<f32>;

fn plan<'id>(compute: &Stream<On<'id>>) -> Plan<C32, C32, On<'id>> {
    Plan::new(compute, Shape::line(LEN)).unwrap()
}

/// A signal of ones, whose spectrum is `LEN` and zeros. All numbers below are exact.
fn ones<'id>(compute: &Stream<On<'id>>) -> DeviceBuffer<C32, On<'id>> {
    compute.alloc_from_slice(&[C32::from(1.0); LEN]).unwrap()
}

fn impulse(value: f32) -> Vec<C32> {
    let mut spectrum = vec![C32::from(0.0); LEN];
    spectrum[0] = value.into();
    spectrum
}

#[test]
fn h01_a_spectrum_reaches_another_stream_and_the_host_behind_handoffs() {
    for_each_device(|gpu| {
        let (compute, other) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Other<_>>().unwrap(),
        );
        let here = plan(&compute);
        let there = Plan::<C32, C32, _>::new(&other, Shape::line(LEN)).unwrap();
        for _ in 0..20 {
            let signal = ones(&compute);
            let mut spectrum = compute.alloc_zeroed(LEN).unwrap();
            here.forward(&signal, &mut spectrum).unwrap();
            let mut spectrum = other.acquire(compute.release(spectrum).unwrap()).unwrap();
            there.inverse_in_place(&mut spectrum).unwrap();
            let host = other.adopt(gpu.pinned_uninit(LEN).unwrap()).unwrap();
            let host = other.init_host_from(host, &spectrum).unwrap();
            let host = other.release(host).unwrap().synchronize().unwrap();
            assert!(host.iter().all(|value| *value == C32::from(LEN as f32)));
        }
        assert!(gpu.races().is_empty());
    });
}

#[test]
fn h21_what_is_dropped_under_pending_calls_is_freed_behind_them() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut results = Vec::new();
        for _ in 0..20 {
            let plan = plan(&compute);
            let signal = ones(&compute);
            let mut spectrum = compute.alloc_zeroed(LEN).unwrap();
            for _ in 0..10 {
                plan.forward(&signal, &mut spectrum).unwrap();
            }
            drop(signal);
            drop(plan);
            // New memory, perhaps where the signal and the work area were.
            let mut next = compute.alloc_zeroed::<f32>(2 * LEN).unwrap();
            compute.fill(&mut next, f32::NAN).unwrap();
            results.push(spectrum);
        }
        for spectrum in &results {
            assert_eq!(compute.copy_to_vec(spectrum).unwrap(), impulse(LEN as f32));
        }
        assert!(gpu.races().is_empty());
    });
}

#[test]
fn h22_a_leaked_plan_leaks_and_nothing_else() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        for _ in 0..3 {
            let mut signal = ones(&compute);
            let first = plan(&compute);
            first.forward_in_place(&mut signal).unwrap();
            std::mem::forget(first);
            plan(&compute).inverse_in_place(&mut signal).unwrap();
            assert_eq!(
                compute.copy_to_vec(&signal).unwrap(),
                [C32::from(LEN as f32); LEN]
            );
        }
    });
}

#[test]
fn threads_share_a_plan_and_its_stream() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let plan = plan(&compute);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..25 {
                        let mut signal = ones(&compute);
                        plan.forward_in_place(&mut signal).unwrap();
                        assert_eq!(compute.copy_to_vec(&signal).unwrap(), impulse(LEN as f32));
                    }
                });
            }
        });
        // A `Plan` may move to another thread, which drops it.
        std::thread::scope(|scope| {
            scope.spawn(move || drop(plan));
        });
        assert!(gpu.races().is_empty());
    });
}

/// Long signals of an odd length, whose transforms use the work area.
#[test]
fn streams_of_a_pool_have_work_areas_of_their_own() {
    const LONG: usize = 16_411;
    for_each_device(|gpu| {
        let pool = gpu.stream_pool(4).unwrap();
        let transformed = |stream: &Stream<Pooled<'_, _>>| -> Result<_, FftError> {
            let plan = Plan::<C32, C32, _>::new(stream, Shape::line(LONG))?;
            let mut signal = stream.alloc_from_slice(&vec![C32::from(1.0); LONG])?;
            for _ in 0..2 {
                plan.forward_in_place(&mut signal)?;
                plan.inverse_in_place(&mut signal)?;
            }
            Ok(stream.release(signal)?)
        };
        let pending: Vec<_> = (0..8).map(|_| pool.with(transformed).unwrap()).collect();
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let expected = C32::from((LONG * LONG) as f32);
        for signal in pending {
            let signal = compute.acquire(signal).unwrap();
            for value in compute.copy_to_vec(&signal).unwrap() {
                // Four transforms, each of three longer ones: see `tests/transforms.rs`.
                let error = (value - expected).norm() / expected.re;
                assert!(error < 4.0 * 21.0 * 19.0 * f32::EPSILON, "{value}");
            }
        }
        assert!(gpu.races().is_empty());
    });
}

#[test]
fn h25_a_graph_replays_transforms() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let plan = plan(&compute);
        let there = Plan::<f32, C32, _>::new(&compute, Shape::line(LEN)).unwrap();
        let back = Plan::<C32, f32, _>::new(&compute, Shape::line(LEN)).unwrap();
        // Enqueued around the capture, on the same handle of cuFFT.
        let mut before = ones(&compute);
        plan.forward_in_place(&mut before).unwrap();
        let signal = compute.alloc_from_slice(&[1.0_f32; LEN]).unwrap();
        let spectrum = compute.alloc_zeroed::<C32>(there.output_len()).unwrap();
        let mut graph = compute
            .capture(
                (ones(&compute), signal, spectrum),
                |stream, (mut both, mut signal, mut spectrum)| {
                    let (plan, there, back) = (
                        plan.captured(stream)?,
                        there.captured(stream)?,
                        back.captured(stream)?,
                    );
                    plan.forward_in_place(&mut both)?;
                    plan.inverse_in_place(&mut both)?;
                    there.forward(&signal, &mut spectrum)?;
                    back.inverse(&mut spectrum, &mut signal)?;
                    plan.forward_in_place(&mut both[1..]).unwrap_err();
                    Ok(())
                },
            )
            .unwrap();
        let mut between = ones(&compute);
        plan.forward_in_place(&mut between).unwrap();
        for _ in 0..2 {
            graph.launch(&compute).unwrap();
        }
        drop((plan, there, back));
        graph.launch(&compute).unwrap();
        let (both, signal, _) = graph.into_inner();
        let cube = (LEN * LEN * LEN) as f32;
        assert_eq!(compute.copy_to_vec(&both).unwrap(), [C32::from(cube); LEN]);
        assert_eq!(compute.copy_to_vec(&signal).unwrap(), [cube; LEN]);
        for memory in [before, between] {
            assert_eq!(compute.copy_to_vec(&memory).unwrap(), impulse(LEN as f32));
        }
        assert!(gpu.races().is_empty());
    });
}

/// A `Plan` of a capture that is leaked leaves the handle set to the capture's stream. The next
/// call on the first stream sets it back.
#[test]
fn h22_a_leaked_plan_of_a_capture_leaves_the_stream_as_it_was() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let plan = plan(&compute);
        let mut graph = compute
            .capture(ones(&compute), |stream, mut signal| {
                let inside = plan.captured(stream)?;
                inside.forward_in_place(&mut signal)?;
                std::mem::forget(inside);
                Ok(())
            })
            .unwrap();
        let mut signal = ones(&compute);
        plan.forward_in_place(&mut signal).unwrap();
        assert_eq!(compute.copy_to_vec(&signal).unwrap(), impulse(LEN as f32));
        graph.launch(&compute).unwrap();
        let signal = graph.into_inner();
        assert_eq!(compute.copy_to_vec(&signal).unwrap(), impulse(LEN as f32));
    });
}

/// The streams of a fork inside of a capture, with a work area each.
#[test]
fn streams_that_are_forked_in_a_capture_transform_at_the_same_time() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let plan = plan(&compute);
        let bundle = (ones(&compute), ones(&compute), ones(&compute));
        let mut graph = compute
            .capture(bundle, |stream, (a, mut b, mut c)| {
                let forked = stream.fork::<Other<_>>()?;
                let (here, there) = (plan.captured(stream)?, plan.captured(&forked)?);
                stream.lend_all(&forked, (&*a, &mut *c), |(lent, mut c)| -> Result<(), FftError> {
                    here.forward(&a, &mut b)?;
                    there.inverse(&lent, &mut c)
                })??;
                Ok(())
            })
            .unwrap();
        for _ in 0..3 {
            graph.launch(&compute).unwrap();
        }
        let (_, b, c) = graph.into_inner();
        for memory in [b, c] {
            assert_eq!(compute.copy_to_vec(&memory).unwrap(), impulse(LEN as f32));
        }
    });
}

/// Shapes that are wrong in each way are refused before anything is enqueued: the next launch,
/// which is to fail, is that of a right transform.
#[test]
fn wrong_shapes_are_refused_and_nothing_is_enqueued() {
    let run = |gpu: &Device<Scoped<'_>>| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut real = compute.alloc_from_slice(&[1.0_f32; 64]).unwrap();
        let mut doubles = compute.alloc_zeroed::<f64>(64).unwrap();
        let mut other = compute.alloc_zeroed::<C32>(64).unwrap();
        let mut signal = ones(&compute);
        let there = Plan::<f32, C32, _>::new(&compute, Shape::line(9)).unwrap();
        let back = Plan::<C32, f32, _>::new(&compute, Shape::line(9)).unwrap();
        let wide = Plan::<Complex<f64>, f64, _>::new(&compute, Shape::line(3)).unwrap();
        let apart = Shape::line(4).output(Placement::new().stride(2));
        let apart = Plan::<C32, C32, _>::new(&compute, apart).unwrap();
        let both = plan(&compute);
        if let Some(simulator) = gpu.simulator() {
            simulator.fail_next(Call::Launch, ErrorCode::INVALID_VALUE);
        }
        let mut count = 0;
        let mut refused = |result: Result<(), FftError>, is: fn(&ShapeError) -> bool| {
            count += 1;
            match result {
                Err(FftError::Shape { why, .. }) => assert!(is(&why), "{count}: {why}"),
                other => panic!("{count}: {other:?}"),
            }
        };
        let new = |shape| Plan::<C32, C32, _>::new(&compute, shape).map(drop);
        let place = Placement::new;
        for shape in [
            Shape::line(0),
            Shape::line(8).batch(0),
            Shape::plane(0, 4),
            Shape::volume(0, 4, 4),
        ] {
            refused(new(shape), |why| matches!(why, ShapeError::Empty { .. }));
        }
        for zero in [place().stride(0), place().distance(0)] {
            for shape in [Shape::line(4).input(zero), Shape::line(4).output(zero)] {
                refused(new(shape.batch(2)), |why| matches!(why, ShapeError::Zero { .. }));
            }
        }
        for short in [place().row(4), place().rows(2), place().row(0)] {
            for shape in [
                Shape::volume(2, 3, 5).input(short),
                Shape::volume(2, 3, 5).output(short),
            ] {
                refused(new(shape), |why| matches!(why, ShapeError::Short { .. }));
            }
        }
        let most = usize::MAX;
        for shape in [
            Shape::line(most),
            Shape::line(most / 8),
            Shape::line(2).batch(most / 2),
            Shape::volume(1 << 30, 1 << 30, 1 << 30),
            Shape::line(4).input(place().stride(most)),
            Shape::line(4).input(place().distance(most)),
            Shape::line(4).batch(3).output(place().distance(most / 16)),
            Shape::plane(4, 4).output(place().row(most / 8)),
            Shape::volume(2, 2, 2).output(place().rows(most)),
        ] {
            refused(new(shape), |why| matches!(why, ShapeError::TooLarge { .. }));
        }
        for shape in [
            Shape::line(8).batch(2).output(place().distance(7)),
            // Between the elements of one another, and one too many.
            Shape::line(8).batch(3).output(place().stride(2).distance(1)),
            Shape::plane(2, 3).batch(2).output(place().row(5).distance(2)),
        ] {
            refused(new(shape), |why| matches!(why, ShapeError::Overlap { .. }));
        }
        // cuFFT may write the input of a transform to real numbers.
        let windows = Shape::line(8).batch(2).input(place().distance(4));
        refused(Plan::<C32, f32, _>::new(&compute, windows).map(drop), |why| {
            matches!(why, ShapeError::Overlap { .. })
        });
        assert!(new(windows).is_ok());

        let out_of_bounds: fn(&ShapeError) -> bool = |why| matches!(why, ShapeError::OutOfBounds { .. });
        refused(both.forward(&signal[1..], &mut other), out_of_bounds);
        refused(both.forward(&signal, &mut other[1..]), out_of_bounds);
        refused(both.inverse_in_place(&mut other[..LEN - 1]), out_of_bounds);
        refused(there.forward(&real[..8], &mut other), out_of_bounds);
        refused(there.forward(&real, &mut other[..4]), out_of_bounds);
        refused(back.inverse(&mut other[..4], &mut real), out_of_bounds);
        refused(back.inverse(&mut other, &mut real[..8]), out_of_bounds);
        refused(there.forward(&real[..0], &mut other), out_of_bounds);
        let misaligned: fn(&ShapeError) -> bool = |why| matches!(why, ShapeError::Misaligned { .. });
        refused(there.forward(&real[1..], &mut other), misaligned);
        refused(back.inverse(&mut other, &mut real[3..]), misaligned);
        let mut spectrum = compute.alloc_zeroed::<Complex<f64>>(2).unwrap();
        refused(wide.inverse(&mut spectrum, &mut doubles[1..]), misaligned);
        refused(apart.forward_in_place(&mut signal), |why| {
            matches!(why, ShapeError::NotInPlace)
        });

        let right = both.forward(&signal, &mut other);
        match gpu.is_simulated() {
            true => assert!(
                matches!(right, Err(FftError::Runtime(Error::Launch { .. }))),
                "{right:?}"
            ),
            false => assert!(right.is_ok(), "{right:?}"),
        }
        let first = compute.copy_to_vec(&other).unwrap()[0].re;
        assert_eq!(first, if gpu.is_simulated() { 0.0 } else { LEN as f32 });
    };
    for_each_device(run);
}

/// What unsafe code does beside the calls is a race, which the checker sees: a read of what the
/// transform writes, and a write of what it reads.
#[test]
fn the_checker_sees_what_a_call_reads_and_writes() {
    /// The memory of all calls.
    struct Memory<'id> {
        input: DeviceBuffer<C32, On<'id>>,
        output: DeviceBuffer<C32, On<'id>>,
        real: DeviceBuffer<f32, On<'id>>,
    }
    type Run = for<'id> fn(&Stream<On<'id>>, &mut Memory<'id>);
    let both: Run = |compute, memory| plan(compute).forward(&memory.input, &mut memory.output).unwrap();
    let in_place: Run = |compute, memory| plan(compute).forward_in_place(&mut memory.input).unwrap();
    let there: Run = |compute, memory| {
        let plan = Plan::<f32, C32, _>::new(compute, Shape::line(LEN)).unwrap();
        plan.forward(&memory.real, &mut memory.output).unwrap();
    };
    let back: Run = |compute, memory| {
        let plan = Plan::<C32, f32, _>::new(compute, Shape::line(LEN)).unwrap();
        plan.inverse(&mut memory.input, &mut memory.real).unwrap();
    };
    /// Which memory another stream uses, and whether it writes there.
    type Beside = (for<'a, 'id> fn(&'a Memory<'id>) -> u64, bool);
    let (input, output, real): (Beside, Beside, Beside) = (
        (|memory| memory.input.address().0, true),
        (|memory| memory.output.address().0, false),
        (|memory| memory.real.address().0, true),
    );
    let read = |(place, _): Beside| (place, false);
    for (name, call, beside) in [
        ("cufftExecC2C", both, [input, output]),
        ("cufftExecC2C", in_place, [input, read(input)]),
        ("cufftExecR2C", there, [real, output]),
        // The input is written too.
        ("cufftExecC2R", back, [read(input), read(real)]),
    ] {
        for (place, racy_write) in beside {
            Device::simulated(SimConfig::default().check(Check::Record), |gpu| {
                let compute = gpu.stream::<Compute<_>>().unwrap();
                let other = gpu.stream::<Other<_>>().unwrap();
                let mut memory = Memory {
                    input: ones(&compute),
                    output: ones(&compute),
                    real: compute.alloc_zeroed(LEN).unwrap(),
                };
                compute.synchronize().unwrap();
                call(&compute, &mut memory);
                assert!(gpu.races().is_empty(), "{name}: {:?}", gpu.races());
                let address = cuda_rt::driver::DeviceAddress(place(&memory));
                // SAFETY: the memory is live. Not ordered behind the transform: the test is about
                // this race, which on a simulated device is no race of threads.
                let there = unsafe { DeviceSlice::<f32, Other<_>>::from_raw_parts_mut(address, 1) };
                match racy_write {
                    true => other.fill(there, 0.0).unwrap(),
                    false => drop(other.copy_to_vec(there)),
                }
                let races = gpu.races();
                assert_eq!(races.len(), 1, "{name}: {races:?}");
                assert!(format!("{}", races[0]).contains(name), "{}", races[0]);
            })
            .unwrap();
        }
    }
}

/// cuFFT may use the input of a transform to real numbers for others. The simulated device always
/// does, so that a program that relies on the input fails there.
#[test]
fn the_input_of_a_transform_to_real_numbers_is_destroyed_on_simulated_devices() {
    Device::simulated(SimConfig::default(), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let shape = Shape::plane(2, 3).input(Placement::new().row(3));
        let plan = Plan::<C32, f32, _>::new(&compute, shape).unwrap();
        let mut spectrum = compute.alloc_from_slice(&[C32::from(1.0); 6]).unwrap();
        let mut real = compute.alloc_zeroed::<f32>(6).unwrap();
        plan.inverse(&mut spectrum, &mut real).unwrap();
        let is_nan: Vec<bool> = compute
            .copy_to_vec(&spectrum)
            .unwrap()
            .iter()
            .map(|value| value.re.is_nan() && value.im.is_nan())
            .collect();
        assert_eq!(is_nan, [true, true, false, true, true, false]);
        assert_eq!(
            compute.copy_to_vec(&real).unwrap(),
            [6.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        );
    })
    .unwrap();
}

/// An H200 moves about 4 bytes while a modelled thread runs, for 0.001 ns.
#[test]
fn modelled_times_grow_with_lengths_and_batches() {
    let modelled_ms = |shape: Shape| {
        Device::simulated(SimConfig::default(), |gpu| {
            let compute = gpu.stream::<Compute<_>>().unwrap();
            let plan = Plan::<C32, C32, _>::new(&compute, shape).unwrap();
            let mut signal = compute.alloc_zeroed(plan.input_len()).unwrap();
            compute.synchronize().unwrap();
            let start = compute.record_timed_event().unwrap();
            plan.forward_in_place(&mut signal).unwrap();
            let end = compute.record_timed_event().unwrap();
            let (start, end) = (start.synchronize().unwrap(), end.synchronize().unwrap());
            end.elapsed_ms_since(&start).unwrap()
        })
        .unwrap()
    };
    // Bytes that are read and written, in passes of all elements.
    let ms = |elements: usize, passes: usize| (elements * 16 / 4 * passes) as f32 * 1e-9;
    let base = modelled_ms(Shape::line(2)) - ms(2, 1);
    for (shape, elements, passes) in [
        (Shape::line(4096), 1 << 12, 1),
        (Shape::line(1 << 18), 1 << 18, 2),
        (Shape::line(1024).batch(256), 1 << 18, 1),
        (Shape::plane(512, 512), 1 << 18, 2),
        (Shape::volume(64, 64, 64), 1 << 18, 3),
    ] {
        let modelled = modelled_ms(shape) - base;
        let expected = ms(elements, passes);
        assert!(
            (modelled - expected).abs() < 1e-5,
            "{shape:?}: {modelled} {expected}"
        );
    }
}

#[test]
fn on_a_gpu_the_version_is_known() {
    for_each_gpu(|gpu| {
        let version = plan(&gpu.stream::<Compute<_>>().unwrap()).version().unwrap();
        assert!(version.is_some_and(|version| version >= 10_200), "{version:?}");
        eprintln!("cuFFT {version:?} on {}", gpu.properties().name);
    });
}
