// H11 (E0499): two `&mut` views of one part, by the method behind `view[range]`.
// Twin: h11_overlapping_views
// Through a bound: cuda_rt_runtime::RangeIndex
#![forbid(unsafe_code)]
use cuda_rt::{DeviceSlice, RangeIndex};

fn twice<I: RangeIndex, S>(view: &mut DeviceSlice<f32, S>, range: I) {
    println!("{:?}", range.within(view.len()));
    let _all = I::part(view);
    let first = I::part_mut(view);
    let second = I::part_mut(view);
    drop((first, second));
}

fn main() {}
