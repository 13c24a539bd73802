//! Gives each value a name of its own: static single assignment.
//!
//! LLVM uses one register for several unrelated values. If they had one name, a value that differs
//! would make the other values differ too. Here each instruction that writes a register writes a
//! new name. Where paths bring different names of one register, a pseudo-instruction ([`PATHS`])
//! writes a new name from all of them (Cytron, Ferrante, Rosen, Wegman and Zadeck, "Efficiently
//! Computing Static Single Assignment Form", TOPLAS 1991). The value at the function's start keeps
//! the register's own name.
//!
//! At each place, exactly one name of a register is current, so the meaning of the text does not
//! change. The proof in `uniform.rs` covers the pseudo-instructions.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::body::{Body, Instruction, Kind, Name, Operand, Statement};
use super::error::Refusal;
use super::graph::{End, Graph};
use super::instruction::PATHS;
use super::parse::Module;
use super::variable::type_size;

/// Gives each value of all functions a name of its own.
///
/// # Errors
/// An instruction that the verifier does not know.
pub(super) fn name_values(module: &mut Module<'_>) -> Result<(), Refusal> {
    let functions = module.functions.iter_mut();
    for body in functions.filter_map(|function| function.body.as_mut()) {
        let definitions = Definitions::of(body)?;
        definitions.write(body);
    }
    Ok(())
}

/// Writes 0 into each register on the paths that read it before any write.
///
/// LLVM leaves a register unwritten if it knows that the value does not matter. Threads may then
/// find different values, and the proof fails for values computed from them. On these paths the
/// register holds no value of the program, so a write cannot destroy one.
///
/// # Errors
/// A text that is not PTX.
pub(super) fn write_unwritten(ptx: &str) -> Result<String, Refusal> {
    let mut before: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for module in Module::parse(ptx)? {
        for body in module
            .functions
            .iter()
            .filter_map(|function| function.body.as_ref())
        {
            for Unwritten { line, register } in Definitions::of(body)?.unwritten {
                let declared = body.types.get(&register).copied().unwrap_or("");
                let class = match type_size(declared) {
                    _ if declared == ".pred" => ".pred",
                    Some(2) => ".b16",
                    Some(4) => ".b32",
                    Some(8) => ".b64",
                    _ => continue,
                };
                let name = &body.names[register.0].0;
                let lines = before.entry(line).or_default();
                lines.push(format!(
                    "\tmov{class} \t{name}, 0; // nothing wrote it on this path\n"
                ));
            }
        }
    }
    let mut out = String::with_capacity(ptx.len());
    for (number, line) in (1..).zip(ptx.split_inclusive('\n')) {
        let added = before.remove(&number).unwrap_or_default();
        // The line must not begin with a label: a jump to the label would skip the added lines.
        if !line.contains(':') {
            added.iter().for_each(|line| out.push_str(line));
        }
        out.push_str(line);
    }
    Ok(out)
}

/// A place that may read a register before any write.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Unwritten {
    /// The line of the text before which the register can be written.
    line: u32,
    register: Name,
}

/// The address of an instruction of the body, which identifies it.
type Id = usize;

fn id(instruction: &Instruction<'_>) -> Id {
    std::ptr::from_ref(instruction).addr()
}

/// The names of a function.
struct Definitions {
    names: Vec<(String, Kind)>,
    /// The names that an instruction reads and writes, by register.
    reads: HashMap<(Id, Name), Name>,
    writes: HashMap<(Id, Name), Name>,
    /// The names for the registers' values at the function's start.
    at_start: Vec<Name>,
    /// The pseudo-instructions: the new name, and the names that the paths bring. The key is the
    /// number of the statement before them: a label, or an instruction under a predicate.
    joined: BTreeMap<usize, Vec<(Name, Vec<Name>)>>,
    unwritten: Vec<Unwritten>,
}

/// A register with several writers. The function's start counts as a writer.
struct Register {
    register: Name,
    /// The name that each block writes last.
    last: HashMap<usize, Name>,
}

/// A name, or the join of several names at a block's start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Value {
    Name(Name),
    Joined(usize),
}

/// By register and block: the predecessors of the block, and the values that they bring.
type Joins = HashMap<(Name, usize), BTreeSet<(usize, Value)>>;

impl Definitions {
    fn of(body: &Body<'_>) -> Result<Self, Refusal> {
        // Assumes that every call returns, and that every function meets: this adds paths, and
        // removes no path.
        let graph = Graph::new(body, &|_| false, &|_| true)?;
        let mut definitions = Self {
            names: body.names.clone(),
            reads: HashMap::new(),
            writes: HashMap::new(),
            at_start: Vec::new(),
            joined: BTreeMap::new(),
            unwritten: Vec::new(),
        };
        let registers = definitions.registers(body, &graph);
        let mut joins: Joins = HashMap::new();
        let starting = registers
            .iter()
            .map(|register| (register.register, propagate(&graph, register, &mut joins)));
        // For each register, the value that is current at each block's start.
        let starting: HashMap<Name, Vec<Option<Value>>> = starting.collect();
        let mut used: Vec<(Name, Value)> = Vec::new();
        let mut reads: Vec<(Id, u32, Name, Value)> = Vec::new();
        for (number, block) in graph.blocks.iter().enumerate() {
            let mut current: HashMap<Name, Value> = HashMap::new();
            let mut read = |current: &HashMap<Name, Value>, instruction: &Instruction<'_>, name: Name| {
                let starting = || starting.get(&name).and_then(|blocks| blocks[number]);
                if let Some(value) = current.get(&name).copied().or_else(starting) {
                    used.push((name, value));
                    reads.push((id(instruction), instruction.line, name, value));
                }
            };
            for (instruction, effect) in &block.instructions {
                let (written, operands) = instruction.split(*effect);
                for operand in operands {
                    operand.each_name(&mut |name| read(&current, instruction, name));
                }
                for operand in written {
                    operand.each_name(&mut |name| {
                        if let Some(new) = definitions.writes.get(&(id(instruction), name)) {
                            current.insert(name, Value::Name(*new));
                        }
                    });
                }
            }
            if let End::Choice { by, at, .. } = &block.end {
                read(&current, at, *by);
            }
        }
        // Joins that nobody reads are left out.
        let mut joined: HashMap<(Name, usize), Name> = HashMap::new();
        while let Some((register, value)) = used.pop() {
            if let Value::Joined(block) = value
                && !joined.contains_key(&(register, block))
            {
                joined.insert((register, block), definitions.new_name(register));
                used.extend(
                    joins[&(register, block)]
                        .iter()
                        .map(|(_, value)| (register, *value)),
                );
            }
        }
        let name = |register: Name, value: Value| match value {
            Value::Name(name) => name,
            Value::Joined(block) => joined[&(register, block)],
        };
        for (instruction, line, register, value) in reads {
            definitions
                .reads
                .insert((instruction, register), name(register, value));
            if value == Value::Name(register) {
                definitions.unwritten.push(Unwritten { line, register });
            }
        }
        let starts = starts(body, &graph);
        for ((register, block), new) in &joined {
            let brought = &joins[&(*register, *block)];
            let values = brought.iter().map(|(_, value)| name(*register, *value));
            let values: HashSet<Name> = values.collect();
            let mut values: Vec<Name> = values.into_iter().collect();
            values.sort();
            definitions
                .joined
                .entry(starts[block])
                .or_default()
                .push((*new, values));
            // If the block has no instruction, the write goes to the function's start.
            for (from, _) in brought
                .iter()
                .filter(|(_, value)| *value == Value::Name(*register))
            {
                let line = graph.last_line(*from).or(graph.last_line(0)).unwrap_or(0);
                definitions.unwritten.push(Unwritten {
                    line,
                    register: *register,
                });
            }
        }
        for names in definitions.joined.values_mut() {
            names.sort();
        }
        definitions.unwritten.sort();
        definitions.unwritten.dedup();
        Ok(definitions)
    }

    fn new_name(&mut self, register: Name) -> Name {
        self.names.push(self.names[register.0].clone());
        Name(self.names.len() - 1)
    }

    /// Finds the registers that need names, and makes a name for each of their writers.
    fn registers(&mut self, body: &Body<'_>, graph: &Graph<'_, '_>) -> Vec<Register> {
        // For each register: the number of writers, and whether a writer in the same block precedes
        // each reader.
        let mut count: HashMap<Name, usize> = HashMap::new();
        let mut is_local: Vec<bool> = vec![true; body.names.len()];
        for block in &graph.blocks {
            let mut here: HashSet<Name> = HashSet::new();
            for (instruction, effect) in &block.instructions {
                let (written, read) = instruction.split(*effect);
                for operand in read {
                    operand.each_name(&mut |name| is_local[name.0] &= here.contains(&name));
                }
                for operand in written {
                    operand.each_name(&mut |name| {
                        here.insert(name);
                        *count.entry(name).or_default() += 1;
                    });
                }
            }
            if let End::Choice { by, .. } = &block.end {
                is_local[by.0] &= here.contains(by);
            }
        }
        let registers = (0..body.names.len()).map(Name).filter(|name| {
            let needs_names = !is_local[name.0] || count.get(name).is_some_and(|count| *count > 1);
            body.names[name.0].1 == Kind::Register && needs_names
        });
        let mut at: HashMap<Name, usize> = HashMap::new();
        let mut result: Vec<Register> = Vec::new();
        for register in registers {
            at.insert(register, result.len());
            self.at_start.push(register);
            result.push(Register {
                register,
                last: HashMap::new(),
            });
        }
        for (number, block) in graph.blocks.iter().enumerate() {
            for (instruction, effect) in &block.instructions {
                for operand in instruction.split(*effect).0 {
                    operand.each_name(&mut |register| {
                        let Some(at) = at.get(&register) else { return };
                        let new = self.new_name(register);
                        self.writes.insert((id(instruction), register), new);
                        result[*at].last.insert(number, new);
                    });
                }
            }
        }
        result
    }

    /// Writes the names into the body.
    fn write(mut self, body: &mut Body<'_>) {
        let statements = std::mem::take(&mut body.statements);
        let mut renamed = Vec::with_capacity(statements.len());
        for (at, mut statement) in statements.iter().cloned().enumerate() {
            let mut place = None;
            match (&mut statement, &statements[at]) {
                (Statement::Instruction(instruction), Statement::Instruction(old)) => {
                    let id = id(old);
                    let written = |name: Name| self.writes.get(&(id, name)).copied();
                    let read = |name: Name| self.reads.get(&(id, name)).copied().unwrap_or(name);
                    instruction.guard = instruction.guard.map(read);
                    let first_read = old.written_operands();
                    for (number, operand) in instruction.operands.iter_mut().enumerate() {
                        if number < first_read {
                            rename(operand, &|name| written(name).unwrap_or(name));
                        } else {
                            rename(operand, &read);
                        }
                    }
                    place = Some((old.text.clone(), old.line, old.location));
                }
                (Statement::Label(label, line), _) => place = Some((format!("{label}:"), *line, None)),
                _ => {}
            }
            renamed.push(statement);
            for (new, from) in self.joined.remove(&at).unwrap_or_default() {
                let (text, line, location) = place.clone().unwrap_or_default();
                renamed.push(Statement::Instruction(Instruction {
                    opcode: PATHS,
                    guard: None,
                    is_negated: false,
                    operands: std::iter::once(new).chain(from).map(Operand::Name).collect(),
                    text,
                    line,
                    location,
                }));
            }
        }
        body.statements = renamed;
        body.names = self.names;
        body.at_start = self.at_start;
    }
}

/// Finds the value of a register that is current at the start of each block, and records the joins.
fn propagate(graph: &Graph<'_, '_>, register: &Register, joins: &mut Joins) -> Vec<Option<Value>> {
    let mut is_joined = vec![false; graph.blocks.len()];
    loop {
        let mut current: Vec<Option<Value>> = vec![None; graph.blocks.len()];
        current[0] = Some(Value::Name(register.register));
        let leaving = |current: &[Option<Value>], block: usize| {
            register
                .last
                .get(&block)
                .map_or(current[block], |name| Some(Value::Name(*name)))
        };
        let mut open = vec![0];
        while let Some(block) = open.pop() {
            for target in graph.targets(block) {
                if current[*target].is_none() {
                    current[*target] = match is_joined[*target] {
                        true => Some(Value::Joined(*target)),
                        false => leaving(&current, block),
                    };
                    open.push(*target);
                }
            }
        }
        let reached = (0..graph.blocks.len()).filter(|block| current[*block].is_some());
        let edges = reached.flat_map(|block| graph.targets(block).iter().map(move |target| (block, *target)));
        let edges: Vec<(usize, usize)> = edges.collect();
        let mut is_done = true;
        for (block, target) in &edges {
            if !is_joined[*target] && current[*target] != leaving(&current, *block) {
                (is_joined[*target], is_done) = (true, false);
            }
        }
        if is_done {
            for (block, target) in edges {
                if is_joined[target]
                    && let Some(value) = leaving(&current, block)
                {
                    joins
                        .entry((register.register, target))
                        .or_default()
                        .insert((block, value));
                }
            }
            return current;
        }
    }
}

/// For each block where paths meet, the statement after which it starts: a label, or an instruction
/// under a predicate.
fn starts(body: &Body<'_>, graph: &Graph<'_, '_>) -> HashMap<usize, usize> {
    let mut starts: HashMap<usize, usize> = HashMap::new();
    let mut at_instruction: HashMap<Id, usize> = HashMap::new();
    for (at, statement) in body.statements.iter().enumerate() {
        match statement {
            Statement::Label(label, _) => drop(starts.insert(graph.labels[label], at)),
            Statement::Instruction(instruction) => drop(at_instruction.insert(id(instruction), at)),
        }
    }
    for block in &graph.blocks {
        if let End::Choice { at, targets, .. } = &block.end
            && at.guard.is_some()
            && let Some(after) = targets.last()
        {
            starts.entry(*after).or_insert(at_instruction[&id(at)]);
        }
    }
    starts
}

fn rename(operand: &mut Operand<'_>, to: &dyn Fn(Name) -> Name) {
    match operand {
        Operand::Name(name) => *name = to(*name),
        Operand::Address(base, _) => rename(base, to),
        Operand::List(list) => list.iter_mut().for_each(|operand| rename(operand, to)),
        Operand::Special(_) | Operand::Symbol(_) | Operand::Number(_) | Operand::Sink => {}
    }
}
