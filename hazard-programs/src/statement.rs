//! A program as it was parsed.

use std::fmt;

use cuda_rt_driver::AccessKind;

/// A program: statements in the order in which they are called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its statements.
    pub steps: Vec<Step>,
}

/// Why a program has no verdict: a statement is not of the grammar, or names what is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramError {
    /// Which statement, from 0.
    pub statement: usize,
    /// Which character of it, from 1.
    pub column: usize,
    /// What is wrong there.
    pub message: String,
}

impl ProgramError {
    pub(super) fn new(column: usize, message: impl Into<String>) -> Self {
        Self {
            statement: 0,
            column,
            message: message.into(),
        }
    }

    pub(super) fn in_statement(self, statement: usize) -> Self {
        Self { statement, ..self }
    }
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            statement,
            column,
            message,
        } = self;
        write!(f, "statement {}, column {column}: {message}", statement + 1)
    }
}

impl std::error::Error for ProgramError {}

/// A statement and the host thread that runs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// `None` is the main thread.
    pub thread: Option<Name>,
    /// What it does.
    pub statement: Statement,
}

/// A name, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The name.
    pub text: String,
    /// Its first character's column, from 1.
    pub column: usize,
}

/// Where memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// `dev`: on the device.
    Dev,
    /// `pin`: page-locked host memory.
    Pin,
    /// `page`: host memory that is not.
    Page,
    /// `man`: managed.
    Man,
}

impl Space {
    /// Whether it is the host's whatever the driver does.
    pub fn is_host(self) -> bool {
        matches!(self, Self::Pin | Self::Page)
    }
}

/// How a stream stands to the legacy default stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocking {
    /// `blk`: each waits for the other.
    Blocking,
    /// `nb`: neither does.
    NonBlocking,
}

/// One part of memory: `lo` and `hi`, or a number. Parts of different names are disjoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// `.lo`.
    Low,
    /// `.hi`.
    High,
    /// `.0`, `.1`, …
    Index(u64),
}

/// Memory, or a part of it, or a part of that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Which memory.
    pub memory: Name,
    /// Which part, outermost first; empty for all of it.
    pub parts: Vec<Part>,
    /// The device given with it (`a@0`), for peer copies.
    pub device: Option<u32>,
}

/// One access of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touch {
    /// Read or write.
    pub kind: AccessKind,
    /// What it touches.
    pub region: Region,
}

/// A stream by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamName {
    /// `0`: the legacy default stream of the thread's current device.
    Legacy,
    /// One that was declared.
    Named(Name),
}

/// Whether a call returns at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Called {
    /// The form on the legacy default stream, which may wait.
    Synchronous,
    /// The form on a stream.
    On(StreamName),
}

/// An operation that runs in stream order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `k(…)@s`.
    Kernel(Vec<Touch>),
    /// `hostfn(…)@s`.
    HostFunction(Vec<Touch>),
    /// `mallocA(x)@s`. A name that was not declared is that of device memory, on the current
    /// device.
    Allocate(Name),
    /// `freeA(x)@s`.
    Free(Region),
}

/// What a statement does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields are named as in the grammar")]
pub enum Statement {
    /// `mem d:dev,…`.
    Memory(Vec<(Name, Space, Option<u32>)>),
    /// `str s:nb@1,…`.
    Streams(Vec<(Name, Blocking, Option<u32>)>),
    /// An operation on a stream.
    Operation(Operation, StreamName),
    /// `cpy(d<-h)`, `cpyA(d<-h)@s`.
    Copy {
        to: Region,
        from: Region,
        called: Called,
    },
    /// `cpyPeer(b@1<-a@0)`, `cpyPeerA(b<-a)@s`.
    CopyPeer {
        to: Region,
        from: Region,
        called: Called,
    },
    /// `set(d)`, `setA(d)@s`.
    Fill { to: Region, called: Called },
    /// `rec(e)@s`.
    Record { event: Name, stream: StreamName },
    /// `wait(s,e)`.
    Wait { stream: StreamName, event: Name },
    /// `evSync(e)`, `evQuery(e)=ok`.
    SynchronizeEvent(Name),
    /// `stSync(s)`, `stQuery(s)=ok`.
    SynchronizeStream(StreamName),
    /// `devSync`.
    SynchronizeDevice,
    /// `host R x`.
    Host(Vec<Touch>),
    /// `ext R x`: a foreign agent, done when the call returns.
    Foreign(Vec<Touch>),
    /// `extA W x #r`: a foreign agent, from here on.
    BeginForeign { touches: Vec<Touch>, request: Name },
    /// `extWait #r`.
    EndForeign(Name),
    /// `malloc(x)`, `hostAlloc(x)`. A name that was not declared is that of memory in this space,
    /// on the current device.
    Allocate(Name, Space),
    /// `free(x)`, `freeHost(x)`, `hostDrop(x)`, `recycle(x)`; the first says which.
    Release(&'static str, Region),
    /// `setDev(n)`.
    SetDevice(u32),
    /// `join(T2)`.
    Join(Name),
    /// `destroy(s)`.
    DestroyStream(Name),
    /// `destroyEv(e)`.
    DestroyEvent(Name),
}
