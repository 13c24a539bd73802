//! Waits of the host.

use std::future::{Future, IntoFuture};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use cuda_rt::{Live, Query, Stream};

use super::{Side, on_named};
use crate::block_on::block_on;
use crate::counts::Kind;
use crate::object::{Instead, Lane, Object, State, Unified};
use crate::plan::Settle;

impl<D: Live> Side<D> {
    pub(crate) fn release(&mut self, x: usize) {
        let state = self.take(x);
        let lanes = Arc::clone(&self.lanes);
        // A shared bundle stays shared, because sharing makes it available everywhere.
        let instead = match state {
            State::Shared(..) => (state, None),
            state => lanes
                .hand_over(state)
                .map_or_else(|instead| instead, |handoff| (State::Pending(handoff), None)),
        };
        self.put(x, instead);
    }

    /// The host waits for `x` and reads its pinned memory. Returns whether `x` is idle now.
    pub(crate) fn settle(&mut self, x: usize, how: Settle) -> bool {
        let lanes = Arc::clone(&self.lanes);
        let state = self.take(x);
        let mut handoff = match lanes.hand_over(state) {
            Ok(handoff) => handoff,
            Err(instead) => {
                self.put(x, instead);
                return false;
            }
        };
        let instead: Instead<D> = match (how, self.closure) {
            (Settle::Poll, _) => loop {
                match handoff.query() {
                    Ok(Query::Done(idle)) => break (State::Idle(idle), None),
                    Ok(Query::Pending(again)) => handoff = again,
                    Err(refused) => break (State::Pending(refused.value), Some(refused.error)),
                }
            },
            (Settle::Await, _) => match block_on(handoff.into_future()) {
                Ok(idle) => (State::Idle(idle), None),
                Err(error) => (State::Gone, Some(error)),
            },
            (Settle::Abandon, _) => {
                let mut future = handoff.into_future();
                match pin!(&mut future).poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(Ok(idle)) => (State::Idle(idle), None),
                    Poll::Ready(Err(error)) => (State::Gone, Some(error)),
                    Poll::Pending => (
                        State::Pending(future.into_handoff().expect("it is pending")),
                        None,
                    ),
                }
            }
            (Settle::Closure, Some(closure)) => match closure(handoff) {
                Ok(idle) => (State::Idle(idle), None),
                Err(error) => (State::Gone, Some(error)),
            },
            (Settle::Synchronize | Settle::Closure, _) => match handoff.try_synchronize() {
                Ok(idle) => (State::Idle(idle), None),
                Err(refused) => (State::Pending(refused.value), Some(refused.error)),
            },
        };
        self.put(x, instead);
        let Object { state, expected } = &self.objects[x];
        let State::Idle(idle) = state else { return false };
        let (seen, wanted) = (idle.host.as_deref().map(<[f32]>::to_vec), expected.host.clone());
        let managed = match &idle.unified {
            Unified::Managed(managed) => Some((managed.to_vec(), expected.managed.clone())),
            Unified::Absent => None,
        };
        assert_eq!(*idle.label, expected.label);
        self.compare(seen.as_deref(), wanted.as_deref());
        if let Some((seen, wanted)) = managed
            && let Some(seen) = self.note(seen)
        {
            self.compare(Some(&seen), wanted.as_deref());
            self.did(Kind::ManagedSeen);
        }
        true
    }

    pub(crate) fn write(&mut self, x: usize, value: i8) {
        if !self.settle(x, Settle::Synchronize) {
            return;
        }
        let Object {
            state: State::Idle(idle),
            expected,
        } = &mut self.objects[x]
        else {
            return;
        };
        idle.label.make_mut().push('w');
        expected.label.push('w');
        let values = |scale: f32| (0..).map(move |i| f32::from(value) + scale * i as f32);
        let write = |to: &mut [f32], scale| {
            to.iter_mut()
                .zip(values(scale))
                .for_each(|(to, value)| *to = value)
        };
        if let (Some(host), Some(expected)) = (&mut idle.host, &mut expected.host) {
            write(host, 2.0);
            write(expected, 2.0);
        }
        if let (Unified::Managed(managed), Some(expected)) = (&mut idle.unified, &mut expected.managed) {
            let written = managed.host_mut(|managed| write(managed, 3.0));
            if written.is_ok() {
                write(expected, 3.0);
            }
            if self.note(written).is_some() {
                self.did(Kind::ManagedWritten);
            }
        }
    }

    pub(crate) fn mark<S: Lane<D>>(&mut self, stream: &Stream<S>, to: u8) {
        let lanes = Arc::clone(&self.lanes);
        let result = stream
            .record_event()
            .and_then(|event| on_named!(lanes, to, |other| other.wait_event(&event)));
        self.note(result);
    }

    pub(crate) fn synchronize<S: Lane<D>>(&mut self, stream: &Stream<S>) {
        let result = stream.synchronize();
        self.note(result);
    }

    pub(crate) fn timestamp<S: Lane<D>>(&mut self, stream: &Stream<S>) {
        let result = stream.record_timed_event().and_then(|mark| mark.synchronize());
        self.note(result);
    }

    pub(crate) fn trim(&mut self) {
        self.lanes.gpu.trim_pinned(0);
        let result = self.lanes.gpu.trim(0);
        self.note(result);
    }
}
