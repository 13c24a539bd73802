//! Modules that are loaded from bytes, and launches of their functions.

use std::ffi::c_void;
use std::sync::Arc;

use cuda_rt::driver::{DeviceAddress, Driver, ErrorCode, ForeignUse, FunctionLaunch, RawFunction, StandIn};
use cuda_rt::kernel::Extent;

use crate::support::{Block, Rig, shape};

/// Stores a number in each of 128 words.
const STORE: &[u8] = b".version 7.0
.target sm_70
.address_size 64
.visible .entry store(.param .u64 y, .param .u32 value)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [y];
    ld.param.u32 %r1, [value];
    cvta.to.global.u64 %rd1, %rd1;
    mov.u32 %r2, %tid.x;
    mul.wide.u32 %rd2, %r2, 4;
    add.u64 %rd1, %rd1, %rd2;
    st.global.u32 [%rd1], %r1;
    ret;
}
\0";

/// The threads of a block of [`shape`].
const WORDS: u32 = 128;

/// Launches `store` with this number.
fn store(rig: &Rig, function: RawFunction, to: Block, value: u32, stream: cuda_rt::driver::RawStream) {
    let start = to.address.0;
    let stand_in = StandIn::new(move || {
        for word in 0..u64::from(WORDS) {
            let place = std::ptr::with_exposed_provenance_mut::<u32>((start + 4 * word) as usize);
            // SAFETY: a word of the block, in the turn of the launch.
            unsafe { place.write(value) };
        }
    });
    let uses = [ForeignUse {
        address: to.address,
        bytes: 4 * WORDS as usize,
        writes: true,
    }];
    let parameters: [*const c_void; 2] = [(&raw const start).cast(), (&raw const value).cast()];
    let launch = FunctionLaunch {
        name: "store",
        shape: shape(Extent {
            x: u64::from(WORDS),
            y: 1,
            z: 1,
        }),
        parameters: &parameters,
        uses: &uses,
        stand_in: Some(&stand_in),
    };
    // SAFETY: the function takes these two values, and writes the words stated above.
    unsafe { rig.driver.launch_function(function, &launch, stream) }.expect("launch");
}

pub(crate) fn a_function_of_a_loaded_module_runs_in_order(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    let stream = rig.stream();
    let data = rig.zeroed(4 * WORDS as usize, stream);
    // SAFETY: text that ends in a NUL.
    let module = unsafe { driver.load_module(STORE) }.expect("load");
    // SAFETY: the handle is live.
    let function = unsafe { driver.module_function(module, c"store") }.expect("the entry");
    store(&rig, function, data, 7, stream);
    rig.step(data, 0, 3, 1, stream);
    assert_eq!(rig.read_words(data, stream), [22; WORDS as usize]);

    // A graph replays the launch.
    rig.begin_capture(stream);
    store(&rig, function, data, 9, stream);
    let graph = rig.end_capture(stream).expect("a graph");
    rig.launch_graph(graph, stream);
    assert_eq!(rig.read_words(data, stream), [9; WORDS as usize]);
    rig.destroy_graph(graph);
    rig.synchronize(stream);
    // SAFETY: no launch is pending, and the only graph is gone.
    unsafe { driver.unload_module(module) }.expect("unload");
}

pub(crate) fn images_and_names_that_are_wrong_are_refused(driver: &Arc<dyn Driver>) {
    let rig = Rig::new(driver);
    // SAFETY: text that ends in a NUL.
    let error = unsafe { driver.load_module(b"no PTX\0") }.expect_err("no PTX");
    assert!(
        !error.is_sticky() && error.call() == "cuModuleLoadDataEx",
        "{error}"
    );
    // SAFETY: text that ends in a NUL.
    let module = unsafe { driver.load_module(STORE) }.expect("load");
    // SAFETY: the handle is live.
    let error = unsafe { driver.module_function(module, c"stor") }.expect_err("another name");
    assert_eq!(
        (error.call(), error.code()),
        ("cuModuleGetFunction", ErrorCode::NOT_FOUND)
    );
    // SAFETY: the handle is live.
    let function = unsafe { driver.module_function(module, c"store") }.expect("the entry");
    if !rig.is_cuda() {
        let (address, value) = (DeviceAddress(0), 0_u32);
        let parameters: [*const c_void; 2] = [(&raw const address.0).cast(), (&raw const value).cast()];
        let launch = FunctionLaunch {
            name: "store",
            shape: shape(Extent { x: 1, y: 1, z: 1 }),
            parameters: &parameters,
            uses: &[],
            stand_in: None,
        };
        // SAFETY: the launch is refused.
        let error = unsafe { driver.launch_function(function, &launch, rig.stream()) };
        assert_eq!(error.expect_err("no stand-in").code(), ErrorCode::NOT_SUPPORTED);
    }
    // SAFETY: nothing was launched.
    unsafe { driver.unload_module(module) }.expect("unload");
}
