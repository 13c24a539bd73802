//! Parses a module of PTX into its variables and functions (PTX ISA, chapters 4 and 5).

use std::collections::HashMap;

use super::body::{Body, parse_body};
use super::directives::{self, name, number};
use super::error::{Refusal, text};
use super::lex::{Cursor, tokens};
use super::variable::{Space, Variable, variable};

/// A module.
#[derive(Debug, Default)]
pub(super) struct Module<'a> {
    /// The architecture: `sm_80`.
    pub(super) target: &'a str,
    pub(super) variables: Vec<Variable<'a>>,
    pub(super) functions: Vec<Function<'a>>,
    /// Source files, by their number in `.file`.
    pub(super) files: HashMap<u64, &'a str>,
}

/// A function, or an entry.
#[derive(Debug)]
pub(super) struct Function<'a> {
    pub(super) name: &'a str,
    pub(super) is_entry: bool,
    pub(super) results: Vec<Variable<'a>>,
    pub(super) parameters: Vec<Variable<'a>>,
    /// Whether the text says that calls never return (`.noreturn`).
    pub(super) never_returns: bool,
    /// `None` if the text only declares the function.
    pub(super) body: Option<Body<'a>>,
}

impl<'a> Module<'a> {
    /// Parses the modules of a text. Each module starts with `.version`.
    pub(super) fn parse(ptx: &'a str) -> Result<Vec<Self>, Refusal> {
        let tokens = tokens(ptx)?;
        let mut cursor = Cursor::new(&tokens);
        let mut modules: Vec<Self> = Vec::new();
        while let Some(word) = cursor.peek() {
            if word == ".version" {
                modules.push(Self::default());
            }
            match modules.last_mut() {
                Some(module) => module.item(word, &mut cursor)?,
                None => return text(cursor.line(), "the text does not start with `.version`"),
            }
        }
        Ok(modules)
    }

    fn item(&mut self, word: &'a str, cursor: &mut Cursor<'a, '_>) -> Result<(), Refusal> {
        let line = cursor.line();
        match word {
            ".version" => directives::version(cursor),
            ".target" => {
                self.target = directives::target(cursor)?;
                Ok(())
            }
            ".address_size" => directives::address_size(cursor),
            ".file" => {
                let (number, path) = directives::file(cursor)?;
                if self.files.insert(number, path).is_some() {
                    return text(line, format!("the file {number} is declared twice"));
                }
                Ok(())
            }
            ".pragma" => directives::pragma(cursor),
            ".section" => directives::section(cursor),
            ".visible" | ".extern" | ".weak" | ".common" => {
                cursor.next()?;
                match cursor.peek() {
                    Some(".entry" | ".func") => Ok(()),
                    Some(word) if Space::of(word).is_some() => Ok(()),
                    _ => text(
                        line,
                        format!("`{word}` stands before no variable and no function"),
                    ),
                }
            }
            ".entry" | ".func" => {
                let mut function = self.function(cursor)?;
                // A definition may follow a declaration of the same function.
                match self.functions.iter_mut().find(|f| f.name == function.name) {
                    Some(known) if known.body.is_none() => {
                        function.never_returns |= known.never_returns;
                        *known = function;
                    }
                    Some(known) if function.body.is_none() => {
                        known.never_returns |= function.never_returns;
                    }
                    Some(_) => return text(line, format!("`{}` is defined twice", function.name)),
                    None => self.functions.push(function),
                }
                Ok(())
            }
            _ if Space::of(word).is_some() => {
                let variable = variable(cursor)?;
                if matches!(variable.space, Space::Local | Space::Param) {
                    return text(line, "a variable of this state space stands outside a function");
                }
                self.variables.push(variable);
                cursor.expect(";")
            }
            _ => text(line, format!("the verifier does not know `{word}` here")),
        }
    }

    fn function(&self, cursor: &mut Cursor<'a, '_>) -> Result<Function<'a>, Refusal> {
        let is_entry = cursor.next()? == ".entry";
        let results = if cursor.peek() == Some("(") {
            parameters(cursor)?
        } else {
            Vec::new()
        };
        let name = name(cursor)?;
        let parameters = if cursor.peek() == Some("(") {
            parameters(cursor)?
        } else {
            Vec::new()
        };
        let never_returns = directives(cursor)?;
        let body = if cursor.take(";") {
            None
        } else {
            let outer = results.iter().chain(&parameters);
            Some(parse_body(cursor, outer)?)
        };
        Ok(Function {
            name,
            is_entry,
            results,
            parameters,
            never_returns,
            body,
        })
    }
}

/// Reads the directives between a function's parameters and its body. Returns whether `.noreturn`
/// is one of them; the others only guide the compiler.
fn directives(cursor: &mut Cursor<'_, '_>) -> Result<bool, Refusal> {
    let mut never_returns = false;
    while !matches!(cursor.peek(), Some("{" | ";") | None) {
        let line = cursor.line();
        if cursor.peek() == Some(".pragma") {
            directives::pragma(cursor)?;
            continue;
        }
        match cursor.next()? {
            ".noreturn" => never_returns = true,
            ".maxntid" | ".reqntid" | ".minnctapersm" | ".maxnctapersm" | ".maxnreg" => {
                number(cursor)?;
                while cursor.take(",") {
                    number(cursor)?;
                }
            }
            word => return text(line, format!("the verifier does not know `{word}` here")),
        }
    }
    Ok(never_returns)
}

fn parameters<'a>(cursor: &mut Cursor<'a, '_>) -> Result<Vec<Variable<'a>>, Refusal> {
    cursor.expect("(")?;
    let mut parameters = Vec::new();
    while !cursor.take(")") {
        let line = cursor.line();
        let parameter = variable(cursor)?;
        if parameter.space != Space::Param {
            return text(line, "the parameter is not in the state space `.param`");
        }
        parameters.push(parameter);
        if cursor.peek() != Some(")") {
            cursor.expect(",")?;
        }
    }
    Ok(parameters)
}
