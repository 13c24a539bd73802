//! Parses a module of PTX into its variables and functions (PTX ISA, chapters 4 and 5).

use std::collections::HashMap;

use super::body::{Body, parse_body};
use super::error::{Refusal, text};
use super::lex::{Cursor, END_OF_LINE, tokens};
use super::variable::{Space, Variable, variable};

/// A module.
#[derive(Debug, Default)]
pub(super) struct Module<'a> {
    pub(super) variables: Vec<Variable<'a>>,
    pub(super) functions: Vec<Function<'a>>,
    /// Source files, by their number in `.file`.
    pub(super) files: HashMap<u32, &'a str>,
}

/// A function, or an entry.
#[derive(Debug)]
pub(super) struct Function<'a> {
    pub(super) name: &'a str,
    pub(super) is_entry: bool,
    pub(super) results: Vec<Variable<'a>>,
    pub(super) parameters: Vec<Variable<'a>>,
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
            ".version" | ".target" | ".address_size" | ".loc" => cursor.skip_past(END_OF_LINE),
            ".file" => {
                cursor.next()?;
                let number = cursor.next()?.parse().unwrap_or(u32::MAX);
                self.files.insert(number, cursor.next()?.trim_matches('"'));
                cursor.skip_past(END_OF_LINE)
            }
            ".pragma" => cursor.skip_past(";"),
            ".section" => {
                cursor.skip_past("{")?;
                cursor.skip_past("}")
            }
            ".visible" | ".extern" | ".weak" | ".common" => cursor.next().map(drop),
            ";" => cursor.next().map(drop),
            ".entry" | ".func" => {
                let function = self.function(cursor)?;
                // A definition may follow a declaration of the same function.
                match self.functions.iter_mut().find(|f| f.name == function.name) {
                    Some(known) if known.body.is_none() => *known = function,
                    Some(_) if function.body.is_none() => {}
                    Some(_) => return text(line, format!("`{}` is defined twice", function.name)),
                    None => self.functions.push(function),
                }
                Ok(())
            }
            _ if Space::of(word).is_some() => {
                self.variables.push(variable(cursor)?);
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
        let name = cursor.next()?;
        let parameters = if cursor.peek() == Some("(") {
            parameters(cursor)?
        } else {
            Vec::new()
        };
        // Skips directives for performance, and `.noreturn`.
        while !matches!(cursor.peek(), Some("{" | ";") | None) {
            cursor.next()?;
        }
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
            body,
        })
    }
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
        cursor.take(",");
    }
    Ok(parameters)
}
