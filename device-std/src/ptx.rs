//! Reads layout tables, parameters and entries from a text of PTX.

/// Prefix of the name of a kernel's layout table; the entry's name follows.
pub const LAYOUT_PREFIX: &str = "__cuda_rt_layout_";

/// The layout table of the entry `symbol`, which the device build put beside the entry. On the
/// host, `Kernel::layout` holds the same numbers. `None` if the PTX has no layout table for the
/// entry, or a table that cannot be read.
///
/// ```
/// let ptx = ".visible .global .align 8 .b8 __cuda_rt_layout_scale[8] = \
///            {1, 2, 0, 0, 0, 0, 0, 128};";
/// assert_eq!(device_std::ptx::layout_table(ptx, "scale"), Some(vec![0x8000_0000_0000_0201]));
/// ```
pub fn layout_table(ptx: &str, symbol: &str) -> Option<Vec<u64>> {
    let name = format!("{LAYOUT_PREFIX}{symbol}[");
    // LLVM writes a static as bytes or as words.
    code(ptx).lines().find_map(|line| {
        let (declaration, rest) = line.split_once(&name)?;
        // A name that only ends like this one is another entry's.
        let is_whole = declaration.ends_with(char::is_whitespace);
        if !is_whole || !declaration.trim_start().starts_with(".visible .global") {
            return None;
        }
        let (length, rest) = rest.split_once(']')?;
        let length: usize = length.parse().ok()?;
        let list = rest.split_once('{').map_or("", |(_, list)| list);
        let mut values = list
            .split('}')
            .next()?
            .split(',')
            .map(str::trim)
            .filter(|v| !v.is_empty());
        match declaration.split_whitespace().last()? {
            ".b8" | ".u8" => bytes(&mut values, length),
            ".b64" | ".u64" | ".s64" => words(&mut values, length),
            _ => None,
        }
    })
}

/// Prefix of the name of a kernel's table of parameters; the entry's name follows.
pub const PARAMETERS_PREFIX: &str = "__cuda_rt_parameters_";

/// Size and alignment, in bytes, of each parameter of the entry `symbol`, as the entry's head in
/// the PTX declares them. `None` if the PTX has no entry of this name, or a head that cannot be
/// read.
///
/// ```
/// let ptx = ".visible .entry scale(\n\t.param .u64 .ptr .align 4 a,\n\
///            \t.param .align 8 .b8 b[24]\n)\n{ ret; }";
/// assert_eq!(device_std::ptx::parameters(ptx, "scale"), Some(vec![(8, 8), (24, 8)]));
/// ```
pub fn parameters(ptx: &str, symbol: &str) -> Option<Vec<(usize, usize)>> {
    each_parameter(ptx, symbol, |text| {
        let Parameter {
            size, align, length, ..
        } = parameter(text)?;
        Some((size.checked_mul(length.unwrap_or(1))?, align.unwrap_or(size)))
    })
}

/// The type of each parameter of the entry `symbol`, as the entry's head in the PTX states it. The
/// type of an array is its element's type and brackets. `None` as of [`parameters`].
///
/// ```
/// let ptx = ".visible .entry scale(\n\t.param .u64 .ptr .align 4 a,\n\
///            \t.param .f32 b, .param .align 8 .b8 c[24]\n)\n{ ret; }";
/// let types = device_std::ptx::parameter_types(ptx, "scale").unwrap();
/// assert_eq!(types, [".u64", ".f32", ".b8[]"]);
/// ```
pub fn parameter_types(ptx: &str, symbol: &str) -> Option<Vec<String>> {
    each_parameter(ptx, symbol, |text| {
        let Parameter { word, length, .. } = parameter(text)?;
        let brackets = if length.is_some() { "[]" } else { "" };
        Some(format!("{word}{brackets}"))
    })
}

/// What `read` makes of the text of each parameter of the entry `symbol`.
fn each_parameter<T>(ptx: &str, symbol: &str, read: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
    let code = code(ptx);
    let head = code.match_indices(".entry").find_map(|(at, directive)| {
        let rest = &code[at + directive.len()..];
        // `.entry` may also be the end, or the start, of another word. `.visible` may adjoin it.
        let before = &code[..at];
        let before = before.strip_suffix(".visible").unwrap_or(before);
        let begins = before.ends_with(|c: char| c.is_whitespace() || matches!(c, ';' | '}'));
        if !(begins || before.is_empty()) || !rest.starts_with(char::is_whitespace) {
            return None;
        }
        let rest = rest.trim_start().strip_prefix(symbol)?.trim_start();
        // An entry without parentheses takes no parameters.
        match rest.strip_prefix('(') {
            Some(head) => head.split_once(')').map(|(head, _)| head),
            None => rest.starts_with('{').then_some(""),
        }
    })?;
    head.split(',')
        .map(str::trim)
        .filter(|parameter| !parameter.is_empty())
        .map(read)
        .collect()
}

/// A parameter of an entry, as its head declares it.
struct Parameter<'a> {
    /// The type, with its dot.
    word: &'a str,
    /// Bytes of the type.
    size: usize,
    align: Option<usize>,
    /// The elements of an array.
    length: Option<usize>,
}

/// `.param [.align n] .type [.ptr [.space] [.align n]] name[[n]]`
fn parameter(text: &str) -> Option<Parameter<'_>> {
    let (text, length) = match text.split_once('[') {
        Some((text, length)) => (text, Some(number(length.strip_suffix(']')?.trim())?)),
        None => (text, None),
    };
    let mut words = text.split_whitespace();
    if words.next()? != ".param" {
        return None;
    }
    let mut align = None;
    let mut word = words.next()?;
    if word == ".align" {
        align = Some(number(words.next()?)?);
        word = words.next()?;
    }
    let size: usize = match word {
        ".b8" | ".u8" | ".s8" => 1,
        ".b16" | ".u16" | ".s16" | ".f16" | ".bf16" => 2,
        ".b32" | ".u32" | ".s32" | ".f32" | ".f16x2" | ".bf16x2" => 4,
        ".b64" | ".u64" | ".s64" | ".f64" => 8,
        _ => return None,
    };
    Some(Parameter {
        word,
        size,
        align,
        length,
    })
}

/// An integer of PTX: decimal, or hexadecimal (`0x`), binary (`0b`) or octal (`0`), perhaps with a
/// `U` behind it.
fn number(text: &str) -> Option<usize> {
    let text = text.strip_suffix('U').unwrap_or(text);
    let (digits, radix) = match text.strip_prefix('0') {
        None | Some("") => (text, 10),
        Some(rest) => match rest.strip_prefix(['x', 'X']) {
            Some(digits) => (digits, 16),
            None => rest
                .strip_prefix(['b', 'B'])
                .map_or((rest, 8), |digits| (digits, 2)),
        },
    };
    // `from_str_radix` takes a sign.
    let is_number = digits.starts_with(|c: char| c.is_digit(radix));
    is_number.then(|| usize::from_str_radix(digits, radix).ok())?
}

/// The names of all entries, in order of appearance.
///
/// ```
/// let ptx = ".visible .entry scale(.param .u64 a) { ret; }\n// .visible .entry no(\n\
///            .visible .entry add() { ret; }";
/// assert_eq!(device_std::ptx::entries(ptx), ["scale", "add"]);
/// ```
pub fn entries(ptx: &str) -> Vec<&str> {
    // Each byte of the code has the place that it has in the text.
    let (code, mut at) = (code(ptx), 0);
    let mut names = Vec::new();
    for line in code.split_inclusive('\n') {
        at += line.len();
        let entry = line.trim_start().strip_prefix(".visible");
        let entry = entry.and_then(|rest| rest.trim_start().strip_prefix(".entry"));
        if let Some(behind) = entry.filter(|rest| rest.starts_with(char::is_whitespace)) {
            let rest = &ptx[at - behind.trim_start().len()..];
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '$'));
            names.extend(Some(&rest[..end.unwrap_or(rest.len())]).filter(|name| !name.is_empty()));
        }
    }
    names
}

/// The text with spaces for each byte of a comment or a string, in which anything may stand. Ends
/// of lines stay.
///
/// ptxas knows no escapes in strings. `/*/` begins a comment, and does not end it.
fn code(ptx: &str) -> String {
    let mut left = ptx;
    let mut code = String::with_capacity(ptx.len());
    while let Some(start) = left.find(['/', '"']) {
        let (before, from) = left.split_at(start);
        code.push_str(before);
        let behind = |end: &str, skip: usize| from[skip..].find(end).map(|at| skip + at + end.len());
        let length = if from.starts_with("//") {
            from.find('\n')
        } else if from.starts_with("/*") {
            behind("*/", 2)
        } else if from.starts_with('"') {
            behind("\"", 1)
        } else {
            code.push('/');
            left = &from[1..];
            continue;
        };
        let (hidden, rest) = from.split_at(length.unwrap_or(from.len()));
        code.extend(hidden.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
        left = rest;
    }
    code + left
}

/// The values of a table of words. LLVM may leave out zeros at the end of an initialiser.
fn words<'a>(values: &mut impl Iterator<Item = &'a str>, length: usize) -> Option<Vec<u64>> {
    let mut words = values.map(word).collect::<Option<Vec<_>>>()?;
    (words.len() <= length).then(|| {
        words.resize(length, 0);
        words
    })
}

fn bytes<'a>(values: &mut impl Iterator<Item = &'a str>, length: usize) -> Option<Vec<u64>> {
    let bytes = values
        .map(|value| value.parse::<u8>().ok())
        .collect::<Option<Vec<_>>>()?;
    if bytes.len() > length || !length.is_multiple_of(8) {
        return None;
    }
    let mut words = vec![0; length / 8];
    for (at, byte) in bytes.into_iter().enumerate() {
        words[at / 8] |= u64::from(byte) << (at % 8 * 8);
    }
    Some(words)
}

/// A 64-bit number; LLVM may print it with a sign or as hexadecimal.
fn word(text: &str) -> Option<u64> {
    if let Some(hexadecimal) = text.strip_prefix("0x") {
        return u64::from_str_radix(hexadecimal, 16).ok();
    }
    text.parse::<u64>()
        .ok()
        .or_else(|| text.parse::<i64>().ok().map(|value| value as u64))
}

#[cfg(test)]
mod tests {
    use super::{entries, layout_table, parameters};

    #[test]
    fn words_bytes_and_signs_are_read() {
        let ptx = "\
.visible .global .align 8 .u64 __cuda_rt_layout_a[3] = {1, -1, 0xff};
\t.visible .global .align 8 .b8 __cuda_rt_layout_b[16] = {1, 0, 0, 0, 0, 0, 0, 0, 2};
";
        assert_eq!(layout_table(ptx, "a"), Some(vec![1, u64::MAX, 255]));
        assert_eq!(layout_table(ptx, "b"), Some(vec![1, 2]));
    }

    #[test]
    fn a_table_with_a_longer_name_belongs_to_another_entry() {
        let ptx = ".visible .global .align 8 .u64 __cuda_rt_layout_scale2[1] = {7};";
        assert_eq!(layout_table(ptx, "scale"), None);
        assert_eq!(layout_table(ptx, "scale2"), Some(vec![7]));
    }

    #[test]
    fn a_table_whose_name_ends_like_anothers_belongs_to_another_entry() {
        // Words of a type stand before the name, as in a declaration.
        for before in ["x", "x.b8", "x\"\".b8", "_"] {
            let ptx = format!(".visible .global .align 8 .b8 {before}__cuda_rt_layout_scale[8] = {{7}};");
            assert_eq!(layout_table(&ptx, "scale"), None, "{before}");
            let own = format!("{ptx}\n.visible .global .align 8 .b8 __cuda_rt_layout_scale[8] = {{5}};");
            assert_eq!(layout_table(&own, "scale"), Some(vec![5]), "{before}");
        }
        let ptx = ".visible .global .align 8 .b8\t__cuda_rt_layout_x__cuda_rt_layout_scale[8] = {7};";
        assert_eq!(layout_table(ptx, "scale"), None);
        assert_eq!(layout_table(ptx, "x__cuda_rt_layout_scale"), Some(vec![7]));
    }

    #[test]
    fn a_mention_of_a_table_is_not_a_table() {
        let ptx = "// __cuda_rt_layout_a[1] = {7}\n mov.u64 %rd1, __cuda_rt_layout_a[1];\n";
        assert_eq!(layout_table(ptx, "a"), None);
    }

    #[test]
    fn an_unreadable_table_is_no_table() {
        for table in [
            ".b8 __cuda_rt_layout_a[7] = {1}",
            ".b8 __cuda_rt_layout_a[8] = {300}",
            ".u64 __cuda_rt_layout_a[1] = {1, 2}",
        ] {
            assert_eq!(
                layout_table(&format!(".visible .global .align 8 {table};"), "a"),
                None,
                "{table}"
            );
        }
    }

    #[test]
    fn parameters_are_read_from_the_head_of_their_own_entry() {
        let ptx = "// .entry a(\n.visible .entry ab(.param .u32 x)\n{ ret; }\n.visible .entry a(\n\
            \t.param .u64 .ptr .global .align 16 p, // a pointer\n\t.param .u16 h,\n\t.param .align 4 .b8 s[12]\n)\n{ ret; }\n\
            .entry none { ret; } .entry empty() { ret; }";
        assert_eq!(parameters(ptx, "ab"), Some(vec![(4, 4)]));
        assert_eq!(parameters(ptx, "a"), Some(vec![(8, 8), (2, 2), (12, 4)]));
        assert_eq!(parameters(ptx, "none"), Some(vec![]));
        assert_eq!(parameters(ptx, "empty"), Some(vec![]));
        assert_eq!(parameters(ptx, "b"), None);
        // The ends of other words.
        for word in ["x.entry", "$.entry", ".x.entry"] {
            let text = format!(".func {word} a(.param .u32 x) {{ }}");
            assert_eq!(parameters(&text, "a"), None, "{text}");
        }
        assert_eq!(parameters("}.entry a(.param .u32 t) {}", "a"), Some(vec![(4, 4)]));
        assert_eq!(parameters(".entry a(.param .texref t) {}", "a"), None);
        assert_eq!(parameters(".entry a(.param .u32 t", "a"), None);
    }

    #[test]
    fn numbers_and_spaces_are_read_as_ptxas_reads_them() {
        for (length, bytes) in [
            ("020", 16),
            ("0x20", 32),
            ("0X2fU", 47),
            ("0b11", 3),
            ("0", 0),
            ("12U", 12),
        ] {
            let text = format!(".visible.entry a(.param .align 0x4 .b8 a[{length}]) {{ }}");
            assert_eq!(parameters(&text, "a"), Some(vec![(bytes, 4)]), "{length}");
            assert_eq!(entries(&text), ["a"]);
        }
        for length in ["08", "0x", "+4", "0x+4", "4 4", "", "-1", "U"] {
            let text = format!(".visible .entry a(.param .b8 a[{length}]) {{ }}");
            assert_eq!(parameters(&text, "a"), None, "{length}");
        }
        assert_eq!(entries(".visible\t .entry\ta ()"), ["a"]);
        assert_eq!(entries(".visible.entrya ()\n.visible .entry"), [""; 0]);
        for word in ["x.visible", "$.visible", ".x.visible"] {
            let text = format!("{word}.entry a(.param .u32 x) {{ }}");
            assert_eq!(parameters(&text, "a"), None, "{text}");
        }
    }

    /// A path in `.file`, a comment and a string may hold anything.
    #[test]
    fn what_comments_and_strings_hold_is_no_code() {
        let table = ".visible .global .align 8 .u64 __cuda_rt_layout_a[1] = {9};";
        let entry = ".visible .entry a(.param .u32 x) { }";
        let real = ".visible .global .align 8 .u64 __cuda_rt_layout_a[1] = {1};\n\
            .visible .entry a(.param .u64 p, /* .param .u32 q, */ .param .u16 h) { }\n";
        for hidden in [
            format!(".file 1 \"src/{entry}{table}\"\n"),
            format!(".file 1 \"\n{entry}\n{table}\n\"\n"),
            format!("/*\n{entry}\n{table}\n*/\n"),
            format!("/*/\n{entry}\n{table}\n*/\n"),
            format!("// \" {entry} {table}\n"),
            format!("// é \"\n// /* {entry}\n"),
            format!(".file 1 \"\\\"\n/* \"\n{entry}\n{table}\n*/\n"),
        ] {
            let text = format!("{hidden}{real}");
            assert_eq!(parameters(&text, "a"), Some(vec![(8, 8), (2, 2)]), "{hidden}");
            assert_eq!(layout_table(&text, "a"), Some(vec![1]), "{hidden}");
            assert_eq!(entries(&text), ["a"], "{hidden}");
            assert_eq!(parameters(&hidden, "a"), None, "{hidden}");
        }
        assert_eq!(parameters(".entrya(.param .u32 x) { }", "a"), None);
        // Without an end, a comment or string holds the rest.
        for open in ["/*", "\"", "/*/", "//"] {
            assert_eq!(parameters(&format!("{open} {entry}"), "a"), None, "{open}");
        }
        assert_eq!(parameters(&format!("a / b {entry}"), "a"), Some(vec![(4, 4)]));
    }

    #[test]
    fn entries_are_listed_in_order() {
        let ptx = ".visible .entry b__1(\n.param .u64 x\n)\n.visible .entry a__2()\n.visible .func f()";
        assert_eq!(entries(ptx), ["b__1", "a__2"]);
    }
}
