//! A program's acts on one device, each done on the device and in the model.
//!
//! An act that the device refuses changes nothing in the model either. Its arguments are then where
//! the error left them. Without injected faults no act may be refused.

mod abroad;
mod graph;
mod kept;
mod kept_graph;
mod parts;
mod replaced;
mod sharing;
mod together;
mod waiting;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use cuda_rt::{
    Constant, DeviceBuffer, Error, Handoff, Idle, Live, Metadata, PinnedBuffer, Result, Stream, StreamTag,
};

use crate::counts::{Counts, Kind};
use crate::driver::Injected;
use crate::faults::Faults;
use crate::object::{Buffers, Expected, First, IdleBundle, Instead, Lane, Lanes, Object, State, Unified};
use crate::plan::{Settle, Step, Work};
use crate::work::{Op, apply, enqueue, resolve};

pub(crate) use graph::Recipe;
pub(crate) use kept_graph::KeptRecipe;

/// Waits with `Handoff::on_done`, which needs a device that lives as long as the process.
pub(crate) type Closure<D> = fn(Handoff<IdleBundle<D>>) -> Result<IdleBundle<D>>;

/// One thread's part in one device.
pub(crate) struct Side<D: Live> {
    pub(crate) lanes: Arc<Lanes<D>>,
    pub(crate) objects: Vec<Object<D>>,
    constants: Vec<(Constant<IdleBundle<D>, Idle<D>>, Expected)>,
    closure: Option<Closure<D>>,
    faults: Faults,
    /// The objects of this step that the model does not know once a call has broken the contract.
    /// `None` if a call had broken it before the step.
    doubtful: Option<Vec<usize>>,
    blocks: u64,
    pub(crate) tally: Tally,
}

/// Counts of the work done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) acts: u64,
    /// Buffers whose bytes were compared with the model's.
    pub(crate) compared: u64,
    /// Those that were compared after a call broke the contract.
    pub(crate) compared_later: u64,
    pub(crate) refused: u64,
    /// Graphs that were updated.
    pub(crate) updated: u64,
    /// Graphs that got another bundle.
    pub(crate) replaced: u64,
    /// Functions of the host that panic.
    pub(crate) host_panics: u64,
    /// What was done on both devices.
    pub(crate) counts: Counts,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.acts += other.acts;
        self.compared += other.compared;
        self.compared_later += other.compared_later;
        self.refused += other.refused;
        self.updated += other.updated;
        self.replaced += other.replaced;
        self.host_panics += other.host_panics;
        self.counts += other.counts;
    }
}

/// Runs `body` with the stream of a lane. A macro, because the type differs between lanes.
macro_rules! on_lane {
    ($lanes:expr, $lane:expr, |$stream:ident| $body:expr) => {{
        let lanes = Arc::clone(&$lanes);
        match $lane % crate::plan::LANES {
            0 => {
                let $stream = &lanes.first;
                $body
            }
            1 => {
                let $stream = &lanes.second;
                $body
            }
            2 => {
                let $stream = &lanes.third;
                $body
            }
            worker if worker >= crate::plan::FIRST_WORKER => {
                let worker = &lanes.workers[usize::from(worker - crate::plan::FIRST_WORKER)];
                let done = worker.run_on(&lanes.gpu, |$stream| $body);
                done.expect("a stream of this device")
            }
            _ => {
                let Ok(result) = lanes
                    .pool
                    .with(|$stream| Ok::<_, std::convert::Infallible>($body));
                result
            }
        }
    }};
}
pub(crate) use on_lane;

/// The same for the named streams.
macro_rules! on_named {
    ($lanes:expr, $lane:expr, |$stream:ident| $body:expr) => {
        match $lane % 3 {
            0 => {
                let $stream = &$lanes.first;
                $body
            }
            1 => {
                let $stream = &$lanes.second;
                $body
            }
            _ => {
                let $stream = &$lanes.third;
                $body
            }
        }
    };
}
use on_named;

/// The payload of a panic on purpose. It is thrown without calling the panic hook.
struct OnPurpose;

fn panic_on_purpose() -> ! {
    resume_unwind(Box::new(OnPurpose))
}

/// A bundle of one part.
fn one_part<S: StreamTag>(part: DeviceBuffer<f32, S>) -> Buffers<S> {
    Buffers {
        parts: vec![part],
        host: None,
        unified: Unified::Absent,
        label: Metadata::new(String::new()),
        number: 0,
    }
}

/// The result of `body`, or `None` if it panicked on purpose, or by the call that unwinds.
fn catch<R>(body: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => Some(result),
        Err(payload) if payload.is::<OnPurpose>() || payload.is::<Injected>() => None,
        Err(payload) => resume_unwind(payload),
    }
}

/// Gives `work` to a stream. If the stream accepts it, gives it to the model too, and returns it.
fn work_on<S: StreamTag>(
    stream: &Stream<S>,
    work: Work,
    bundles: &mut [&mut Buffers<S>],
    expected: &mut [&mut Expected],
) -> Result<Option<Op>> {
    let lens: Vec<usize> = expected.iter().flat_map(|expected| expected.lens()).collect();
    let with_host = expected.iter().position(|expected| expected.host.is_some());
    let host = with_host.and_then(|index| expected[index].pinned());
    let Some(op) = resolve(work, &lens, host) else {
        return Ok(None);
    };
    let (mut parts, mut host) = (Vec::new(), None);
    for (index, bundle) in bundles.iter_mut().enumerate() {
        let (slices, pinned) = bundle.slices();
        parts.extend(slices);
        if Some(index) == with_host {
            host = pinned;
        }
    }
    let Some(enqueued) = catch(|| enqueue(stream, op, &mut parts, host)) else {
        return Ok(None);
    };
    enqueued?;
    let (mut parts, mut host) = (Vec::new(), None);
    for (index, expected) in expected.iter_mut().enumerate() {
        let (slices, pinned) = expected.slices();
        parts.extend(slices);
        if Some(index) == with_host {
            host = pinned;
        }
    }
    apply(op, &mut parts, host);
    Ok(Some(op))
}

impl<D: Live> Side<D> {
    pub(crate) fn new(lanes: Arc<Lanes<D>>, closure: Option<Closure<D>>, faults: Faults) -> Self {
        Self {
            lanes,
            objects: Vec::new(),
            constants: Vec::new(),
            closure,
            faults,
            doubtful: None,
            blocks: 0,
            tally: Tally::default(),
        }
    }

    /// Begins a step, whose objects the model may come to lose track of.
    pub(crate) fn begin_step(&mut self, step: Option<Step>) {
        self.doubtful = (!self.faults.have_broken()).then(|| {
            let places = step.map(|step| [step.x, step.y].map(|x| self.index(x)));
            places.into_iter().flatten().flatten().collect()
        });
    }

    /// Whether a call of this step broke the contract. Nobody knows what the call did, so the model
    /// does not know the objects of the step.
    fn is_in_doubt(&self) -> bool {
        self.doubtful.is_some() && self.faults.have_broken()
    }

    pub(crate) fn end_step(&mut self) {
        if self.is_in_doubt() {
            for x in self.doubtful.take().into_iter().flatten() {
                if let Some(object) = self.objects.get_mut(x) {
                    object.expected.forget_values();
                }
            }
        }
    }

    /// An error is a failure of the test, unless a fault explains it.
    pub(crate) fn refused(&mut self, error: &Error) {
        self.tally.refused += 1;
        assert!(self.faults.explain(error), "refused: {error}");
    }

    fn note<T>(&mut self, result: Result<T>) -> Option<T> {
        result.inspect_err(|error| self.refused(error)).ok()
    }

    /// Counts work that a stream accepted for `expected`.
    fn worked(&mut self, result: Result<Option<Op>>, expected: &[&Expected]) {
        let Some(Some(op)) = self.note(result) else {
            return;
        };
        self.did(op.kind());
        let mut number = 0;
        for expected in expected {
            number += expected.lens().len();
            if expected.managed.is_some() && op.uses(number - 1) {
                self.did(Kind::ManagedWork);
            }
        }
    }

    fn did(&self, kind: Kind) {
        self.lanes.counters.did(kind);
    }

    pub(crate) fn index(&self, number: u8) -> Option<usize> {
        usize::from(number).checked_rem(self.objects.len())
    }

    fn take(&mut self, x: usize) -> State<D> {
        std::mem::replace(&mut self.objects[x].state, State::Gone)
    }

    fn put(&mut self, x: usize, (state, error): Instead<D>) {
        self.objects[x].state = state;
        if let Some(error) = error {
            self.refused(&error);
        }
    }

    /// Adds an object of one part with these values.
    fn made(&mut self, (state, error): Instead<D>, values: Vec<f32>) {
        self.blocks += 1;
        let mut expected = Expected {
            parts: vec![values],
            blocks: vec![(self.blocks, 0)],
            ..Expected::default()
        };
        if self.is_in_doubt() {
            expected.forget_values();
        }
        self.objects.push(Object { state, expected });
        if let Some(error) = error {
            self.refused(&error);
        }
    }

    /// Forgets objects that are gone.
    pub(crate) fn tidy(&mut self) {
        self.objects.retain(|object| !matches!(object.state, State::Gone));
    }

    /// Brings `x` to the stream, works on it there, and leaves it there.
    fn with<S: Lane<D>, R>(
        &mut self,
        stream: &Stream<S>,
        x: usize,
        body: impl FnOnce(&mut Self, &mut Buffers<S>, &mut Expected) -> R,
    ) -> Option<R> {
        let state = self.take(x);
        let lanes = Arc::clone(&self.lanes);
        match lanes.bring(state, stream) {
            Ok(mut bundle) => {
                let mut expected = std::mem::take(&mut self.objects[x].expected);
                let result = body(self, &mut bundle, &mut expected);
                self.objects[x].expected = expected;
                self.put(x, S::keep(stream, bundle));
                Some(result)
            }
            Err(instead) => {
                self.put(x, instead);
                None
            }
        }
    }

    pub(crate) fn work<S: Lane<D>>(&mut self, stream: &Stream<S>, x: usize, work: Work) {
        self.with(stream, x, |side, bundle, expected| {
            let result = work_on(stream, work, &mut [bundle], &mut [expected]);
            side.worked(result, &[expected]);
        });
    }

    fn compare(&mut self, seen: Option<&[f32]>, expected: Option<&[f32]>) {
        if self.is_in_doubt() {
            return;
        }
        let is_unknown = |value: f32| self.faults.have_broken() && value.is_nan();
        let is_right =
            |(seen, wanted): (&f32, &f32)| is_unknown(*wanted) || seen.to_bits() == wanted.to_bits();
        let are_right = match (seen, expected) {
            (Some(seen), Some(expected)) => {
                let is_known = !expected.iter().all(|value| is_unknown(*value));
                self.tally.compared += u64::from(is_known);
                self.tally.compared_later += u64::from(is_known && self.faults.have_broken());
                seen.len() == expected.len() && seen.iter().zip(expected).all(is_right)
            }
            (None, None) => true,
            _ => false,
        };
        assert!(are_right, "{seen:?} is seen, and {expected:?} must be");
    }

    pub(crate) fn forget(&mut self, x: usize) {
        let state = self.take(x);
        std::mem::forget(state);
    }

    pub(crate) fn drop(&mut self, x: usize) {
        drop(self.take(x));
    }

    /// Compares the contents of `x` with the model, and drops `x`.
    pub(crate) fn audit(&mut self, x: usize) {
        let lanes = Arc::clone(&self.lanes);
        let stream = &lanes.first;
        let expected = self.objects[x].expected.clone();
        let state = self.take(x);
        match lanes.bring(state, stream) {
            Ok(bundle) => {
                for (part, expected) in bundle.parts.iter().zip(&expected.parts) {
                    let seen = lanes.gpu.pinned::<f32>(part.len()).and_then(|idle| {
                        let mut host: PinnedBuffer<f32, _> = stream.adopt(idle)?;
                        stream.copy_to_host(part, &mut host)?;
                        stream.release(host)?.synchronize()
                    });
                    if let Some(seen) = self.note(seen) {
                        self.compare(Some(&seen), Some(expected));
                    }
                }
                self.put(x, First::keep(stream, bundle));
                self.settle(x, Settle::Synchronize);
            }
            Err((State::Shared(shared, _), _)) => {
                let seen = stream.lease(&shared).and_then(|lease| {
                    let view = lease.view();
                    let Some(part) = view.parts.first() else {
                        return Ok(None);
                    };
                    let mut host: PinnedBuffer<f32, _> =
                        stream.adopt(lanes.gpu.pinned::<f32>(part.len())?)?;
                    stream.copy_to_host(part, &mut host)?;
                    stream.release(host)?.synchronize().map(Some)
                });
                if let Some(Some(seen)) = self.note(seen) {
                    self.compare(Some(&seen), expected.parts.first().map(|part| &**part));
                }
            }
            Err((_, Some(error))) => self.refused(&error),
            Err(_) => {}
        }
        self.drop(x);
    }
}
