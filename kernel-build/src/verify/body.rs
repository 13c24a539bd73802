//! Parses the body of a function into labels and instructions, and resolves each name in its scope.

use std::collections::HashMap;

use super::directives::{self, name, number};
use super::error::{Refusal, text};
use super::lex::Cursor;
use super::variable::{Space, Variable, is_literal, type_size, variable};

/// Why a jump table is refused. `kernel-build` asks LLVM for none (`compilation.rs`).
pub(super) const JUMP_TABLE: &str = "is a jump table: if its index lies outside the table, the thread \
    continues anywhere, and the verifier does not know the index";

/// A register or a variable of a function: an index into [`Body::names`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Name(pub(super) usize);

/// The kind of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Register,
    Variable(Space),
}

/// The body of a function.
#[derive(Debug, Default)]
pub(super) struct Body<'a> {
    pub(super) statements: Vec<Statement<'a>>,
    pub(super) names: Vec<(String, Kind)>,
    /// Names for the registers' values at the function's start, before the first write.
    pub(super) at_start: Vec<Name>,
    /// The declared type of each register: `.b32`.
    pub(super) types: HashMap<Name, &'a str>,
    /// The size of each variable in bytes, if the text gives it.
    pub(super) sizes: HashMap<Name, u64>,
    /// The alignment of each variable in bytes.
    pub(super) aligns: HashMap<Name, u64>,
    /// The size of the static shared memory that the body declares, in bytes.
    pub(super) shared_bytes: u64,
}

impl<'a> Body<'a> {
    pub(super) fn instructions(&self) -> impl Iterator<Item = &Instruction<'a>> {
        self.statements.iter().filter_map(|statement| match statement {
            Statement::Instruction(instruction) => Some(instruction),
            Statement::Label(..) => None,
        })
    }

    pub(super) fn labels(&self) -> impl Iterator<Item = &'a str> {
        self.statements.iter().filter_map(|statement| match statement {
            Statement::Label(name, _) => Some(*name),
            Statement::Instruction(_) => None,
        })
    }
}

/// A statement of a body.
#[derive(Clone, Debug)]
pub(super) enum Statement<'a> {
    Label(&'a str, u32),
    Instruction(Instruction<'a>),
}

/// An instruction.
#[derive(Clone, Debug)]
pub(super) struct Instruction<'a> {
    pub(super) opcode: &'a str,
    /// The predicate of `@%p` or `@!%p`.
    pub(super) guard: Option<Name>,
    /// Whether the predicate is negated: `@!%p`.
    pub(super) is_negated: bool,
    pub(super) operands: Vec<Operand<'a>>,
    pub(super) text: String,
    pub(super) line: u32,
    /// The number of the source file and the line, from `.loc`.
    pub(super) location: Option<(u64, u32)>,
}

/// An operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Operand<'a> {
    Name(Name),
    /// A special register: `%tid.x`.
    Special(&'a str),
    /// The name of a module's variable, of a label, or of a function.
    Symbol(&'a str),
    /// A number, as the text writes it.
    Number(String),
    /// `[base+offset]`
    Address(Box<Operand<'a>>, i64),
    /// `{a, b}`, `(a, b)` or `p|q`
    List(Vec<Operand<'a>>),
    /// `_`
    Sink,
}

impl Operand<'_> {
    /// Calls `f` for each register or variable in the operand.
    pub(super) fn each_name(&self, f: &mut impl FnMut(Name)) {
        match self {
            Self::Name(name) => f(*name),
            Self::Address(base, _) => base.each_name(f),
            Self::List(list) => list.iter().for_each(|operand| operand.each_name(f)),
            Self::Special(_) | Self::Symbol(_) | Self::Number(_) | Self::Sink => {}
        }
    }
}

#[derive(Default)]
struct Scope<'a> {
    names: HashMap<String, Name>,
    /// Ranges of registers, `.b32 %r<6>`: prefix, count and type.
    ranges: Vec<(&'a str, u64, &'a str)>,
}

struct Parser<'a> {
    body: Body<'a>,
    scopes: Vec<Scope<'a>>,
    location: Option<(u64, u32)>,
}

/// Parses the body that starts at `{`. The names in `outer` are known in it.
pub(super) fn parse_body<'a, 'v>(
    cursor: &mut Cursor<'a, '_>,
    outer: impl Iterator<Item = &'v Variable<'a>>,
) -> Result<Body<'a>, Refusal>
where
    'a: 'v,
{
    let mut parser = Parser {
        body: Body::default(),
        scopes: vec![Scope::default()],
        location: None,
    };
    for parameter in outer {
        parser.declare(parameter.name, Kind::Variable(Space::Param), parameter.line)?;
        parser.layout_of_last(parameter);
    }
    cursor.expect("{")?;
    let mut depth = 1;
    while depth > 0 {
        match cursor.peek() {
            Some("{") => {
                cursor.next()?;
                parser.scopes.push(Scope::default());
                depth += 1;
            }
            Some("}") => {
                cursor.next()?;
                parser.scopes.pop();
                depth -= 1;
            }
            _ => parser.statement(cursor)?,
        }
    }
    Ok(parser.body)
}

impl<'a> Parser<'a> {
    fn declare(&mut self, name: &str, kind: Kind, line: u32) -> Result<(), Refusal> {
        let id = Name(self.body.names.len());
        self.body.names.push((name.to_owned(), kind));
        let scope = self.scopes.last_mut().expect("a body has a scope");
        if scope.names.insert(name.to_owned(), id).is_some() {
            return text(line, format!("`{name}` is declared twice"));
        }
        Ok(())
    }

    /// Notes the size and the alignment of the variable that was declared last.
    fn layout_of_last(&mut self, variable: &Variable<'a>) {
        let last = Name(self.body.names.len() - 1);
        self.body.sizes.extend(variable.size.map(|bytes| (last, bytes)));
        self.body.aligns.insert(last, variable.align);
    }

    fn lookup(&mut self, word: &str) -> Option<Name> {
        let digits = word.len() - word.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let (prefix, index) = word.split_at(word.len() - digits);
        // `%r01` is not the register 1 of the range.
        let is_plain = index == "0" || !index.starts_with('0');
        let index: Option<u64> = index.parse().ok().filter(|_| is_plain);
        for scope in self.scopes.iter_mut().rev() {
            if let Some(name) = scope.names.get(word) {
                return Some(*name);
            }
            let is_in =
                |(range, count, _): &&(&str, u64, _)| *range == prefix && index.is_some_and(|i| i < *count);
            if let Some((_, _, declared)) = scope.ranges.iter().find(is_in) {
                let name = Name(self.body.names.len());
                self.body.types.insert(name, declared);
                self.body.names.push((word.to_owned(), Kind::Register));
                scope.names.insert(word.to_owned(), name);
                return Some(name);
            }
        }
        None
    }

    fn statement(&mut self, cursor: &mut Cursor<'a, '_>) -> Result<(), Refusal> {
        let line = cursor.line();
        match cursor.peek() {
            Some(".reg") => self.registers(cursor),
            Some(".loc") => {
                self.location = Some(directives::location(cursor)?);
                Ok(())
            }
            Some(".pragma") => directives::pragma(cursor),
            Some(";") => cursor.next().map(drop),
            Some(word) if Space::of(word).is_some() => {
                let variable = variable(cursor)?;
                if variable.space == Space::Shared {
                    let bytes = variable.size.unwrap_or(0);
                    self.body.shared_bytes = self.body.shared_bytes.saturating_add(bytes);
                }
                if matches!(variable.space, Space::Global | Space::Const) {
                    return text(line, "a variable of the module is declared inside a function");
                }
                // In a loop, each turn may find another value in it.
                if variable.space == Space::Local && self.scopes.len() > 1 {
                    return text(line, "a variable in local memory is declared in an inner scope");
                }
                self.declare(variable.name, Kind::Variable(variable.space), line)?;
                self.layout_of_last(&variable);
                cursor.expect(";")
            }
            Some(_) if cursor.peek_second() == Some(":") => {
                let word = name(cursor)?;
                cursor.next()?;
                if cursor.peek() == Some(".branchtargets") {
                    return text(line, format!("`{word}: .branchtargets` {JUMP_TABLE}"));
                }
                if matches!(cursor.peek(), Some(".callprototype" | ".calltargets")) {
                    return text(line, "calls through a pointer are not supported");
                }
                self.body.statements.push(Statement::Label(word, line));
                Ok(())
            }
            _ => self.instruction(cursor),
        }
    }

    /// `.reg .b32 %r<6>, %x;`
    fn registers(&mut self, cursor: &mut Cursor<'a, '_>) -> Result<(), Refusal> {
        cursor.next()?;
        let line = cursor.line();
        let word = cursor.next()?;
        if type_size(word).is_none() {
            return text(line, format!("the verifier does not know registers of `{word}`"));
        }
        loop {
            let name = name(cursor)?;
            if cursor.take("<") {
                let count = number(cursor)?;
                cursor.expect(">")?;
                let scope = self.scopes.last_mut().expect("a body has a scope");
                if scope.ranges.iter().any(|(known, ..)| *known == name) {
                    return text(line, format!("`{name}` is declared twice"));
                }
                scope.ranges.push((name, count, word));
            } else {
                self.body.types.insert(Name(self.body.names.len()), word);
                self.declare(name, Kind::Register, line)?;
            }
            if cursor.take(";") {
                return Ok(());
            }
            cursor.expect(",")?;
        }
    }

    fn instruction(&mut self, cursor: &mut Cursor<'a, '_>) -> Result<(), Refusal> {
        let line = cursor.line();
        let mut words = String::new();
        let (mut guard, mut is_negated) = (None, false);
        if cursor.take("@") {
            is_negated = cursor.take("!");
            let negated = if is_negated { "!" } else { "" };
            let word = cursor.next()?;
            words = format!("@{negated}{word} ");
            guard = self.lookup(word);
            if guard.is_none() {
                return text(line, format!("the predicate `{word}` is not declared"));
            }
        }
        let opcode = cursor.next()?;
        if !opcode.starts_with(|c: char| c.is_ascii_lowercase()) {
            return text(line, format!("the verifier does not know `{opcode}` here"));
        }
        words.push_str(opcode);
        let mut operands = Vec::new();
        while !cursor.take(";") {
            words.push_str(if operands.is_empty() { " " } else { ", " });
            let operand = self.operand(cursor, &mut words)?;
            operands.push(operand);
            if !cursor.take(",") {
                cursor.expect(";")?;
                break;
            }
            if cursor.peek() == Some(";") {
                return text(line, "the last operand is missing");
            }
        }
        self.body.statements.push(Statement::Instruction(Instruction {
            opcode,
            guard,
            is_negated,
            operands,
            text: words,
            line,
            location: self.location,
        }));
        Ok(())
    }

    fn operand(&mut self, cursor: &mut Cursor<'a, '_>, words: &mut String) -> Result<Operand<'a>, Refusal> {
        let line = cursor.line();
        let word = cursor.next()?;
        words.push_str(word);
        let operand = match word {
            "[" => {
                let base = self.operand(cursor, words)?;
                let mut offset = 0;
                if cursor.take("+") {
                    words.push('+');
                    let sign = if cursor.take("-") { -1 } else { 1 };
                    let number = number(cursor)?;
                    words.push_str(&number.to_string());
                    offset = sign * i64::try_from(number).unwrap_or(i64::MAX);
                }
                if cursor.take(",") {
                    return text(line, "the verifier does not know addresses with several parts");
                }
                cursor.expect("]")?;
                words.push(']');
                Operand::Address(Box::new(base), offset)
            }
            "{" | "(" => {
                let end = if word == "{" { "}" } else { ")" };
                let mut list = Vec::new();
                while !cursor.take(end) {
                    if !list.is_empty() {
                        cursor.expect(",")?;
                        words.push_str(", ");
                    }
                    list.push(self.operand(cursor, words)?);
                }
                words.push_str(end);
                Operand::List(list)
            }
            "-" | "!" => match (word, self.operand(cursor, words)?) {
                ("-", Operand::Number(number)) => Operand::Number(format!("-{number}")),
                ("!", Operand::Name(name)) => Operand::Name(name),
                _ => return text(line, format!("the verifier does not know `{word}` here")),
            },
            "_" => Operand::Sink,
            _ if is_literal(word) => Operand::Number(word.to_owned()),
            _ => match self.lookup(word) {
                Some(name) => Operand::Name(name),
                None if word.starts_with('%') => Operand::Special(word),
                None if word.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '$')) => {
                    Operand::Symbol(word)
                }
                None => return text(line, format!("`{word}` is not an operand")),
            },
        };
        if cursor.take("|") {
            words.push('|');
            let second = self.operand(cursor, words)?;
            return Ok(Operand::List(vec![operand, second]));
        }
        Ok(operand)
    }
}
