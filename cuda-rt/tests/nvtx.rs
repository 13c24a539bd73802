//! Stages as NVTX ranges, as a profiler sees them: through an injection library, here linked into
//! the test.
//!
//! The types of the injection are the types in `nvtxDetail/nvtxTypes.h` of NVTX 3.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::Mutex;
use std::thread::{self, ThreadId};

use cuda_rt::pipeline::Pipeline;
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, timeline};

cuda_rt::streams! { Upload; Download; }

#[derive(Clone, Debug, PartialEq)]
enum Event {
    Push(String),
    Pop,
}

static EVENTS: Mutex<Vec<(ThreadId, Event)>> = Mutex::new(Vec::new());

fn note(event: Event) -> c_int {
    EVENTS.lock().unwrap().push((thread::current().id(), event));
    0
}

extern "C" fn push(name: *const c_char) -> c_int {
    // SAFETY: NVTX passes on the string that it was given.
    note(Event::Push(
        unsafe { CStr::from_ptr(name) }.to_str().unwrap().to_owned(),
    ))
}

extern "C" fn pop() -> c_int {
    note(Event::Pop)
}

type Function = *const c_void;
/// `NvtxExportTableCallbacks`.
#[repr(C)]
struct Callbacks {
    struct_size: usize,
    functions: extern "C" fn(module: c_int, table: *mut *mut *mut Function, size: *mut c_uint) -> c_int,
}
type ExportTable = extern "C" fn(id: u32) -> *const Callbacks;

const EXPORT_CALLBACKS: u32 = 1;
const MODULE_CORE: c_int = 1;
const RANGE_PUSH_A: usize = 9;
const RANGE_POP: usize = 11;

extern "C" fn inject(export_table: ExportTable) -> c_int {
    let callbacks = export_table(EXPORT_CALLBACKS);
    let (mut table, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: this is NVTX's own table, which is never freed.
    let functions = unsafe { (*callbacks).functions };
    assert_eq!(functions(MODULE_CORE, &raw mut table, &raw mut size), 1);
    assert!(size as usize > RANGE_POP);
    for (id, function) in [(RANGE_PUSH_A, push as Function), (RANGE_POP, pop as Function)] {
        // SAFETY: the entry is inside the table, whose length is `size`.
        let slot = unsafe { table.add(id) };
        // SAFETY: the pointer is to an entry of the table.
        let slot = unsafe { *slot };
        // SAFETY: the slot holds the pointer that NVTX calls through, and the function has the type
        // of that pointer.
        unsafe { *slot = function };
    }
    1
}

/// NVTX looks for this symbol before it looks for a library.
// SAFETY: the name and the type are NVTX's; NVTX declares the symbol weak.
#[unsafe(no_mangle)]
#[used]
#[allow(non_upper_case_globals)]
static InitializeInjectionNvtx2_fnptr: extern "C" fn(ExportTable) -> c_int = inject;

fn seen(body: impl FnOnce()) -> Vec<(ThreadId, Event)> {
    EVENTS.lock().unwrap().clear();
    body();
    std::mem::take(&mut *EVENTS.lock().unwrap())
}

/// One test only: the events are of the whole process.
#[test]
fn scopes_and_stages_are_ranges_of_their_threads() {
    let events = seen(|| {
        let _outer = timeline::scope("outer");
        let _inner = timeline::scope("inner, éé");
        drop(timeline::scope("cut\0off"));
    });
    let here = thread::current().id();
    let expected = [
        Event::Push("outer".into()),
        Event::Push("inner, éé".into()),
        Event::Push("cut".into()),
        Event::Pop,
        Event::Pop,
        Event::Pop,
    ];
    assert_eq!(events, expected.map(|event| (here, event)));

    let events = seen(|| {
        Device::simulated(SimConfig::new(), |gpu| {
            Pipeline::new(&gpu, 2)
                .source(4, 0..5, |_, pinned: &mut [u8]| Ok(pinned.len()))
                .upload::<Upload<_>>()
                .download::<Download<_>>()
                .sink(|_, _| Ok(()))
                .run()
                .unwrap();
        })
        .unwrap();
    });
    for stage in ["source", "upload", "download", "sink"] {
        let pushes = |(_, event): &&_| *event == Event::Push(stage.into());
        let of_stage: Vec<_> = events.iter().filter(pushes).collect();
        // The source asks for a sixth item, which does not exist.
        let expected = if stage == "source" { 6 } else { 5 };
        assert_eq!(of_stage.len(), expected, "{stage}: {events:?}");
        let thread = of_stage[0].0;
        assert!(of_stage.iter().all(|(other, _)| *other == thread));
        let pops = events
            .iter()
            .filter(|(other, event)| *other == thread && *event == Event::Pop);
        assert_eq!(pops.count(), expected, "{stage}: each range ends, on its thread");
    }
}
