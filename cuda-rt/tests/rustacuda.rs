//! Types with `DeviceCopy`, as parameters and, in a wrapper, as elements.
#![cfg(feature = "rustacuda")]

mod devices;

use std::ffi::c_void;
use std::ptr;

use cuda_rt::bytemuck::{Pod, Zeroable};
use cuda_rt::kernel::{Extent, Kernel, KernelCache, LaunchShape, ModuleImage, Parameter, ParameterKind};
use cuda_rt::{DeviceCopied, Element};
use devices::for_each_device;
use rustacuda_derive::DeviceCopy;

cuda_rt::streams! { Compute; }

/// A type as another crate might have it: it has no `Element`, and any bits are a valid value.
#[derive(Clone, Copy, Debug, PartialEq, DeviceCopy, Pod, Zeroable)]
#[repr(C)]
struct Pixel {
    luminance: f32,
    index: u32,
}

/// Not an element: 2 is not a valid `bool`, and the type has padding.
#[derive(Clone, Copy, DeviceCopy)]
#[repr(C)]
struct Settings {
    invert: bool,
    gain: f32,
    offset: Option<std::num::NonZeroU32>,
}

#[test]
fn wrapped_types_are_elements() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let pixel = |i: usize| {
            DeviceCopied(Pixel {
                luminance: i as f32,
                index: i as u32,
            })
        };
        let from: Vec<DeviceCopied<Pixel>> = (0..1000).map(pixel).collect();
        let host = compute.adopt(gpu.pinned_from(&from).unwrap()).unwrap();
        let mut pixels = compute.alloc_zeroed::<DeviceCopied<Pixel>>(1000).unwrap();
        compute.copy_to_device(&host, &mut pixels).unwrap();
        compute.fill(&mut pixels[..10], pixel(7)).unwrap();
        let mut host = host;
        compute.copy_to_host(&pixels, &mut host).unwrap();
        let host = compute.release(host).unwrap().synchronize().unwrap();
        assert_eq!(host[..10], [pixel(7); 10]);
        assert_eq!(host[10..], from[10..]);
    });
}

#[test]
fn types_of_another_size_have_another_layout() {
    assert_ne!(
        <DeviceCopied<Pixel> as Element>::LAYOUT,
        <DeviceCopied<u32> as Element>::LAYOUT
    );
    assert_ne!(<DeviceCopied<u32> as Element>::LAYOUT, <u32 as Element>::LAYOUT);
}

// SAFETY: the kernels are launched only through the call for foreign kernels.
static IMAGE: ModuleImage =
    unsafe { ModuleImage::new("tests, rustacuda", include_str!("rustacuda/settings.ptx")) };

const fn parameter<T>(kind: ParameterKind) -> Parameter {
    Parameter {
        size_bytes: size_of::<T>(),
        align_bytes: align_of::<T>(),
        kind,
    }
}

/// Computes `data[i] = (invert ? -gain : gain) * i + offset`, one thread for each element.
static APPLY: Kernel = Kernel {
    name: "rustacuda::apply",
    symbol: c"apply",
    file: file!(),
    line: line!(),
    module: &IMAGE,
    parameters: &[
        parameter::<u64>(ParameterKind::Write { element_bytes: 4 }),
        parameter::<u64>(ParameterKind::Length),
        parameter::<Settings>(ParameterKind::Scalar),
    ],
    layout: &[],
    simulate,
    cache: KernelCache::new(),
};

/// # Safety
/// As [`Kernel::simulate`] for [`APPLY`].
unsafe fn simulate(_: &LaunchShape, parameters: *const *const c_void) {
    // SAFETY: the parameter is an address.
    let data = unsafe { argument::<u64>(parameters, 0) };
    // SAFETY: the parameter is a length.
    let length = unsafe { argument::<u64>(parameters, 1) };
    // SAFETY: the parameter is the `Settings` that the host passed.
    let settings = unsafe { argument::<Settings>(parameters, 2) };
    let gain = if settings.invert {
        -settings.gain
    } else {
        settings.gain
    };
    let offset = settings.offset.map_or(0, std::num::NonZeroU32::get) as f32;
    for i in 0..length {
        let place = ptr::with_exposed_provenance_mut::<f32>((data + 4 * i) as usize);
        // SAFETY: element `i` of the buffer, which nothing else uses now.
        unsafe { place.write(gain * i as f32 + offset) };
    }
}

/// # Safety
/// Parameter `index` exists and is a `T`.
unsafe fn argument<T: Copy>(parameters: *const *const c_void, index: usize) -> T {
    // SAFETY: by this function's contract there is a pointer at `index`.
    let value = unsafe { parameters.wrapping_add(index).read() };
    // SAFETY: by this function's contract the pointer is to a live `T`.
    unsafe { value.cast::<T>().read() }
}

/// A launch of one thread for each of `n` elements, in blocks of 256.
fn shape(n: usize) -> LaunchShape {
    LaunchShape {
        grid: [n.div_ceil(256) as u32, 1, 1],
        block: [256, 1, 1],
        shared_bytes: 0,
        extent: Extent {
            x: n as u64,
            y: 1,
            z: 1,
        },
    }
}

#[test]
fn types_passed_by_value_keep_all_their_bits() {
    for_each_device(|gpu| {
        const N: usize = 300;
        let compute = gpu.stream::<Compute<_>>().unwrap();
        for (invert, offset) in [(true, None), (false, std::num::NonZeroU32::new(5))] {
            let settings = Settings {
                invert,
                gain: 2.0,
                offset,
            };
            let mut data = compute.alloc_zeroed::<f32>(N).unwrap();
            let shape = shape(N);
            let launch = compute
                .foreign_kernel(&APPLY)
                .write(&mut data)
                .device_copy(&settings);
            // SAFETY: the entry has these parameters, with `Settings` laid out as by `repr(C)`, and
            // writes this many elements.
            unsafe { launch.launch(&shape) }.unwrap();
            let mut host = compute.adopt(gpu.pinned::<f32>(N).unwrap()).unwrap();
            compute.copy_to_host(&data, &mut host).unwrap();
            let host = compute.release(host).unwrap().synchronize().unwrap();
            let expected = |i: usize| {
                let gain = if invert { -2.0 } else { 2.0 };
                gain * i as f32 + if invert { 0.0 } else { 5.0 }
            };
            assert!(host.iter().enumerate().all(|(i, x)| *x == expected(i)));
        }
    });
}

/// An update of a graph compares its launches byte by byte, but padding bytes may not be read. So
/// parameters with padding are set anew at each update, even where nothing changed.
#[test]
fn attack_compare_padding_in_an_update_of_a_graph() {
    use cuda_rt::simulator::Call;

    for_each_device(|gpu| {
        const N: usize = 300;
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let data = compute.alloc_zeroed::<f32>(N).unwrap();
        let gain = std::sync::atomic::AtomicU32::new(2);
        let shape = shape(N);
        macro_rules! body {
            () => {
                |stream, mut data| {
                    let settings = Settings {
                        invert: false,
                        gain: gain.load(std::sync::atomic::Ordering::Relaxed) as f32,
                        offset: None,
                    };
                    let launch = stream
                        .foreign_kernel(&APPLY)
                        .write(&mut data)
                        .device_copy(&settings);
                    // SAFETY: as above.
                    unsafe { launch.launch(&shape) }
                }
            };
        }
        let mut graph = compute.capture(data, body!()).unwrap();
        graph.update(body!()).unwrap();
        gain.store(3, std::sync::atomic::Ordering::Relaxed);
        graph.update(body!()).unwrap();
        if let Some(simulator) = gpu.simulator() {
            assert_eq!(simulator.counters().calls(Call::SetLaunch), 2);
        }
        graph.launch(&compute).unwrap();
        let data = graph.into_inner();
        let mut host = compute.adopt(gpu.pinned::<f32>(N).unwrap()).unwrap();
        compute.copy_to_host(&data, &mut host).unwrap();
        let host = compute.release(host).unwrap().synchronize().unwrap();
        assert!(host.iter().enumerate().all(|(i, x)| *x == 3.0 * i as f32));
    });
}

/// The message says why `DeviceCopy` is not enough. (With cust as a dependency, rustc also
/// distinguishes two types called `Stream` in the message.)
#[cfg(not(feature = "cust"))]
#[test]
fn types_with_invalid_bits_are_no_elements() {
    trybuild::TestCases::new().compile_fail("tests/rustacuda/not_any_bits_are_a_value.rs");
}

#[test]
#[should_panic(expected = "argument 2 of kernel `rustacuda::apply` has 8 bytes")]
fn an_argument_of_another_size_panics() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut data = compute.alloc_zeroed::<f32>(1).unwrap();
        let _ = compute
            .foreign_kernel(&APPLY)
            .write(&mut data)
            .device_copy(&0_u64);
    });
}
