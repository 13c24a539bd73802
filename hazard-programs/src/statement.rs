//! The parsed form of a program: statements, memory, streams and accesses; and parse errors.

use std::fmt;

use cuda_rt_driver::AccessKind;

/// A program: statements in the order of their calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its statements.
    pub steps: Vec<Step>,
}

/// The reason why a program has no verdict: the grammar does not have a statement, or a statement
/// has an unknown name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramError {
    /// Index of the statement, from 0.
    pub statement: usize,
    /// Column in the statement, in characters from 1.
    pub column: usize,
    /// The defect.
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
    /// The thread; `None` is the main thread.
    pub thread: Option<Name>,
    /// The statement itself.
    pub statement: Statement,
}

/// A name, and its column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The name.
    pub text: String,
    /// Its first character's column, from 1.
    pub column: usize,
}

/// The kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// `dev`: on the device.
    Dev,
    /// `pin`: page-locked host memory.
    Pin,
    /// `page`: pageable host memory.
    Page,
    /// `man`: managed memory.
    Man,
}

impl Space {
    /// Whether the memory lies on the host for certain.
    pub fn is_host(self) -> bool {
        matches!(self, Self::Pin | Self::Page)
    }
}

/// A stream's relation to the legacy default stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocking {
    /// `blk`: this stream and the legacy default stream wait for each other.
    Blocking,
    /// `nb`: neither stream waits for the other.
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

/// A region: a block of memory, or a part at any depth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// The memory.
    pub memory: Name,
    /// The path to the part, outermost first; empty for the whole block.
    pub parts: Vec<Part>,
    /// The device given with it (`a@0`), for peer copies.
    pub device: Option<u32>,
}

/// One access of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touch {
    /// Read or write.
    pub kind: AccessKind,
    /// The region.
    pub region: Region,
}

/// A stream by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamName {
    /// `0`: the legacy default stream of the thread's current device.
    Legacy,
    /// A declared stream.
    Named(Name),
}

/// The form of a call, which decides whether it returns at once.
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
    /// `mallocA(x)@s`. An undeclared name becomes device memory, on the current device.
    Allocate(Name),
    /// `freeA(x)@s`.
    Free(Region),
}

/// A statement.
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
    /// `malloc(x)`, `hostAlloc(x)`. An undeclared name becomes memory of this kind, on the current
    /// device.
    Allocate(Name, Space),
    /// `free(x)`, `freeHost(x)`, `hostDrop(x)`, `recycle(x)`; the first field is the call's name.
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
