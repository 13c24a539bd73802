//! What a program does with one device: each act, on the device and in the model.
//!
//! An act that the device refuses changes nothing in the model either; what it was given is then where the error left it. Without
//! injected faults no act may be refused.

use std::future::{Future, IntoFuture};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use cuda_rt::{
    Constant, DeviceBuffer, Error, Handoff, Idle, Live, PinnedBuffer, Result, Settled, Slot, Stream,
};

use crate::object::{Bundle, Expected, FORKED, First, Home, IdleBundle, Instead, Lane, Lanes, Object, Owned};
use crate::plan::{Keep, Kernel, Make, Meet, Settle, Work};
use crate::work::{Op, apply, apply_read, enqueue, read, resolve};

/// Waits with `Handoff::on_done`, which needs a device that lives as long as the process.
pub(crate) type Closure<D> = fn(Handoff<IdleBundle<D>>) -> Result<IdleBundle<D>>;

/// One thread's part in one device.
pub(crate) struct Side<D: Live> {
    pub(crate) lanes: Arc<Lanes<D>>,
    pub(crate) objects: Vec<Object<D>>,
    constants: Vec<(Constant<IdleBundle<D>, Idle<D>>, Expected)>,
    closure: Option<Closure<D>>,
    /// Whether calls are made to fail.
    faulty: bool,
    blocks: u64,
    pub(crate) tally: Tally,
}

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) acts: u64,
    /// Buffers whose bytes were compared with the model's.
    pub(crate) compared: u64,
    pub(crate) refused: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.acts += other.acts;
        self.compared += other.compared;
        self.refused += other.refused;
    }
}

/// Runs `body` with the stream of a lane; a macro, as the type differs.
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

/// The same for the named ones.
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

/// What a closure panics with, past the panic hook.
struct OnPurpose;

fn panic_on_purpose() -> ! {
    resume_unwind(Box::new(OnPurpose))
}

/// What `body` returns, or `None` if it panicked on purpose.
fn catch<R>(body: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => Some(result),
        Err(payload) if payload.is::<OnPurpose>() => None,
        Err(payload) => resume_unwind(payload),
    }
}

/// Gives `work` to a stream and, if it takes it, to the model.
fn work_on<S: Lane<D>, D: Live>(
    stream: &Stream<S>,
    work: Work,
    bundles: &mut [&mut Bundle<S>],
    expected: &mut [&mut Expected],
) -> Result<()> {
    let lens: Vec<usize> = expected
        .iter()
        .flat_map(|expected| expected.parts.iter().map(Vec::len))
        .collect();
    let with_host = expected.iter().position(|expected| expected.host.is_some());
    let host_len = with_host
        .and_then(|index| expected[index].host.as_ref())
        .map(Vec::len);
    let Some(op) = resolve(work, &lens, host_len) else {
        return Ok(());
    };
    let (mut parts, mut host) = (Vec::new(), None);
    for (index, bundle) in bundles.iter_mut().enumerate() {
        parts.extend(bundle.parts.iter_mut().map(|part| &mut **part));
        if Some(index) == with_host {
            host = bundle.host.as_mut().map(|host| &mut **host);
        }
    }
    enqueue(stream, op, &mut parts, host)?;
    let (mut parts, mut host) = (Vec::new(), None);
    for (index, expected) in expected.iter_mut().enumerate() {
        parts.extend(expected.parts.iter_mut());
        if Some(index) == with_host {
            host = expected.host.as_mut();
        }
    }
    apply(op, &mut parts, host);
    Ok(())
}

impl<D: Live> Side<D> {
    pub(crate) fn new(lanes: Arc<Lanes<D>>, closure: Option<Closure<D>>, faulty: bool) -> Self {
        Self {
            lanes,
            objects: Vec::new(),
            constants: Vec::new(),
            closure,
            faulty,
            blocks: 0,
            tally: Tally::default(),
        }
    }

    /// Takes an error for what it is: a failure of the test, unless it was asked for.
    pub(crate) fn refused(&mut self, error: &Error) {
        self.tally.refused += 1;
        let injected = error
            .driver()
            .is_some_and(|error| error.detail().contains("injected"));
        // A slot that lost its bundle to an earlier error says so.
        let follows = matches!(error, Error::SlotEmpty);
        assert!(self.faulty && (injected || follows), "refused: {error}");
    }

    fn note<T>(&mut self, result: Result<T>) -> Option<T> {
        result.inspect_err(|error| self.refused(error)).ok()
    }

    pub(crate) fn index(&self, number: u8) -> Option<usize> {
        usize::from(number).checked_rem(self.objects.len())
    }

    fn take(&mut self, x: usize) -> Home<D> {
        std::mem::replace(&mut self.objects[x].home, Home::Gone)
    }

    fn put(&mut self, x: usize, (home, error): Instead<D>) {
        self.objects[x].home = home;
        if let Some(error) = error {
            self.refused(&error);
        }
    }

    /// Forgets objects that are gone.
    pub(crate) fn tidy(&mut self) {
        self.objects.retain(|object| !matches!(object.home, Home::Gone));
    }

    /// Brings `x` to the stream, does something with it there, and leaves it.
    fn with<S: Lane<D>, R>(
        &mut self,
        stream: &Stream<S>,
        x: usize,
        body: impl FnOnce(&mut Self, &mut Bundle<S>, &mut Expected) -> R,
    ) -> Option<R> {
        let home = self.take(x);
        let lanes = Arc::clone(&self.lanes);
        match lanes.bring(home, stream) {
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

    /// A part of `len` elements, on the stream.
    fn part<S: Lane<D>>(
        &self,
        stream: &Stream<S>,
        how: Make,
        len: usize,
        source: Option<(&DeviceBuffer<f32, S>, &Vec<f32>)>,
    ) -> Result<(DeviceBuffer<f32, S>, Vec<f32>)> {
        Ok(match (how, source) {
            (Make::Zeroed, _) => (stream.alloc_zeroed(len)?, vec![0.0; len]),
            (Make::FromHost(value), _) => {
                // No two alike: bytes that stand in for others are then other bytes.
                let base = f32::from(value) + self.blocks as f32 / 8.0;
                let values: Vec<f32> = (0..len).map(|i| base + i as f32).collect();
                let source = stream.adopt(self.lanes.gpu.pinned_from(&values)?)?;
                (stream.init_from_host(stream.alloc_uninit(len)?, &source)?, values)
            }
            (Make::Copied, Some((part, values))) => (
                stream.init_from(stream.alloc_uninit(part.len())?, part)?,
                values.clone(),
            ),
            (Make::Filled(_) | Make::Copied, _) => {
                let value = if let Make::Filled(value) = how {
                    f32::from(value)
                } else {
                    1.5
                };
                (
                    stream.init_filled(stream.alloc_uninit(len)?, value)?,
                    vec![value; len],
                )
            }
        })
    }

    pub(crate) fn make<S: Lane<D>>(
        &mut self,
        stream: &Stream<S>,
        how: Make,
        len: usize,
        parts: u8,
        host: bool,
    ) {
        let (mut bundle, mut expected) = (
            Bundle {
                parts: Vec::new(),
                host: None,
                number: self.blocks as u32,
            },
            Expected::default(),
        );
        for _ in 0..parts {
            self.grow_bundle(stream, how, len, &mut bundle, &mut expected);
        }
        if host {
            let made = self
                .lanes
                .gpu
                .pinned::<f32>(len)
                .and_then(|idle| stream.adopt(idle));
            bundle.host = self.note(made);
            expected.host = bundle.host.as_ref().map(|_| vec![0.0; len]);
        }
        let (home, error) = S::keep(stream, bundle);
        self.objects.push(Object { home, expected });
        if let Some(error) = error {
            self.refused(&error);
        }
    }

    fn grow_bundle<S: Lane<D>>(
        &mut self,
        stream: &Stream<S>,
        how: Make,
        len: usize,
        bundle: &mut Bundle<S>,
        expected: &mut Expected,
    ) {
        let source = bundle.parts.first().zip(expected.parts.first());
        let made = self.part(stream, how, len, source);
        if let Some((part, values)) = self.note(made) {
            bundle.parts.push(part);
            expected.parts.push(values);
            self.blocks += 1;
            expected.blocks.push((self.blocks, 0));
        }
    }

    pub(crate) fn grow<S: Lane<D>>(&mut self, stream: &Stream<S>, x: usize, how: Make) {
        self.with(stream, x, |side, bundle, expected| {
            side.grow_bundle(stream, how, 8, bundle, expected)
        });
    }

    pub(crate) fn shrink<S: Lane<D>>(&mut self, stream: &Stream<S>, x: usize, part: u8) {
        self.with(stream, x, |_, bundle, expected| {
            if let Some(part) = usize::from(part).checked_rem(bundle.parts.len()) {
                drop(bundle.parts.remove(part));
                expected.parts.remove(part);
                expected.blocks.remove(part);
            }
        });
    }

    pub(crate) fn new_host<S: Lane<D>>(&mut self, stream: &Stream<S>, x: usize, split: bool) {
        self.with(stream, x, |side, bundle, expected| {
            if let (true, Some(host), Some(values)) = (split, &mut bundle.host, &mut expected.host) {
                let mid = values.len() / 2;
                drop(host.split_off(mid));
                values.truncate(mid);
                return;
            }
            let made = side
                .lanes
                .gpu
                .pinned::<f32>(8)
                .and_then(|idle| stream.adopt(idle));
            if let Some(host) = side.note(made) {
                bundle.host = Some(host);
                expected.host = Some(vec![0.0; 8]);
            }
        });
    }

    pub(crate) fn work<S: Lane<D>>(&mut self, stream: &Stream<S>, x: usize, work: Work) {
        self.with(stream, x, |side, bundle, expected| {
            let result = work_on(stream, work, &mut [bundle], &mut [expected]);
            side.note(result);
        });
    }

    pub(crate) fn both<S: Lane<D>>(
        &mut self,
        stream: &Stream<S>,
        x: usize,
        y: usize,
        work: Work,
        meet: Meet,
    ) {
        if x == y {
            return self.work(stream, x, work);
        }
        let Some((mut first, mut second)) = self.meet(stream, x, y, meet) else {
            return;
        };
        let mut expected = [x, y].map(|i| std::mem::take(&mut self.objects[i].expected));
        let [a, b] = &mut expected;
        let result = work_on(stream, work, &mut [&mut first, &mut second], &mut [a, b]);
        self.note(result);
        for ((i, bundle), expected) in [(x, first), (y, second)].into_iter().zip(expected) {
            self.objects[i].expected = expected;
            self.put(i, S::keep(stream, bundle));
        }
    }

    /// Both bundles on the stream; `None` if one could not come, and then both are somewhere else.
    fn meet<S: Lane<D>>(
        &mut self,
        stream: &Stream<S>,
        x: usize,
        y: usize,
        meet: Meet,
    ) -> Option<(Bundle<S>, Bundle<S>)> {
        let lanes = Arc::clone(&self.lanes);
        if let Meet::Each = meet {
            let home = self.take(x);
            let first = lanes
                .bring(home, stream)
                .map_err(|instead| self.put(x, instead))
                .ok()?;
            let home = self.take(y);
            return match lanes.bring(home, stream) {
                Ok(second) => Some((first, second)),
                Err(instead) => {
                    self.put(y, instead);
                    self.put(x, S::keep(stream, first));
                    None
                }
            };
        }
        let joined = self.in_transit(x, y, meet)?;
        match stream.try_acquire(joined) {
            Ok(both) => Some(both),
            Err(refused) => {
                let (first, second) = refused.value.split();
                self.put(x, (Home::Pending(first), Some(refused.error)));
                self.put(y, (Home::Pending(second), None));
                None
            }
        }
    }

    /// Both bundles behind one handoff.
    fn in_transit(
        &mut self,
        x: usize,
        y: usize,
        meet: Meet,
    ) -> Option<Handoff<(IdleBundle<D>, IdleBundle<D>)>> {
        let lanes = Arc::clone(&self.lanes);
        macro_rules! together {
            ($stream:ident $name:ident $a:ident $b:ident $split:ident) => {
                match lanes.$stream.try_release(($a, $b)) {
                    Ok(handoff) if $split => Some(Handoff::join(handoff.split())),
                    Ok(handoff) => Some(handoff),
                    Err(refused) => {
                        let (a, b) = refused.value;
                        self.put(x, (Home::On(Owned::$name(a)), Some(refused.error)));
                        self.put(y, (Home::On(Owned::$name(b)), None));
                        None
                    }
                }
            };
        }
        let (first, second) = match (meet, self.take(x), self.take(y)) {
            (Meet::Tuple { split }, Home::On(Owned::First(a)), Home::On(Owned::First(b))) => {
                return together!(first First a b split);
            }
            (Meet::Tuple { split }, Home::On(Owned::Second(a)), Home::On(Owned::Second(b))) => {
                return together!(second Second a b split);
            }
            (Meet::Tuple { split }, Home::On(Owned::Third(a)), Home::On(Owned::Third(b))) => {
                return together!(third Third a b split);
            }
            (_, first, second) => (first, second),
        };
        let first = match lanes.hand_over(first) {
            Ok(first) => first,
            Err(instead) => {
                self.put(x, instead);
                self.put(y, (second, None));
                return None;
            }
        };
        let second = match lanes.hand_over(second) {
            Ok(second) => second,
            Err(instead) => {
                self.put(x, (Home::Pending(first), None));
                self.put(y, instead);
                return None;
            }
        };
        if let Meet::List = meet {
            let list: Handoff<Vec<IdleBundle<D>>> = Handoff::join(vec![first, second]);
            let [first, second] = list.split().try_into().expect("two went in");
            return Some(Handoff::join((first, second)));
        }
        Some(Handoff::join((first, second)))
    }

    pub(crate) fn lend<S: Lane<D>>(
        &mut self,
        stream: &Stream<S>,
        x: usize,
        to: u8,
        work: Work,
        panics: bool,
    ) {
        let lanes = Arc::clone(&self.lanes);
        self.with(stream, x, |side, bundle, expected| {
            let (Some(part), Some(values)) = (bundle.parts.first_mut(), expected.parts.first_mut()) else {
                return;
            };
            let whole = Op::Fill {
                to: 0,
                start: 0,
                end: values.len(),
                value: 7.0,
            };
            let op = resolve(work, &[values.len()], None).unwrap_or(whole);
            let mut applied = false;
            let result = catch(|| {
                on_named!(lanes, to, |borrower| stream.lend(borrower, part, |lent| {
                    let result = enqueue(borrower, op, &mut [lent], None);
                    applied = result.is_ok();
                    if panics {
                        panic_on_purpose();
                    }
                    result
                }))
            });
            if applied {
                apply(op, &mut [values], None);
            }
            if let Some(result) = result {
                side.note(result.flatten());
            }
        });
    }

    pub(crate) fn slot(&mut self, x: usize, lane: u8, next: u8, works: [Work; 2], panics: bool) {
        let lanes = Arc::clone(&self.lanes);
        let home = self.take(x);
        let mut slot = match lanes.hand_over(home) {
            Ok(handoff) => Slot::from(handoff),
            Err(instead) => return self.put(x, instead),
        };
        let mut expected = std::mem::take(&mut self.objects[x].expected);
        for ((lane, work), last) in [lane, next].into_iter().zip(works).zip([false, true]) {
            let result = catch(|| {
                on_lane!(self.lanes, lane, |stream| slot.on(stream, |bundle| {
                    let result = work_on(stream, work, &mut [bundle], &mut [&mut expected]);
                    if last && panics {
                        panic_on_purpose();
                    }
                    result
                }))
            });
            if let Some(result) = result {
                self.note(result.flatten());
            }
        }
        let seen = slot.host(|bundle| bundle.host.as_deref().map(<[f32]>::to_vec));
        if let Some(seen) = self.note(seen) {
            self.compare(seen.as_deref(), expected.host.as_deref());
        }
        self.objects[x].expected = expected;
        match slot.into_handoff() {
            Ok(handoff) => self.put(x, (Home::Pending(handoff), None)),
            Err(error) => self.put(x, (Home::Gone, Some(error))),
        }
    }

    pub(crate) fn graph<S: Lane<D>>(&mut self, stream: &Stream<S>, x: usize, graph: Recipe) {
        let lanes = Arc::clone(&self.lanes);
        let home = self.take(x);
        let bundle = match lanes.bring(home, stream) {
            Ok(bundle) => bundle,
            Err(instead) => return self.put(x, instead),
        };
        let expected = self.objects[x].expected.clone();
        let lens: Vec<usize> = expected.parts.iter().map(Vec::len).collect();
        let host = expected.host.as_ref().map(Vec::len);
        let ops = graph.works.map(|work| resolve(work, &lens, host));
        let captured = catch(|| {
            stream.capture(bundle, |inner, mut views| {
                let mut parts: Vec<_> = views.parts.iter_mut().map(|part| &mut **part).collect();
                let mut host = views.host.as_mut().map(|host| &mut **host);
                for op in ops.into_iter().flatten() {
                    enqueue(inner, op, &mut parts, host.as_deref_mut())?;
                }
                if let (Some(fork), Some((last, _))) = (graph.fork, parts.split_last_mut()) {
                    // What the fork reads is allocated inside, and what it writes is lent to it.
                    let copy = inner.init_from(inner.alloc_uninit(last.len())?, last)?;
                    S::fork(inner, fork, copy, last)?;
                }
                if graph.panics {
                    panic_on_purpose();
                }
                Ok(())
            })
        });
        let Some(Some(mut captured)) = captured.map(|captured| self.note(captured)) else {
            return;
        };
        let mut expected = expected;
        for launch in 0..graph.launches {
            let launched = captured.launch(stream);
            if self.note(launched).is_some() {
                for op in ops.into_iter().flatten() {
                    apply(
                        op,
                        &mut expected.parts.iter_mut().collect::<Vec<_>>(),
                        expected.host.as_mut(),
                    );
                }
                if let (Some(_), Some(last)) = (graph.fork, expected.parts.last_mut()) {
                    let copy = last.clone();
                    apply_read(FORKED, &copy, last);
                }
            }
            let between = graph.between.and_then(|work| resolve(work, &lens, host));
            if let (0, Some(op)) = (launch, between) {
                let mut views = captured.views();
                let mut parts: Vec<_> = views.parts.iter_mut().map(|part| &mut **part).collect();
                let result = enqueue(
                    stream,
                    op,
                    &mut parts,
                    views.host.as_mut().map(|host| &mut **host),
                );
                if self.note(result).is_some() {
                    apply(
                        op,
                        &mut expected.parts.iter_mut().collect::<Vec<_>>(),
                        expected.host.as_mut(),
                    );
                }
            }
        }
        if graph.drops {
            return drop(captured);
        }
        self.objects[x].expected = expected;
        self.put(x, S::keep(stream, captured.into_inner()));
    }

    /// A closure of the pool panics, and what it held goes.
    pub(crate) fn panic(&mut self, x: usize, work: Work) {
        let lanes = Arc::clone(&self.lanes);
        let home = self.take(x);
        let mut instead = (Home::Gone, None);
        let mut expected = std::mem::take(&mut self.objects[x].expected);
        catch(|| {
            lanes.pool.with(|stream| match lanes.bring(home, stream) {
                Ok(mut bundle) => {
                    let _ = work_on(stream, work, &mut [&mut bundle], &mut [&mut expected]);
                    panic_on_purpose()
                }
                Err(other) => {
                    instead = other;
                    Ok::<(), Error>(())
                }
            })
        });
        self.objects[x].expected = expected;
        self.put(x, instead);
    }

    pub(crate) fn release(&mut self, x: usize) {
        let home = self.take(x);
        let lanes = Arc::clone(&self.lanes);
        // What is shared stays so: sharing is a way to be everywhere.
        let instead = match home {
            Home::Shared(..) => (home, None),
            home => lanes
                .hand_over(home)
                .map_or_else(|instead| instead, |handoff| (Home::Pending(handoff), None)),
        };
        self.put(x, instead);
    }

    /// The host waits for `x` and looks at its pinned memory. Whether it is idle now.
    pub(crate) fn settle(&mut self, x: usize, how: Settle) -> bool {
        let lanes = Arc::clone(&self.lanes);
        let home = self.take(x);
        let mut handoff = match lanes.hand_over(home) {
            Ok(handoff) => handoff,
            Err(instead) => {
                self.put(x, instead);
                return false;
            }
        };
        let instead: Instead<D> = match (how, self.closure) {
            (Settle::Poll, _) => loop {
                match handoff.try_settle() {
                    Ok(Settled::Done(idle)) => break (Home::Idle(idle), None),
                    Ok(Settled::Pending(again)) => handoff = again,
                    Err(refused) => break (Home::Pending(refused.value), Some(refused.error)),
                }
            },
            (Settle::Await, _) => match block_on(handoff.into_future()) {
                Ok(idle) => (Home::Idle(idle), None),
                Err(error) => (Home::Gone, Some(error)),
            },
            (Settle::Abandon, _) => {
                let mut future = handoff.into_future();
                match pin!(&mut future).poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(Ok(idle)) => (Home::Idle(idle), None),
                    Poll::Ready(Err(error)) => (Home::Gone, Some(error)),
                    Poll::Pending => (Home::Pending(future.into_handoff().expect("it is pending")), None),
                }
            }
            (Settle::Closure, Some(closure)) => match closure(handoff) {
                Ok(idle) => (Home::Idle(idle), None),
                Err(error) => (Home::Gone, Some(error)),
            },
            (Settle::Synchronize | Settle::Closure, _) => match handoff.try_synchronize() {
                Ok(idle) => (Home::Idle(idle), None),
                Err(refused) => (Home::Pending(refused.value), Some(refused.error)),
            },
        };
        self.put(x, instead);
        let Object { home, expected } = &self.objects[x];
        let Home::Idle(idle) = home else { return false };
        let (seen, wanted) = (idle.host.as_deref().map(<[f32]>::to_vec), expected.host.clone());
        self.compare(seen.as_deref(), wanted.as_deref());
        true
    }

    fn compare(&mut self, seen: Option<&[f32]>, expected: Option<&[f32]>) {
        self.tally.compared += u64::from(seen.is_some());
        let bits = |values: Option<&[f32]>| {
            values.map(|values| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>())
        };
        assert_eq!(
            bits(seen),
            bits(expected),
            "{seen:?} is seen, and {expected:?} must be"
        );
    }

    pub(crate) fn write(&mut self, x: usize, value: i8) {
        if self.settle(x, Settle::Synchronize)
            && let Object {
                home: Home::Idle(idle),
                expected,
            } = &mut self.objects[x]
            && let (Some(host), Some(values)) = (&mut idle.host, &mut expected.host)
        {
            for (i, (seen, expected)) in host.iter_mut().zip(values).enumerate() {
                *seen = f32::from(value) + 2.0 * i as f32;
                *expected = *seen;
            }
        }
    }

    pub(crate) fn share<S: Lane<D>>(&mut self, stream: &Stream<S>, x: usize) {
        let lanes = Arc::clone(&self.lanes);
        let instead = match self.take(x) {
            home @ Home::Shared(..) => (home, None),
            home => match lanes.bring(home, stream) {
                Ok(bundle) => match stream.share(bundle) {
                    Ok(shared) => (Home::Shared(shared, Vec::new()), None),
                    Err(error) => (Home::Gone, Some(error)),
                },
                Err(instead) => instead,
            },
        };
        self.put(x, instead);
    }

    /// Reads a part of `x`, which is shared, into a part of `y`.
    pub(crate) fn read<S: Lane<D>>(
        &mut self,
        stream: &Stream<S>,
        x: usize,
        y: usize,
        kernel: Kernel,
        keep: Keep,
    ) {
        self.share(stream, x);
        if x == y || !matches!(self.objects[x].home, Home::Shared(..)) {
            return;
        }
        let Home::Shared(shared, mut leases) = self.take(x) else {
            unreachable!("seen above")
        };
        let source = self.objects[x].expected.parts.first().cloned();
        match stream.lease(&shared) {
            Err(error) => self.refused(&error),
            Ok(lease) => {
                self.with(stream, y, |side, bundle, expected| {
                    let (Some(to), Some(values), Some(source)) =
                        (bundle.parts.last_mut(), expected.parts.last_mut(), source)
                    else {
                        return;
                    };
                    let len = source.len().min(values.len());
                    let result = read(stream, kernel, &lease.view().parts[0][..len], &mut to[..len]);
                    if side.note(result).is_some() {
                        apply_read(kernel, &source[..len], &mut values[..len]);
                    }
                });
                match keep {
                    Keep::End => drop(lease),
                    Keep::Leak => std::mem::forget(lease),
                    Keep::InTransit => leases.extend(
                        stream
                            .try_release(lease)
                            .map_err(|refused| self.refused(&refused.error))
                            .ok(),
                    ),
                }
            }
        }
        self.put(x, (Home::Shared(shared, leases), None));
    }

    pub(crate) fn constant(&mut self, x: usize) {
        if self.settle(x, Settle::Synchronize)
            && let Home::Idle(idle) = self.take(x)
        {
            let expected = self.objects[x].expected.clone();
            self.constants.push((Constant::new(idle), expected));
        }
    }

    pub(crate) fn read_constant<S: Lane<D>>(&mut self, stream: &Stream<S>, x: usize, y: u8, kernel: Kernel) {
        let Some(index) = usize::from(y).checked_rem(self.constants.len()) else {
            return;
        };
        let (constant, source) = self.constants[index].clone();
        self.with(stream, x, |side, bundle, expected| {
            let (Some(to), Some(values), Some(source)) = (
                bundle.parts.first_mut(),
                expected.parts.first_mut(),
                source.parts.first(),
            ) else {
                return;
            };
            let len = source.len().min(values.len());
            let result = (stream.adopt(constant))
                .and_then(|constant| read(stream, kernel, &constant.view().parts[0][..len], &mut to[..len]));
            if side.note(result).is_some() {
                apply_read(kernel, &source[..len], &mut values[..len]);
            }
        });
    }

    pub(crate) fn split<S: Lane<D>>(&mut self, stream: &Stream<S>, x: usize, part: u8, at: u8) {
        self.with(stream, x, |_, bundle, expected| {
            let Some(part) = usize::from(part).checked_rem(bundle.parts.len()) else {
                return;
            };
            let mid = expected.parts[part].len() * usize::from(at) / 8;
            let rest = bundle.parts[part].split_off(mid);
            bundle.parts.push(rest);
            let tail = expected.parts[part].split_off(mid);
            expected.parts.push(tail);
            let (block, start) = expected.blocks[part];
            expected.blocks.push((block, start + mid));
        });
    }

    pub(crate) fn join<S: Lane<D>>(&mut self, stream: &Stream<S>, x: usize, a: u8, b: u8) {
        self.with(stream, x, |_, bundle, expected| {
            let parts = bundle.parts.len();
            let (Some(a), Some(b)) = (
                usize::from(a).checked_rem(parts),
                usize::from(b).checked_rem(parts),
            ) else {
                return;
            };
            if a == b {
                return;
            }
            let (values, next) = (expected.parts[a].clone(), expected.parts[b].clone());
            let ((block, start), (other, place)) = (expected.blocks[a], expected.blocks[b]);
            let neighbours = block == other && start + values.len() == place;
            let part = bundle.parts.remove(a);
            let tail = bundle.parts.remove(b - usize::from(b > a));
            match part.try_join(tail) {
                Ok(joined) => {
                    assert!(
                        neighbours,
                        "{:?} and {:?} were joined",
                        (block, start),
                        (other, place)
                    );
                    for i in [a.max(b), a.min(b)] {
                        expected.parts.remove(i);
                        expected.blocks.remove(i);
                    }
                    bundle.parts.push(joined);
                    expected.parts.push([values, next].concat());
                    expected.blocks.push((block, start));
                }
                Err(refused) => {
                    assert!(
                        !neighbours || values.is_empty() || next.is_empty(),
                        "{}",
                        refused.error
                    );
                    let (part, tail) = refused.value;
                    let mut back = [(a, part), (b, tail)];
                    back.sort_by_key(|(i, _)| *i);
                    back.into_iter()
                        .for_each(|(i, part)| bundle.parts.insert(i, part));
                }
            }
        });
    }

    pub(crate) fn mark<S: Lane<D>>(&mut self, stream: &Stream<S>, to: u8) {
        let lanes = Arc::clone(&self.lanes);
        let result = stream
            .marker()
            .and_then(|marker| on_named!(lanes, to, |other| other.wait_for(&marker)));
        self.note(result);
    }

    pub(crate) fn forget(&mut self, x: usize) {
        let home = self.take(x);
        std::mem::forget(home);
    }

    pub(crate) fn drop(&mut self, x: usize) {
        drop(self.take(x));
    }

    pub(crate) fn synchronize<S: Lane<D>>(&mut self, stream: &Stream<S>) {
        let result = stream.synchronize();
        self.note(result);
    }

    pub(crate) fn timestamp<S: Lane<D>>(&mut self, stream: &Stream<S>) {
        let result = stream.timestamp().and_then(|mark| mark.synchronize());
        self.note(result);
    }

    pub(crate) fn trim(&mut self) {
        self.lanes.gpu.trim_pinned(0);
        let result = self.lanes.gpu.trim(0);
        self.note(result);
    }

    /// Compares all that `x` holds with the model, and lets it go.
    pub(crate) fn audit(&mut self, x: usize) {
        let lanes = Arc::clone(&self.lanes);
        let stream = &lanes.first;
        let expected = self.objects[x].expected.clone();
        let home = self.take(x);
        match lanes.bring(home, stream) {
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
            Err((Home::Shared(shared, _), _)) => {
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

/// A graph to be captured.
#[derive(Clone, Copy)]
pub(crate) struct Recipe {
    pub(crate) works: [Work; 2],
    pub(crate) fork: Option<u8>,
    pub(crate) launches: u8,
    pub(crate) between: Option<Work>,
    pub(crate) drops: bool,
    pub(crate) panics: bool,
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}
