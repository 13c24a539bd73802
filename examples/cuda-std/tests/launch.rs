//! Tests that launch another compiler's PTX with typed arguments.
#![forbid(unsafe_code)]

use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Live, Scoped};
use cuda_std_kernels::{axpy, block_sums, BLOCK};

cuda_rt::streams! { Compute; Download; }

fn on_each_device(body: impl for<'id> Fn(&Device<Scoped<'id>>)) {
    for seed in 0..12 {
        Device::simulated(SimConfig::default().seed(seed), |gpu| body(&gpu)).unwrap();
    }
    let gpus = Device::for_each_gpu(|gpu| body(&gpu)).unwrap().len();
    if gpus == 0 {
        assert!(
            std::env::var_os("CUDA_RT_REQUIRE_GPU").is_none(),
            "CUDA_RT_REQUIRE_GPU is set, and there is no GPU"
        );
        eprintln!("SKIPPED ON CUDA: there is no GPU");
    }
}

fn sums<D: Live>(gpu: &Device<D>, len: usize) -> Vec<f32> {
    let (compute, download) = (
        gpu.stream::<Compute<D>>().unwrap(),
        gpu.stream::<Download<D>>().unwrap(),
    );
    let ones: Vec<f32> = (0..len).map(|i| (i % 7) as f32).collect();
    let host = compute.adopt(gpu.pinned_from(&ones).unwrap()).unwrap();
    let mut x = compute.alloc_zeroed::<f32>(len).unwrap();
    compute.copy_to_device(&host, &mut x).unwrap();
    let mut y = compute.alloc_zeroed::<f32>(len).unwrap();
    compute.fill(&mut y, 1.0).unwrap();
    axpy(&compute, 2.0, &x, &mut y).unwrap();
    let mut sums = compute.alloc_zeroed::<f32>(len.div_ceil(BLOCK)).unwrap();
    block_sums(&compute, &y, &mut sums).unwrap();

    let sums = download.acquire(compute.release(sums).unwrap()).unwrap();
    let mut host = download.adopt(gpu.pinned::<f32>(sums.len()).unwrap()).unwrap();
    download.copy_to_host(&sums, &mut host).unwrap();
    let host = download.release(host).unwrap().synchronize().unwrap();
    host.to_vec()
}

#[test]
fn kernels_of_another_compiler_compute_what_the_source_says() {
    on_each_device(|gpu| {
        for len in [0, 1, 255, 256, 257, 100_000] {
            let elements: Vec<f32> = (0..len).map(|i| 2.0 * (i % 7) as f32 + 1.0).collect();
            // Integers, so that every order of the additions gives the same sum.
            let expected: Vec<f32> = elements.chunks(BLOCK).map(|block| block.iter().sum()).collect();
            assert_eq!(sums(gpu, len), expected, "of {len} elements");
        }
    });
}

/// Compares the kernels' descriptions with the PTX: names and numbers of parameters.
#[test]
fn the_ptx_has_the_described_entries() {
    let ptx = include_str!("../kernels.ptx");
    for (entry, parameters) in [("axpy", 5), ("block_sums", 4)] {
        let (_, rest) = ptx.split_once(&format!(".visible .entry {entry}(")).unwrap();
        let (list, _) = rest.split_once(')').unwrap();
        assert_eq!(list.matches(".param").count(), parameters, "{list}");
    }
}
