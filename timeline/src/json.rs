//! JSON objects, written member by member.

use std::fmt::{Display, Write as _};

/// A JSON object (RFC 8259). Its members stand in the order in which they were added.
#[derive(Debug)]
pub(super) struct Object {
    /// The object without its closing brace.
    text: String,
}

impl Object {
    pub(super) fn new() -> Self {
        Self { text: "{".into() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text == "{"
    }

    /// Adds a string.
    pub(super) fn string(mut self, name: &str, value: &str) -> Self {
        self.name(name);
        write_string(&mut self.text, value);
        self
    }

    /// Adds an integer.
    pub(super) fn integer(self, name: &str, value: u64) -> Self {
        self.literal(name, value)
    }

    /// Adds a number. JSON cannot write infinities and NaN, so they become `null`.
    pub(super) fn number(self, name: &str, value: f64) -> Self {
        if value.is_finite() {
            self.literal(name, value)
        } else {
            self.literal(name, "null")
        }
    }

    /// Adds an object.
    pub(super) fn object(self, name: &str, value: Self) -> Self {
        self.literal(name, value.finish())
    }

    /// The text of the whole object.
    pub(super) fn finish(mut self) -> String {
        self.text.push('}');
        self.text
    }

    fn literal(mut self, name: &str, value: impl Display) -> Self {
        self.name(name);
        write!(self.text, "{value}").expect("writing to a string does not fail");
        self
    }

    fn name(&mut self, name: &str) {
        if !self.is_empty() {
            self.text.push(',');
        }
        write_string(&mut self.text, name);
        self.text.push(':');
    }
}

/// Quotes a string. Escapes the characters that must be escaped by RFC 8259, section 7; all other
/// characters are written as they are.
fn write_string(text: &mut String, value: &str) {
    text.push('"');
    for character in value.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\0'..='\x1f' => {
                write!(text, "\\u{:04x}", u32::from(character)).expect("writing to a string does not fail")
            }
            _ => text.push(character),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn parse(object: Object) -> Value {
        let text = object.finish();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    #[test]
    fn a_reader_gets_members_of_every_kind_as_they_were_added() {
        let inner = Object::new().string("a\"b", "c\\d");
        let object = Object::new()
            .integer("most", u64::MAX)
            .number("half", 0.5)
            .number("huge", 1e300)
            .object("nothing", Object::new())
            .object("inner", inner);
        let expected =
            json!({"most": u64::MAX, "half": 0.5, "huge": 1e300, "nothing": {}, "inner": {"a\"b": "c\\d"}});
        assert_eq!(parse(object), expected);
    }

    #[test]
    fn numbers_that_are_not_finite_are_null() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(parse(Object::new().number("x", value)), json!({ "x": null }));
        }
    }

    #[test]
    fn a_reader_gets_every_character_back() {
        let all: String = ('\0'..='\u{ff}')
            .chain(['\u{2028}', '\u{fffe}', '\u{10ffff}', '😀'])
            .collect();
        let object = Object::new().string(&all, &all);
        assert_eq!(parse(object), json!({ all.as_str(): all }));
    }

    proptest! {
        /// Times of the size that traces have. In larger numbers serde_json rounds the last digit
        /// differently.
        #[test]
        fn a_reader_gets_any_text_and_any_time_back(name: String, text: String, ns in 0..1_u64 << 50) {
            let us = ns as f64 / 1e3;
            let object = Object::new()
                .string(&name, &text)
                .object("times", Object::new().number(&name, us));
            let read = parse(object);
            prop_assert_eq!(read["times"][&name].as_f64(), Some(us));
            if name != "times" {
                prop_assert_eq!(read[&name].as_str(), Some(&*text));
            }
        }
    }
}
