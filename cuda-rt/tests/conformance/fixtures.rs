//! The suite's kernels: hand-written PTX, and the same kernels in Rust for the simulated device.

use std::ffi::c_void;
use std::ptr;

use cuda_rt::kernel::{Extent, Kernel, KernelCache, LaunchShape, ModuleImage, Parameter, ParameterKind};

use crate::support::Block;

// SAFETY: the PTX was written by hand for the kernels below.
static MODULE: ModuleImage = unsafe { ModuleImage::new("conformance", include_str!("kernels.ptx")) };

const POINTER: usize = size_of::<u64>();

const fn parameter<T>(kind: ParameterKind) -> Parameter {
    Parameter {
        size_bytes: size_of::<T>(),
        align_bytes: align_of::<T>(),
        kind,
    }
}

const fn scalar<T>() -> Parameter {
    parameter::<T>(ParameterKind::Scalar)
}

const LENGTH: Parameter = parameter::<u64>(ParameterKind::Length);
const EXTENT: Parameter = parameter::<Extent>(ParameterKind::Extent);
const WORDS: Parameter = parameter::<u64>(ParameterKind::Write { element_bytes: 4 });
const BYTES: Parameter = parameter::<u64>(ParameterKind::Write { element_bytes: 1 });
const _: () = assert!(size_of::<usize>() == POINTER, "CUDA has 64-bit hosts only");

/// Waits, then computes `data[i] = data[i] * factor + term`: slow, and not commutative.
pub(crate) static STEP: Kernel = Kernel {
    name: "conformance::step",
    symbol: c"step",
    file: file!(),
    line: line!(),
    module: &MODULE,
    parameters: &[
        WORDS,
        LENGTH,
        scalar::<u64>(),
        scalar::<u32>(),
        scalar::<u32>(),
        EXTENT,
    ],
    layout: &[],
    simulate: simulate_step,
    cache: KernelCache::new(),
};

/// Parameters of [`STEP`].
pub(crate) struct Step {
    pub(crate) data: Block,
    pub(crate) length: u64,
    pub(crate) cycles: u64,
    pub(crate) factor: u32,
    pub(crate) term: u32,
    pub(crate) extent: Extent,
}

impl Step {
    pub(crate) fn pointers(&self) -> [*const c_void; 6] {
        [
            ptr::from_ref(&self.data.address.0).cast(),
            ptr::from_ref(&self.length).cast(),
            ptr::from_ref(&self.cycles).cast(),
            ptr::from_ref(&self.factor).cast(),
            ptr::from_ref(&self.term).cast(),
            ptr::from_ref(&self.extent).cast(),
        ]
    }
}

/// # Safety
/// As [`Kernel::simulate`] for [`STEP`].
unsafe fn simulate_step(_: &LaunchShape, parameters: *const *const c_void) {
    // SAFETY: the parameter is a u64.
    let data = unsafe { argument::<u64>(parameters, 0) };
    // SAFETY: the parameter is a u64.
    let length = unsafe { argument::<u64>(parameters, 1) };
    // SAFETY: the parameter is a u32.
    let factor = unsafe { argument::<u32>(parameters, 3) };
    // SAFETY: the parameter is a u32.
    let term = unsafe { argument::<u32>(parameters, 4) };
    // SAFETY: the parameter is an Extent.
    let extent = unsafe { argument::<Extent>(parameters, 5) };
    for i in 0..length.min(extent.x) {
        let place = ptr::with_exposed_provenance_mut::<u32>((data + 4 * i) as usize);
        // SAFETY: element `i` of the buffer, which nothing else uses now.
        let value = unsafe { place.read() };
        // SAFETY: as above.
        unsafe { place.write(value.wrapping_mul(factor).wrapping_add(term)) };
    }
}

/// Writes grid, block and dynamic shared memory in bytes, as seven `u32`.
pub(crate) static DESCRIBE: Kernel = Kernel {
    name: "conformance::describe",
    symbol: c"describe",
    file: file!(),
    line: line!(),
    module: &MODULE,
    parameters: &[WORDS, LENGTH, EXTENT],
    layout: &[0x1234],
    simulate: simulate_describe,
    cache: KernelCache::new(),
};

/// # Safety
/// As [`Kernel::simulate`] for [`DESCRIBE`].
unsafe fn simulate_describe(shape: &LaunchShape, parameters: *const *const c_void) {
    // SAFETY: the parameter is a u64.
    let output = unsafe { argument::<u64>(parameters, 0) };
    let values = shape
        .grid
        .into_iter()
        .chain(shape.block)
        .chain([shape.shared_bytes]);
    for (i, value) in values.enumerate() {
        let place = ptr::with_exposed_provenance_mut::<u32>(output as usize + 4 * i);
        // SAFETY: one of the seven elements, which nothing else uses now.
        unsafe { place.write(value) };
    }
}

/// A parameter of 16 bytes, aligned to 16.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub(crate) struct Sixteen(pub(crate) [u8; 16]);

/// Writes the bytes of its parameters, one after another.
pub(crate) static ECHO: Kernel = Kernel {
    name: "conformance::echo",
    symbol: c"echo",
    file: file!(),
    line: line!(),
    module: &MODULE,
    parameters: &[
        BYTES,
        LENGTH,
        scalar::<u8>(),
        scalar::<u16>(),
        scalar::<u32>(),
        scalar::<u64>(),
        scalar::<[u8; 3]>(),
        scalar::<[u32; 3]>(),
        scalar::<Sixteen>(),
        scalar::<[u64; 5]>(),
        EXTENT,
    ],
    layout: &[],
    simulate: simulate_echo,
    cache: KernelCache::new(),
};

/// # Safety
/// As [`Kernel::simulate`] for [`ECHO`].
unsafe fn simulate_echo(_: &LaunchShape, parameters: *const *const c_void) {
    // SAFETY: the parameter is a u64.
    let mut output = unsafe { argument::<u64>(parameters, 0) } as usize;
    for (i, parameter) in ECHO.parameters.iter().enumerate().skip(2) {
        // SAFETY: there is a pointer for each parameter.
        let value = unsafe { parameters.wrapping_add(i).read() };
        assert!(
            value.addr().is_multiple_of(parameter.align_bytes),
            "parameter {i} is misaligned"
        );
        let place = ptr::with_exposed_provenance_mut::<u8>(output);
        // SAFETY: the value has that many bytes, and the output has room for all of them.
        unsafe { place.copy_from_nonoverlapping(value.cast(), parameter.size_bytes) };
        output += parameter.size_bytes;
    }
}

/// Traps.
pub(crate) static CRASH: Kernel = Kernel {
    name: "conformance::crash",
    symbol: c"crash",
    file: file!(),
    line: line!(),
    module: &MODULE,
    parameters: &[EXTENT],
    layout: &[],
    simulate: simulate_crash,
    cache: KernelCache::new(),
};

/// # Safety
/// There are no requirements.
unsafe fn simulate_crash(_: &LaunchShape, _: *const *const c_void) {
    panic!("the kernel crashes");
}

/// PTX that the compiler refuses.
#[cfg(feature = "cuda")]
pub(crate) static BROKEN: Kernel = Kernel {
    name: "conformance::broken",
    symbol: c"broken",
    // SAFETY: the driver refuses the module, so it is never loaded.
    module: &unsafe {
        ModuleImage::new(
            "conformance, broken",
            ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry broken() { no_such_instruction; }\n",
        )
    },
    ..nothing()
};

/// A kernel that is missing from its PTX.
#[cfg(feature = "cuda")]
pub(crate) static MISSING: Kernel = Kernel {
    name: "conformance::missing",
    symbol: c"missing",
    ..nothing()
};

/// A kernel whose PTX has no layout table.
#[cfg(feature = "cuda")]
pub(crate) static UNTOLD_LAYOUT: Kernel = Kernel {
    name: "conformance::untold_layout",
    layout: &[0x1234],
    ..nothing()
};

/// A kernel with different layouts in its PTX and on the host.
#[cfg(feature = "cuda")]
pub(crate) static OTHER_LAYOUT: Kernel = Kernel {
    name: "conformance::other_layout",
    symbol: c"describe",
    layout: &[0x1235],
    ..nothing()
};

/// A kernel whose type has the hash of the PTX, but 4 bytes on the host.
#[cfg(feature = "cuda")]
pub(crate) static FORGED_LAYOUT: Kernel = Kernel {
    name: "conformance::forged_layout",
    symbol: c"forged",
    layout: &[1, 0, 0, 0, 7, 4, 4, 261],
    ..nothing()
};

/// Writes the architecture of its module: the text has a module for sm_80 and one for sm_90.
#[cfg(feature = "cuda")]
pub(crate) static BUILT_FOR: Kernel = Kernel {
    name: "conformance::built_for",
    symbol: c"built_for",
    // SAFETY: the PTX was written by hand for this kernel.
    module: &unsafe { ModuleImage::new("conformance, architectures", include_str!("architectures.ptx")) },
    parameters: &[WORDS, LENGTH, EXTENT],
    ..nothing()
};

/// A kernel for GPUs that do not exist yet.
#[cfg(feature = "cuda")]
pub(crate) static TOO_NEW: Kernel = Kernel {
    name: "conformance::too_new",
    symbol: c"too_new",
    // SAFETY: no device accepts the module, so it is never loaded.
    module: &unsafe {
        ModuleImage::new(
            "conformance, too new",
            ".version 7.0\n.target sm_9990\n.version 7.0\n.target sm_9991\n",
        )
    },
    ..nothing()
};

#[cfg(feature = "cuda")]
const fn nothing() -> Kernel {
    Kernel {
        name: "conformance::nothing",
        symbol: c"crash",
        file: file!(),
        line: line!(),
        module: &MODULE,
        parameters: &[EXTENT],
        layout: &[],
        simulate: simulate_crash,
        cache: KernelCache::new(),
    }
}

/// A parameter's value.
///
/// # Safety
/// Parameter `index` exists and is a `T`.
unsafe fn argument<T: Copy>(parameters: *const *const c_void, index: usize) -> T {
    // SAFETY: by this function's contract there is a pointer at `index`.
    let value = unsafe { parameters.wrapping_add(index).read() };
    // SAFETY: by this function's contract the pointer is to a live `T`.
    unsafe { value.cast::<T>().read() }
}
