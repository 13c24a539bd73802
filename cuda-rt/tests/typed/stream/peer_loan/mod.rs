//! Memory of one device that kernels, copies and fills of another device reach in place.
#![forbid(unsafe_code)]

mod attacks;
mod faults;

use cuda_rt::driver::{ErrorCode, PeerAccess};
use cuda_rt::simulator::SimConfig;
use cuda_rt::{
    Constant, Device, DeviceBuffer, Grid1, Handoff, Idle, Live, PeerBuffer, Result, Scoped, Shared, Stream,
};
use device_kernels::{add, scale};

use crate::pairs::for_each_pair;

cuda_rt::streams! {
    Compute;
    Other;
}

const LEN: usize = 515;
const GRID: fn(usize) -> Grid1 = Grid1::covering;

/// The loan of a buffer of `T`, from the device `E` to the stream `Compute` of `D`.
type Lent<T, E, D> = PeerBuffer<T, E, Compute<D>>;

/// Whether the devices have a link. If not, a loan must be refused, and give the memory back.
fn has_link<D: Live, E: Live>(here: &Device<D>, there: &Device<E>) -> bool {
    if here.peer_access(there).unwrap() == PeerAccess::Direct {
        return true;
    }
    let (compute, owner) = compute_and_owner(here, there);
    let theirs = filled(&owner, 7.0).unwrap();
    let refused = compute.try_acquire_peer(theirs).unwrap_err();
    let code = refused.error.driver().unwrap().code();
    assert_eq!(code, ErrorCode::NOT_SUPPORTED, "{}", refused.error);
    assert!(
        refused.error.to_string().contains("copy_from_peer"),
        "{}",
        refused.error
    );
    let theirs = owner.acquire(refused.value).unwrap();
    assert_eq!(owner.copy_to_vec(&theirs).unwrap(), [7.0; LEN]);
    drop(compute.acquire_peer(owner.release(theirs).unwrap()).unwrap_err());
    false
}

/// Runs `body` on the pairs of devices that have a link.
fn for_each_linked_pair(body: impl for<'a, 'b> Fn(&Device<Scoped<'a>>, &Device<Scoped<'b>>)) {
    for_each_pair(|here, there| {
        if has_link(here, there) {
            body(here, there);
        }
    });
}

/// The stream that borrows, and the stream of the memory of the other device.
fn compute_and_owner<D: Live, E: Live>(
    here: &Device<D>,
    there: &Device<E>,
) -> (Stream<Compute<D>>, Stream<Compute<E>>) {
    (
        here.stream::<Compute<_>>().unwrap(),
        there.stream::<Compute<_>>().unwrap(),
    )
}

/// A handoff of a buffer that its stream filled.
fn filled<D: Live>(stream: &Stream<Compute<D>>, value: f32) -> Result<Handoff<DeviceBuffer<f32, Idle<D>>>> {
    let buffer = stream.init_filled(stream.alloc_uninit(LEN)?, value)?;
    stream.release(buffer)
}

/// NVIDIA's sample `simpleP2P`: a kernel of each device reads the other's memory, and writes its
/// own.
#[test]
fn simple_p2p() {
    for_each_linked_pair(|first, second| {
        let (on_first, on_second) = compute_and_owner(first, second);
        let numbers: Vec<f32> = (0..LEN).map(|at| (at % 4096) as f32).collect();
        let on_0 = on_first.alloc_from_slice(&numbers).unwrap();

        // The second device reads the first device's memory, and writes its own.
        let input = on_second.acquire_peer(on_first.release(on_0).unwrap()).unwrap();
        let mut on_1 = on_second.alloc_zeroed::<f32>(LEN).unwrap();
        scale(&on_second, GRID(LEN), &input, &mut on_1, 2.0).unwrap();
        let on_0 = on_second.release(input).unwrap().for_its_device();

        // And the other way round.
        let input = on_first.acquire_peer(on_second.release(on_1).unwrap()).unwrap();
        let mut on_0 = on_first.acquire(on_0).unwrap();
        scale(&on_first, GRID(LEN), &input, &mut on_0, 2.0).unwrap();

        let result = on_first.copy_to_vec(&on_0).unwrap();
        let expected: Vec<f32> = numbers.iter().map(|at| at * 4.0).collect();
        assert_eq!(result, expected);
    });
}

/// The owner writes as soon as it has the memory back, and the borrower as soon as it has it.
/// Without a wait, both would be too early.
#[test]
fn h37_a_loan_is_ordered_on_both_sides() {
    for_each_linked_pair(|here, there| {
        let (compute, owner) = compute_and_owner(here, there);
        let one = compute.alloc_from_slice(&[1.0; LEN]).unwrap();
        let mut theirs = filled(&owner, 0.0).unwrap();
        let mut seen = Vec::new();
        for round in 0..4 {
            let mut lent: Lent<_, _, _> = compute.acquire_peer(theirs).unwrap();
            let before = compute.alloc_uninit(LEN).unwrap();
            seen.push(add(&compute, GRID(LEN), &lent, &one, before).unwrap());
            compute.fill(&mut lent[..10], 100.0 + round as f32).unwrap();
            let back = compute.release(lent).unwrap().for_its_device();
            let mut back = owner.acquire(back).unwrap();
            owner.fill(&mut back[10..], 10.0 * (round + 1) as f32).unwrap();
            theirs = owner.release(back).unwrap();
        }
        for (round, seen) in seen.iter().enumerate() {
            let seen = compute.copy_to_vec(seen).unwrap();
            let first = if round == 0 { 1.0 } else { 100.0 + round as f32 };
            assert_eq!((seen[0], seen[9]), (first, first), "round {round}");
            assert_eq!(seen[10..], [10.0 * round as f32 + 1.0; LEN - 10], "round {round}");
        }
        assert!(here.races().is_empty());
    });
}

/// All that takes device memory takes memory on loan: copies both ways, fills, loans to a third
/// stream, bundles, leases, graphs.
#[test]
fn everything_that_takes_device_memory_takes_memory_on_loan() {
    for_each_linked_pair(|here, there| {
        let (compute, other) = (
            here.stream::<Compute<_>>().unwrap(),
            here.stream::<Other<_>>().unwrap(),
        );
        let owner = there.stream::<Compute<_>>().unwrap();
        let mut lent = compute.acquire_peer(filled(&owner, 1.0).unwrap()).unwrap();
        assert!(format!("{lent:?}").contains("515 elements"));
        let mut ours = compute.alloc_zeroed::<f32>(LEN).unwrap();
        compute.copy(&lent, &mut ours).unwrap();
        compute.fill(&mut ours[..1], 2.0).unwrap();
        compute.copy(&ours, &mut lent).unwrap();
        assert_eq!(compute.copy_to_vec(&lent[..2]).unwrap(), [2.0, 1.0]);
        compute
            .lend(&other, &mut lent, |view| other.fill(&mut view[5..6], 3.0))
            .unwrap()
            .unwrap();
        compute
            .lend_all(&other, (&lent, &mut ours), |(lent, mut ours)| {
                other.copy(&lent, &mut ours)
            })
            .unwrap()
            .unwrap();
        assert_eq!(compute.copy_to_vec(&ours[4..7]).unwrap(), [1.0, 3.0, 1.0]);

        // In a tuple to another stream of this device, and into a graph there.
        let (lent, ours) = other.acquire(compute.release((lent, ours)).unwrap()).unwrap();
        let mut graph = other
            .capture((lent, ours), |stream, (mut lent, ours)| {
                scale(stream, GRID(LEN), &ours, &mut lent, 10.0)
            })
            .unwrap();
        graph.launch(&other).unwrap();
        let (lent, _) = graph.into_inner();

        // Read by two streams of this device at once.
        let shared = Shared::new(other.release(lent).unwrap().synchronize().unwrap());
        let (one, two) = (compute.lease(&shared).unwrap(), other.lease(&shared).unwrap());
        assert_eq!(compute.copy_to_vec(&one.view()[5..6]).unwrap(), [30.0]);
        assert_eq!(other.copy_to_vec(&two.view()[..1]).unwrap(), [20.0]);
        drop((one, two));
        let theirs = shared.reclaim().expect("no lease is out").for_its_device();
        let theirs = owner.acquire(theirs).unwrap();
        assert_eq!(owner.copy_to_vec(&theirs[4..6]).unwrap(), [10.0, 30.0]);

        // Idle on this device, and idle on its own.
        let lent = compute.acquire_peer(owner.release(theirs).unwrap()).unwrap();
        let idle = compute.release(lent).unwrap().synchronize().unwrap();
        let mut again = other.adopt(idle).unwrap();
        other.fill(&mut again, 4.0).unwrap();
        let idle = other.release(again).unwrap().synchronize().unwrap();
        let theirs: DeviceBuffer<f32, Idle<_>> = idle.for_its_device();
        let theirs = owner.adopt(theirs).unwrap();
        assert_eq!(owner.copy_to_vec(&theirs).unwrap(), [4.0; LEN]);
        let constant = Constant::new(
            compute
                .release(compute.acquire_peer(owner.release(theirs).unwrap()).unwrap())
                .unwrap()
                .synchronize()
                .unwrap(),
        );
        let constant = other.adopt(constant).unwrap();
        assert_eq!(other.copy_to_vec(&constant.view()[..3]).unwrap(), [4.0; 3]);
    });
}

/// Two parts of one block: one stays with its own device, the other is on loan.
#[test]
fn a_part_of_a_block_is_lent() {
    for_each_linked_pair(|here, there| {
        let (compute, owner) = compute_and_owner(here, there);
        let mut whole = owner.alloc_zeroed::<u32>(LEN).unwrap();
        let rest = whole.split_off(100);
        let mut lent = compute.acquire_peer(owner.release(rest).unwrap()).unwrap();
        compute.fill(&mut lent, 5).unwrap();
        owner.fill(&mut whole, 4).unwrap();
        let rest = owner
            .acquire(compute.release(lent).unwrap().for_its_device())
            .unwrap();
        let whole = whole.join(rest).unwrap();
        let whole = owner.copy_to_vec(&whole).unwrap();
        assert_eq!(whole[..100], [4; 100]);
        assert_eq!(whole[100..], [5; LEN - 100]);
    });
}

/// Memory with no bytes, and memory of a device that is simulated apart.
#[test]
fn loans_of_nothing_and_of_strangers() {
    for_each_linked_pair(|here, there| {
        let (compute, owner) = compute_and_owner(here, there);
        let none = owner.release(owner.alloc_zeroed::<u32>(0).unwrap()).unwrap();
        let mut none = compute.acquire_peer(none).unwrap();
        compute.fill(&mut none, 1).unwrap();
        assert!(compute.copy_to_vec(&none).unwrap().is_empty());
        drop(compute.release(none).unwrap().for_its_device());
    });
    Device::simulated(SimConfig::new(), |first| {
        Device::simulated(SimConfig::new(), |second| {
            let (compute, owner) = compute_and_owner(&first, &second);
            let theirs = filled(&owner, 1.0).unwrap();
            let refused = compute.try_acquire_peer(theirs).unwrap_err();
            let code = refused.error.driver().unwrap().code();
            assert_eq!(code, ErrorCode::INVALID_DEVICE, "{}", refused.error);
        })
        .unwrap();
    })
    .unwrap();
}
