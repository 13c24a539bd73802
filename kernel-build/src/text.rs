//! Removes from a module's text what depends on the place of the sources, and what the names of
//! source files could add to it.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use crate::verify::{Refusal, text};

/// Replaces the crate hashes in Rust's symbols (`Cs…_`, v0 mangling) by numbers, in order of
/// appearance. A hash depends on paths. Neither a reader nor the linker needs it, because the text
/// holds the whole module.
///
/// # Errors
/// Two names would become one. A crate can choose a name in which a number stands for the hash
/// already, and identifiers that look like a hash.
pub(crate) fn renumber_crate_hashes(ptx: &str) -> Result<String, Refusal> {
    let renumbered = renumber_all(ptx);
    let count = |text: &str| text.split(|c| !is_in_name(c)).collect::<HashSet<_>>().len();
    // Each name is replaced alike wherever it stands. So the names stay distinct if their number
    // stays the same.
    if count(ptx) != count(&renumbered) {
        return text(
            0,
            "two names would be one without the hashes of their crates: call the kernels, statics and functions \
             otherwise, so that no name has `Cs` with a number or a hash in it",
        );
    }
    Ok(renumbered)
}

/// Whether it is part of a name in PTX. Some names of LLVM have dots.
fn is_in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.')
}

/// LLVM's text for a dot in a name. Behind it, a symbol of Rust may stand: a table of the function
/// `f` is called `switch.table.f`.
const DOT: &str = "_$_";

fn renumber_all(ptx: &str) -> String {
    let mut numbers = HashMap::new();
    let mut out = String::with_capacity(ptx.len());
    let mut done = 0;
    while let Some(start) = ptx[done..].find("_R") {
        // Also what was taken before: `_R_R` is no start of a symbol, but the end of a name.
        let (before, symbol) = ptx.split_at(done + start);
        out.push_str(&before[done..]);
        let continues =
            before.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_') && !before.ends_with(DOT);
        let length = symbol.find(|c: char| !is_in_name(c)).unwrap_or(symbol.len());
        let symbol = &symbol[..if continues { 2 } else { length }];
        renumber(symbol, &mut numbers, &mut out);
        done = before.len() + symbol.len();
    }
    out.push_str(&ptx[done..]);
    out
}

/// Replaces the hashes in one symbol. A crate's hash is in base 62, and ends in `_`. The crate's
/// name follows: its length in decimal, and its text.
fn renumber<'a>(symbol: &'a str, numbers: &mut HashMap<&'a str, usize>, out: &mut String) {
    let mut rest = symbol;
    while let Some(start) = rest.find("Cs") {
        let (before, from) = rest.split_at(start + 2);
        out.push_str(before);
        let end = from.find('_').unwrap_or(0);
        let (hash, after) = from.split_at(end);
        let is_hash = hash.len() >= 8
            && hash.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && after[1..].starts_with(|c: char| c.is_ascii_digit());
        if is_hash {
            let next = numbers.len();
            let number = *numbers.entry(hash).or_insert(next);
            write!(out, "{number}").expect("a write to a string does not fail");
            rest = after;
        } else {
            rest = from;
        }
    }
    out.push_str(rest);
}

/// Writes the paths in `.file` without the escapes of LLVM. PTX knows no escapes, so the quote of
/// `\"` would end the string, and the rest of the path would be PTX. A backslash becomes a slash,
/// and each other character that LLVM escapes becomes `_`.
pub(crate) fn plain_file_names(ptx: &str) -> String {
    let mut out = String::with_capacity(ptx.len());
    for line in ptx.split_inclusive('\n') {
        let parts = line
            .split_once('"')
            .filter(|_| line.trim_start().starts_with(".file"));
        match parts.and_then(|(before, rest)| Some((before, rest.rsplit_once('"')?))) {
            Some((before, (path, after))) => {
                write!(out, "{before}\"{}\"{after}", plain_path(path))
                    .expect("a write to a string does not fail");
            }
            None => out.push_str(line),
        }
    }
    out
}

fn plain_path(escaped: &str) -> String {
    let mut plain = String::with_capacity(escaped.len());
    let mut rest = escaped.chars();
    while let Some(c) = rest.next() {
        plain.push(match c {
            '\\' => match rest.next() {
                Some('\\') => '/',
                // Three octal digits are one byte.
                Some('0'..='7') => {
                    rest.nth(1);
                    '_'
                }
                _ => '_',
            },
            ' '..='~' if c != '"' => c,
            _ => '_',
        });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::{plain_file_names, renumber_crate_hashes};

    #[test]
    fn paths_have_no_escapes() {
        for (path, plain) in [
            ("/k/src/lib.rs", "/k/src/lib.rs"),
            ("C:\\\\k\\\\lib.rs", "C:/k/lib.rs"),
            ("/j\\303\\274rgen/\\n/\\\\\\\"", "/j__rgen/_//_"),
            (
                "x\\\" .global .b32 counter; //m.rs",
                "x_ .global .b32 counter; //m.rs",
            ),
            ("\\", "_"),
        ] {
            let text = |path: &str| format!("ret; // \"\\\"\n\t.file\t1 \"{path}\"\n}}");
            assert_eq!(plain_file_names(&text(path)), text(plain));
        }
    }

    #[test]
    fn hashes_are_numbered_in_order_of_appearance() {
        let one = "call _RNvNtCshhLTDCMilYV_4core9panicking9panic_fmt;\n.func _RNvCsabcdefghijk_4mine1f\ncall _RNvNtCshhLTDCMilYV_4core3ops1g;";
        let two = one
            .replace("hhLTDCMilYV", "1111111111")
            .replace("abcdefghijk", "ZZZZZZZZZZ");
        assert_eq!(
            renumber_crate_hashes(one).unwrap(),
            renumber_crate_hashes(&two).unwrap()
        );
        assert_eq!(
            renumber_crate_hashes(one).unwrap(),
            "call _RNvNtCs0_4core9panicking9panic_fmt;\n.func _RNvCs1_4mine1f\ncall _RNvNtCs0_4core3ops1g;"
        );
    }

    /// LLVM calls a table after its function.
    #[test]
    fn the_hash_in_the_name_of_a_table_is_numbered() {
        let text =
            "mov.b64 %rd1, switch_$_table_$__RNvCsabcdefghijk_4mine1f;\n.func _RNvCsabcdefghijk_4mine1f";
        assert_eq!(
            renumber_crate_hashes(text).unwrap(),
            "mov.b64 %rd1, switch_$_table_$__RNvCs0_4mine1f;\n.func _RNvCs0_4mine1f"
        );
    }

    #[test]
    fn everything_else_stays_as_it_is() {
        for text in [
            "",
            "Cs",
            "_R",
            "_RCs",
            "x_RNvCsabcdefghijk_4mine",
            "x_R_RNvCsabcdefghijk_9y__a914835160b8b235",
            ".entry R_RNvCsabcdefghijk_9y; __cuda_rt_layout_R_RNvCsabcdefghijk_9y",
            ".entry scale__0123456789abcdef(",
            "_RNvNtCs_4core",
        ] {
            assert_eq!(renumber_crate_hashes(text).unwrap(), text);
        }
    }

    /// The first two names are those of a static and of a kernel's parameter, the others those of
    /// two statics.
    #[test]
    fn names_that_would_become_one_are_refused() {
        for (one, other) in [
            (
                "_RNvCsabcdefghijk_6shadow27T__0123456789abcdef_param_0",
                "_RNvCs0_6shadow27T__0123456789abcdef_param_0",
            ),
            (
                "_RNvCsabcdefghijk_4mine14Csabcdefghi_4x",
                "_RNvCsabcdefghijk_4mine14Cs1_4x",
            ),
        ] {
            let text = format!(".global .b32 {one};\n.global .b32 {other};");
            let refusal = renumber_crate_hashes(&text).unwrap_err();
            assert!(
                refusal.to_string().contains("two names would be one"),
                "{refusal}"
            );
            renumber_crate_hashes(&text.replace(other, one)).unwrap();
        }
    }
}
