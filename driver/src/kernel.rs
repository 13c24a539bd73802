//! A kernel as drivers see it: its entry, its parameters, and the shape of a launch.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use device_std::Extent;

use crate::ModuleImage;

/// The layout and meaning of one launch parameter. A slice is two parameters, a pointer and a
/// length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Size of the value, in bytes.
    pub size_bytes: usize,
    /// Alignment of the value, in bytes.
    pub align_bytes: usize,
    /// Meaning of the value.
    pub kind: ParameterKind,
}

/// What a launch parameter means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    /// A device address that is read; the next parameter is the length in elements.
    Read {
        /// Bytes of one element.
        element_bytes: usize,
    },
    /// A device address that is written (and perhaps read); the next parameter is the length in
    /// elements.
    Write {
        /// Bytes of one element.
        element_bytes: usize,
    },
    /// The length, in elements (`u64`), of the buffer before it.
    Length,
    /// A value.
    Scalar,
    /// The launch's [`Extent`]; always last.
    Extent,
}

/// A kernel as the host knows it. `#[kernel]` makes it from the same item as the device code. A
/// kernel for the `unsafe` call `Stream::foreign_kernel` may be described by hand.
#[derive(Debug)]
pub struct Kernel {
    /// Path of the function, for messages.
    pub name: &'static str,
    /// Name of the kernel's entry in the PTX: the function's name and a hash of package and
    /// signature.
    pub symbol: &'static CStr,
    /// Source file of the function.
    pub file: &'static str,
    /// Line of the function in `file`.
    pub line: u32,
    /// The PTX that holds the kernel.
    pub module: &'static ModuleImage,
    /// The kernel's parameters in order, including hidden ones.
    pub parameters: &'static [Parameter],
    /// Layout table: rows of four numbers. Loading the module compares it with the table in the
    /// PTX, which has the same form. The first row holds the dimensions of the launch and the size
    /// of a block. Each later row describes one parameter, in order: a hash of its element or type,
    /// its size and alignment in bytes, and its use (read, written, shared memory or a value). The
    /// table of a kernel described by hand is empty.
    pub layout: &'static [u64],
    /// The kernel as plain Rust: runs the whole launch on the CPU.
    ///
    /// # Safety
    /// The second argument has one pointer for each of `parameters`, as for `cuLaunchKernel`.
    /// Nothing else uses the memory that they name during the call.
    pub simulate: unsafe fn(&LaunchShape, *const *const c_void),
    /// Where drivers store the loaded function, by device ordinal.
    pub cache: KernelCache,
}

impl Kernel {
    /// Shared memory that every block may have, in bytes. A launch with more needs the driver's
    /// permission, which it gives by function (`cuFuncSetAttribute`).
    pub const DEFAULT_SHARED_BYTES: u32 = 48 << 10;

    /// Shared memory that each launch of the kernel passes, in bytes: the sum of its arguments in
    /// shared memory. 0 for a kernel described by hand, whose launches say it.
    /// [`Properties::check_shared_bytes`](crate::Properties::check_shared_bytes) has an example,
    /// and compares it with a device.
    pub const fn shared_bytes(&self) -> u32 {
        // `#[kernel]` refuses more than a block of any GPU has.
        device_std::rt::shared_bytes(self.layout) as u32
    }
}

/// The loaded functions of one kernel, by device ordinal; empty at first.
#[derive(Debug)]
pub struct KernelCache([AtomicU64; Self::ORDINALS]);

impl KernelCache {
    /// Number of device ordinals with a place in the cache; a lookup takes no lock.
    const ORDINALS: usize = 16;

    /// An empty cache.
    #[expect(
        clippy::new_without_default,
        reason = "only ever made in a static, where Default cannot be called"
    )]
    pub const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; Self::ORDINALS])
    }

    /// The function stored for the device of this ordinal.
    #[inline]
    pub fn function(&self, ordinal: usize) -> Option<u64> {
        let function = self.0.get(ordinal)?.load(Ordering::Acquire);
        (function != 0).then_some(function)
    }

    /// Stores a function (`CUfunction`) for the device of this ordinal. Returns `false` if the
    /// cache has no place for the ordinal.
    ///
    /// # Safety
    /// The function is the entry of this cache's kernel in that device's primary context, and has
    /// the kernel's parameters. Its module is never unloaded: launches use the function without a
    /// check.
    pub unsafe fn remember(&self, ordinal: usize, function: u64) -> bool {
        let Some(place) = self.0.get(ordinal) else {
            return false;
        };
        place.store(function, Ordering::Release);
        true
    }
}

/// Grid and block of one launch, as `cuLaunchKernel` takes them, and the exact extent that the
/// kernel covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchShape {
    /// Blocks, (x, y, z).
    pub grid: [u32; 3],
    /// Threads of a block, (x, y, z).
    pub block: [u32; 3],
    /// Dynamic shared memory of a block, in bytes.
    pub shared_bytes: u32,
    /// Threads that enter the kernel. Threads of the last blocks that lie outside the extent do not
    /// enter.
    pub extent: Extent,
}

impl LaunchShape {
    /// Whether no thread enters the kernel; such a launch enqueues nothing.
    pub fn is_empty(&self) -> bool {
        self.extent.x == 0 || self.extent.y == 0 || self.extent.z == 0
    }
}
