// H12 (E0038): the object of a promise would keep it of itself, as `dyn WriteBy<S>` would implement
// `WriteBy<S>`.
// Twin: h12_swap_owners
#![forbid(unsafe_code)]
use cuda_rt::{OutOfPlace, Devices, Gpu, Handoffs, InPlace, Place, SameAs, WriteBy};
use device_std::ThreadToken;

cuda_rt::streams! {
    Compute;
}

fn writes(_: &dyn WriteBy<Compute>) {}
fn is_a_place(_: &dyn Place) {}
fn is_of_a_device(_: &dyn SameAs<Gpu<1>>) {}
fn is_joined(_: &dyn Handoffs) {}
fn takes_part(_: &dyn Devices) {}
fn is_in_place(_: &dyn InPlace<f32, (Gpu<1>,)>) {}
fn is_apart(_: &dyn OutOfPlace<f32, (Gpu<1>,)>) {}
fn is_a_thread(_: &dyn ThreadToken) {}

fn main() {}
