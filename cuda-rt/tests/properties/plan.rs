//! A small language of programs in the safe API, which proptest generates and shrinks.
//!
//! Every plan is a correct program. A step names objects by numbers, taken modulo the number of
//! objects. An object that is not where a step needs it is first brought there by a handoff. So
//! every generated step does something, shrinking keeps a plan meaningful, and the result of a plan
//! follows from its steps alone.

use cuda_rt::simulator::Call;
use proptest::prelude::*;

/// A program: the steps of each thread.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Seed of the order in which the plan runs first.
    pub(crate) seed: u8,
    pub(crate) threads: Vec<Vec<Step>>,
}

impl Plan {
    pub(crate) fn steps(&self) -> usize {
        self.threads.iter().map(Vec::len).sum()
    }
}

/// One step: an action, its objects and their device, and its stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) device: u8,
    /// A named stream, any stream of a pool, or a run-time stream.
    pub(crate) lane: u8,
    pub(crate) x: u8,
    pub(crate) y: u8,
    pub(crate) act: Act,
}

/// Lanes of a device: three named streams, a pool, and [`WORKERS`] run-time streams.
pub(crate) const LANES: u8 = FIRST_WORKER + WORKERS;

/// The lane of the first run-time stream.
pub(crate) const FIRST_WORKER: u8 = 4;

/// Run-time streams of a device.
pub(crate) const WORKERS: u8 = 2;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    /// Makes a new object, with this many parts of this length class.
    Make {
        how: Make,
        len: u8,
        parts: u8,
        host: bool,
    },
    /// Work on the parts of `x`, on the lane.
    Work(Work),
    /// Work on the parts of `x` and `y` together.
    Both(Work, Meet),
    /// The lane lends the first part of `x` to another stream for some work. The closure may panic
    /// after the work.
    Lend {
        to: u8,
        work: Work,
        panics: bool,
    },
    /// The lane lends the first part of `x` to another stream, which copies it into a new object.
    /// The lane reads it meanwhile into the last part, and writes it afterwards. The closure may
    /// panic.
    LendRef {
        to: u8,
        kernel: Kernel,
        panics: bool,
    },
    /// The lane lends the first part of `x` for reading, and the last part for writing, to another
    /// stream, which reads the one into the other. Meanwhile the lane copies the first part into a
    /// new object.
    LendAll {
        to: u8,
        kernel: Kernel,
    },
    /// A run-time stream keeps `x`, and `x` is used where it is kept.
    Kept(Through),
    /// `x` is put into a slot, which two lanes use in turn. The last closure may panic after its
    /// work.
    Slot {
        works: [Work; 2],
        next: u8,
        panics: bool,
    },
    /// `x` is captured into a graph, launched and taken out.
    Graph {
        works: [Work; 2],
        fork: Option<u8>,
        launches: u8,
        between: Option<Work>,
        update: Option<Work>,
        /// The host reads the pinned memory after the first launch, and writes this value.
        host: Option<i8>,
        /// After the first launch the graph gets another bundle.
        replace: bool,
        drops: bool,
    },
    /// A run-time stream captures `x` into a graph, and keeps the graph. It is launched where it is
    /// kept. After the first launch its stream works on the graph's memory, and the host reads the
    /// pinned memory and writes this value.
    KeptGraph {
        works: [Work; 2],
        launches: u8,
        between: Option<Work>,
        host: Option<i8>,
        drops: bool,
    },
    /// `x` gets managed memory; its former managed memory is dropped in flight.
    NewManaged {
        how: Make,
        len: u8,
    },
    /// The pages of the managed memory of `x` move.
    Prefetch {
        from: u8,
        upto: u8,
        to_host: bool,
    },
    /// A closure of a pool or a capture panics with `x` inside; `x` is lost.
    Panic {
        captured: bool,
        work: Work,
    },
    /// The lane releases `x`; it stays in transit until a step needs it.
    Release,
    /// The host waits for `x`, and reads its pinned and managed memory.
    Settle(Settle),
    /// The host writes the pinned and managed memory of `x`.
    Write {
        value: i8,
    },
    /// The lane shares `x`; it stays shared until a step needs all of it.
    Share,
    /// As `Share`, without an event until another stream or the host needs one.
    ShareLazily,
    /// The host and the lane read the pinned memory of the shared `x` at once; the lane copies it
    /// into a new object. The host's lease begins before the stream's or after it.
    ReadBoth {
        lazily: bool,
        host_first: bool,
    },
    /// The lane reads the shared `x` into `y` under a lease.
    Read {
        kernel: Kernel,
        keep: Keep,
    },
    /// `x` becomes a constant.
    Constant,
    /// The lane reads a constant into `x`.
    ReadConstant {
        kernel: Kernel,
    },
    /// A part of `x` is split in two.
    Split {
        part: u8,
        at: u8,
    },
    /// Two parts of `x` are joined, if they are neighbours of one block.
    Join {
        a: u8,
        b: u8,
    },
    /// A part of `x` is split in several pieces, which are written one by one. Then they are joined
    /// again, or stay apart. The last piece may become a new object.
    Divide {
        part: u8,
        pieces: u8,
        value: i8,
        then: Then,
    },
    /// `x` gets another part, or loses one.
    Grow {
        how: Make,
    },
    Shrink {
        part: u8,
    },
    /// The pinned memory of `x`, or halves of it, are dropped in flight or replaced.
    NewHost(NewHost),
    Drop,
    Forget,
    /// One lane waits for a mark of another.
    Mark {
        to: u8,
    },
    TimedEvent,
    Synchronize,
    Trim,
    /// A part of `x` is copied to ordinary memory, and overwritten from there.
    Slice {
        part: u8,
    },
    /// `x` goes to another thread, which takes it at a `Take`.
    Give {
        to: u8,
    },
    Take,
    /// The pinned memory of `x` moves to `y` on the other device.
    Ferry,
    /// A stream of the other device uses the first part of `x`, with the first part of `y`: it gets
    /// the part itself, or copies from it or to it.
    Abroad {
        to: u8,
        kernel: Kernel,
        way: Way,
    },
    /// A driver call will fail.
    Fault {
        call: Call,
        nth: u8,
        sticky: bool,
    },
    /// A function of the host writes half of the pinned memory of `x`, and panics. The device is
    /// lost once it has run.
    HostPanic,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Make {
    Zeroed,
    Filled(i8),
    FromHost(i8),
    Copied,
    /// A kernel returns twice the first part.
    Returned,
}

/// New pinned memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NewHost {
    /// The first half of the old memory.
    Half,
    Zeroed,
    /// The stream fills memory that was never written.
    Filled(i8),
    /// A kernel returns twice the first part, in place.
    Returned,
}

/// The use of a bundle that a run-time stream keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Through {
    /// A run-time stream works on views: the same stream, or another on a loan.
    View { worker: u8, work: Work },
    /// A run-time stream reads the first part into the last part of `y`.
    ByRef { worker: u8, kernel: Kernel },
    /// The host reads the pinned memory, and writes this value.
    Host { value: i8 },
}

/// What becomes of the pieces of a part.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Then {
    Join,
    Keep,
    /// The last piece becomes a new object.
    Leave,
}

/// The way in which `x` and `y` come to one stream.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Meet {
    /// Handed over one after the other.
    Each,
    /// Released one by one, joined, acquired as one.
    Joined,
    /// As a tuple by one release, if one stream owns both. The tuple is split again in transit, or
    /// not.
    Tuple { split: bool },
    /// As a `Vec`, split in transit and joined again.
    List,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Settle {
    Synchronize,
    Poll,
    Await,
    /// A future is polled once and given up.
    Abandon,
    Closure,
}

/// What happens to a lease after a read under it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Keep {
    End,
    InTransit,
    Leak,
}

/// Work on a list of parts; all numbers are taken modulo the number of objects.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    Fill {
        to: u8,
        from: u8,
        upto: u8,
        value: i8,
    },
    Kernel {
        kernel: Kernel,
        from: u8,
        to: u8,
    },
    Add {
        left: u8,
        right: u8,
        to: u8,
    },
    Upload {
        to: u8,
    },
    Download {
        from: u8,
    },
    Rows {
        way: Way,
        from: u8,
        to: u8,
        size: [u8; 3],
        gaps: [u8; 2],
        offsets: [u8; 2],
    },
    /// A kernel or a copy reads pinned memory in place, or writes it.
    Mapped {
        way: Way,
        kernel: Kernel,
        part: u8,
    },
    FillMapped {
        from: u8,
        upto: u8,
        value: i8,
    },
    /// A function of the host copies one half of the pinned memory to the other.
    HostFunction {
        back: bool,
    },
}

/// The direction of a copy, or of work between devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Within,
    FromHost,
    ToHost,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kernel {
    Copy,
    Scale(i8),
    Saxpy(i8),
    Process,
}

/// Bounds on generated plans.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) most_steps: usize,
    pub(crate) threads: bool,
    pub(crate) faults: bool,
    /// Whether graphs are updated, and get other bundles.
    pub(crate) updates: bool,
    /// How often an act is a graph; a common act has a weight of 3 or so.
    pub(crate) graphs: u32,
}

pub(crate) fn plan(shape: Shape) -> impl Strategy<Value = Plan> {
    let threads = if shape.threads { 3 } else { 1 };
    let one = move || prop::collection::vec(step(shape), 1..shape.most_steps);
    let threads = prop_oneof![
        2 => prop::collection::vec(one(), 1..=1),
        1 => prop::collection::vec(one(), 1..=threads),
    ];
    (any::<u8>(), threads).prop_map(|(seed, threads)| Plan { seed, threads })
}

fn step(shape: Shape) -> impl Strategy<Value = Step> {
    let device = prop_oneof![3 => Just(0u8), 1 => Just(1)];
    (device, 0..LANES, 0..8u8, 0..8u8, act(shape)).prop_map(|(device, lane, x, y, act)| Step {
        device,
        lane,
        x,
        y,
        act,
    })
}

fn act(shape: Shape) -> impl Strategy<Value = Act> {
    let update = if shape.updates {
        prop::option::of(work()).boxed()
    } else {
        Just(None).boxed()
    };
    let replace = prop::bool::weighted(if shape.updates { 0.7 } else { 0.0 });
    let common = prop_oneof![
        5 => (make(), 0..3u8, 1..3u8, any::<bool>())
            .prop_map(|(how, len, parts, host)| Act::Make { how, len, parts, host }),
        8 => work().prop_map(Act::Work),
        10 => (work(), meet()).prop_map(|(work, meet)| Act::Both(work, meet)),
        3 => (0..3u8, work(), any::<bool>()).prop_map(|(to, work, panics)| Act::Lend { to, work, panics }),
        4 => (0..3u8, kernel(), prop::bool::weighted(0.2)).prop_map(|(to, kernel, panics)| Act::LendRef { to, kernel, panics }),
        3 => (0..3u8, kernel()).prop_map(|(to, kernel)| Act::LendAll { to, kernel }),
        6 => through().prop_map(Act::Kept),
        6 => (make(), 0..3u8).prop_map(|(how, len)| Act::NewManaged { how, len }),
        2 => (0..9u8, 0..9u8, any::<bool>())
            .prop_map(|(from, upto, to_host)| Act::Prefetch { from, upto, to_host }),
        3 => ([work(), work()], 0..LANES, any::<bool>())
            .prop_map(|(works, next, panics)| Act::Slot { works, next, panics }),
        shape.graphs => ([captured(), captured()], prop::option::weighted(0.3, 0..3u8), 0..3u8, prop::option::of(work()), update, prop::option::of(-9..9i8), replace, any::<bool>())
            .prop_map(|(works, fork, launches, between, update, host, replace, drops)| Act::Graph { works, fork, launches, between, update, host, replace, drops }),
        4 => ([work(), work()], 1..3u8, prop::option::of(work()), prop::option::of(-9..9i8), prop::bool::weighted(0.2))
            .prop_map(|(works, launches, between, host, drops)| Act::KeptGraph { works, launches, between, host, drops }),
        3 => Just(Act::Release),
        4 => settle().prop_map(Act::Settle),
        3 => (-9..9i8).prop_map(|value| Act::Write { value }),
        2 => Just(Act::Share),
        2 => Just(Act::ShareLazily),
        4 => any::<[bool; 2]>().prop_map(|[lazily, host_first]| Act::ReadBoth { lazily, host_first }),
        6 => (kernel(), keep()).prop_map(|(kernel, keep)| Act::Read { kernel, keep }),
        2 => (0..4u8, 0..9u8).prop_map(|(part, at)| Act::Split { part, at }),
        2 => (0..4u8, 0..4u8).prop_map(|(a, b)| Act::Join { a, b }),
        2 => make().prop_map(|how| Act::Grow { how }),
        2 => (0..4u8).prop_map(|part| Act::Shrink { part }),
        2 => (0..4u8, 1..5u8, -9..9i8, then())
            .prop_map(|(part, pieces, value, then)| Act::Divide { part, pieces, value, then }),
        2 => new_host().prop_map(Act::NewHost),
        1 => Just(Act::Drop),
        1 => (0..3u8).prop_map(|to| Act::Mark { to }),
        1 => Just(Act::Synchronize),
        1 => Just(Act::Constant),
        1 => kernel().prop_map(|kernel| Act::ReadConstant { kernel }),
        1 => Just(Act::Ferry),
        4 => (0..LANES, kernel(), way()).prop_map(|(to, kernel, way)| Act::Abroad { to, kernel, way }),
    ];
    let rest = prop_oneof![
        1 => Just(Act::Forget),
        1 => Just(Act::TimedEvent),
        2 => (0..4u8).prop_map(|part| Act::Slice { part }),
        1 => Just(Act::Trim),
        2 => (any::<bool>(), work()).prop_map(|(captured, work)| Act::Panic { captured, work }),
    ];
    let mail = prop_oneof![1 => (0..3u8).prop_map(|to| Act::Give { to }), 1 => Just(Act::Take)];
    // Half of the failing calls are calls that order work or wait for it.
    const ORDERING: &[Call] = &[
        Call::CreateEvent,
        Call::RecordEvent,
        Call::WaitEvent,
        Call::QueryEvent,
        Call::SynchronizeEvent,
        Call::SynchronizeStream,
        Call::Free,
    ];
    let call = prop_oneof![prop::sample::select(Call::ALL), prop::sample::select(ORDERING)];
    let fault = (call, 1..6u8, prop::bool::weighted(0.1)).prop_map(|(call, nth, sticky)| Act::Fault {
        call,
        nth,
        sticky,
    });
    let fault = prop_oneof![12 => fault, 1 => Just(Act::HostPanic)];
    let weight = |wanted: bool, weight| if wanted { weight } else { 0 };
    proptest::strategy::Union::new_weighted(
        [
            (60, common.boxed()),
            (4, rest.boxed()),
            (weight(shape.threads, 6), mail.boxed()),
            (weight(shape.faults, 6), fault.boxed()),
        ]
        .into_iter()
        .filter(|(weight, _)| *weight > 0)
        .collect(),
    )
}

fn make() -> impl Strategy<Value = Make> {
    prop_oneof![
        Just(Make::Zeroed),
        (-9..9i8).prop_map(Make::Filled),
        (-9..9i8).prop_map(Make::FromHost),
        Just(Make::Copied),
        Just(Make::Returned),
    ]
}

fn new_host() -> impl Strategy<Value = NewHost> {
    prop_oneof![
        Just(NewHost::Half),
        Just(NewHost::Zeroed),
        (-9..9i8).prop_map(NewHost::Filled),
        Just(NewHost::Returned),
    ]
}

fn through() -> impl Strategy<Value = Through> {
    prop_oneof![
        3 => (0..WORKERS, work()).prop_map(|(worker, work)| Through::View { worker, work }),
        2 => (0..WORKERS, kernel()).prop_map(|(worker, kernel)| Through::ByRef { worker, kernel }),
        1 => (-9..9i8).prop_map(|value| Through::Host { value }),
    ]
}

fn then() -> impl Strategy<Value = Then> {
    prop_oneof![Just(Then::Join), Just(Then::Keep), Just(Then::Leave)]
}

fn way() -> impl Strategy<Value = Way> {
    prop_oneof![Just(Way::Within), Just(Way::FromHost), Just(Way::ToHost)]
}

fn meet() -> impl Strategy<Value = Meet> {
    prop_oneof![
        2 => Just(Meet::Each),
        2 => Just(Meet::Joined),
        1 => any::<bool>().prop_map(|split| Meet::Tuple { split }),
        1 => Just(Meet::List),
    ]
}

fn settle() -> impl Strategy<Value = Settle> {
    prop_oneof![
        3 => Just(Settle::Synchronize),
        3 => Just(Settle::Poll),
        1 => Just(Settle::Await),
        1 => Just(Settle::Abandon),
        1 => Just(Settle::Closure),
    ]
}

fn keep() -> impl Strategy<Value = Keep> {
    prop_oneof![6 => Just(Keep::End), 3 => Just(Keep::InTransit), 1 => Just(Keep::Leak)]
}

fn kernel() -> impl Strategy<Value = Kernel> {
    prop_oneof![
        Just(Kernel::Copy),
        (2..5i8).prop_map(Kernel::Scale),
        (1..4i8).prop_map(Kernel::Saxpy),
        Just(Kernel::Process),
    ]
}

/// Work in a graph: more functions of the host than elsewhere, because a graph keeps them.
fn captured() -> impl Strategy<Value = Work> {
    prop_oneof![2 => work(), 1 => any::<bool>().prop_map(|back| Work::HostFunction { back })]
}

fn work() -> impl Strategy<Value = Work> {
    prop_oneof![
        2 => (0..4u8, 0..9u8, 0..9u8, -9..9i8).prop_map(|(to, from, upto, value)| Work::Fill { to, from, upto, value }),
        6 => (kernel(), 0..4u8, 0..4u8).prop_map(|(kernel, from, to)| Work::Kernel { kernel, from, to }),
        4 => (0..4u8, 0..4u8, 0..4u8).prop_map(|(left, right, to)| Work::Add { left, right, to }),
        2 => (0..4u8).prop_map(|to| Work::Upload { to }),
        3 => (0..4u8).prop_map(|from| Work::Download { from }),
        3 => (way(), 0..4u8, 0..4u8, any::<[u8; 3]>(), any::<[u8; 2]>(), any::<[u8; 2]>())
            .prop_map(|(way, from, to, size, gaps, offsets)| Work::Rows { way, from, to, size, gaps, offsets }),
        3 => (way(), kernel(), 0..4u8).prop_map(|(way, kernel, part)| Work::Mapped { way, kernel, part }),
        1 => (0..9u8, 0..9u8, -9..9i8).prop_map(|(from, upto, value)| Work::FillMapped { from, upto, value }),
        4 => any::<bool>().prop_map(|back| Work::HostFunction { back }),
    ]
}
