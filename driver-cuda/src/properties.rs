//! Reads the fixed properties of a device.

use std::ffi::{CStr, c_char};

use super::context::Context;
use super::ffi::CUdevice_attribute;
use cuda_rt_driver::{Backend, DriverError, DriverResult, ErrorCode, Properties};

/// Reads the properties of the context's device, and refuses a device without memory pools.
pub(super) fn read(context: &Context) -> DriverResult<Properties> {
    let library = context.library();
    let _entered = context.enter()?;
    let attribute = |which| {
        let mut value = 0;
        // SAFETY: the pointer is to a live int, and the device is valid.
        unsafe { library.cuDeviceGetAttribute(&mut value, which, context.device()) }?;
        Ok(u32::try_from(value).unwrap_or(0))
    };
    // Properties that are only displayed: a driver that no longer reports one must not make its
    // device unusable.
    let shown = |which| attribute(which).unwrap_or(0);
    let name = name(context)?;
    if attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)? == 0 {
        return Err(DriverError::with_detail(
            "cuMemPoolCreate",
            ErrorCode::NOT_SUPPORTED,
            format!(
                "device {}, {name}, has no stream-ordered memory pools",
                context.ordinal()
            ),
        ));
    }

    let mut total_memory_bytes = 0;
    // SAFETY: the pointer is to a live usize, and the device is valid.
    unsafe { library.cuDeviceTotalMem_v2(&mut total_memory_bytes, context.device()) }?;
    let mut driver_version = 0;
    // SAFETY: the pointer is to a live int.
    unsafe { library.cuDriverGetVersion(&mut driver_version) }?;
    let (mut least_urgent, mut most_urgent) = (0, 0);
    // SAFETY: the pointers are to live ints, and the context is current.
    unsafe { library.cuCtxGetStreamPriorityRange(&mut least_urgent, &mut most_urgent) }?;

    Ok(Properties {
        ordinal: context.ordinal(),
        compute_capability: (
            attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        multiprocessors: attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        total_memory_bytes: total_memory_bytes as u64,
        max_threads_per_block: attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        max_grid: [
            attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)?,
            attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)?,
            attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)?,
        ],
        max_shared_bytes_per_block: attribute(
            CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK,
        )?,
        max_shared_bytes_per_block_optin: attribute(
            CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
        )?,
        max_threads_per_multiprocessor: attribute(
            CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
        )?,
        warp_size: attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE)?,
        copy_engines: shown(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT),
        l2_cache_bytes: u64::from(shown(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)),
        memory_bus_bits: shown(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH),
        memory_clock_khz: shown(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE),
        clock_khz: shown(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
        ecc: shown(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_ECC_ENABLED) != 0,
        concurrent_managed_access: shown(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS)
            != 0,
        pci: Some((
            shown(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
            shown(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID),
            shown(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID),
        )),
        priority_range: (least_urgent, most_urgent),
        driver_version: u32::try_from(driver_version).unwrap_or(0),
        ..Properties::named(name, Backend::Cuda)
    })
}

fn name(context: &Context) -> DriverResult<String> {
    const LENGTH: usize = 256;
    let mut name = [0_u8; LENGTH];
    // SAFETY: the pointer is to as many live bytes as stated, and the device is valid.
    unsafe {
        context.library().cuDeviceGetName(
            name.as_mut_ptr().cast::<c_char>(),
            LENGTH as i32,
            context.device(),
        )
    }?;
    let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
    Ok(name.to_string_lossy().into_owned())
}
