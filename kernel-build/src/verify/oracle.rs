//! Runs PTX in two threads, and compares the barriers that they meet. This is a second opinion on
//! the proof; both share only the code that reads a text.
//!
//! The run does not model arithmetic: the result of an instruction is a hash of its name and its
//! operands. A value read from memory is a hash of the address. A branch depends on a bit of its
//! predicate. If the threads of a run meet different barriers, or different exchanges, the text
//! does not prove that they always meet. The hash depends on a seed, so that over many seeds each
//! branch goes both ways.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::body::{Body, Kind, Name, Operand};
use super::graph::{End, Graph};
use super::instruction::{Collective, Effect};
use super::variable::Space;

/// The largest number of blocks that a run executes.
const LONGEST: usize = 400;

/// A thread: its place in the block, its registers and its local memory.
struct Thread<'b, 'a> {
    body: &'b Body<'a>,
    seed: u64,
    warp: u64,
    lane: u64,
    registers: HashMap<Name, u64>,
    local: HashMap<u64, u64>,
    barriers: u64,
    steps: u64,
}

/// The barriers and exchanges that a thread met, in order, as lines of the text. `None` if the
/// thread traps or does not end.
type Met = Option<Vec<u32>>;

impl Thread<'_, '_> {
    fn hash(&self, of: impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.seed, of).hash(&mut hasher);
        hasher.finish()
    }

    /// A value that differs in each thread and at each step.
    fn own(&self) -> u64 {
        self.hash((self.warp, self.lane, self.steps))
    }

    fn value(&self, operand: &Operand<'_>) -> u64 {
        match operand {
            Operand::Name(name) if self.body.names[name.0].1 == Kind::Register => {
                // Nobody wrote the register.
                self.registers.get(name).copied().unwrap_or_else(|| self.own())
            }
            Operand::Name(name) => self
                .registers
                .get(name)
                .copied()
                .unwrap_or_else(|| self.hash(name)),
            Operand::Special(register) => {
                let is_uniform = ["%ctaid", "%ntid", "%nctaid"]
                    .iter()
                    .any(|known| register.starts_with(known));
                if is_uniform {
                    self.hash(register)
                } else {
                    self.hash((register, self.warp, self.lane))
                }
            }
            Operand::Symbol(symbol) => self.hash(symbol),
            Operand::Number(number) => self.hash(number),
            Operand::Address(base, offset) => self.hash((self.value(base), offset)),
            Operand::List(list) => self.hash(list.iter().map(|o| self.value(o)).collect::<Vec<_>>()),
            Operand::Sink => 0,
        }
    }

    fn write(&mut self, operand: &Operand<'_>, value: u64) {
        let mut names = Vec::new();
        operand.each_name(&mut |name| names.push(name));
        for (at, name) in names.into_iter().enumerate() {
            let value = self.hash((value, at));
            self.registers.insert(name, value);
        }
    }

    fn run(mut self, graph: &Graph<'_, '_>) -> Met {
        let (mut block, mut met) = (0, Vec::new());
        for _ in 0..LONGEST {
            for (instruction, effect) in &graph.blocks[block].instructions {
                self.steps += 1;
                let (written, read) = instruction.split(*effect);
                let operands: Vec<u64> = read.iter().map(|o| self.value(o)).collect();
                let computed = self.hash((instruction.opcode, &operands));
                let value = match effect {
                    // A move keeps its value.
                    Effect::Compute if instruction.opcode.starts_with("mov.") && read.len() == 1 => {
                        operands[0]
                    }
                    Effect::Compute => computed,
                    Effect::Load(access) if access.space == Some(Space::Local) => {
                        self.local.get(&operands[0]).copied().unwrap_or(computed)
                    }
                    Effect::Load(access) if access.space == Some(Space::Shared) => {
                        self.hash((computed, self.barriers))
                    }
                    Effect::Load(access)
                        if access.is_read_only
                            || matches!(access.space, Some(Space::Param | Space::Const)) =>
                    {
                        computed
                    }
                    Effect::Collective(collective) => {
                        met.push(instruction.line);
                        match collective {
                            Collective::Barrier { .. } => {
                                self.barriers += 1;
                                self.hash(("barrier", met.len()))
                            }
                            Collective::Exchange { agrees: true, .. } => {
                                self.hash(("warp", self.warp, met.len()))
                            }
                            Collective::Exchange { .. } => self.own(),
                        }
                    }
                    _ => self.own(),
                };
                if let Effect::Store(access) = effect
                    && let [address, value] = operands.as_slice()
                {
                    match access.space {
                        Some(Space::Local) => drop(self.local.insert(*address, *value)),
                        Some(Space::Param) => self.write(&instruction.operands[0], *value),
                        _ => {}
                    }
                }
                for operand in written {
                    self.write(operand, value);
                }
            }
            block = match &graph.blocks[block].end {
                End::Next(next) => *next,
                End::Choice { by, targets, .. } => {
                    let value = self.hash((self.value(&Operand::Name(*by)), "choice"));
                    targets[usize::try_from(value % targets.len() as u64).unwrap_or(0)]
                }
                End::Return => return Some(met),
                End::Trap => return None,
            };
        }
        None
    }
}

/// Whether, in any of `runs` runs, two threads meet different barriers, or two lanes of a warp meet
/// different exchanges.
pub(super) fn diverges(body: &Body<'_>, graph: &Graph<'_, '_>, runs: u64) -> bool {
    let is_barrier = |line: &u32| {
        graph
            .blocks
            .iter()
            .flat_map(|block| &block.instructions)
            .any(|(instruction, effect)| {
                instruction.line == *line && matches!(effect, Effect::Collective(Collective::Barrier { .. }))
            })
    };
    (0..runs).any(|seed| {
        let run = |warp, lane| {
            let thread = Thread {
                body,
                seed,
                warp,
                lane,
                registers: HashMap::new(),
                local: HashMap::new(),
                barriers: 0,
                steps: 0,
            };
            thread.run(graph)
        };
        let (Some(first), Some(beside)) = (run(0, 0), run(0, 1)) else {
            return false;
        };
        if first != beside {
            return true;
        }
        let Some(far) = run(1, 0) else { return false };
        let barriers = |met: Vec<u32>| met.into_iter().filter(is_barrier).collect::<Vec<_>>();
        barriers(first) != barriers(far)
    })
}
