//! Elementwise kernels, with one thread for each element, or one for four. Threads beyond the end
//! of the output do nothing. A kernel traps if an input is shorter than the output. A grid smaller
//! than the output is no error for the kernels with a `PerThread` output: they leave the elements
//! behind the grid as they were. `add` and `mul` return their element, so a launch refuses such a
//! grid.
//!
//! A thread with four elements moves them in one load and one store of 16 bytes, which comes nearer
//! to the memory's bandwidth. The grid is then `Grid1::covering(len.div_ceil(4))`. Buffers are
//! aligned for 16 bytes. A slice may start at an element that is not a multiple of four; its kernel
//! runs at the speed of one element in each thread.

use device_std::prelude::*;

/// `output[i] = input[i] * factor`. The grid covers the output's length.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::Grid1;
/// use device_kernels::scale;
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let input = compute.alloc_from_slice(&[1.0, 2.0, 3.0])?;
/// let mut output = compute.alloc_zeroed(3)?;
/// scale(&compute, Grid1::covering(3), &input, &mut output, 2.0)?;
/// assert_eq!(compute.copy_to_vec(&output)?, [2.0, 4.0, 6.0]);
/// println!("{:?}", gpu.suggested_block::<device_kernels::Scale>()?); // the kernel's handle
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[kernel(handle = Scale)]
pub fn scale(i: Index1, input: &[f32], mut output: PerThread<f32>, factor: f32) {
    if let Some(out) = output.get_mut(i) {
        *out = input[i.get()] * factor;
    }
}

/// `y[i] = a * x[i] + y[i]`, rounded once: BLAS' `saxpy`. The grid covers the length of `y`.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::Grid1;
/// use device_kernels::saxpy;
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let x = compute.alloc_from_slice(&[1.0, 2.0])?;
/// let mut y = compute.alloc_from_slice(&[10.0, 20.0])?;
/// saxpy(&compute, Grid1::covering(2), 3.0, &x, &mut y)?;
/// assert_eq!(compute.copy_to_vec(&y)?, [13.0, 26.0]);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[kernel]
pub fn saxpy(i: Index1, a: f32, x: &[f32], mut y: PerThread<f32>) {
    if let Some(y) = y.get_mut(i) {
        *y = a.mul_add(x[i.get()], *y);
    }
}

/// Returns `left[i] + right[i]`: joins the results of two streams. The sum may be memory that
/// nothing wrote before (`alloc_uninit`). The grid covers the sum's length.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::Grid1;
/// use device_kernels::add;
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let left = compute.alloc_from_slice(&[1.0, 2.0])?;
/// let right = compute.alloc_from_slice(&[10.0, 20.0])?;
/// let sum = add(&compute, Grid1::covering(2), &left, &right, compute.alloc_uninit(2)?)?;
/// assert_eq!(compute.copy_to_vec(&sum)?, [11.0, 22.0]);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[kernel]
pub fn add(i: Index1, left: &[f32], right: &[f32]) -> f32 {
    left[i.get()] + right[i.get()]
}

/// Returns `left[i] * right[i]`. The product may be memory that nothing wrote before
/// (`alloc_uninit`). The grid covers the product's length.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::Grid1;
/// use device_kernels::mul;
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let left = compute.alloc_from_slice(&[1.0, 2.0])?;
/// let right = compute.alloc_from_slice(&[10.0, 20.0])?;
/// let product = mul(&compute, Grid1::covering(2), &left, &right, compute.alloc_uninit(2)?)?;
/// assert_eq!(compute.copy_to_vec(&product)?, [10.0, 40.0]);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[kernel]
pub fn mul(i: Index1, left: &[f32], right: &[f32]) -> f32 {
    left[i.get()] * right[i.get()]
}

/// Multiply-adds of [`process`] for each element.
const STEPS: usize = 16;

/// Sixteen dependent multiply-adds for each element, `v = v * gain + offset`. It stands for work
/// that takes about as long as copying its data, as in the stream examples of NVIDIA's programming
/// guide. The grid covers the output's length.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::Grid1;
/// use device_kernels::process;
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let input = compute.alloc_from_slice(&[0.0, 1.0])?;
/// let mut output = compute.alloc_zeroed(2)?;
/// process(&compute, Grid1::covering(2), &input, &mut output, 1.0, 0.5)?;
/// assert_eq!(compute.copy_to_vec(&output)?, [8.0, 9.0]); // 16 times half
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[kernel]
pub fn process(i: Index1, input: &[f32], mut output: PerThread<f32>, gain: f32, offset: f32) {
    if let Some(out) = output.get_mut(i) {
        let mut value = input[i.get()];
        for _ in 0..STEPS {
            value = value.mul_add(gain, offset);
        }
        *out = value;
    }
}

/// Square roots by Newton's method: `v = (v + x / v) / 2`, `steps` times, from `v = 1`. Each step
/// waits for the step before, so `steps` decides how long the kernel runs, even for few elements.
/// Inputs are greater than 0. The grid covers the output's length.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::Grid1;
/// use device_kernels::roots;
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let input = compute.alloc_from_slice(&[4.0, 9.0])?;
/// let mut output = compute.alloc_zeroed(2)?;
/// roots(&compute, Grid1::covering(2), &input, &mut output, 20)?;
/// assert_eq!(compute.copy_to_vec(&output)?, [2.0, 3.0]);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[kernel]
pub fn roots(i: Index1, input: &[f32], mut output: PerThread<f32>, steps: u32) {
    if let Some(out) = output.get_mut(i) {
        let x = input[i.get()];
        let mut value = 1.0;
        for _ in 0..steps {
            value = 0.5 * (value + x / value);
        }
        *out = value;
    }
}

/// `output[i] = input[i] * factor`, four elements in each thread: the grid covers a quarter of the
/// output's length, rounded up.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::Grid1;
/// use device_kernels::scale4;
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let input = compute.alloc_from_slice(&[1.0; 10])?;
/// let mut output = compute.alloc_zeroed(10)?;
/// scale4(&compute, Grid1::covering(10_usize.div_ceil(4)), &input, &mut output, 2.0)?;
/// assert_eq!(compute.copy_to_vec(&output)?, [2.0; 10]);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[kernel]
pub fn scale4(i: Index1, input: &[f32], output: PerThreadChunk<f32, 4>, factor: f32) {
    assert!(input.len() >= output.len(), "an input is shorter than the output");
    output.set(i, input.chunk_or(i.get(), 0.0).map(|value: f32| value * factor));
}

/// `sum[i] = left[i] + right[i]`, four elements in each thread: the grid covers a quarter of the
/// sum's length, rounded up.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::Grid1;
/// use device_kernels::add4;
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let left = compute.alloc_from_slice(&[1.0; 8])?;
/// let right = compute.alloc_from_slice(&[2.0; 8])?;
/// let mut sum = compute.alloc_zeroed(8)?;
/// add4(&compute, Grid1::covering(2), &left, &right, &mut sum)?;
/// assert_eq!(compute.copy_to_vec(&sum)?, [3.0; 8]);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[kernel]
pub fn add4(i: Index1, left: &[f32], right: &[f32], sum: PerThreadChunk<f32, 4>) {
    assert!(
        left.len() >= sum.len() && right.len() >= sum.len(),
        "an input is shorter than the output"
    );
    let (left, right): ([f32; 4], [f32; 4]) = (left.chunk_or(i.get(), 0.0), right.chunk_or(i.get(), 0.0));
    sum.set(i, core::array::from_fn(|k| left[k] + right[k]));
}

/// `y[i] = a * x[i] + y[i]`, rounded once, four elements in each thread: the grid covers a quarter
/// of the length of `y`, rounded up.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::Grid1;
/// use device_kernels::saxpy4;
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let x = compute.alloc_from_slice(&[1.0; 8])?;
/// let mut y = compute.alloc_from_slice(&[10.0; 8])?;
/// saxpy4(&compute, Grid1::covering(2), 3.0, &x, &mut y)?;
/// assert_eq!(compute.copy_to_vec(&y)?, [13.0; 8]);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[kernel]
pub fn saxpy4(i: Index1, a: f32, x: &[f32], y: PerThreadChunk<f32, 4>) {
    assert!(x.len() >= y.len(), "an input is shorter than the output");
    let (x, before): ([f32; 4], [f32; 4]) = (x.chunk_or(i.get(), 0.0), y.get_or(i, 0.0));
    y.set(i, core::array::from_fn(|k| a.mul_add(x[k], before[k])));
}

/// As [`process`], four elements in each thread: the grid covers a quarter of the output's length,
/// rounded up.
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use cuda_rt::Grid1;
/// use device_kernels::process4;
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let input = compute.alloc_from_slice(&[1.0; 8])?;
/// let mut output = compute.alloc_zeroed(8)?;
/// process4(&compute, Grid1::covering(2), &input, &mut output, 1.0, 0.5)?;
/// assert_eq!(compute.copy_to_vec(&output)?, [9.0; 8]);
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[kernel]
pub fn process4(i: Index1, input: &[f32], output: PerThreadChunk<f32, 4>, gain: f32, offset: f32) {
    assert!(input.len() >= output.len(), "an input is shorter than the output");
    let mut values: [f32; 4] = input.chunk_or(i.get(), 0.0);
    for _ in 0..STEPS {
        values = values.map(|value| value.mul_add(gain, offset));
    }
    output.set(i, values);
}
