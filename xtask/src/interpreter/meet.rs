//! Barriers and exchanges: where threads meet.

use super::compute::{compute, mask, type_of};
use super::memory::JUNK;
use super::parse::{Instruction, Operand, Result};
use super::run::{Block, State};

impl<'m> Block<'m, '_> {
    /// Executes an exchange of a warp or a barrier that all threads have reached. `false` if there
    /// is none.
    pub(super) fn meet(&mut self) -> Result<bool> {
        for first in (0..self.threads.len()).step_by(32) {
            let lanes: Vec<usize> = (first..self.threads.len().min(first + 32))
                .filter(|number| self.threads[*number].state != State::Ended)
                .collect();
            if self.meet_in_warp(&lanes)? {
                return Ok(true);
            }
        }
        let waiting: Vec<usize> = (0..self.threads.len())
            .filter(|number| self.threads[*number].state == State::Waits)
            .collect();
        let mut at = None;
        for number in &waiting {
            let instruction = self.threads[*number].current()?;
            let place: *const Instruction = instruction;
            if *at.get_or_insert(place) != place {
                return Ok(false);
            }
        }
        let instruction = self.threads[waiting[0]].current()?;
        let parts: Vec<&str> = instruction.name.iter().map(String::as_str).collect();
        if !parts[0].starts_with("bar") || parts.contains(&"warp") {
            return Ok(false);
        }
        if parts.contains(&"red") {
            self.vote_of_block(&waiting, instruction, &parts)?;
        }
        self.go_on(&waiting);
        Ok(true)
    }

    fn go_on(&mut self, numbers: &[usize]) {
        for number in numbers {
            let thread = &mut self.threads[*number];
            thread.frame().next += 1;
            thread.state = State::Runs;
        }
    }

    /// `bar.red.op.type d, barrier[, threads], p;`
    fn vote_of_block(
        &mut self,
        numbers: &[usize],
        instruction: &'m Instruction,
        parts: &[&str],
    ) -> Result<()> {
        let mut votes = Vec::new();
        for number in numbers {
            let vote = instruction.operands.last().ok_or("a vote without a predicate")?;
            votes.push(self.value(*number, vote)? & 1 == 1);
        }
        let result = if parts.contains(&"popc") {
            votes.iter().filter(|vote| **vote).count() as u64
        } else if parts.contains(&"and") {
            votes.iter().all(|vote| *vote).into()
        } else {
            votes.iter().any(|vote| *vote).into()
        };
        for number in numbers {
            self.threads[*number].set(&instruction.operands[0], result)?;
        }
        Ok(())
    }

    /// An exchange for which all lanes that have not ended wait.
    fn meet_in_warp(&mut self, lanes: &[usize]) -> Result<bool> {
        let Some(first) = lanes.first() else {
            return Ok(false);
        };
        for lane in lanes {
            if self.threads[*lane].state != State::Waits {
                return Ok(false);
            }
        }
        let instruction = self.threads[*first].current()?;
        for lane in lanes {
            if !std::ptr::eq(self.threads[*lane].current()?, instruction) {
                return Ok(false);
            }
        }
        let parts: Vec<&str> = instruction.name.iter().map(String::as_str).collect();
        let operands = &instruction.operands;
        let (_, bits) = parts.last().and_then(|part| type_of(part)).unwrap_or(('b', 32));
        if parts[0].starts_with("bar") && !parts.contains(&"warp") {
            return Ok(false);
        }
        let mut inputs = Vec::new();
        for lane in lanes {
            let values: Result<Vec<u64>> = operands
                .iter()
                .skip(usize::from(!parts[0].starts_with("bar")))
                .map(|operand| self.value(*lane, operand))
                .collect();
            inputs.push(values?);
        }
        let of = |lane: u32| {
            let found = lanes
                .iter()
                .position(|number| self.threads[*number].lane == lane)?;
            Some(&inputs[found])
        };
        let live: u64 = lanes.iter().map(|number| 1 << self.threads[*number].lane).sum();
        if let Some(masks) = inputs
            .iter()
            .map(|values| values.last())
            .collect::<Option<Vec<_>>>()
            && parts[0] != "activemask"
            && masks.iter().any(|mask| *mask & live != live)
        {
            return Err("an exchange leaves lanes out: it is not modelled".to_owned());
        }
        let mut results: Vec<(u64, bool)> = Vec::new();
        for (lane, values) in lanes.iter().zip(&inputs) {
            let own = self.threads[*lane].lane;
            results.push(match parts[0] {
                "activemask" => (live, true),
                "shfl" => {
                    let (source, holds) = source(parts[2], own, values)?;
                    let value = if holds {
                        of(source).map(|values| values[0])
                    } else {
                        Some(values[0])
                    };
                    // The value of a lane that has ended is junk.
                    (
                        value.unwrap_or(u64::from_le_bytes([JUNK; 8])) & 0xffff_ffff,
                        holds,
                    )
                }
                "vote" => {
                    let votes: Vec<bool> = inputs.iter().map(|values| values[0] & 1 == 1).collect();
                    let all = |wanted: bool| votes.iter().all(|vote| *vote == wanted);
                    let result = match parts[2] {
                        "all" => all(true).into(),
                        "any" => (!all(false)).into(),
                        "uni" => (all(true) || all(false)).into(),
                        _ => lanes
                            .iter()
                            .zip(&votes)
                            .filter(|(_, vote)| **vote)
                            .map(|(number, _)| 1 << self.threads[*number].lane)
                            .sum(),
                    };
                    (result, true)
                }
                "match" => {
                    let equal = |values_of: &Vec<u64>| mask(values_of[0], bits) == mask(values[0], bits);
                    let lanes_equal = lanes
                        .iter()
                        .zip(&inputs)
                        .filter(|(_, other)| equal(other))
                        .map(|(number, _)| 1 << self.threads[*number].lane)
                        .sum();
                    let all = inputs.iter().all(equal);
                    if parts.contains(&"all") {
                        (if all { live } else { 0 }, all)
                    } else {
                        (lanes_equal, true)
                    }
                }
                "redux" => {
                    let name = vec![parts[2].to_owned(), parts[parts.len() - 1].to_owned()];
                    let mut values = inputs.iter().map(|values| values[0]);
                    let first = values.next().expect("a lane is there");
                    let all = values.try_fold(first, |all, value| compute(&name, &[all, value]));
                    (all.ok_or("the reduction is not modelled")?, true)
                }
                _ => (0, true),
            });
        }
        if !parts[0].starts_with("bar") {
            for (lane, (value, holds)) in lanes.iter().zip(results) {
                let thread = &mut self.threads[*lane];
                match &operands[0] {
                    Operand::Pair(to, also) => {
                        thread.frame().registers[*to] = value;
                        thread.frame().registers[*also] = holds.into();
                    }
                    one => thread.set(one, value)?,
                }
            }
        }
        self.go_on(lanes);
        Ok(true)
    }
}

/// The lane from which a shuffle takes its value, and whether it is in range (PTX ISA,
/// `shfl.sync`).
fn source(mode: &str, lane: u32, values: &[u64]) -> Result<(u32, bool)> {
    let (b, c) = (mask(values[1], 5) as u32, values[2] as u32);
    let (clamp, segments) = (c & 31, c >> 8 & 31);
    let most = (lane & segments) | (clamp & !segments);
    let least = lane & segments;
    let (from, holds) = match mode {
        "up" => (
            lane.wrapping_sub(b),
            lane.wrapping_sub(b).cast_signed() >= most.cast_signed(),
        ),
        "down" => (lane + b, lane + b <= most),
        "bfly" => (lane ^ b, lane ^ b <= most),
        "idx" => {
            let from = least | (b & !segments);
            (from, from <= most)
        }
        other => return Err(format!("the shuffle `{other}` is not known")),
    };
    Ok((if holds { from } else { lane }, holds))
}
