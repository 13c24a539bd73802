//! The effects of instructions, as far as the verifier needs them (PTX ISA, chapter 9, "Instruction
//! Set").

use super::body::{Instruction, JUMP_TABLE, Operand};
use super::variable::{Space, type_size};

/// A function of CUDA that kernels may call. It ends the launch.
pub(super) const ENDS_THE_LAUNCH: &str = "__assertfail";
/// A function of CUDA that kernels may call. It prints.
pub(super) const PRINTS: &str = "vprintf";

/// The effect of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// The first operand is computed from the others.
    Compute,
    /// The first operand gets a value that differs by thread, for any other operands.
    Differ,
    /// No effect that the verifier needs.
    Nothing,
    Load(Access),
    Store(Access),
    /// Reads and writes memory. If `returns`, the first operand gets the memory's previous value.
    Atomic {
        access: Access,
        returns: bool,
    },
    Collective(Collective),
    Call,
    Branch,
    Return,
    Exit,
    Trap,
}

/// An access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Access {
    /// `None` for a generic address, which may lie in any space.
    pub(super) space: Option<Space>,
    /// Neither volatile, nor with a memory order.
    pub(super) is_weak: bool,
    /// A load through the read-only cache (`.nc`).
    pub(super) is_read_only: bool,
}

/// An instruction that threads execute together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Collective {
    /// A barrier of the block. If `returns`, it gives a value on which all threads agree.
    Barrier { returns: bool },
    /// An exchange of a warp. If `agrees`, all lanes get the same value.
    Exchange { agrees: bool, returns: bool },
}

/// Instructions that compute a value from their operands alone: equal operands give equal values in
/// every thread.
const COMPUTE: &[&str] = &[
    "abs", "add", "addc", "and", "bfe", "bfi", "bfind", "bmsk", "brev", "clz", "cnot", "copysign", "cos",
    "cvt", "cvta", "div", "dp2a", "dp4a", "ex2", "fma", "fns", "isspacep", "lg2", "lop3", "mad", "mad24",
    "madc", "max", "min", "mov", "mul", "mul24", "neg", "not", "or", "popc", "prmt", "rcp", "rem", "rsqrt",
    "sad", "selp", "set", "setp", "shf", "shl", "shr", "sin", "slct", "sqrt", "sub", "subc", "szext", "tanh",
    "testp", "xor",
];
/// A pseudo-instruction at a place where paths meet: each path brings one of the operands. No PTX
/// text can contain it.
pub(super) const PATHS: &str = "(paths)";
const NOTHING: &[&str] = &["fence", "membar", "nanosleep", "pmevent", "prefetch", "prefetchu"];

/// The effect of an instruction; `Err` says why the verifier refuses it.
pub(super) fn effect(instruction: &Instruction<'_>) -> Result<Effect, &'static str> {
    let mut parts = instruction.opcode.split('.');
    let base = parts.next().unwrap_or("");
    let parts: Vec<&str> = parts.collect();
    let has = |part: &str| parts.contains(&part);
    Ok(match base {
        PATHS => Effect::Compute,
        _ if COMPUTE.contains(&base) => Effect::Compute,
        _ if NOTHING.contains(&base) => Effect::Nothing,
        "activemask" => Effect::Differ,
        "ld" | "st" | "red" if has("async") || has("bulk") => {
            return Err("is for clusters, which safe kernels do not have");
        }
        "ld" | "ldu" => Effect::Load(access(&parts)),
        "st" => Effect::Store(access(&parts)),
        "atom" => Effect::Atomic {
            access: access(&parts),
            returns: true,
        },
        "red" => Effect::Atomic {
            access: access(&parts),
            returns: false,
        },
        "bra" => Effect::Branch,
        "brx" => return Err(JUMP_TABLE),
        "call" => Effect::Call,
        "ret" => Effect::Return,
        "exit" => Effect::Exit,
        "trap" => Effect::Trap,
        "bar" | "barrier" if has("warp") => Effect::Collective(Collective::Exchange {
            agrees: true,
            returns: false,
        }),
        "bar" | "barrier" if has("cluster") => return Err("is for clusters, which safe kernels do not have"),
        "bar" | "barrier" if has("arrive") => {
            return Err("does not wait, but every barrier of a safe kernel waits");
        }
        "bar" | "barrier" => Effect::Collective(Collective::Barrier { returns: has("red") }),
        "shfl" | "vote" | "match" if !has("sync") => return Err("names no lanes: it lacks `.sync`"),
        "shfl" => exchange(false),
        "vote" | "redux" => exchange(true),
        "match" => exchange(has("all")),
        _ => return Err("is an instruction that the verifier does not know"),
    })
}

fn exchange(agrees: bool) -> Effect {
    Effect::Collective(Collective::Exchange {
        agrees,
        returns: true,
    })
}

fn access(parts: &[&str]) -> Access {
    let space = parts.iter().find_map(|part| match *part {
        "global" => Some(Space::Global),
        "shared" => Some(Space::Shared),
        "local" => Some(Space::Local),
        "const" => Some(Space::Const),
        "param" => Some(Space::Param),
        _ => None,
    });
    let orders = ["volatile", "relaxed", "acquire", "release", "mmio"];
    Access {
        space,
        is_weak: !parts.iter().any(|part| orders.contains(part)),
        is_read_only: parts.contains(&"nc"),
    }
}

/// The number of bytes that an access of memory reads or writes.
pub(super) fn width(opcode: &str) -> Option<u64> {
    let (mut lanes, mut bytes) = (1, None);
    for part in opcode.split('.').skip(1) {
        match part {
            "v2" => lanes = 2,
            "v4" => lanes = 4,
            "v8" => lanes = 8,
            part => bytes = type_size(&format!(".{part}")).or(bytes),
        }
    }
    Some(bytes? * lanes)
}

/// Whether the instruction reads, and whether it writes, the carry flag, which no operand names.
pub(super) fn uses_carry(opcode: &str) -> (bool, bool) {
    let base = opcode.split('.').next().unwrap_or("");
    (
        matches!(base, "addc" | "subc" | "madc"),
        opcode.split('.').any(|part| part == "cc"),
    )
}

/// The function that a call names.
pub(super) fn callee<'a>(instruction: &Instruction<'a>) -> Option<&'a str> {
    instruction.operands.iter().find_map(|operand| match operand {
        Operand::Symbol(name) => Some(*name),
        _ => None,
    })
}

/// The arguments of a call. Its operands are `(results), function, (arguments)`.
pub(super) fn arguments<'o, 'a>(instruction: &'o Instruction<'a>) -> &'o [Operand<'a>] {
    let at = instruction
        .operands
        .iter()
        .position(|o| matches!(o, Operand::Symbol(_)));
    match at.and_then(|at| instruction.operands.get(at + 1)) {
        Some(Operand::List(list)) => list,
        _ => &[],
    }
}

/// The results of a call.
pub(super) fn results<'o, 'a>(instruction: &'o Instruction<'a>) -> &'o [Operand<'a>] {
    match instruction.operands.first() {
        Some(Operand::List(list)) => list,
        _ => &[],
    }
}

impl<'a> Instruction<'a> {
    /// The number of operands that are written. They come first.
    pub(super) fn written_operands(&self) -> usize {
        effect(self).map_or(0, |effect| self.split(effect).0.len())
    }

    /// The operands that are written, and the operands that are read.
    pub(super) fn split(&self, effect: Effect) -> (&[Operand<'a>], &[Operand<'a>]) {
        let writes_first = match effect {
            Effect::Compute | Effect::Differ | Effect::Load(_) => true,
            Effect::Atomic { returns, .. } => returns,
            Effect::Collective(Collective::Barrier { returns } | Collective::Exchange { returns, .. }) => {
                returns
            }
            _ => false,
        };
        self.operands
            .split_at(usize::from(writes_first).min(self.operands.len()))
    }
}
