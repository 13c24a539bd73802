//! Kernel launches: the data kept of a launch until it runs, and the outcome of a kernel that
//! panics.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use super::clock::{SpanKind, Work};
use super::reach::Reach;
use cuda_rt_driver::ErrorCode;
use cuda_rt_driver::OwnedArguments;
use cuda_rt_driver::call_lock::message as panic_message;
use cuda_rt_driver::{Kernel, LaunchShape, ParameterKind};

/// A pending launch, with the bytes of its parameters.
#[derive(Debug)]
pub(super) struct Launch {
    shape: LaunchShape,
    packed: OwnedArguments,
}

/// The reason why a kernel did not run to its end.
pub(super) struct Trap {
    pub(super) code: ErrorCode,
    pub(super) detail: String,
}

impl Launch {
    /// Copies the parameters.
    ///
    /// # Safety
    /// `parameters` has one pointer for each of `kernel.parameters`, to a live value of that size.
    pub(super) unsafe fn new(
        kernel: &'static Kernel,
        shape: &LaunchShape,
        parameters: &[*const c_void],
    ) -> Self {
        Self {
            shape: *shape,
            // SAFETY: the same contract.
            packed: unsafe { OwnedArguments::new(kernel, parameters) },
        }
    }

    /// A copy with the same parameters.
    pub(super) fn duplicate(&self) -> Self {
        Self {
            shape: self.shape,
            packed: self.packed.duplicate(),
        }
    }

    /// The launch's load on the engine: its threads, and the bytes of its buffers.
    pub(super) fn work(&self) -> Work {
        let extent = self.shape.extent;
        let buffers = self.buffers();
        let bytes = buffers
            .iter()
            .fold(0u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
        let threads = extent.x.saturating_mul(extent.y).saturating_mul(extent.z);
        Work {
            kind: SpanKind::Kernel,
            label: self.packed.kernel().name,
            bytes,
            threads,
        }
    }

    /// Address and length in bytes of each buffer parameter.
    fn buffers(&self) -> Vec<(u64, u64)> {
        let word = |i: usize| {
            let (value, bytes) = self.packed.values().nth(i)?;
            // SAFETY: parameters that are addresses or lengths are initialised, and the size was
            // just compared with a u64's.
            (bytes == 8).then(|| unsafe { value.cast::<u64>().read_unaligned() })
        };
        let mut buffers = Vec::new();
        for (i, pair) in self.packed.kernel().parameters.windows(2).enumerate() {
            let (ParameterKind::Read { element_bytes } | ParameterKind::Write { element_bytes }) =
                pair[0].kind
            else {
                continue;
            };
            if pair[1].kind == ParameterKind::Length
                && let (Some(address), Some(elements)) = (word(i), word(i + 1))
            {
                buffers.push((address, elements.saturating_mul(element_bytes as u64)));
            }
        }
        buffers
    }

    /// Runs the kernel on the calling thread.
    pub(super) fn run(&self, reach: &Reach<'_>) -> Result<(), Trap> {
        let kernel = self.packed.kernel();
        let Kernel { name, file, line, .. } = *kernel;
        for (address, bytes) in self.buffers() {
            if bytes > 0 && !reach.contains(address, bytes) {
                let detail = format!(
                    "kernel `{name}` ({file}:{line}) was given {bytes} bytes at {address:#x}, \
                                      which this device does not reach"
                );
                return Err(Trap {
                    code: ErrorCode::ILLEGAL_ADDRESS,
                    detail,
                });
            }
        }
        let mut values = Values::new(kernel.parameters.len());
        let values = values.as_mut_slice();
        for (place, (value, _)) in values.iter_mut().zip(self.packed.values()) {
            *place = value;
        }
        let call = AssertUnwindSafe(|| {
            // SAFETY: `values` has one pointer to each parameter. The code that launched the kernel
            // answers for the memory that they name, as for `cuLaunchKernel`. No other operation
            // runs now.
            unsafe { (kernel.simulate)(&self.shape, values.as_ptr()) }
        });
        run_to_end(name, call, || format!("{file}:{line}"))
    }
}

/// Runs a kernel's body. If it panics, the kernel traps. `known_place` is the place for the
/// message if the place of the panic was not noted.
pub(super) fn run_to_end(
    name: &str,
    body: AssertUnwindSafe<impl FnOnce()>,
    known_place: impl FnOnce() -> String,
) -> Result<(), Trap> {
    catch(body).map_err(|(message, place)| {
        let place = place.unwrap_or_else(known_place);
        let detail = format!("kernel `{name}` panicked at {place}: {message}");
        Trap {
            code: ErrorCode::LAUNCH_FAILED,
            detail,
        }
    })
}

/// Pointers to a kernel's parameters; on the stack except for very long lists.
struct Values {
    few: [*const c_void; 16],
    many: Vec<*const c_void>,
    len: usize,
}

impl Values {
    fn new(len: usize) -> Self {
        let few = [std::ptr::null(); 16];
        Self {
            few,
            many: if len > few.len() {
                vec![std::ptr::null(); len]
            } else {
                Vec::new()
            },
            len,
        }
    }

    fn as_mut_slice(&mut self) -> &mut [*const c_void] {
        if self.many.is_empty() {
            &mut self.few[..self.len]
        } else {
            &mut self.many
        }
    }
}

thread_local! {
    static IN_KERNEL: Cell<bool> = const { Cell::new(false) };
    static PANICKED_AT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Installs, once, a panic hook that notes where a simulated kernel panicked, and then calls the
/// previous hook. If a hook installed later does not call this one, the kernel's own line is
/// reported.
pub(super) fn note_panics() {
    static ONCE: Once = Once::new();
    if std::thread::panicking() {
        return; // hooks cannot be changed now; the next device does it
    }
    ONCE.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if IN_KERNEL.get() {
                // As in `catch`, the thread-local may be destroyed.
                let _ = PANICKED_AT.try_with(|place| place.replace(info.location().map(ToString::to_string)));
            }
            previous(info);
        }));
    });
}

/// Runs a kernel's body. If it panics, returns the message and, if it was noted, the place.
fn catch(body: AssertUnwindSafe<impl FnOnce()>) -> Result<(), (String, Option<String>)> {
    // Gone while the thread's locals are dropped, where a kernel may still run.
    let _ = PANICKED_AT.try_with(RefCell::take);
    let nested = IN_KERNEL.replace(true);
    let result = device_std::print::collect(|| panic::catch_unwind(body));
    IN_KERNEL.set(nested);
    result.map_err(|payload| {
        let place = PANICKED_AT.try_with(RefCell::take).ok().flatten();
        (panic_message(payload), place)
    })
}
