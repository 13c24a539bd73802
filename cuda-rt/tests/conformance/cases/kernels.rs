//! Launches.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use cuda_rt::driver::{Backend, Driver, ErrorCode};
use cuda_rt::kernel::{Extent, LaunchShape};

#[cfg(feature = "cuda")]
use crate::fixtures::{BUILT_FOR, TOO_NEW};
use crate::fixtures::{DESCRIBE, ECHO, STEP, Sixteen, Step};
use crate::support::{Rig, SLOW, shape};

const ONE: Extent = Extent { x: 1, y: 1, z: 1 };

fn pointer<T>(value: &T) -> *const c_void {
    ptr::from_ref(value).cast()
}

pub(crate) fn parameters_of_every_size_arrive(driver: &Arc<dyn Driver>) {
    const BYTES: usize = 1 + 2 + 4 + 8 + 3 + 12 + 16 + 40 + 24;
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let output = rig.zeroed(BYTES, stream);
    let three = [0xA1_u8, 0xA2, 0xA3];
    let twelve = [0xB1B2_B3B4_u32, 0xB5B6_B7B8, 0xB9BA_BBBC];
    let sixteen = Sixteen(*b"sixteen bytes 16");
    let forty = [1_u64, u64::MAX, 0x0102_0304_0506_0708, 1 << 63, 42];
    let extent = Extent {
        x: 1,
        y: 0x1122_3344_5566_7788,
        z: 3,
    };
    let parameters = [
        pointer(&output.address.0),
        pointer(&(BYTES as u64)),
        pointer(&0x11_u8),
        pointer(&0x2223_u16),
        pointer(&0x3334_3536_u32),
        pointer(&0x4445_4647_4849_4A4B_u64),
        pointer(&three),
        pointer(&twelve),
        pointer(&sixteen),
        pointer(&forty),
        pointer(&extent),
    ];
    let one = LaunchShape {
        block: [1, 1, 1],
        extent,
        ..shape(ONE)
    };
    // SAFETY: the parameters are the kernel's, and the output has room for all of them.
    unsafe { driver.launch(&ECHO, &one, &parameters, stream) }.expect("launch");

    let mut expected = vec![0x11];
    expected.extend(0x2223_u16.to_ne_bytes());
    expected.extend(0x3334_3536_u32.to_ne_bytes());
    expected.extend(0x4445_4647_4849_4A4B_u64.to_ne_bytes());
    expected.extend(three);
    expected.extend(twelve.iter().flat_map(|word| word.to_ne_bytes()));
    expected.extend(sixteen.0);
    expected.extend(forty.iter().flat_map(|word| word.to_ne_bytes()));
    expected.extend(
        [extent.x, extent.y, extent.z]
            .iter()
            .flat_map(|word| word.to_ne_bytes()),
    );
    assert_eq!(rig.read(output, stream), expected);
}

/// All numbers differ, so that a swap of two shows.
pub(crate) fn grid_and_block_arrive(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let output = rig.zeroed(28, stream);
    for (grid, block, shared_bytes) in [([5, 6, 7], [2, 3, 4], 1024), ([1, 9, 2], [64, 4, 1], 0)] {
        let shape = LaunchShape {
            grid,
            block,
            shared_bytes,
            extent: ONE,
        };
        let parameters = [pointer(&output.address.0), pointer(&7_u64), pointer(&ONE)];
        // SAFETY: the parameters are the kernel's, and the output has room for seven words.
        unsafe { driver.launch(&DESCRIBE, &shape, &parameters, stream) }.expect("launch");
        let expected = [
            grid[0],
            grid[1],
            grid[2],
            block[0],
            block[1],
            block[2],
            shared_bytes,
        ];
        assert_eq!(rig.read_words(output, stream), expected);
    }
}

pub(crate) fn threads_outside_the_extent_do_not_enter(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    for covered in [0_usize, 1, 127, 128, 129, 999, 1000] {
        let data = rig.zeroed(4000, stream);
        let extent = Extent {
            x: covered as u64,
            y: 1,
            z: 1,
        };
        let parameters = Step {
            data,
            length: 1000,
            cycles: 0,
            factor: 1,
            term: 1,
            extent,
        };
        // SAFETY: the parameters are the kernel's, and the block has 1000 words.
        unsafe { driver.launch(&STEP, &shape(extent), &parameters.pointers(), stream) }.expect("launch");
        let words = rig.read_words(data, stream);
        assert!(words[..covered].iter().all(|&word| word == 1), "extent {covered}");
        assert!(words[covered..].iter().all(|&word| word == 0), "extent {covered}");
    }
}

/// The driver keeps nothing of the parameters after `launch`, though the kernel runs later.
pub(crate) fn parameters_are_copied_at_the_launch(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let data = rig.zeroed(400, stream);
    let extent = Extent { x: 100, y: 1, z: 1 };
    rig.step(data, SLOW, 1, 0, stream);
    let mut parameters = Box::new(Step {
        data,
        length: 100,
        cycles: SLOW,
        factor: 0,
        term: 0,
        extent,
    });
    for term in 1..=3 {
        (parameters.factor, parameters.term) = (10, term);
        // SAFETY: the parameters are the kernel's, and the block has 100 words.
        unsafe { driver.launch(&STEP, &shape(extent), &parameters.pointers(), stream) }.expect("launch");
        (parameters.factor, parameters.term, parameters.length) = (0xDEAD, 0xDEAD, 100);
    }
    drop(parameters);
    assert_eq!(rig.read_words(data, stream), [123; 100]);
}

pub(crate) fn prepare_is_repeatable(driver: &Arc<dyn Driver>) {
    for _ in 0..3 {
        driver.prepare(&STEP).expect("prepare");
        driver.prepare(&ECHO).expect("prepare");
    }
}

/// From a text with several modules, the driver loads the module for the newest architecture that
/// runs on the device.
#[cfg(feature = "cuda")]
pub(crate) fn the_module_for_the_device_is_loaded(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let output = rig.zeroed(4, stream);
    let parameters = [pointer(&output.address.0), pointer(&1_u64), pointer(&ONE)];
    // SAFETY: the parameters are the kernel's, and the output has room for a word.
    unsafe { driver.launch(&BUILT_FOR, &shape(ONE), &parameters, stream) }.expect("launch");
    let newest = if driver.properties().compute_capability >= (9, 0) {
        90
    } else {
        80
    };
    assert_eq!(rig.read_words(output, stream), [newest]);

    let error = driver.prepare(&TOO_NEW).expect_err("there is no such GPU");
    assert_eq!(error.code(), ErrorCode::NO_BINARY_FOR_GPU, "{error}");
    assert!(error.detail().contains("sm_9990, sm_9991"), "{error}");
}

/// The numbers of a GPU are not known here, but their relations are.
pub(crate) fn occupancy_is_plausible(driver: &Arc<dyn Driver>) {
    let device = driver.properties();
    let attributes = driver.kernel_attributes(&STEP).expect("attributes");
    assert!(
        (1..=255).contains(&attributes.registers_per_thread),
        "{attributes:?}"
    );
    let most = attributes.max_threads_per_block;
    assert!(
        (1..=device.max_threads_per_block).contains(&most),
        "{attributes:?}"
    );
    assert_eq!(attributes.is_modelled, device.backend == Backend::Simulated);

    let active = |threads, shared_bytes| {
        driver
            .max_active_blocks(&STEP, threads, shared_bytes)
            .expect("occupancy")
    };
    let (small, large) = (active(32, 0), active(most, 0));
    assert!(small >= large && large > 0, "{small} and {large} blocks");
    assert!(large * most <= device.max_threads_per_multiprocessor);
    assert!((1..small).contains(&active(32, 48 << 10)), "shared memory counts");
    // CUDA does not document whether a block that is too large is an error.
    let too_large = driver.max_active_blocks(&STEP, device.max_threads_per_block + 1, 0);
    assert!(matches!(too_large, Ok(0) | Err(_)), "{too_large:?}");
    let none = driver
        .max_active_blocks(&STEP, 0, 0)
        .expect_err("a block of no threads");
    assert_eq!(none.code(), ErrorCode::INVALID_VALUE, "{none}");

    for shared_bytes in [0, 4 << 10, 48 << 10] {
        let suggested = driver.suggest_block(&STEP, shared_bytes).expect("suggestion");
        assert!((1..=most).contains(&suggested.threads), "{suggested:?}");
        let blocks = active(suggested.threads, shared_bytes);
        assert_eq!(suggested.fewest_blocks, blocks * device.multiprocessors);
        let threads = |threads| active(threads, shared_bytes) * threads;
        assert!(
            threads(suggested.threads) >= threads(32).max(threads(most)),
            "{suggested:?}"
        );
    }
}
