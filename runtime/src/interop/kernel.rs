//! [`ForeignLaunch`]: a launch of a kernel that `#[kernel]` did not make.

use std::ffi::c_void;
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr;

use crate::error::Result;
use crate::memory::{DeviceSlice, Element};
use crate::stream::Stream;
use crate::tag::{ReadBy, StreamTag, WriteBy};
use cuda_rt_driver::{Kernel, LaunchShape, ParameterKind};

/// A launch of a kernel that `#[kernel]` did not make, with the arguments given so far.
/// [`Stream::foreign_kernel`] makes it.
///
/// Each argument is compared with the kernel's next parameter, and slices are borrowed as the
/// kernel will use them. Only the behaviour of the kernel's code remains the caller's promise.
///
/// ```
/// use std::ffi::c_void;
///
/// use cuda_rt::kernel::{Extent, Kernel, KernelCache, LaunchShape, ModuleImage};
/// use cuda_rt::kernel::{Parameter, ParameterKind};
///
/// cuda_rt::streams! { pub Compute; }
///
/// // SAFETY: the image's kernel is launched through `foreign_kernel` only.
/// static MODULE: ModuleImage = unsafe { ModuleImage::new("by hand", PTX) };
/// const PTX: &str = r".version 7.0 // made by another compiler
/// .target sm_70
/// .address_size 64
/// .visible .entry store(.param .u64 y, .param .u32 value)
/// {
///     .reg .b32 %r<2>;
///     .reg .b64 %rd<2>;
///     ld.param.u64 %rd1, [y];
///     ld.param.u32 %r1, [value];
///     cvta.to.global.u64 %rd1, %rd1;
///     st.global.u32 [%rd1], %r1;
///     ret;
/// }
/// ";
/// const fn parameter<T>(kind: ParameterKind) -> Parameter {
///     Parameter { size_bytes: size_of::<T>(), align_bytes: align_of::<T>(), kind }
/// }
/// static STORE: Kernel = Kernel {
///     name: "store",
///     symbol: c"store",
///     file: file!(),
///     line: line!(),
///     module: &MODULE,
///     parameters: &[
///         parameter::<u64>(ParameterKind::Write { element_bytes: 4 }),
///         parameter::<u32>(ParameterKind::Scalar),
///     ],
///     layout: &[],
///     simulate: store,
///     cache: KernelCache::new(),
/// };
///
/// /// The same on the CPU, for simulated devices.
/// unsafe fn store(_: &LaunchShape, parameters: *const *const c_void) {
///     // SAFETY: two parameters.
///     let [y, value] = unsafe { parameters.cast::<[*const c_void; 2]>().read() };
///     // SAFETY: the first is an address.
///     let y = unsafe { y.cast::<u64>().read() } as usize;
///     // SAFETY: the second is a number.
///     let value = unsafe { value.cast::<u32>().read() };
///     // SAFETY: the address of an element that nothing else uses.
///     unsafe { std::ptr::with_exposed_provenance_mut::<u32>(y).write(value) };
/// }
///
/// let gpu = cuda_rt::Device::open_or_simulate()?;
/// let compute = gpu.stream::<Compute>()?;
/// let mut y = compute.alloc_zeroed::<u32>(2)?;
/// let launch = compute.foreign_kernel(&STORE).write(&mut y).value(7_u32);
/// let extent = Extent { x: 1, y: 1, z: 1 };
/// let shape = LaunchShape { grid: [1; 3], block: [1; 3], shared_bytes: 0, extent };
/// // SAFETY: the PTX has this entry with these parameters; it writes the first element of `y`.
/// unsafe { launch.launch(&shape) }?;
/// assert_eq!(compute.copy_to_vec(&y)?, [7, 0]);
///
/// // An argument that is not the kernel's is refused before anything is enqueued.
/// let x = compute.alloc_zeroed::<u32>(2)?;
/// let wrong = std::panic::AssertUnwindSafe(|| drop(compute.foreign_kernel(&STORE).read(&x)));
/// assert!(std::panic::catch_unwind(wrong).is_err());
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[must_use = "nothing is launched before `launch`"]
pub struct ForeignLaunch<'a, S> {
    stream: &'a Stream<S>,
    kernel: &'static Kernel,
    /// The arguments. Each begins at a word of its own.
    words: Vec<MaybeUninit<u128>>,
    /// The index of each argument's first word.
    starts: Vec<usize>,
    /// Whether an argument may have padding.
    padded: bool,
}

impl<S> fmt::Debug for ForeignLaunch<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignLaunch")
            .field("kernel", &self.kernel.name)
            .field("arguments", &self.starts.len())
            .finish_non_exhaustive()
    }
}

impl<S: StreamTag> Stream<S> {
    /// Starts a launch of a kernel described by hand: PTX of any compiler, its entry and its
    /// parameters, and a plain function for the simulated device.
    ///
    /// Usually you want the macro [`foreign_kernel!`](crate::foreign_kernel!): it declares a kernel
    /// by its parameters, and its launches are safe. This method serves PTX that is linked into the
    /// program, and parameters that are known at run time only.
    pub fn foreign_kernel(&self, kernel: &'static Kernel) -> ForeignLaunch<'_, S> {
        ForeignLaunch {
            stream: self,
            kernel,
            words: Vec::new(),
            starts: Vec::new(),
            padded: false,
        }
    }
}

impl<'a, S: StreamTag> ForeignLaunch<'a, S> {
    /// Copies a value, with its padding.
    #[track_caller]
    fn push<T>(&mut self, value: &T, fits: impl FnOnce(ParameterKind) -> bool) {
        let (name, index, bytes) = (self.kernel.name, self.starts.len(), size_of::<T>());
        let parameter = self.kernel.parameters.get(index);
        assert!(
            parameter
                .is_some_and(|p| fits(p.kind) && p.size_bytes == bytes && bytes > 0 && p.align_bytes <= 16),
            "argument {index} of kernel `{name}` has {bytes} bytes; its parameter is {parameter:?}",
        );
        let start = self.words.len();
        self.starts.push(start);
        let words = bytes.div_ceil(size_of::<u128>());
        self.words.resize(start + words, MaybeUninit::uninit());
        let to = self.words[start..].as_mut_ptr().cast::<u8>();
        // SAFETY: `value` has `bytes` bytes, and the words added above have at least as many.
        // Padding may be copied: the words need not be initialised.
        unsafe { ptr::copy_nonoverlapping(ptr::from_ref(value).cast::<u8>(), to, bytes) };
    }

    /// Pushes an address and, if the kernel's next parameter is a length, the length in elements.
    #[track_caller]
    fn push_slice<T, P>(&mut self, slice: &DeviceSlice<T, P>, fits: impl FnOnce(ParameterKind) -> bool) {
        self.push(&slice.address().0, fits);
        let next = self.kernel.parameters.get(self.starts.len());
        if next.is_some_and(|parameter| parameter.kind == ParameterKind::Length) {
            self.push(&(slice.len() as u64), |_| true);
        }
    }

    /// The next argument: memory that the kernel reads.
    ///
    /// # Panics
    /// If the kernel's next parameter is not [`ParameterKind::Read`] of such elements.
    #[track_caller]
    pub fn read<T, P: ReadBy<S>>(mut self, slice: &'a DeviceSlice<T, P>) -> Self {
        let element_bytes = size_of::<T>();
        self.push_slice(slice, |kind| kind == ParameterKind::Read { element_bytes });
        self
    }

    /// The next argument: memory that the kernel writes, and may read.
    ///
    /// # Panics
    /// If the kernel's next parameter is not [`ParameterKind::Write`] of such elements.
    #[track_caller]
    pub fn write<T, P: WriteBy<S>>(mut self, slice: &'a mut DeviceSlice<T, P>) -> Self {
        let element_bytes = size_of::<T>();
        self.push_slice(slice, |kind| kind == ParameterKind::Write { element_bytes });
        self
    }

    /// The next argument: a value.
    ///
    /// # Panics
    /// If the kernel's next parameter is not a [`ParameterKind::Scalar`] of that size, aligned to
    /// at most 16 bytes; or if the size is 0, because an entry has no parameter of size 0.
    #[track_caller]
    pub fn value<T: Element>(mut self, value: T) -> Self {
        // The layout is computed for each type: a value with padding does not build.
        const {
            let _ = T::LAYOUT;
        }
        self.push(&value, |kind| kind == ParameterKind::Scalar);
        self
    }

    /// The next argument: a value of a type that is `DeviceCopy` of `rustacuda_core`, derived or
    /// not. The value is copied with its padding. Unlike an element, the type may have invalid bit
    /// patterns (`bool`, `Option`, enums), because only the host writes the value.
    ///
    /// The caller of [`launch`](Self::launch) promises that the kernel reads the value with the
    /// host's layout. Without `#[repr(C)]` that layout is unknown.
    ///
    /// # Panics
    /// As [`value`](Self::value).
    #[cfg(feature = "rustacuda")]
    #[track_caller]
    pub fn device_copy<T: rustacuda_core::DeviceCopy>(mut self, value: &T) -> Self {
        self.padded = true;
        self.push(value, |kind| kind == ParameterKind::Scalar);
        self
    }

    /// Like [`device_copy`](Self::device_copy), for a type that is `DeviceCopy` of cust.
    ///
    /// # Panics
    /// As [`value`](Self::value).
    #[cfg(feature = "cust")]
    #[track_caller]
    pub fn cust_copy<T: cust::memory::DeviceCopy>(mut self, value: &T) -> Self {
        self.padded = true;
        self.push(value, |kind| kind == ParameterKind::Scalar);
        self
    }

    /// Launches the kernel (`cuLaunchKernel`). Stream-ordered. If `shape.extent` is empty, nothing
    /// is launched.
    ///
    /// # Safety
    /// 1. `kernel.module` holds an entry `kernel.symbol` with the parameters of `kernel`, and
    ///    `kernel.simulate` does the same on the CPU.
    /// 2. Launched in that shape with those arguments, the kernel reads only slices given to `read`
    ///    or `write`, and writes only slices given to `write`, in bounds. There is no race between
    ///    its threads. It leaves values of the element types in the slices.
    ///
    /// # Errors
    /// [`Error::Launch`](crate::Error::Launch).
    ///
    /// # Panics
    /// If arguments are missing. [`ParameterKind::Extent`] is filled in from `shape`.
    #[track_caller]
    pub unsafe fn launch(mut self, shape: &LaunchShape) -> Result<()> {
        let extent = shape.extent;
        if self.kernel.parameters.get(self.starts.len()).map(|p| p.kind) == Some(ParameterKind::Extent) {
            self.push(&[extent.x, extent.y, extent.z], |_| true);
        }
        let (name, given, wanted) = (self.kernel.name, self.starts.len(), self.kernel.parameters.len());
        assert_eq!(given, wanted, "arguments of kernel `{name}`, and its parameters");
        let parameters: Vec<*const c_void> = self
            .starts
            .iter()
            .map(|start| self.words[*start..].as_ptr().cast())
            .collect();
        // SAFETY: there is one pointer for each parameter, to a value of the parameter's size,
        // aligned to 16 bytes. The slices among them are borrowed as the kernel uses them, and
        // belong to `S`. The kernel's behaviour is this function's contract.
        unsafe { self.stream.launch(self.kernel, shape, &parameters, self.padded) }
    }
}
