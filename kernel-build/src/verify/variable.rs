//! Variables and parameters of PTX: state space, type, size and initialiser (PTX ISA, chapter 5,
//! "State Spaces, Types, and Variables").

use super::directives::{name, number};
use super::error::{Refusal, text};
use super::lex::Cursor;

/// The state space of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Space {
    Global,
    Const,
    Shared,
    Local,
    Param,
}

impl Space {
    pub(super) fn of(directive: &str) -> Option<Self> {
        Some(match directive {
            ".global" => Self::Global,
            ".const" => Self::Const,
            ".shared" => Self::Shared,
            ".local" => Self::Local,
            ".param" => Self::Param,
            _ => return None,
        })
    }
}

/// A variable, or a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Variable<'a> {
    pub(super) name: &'a str,
    pub(super) space: Space,
    pub(super) line: u32,
    pub(super) align: u64,
    /// The size in bytes; `None` for `[]`, where the launch decides it.
    pub(super) size: Option<u64>,
    pub(super) is_initialised: bool,
    /// The size of one element in bytes.
    element: u64,
    /// The numbers of the initialiser, as the text writes them.
    values: Vec<String>,
    /// Whether its initialiser names other variables.
    pub(super) has_addresses: bool,
}

impl Variable<'_> {
    /// The contents as words of eight bytes, lowest byte first. LLVM writes a table as bytes or as
    /// words, and may leave out zeros at the end.
    pub(super) fn words(&self) -> Option<Vec<u64>> {
        let size = usize::try_from(self.size?).ok()?;
        let values: Option<Vec<u64>> = self.values.iter().map(|value| unsigned(value)).collect();
        let values = values?;
        let element = usize::try_from(self.element).ok()?;
        if self.has_addresses || !size.is_multiple_of(8) || values.len().checked_mul(element)? > size {
            return None;
        }
        let mut words = vec![0; size / 8];
        for (at, value) in values.into_iter().enumerate() {
            let at = at * element;
            words[at / 8] |= value << (at % 8 * 8);
        }
        Some(words)
    }
}

fn unsigned(text: &str) -> Option<u64> {
    if let Some(hexadecimal) = text.strip_prefix("0x") {
        return u64::from_str_radix(hexadecimal, 16).ok();
    }
    text.parse()
        .ok()
        .or_else(|| text.parse::<i64>().ok().map(i64::cast_unsigned))
}

/// The size in bytes of a type, such as `.b32`.
pub(super) fn type_size(directive: &str) -> Option<u64> {
    Some(match directive {
        ".pred" => 1,
        ".b8" | ".u8" | ".s8" => 1,
        ".b16" | ".u16" | ".s16" | ".f16" | ".bf16" => 2,
        ".b32" | ".u32" | ".s32" | ".f32" | ".f16x2" | ".bf16x2" | ".u16x2" | ".s16x2" => 4,
        ".b64" | ".u64" | ".s64" | ".f64" | ".f32x2" => 8,
        ".b128" => 16,
        _ => return None,
    })
}

/// Whether a word is a number: an integer or a float, as PTX writes them (PTX ISA, chapter 4,
/// "Constants").
pub(super) fn is_literal(word: &str) -> bool {
    let all = |digits: &str, is_digit: fn(char) -> bool| !digits.is_empty() && digits.chars().all(is_digit);
    let is_hex = |c: char| c.is_ascii_hexdigit();
    let is_decimal = |c: char| c.is_ascii_digit();
    let float = |prefix: [&str; 2], length: usize| {
        let digits = prefix.iter().find_map(|prefix| word.strip_prefix(prefix));
        digits.is_some_and(|digits| digits.len() == length && all(digits, is_hex))
    };
    let whole = word.strip_suffix('U').unwrap_or(word);
    let hex = whole.strip_prefix("0x").or(whole.strip_prefix("0X"));
    // A number with a zero before it is octal.
    all(whole, is_decimal) && (whole == "0" || !whole.starts_with('0'))
        || hex.is_some_and(|digits| all(digits, is_hex))
        || float(["0f", "0F"], 8)
        || float(["0d", "0D"], 16)
        || word
            .split_once('.')
            .is_some_and(|(a, b)| all(a, is_decimal) && all(b, is_decimal))
}

/// `.space [.align n] [.v4] .type [.ptr [.space] [.align n]] name [[n]…] [= initialiser]`
pub(super) fn variable<'a>(cursor: &mut Cursor<'a, '_>) -> Result<Variable<'a>, Refusal> {
    let line = cursor.line();
    let Some(space) = Space::of(cursor.next()?) else {
        return text(line, "the variable has no state space");
    };
    let (mut align, mut element, mut lanes, mut is_pointer) = (None, None, 1, false);
    let name = loop {
        if !cursor.peek().is_some_and(|word| word.starts_with('.')) {
            break name(cursor)?;
        }
        let word = cursor.next()?;
        match word {
            ".ptr" => is_pointer = true,
            ".align" => {
                let number = number(cursor)?;
                // After `.ptr`, the alignment belongs to the memory that the pointer points to.
                if !is_pointer {
                    align = Some(number);
                }
            }
            ".v2" => lanes = 2,
            ".v4" => lanes = 4,
            ".attribute" => {
                cursor.expect("(")?;
                cursor.expect(".managed")?;
                cursor.expect(")")?;
            }
            _ if is_pointer && Space::of(word).is_some() => {}
            _ => match type_size(word) {
                Some(size) => element = Some(size),
                None => return text(line, format!("the verifier does not know the type `{word}`")),
            },
        }
    };
    let Some(element) = element else {
        return text(line, format!("`{name}` has no type"));
    };
    let mut size = Some(element * lanes);
    while cursor.take("[") {
        if cursor.take("]") {
            size = None;
            continue;
        }
        let length = number(cursor)?;
        if let Some(bytes) = size {
            size = bytes.checked_mul(length);
            if size.is_none() {
                return text(
                    line,
                    format!("`{name}` has more bytes than a number of 64 bits counts"),
                );
            }
        }
        cursor.expect("]")?;
    }
    let is_initialised = cursor.take("=");
    let mut contents = Contents::default();
    if is_initialised {
        contents.read(cursor, 0)?;
    }
    Ok(Variable {
        name,
        space,
        line,
        align: align.unwrap_or(element * lanes),
        size,
        is_initialised,
        element,
        values: contents.values,
        has_addresses: contents.has_addresses,
    })
}

/// The deepest list in a list of an initialiser. LLVM writes no list in a list.
const DEEPEST: u32 = 8;

/// What an initialiser holds. Only a list of numbers has known contents: no name, no expression, no
/// list in a list.
#[derive(Default)]
struct Contents {
    values: Vec<String>,
    has_addresses: bool,
}

impl Contents {
    /// `{ initialiser, … }`, `[-] number`, or `[mask] ( name )` with an offset, where `generic`
    /// may stand before the name.
    fn read(&mut self, cursor: &mut Cursor<'_, '_>, depth: u32) -> Result<(), Refusal> {
        if cursor.take("{") {
            if depth == DEEPEST {
                return text(cursor.line(), "the initialiser has too many lists in a list");
            }
            self.has_addresses |= depth > 0;
            while !cursor.take("}") {
                self.read(cursor, depth + 1)?;
                if cursor.peek() != Some("}") {
                    cursor.expect(",")?;
                }
            }
            return Ok(());
        }
        let sign = if cursor.take("-") { "-" } else { "" };
        if let Some(word) = cursor.peek().filter(|word| is_literal(word)) {
            cursor.next()?;
            self.values.push(format!("{sign}{word}"));
            if cursor.peek() != Some("(") {
                return Ok(());
            }
        } else if cursor.peek() != Some("(") {
            name(cursor)?;
        }
        self.has_addresses = true;
        if cursor.take("(") {
            if name(cursor)? == "generic" && cursor.take("(") {
                name(cursor)?;
                cursor.expect(")")?;
            }
            cursor.expect(")")?;
        }
        if cursor.take("+") {
            number(cursor)?;
        }
        Ok(())
    }
}
