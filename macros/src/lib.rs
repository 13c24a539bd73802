//! Procedural macros of cuda-rt.
//!
//! The macros write no `unsafe`. Macros of `cuda_rt` and `device_std` do (`__kernel!`, `__entry!`,
//! `__bundle!`, `__element!`), because they can name their own crates by `$crate`. A procedural
//! macro cannot: its `::cuda_rt` means any crate that the user's crate calls `cuda_rt`, and an
//! `unsafe` block beside the path would vouch for the wrong crate.
//!
//! The output compiles in a user's crate under `#![forbid(unsafe_code)]`. The user's own tokens
//! stay outside of our `unsafe` blocks, where the lint sees them.
#![forbid(unsafe_code)]

mod bundle;
mod device_of_place;
mod element;
mod kernel;
mod message;
#[cfg(test)]
mod names;
mod unroll;

use message::{CUDA_RT, DEVICE_STD};
use proc_macro::TokenStream;

/// Turns a function into a kernel: an entry in the PTX, a simulated launch, and a typed launch on
/// the host.
///
/// ```standalone_crate
/// use cuda_rt::Grid1;
/// use device_std::prelude::*;
/// # device_std::kernel_module!(concat!(
/// #     env!("CARGO_MANIFEST_DIR"),
/// #     "/../cuda-rt/tests/conformance/kernels.ptx"
/// # ));
/// # cuda_rt::streams! { pub Compute; }
///
/// #[kernel]
/// pub fn scale(i: Index1, input: &[f32], mut output: PerThread<f32>, factor: f32) {
///     if let Some(out) = output.get_mut(i) {
///         *out = input[i.get()] * factor;
///     }
/// }
///
/// # fn main() -> cuda_rt::Result<()> {
/// # cuda_rt::Device::simulated(Default::default(), |gpu| {
/// # let compute = gpu.stream::<Compute<_>>()?;
/// let input = compute.alloc_from_slice(&[1.0, 2.0, 3.0])?;
/// let mut output = compute.alloc_zeroed::<f32>(3)?;
/// scale(&compute, Grid1::covering(3), &input, &mut output, 2.0)?;
/// assert_eq!(compute.copy_to_vec(&output)?, [2.0, 4.0, 6.0]);
/// # Ok(())
/// # })?
/// # }
/// ```
///
/// # What it makes
///
/// - On the host, a function of the same name and visibility, which launches the kernel. Its first
///   argument is the stream, and a parameter for each argument follows, as the list below says. It
///   is generic over the stream's tag, and returns `cuda_rt::Result<()>`, or what the output of a
///   kernel that returns becomes.
/// - On the host, the kernel as plain Rust, which simulated devices run, and a static that names
///   the entry, its parameters and the crate's PTX (`device_std::kernel_module!`).
/// - On the device, the function as it is written, and an entry that calls it for each thread or
///   block. The entry's name holds a hash of the package and the signature.
/// - With `handle`, a type of that name.
///
/// # Parameters
///
/// Each parameter of the function, and what the call on the host takes in its place:
///
/// - `i: Index1`, `Index2`, `Index3`: the grid: `Grid1`, `Grid2`, `Grid3`. In the kernel: this
///   thread's position.
/// - `mut block: Block`, with `block = 256`: `Grid1`. In the kernel: one block, in phases.
/// - `mut block: Block2`, with `block = (32, 8)`: `Grid2`. In the kernel: one block, in phases.
/// - `input: &[T]`: `&DeviceSlice<T, _>`. In the kernel: read by all threads.
/// - `PerThread<T>`, `PerThreadChunk<T, N>`, `PerThreadColumn<T, N>`, `PerThreadTile<T, N, ROWS>`,
///   `PerRow<T, N, THREADS>`, `PerTile<T, N, K>`, `PerBlock<T>`, `Atomic<T>`, `LookBack<u64>`:
///   `&mut DeviceSlice<T, _>`. In the kernel: written, as the type says.
/// - `-> T`, `-> [T; N]`, `-> Private<T>` of a block: the last argument, a `cuda_rt::KernelOutput`;
///   the call returns it as memory that may be read. In the kernel: what this thread or block
///   writes.
/// - `tile: BlockUninit<T, N>`: nothing. In the kernel: shared memory.
/// - **any other type**: the same. In the kernel: a value.
///
/// A kernel that returns its element can write memory that nothing wrote before:
///
/// ```standalone_crate
/// use cuda_rt::Grid1;
/// use device_std::prelude::*;
/// # device_std::kernel_module!(concat!(
/// #     env!("CARGO_MANIFEST_DIR"),
/// #     "/../cuda-rt/tests/conformance/kernels.ptx"
/// # ));
/// # cuda_rt::streams! { pub Compute; }
///
/// #[kernel]
/// pub fn add(i: Index1, left: &[f32], right: &[f32]) -> f32 {
///     left[i.get()] + right[i.get()]
/// }
///
/// # fn main() -> cuda_rt::Result<()> {
/// # cuda_rt::Device::simulated(Default::default(), |gpu| {
/// # let compute = gpu.stream::<Compute<_>>()?;
/// let left = compute.alloc_from_slice(&[1.0, 2.0])?;
/// let right = compute.alloc_from_slice(&[10.0, 20.0])?;
/// let sum = add(&compute, Grid1::covering(2), &left, &right, compute.alloc_uninit(2)?)?;
/// assert_eq!(compute.copy_to_vec(&sum)?, [11.0, 22.0]);
/// # Ok(())
/// # })?
/// # }
/// ```
///
/// `block = …` fixes the number of threads of a block. A kernel with a block needs it; a kernel
/// with an index may have it.
///
/// `handle = Scale` declares a type of this name, with the kernel's visibility. It stands for the
/// kernel where a device is asked about it: `gpu.kernel_attributes::<Scale>()`,
/// `gpu.max_active_blocks::<Scale>(256)`, `gpu.suggested_block::<Scale>()`.
///
/// A generic kernel lists its instances. Each one gets an entry in the PTX, as C++ instantiates a
/// template:
///
/// ```standalone_crate
/// use std::ops::Mul;
///
/// use cuda_rt::Grid1;
/// use device_std::prelude::*;
/// # device_std::kernel_module!(concat!(
/// #     env!("CARGO_MANIFEST_DIR"),
/// #     "/../cuda-rt/tests/conformance/kernels.ptx"
/// # ));
/// # cuda_rt::streams! { pub Compute; }
///
/// #[kernel(instances = [f32, f64], handle = Scale)]
/// pub fn scale<T: Element + Mul<Output = T>>(
///     i: Index1,
///     input: &[T],
///     mut output: PerThread<T>,
///     factor: T,
/// ) {
///     if let Some(out) = output.get_mut(i) {
///         *out = input[i.get()] * factor;
///     }
/// }
///
/// # fn main() -> cuda_rt::Result<()> {
/// # cuda_rt::Device::simulated(Default::default(), |gpu| {
/// # let compute = gpu.stream::<Compute<_>>()?;
/// let doubles = compute.alloc_from_slice(&[1.0_f64, 2.0])?;
/// let mut output = compute.alloc_zeroed::<f64>(2)?;
/// scale(&compute, Grid1::covering(2), &doubles, &mut output, 2.0)?; // by its arguments
/// scale::<f64, _>(&compute, Grid1::covering(2), &doubles, &mut output, 3.0)?; // or by name
/// assert_eq!(compute.copy_to_vec(&output)?, [3.0, 6.0]);
/// println!("{} registers", gpu.kernel_attributes::<Scale<f32>>()?.registers_per_thread);
/// # Ok(())
/// # })?
/// # }
/// ```
///
/// - With several parameters, each instance is written as in a call: `instances = [<f32, 4>,
///   <f64, 8>]` for `<T, const N: usize>`.
/// - rustc checks the function once, with the bounds that it states. A launch of an instance that
///   is not listed does not compile.
/// - The list is complete: no other crate can add an instance, because the PTX is built from this
///   crate alone.
/// - Types that a trait names are written in full in the signature, `<T as Trait>::Wide`; in the
///   body, `T::Wide` will do.
/// - A `handle` has the same parameters: `gpu.kernel_attributes::<Scale<f32>>()`.
/// - A launch that names its instance writes `_` for the stream, and `_` for the output of a kernel
///   that returns: `reverse::<u32, 4, _, _>(…)`.
#[proc_macro_attribute]
pub fn kernel(arguments: TokenStream, item: TokenStream) -> TokenStream {
    kernel::expand(arguments.into(), item.into())
        .unwrap_or_else(|error| message::refusal(error, DEVICE_STD))
        .into()
}

/// Makes a `#[repr(C)]` struct of elements an element, and a kernel parameter.
///
/// The struct also needs `Clone, Copy, bytemuck::Pod, bytemuck::Zeroable`. `device_std` re-exports
/// this derive.
///
/// # What it makes
///
/// Two implementations, and no other item: of the traits `Element`, so that device memory holds
/// values of the struct, and `Scalar`, so that kernels take them by value. Their constant `LAYOUT`
/// is a hash of the names, types and offsets of all fields. Host and PTX compare it when the module
/// is loaded. A struct with padding, with a field that is no element, or with a type parameter that
/// is no element does not compile.
///
/// ```
/// use device_std::Element;
/// use device_std::bytemuck::{Pod, Zeroable};
///
/// #[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable, Element)]
/// #[repr(C)]
/// struct Particle {
///     position: [f32; 3],
///     mass: f32,
/// }
///
/// # cuda_rt::streams! { pub Compute; }
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let one = Particle { position: [0.0, 1.0, 2.0], mass: 0.5 };
/// let particles = compute.init_filled(compute.alloc_uninit(3)?, one)?;
/// assert_eq!(compute.copy_to_vec(&particles)?, [one; 3]);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[proc_macro_derive(Element)]
pub fn derive_element(item: TokenStream) -> TokenStream {
    element::derive(item.into(), &quote::quote!(::device_std))
        .unwrap_or_else(|error| message::refusal(error, DEVICE_STD))
        .into()
}

/// As [`macro@Element`] of `device_std`, for crates that depend on `cuda_rt` only: it makes the
/// same implementations. `cuda_rt` re-exports it as `Element`.
///
/// ```
/// use cuda_rt::Element;
/// use cuda_rt::bytemuck::{Pod, Zeroable};
///
/// #[derive(Clone, Copy, Pod, Zeroable, Element)]
/// #[repr(C)]
/// struct Pixel([u8; 4]);
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// let image = gpu.pinned::<Pixel>(64)?; // zeros are a value of it
/// assert_eq!(image[0].0, [0; 4]);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[proc_macro_derive(HostElement)]
pub fn derive_host_element(item: TokenStream) -> TokenStream {
    element::derive(item.into(), &quote::quote!(::cuda_rt::__private::device_std))
        .unwrap_or_else(|error| message::refusal(error, CUDA_RT))
        .into()
}

/// Makes a struct or an enum of buffers a bundle that moves between streams as a whole, behind one
/// event.
///
/// One type parameter says who owns the buffers: `P` in `struct Frame<P: Place = Idle>`. Exactly
/// one parameter has the bound `Place`. Further parameters of types, constants and lifetimes are
/// allowed, before or after it. A field that is not a buffer is marked `#[bundle(plain)]` and
/// `Copy`, or is `cuda_rt::Metadata`.
///
/// # What it makes
///
/// For a struct `Frame<P>`:
///
/// - `Bundle` for `Frame<Idle<D>>`, and `OwnedBy<S>` for `Frame<S>`: `release` takes a
///   `Frame<Compute>`, a handoff carries a `Frame`, and `acquire` gives a `Frame<Download>`.
/// - `FrameView<'v, D, S>` and `FrameRef<'v, D, S>`, with the struct's visibility and its fields:
///   views of the parts, to write and to read. Plain fields are copies. Captures, leases and `peek`
///   give these views.
///
/// ```
/// use cuda_rt::{Bundle, DeviceBuffer, Idle, Metadata, PinnedBuffer, Place};
///
/// # cuda_rt::streams! { pub Compute; pub Download; }
/// #[derive(Bundle)]
/// struct Frame<P: Place = Idle> {
///     pixels: DeviceBuffer<u8, P>,
///     host: PinnedBuffer<u8, P>,
///     name: Metadata<String, P>,
///     #[bundle(plain)]
///     number: u64,
/// }
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let (compute, download) = (gpu.stream::<Compute>()?, gpu.stream::<Download>()?);
/// let frame = Frame {
///     pixels: compute.init_filled(compute.alloc_uninit(4)?, 7)?,
///     host: compute.adopt(gpu.pinned(4)?)?,
///     name: Metadata::new("first".to_owned()),
///     number: 1,
/// };
/// let pending = compute.release(frame)?;
/// let view = pending.peek(); // a `FrameRef`, of lengths and plain fields
/// assert_eq!((view.pixels.len(), &view.name[..], view.number), (4, "first", 1));
///
/// // A graph takes the bundle too, and its closure gets a `FrameView`.
/// let frame: Frame<Download> = download.acquire(pending)?;
/// let graph = download.capture(frame, |stream, mut frame| {
///     stream.copy_to_host(&frame.pixels, &mut frame.host)
/// });
/// let mut graph = graph?;
/// graph.launch(&download)?;
/// graph.host(|frame| assert_eq!(frame.host.as_slice(), [7; 4]))?;
/// # Ok::<(), cuda_rt::Error>(())
/// ```
///
/// The variant of an enum is known while the bundle is pending, because no GPU writes it:
///
/// ```
/// use cuda_rt::{Bundle, DeviceBuffer, Idle, Place};
///
/// # cuda_rt::streams! { pub Compute; }
/// #[derive(Bundle)]
/// enum Picture<P: Place = Idle> {
///     Nv12(DeviceBuffer<u8, P>),
///     Rgb { pixels: DeviceBuffer<[u8; 3], P> },
///     Empty,
/// }
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let stream = gpu.stream::<Compute>()?;
/// let picture = Picture::Rgb { pixels: stream.alloc_zeroed(64)? };
/// let pending = stream.release(picture)?;
/// let len = match pending.peek() {
///     PictureRef::Nv12(view) => view.len(),
///     PictureRef::Rgb { pixels } => pixels.len(),
///     PictureRef::Empty => 0,
/// };
/// assert_eq!(len, 64);
/// # assert!(!matches!(Picture::<Idle>::Empty, Picture::Nv12(_)));
/// # Ok::<(), cuda_rt::Error>(())
/// ```
///
/// # Fields that only read
/// A field can be a `Constant` or a `Lease`. Its first parameter is the memory in its idle form,
/// and `P` is its last one:
///
/// - On the default GPU: `Constant<DeviceBuffer<f32>, P>`.
/// - On any device, the bundle has a parameter for the device:
///
///   ```ignore
///   #[derive(cuda_rt::Bundle)]
///   struct Scaler<D: DeviceTag, P: Place = Idle<D>> {
///       weights: Constant<DeviceBuffer<f32, Idle<D>>, P>,
///       scratch: DeviceBuffer<f32, P>,
///   }
///   ```
///
///   On a stream `S` this is a `Scaler<S::Device, S>`. The derive refuses `P::Device` in the place
///   of `D`: the type of what the constant holds stays the same wherever the bundle goes, also on a
///   stream of a capture, which has a device tag of its own.
/// - A struct of one stream needs no derive, and no `D`: `struct Scaler<S: StreamTag>` has a field
///   `Constant<DeviceBuffer<f32, Idle<S::Device>>, S>`.
///
/// # The views
/// The derive makes two more types, with the same fields and variants and the same visibility:
/// `NameView` for reading and writing, and `NameRef` for reading. Captures, `Kept::host` and
/// `Handoff::peek` lend them, for example. Each field is the view of the bundle's field: a
/// `DeviceBuffer<u8, P>` becomes a `DeviceViewMut<'v, u8, S>` or a `DeviceView<'v, u8, S>`.
///
/// Both types have these parameters, in this order: the lifetimes of the bundle, the lifetime `'v`
/// of the view, the bundle's other parameters without `P`, the device of the bundle, and the stream
/// that may use the view. So a `Frame` has the view `FrameView<'v, D, S>`, and a `Scaler<D, P>` has
/// the view `ScalerView<'v, D, E, S>`. There `D` is the bundle's own parameter, and `E` is the
/// device of the bundle: the same device, or `AnyDevice` if a stream keeps the bundle.
///
/// ```ignore
/// impl<D: DeviceTag, S: StreamTag> FrameView<'_, D, S> {
///     fn clear(&mut self, stream: &Stream<S>) -> Result<()> {
///         stream.fill(&mut self.pixels, 0)
///     }
/// }
/// ```
///
/// A method of `Frame<S>` is no method of its views. Write what shall also work on views as a
/// function over slices, `fn clear<S: StreamTag>(stream: &Stream<S>, pixels: &mut DeviceSlice<u8,
/// S>)`: buffers and views both dereference to slices.
#[proc_macro_derive(Bundle, attributes(bundle))]
pub fn derive_bundle(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    bundle::expand(input)
        .unwrap_or_else(|error| message::refusal(error, CUDA_RT))
        .into()
}

/// A `for` loop whose passes are written out one after another, so that each index is a constant.
///
/// A thread's array lies in registers only if the compiler knows each index into it. LLVM unrolls
/// short loops by itself. An array that a longer loop uses lies in local memory, which is part of
/// device memory: such kernels were up to 29 times slower. `kernel_build` refuses kernels with
/// local memory, unless they ask for it; unroll their loops over arrays.
///
/// ```
/// let mut sums = [0.0f32; 8];
/// device_std::unroll!(for k in 0..8 {
///     sums[k] += k as f32;
/// });
/// assert_eq!(sums[7], 7.0);
/// ```
///
/// - The bounds are literals, and the loop has at most 256 passes. The index is a `usize`, or what
///   the literals say: `0..8u32`. For a bound that is a constant or a variable, write the largest
///   bound, and ask inside the loop: `unroll!(for k in 0..16 { if k < N { .. } })`.
/// - `break`, `continue` and `return` act as in a loop. The loop itself has no value.
/// - Each pass is compiled by itself, so a long body makes a long build.
///
/// # Errors
///
/// The build fails with a message where a bound is no literal, and where the loop has too many
/// passes.
#[proc_macro]
pub fn unroll(input: TokenStream) -> TokenStream {
    unroll::expand(input.into())
        .unwrap_or_else(|error| message::refusal(error, DEVICE_STD))
        .into()
}
