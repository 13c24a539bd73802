//! Splits PTX into tokens, with their lines (PTX ISA, chapter 4, "Syntax").

use super::error::{Refusal, text};

/// A word or a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    pub(super) line: u32,
}

/// Directives that end with their line, not with a semicolon.
const LINES: [&str; 5] = [".version", ".target", ".address_size", ".loc", ".file"];
/// The token at the end of these directives' lines.
pub(super) const END_OF_LINE: &str = "\n";

fn is_word(c: u8) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, b'_' | b'$' | b'%' | b'.')
}

/// Splits a text into tokens, and drops the comments.
pub(super) fn tokens(ptx: &str) -> Result<Vec<Token<'_>>, Refusal> {
    let bytes = ptx.as_bytes();
    let mut tokens = Vec::new();
    let (mut at, mut line, mut ends_with_line) = (0, 1, false);
    while at < bytes.len() {
        let start = at;
        match bytes[at] {
            b'\n' => {
                if ends_with_line {
                    tokens.push(Token {
                        text: END_OF_LINE,
                        line,
                    });
                    ends_with_line = false;
                }
                line += 1;
                at += 1;
            }
            byte if byte.is_ascii_whitespace() => at += 1,
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                at += bytes[at..]
                    .iter()
                    .position(|b| *b == b'\n')
                    .unwrap_or(bytes.len() - at);
            }
            b'/' if bytes.get(at + 1) == Some(&b'*') => {
                let Some(length) = ptx[at..].find("*/") else {
                    return text(line, "the comment has no end");
                };
                line += count_lines(&bytes[at..at + length]);
                at += length + 2;
            }
            b'"' => {
                let Some(length) = bytes[at + 1..].iter().position(|b| *b == b'"') else {
                    return text(line, "the string has no end");
                };
                at += length + 2;
                tokens.push(Token {
                    text: &ptx[start..at],
                    line,
                });
                line += count_lines(&bytes[start..at]);
            }
            byte if is_word(byte) => {
                at += bytes[at..]
                    .iter()
                    .position(|b| !is_word(*b))
                    .unwrap_or(bytes.len() - at);
                let word = &ptx[start..at];
                ends_with_line |= LINES.contains(&word);
                tokens.push(Token { text: word, line });
            }
            byte if byte.is_ascii() => {
                at += 1;
                tokens.push(Token {
                    text: &ptx[start..at],
                    line,
                });
            }
            _ => return text(line, "the character does not belong to PTX"),
        }
    }
    if ends_with_line {
        tokens.push(Token {
            text: END_OF_LINE,
            line,
        });
    }
    Ok(tokens)
}

fn count_lines(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.iter().filter(|b| **b == b'\n').count()).unwrap_or(u32::MAX)
}

/// Walks over tokens.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a, 't> {
    tokens: &'t [Token<'a>],
    at: usize,
}

impl<'a, 't> Cursor<'a, 't> {
    pub(super) fn new(tokens: &'t [Token<'a>]) -> Self {
        Self { tokens, at: 0 }
    }

    pub(super) fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.at).map(|token| token.text)
    }

    pub(super) fn peek_second(&self) -> Option<&'a str> {
        self.tokens.get(self.at + 1).map(|token| token.text)
    }

    /// The line of the next token, or of the last one.
    pub(super) fn line(&self) -> u32 {
        let token = self.tokens.get(self.at).or(self.tokens.last());
        token.map_or(1, |token| token.line)
    }

    pub(super) fn next(&mut self) -> Result<&'a str, Refusal> {
        match self.peek() {
            Some(token) => {
                self.at += 1;
                Ok(token)
            }
            None => text(self.line(), "the text ends inside a statement"),
        }
    }

    pub(super) fn take(&mut self, wanted: &str) -> bool {
        let is_next = self.peek() == Some(wanted);
        self.at += usize::from(is_next);
        is_next
    }

    pub(super) fn expect(&mut self, wanted: &str) -> Result<(), Refusal> {
        let line = self.line();
        let found = self.next()?;
        if found == wanted {
            return Ok(());
        }
        text(line, format!("expected `{wanted}`, found `{found}`"))
    }

    /// Skips all tokens up to and including `end`.
    pub(super) fn skip_past(&mut self, end: &str) -> Result<(), Refusal> {
        while self.next()? != end {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::tokens;

    fn words(ptx: &str) -> Vec<(&str, u32)> {
        tokens(ptx).unwrap().iter().map(|t| (t.text, t.line)).collect()
    }

    #[test]
    fn a_text_becomes_words_signs_and_ends_of_lines() {
        let ptx = ".version 7.0 // a\n@!%p1 bra\t$L_1; /* two\nlines */ \"a;b\"";
        let expected = [
            (".version", 1),
            ("7.0", 1),
            ("\n", 1),
            ("@", 2),
            ("!", 2),
            ("%p1", 2),
            ("bra", 2),
            ("$L_1", 2),
            (";", 2),
            ("\"a;b\"", 3),
        ];
        assert_eq!(words(ptx), expected);
    }

    #[test]
    fn comments_and_strings_without_an_end_are_refused() {
        for ptx in ["/* a", "\"a", "ä"] {
            assert!(tokens(ptx).is_err(), "{ptx}");
        }
    }
}
