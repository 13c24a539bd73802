//! The program of the book's chapter "Coming from", with cust. It takes the PTX of
//! `docs/book/programs/scale.cu` from the working directory: `nvcc -ptx scale.cu`.
//!
//! Needs the feature `cust` to build and a GPU to run:
//! `cargo run -p cuda-rt-examples --features cust --example scale_with_cust`.
#![allow(unsafe_code, reason = "asynchronous calls of cust are unsafe")]

use cust::error::CudaResult;
use cust::event::{Event, EventFlags};
use cust::launch;
use cust::memory::{AsyncCopyDestination, DeviceBuffer, LockedBuffer};
use cust::module::Module;
use cust::stream::{Stream, StreamFlags, StreamWaitEventFlags};

fn main() -> CudaResult<()> {
    let _context = cust::quick_init()?;
    let compute = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    let download = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    let module = Module::from_file("scale.ptx")?;
    let scale = module.get_function("scale")?;

    let x = DeviceBuffer::from_slice(&[1.0_f32; 1024])?;
    // SAFETY: the same stream writes the buffer next.
    let y = unsafe { DeviceBuffer::<f32>::zeroed_async(1024, &compute) }?;
    let (from, to) = (x.as_device_ptr(), y.as_device_ptr());
    // SAFETY: the kernel takes these parameters, and uses 1024 elements of each buffer.
    unsafe { launch!(scale<<<4, 256, 0, compute>>>(from, to, 2.0_f32, 1024_u32)) }?;
    let done = Event::new(EventFlags::DISABLE_TIMING)?;
    done.record(&compute)?;

    download.wait_event(done, StreamWaitEventFlags::DEFAULT)?; // or the copy comes too early
    let mut host = LockedBuffer::new(&0.0_f32, 1024)?;
    // SAFETY: the next line waits for the copy.
    unsafe { y.async_copy_to(&mut host[..], &download) }?;
    download.synchronize()?; // or `host` is read too early
    println!("{}", host[0]);
    Ok(())
}
