//! Splits PTX into tokens, with their lines (PTX ISA, chapter 4, "Syntax").

use super::error::{Refusal, text};

/// A word or a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    pub(super) line: u32,
}

fn is_word(c: u8) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, b'_' | b'$' | b'%' | b'.')
}

/// Splits a text into tokens, and drops the comments. An end of line is a space like any other.
pub(super) fn tokens(ptx: &str) -> Result<Vec<Token<'_>>, Refusal> {
    let bytes = ptx.as_bytes();
    let mut tokens = Vec::new();
    let (mut at, mut line) = (0, 1);
    let length = |from: usize, ends: fn(u8) -> bool| {
        let rest = &bytes[from..];
        rest.iter().position(|b| ends(*b)).unwrap_or(rest.len())
    };
    while at < bytes.len() {
        let start = at;
        match bytes[at] {
            b' ' | b'\t' | b'\r' | b'\n' => at += 1,
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                at += length(at, |b| b == b'\n');
                check(&ptx[start..at], line, "the comment")?;
            }
            b'/' if bytes.get(at + 1) == Some(&b'*') => {
                // The star that begins a comment does not end it: `/*/` is no comment.
                let Some(length) = ptx[at + 2..].find("*/") else {
                    return text(line, "the comment has no end");
                };
                at += length + 4;
                check(&ptx[start..at], line, "the comment")?;
                // The runtime picks a module by `.version` at the start of a line.
                if ptx[start..at].contains(".version") {
                    return text(line, "the comment holds `.version`, which begins a module");
                }
            }
            b'"' => {
                let Some(length) = bytes[at + 1..].iter().position(|b| *b == b'"') else {
                    return text(line, "the string has no end");
                };
                at += length + 2;
                // ptxas knows no escapes: `\"` ends a string.
                if bytes[start..at]
                    .iter()
                    .any(|b| *b == b'\\' || !matches!(b, b' '..=b'~'))
                {
                    return text(
                        line,
                        "the string holds a backslash, or a character that is not printable ASCII",
                    );
                }
                tokens.push(Token {
                    text: &ptx[start..at],
                    line,
                });
            }
            byte if is_word(byte) => {
                at += length(at, |b| !is_word(b));
                tokens.push(Token {
                    text: &ptx[start..at],
                    line,
                });
            }
            b'!'..=b'~' => {
                at += 1;
                tokens.push(Token {
                    text: &ptx[start..at],
                    line,
                });
            }
            _ => return text(line, "the character does not belong to PTX"),
        }
        line += count_lines(&bytes[start..at]);
    }
    Ok(tokens)
}

/// Refuses control characters. At the character 0, the driver takes the text to end.
fn check(part: &str, line: u32, what: &str) -> Result<(), Refusal> {
    if part
        .bytes()
        .all(|b| b >= b' ' || matches!(b, b'\t' | b'\r' | b'\n'))
    {
        return Ok(());
    }
    text(line, format!("{what} holds a control character"))
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
}

#[cfg(test)]
mod tests {
    use super::tokens;

    fn words(ptx: &str) -> Vec<(&str, u32)> {
        tokens(ptx).unwrap().iter().map(|t| (t.text, t.line)).collect()
    }

    #[test]
    fn a_text_becomes_words_and_signs() {
        let ptx = ".version 7.0 // a\n@!%p1 bra\t$L_1; /* two\nlines */ \"a;b\"";
        let expected = [
            (".version", 1),
            ("7.0", 1),
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
        for ptx in ["/* a", "/*/", "\"a", "ä"] {
            assert!(tokens(ptx).is_err(), "{ptx}");
        }
    }

    #[test]
    fn a_comment_ends_where_ptxas_ends_it() {
        assert_eq!(words("/*/ hidden; /*/ a"), [("a", 1)]);
        assert_eq!(words("/* /* */ a"), [("a", 1)]);
        assert_eq!(words("// a /*\nb"), [("b", 2)]);
        assert_eq!(words("// a \\\nb"), [("b", 2)]);
        assert_eq!(words("// a \r hidden\nb"), [("b", 2)]);
    }

    /// ptxas knows no escapes in strings, and a driver reads no further than the character 0.
    #[test]
    fn characters_that_ptxas_may_read_otherwise_are_refused() {
        for ptx in [
            "\"a\\b\"",
            "\"a\\\"b\"",
            "\"a\nb\"",
            "\"a\tb\"",
            "\"ä\"",
            "a\0b",
            "// \0",
            "/* \0 */",
            "a\u{b}b",
            "a\u{c}b",
            "a\u{7f}b",
            "/*\n.version 7.0\n*/",
        ] {
            assert!(tokens(ptx).is_err(), "{ptx:?}");
        }
    }
}
