//! Arrays that are passed to kernels by value: constant memory.
#![forbid(unsafe_code)]

use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Grid1};
use device_std::prelude::*;

cuda_rt::streams! {
    Compute;
}

const LEN: usize = 200;

/// A filter of nine weights, with the values of both ends repeated.
#[kernel]
fn convolve(i: Index1, x: &[f32], weights: [f32; 9]) -> f32 {
    let mut sum = 0.0;
    for (at, weight) in weights.iter().enumerate() {
        let place = (i.get() + at).saturating_sub(4).min(x.len() - 1);
        sum += weight * x[place];
    }
    sum
}

/// A table that almost fills the memory of the parameters.
#[kernel]
fn look_up(i: Index1, at: &[u32], offset: u8, table: [[u16; 2]; 1000], scale: u16) -> u32 {
    let [low, high] = table[at[i.get()] as usize % 1000];
    u32::from(high) * u32::from(scale) + u32::from(low) + u32::from(offset)
}

/// Each launch has its own values, whenever it runs and whatever the host does with its array
/// afterwards.
#[test]
fn each_launch_has_its_own_constants() {
    for seed in 0..12 {
        Device::simulated(SimConfig::new().seed(seed), |gpu| {
            let compute = gpu.stream::<Compute<_>>().unwrap();
            let x: Vec<f32> = (0..LEN).map(|at| at as f32).collect();
            let on_device = compute.alloc_from_slice(&x).unwrap();
            let mut weights = [0.0; 9];
            let mut results = Vec::new();
            for shift in 0..9 {
                weights = [0.0; 9];
                weights[shift] = 2.0;
                let output = compute.alloc_uninit(LEN).unwrap();
                results.push(convolve(&compute, Grid1::covering(LEN), &on_device, weights, output).unwrap());
                weights.fill(f32::NAN);
            }
            assert!(weights[0].is_nan());
            for (shift, result) in results.iter().enumerate() {
                let expected: Vec<f32> = (0..LEN)
                    .map(|at| 2.0 * (at + shift).saturating_sub(4).min(LEN - 1) as f32)
                    .collect();
                assert_eq!(compute.copy_to_vec(result).unwrap(), expected, "shift {shift}");
            }
        })
        .unwrap();
    }
}

/// The array arrives whole, and the parameters before and after it too; also in a graph.
#[test]
fn large_arrays_arrive_between_other_parameters() {
    Device::simulated(SimConfig::new(), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let at: Vec<u32> = (0..LEN as u32).map(|at| at * 37 + 999).collect();
        let on_device = compute.alloc_from_slice(&at).unwrap();
        let table: [[u16; 2]; 1000] = std::array::from_fn(|at| [at as u16, 2 * at as u16]);
        let expected: Vec<u32> = at.iter().map(|at| at % 1000 * 2 * 3 + at % 1000 + 7).collect();
        let output = compute.alloc_uninit(LEN).unwrap();
        let grid = Grid1::covering(LEN);
        let found = look_up(&compute, grid, &on_device, 7, table, 3, output).unwrap();
        assert_eq!(compute.copy_to_vec(&found).unwrap(), expected);

        let zeros = compute.alloc_zeroed::<u32>(LEN).unwrap();
        let mut graph = compute
            .capture((on_device, zeros), |stream, (at, mut output)| {
                look_up(stream, grid, &at, 7, table, 3, &mut output)
            })
            .unwrap();
        graph.launch(&compute).unwrap();
        let (_, output) = graph.into_inner();
        assert_eq!(compute.copy_to_vec(&output).unwrap(), expected);
    })
    .unwrap();
}
