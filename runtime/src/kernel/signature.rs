//! [`Signature`]: a kernel's parameters as types, and the launch that follows from them. The
//! expansion of `#[kernel]` calls only this on the host.
//!
//! All of its functions are safe to call, so the expansion needs no `unsafe` of its own. A crate
//! that takes this crate's name is therefore trusted with nothing ([H42](crate::hazards#h42)). The
//! only promise is the contract of [`Signature`], and [`__kernel!`](crate::__kernel) makes it. The
//! promise is about this side only. Before a launch the driver compares the kernel's layout table
//! with the table in the PTX, which `device_std::__entry!` wrote from what the entry does.

use std::cell::Cell;
use std::ffi::c_void;
use std::marker::PhantomData;

use device_std::rt::{self, HasPlace, Return, Returned, Row, SharedMemory, SimulatedLaunch};
use device_std::{Block, Index1, Index2, Index3, OneD, TwoD};

use super::parameters::{ArrayLike, Cons, LastParameters, Parameters, as_slice};
use super::{Grid1, Grid2, Grid3, KernelOutput};
use crate::error::{GridError, Result};
use crate::stream::Stream;
use crate::tag::StreamTag;
use cuda_rt_driver::{Kernel, LaunchShape, Parameter};

/// A kernel's signature.
///
/// # Safety
/// `kernel` returns one static, which [`describe`] made for this type.
pub unsafe trait Signature: Sized + 'static {
    /// The position that tells threads or blocks apart.
    type Position: Position;
    /// What the launch passes, in order: `(Slice<K, 0>, (Value<K, 2>, ()))`.
    type Parameters: Parameters;
    /// The threads of a block, (x, y), if the kernel fixes them.
    const BLOCK: Option<[u32; 2]>;

    /// The kernel.
    fn kernel() -> &'static Kernel;
}

/// A kernel that can be simulated.
pub trait Simulate: Signature {
    /// Runs one thread or block.
    fn call<'k>(position: PositionOf<'k, Self>, arguments: ArgumentsOf<'k, Self>) -> ReturnOf<Self>;
}

/// The position that the kernel `K` gets.
pub type PositionOf<'k, K> = <<K as Signature>::Position as Position>::At<'k>;
/// The other arguments that the kernel `K` gets.
pub type ArgumentsOf<'k, K> = <<K as Signature>::Parameters as Parameters>::Arguments<'k>;
/// What the function of the kernel `K` returns.
pub type ReturnOf<K> = <Way<K> as Return>::Value;
type Way<K> = <<K as Signature>::Parameters as Parameters>::Return;
type Grid<K> = <<K as Signature>::Position as Position>::Grid;
type Passed<'a, K, S> = <<K as Signature>::Parameters as Parameters>::Passed<'a, S>;

/// Describes the kernel `K` for the driver. `described` and `rows` are the tables of its
/// parameters, in static memory.
#[doc(hidden)]
pub const fn describe<K: Simulate>(
    name: &'static str,
    symbol: &'static std::ffi::CStr,
    (file, line): (&'static str, u32),
    module: &'static cuda_rt_driver::ModuleImage,
    described: &'static <K::Parameters as Parameters>::Described,
    rows: &'static <K as Table>::Rows,
) -> Kernel {
    assert_passable(as_slice(described));
    rt::assert_one_look_back(as_slice::<Row, _>(rows));
    Kernel {
        name,
        symbol,
        file,
        line,
        module,
        parameters: as_slice(described),
        layout: as_slice::<Row, _>(rows).as_flattened(),
        simulate: simulate::<K>,
        cache: cuda_rt_driver::KernelCache::new(),
    }
}

/// The layout table of a kernel, which the PTX holds beside the entry.
pub trait Table: Signature {
    #[doc(hidden)]
    type Rows: ArrayLike<Row> + 'static;
    #[doc(hidden)]
    const ROWS: Self::Rows;
}

impl<K: Signature> Table for K {
    type Rows = Cons<Row, <K::Parameters as Parameters>::Layout>;
    // A kernel that takes an index works in blocks of any size.
    const ROWS: Self::Rows = Cons(
        rt::launch_layout(
            K::Position::AXES,
            if K::Position::IS_BLOCK { K::BLOCK } else { None },
        ),
        K::Parameters::LAYOUT,
    );
}

/// Refuses parameters that an entry cannot have as they are described here.
const fn assert_passable(parameters: &[Parameter]) {
    let (mut at, mut end) = (0, 0usize);
    while at < parameters.len() {
        let Parameter {
            size_bytes,
            align_bytes,
            ..
        } = parameters[at];
        assert!(size_bytes > 0, "a kernel cannot take a parameter of no size");
        end = end.next_multiple_of(align_bytes) + size_bytes;
        assert!(
            end <= rt::MAX_PARAMETER_BYTES,
            "the parameters of a kernel take 4096 bytes at most: pass what is large in a buffer"
        );
        at += 1;
    }
}

/// Launches `K` in the order of `stream`.
///
/// A block with more axes than the position does not build, even if the kernel's description was
/// written by hand: threads that differ only along the other axis would hold the same index
/// ([H32](crate::hazards#h32)).
///
/// ```compile_fail,E0080
/// # use cuda_rt::kernel::{ArgumentsOf, PositionOf, Simulate, WriteArg};
/// # use device_std::prelude::*;
/// # cuda_rt::streams! { Compute; }
/// # type Counts<'k> = PerThread<'k, u32>;
/// # device_std::kernel_module!(concat!(
/// #     env!("CARGO_MANIFEST_DIR"),
/// #     "/../cuda-rt/tests/conformance/kernels.ptx"
/// # ));
/// cuda_rt::__kernel! {
///     Count, "count", c"count", crate::__CUDA_RT_MODULE, Threads1,
///     block = [32, 2],
///     slices = [], outputs = [0: Counts, u32;], shared = [], values = [],
///     parameters = [Output 0;],
/// }
/// # impl Simulate for Count {
/// #     fn call<'k>(i: PositionOf<'k, Self>, (mut count, ()): ArgumentsOf<'k, Self>) {
/// #         if let Some(count) = count.get_mut(i) {
/// #             *count += 1;
/// #         }
/// #     }
/// # }
/// # fn main() -> cuda_rt::Result<()> {
/// # let gpu = cuda_rt::Device::simulated(Default::default(), |gpu| {
/// # let compute = gpu.stream::<Compute<_>>()?;
/// # let mut counts = compute.alloc_zeroed::<u32>(64)?;
/// # let grid = cuda_rt::Grid1::covering(64);
/// cuda_rt::kernel::launch::<Count, _>(&compute, &grid, (WriteArg::new(&mut counts), ()))
/// # })?;
/// # gpu
/// # }
/// ```
///
/// A block with one axis builds:
///
/// ```standalone_crate
/// # use cuda_rt::kernel::{ArgumentsOf, PositionOf, Simulate, WriteArg};
/// # use device_std::prelude::*;
/// # cuda_rt::streams! { Compute; }
/// # type Counts<'k> = PerThread<'k, u32>;
/// # device_std::kernel_module!(concat!(
/// #     env!("CARGO_MANIFEST_DIR"),
/// #     "/../cuda-rt/tests/conformance/kernels.ptx"
/// # ));
/// cuda_rt::__kernel! {
///     Count, "count", c"count", crate::__CUDA_RT_MODULE, Threads1,
///     block = [32, 1],
///     slices = [], outputs = [0: Counts, u32;], shared = [], values = [],
///     parameters = [Output 0;],
/// }
/// # impl Simulate for Count {
/// #     fn call<'k>(i: PositionOf<'k, Self>, (mut count, ()): ArgumentsOf<'k, Self>) {
/// #         if let Some(count) = count.get_mut(i) {
/// #             *count += 1;
/// #         }
/// #     }
/// # }
/// # fn main() -> cuda_rt::Result<()> {
/// # let gpu = cuda_rt::Device::simulated(Default::default(), |gpu| {
/// # let compute = gpu.stream::<Compute<_>>()?;
/// # let mut counts = compute.alloc_zeroed::<u32>(64)?;
/// # let grid = cuda_rt::Grid1::covering(64);
/// cuda_rt::kernel::launch::<Count, _>(&compute, &grid, (WriteArg::new(&mut counts), ()))
/// # })?;
/// # gpu
/// # }
/// ```
///
/// # Errors
/// [`Error::Grid`](crate::Error::Grid) and [`Error::Launch`](crate::Error::Launch).
#[inline]
#[track_caller]
pub fn launch<K: Simulate, S: StreamTag>(
    stream: &Stream<S>,
    grid: &Grid<K>,
    arguments: Passed<'_, K, S>,
) -> Result<()>
where
    K::Parameters: Parameters<Return = ()>,
{
    // Matched by reference, so that the shape is not copied.
    match &shape::<K>(grid) {
        // SAFETY: the kernel returns nothing, so it has no output for it.
        Ok(shape) => unsafe { launch_shape::<K, S>(stream, shape, &arguments, [0; 2]) },
        Err(why) => Err(why.of(K::kernel())),
    }
}

/// Launches `K`, which returns something, in the order of `stream`: writes what it returns to
/// `output`.
///
/// A kernel of single threads that returns a `Private` does not build, even with a description
/// written by hand: without a block, nothing would be written for its threads
/// ([H39](crate::hazards#h39)).
///
/// ```compile_fail,E0080
/// # use cuda_rt::kernel::{ArgumentsOf, PositionOf, ReturnOf, Simulate};
/// # use device_std::{Private, prelude::*};
/// # cuda_rt::streams! { Compute; }
/// # device_std::kernel_module!(concat!(
/// #     env!("CARGO_MANIFEST_DIR"),
/// #     "/../cuda-rt/tests/conformance/kernels.ptx"
/// # ));
/// cuda_rt::__kernel! {
///     Lanes, "lanes", c"lanes", crate::__CUDA_RT_MODULE, Threads1,
///     block = [],
///     slices = [], outputs = [], shared = [], values = [], parameters = [],
///     returned = [EachThread Private<u32>],
/// }
/// # impl Simulate for Lanes {
/// #     fn call<'k>(_: PositionOf<'k, Self>, (): ArgumentsOf<'k, Self>) -> ReturnOf<Self> {
/// #         panic!("no thread has a `Private`")
/// #     }
/// # }
/// # fn main() { let _ = cuda_rt::Device::simulated(Default::default(), |gpu| {
/// # let compute = gpu.stream::<Compute<_>>().unwrap();
/// # let output = compute.alloc_uninit::<u32>(64).unwrap();
/// # let grid = cuda_rt::Grid1::covering(64);
/// # let _ =
/// cuda_rt::kernel::launch_into::<Lanes, _, _>(&compute, &grid, (), output);
/// # }); }
/// ```
///
/// # Errors
/// [`Error::Grid`](crate::Error::Grid), also if the grid covers fewer elements than the output has,
/// and [`Error::Launch`](crate::Error::Launch). The output comes back as it was.
#[inline]
#[track_caller]
pub fn launch_into<K, S, O>(
    stream: &Stream<S>,
    grid: &Grid<K>,
    arguments: Passed<'_, K, S>,
    output: O,
) -> Result<O::Written, O::Error>
where
    K: Simulate,
    S: StreamTag,
    Way<K>: Returned,
    O: KernelOutput<S, <Way<K> as Returned>::Element>,
{
    let memory = output.memory();
    let launched = match &covering::<K>(grid, memory[1]) {
        // SAFETY: `output` owns or borrows its memory uniquely, at least for this call, and the
        // memory belongs to `S` (`KernelOutput`).
        Ok(shape) => unsafe { launch_shape::<K, S>(stream, shape, &arguments, memory) },
        Err(why) => Err(why.of(K::kernel())),
    };
    match launched {
        // SAFETY: RETURNED-1: the launch covers each element of the output, so each is written by
        // work that was enqueued in the order of `S`. (A launch of no threads is not enqueued; it
        // covers an output of no elements only.) If a thread traps, the device is lost, and nothing
        // reads its memory again.
        Ok(()) => Ok(unsafe { output.written() }),
        Err(error) => Err(output.refused(error)),
    }
}

#[inline(always)]
fn shape<K: Simulate>(grid: &Grid<K>) -> Result<LaunchShape, GridError> {
    const {
        match K::BLOCK {
            // Threads that differ only along another axis would hold the same position.
            Some([_, rows]) => assert!(
                rows == 1 || K::Position::AXES > 1,
                "the block has more axes than the position"
            ),
            None => assert!(
                !K::Position::IS_BLOCK,
                "a kernel that works in blocks has a block size"
            ),
        }
    };
    K::Position::shape(grid, K::BLOCK, K::Parameters::SHARED_BYTES)
}

/// The shape of a launch that writes each of `len` elements.
#[inline]
fn covering<K: Simulate>(grid: &Grid<K>, len: u64) -> Result<LaunchShape, GridError>
where
    Way<K>: Returned,
{
    const {
        assert!(
            K::Position::IS_BLOCK || !Way::<K>::BY_THREAD,
            "a kernel that returns a `Private` takes a block"
        );
    };
    let shape = shape::<K>(grid)?;
    let is_block = K::Position::IS_BLOCK && !Way::<K>::BY_THREAD;
    let positions = if shape.is_empty() {
        0
    } else if is_block {
        // Each factor is below 2^32, and the factor for z is 1: a block has at most two dimensions.
        shape.grid.iter().map(|blocks| u64::from(*blocks)).product()
    } else {
        // The grid made sure that the volume fits.
        shape.extent.volume().unwrap_or(0)
    };
    if Way::<K>::covered(positions) < len {
        return Err(GridError::Output {
            positions,
            of_blocks: is_block,
            each: Way::<K>::COUNT as u64,
            len,
        });
    }
    Ok(shape)
}

/// # Safety
/// If `K` returns something, `output` is the address and length of memory of `S` that only this
/// launch uses, and that is owned or borrowed for this call.
#[inline]
#[track_caller]
unsafe fn launch_shape<K: Simulate, S: StreamTag>(
    stream: &Stream<S>,
    shape: &LaunchShape,
    arguments: &Passed<'_, K, S>,
    output: [u64; 2],
) -> Result<()> {
    let last = LastParameters {
        extent: &shape.extent,
        output,
    };
    let pointers = K::Parameters::pointers(arguments, &last);
    // SAFETY: the kernel has the layout table of `K` (`Signature`), and a driver runs an entry only
    // with an equal table. So these are the entry's parameters (`ModuleImage::new`). A slice among
    // them is borrowed as the entry uses it, at least for this call, and belongs to `S` (`ReadArg`,
    // `WriteArg`, and `output` by this function's contract).
    unsafe { stream.__launch(K::kernel(), shape, as_slice(&pointers)) }
}

/// Runs a launch of `K` on the CPU.
///
/// # Safety
/// As for [`Kernel::simulate`], for the kernel of `K`.
unsafe fn simulate<K: Simulate>(shape: &LaunchShape, parameters: *const *const c_void) {
    let extent_at = <K::Parameters as Parameters>::Described::LEN - 1;
    // SAFETY: the extent is the last parameter, and the loop below runs once.
    let launch = unsafe { rt::launch(parameters, extent_at, shape.grid) };
    // SAFETY: this function's contract covers the call.
    let values = unsafe { K::Parameters::read_back(parameters, 0) };
    let mut memory = SharedMemory::new(K::Parameters::SHARED_BYTES);
    let shared = memory.start();
    let (start, len) = K::Parameters::output(&values);
    let written = Cell::new(0);
    K::Position::each(&launch, shape, K::BLOCK, |position| {
        let place = position.place();
        if !Way::<K>::runs(len, &place) {
            return;
        }
        // SAFETY: the memory is valid by this function's contract. The simulated threads and blocks
        // run one after another, each with arguments and shared memory of its own.
        let arguments = unsafe { K::Parameters::arguments(&values, shared, 0) };
        let value = K::call(position, arguments);
        // SAFETY: the output is valid by this function's contract, and `rt::output` made sure that
        // it is aligned. `runs` holds, and this is the place of the thread or block that ran.
        let count = unsafe { Way::<K>::write(start, len, &place, value) };
        written.set(written.get() + count);
    });
    // The launch was refused if it covers too little, so this panics for a launch by other ways.
    assert!(
        written.get() == len,
        "H39: the kernel returned {} elements, but its output has {len}: the others were never written",
        written.get()
    );
}

mod sealed {
    pub trait Sealed {}
}
use sealed::Sealed;

/// The position that tells threads or blocks apart.
pub trait Position: Sealed {
    /// The grid of a launch.
    type Grid;
    /// The position that the kernel gets.
    type At<'k>: rt::HasPlace;
    /// The number of axes along which positions differ.
    const AXES: usize;
    /// Whether one position stands for a whole block.
    const IS_BLOCK: bool;

    #[doc(hidden)]
    fn shape(
        grid: &Self::Grid,
        block: Option<[u32; 2]>,
        shared_bytes: usize,
    ) -> Result<LaunchShape, GridError>;
    #[doc(hidden)]
    fn each(
        launch: &SimulatedLaunch,
        shape: &LaunchShape,
        block: Option<[u32; 2]>,
        f: impl for<'k> Fn(Self::At<'k>),
    );
}

macro_rules! positions {
    ($($(#[$doc:meta])* $name:ident: $axes:literal, $index:ident, $grid:ident, $each:ident;)*) => { $(
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $name {}

        impl Sealed for $name {}
        impl Position for $name {
            type Grid = $grid;
            type At<'k> = $index<'k>;
            const AXES: usize = $axes;
            const IS_BLOCK: bool = false;

            #[inline(always)]
            fn shape(grid: &$grid, block: Option<[u32; 2]>, shared_bytes: usize) -> Result<LaunchShape, GridError> {
                grid.__shape(block.map(|[x, y]| [x, y, 1]), shared_bytes)
            }

            #[inline(always)]
            fn each(launch: &SimulatedLaunch, _: &LaunchShape, _: Option<[u32; 2]>, f: impl for<'k> Fn($index<'k>)) {
                rt::$each(launch, f);
            }
        }
    )* };
}

positions! {
    /// Threads of a one-dimensional launch.
    Threads1: 1, Index1, Grid1, each_index1;
    /// Threads of a two-dimensional launch.
    Threads2: 2, Index2, Grid2, each_index2;
    /// Threads of a three-dimensional launch.
    Threads3: 3, Index3, Grid3, each_index3;
}

/// Blocks of a launch of `D` dimensions.
#[derive(Debug)]
pub struct Blocks<D>(PhantomData<D>);

macro_rules! blocks {
    ($($dimensions:ident: $axes:literal, $grid:ident;)*) => { $(
        impl Sealed for Blocks<$dimensions> {}
        impl Position for Blocks<$dimensions> {
            type Grid = $grid;
            type At<'k> = Block<'k, $dimensions>;
            const AXES: usize = $axes;
            const IS_BLOCK: bool = true;

            #[inline(always)]
            fn shape(grid: &$grid, block: Option<[u32; 2]>, shared_bytes: usize) -> Result<LaunchShape, GridError> {
                grid.__shape(block.map(|[x, y]| [x, y, 1]), shared_bytes)
            }

            #[inline(always)]
            fn each(
                launch: &SimulatedLaunch,
                shape: &LaunchShape,
                block: Option<[u32; 2]>,
                f: impl for<'k> Fn(Block<'k, $dimensions>),
            ) {
                // A block size that the kernel fixes is a constant.
                let size = block.unwrap_or([shape.block[0], shape.block[1]]);
                rt::each_block(launch, |at| {
                    // SAFETY: the launch has this shape, which was made from this block size. Each
                    // position is given out once.
                    f(unsafe { rt::block(at, size, [shape.grid[0], shape.grid[1]], launch.extent()) });
                });
            }
        }
    )* };
}

blocks! {
    OneD: 1, Grid1;
    TwoD: 2, Grid2;
}

/// A kernel's signature, and the static that describes it.
///
/// All paths start at this crate, so no other crate called `cuda_rt` can be meant, and only names
/// and types come from the user. The lists before `parameters` give types to its numbers. From
/// `parameters`, the position and the block size follow what a launch passes, the layout table and
/// the simulation: all three are functions of one type.
///
/// A caller may choose any symbol and module, and so an entry of another kernel. The driver
/// launches this entry only if its layout table equals the table of this kernel: it is then an
/// entry that uses the same parameters in the same way. The simulated device reads no PTX. It calls
/// the function, whose arguments end with the launch ([`Branded`](device_std::rt::Branded)),
/// whatever the names of the types are.
#[doc(hidden)]
#[macro_export]
macro_rules! __kernel {
    (
        $kernel:ident, $name:literal, $symbol:literal, $module:path, $position:ident $(<$dimensions:ident>)?,
        block = [$($x:literal, $y:literal)?],
        slices = [$($slice:literal: $slice_element:ty;)*],
        outputs = [$($output:literal: $output_type:ident, $element:ty;)*],
        shared = [$($shared:literal: $shared_type:ident;)*],
        values = [$($value:literal: $value_type:ty;)*],
        parameters = [$($role:ident $at:literal;)*],
        $(returned = [$($way:ident $returned:ty)?],)?
        $(checked = $checked:ident,)?
    ) => {
        struct $kernel;

        $(impl $crate::kernel::SliceOf<$slice> for $kernel {
            type Element = $slice_element;
        })*
        $(impl $crate::kernel::OutputOf<$output> for $kernel {
            type Element = $element;
            type At<'k> = $output_type<'k>;
        })*
        $(impl $crate::kernel::SharedArgOf<$shared> for $kernel {
            type At<'k> = $shared_type<'k>;
        })*
        $(impl $crate::kernel::ValueOf<$value> for $kernel {
            type Value = $value_type;
        })*

        $($(impl $crate::kernel::ReturnedOf<$crate::__private::device_std::rt::$way> for $kernel {
            type Value = $returned;
        })?)?

        // SAFETY: `kernel` returns the static in it, which `describe` makes for this type.
        unsafe impl $crate::kernel::Signature for $kernel {
            type Position = $crate::kernel::$position $(<$crate::__private::device_std::$dimensions>)?;
            type Parameters = $crate::__parameters!([$($($way)?)?] $kernel $($role $at)*);
            const BLOCK: $crate::__private::core::option::Option<[$crate::__private::core::primitive::u32; 2]> =
                $crate::__block!($($x, $y)?);

            fn kernel() -> &'static $crate::kernel::Kernel {
                static KERNEL: $crate::kernel::Kernel = {
                    // This check comes first, because it has the better message.
                    $($checked;)?
                    $crate::kernel::describe::<$kernel>(
                        $crate::__private::core::concat!($crate::__private::core::module_path!(), "::", $name),
                        $symbol,
                        ($crate::__private::core::file!(), $crate::__private::core::line!()),
                        &$module,
                        &<<$kernel as $crate::kernel::Signature>::Parameters as $crate::kernel::Parameters>::DESCRIBED,
                        &<$kernel as $crate::kernel::Table>::ROWS,
                    )
                };
                &KERNEL
            }
        }
    };
}

/// The type of a list of parameters.
#[doc(hidden)]
#[macro_export]
macro_rules! __parameters {
    ([] $kernel:ident) => { () };
    ([$way:ident] $kernel:ident) => {
        $crate::kernel::Fills<$kernel, $crate::__private::device_std::rt::$way>
    };
    ($last:tt $kernel:ident $role:ident $at:literal $($rest:tt)*) => {
        ($crate::kernel::$role<$kernel, $at>, $crate::__parameters!($last $kernel $($rest)*))
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __block {
    () => {
        $crate::__private::core::option::Option::None
    };
    ($x:literal, $y:literal) => {
        $crate::__private::core::option::Option::Some([$x, $y])
    };
}
