//! Questions about a kernel: what it needs, and which launches fill the device.
//!
//! A kernel is a function, which no call can take as an argument without the function's own
//! arguments. So a kernel that is asked about has a handle, a type: `#[kernel(handle = Scale)]`.

use super::Signature;
use crate::device::Device;
use crate::error::{During, Result};
use crate::tag::Live;
use cuda_rt_driver::{Kernel, KernelAttributes, SuggestedBlock};

/// A type that stands for one kernel. `#[kernel(handle = Name)]` declares the type `Name`, with the
/// kernel's visibility. The handle of a generic kernel has the kernel's parameters: `Name<f32>` is
/// the instance for `f32`.
///
/// ```standalone_crate
/// use cuda_rt::Device;
/// use device_std::prelude::*;
/// # device_std::kernel_module!(concat!(
/// #     env!("CARGO_MANIFEST_DIR"),
/// #     "/../cuda-rt/tests/conformance/kernels.ptx"
/// # ));
///
/// #[kernel(handle = Square)]
/// pub fn square(i: Index1, values: &[f32]) -> f32 {
///     values[i.get()] * values[i.get()]
/// }
///
/// # fn main() -> cuda_rt::Result<()> {
/// # Device::simulated(Default::default(), |gpu| {
/// let suggested = gpu.suggested_block::<Square>()?;
/// let active = gpu.max_active_blocks::<Square>(suggested.threads)?;
/// let occupancy = f64::from(active * suggested.threads)
///     / f64::from(gpu.properties().max_threads_per_multiprocessor);
/// println!("{} threads a block: {:.0} % of the device", suggested.threads, occupancy * 100.0);
/// # Ok(())
/// # })?
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no kernel's handle",
    label = "not the name of a `#[kernel(handle = …)]`",
    note = "a kernel that a device is asked about has a handle: `#[kernel(handle = Scale)]`, and then `gpu.kernel_attributes::<Scale>()`"
)]
pub trait KernelHandle {
    #[doc(hidden)]
    fn __description() -> KernelDescription;
}

/// What the calls of this file need to know of a kernel.
#[doc(hidden)]
#[derive(Debug)]
pub struct KernelDescription {
    kernel: &'static Kernel,
    /// Threads of a block, if the kernel fixes them.
    block: Option<u32>,
    /// Shared memory that each launch passes, in bytes.
    shared_bytes: u32,
}

impl KernelDescription {
    /// Describes the kernel `K`.
    pub fn of<K: Signature>() -> Self {
        use super::parameters::Parameters;
        Self {
            kernel: K::kernel(),
            block: K::BLOCK.map(|[x, y]| x * y),
            // `#[kernel]` refuses more than a block of any GPU has.
            shared_bytes: u32::try_from(K::Parameters::SHARED_BYTES).unwrap_or(u32::MAX),
        }
    }
}

/// Kernels: what they need, and which launches fill the device.
impl<D: Live> Device<D> {
    /// The registers and the memory of a compiled kernel, and its largest block
    /// (`cuFuncGetAttribute`). No GPU work. The first call for a kernel loads its module
    /// (`cuModuleLoadDataEx`), which may block; later calls do not.
    ///
    /// A simulated device compiles nothing. It takes each kernel for one of 32 registers, and says
    /// so: [`is_modelled`](KernelAttributes::is_modelled).
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver), also if the kernel's module cannot be loaded.
    ///
    /// The page of [`KernelHandle`] has an example.
    pub fn kernel_attributes<K: KernelHandle>(&self) -> Result<KernelAttributes> {
        let of = K::__description();
        let mut attributes = self
            .core()
            .driver()
            .kernel_attributes(of.kernel)
            .during("Device::kernel_attributes")?;
        let shared = &mut attributes.shared_bytes_per_block;
        *shared = shared.saturating_add(of.shared_bytes);
        Ok(attributes)
    }

    /// The number of blocks of a kernel that one multiprocessor holds at a time, in blocks of
    /// `threads` threads (`cuOccupancyMaxActiveBlocksPerMultiprocessor`). It is 0 if a block does
    /// not fit. The shared memory that launches of the kernel pass is counted. A kernel with a
    /// block size of its own ignores `threads`, as it ignores
    /// [`Grid1::block`](crate::Grid1::block).
    ///
    /// The occupancy of a launch is this number times the threads of a block, divided by
    /// the device's [maximum](crate::driver::Properties::max_threads_per_multiprocessor).
    /// No GPU work, as [`kernel_attributes`](Self::kernel_attributes). On a simulated device the
    /// number is modelled.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver), also for blocks of no threads.
    pub fn max_active_blocks<K: KernelHandle>(&self, threads: u32) -> Result<u32> {
        self.active_blocks(&K::__description(), threads, "Device::max_active_blocks")
    }

    /// The block size with which a kernel has most threads active at a time, and the fewest blocks
    /// of that size that fill the whole device (`cuOccupancyMaxPotentialBlockSize`). For a kernel
    /// with a block size of its own, this size. No GPU work, as
    /// [`kernel_attributes`](Self::kernel_attributes). On a simulated device the numbers are
    /// modelled.
    ///
    /// `Grid1::covering(n).block(suggested.threads)` launches one thread for each of n elements;
    /// `Grid1::blocks(suggested.fewest_blocks as usize).block(suggested.threads)` fills the device
    /// once, for a kernel whose threads take many elements each.
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver).
    pub fn suggested_block<K: KernelHandle>(&self) -> Result<SuggestedBlock> {
        const DURING: &str = "Device::suggested_block";
        let of = K::__description();
        let Some(threads) = of.block else {
            let driver = self.core().driver();
            return driver.suggest_block(of.kernel, of.shared_bytes).during(DURING);
        };
        let active = self.active_blocks(&of, threads, DURING)?;
        Ok(SuggestedBlock {
            threads,
            fewest_blocks: active.saturating_mul(self.properties().multiprocessors),
        })
    }

    fn active_blocks(&self, of: &KernelDescription, threads: u32, during: &'static str) -> Result<u32> {
        let driver = self.core().driver();
        let threads = of.block.unwrap_or(threads);
        driver
            .max_active_blocks(of.kernel, threads, of.shared_bytes)
            .during(during)
    }
}
