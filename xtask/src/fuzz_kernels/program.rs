//! What a random kernel is made of: the syntax tree that [`emit`](super::emit) writes as Rust and
//! [`reference`](super::reference) runs.
//!
//! Everything in it has one result, on every device. Of floats there are only operations that are
//! rounded the same everywhere, and what is not a number becomes one and the same before its bits
//! are looked at. Of atomics the results are thrown away, and one element is changed by one
//! operation only, whose order does not matter.

/// The types of values.
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

    /// The integer of the same size without a sign.
    pub(super) fn bits(self) -> Self {
        if self.bytes() == 4 { Self::U32 } else { Self::U64 }
    }
}

/// A value as its bits, zeros above.
pub(super) type Bits = u64;

/// Where a thread or block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The thread in its block, row-major.
    Index,
    /// In its warp.
    Lane,
    /// The warp in the block.
    Warp,
    /// Along x and y: in the block, or of an index in the launch.
    X,
    Y,
    /// The block in the grid.
    Block,
    /// The element of shared memory that is written.
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
    /// A parameter.
    Scalar(usize),
    /// The thread's own of a `Private`.
    Private(usize),
    /// What the phase changes: a private value, or an element of shared memory.
    Own,
    Place(Place),
    /// An element of an input, modulo its length.
    Input(usize, Box<Expr>),
    /// An element of a shared array that the phase may read, modulo its length.
    View(usize, Box<Expr>),
    Unary(Unary, Box<Expr>),
    Binary(Binary, Box<Expr>, Box<Expr>),
    Select(Box<Cond>, Box<Expr>, Box<Expr>),
    /// `as`
    Cast(Box<Expr>),
    Narrow(Narrow, Box<Expr>),
    /// The same bits.
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
    /// A loop of `count % below` rounds, whose number is a variable.
    For {
        variable: usize,
        count: Expr,
        below: u32,
        body: Vec<Stmt>,
    },
}

/// What a closure does: statements, and a value.
#[derive(Clone, Debug)]
pub(super) struct Body {
    pub(super) stmts: Vec<Stmt>,
    pub(super) result: Expr,
}

/// How values are combined.
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
    /// By the lane's own choice: a private of `u32`.
    Any(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vote {
    Any,
    All,
    /// `ballot`; of a block, `count`.
    Which,
}

/// A step of the block-level code. `dst` and `src` are privates, `total` is a uniform variable,
/// `array` a shared array.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// `map`, or where `shared` is set `map_shared`.
    Map {
        dst: usize,
        shared: bool,
        body: Body,
    },
    /// `update`, or where `shared` is set `threads_with`.
    Update {
        dst: usize,
        shared: bool,
        body: Body,
    },
    /// Every element anew.
    Write {
        array: usize,
        body: Body,
    },
    /// Each thread its own element.
    Each {
        array: usize,
        body: Body,
    },
    /// Each thread its own of the first `mid`, while the others are read.
    Split {
        array: usize,
        mid: usize,
        body: Body,
    },
    /// An atomic operation on a shared array, where `guard` holds.
    SharedAtomic {
        array: usize,
        operator: Operator,
        guard: Cond,
        at: Expr,
        body: Body,
    },
    /// The same on an output.
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
    /// `count % below` rounds, whose number is a uniform variable.
    For {
        variable: usize,
        count: Expr,
        below: u32,
        body: Vec<Step>,
    },
}

/// What a kernel writes.
#[derive(Clone, Debug)]
pub(super) struct Output {
    pub(super) ty: Ty,
    pub(super) kind: OutputKind,
    pub(super) initial: Vec<Bits>,
}

#[derive(Clone, Debug)]
pub(super) enum OutputKind {
    /// At the end, where `guard` holds.
    PerThread {
        guard: Cond,
        body: Body,
    },
    /// Several elements of each thread: the value for `k` has `k` as its element of shared memory.
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

/// What tells threads or blocks apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    Index1,
    Index2,
    Index3,
    /// Threads of a block along x; and along y, where it has two dimensions.
    Block(usize),
    Block2(usize, usize),
}

/// A kernel, and what it is launched with.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) position: Position,
    /// Threads of the launch along each axis.
    pub(super) extent: [usize; 3],
    pub(super) scalars: Vec<(Ty, Bits)>,
    pub(super) inputs: Vec<(Ty, Vec<Bits>)>,
    pub(super) outputs: Vec<Output>,
    pub(super) shared: Vec<Shared>,
    pub(super) privates: Vec<(Ty, Body)>,
    pub(super) uniforms: Vec<(Ty, Expr)>,
    pub(super) steps: Vec<Step>,
    /// The numbers of variables are below this.
    pub(super) locals: usize,
}

impl Program {
    /// Threads of a block along x and y; of a kernel without one, of what it is launched in.
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
