//! Which files a text of CUDA C++ makes the compiler read.

/// Whether a text may include a file. `headers` are the names of headers whose text the compiler
/// has; it looks there first.
///
/// It looks for words, and knows no C++: a word in a comment counts.
pub(super) fn may_read_files(text: &str, headers: &[&str]) -> bool {
    let text = joined(text);
    let is_given = |rest: &str| {
        let rest = rest.trim_start_matches([' ', '\t']);
        let is_named = |name: &str, open, close| {
            let rest = rest.strip_prefix(open);
            rest.and_then(|rest: &str| rest.strip_prefix(name))
                .is_some_and(|rest| rest.starts_with(close))
        };
        headers
            .iter()
            .any(|name| is_named(name, '"', '"') || is_named(name, '<', '>'))
    };
    text.contains("embed") || text.split("include").skip(1).any(|rest| !is_given(rest))
}

/// The text, with the lines joined that end in a backslash, or in `??/`, which stands for one.
fn joined(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    for line in text.lines() {
        let line = line.trim_end();
        match line.strip_suffix('\\').or_else(|| line.strip_suffix("??/")) {
            Some(continued) => joined.push_str(continued),
            None => {
                joined.push_str(line);
                joined.push('\n');
            }
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::may_read_files;

    #[test]
    fn only_given_headers_are_no_files() {
        let reads = |text: &str| may_read_files(text, &["a.h", "b/c.cuh"]);
        for text in ["", "int x;", "#include \"a.h\"\n#  include\t<b/c.cuh>\nint x;"] {
            assert!(!reads(text), "{text}");
        }
        for text in [
            "#include \"a.hpp\"",
            "#include \"a.h\"\n#include <c.cuh>",
            "#include NAME",
            "#if __has_include(\"a.h\")",
            "#inc\\\nlude <x>",
            "#inc\\\r\nlude <x>",
            "#inc??/\nlude <x>",
            "#inc\\ \nlude <x>",
            "#embed \"a.h\"",
        ] {
            assert!(reads(text), "{text}");
        }
    }
}
