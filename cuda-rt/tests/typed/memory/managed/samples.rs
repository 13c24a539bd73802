//! NVIDIA's sample `UnifiedMemoryStreams`: tasks of different sizes on managed memory. Small tasks
//! run on the host, large ones on streams of a pool, at the same time.
#![forbid(unsafe_code)]

use cuda_rt::driver::Location;
use cuda_rt::{Device, Grid1, Idle, Live, ManagedBuffer, Result};
use device_kernels::saxpy;

use super::has_managed;
use crate::devices::for_each_device;

/// A task: `result += factor * data`.
struct Task<D: Live> {
    factor: f32,
    data: ManagedBuffer<f32, Idle<D>>,
    result: ManagedBuffer<f32, Idle<D>>,
}

impl<D: Live> Task<D> {
    fn new(gpu: &Device<D>, number: usize) -> Result<Self> {
        let len = 64 + number * 97 % 1500;
        Ok(Self {
            factor: number as f32,
            data: gpu.managed_uninit(len)?.init_with(|at| at as f32)?,
            result: gpu.managed_from(&vec![1.0; len])?,
        })
    }

    fn check(&self) -> Result<()> {
        self.result.host(|result| {
            for (at, value) in result.iter().enumerate() {
                assert_eq!(*value, self.factor * at as f32 + 1.0);
            }
        })
    }
}

#[test]
fn unified_memory_streams() {
    for_each_device(|gpu| {
        if has_managed(gpu) {
            run(gpu).unwrap();
        }
    });
}

fn run<D: Live>(gpu: &Device<D>) -> Result<()> {
    let pool = gpu.stream_pool(4)?;
    let (mut done, mut pending) = (Vec::new(), Vec::new());
    for number in 0..24 {
        let mut task = Task::new(gpu, number)?;
        if task.data.len() < 400 {
            let (factor, data) = (task.factor, &task.data);
            // The host works on this task while streams work on others.
            task.result.host_mut(|result| {
                data.host(|data| {
                    for (result, value) in result.iter_mut().zip(data) {
                        *result += factor * value;
                    }
                })
            })??;
            done.push(task);
            continue;
        }
        let Task { factor, data, result } = task;
        let handoff = pool.with(|stream| {
            let (data, mut result) = stream.adopt((data, result))?;
            stream.prefetch(&data, .., Location::Device)?;
            let grid = Grid1::covering(result.len());
            saxpy(stream, grid, factor, &data, &mut result)?;
            stream.prefetch(&result, .., Location::Host)?;
            stream.release((data, result))
        })?;
        pending.push((factor, handoff));
    }
    assert!(!done.is_empty() && !pending.is_empty());
    for (factor, handoff) in pending {
        let (data, result) = handoff.synchronize()?;
        done.push(Task { factor, data, result });
    }
    done.iter().try_for_each(Task::check)
}
