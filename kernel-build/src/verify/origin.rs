//! The memory to which an address may point: the origins of the values from which it was computed.
//!
//! Each register has one set of origins, for the whole function (Andersen, "Program Analysis and
//! Specialization for the C Programming Language", 1994, with one location for each kind of
//! memory).

use std::ops::{BitOr, BitOrAssign};

use super::body::{Body, Kind, Name, Operand};
use super::graph::Graph;
use super::instruction::{Access, Effect, arguments, results};
use super::parameters::Role;
use super::parse::{Function, Module};
use super::variable::Space;

/// A set of kinds of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Origin(u64);

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
    pub(super) const NONE: Self = Self(0);
    pub(super) const LOCAL: Self = Self(1);
    pub(super) const SHARED: Self = Self(2);
    /// A variable of the module.
    pub(super) const MODULE: Self = Self(4);
    /// A value that a caller passed, or that a call returned.
    pub(super) const UNKNOWN: Self = Self(8);
    /// The memory of the parameters themselves.
    pub(super) const PARAMETERS: Self = Self(16);
    const FIRST: u32 = 5;

    /// The memory to which the entry's parameter `at` points.
    pub(super) fn parameter(at: usize) -> Self {
        let last = u64::BITS - 1 - Self::FIRST;
        Self(1 << (Self::FIRST + u32::try_from(at).unwrap_or(last).min(last)))
    }

    /// The parameter, if this is the memory of one parameter alone. `None` also for parameters with
    /// a high number, which share a bit.
    pub(super) fn only_parameter(self) -> Option<usize> {
        let at = self.0.trailing_zeros();
        let is_one = self.0.is_power_of_two() && (Self::FIRST..u64::BITS - 1).contains(&at);
        is_one.then(|| (at - Self::FIRST) as usize)
    }

    pub(super) fn may_be(self, other: Self) -> bool {
        self.0 & other.0 != 0 || self.is_unknown()
    }

    pub(super) fn is_only(self, other: Self) -> bool {
        self == other
    }

    /// Whether nothing is known: the value comes from numbers only, or from another function.
    pub(super) fn is_unknown(self) -> bool {
        self.0 == 0 || self.0 & Self::UNKNOWN.0 != 0
    }
}

/// The origins of all names of a function.
#[derive(Debug)]
pub(super) struct Origins {
    of: Vec<Origin>,
    in_local: Origin,
}

impl Origins {
    pub(super) fn new(
        module: &Module<'_>,
        function: &Function<'_>,
        body: &Body<'_>,
        graph: &Graph<'_, '_>,
        roles: &[Role],
    ) -> Self {
        let mut origins = Self {
            of: vec![Origin::NONE; body.names.len()],
            in_local: Origin::NONE,
        };
        // The first names are the results and the parameters.
        for at in 0..function.parameters.len() {
            let name = function.results.len() + at;
            origins.of[name] = match roles.get(at) {
                _ if !function.is_entry => Origin::UNKNOWN,
                Some(Role::Value) => Origin::NONE,
                _ => Origin::parameter(at),
            };
        }
        loop {
            let before = (origins.of.clone(), origins.in_local);
            for (block, _) in graph
                .blocks
                .iter()
                .zip(&graph.is_reachable)
                .filter(|(_, is_reachable)| **is_reachable)
            {
                for (instruction, effect) in &block.instructions {
                    let (written, read) = instruction.split(*effect);
                    match effect {
                        Effect::Compute => {
                            let from = read
                                .iter()
                                .fold(Origin::NONE, |all, o| all | origins.value(module, body, o));
                            origins.give(written, from);
                        }
                        Effect::Load(access) => {
                            let Some(address) = read.first() else { continue };
                            let wide = instruction.opcode.ends_with("64");
                            let from = origins.loaded(module, body, *access, address, wide);
                            origins.give(written, from);
                        }
                        Effect::Store(access) => {
                            let [address, value] = instruction.operands.as_slice() else {
                                continue;
                            };
                            let value = origins.value(module, body, value);
                            if access.space == Some(Space::Param) {
                                address.each_name(&mut |name| origins.of[name.0] |= value);
                            } else if origins
                                .address(module, body, *access, address)
                                .may_be(Origin::LOCAL)
                            {
                                origins.in_local |= value;
                            }
                        }
                        Effect::Call => {
                            origins.give(results(instruction), Origin::UNKNOWN);
                            // The function may store its arguments in the caller's local memory.
                            let mut given = Origin::NONE;
                            for argument in arguments(instruction) {
                                argument.each_name(&mut |name| given |= origins.reached_from(name));
                            }
                            if given.has(Origin::LOCAL) || given.has(Origin::UNKNOWN) {
                                origins.in_local |= given;
                            }
                        }
                        _ => {}
                    }
                }
            }
            if before == (origins.of.clone(), origins.in_local) {
                return origins;
            }
        }
    }

    fn give(&mut self, written: &[Operand<'_>], origin: Origin) {
        for operand in written {
            operand.each_name(&mut |name| self.of[name.0] |= origin);
        }
    }

    fn value(&self, module: &Module<'_>, body: &Body<'_>, operand: &Operand<'_>) -> Origin {
        let mut origin = Origin::NONE;
        if let Operand::Symbol(symbol) = operand {
            return symbol_origin(module, symbol);
        }
        if let Operand::List(list) = operand {
            return list
                .iter()
                .fold(origin, |all, o| all | self.value(module, body, o));
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
        match access.space {
            Some(Space::Local) => return Origin::LOCAL,
            Some(Space::Shared) => return Origin::SHARED,
            Some(Space::Param) => return Origin::PARAMETERS,
            Some(Space::Const) => return Origin::MODULE,
            Some(Space::Global) | None => {}
        }
        let Operand::Address(base, _) = address else {
            return Origin::NONE;
        };
        let origin = self.value(module, body, base);
        match access.space {
            // A number computed from an address in another space is not an address of global
            // memory.
            Some(Space::Global) => {
                Origin(origin.0 & !(Origin::LOCAL.0 | Origin::SHARED.0 | Origin::PARAMETERS.0))
            }
            _ => origin,
        }
    }

    fn loaded(
        &self,
        module: &Module<'_>,
        body: &Body<'_>,
        access: Access,
        address: &Operand<'_>,
        wide: bool,
    ) -> Origin {
        if access.space == Some(Space::Param) {
            let mut origin = Origin::NONE;
            address.each_name(&mut |name| {
                origin |= match body.names[name.0].1 {
                    Kind::Variable(Space::Param) => self.of[name.0],
                    _ => Origin::UNKNOWN,
                };
            });
            return origin;
        }
        let from = self.address(module, body, access, address);
        let mut origin = Origin::NONE;
        if from.may_be(Origin::LOCAL) {
            origin |= self.in_local;
        }
        // Tables of the module may hold addresses of other tables. Users' data hold no addresses.
        if wide && from.may_be(Origin::MODULE) && module.variables.iter().any(|v| v.has_addresses) {
            origin |= Origin::MODULE;
        }
        origin
    }
}

fn symbol_origin(module: &Module<'_>, symbol: &str) -> Origin {
    let variable = module.variables.iter().find(|variable| variable.name == symbol);
    match variable.map(|variable| variable.space) {
        Some(Space::Shared) => Origin::SHARED,
        Some(_) => Origin::MODULE,
        None => Origin::UNKNOWN,
    }
}

impl Origins {
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
}

impl Origin {
    /// Whether the sets have a common element.
    pub(super) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}
