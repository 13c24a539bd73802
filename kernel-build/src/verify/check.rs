//! Checks each entry, and each function for the arguments with which it is called, and refuses what
//! it cannot prove.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use super::body::{Body, Instruction, Name, Operand};
use super::bytes::Bytes;
use super::error::{Refusal, text};
use super::filled::leaves_unwritten;
use super::graph::Graph;
use super::instruction::{Collective, ENDS_THE_LAUNCH, Effect, PATHS, PRINTS, arguments, callee, effect};
use super::origin::{Origin, Origins};
use super::parameters::Role;
use super::parse::{Function, Module};
use super::reason::{place, reasons, reasons_of};
use super::uniform::{Analysis, Differs, Given, Summary, is_uniform};
use super::variable::Space;
use super::written::{Unwritten, read_of_parameter, written_result};

/// Prefix of the registers in the marks of `device-std` (`block/opening.rs`).
const OPENS_SHARED_MEMORY: &str = "cuda_rt_same_";

/// The number of barriers and exchanges in one entry, all of them proved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proved {
    /// Barriers of the block.
    pub barriers: usize,
    /// Exchanges between the lanes of a warp.
    pub exchanges: usize,
}

/// The roles of an entry's parameters, where it may write `written`, or everything (`None`). An
/// output that the entry never writes has the role of an input, because only this launch uses its
/// memory.
fn roles_here(roles: &[Role], written: Option<Origin>) -> Vec<Role> {
    let here = roles.iter().enumerate().map(|(at, role)| match role {
        Role::Writes if written.is_some_and(|written| !written.has(Origin::parameter(at))) => Role::Reads,
        role => *role,
    });
    here.collect()
}

/// Whether an operand is the number of a barrier. A block has 16 (PTX ISA, chapter 9, "bar").
fn is_barrier(operand: &Operand<'_>) -> bool {
    let Operand::Number(number) = operand else {
        return false;
    };
    let is_decimal = number.bytes().all(|byte| byte.is_ascii_digit());
    is_decimal && number.parse::<u8>().is_ok_and(|number| number < 16)
}

/// The functions of a module, ready to be checked.
pub(super) struct Checker<'b, 'a> {
    pub(super) module: &'b Module<'a>,
    graphs: HashMap<&'a str, Graph<'b, 'a>>,
    summaries: RefCell<HashMap<(String, Vec<Differs>), Summary>>,
    refusal: RefCell<Option<Refusal>>,
    proved: RefCell<Proved>,
}

impl<'b, 'a> Checker<'b, 'a> {
    pub(super) fn new(module: &'b Module<'a>) -> Result<Self, Refusal> {
        let meet = functions_that_meet(module);
        let mut never_return = HashSet::from([ENDS_THE_LAUNCH]);
        let graphs = loop {
            let mut graphs = HashMap::new();
            for (function, body) in defined(module) {
                graphs.insert(
                    function.name,
                    Graph::new(body, &|name| never_return.contains(name), &|name| {
                        meet.contains(name)
                    })?,
                );
            }
            let before = never_return.len();
            let doomed = graphs.iter().filter(|(_, graph)| graph.is_doomed[0]);
            never_return.extend(doomed.map(|(name, _)| *name));
            if never_return.len() == before {
                break graphs;
            }
        };
        for (function, _) in defined(module).filter(|(function, _)| function.never_returns) {
            // The compiler trusts `.noreturn`, and may leave out the code after a call.
            let graph = &graphs[function.name];
            let returns = graph
                .blocks
                .iter()
                .zip(&graph.is_reachable)
                .any(|(block, is_reachable)| {
                    let last = block.instructions.last();
                    *is_reachable && last.is_some_and(|(_, effect)| *effect == Effect::Return)
                });
            if returns {
                return text(
                    0,
                    format!("`{}` returns, though it is declared `.noreturn`", function.name),
                );
            }
        }
        let checker = Self {
            module,
            graphs,
            summaries: RefCell::default(),
            refusal: RefCell::default(),
            proved: RefCell::default(),
        };
        checker.refuse_recursion()?;
        Ok(checker)
    }

    /// Proves an entry.
    pub(super) fn entry(&self, function: &'b Function<'a>, roles: &[Role]) -> Result<Proved, Refusal> {
        let is_address = |role: &Role| *role != Role::Value;
        if let Some(last) = roles.iter().rposition(is_address)
            && last >= Origin::PARAMETERS_TOLD_APART
        {
            return Err(Refusal::Parameters {
                kernel: function.name.to_owned(),
                difference: format!(
                    "parameter {last} is an address, and the verifier tells only the addresses of the first {} parameters \
                     apart: use fewer parameters",
                    Origin::PARAMETERS_TOLD_APART
                ),
            });
        }
        self.summaries.borrow_mut().clear();
        self.proved.replace(Proved::default());
        let written = self.written_in(function, roles);
        let here = roles_here(roles, written);
        self.function(function.name, function, &[], &here);
        self.refuse_unwritten(function, roles);
        let refusal = self.refusal.take();
        match refusal.or_else(|| self.returns_without_a_store(function, roles, written)) {
            Some(refusal) => Err(refusal),
            None => Ok(self.proved.take()),
        }
    }

    /// Refuses an entry if one of its threads may end before it has written what it returns.
    fn refuse_unwritten(&self, function: &'b Function<'a>, roles: &[Role]) {
        let graph = self.graphs.get(function.name);
        if let Some(at) = graph.and_then(|graph| leaves_unwritten(self.module, function, graph, roles)) {
            self.refuse(Refusal::LeavesUnwritten {
                kernel: function.name.to_owned(),
                operation: place(self.module, at),
            });
        }
    }

    /// Refuses an entry that writes no element of the memory for what it returns, and may end
    /// nevertheless: the launch would make memory readable that nothing wrote (H39).
    fn returns_without_a_store(
        &self,
        function: &Function<'a>,
        roles: &[Role],
        written: Option<Origin>,
    ) -> Option<Refusal> {
        let written = written?;
        let ends = self
            .graphs
            .get(function.name)
            .is_none_or(|graph| !graph.is_doomed[0]);
        let at = roles.iter().position(|role| *role == Role::Fills)?;
        (ends && !written.has(Origin::parameter(at))).then(|| Refusal::NothingReturned {
            kernel: function.name.to_owned(),
            parameter: at,
        })
    }

    /// The memory that an entry may write. `None` if it writes through an unknown address.
    ///
    /// An address that is stored outside local memory, or passed to a function, counts as written.
    fn written_in(&self, function: &Function<'a>, roles: &[Role]) -> Option<Origin> {
        let (Some(body), Some(graph)) = (&function.body, self.graphs.get(function.name)) else {
            return None;
        };
        let unwritten = Unwritten::new(body, graph);
        let origins = Origins::new(self.module, function, body, graph, roles, &unwritten);
        let mut written = Origin::NONE;
        let blocks = graph.blocks.iter().zip(&graph.is_reachable);
        for (block, _) in blocks.filter(|(_, is_reachable)| **is_reachable) {
            for (instruction, effect) in &block.instructions {
                match effect {
                    Effect::Store(access) | Effect::Atomic { access, .. }
                        if access.space != Some(Space::Param) =>
                    {
                        let (mut to, mut stored) = (Origin::UNKNOWN, Origin::NONE);
                        for operand in &instruction.operands {
                            match operand {
                                Operand::Address(..) => {
                                    to = origins.address(self.module, body, *access, operand)
                                }
                                value => value.each_name(&mut |name| stored |= origins.reached_from(name)),
                            }
                        }
                        if to.is_unknown() {
                            return None;
                        }
                        // `origin` follows values through local memory.
                        if !to.is_only(Origin::LOCAL) {
                            written |= to | stored;
                        }
                    }
                    Effect::Call if ![Some(PRINTS), Some(ENDS_THE_LAUNCH)].contains(&callee(instruction)) => {
                        for argument in arguments(instruction) {
                            argument.each_name(&mut |name| written |= origins.reached_from(name));
                        }
                    }
                    _ => {}
                }
            }
        }
        (!written.has(Origin::UNKNOWN)).then_some(written)
    }

    /// A function of the module with a body, and its graph.
    fn defined(&self, name: &str) -> Option<(&'b Function<'a>, &'b Body<'a>, &Graph<'b, 'a>)> {
        let graph = self.graphs.get(name)?;
        let (function, body) = defined(self.module).find(|(function, _)| function.name == name)?;
        Some((function, body, graph))
    }

    /// The bytes of a result that the function may write, and those that it writes on all paths.
    /// No byte for a function that the module does not define.
    pub(super) fn written_result(&self, name: &str, at: usize) -> (Bytes, Bytes) {
        match self.defined(name) {
            Some((function, _, graph)) if at < function.results.len() => written_result(graph, Name(at)),
            _ => Default::default(),
        }
    }

    /// The bytes of a parameter that the function may read. `None` if the module does not define
    /// the function.
    pub(super) fn read_of_parameter(&self, name: &str, at: usize) -> Option<Bytes> {
        let (function, body, graph) = self.defined(name)?;
        let at = (at < function.parameters.len()).then_some(Name(function.results.len() + at))?;
        Some(read_of_parameter(body, graph, at))
    }

    #[cfg(test)]
    pub(super) fn graph(&self, name: &str) -> Option<&Graph<'b, 'a>> {
        self.graphs.get(name)
    }

    /// The functions with a body, and their graphs.
    pub(super) fn functions(&self) -> impl Iterator<Item = (&'b Function<'a>, &'b Body<'a>, &Graph<'b, 'a>)> {
        defined(self.module)
            .filter_map(|(function, body)| Some((function, body, self.graphs.get(function.name)?)))
    }

    fn refuse(&self, refusal: Refusal) {
        self.refusal.borrow_mut().get_or_insert(refusal);
    }

    /// Refuses recursion: its stack has no known bound, and the analysis would not end.
    fn refuse_recursion(&self) -> Result<(), Refusal> {
        let calls: HashMap<&str, Vec<&str>> = defined(self.module)
            .map(|(function, body)| {
                let called = body
                    .instructions()
                    .filter(|i| i.opcode.starts_with("call"))
                    .filter_map(callee);
                (function.name, called.collect())
            })
            .collect();
        for function in calls.keys() {
            let mut open = vec![vec![*function]];
            let mut seen = HashSet::new();
            while let Some(path) = open.pop() {
                for called in path.last().and_then(|last| calls.get(last)).into_iter().flatten() {
                    let mut cycle: Vec<&str> = path.clone();
                    cycle.push(called);
                    if called == function {
                        return Err(Refusal::Recursion {
                            function: (*function).to_owned(),
                            cycle: cycle.into_iter().map(str::to_owned).collect(),
                        });
                    }
                    if seen.insert(*called) {
                        open.push(cycle);
                    }
                }
            }
        }
        Ok(())
    }

    /// The effects of a call. A refusal inside the function is kept.
    fn call(&self, kernel: &str, name: &str, arguments: &[Differs]) -> Summary {
        if name == PRINTS {
            return Summary {
                result: Differs::ByThread,
                ..Summary::default()
            };
        }
        let key = (name.to_owned(), arguments.to_vec());
        if let Some(known) = self.summaries.borrow().get(&key) {
            return *known;
        }
        let function = self
            .module
            .functions
            .iter()
            .find(|function| function.name == name);
        let summary = match function.filter(|function| function.body.is_some()) {
            Some(function) => self.function(kernel, function, arguments, &[]),
            None => Summary {
                result: Differs::ByThread,
                ..Summary::default()
            },
        };
        self.summaries.borrow_mut().insert(key, summary);
        summary
    }

    fn function(
        &self,
        kernel: &str,
        function: &'b Function<'a>,
        arguments: &[Differs],
        roles: &[Role],
    ) -> Summary {
        let (Some(body), Some(graph)) = (&function.body, self.graphs.get(function.name)) else {
            return Summary::default();
        };
        let given = Given { arguments, roles };
        let ask = |name: &str, arguments: &[Differs]| self.call(kernel, name, arguments);
        let analysis = Analysis::run(self.module, function, body, graph, given, &ask);
        let mut summary = Summary::default();
        for result in 0..function.results.len() {
            summary.result = summary.result.max(analysis.differs[result]);
            let (some, all) = written_result(graph, Name(result));
            if some != all {
                summary.result = Differs::ByThread;
            }
        }
        for block in (0..graph.blocks.len()).filter(|block| graph.is_reachable[*block]) {
            for (instruction, effect) in &graph.blocks[block].instructions {
                let check = Check {
                    checker: self,
                    kernel,
                    function,
                    body,
                    analysis: &analysis,
                    given,
                    block,
                    instruction,
                };
                check.instruction(*effect, &mut summary);
            }
        }
        summary
    }
}

/// The check of one instruction.
pub(super) struct Check<'c, 'b, 'a> {
    pub(super) checker: &'c Checker<'b, 'a>,
    kernel: &'c str,
    pub(super) function: &'b Function<'a>,
    pub(super) body: &'b Body<'a>,
    pub(super) analysis: &'c Analysis<'b, 'a>,
    pub(super) given: Given<'c>,
    pub(super) block: usize,
    pub(super) instruction: &'b Instruction<'a>,
}

impl Check<'_, '_, '_> {
    fn instruction(&self, effect: Effect, summary: &mut Summary) {
        match effect {
            Effect::Collective(collective) => self.collective(collective, summary),
            Effect::Call => self.call(summary),
            Effect::Load(_) | Effect::Store(_) | Effect::Atomic { .. } => self.memory(effect, summary),
            Effect::Compute => self.opening(summary),
            _ => {}
        }
    }

    fn form(&self, reason: &'static str) {
        self.checker.refuse(Refusal::Form {
            kernel: self.kernel.to_owned(),
            operation: place(self.checker.module, self.instruction),
            reason,
        });
    }

    pub(super) fn memory_refusal(&self, reason: &'static str) {
        self.checker.refuse(Refusal::Memory {
            kernel: self.kernel.to_owned(),
            operation: place(self.checker.module, self.instruction),
            reason,
        });
    }

    /// Refuses the instruction unless the threads of the block, or of each warp, are together.
    fn must_be_together(&self, differs: Differs, group: &'static str) {
        if self.analysis.region[self.block].0 >= differs {
            self.checker.refuse(Refusal::Divergent {
                kernel: self.kernel.to_owned(),
                operation: place(self.checker.module, self.instruction),
                group,
                reasons: reasons(self.checker.module, self.analysis, self.block),
            });
        }
    }

    /// Checks a mark of `device-std`: all threads of the block must execute it, with equal values.
    fn opening(&self, summary: &mut Summary) {
        let (written, read) = self.instruction.split(Effect::Compute);
        let is_mark = |name: &Name| self.analysis.text(*name).starts_with(OPENS_SHARED_MEMORY);
        if !matches!(written, [Operand::Name(name)] if is_mark(name)) {
            return;
        }
        // All threads must call a function that opens shared memory, as if it had a barrier.
        summary.has_barrier = true;
        self.must_be_together(Differs::ByWarp, "of the block");
        for operand in read {
            if let Operand::Special(register) = operand
                && !is_uniform(register)
            {
                self.form("opens shared memory by a register that differs in each thread");
            }
            operand.each_name(&mut |name| {
                if self.analysis.differs[name.0] != Differs::Never {
                    self.checker.refuse(Refusal::Opening {
                        kernel: self.kernel.to_owned(),
                        operation: place(self.checker.module, self.instruction),
                        value: self.analysis.text(name).to_owned(),
                        reasons: reasons_of(self.checker.module, self.analysis, name, self.instruction),
                    });
                }
            });
        }
    }

    fn collective(&self, collective: Collective, summary: &mut Summary) {
        let operands = self.instruction.operands.as_slice();
        match collective {
            Collective::Barrier { returns } => {
                let is_number = |at: usize| operands.get(at).is_some_and(is_barrier);
                let is_whole = if returns {
                    operands.len() == 3 && is_number(1)
                } else {
                    operands.len() == 1 && is_number(0)
                };
                if !is_whole {
                    self.form("is for some threads only, or has no number from 0 to 15: a barrier of a safe kernel is for all threads of the block");
                }
                summary.has_barrier = true;
                self.checker.proved.borrow_mut().barriers += 1;
                self.must_be_together(Differs::ByWarp, "of the block");
            }
            Collective::Exchange { .. } => {
                if !operands.last().is_some_and(|mask| self.is_whole_warp(mask)) {
                    self.form("is for some lanes only, or for unknown lanes: an exchange of a safe kernel is for whole warps");
                }
                summary.has_exchange = true;
                self.checker.proved.borrow_mut().exchanges += 1;
                self.must_be_together(Differs::ByThread, "of a warp");
            }
        }
    }

    /// Whether a mask names all lanes: it is -1, or a register that always holds -1.
    fn is_whole_warp(&self, mask: &Operand<'_>) -> bool {
        let is_all = |operand: &Operand<'_>| matches!(operand, Operand::Number(n) if ["-1", "4294967295", "0xffffffff", "0xFFFFFFFF"].contains(&n.as_str()));
        let Operand::Name(register) = mask else {
            return is_all(mask);
        };
        // Where several paths write the register, each path's value is checked.
        let (mut open, mut seen) = (vec![*register], HashSet::new());
        while let Some(name) = open.pop() {
            if !seen.insert(name) {
                continue;
            }
            let mut writes = self.body.instructions().filter(|i| writes(i, name)).peekable();
            if writes.peek().is_none() {
                return false;
            }
            for instruction in writes {
                if instruction.opcode == PATHS {
                    for operand in &instruction.operands[1..] {
                        operand.each_name(&mut |name| open.push(name));
                    }
                } else if !(instruction.opcode.starts_with("mov.")
                    && instruction.operands.get(1).is_some_and(is_all))
                {
                    return false;
                }
            }
        }
        true
    }

    fn call(&self, summary: &mut Summary) {
        let name = callee(self.instruction).unwrap_or("");
        let known = self
            .checker
            .module
            .functions
            .iter()
            .find(|function| function.name == name);
        if known.is_none_or(|function| function.body.is_none()) && ![PRINTS, ENDS_THE_LAUNCH].contains(&name)
        {
            self.form("calls a function that is not in the module");
        }
        let mut differs = Vec::new();
        for argument in arguments(self.instruction) {
            let mut most = Differs::Never;
            argument.each_name(&mut |name| most = most.max(self.analysis.differs[name.0]));
            differs.push(most);
        }
        self.arguments_must_be_written(name);
        let called = self.checker.call(self.kernel, name, &differs);
        if called.has_barrier {
            self.must_be_together(Differs::ByWarp, "of the block");
        }
        if called.has_exchange {
            self.must_be_together(Differs::ByThread, "of a warp");
        }
        self.memory_of_call(&called, summary);
        summary.has_barrier |= called.has_barrier;
        summary.has_exchange |= called.has_exchange;
    }
}

fn writes(instruction: &Instruction<'_>, register: Name) -> bool {
    let mut found = false;
    if let Some(first) = instruction.operands.first() {
        first.each_name(&mut |name| found |= name == register);
    }
    found && !instruction.opcode.starts_with("st.") && !instruction.opcode.starts_with("bar")
}

/// The functions with a barrier or an exchange, in their own code or in functions that they call.
fn functions_that_meet<'a>(module: &Module<'a>) -> HashSet<&'a str> {
    let mut meet = HashSet::new();
    loop {
        let before = meet.len();
        for (function, body) in defined(module) {
            let meets = body.instructions().any(|instruction| match effect(instruction) {
                Ok(Effect::Collective(_)) => true,
                Ok(Effect::Call) => callee(instruction).is_some_and(|name| meet.contains(name)),
                // `Graph::new` refuses an unknown instruction.
                _ => false,
            });
            if meets {
                meet.insert(function.name);
            }
        }
        if meet.len() == before {
            return meet;
        }
    }
}

fn defined<'b, 'a>(module: &'b Module<'a>) -> impl Iterator<Item = (&'b Function<'a>, &'b Body<'a>)> {
    module
        .functions
        .iter()
        .filter_map(|function| Some((function, function.body.as_ref()?)))
}

/// Refuses variables that a kernel could change, and shared memory that the launch does not
/// provide.
pub(super) fn check_variables(module: &Module<'_>) -> Result<(), Refusal> {
    for variable in &module.variables {
        let reason = match variable.space {
            Space::Global if !variable.is_initialised => "memory of the module that is not a constant table",
            Space::Shared if variable.size.is_some() => "shared memory that the launch does not provide",
            _ => continue,
        };
        return Err(Refusal::Variable {
            name: variable.name.to_owned(),
            line: variable.line,
            reason,
        });
    }
    for (function, body) in defined(module) {
        if body.shared_bytes > 0 {
            return text(
                0,
                format!(
                    "`{}` has static shared memory, which the launch does not provide",
                    function.name
                ),
            );
        }
    }
    Ok(())
}
