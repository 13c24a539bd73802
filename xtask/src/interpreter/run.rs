//! Runs the threads of one block: each for itself, until all that meet at a barrier or an exchange
//! are there.

use std::collections::HashMap;

use super::compute::{compute, mask, type_of};
use super::memory::{Global, JUNK, LOCAL, SHARED, window};
use super::parse::{Function, Instruction, Module, Operand, Result, Variable};

/// The largest number of instructions of one thread.
const LONGEST: usize = 4_000_000;

/// What surrounds a block.
pub(super) struct Launch<'m> {
    pub(super) module: &'m Module,
    pub(super) constants: HashMap<&'m str, u64>,
    pub(super) blocks: [u32; 3],
    pub(super) threads: [u32; 3],
    pub(super) shared_bytes: usize,
}

/// A function that a thread is in.
pub(super) struct Frame<'m> {
    function: &'m Function,
    pub(super) next: usize,
    pub(super) registers: Vec<u64>,
    /// The first byte of its local variables.
    local: u64,
    /// Its parameters and results, and what it passes to others.
    parameters: HashMap<&'m str, Vec<u8>>,
    carry: u64,
}

impl<'m> Frame<'m> {
    fn new(function: &'m Function, arguments: Vec<Vec<u8>>, local: u64) -> Self {
        let variables = function.results.iter().chain(&function.passed);
        let mut parameters: HashMap<&str, Vec<u8>> = variables
            .map(|variable: &Variable| (variable.name.as_str(), vec![JUNK; variable.size]))
            .collect();
        let names = function.parameters.iter().map(|variable| variable.name.as_str());
        parameters.extend(names.zip(arguments));
        Self {
            function,
            next: 0,
            // Junk in what nobody has written.
            registers: vec![u64::from_le_bytes([JUNK; 8]); function.registers],
            local,
            parameters,
            carry: 0,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Runs,
    /// The next instruction is one that several threads execute together.
    Waits,
    Ended,
}

pub(super) struct Thread<'m> {
    place: [u32; 3],
    pub(super) lane: u32,
    frames: Vec<Frame<'m>>,
    local: Vec<u8>,
    pub(super) state: State,
    steps: usize,
}

pub(super) struct Block<'m, 'g> {
    launch: &'m Launch<'m>,
    place: [u32; 3],
    global: &'g mut Global,
    shared: Vec<u8>,
    pub(super) threads: Vec<Thread<'m>>,
}

fn is_together(instruction: &Instruction) -> bool {
    let name = &instruction.name;
    matches!(
        name[0].as_str(),
        "bar" | "barrier" | "shfl" | "vote" | "match" | "redux" | "activemask"
    )
}

fn bytes_of(bits: u32) -> usize {
    (bits as usize).div_ceil(8)
}

fn bits_in(bytes: &[u8]) -> u64 {
    let mut all = [0; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(all)
}

impl<'m> Thread<'m> {
    pub(super) fn frame(&mut self) -> &mut Frame<'m> {
        self.frames
            .last_mut()
            .expect("a thread that runs is in a function")
    }

    pub(super) fn current(&self) -> Result<&'m Instruction> {
        let frame = self.frames.last().expect("a thread that runs is in a function");
        let function: &'m Function = frame.function;
        function
            .body
            .get(frame.next)
            .ok_or_else(|| "a function ends without `ret`".to_owned())
    }

    pub(super) fn set(&mut self, to: &Operand, value: u64) -> Result<()> {
        match to {
            Operand::Register(register) => self.frame().registers[*register] = value,
            Operand::Nobody => {}
            other => return Err(format!("{other:?} takes no result")),
        }
        Ok(())
    }

    fn is_guarded_off(&mut self, instruction: &Instruction) -> bool {
        instruction
            .guard
            .is_some_and(|(register, is_negated)| (self.frame().registers[register] & 1 == 1) == is_negated)
    }
}

impl<'m, 'g> Block<'m, 'g> {
    pub(super) fn new(
        launch: &'m Launch<'m>,
        entry: &'m Function,
        arguments: &[Vec<u8>],
        place: [u32; 3],
        global: &'g mut Global,
    ) -> Self {
        let [x, y, z] = launch.threads;
        let threads = (0..x * y * z).map(|number| Thread {
            place: [number % x, number / x % y, number / x / y],
            lane: number % 32,
            frames: vec![Frame::new(entry, arguments.to_vec(), 0)],
            local: vec![JUNK; entry.local_bytes],
            state: State::Runs,
            steps: 0,
        });
        Self {
            launch,
            place,
            global,
            shared: vec![JUNK; launch.shared_bytes],
            threads: threads.collect(),
        }
    }

    pub(super) fn run(mut self) -> Result<()> {
        loop {
            for number in 0..self.threads.len() {
                while self.threads[number].state == State::Runs {
                    let instruction = self.threads[number].current()?;
                    self.step(number, instruction)
                        .map_err(|error| format!("line {}: {error}", instruction.line))?;
                }
            }
            if self.threads.iter().all(|thread| thread.state == State::Ended) {
                return Ok(());
            }
            if !self.meet()? {
                return Err("threads wait for each other at different places".to_owned());
            }
        }
    }

    pub(super) fn value(&self, number: usize, operand: &Operand) -> Result<u64> {
        let frame = self.threads[number].frames.last().expect("it runs");
        Ok(match operand {
            Operand::Register(register) => frame.registers[*register],
            Operand::Number(value) => *value,
            Operand::Special(name) => self.special(number, name)?,
            Operand::Symbol(name) => match frame.function.locals.get(name) {
                Some(offset) => frame.local + offset,
                None => match self.launch.constants.get(name.as_str()) {
                    Some(address) => *address,
                    None if frame.parameters.contains_key(name.as_str()) => 0,
                    // The memory of a block begins at the start of its window.
                    None if name == "gpu_launch_sized_workgroup_mem" => 0,
                    None => return Err(format!("`{name}` is not known")),
                },
            },
            other => return Err(format!("{other:?} has no value")),
        })
    }

    fn special(&self, number: usize, name: &str) -> Result<u64> {
        let thread = &self.threads[number];
        let axis = |of: [u32; 3]| {
            let at = match name.rsplit('.').next() {
                Some("x") => 0,
                Some("y") => 1,
                _ => 2,
            };
            u64::from(of[at])
        };
        Ok(match name.split('.').next().unwrap_or("") {
            "%tid" => axis(thread.place),
            "%ntid" => axis(self.launch.threads),
            "%ctaid" => axis(self.place),
            "%nctaid" => axis(self.launch.blocks),
            "%laneid" => thread.lane.into(),
            "%lanemask_lt" => (1 << thread.lane) - 1,
            "%lanemask_le" => (2 << thread.lane) - 1,
            "%lanemask_eq" => 1 << thread.lane,
            "%lanemask_gt" => 0xffff_ffff & !((2 << thread.lane) - 1),
            "%lanemask_ge" => 0xffff_ffff & !((1 << thread.lane) - 1),
            "%warpid" => number as u64 / 32,
            _ => return Err(format!("the register `{name}` is not known")),
        })
    }

    /// One instruction of one thread.
    fn step(&mut self, number: usize, instruction: &'m Instruction) -> Result<()> {
        let thread = &mut self.threads[number];
        thread.steps += 1;
        if thread.steps > LONGEST {
            return Err("a thread runs for ever".to_owned());
        }
        if thread.is_guarded_off(instruction) {
            thread.frame().next += 1;
            return Ok(());
        }
        if is_together(instruction) {
            thread.state = State::Waits;
            return Ok(());
        }
        thread.frame().next += 1;
        let operands = &instruction.operands;
        let parts: Vec<&str> = instruction.name.iter().map(String::as_str).collect();
        match parts[0] {
            "bra" => {
                let Some(Operand::Symbol(label)) = operands.first() else {
                    return Err("a branch without a label".to_owned());
                };
                let frame = thread.frame();
                frame.next = *frame
                    .function
                    .labels
                    .get(label)
                    .ok_or_else(|| format!("no label `{label}`"))?;
            }
            "exit" => thread.state = State::Ended,
            "trap" => return Err("a thread traps".to_owned()),
            "ret" => self.end_function(number)?,
            "call" => self.call(number, operands)?,
            "fence" | "membar" | "pmevent" | "nanosleep" | "prefetch" | "prefetchu" => {}
            "ld" | "ldu" => self.load(number, &parts, operands)?,
            "st" => self.store(number, &parts, operands)?,
            "atom" | "red" => self.atomic(number, &parts, operands)?,
            "cvta" => self.convert_address(number, &parts, operands)?,
            "mov"
                if operands
                    .iter()
                    .any(|operand| matches!(operand, Operand::Vector(_))) =>
            {
                self.move_parts(number, &parts, operands)?;
            }
            "add" | "sub" | "addc" | "subc" if parts[0].ends_with('c') || parts.contains(&"cc") => {
                self.carry(number, &parts, operands)?;
            }
            _ => {
                let values: Result<Vec<u64>> = operands[1..]
                    .iter()
                    .map(|operand| self.value(number, operand))
                    .collect();
                let value = compute(&instruction.name, &values?)
                    .ok_or_else(|| format!("`{}` is not modelled", parts.join(".")))?;
                self.threads[number].set(&operands[0], value)?;
            }
        }
        Ok(())
    }

    fn end_function(&mut self, number: usize) -> Result<()> {
        let thread = &mut self.threads[number];
        let ended = thread.frames.pop().expect("it runs");
        let Some(caller) = thread.frames.last_mut() else {
            thread.state = State::Ended;
            return Ok(());
        };
        // The call is the instruction before the next one.
        let call = &caller.function.body[caller.next - 1];
        if let Some(Operand::List(results)) = call.operands.first()
            && call.operands.len() > 1
        {
            for (to, from) in results.iter().zip(&ended.function.results) {
                let Operand::Symbol(to) = to else { continue };
                let value = ended.parameters[from.name.as_str()].clone();
                match caller.parameters.get_mut(to.as_str()) {
                    Some(bytes) => *bytes = value,
                    None => return Err(format!("`{to}` is not declared")),
                }
            }
        }
        Ok(())
    }

    fn call(&mut self, number: usize, operands: &'m [Operand]) -> Result<()> {
        let name = operands.iter().find_map(|operand| match operand {
            Operand::Symbol(name) => Some(name.as_str()),
            _ => None,
        });
        let name = name.ok_or("a call of a pointer is not modelled")?;
        if name == "vprintf" {
            return Ok(());
        }
        let function = self
            .launch
            .module
            .functions
            .get(name)
            .ok_or_else(|| format!("no function `{name}`"))?;
        let passed = match operands.last() {
            Some(Operand::List(arguments)) => arguments.as_slice(),
            _ => &[],
        };
        let thread = &mut self.threads[number];
        let caller = thread.frames.last().expect("it runs");
        let arguments: Result<Vec<Vec<u8>>> = passed
            .iter()
            .map(|argument| match argument {
                Operand::Symbol(name) => Ok(caller.parameters[name.as_str()].clone()),
                other => Err(format!("{other:?} is passed")),
            })
            .collect();
        let local = caller.local + (caller.function.local_bytes as u64).next_multiple_of(64);
        let end = local as usize + function.local_bytes;
        thread.local.resize(thread.local.len().max(end), JUNK);
        // What an earlier call left is no value.
        thread.local[local as usize..end].fill(JUNK);
        thread.frames.push(Frame::new(function, arguments?, local));
        if thread.frames.len() > 200 {
            return Err("calls are nested more than 200 times".to_owned());
        }
        Ok(())
    }

    /// Base, offset and space of an access: `param`, `shared`, `local`, or `""` for a generic
    /// address, and for global memory, where the addresses are the same.
    fn place(
        &self,
        number: usize,
        parts: &[&str],
        operand: &'m Operand,
    ) -> Result<(Option<&'m str>, u64, &'static str)> {
        let Operand::Address(base, offset) = operand else {
            return Err("an access without an address".to_owned());
        };
        let space = ["param", "shared", "local"]
            .into_iter()
            .find(|space| parts.contains(space))
            .unwrap_or("");
        if space == "param" {
            let Operand::Symbol(name) = &**base else {
                return Err("a parameter's address is computed".to_owned());
            };
            return Ok((Some(name), *offset, space));
        }
        let address = self.value(number, base)?.wrapping_add(*offset);
        Ok(match (space, address >> 32 << 32) {
            ("shared" | "local", _) => (None, address, space),
            (_, SHARED) => (None, address - SHARED, "shared"),
            (_, LOCAL) => (None, address - LOCAL, "local"),
            _ => (None, address, ""),
        })
    }

    fn read(&mut self, number: usize, parts: &[&str], operand: &'m Operand, size: usize) -> Result<Vec<u8>> {
        let (name, at, space) = self.place(number, parts, operand)?;
        Ok(match space {
            "param" => {
                let name = name.expect("a parameter has a name");
                let bytes = self.threads[number].frame().parameters.get(name);
                let bytes = bytes.ok_or_else(|| format!("no parameter `{name}`"))?;
                bytes
                    .get(at as usize..at as usize + size)
                    .ok_or_else(|| format!("a load behind `{name}`"))?
                    .to_vec()
            }
            "shared" => window(&mut self.shared, at, size, "shared")?.to_vec(),
            "local" => window(&mut self.threads[number].local, at, size, "local")?.to_vec(),
            _ => self.global.load(at, size)?,
        })
    }

    fn write(&mut self, number: usize, parts: &[&str], operand: &'m Operand, value: &[u8]) -> Result<()> {
        let (name, at, space) = self.place(number, parts, operand)?;
        let size = value.len();
        match space {
            "param" => {
                let name = name.expect("a parameter has a name");
                let bytes = self.threads[number].frame().parameters.get_mut(name);
                let bytes = bytes.ok_or_else(|| format!("no parameter `{name}`"))?;
                window(bytes, at, size, "parameter")?.copy_from_slice(value);
            }
            "shared" => window(&mut self.shared, at, size, "shared")?.copy_from_slice(value),
            "local" => window(&mut self.threads[number].local, at, size, "local")?.copy_from_slice(value),
            _ => self.global.store(at, value)?,
        }
        Ok(())
    }

    fn load(&mut self, number: usize, parts: &[&str], operands: &'m [Operand]) -> Result<()> {
        let (kind, bits) = parts
            .last()
            .and_then(|part| type_of(part))
            .ok_or("a load without a type")?;
        let targets = match &operands[0] {
            Operand::Vector(targets) => targets.as_slice(),
            one => std::slice::from_ref(one),
        };
        let each = bytes_of(bits);
        let bytes = self.read(number, parts, &operands[1], each * targets.len())?;
        for (target, bytes) in targets.iter().zip(bytes.chunks(each)) {
            let value = number_of(kind, bits, bytes);
            self.threads[number].set(target, value)?;
        }
        Ok(())
    }

    fn store(&mut self, number: usize, parts: &[&str], operands: &'m [Operand]) -> Result<()> {
        let (_, bits) = parts
            .last()
            .and_then(|part| type_of(part))
            .ok_or("a store without a type")?;
        let sources = match &operands[1] {
            Operand::Vector(sources) => sources.as_slice(),
            one => std::slice::from_ref(one),
        };
        let mut bytes = Vec::new();
        for source in sources {
            bytes.extend(&self.value(number, source)?.to_le_bytes()[..bytes_of(bits)]);
        }
        self.write(number, parts, &operands[0], &bytes)
    }

    fn atomic(&mut self, number: usize, parts: &[&str], operands: &'m [Operand]) -> Result<()> {
        let ty = *parts.last().ok_or("an atomic without a type")?;
        let (_, bits) = type_of(ty).ok_or("an atomic without a type")?;
        let returns = parts[0] == "atom";
        let operands_read = &operands[usize::from(returns)..];
        let at = &operands_read[0];
        let old = bits_in(&self.read(number, parts, at, bytes_of(bits))?);
        let x = mask(self.value(number, &operands_read[1])?, bits);
        let has = |part: &str| parts.contains(&part);
        let named = |name: &str| vec![name.to_owned(), ty.to_owned()];
        let new = if has("exch") {
            x
        } else if has("cas") {
            let new = mask(self.value(number, &operands_read[2])?, bits);
            if old == x { new } else { old }
        } else if has("inc") {
            if old >= x { 0 } else { old + 1 }
        } else if has("dec") {
            if old == 0 || old > x { x } else { old - 1 }
        } else {
            let operation = ["add", "min", "max", "and", "or", "xor"]
                .into_iter()
                .find(|name| has(name))
                .ok_or_else(|| format!("`{}` is not modelled", parts.join(".")))?;
            compute(&named(operation), &[old, x]).ok_or("the atomic is not modelled")?
        };
        self.write(number, parts, at, &new.to_le_bytes()[..bytes_of(bits)])?;
        if returns {
            self.threads[number].set(&operands[0], old)?;
        }
        Ok(())
    }

    /// `cvta` and `cvta.to`. An address outside of the window is cut off, as on GPUs from sm_90 on.
    fn convert_address(&mut self, number: usize, parts: &[&str], operands: &'m [Operand]) -> Result<()> {
        let address = self.value(number, &operands[1])?;
        let space = if parts.contains(&"shared") {
            Some(SHARED)
        } else if parts.contains(&"local") {
            Some(LOCAL)
        } else {
            None
        };
        let value = match space {
            Some(_) if parts.contains(&"to") => mask(address, 32),
            Some(base) => base | mask(address, 32),
            None => address,
        };
        self.threads[number].set(&operands[0], value)
    }

    /// `mov` between a register and its parts.
    fn move_parts(&mut self, number: usize, parts: &[&str], operands: &'m [Operand]) -> Result<()> {
        let (_, bits) = parts
            .last()
            .and_then(|part| type_of(part))
            .ok_or("a move without a type")?;
        match (&operands[0], &operands[1]) {
            (Operand::Vector(targets), source) => {
                let value = self.value(number, source)?;
                let each = bits / targets.len() as u32;
                for (at, target) in (0..).zip(targets) {
                    self.threads[number].set(target, mask(value >> (at * each), each))?;
                }
            }
            (target, Operand::Vector(sources)) => {
                let each = bits / sources.len() as u32;
                let mut value = 0;
                for (at, source) in (0..).zip(sources) {
                    value |= mask(self.value(number, source)?, each) << (at * each);
                }
                self.threads[number].set(target, value)?;
            }
            _ => return Err("a move without parts".to_owned()),
        }
        Ok(())
    }

    /// Sums and differences that read or write the carry.
    fn carry(&mut self, number: usize, parts: &[&str], operands: &'m [Operand]) -> Result<()> {
        let (_, bits) = parts
            .last()
            .and_then(|part| type_of(part))
            .ok_or("a sum without a type")?;
        let (a, b) = (
            u128::from(mask(self.value(number, &operands[1])?, bits)),
            u128::from(mask(self.value(number, &operands[2])?, bits)),
        );
        let carried = if parts[0].ends_with('c') {
            u128::from(self.threads[number].frame().carry)
        } else {
            0
        };
        let (value, out) = if parts[0].starts_with("add") {
            let sum = a + b + carried;
            (sum, sum >> bits)
        } else {
            // The carry of a difference is its borrow.
            let less = b + carried;
            (a.wrapping_sub(less), u128::from(a < less))
        };
        if parts.contains(&"cc") {
            self.threads[number].frame().carry = out as u64;
        }
        self.threads[number].set(&operands[0], mask(value as u64, bits))
    }
}

/// What a load gives: signed types fill the register with the sign.
fn number_of(kind: char, bits: u32, bytes: &[u8]) -> u64 {
    let value = bits_in(bytes);
    if kind == 's' {
        let shift = 64 - bits;
        ((value << shift).cast_signed() >> shift).cast_unsigned()
    } else {
        value
    }
}
