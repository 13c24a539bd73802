//! Runs PTX in one thread, and follows addresses to the memory where it writes. This is a second
//! opinion on `origin`; both share only the code that reads a text.
//!
//! A value of a run is one kind of address, a constant, or a number from outside. A choice between
//! two values takes one of them, and a branch one of its targets, by a hash of the seed. So over
//! many seeds, an address goes each way. Calls are not followed.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::body::{Body, Instruction, Kind, Name, Operand};
use super::graph::{End, Graph};
use super::instruction::{Collective, Effect};
use super::parameters::Role;
use super::parse::Module;
use super::variable::Space;

/// The largest number of blocks that a run executes.
const LONGEST: usize = 300;

/// A value of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Value {
    Constant,
    Number,
    /// An address in the memory of the entry's parameter.
    Parameter(usize),
    /// An address of a variable in this state space.
    Variable(Space),
}

struct Run<'b, 'a> {
    module: &'b Module<'a>,
    body: &'b Body<'a>,
    roles: &'b [Role],
    seed: u64,
    steps: u64,
    values: HashMap<Name, Value>,
    /// What was stored, by the text of the address.
    stored: HashMap<String, Value>,
}

impl Run<'_, '_> {
    fn choose(&self, from: usize) -> usize {
        let mut hasher = DefaultHasher::new();
        (self.seed, self.steps).hash(&mut hasher);
        usize::try_from(hasher.finish() % from.max(1) as u64).unwrap_or(0)
    }

    fn value(&self, operand: &Operand<'_>) -> Value {
        match operand {
            Operand::Name(name) => match self.body.names[name.0].1 {
                Kind::Variable(space) => Value::Variable(space),
                Kind::Register => self.values.get(name).copied().unwrap_or(Value::Constant),
            },
            Operand::Symbol(symbol) => {
                let variable = self.module.variables.iter().find(|v| v.name == *symbol);
                variable.map_or(Value::Constant, |variable| Value::Variable(variable.space))
            }
            Operand::Special(_) => Value::Number,
            Operand::Number(_) | Operand::Sink => Value::Constant,
            Operand::Address(base, _) => self.value(base),
            Operand::List(list) => {
                let values: Vec<Value> = list.iter().map(|operand| self.value(operand)).collect();
                sum(&values)
            }
        }
    }

    fn computed(&self, instruction: &Instruction<'_>, read: &[Operand<'_>]) -> Value {
        let values: Vec<Value> = read.iter().map(|operand| self.value(operand)).collect();
        match instruction.opcode.split('.').next().unwrap_or("") {
            "mov" | "cvt" | "cvta" => values[0],
            "selp" => values[self.choose(2)],
            "add" | "sub" | "mad" => sum(&values),
            "min" | "max" | "and" | "or" | "xor" => {
                let registers: Vec<Value> = values.into_iter().filter(|v| *v != Value::Constant).collect();
                registers
                    .get(self.choose(registers.len()))
                    .copied()
                    .unwrap_or(Value::Constant)
            }
            _ if values.iter().all(|value| *value == Value::Constant) => Value::Constant,
            _ => Value::Number,
        }
    }

    /// Whether a write through this value changes memory that the kernel must not change.
    fn is_forbidden(&self, space: Option<Space>, to: Value) -> bool {
        match (space, to) {
            (Some(Space::Shared | Space::Param | Space::Const), _) | (_, Value::Constant) => false,
            (Some(Space::Local), to) => to != Value::Variable(Space::Local),
            (_, Value::Parameter(at)) => !matches!(self.roles.get(at), Some(Role::Writes | Role::Fills)),
            (_, Value::Variable(space)) => !matches!(space, Space::Shared | Space::Local),
            (_, Value::Number) => true,
        }
    }

    /// The line of a forbidden write, if the run has one.
    fn run(mut self, graph: &Graph<'_, '_>) -> Option<u32> {
        let mut block = 0;
        for _ in 0..LONGEST {
            for (instruction, effect) in &graph.blocks[block].instructions {
                self.steps += 1;
                let (written, read) = instruction.split(*effect);
                let value = match effect {
                    Effect::Compute => self.computed(instruction, read),
                    Effect::Load(access) => {
                        let at = read[0].clone();
                        match (&at, access.space) {
                            (Operand::Address(base, _), Some(Space::Param)) => self.parameter(base),
                            _ => self
                                .stored
                                .get(&format!("{at:?}"))
                                .copied()
                                .unwrap_or(Value::Number),
                        }
                    }
                    Effect::Store(access) | Effect::Atomic { access, .. } => {
                        let (address, values) = read.split_first()?;
                        if self.is_forbidden(access.space, self.value(address)) {
                            return Some(instruction.line);
                        }
                        let value = values.first().map_or(Value::Number, |value| self.value(value));
                        if let (Operand::Address(base, _), Some(Space::Param)) = (address, access.space) {
                            base.each_name(&mut |name| {
                                self.values.insert(name, value);
                            });
                        } else {
                            self.stored.insert(format!("{address:?}"), value);
                        }
                        value
                    }
                    // The lane may be the thread's own.
                    Effect::Collective(Collective::Exchange { agrees: false, .. }) => {
                        match self.value(&read[0]) {
                            Value::Constant => Value::Number,
                            value => value,
                        }
                    }
                    _ => Value::Number,
                };
                for operand in written {
                    operand.each_name(&mut |name| {
                        self.values.insert(name, value);
                    });
                }
            }
            self.steps += 1;
            block = match &graph.blocks[block].end {
                End::Next(next) => *next,
                End::Choice { targets, .. } => targets[self.choose(targets.len())],
                End::Return | End::Trap => return None,
            };
        }
        None
    }

    /// The value of a parameter, of the entry or of a call.
    fn parameter(&self, base: &Operand<'_>) -> Value {
        let Operand::Name(name) = base else {
            return Value::Number;
        };
        match self.roles.get(name.0) {
            Some(Role::Value) => Value::Number,
            Some(_) => Value::Parameter(name.0),
            None => self.values.get(name).copied().unwrap_or(Value::Number),
        }
    }
}

/// A sum is an address if a summand is one.
fn sum(values: &[Value]) -> Value {
    let is_address = |value: &&Value| matches!(value, Value::Parameter(_) | Value::Variable(_));
    let address = values.iter().find(is_address);
    let is_number = values.contains(&Value::Number);
    address
        .copied()
        .unwrap_or(if is_number { Value::Number } else { Value::Constant })
}

/// The line of a write, in any of `runs` runs, to memory that the kernel must not change.
pub(super) fn forbidden_write(
    module: &Module<'_>,
    body: &Body<'_>,
    graph: &Graph<'_, '_>,
    roles: &[Role],
    runs: u64,
) -> Option<u32> {
    (0..runs).find_map(|seed| {
        let run = Run {
            module,
            body,
            roles,
            seed,
            steps: 0,
            values: HashMap::new(),
            stored: HashMap::new(),
        };
        run.run(graph)
    })
}
