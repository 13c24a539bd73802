//! Random control flow. No program whose loops are proved to end may run for ever.
//!
//! A program is a list of blocks that compute with registers of 16 bits and branch to any block. An
//! interpreter runs each accepted program from several states. This is a second opinion on the
//! proof; both share only the text.
//!
//! A state holds all that decides how the run goes on. So a run that comes to the same state twice
//! never ends. The interpreter also runs some of the refused programs. It must find endless runs
//! among them, or it would find none among the accepted programs.

use std::fmt::{self, Display, Formatter};

use super::check::Checker;
use super::random_mutants::Random;
use super::{Refusal, loops, modules};

/// The number of random programs.
const PROGRAMS: u64 = 4000;
/// States from which each program runs.
const STARTS: usize = 6;
/// The largest number of instructions in a run. A counter of 16 bits takes up to 65,536 turns.
const LONGEST: u64 = 600_000;
/// The same for refused programs, whose endless runs show early.
const LONGEST_OF_REFUSED: u64 = 5_000;

/// Registers of 16 bits. The last one is a bound that no program writes.
const REGISTERS: usize = 4;
/// Predicates. The last one is a parameter that no program writes.
const PREDICATES: usize = 3;

/// Numbers that are added: powers of two and others, up and down.
const STEPS: [i64; 11] = [1, 1, 1, -1, 2, 4, 3, 6, -4, 16384, 8];
/// Numbers that are compared, most of them near the ends of the range.
const BOUNDS: [i64; 13] = [0, 3, 4, -1, -4, 7, 32767, -32768, 65535, 65532, 100, 8, 32764];
const MASKS: [i64; 4] = [-4, 3, -2, 255];

/// An operand: a register or a number.
#[derive(Clone, Copy)]
enum Operand {
    Register(usize),
    Number(i64),
}

#[derive(Clone, Copy)]
enum Operation {
    Add,
    Subtract,
    And,
    ShiftLeft,
}

#[derive(Clone, Copy)]
enum Relation {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

const RELATIONS: [Relation; 6] = [
    Relation::Equal,
    Relation::Unequal,
    Relation::Less,
    Relation::LessOrEqual,
    Relation::Greater,
    Relation::GreaterOrEqual,
];

/// A predicate on which an instruction depends.
#[derive(Clone, Copy)]
struct Guard {
    predicate: usize,
    is_negated: bool,
}

#[derive(Clone, Copy)]
enum Instruction {
    Compute {
        guard: Option<Guard>,
        operation: Operation,
        to: usize,
        from: usize,
        by: Operand,
    },
    Move {
        to: usize,
        from: Operand,
    },
    Compare {
        to: usize,
        relation: Relation,
        is_signed: bool,
        left: usize,
        right: Operand,
    },
    /// Both predicates hold, or one of them.
    Combine {
        to: usize,
        both: bool,
        from: [usize; 2],
    },
    Negate {
        to: usize,
        from: usize,
    },
    /// Goes to the start of a block.
    Branch {
        guard: Option<Guard>,
        to: usize,
    },
    Return,
}

impl Display for Operand {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Register(register) => write!(f, "%rs{register}"),
            Self::Number(number) => write!(f, "{number}"),
        }
    }
}

impl Display for Guard {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let negation = if self.is_negated { "!" } else { "" };
        write!(f, "@{negation}%p{} ", self.predicate)
    }
}

impl Display for Instruction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Compute {
                guard,
                operation,
                to,
                from,
                by,
            } => {
                if let Some(guard) = guard {
                    write!(f, "{guard}")?;
                }
                let opcode = match operation {
                    Operation::Add => "add.s16",
                    Operation::Subtract => "sub.s16",
                    Operation::And => "and.b16",
                    Operation::ShiftLeft => "shl.b16",
                };
                write!(f, "{opcode} %rs{to}, %rs{from}, {by};")
            }
            Self::Move { to, from } => write!(f, "mov.b16 %rs{to}, {from};"),
            Self::Compare {
                to,
                relation,
                is_signed,
                left,
                right,
            } => {
                let relation = match relation {
                    Relation::Equal => "eq",
                    Relation::Unequal => "ne",
                    Relation::Less => "lt",
                    Relation::LessOrEqual => "le",
                    Relation::Greater => "gt",
                    Relation::GreaterOrEqual => "ge",
                };
                let sign = if is_signed { 's' } else { 'u' };
                write!(f, "setp.{relation}.{sign}16 %p{to}, %rs{left}, {right};")
            }
            Self::Combine {
                to,
                both,
                from: [left, right],
            } => {
                let opcode = if both { "and.pred" } else { "or.pred" };
                write!(f, "{opcode} %p{to}, %p{left}, %p{right};")
            }
            Self::Negate { to, from } => write!(f, "not.pred %p{to}, %p{from};"),
            Self::Branch {
                guard: Some(guard),
                to,
            } => write!(f, "{guard}bra L{to};"),
            Self::Branch { guard: None, to } => write!(f, "bra.uni L{to};"),
            Self::Return => write!(f, "ret;"),
        }
    }
}

/// Makes random instructions.
struct Generator {
    random: Random,
    /// A branch goes to one of these blocks, or behind the last one.
    blocks: usize,
}

impl Generator {
    fn choose<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.random.below(from.len())]
    }

    fn is_one_of(&mut self, limit: usize) -> bool {
        self.random.below(limit) == 0
    }

    /// A register that programs write.
    fn written(&mut self) -> usize {
        self.random.below(REGISTERS - 1)
    }

    fn register(&mut self) -> usize {
        self.random.below(REGISTERS)
    }

    fn predicate(&mut self) -> usize {
        self.random.below(PREDICATES)
    }

    fn guard(&mut self) -> Guard {
        Guard {
            predicate: self.predicate(),
            is_negated: self.is_one_of(2),
        }
    }

    fn compute(&mut self, operation: Operation, to: usize, from: usize, by: Operand) -> Instruction {
        // Few instructions have a guard: a guarded counter does not end a loop.
        let guard = self.is_one_of(32).then(|| self.guard());
        Instruction::Compute {
            guard,
            operation,
            to,
            from,
            by,
        }
    }

    fn compare(&mut self, left: usize) -> Instruction {
        Instruction::Compare {
            to: self.random.below(PREDICATES - 1),
            relation: self.choose(&RELATIONS),
            is_signed: self.is_one_of(2),
            left,
            right: match self.is_one_of(2) {
                true => Operand::Register(self.register()),
                false => Operand::Number(self.choose(&BOUNDS)),
            },
        }
    }

    fn instruction(&mut self) -> Instruction {
        let (to, other) = (self.written(), self.register());
        let step = Operand::Number(self.choose(&STEPS));
        match self.random.below(16) {
            0..=3 => self.compute(Operation::Add, to, to, step),
            4 => self.compute(Operation::Add, to, other, step),
            5 => self.compute(Operation::Add, to, to, Operand::Register(other)),
            6 => self.compute(Operation::Subtract, to, to, step),
            7 => {
                let mask = Operand::Number(self.choose(&MASKS));
                self.compute(Operation::And, to, other, mask)
            }
            8 => {
                let by = Operand::Number(self.choose(&[0, 1, 2]));
                self.compute(Operation::ShiftLeft, to, other, by)
            }
            9 => Instruction::Move {
                to,
                from: Operand::Register(other),
            },
            10 => Instruction::Move {
                to,
                from: Operand::Number(self.choose(&BOUNDS)),
            },
            11 => Instruction::Combine {
                to: self.random.below(PREDICATES - 1),
                both: self.is_one_of(2),
                from: [self.predicate(), self.predicate()],
            },
            12 => Instruction::Negate {
                to: self.random.below(PREDICATES - 1),
                from: self.predicate(),
            },
            _ => self.compare(to),
        }
    }

    /// Adds a counter's step and its comparison, as in a loop that ends. Returns the predicate.
    fn turn(&mut self, block: &mut Vec<Instruction>) -> usize {
        let counter = self.written();
        let step = Operand::Number(self.choose(&STEPS));
        block.push(self.compute(Operation::Add, counter, counter, step));
        let comparison = self.compare(counter);
        block.push(comparison);
        match comparison {
            Instruction::Compare { to, .. } => to,
            _ => unreachable!("a comparison"),
        }
    }

    fn block(&mut self) -> Vec<Instruction> {
        let mut block: Vec<Instruction> = (0..1 + self.random.below(4))
            .map(|_| self.instruction())
            .collect();
        let mut guard = self.guard();
        match self.random.below(4) {
            0 => {}
            1..=2 => {
                let left = self.written();
                block.push(self.compare(left));
            }
            _ => guard.predicate = self.turn(&mut block),
        }
        let (guard, to) = (Some(guard), self.random.below(self.blocks + 1));
        block.push(Instruction::Branch { guard, to });
        if self.is_one_of(4) {
            let to = self.random.below(self.blocks + 1);
            block.push(match self.is_one_of(3) {
                true => Instruction::Return,
                false => Instruction::Branch { guard: None, to },
            });
        }
        block
    }
}

/// What decides how a run goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
struct State {
    /// The number of the next instruction.
    next: usize,
    registers: [u16; REGISTERS],
    predicates: [bool; PREDICATES],
}

impl State {
    /// The state at the start: the parameters of the entry, and comparisons of them.
    fn random(random: &mut Random) -> Self {
        let near =
            |random: &mut Random, middle: u16| middle.wrapping_sub(5).wrapping_add(random.below(10) as u16);
        let registers = std::array::from_fn(|_| match random.below(4) {
            0 => random.below(10) as u16,
            1 => near(random, u16::MAX - 4),
            2 => near(random, 1 << 15),
            _ => random.below(1 << 16) as u16,
        });
        Self {
            next: 0,
            registers,
            predicates: [
                registers[0] == 5,
                (registers[0] as i16) < registers[1] as i16,
                registers[2] > registers[1],
            ],
        }
    }

    fn value(&self, operand: Operand) -> u16 {
        match operand {
            Operand::Register(register) => self.registers[register],
            Operand::Number(number) => number as u16,
        }
    }

    fn allows(&self, guard: Option<Guard>) -> bool {
        guard.is_none_or(|guard| self.predicates[guard.predicate] != guard.is_negated)
    }

    fn compares(&self, relation: Relation, is_signed: bool, left: usize, right: Operand) -> bool {
        let number = |value: u16| match is_signed {
            true => i32::from(value as i16),
            false => i32::from(value),
        };
        let (left, right) = (number(self.registers[left]), number(self.value(right)));
        match relation {
            Relation::Equal => left == right,
            Relation::Unequal => left != right,
            Relation::Less => left < right,
            Relation::LessOrEqual => left <= right,
            Relation::Greater => left > right,
            Relation::GreaterOrEqual => left >= right,
        }
    }
}

/// The end of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Returned,
    /// A state came twice.
    Endless,
    /// The run was given up.
    Unknown,
}

struct Program {
    blocks: Vec<Vec<Instruction>>,
    /// The instructions of all blocks, and a return.
    instructions: Vec<Instruction>,
    /// The first instruction of each block, and the return.
    starts: Vec<usize>,
}

impl Program {
    fn random(seed: u64) -> Self {
        let mut random = Random(seed);
        let blocks = 2 + random.below(4);
        let mut generator = Generator { random, blocks };
        let blocks: Vec<_> = (0..blocks).map(|_| generator.block()).collect();
        let (mut instructions, mut starts) = (Vec::new(), Vec::new());
        for block in &blocks {
            starts.push(instructions.len());
            instructions.extend(block);
        }
        starts.push(instructions.len());
        instructions.push(Instruction::Return);
        Self {
            blocks,
            instructions,
            starts,
        }
    }

    fn text(&self) -> String {
        let mut body = String::new();
        for (number, block) in self.blocks.iter().enumerate() {
            body += &format!("L{number}:\n");
            block
                .iter()
                .for_each(|instruction| body += &format!("{instruction}\n"));
        }
        let last = self.blocks.len();
        format!(
            ".version 7.0\n.target sm_80\n.address_size 64\n\
             .visible .entry k(.param .u16 a, .param .u16 b, .param .u16 c, .param .u16 d)\n{{\n\
             .reg .pred %p<3>;\n.reg .b16 %rs<4>;\n\
             ld.param.b16 %rs0, [a];\nld.param.b16 %rs1, [b];\nld.param.b16 %rs2, [c];\n\
             ld.param.b16 %rs3, [d];\nsetp.eq.s16 %p0, %rs0, 5;\nsetp.lt.s16 %p1, %rs0, %rs1;\n\
             setp.gt.u16 %p2, %rs2, %rs1;\n{body}L{last}:\nret;\n}}\n"
        )
    }

    /// Whether a branch goes to its own block, or to an earlier one.
    fn branches_back(&self) -> bool {
        let is_back = |at: usize, instruction: &Instruction| matches!(instruction, Instruction::Branch { to, .. } if self.starts[*to] <= at);
        (0..)
            .zip(&self.instructions)
            .any(|(at, instruction)| is_back(at, instruction))
    }

    /// The state behind the next instruction. `None` if that returns.
    fn step(&self, mut state: State) -> Option<State> {
        let instruction = self.instructions[state.next];
        state.next += 1;
        match instruction {
            Instruction::Compute {
                guard,
                operation,
                to,
                from,
                by,
            } => {
                let (value, by) = (state.registers[from], state.value(by));
                if state.allows(guard) {
                    state.registers[to] = match operation {
                        Operation::Add => value.wrapping_add(by),
                        Operation::Subtract => value.wrapping_sub(by),
                        Operation::And => value & by,
                        Operation::ShiftLeft => value << by,
                    };
                }
            }
            Instruction::Move { to, from } => state.registers[to] = state.value(from),
            Instruction::Compare {
                to,
                relation,
                is_signed,
                left,
                right,
            } => state.predicates[to] = state.compares(relation, is_signed, left, right),
            Instruction::Combine {
                to,
                both,
                from: [left, right],
            } => {
                let (left, right) = (state.predicates[left], state.predicates[right]);
                state.predicates[to] = if both { left && right } else { left || right };
            }
            Instruction::Negate { to, from } => state.predicates[to] = !state.predicates[from],
            Instruction::Branch { guard, to } => {
                if state.allows(guard) {
                    state.next = self.starts[to];
                }
            }
            Instruction::Return => return None,
        }
        Some(state)
    }

    /// Runs the program from a state. Finds a state that comes twice by comparing with one earlier
    /// state, which moves on whenever the run has doubled (R. P. Brent, "An improved Monte Carlo
    /// factorization algorithm", BIT 1980). Also returns the number of instructions that ran.
    fn run(&self, start: State, longest: u64) -> (End, u64) {
        let (mut state, mut earlier, mut moves_at) = (start, start, 1);
        for ran in 1..=longest {
            match self.step(state) {
                None => return (End::Returned, ran),
                Some(next) if next == earlier => return (End::Endless, ran),
                Some(next) => state = next,
            }
            if ran == moves_at {
                (earlier, moves_at) = (state, 2 * moves_at);
            }
        }
        (End::Unknown, longest)
    }
}

/// Whether the proof accepts all loops of the text.
fn is_accepted(text: &str) -> bool {
    let check = || {
        let modules = modules(text)?;
        modules
            .iter()
            .try_for_each(|module| loops::check(&Checker::new(module)?))
    };
    match check() {
        Ok(()) => true,
        Err(Refusal::Loop { .. }) => false,
        Err(refusal) => panic!("refused for another reason: {refusal}\n{text}"),
    }
}

#[derive(Debug, Default)]
struct Outcome {
    accepted: u64,
    /// Accepted programs with a branch back.
    accepted_with_loops: u64,
    /// Runs of accepted programs that returned after a thousand instructions or more.
    long: u64,
    /// Runs of accepted programs that were given up.
    unknown: u64,
    refused: u64,
    /// Refused programs with an endless run.
    endless: u64,
}

#[test]
fn no_program_whose_loops_are_accepted_runs_for_ever() {
    let mut outcome = Outcome::default();
    for seed in 0..PROGRAMS {
        let program = Program::random(seed);
        let text = program.text();
        let is_accepted = is_accepted(&text);
        let mut random = Random(!seed);
        let mut starts = (0..STARTS).map(|_| State::random(&mut random));
        if !is_accepted {
            outcome.refused += 1;
            let is_endless = starts.any(|start| program.run(start, LONGEST_OF_REFUSED).0 == End::Endless);
            outcome.endless += u64::from(is_endless);
            continue;
        }
        outcome.accepted += 1;
        if !program.branches_back() {
            continue;
        }
        outcome.accepted_with_loops += 1;
        for start in starts {
            let (end, ran) = program.run(start, LONGEST);
            assert!(
                end != End::Endless,
                "seed {seed}: accepted, and runs for ever from {:?}:\n{text}",
                start.registers
            );
            outcome.long += u64::from(end == End::Returned && ran >= 1000);
            outcome.unknown += u64::from(end == End::Unknown);
        }
    }
    println!("{outcome:?}");
    assert!(outcome.accepted_with_loops >= 300, "{outcome:?}");
    assert!(outcome.long >= 150, "{outcome:?}");
    assert!(outcome.endless >= 700, "{outcome:?}");
    assert!(outcome.unknown <= outcome.long, "{outcome:?}");
}
