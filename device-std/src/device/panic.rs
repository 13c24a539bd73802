use core::panic::PanicInfo;

// A handler this small lets the optimizer see that no message is ever read, and drop all of `core::fmt`.
#[panic_handler]
fn panic(_info: &PanicInfo<'_>) -> ! {
    // SAFETY: ends the launch with an error, and touches no memory.
    unsafe { core::arch::nvptx::trap() }
}
