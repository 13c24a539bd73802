//! The sizes of types and of local variables, in the text of the optimised LLVM module.
//!
//! LLVM counts some sizes in 32 bits, and wraps them without a word. Counterexamples: of two local
//! variables of 4 GiB, both lie at the start of the function's local memory, so one overwrites the
//! other. A function that returns 4 GiB and 4 bytes has a result of 4 bytes in the PTX.
//!
//! The verifier compares what the PTX declares with the limits of a GPU (`verify/sizes.rs`). This
//! is not enough, because a declaration may have wrapped as well: LLVM declares local variables
//! as one, whose size is the sum in 64 bits. Sixteen variables of 2^60 bytes have the sum 0. So
//! this search reads the types themselves, before LLVM adds any sizes up.

use std::collections::HashMap;

use crate::error::BuildError;
use crate::statics::readable;
use crate::verify::MOST_LOCAL_BYTES;

/// The largest type: sizes and offsets inside it fit the 31 bits of LLVM's offsets.
const MOST_BYTES: u128 = 1 << 30;

/// What a size counts as, if it is larger. Sums of such sizes fit the number.
const CEILING: u128 = 1 << 100;

/// The size and the alignment of a type, in bytes.
type Layout = (u128, u128);

/// Refuses a module with a type or with local variables that are too large.
pub(crate) fn refuse(llvm_ir: &str) -> Result<(), BuildError> {
    let named = named_types(llvm_ir);
    let of = |name: Option<&str>| name.map_or_else(|| "the module".to_owned(), readable_name);
    let too_large = |what: String, most: u128| Err(BuildError::TooLarge { what, most });
    let (mut function, mut locals) = (None, 0);
    // The message about local variables is the better one, and some types are theirs.
    let mut first = Ok(());
    for line in llvm_ir.lines().filter(|line| !line.starts_with(';')) {
        if line.starts_with("define ") {
            (function, locals) = (name(line), 0);
        }
        for at in unquoted(line) {
            let text = &line[at..];
            if let Some(variable) = text.strip_prefix("= alloca ") {
                locals += local(variable, &named);
            }
            if locals > u128::from(MOST_LOCAL_BYTES) {
                let what = format!("the local variables of {}", of(function));
                return too_large(what, u128::from(MOST_LOCAL_BYTES));
            }
            let bytes = layout(text, &named).map(|((bytes, _), _)| bytes);
            // An array that is not understood counts as too large.
            let is_too_large = bytes.map_or_else(|| is_array(text), |bytes| bytes > MOST_BYTES);
            if is_too_large && first.is_ok() {
                let name = if line.starts_with(' ') {
                    function
                } else {
                    name(line)
                };
                first = too_large(format!("a type in {}", of(name)), MOST_BYTES);
            }
        }
    }
    first
}

/// The places of a line, outside quotation marks, at which a type may begin that has several parts,
/// or where a local variable does.
fn unquoted(line: &str) -> impl Iterator<Item = usize> + '_ {
    let mut is_quoted = false;
    line.bytes().enumerate().filter_map(move |(at, byte)| {
        // LLVM writes a quotation mark inside a name or a string as `\22`.
        is_quoted ^= byte == b'"';
        (!is_quoted && matches!(byte, b'[' | b'{' | b'<' | b'=')).then_some(at)
    })
}

/// The name of the function or the variable that a line defines.
fn name(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once('@')?;
    rest.split(['(', ' ']).next().map(|name| name.trim_matches('"'))
}

fn readable_name(symbol: &str) -> String {
    // The entry's name is the kernel's name, two underscores and a hash.
    let kernel = symbol.rsplit_once("__").filter(|_| !symbol.starts_with("_R"));
    format!(
        "`{}`",
        kernel.map_or_else(|| readable(symbol), |(name, _)| name.to_owned())
    )
}

/// The bytes of a local variable: `[8 x i8], align 8`. One that is not understood counts as too
/// large, as does one whose size only the run decides.
fn local(text: &str, named: &HashMap<&str, Layout>) -> u128 {
    let bytes = || {
        let ((bytes, _), rest) = layout(text, named)?;
        let (align, rest) = number(rest.strip_prefix(", align ")?)?;
        let is_end = rest.is_empty() || rest.starts_with(", !");
        (is_end && align > 0).then(|| bytes.max(1).next_multiple_of(align))
    };
    bytes().unwrap_or(CEILING)
}

/// The layouts of the types that have names. A type is left out if its layout is not known.
fn named_types(llvm_ir: &str) -> HashMap<&str, Layout> {
    let lines = llvm_ir.lines().filter(|line| line.starts_with('%'));
    let mut open: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(" = type ")).collect();
    let mut named = HashMap::new();
    loop {
        let before = open.len();
        open.retain(|(name, text)| match layout(text, &named) {
            Some((of_type, "")) => {
                named.insert(*name, of_type);
                false
            }
            _ => true,
        });
        if open.len() == before {
            return named;
        }
    }
}

fn number(text: &str) -> Option<(u128, &str)> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, rest) = text.split_at(digits);
    Some((number.parse().ok()?, rest))
}

/// Whether a type begins here of which many follow each other.
fn is_array(text: &str) -> bool {
    let rest = text.strip_prefix(['[', '<']).and_then(number);
    rest.is_some_and(|(_, rest)| rest.starts_with(" x "))
}

/// The layout of the type at the text's start, and the text behind the type.
fn layout<'t>(text: &'t str, named: &HashMap<&str, Layout>) -> Option<(Layout, &'t str)> {
    let fields = |text, end, most_align: u128| {
        let ((mut size, mut align), mut rest): (Layout, &str) = ((0, 1), text);
        while let Some(field) = rest.strip_prefix([',', ' ']) {
            let field = field.trim_start();
            if field.starts_with(end) {
                rest = field;
                break;
            }
            let ((of_field, aligned), behind) = layout(field, named)?;
            let aligned = aligned.min(most_align);
            size = size.next_multiple_of(aligned) + of_field;
            (align, rest) = (align.max(aligned), behind);
        }
        let rest = rest.strip_prefix(end)?;
        Some(((size.next_multiple_of(align).min(CEILING), align), rest))
    };
    if let Some(rest) = text.strip_prefix("<{") {
        return fields(rest, "}>", 1);
    }
    if let Some(rest) = text.strip_prefix('{') {
        return fields(rest, "}", u128::MAX);
    }
    if is_array(text) {
        let (count, rest) = number(&text[1..])?;
        let ((size, align), rest) = layout(rest.strip_prefix(" x ")?, named)?;
        let size = size.saturating_mul(count).min(CEILING);
        return match text.as_bytes()[0] {
            b'[' => Some(((size, align), rest.strip_prefix(']')?)),
            _ => {
                let size = size.next_power_of_two();
                Some(((size, size.min(16)), rest.strip_prefix('>')?))
            }
        };
    }
    if let Some(rest) = text.strip_prefix("%\"") {
        let name = &text[..rest.find('"')? + 3];
        return Some((*named.get(name)?, &text[name.len()..]));
    }
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '%' | '.' | '_' | '$' | '-');
    let (word, rest) = text.split_at(text.find(|c| !is_word(c)).unwrap_or(text.len()));
    let size = match word {
        "half" | "bfloat" => 2,
        "float" => 4,
        "double" => 8,
        "fp128" => 16,
        "ptr" => {
            let space = rest.strip_prefix(" addrspace(").and_then(number);
            let rest = space.map_or(Some(rest), |(_, rest)| rest.strip_prefix(')'))?;
            return Some(((8, 8), rest));
        }
        _ if word.starts_with('%') => return Some((*named.get(word)?, rest)),
        _ => {
            let (bits, "") = number(word.strip_prefix('i')?)? else {
                return None;
            };
            bits.min(CEILING).div_ceil(8).next_power_of_two()
        }
    };
    Some(((size, size.min(16)), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(llvm_ir: &str, what: &str) {
        match refuse(llvm_ir) {
            Err(BuildError::TooLarge { what: found, .. }) => assert_eq!(found, what, "{llvm_ir}"),
            other => panic!("{other:?}: {llvm_ir}"),
        }
    }

    fn function(lines: &[&str]) -> String {
        let lines: String = lines.iter().map(|line| format!("  {line}\n")).collect();
        format!(
            "; mix\ndefine internal fastcc i32 @mix__0123456789abcdef(ptr %a) #1 {{\nstart:\n{lines}  ret i32 0\n}}\n"
        )
    }

    #[test]
    fn local_variables_above_the_limit_are_refused() {
        let what = "the local variables of `mix`";
        for bytes in [
            1 << 20,
            (1 << 30) - 1,
            (1 << 31) - 16,
            1 << 31,
            (1 << 32) - 8,
            1 << 32,
            (1 << 32) + 16,
            1 << 33,
            (1 << 54) + 1,
            u64::MAX,
        ] {
            let one = format!("%a = alloca [{bytes} x i8], align 4");
            refused(&function(&[&one]), what);
            refused(&function(&[&one, &one]), what);
        }
        // LLVM declares 64 bytes for these.
        let mut lines = vec!["%a = alloca [1152921504606846976 x i8], align 1"; 16];
        lines.push("%b = alloca [64 x i8], align 1");
        refused(&function(&lines), what);
        refused(&function(&["%a = alloca [262144 x i8], align 4"; 3]), what);
        for line in [
            "%a = alloca [1024 x [1024 x i8]], align 4",
            "%a = alloca { i8, [65536 x i64] }, align 8",
            "%a = alloca <{ [131072 x i32], i8 }>, align 8",
            "%a = alloca [4 x %\"a::B\"], align 8",
            "%a = alloca %C, align 8, !dbg !7",
            "%a = alloca i8, i64 1024, align 8",
            "%a = alloca i8, i64 %n, align 8",
            "%a = alloca inalloca i8, align 8",
            "%a = alloca {}, align 1048576",
            "%a = alloca [0 x i8], align 1048576",
            "%\"x = alloca i8, align 1\" = alloca [1048576 x i8], align 1",
            "%a = alloca i8",
            "%a = alloca %unknown, align 8",
            "%a = alloca i4194312, align 8",
        ] {
            let text = format!(
                "%C = type {{ [4 x %\"a::B\"] }}\n%\"a::B\" = type {{ [32768 x double], i8 }}\n{}",
                function(&[line])
            );
            refused(&text, what);
        }
    }

    #[test]
    fn local_variables_up_to_the_limit_pass() {
        for line in [
            "%a = alloca [524288 x i8], align 4",
            "%a = alloca { i8, [32767 x i64] }, align 8",
            "%a = alloca %\"a::B\", align 8",
            "%a = alloca [16 x <4 x float>], align 16, !dbg !7",
            "%a = alloca ptr addrspace(3), align 8",
            "%a = alloca {}, align 1",
            "%\"y = alloca [1048576 x i8], align 1\" = alloca i1, align 1",
        ] {
            let text = format!("%\"a::B\" = type {{ [4 x double], i8 }}\n{}", function(&[line]));
            refuse(&text).unwrap_or_else(|error| panic!("{line}: {error}"));
            // Each function has its own.
            refuse(&format!("{text}{text}")).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }

    #[test]
    fn large_types_are_refused_wherever_they_stand() {
        for (line, what) in [
            ("define [4294967300 x i8] @_RNvCs1_1k4give() {", "`k::give`"),
            ("define void @f(ptr byval([4294967300 x i8]) %a) {", "`f`"),
            ("declare { [8 x i8], [1048576 x [1048576 x i8]] } @f()", "`f`"),
            (
                "@TABLE = constant <{ [2147483648 x i8], [16 x i8] }> undef, align 4",
                "`TABLE`",
            ),
            (
                "@TABLE = constant <{ [1073741823 x i8], [2 x i8] }> undef, align 4",
                "`TABLE`",
            ),
            ("@TABLE = constant [2147483648 x %\"a b\"] undef", "`TABLE`"),
        ] {
            refused(&format!("{line}\n"), &format!("a type in {what}"));
        }
        let call = function(&["%r = call [4294967300 x i8] @f()"]);
        refused(&call, "a type in `mix`");
        for line in [
            "@text = constant [29 x i8] c\"[4294967300 x i8] = alloca x \\22\", align 1",
            "; [4294967300 x i8]",
            "!1 = !{!\"[4294967300 x i8]\", i64 4294967300}",
            "@TABLE = constant <{ [1048576 x i8], ptr, i64 }> <{ [1048576 x i8] undef, ptr null, i64 1 }>",
            "attributes #0 = { \"target-cpu\"=\"sm_80\" }",
        ] {
            refuse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }
}
