//! The program's functions: `src/main.rs` calls them, and `tests/seeds.rs` runs them on the
//! simulated device.
#![forbid(unsafe_code)]

use cuda_rt::{Device, Grid1, Live, Result};

cuda_rt::streams! {
    /// Copies inputs to the device.
    pub Upload;
    /// Runs the kernels.
    pub Compute, priority = High;
    /// Copies results to the host.
    pub Download;
}

/// The two inputs of a batch, which have the same length.
#[derive(Clone, Debug)]
pub struct Batch {
    pub x: Vec<f32>,
    pub y: Vec<f32>,
}

impl Batch {
    /// What the device must compute, computed by the CPU.
    pub fn expected(&self, a: f32) -> Vec<f32> {
        let pairs = self.x.iter().zip(&self.y);
        pairs.map(|(x, y)| a.mul_add(*x, *y)).collect()
    }
}

/// Computes `a * x[i] + y[i]` for each batch. While the device computes a batch, it uploads the
/// next one, and downloads the one before.
pub fn sums<D: Live>(gpu: &Device<D>, a: f32, batches: &[Batch]) -> Result<Vec<Vec<f32>>> {
    let upload = gpu.stream::<Upload<D>>()?;
    let compute = gpu.stream::<Compute<D>>()?;
    let download = gpu.stream::<Download<D>>()?;

    let mut pending = Vec::new();
    for batch in batches {
        // From pinned memory, `Upload` copies without the CPU.
        let x = upload.adopt(gpu.pinned_from(&batch.x)?)?;
        let y = upload.adopt(gpu.pinned_from(&batch.y)?)?;
        let x = upload.init_from_host(upload.alloc_uninit(x.len())?, &x)?;
        let y = upload.init_from_host(upload.alloc_uninit(y.len())?, &y)?;

        // The handoff: `Compute` waits on the device until the uploads are done. Without this line,
        // the launch does not compile.
        let (x, y) = compute.acquire(upload.release((x, y))?)?;
        let mut sum = compute.alloc_zeroed(x.len())?;
        kernels::saxpy(&compute, Grid1::covering(x.len()), a, &x, &y, &mut sum)?;

        let sum = download.acquire(compute.release(sum)?)?;
        let mut host = download.adopt(gpu.pinned(sum.len())?)?;
        download.copy_to_host(&sum, &mut host)?;
        pending.push(download.release(host)?);
    }

    // Until here the CPU has only enqueued work. Now it waits for each result.
    let mut sums = Vec::new();
    for host in pending {
        sums.push(host.synchronize()?.to_vec());
    }
    Ok(sums)
}
