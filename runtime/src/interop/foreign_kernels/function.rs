//! [`ForeignFunction`]: a kernel of a loaded module, and its typed launch.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use super::declaration::ForeignKernel;
use super::grid::ForeignGrid;
use super::loaded::LoadedModule;
use super::parameters::ForeignParameters;
use crate::error::{Error, Result};
use crate::observability;
use crate::stream::Stream;
use crate::tag::StreamTag;
use cuda_rt_driver::{Backend, DriverError, ErrorCode, FunctionLaunch, Kind, RawFunction, StandIn};

/// The parameters of the declared kernel `K`.
type ParametersOf<K> = <K as ForeignKernel>::Parameters;

/// A closure with the arguments of `K`.
type StandInClosure<K> =
    dyn for<'k> Fn(&ForeignGrid, <ParametersOf<K> as ForeignParameters>::StandIn<'k>) + Send + Sync;

/// The stand-in of the kernel `K`. It was made of a closure that is `Copy`, so its drop runs no
/// code of a user.
pub(super) struct StandInOf<K: ForeignKernel>(pub(super) Box<StandInClosure<K>>);

/// A kernel of a loaded module, as the types hold it that
/// [`foreign_kernel!`](crate::foreign_kernel) makes. It shares the module.
///
/// # Invariants
/// FUNCTION-1. `raw` is a function of `module`, its entry is `K::NAME`, and takes `K::Parameters`.
pub struct ForeignFunction<K: ForeignKernel> {
    module: Arc<LoadedModule>,
    raw: RawFunction,
    stand_in: Option<Arc<StandInOf<K>>>,
}

impl<K: ForeignKernel> Clone for ForeignFunction<K> {
    fn clone(&self) -> Self {
        Self {
            module: Arc::clone(&self.module),
            raw: self.raw,
            stand_in: self.stand_in.clone(),
        }
    }
}

impl<K: ForeignKernel> fmt::Debug for ForeignFunction<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ForeignFunction({})", K::NAME)
    }
}

/// The error of a launch of `K` by the caller.
#[cold]
#[track_caller]
fn refused<K: ForeignKernel>(source: DriverError) -> Error {
    observability::failed(K::NAME, &source);
    Error::Launch {
        kernel: K::NAME,
        file: K::FILE,
        line: K::LINE,
        called_at: Location::caller(),
        source,
    }
}

/// The length of a slice as a parameter. The code of `foreign_kernel!` calls it.
#[doc(hidden)]
#[track_caller]
pub fn __length<K: ForeignKernel, T: TryFrom<usize>>(len: usize, name: &'static str) -> Result<T> {
    if let Ok(len) = T::try_from(len) {
        return Ok(len);
    }
    let detail = format!(
        "`{name}`, a length of {len}, does not fit a {}",
        std::any::type_name::<T>()
    );
    let source = DriverError::with_detail("cuLaunchKernel", ErrorCode::INVALID_VALUE, detail);
    Err(refused::<K>(source))
}

impl<K: ForeignKernel> ForeignFunction<K> {
    /// # Safety
    /// FUNCTION-1 holds.
    pub(super) unsafe fn new(
        module: Arc<LoadedModule>,
        raw: RawFunction,
        stand_in: Option<Arc<StandInOf<K>>>,
    ) -> Self {
        Self {
            module,
            raw,
            stand_in,
        }
    }

    /// Launches the kernel (`cuLaunchKernel`). The code of `foreign_kernel!` calls it.
    /// Stream-ordered.
    ///
    /// # Errors
    /// [`Error::Grid`] and [`Error::Launch`].
    #[doc(hidden)]
    #[track_caller]
    pub fn __launch<S: StreamTag>(
        &self,
        stream: &Stream<S>,
        grid: ForeignGrid,
        passed: <ParametersOf<K> as ForeignParameters>::Passed<'_, S>,
    ) -> Result<()> {
        let call = stream.call(K::NAME);
        let called_at = Location::caller();
        let shape = grid.shape().map_err(|why| Error::Grid {
            kernel: K::NAME,
            file: K::FILE,
            line: K::LINE,
            called_at,
            why,
        })?;
        if shape.is_empty() {
            return Ok(());
        }
        let core = stream.core();
        // MODULE-2: the module's core keeps the streams of its own instance only. A capture has a
        // core of its own, of the same instance.
        if core.instance() != self.module.core().instance() {
            let detail = format!(
                "the module of kernel `{}` was loaded on another device than the stream's, or by \
                 another opening of this device: load it by the device that made the stream",
                K::NAME
            );
            let source = DriverError::with_detail("cuLaunchKernel", ErrorCode::INVALID_CONTEXT, detail);
            return Err(refused::<K>(source));
        }
        let packed = ParametersOf::<K>::pass(&passed);
        let is_simulated = core.driver().properties().backend == Backend::Simulated;
        let stand_in = self.stand_in.as_ref().filter(|_| is_simulated).map(|stand_in| {
            let (stand_in, packed) = (Arc::clone(stand_in), packed.clone());
            StandIn::new(move || {
                // SAFETY: the arguments were packed for this launch. `StandIn::run` runs in the
                // launch's turn, where the memory is as the contract of `launch_function` says:
                // the slices were borrowed for the launch as their types say, and belong to the
                // stream.
                let arguments = unsafe { ParametersOf::<K>::read(&packed) };
                (stand_in.0)(&grid, arguments);
            })
        });
        let pointers = packed.pointers();
        let launch = FunctionLaunch {
            name: K::NAME,
            shape,
            parameters: &pointers,
            uses: packed.uses(),
            stand_in: stand_in.as_ref(),
        };
        // MODULE-2: before the launch, so that no drop in between misses it.
        let noted = if core.is_graph() {
            core.keep_module(&self.module);
            None
        } else {
            Some(self.module.note_use(stream.at()))
        };
        let launched = call.attempt(Kind::Kernel, K::NAME, 0, |driver, at| {
            // SAFETY: FUNCTION-1: the function is live, because `self` shares its module, and takes
            // the values packed above. The kernel keeps the promise of its declaration: it uses
            // the slices only, as declared. They are borrowed as the kernel uses them, and belong
            // to `S`, in whose order they are freed. MODULE-2: the module is unloaded behind this
            // launch.
            unsafe { driver.launch_function(self.raw, &launch, at) }
        });
        if let Some(noted) = noted {
            noted.end(core);
        }
        match launched? {
            Ok(()) => Ok(()),
            Err(source) => Err(refused::<K>(source)),
        }
    }
}
