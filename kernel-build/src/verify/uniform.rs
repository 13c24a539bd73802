//! Finds the values on which all threads of a block, or of a warp, agree, and the basic blocks that
//! all of them run together.
//!
//! A divergence analysis (Karrenberg and Hack, "Improving Performance of OpenCL on CPUs", CC 2012;
//! Sampaio, de Souza, Collange and Pereira, "Divergence Analysis", TOPLAS 2014; LLVM's
//! `UniformityInfo`), in which each value has a name of its own (`definitions.rs`):
//!
//! - A value differs if it is computed from a value that differs, or read from a place where
//!   threads may see different values.
//! - A branch on a value that differs makes the threads diverge. They are together again at the
//!   branch's immediate post-dominator. The blocks between them are the branch's *region*.
//! - A value written in a region differs, for every reader: some threads may have written it, and
//!   others not, or more often. Therefore a value that threads take out of a loop at different
//!   times differs too: the loop lies in the region of the branch that leaves it.
//!
//! Claim: all threads run a block outside of all regions together, equally often, and with equal
//! values in registers that do not differ.
//!
//! Proof, by induction over the points at which the threads are together. The first point is the
//! function's start. If the threads agree on a block's branch, the next point is the branch's
//! target. If they do not agree, they diverge, and the next point is the branch's post-dominator.
//! Until then they run only blocks of the region, and no register that counts as equal is written
//! there. At the post-dominator, several names of one register may meet. A name that was written in
//! the region differs. A name that was current at the branch is the same on all paths.
//!
//! A path that traps ends the launch. A path that never ends keeps all threads from the next point:
//! the compiler of PTX keeps its loop (`loops.rs`). Without the loop, all threads would reach the
//! point.

use super::body::{Body, Instruction, Name, Operand};
use super::graph::{End, Graph};
use super::instruction::{Collective, Effect, arguments, callee, results, uses_carry};
use super::interval::written_meanwhile;
use super::origin::{Origin, Origins};
use super::parameters::Role;
use super::parse::{Function, Module};
use super::variable::Space;
use super::written::Unwritten;

/// Which threads may have different values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Differs {
    /// No two threads of the block.
    #[default]
    Never,
    /// Threads of two warps.
    ByWarp,
    /// Any two threads.
    ByThread,
}

/// The reason why a value differs.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cause<'b, 'a> {
    /// It is computed from a value that differs.
    Value(&'b Instruction<'a>, Name),
    /// It is written in the region of a branch.
    Branch(&'b Instruction<'a>, Name, &'b Instruction<'a>),
    /// This instruction gives each thread another value.
    Source(&'b Instruction<'a>, &'static str),
    /// It is read from local memory.
    Local(&'b Instruction<'a>),
    /// It is a parameter of a function, and the call passed a value that differs.
    Argument,
    /// A path reads it before any write.
    Unwritten,
}

/// The effects of a call of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) result: Differs,
    pub(super) has_barrier: bool,
    pub(super) has_exchange: bool,
    /// The parameters through which the function writes; [`Origin::UNKNOWN`] for any memory.
    pub(super) writes: Origin,
    /// The parameters through which the function reads.
    pub(super) reads: Origin,
    /// The parameters through which the function reads by the read-only cache.
    pub(super) reads_cached: Origin,
    /// The function writes shared memory, through an address of any kind.
    pub(super) writes_shared: bool,
    /// The parameters through which the function makes accesses that other threads must see at
    /// once; [`Origin::UNKNOWN`] for any memory.
    pub(super) orders: Origin,
}

/// Known facts about the function's parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given<'g> {
    pub(super) arguments: &'g [Differs],
    /// The roles of the entry's parameters, if they are known.
    pub(super) roles: &'g [Role],
}

/// The analysis of one function.
pub(super) struct Analysis<'b, 'a> {
    module: &'b Module<'a>,
    function: &'b Function<'a>,
    body: &'b Body<'a>,
    pub(super) graph: &'b Graph<'b, 'a>,
    pub(super) origins: Origins,
    unwritten: Unwritten,
    pub(super) differs: Vec<Differs>,
    causes: Vec<Option<Cause<'b, 'a>>>,
    /// For each block, whether it lies in a region, and the branch of the region.
    pub(super) region: Vec<(Differs, Option<usize>)>,
    regions: Vec<Option<Vec<usize>>>,
    local: (Differs, Option<Cause<'b, 'a>>),
    carry: Differs,
    shared_written: Vec<bool>,
    changed: bool,
}

/// Returns the effects of a function, called with arguments that differ in this way.
pub(super) type Ask<'f> = dyn Fn(&str, &[Differs]) -> Summary + 'f;

impl<'b, 'a> Analysis<'b, 'a> {
    pub(super) fn run(
        module: &'b Module<'a>,
        function: &'b Function<'a>,
        body: &'b Body<'a>,
        graph: &'b Graph<'b, 'a>,
        given: Given<'_>,
        ask: &Ask<'_>,
    ) -> Self {
        let unwritten = Unwritten::new(body, graph);
        let mut analysis = Self {
            module,
            function,
            body,
            graph,
            origins: Origins::new(module, function, body, graph, given.roles, &unwritten),
            unwritten,
            differs: vec![Differs::Never; body.names.len()],
            causes: vec![None; body.names.len()],
            region: vec![(Differs::Never, None); graph.blocks.len()],
            regions: vec![None; graph.blocks.len()],
            local: (Differs::Never, None),
            carry: Differs::Never,
            shared_written: Vec::new(),
            changed: true,
        };
        analysis.shared_written = written_meanwhile(graph, &|block| analysis.writes_shared(block, ask));
        for (at, differs) in given.arguments.iter().enumerate() {
            analysis.raise(Name(function.results.len() + at), *differs, Cause::Argument);
        }
        for name in &body.at_start {
            analysis.raise(*name, Differs::ByThread, Cause::Unwritten);
        }
        while std::mem::replace(&mut analysis.changed, false) {
            analysis.find_regions();
            for block in 0..graph.blocks.len() {
                if graph.is_reachable[block] {
                    for (instruction, effect) in &graph.blocks[block].instructions {
                        analysis.step(block, instruction, *effect, given, ask);
                    }
                }
            }
        }
        analysis
    }

    fn raise(&mut self, name: Name, differs: Differs, cause: Cause<'b, 'a>) {
        if self.differs[name.0] < differs {
            self.differs[name.0] = differs;
            self.causes[name.0] = Some(cause);
            self.changed = true;
        }
    }

    fn give(&mut self, written: &[Operand<'a>], differs: Differs, cause: Cause<'b, 'a>) {
        for operand in written {
            operand.each_name(&mut |name| self.raise(name, differs, cause));
        }
    }

    /// Finds the regions of branches on values that differ.
    fn find_regions(&mut self) {
        for block in 0..self.graph.blocks.len() {
            let End::Choice { by, .. } = &self.graph.blocks[block].end else {
                continue;
            };
            let differs = self.differs[by.0];
            if differs == Differs::Never || !self.graph.is_reachable[block] || !self.graph.is_choice(block) {
                continue;
            }
            let graph = self.graph;
            let region = self.regions[block].get_or_insert_with(|| graph.region(block));
            for inside in region.iter() {
                if self.region[*inside].0 < differs {
                    self.region[*inside] = (differs, Some(block));
                    self.changed = true;
                }
            }
        }
    }

    /// The value among `operands` that differs most.
    fn most(&self, operands: &[Operand<'a>]) -> (Differs, Option<Name>) {
        let mut most = (Differs::Never, None);
        for operand in operands {
            operand.each_name(&mut |name| {
                if most.0 < self.differs[name.0] {
                    most = (self.differs[name.0], Some(name));
                }
            });
        }
        most
    }

    fn step(
        &mut self,
        block: usize,
        instruction: &'b Instruction<'a>,
        effect: Effect,
        given: Given<'_>,
        ask: &Ask<'_>,
    ) {
        let (written, read) = instruction.split(effect);
        let (mut differs, name) = self.most(read);
        let mut cause = match name {
            Some(name) => Cause::Value(instruction, name),
            None => Cause::Source(instruction, "differs"),
        };
        let mut source = |is: Differs, reason: &'static str| {
            if differs < is {
                (differs, cause) = (is, Cause::Source(instruction, reason));
            }
        };
        match effect {
            Effect::Compute => {
                let special = read
                    .iter()
                    .find(|operand| matches!(operand, Operand::Special(s) if !is_uniform(s)));
                if special.is_some() {
                    source(Differs::ByThread, "this register differs in each thread");
                }
                let (reads_carry, _) = uses_carry(instruction.opcode);
                if reads_carry {
                    source(
                        self.carry,
                        "the carry comes from an addition of values that differ",
                    );
                }
            }
            Effect::Differ | Effect::Atomic { .. } => {
                source(Differs::ByThread, "each thread gets another result");
            }
            Effect::Collective(Collective::Barrier { .. }) => (differs, cause) = (Differs::Never, cause),
            Effect::Collective(Collective::Exchange { agrees, .. }) => {
                let is = if agrees {
                    Differs::ByWarp
                } else {
                    Differs::ByThread
                };
                (differs, cause) = (
                    is,
                    Cause::Source(instruction, "each warp, or lane, gets another result"),
                );
            }
            Effect::Load(access) => {
                let address = read.first().unwrap_or(&Operand::Sink);
                let from = self.origins.address(self.module, self.body, access, address);
                let is_read_only = from
                    .only_parameter()
                    .is_some_and(|at| given.roles.get(at) == Some(&Role::Reads));
                match access.space {
                    _ if !access.is_weak => {
                        source(Differs::ByThread, "other threads may write what is read here")
                    }
                    Some(Space::Param | Space::Const) => {}
                    _ if is_read_only || from.is_only(Origin::MODULE) => {}
                    _ if access.is_read_only && !from.is_unknown() => {}
                    _ if from.is_only(Origin::LOCAL) && self.unwritten.has(instruction) => source(
                        Differs::ByThread,
                        "a path may read this local memory before any write",
                    ),
                    _ if from.is_only(Origin::LOCAL) => {
                        if differs < self.local.0 {
                            (differs, cause) = (self.local.0, Cause::Local(instruction));
                        }
                    }
                    _ if from.is_only(Origin::SHARED) => {
                        if self.shared_written[block] || !self.function.is_entry {
                            source(
                                Differs::ByThread,
                                "other threads may write this shared memory between the same barriers",
                            );
                        }
                    }
                    _ => source(
                        Differs::ByThread,
                        "other threads may write the memory that is read here",
                    ),
                }
            }
            Effect::Call => {
                let arguments = arguments(instruction);
                let given: Vec<Differs> = arguments
                    .iter()
                    .map(|a| self.most(std::slice::from_ref(a)).0)
                    .collect();
                let summary = ask(callee(instruction).unwrap_or(""), &given);
                differs = summary.result;
                cause = Cause::Source(instruction, "the function's result may differ");
                if summary.writes != Origin::NONE
                    && self
                        .origins
                        .accessed(summary.writes, arguments)
                        .may_be(Origin::LOCAL)
                {
                    self.raise_local(Differs::ByThread, cause);
                }
            }
            _ => {}
        }
        let (region, branch) = self.region[block];
        if differs < region
            && let Some(branch) = branch
            && let End::Choice { by, at, .. } = &self.graph.blocks[branch].end
        {
            (differs, cause) = (region, Cause::Branch(instruction, *by, at));
        }
        match effect {
            Effect::Call => {
                for result in results(instruction) {
                    self.give(std::slice::from_ref(result), differs, cause);
                }
            }
            Effect::Store(access) if access.space == Some(Space::Param) => {
                self.give(&instruction.operands[..1], differs, cause);
            }
            Effect::Store(access) => {
                let address = instruction.operands.first().unwrap_or(&Operand::Sink);
                let to = self.origins.address(self.module, self.body, access, address);
                if to.may_be(Origin::LOCAL) && access.space != Some(Space::Global) {
                    self.raise_local(differs, cause);
                }
            }
            _ => self.give(written, differs, cause),
        }
        if uses_carry(instruction.opcode).1 && self.carry < differs {
            self.carry = differs;
            self.changed = true;
        }
    }

    fn raise_local(&mut self, differs: Differs, cause: Cause<'b, 'a>) {
        if self.local.0 < differs {
            self.local = (differs, Some(cause));
            self.changed = true;
        }
    }

    fn writes_shared(&self, block: usize, ask: &Ask<'_>) -> bool {
        self.graph.blocks[block]
            .instructions
            .iter()
            .any(|(instruction, effect)| match effect {
                Effect::Store(access) | Effect::Atomic { access, .. } => {
                    let at = instruction
                        .operands
                        .iter()
                        .find(|o| matches!(o, Operand::Address(..)));
                    let to =
                        self.origins
                            .address(self.module, self.body, *access, at.unwrap_or(&Operand::Sink));
                    !matches!(access.space, Some(Space::Param | Space::Local | Space::Global))
                        && to.may_be(Origin::SHARED)
                }
                // A barrier inside a function ends no interval of its caller.
                Effect::Call => {
                    let summary = ask(callee(instruction).unwrap_or(""), &[]);
                    summary.writes != Origin::NONE || summary.writes_shared || summary.has_barrier
                }
                _ => false,
            })
    }

    pub(super) fn cause(&self, name: Name) -> Option<Cause<'b, 'a>> {
        self.causes[name.0]
    }

    pub(super) fn local_cause(&self) -> Option<Cause<'b, 'a>> {
        self.local.1
    }

    pub(super) fn text(&self, name: Name) -> &str {
        &self.body.names[name.0].0
    }
}

/// Special registers with one value for all threads of a block, while the block runs (PTX ISA,
/// chapter 10). `%smid` does not belong to them: a block may move to another multiprocessor.
pub(super) fn is_uniform(register: &str) -> bool {
    [
        "%ctaid",
        "%ntid",
        "%nctaid",
        "%gridid",
        "%total_smem_size",
        "%dynamic_smem_size",
    ]
    .iter()
    .any(|known| register.split('.').next() == Some(known))
}
