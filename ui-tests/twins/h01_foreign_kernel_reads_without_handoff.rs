// H01, H13, H29, H42, mended: the frame is handed over before a kernel of another compiler reads
// it, the kernel writes other memory, and the host reads behind a wait. One declaration answers for
// the kernel.
use cuda_rt::interop::{ForeignGrid, ForeignModule};
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Error, Live};
use kernels::Blur;

cuda_rt::streams! {
    Compute;
    Download;
}

mod kernels {
    #![allow(unsafe_code, reason = "a declaration promises what the kernel does")]
    cuda_rt::foreign_kernel! {
        /// Writes the mean of each element and the next one in its row of `width` elements.
        pub unsafe fn blur(input: &[f32], output: &mut [f32], width: u32) as Blur;
    }
}

const PTX: &str = r"
.version 7.0
.target sm_70
.address_size 64
.visible .entry blur(.param .u64 input, .param .u64 output, .param .u32 width)
{
    .reg .pred %p;
    .reg .b32 %r<5>;
    .reg .f32 %f<4>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [input];
    ld.param.u64 %rd2, [output];
    ld.param.u32 %r1, [width];
    mov.u32 %r2, %tid.x;
    setp.ge.u32 %p, %r2, %r1;
    @%p bra done;
    add.u32 %r3, %r2, 1;
    rem.u32 %r3, %r3, %r1;
    mov.u32 %r4, %ctaid.x;
    mad.lo.u32 %r2, %r4, %r1, %r2;
    mad.lo.u32 %r3, %r4, %r1, %r3;
    cvta.to.global.u64 %rd1, %rd1;
    cvta.to.global.u64 %rd2, %rd2;
    mul.wide.u32 %rd3, %r2, 4;
    mul.wide.u32 %rd4, %r3, 4;
    add.u64 %rd5, %rd1, %rd3;
    ld.global.f32 %f1, [%rd5];
    add.u64 %rd5, %rd1, %rd4;
    ld.global.f32 %f2, [%rd5];
    add.f32 %f3, %f1, %f2;
    mul.f32 %f3, %f3, 0f3F000000;
    add.u64 %rd5, %rd2, %rd3;
    st.global.f32 [%rd5], %f3;
done:
    ret;
}
";

fn main() -> Result<(), Error> {
    program(&Device::open_or_simulate()?)?;
    for seed in 0..8 {
        Device::simulated(SimConfig::default().seed(seed), |gpu| program(&gpu))??;
    }
    Ok(())
}

fn program<D: Live>(gpu: &Device<D>) -> Result<(), Error> {
    let (compute, download) = (gpu.stream::<Compute<D>>()?, gpu.stream::<Download<D>>()?);
    let module = ForeignModule::load(gpu, PTX.as_bytes())?;
    let module = module.stand_in::<Blur>(|_, (input, output, width)| {
        let rows = input.chunks_exact(width as usize).zip(output.chunks_exact_mut(width as usize));
        for (input, output) in rows {
            for (i, mean) in output.iter_mut().enumerate() {
                *mean = (input[i] + input[(i + 1) % input.len()]) * 0.5;
            }
        }
    });
    let blur = module.get::<Blur>()?;

    let frame = download.alloc_from_slice(&[0.0_f32, 2.0, 4.0, 10.0])?;
    let frame = compute.acquire(download.release(frame)?)?;
    let mut output = compute.adopt(gpu.pinned::<f32>(4)?)?;
    // Two rows of two, each by a block.
    let grid = ForeignGrid::new([2, 1, 1], [32, 1, 1]);
    blur.launch(&compute, grid, &frame, compute.mapped_mut(&mut output)?, 2)?;
    let output = compute.release(output)?.synchronize()?;
    assert_eq!(output[..], [1.0, 1.0, 7.0, 7.0]);
    Ok(())
}
