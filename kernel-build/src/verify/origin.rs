//! The memory to which an address may point: the origins of the values from which it was computed.
//!
//! Each register has one set of origins, for the whole function (Andersen, "Program Analysis and
//! Specialization for the C Programming Language", 1994, with one location for each kind of
//! memory). A value is one of three kinds:
//!
//! - a constant, or a value computed from constants alone: the empty set;
//! - an address of known memory: the kinds of this memory;
//! - a number from outside: from a parameter, from memory, from another lane or from a special
//!   register ([`Origin::NUMBER`]). It may equal any address.
//!
//! Ways to combine values differ. A sum of an address and a number is an address in the same
//! memory, for rustc checks the bounds. A sum of two addresses, and what is put together from parts
//! of addresses, is a number. A choice between an address and a number (`selp`, two paths, `min`,
//! bits) may be the number, so nothing is known about it. In a function, arguments and what comes
//! from them may be numbers too.
//!
//! The analysis first finds the addresses that are certain, and then the other values. So a value
//! that becomes an address late, in a loop, does not count as a number before.

use std::ops::{BitOr, BitOrAssign};

use super::body::{Body, Instruction, Kind, Name, Operand};
use super::graph::Graph;
use super::instruction::{
    Access, Collective, ENDS_THE_LAUNCH, Effect, PATHS, PRINTS, arguments, callee, results,
};
use super::parameters::Role;
use super::parse::{Function, Module};
use super::variable::Space;
use super::written::Unwritten;

/// A set of kinds of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Origin(u128);

impl BitOr for Origin {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Origin {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl Origin {
    /// A constant.
    pub(super) const NONE: Self = Self(0);
    pub(super) const LOCAL: Self = Self(1);
    pub(super) const SHARED: Self = Self(2);
    /// A variable of the module.
    pub(super) const MODULE: Self = Self(4);
    /// A value that a caller passed, or that a call returned.
    pub(super) const UNKNOWN: Self = Self(8);
    /// The memory of the parameters themselves.
    pub(super) const PARAMETERS: Self = Self(16);
    /// A number from outside, which may equal any address.
    pub(super) const NUMBER: Self = Self(32);
    /// In a function: a value that is not an argument itself, but from another function.
    const RETURNED: Self = Self(64);
    const FIRST: u32 = 7;

    /// The number of parameters with an element of their own. Those behind share the last element,
    /// so no entry may have an address there (`check.rs`).
    pub(super) const PARAMETERS_TOLD_APART: usize = (u128::BITS - 1 - Self::FIRST) as usize;

    /// The memory to which the function's parameter `at` points.
    pub(super) fn parameter(at: usize) -> Self {
        Self(1 << (Self::FIRST as usize + at.min(Self::PARAMETERS_TOLD_APART)))
    }

    /// The parameter, if this is the memory of one parameter alone. `None` also for parameters with
    /// a high number, which share a bit.
    pub(super) fn only_parameter(self) -> Option<usize> {
        let at = self.0.trailing_zeros();
        let is_one = self.0.is_power_of_two() && (Self::FIRST..u128::BITS - 1).contains(&at);
        is_one.then(|| (at - Self::FIRST) as usize)
    }

    /// Whether the sets have a common element.
    pub(super) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn may_be(self, other: Self) -> bool {
        self.has(other) || self.is_unknown()
    }

    pub(super) fn is_only(self, other: Self) -> bool {
        self == other
    }

    /// Whether nothing is known: the value may be a number, or comes from another function.
    pub(super) fn is_unknown(self) -> bool {
        self.0 == 0 || self.has(Self::UNKNOWN | Self::NUMBER)
    }

    /// In a function: the parameters to whose memory the address points. [`UNKNOWN`](Self::UNKNOWN)
    /// stands for all memory that the function can reach.
    pub(super) fn given(self) -> Self {
        let parameters = self.0 >> Self::FIRST << Self::FIRST;
        if self.0 == 0 || self.has(Self::NUMBER | Self::RETURNED) {
            Self::UNKNOWN
        } else if parameters != 0 {
            Self(parameters)
        } else {
            Self(self.0 & Self::UNKNOWN.0)
        }
    }

    fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    fn is_address(self) -> bool {
        self.without(Self::NUMBER) != Self::NONE
    }

    fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

/// The origins of all names of a function.
#[derive(Debug)]
pub(super) struct Origins {
    of: Vec<Origin>,
    in_local: Origin,
    /// The kinds that are certain to be addresses.
    certain: Origin,
    /// The kinds that are addresses and no numbers: a sum of two of them is an address of neither.
    no_number: Origin,
    /// The kinds that the analysis follows now.
    followed: Origin,
}

/// The function whose origins are computed.
#[derive(Clone, Copy)]
struct In<'f, 'a> {
    module: &'f Module<'a>,
    function: &'f Function<'a>,
    body: &'f Body<'a>,
    unwritten: &'f Unwritten,
}

/// Sums of an address and numbers.
const SUMS: &[&str] = &["add", "addc", "sub", "subc", "mad", "madc", "mad24"];
/// Instructions whose result is one of their values, or a sum without carries (`or`).
const MOVES: &[&str] = &["mov", "cvta", "or", PATHS];
/// Facts about a value, which are no part of it.
const FACTS: &[&str] = &["setp", "set", "testp", "isspacep", "popc", "clz", "bfind", "fns"];

impl Origins {
    pub(super) fn new(
        module: &Module<'_>,
        function: &Function<'_>,
        body: &Body<'_>,
        graph: &Graph<'_, '_>,
        roles: &[Role],
        unwritten: &Unwritten,
    ) -> Self {
        let parameters = Origin(u128::MAX >> Origin::FIRST << Origin::FIRST);
        let memory = Origin::LOCAL | Origin::SHARED | Origin::MODULE | Origin::PARAMETERS;
        let certain = if function.is_entry {
            memory | parameters
        } else {
            memory
        };
        let mut origins = Self {
            of: vec![Origin::NONE; body.names.len()],
            in_local: Origin::NONE,
            certain,
            // Without roles, a parameter may be a number.
            no_number: if roles.is_empty() { memory } else { certain },
            followed: certain,
        };
        let place = In {
            module,
            function,
            body,
            unwritten,
        };
        origins.parameters(place, roles);
        origins.run(place, graph);
        origins.followed = Origin(u128::MAX);
        origins.parameters(place, roles);
        for name in &body.at_start {
            origins.of[name.0] |= Origin::NUMBER;
        }
        origins.run(place, graph);
        origins
    }

    /// The first names are the results and the parameters.
    fn parameters(&mut self, place: In<'_, '_>, roles: &[Role]) {
        for at in 0..place.function.parameters.len() {
            let origin = match roles.get(at) {
                _ if !place.function.is_entry => Origin::UNKNOWN | Origin::parameter(at),
                Some(Role::Value) => Origin::NUMBER,
                _ => Origin::parameter(at),
            };
            self.of[place.function.results.len() + at] |= origin.and(self.followed);
        }
    }

    fn run(&mut self, place: In<'_, '_>, graph: &Graph<'_, '_>) {
        loop {
            let before = (self.of.clone(), self.in_local);
            let blocks = graph.blocks.iter().zip(&graph.is_reachable);
            for (block, _) in blocks.filter(|(_, is_reachable)| **is_reachable) {
                for (instruction, effect) in &block.instructions {
                    self.step(place, instruction, *effect);
                }
            }
            if before == (self.of.clone(), self.in_local) {
                return;
            }
        }
    }

    fn step(&mut self, place: In<'_, '_>, instruction: &Instruction<'_>, effect: Effect) {
        let In { module, body, .. } = place;
        let (written, read) = instruction.split(effect);
        let all = |origins: &Self, operands: &[Operand<'_>]| {
            let values = operands.iter().map(|o| origins.value(module, body, o));
            values.fold(Origin::NONE, BitOr::bitor)
        };
        match effect {
            Effect::Compute => {
                let values: Vec<Origin> = read.iter().map(|o| self.value(module, body, o)).collect();
                let base = instruction.opcode.split('.').next().unwrap_or("");
                let mut from = self.computed(base, &values);
                // A part of an address is a number, and so is what is put together from parts.
                let has_parts = |operands: &[Operand<'_>]| {
                    operands.iter().any(|operand| matches!(operand, Operand::List(_)))
                };
                if from.is_address() && (has_parts(written) || has_parts(read)) {
                    from |= Origin::NUMBER;
                }
                self.give(written, from);
            }
            Effect::Differ => self.give(written, Origin::NUMBER),
            Effect::Load(access) => {
                let Some(address) = read.first() else { return };
                let mut from = self.loaded(place, access, address, is_wide(instruction));
                if from.is_address() && !is_wide(instruction) || place.unwritten.has(instruction) {
                    from |= Origin::NUMBER;
                }
                self.give(written, from);
            }
            Effect::Store(access) => {
                let [address, value] = read else { return };
                let mut value = self.value(module, body, value);
                // The other part of an address may come from somewhere else.
                if value.is_address() && !is_wide(instruction) {
                    value |= Origin::NUMBER;
                }
                if access.space == Some(Space::Param) {
                    address.each_name(&mut |name| self.of[name.0] |= value.and(self.followed));
                } else {
                    self.stored(place, access, address, value);
                }
            }
            Effect::Atomic { access, .. } => {
                let [address, values @ ..] = read else { return };
                let given = all(self, values);
                self.stored(place, access, address, given);
                let from = self.loaded(place, access, address, true);
                self.give(written, given | from | Origin::NUMBER);
            }
            Effect::Collective(Collective::Barrier { returns } | Collective::Exchange { returns, .. })
                if returns =>
            {
                // Another lane gives its own value, but the same instruction reads it.
                self.give(written, all(self, read) | Origin::NUMBER);
            }
            Effect::Call => {
                self.give(results(instruction), Origin::UNKNOWN | Origin::RETURNED);
                if [Some(PRINTS), Some(ENDS_THE_LAUNCH)].contains(&callee(instruction)) {
                    return;
                }
                // The function may store its arguments, or anything, in the caller's local memory.
                let mut given = Origin::NONE;
                for argument in arguments(instruction) {
                    argument.each_name(&mut |name| given |= self.reached_from(name));
                }
                if given.has(Origin::LOCAL | Origin::UNKNOWN) {
                    self.in_local |= (given | Origin::NUMBER).and(self.followed);
                }
            }
            _ => {}
        }
    }

    /// The origin of a value that an instruction computes.
    fn computed(&self, base: &str, values: &[Origin]) -> Origin {
        let any = values.iter().copied().fold(Origin::NONE, BitOr::bitor);
        if FACTS.contains(&base) {
            return if any == Origin::NONE { any } else { Origin::NUMBER };
        }
        if SUMS.contains(&base) {
            // Beside an address that is certain, the other values are numbers.
            let is_certain =
                |value: &Origin| value.is_address() && value.without(self.certain) == Origin::NONE;
            let sum = if values.iter().any(is_certain) {
                any.and(self.certain)
            } else {
                any
            };
            // A sum of two addresses, a product of one, and a distance from one are numbers.
            let factors = if base.starts_with("mad") { 2 } else { 0 };
            let is_no_number =
                |value: &&Origin| value.is_address() && value.without(self.no_number) == Origin::NONE;
            let is_number = values.iter().filter(is_no_number).count() > 1
                || values.iter().take(factors).any(|value| is_no_number(&value))
                || base.starts_with("sub") && values.get(1).is_some_and(|value| value.is_address());
            return if is_number { sum | Origin::NUMBER } else { sum };
        }
        match (base, values) {
            // The condition is no part of an address. But bit by bit, conditions can make a number.
            ("selp" | "slct", [one, other, _]) if (*one | *other).is_address() => *one | *other,
            ("or", [one, other]) if one.is_address() && other.is_address() => any | Origin::NUMBER,
            _ if MOVES.contains(&base) || !any.is_address() => any,
            // Products, bits and parts of an address may be any number.
            _ => any | Origin::NUMBER,
        }
    }

    fn stored(&mut self, place: In<'_, '_>, access: Access, address: &Operand<'_>, value: Origin) {
        let to = self.address(place.module, place.body, access, address);
        if to.has(Origin::LOCAL | Origin::UNKNOWN) {
            self.in_local |= value.and(self.followed);
        }
    }

    fn give(&mut self, written: &[Operand<'_>], origin: Origin) {
        for operand in written {
            operand.each_name(&mut |name| self.of[name.0] |= origin.and(self.followed));
        }
    }

    fn value(&self, module: &Module<'_>, body: &Body<'_>, operand: &Operand<'_>) -> Origin {
        let mut origin = Origin::NONE;
        match operand {
            Operand::Symbol(symbol) => return symbol_origin(module, symbol),
            Operand::Special(_) => return Origin::NUMBER,
            Operand::List(list) => {
                let values = list.iter().map(|o| self.value(module, body, o));
                return values.fold(origin, BitOr::bitor);
            }
            _ => {}
        }
        operand.each_name(&mut |name| origin |= self.name(body, name));
        origin
    }

    fn name(&self, body: &Body<'_>, name: Name) -> Origin {
        match body.names[name.0].1 {
            Kind::Register => self.of[name.0],
            Kind::Variable(Space::Local) => Origin::LOCAL,
            Kind::Variable(Space::Shared) => Origin::SHARED,
            Kind::Variable(_) => Origin::PARAMETERS,
        }
    }

    /// The memory that an access may touch.
    pub(super) fn address(
        &self,
        module: &Module<'_>,
        body: &Body<'_>,
        access: Access,
        address: &Operand<'_>,
    ) -> Origin {
        let Operand::Address(base, _) = address else {
            return Origin::UNKNOWN;
        };
        let origin = self.value(module, body, base);
        match access.space {
            Some(Space::Shared) => Origin::SHARED,
            Some(Space::Const) => Origin::MODULE,
            Some(Space::Param) if origin.is_only(Origin::PARAMETERS) => origin,
            Some(Space::Param) => Origin::PARAMETERS | Origin::UNKNOWN,
            // In a function, this may be the local memory of a caller.
            Some(Space::Local) if origin.is_only(Origin::LOCAL) => origin,
            Some(Space::Local) => origin | Origin::LOCAL | Origin::UNKNOWN,
            // A number computed from an address in another space is not an address of global
            // memory.
            Some(Space::Global) => origin.without(Origin::LOCAL | Origin::SHARED | Origin::PARAMETERS),
            None => origin,
        }
    }

    fn loaded(&self, place: In<'_, '_>, access: Access, address: &Operand<'_>, wide: bool) -> Origin {
        let In {
            module,
            function,
            body,
            ..
        } = place;
        let mut origin = Origin::NONE;
        if access.space == Some(Space::Param) {
            let offset = match address {
                Operand::Address(_, offset) => *offset,
                _ => 0,
            };
            // A part of an address is a number.
            let is_address = wide && offset % 8 == 0;
            let part = |of: Origin| {
                if is_address || of.is_only(Origin::NUMBER) {
                    of
                } else {
                    Origin::NUMBER
                }
            };
            address.each_name(&mut |name| match body.names[name.0].1 {
                Kind::Variable(_) => origin |= part(self.of[name.0]),
                // Any parameter of the entry.
                Kind::Register => {
                    let all = &self.of[..function.results.len() + function.parameters.len()];
                    origin |= all.iter().copied().fold(Origin::NUMBER, BitOr::bitor);
                }
            });
            return origin;
        }
        let from = self.address(module, body, access, address);
        if from.has(Origin::LOCAL | Origin::UNKNOWN) {
            origin |= self.in_local;
        }
        if from.has(Origin::UNKNOWN) {
            origin |= Origin::UNKNOWN | Origin::RETURNED;
        }
        // Tables of the module may hold addresses of other tables. Users' data hold no addresses.
        if wide && from.has(Origin::MODULE) && module.variables.iter().any(|v| v.has_addresses) {
            origin |= Origin::MODULE;
        }
        // Tables of the module hold constants, and local memory holds what was stored there.
        if from.is_unknown() || from.without(Origin::MODULE | Origin::LOCAL) != Origin::NONE {
            origin |= Origin::NUMBER;
        }
        origin
    }

    /// The memory to which a register or a parameter of a call may point, and the memory to which
    /// values stored there may point.
    pub(super) fn reached_from(&self, name: Name) -> Origin {
        let origin = self.of[name.0];
        if origin.may_be(Origin::LOCAL) {
            origin | self.in_local
        } else {
            origin
        }
    }

    /// The memory to which a register or a parameter of a call may point.
    pub(super) fn of_name(&self, name: Name) -> Origin {
        self.of[name.0]
    }

    /// The memory that a called function may access: `targets` are the function's parameters, or
    /// [`Origin::UNKNOWN`] for all memory that it can reach.
    pub(super) fn accessed(&self, targets: Origin, arguments: &[Operand<'_>]) -> Origin {
        let mut accessed = Origin::NONE;
        for (at, argument) in arguments.iter().enumerate() {
            if targets.has(Origin::UNKNOWN) {
                // What the argument points to, and what is stored there.
                argument.each_name(&mut |name| accessed |= self.reached_from(name) | Origin::NUMBER);
            } else if targets.has(Origin::parameter(at)) {
                let mut origin = Origin::NONE;
                argument.each_name(&mut |name| origin |= self.of_name(name));
                accessed |= if origin.is_unknown() {
                    origin | Origin::NUMBER
                } else {
                    origin
                };
            }
        }
        accessed
    }
}

/// Whether an access holds whole addresses.
fn is_wide(instruction: &Instruction<'_>) -> bool {
    instruction.opcode.ends_with("64")
}

fn symbol_origin(module: &Module<'_>, symbol: &str) -> Origin {
    let variable = module.variables.iter().find(|variable| variable.name == symbol);
    match variable.map(|variable| variable.space) {
        Some(Space::Shared) => Origin::SHARED,
        Some(_) => Origin::MODULE,
        None => Origin::UNKNOWN,
    }
}
