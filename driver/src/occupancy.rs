//! A kernel's demands, and the launches that suit it.

/// What a compiled kernel needs of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelAttributes {
    /// Registers of one thread.
    pub registers_per_thread: u32,
    /// Shared memory of one block, in bytes. A driver counts the memory that the kernel's code
    /// declares; `Device::kernel_attributes` of the typed API adds what a launch passes.
    pub shared_bytes_per_block: u32,
    /// Local memory of one thread, in bytes: registers that were spilled, and arrays of its own.
    pub local_bytes_per_thread: u32,
    /// Most threads of one block of this kernel. It is less than the device's own limit if the
    /// kernel uses many registers, or fixes its block.
    pub max_threads_per_block: u32,
    /// Whether the numbers are a model's. A simulated device compiles no kernel, and says the same
    /// of each.
    pub is_modelled: bool,
}

impl KernelAttributes {
    /// The attributes of a kernel that uses these registers and at most this many threads, and no
    /// memory of its own.
    pub const fn new(registers_per_thread: u32, max_threads_per_block: u32) -> Self {
        Self {
            registers_per_thread,
            shared_bytes_per_block: 0,
            local_bytes_per_thread: 0,
            max_threads_per_block,
            is_modelled: false,
        }
    }
}

/// A block size that fills the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuggestedBlock {
    /// Threads of a block.
    pub threads: u32,
    /// The fewest blocks of that size with which a launch fills the whole device.
    pub fewest_blocks: u32,
}
