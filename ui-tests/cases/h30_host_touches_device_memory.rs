// H30 (E0277, E0308): the host reads and writes device memory, by every method and operator.
// Twin: h13_read_before_download_is_done
// Table: device memory
#![forbid(unsafe_code)]
use cuda_rt::{DeviceBuffer, DeviceSlice};

cuda_rt::streams! {
    Compute;
}

fn sum(values: &[f32]) -> f32 {
    values.iter().sum()
}

fn total(values: impl AsRef<[f32]>) -> f32 {
    sum(values.as_ref())
}

fn owned(data: &mut DeviceBuffer<f32, Compute>) {
    let _ = data[0];
    data[0] = 1.0;
    let _ = data.iter().count();
    let _ = data.to_vec();
    data.fill(1.0);
    data.copy_from_slice(&[1.0, 2.0]);
    data.sort_unstable_by(f32::total_cmp);
    let _ = *data == [1.0, 2.0];
    for _ in &*data {}
    total(&*data);
    sum(data); // Why not: a mismatch of types has no note of this project.
}

fn idle(data: DeviceBuffer<f32>) {
    let _ = data[0];
    let _ = data.iter().count();
    let _ = data.to_vec();
    let _ = data == [1.0, 2.0];
    sum(&data); // Why not: a mismatch of types has no note of this project.
    for _ in data {}
}

fn slices(data: &DeviceSlice<f32, Compute>) {
    let _ = data[..4].first();
    let _ = data[..4] == [1.0, 2.0];
    for _ in data {}
}

fn main() {}
