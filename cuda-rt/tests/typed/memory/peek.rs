//! Lengths and plain fields of bundles that are pending or shared.
#![forbid(unsafe_code)]

use cuda_rt::simulator::{Call, Order, SimConfig};
use cuda_rt::{Bundle, Constant, Device, DeviceBuffer, Idle, Lease, PinnedBuffer, Place, Shared, Slot};

cuda_rt::streams! {
    Compute;
}

/// Its `Clone` must not run on a pending bundle. A copy runs no code.
#[derive(Debug, PartialEq)]
struct Shape([usize; 2]);

#[allow(clippy::non_canonical_clone_impl, reason = "it must not run")]
impl Clone for Shape {
    fn clone(&self) -> Self {
        panic!("code of a user ran")
    }
}

impl Copy for Shape {}

#[derive(Bundle)]
struct Matrix<W: Bundle, P: Place = Idle> {
    elements: DeviceBuffer<f32, P>,
    rows: Vec<PinnedBuffer<u8, P>>,
    weights: Option<Lease<W, P>>,
    #[bundle(plain)]
    shape: Shape,
}

#[test]
fn lengths_and_plain_fields_of_what_is_pending_cost_no_call() {
    Device::simulated(SimConfig::new().order(Order::Lazy), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let weights = compute.share(compute.alloc_zeroed::<u32>(5).unwrap()).unwrap();
        let pinned = |len| compute.adopt(gpu.pinned::<u8>(len).unwrap()).unwrap();
        let matrix = Matrix {
            elements: compute.alloc_zeroed::<f32>(6).unwrap(),
            rows: vec![pinned(1), pinned(2)],
            weights: Some(compute.lease(&weights).unwrap()),
            shape: Shape([2, 3]),
        };
        let pending = compute
            .release((matrix, compute.alloc_zeroed::<u8>(9).unwrap()))
            .unwrap();
        let calls = || {
            let counters = gpu.simulator().unwrap().counters();
            Call::ALL.iter().map(|call| counters.calls(*call)).sum::<u64>()
        };
        let before = calls();
        let (matrix, other) = pending.peek();
        assert_eq!(matrix.shape, Shape([2, 3]));
        assert_eq!((matrix.elements.len(), other.len()), (6, 9));
        assert_eq!(
            matrix.rows.iter().map(|row| row.len()).collect::<Vec<_>>(),
            [1, 2]
        );
        assert_eq!(matrix.weights.unwrap().len(), 5);
        assert_eq!(weights.len(), 5);
        assert!(!weights.is_empty());
        assert_eq!(calls(), before);
        let (matrix, other) = pending.split();
        assert_eq!(other.len(), 9);
        // A handoff dereferences to the same view, of which it has the address, and no elements.
        assert_eq!(
            (other.split_at(2).1.len(), other.address()),
            (7, other.peek().address())
        );
        let mut slot = Slot::from(matrix);
        assert_eq!(slot.peek().unwrap().shape, Shape([2, 3]));
        slot.host(|matrix| assert_eq!(matrix.rows[1].len(), 2)).unwrap();
        let shared = Shared::new(slot.into_handoff().unwrap().synchronize().unwrap());
        assert_eq!(shared.peek().elements[1..].len(), 5);
        assert_eq!(shared.host().unwrap().shape, Shape([2, 3]));
        let constant = Constant::new(other.synchronize().unwrap());
        assert_eq!((constant.peek().len(), constant.len()), (9, 9));
        assert_eq!(compute.adopt(constant).unwrap().peek().len(), 9);
    })
    .unwrap();
}
