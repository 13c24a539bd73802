//! Actors, their clocks, and the comparison of each access with earlier accesses.

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
    /// Takes no more steps; its past accesses can still race.
    Retired,
    /// Has no access that can still race: its slot is free.
    Vacant,
}

/// Finds races among operations, given in an order in which every operation comes after all that
/// happens before it. The order of the calls is one.
///
/// ```
/// use cuda_rt_checker::{AccessKind, ActorKind, Checker, Operation, Site};
///
/// let mut checker = Checker::new(None);
/// let upload = checker.actor(ActorKind::CudaStream, "Upload");
/// let compute = checker.actor(ActorKind::CudaStream, "Compute");
/// let at = |name| Operation { name, site: Site::Unknown };
///
/// // The kernel waits for the copy: the event covers all steps of `Upload` so far.
/// assert!(!checker.access(upload, 0..64, AccessKind::Write, at("copy")));
/// checker.step(upload);
/// checker.wait_event(compute, upload);
/// checker.step(compute);
/// assert!(!checker.access(compute, 0..64, AccessKind::Read, at("kernel")));
///
/// // Nothing makes the next copy wait for the kernel.
/// checker.step(upload);
/// assert!(checker.access(upload, 32..40, AccessKind::Write, at("copy")));
/// let race = &checker.races()[0];
/// assert_eq!((race.bytes.clone(), checker.races_found()), (32..40, 1));
/// println!("{race}");
/// println!("{}: {}", race.missing_edge(), race.mending());
///
/// // The memory is allocated anew: the earlier accesses were to other memory.
/// checker.forget(0..64);
/// checker.step(upload);
/// assert!(!checker.access(upload, 0..64, AccessKind::Write, at("copy")));
/// let (ranges, actors) = checker.footprint();
/// assert_eq!((ranges, actors), (1, 2));
/// ```
#[derive(Debug, Default)]
pub struct Checker {
    /// By slot. A slot is reused once its actor is retired and no access of it can race. The slot's
    /// steps count on, so a clock that covers the old actor says nothing about the new one.
    actors: Vec<Actor>,
    vacant: Vec<u32>,
    shadow: Shadow,
    races: Vec<Race>,
    found: u64,
    reported: HashSet<[(u32, AccessKind, Operation); 2]>,
    seed: Option<u64>,
}

/// Number of races that are kept; further races are only counted.
const KEPT_RACES: usize = 256;

impl Checker {
    /// A checker whose reports carry `seed`.
    pub fn new(seed: Option<u64>) -> Self {
        Self {
            seed,
            ..Self::default()
        }
    }

    /// Adds an actor. It starts after nothing.
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

    /// Marks the actor as ended: it takes no more steps. Its past accesses can still race.
    pub fn retire(&mut self, actor: ActorId) {
        self.actors[actor.0 as usize].life = Life::Retired;
    }

    /// Begins the actor's next step: clocks taken before do not cover accesses from here on.
    #[inline]
    pub fn step(&mut self, actor: ActorId) {
        let clock = &mut self.actors[actor.0 as usize].clock;
        clock.set(actor.0, clock.get(actor.0) + 1);
    }

    /// Everything that happens before the actor's present step, and the step itself.
    #[inline]
    pub fn clock(&self, actor: ActorId) -> &VectorClock {
        &self.actors[actor.0 as usize].clock
    }

    /// Orders the actor's later steps after everything that `clock` covers.
    #[inline]
    pub fn wait(&mut self, actor: ActorId, clock: &VectorClock) {
        self.actors[actor.0 as usize].clock.join(clock);
    }

    /// Orders the actor's later steps after all steps of `other` so far.
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

    /// Notes that the actor's present step touches these bytes. Returns whether the access races
    /// with an earlier one.
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

    /// Forgets these bytes: they were allocated anew, so earlier accesses were to other memory.
    pub fn forget(&mut self, bytes: Range<u64>) {
        self.shadow.forget(bytes);
    }

    /// The races found so far: each pair of calls once, at most 256.
    pub fn races(&self) -> &[Race] {
        &self.races
    }

    /// Number of accesses that raced, repetitions of the same pair of calls included.
    pub fn races_found(&self) -> u64 {
        self.found
    }

    /// Number of byte ranges and number of actors that the checker remembers.
    pub fn footprint(&self) -> (usize, usize) {
        (self.shadow.segments(), self.actors.len() - self.vacant.len())
    }

    /// Forgets accesses and actors that cannot race any more, given that everything still to come
    /// happens after `floor`.
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
