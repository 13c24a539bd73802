//! [`ForeignModule`]: a module that is loaded from bytes at run time.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::declaration::ForeignKernel;
use super::error::ForeignError;
use super::function::{ForeignFunction, StandInOf};
use super::grid::ForeignGrid;
use super::image::Image;
use super::loaded::LoadedModule;
use super::parameters::{Declared, ForeignParameters, Kind};
use crate::device::Device;
use crate::error::During;
use crate::tag::Live;

/// A module loaded on one device from the bytes of PTX, of a cubin or of a fatbin. Its kernels are
/// declared by [`foreign_kernel!`](crate::foreign_kernel), which has an example.
///
/// The module, the kernels [got](Self::get) from it and graphs that launch them share it. When the
/// last of them is dropped, the module is unloaded behind all launches (`cuModuleUnload`), on the
/// device's thread for closures. The drop does not block.
pub struct ForeignModule {
    loaded: Arc<LoadedModule>,
    image: Image,
    /// The stand-ins ([`StandInOf`]), by the type of their kernel.
    stand_ins: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
}

impl fmt::Debug for ForeignModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignModule")
            .field("image", &self.image)
            .finish_non_exhaustive()
    }
}

impl ForeignModule {
    /// Loads a module from bytes: PTX, a cubin or a fatbin, told apart by their first bytes
    /// (`cuModuleLoadDataEx`). Copies them. The driver compiles PTX for the GPU, so the call blocks
    /// for some milliseconds, and may wait for work of the device.
    ///
    /// The places that the headers of a cubin or fatbin state are compared with the length of the
    /// bytes. What stands at these places is for the driver to read: it is trusted like the driver
    /// itself. A simulated device runs no code of the module; it needs
    /// [stand-ins](Self::stand_in).
    ///
    /// # Errors
    /// [`ForeignError::Image`] if the bytes are no module, or are cut off.
    /// [`ForeignError::Runtime`] if the driver refuses the module; the error holds the log of the
    /// compiler of PTX.
    ///
    /// ```
    /// use cuda_rt::interop::{ForeignError, ForeignModule, ImageError};
    ///
    /// let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let ptx = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry f() { ret; }\n";
    /// let module = ForeignModule::load(&gpu, ptx.as_bytes())?;
    /// assert_eq!(module.entries(), ["f"]);
    ///
    /// let cut_off = ForeignModule::load(&gpu, b"\x7fELF\x02\x01").unwrap_err();
    /// assert!(matches!(cut_off, ForeignError::Image(ImageError::CutOff { .. })));
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn load<D: Live>(device: &Device<D>, bytes: &[u8]) -> Result<Self, ForeignError> {
        const DURING: &str = "ForeignModule::load";
        let image = Image::read(bytes)?;
        let core = Arc::clone(device.core());
        // SAFETY: `Image::read` compared the places that the headers state with the bytes, which
        // are aligned and end in a NUL.
        let raw = unsafe { core.driver().load_module(image.bytes()) }.during(DURING)?;
        Ok(Self {
            // SAFETY: MODULE-1: the module was loaded just now, on this device.
            loaded: unsafe { LoadedModule::new(core, raw) },
            image,
            stand_ins: HashMap::new(),
        })
    }

    /// The names of the module's entries. Calls nothing of the driver.
    pub fn entries(&self) -> Vec<String> {
        self.image.entries()
    }

    /// Gives the module a stand-in for the kernel `K`: plain Rust that simulated devices run in the
    /// kernel's place. Other devices ignore it. Kernels that were [got](Self::get) before do not
    /// have it.
    ///
    /// The closure gets the grid of the launch, and all arguments as a tuple in the declared order:
    /// `&[T]` and `&mut [T]` with the lengths of the slices that were launched, values, and
    /// lengths. One call does the work of all threads. It runs in the kernel's turn, on a thread of
    /// the program, also at each launch of a graph. It may run at any time until the module is
    /// unloaded, so it owns what it uses; it is `Copy`, so that the device never runs a destructor.
    /// A closure that panics loses the device, as a kernel that traps does.
    ///
    /// ```
    /// use cuda_rt::interop::{ForeignGrid, ForeignModule};
    ///
    /// # cuda_rt::streams! { pub Compute; }
    /// cuda_rt::foreign_kernel! {
    ///     /// Writes the index of each block's first thread.
    ///     unsafe fn starts(y: &mut [u32]) as Starts;
    /// }
    ///
    /// const PTX: &str = r".version 7.0
    /// .target sm_70
    /// .address_size 64
    /// .visible .entry starts(.param .u64 y)
    /// {
    ///     .reg .b32 %r<4>;
    ///     .reg .b64 %rd<4>;
    ///     ld.param.u64 %rd1, [y];
    ///     cvta.to.global.u64 %rd1, %rd1;
    ///     mov.u32 %r1, %ctaid.x;
    ///     mov.u32 %r2, %ntid.x;
    ///     mul.lo.u32 %r3, %r1, %r2;
    ///     mul.wide.u32 %rd2, %r1, 4;
    ///     add.u64 %rd3, %rd1, %rd2;
    ///     st.relaxed.gpu.global.u32 [%rd3], %r3;
    ///     ret;
    /// }
    /// ";
    /// # fn main() -> cuda_rt::Result<()> {
    /// let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let module = ForeignModule::load(&gpu, PTX.as_bytes())?.stand_in::<Starts>(|grid, (y,)| {
    ///     for (y, block) in y.iter_mut().zip(0..grid.blocks[0]) {
    ///         *y = block * grid.threads[0];
    ///     }
    /// });
    /// let compute = gpu.stream::<Compute>()?;
    /// let mut y = compute.alloc_zeroed(3)?;
    /// let starts = module.get::<Starts>()?;
    /// starts.launch(&compute, ForeignGrid::new([3, 1, 1], [32, 1, 1]), &mut y)?;
    /// assert_eq!(compute.copy_to_vec(&y)?, [0, 32, 64]);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "the module with its stand-in is returned"]
    pub fn stand_in<K: ForeignKernel>(
        mut self,
        stand_in: impl for<'k> Fn(&ForeignGrid, <K::Parameters as ForeignParameters>::StandIn<'k>)
        + Copy
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let stand_in: Arc<dyn Any + Send + Sync> = Arc::new(StandInOf::<K>(Box::new(stand_in)));
        self.stand_ins.insert(TypeId::of::<K>(), stand_in);
        self
    }

    /// Finds the declared kernel `K` in the module (`cuModuleGetFunction`), and compares its
    /// declaration with the parameters of the entry: with the list in PTX, or with the table in a
    /// cubin. In a fatbin all images are compared.
    ///
    /// # Errors
    /// [`ForeignError::NoEntry`], [`ForeignError::Count`], [`ForeignError::Parameter`] and
    /// [`ForeignError::Type`]; [`ForeignError::Unreadable`] if the parameters cannot be read;
    /// [`ForeignError::Runtime`].
    ///
    /// ```
    /// use cuda_rt::interop::ForeignModule;
    ///
    /// cuda_rt::foreign_kernel! {
    ///     /// Declared with a wrong type for `n`.
    ///     unsafe fn f(n: u32, y: &mut [f32]) as F;
    /// }
    ///
    /// # fn main() -> cuda_rt::Result<()> {
    /// let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let ptx = ".version 7.0\n.target sm_70\n.address_size 64\n
    ///     .visible .entry f(.param .u64 n, .param .u64 y) { ret; }\n";
    /// let module = ForeignModule::load(&gpu, ptx.as_bytes())?;
    /// let error = module.get::<F>().unwrap_err().to_string();
    /// assert!(error.contains("parameter 0 (`n`)"), "{error}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn get<K: ForeignKernel>(&self) -> Result<K, ForeignError> {
        self.compare::<K>()?;
        let raw = self.loaded.function(K::NAME).during("ForeignModule::get")?;
        let stand_in = self.stand_ins.get(&TypeId::of::<K>());
        let stand_in = stand_in.and_then(|found| Arc::clone(found).downcast::<StandInOf<K>>().ok());
        // SAFETY: FUNCTION-1: the function was found in this module just now, and its parameters
        // were compared with the declaration.
        let function = unsafe { ForeignFunction::new(Arc::clone(&self.loaded), raw, stand_in) };
        Ok(K::from_function(function))
    }

    /// Compares the declaration of `K` with its entry.
    fn compare<K: ForeignKernel>(&self) -> Result<(), ForeignError> {
        let declared = <K::Parameters as ForeignParameters>::DECLARED;
        let images = self.image.parameters(K::NAME).map_err(ForeignError::Unreadable)?;
        if images.is_empty() {
            return Err(ForeignError::NoEntry {
                entry: K::NAME,
                has: self.image.entries(),
            });
        }
        for (found, types) in images.iter().zip(self.image.types(K::NAME)) {
            let lists = || lists::<K>(found, &types);
            if found.len() != declared.len() {
                return Err(ForeignError::Count {
                    entry: K::NAME,
                    declared: declared.len(),
                    found: found.len(),
                    lists: lists(),
                });
            }
            let differs = declared
                .iter()
                .zip(found)
                .position(|(declared, bytes)| declared.bytes != *bytes);
            if let Some(index) = differs {
                return Err(ForeignError::Parameter {
                    entry: K::NAME,
                    index,
                    name: K::PARAMETER_NAMES[index],
                    declared: declared[index].what,
                    declared_bytes: declared[index].bytes,
                    found_bytes: found[index],
                    lists: lists(),
                });
            }
            let contradicts =
                |(declared, stated): (&Declared, &String)| (declared.kind)().contradicts(stated);
            if let Some(index) = declared.iter().zip(&types).position(contradicts) {
                return Err(ForeignError::Type {
                    entry: K::NAME,
                    index,
                    name: K::PARAMETER_NAMES[index],
                    declared: (declared[index].kind)().name(),
                    found: types[index].clone(),
                    lists: lists(),
                });
            }
        }
        Ok(())
    }
}

/// Both lists of the parameters of `K`, for messages: the bytes of each, and the types that PTX
/// states.
fn lists<K: ForeignKernel>(found: &[usize], types: &[String]) -> String {
    let declared = <K::Parameters as ForeignParameters>::DECLARED.iter();
    let declared = declared.zip(K::PARAMETER_NAMES).map(|(declared, name)| {
        if (declared.kind)() == Kind::Pointer {
            format!("{name}: pointer")
        } else {
            format!("{name}: {}", declared.bytes)
        }
    });
    let in_module = found.iter().enumerate().map(|(at, bytes)| {
        let stated = types.get(at).filter(|stated| !stated.starts_with(".b"));
        stated.map_or(bytes.to_string(), |stated| format!("{bytes} {stated}"))
    });
    let joined = |list: Vec<String>| list.join(", ");
    format!(
        "declared ({}), module ({}), in bytes",
        joined(declared.collect()),
        joined(in_module.collect())
    )
}
