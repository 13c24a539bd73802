//! Directives of PTX that declare neither a variable nor a function (PTX ISA, chapter 11,
//! "Directives"), and the words of all directives: names, numbers and strings.
//!
//! The grammar is closed. An end of line ends no directive: PTX takes it for a space, and ptxas
//! goes on with the next word.

use super::error::{Refusal, text};
use super::lex::Cursor;

/// `.version n.n`
pub(super) fn version(cursor: &mut Cursor<'_, '_>) -> Result<(), Refusal> {
    cursor.expect(".version")?;
    let line = cursor.line();
    let word = cursor.next()?;
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    match word.split_once('.') {
        Some((major, minor)) if is_number(major) && is_number(minor) => Ok(()),
        _ => text(line, format!("`{word}` is not a version")),
    }
}

/// `.target name, …`: the first name.
pub(super) fn target<'a>(cursor: &mut Cursor<'a, '_>) -> Result<&'a str, Refusal> {
    cursor.expect(".target")?;
    let architecture = name(cursor)?;
    while cursor.take(",") {
        name(cursor)?;
    }
    Ok(architecture)
}

/// `.address_size 64`
pub(super) fn address_size(cursor: &mut Cursor<'_, '_>) -> Result<(), Refusal> {
    cursor.expect(".address_size")?;
    cursor.expect("64")
}

/// `.file number "path" [, time, size]`: the number and the path.
pub(super) fn file<'a>(cursor: &mut Cursor<'a, '_>) -> Result<(u64, &'a str), Refusal> {
    cursor.expect(".file")?;
    let file = (number(cursor)?, string(cursor)?);
    if cursor.take(",") {
        number(cursor)?;
        cursor.expect(",")?;
        number(cursor)?;
    }
    Ok(file)
}

/// `.loc file line column [, function_name label [+ n], inlined_at file line column]`: the file and
/// the line.
pub(super) fn location(cursor: &mut Cursor<'_, '_>) -> Result<(u64, u32), Refusal> {
    cursor.expect(".loc")?;
    let (file, line) = (number(cursor)?, number(cursor)?);
    number(cursor)?;
    if cursor.take(",") {
        cursor.expect("function_name")?;
        name(cursor)?;
        if cursor.take("+") {
            number(cursor)?;
        }
        cursor.expect(",")?;
        cursor.expect("inlined_at")?;
        for _ in 0..3 {
            number(cursor)?;
        }
    }
    Ok((file, u32::try_from(line).unwrap_or(u32::MAX)))
}

/// `.pragma "nounroll";` Other pragmas can change where the program keeps its registers.
pub(super) fn pragma(cursor: &mut Cursor<'_, '_>) -> Result<(), Refusal> {
    cursor.expect(".pragma")?;
    cursor.expect("\"nounroll\"")?;
    cursor.expect(";")
}

/// `.section .debug_name { }`: LLVM writes one without contents beside source lines.
pub(super) fn section(cursor: &mut Cursor<'_, '_>) -> Result<(), Refusal> {
    cursor.expect(".section")?;
    let line = cursor.line();
    let word = cursor.next()?;
    if !word.starts_with(".debug_") {
        return text(line, format!("the verifier does not know the section `{word}`"));
    }
    cursor.expect("{")?;
    cursor.expect("}")
}

/// A name (PTX ISA, chapter 4, "Identifiers").
pub(super) fn name<'a>(cursor: &mut Cursor<'a, '_>) -> Result<&'a str, Refusal> {
    let line = cursor.line();
    let word = cursor.next()?;
    let (first, rest) = word.split_at(1);
    let is_first = match first.as_bytes()[0] {
        b'_' | b'$' | b'%' => !rest.is_empty(),
        byte => byte.is_ascii_alphabetic(),
    };
    let is_rest = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$');
    if is_first && rest.bytes().all(is_rest) {
        return Ok(word);
    }
    text(line, format!("expected a name, found `{word}`"))
}

/// A decimal number. A number with a zero before it is octal in PTX.
pub(super) fn number(cursor: &mut Cursor<'_, '_>) -> Result<u64, Refusal> {
    let line = cursor.line();
    let word = cursor.next()?;
    match word.parse() {
        Ok(number) if word == "0" || !word.starts_with('0') => Ok(number),
        _ => text(line, format!("expected a decimal number, found `{word}`")),
    }
}

/// The contents of a string.
fn string<'a>(cursor: &mut Cursor<'a, '_>) -> Result<&'a str, Refusal> {
    let line = cursor.line();
    let word = cursor.next()?;
    match word.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(contents) => Ok(contents),
        None => text(line, format!("expected a string, found `{word}`")),
    }
}
