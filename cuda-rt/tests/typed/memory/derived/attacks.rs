//! Attacks on `#[derive(Bundle)]`, `streams!` and `devices!` by their input.
#![forbid(unsafe_code)]
#![allow(dead_code, non_camel_case_types)]

use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, DeviceBuffer, Idle, PinnedBuffer, Place};

/// Names that the macros' output must not confuse with its own.
mod shadows {
    pub(crate) struct Option;
    pub(crate) struct Vec;
    pub(crate) struct PhantomData;
    pub(crate) struct Copy;
    pub(crate) struct Place;
    pub(crate) trait Bundle {}
    pub(crate) trait StreamTag {}
    pub(crate) mod core {}
    pub(crate) mod std {}

    pub(crate) mod tags {
        #[allow(unused_imports)]
        use super::*;

        cuda_rt::streams! {
            /// This shadows names that the macro uses.
            pub(crate) S;
            pub(crate) TypeId, priority = Low;
            pub(crate) Gpu;
            pub(crate) __S;
            pub(crate) Key;
        }

        cuda_rt::devices! {
            pub(crate) Device;
            pub(crate) NamedDevice;
        }
    }
}

/// Generics with names that a macro might choose, defaults, consts, lifetimes, `where` clauses, and
/// items removed by `cfg`.
#[derive(cuda_rt::Bundle)]
struct Awkward<'v, D, S: cuda_rt::Element, const N: usize, P: Place = Idle>
where
    D: cuda_rt::Element,
{
    r#type: DeviceBuffer<D, P>,
    #[cfg(any())]
    gone: NoSuchType<P>,
    at: [PinnedBuffer<S, P>; N],
    #[bundle(plain)]
    #[bundle(plain)]
    fence: &'v str,
    r#self_: Option<(DeviceBuffer<[D; N], P>,)>,
    #[bundle(plain)]
    event: std::marker::PhantomData<fn(S) -> D>,
}

/// A nested bundle, in a tuple struct with a trailing where clause.
#[derive(cuda_rt::Bundle)]
struct Nested<P>(Vec<Awkward<'static, u8, u32, 2, P>>, #[bundle(plain)] u8)
where
    P: Place;

type Lane<D> = shadows::tags::S<D>;

type Other<D> = shadows::tags::__S<D>;

#[test]
fn attack_derive_with_names_of_its_own() {
    for seed in 0..8 {
        Device::simulated(SimConfig::default().seed(seed), |gpu| {
            let (lane, other) = (
                gpu.stream::<Lane<_>>().unwrap(),
                gpu.stream::<Other<_>>().unwrap(),
            );
            let host = |value| lane.adopt(gpu.pinned_from(&[value; 7]).unwrap()).unwrap();
            let mut buffer = lane.alloc_zeroed::<u8>(7).unwrap();
            lane.fill(&mut buffer, 3).unwrap();
            let awkward = Awkward {
                r#type: buffer,
                at: [host(1u32), host(2)],
                fence: "here",
                r#self_: None,
                event: std::marker::PhantomData,
            };
            let bundle = other
                .acquire(lane.release(Nested(vec![awkward], 9)).unwrap())
                .unwrap();
            let Nested(bundles, nine) = other.release(bundle).unwrap().synchronize().unwrap();
            assert_eq!((bundles[0].at[1][6], bundles[0].fence, nine), (2, "here", 9));
        })
        .unwrap();
    }
}
