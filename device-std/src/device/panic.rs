use core::panic::PanicInfo;

// The handler reads no message. So the optimizer sees that no message is used, and removes all of
// `core::fmt`.
#[cfg(not(feature = "panic-place"))]
#[panic_handler]
fn panic(_info: &PanicInfo<'_>) -> ! {
    // SAFETY: the instruction ends the launch with an error, and touches no memory.
    unsafe { core::arch::nvptx::trap() }
}

/// Reads the place of the panic, and no message.
#[cfg(feature = "panic-place")]
#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    match info.location() {
        Some(place) => fail(place),
        // SAFETY: the instruction ends the launch with an error, and touches no memory.
        None => unsafe { core::arch::nvptx::trap() },
    }
}

/// CUDA's own `assert`: the driver prints the place, the block and the thread to standard error,
/// and the launch ends with `CUDA_ERROR_ASSERT`.
#[cfg(feature = "panic-place")]
#[cold]
#[inline(never)]
fn fail(place: &core::panic::Location<'_>) -> ! {
    unsafe extern "C" {
        fn __assertfail(
            message: *const core::ffi::c_char,
            file: *const core::ffi::c_char,
            line: u32,
            function: *const core::ffi::c_char,
            bytes_of_a_character: usize,
        ) -> !;
    }
    let (message, file) = (c"no panic", place.file_as_c_str());
    // SAFETY: each text ends in a zero byte, and its characters have one byte.
    unsafe {
        __assertfail(
            message.as_ptr(),
            file.as_ptr(),
            place.line(),
            c"kernel".as_ptr(),
            1,
        )
    }
}
