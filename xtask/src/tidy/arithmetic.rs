//! Arithmetic in the assertions of the device library. Kernels are compiled without checks of
//! overflow, so a sum or a product in a condition may wrap, and what the condition should prevent
//! happens. Counterexample: `stride * K == N` held for a `K` above 2^54, and the access behind it
//! went beyond the memory.

/// Where the library of kernels lies.
const LIBRARY: &str = "device-std/src/";

/// The conditions that may have arithmetic: in constants, which rustc evaluates with checks, and of
/// the sides of a block, which has at most 1024 threads.
const BOUNDED: [&str; 4] = [
    "self.values.len(), (x * y) as usize",
    "to + 8 < CAPACITY",
    "Compiled::<F, A>::TEXT[CAPACITY - 1] == 0",
    "(elements as u64) < 1 << 32",
];

/// The operators that may wrap, as rustfmt writes them.
const OPERATORS: [&str; 8] = [
    " * ",
    " + ",
    " - ",
    " << ",
    ".wrapping_",
    ".pow(",
    ".sum()",
    ".product()",
];

/// A line for each condition of an `assert` with arithmetic that may wrap.
pub(super) fn in_assertions(file: &str, source: &str) -> Vec<String> {
    if !file.starts_with(LIBRARY) {
        return Vec::new();
    }
    let of_tests = ["#[cfg(test)]\nmod ", "#[cfg(all(test, "].map(|start| source.find(start));
    let code = &source[..of_tests.into_iter().flatten().min().unwrap_or(source.len())];
    let lines = code
        .lines()
        .map(|line| line.split("//").next().unwrap_or(line).trim());
    let code = lines.collect::<Vec<_>>().join(" ");
    let mut wrong = Vec::new();
    for name in ["assert!(", "assert_eq!(", "assert_ne!("] {
        for (at, _) in code.match_indices(name) {
            let condition = condition(&code[at + name.len()..], name != "assert!(");
            let may_wrap = OPERATORS.iter().any(|operator| condition.contains(operator));
            if may_wrap && !BOUNDED.contains(&condition) {
                wrong.push(format!(
                    "{file}: `{condition}` may wrap, because kernels are compiled without checks of overflow: use \
                     `checked_mul`, `checked_add` or a subtraction that cannot wrap"
                ));
            }
        }
    }
    wrong
}

/// The text up to the comma behind the first argument, or the second.
fn condition(text: &str, has_two: bool) -> &str {
    let (mut depth, mut commas, mut is_quoted) = (0, u32::from(has_two), false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' if depth == 0 => return text[..at].trim(),
            b')' | b']' | b'}' => depth -= 1,
            b',' if depth == 0 && commas == 0 => return text[..at].trim(),
            b',' if depth == 0 => commas -= 1,
            _ => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::in_assertions;

    #[test]
    fn arithmetic_that_may_wrap_is_found_in_assertions() {
        let found = |code: &str| in_assertions("device-std/src/a.rs", code).len();
        for code in [
            "assert!(stride * K == N, \"fewer\");",
            "assert!(\n    stride * K == N,\n    \"fewer\"\n);",
            "debug_assert!(at + 1 < len);",
            "assert_eq!(N, a.min(b) << c, \"text\");",
            "assert!(f(at, 2 - b) < N);",
            "assert!(a.wrapping_mul(b) == c)",
            "assert!(1 < 2); assert!(sizes.iter().sum() < N, \"a\");",
        ] {
            assert_eq!(found(code), 1, "{code}");
        }
        for code in [
            "assert!(stride.checked_mul(K) == Some(N), \"a * b\");",
            "assert!(at < N); let x = a * b;",
            "// assert!(a * b == c)",
            "assert_eq!(a, b, \"{} + 1\", a + 1);",
            "#[cfg(all(test, not(gpu)))]\nmod tests { assert!(a * b == c) }",
            "#[cfg(test)]\nmod tests { assert!(a * b == c) }",
        ] {
            assert_eq!(found(code), 0, "{code}");
        }
        assert_eq!(in_assertions("runtime/src/a.rs", "assert!(a * b == c)").len(), 0);
    }
}
