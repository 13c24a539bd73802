//! Properties of a device, and statistics of its memory.

use std::fmt;

use crate::{DriverError, DriverResult, ErrorCode, Kernel};

/// Which kind of device a driver drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// A GPU, through the CUDA driver API. Times are measured.
    Cuda,
    /// The simulated device. Times are modelled.
    Simulated,
}

/// The fixed properties of a device.
#[derive(Clone, Debug)]
pub struct Properties {
    /// Marketing name, as `cuDeviceGetName` gives it.
    pub name: String,
    /// Which kind of device this is.
    pub backend: Backend,
    /// CUDA ordinal; 0 for a simulated device.
    pub ordinal: usize,
    /// Compute capability, (major, minor).
    pub compute_capability: (u32, u32),
    /// Number of multiprocessors.
    pub multiprocessors: u32,
    /// Total device memory, in bytes.
    pub total_memory_bytes: u64,
    /// Most threads of one block.
    pub max_threads_per_block: u32,
    /// Most blocks of a grid, (x, y, z).
    pub max_grid: [u32; 3],
    /// Most shared memory of a block without opting in, in bytes.
    pub max_shared_bytes_per_block: u32,
    /// Most shared memory of a block, in bytes.
    pub max_shared_bytes_per_block_optin: u32,
    /// Most threads of one multiprocessor.
    pub max_threads_per_multiprocessor: u32,
    /// Threads of one warp.
    pub warp_size: u32,
    /// Copies between host and device that can run beside kernels.
    pub copy_engines: u32,
    /// Second-level cache, in bytes; 0 if it is not known or not simulated.
    pub l2_cache_bytes: u64,
    /// Width of the memory's bus, in bits; 0 if it is not known or not simulated.
    pub memory_bus_bits: u32,
    /// Peak clock of the memory, in kHz; 0 if it is not known or not simulated.
    pub memory_clock_khz: u32,
    /// Peak clock of the multiprocessors, in kHz; 0 if it is not known or not simulated.
    pub clock_khz: u32,
    /// Whether the memory has error correction (ECC).
    pub ecc: bool,
    /// Whether the host may use managed memory while kernels of this device run
    /// (`CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS`). Without it there is no managed memory.
    pub concurrent_managed_access: bool,
    /// Place on the PCI bus, (domain, bus, device); `None` for a simulated device.
    pub pci: Option<(u32, u32, u32)>,
    /// Range of stream priorities, (least urgent, most urgent); a lower number is more urgent.
    pub priority_range: (i32, i32),
    /// Version of the driver, as `cuDriverGetVersion` returns it (13000 for 13.0); 0 without a
    /// driver.
    pub driver_version: u32,
}

impl Properties {
    /// Properties of a device with this name; all other values are as small as an implementation
    /// allows.
    pub fn named(name: impl Into<String>, backend: Backend) -> Self {
        Self {
            name: name.into(),
            backend,
            ordinal: 0,
            compute_capability: (8, 0),
            multiprocessors: 1,
            total_memory_bytes: 0,
            max_threads_per_block: 1024,
            max_grid: [i32::MAX as u32, 65535, 65535],
            max_shared_bytes_per_block: 48 << 10,
            max_shared_bytes_per_block_optin: 48 << 10,
            max_threads_per_multiprocessor: 1024,
            warp_size: 32,
            copy_engines: 1,
            l2_cache_bytes: 0,
            memory_bus_bits: 0,
            memory_clock_khz: 0,
            clock_khz: 0,
            ecc: false,
            concurrent_managed_access: false,
            pci: None,
            priority_range: (0, 0),
            driver_version: 0,
        }
    }

    /// Checks that a block of this device can have `bytes` of shared memory. No driver call.
    ///
    /// # Errors
    /// [`DriverError`] of `cuFuncSetAttribute`, by which a launch is permitted so much. It names
    /// the kernel, and the device's limit.
    ///
    /// ```
    /// use cuda_rt_driver::{Backend, Kernel, KernelCache, ModuleImage, Properties};
    ///
    /// # unsafe fn nothing(_: &cuda_rt_driver::LaunchShape, _: *const *const std::ffi::c_void) {}
    /// // SAFETY: the text has no kernels.
    /// static MODULE: ModuleImage = unsafe { ModuleImage::new("none", "") };
    /// static KERNEL: Kernel = Kernel {
    ///     name: "blur",
    ///     symbol: c"blur",
    ///     file: file!(),
    ///     line: line!(),
    ///     module: &MODULE,
    ///     parameters: &[],
    ///     layout: &[],
    ///     simulate: nothing,
    ///     cache: KernelCache::new(),
    /// };
    /// let device = Properties::named("small", Backend::Simulated);
    /// let error = device.check_shared_bytes(&KERNEL, 64 << 10).unwrap_err();
    /// assert!(error.to_string().contains("49152 at most"));
    /// assert_eq!(KERNEL.shared_bytes(), 0); // described by hand: its launches say it
    /// ```
    pub fn check_shared_bytes(&self, kernel: &Kernel, bytes: u32) -> DriverResult<()> {
        self.check_shared_bytes_of(
            kernel.name,
            bytes,
            "give the kernel's `BlockUninit`s fewer elements",
        )
    }

    /// As [`check_shared_bytes`](Self::check_shared_bytes), for the kernel `name`. The message ends
    /// with `advice`.
    #[doc(hidden)]
    pub fn check_shared_bytes_of(&self, name: &str, bytes: u32, advice: &str) -> DriverResult<()> {
        let most = self.max_shared_bytes_per_block_optin;
        if bytes <= most {
            return Ok(());
        }
        let (major, minor) = self.compute_capability;
        let detail = format!(
            "kernel `{name}` needs {bytes} bytes of shared memory for a block, and a block of this device (compute \
             capability {major}.{minor}) has {most} at most: {advice}"
        );
        Err(DriverError::with_detail(
            "cuFuncSetAttribute",
            ErrorCode::INVALID_VALUE,
            detail,
        ))
    }
}

/// Prints several lines, without the properties that are not known.
impl fmt::Display for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const GIB: f64 = (1_u64 << 30) as f64;
        let (major, minor) = self.compute_capability;
        write!(f, "{}", self.name)?;
        match self.backend {
            Backend::Simulated => writeln!(f, " (simulated: its times are modelled)")?,
            Backend::Cuda => writeln!(f, " (GPU {})", self.ordinal)?,
        }
        let mut line = |what: &str, value: fmt::Arguments<'_>| writeln!(f, "  {what:<18} {value}");
        line("compute capability", format_args!("{major}.{minor}"))?;
        line("multiprocessors", format_args!("{}", self.multiprocessors))?;
        if self.clock_khz > 0 {
            line("clock", format_args!("{} MHz", self.clock_khz / 1000))?;
        }
        let ecc = if self.ecc { ", error-correcting" } else { "" };
        let gib = self.total_memory_bytes as f64 / GIB;
        line("memory", format_args!("{gib:.1} GiB{ecc}"))?;
        if self.memory_bus_bits > 0 && self.memory_clock_khz > 0 {
            // DDR memory makes two transfers per clock.
            let gb_per_s =
                2.0 * f64::from(self.memory_clock_khz) * f64::from(self.memory_bus_bits) / 8.0 / 1e6;
            let bits = self.memory_bus_bits;
            line(
                "bandwidth",
                format_args!("{gb_per_s:.0} GB/s at peak ({bits} bits)"),
            )?;
        }
        if self.l2_cache_bytes > 0 {
            line("L2 cache", format_args!("{} MiB", self.l2_cache_bytes >> 20))?;
        }
        let (plain, most) = (
            self.max_shared_bytes_per_block >> 10,
            self.max_shared_bytes_per_block_optin >> 10,
        );
        line(
            "shared memory",
            format_args!("{plain} KiB a block, {most} KiB on request"),
        )?;
        let (block, multiprocessor) = (self.max_threads_per_block, self.max_threads_per_multiprocessor);
        line(
            "threads",
            format_args!(
                "{block} a block, {multiprocessor} a multiprocessor, {} a warp",
                self.warp_size
            ),
        )?;
        line("copy engines", format_args!("{}", self.copy_engines))?;
        let (least, most) = self.priority_range;
        line(
            "stream priorities",
            format_args!("{least} (least urgent) to {most}"),
        )?;
        if let Some((domain, bus, device)) = self.pci {
            line("PCI", format_args!("{domain:04x}:{bus:02x}:{device:02x}.0"))?;
        }
        if self.driver_version > 0 {
            let (major, minor) = (self.driver_version / 1000, self.driver_version % 1000 / 10);
            line("driver", format_args!("CUDA {major}.{minor}"))?;
        }
        Ok(())
    }
}

/// How a device accesses the memory of another device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerAccess {
    /// Over the link between the two, or because they are one GPU.
    Direct,
    /// The hardware has no path between the two: copies go through host memory, piece by piece, and
    /// are slower.
    Staged,
}

/// Free and total device memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Bytes that can still be allocated.
    pub free_bytes: u64,
    /// Bytes the device has.
    pub total_bytes: u64,
}

/// Memory held by a device's memory pool, in bytes. The device's default pool and allocations of
/// other libraries are not included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryPoolStats {
    /// Memory that the pool took from the device, in use or kept for reuse.
    pub reserved_bytes: u64,
    /// Peak of `reserved_bytes` since the device was opened or the peaks were reset.
    pub reserved_peak_bytes: u64,
    /// Memory in buffers that were allocated and not freed.
    pub used_bytes: u64,
    /// Peak of `used_bytes` since the device was opened or the peaks were reset.
    pub used_peak_bytes: u64,
    /// Unused memory that the pool keeps at a synchronisation; more than this returns to the
    /// device.
    pub release_threshold_bytes: u64,
}
