//! Actors, their clocks, and the comparison of each access with those before it.

use std::collections::HashSet;
use std::ops::Range;

use super::shadow::{Access, Shadow};
use super::vector_clock::Epoch;
use crate::VectorClock;
use cuda_rt_driver::{AccessKind, ActorKind, Operation, Party, Race};

/// An actor: a stream, a host thread or a foreign agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ActorId(u32);

#[derive(Debug)]
struct Actor {
    kind: ActorKind,
    name: Box<str>,
    clock: VectorClock,
    life: Life,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Live,
    /// Takes no more steps; its accesses can race still.
    Retired,
    /// Nothing of it can race: its slot is free.
    Vacant,
}

/// Finds races among the operations told to it, in the order in which they are told.
///
/// That order must be one in which nothing comes before what it happens after; the order of the
/// calls is.
#[derive(Debug, Default)]
pub struct Checker {
    /// By slot. A slot is used again once its actor is retired and nothing of it can race; its
    /// steps count on, so that clocks which cover the old actor say nothing about the new one.
    actors: Vec<Actor>,
    vacant: Vec<u32>,
    shadow: Shadow,
    races: Vec<Race>,
    found: u64,
    reported: HashSet<[(u32, AccessKind, Operation); 2]>,
    seed: Option<u64>,
}

/// Races that are kept; more are only counted.
const KEPT_RACES: usize = 256;

impl Checker {
    /// A checker whose reports carry `seed`.
    pub fn new(seed: Option<u64>) -> Self {
        Self {
            seed,
            ..Self::default()
        }
    }

    /// An actor that starts after nothing.
    pub fn actor(&mut self, kind: ActorKind, name: impl Into<Box<str>>) -> ActorId {
        let (name, life) = (name.into(), Life::Live);
        if let Some(slot) = self.vacant.pop() {
            let actor = &mut self.actors[slot as usize];
            let mut clock = VectorClock::default();
            clock.set(slot, actor.clock.get(slot) + 1);
            *actor = Actor {
                kind,
                name,
                clock,
                life,
            };
            return ActorId(slot);
        }
        let slot = self.actors.len() as u32;
        let mut clock = VectorClock::default();
        clock.set(slot, 1);
        self.actors.push(Actor {
            kind,
            name,
            clock,
            life,
        });
        ActorId(slot)
    }

    /// Gives the actor another name in later reports.
    pub fn rename(&mut self, actor: ActorId, name: impl Into<Box<str>>) {
        self.actors[actor.0 as usize].name = name.into();
    }

    /// The actor takes no more steps. Its past accesses can race still.
    pub fn retire(&mut self, actor: ActorId) {
        self.actors[actor.0 as usize].life = Life::Retired;
    }

    /// Begins the actor's next step: accesses from here on are not covered by clocks taken before.
    #[inline]
    pub fn step(&mut self, actor: ActorId) {
        let clock = &mut self.actors[actor.0 as usize].clock;
        clock.set(actor.0, clock.get(actor.0) + 1);
    }

    /// All that the actor's present step happens after, itself included.
    #[inline]
    pub fn clock(&self, actor: ActorId) -> &VectorClock {
        &self.actors[actor.0 as usize].clock
    }

    /// The actor's later steps happen after all that `clock` covers.
    #[inline]
    pub fn wait(&mut self, actor: ActorId, clock: &VectorClock) {
        self.actors[actor.0 as usize].clock.join(clock);
    }

    /// The actor's later steps happen after all of `other` so far.
    #[inline]
    pub fn wait_event(&mut self, actor: ActorId, other: ActorId) {
        let (own, other) = (actor.0 as usize, other.0 as usize);
        if own == other {
            return;
        }
        let [own, other] = self
            .actors
            .get_disjoint_mut([own, other])
            .expect("two actors of this checker");
        own.clock.join(&other.clock);
    }

    /// The actor's present step touches these bytes. Returns whether that races with an earlier
    /// access.
    pub fn access(
        &mut self,
        actor: ActorId,
        bytes: Range<u64>,
        kind: AccessKind,
        operation: Operation,
    ) -> bool {
        let own = &self.actors[actor.0 as usize];
        let epoch = Epoch {
            slot: actor.0,
            at: own.clock.get(actor.0),
        };
        let new = Access {
            epoch,
            kind,
            operation,
        };
        let before = self.found;
        let Self {
            actors,
            shadow,
            races,
            found,
            reported,
            seed,
            ..
        } = self;
        shadow.access(bytes, new, own_clock(actors, actor), |old, bytes| {
            *found += 1;
            let key = [old, &new].map(|access| (access.epoch.slot, access.kind, access.operation));
            if races.len() < KEPT_RACES && reported.insert(key) {
                let party = |access: &Access| {
                    let actor = &actors[access.epoch.slot as usize];
                    Party {
                        actor: actor.kind,
                        name: actor.name.clone(),
                        access: access.kind,
                        operation: access.operation,
                    }
                };
                races.push(Race {
                    first: party(old),
                    second: party(&new),
                    bytes,
                    seed: *seed,
                });
            }
        });
        self.found > before
    }

    /// These bytes are given out anew: what came before is about other memory.
    pub fn forget(&mut self, bytes: Range<u64>) {
        self.shadow.forget(bytes);
    }

    /// The races found so far, each pair of calls once, and at most 256.
    pub fn races(&self) -> &[Race] {
        &self.races
    }

    /// How many accesses raced, those of the same pair of calls included.
    pub fn races_found(&self) -> u64 {
        self.found
    }

    /// Ranges and actors that it remembers.
    pub fn footprint(&self) -> (usize, usize) {
        (self.shadow.segments(), self.actors.len() - self.vacant.len())
    }

    /// Forgets what can race no more, given that all that is still to come happens after `floor`.
    pub fn collect(&mut self, floor: &VectorClock) {
        let mut in_use = vec![false; self.actors.len()];
        self.shadow.collect(floor, |slot| in_use[slot as usize] = true);
        for (slot, actor) in self.actors.iter_mut().enumerate() {
            if actor.life == Life::Retired && !in_use[slot] {
                actor.life = Life::Vacant;
                self.vacant.push(slot as u32);
            }
        }
    }
}

#[inline]
fn own_clock(actors: &[Actor], actor: ActorId) -> &VectorClock {
    &actors[actor.0 as usize].clock
}
