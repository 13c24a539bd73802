//! The bytes of local memory, and of results, that each path has written.
//!
//! Nothing writes local memory before the function does, so each thread may find other bytes there.
//! A load counts as a load of written memory only if all paths to it have written each of its
//! bytes. This is a forward data-flow analysis with an intersection where paths meet ("definite
//! assignment"). An address is known if it is a variable and a constant offset. A store at an
//! unknown address writes no byte for certain. A load at an unknown address may read any byte, so
//! it needs all variables written.
//!
//! Memory that was written is never unwritten again: a function declares its local variables in its
//! outermost scope (`body.rs`), and each call has variables of its own.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::body::{Body, Instruction, Kind, Name, Operand};
use super::bytes::Bytes;
use super::error::Refusal;
use super::graph::{End, Graph};
use super::instruction::{Effect, PATHS, arguments, effect, width};
use super::variable::Space;

/// The loads of local memory that some path to them has not written.
#[derive(Debug, Default)]
pub(super) struct Unwritten(HashSet<usize>);

/// A byte of a local variable.
type Place = (Name, i64);
/// The bytes that are certainly written, by variable.
type State = BTreeMap<Name, Bytes>;

/// The longest chain of moves and additions that is followed from an address to its variable.
const LONGEST: usize = 64;

fn id(instruction: &Instruction<'_>) -> usize {
    std::ptr::from_ref(instruction).addr()
}

impl Unwritten {
    /// The body has a name for each value (`definitions.rs`).
    pub(super) fn new(body: &Body<'_>, graph: &Graph<'_, '_>) -> Self {
        let is_local = |name: &Name| body.names[name.0].1 == Kind::Variable(Space::Local);
        let variables: Vec<Name> = (0..body.names.len()).map(Name).filter(is_local).collect();
        if variables.is_empty() {
            return Self::default();
        }
        let places = Places::of_accesses(body, graph);
        let states = flow(graph, |instruction, effect, state| {
            if let Effect::Store(access) = effect
                && matches!(access.space, None | Some(Space::Local))
                && let Some((variable, start)) = places.get(&id(instruction))
            {
                let written = Bytes::of_access(*start, width(instruction.opcode));
                let size = body.sizes.get(variable).copied();
                if size.is_some_and(|size| Bytes::of_size(size).contains(&written)) {
                    state.entry(*variable).or_default().add_all(&written);
                }
            }
        });
        let mut unwritten = HashSet::new();
        let is_whole = |state: &State| {
            variables.iter().all(|variable| {
                let whole = body.sizes.get(variable).map(|size| Bytes::of_size(*size));
                whole.is_some_and(|whole| state.get(variable).is_some_and(|known| known.contains(&whole)))
            })
        };
        states.at_each(&mut |instruction, effect, state| {
            let Effect::Load(access) = effect else { return };
            if !matches!(access.space, None | Some(Space::Local)) {
                return;
            }
            let is_written = match places.get(&id(instruction)) {
                Some((variable, start)) => {
                    let read = Bytes::of_access(*start, width(instruction.opcode));
                    let known = state.get(variable);
                    !read.is_empty() && known.is_some_and(|known| known.contains(&read))
                }
                None => is_whole(state),
            };
            if !is_written {
                unwritten.insert(id(instruction));
            }
        });
        Self(unwritten)
    }

    /// Whether this load may read a byte that nothing wrote.
    pub(super) fn has(&self, load: &Instruction<'_>) -> bool {
        self.0.contains(&id(load))
    }
}

/// The bytes of a function's result that it may write, and the bytes that it writes on each path on
/// which it returns.
pub(super) fn written_result(graph: &Graph<'_, '_>, result: Name) -> (Bytes, Bytes) {
    let mut some = Bytes::default();
    let states = flow(graph, |instruction, effect, state| {
        if let Effect::Store(access) = effect
            && access.space == Some(Space::Param)
            && let Some(Operand::Address(base, offset)) = instruction.operands.first()
            && **base == Operand::Name(result)
        {
            let written = Bytes::of_access(*offset, width(instruction.opcode));
            some.add_all(&written);
            state.entry(result).or_default().add_all(&written);
        }
    });
    let returns = states.after.iter().zip(&graph.blocks);
    let returns = returns.filter(|(_, block)| matches!(block.end, End::Return));
    let all = returns
        .filter_map(|(state, _)| Some(state.as_ref()?.get(&result).cloned().unwrap_or_default()))
        .reduce(|one, other| one.common(&other));
    let all = all.unwrap_or_else(|| some.clone());
    (some, all)
}

/// The bytes of a function's parameter that the function may read.
pub(super) fn read_of_parameter(body: &Body<'_>, graph: &Graph<'_, '_>, parameter: Name) -> Bytes {
    let mut read = Bytes::default();
    for (instruction, effect) in graph.blocks.iter().flat_map(|block| &block.instructions) {
        for operand in &instruction.operands {
            match (effect, operand) {
                (Effect::Load(_), Operand::Address(base, offset)) if **base == Operand::Name(parameter) => {
                    read.add_all(&Bytes::of_access(*offset, width(instruction.opcode)));
                }
                // It may pass its parameter on.
                (Effect::Call, operand) => operand.each_name(&mut |name| {
                    if name == parameter {
                        read.add_all(&Bytes::of_size(
                            body.sizes.get(&name).copied().unwrap_or(u64::MAX),
                        ));
                    }
                }),
                _ => {}
            }
        }
    }
    read
}

/// The states of a data-flow analysis: before and after each reachable block.
struct States<'g, 'b, 'a, F> {
    graph: &'g Graph<'b, 'a>,
    before: Vec<Option<State>>,
    after: Vec<Option<State>>,
    step: F,
}

/// Runs `step` over all paths, until the states stay the same.
fn flow<'g, 'b, 'a, F>(graph: &'g Graph<'b, 'a>, mut step: F) -> States<'g, 'b, 'a, F>
where
    F: FnMut(&'b Instruction<'a>, Effect, &mut State),
{
    let mut before: Vec<Option<State>> = vec![None; graph.blocks.len()];
    let mut after = before.clone();
    before[0] = Some(State::new());
    let mut open = vec![0];
    while let Some(block) = open.pop() {
        let Some(mut state) = before[block].clone() else {
            continue;
        };
        for (instruction, effect) in &graph.blocks[block].instructions {
            step(instruction, *effect, &mut state);
        }
        for target in graph.targets(block) {
            let met = match &before[*target] {
                Some(known) => common(known, &state),
                None => state.clone(),
            };
            if before[*target].as_ref() != Some(&met) {
                before[*target] = Some(met);
                open.push(*target);
            }
        }
        after[block] = Some(state);
    }
    States {
        graph,
        before,
        after,
        step,
    }
}

impl<'b, 'a, F> States<'_, 'b, 'a, F>
where
    F: FnMut(&'b Instruction<'a>, Effect, &mut State),
{
    /// Calls `look` with each reachable instruction, and with the state before the instruction.
    fn at_each(mut self, look: &mut dyn FnMut(&'b Instruction<'a>, Effect, &State)) {
        for (block, state) in self.graph.blocks.iter().zip(self.before) {
            let Some(mut state) = state else { continue };
            for (instruction, effect) in &block.instructions {
                look(instruction, *effect, &state);
                (self.step)(instruction, *effect, &mut state);
            }
        }
    }
}

fn common(one: &State, other: &State) -> State {
    let both = one
        .iter()
        .filter_map(|(name, bytes)| Some((*name, bytes.common(other.get(name)?))));
    both.filter(|(_, bytes)| !bytes.is_empty()).collect()
}

/// The places to which registers point.
struct Places<'p, 'b, 'a> {
    body: &'p Body<'a>,
    /// The only instruction that writes a register.
    writers: HashMap<Name, Option<&'b Instruction<'a>>>,
    known: HashMap<Name, Option<Place>>,
}

impl<'p, 'b, 'a> Places<'p, 'b, 'a> {
    /// The place of each access of local memory, if it is known.
    fn of_accesses(body: &'p Body<'a>, graph: &Graph<'b, 'a>) -> HashMap<usize, Place> {
        let mut writers: HashMap<Name, Option<&'b Instruction<'a>>> = HashMap::new();
        let instructions = || graph.blocks.iter().flat_map(|block| &block.instructions);
        for (instruction, effect) in instructions() {
            for operand in instruction.split(*effect).0 {
                operand.each_name(&mut |name| {
                    let is_first = !writers.contains_key(&name);
                    writers.insert(name, is_first.then_some(*instruction));
                });
            }
        }
        let mut places = Self {
            body,
            writers,
            known: HashMap::new(),
        };
        let accesses = instructions().filter_map(|(instruction, effect)| {
            let address = match effect {
                Effect::Load(_) => instruction.operands.get(1),
                Effect::Store(_) => instruction.operands.first(),
                _ => None,
            };
            let Some(Operand::Address(base, offset)) = address else {
                return None;
            };
            let Operand::Name(base) = **base else { return None };
            let (variable, start) = places.of_name(base, LONGEST)?;
            Some((id(instruction), (variable, start.checked_add(*offset)?)))
        });
        accesses.collect()
    }

    fn of_name(&mut self, name: Name, steps: usize) -> Option<Place> {
        if let Kind::Variable(space) = self.body.names[name.0].1 {
            return (space == Space::Local).then_some((name, 0));
        }
        if let Some(place) = self.known.get(&name) {
            return *place;
        }
        // In a loop, the address is not known.
        self.known.insert(name, None);
        let place = self.computed(name, steps.checked_sub(1)?);
        self.known.insert(name, place);
        place
    }

    fn computed(&mut self, name: Name, steps: usize) -> Option<Place> {
        let instruction = (*self.writers.get(&name)?)?;
        let mut follow = |operand: &Operand<'_>| match operand {
            Operand::Name(name) => self.of_name(*name, steps),
            _ => None,
        };
        let operands = instruction.operands.get(1..)?;
        match (instruction.opcode, operands) {
            (PATHS, [first, others @ ..]) => {
                let place = follow(first)?;
                let is_same = others.iter().all(|other| follow(other) == Some(place));
                is_same.then_some(place)
            }
            (
                "mov.b64" | "mov.u64" | "mov.s64" | "cvta.local.u64" | "cvta.to.local.u64",
                [Operand::Name(from)],
            ) => follow(&Operand::Name(*from)),
            ("add.s64" | "add.u64", [from, Operand::Number(by)] | [Operand::Number(by), from]) => {
                let (variable, start) = follow(from)?;
                Some((variable, start.checked_add(by.parse().ok()?)?))
            }
            _ => None,
        }
    }
}

/// The largest variable that [`write_local`] fills, in bytes.
const LARGEST: u64 = 4096;

/// Writes 0 into the local variables of each function that may read a byte which nothing wrote, at
/// the function's start. There the variables hold no value of the program, so a write cannot
/// destroy one. Variables of more than [`LARGEST`] bytes stay as they are.
///
/// # Errors
/// A text that the verifier cannot read.
pub(super) fn write_local(ptx: &str) -> Result<String, Refusal> {
    let mut before: BTreeMap<u32, String> = BTreeMap::new();
    for module in super::modules(ptx)? {
        for body in module
            .functions
            .iter()
            .filter_map(|function| function.body.as_ref())
        {
            let graph = Graph::new(body, &|_| false, &|_| true)?;
            if Unwritten::new(body, &graph).0.is_empty() {
                continue;
            }
            // A jump to a label would run the added lines again.
            let Some(super::body::Statement::Instruction(first)) = body.statements.first() else {
                continue;
            };
            let mut added = String::new();
            for (at, (name, kind)) in body.names.iter().enumerate() {
                let size = body.sizes.get(&Name(at)).copied().unwrap_or(u64::MAX);
                if *kind == Kind::Variable(Space::Local) && size <= LARGEST {
                    let align = body.aligns.get(&Name(at)).copied().unwrap_or(1);
                    fill(&mut added, ("local", name), size, align);
                }
            }
            before.insert(first.line, added);
        }
    }
    let mut out = String::with_capacity(ptx.len());
    for (number, line) in (1..).zip(ptx.split_inclusive('\n')) {
        if let Some(added) = before.remove(&number)
            && !line.contains([':', '{', '}'])
        {
            out.push_str(&added);
        }
        out.push_str(line);
    }
    Ok(out)
}

/// Writes 0 into the arguments of calls of which the text writes not all bytes, before the text
/// writes any. LLVM leaves a part of an argument out that holds no value, for example the contents
/// of a `None`. Arguments of more than [`LARGEST`] bytes stay as they are.
///
/// # Errors
/// A text that the verifier cannot read.
pub(super) fn write_arguments(ptx: &str) -> Result<String, Refusal> {
    let lines: Vec<&str> = ptx.split_inclusive('\n').collect();
    // By the line of an argument's declaration.
    let mut after: BTreeMap<usize, String> = BTreeMap::new();
    for module in super::modules(ptx)? {
        for function in &module.functions {
            let Some(body) = &function.body else { continue };
            let given = function.results.len() + function.parameters.len();
            let mut written: HashMap<Name, Bytes> = HashMap::new();
            for instruction in body.instructions() {
                if let (Ok(Effect::Store(access)), Some(Operand::Address(base, offset))) =
                    (effect(instruction), instruction.operands.first())
                    && access.space == Some(Space::Param)
                    && let Operand::Name(name) = **base
                {
                    let bytes = Bytes::of_access(*offset, width(instruction.opcode));
                    written.entry(name).or_default().add_all(&bytes);
                }
                if effect(instruction) != Ok(Effect::Call) {
                    continue;
                }
                for argument in arguments(instruction) {
                    let Operand::Name(name) = argument else { continue };
                    let size = body.sizes.get(name).copied().unwrap_or(u64::MAX);
                    let is_whole = written
                        .remove(name)
                        .is_some_and(|bytes| bytes.contains(&Bytes::of_size(size)));
                    let (text, kind) = &body.names[name.0];
                    let is_own = name.0 >= given && *kind == Kind::Variable(Space::Param);
                    if is_whole || !is_own || size > LARGEST {
                        continue;
                    }
                    let call = (instruction.line as usize).min(lines.len());
                    let declares = |line: &str| {
                        let mut words = line.trim().split(|c: char| c.is_whitespace() || "[;".contains(c));
                        words.next() == Some(".param") && words.any(|word| word == text)
                    };
                    if let Some(at) = lines[..call].iter().rposition(|line| declares(line)) {
                        let align = body.aligns.get(name).copied().unwrap_or(1);
                        fill(after.entry(at).or_default(), ("param", text), size, align);
                    }
                }
            }
        }
    }
    let mut out = String::with_capacity(ptx.len());
    for (at, line) in lines.into_iter().enumerate() {
        out.push_str(line);
        out.push_str(after.get(&at).map_or("", String::as_str));
    }
    Ok(out)
}

/// Adds the lines that write 0 into a variable of this state space and name.
fn fill(out: &mut String, (space, name): (&str, &str), size: u64, align: u64) {
    let mut at = 0;
    while at < size {
        let fits = |step: &u64| align.is_multiple_of(*step) && at.is_multiple_of(*step) && at + step <= size;
        let step = [8, 4, 2, 1].into_iter().find(fits).unwrap_or(1);
        out.push_str(&format!(
            "\tst.{space}.b{} \t[{name}+{at}], 0; // nothing wrote it before\n",
            8 * step
        ));
        at += step;
    }
}
