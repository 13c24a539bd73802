//! The scheduler: chooses by the seed which stream runs next, among all orders that CUDA's rules
//! allow.
//!
//! A uniformly random order seldom goes far wrong, because streams advance about evenly. So one
//! stream is favoured for a random time and the others starve. A program that forgot an edge least
//! expects this.

use super::State;
use super::config::Order;
use super::op::{Op, Position};
use super::random::Random;

#[derive(Debug, Default)]
pub(super) struct Schedule {
    /// Streams with pending work, in an order that depends only on the calls and the seed.
    pub(super) active: Vec<u64>,
    /// Number of pending operations, over all streams.
    pub(super) pending: usize,
    /// The favoured stream, and for how many more steps it is favoured.
    favourite: (u64, usize),
    /// Number of calls until some work runs that no one waits for.
    quiet_calls: usize,
    /// Streams that must run some work because someone waits for it or queried it ([`Order::Lazy`],
    /// [`Order::Starve`]).
    wanted: Vec<u64>,
}

impl Schedule {
    /// The most calls between two times at which work runs that no one waits for.
    const MOST_QUIET_CALLS: usize = 32;
    /// The most operations that then run: on average more than were enqueued since.
    const MOST_STEPS: usize = 48;
    /// One of this many streams is starved.
    const STARVED_OF: u32 = 16;

    pub(super) fn new(random: &mut Random) -> Self {
        Self {
            quiet_calls: random.below(Self::MOST_QUIET_CALLS),
            ..Self::default()
        }
    }
}

impl State {
    /// Runs a little work that no one waits for, or none.
    pub(super) fn run_in_background(&mut self) {
        if self.config.order == Order::Starve {
            while self.lost.is_none()
                && let Some(next) = self.first_that_can_run(|schedule| &schedule.active, Self::is_fed)
            {
                self.step(next);
            }
        }
        if self.config.order == Order::Random && !self.schedule.active.is_empty() {
            if self.schedule.quiet_calls == 0 {
                self.schedule.quiet_calls = 1 + self.random.below(Schedule::MOST_QUIET_CALLS);
                for _ in 0..self.random.below(Schedule::MOST_STEPS) {
                    self.step_any();
                }
            }
            self.schedule.quiet_calls -= 1;
        }
        if self.schedule.pending >= self.config.most_pending {
            while self.schedule.pending > self.config.most_pending / 2 && self.step_any() {}
        }
    }

    /// Runs until `position` is done, and returns whether it is. Returns early if the device is
    /// lost, or if a host function must end first.
    pub(super) fn run_until(&mut self, position: Position) -> bool {
        while self.lost.is_none() && !self.is_done(position) {
            if !self.step_towards(position) {
                break;
            }
        }
        self.is_done(position)
    }

    /// Runs one operation, if any is left. With [`Order::Lazy`] and [`Order::Starve`] it is an
    /// operation that `position` needs, if it needs one. False if nothing can run.
    pub(super) fn step_towards(&mut self, position: Position) -> bool {
        if !matches!(self.config.order, Order::Lazy | Order::Starve) {
            return self.step_any();
        }
        if self.lost.is_some() || self.is_done(position) {
            return false;
        }
        self.want(position);
        let streams = &self.streams;
        self.schedule
            .wanted
            .retain(|s| streams.get(*s).is_some_and(|s| s.executed < s.wanted));
        if let Some(next) = self.first_that_can_run(|schedule| &schedule.wanted, Self::can_run) {
            self.step(next);
            return true;
        }
        if self.host_functions.any_runs() {
            return false;
        }
        panic!(
            "{position:?} needs work that cannot run: waits form a circle (seed {})",
            self.config.seed
        );
    }

    /// Notes all operations that must run before `position` is done.
    fn want(&mut self, position: Position) {
        let mut positions = vec![position];
        while let Some(Position { stream, at }) = positions.pop() {
            let Some(s) = self.streams.get_mut(stream) else {
                continue;
            };
            let from = s.wanted.max(s.executed);
            if at <= from {
                continue;
            }
            if s.wanted <= s.executed && !self.schedule.wanted.contains(&stream) {
                self.schedule.wanted.push(stream);
            }
            s.wanted = at;
            let seen = (from - s.executed) as usize;
            let new = s.queue.range(seen..(at - s.executed) as usize);
            positions.extend(new.filter_map(|op| if let Op::Wait(on) = op { Some(*on) } else { None }));
        }
    }

    /// Runs one operation of any stream, if any is left that needs no running host function.
    pub(super) fn step_any(&mut self) -> bool {
        if self.lost.is_some() || self.schedule.active.is_empty() {
            return false;
        }
        let (favourite, steps) = self.schedule.favourite;
        if steps > 0 && self.can_run(favourite) {
            self.schedule.favourite.1 -= 1;
            self.step(favourite);
            return true;
        }
        let next = self.first_that_can_run(|schedule| &schedule.active, Self::can_run);
        let Some(next) = next else {
            if self.host_functions.any_runs() {
                return false;
            }
            panic!(
                "work is pending and none can run: waits form a circle (seed {})",
                self.config.seed
            );
        };
        self.schedule.favourite = (next, [0, 2, 8, 64][self.random.below(4)]);
        self.step(next);
        true
    }

    /// With [`Order::Eager`], runs all work that waited for a host function, which has ended.
    pub(super) fn run_held_back(&mut self) {
        while self.config.order == Order::Eager
            && self.lost.is_none()
            && let Some(next) = self.first_that_can_run(|schedule| &schedule.active, Self::can_run)
        {
            self.step(next);
        }
    }

    /// The first stream that can run, counted from a random stream on.
    fn first_that_can_run(
        &mut self,
        streams: fn(&Schedule) -> &[u64],
        can_run: fn(&Self, u64) -> bool,
    ) -> Option<u64> {
        let streams = streams(&self.schedule);
        let start = self.random.below(streams.len().max(1));
        streams[start..]
            .iter()
            .chain(&streams[..start])
            .copied()
            .find(|s| can_run(self, *s))
    }

    /// Whether the stream can run, and is not the starved one.
    fn is_fed(&self, stream: u64) -> bool {
        // The low half of a handle is its slot, which counts streams.
        let slot = stream as u32 % Schedule::STARVED_OF;
        u64::from(slot) != self.config.seed % u64::from(Schedule::STARVED_OF) && self.can_run(stream)
    }

    /// Whether the stream's next operation may run now.
    pub(super) fn can_run(&self, stream: u64) -> bool {
        let idle = self.streams.get(stream).filter(|s| !s.busy);
        match idle.and_then(|s| s.queue.front()) {
            None => false,
            Some(Op::Wait(position)) => self.is_done(*position),
            Some(_) => true,
        }
    }
}
