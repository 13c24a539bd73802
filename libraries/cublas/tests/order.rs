//! The order of calls: on streams, in graphs, across threads, and after drops and leaks. What the
//! checker sees of them.

mod common;

use common::{Compute, Other, for_each_device, for_each_gpu};
use cuda_rt::checker::Check;
use cuda_rt::driver::ErrorCode;
use cuda_rt::simulator::{Call, SimConfig};
use cuda_rt::{Device, DeviceBuffer, DeviceSlice, Error, Pooled, Scoped, Stream};
use cuda_rt_cublas::{Blas, BlasError, Matrix, MatrixMut, ShapeError, Side, Triangle};

const SIDE: usize = 8;

type On<'id> = Compute<Scoped<'id>>;

fn square<'a, P>(memory: &'a DeviceSlice<f32, P>) -> Matrix<'a, f32, P> {
    Matrix::new(memory, SIDE, SIDE)
}

fn square_mut<'a, P>(memory: &'a mut DeviceSlice<f32, P>) -> MatrixMut<'a, f32, P> {
    MatrixMut::new(memory, SIDE, SIDE)
}

fn out<P>(memory: &mut DeviceSlice<f32, P>, rows: usize, columns: usize) -> MatrixMut<'_, f32, P> {
    MatrixMut::new(memory, rows, columns)
}

/// A matrix of ones.
fn ones<'id>(compute: &Stream<On<'id>>) -> DeviceBuffer<f32, On<'id>> {
    compute.alloc_from_slice(&[1.0; SIDE * SIDE]).unwrap()
}

#[test]
fn h01_a_product_reaches_another_stream_and_the_host_behind_handoffs() {
    for_each_device(|gpu| {
        let (compute, other) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Other<_>>().unwrap(),
        );
        let blas = Blas::new(&compute).unwrap();
        let there = Blas::new(&other).unwrap();
        for _ in 0..20 {
            let a = ones(&compute);
            let c = blas.multiply(square(&a), square(&a)).unwrap();
            let c = other.acquire(compute.release(c).unwrap()).unwrap();
            let d = there.multiply(square(&c), square(&c)).unwrap();
            let host = other.adopt(gpu.pinned_uninit(SIDE * SIDE).unwrap()).unwrap();
            let host = other.init_host_from(host, &d).unwrap();
            let host = other.release(host).unwrap().synchronize().unwrap();
            assert!(host.iter().all(|value| *value == 512.0));
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
            let blas = Blas::new(&compute).unwrap();
            let a = ones(&compute);
            let mut c = blas.multiply(square(&a), square(&a)).unwrap();
            for _ in 0..10 {
                blas.gemm(1.0, square(&a), square(&a), 1.0, square_mut(&mut c))
                    .unwrap();
            }
            drop(a);
            drop(blas);
            // New memory, perhaps where the matrix and the workspace were.
            let mut next = compute.alloc_zeroed::<f32>(SIDE * SIDE).unwrap();
            compute.fill(&mut next, f32::NAN).unwrap();
            results.push(c);
        }
        for c in &results {
            assert_eq!(compute.copy_to_vec(c).unwrap(), [88.0; SIDE * SIDE]);
        }
        assert!(gpu.races().is_empty());
    });
}

#[test]
fn h22_a_leaked_blas_leaks_and_nothing_else() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let a = ones(&compute);
        for _ in 0..3 {
            let blas = Blas::new(&compute).unwrap();
            let c = blas.multiply(square(&a), square(&a)).unwrap();
            std::mem::forget(blas);
            let again = Blas::new(&compute).unwrap();
            let d = again.multiply(square(&c), square(&a)).unwrap();
            assert_eq!(compute.copy_to_vec(&d).unwrap(), [64.0; SIDE * SIDE]);
        }
    });
}

#[test]
fn threads_share_a_blas_and_its_stream() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let blas = Blas::new(&compute).unwrap();
        let a = ones(&compute);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..25 {
                        let c = blas.multiply(square(&a), square(&a)).unwrap();
                        let mut sum = compute.alloc_zeroed::<f32>(1).unwrap();
                        blas.dot(&c, &c, &mut sum).unwrap();
                        assert_eq!(compute.copy_to_vec(&sum).unwrap(), [64.0 * 64.0]);
                    }
                });
            }
        });
        // A `Blas` may move to another thread, which drops it.
        std::thread::scope(|scope| {
            scope.spawn(move || drop(blas));
        });
        assert!(gpu.races().is_empty());
    });
}

#[test]
fn streams_of_a_pool_have_workspaces_of_their_own() {
    for_each_device(|gpu| {
        let pool = gpu.stream_pool(4).unwrap();
        let multiplied = |stream: &Stream<Pooled<'_, _>>| -> Result<_, BlasError> {
            let blas = Blas::new(stream)?;
            let a = stream.alloc_from_slice(&vec![1.0_f32; 256 * 256])?;
            let mut c = blas.multiply(Matrix::new(&a, 256, 256), Matrix::new(&a, 256, 256))?;
            let mut sum = stream.alloc_zeroed::<f32>(1)?;
            blas.scal(0.5, &mut c)?;
            blas.dot(&c, &a, &mut sum)?;
            Ok(stream.release(sum)?)
        };
        let pending: Vec<_> = (0..8).map(|_| pool.with(multiplied).unwrap()).collect();
        let compute = gpu.stream::<Compute<_>>().unwrap();
        for sum in pending {
            let sum = compute.acquire(sum).unwrap();
            assert_eq!(compute.copy_to_vec(&sum).unwrap(), [8_388_608.0]);
        }
        assert!(gpu.races().is_empty());
    });
}

#[test]
fn h25_a_graph_replays_products() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let blas = Blas::new(&compute).unwrap();
        // Enqueued around the capture, on the same handle of cuBLAS.
        let a = ones(&compute);
        let before = blas.multiply(square(&a), square(&a)).unwrap();
        let (b, c) = (ones(&compute), ones(&compute));
        let sum = compute.alloc_zeroed::<f32>(1).unwrap();
        let mut graph = compute
            .capture((b, c, sum), |stream, (b, mut c, mut sum)| {
                let inside = blas.captured(stream)?;
                // c = b·b / 8 + c, and the sum of its squares, into device memory.
                inside.gemm(0.125, square(&b), square(&b), 1.0, square_mut(&mut c))?;
                inside.dot(&c, &c, &mut sum)?;
                inside
                    .trsm(
                        Side::Left,
                        Triangle::LOWER.with_unit_diagonal(),
                        1.0,
                        square(&b),
                        MatrixMut::new(&mut sum, 1, 1),
                    )
                    .unwrap_err();
                Ok(())
            })
            .unwrap();
        let between = blas.multiply(square(&before), square(&a)).unwrap();
        for _ in 0..3 {
            graph.launch(&compute).unwrap();
        }
        drop(blas);
        graph.launch(&compute).unwrap();
        let (_, c, sum) = graph.into_inner();
        assert_eq!(compute.copy_to_vec(&c).unwrap(), [5.0; SIDE * SIDE]);
        assert_eq!(compute.copy_to_vec(&sum).unwrap(), [1600.0]);
        assert_eq!(compute.copy_to_vec(&between).unwrap(), [64.0; SIDE * SIDE]);
        assert!(gpu.races().is_empty());
    });
}

/// A `Blas` of a capture that is leaked leaves the handle set to the capture's stream. The next
/// call on the first stream sets it back.
#[test]
fn h22_a_leaked_blas_of_a_capture_leaves_the_stream_as_it_was() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let blas = Blas::new(&compute).unwrap();
        let mut graph = compute
            .capture((ones(&compute), ones(&compute)), |stream, (b, mut c)| {
                let inside = blas.captured(stream)?;
                inside.gemm(1.0, square(&b), square(&b), 0.0, square_mut(&mut c))?;
                std::mem::forget(inside);
                Ok(())
            })
            .unwrap();
        let a = ones(&compute);
        let c = blas.multiply(square(&a), square(&a)).unwrap();
        assert_eq!(compute.copy_to_vec(&c).unwrap(), [8.0; SIDE * SIDE]);
        graph.launch(&compute).unwrap();
        let (_, c) = graph.into_inner();
        assert_eq!(compute.copy_to_vec(&c).unwrap(), [8.0; SIDE * SIDE]);
    });
}

/// The streams of a fork inside of a capture, with a workspace each.
#[test]
fn streams_that_are_forked_in_a_capture_multiply_at_the_same_time() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let blas = Blas::new(&compute).unwrap();
        let bundle = (ones(&compute), ones(&compute), ones(&compute));
        let mut graph = compute
            .capture(bundle, |stream, (a, mut b, mut c)| {
                let forked = stream.fork::<Other<_>>()?;
                let (here, there) = (blas.captured(stream)?, blas.captured(&forked)?);
                stream.lend_all(
                    &forked,
                    (&*a, &mut *c),
                    |(lent, mut c)| -> Result<(), BlasError> {
                        here.gemm(1.0, square(&a), square(&a), 0.0, square_mut(&mut b))?;
                        there.gemm(2.0, square(&lent), square(&lent), 0.0, square_mut(&mut c))
                    },
                )??;
                Ok(())
            })
            .unwrap();
        for _ in 0..3 {
            graph.launch(&compute).unwrap();
        }
        let (_, b, c) = graph.into_inner();
        assert_eq!(compute.copy_to_vec(&b).unwrap(), [8.0; SIDE * SIDE]);
        assert_eq!(compute.copy_to_vec(&c).unwrap(), [16.0; SIDE * SIDE]);
    });
}

/// Shapes that are wrong in each way are refused before anything is enqueued: the next launch,
/// which is to fail, is that of a right product.
#[test]
fn wrong_shapes_are_refused_and_nothing_is_enqueued() {
    let run = |gpu: &Device<Scoped<'_>>| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let blas = Blas::new(&compute).unwrap();
        let a = compute.alloc_from_slice(&[1.0_f32; 64]).unwrap();
        let bytes = compute.alloc_from_slice(&[1_i8; 64]).unwrap();
        let mut c = compute.alloc_zeroed::<f32>(64).unwrap();
        let mut sums = compute.alloc_zeroed::<i32>(64).unwrap();
        let m = |rows, columns| Matrix::new(&a, rows, columns);
        if let Some(simulator) = gpu.simulator() {
            simulator.fail_next(Call::Launch, ErrorCode::INVALID_VALUE);
        }
        let mut count = 0;
        let mut refused = |result: Result<(), BlasError>, is: fn(&ShapeError) -> bool| {
            count += 1;
            match result {
                Err(BlasError::Shape { why, .. }) => assert!(is(&why), "{count}: {why}"),
                other => panic!("{count}: {other:?}"),
            }
        };
        macro_rules! gemm {
            ($a:expr, $b:expr, $c:expr) => {
                blas.gemm(1.0, $a, $b, 0.0, $c)
            };
        }
        refused(gemm!(m(9, 8), m(8, 8), out(&mut c, 9, 8)), |why| {
            matches!(why, ShapeError::OutOfBounds { .. })
        });
        refused(gemm!(m(8, 8), m(8, 9), out(&mut c, 8, 9)), |why| {
            matches!(why, ShapeError::OutOfBounds { .. })
        });
        refused(gemm!(m(4, 4), m(4, 4), out(&mut c[49..], 4, 4)), |why| {
            matches!(why, ShapeError::OutOfBounds { .. })
        });
        refused(
            gemm!(m(4, 4).leading_dimension(3), m(4, 4), out(&mut c, 4, 4)),
            |why| matches!(why, ShapeError::LeadingDimension { .. }),
        );
        refused(
            gemm!(m(4, 4), m(4, 4), out(&mut c, 4, 4).leading_dimension(0)),
            |why| matches!(why, ShapeError::LeadingDimension { .. }),
        );
        refused(
            gemm!(m(4, 4), m(4, 4), out(&mut c, 4, 4).leading_dimension(usize::MAX)),
            |why| matches!(why, ShapeError::TooLarge { .. }),
        );
        refused(
            gemm!(m(4, 4), m(4, 4), out(&mut c, 4, 4).batch(2, usize::MAX)),
            |why| matches!(why, ShapeError::OutOfBounds { .. }),
        );
        refused(gemm!(m(4, 5), m(4, 4), out(&mut c, 4, 4)), |why| {
            matches!(why, ShapeError::Mismatch { .. })
        });
        refused(gemm!(m(4, 4), m(4, 4), out(&mut c, 5, 4)), |why| {
            matches!(why, ShapeError::Mismatch { .. })
        });
        refused(
            gemm!(m(4, 4).batch(3, 16), m(4, 4), out(&mut c, 4, 4).batch(2, 16)),
            |why| matches!(why, ShapeError::Mismatch { .. }),
        );
        refused(gemm!(m(4, 4), m(4, 4), out(&mut c, 4, 4).batch(2, 15)), |why| {
            matches!(why, ShapeError::Overlap { .. })
        });
        refused(gemm!(m(4, 4), m(4, 4), out(&mut c, 4, 4).batch(2, 0)), |why| {
            matches!(why, ShapeError::Overlap { .. })
        });
        refused(gemm!(m(4, 0), m(0, 4), out(&mut c, 4, 4)), |why| {
            matches!(why, ShapeError::NothingToMultiply)
        });
        let i8s = |leading| Matrix::new(&bytes, 2, 4).leading_dimension(leading);
        refused(
            blas.gemm(1, i8s(5), i8s(4).transposed(), 0, MatrixMut::new(&mut sums, 2, 2)),
            |why| matches!(why, ShapeError::Misaligned { .. }),
        );
        let odd = Matrix::new(&bytes[1..], 2, 4);
        refused(
            blas.gemm(1, odd, i8s(4).transposed(), 0, MatrixMut::new(&mut sums, 2, 2)),
            |why| matches!(why, ShapeError::Misaligned { .. }),
        );
        // cuBLAS reads bytes in fours, so the last line of 6 needs 8.
        let lines = |len| Matrix::new(&bytes[..len], 2, 6).leading_dimension(8);
        refused(
            blas.gemm(
                1,
                lines(15),
                lines(16).transposed(),
                0,
                MatrixMut::new(&mut sums, 2, 2),
            ),
            |why| {
                matches!(
                    why,
                    ShapeError::OutOfBounds {
                        reach: Some(16),
                        len: 15,
                        ..
                    }
                )
            },
        );
        refused(blas.multiply(m(8, 9), m(9, 8)).map(drop), |why| {
            matches!(why, ShapeError::OutOfBounds { .. })
        });
        refused(
            blas.multiply(m(1 << 40, 1).leading_dimension(0), m(1, 1 << 40))
                .map(drop),
            |why| matches!(why, ShapeError::TooLarge { .. }),
        );
        refused(blas.gemv(1.0, m(4, 4), &a[..5], 0.0, &mut c[..4]), |why| {
            matches!(why, ShapeError::Mismatch { .. })
        });
        refused(blas.gemv(1.0, m(4, 4), &a[..4], 0.0, &mut c[..5]), |why| {
            matches!(why, ShapeError::Mismatch { .. })
        });
        refused(
            blas.gemv(1.0, m(4, 4).batch(1, 16), &a[..4], 0.0, &mut c[..4]),
            |why| matches!(why, ShapeError::IsBatch { .. }),
        );
        refused(
            blas.trsm(Side::Left, Triangle::LOWER, 1.0, m(4, 5), out(&mut c, 4, 4)),
            |why| matches!(why, ShapeError::NotSquare { .. }),
        );
        refused(
            blas.trsm(Side::Right, Triangle::LOWER, 1.0, m(4, 4), out(&mut c, 4, 5)),
            |why| matches!(why, ShapeError::Mismatch { .. }),
        );
        refused(
            blas.trsm(Side::Left, Triangle::LOWER, 1.0, m(9, 9), out(&mut c, 9, 2)),
            |why| matches!(why, ShapeError::OutOfBounds { .. }),
        );
        refused(blas.axpy(1.0, &a[..3], &mut c[..4]), |why| {
            matches!(why, ShapeError::Mismatch { .. })
        });
        refused(blas.dot(&a[..3], &a[..4], &mut c[..1]), |why| {
            matches!(why, ShapeError::Mismatch { .. })
        });
        refused(blas.dot(&a[..3], &a[..3], &mut c[..2]), |why| {
            matches!(why, ShapeError::NotOneElement { .. })
        });
        refused(blas.nrm2(&a[..3], &mut c[..0]), |why| {
            matches!(why, ShapeError::NotOneElement { .. })
        });
        let (left, right) = c.split_at_mut(32);
        let mut lists = [out(left, 4, 4), out(right, 4, 5)];
        refused(
            blas.gemm_batched(1.0, &[m(4, 4); 2], &[m(4, 4), m(4, 5)], 0.0, &mut lists),
            |why| matches!(why, ShapeError::NotAlike { .. }),
        );
        refused(
            blas.gemm_batched(1.0, &[m(4, 4)], &[m(4, 4); 2], 0.0, &mut lists),
            |why| matches!(why, ShapeError::Mismatch { .. }),
        );
        refused(
            blas.gemm_batched(
                1.0,
                &[m(4, 4).batch(1, 16); 2],
                &[m(4, 4); 2],
                0.0,
                &mut lists[..1],
            ),
            |why| matches!(why, ShapeError::Mismatch { .. }),
        );
        let right = blas.gemm(1.0, m(4, 4), m(4, 4), 0.0, out(&mut c, 4, 4));
        match gpu.is_simulated() {
            true => assert!(
                matches!(right, Err(BlasError::Runtime(Error::Launch { .. }))),
                "{right:?}"
            ),
            false => assert!(right.is_ok(), "{right:?}"),
        }
        let sum: f32 = compute.copy_to_vec(&c).unwrap().into_iter().sum();
        assert_eq!(sum, if gpu.is_simulated() { 0.0 } else { 64.0 });
    };
    for_each_device(run);
}

/// What unsafe code does beside the calls is a race, which the checker sees: a read of what the
/// product writes, and a write of what it reads.
#[test]
fn the_checker_sees_what_a_call_reads_and_writes() {
    type Run = for<'id> fn(&Blas<On<'id>>, &DeviceSlice<f32, On<'id>>, &mut DeviceSlice<f32, On<'id>>);
    let calls: [(&str, Run); 7] = [
        ("cublasGemmEx", |blas, a, c| {
            blas.gemm(1.0, square(a), square(a), 0.0, square_mut(c)).unwrap()
        }),
        ("cublasGemmEx", |blas, a, c| {
            let lists = ([square(a)], [square_mut(c)]);
            let (a, mut c) = lists;
            blas.gemm_batched(1.0, &a, &a, 0.0, &mut c).unwrap();
        }),
        ("cublasGemmEx", |blas, a, c| {
            blas.gemv(1.0, square(a), &a[..SIDE], 0.0, &mut c[..SIDE])
                .unwrap()
        }),
        ("cublasStrsm", |blas, a, c| {
            blas.trsm(Side::Left, Triangle::LOWER, 1.0, square(a), square_mut(c))
                .unwrap()
        }),
        ("cublasSaxpy", |blas, a, c| blas.axpy(1.0, a, c).unwrap()),
        ("cublasSdot", |blas, a, c| blas.dot(a, a, &mut c[..1]).unwrap()),
        ("cublasSnrm2", |blas, a, c| blas.nrm2(a, &mut c[..1]).unwrap()),
    ];
    for (name, call) in calls {
        for racy_write in [false, true] {
            let config = SimConfig::default().check(Check::Record);
            Device::simulated(config, |gpu| {
                let compute = gpu.stream::<Compute<_>>().unwrap();
                let other = gpu.stream::<Other<_>>().unwrap();
                let blas = Blas::new(&compute).unwrap();
                let (a, mut c) = (ones(&compute), ones(&compute));
                compute.synchronize().unwrap();
                call(&blas, &a, &mut c);
                assert!(gpu.races().is_empty(), "{name}: {:?}", gpu.races());
                let memory = if racy_write { &a } else { &c };
                // SAFETY: the memory is live. Not ordered behind the product: the test is about
                // this race, which on a simulated device is no race of threads.
                let there = unsafe { DeviceSlice::<f32, Other<_>>::from_raw_parts_mut(memory.address(), 1) };
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

/// The simulated device has no memory for the output: the error is that of the runtime.
#[test]
fn an_output_that_cannot_be_allocated_is_an_error_of_the_runtime() {
    Device::simulated(SimConfig::default().memory_bytes(1 << 16), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let blas = Blas::new(&compute).unwrap();
        let a = compute.alloc_from_slice(&[1.0_f32; 1000]).unwrap();
        match blas.multiply(Matrix::new(&a, 1000, 1), Matrix::new(&a, 1, 1000)) {
            Err(BlasError::Runtime(error)) => assert!(error.is_out_of_memory()),
            other => panic!("{other:?}"),
        }
    })
    .unwrap();
}

/// A modelled thread stands for 32 products of `f32`, and takes 0.001 ns.
#[test]
fn modelled_times_grow_with_the_inner_dimension() {
    let modelled_ms = |inner: usize| {
        Device::simulated(SimConfig::default(), |gpu| {
            let compute = gpu.stream::<Compute<_>>().unwrap();
            let blas = Blas::new(&compute).unwrap();
            let a = compute.alloc_zeroed::<f32>(128 * inner).unwrap();
            let mut c = compute.alloc_zeroed::<f32>(128 * 128).unwrap();
            let start = compute.record_timed_event().unwrap();
            let matrix = Matrix::new(&a, 128, inner);
            blas.gemm(
                1.0,
                matrix,
                matrix.transposed(),
                0.0,
                MatrixMut::new(&mut c, 128, 128),
            )
            .unwrap();
            let end = compute.record_timed_event().unwrap();
            let (start, end) = (start.synchronize().unwrap(), end.synchronize().unwrap());
            end.elapsed_ms_since(&start).unwrap()
        })
        .unwrap()
    };
    let (short, long) = (modelled_ms(32), modelled_ms(2048));
    let threads = 128.0 * 128.0 * (2048.0 - 32.0) / 32.0;
    assert!((long - short - threads * 1e-9).abs() < 1e-5, "{short} {long}");
}

#[test]
fn on_a_gpu_the_version_is_known() {
    for_each_gpu(|gpu| {
        let version = Blas::new(&gpu.stream::<Compute<_>>().unwrap())
            .unwrap()
            .version()
            .unwrap();
        assert!(version.is_some_and(|version| version >= 110_000), "{version:?}");
        eprintln!("cuBLAS {version:?} on {}", gpu.properties().name);
    });
}
