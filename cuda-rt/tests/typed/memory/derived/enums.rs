//! Enums that derive `Bundle`: each variant moves with its own parts.

use cuda_rt::simulator::SimConfig;
use cuda_rt::{
    Bundle, Device, DeviceBuffer, DeviceTag, Idle, Live, PinnedBuffer, Place, Slot, Stream, StreamTag,
};

use super::{Compute, Download};
use crate::devices::for_each_device;

/// The forms of a decoded frame, with names that the derive's output must not confuse with its own.
#[derive(Bundle)]
#[allow(non_camel_case_types)]
enum Frame<P: Place = Idle> {
    Nv12(DeviceBuffer<u8, P>, #[bundle(plain)] [usize; 2]),
    Rgb {
        r#type: DeviceBuffer<u8, P>,
        host: Option<PinnedBuffer<u8, P>>,
        #[bundle(plain)]
        width: usize,
    },
    #[cfg(any())]
    Gone(NoSuchType),
    Empty,
    Nothing {},
    r#match(Vec<DeviceBuffer<u8, P>>),
}

/// Discriminants, a representation, parameters and bounds; a struct around an enum.
#[derive(Bundle)]
#[repr(u8)]
#[allow(dead_code, non_camel_case_types)]
enum Awkward<'v, T: cuda_rt::Element, D, const N: usize, P>
where
    P: Place,
    D: cuda_rt::Element,
{
    __S(DeviceBuffer<T, P>) = 3,
    __D {
        some: [DeviceBuffer<D, P>; N],
        #[bundle(plain)]
        none: &'v str,
    } = 1,
    Option = 7,
}

#[derive(Bundle)]
struct Nested<P: Place = Idle>(Awkward<'static, u8, u32, 2, P>, Option<Frame<P>>);

fn frames<S: StreamTag>(stream: &Stream<S>, gpu: &Device<S::Device>) -> [Frame<S>; 5]
where
    S::Device: Live,
{
    let filled = |value| {
        let mut buffer = stream.alloc_zeroed::<u8>(12).unwrap();
        stream.fill(&mut buffer, value).unwrap();
        buffer
    };
    [
        Frame::Nv12(filled(1), [4, 2]),
        Frame::Rgb {
            r#type: filled(2),
            host: Some(stream.adopt(gpu.pinned(12).unwrap()).unwrap()),
            width: 4,
        },
        Frame::Empty,
        Frame::Nothing {},
        Frame::r#match(vec![filled(3), filled(4)]),
    ]
}

/// The first element of each buffer, or 0 if there is no buffer.
fn firsts<S: StreamTag<Device = D>, D: Live + DeviceTag>(stream: &Stream<S>, frame: &Frame<S>) -> Vec<u8> {
    let first = |buffer: &DeviceBuffer<u8, S>| stream.copy_to_vec(buffer).unwrap()[0];
    match frame {
        Frame::Nv12(buffer, [4, 2]) => vec![first(buffer)],
        Frame::Rgb {
            r#type,
            host: Some(host),
            width: 4,
        } => vec![first(r#type), host.len() as u8],
        Frame::Empty => vec![],
        Frame::Nothing {} => vec![0],
        Frame::r#match(buffers) => buffers.iter().map(first).collect(),
        _ => panic!("a variant lost its plain fields"),
    }
}

#[test]
fn each_variant_moves_with_its_parts_and_its_plain_fields() {
    for_each_device(|gpu| {
        let (compute, download) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        let moved = frames(&compute, gpu).map(|frame| {
            let frame = download.acquire(compute.release(frame).unwrap()).unwrap();
            firsts(&download, &frame)
        });
        assert_eq!(moved, [vec![1], vec![2, 12], vec![], vec![0], vec![3, 4]]);
    });
}

#[test]
fn the_variant_of_what_is_pending_is_known() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let [nv12, rgb, empty, ..] = frames(&compute, gpu);
        let nv12 = compute.release(nv12).unwrap();
        assert!(matches!(nv12.peek(), FrameRef::Nv12(view, [4, 2]) if view.len() == 12));
        let rgb = compute.release(rgb).unwrap();
        assert!(matches!(rgb.peek(), FrameRef::Rgb { r#type, width: 4, .. } if r#type.len() == 12));
        assert!(matches!(compute.release(empty).unwrap().peek(), FrameRef::Empty));
        drop((nv12, rgb));
    });
}

#[test]
fn a_slot_may_change_the_variant_and_a_graph_writes_a_view_of_one() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut slot = Slot::new(Frame::Empty);
        slot.on(&compute, |frame| {
            assert!(firsts(&compute, frame).is_empty());
            let [nv12, ..] = frames(&compute, gpu);
            *frame = nv12;
        })
        .unwrap();
        let frame = compute.acquire(slot.into_handoff().unwrap()).unwrap();
        let mut graph = compute
            .capture(frame, |stream, frame| match frame {
                FrameView::Nv12(mut buffer, _) => stream.fill(&mut buffer, 9),
                _ => panic!("another variant"),
            })
            .unwrap();
        graph.launch(&compute).unwrap();
        assert_eq!(firsts(&compute, &graph.into_inner()), [9]);
    });
}

#[test]
fn attack_derive_for_an_enum_with_names_of_its_own() {
    for seed in 0..8 {
        Device::simulated(SimConfig::default().seed(seed), |gpu| {
            let (compute, download) = (
                gpu.stream::<Compute<_>>().unwrap(),
                gpu.stream::<Download<_>>().unwrap(),
            );
            let word = || compute.alloc_zeroed::<u32>(3).unwrap();
            let awkward = Awkward::__D {
                some: [word(), word()],
                none: "here",
            };
            let [frame, ..] = frames(&compute, &gpu);
            let nested = compute.release(Nested(awkward, Some(frame))).unwrap();
            let NestedRef(peeked, _) = nested.peek();
            assert!(matches!(peeked, AwkwardRef::__D { none: "here", .. }));
            let Nested(awkward, frame) = download.acquire(nested).unwrap();
            assert!(matches!(awkward, Awkward::__D { none: "here", some } if some[1].len() == 3));
            assert_eq!(firsts(&download, &frame.unwrap()), [1]);
        })
        .unwrap();
    }
}
