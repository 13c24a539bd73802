//! Reports of races: both accesses, the missing edge, and the call that would make the edge.

use std::fmt;
use std::ops::Range;
use std::panic::Location;

/// The place of a call.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Site {
    /// Unknown: the call came through `dyn Driver`, not from the typed API.
    Unknown,
    /// In Rust code.
    Code(&'static Location<'static>),
    /// A statement of a text program, counted from 0.
    Statement(usize),
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("an unknown place"),
            Self::Code(location) => location.fmt(f),
            Self::Statement(index) => write!(f, "statement {}", index + 1),
        }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(location) => location.fmt(f),
            other => fmt::Debug::fmt(other, f),
        }
    }
}

/// The kind of an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ActorKind {
    /// A CUDA stream.
    CudaStream,
    /// A host thread.
    HostThread,
    /// Neither of the two: MPI, a network card.
    ForeignAgent,
}

/// One side of a race.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Party {
    /// The kind of actor.
    pub actor: ActorKind,
    /// The actor's name.
    pub name: Box<str>,
    /// The party's access to the bytes.
    pub access: AccessKind,
    /// The operation that makes the access.
    pub operation: Operation,
}

impl Party {
    fn who(&self) -> String {
        let kind = match self.actor {
            ActorKind::CudaStream => "stream",
            ActorKind::HostThread => "host thread",
            ActorKind::ForeignAgent => "foreign agent",
        };
        format!("{kind} `{}`", self.name)
    }
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.access {
            AccessKind::Read => "read",
            AccessKind::Write => "written",
        };
        let Operation { name, site } = &self.operation;
        write!(f, "{verb} by `{name}` of {}, at {site}", self.who())
    }
}

/// Two unordered accesses to the same bytes, at least one of them a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Race {
    /// The access that was called first.
    pub first: Party,
    /// The access that was called later; it may run first.
    pub second: Party,
    /// Bytes that both accesses touch.
    pub bytes: Range<u64>,
    /// Seed of the simulated device: with the same seed, the same program runs the same way.
    pub seed: Option<u64>,
}

impl Race {
    /// The missing edge, as a sentence.
    pub fn missing_edge(&self) -> String {
        let (first, second) = (&self.first, &self.second);
        let (name, after) = (first.operation.name, second.operation.name);
        format!(
            "nothing makes `{after}` of {} wait for `{name}` of {}",
            second.who(),
            first.who()
        )
    }

    /// The call that would order the two accesses, in the typed API and in raw calls.
    pub fn mending(&self) -> String {
        let (a, b) = (&self.first.name, &self.second.name);
        match (self.first.actor, self.second.actor) {
            (ActorKind::CudaStream, ActorKind::CudaStream) => format!(
                "`let buffer = b.acquire(a.release(buffer)?)?` with a = `{a}`, b = `{b}`; in raw calls, record an event on `{a}` \
                 after the first and make `{b}` wait for it before the second"
            ),
            (ActorKind::CudaStream, _) => format!(
                "`let buffer = a.release(buffer)?.synchronize()?` with a = `{a}`; in raw calls, record an event on `{a}` after \
                 the first and synchronize it, or see its query succeed, before the second"
            ),
            (ActorKind::ForeignAgent, _) => {
                format!("wait for the request `{a}` before the second")
            }
            (ActorKind::HostThread, _) => {
                format!("join the thread `{a}`, or hear from it through a channel, before the second call")
            }
        }
    }
}

impl fmt::Display for Race {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { start, end } = self.bytes;
        writeln!(f, "data race on {} bytes at {start:#x}", end - start)?;
        writeln!(f, "  first:   {}", self.first)?;
        writeln!(f, "  second:  {}", self.second)?;
        writeln!(f, "  missing: {}", self.missing_edge())?;
        write!(f, "  mend:    {}", self.mending())?;
        if let Some(seed) = self.seed {
            write!(f, "\n  replay:  seed {seed}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Race {}

/// An operation's name, and the place of its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operation {
    /// The kernel's name, or a name for the kind of call ("copy to host").
    pub name: &'static str,
    /// The place of the call.
    pub site: Site,
}

/// What an access does to its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// Reads them.
    Read,
    /// Writes them, and perhaps reads them. A release of memory counts as a write.
    Write,
}

impl AccessKind {
    /// Whether two unordered accesses of these kinds race.
    #[inline]
    pub fn conflicts_with(self, other: Self) -> bool {
        self == Self::Write || other == Self::Write
    }
}
