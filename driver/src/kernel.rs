//! A kernel as drivers see it: its entry, its parameters, and the shape of a launch.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use device_std::Extent;

use crate::ModuleImage;

/// How one launch parameter is made up; slices are two, a pointer and a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Size of the value, in bytes.
    pub size_bytes: usize,
    /// Its alignment, in bytes.
    pub align_bytes: usize,
    /// What it means.
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

/// A kernel as the host knows it: made by `#[kernel]` from the same item as the device code, or by
/// hand for one that is launched through the `unsafe` door of `Stream::foreign_kernel`.
#[derive(Debug)]
pub struct Kernel {
    /// Path of the function, for messages.
    pub name: &'static str,
    /// Name of its entry in the PTX: the function's name and a hash of package and signature.
    pub symbol: &'static CStr,
    /// Where it is written.
    pub file: &'static str,
    /// Where it is written.
    pub line: u32,
    /// The PTX that holds it.
    pub module: &'static ModuleImage,
    /// Its parameters in order, the hidden ones included.
    pub parameters: &'static [Parameter],
    /// Rows of four numbers; compared with the table of the same form in the PTX when the module is
    /// loaded. The first row tells the dimensions of the launch and the size of a block. Each other
    /// row tells of a parameter, in order: a hash of its element or type, the size and alignment in
    /// bytes, and whether it is read, written, shared memory or a value. Empty for a kernel
    /// described by hand.
    pub layout: &'static [u64],
    /// The kernel as plain Rust: runs the whole launch on the CPU.
    ///
    /// # Safety
    /// The second argument has one pointer for each of `parameters`, as for `cuLaunchKernel`, and
    /// the memory they name is not in use by anyone else.
    pub simulate: unsafe fn(&LaunchShape, *const *const c_void),
    /// Where drivers remember the loaded function, by device ordinal.
    pub cache: KernelCache,
}

/// The loaded functions of one kernel, by device ordinal; empty at first.
#[derive(Debug)]
pub struct KernelCache([AtomicU64; Self::ORDINALS]);

impl KernelCache {
    /// Devices that are remembered without a lock.
    const ORDINALS: usize = 16;

    /// An empty cache.
    #[expect(
        clippy::new_without_default,
        reason = "only ever made in a static, where Default cannot be called"
    )]
    pub const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; Self::ORDINALS])
    }

    /// The function that was remembered for the device of this ordinal.
    #[inline]
    pub fn function(&self, ordinal: usize) -> Option<u64> {
        let function = self.0.get(ordinal)?.load(Ordering::Acquire);
        (function != 0).then_some(function)
    }

    /// Remembers a function (`CUfunction`) for the device of this ordinal. `false` if there is no
    /// room for that ordinal.
    ///
    /// # Safety
    /// The function is the entry of this cache's kernel in the primary context of that device, with
    /// the kernel's parameters, and its module is never unloaded: launches use it as it is.
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
    /// Threads that enter the kernel; those of the last blocks that lie outside do not.
    pub extent: Extent,
}

impl LaunchShape {
    /// Whether no thread enters the kernel; such a launch enqueues nothing.
    pub fn is_empty(&self) -> bool {
        self.extent.x == 0 || self.extent.y == 0 || self.extent.z == 0
    }
}
