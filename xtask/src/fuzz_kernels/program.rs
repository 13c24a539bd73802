//! The syntax tree of a random kernel, which [`emit`](super::emit) writes as Rust and
//! [`reference`](super::reference) runs.
//!
//! Every construct has the same result on every device. Floats have only operations that every
//! device rounds in the same way, and each NaN is replaced by one fixed NaN before its bits are
//! read. The results of atomic operations are thrown away. All atomic operations on one element are
//! of one kind, whose order does not matter.

/// A type of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ty {
    U32,
    I32,
    U64,
    I64,
    F32,
    F64,
}

impl Ty {
    pub(super) const ALL: [Self; 6] = [Self::U32, Self::I32, Self::U64, Self::I64, Self::F32, Self::F64];
    pub(super) const INTEGERS: [Self; 4] = [Self::U32, Self::I32, Self::U64, Self::I64];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::U64 => "u64",
            Self::I64 => "i64",
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }

    pub(super) fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }

    pub(super) fn bytes(self) -> usize {
        match self {
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// The unsigned integer of the same size.
    pub(super) fn bits(self) -> Self {
        if self.bytes() == 4 { Self::U32 } else { Self::U64 }
    }
}

/// The bits of a value, with zeros above.
pub(super) type Bits = u64;

/// A coordinate of a thread or block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The thread's position in its block, row-major.
    Index,
    /// The thread's position in its warp.
    Lane,
    /// The warp's position in the block.
    Warp,
    /// The thread's position along x and y: in the block, or in the launch for a kernel that takes
    /// an index.
    X,
    Y,
    /// The block's position in the grid.
    Block,
    /// The position of the element of shared memory that is written.
    At,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unary {
    Not,
    Negate,
    CountOnes,
    LeadingZeros,
    TrailingZeros,
    SwapBytes,
    ReverseBits,
    Abs,
    /// The root of the absolute value. LLVM takes `if x < 0.0 { NAN } else { sqrt(x) }` for
    /// `sqrt(x)`, for every target, so a canonical NaN of a negative number gets other bits.
    Sqrt,
    Floor,
    Ceil,
    Trunc,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    RemEuclid,
    And,
    Or,
    Xor,
    Shl,
    Shr,
    Rotate,
    Min,
    Max,
    SaturatingAdd,
    SaturatingSub,
    MulAdd,
}

/// A conversion to a type of 8 or 16 bits and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Narrow {
    U8,
    I8,
    U16,
    I16,
}

impl Narrow {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::U16 => "u16",
            Self::I16 => "i16",
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Expr {
    pub(super) ty: Ty,
    pub(super) node: Node,
}

#[derive(Clone, Debug)]
pub(super) enum Node {
    Const(Bits),
    /// A variable of the closure, by its number.
    Local(usize),
    /// A variable of the block-level code.
    Uniform(usize),
    /// A scalar parameter.
    Scalar(usize),
    /// The thread's own value in a `Private`.
    Private(usize),
    /// The value that the phase changes: a private value, or an element of shared memory.
    Own,
    Place(Place),
    /// An element of an input, modulo its length.
    Input(usize, Box<Expr>),
    /// An element of a shared array that the phase may read, modulo its length.
    View(usize, Box<Expr>),
    Unary(Unary, Box<Expr>),
    Binary(Binary, Box<Expr>, Box<Expr>),
    Select(Box<Cond>, Box<Expr>, Box<Expr>),
    /// A conversion with `as`.
    Cast(Box<Expr>),
    Narrow(Narrow, Box<Expr>),
    /// A conversion that keeps the bits.
    Transmute(Box<Expr>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
}

#[derive(Clone, Debug)]
pub(super) enum Cond {
    Compare(Comparison, Expr, Expr),
    And(Box<Cond>, Box<Cond>),
    Or(Box<Cond>, Box<Cond>),
    Not(Box<Cond>),
}

/// A statement of one thread.
#[derive(Clone, Debug)]
pub(super) enum Stmt {
    Let(usize, Expr),
    Assign(usize, Expr),
    If(Cond, Vec<Stmt>, Vec<Stmt>),
    /// A loop of `count % below` rounds. A variable holds the round's number.
    For {
        variable: usize,
        count: Expr,
        below: u32,
        body: Vec<Stmt>,
    },
}

/// The body of a closure: statements and a value.
#[derive(Clone, Debug)]
pub(super) struct Body {
    pub(super) stmts: Vec<Stmt>,
    pub(super) result: Expr,
}

/// An operator that combines values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Sum,
    Min,
    Max,
    And,
    Or,
    Xor,
}

impl Operator {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sum => "Sum",
            Self::Min => "Min",
            Self::Max => "Max",
            Self::And => "And",
            Self::Or => "Or",
            Self::Xor => "Xor",
        }
    }

    pub(super) fn method(self) -> &'static str {
        match self {
            Self::Sum => "fetch_add",
            Self::Min => "fetch_min",
            Self::Max => "fetch_max",
            Self::And => "fetch_and",
            Self::Or => "fetch_or",
            Self::Xor => "fetch_xor",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shuffle {
    Down(usize),
    Up(usize),
    Xor(usize),
    From(usize),
    /// Each lane chooses its source, by a private of `u32`.
    Any(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vote {
    Any,
    All,
    /// `ballot` in a warp, `count` in a block.
    Which,
}

/// A step of the block-level code. `dst` and `src` are privates, `total` is a uniform variable,
/// `array` a shared array.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// `map`, or `map_shared` if `shared` is set.
    Map {
        dst: usize,
        shared: bool,
        body: Body,
    },
    /// `update`, or `threads_with` if `shared` is set.
    Update {
        dst: usize,
        shared: bool,
        body: Body,
    },
    /// Writes every element.
    Write {
        array: usize,
        body: Body,
    },
    /// Each thread changes its own element.
    Each {
        array: usize,
        body: Body,
    },
    /// Each thread changes its own of the first `mid` elements, and may read the later ones.
    Split {
        array: usize,
        mid: usize,
        body: Body,
    },
    /// An atomic operation on a shared array, if `guard` holds.
    SharedAtomic {
        array: usize,
        operator: Operator,
        guard: Cond,
        at: Expr,
        body: Body,
    },
    /// An atomic operation on an output, if `guard` holds.
    Atomic {
        output: usize,
        guard: Cond,
        at: Expr,
        body: Body,
    },
    Shuffle {
        kind: Shuffle,
        dst: usize,
        src: usize,
    },
    WarpVote {
        kind: Vote,
        dst: usize,
        cond: Cond,
    },
    WarpMatch {
        dst: usize,
        src: usize,
    },
    WarpReduce {
        operator: Operator,
        dst: usize,
        src: usize,
    },
    WarpScan {
        operator: Operator,
        inclusive: bool,
        dst: usize,
        src: usize,
    },
    Reduce {
        operator: Operator,
        total: usize,
        src: usize,
    },
    Scan {
        operator: Operator,
        inclusive: bool,
        dst: usize,
        total: usize,
        src: usize,
    },
    BlockVote {
        kind: Vote,
        total: usize,
        cond: Cond,
    },
    Broadcast {
        total: usize,
        array: usize,
        at: usize,
    },
    Set {
        uniform: usize,
        value: Expr,
    },
    If {
        cond: Cond,
        then: Vec<Step>,
        otherwise: Vec<Step>,
    },
    /// A loop of `count % below` rounds. A uniform variable holds the round's number.
    For {
        variable: usize,
        count: Expr,
        below: u32,
        body: Vec<Step>,
    },
}

/// An output of the kernel.
#[derive(Clone, Debug)]
pub(super) struct Output {
    pub(super) ty: Ty,
    pub(super) kind: OutputKind,
    pub(super) initial: Vec<Bits>,
}

#[derive(Clone, Debug)]
pub(super) enum OutputKind {
    /// Each thread writes an element at its end, if `guard` holds.
    PerThread {
        guard: Cond,
        body: Body,
    },
    /// Each thread writes several elements. The value for the element `k` has `k` as its place
    /// [`Place::At`].
    Chunk {
        elements: usize,
        body: Body,
    },
    Column {
        rows: usize,
        body: Body,
    },
    PerBlock {
        value: Expr,
    },
    Atomic {
        operator: Operator,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub(super) ty: Ty,
    pub(super) len: usize,
    pub(super) init: Body,
}

/// The kernel's first parameter: an index or a block, with its dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    Index1,
    Index2,
    Index3,
    /// A block's threads along x, and along y if it has two dimensions.
    Block(usize),
    Block2(usize, usize),
}

/// A kernel and its launch.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) position: Position,
    /// Number of threads of the launch along each axis.
    pub(super) extent: [usize; 3],
    pub(super) scalars: Vec<(Ty, Bits)>,
    pub(super) inputs: Vec<(Ty, Vec<Bits>)>,
    pub(super) outputs: Vec<Output>,
    pub(super) shared: Vec<Shared>,
    pub(super) privates: Vec<(Ty, Body)>,
    pub(super) uniforms: Vec<(Ty, Expr)>,
    pub(super) steps: Vec<Step>,
    /// Number of variables; each variable's number is below it.
    pub(super) locals: usize,
}

impl Program {
    /// Threads of a block along x and y; `[1, 1]` for a kernel that takes an index.
    pub(super) fn block(&self) -> [usize; 2] {
        match self.position {
            Position::Block(x) => [x, 1],
            Position::Block2(x, y) => [x, y],
            Position::Index1 | Position::Index2 | Position::Index3 => [1, 1],
        }
    }

    pub(super) fn is_block(&self) -> bool {
        matches!(self.position, Position::Block(_) | Position::Block2(..))
    }

    /// Blocks along x and y.
    pub(super) fn blocks(&self) -> [usize; 2] {
        let block = self.block();
        [0, 1].map(|axis| self.extent[axis].div_ceil(block[axis]))
    }

    pub(super) fn has_whole_warps(&self) -> bool {
        let [x, y] = self.block();
        self.is_block() && (x * y).is_multiple_of(32)
    }
}
