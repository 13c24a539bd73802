//! cust's objects from handles, and back. It has constructors from a handle for memory only.
//!
//! # Invariants
//! CUST-1. `Stream`, `Event` and `Module` of cust 0.3.2, which is the version that Cargo.toml asks
//! for, are structs of one field each, a pointer: `CUstream`, `CUevent`, `CUmodule`. They are as
//! large as that and aligned like it, which is asserted here, so that the field is all there is of
//! them, wherever rustc might put it.

use std::ffi::c_void;
use std::mem::{ManuallyDrop, transmute};

use cust::event::Event;
use cust::module::Module;
use cust::stream::Stream;

macro_rules! is_a_pointer {
    ($($object:ty),*) => { $(
        const _: () = assert!(
            size_of::<$object>() == size_of::<*mut c_void>() && align_of::<$object>() == align_of::<*mut c_void>()
        );
    )* };
}
is_a_pointer!(Stream, Event, Module);

/// cust's view of a stream, which does not destroy it.
///
/// # Safety
/// `raw` (`CUstream`) is live for as long as the result is used.
#[inline]
pub unsafe fn stream(raw: *mut c_void) -> ManuallyDrop<Stream> {
    // SAFETY: CUST-1; any pointer is a value of the field.
    ManuallyDrop::new(unsafe { transmute::<*mut c_void, Stream>(raw) })
}

/// cust's view of an event, which does not destroy it.
///
/// # Safety
/// `raw` (`CUevent`) is live for as long as the result is used.
#[inline]
pub unsafe fn event(raw: *mut c_void) -> ManuallyDrop<Event> {
    // SAFETY: CUST-1; any pointer is a value of the field.
    ManuallyDrop::new(unsafe { transmute::<*mut c_void, Event>(raw) })
}

/// cust's view of a module, which does not unload it.
///
/// # Safety
/// `raw` (`CUmodule`) is live for as long as the result is used.
pub unsafe fn module(raw: *mut c_void) -> ManuallyDrop<Module> {
    // SAFETY: CUST-1; any pointer is a value of the field.
    ManuallyDrop::new(unsafe { transmute::<*mut c_void, Module>(raw) })
}

/// The handle of an event, given up by cust.
pub fn into_raw_event(event: Event) -> *mut c_void {
    // SAFETY: CUST-1.
    unsafe { transmute::<Event, *mut c_void>(event) }
}

/// The handle of a module, given up by cust.
pub fn into_raw_module(module: Module) -> *mut c_void {
    // SAFETY: CUST-1.
    unsafe { transmute::<Module, *mut c_void>(module) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    const HANDLE: *mut c_void = ptr::without_provenance_mut(0x1230);

    #[test]
    fn the_one_field_is_the_handle() {
        // SAFETY: not used for any call.
        let stream = unsafe { stream(HANDLE) };
        assert_eq!(stream.as_inner().cast(), HANDLE);
        // SAFETY: as above.
        let event = unsafe { event(HANDLE) };
        assert_eq!(format!("{:?}", *event), "Event(0x1230)");
        // SAFETY: as above.
        let module = unsafe { module(HANDLE) };
        assert_eq!(format!("{:?}", *module), "Module { inner: 0x1230 }");
        assert_eq!(into_raw_event(ManuallyDrop::into_inner(event)), HANDLE);
        assert_eq!(into_raw_module(ManuallyDrop::into_inner(module)), HANDLE);
    }
}
