//! Reads the features that the root of a crate enables.
//!
//! rustc takes features from the inner attributes before the first item of the root, also inside
//! `cfg_attr`, and before it expands any macro. So this file reads only these attributes. It
//! refuses what it does not understand, for example a name outside ASCII.

use std::iter::Peekable;
use std::vec::IntoIter;

/// A feature that a root names.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Feature {
    pub(super) name: String,
    pub(super) line: usize,
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    /// A name, without `r#`.
    Name(String),
    /// A literal or a lifetime.
    Other,
    /// One character of punctuation, or a bracket.
    Mark(char),
}

/// The features in the root `text`, of all configurations.
///
/// # Errors
/// The line of something that is not understood.
pub(super) fn features(text: &str) -> Result<Vec<Feature>, usize> {
    let mut lexer = Lexer::new(text);
    let mut features = Vec::new();
    while let Some(attribute) = lexer.attribute()? {
        collect(attribute, &mut features)?;
    }
    Ok(features)
}

/// Adds the features in one attribute.
fn collect(tokens: Vec<(Token, usize)>, features: &mut Vec<Feature>) -> Result<(), usize> {
    let mut tokens = tokens.into_iter().peekable();
    while let Some((token, line)) = tokens.next() {
        if token != Token::Name("feature".to_owned()) {
            continue;
        }
        match tokens.next() {
            // `cfg(feature = "std")`
            Some((Token::Mark('='), _)) => {}
            Some((Token::Mark('('), _)) => list(&mut tokens, line, features)?,
            _ => return Err(line),
        }
    }
    Ok(())
}

/// Reads names with commas between them, up to the closing bracket.
fn list(
    tokens: &mut Peekable<IntoIter<(Token, usize)>>,
    mut line: usize,
    features: &mut Vec<Feature>,
) -> Result<(), usize> {
    loop {
        match tokens.next() {
            Some((Token::Mark(')'), _)) => return Ok(()),
            Some((Token::Name(name), at)) => {
                line = at;
                features.push(Feature { name, line });
            }
            _ => return Err(line),
        }
        match tokens.next() {
            Some((Token::Mark(','), at)) => line = at,
            Some((Token::Mark(')'), _)) => return Ok(()),
            _ => return Err(line),
        }
    }
}

struct Lexer<'t> {
    rest: &'t str,
    line: usize,
}

impl<'t> Lexer<'t> {
    fn new(text: &'t str) -> Self {
        let rest = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lexer = Self { rest, line: 1 };
        // A first line `#!…` is for the shell, unless it begins an attribute.
        if lexer.rest.starts_with("#!") {
            let mut after = Self {
                rest: &lexer.rest[2..],
                line: 1,
            };
            if after.skip_space().is_ok() && !after.rest.starts_with('[') {
                lexer.skip_line();
            }
        }
        lexer
    }

    fn advance(&mut self, bytes: usize) {
        let (passed, rest) = self.rest.split_at(bytes);
        self.line += passed.matches('\n').count();
        self.rest = rest;
    }

    fn skip_line(&mut self) {
        self.advance(self.rest.find('\n').unwrap_or(self.rest.len()));
    }

    /// Skips white space and comments, which include the text of a crate's documentation.
    fn skip_space(&mut self) -> Result<(), usize> {
        loop {
            if self.rest.starts_with("//") {
                self.skip_line();
            } else if self.rest.starts_with("/*") {
                self.skip_comment()?;
            } else if let Some(space) = self.rest.chars().next().filter(|c| is_space(*c)) {
                self.advance(space.len_utf8());
            } else {
                return Ok(());
            }
        }
    }

    /// Skips a block comment, in which others may lie.
    fn skip_comment(&mut self) -> Result<(), usize> {
        let begin = self.line;
        let mut depth = 0_usize;
        loop {
            if self.rest.starts_with("/*") {
                depth += 1;
                self.advance(2);
            } else if self.rest.starts_with("*/") {
                depth -= 1;
                self.advance(2);
                if depth == 0 {
                    return Ok(());
                }
            } else {
                let next = self.rest.chars().next().ok_or(begin)?;
                self.advance(next.len_utf8());
            }
        }
    }

    /// The tokens of the next inner attribute, without its `#![` and `]`. `None` before the first
    /// item, or before the end of the file.
    fn attribute(&mut self) -> Result<Option<Vec<(Token, usize)>>, usize> {
        self.skip_space()?;
        // Behind a front matter, `---`, there may be attributes.
        if self.rest.starts_with('-') {
            return Err(self.line);
        }
        if !self.rest.starts_with('#') {
            return Ok(None);
        }
        self.advance(1);
        self.skip_space()?;
        if !self.rest.starts_with('!') {
            return Ok(None);
        }
        self.advance(1);
        let begin = self.line;
        if self.token()?.map(|(token, _)| token) != Some(Token::Mark('[')) {
            return Err(begin);
        }
        let mut open = vec![']'];
        let mut tokens = Vec::new();
        while let Some((token, line)) = self.token()? {
            if let Token::Mark(mark) = token {
                match mark {
                    '(' => open.push(')'),
                    '[' => open.push(']'),
                    '{' => open.push('}'),
                    ')' | ']' | '}' if open.pop() != Some(mark) => return Err(line),
                    _ => {}
                }
                if open.is_empty() {
                    return Ok(Some(tokens));
                }
            }
            tokens.push((token, line));
        }
        Err(begin)
    }

    /// The next token and its line; `None` at the end of the file.
    fn token(&mut self) -> Result<Option<(Token, usize)>, usize> {
        self.skip_space()?;
        let line = self.line;
        let Some(first) = self.rest.chars().next() else {
            return Ok(None);
        };
        let token = match first {
            '"' => self.string()?,
            '\'' => self.quoted_or_lifetime()?,
            '_' | 'a'..='z' | 'A'..='Z' => self.name_or_prefix()?,
            '0'..='9' => {
                self.word();
                Token::Other
            }
            mark if mark.is_ascii_punctuation() => {
                self.advance(1);
                Token::Mark(mark)
            }
            _ => return Err(line),
        };
        Ok(Some((token, line)))
    }

    /// Takes letters, digits and underscores.
    fn word(&mut self) -> &'t str {
        let end = self.rest.find(|c: char| c != '_' && !c.is_ascii_alphanumeric());
        let word = &self.rest[..end.unwrap_or(self.rest.len())];
        self.advance(word.len());
        word
    }

    fn name_or_prefix(&mut self) -> Result<Token, usize> {
        let word = self.word();
        let next = self.rest.chars().next();
        match (word, next) {
            ("b" | "c", Some('"')) => self.string(),
            ("b", Some('\'')) => self.quoted_or_lifetime(),
            ("r" | "br", Some('"' | '#')) => self.raw(word),
            // A raw C string, which is a name and a string before edition 2021; other prefixes of
            // literals, and names outside ASCII.
            (_, Some('"' | '\'' | '#')) => Err(self.line),
            (_, Some(c)) if !c.is_ascii() && !is_space(c) => Err(self.line),
            _ => Ok(Token::Name(word.to_owned())),
        }
    }

    /// A raw string or a raw name, behind its letters.
    fn raw(&mut self, prefix: &str) -> Result<Token, usize> {
        let line = self.line;
        let marks = self.rest.len() - self.rest.trim_start_matches('#').len();
        self.advance(marks);
        if self.rest.starts_with('"') {
            self.advance(1);
            let end = format!("\"{}", "#".repeat(marks));
            let at = self.rest.find(&end).ok_or(line)?;
            self.advance(at + end.len());
            return Ok(Token::Other);
        }
        let is_name = self
            .rest
            .starts_with(|c: char| c == '_' || c.is_ascii_alphabetic());
        if prefix != "r" || marks != 1 || !is_name {
            return Err(line);
        }
        let word = self.word();
        let next = self.rest.chars().next();
        if next.is_some_and(|c| !c.is_ascii() && !is_space(c)) {
            return Err(line);
        }
        Ok(Token::Name(word.to_owned()))
    }

    /// A string with escapes, from its quotation mark.
    fn string(&mut self) -> Result<Token, usize> {
        let line = self.line;
        self.advance(1);
        loop {
            let next = self.rest.chars().next().ok_or(line)?;
            self.advance(next.len_utf8());
            match next {
                '"' => return Ok(Token::Other),
                '\\' => {
                    let escaped = self.rest.chars().next().ok_or(line)?;
                    self.advance(escaped.len_utf8());
                }
                _ => {}
            }
        }
    }

    /// A character in quotation marks. A lifetime has no place in an attribute, and is refused.
    fn quoted_or_lifetime(&mut self) -> Result<Token, usize> {
        let line = self.line;
        self.advance(1);
        let first = self.rest.chars().next().ok_or(line)?;
        self.advance(first.len_utf8());
        if first == '\\' {
            let escaped = self.rest.chars().next().ok_or(line)?;
            self.advance(escaped.len_utf8());
            // The rest of `\u{…}` or `\x…`.
            let end = self
                .rest
                .find(|c: char| c != '{' && c != '}' && !c.is_ascii_alphanumeric());
            self.advance(end.unwrap_or(self.rest.len()));
        }
        if !self.rest.starts_with('\'') {
            return Err(line);
        }
        self.advance(1);
        Ok(Token::Other)
    }
}

/// The white space of Rust.
fn is_space(c: char) -> bool {
    matches!(
        c,
        '\t'..='\r' | ' ' | '\u{85}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let features = features(text).unwrap_or_else(|line| panic!("line {line}: {text}"));
        features.into_iter().map(|feature| feature.name).collect()
    }

    #[test]
    fn each_way_to_name_a_feature_is_seen() {
        for text in [
            "#![feature(custom_mir)]",
            "\u{feff}#![feature(custom_mir)]",
            "#!/bin/rust [\n#![feature(custom_mir)]",
            "#! /* a */ // b\n [feature(custom_mir)]",
            "# /* a /* b */ */ ! [ feature // c\n ( /* d */ custom_mir /* e */ , ) ] fn f() {}",
            "//! # Text\n/*! '\" */\n#![doc = \"a\\\"]\"] #![doc = r##\"]\"# \"##] #![feature(r#custom_mir)]",
            "#![r#feature(custom_mir)]",
            "#![cfg_attr(all(), cfg_attr(not(any()), allow(x), feature(custom_mir)))]",
            "#![cfg_attr(feature = \"std\", feature(custom_mir))]",
            "#![doc(a = '\"', b = b'\\'', c = '\\u{22}', d = b\"]\", e = c\"]\", f = br#\"]\"#)]\u{2028}#![feature(custom_mir)]",
            "#![unsafe(feature(custom_mir))]",
            "#![{[feature(custom_mir)]}]",
        ] {
            assert_eq!(names(text), ["custom_mir"], "{text}");
        }
    }

    #[test]
    fn text_that_is_no_attribute_of_the_crate_names_no_feature() {
        for text in [
            "",
            "#![no_std]\n#![cfg_attr(not(feature = \"std\"), no_std)]",
            "//! #![feature(a)]\n/* #![feature(a)] */\n#![doc = \"#![feature(a)]\"]\n#[cfg(x)] mod m { #![feature(a)] }",
            "#![allow(features, a_feature)] fn feature(a: u32) {}",
        ] {
            assert_eq!(names(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn a_line_is_the_line_of_the_name() {
        let text = "//! a\n#![doc = \"b\nc\"]\n/*\n*/ #![feature(\n    a,\n    b\n)]";
        let lines = features(text).unwrap().into_iter().map(|feature| feature.line);
        assert_eq!(lines.collect::<Vec<_>>(), [6, 7]);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for text in [
            "---\n---\n#![feature(custom_mir)]",
            "#!/bin/rust\n---\n---\n#![feature(custom_mir)]",
            "#![feature]",
            "#![feature[custom_mir]]",
            "#![feature{custom_mir}]",
            "#![feature(a::custom_mir)]",
            "#![feature(\"custom_mir\")]",
            "#![feature(a custom_mir)]",
            "#![feature(a = custom_mir)]",
            "#![feature(, custom_mir)]",
            "#![féature(custom_mir)]",
            "#![feature(custom_mir\u{301})]",
            "#![feature(r#custom_mir\u{301})]",
            "#![doc(a\"]\")]",
            "#![doc('a)]",
            "#![doc(b#\"\"#)]",
            // Before edition 2021, this enables the feature.
            "#![cfg_attr(all(), rustfmt::a(cr#\"b\"), feature(custom_mir), rustfmt::a(\"c\"#))]",
            "#![doc = \"",
            "#![doc = r#\"\"]",
            "#![doc(]",
            "#![doc",
            "/* #![feature(custom_mir)]",
            "#![a]\n#!b",
        ] {
            assert!(features(text).is_err(), "{text}: {:?}", features(text));
        }
    }
}
