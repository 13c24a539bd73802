// H31, mended: `repr(C)` fixes the layout, which is compared when the kernels are loaded.
use bytemuck::{Pod, Zeroable};
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Live};
use device_std::Element;

cuda_rt::streams! {
    Compute;
}

#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable, Element)]
#[repr(C)]
struct Pixel {
    red: u8,
    rest: [u8; 3],
}

fn main() -> Result<(), Error> {
    program(&Device::open_or_simulate()?)?;
    for seed in 0..8 {
        Device::simulated(SimConfig::default().seed(seed), |gpu| program(&gpu))??;
    }
    Ok(())
}

fn program<D: Live>(gpu: &Device<D>) -> Result<(), Error> {
    let compute = gpu.stream::<Compute<D>>()?;
    let orange = Pixel {
        red: 255,
        rest: [165, 0, 255],
    };
    let image = compute.init_filled(compute.alloc_uninit::<Pixel>(100)?, orange)?;
    let mut host = compute.adopt(gpu.pinned::<Pixel>(100)?)?;
    compute.copy_to_host(&image, &mut host)?;
    assert_eq!(*compute.release(host)?.synchronize()?, [orange; 100]);
    Ok(())
}
