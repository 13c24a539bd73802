//! A small library of tensors with a device and a stream inside. Its operations are written once,
//! for any stream, and work on streams of tags and on streams of run time.
#![forbid(unsafe_code)]

use cuda_rt::simulator::{Call, SimConfig};
use cuda_rt::{
    AnyDevice, AnyStream, Device, DeviceBuffer, DeviceSlice, Grid1, Grid2, Idle, Kept, Lasting, Live, Result,
    Stream, StreamTag,
};
use device_kernels::{block_sum, saxpy};

use super::{Compute, calls_of, stream};
use crate::devices::for_each_device;

/// The operations, on any stream. The compiler checks the order.
mod ops {
    use super::*;

    pub(super) fn add<S: StreamTag<Device: Live>>(
        s: &Stream<S>,
        a: &DeviceSlice<f32, S>,
        b: &DeviceSlice<f32, S>,
    ) -> Result<DeviceBuffer<f32, S>> {
        let out = s.alloc_uninit(a.len())?;
        Ok(device_kernels::add(s, Grid1::covering(a.len()), a, b, out)?)
    }

    pub(super) fn mul<S: StreamTag<Device: Live>>(
        s: &Stream<S>,
        a: &DeviceSlice<f32, S>,
        b: &DeviceSlice<f32, S>,
    ) -> Result<DeviceBuffer<f32, S>> {
        let out = s.alloc_uninit(a.len())?;
        Ok(device_kernels::mul(s, Grid1::covering(a.len()), a, b, out)?)
    }

    /// The product of `a`, which has `m` rows of `k`, and `b`, which has `k` rows of `n`.
    pub(super) fn matmul<S: StreamTag<Device: Live>>(
        s: &Stream<S>,
        [m, k, n]: [usize; 3],
        a: &DeviceSlice<f32, S>,
        b: &DeviceSlice<f32, S>,
    ) -> Result<DeviceBuffer<f32, S>> {
        let (out, grid) = (s.alloc_uninit(m * n)?, Grid2::covering(n, m));
        let [m, k, n] = [m, k, n].map(|side| side as u32);
        Ok(device_kernels::matmul(s, grid, a, b, m, n, k, out)?)
    }

    pub(super) fn scaled<S: StreamTag<Device: Live>>(
        s: &Stream<S>,
        factor: f32,
        a: &DeviceSlice<f32, S>,
    ) -> Result<DeviceBuffer<f32, S>> {
        let mut out = s.alloc_zeroed::<f32>(a.len())?;
        saxpy(s, Grid1::covering(a.len()), factor, a, &mut out)?;
        Ok(out)
    }

    pub(super) fn sum<S: StreamTag<Device: Live>>(
        s: &Stream<S>,
        a: &DeviceSlice<f32, S>,
    ) -> Result<DeviceBuffer<f32, S>> {
        let mut sums = s.alloc_zeroed::<f32>(a.len().div_ceil(256))?;
        block_sum(s, Grid1::covering(a.len()), a, &mut sums)?;
        Ok(sums)
    }
}

/// A tensor that knows its device and its stream.
struct Tensor {
    data: Kept<DeviceBuffer<f32, Idle<AnyDevice>>>,
    shape: [usize; 2],
}

impl Tensor {
    fn new(on: &AnyStream, shape: [usize; 2], elements: &[f32]) -> Result<Self> {
        let data = on.run(|s| s.alloc_from_slice(elements).map(|data| s.keep(data)))?;
        Ok(Self { data, shape })
    }

    /// Of what any stream has computed, also in code that is generic over the stream.
    fn of<S: Lasting<Device: Live>>(s: &Stream<S>, data: DeviceBuffer<f32, S>, shape: [usize; 2]) -> Self {
        let data = s.keep(data);
        Self { data, shape }
    }

    fn device(&self) -> AnyDevice {
        self.data.stream().device()
    }

    /// On the stream of `self`, which waits for the stream of `other` if that is another one.
    fn add(&self, other: &Self) -> Result<Self> {
        assert_eq!(self.shape, other.shape);
        let data = self.data.stream().run(|s| {
            let a = s.by_ref(&self.data)?;
            let sum = s.by_ref_ordered(&other.data, |b| ops::add(s, &a, &b))??;
            Ok::<_, cuda_rt::Error>(s.keep(sum))
        })?;
        let shape = self.shape;
        Ok(Self { data, shape })
    }

    /// Element by element, on the stream of `self`, as `add`.
    fn mul(&self, other: &Self) -> Result<Self> {
        assert_eq!(self.shape, other.shape);
        let data = self.data.stream().run(|s| {
            let a = s.by_ref(&self.data)?;
            let product = s.by_ref_ordered(&other.data, |b| ops::mul(s, &a, &b))??;
            Ok::<_, cuda_rt::Error>(s.keep(product))
        })?;
        let shape = self.shape;
        Ok(Self { data, shape })
    }

    /// The product of matrices, on the stream of `self`.
    fn matmul(&self, other: &Self) -> Result<Self> {
        let ([m, k], [rows, n]) = (self.shape, other.shape);
        assert_eq!(k, rows);
        let data = self.data.stream().run(|s| {
            let a = s.by_ref(&self.data)?;
            let product = s.by_ref_ordered(&other.data, |b| ops::matmul(s, [m, k, n], &a, &b))??;
            Ok::<_, cuda_rt::Error>(s.keep(product))
        })?;
        Ok(Self { data, shape: [m, n] })
    }

    fn scaled(&self, factor: f32) -> Result<Self> {
        let data = self.data.stream().run(|s| {
            let out = ops::scaled(s, factor, &s.by_ref(&self.data)?)?;
            Ok::<_, cuda_rt::Error>(s.keep(out))
        })?;
        let shape = self.shape;
        Ok(Self { data, shape })
    }

    /// `self += factor * other`, in place.
    fn axpy(&mut self, factor: f32, other: &Self) -> Result<()> {
        assert_eq!(self.shape, other.shape);
        let stream = self.data.stream().clone();
        stream.run(|s| {
            let mut y = s.view(&mut self.data)?;
            s.by_ref_ordered(&other.data, |x| {
                saxpy(s, Grid1::covering(y.len()), factor, &x, &mut y)
            })?
        })
    }

    fn sum(&self) -> Result<f32> {
        let stream = self.data.stream();
        let sums = stream.run(|s| s.copy_to_vec(&ops::sum(s, &s.by_ref(&self.data)?)?))?;
        Ok(sums.iter().sum())
    }

    /// Moves the tensor to another stream of its device, ordered.
    fn to(self, stream: &AnyStream) -> Result<Self> {
        let data = stream.run(|s| Ok::<_, cuda_rt::Error>(s.keep(s.open_ordered(self.data)?)))?;
        Ok(Self { data, ..self })
    }

    fn to_vec(&self) -> Result<Vec<f32>> {
        self.data.stream().run(|s| s.copy_to_vec(&s.by_ref(&self.data)?))
    }
}

const SHAPE: [usize; 2] = [30, 20];

fn tensor(on: &AnyStream, value: f32) -> Tensor {
    Tensor::new(on, SHAPE, &[value; 600]).unwrap()
}

#[test]
fn tensors_of_two_streams_are_added_in_order() {
    for_each_device(|gpu| {
        let (one, two) = (stream(gpu, "one"), stream(gpu, "two"));
        let (a, mut b) = (tensor(&one, 1.0), tensor(&two, 2.0));
        for round in 0..4 {
            let sum = a.add(&b).unwrap();
            assert_eq!(sum.data.stream(), &one);
            // Behind the read of `one`.
            b.axpy(1.0, &a).unwrap();
            assert_eq!(sum.to_vec().unwrap(), [3.0 + round as f32; 600]);
        }
        assert_eq!(b.to_vec().unwrap(), [6.0; 600]);
        let b = b.scaled(0.5).unwrap().to(&one).unwrap();
        assert_eq!(b.sum().unwrap(), 1800.0);
        assert_eq!(b.device(), AnyDevice::from(gpu));
        assert_eq!(b.shape, SHAPE);
    });
}

/// A layer of a network on two streams: `(input · weights) * mask + bias`, against plain loops.
#[test]
fn tensors_of_two_streams_are_multiplied_as_the_host_does() {
    const M: usize = 30;
    const K: usize = 37;
    const N: usize = 20;
    for_each_device(|gpu| {
        let (one, two) = (stream(gpu, "one"), stream(gpu, "two"));
        let values = |count: usize, step: usize| -> Vec<f32> {
            (0..count).map(|at| (at * step % 17) as f32 - 8.0).collect()
        };
        let (input, weights) = (values(M * K, 5), values(K * N, 3));
        let (mask, bias) = (values(M * N, 7), values(M * N, 11));
        let product = |at: usize| -> f32 {
            (0..K)
                .map(|k| input[at / N * K + k] * weights[k * N + at % N])
                .sum()
        };
        let expected: Vec<f32> = (0..M * N).map(|at| product(at) * mask[at] + bias[at]).collect();

        let input = Tensor::new(&one, [M, K], &input).unwrap();
        let weights = Tensor::new(&two, [K, N], &weights).unwrap();
        let mask = Tensor::new(&one, [M, N], &mask).unwrap();
        let bias = Tensor::new(&two, [M, N], &bias).unwrap();
        for _ in 0..4 {
            let product = input.matmul(&weights).unwrap();
            assert_eq!((product.data.stream(), product.shape), (&one, [M, N]));
            let output = bias.add(&product.mul(&mask).unwrap()).unwrap();
            assert_eq!(output.data.stream(), &two);
            // Whole numbers below 2^24: each sum is exact, in whatever order.
            assert_eq!(output.to_vec().unwrap(), expected);
        }
    });
}

/// Both kinds of streams in one program: a tag's stream as a value, and a typed function beside it.
#[test]
fn tensors_of_a_static_stream_and_typed_buffers_use_the_same_operations() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let tensor = tensor(&compute.to_any(), 4.0).scaled(2.0).unwrap();
        let typed = compute.alloc_from_slice(&[1.0; 600]).unwrap();
        let sum = ops::add(&compute, &compute.by_ref(&tensor.data).unwrap(), &typed).unwrap();
        assert_eq!(compute.copy_to_vec(&sum).unwrap(), [9.0; 600]);
        let back = Tensor::of(&compute, sum, SHAPE);
        assert_eq!(back.add(&tensor).unwrap().to_vec().unwrap(), [17.0; 600]);
    });
}

/// On one stream an operation makes the calls of its kernel and memory, and records no event.
#[test]
fn operations_on_tensors_of_one_stream_record_no_event() {
    Device::simulated(SimConfig::new(), |gpu| {
        let one = stream(&gpu, "one");
        let (a, b) = (tensor(&one, 1.0), tensor(&one, 2.0));
        // Blocks for the results.
        drop([(); 2].map(|()| tensor(&one, 0.0)));
        let made = calls_of(&gpu, || {
            for _ in 0..10 {
                drop(a.add(&b).unwrap());
            }
        });
        assert_eq!(made, [(Call::Launch, 10)]);
        let b = Tensor::new(&one, [20, 30], &[2.0; 600]).unwrap();
        drop([(); 2].map(|()| a.matmul(&b).unwrap()));
        let made = calls_of(&gpu, || {
            for _ in 0..10 {
                let product = a.matmul(&b).unwrap();
                drop(product.mul(&product).unwrap());
            }
        });
        assert_eq!(made, [(Call::Launch, 20)]);
    })
    .unwrap();
}
