//! Converts handles to cust's objects and back. cust itself can make only memory from a handle.
//!
//! # Invariants
//! CUST-1. `Stream`, `Event` and `Module` of cust 0.3.2, the version that Cargo.toml demands, are
//! structs with one field each, a pointer: `CUstream`, `CUevent`, `CUmodule`. Assertions here check
//! that each struct has the size and the alignment of a pointer. So the struct has no room for
//! anything else, wherever rustc puts the field.

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

/// A stream of cust over this handle; dropping it does not destroy the stream.
///
/// # Safety
/// `raw` (`CUstream`) is live for as long as the result is used.
#[inline]
pub unsafe fn stream(raw: *mut c_void) -> ManuallyDrop<Stream> {
    // SAFETY: CUST-1: the pointer is the struct's one field; any pointer is a value of the field.
    ManuallyDrop::new(unsafe { transmute::<*mut c_void, Stream>(raw) })
}

/// An event of cust over this handle; dropping it does not destroy the event.
///
/// # Safety
/// `raw` (`CUevent`) is live for as long as the result is used.
#[inline]
pub unsafe fn event(raw: *mut c_void) -> ManuallyDrop<Event> {
    // SAFETY: CUST-1: the pointer is the struct's one field; any pointer is a value of the field.
    ManuallyDrop::new(unsafe { transmute::<*mut c_void, Event>(raw) })
}

/// A module of cust over this handle; dropping it does not unload the module.
///
/// # Safety
/// `raw` (`CUmodule`) is live for as long as the result is used.
pub unsafe fn module(raw: *mut c_void) -> ManuallyDrop<Module> {
    // SAFETY: CUST-1: the pointer is the struct's one field; any pointer is a value of the field.
    ManuallyDrop::new(unsafe { transmute::<*mut c_void, Module>(raw) })
}

/// Takes the handle out of an event; cust will not destroy the event.
pub fn into_raw_event(event: Event) -> *mut c_void {
    // SAFETY: CUST-1: the struct is its one field, a pointer.
    unsafe { transmute::<Event, *mut c_void>(event) }
}

/// Takes the handle out of a module; cust will not unload the module.
pub fn into_raw_module(module: Module) -> *mut c_void {
    // SAFETY: CUST-1: the struct is its one field, a pointer.
    unsafe { transmute::<Module, *mut c_void>(module) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    const HANDLE: *mut c_void = ptr::without_provenance_mut(0x1230);

    #[test]
    fn the_one_field_is_the_handle() {
        // SAFETY: the stream is used in no call.
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
