//! [`Cursor`]: reads a statement's text, token by token.

use super::statement::{Name, ProgramError};

type Result<T> = std::result::Result<T, ProgramError>;

/// A position in a statement's text. White space between tokens has no meaning.
#[derive(Clone)]
pub(super) struct Cursor<'a> {
    rest: &'a str,
    /// The column of the first character of `rest`, from 1.
    column: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let mut cursor = Self {
            rest: text,
            column: 1,
        };
        cursor.skip_space();
        cursor
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    fn take(&mut self, bytes: usize) -> &'a str {
        let (token, rest) = self.rest.split_at(bytes);
        self.column += token.chars().count();
        self.rest = rest;
        token
    }

    fn skip_space(&mut self) {
        self.take(self.rest.len() - self.rest.trim_start().len());
    }

    fn while_is(&self, is: impl Fn(char) -> bool) -> usize {
        self.rest.find(|c| !is(c)).unwrap_or(self.rest.len())
    }

    /// An error at this position.
    pub(super) fn error<T>(&self, message: impl Into<String>) -> Result<T> {
        Err(ProgramError::new(self.column, message))
    }

    /// An error at this position, which names the expected and the found text.
    pub(super) fn expected<T>(&self, what: &str) -> Result<T> {
        match self.rest.chars().next() {
            Some(found) => self.error(format!("expected {what}, found `{found}`")),
            None => self.error(format!("expected {what}, found the end")),
        }
    }

    /// Takes `token` if it comes next.
    pub(super) fn accept(&mut self, token: &str) -> bool {
        let found = self.rest.starts_with(token);
        if found {
            self.take(token.len());
            self.skip_space();
        }
        found
    }

    pub(super) fn expect(&mut self, token: &str) -> Result<()> {
        if self.accept(token) {
            return Ok(());
        }
        self.expected(&format!("`{token}`"))
    }

    pub(super) fn expect_end(&self) -> Result<()> {
        if self.is_at_end() {
            return Ok(());
        }
        self.expected("the end of the statement")
    }

    /// The next word, without taking it: letters, digits and underscores, and the first is no
    /// digit.
    pub(super) fn peek_word(&self) -> Option<&'a str> {
        let word = &self.rest[..self.while_is(is_of_word)];
        word.starts_with(|c: char| !c.is_ascii_digit()).then_some(word)
    }

    /// Takes a word. Errors call it `what`.
    pub(super) fn word(&mut self, what: &str) -> Result<Name> {
        let column = self.column;
        let Some(word) = self.peek_word() else {
            return self.expected(what);
        };
        let text = self.take(word.len()).to_owned();
        self.skip_space();
        Ok(Name { text, column })
    }

    /// Takes a word that may begin with a digit. Errors call it `what`.
    pub(super) fn label(&mut self, what: &str) -> Result<Name> {
        let (column, bytes) = (self.column, self.while_is(is_of_word));
        if bytes == 0 {
            return self.expected(what);
        }
        let text = self.take(bytes).to_owned();
        self.skip_space();
        Ok(Name { text, column })
    }

    /// Takes a number. Errors call it `what`.
    pub(super) fn number<N: std::str::FromStr>(&mut self, what: &str) -> Result<N> {
        let bytes = self.while_is(|c| c.is_ascii_digit());
        if bytes == 0 {
            return self.expected(what);
        }
        let Ok(number) = self.rest[..bytes].parse() else {
            return self.error(format!("{what} is too large"));
        };
        self.take(bytes);
        self.skip_space();
        Ok(number)
    }
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
