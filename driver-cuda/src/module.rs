//! Modules and their functions: loaded once per device, and later found without a lock.

use std::collections::HashMap;
use std::ffi::{CString, c_int, c_void};
use std::fmt;
use std::ptr;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use super::context::Context;
use super::error::with_detail;
use super::ffi::{self, CUjit_option};
use super::large_stack::on_large_stack;
use super::process_end;
use cuda_rt_driver::host_function;
use cuda_rt_driver::{DriverError, DriverResult, ErrorCode};
use cuda_rt_driver::{Kernel, LaunchShape, ModuleImage, Properties};

/// Advice for PTX that doesn't fit the host code, for messages.
const STALE: &str =
    "the PTX is older or newer than the host code: rebuild it (`cargo xtask ptx` where the PTX is committed)";

/// The modules loaded on one device. They are never unloaded, because launches may be pending at
/// any time.
pub(super) struct Modules {
    loaded: Mutex<Loaded>,
    /// The device's properties.
    properties: Properties,
}

#[derive(Default)]
struct Loaded {
    /// Modules (`CUmodule`) by the address of their image.
    modules: HashMap<usize, usize>,
    /// Modules (`CUmodule`) that other code loaded and gave up, by the address of the image that
    /// they serve.
    #[cfg(feature = "cust")]
    adopted: HashMap<usize, usize>,
    /// Functions (`CUfunction`) by the address of their kernel, for ordinals without a place in
    /// `KernelCache`.
    functions: HashMap<usize, usize>,
}

impl Modules {
    pub(super) fn new(properties: &Properties) -> Self {
        Self {
            loaded: Mutex::default(),
            properties: properties.clone(),
        }
    }

    /// The function of a kernel on the context's device. After the first call it neither locks nor
    /// allocates.
    #[inline]
    pub(super) fn function(
        &self,
        context: &Context,
        kernel: &'static Kernel,
    ) -> DriverResult<ffi::CUfunction> {
        if let Some(function) = kernel.cache.function(context.ordinal()) {
            return Ok(ptr::with_exposed_provenance_mut(function as usize));
        }
        self.find(context, kernel)
    }

    #[cold]
    fn find(&self, context: &Context, kernel: &'static Kernel) -> DriverResult<ffi::CUfunction> {
        // Before the lock: a load under it may wait for the work of the device, host functions
        // included.
        host_function::check("cuModuleGetFunction")?;
        let mut loaded = self.lock();
        let key = ptr::from_ref(kernel).addr();
        if let Some(&function) = loaded.functions.get(&key) {
            return Ok(ptr::with_exposed_provenance_mut(function));
        }
        let ptx = ptx_for(self.properties.compute_capability, kernel.module)?;
        let module = loaded.module(context, kernel.module, ptx)?;
        let function = find_function(context, module, kernel)?;
        compare_layouts(kernel, ptx)?;
        compare_parameters(kernel, ptx)?;
        self.permit_shared(context, kernel, function, kernel.shared_bytes())?;
        let exposed = function.expose_provenance();
        // SAFETY: the function was just found in the kernel's module, in the primary context of
        // this ordinal's device. The module is never unloaded, and the layouts of the parameters
        // were compared.
        let remembered = unsafe { kernel.cache.remember(context.ordinal(), exposed as u64) };
        if !remembered {
            loaded.functions.insert(key, exposed);
        }
        Ok(function)
    }

    /// Lets a kernel's launches pass more shared memory than every block may have
    /// (`cuFuncSetAttribute`). Enqueues nothing. The error names the device's limit.
    pub(super) fn permit_shared(
        &self,
        context: &Context,
        kernel: &Kernel,
        function: ffi::CUfunction,
        bytes: u32,
    ) -> DriverResult<()> {
        if bytes <= Kernel::DEFAULT_SHARED_BYTES {
            return Ok(());
        }
        self.properties.check_shared_bytes(kernel, bytes)?;
        // SAFETY: the function is of this context, and its module is never unloaded.
        unsafe { raise_shared(context, function, bytes) }.map_err(|error| {
            with_detail(
                error,
                format!("{bytes} bytes of shared memory for `{}`", kernel.name),
            )
        })
    }

    /// As [`permit_shared`](Self::permit_shared), for a launch of a kernel described by hand. The
    /// load of other kernels knows their shared memory.
    #[inline]
    pub(super) fn permit_launch(
        &self,
        context: &Context,
        kernel: &Kernel,
        function: ffi::CUfunction,
        shape: &LaunchShape,
    ) -> DriverResult<()> {
        if shape.shared_bytes <= Kernel::DEFAULT_SHARED_BYTES || !kernel.layout.is_empty() {
            return Ok(());
        }
        self.permit_shared(context, kernel, function, shape.shared_bytes)
    }

    /// Uses a module loaded by other code for the kernels of `image`. Returns `false` if the image
    /// already has a module.
    ///
    /// # Safety
    /// The module is of this device's context, is never unloaded, and holds the kernels that refer
    /// to `image`.
    #[cfg(feature = "cust")]
    pub(super) unsafe fn adopt(&self, image: &'static ModuleImage, module: ffi::CUmodule) -> bool {
        let mut loaded = self.lock();
        let key = ptr::from_ref(image).addr();
        if loaded.modules.contains_key(&key) {
            return false;
        }
        loaded.modules.insert(key, module.expose_provenance());
        loaded.adopted.insert(key, module.expose_provenance());
        true
    }

    /// The module adopted for `image`.
    #[cfg(feature = "cust")]
    pub(super) fn adopted(&self, image: &'static ModuleImage) -> Option<ffi::CUmodule> {
        let module = self.lock().adopted.get(&ptr::from_ref(image).addr()).copied()?;
        Some(ptr::with_exposed_provenance_mut(module))
    }

    fn lock(&self) -> MutexGuard<'_, Loaded> {
        // Each entry is inserted as a whole, so the maps stay usable after a panic elsewhere.
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Modules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Modules")
            .field("loaded", &self.lock().modules.len())
            .finish()
    }
}

impl Loaded {
    fn module(
        &mut self,
        context: &Context,
        image: &'static ModuleImage,
        ptx: &str,
    ) -> DriverResult<ffi::CUmodule> {
        let key = ptr::from_ref(image).addr();
        if let Some(&module) = self.modules.get(&key) {
            return Ok(ptr::with_exposed_provenance_mut(module));
        }
        let module = load(context, image, ptx)?;
        self.modules.insert(key, module.expose_provenance());
        Ok(module)
    }
}

/// The module of an image's text that this device loads.
pub(crate) fn ptx_for(capability: (u32, u32), image: &'static ModuleImage) -> DriverResult<&'static str> {
    image.for_capability(capability).map_err(|targets| {
        let ((major, minor), name) = (capability, image.name);
        let detail = format!(
            "the kernels of `{name}` are built for {targets}, and the device has compute capability {major}.{minor}: \
             build them for an older architecture too (`Kernels::architecture`)"
        );
        DriverError::with_detail("cuModuleLoadDataEx", ErrorCode::NO_BINARY_FOR_GPU, detail)
    })
}

/// Compiles and loads PTX (`cuModuleLoadDataEx`). The error contains the compiler's log.
fn load(context: &Context, image: &'static ModuleImage, ptx: &str) -> DriverResult<ffi::CUmodule> {
    const CALL: &str = "cuModuleLoadDataEx";
    let ptx = CString::new(ptx).map_err(|_| {
        let detail = format!("the PTX of `{}` holds a NUL", image.name);
        DriverError::with_detail(CALL, ErrorCode::INVALID_PTX, detail)
    })?;
    // SAFETY: the text ends in a NUL.
    unsafe {
        load_data(
            context,
            ptx.as_ptr().cast(),
            &format!("kernels of `{}`", image.name),
        )
    }
}

/// Loads an image (`cuModuleLoadDataEx`), which may compile, on a [large stack](on_large_stack).
/// The error contains the compiler's log, behind `what`.
///
/// # Safety
/// `image` is text that ends in a NUL, or a cubin or fatbin whose headers state no place outside
/// its memory.
pub(super) unsafe fn load_data(
    context: &Context,
    image: *const c_void,
    what: &str,
) -> DriverResult<ffi::CUmodule> {
    const LOG_BYTES: usize = 16 << 10;
    let mut log = vec![0_u8; LOG_BYTES];
    // Refused here, it is not worth a thread.
    drop(context.enter()?);
    let image = image.expose_provenance();
    let loaded = on_large_stack("cuModuleLoadDataEx", || {
        let mut options = [
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ];
        // A number is passed as the pointer itself.
        let mut values = [
            log.as_mut_ptr().cast::<c_void>(),
            ptr::without_provenance_mut(LOG_BYTES),
        ];
        let _entered = context.enter()?;
        let mut module = ptr::null_mut();
        // SAFETY: the image is as this function's contract says. There are as many options as
        // values, and the log has the length that they state.
        let loaded = unsafe {
            context.library().cuModuleLoadDataEx(
                &mut module,
                ptr::with_exposed_provenance(image),
                options.len() as u32,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        loaded.map(|()| module.expose_provenance())
    })?;
    // The driver may set up more with the first module.
    static FIRST: Once = Once::new();
    FIRST.call_once(process_end::shut_at_exit);
    let module = loaded.map_err(|error| {
        let log = String::from_utf8_lossy(log.split(|&byte| byte == 0).next().unwrap_or_default());
        with_detail(error, format!("{what}: {}", log.trim()))
    })?;
    Ok(ptr::with_exposed_provenance_mut(module))
}

/// Lets launches of a function pass `bytes` of shared memory, or more if an earlier call did
/// (`cuFuncGetAttribute`, `cuFuncSetAttribute`). It never lowers the permission: another thread may
/// be between its own call of this function and its launch.
///
/// # Safety
/// `function` is live, and of this context.
pub(super) unsafe fn raise_shared(
    context: &Context,
    function: ffi::CUfunction,
    bytes: u32,
) -> DriverResult<()> {
    /// Held from the question to the change.
    static RAISING: Mutex<()> = Mutex::new(());
    let attribute = ffi::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    let value = bytes.try_into().unwrap_or(c_int::MAX);
    let _raising = RAISING.lock().unwrap_or_else(PoisonError::into_inner);
    let _entered = context.enter()?;
    let mut present = 0;
    // SAFETY: this function's contract; the pointer is to a live number.
    unsafe {
        context
            .library()
            .cuFuncGetAttribute(&mut present, attribute, function)
    }?;
    if present >= value {
        return Ok(());
    }
    // SAFETY: this function's contract.
    unsafe { context.library().cuFuncSetAttribute(function, attribute, value) }
}

/// Looks up a kernel's entry (`cuModuleGetFunction`).
fn find_function(
    context: &Context,
    module: ffi::CUmodule,
    kernel: &'static Kernel,
) -> DriverResult<ffi::CUfunction> {
    let _entered = context.enter()?;
    let mut function = ptr::null_mut();
    // SAFETY: the module is loaded and never unloaded, and the name ends in a NUL.
    let found = unsafe {
        context
            .library()
            .cuModuleGetFunction(&mut function, module, kernel.symbol.as_ptr())
    };
    found.map_err(|error| {
        let detail = format!(
            "kernel `{}` ({}:{}) has no entry `{}` in the PTX of `{}`; {STALE}",
            kernel.name,
            kernel.file,
            kernel.line,
            kernel.symbol.to_string_lossy(),
            kernel.module.name,
        );
        with_detail(error, detail)
    })?;
    Ok(function)
}

/// Refuses a kernel if the device code lays out its parameters differently from the host.
pub(crate) fn compare_layouts(kernel: &'static Kernel, ptx: &str) -> DriverResult<()> {
    let device = layout_table(kernel, ptx);
    // A kernel of hand-written PTX, with no typed parameter, has no table.
    if device.as_deref().unwrap_or_default() == kernel.layout {
        return Ok(());
    }
    let why = device.map_or_else(
        || "the PTX has no layout table for it".to_owned(),
        |device| difference(kernel.layout, &device),
    );
    Err(stale_parameters(kernel, &why))
}

/// The error for a kernel whose PTX takes other parameters than the host passes.
fn stale_parameters(kernel: &Kernel, why: &str) -> DriverError {
    DriverError::with_detail(
        "cuModuleGetFunction",
        ErrorCode::INVALID_IMAGE,
        format!(
            "parameters of kernel `{}` ({}:{}): {why}; {STALE}",
            kernel.name, kernel.file, kernel.line
        ),
    )
}

/// The first difference between two layout tables. Their rows are rows of `device_std::rt::Row`.
fn difference(host: &[u64], device: &[u64]) -> String {
    let rows = |table: &[u64]| table.chunks(4).map(<[u64]>::to_vec).collect::<Vec<_>>();
    // The upper half of the first number is the version of `device-std`.
    let version = |table: &[u64]| table.first().map(|launch| launch >> 32);
    if version(host) != version(device) {
        return "the PTX was built with another version of cuda-handoff-device than this program; \
                build it again, with one version of all packages of cuda-handoff"
            .to_owned();
    }
    let (host, device) = (rows(host), rows(device));
    if host.len() != device.len() {
        return "their number differs between host and device".to_owned();
    }
    let differs = |(at, (host, device)): &(usize, (&Vec<u64>, &Vec<u64>))| *at > 0 && host != device;
    match host.iter().zip(&device).enumerate().find(differs) {
        Some((at, (host, device))) if host.get(1..3) != device.get(1..3) => format!(
            "number {at} has {:?} bytes (size, alignment) on the host, and {:?} in the PTX",
            host.get(1..3).unwrap_or_default(),
            device.get(1..3).unwrap_or_default()
        ),
        Some((at, (host, device))) if host.get(3) != device.get(3) => {
            format!("number {at} is read, written or passed in another way in the PTX")
        }
        Some((at, _)) => {
            format!("field names, types or offsets of number {at} differ between host and device")
        }
        None => "the dimensions of the launch, or the threads of a block, differ between host and device"
            .to_owned(),
    }
}

/// Refuses a kernel whose entry takes other parameters than a launch passes. With one parameter
/// more or less, every later value would be taken for another parameter. `cuLaunchKernel` gets an
/// address for each value, and checks neither number nor sizes.
pub(crate) fn compare_parameters(kernel: &'static Kernel, ptx: &str) -> DriverResult<()> {
    let symbol = kernel.symbol.to_str().unwrap_or_default();
    let refuse = |why: String| Err(stale_parameters(kernel, &why));
    let Some(taken) = device_std::ptx::parameters(ptx, symbol) else {
        // The text of a module that other code loaded may be missing. A kernel made by `#[kernel]`
        // has an output, and therefore a layout.
        if kernel.layout.is_empty() {
            return Ok(());
        }
        return refuse("the PTX has no entry whose parameters can be read".to_owned());
    };
    if taken.len() != kernel.parameters.len() {
        return refuse(format!(
            "a launch passes {}, and the entry in the PTX takes {}",
            kernel.parameters.len(),
            taken.len()
        ));
    }
    for (at, (passed, (size, align))) in kernel.parameters.iter().zip(taken).enumerate() {
        if (passed.size_bytes, passed.align_bytes) != (size, align) {
            return refuse(format!(
                "a launch passes {} bytes aligned to {} as number {at}, and the entry in the PTX takes {size} aligned to {align}",
                passed.size_bytes, passed.align_bytes
            ));
        }
    }
    Ok(())
}

/// The layout table of a kernel in the PTX, if there is one.
fn layout_table(kernel: &Kernel, ptx: &str) -> Option<Vec<u64>> {
    let symbol = kernel.symbol.to_str().ok()?;
    device_std::ptx::layout_table(ptx, symbol)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_rt_driver::{KernelCache, LaunchShape, Parameter, ParameterKind};

    const PTX: &str = ".visible .global .align 8 .b64 __cuda_rt_layout_told[2] = {1, 2};";
    // SAFETY: the image is never loaded.
    static MODULE: ModuleImage = unsafe { ModuleImage::new("tests", PTX) };

    const fn kernel(symbol: &'static std::ffi::CStr, layout: &'static [u64]) -> Kernel {
        kernel_with(symbol, layout, &[])
    }

    const fn kernel_with(
        symbol: &'static std::ffi::CStr,
        layout: &'static [u64],
        parameters: &'static [Parameter],
    ) -> Kernel {
        /// # Safety
        /// There are no requirements.
        unsafe fn nothing(_: &LaunchShape, _: *const *const c_void) {}
        Kernel {
            name: "tests::kernel",
            symbol,
            file: file!(),
            line: line!(),
            module: &MODULE,
            parameters,
            layout,
            simulate: nothing,
            cache: KernelCache::new(),
        }
    }

    #[test]
    fn layouts_must_equal_the_layouts_in_the_ptx() {
        static SAME: Kernel = kernel(c"told", &[1, 2]);
        static UNTOLD: Kernel = kernel(c"untold", &[]);
        for kernel in [&SAME, &UNTOLD] {
            compare_layouts(kernel, PTX).expect("the same on both sides");
        }
        static SWAPPED: Kernel = kernel(c"told", &[2, 1]);
        static FEWER: Kernel = kernel(c"told", &[1]);
        static NONE: Kernel = kernel(c"told", &[]);
        static MISSING: Kernel = kernel(c"untold", &[1]);
        for kernel in [&SWAPPED, &FEWER, &NONE, &MISSING] {
            let error = compare_layouts(kernel, PTX).expect_err("not the same");
            assert!(error.detail().contains("tests::kernel"), "{error}");
        }
    }

    /// A user can choose names to forge an equal hash, so each number is also compared.
    #[test]
    fn a_type_of_an_equal_hash_must_have_an_equal_size_and_use() {
        const PTX: &str =
            ".visible .global .align 8 .u64 __cuda_rt_layout_forged[8] = {1, 0, 0, 0, 7, 256, 4, 261};";
        static SAME: Kernel = kernel(c"forged", &[1, 0, 0, 0, 7, 256, 4, 261]);
        compare_layouts(&SAME, PTX).expect("the same on both sides");
        static SMALLER: Kernel = kernel(c"forged", &[1, 0, 0, 0, 7, 4, 4, 261]);
        static ALIGNED: Kernel = kernel(c"forged", &[1, 0, 0, 0, 7, 256, 16, 261]);
        static READ: Kernel = kernel(c"forged", &[1, 0, 0, 0, 7, 256, 4, 3]);
        static FIELDS: Kernel = kernel(c"forged", &[1, 0, 0, 0, 8, 256, 4, 261]);
        static PLANE: Kernel = kernel(c"forged", &[2, 0, 0, 0, 7, 256, 4, 261]);
        static BLOCKS: Kernel = kernel(c"forged", &[1, 1, 64, 1, 7, 256, 4, 261]);
        static VERSION: Kernel = kernel(c"forged", &[1 << 32 | 1, 0, 0, 0, 7, 256, 4, 261]);
        for (kernel, words) in [
            (
                &SMALLER,
                "number 1 has [4, 4] bytes (size, alignment) on the host, and [256, 4] in the PTX",
            ),
            (&ALIGNED, "number 1 has [256, 16] bytes"),
            (&READ, "number 1 is read, written or passed in another way"),
            (&FIELDS, "field names, types or offsets of number 1"),
            (&PLANE, "the dimensions of the launch"),
            (&BLOCKS, "the threads of a block"),
            (&VERSION, "another version of cuda-handoff-device"),
        ] {
            let error = compare_layouts(kernel, PTX).expect_err("not the same");
            assert!(error.detail().contains(words), "{error}");
        }
    }

    const fn passed(size_bytes: usize, align_bytes: usize) -> Parameter {
        Parameter {
            size_bytes,
            align_bytes,
            kind: ParameterKind::Scalar,
        }
    }

    /// Regression: a parameter of size zero. The entry had no parameter for it, and all later ones
    /// were shifted.
    #[test]
    fn parameters_must_equal_the_parameters_of_the_entry() {
        const HEADS: &str =
            ".visible .entry two(\n\t.param .u64 .ptr .align 4 a,\n\t.param .align 8 .b8 b[24]\n)\n{ ret; }";
        static SAME: Kernel = kernel_with(c"two", &[1], &[passed(8, 8), passed(24, 8)]);
        compare_parameters(&SAME, HEADS).expect("the same on both sides");
        static OF_ANOTHER_MODULE: Kernel = kernel_with(c"elsewhere", &[], &[passed(8, 8)]);
        compare_parameters(&OF_ANOTHER_MODULE, HEADS).expect("adopted, and launched by hand");

        static NO_SIZE: Kernel = kernel_with(c"two", &[1], &[passed(8, 8), passed(0, 4), passed(24, 8)]);
        static FEWER: Kernel = kernel_with(c"two", &[1], &[passed(8, 8)]);
        static SMALLER: Kernel = kernel_with(c"two", &[1], &[passed(4, 4), passed(24, 8)]);
        static ALIGNED: Kernel = kernel_with(c"two", &[1], &[passed(8, 8), passed(24, 16)]);
        static MISSING: Kernel = kernel_with(c"three", &[1], &[passed(8, 8)]);
        for kernel in [&NO_SIZE, &FEWER, &SMALLER, &ALIGNED, &MISSING] {
            let error = compare_parameters(kernel, HEADS).expect_err("not the same");
            assert!(error.detail().contains("tests::kernel"), "{error}");
        }
    }
}
