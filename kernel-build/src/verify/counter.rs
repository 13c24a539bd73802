//! Counters that end a loop for every start value.
//!
//! A counter is a value `v` that a block `h` of the component joins from several paths. From one
//! run of `h` to the next, while the thread stays in the component, `v` changes by one constant
//! `step`, modulo 2ᴺ. A block `t`, which each cycle through `h` contains, compares `v` plus a
//! constant with a value that stays the same, and leaves the component for some results. N is the
//! width of the comparison, and the counter may be wider.
//!
//! Until a comparison leaves the component, the compared value walks through all numbers
//! `start + i · step` modulo 2ᴺ. These are all numbers with the start's last `s` bits, where 2ˢ
//! is the greatest power of two that divides `step`. If one of them leaves the component, the
//! thread runs `h` only finitely often. The start does not matter, and no overflow is assumed away.
//!
//! Each value has a name of its own (`definitions.rs`), and a name is read only where all paths
//! have brought it. So the writer of a name lies on each path to the name's reader. If a value is
//! computed from `v`, then each path from a run of `h` to a reader of the value computes it anew.
//! A path that starts at `h`, and stays in the component, cannot bring a name that is written
//! outside of it, because `v` has replaced the name.

use std::collections::{BTreeSet, HashMap};

use super::body::{Body, Instruction, Name, Operand};
use super::graph::{Blocks, End, Graph};
use super::instruction::{Effect, PATHS, results, uses_carry};

/// The longest chain of instructions that is followed from a value to the counter.
const LONGEST: u32 = 16;
/// The greatest number of trailing zero bits that the analysis counts.
const MOST_ZEROS: u32 = 16;

/// The only writer of a name, and its block. `None` if it has several writers.
type Writer<'b, 'a> = Option<(usize, &'b Instruction<'a>, Effect)>;

/// What is known about the values of a function.
pub(super) struct Counters<'g, 'b, 'a> {
    graph: &'g Graph<'b, 'a>,
    writers: HashMap<Name, Writer<'b, 'a>>,
    /// The number of trailing zero bits that each value has at least.
    zeros: Vec<u32>,
}

/// A relation between the compared value, at the left, and another value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A comparison of integers: `setp.lt.u32`.
#[derive(Clone, Copy, Debug)]
struct Comparison {
    relation: Relation,
    is_signed: bool,
    bits: u32,
}

impl Comparison {
    fn of(opcode: &str) -> Option<Self> {
        let parts: Vec<&str> = opcode.split('.').collect();
        let ["setp", relation, kind] = parts.as_slice() else {
            return None;
        };
        let bits = integer(kind)?;
        let (relation, sign) = match *relation {
            "eq" => (Relation::Equal, "bus"),
            "ne" => (Relation::Unequal, "bus"),
            "lt" => (Relation::Less, "us"),
            "le" => (Relation::LessOrEqual, "us"),
            "gt" => (Relation::Greater, "us"),
            "ge" => (Relation::GreaterOrEqual, "us"),
            _ => return None,
        };
        kind.starts_with(|c| sign.contains(c)).then_some(Self {
            relation,
            is_signed: kind.starts_with('s'),
            bits,
        })
    }

    /// The comparison that holds if this one does not.
    fn negated(mut self) -> Self {
        self.relation = match self.relation {
            Relation::Equal => Relation::Unequal,
            Relation::Unequal => Relation::Equal,
            Relation::Less => Relation::GreaterOrEqual,
            Relation::LessOrEqual => Relation::Greater,
            Relation::Greater => Relation::LessOrEqual,
            Relation::GreaterOrEqual => Relation::Less,
        };
        self
    }

    /// The same comparison with its operands exchanged.
    fn exchanged(mut self) -> Self {
        self.relation = match self.relation {
            Relation::Less => Relation::Greater,
            Relation::LessOrEqual => Relation::GreaterOrEqual,
            Relation::Greater => Relation::Less,
            Relation::GreaterOrEqual => Relation::LessOrEqual,
            same => same,
        };
        self
    }

    /// The least and the greatest number.
    fn range(self) -> (i128, i128) {
        match self.is_signed {
            true => (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1),
            false => (0, (1 << self.bits) - 1),
        }
    }

    /// A number of the text as this comparison reads it.
    fn read(self, number: i128) -> Option<i128> {
        let size = 1 << self.bits;
        // Every number that the text may give for this width.
        if !(-size / 2..size).contains(&number) {
            return None;
        }
        let (_, greatest) = self.range();
        let wrapped = number.rem_euclid(size);
        Some(if wrapped > greatest {
            wrapped - size
        } else {
            wrapped
        })
    }
}

/// The width in bits of a type of integers: `s32`.
fn integer(kind: &str) -> Option<u32> {
    match kind {
        "b16" | "u16" | "s16" => Some(16),
        "b32" | "u32" | "s32" => Some(32),
        "b64" | "u64" | "s64" => Some(64),
        _ => None,
    }
}

/// The operation and the width of an instruction that moves or computes integers, without
/// saturation and without the carry flag: `add.s32`.
fn plain(opcode: &str) -> Option<(&str, u32)> {
    let (operation, kind) = opcode.rsplit_once('.')?;
    Some((operation, integer(kind)?))
}

/// The width of the result of a conversion between integers: `cvt.u32`.
fn converted(operation: &str) -> Option<u32> {
    operation.strip_prefix("cvt.").and_then(integer)
}

/// A decimal number, as LLVM writes it.
fn number(operand: &Operand<'_>) -> Option<i128> {
    let Operand::Number(text) = operand else {
        return None;
    };
    let digits = text.strip_prefix('-').unwrap_or(text);
    // PTX reads `010` as 8.
    let is_decimal = digits == "0" || !digits.starts_with('0');
    let is_plain = is_decimal && digits.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

impl<'g, 'b, 'a> Counters<'g, 'b, 'a> {
    pub(super) fn new(body: &Body<'a>, graph: &'g Graph<'b, 'a>) -> Self {
        let mut writers: HashMap<Name, Writer<'b, 'a>> = HashMap::new();
        for (number, block) in graph.blocks.iter().enumerate() {
            for (instruction, effect) in &block.instructions {
                let mut writes = |name: Name| {
                    let is_first = !writers.contains_key(&name);
                    writers.insert(name, is_first.then_some((number, *instruction, *effect)));
                };
                for operand in instruction.split(*effect).0 {
                    operand.each_name(&mut writes);
                }
                if *effect == Effect::Call {
                    for operand in results(instruction) {
                        operand.each_name(&mut writes);
                    }
                }
            }
        }
        let mut counters = Self {
            graph,
            writers,
            zeros: vec![MOST_ZEROS; body.names.len()],
        };
        counters.find_zeros();
        counters
    }

    /// Finds a block of the component that a thread runs only finitely often, unless it leaves the
    /// component.
    pub(super) fn bounded(&self, component: &Blocks) -> Option<usize> {
        for tested in component {
            let conditions = self.conditions(*tested, component);
            if conditions.is_empty() {
                continue;
            }
            let mut without = component.clone();
            without.remove(tested);
            let cycles = self.graph.cyclic_components(&without);
            let is_tested_in_each_cycle = |start: &&usize| !cycles.iter().any(|cycle| cycle.contains(start));
            for start in component.iter().filter(is_tested_in_each_cycle) {
                let joined = self.graph.blocks[*start].instructions.iter();
                let joined = joined.take_while(|(instruction, _)| instruction.opcode == PATHS);
                for (instruction, _) in joined {
                    let ends = |(comparison, left, right): &Condition<'b, 'a>| {
                        self.ends(instruction, component, *comparison, left, right)
                            || self.ends(instruction, component, comparison.exchanged(), right, left)
                    };
                    if conditions.iter().any(ends) {
                        return Some(*start);
                    }
                }
            }
        }
        None
    }

    /// The comparisons that must hold for a thread to stay in the component, when it leaves the
    /// block.
    fn conditions(&self, block: usize, component: &Blocks) -> Vec<Condition<'b, 'a>> {
        let mut conditions = Vec::new();
        if let End::Choice { by, at, targets } = &self.graph.blocks[block].end
            && let [taken, after] = targets.as_slice()
            && component.contains(taken) != component.contains(after)
        {
            let holds = component.contains(taken) != at.is_negated;
            self.implied(*by, holds, component, LONGEST, &mut conditions);
        }
        conditions
    }

    /// Adds the comparisons that follow if a predicate has this value.
    fn implied(
        &self,
        predicate: Name,
        holds: bool,
        component: &Blocks,
        steps: u32,
        conditions: &mut Vec<Condition<'b, 'a>>,
    ) {
        let Some(Some((block, instruction, _))) = self.writers.get(&predicate) else {
            return;
        };
        // The operands do not say which of them are negated.
        let is_negated = instruction.text.trim_start_matches("@!").contains('!');
        if !component.contains(block) || is_negated || steps == 0 {
            return;
        }
        match (instruction.opcode, instruction.operands.as_slice(), holds) {
            ("and.pred", [Operand::Name(_), values @ ..], true)
            | ("or.pred", [Operand::Name(_), values @ ..], false) => {
                for value in values {
                    value.each_name(&mut |name| self.implied(name, holds, component, steps - 1, conditions));
                }
            }
            ("not.pred", [Operand::Name(_), Operand::Name(value)], _) => {
                self.implied(*value, !holds, component, steps - 1, conditions);
            }
            (opcode, [Operand::Name(_), left, right], _) => {
                if let Some(comparison) = Comparison::of(opcode) {
                    let comparison = if holds { comparison } else { comparison.negated() };
                    conditions.push((comparison, left, right));
                }
            }
            _ => {}
        }
    }

    /// Whether the counter that `joined` writes ends a loop that runs while `left` has this
    /// relation to `right`.
    fn ends(
        &self,
        joined: &Instruction<'a>,
        component: &Blocks,
        comparison: Comparison,
        left: &Operand<'a>,
        right: &Operand<'a>,
    ) -> bool {
        let [Operand::Name(counter), paths @ ..] = joined.operands.as_slice() else {
            return false;
        };
        let Operand::Name(left) = left else { return false };
        let bits = comparison.bits;
        let mut steps = BTreeSet::new();
        for path in paths {
            let Operand::Name(path) = path else { return false };
            match self.writers.get(path) {
                // The value at the function's start.
                None => {}
                Some(Some((block, ..))) if !component.contains(block) => {}
                Some(_) => match self.distances(*counter, *path, bits, component, LONGEST) {
                    Some(distances) => steps.extend(distances),
                    None => return false,
                },
            }
        }
        let offsets = self.distances(*counter, *left, bits, component, LONGEST);
        let is_one_offset = offsets.is_some_and(|offsets| offsets.len() == 1);
        let [step] = steps.into_iter().collect::<Vec<i128>>()[..] else {
            return false;
        };
        let is_constant = is_constant(self, right, component, LONGEST);
        step != 0
            && is_one_offset
            && is_constant
            && self.leaves(comparison, step.trailing_zeros(), *left, right)
    }

    /// Whether each set of all numbers with equal last `s` bits, in which `left` can lie, has a
    /// number for which the comparison does not hold.
    fn leaves(&self, comparison: Comparison, s: u32, left: Name, right: &Operand<'a>) -> bool {
        let (least, greatest) = comparison.range();
        let size: i128 = 1 << s;
        let is_multiple = self.zeros[left.0] >= s;
        let is_right_multiple = self.zeros_of(right) >= s;
        let value = number(right).and_then(|number| comparison.read(number));
        let at_most = value.or_else(|| self.at_most(right, comparison.bits));
        match comparison.relation {
            // The set has two numbers or more.
            Relation::Equal => true,
            // The set must have the other value.
            Relation::Unequal => s == 0 || is_multiple && is_right_multiple,
            // The set's greatest number is at least `greatest - size + 1`, which is a multiple.
            Relation::Less => {
                s == 0 || is_right_multiple || at_most.is_some_and(|most| most <= greatest - size + 1)
            }
            Relation::LessOrEqual => at_most.is_some_and(|most| most <= greatest - size),
            // The set's least number is at most `least + size - 1`, and `least` for multiples.
            Relation::Greater => {
                s == 0 || is_multiple || value.is_some_and(|value| value >= least + size - 1)
            }
            Relation::GreaterOrEqual => {
                let first = if is_multiple { least } else { least + size - 1 };
                value.is_some_and(|value| value > first)
            }
        }
    }

    /// The distances that a value can have from the counter, modulo 2ᴺ. `None` if it is not the
    /// counter plus a constant, on all paths of the component.
    fn distances(
        &self,
        counter: Name,
        value: Name,
        bits: u32,
        component: &Blocks,
        steps: u32,
    ) -> Option<BTreeSet<i128>> {
        if value == counter {
            return Some(BTreeSet::from([0]));
        }
        let (block, instruction, _) = (*self.writers.get(&value)?)?;
        if !component.contains(&block) {
            return None;
        }
        let follow = |from: &Operand<'a>| match from {
            Operand::Name(from) => self.distances(counter, *from, bits, component, steps.checked_sub(1)?),
            _ => None,
        };
        let [Operand::Name(_), operands @ ..] = instruction.operands.as_slice() else {
            return None;
        };
        if instruction.opcode == PATHS {
            let mut all = BTreeSet::new();
            for operand in operands {
                all.extend(follow(operand)?);
            }
            return Some(all);
        }
        let (operation, width) = plain(instruction.opcode)?;
        // The last bits of a sum, and of a conversion, come from the last bits of the operands.
        let is_wide = |width: u32| width >= bits;
        let (from, by) = match (operation, operands) {
            _ if !is_wide(width) => return None,
            ("mov", [from]) => (from, 0),
            (conversion, [from]) if converted(conversion).is_some_and(is_wide) => (from, 0),
            ("add", [from, by] | [by, from]) if number(by).is_some() => (from, number(by)?),
            ("sub", [from, by]) => (from, -number(by)?),
            _ => return None,
        };
        let size = 1_i128 << bits;
        let distances = follow(from)?;
        Some(
            distances
                .into_iter()
                .map(|known| (known + by).rem_euclid(size))
                .collect(),
        )
    }

    /// The greatest unsigned value of an operand, if it is known from an extension with zeros.
    fn at_most(&self, operand: &Operand<'a>, bits: u32) -> Option<i128> {
        let Operand::Name(name) = operand else { return None };
        let (_, instruction, _) = (*self.writers.get(name)?)?;
        match (instruction.opcode, bits) {
            ("cvt.u64.u32", 64) => Some((1 << 32) - 1),
            ("cvt.u64.u16", 64) | ("cvt.u32.u16", 32) => Some((1 << 16) - 1),
            _ => None,
        }
    }

    fn zeros_of(&self, operand: &Operand<'_>) -> u32 {
        match operand {
            Operand::Name(name) => self.zeros[name.0],
            operand => number(operand).map_or(0, |number| number.trailing_zeros().min(MOST_ZEROS)),
        }
    }

    /// Finds the trailing zeros of all values. At first each value counts as 0; the analysis takes
    /// this back where it does not follow from the other values.
    fn find_zeros(&mut self) {
        for name in 0..self.zeros.len() {
            if !matches!(self.writers.get(&Name(name)), Some(Some(_))) {
                self.zeros[name] = 0;
            }
        }
        let mut changed = true;
        while std::mem::replace(&mut changed, false) {
            for name in 0..self.zeros.len() {
                let zeros = match self.writers.get(&Name(name)) {
                    Some(Some((_, instruction, _))) => self.zeros_written(instruction),
                    _ => 0,
                };
                if zeros < self.zeros[name] {
                    (self.zeros[name], changed) = (zeros, true);
                }
            }
        }
    }

    fn zeros_written(&self, instruction: &Instruction<'_>) -> u32 {
        let [Operand::Name(_), operands @ ..] = instruction.operands.as_slice() else {
            return 0;
        };
        let zeros: Vec<u32> = operands.iter().map(|operand| self.zeros_of(operand)).collect();
        let least = zeros.iter().copied().min().unwrap_or(0);
        if instruction.opcode == PATHS {
            return least;
        }
        let zeros = match (
            plain(instruction.opcode).map(|(operation, _)| operation),
            zeros.as_slice(),
        ) {
            (Some("mov" | "add" | "sub" | "or" | "xor"), _) => least,
            (Some(conversion), [one]) if converted(conversion).is_some() => *one,
            (Some("and"), [one, other]) => *one.max(other),
            (Some("mul.lo" | "mul.wide"), [one, other]) => one + other,
            (Some("mad.lo"), [one, other, third]) => (one + other).min(*third),
            (Some("shl"), [one, _]) => match number(&operands[1]) {
                Some(by) => one + u32::try_from(by.min(i128::from(MOST_ZEROS))).unwrap_or(0),
                None => *one,
            },
            _ => 0,
        };
        zeros.min(MOST_ZEROS)
    }
}

/// A comparison and its operands.
type Condition<'b, 'a> = (Comparison, &'b Operand<'a>, &'b Operand<'a>);

/// Whether a value stays the same while the thread stays in the component: it is written outside of
/// it, or computed from constant values.
fn is_constant(counters: &Counters<'_, '_, '_>, value: &Operand<'_>, component: &Blocks, steps: u32) -> bool {
    match value {
        Operand::Number(_) => true,
        Operand::Name(name) => match counters.writers.get(name) {
            Some(Some((block, ..))) if !component.contains(block) => true,
            Some(Some((_, instruction, Effect::Compute))) => {
                steps > 0
                    && instruction.opcode != PATHS
                    && !uses_carry(instruction.opcode).0
                    && matches!(instruction.operands.first(), Some(Operand::Name(_)))
                    && instruction.operands[1..]
                        .iter()
                        .all(|operand| is_constant(counters, operand, component, steps - 1))
            }
            _ => false,
        },
        _ => false,
    }
}
