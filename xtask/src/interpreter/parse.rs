//! Reads PTX, as `kernel-build` writes it, into [`Module`]. This shares no code with the verifier.

use std::collections::HashMap;
use std::iter::Peekable;
use std::vec::IntoIter;

pub(super) type Result<T> = std::result::Result<T, String>;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operand {
    Register(usize),
    /// An integer, or the bits of a float.
    Number(u64),
    /// `%tid.x` and the like.
    Special(String),
    /// A variable, a function or a label.
    Symbol(String),
    /// The address of an access: a base and an offset in bytes.
    Address(Box<Operand>, u64),
    /// Several registers in braces.
    Vector(Vec<Operand>),
    /// Results or arguments of a call.
    List(Vec<Operand>),
    /// Two results, `d|p`.
    Pair(usize, usize),
    /// `_`: a result that nobody reads.
    Nobody,
}

#[derive(Debug)]
pub(super) struct Instruction {
    pub(super) line: u32,
    /// The register of the predicate, and whether it is negated.
    pub(super) guard: Option<(usize, bool)>,
    /// The name, split at its dots.
    pub(super) name: Vec<String>,
    pub(super) operands: Vec<Operand>,
}

/// A variable of `.param` or `.local` memory.
#[derive(Clone, Debug)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) size: usize,
    pub(super) align: usize,
}

#[derive(Debug, Default)]
pub(super) struct Function {
    pub(super) results: Vec<Variable>,
    pub(super) parameters: Vec<Variable>,
    pub(super) body: Vec<Instruction>,
    pub(super) registers: usize,
    /// `.local` variables with their offsets, and the bytes of all.
    pub(super) locals: HashMap<String, u64>,
    pub(super) local_bytes: usize,
    /// `.param` variables that the body declares for calls.
    pub(super) passed: Vec<Variable>,
    /// For each label the index of the next instruction.
    pub(super) labels: HashMap<String, usize>,
}

/// A `.global` constant. Places hold the addresses of other constants.
#[derive(Debug)]
pub(super) struct Constant {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
    pub(super) addresses: Vec<(usize, String, u64)>,
}

#[derive(Debug, Default)]
pub(super) struct Module {
    pub(super) functions: HashMap<String, Function>,
    pub(super) constants: Vec<Constant>,
}

struct Tokens<'a> {
    rest: Peekable<IntoIter<(u32, &'a str)>>,
    line: u32,
}

/// The words and signs of a text, with their lines.
fn tokens(text: &str) -> Vec<(u32, &str)> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let code = line.split("//").next().unwrap_or("");
        if code
            .split_whitespace()
            .next()
            .is_some_and(|word| [".loc", ".file"].contains(&word))
        {
            continue;
        }
        let is_word = |c: char| c.is_ascii_alphanumeric() || "_$%.".contains(c);
        let mut rest = code.trim_start();
        while let Some(first) = rest.chars().next() {
            let end = if is_word(first) {
                rest.find(|c| !is_word(c)).unwrap_or(rest.len())
            } else if first == '"' {
                rest[1..].find('"').map_or(rest.len(), |at| at + 2)
            } else {
                first.len_utf8()
            };
            found.push((number, &rest[..end]));
            rest = rest[end..].trim_start();
        }
    }
    found
}

fn size_of(ty: &str) -> Result<usize> {
    Ok(match ty {
        ".pred" | ".b8" | ".u8" | ".s8" => 1,
        ".b16" | ".u16" | ".s16" | ".f16" => 2,
        ".b32" | ".u32" | ".s32" | ".f32" => 4,
        ".b64" | ".u64" | ".s64" | ".f64" => 8,
        _ => return Err(format!("the type `{ty}` is not known")),
    })
}

/// An integer, or the bits of a float: `7`, `0x1f`, `0f3F800000`, `0d3FF0000000000000`.
fn number(word: &str) -> Option<u64> {
    let word = word.trim_end_matches('U');
    match word.get(..2) {
        Some("0x" | "0f" | "0d" | "0F" | "0D") => u64::from_str_radix(&word[2..], 16).ok(),
        _ => word.parse().ok(),
    }
}

/// The registers that are known at a place: those of the blocks around it.
#[derive(Default)]
struct Scopes(Vec<HashMap<String, usize>>);

impl Scopes {
    fn find(&self, name: &str) -> Option<usize> {
        self.0.iter().rev().find_map(|scope| scope.get(name).copied())
    }
}

impl<'a> Tokens<'a> {
    fn peek(&mut self) -> &'a str {
        self.rest.peek().map_or("", |(_, word)| word)
    }

    fn next(&mut self) -> &'a str {
        let (line, word) = self.rest.next().unwrap_or((self.line, ""));
        self.line = line;
        word
    }

    fn expect(&mut self, wanted: &str) -> Result<()> {
        let found = self.next();
        if found == wanted {
            return Ok(());
        }
        Err(format!("line {}: `{found}` instead of `{wanted}`", self.line))
    }

    fn skip_past(&mut self, end: &str) {
        while !["", end].contains(&self.next()) {}
    }

    fn number(&mut self) -> Result<u64> {
        let is_negative = self.peek() == "-";
        if is_negative {
            self.next();
        }
        let word = self.next();
        let value = number(word).ok_or_else(|| format!("line {}: `{word}` is no number", self.line))?;
        Ok(if is_negative { value.wrapping_neg() } else { value })
    }

    /// `[.align n] [.ptr …] .type name [[n]]`, behind the state space.
    fn variable(&mut self) -> Result<Variable> {
        let (mut align, mut size) = (None, None);
        loop {
            match self.next() {
                ".align" => align = Some(self.number()? as usize),
                ".ptr" | ".global" | ".const" | ".shared" | ".local" => {}
                ty if ty.starts_with('.') => size = Some(size_of(ty)?),
                name => {
                    let element = size.ok_or_else(|| format!("line {}: `{name}` has no type", self.line))?;
                    let mut size = element;
                    if self.peek() == "[" {
                        self.next();
                        size *= if self.peek() == "]" {
                            0
                        } else {
                            self.number()? as usize
                        };
                        self.expect("]")?;
                    }
                    return Ok(Variable {
                        name: name.to_owned(),
                        size,
                        align: align.unwrap_or(element),
                    });
                }
            }
        }
    }

    /// `(.param …, .param …)`.
    fn parameters(&mut self) -> Result<Vec<Variable>> {
        let mut found = Vec::new();
        self.expect("(")?;
        while self.peek() != ")" {
            self.expect(".param")?;
            // The `.ptr .align n` of a pointer is about what it points to.
            found.push(self.variable()?);
            if self.peek() == "," {
                self.next();
            }
        }
        self.next();
        Ok(found)
    }

    /// `.align n .type name[n] = { … };`, behind `.global`.
    fn constant(&mut self) -> Result<Constant> {
        let mut element = 1;
        let name = loop {
            match self.next() {
                // Each constant lies at an address of its own, which suits any alignment.
                ".align" => _ = self.number()?,
                ty if ty.starts_with('.') => element = size_of(ty)?,
                name => break name,
            }
        };
        let mut count = 1;
        if self.peek() == "[" {
            self.next();
            count = self.number()? as usize;
            self.expect("]")?;
        }
        let mut constant = Constant {
            name: name.to_owned(),
            bytes: Vec::new(),
            addresses: Vec::new(),
        };
        if self.peek() == "=" {
            self.next();
            let is_list = self.peek() == "{";
            if is_list {
                self.next();
            }
            while !["}", ";", ""].contains(&self.peek()) {
                self.element(element, &mut constant)?;
                if self.peek() == "," {
                    self.next();
                }
            }
            if is_list {
                self.expect("}")?;
            }
        }
        self.expect(";")?;
        constant.bytes.resize(count * element, 0);
        Ok(constant)
    }

    fn element(&mut self, size: usize, constant: &mut Constant) -> Result<()> {
        let word = self.peek();
        let value = if word == "-" || word.starts_with(|c: char| c.is_ascii_digit()) {
            self.number()?
        } else if size == 8 {
            // `name`, `generic(name)`, and either with `+n`.
            self.next();
            let symbol = if word == "generic" {
                self.expect("(")?;
                let symbol = self.next();
                self.expect(")")?;
                symbol
            } else {
                word
            };
            let mut offset = 0;
            if self.peek() == "+" {
                self.next();
                offset = self.number()?;
            }
            constant
                .addresses
                .push((constant.bytes.len(), symbol.to_owned(), offset));
            0
        } else {
            return Err(format!(
                "line {}: the initialiser `{word}` is not known",
                self.line
            ));
        };
        constant.bytes.extend(&value.to_le_bytes()[..size]);
        Ok(())
    }

    fn function(&mut self, module: &mut Module) -> Result<()> {
        let mut function = Function::default();
        if self.peek() == "(" {
            function.results = self.parameters()?;
        }
        let name = self.next();
        if self.peek() == "(" {
            function.parameters = self.parameters()?;
        }
        // `.noreturn`, `.maxntid 64, 1, 1` and the like.
        while !["{", ";", ""].contains(&self.peek()) {
            self.next();
        }
        if self.next() == ";" {
            return Ok(());
        }
        self.body(&mut function)?;
        module.functions.insert(name.to_owned(), function);
        Ok(())
    }

    fn body(&mut self, function: &mut Function) -> Result<()> {
        let mut scopes = Scopes(vec![HashMap::new()]);
        while !scopes.0.is_empty() {
            match self.peek() {
                "" => return Err("the text ends inside a function".to_owned()),
                "{" => {
                    self.next();
                    scopes.0.push(HashMap::new());
                }
                "}" => {
                    self.next();
                    scopes.0.pop();
                }
                ".pragma" => self.skip_past(";"),
                ".reg" => self.registers(function, &mut scopes)?,
                ".param" => {
                    self.next();
                    let variable = self.variable()?;
                    function.passed.push(variable);
                    self.expect(";")?;
                }
                ".local" => {
                    self.next();
                    let variable = self.variable()?;
                    let offset = function.local_bytes.next_multiple_of(variable.align);
                    function.locals.insert(variable.name, offset as u64);
                    function.local_bytes = offset + variable.size;
                    self.expect(";")?;
                }
                _ => self.statement(function, &scopes)?,
            }
        }
        Ok(())
    }

    fn registers(&mut self, function: &mut Function, scopes: &mut Scopes) -> Result<()> {
        self.next();
        size_of(self.next())?;
        loop {
            let name = self.next();
            let scope = scopes.0.last_mut().expect("a body has a scope");
            if self.peek() == "<" {
                self.next();
                for n in 0..self.number()? {
                    scope.insert(format!("{name}{n}"), function.registers);
                    function.registers += 1;
                }
                self.expect(">")?;
            } else {
                scope.insert(name.to_owned(), function.registers);
                function.registers += 1;
            }
            match self.next() {
                "," => {}
                ";" => return Ok(()),
                other => return Err(format!("line {}: `{other}` behind a register", self.line)),
            }
        }
    }

    /// A label, or an instruction with its guard.
    fn statement(&mut self, function: &mut Function, scopes: &Scopes) -> Result<()> {
        let mut guard = None;
        if self.peek() == "@" {
            self.next();
            let is_negated = self.peek() == "!";
            if is_negated {
                self.next();
            }
            let name = self.next();
            let register = scopes
                .find(name)
                .ok_or_else(|| format!("line {}: `{name}` is not declared", self.line))?;
            guard = Some((register, is_negated));
        }
        let name = self.next();
        let line = self.line;
        if self.peek() == ":" {
            self.next();
            function.labels.insert(name.to_owned(), function.body.len());
            return Ok(());
        }
        let mut operands = Vec::new();
        while self.peek() != ";" {
            operands.push(self.operand(scopes)?);
            match self.peek() {
                "," => _ = self.next(),
                ";" => {}
                // A call: the results stand before the function, with a comma.
                other => return Err(format!("line {}: `{other}` behind an operand", self.line)),
            }
        }
        self.next();
        function.body.push(Instruction {
            line,
            guard,
            name: name.split('.').map(str::to_owned).collect(),
            operands,
        });
        Ok(())
    }

    fn operand(&mut self, scopes: &Scopes) -> Result<Operand> {
        let list = |tokens: &mut Self, end: &str| -> Result<Vec<Operand>> {
            let mut found = Vec::new();
            while tokens.peek() != end {
                found.push(tokens.operand(scopes)?);
                if tokens.peek() == "," {
                    tokens.next();
                }
            }
            tokens.next();
            Ok(found)
        };
        let word = self.peek();
        Ok(match word {
            "{" => {
                self.next();
                Operand::Vector(list(self, "}")?)
            }
            "(" => {
                self.next();
                Operand::List(list(self, ")")?)
            }
            "[" => {
                self.next();
                let base = self.operand(scopes)?;
                let mut offset = 0;
                if self.peek() == "+" {
                    self.next();
                    offset = self.number()?;
                }
                self.expect("]")?;
                Operand::Address(Box::new(base), offset)
            }
            "_" => {
                self.next();
                Operand::Nobody
            }
            "-" => Operand::Number(self.number()?),
            _ if word.starts_with(|c: char| c.is_ascii_digit()) => Operand::Number(self.number()?),
            _ => {
                self.next();
                match scopes.find(word) {
                    Some(register) if self.peek() == "|" => {
                        self.next();
                        let second = self.next();
                        let second = scopes
                            .find(second)
                            .ok_or_else(|| format!("line {}: `{second}` is not declared", self.line))?;
                        Operand::Pair(register, second)
                    }
                    Some(register) => Operand::Register(register),
                    None if word.starts_with('%') => Operand::Special(word.to_owned()),
                    None => Operand::Symbol(word.to_owned()),
                }
            }
        })
    }
}

pub(super) fn module(text: &str) -> Result<Module> {
    let mut tokens = Tokens {
        rest: tokens(text).into_iter().peekable(),
        line: 0,
    };
    let mut module = Module::default();
    loop {
        match tokens.next() {
            "" => return Ok(module),
            ".version" | ".target" | ".address_size" => _ = tokens.next(),
            // `.target sm_90, debug`.
            "," => _ = tokens.next(),
            ".visible" | ".weak" | ".hidden" => {}
            ".extern" => match tokens.next() {
                // The memory of a block, whose size the launch gives.
                ".shared" => tokens.skip_past(";"),
                ".func" => tokens.skip_past(";"),
                other => return Err(format!("line {}: `.extern {other}` is not known", tokens.line)),
            },
            ".global" | ".const" => {
                let constant = tokens.constant()?;
                module.constants.push(constant);
            }
            ".func" | ".entry" => tokens.function(&mut module)?,
            ".section" => tokens.skip_past("}"),
            other => return Err(format!("line {}: `{other}` is not known", tokens.line)),
        }
    }
}
