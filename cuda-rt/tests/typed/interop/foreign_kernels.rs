//! Modules that are loaded from bytes at run time, and typed launches of their kernels.

use std::time::{Duration, Instant};

use cuda_rt::checker::Check;
use cuda_rt::interop::{ForeignError, ForeignGrid, ForeignModule, ImageError};
use cuda_rt::simulator::{Call, Order, SimConfig, SimDriver, Simulator};
use cuda_rt::{Device, Error, GridError, Live};

use super::{Compute, Download, on_a_foreign_stream};
use crate::devices::{for_each_device, for_each_simulated_device};

const SAXPY: &[u8] = include_bytes!("../../../../runtime/src/interop/foreign_kernels/saxpy.ptx");
/// `blur`, `none` and `sq` of `modules/blur.cu`, for sm_80.
pub(super) const CUBIN: &[u8] = include_bytes!("modules/blur.cubin");
const LEN: usize = 100;

const DECLARED_AT: u32 = line!() + 1;
cuda_rt::foreign_kernel! {
    /// `y[i] += a * x[i]` for `i < n`, and `n` is the length of `y`. The tests pass slices of one
    /// length.
    pub(crate) unsafe fn saxpy(n: u32 = y.len(), a: f32, x: &[f32], y: &mut [f32]) as Saxpy;
}

fn grid() -> ForeignGrid {
    ForeignGrid::covering([LEN, 1, 1], [32, 1, 1])
}

/// The module with a stand-in.
pub(crate) fn load<D: Live>(gpu: &Device<D>) -> ForeignModule {
    let module = ForeignModule::load(gpu, SAXPY).unwrap();
    module.stand_in::<Saxpy>(|grid, (n, a, x, y)| {
        let threads = (grid.blocks[0] * grid.threads[0]).min(n);
        for (y, x) in y.iter_mut().zip(x).take(threads as usize) {
            *y = a.mul_add(*x, *y);
        }
    })
}

/// Waits until the thread for closures has unloaded `modules` modules in all.
fn wait_for_unloads(simulator: &Simulator, modules: u64) {
    let begun = Instant::now();
    while simulator.counters().calls(Call::UnloadModule) < modules {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "the module is never unloaded"
        );
        std::thread::yield_now();
    }
    assert_eq!(simulator.counters().calls(Call::UnloadModule), modules);
}

#[test]
fn a_foreign_kernel_takes_memory_of_its_stream_in_order() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let download = gpu.stream::<Download<_>>().unwrap();
        let saxpy = load(gpu).get::<Saxpy>().unwrap();
        // Written on one stream, used by the kernel on another, read on the first.
        let mut x = download.alloc_zeroed::<f32>(LEN).unwrap();
        download.fill(&mut x, 3.0).unwrap();
        let x = compute.acquire(download.release(x).unwrap()).unwrap();
        let mut y = compute.alloc_zeroed::<f32>(LEN).unwrap();
        compute.fill(&mut y, 1.0).unwrap();
        for a in [2.0, 10.0] {
            saxpy.clone().launch(&compute, grid(), a, &x, &mut y).unwrap();
        }
        // A part, and a grid that is too small for it.
        saxpy
            .launch(
                &compute,
                ForeignGrid::new([1; 3], [4, 1, 1]),
                100.0,
                &x[..8],
                &mut y[..8],
            )
            .unwrap();
        saxpy
            .launch(&compute, ForeignGrid::new([0, 1, 1], [4, 1, 1]), 1e9, &x, &mut y)
            .unwrap();
        saxpy.launch(&compute, grid(), 1e9, &x[..0], &mut y[..0]).unwrap();
        let y = download.acquire(compute.release(y).unwrap()).unwrap();
        let y = download.copy_to_vec(&y).unwrap();
        assert_eq!((&y[..4], &y[4..]), (&[337.0; 4][..], &[37.0; LEN - 4][..]));
    });
}

#[test]
fn bytes_that_are_no_module_are_refused() {
    Device::simulated(SimConfig::default(), |gpu| {
        let refused = |bytes: &[u8]| match ForeignModule::load(&gpu, bytes) {
            Err(ForeignError::Image(why)) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(refused(b""), ImageError::NotRecognised);
        assert_eq!(refused(b"int main() {}"), ImageError::NotRecognised);
        assert_eq!(
            refused(b".version 7.0\n\0.target sm_70"),
            ImageError::NotRecognised
        );
        assert_eq!(refused(b".version \xff"), ImageError::NotRecognised);
        assert!(matches!(
            refused(&CUBIN[..CUBIN.len() - 1]),
            ImageError::CutOff { .. }
        ));
        // The driver's own error, with what it says.
        gpu.simulator()
            .unwrap()
            .fail_nth(Call::LoadModule, 1, cuda_rt::driver::ErrorCode::INVALID_PTX);
        let error = Error::from(ForeignModule::load(&gpu, SAXPY).unwrap_err());
        assert!(error.to_string().contains("cuModuleLoadDataEx"), "{error}");
    })
    .unwrap();
}

#[test]
fn a_simulated_device_without_a_stand_in_refuses_the_launch() {
    Device::simulated(SimConfig::default(), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let module = ForeignModule::load(&gpu, SAXPY).unwrap();
        let saxpy = module.get::<Saxpy>().unwrap();
        let x = compute.alloc_zeroed::<f32>(LEN).unwrap();
        let mut y = compute.alloc_zeroed::<f32>(LEN).unwrap();
        let error = saxpy.launch(&compute, grid(), 1.0, &x, &mut y).unwrap_err();
        let line = line!() - 1;
        assert!(matches!(error, Error::Launch { kernel: "saxpy", .. }), "{error}");
        let text = error.to_string();
        let place = format!(
            "launch of `saxpy` at {0}:{line} (declared at {0}:{DECLARED_AT}): ",
            file!()
        );
        assert!(text.starts_with(&place), "{text}");
        assert!(
            text.contains("(`ForeignModule::stand_in`), before `get`; "),
            "{text}"
        );
        // Nothing is lost.
        assert_eq!(compute.copy_to_vec(&y).unwrap(), [0.0; LEN]);
    })
    .unwrap();
}

#[test]
fn grids_and_lengths_that_do_not_fit_are_refused() {
    cuda_rt::foreign_kernel! {
        unsafe fn saxpy(n: i8 = y.len(), a: f32, x: &[f32], y: &mut [f32]) as Short;
    }
    const SHORT: &[u8] = b".version 7.0\n.target sm_70\n.address_size 64\n\
        .visible .entry saxpy(.param .u8 n, .param .f32 a, .param .u64 x, .param .u64 y) { ret; }\n";
    Device::simulated(SimConfig::default(), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let x = compute.alloc_zeroed::<f32>(128).unwrap();
        let mut y = compute.alloc_zeroed::<f32>(128).unwrap();
        let saxpy = load(&gpu).get::<Saxpy>().unwrap();
        for (blocks, threads) in [
            ([1, 1, 1], [0, 1, 1]),
            ([1, 1, 1], [1025, 1, 1]),
            ([1, 65536, 1], [1; 3]),
        ] {
            let error = saxpy
                .launch(&compute, ForeignGrid::new(blocks, threads), 1.0, &x, &mut y)
                .unwrap_err();
            let Error::Grid {
                kernel: "saxpy",
                why,
                called_at,
                ..
            } = error
            else {
                panic!("{error}")
            };
            assert_eq!(called_at.file(), file!());
            assert!(
                matches!(why, GridError::Block(_) | GridError::Blocks { axis: 'y', .. }),
                "{why}"
            );
        }
        let much = grid().with_shared_bytes(1 << 20);
        let error = saxpy.launch(&compute, much, 1.0, &x, &mut y).unwrap_err();
        assert!(
            error.to_string().contains("1048576 bytes of shared memory"),
            "{error}"
        );

        let short = ForeignModule::load(&gpu, SHORT)
            .unwrap()
            .stand_in::<Short>(|_, _| ());
        let short = short.get::<Short>().unwrap();
        short
            .launch(&compute, grid(), 1.0, &x[..127], &mut y[..127])
            .unwrap();
        let error = short.launch(&compute, grid(), 1.0, &x, &mut y).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("`n`, a length of 128, does not fit a i8"),
            "{error}"
        );
    })
    .unwrap();
}

#[test]
fn the_checker_sees_what_a_foreign_kernel_uses() {
    let races = Device::simulated(SimConfig::new().check(Check::Record), |gpu| {
        let (compute, other) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        let saxpy = load(&gpu).get::<Saxpy>().unwrap();
        let x = compute.alloc_zeroed::<f32>(LEN).unwrap();
        let mut y = compute.alloc_zeroed::<f32>(LEN).unwrap();
        saxpy.launch(&compute, grid(), 1.0, &x, &mut y).unwrap();
        assert_eq!(gpu.races(), [], "the launch is ordered behind its stream");
        let count = |address, bytes| {
            let before = gpu.races().len();
            // SAFETY: the memory is live and the range in bounds; the simulated device runs racing
            // operations one at a time.
            unsafe { gpu.driver().fill(address, &[0], bytes, other.raw()) }.unwrap();
            gpu.races()[before..]
                .iter()
                .filter(|race| race.first.operation.name == "saxpy")
                .count()
        };
        let ended = [count(x.address(), 4), count(y.address(), 4 * LEN)];
        compute.synchronize().unwrap();
        ended
    });
    assert_eq!(races.unwrap(), [1, 1]);
}

#[test]
fn a_module_is_unloaded_behind_its_last_launch() {
    for_each_simulated_device(|gpu| {
        let simulator = gpu.simulator().unwrap();
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let download = gpu.stream::<Download<_>>().unwrap();
        let x = compute.alloc_from_slice(&[1.0_f32; LEN]).unwrap();
        let mut y = compute.alloc_zeroed::<f32>(LEN).unwrap();
        let module = load(gpu);
        let saxpy = module.get::<Saxpy>().unwrap();
        saxpy.launch(&compute, grid(), 1.0, &x, &mut y).unwrap();
        drop(module);
        let [other_x, mut other_y] =
            [7.0, 0.0].map(|value| download.alloc_from_slice(&[value; LEN]).unwrap());
        saxpy
            .launch(&download, grid(), 1.0, &other_x, &mut other_y)
            .unwrap();
        saxpy.launch(&compute, grid(), 1.0, &x, &mut y).unwrap();
        assert_eq!(simulator.counters().calls(Call::UnloadModule), 0);
        // The launches are pending, or over: the seed decides.
        drop(saxpy);
        assert_eq!(compute.copy_to_vec(&y).unwrap(), [2.0; LEN]);
        assert_eq!(download.copy_to_vec(&other_y).unwrap(), [7.0; LEN]);
        wait_for_unloads(simulator, 1);
        // A module without a launch.
        drop(load(gpu));
        wait_for_unloads(simulator, 2);
    });
}

#[test]
fn a_graph_keeps_the_modules_of_its_launches() {
    for_each_simulated_device(|gpu| {
        let simulator = gpu.simulator().unwrap();
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let x = compute.alloc_from_slice(&[1.0_f32; LEN]).unwrap();
        let y = compute.alloc_zeroed::<f32>(LEN).unwrap();
        let saxpy = load(gpu).get::<Saxpy>().unwrap();
        let mut graph = compute
            .capture((x, y), |stream, (x, mut y)| {
                saxpy.launch(stream, grid(), 1.0, &x, &mut y)?;
                saxpy.launch(stream, grid(), 2.0, &x, &mut y)
            })
            .unwrap();
        drop(saxpy);
        graph.launch(&compute).unwrap();
        graph.launch(&compute).unwrap();
        // Other kernels: the old module serves the launches before, and no longer.
        let other = load(gpu).get::<Saxpy>().unwrap();
        graph
            .update(|stream, (x, mut y)| {
                other.launch(stream, grid(), 10.0, &x, &mut y)?;
                other.launch(stream, grid(), 20.0, &x, &mut y)
            })
            .unwrap();
        drop(other);
        graph.launch(&compute).unwrap();
        let (_, y) = graph.into_inner();
        assert_eq!(compute.copy_to_vec(&y).unwrap(), [36.0; LEN]);
        wait_for_unloads(simulator, 2);
    });
}

#[test]
fn a_capture_that_fails_keeps_no_module() {
    Device::simulated(SimConfig::default(), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let saxpy = load(&gpu).get::<Saxpy>().unwrap();
        let bundle = [1.0_f32, 0.0].map(|value| compute.alloc_from_slice(&[value; LEN]).unwrap());
        let failed = compute.capture(bundle, |stream, [x, mut y]| {
            saxpy.launch(stream, grid(), 1.0, &x, &mut y)?;
            Err(Error::SlotEmpty)
        });
        drop(failed.unwrap_err());
        drop(saxpy);
        wait_for_unloads(gpu.simulator().unwrap(), 1);
    })
    .unwrap();
}

#[test]
fn a_module_outlives_its_launches_on_a_stream_that_is_gone() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let saxpy = load(gpu).get::<Saxpy>().unwrap();
        let made = on_a_foreign_stream(gpu, |stream| {
            let x = stream.alloc_from_slice(&[2.0_f32; LEN])?;
            let mut y = stream.alloc_zeroed::<f32>(LEN)?;
            saxpy.launch(stream, grid(), 1.0, &x, &mut y)?;
            saxpy.launch(stream, grid(), 2.0, &x, &mut y)?;
            stream.release(y)
        });
        drop(saxpy);
        let y = compute.acquire(made).unwrap();
        assert_eq!(compute.copy_to_vec(&y).unwrap(), [6.0; LEN]);
        if let Some(simulator) = gpu.simulator() {
            wait_for_unloads(simulator, 1);
        }
    });
}

#[test]
fn a_module_of_another_device_is_refused() {
    Device::simulated(SimConfig::default(), |first| {
        let saxpy = load(&first).get::<Saxpy>().unwrap();
        Device::simulated(SimConfig::default(), |second| {
            let compute = second.stream::<Compute<_>>().unwrap();
            let x = compute.alloc_zeroed::<f32>(LEN).unwrap();
            let mut y = compute.alloc_zeroed::<f32>(LEN).unwrap();
            let error = saxpy.launch(&compute, grid(), 1.0, &x, &mut y).unwrap_err();
            assert!(
                error.to_string().contains("was loaded on another device"),
                "{error}"
            );
            // Also in a capture, whose core is its own.
            let refused = compute.capture((x, y), |s, (x, mut y)| saxpy.launch(s, grid(), 1.0, &x, &mut y));
            let error = refused.unwrap_err();
            assert!(
                error.to_string().contains("was loaded on another device"),
                "{error}"
            );
        })
        .unwrap();
    })
    .unwrap();
}

/// Two instances of one GPU share its driver. The streams of the inner instance end before the
/// module, whose drop would record events on them.
#[test]
fn a_module_of_another_instance_of_the_device_is_refused() {
    fn attack<D: Live, E: Live>(module: &Device<D>, stream: &Device<E>) {
        let saxpy = load(module).get::<Saxpy>().unwrap();
        let compute = stream.stream::<Compute<_>>().unwrap();
        let x = compute.alloc_zeroed::<f32>(LEN).unwrap();
        let mut y = compute.alloc_zeroed::<f32>(LEN).unwrap();
        let refused = saxpy.launch(&compute, grid(), 1.0, &x, &mut y).unwrap_err();
        let in_a_graph = compute.capture((x, y), |s, (x, mut y)| saxpy.launch(s, grid(), 1.0, &x, &mut y));
        for error in [refused, in_a_graph.unwrap_err()] {
            assert!(
                error.to_string().contains("by another opening of this device"),
                "{error}"
            );
        }
        on_a_foreign_stream(stream, |stream| {
            let x = stream.alloc_zeroed::<f32>(LEN)?;
            let mut y = stream.alloc_zeroed::<f32>(LEN)?;
            saxpy.launch(stream, grid(), 1.0, &x, &mut y).unwrap_err();
            Ok(())
        });
    }
    let driver = SimDriver::new(SimConfig::default());
    Device::with_driver(driver.clone(), |outer| {
        Device::with_driver(driver, |inner| {
            attack(&outer, &inner);
            attack(&inner, &outer);
        })
        .unwrap();
    })
    .unwrap();
}

#[test]
fn a_stand_in_that_panics_loses_the_device() {
    Device::simulated(SimConfig::default().order(Order::Lazy), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let module = ForeignModule::load(&gpu, SAXPY).unwrap();
        let module = module.stand_in::<Saxpy>(|_, (_, _, x, _)| assert!(x[0] > 0.0, "of the test"));
        let x = compute.alloc_zeroed::<f32>(LEN).unwrap();
        let mut y = compute.alloc_zeroed::<f32>(LEN).unwrap();
        let saxpy = module.get::<Saxpy>().unwrap();
        saxpy.launch(&compute, grid(), 1.0, &x, &mut y).unwrap();
        let error = compute.synchronize().unwrap_err();
        assert!(error.to_string().contains("kernel `saxpy` panicked"), "{error}");
        assert!(error.to_string().contains("of the test"), "{error}");
    })
    .unwrap();
}

/// A fatbin of uncompressed images: the container is written here, because each is documented by
/// what `fatbinary` writes only.
fn fatbin(images: &[(u16, &[u8])], flags: u64) -> Vec<u8> {
    let mut all = Vec::new();
    for (kind, image) in images {
        let bytes = image.len().next_multiple_of(8);
        all.extend(kind.to_le_bytes());
        all.extend(0x101_u16.to_le_bytes());
        all.extend(64_u32.to_le_bytes());
        all.extend((bytes as u64).to_le_bytes());
        all.extend([0; 24]);
        all.extend(flags.to_le_bytes());
        all.extend([0; 16]);
        all.extend(*image);
        all.resize(all.len() + bytes - image.len(), 0);
    }
    let mut file = 0xba55_ed50_u32.to_le_bytes().to_vec();
    file.extend([1, 0, 16, 0]);
    file.extend((all.len() as u64).to_le_bytes());
    file.extend(all);
    file
}

#[test]
fn each_image_of_a_fatbin_is_compared() {
    cuda_rt::foreign_kernel! {
        unsafe fn sq(y: &mut [f32]) as Square;
    }
    const OTHER: &[u8] = b"\n\n.version 7.0\n.target sm_90\n.address_size 64\n\
        .visible .entry sq(.param .u64 y, .param .u64 z) { ret; }\n";
    const SAME: &[u8] =
        b".version 7.0\n.target sm_90\n.address_size 64\n.visible .entry sq(.param .u64 y) { ret; }";
    Device::simulated(SimConfig::default(), |gpu| {
        let load = |images: &[(u16, &[u8])], flags| ForeignModule::load(&gpu, &fatbin(images, flags));
        let both = load(&[(2, CUBIN), (1, SAME)], 0x11).unwrap();
        both.get::<Square>().unwrap();
        let differs = load(&[(2, CUBIN), (1, OTHER)], 0x11).unwrap();
        assert!(matches!(
            differs.get::<Square>(),
            Err(ForeignError::Count { found: 2, .. })
        ));
        let lacks = load(&[(2, CUBIN), (1, SAXPY)], 0x11).unwrap();
        assert!(matches!(lacks.get::<Square>(), Err(ForeignError::NoEntry { .. })));
        for (images, flags, why) in [
            (&[(1, SAME)][..], 0x8011, ImageError::Compressed),
            (&[(1, SAME)][..], 0x2011, ImageError::Compressed),
            (&[][..], 0, ImageError::Empty),
            (&[(4, SAME)][..], 0, ImageError::Empty),
        ] {
            let Err(ForeignError::Image(refused)) = load(images, flags) else {
                panic!("{why}")
            };
            assert_eq!(refused, why);
        }
    })
    .unwrap();
}

/// No prefix of an image is loaded, and no changed byte makes the reader panic or read elsewhere.
#[test]
fn images_that_are_cut_off_or_changed_are_refused_or_read() {
    Device::simulated(SimConfig::default(), |gpu| {
        let whole = fatbin(&[(2, CUBIN), (1, SAXPY)], 0x11);
        for image in [CUBIN, &whole] {
            for end in (0..image.len()).step_by(7).chain(image.len() - 64..image.len()) {
                let cut_off = ForeignModule::load(&gpu, &image[..end]);
                assert!(
                    matches!(cut_off, Err(ForeignError::Image(_))),
                    "{end} of {}",
                    image.len()
                );
            }
            let mut changed = image.to_vec();
            for at in 0..image.len() {
                for value in [0, 0x7f, 0xff] {
                    changed[at] = value;
                    if let Ok(module) = ForeignModule::load(&gpu, &changed) {
                        let _ = module.get::<Saxpy>();
                    }
                }
                changed[at] = image[at];
            }
        }
    })
    .unwrap();
}
