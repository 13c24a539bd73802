//! Finds what is unsafe without the word `unsafe`, in the text of a crate after the expansion of
//! its macros.
//!
//! Edition 2024 asks for the word at attributes that choose a symbol, and at blocks `extern`. In
//! earlier editions, both are safe code. rustc goes by the edition of the token, so the macro of an
//! older crate writes them for every crate, and rustc reports no lint about them. Both words exist
//! in every edition: all crates for the GPU must write them.
//!
//! The search does not split the text into tokens. rustc prints the arguments of attributes, and
//! the bodies of macros, token by token, and a macro can make it print two tokens as a third.
//! Counterexample: `/` and `*` print as the start of a comment. What a search would then skip is
//! code to rustc. So each occurrence of a word counts, also in a string, a macro or a comment with
//! stars. Only lines that begin with `//` are left out, because documentation has these words.
//!
//! A second search is for crates that may enable `core_intrinsics`: they name known ones only. It
//! leaves out no line.

/// Attributes that choose a symbol, its section or its linkage; and those by which a crate takes no
/// part in the optimisation of the whole program (`no_builtins` of the crate itself, `no_link` of
/// an `extern crate`). The module that is proved has nothing of such a crate. So no linker compares
/// its symbols with those of the other crates: a table of one crate took the place of another
/// crate's table.
const ATTRIBUTES: [&str; 7] = [
    "export_name",
    "link_section",
    "linkage",
    "no_builtins",
    "no_link",
    "no_mangle",
    "rustc_std_internal_symbol",
];

/// The first line with one of these attributes outside `unsafe(…)`, or with a block `extern` that
/// is not `unsafe`.
pub(crate) fn found(text: &str) -> Option<&str> {
    let attributes = ATTRIBUTES.iter().flat_map(|word| {
        let places = places(text, word);
        places.filter(|at| !text[..*at].ends_with("unsafe("))
    });
    let blocks = places(text, "extern").filter(|at| {
        !text[..*at].ends_with("unsafe ") && !is_crate_or_function(&text[at + "extern".len()..])
    });
    let mut places = attributes.chain(blocks);
    places.find(|at| !is_comment(text, *at)).map(|at| line(text, at))
}

/// Intrinsics of `core` that are right for any type: the start of shared memory, which the device
/// library calls, and the variant of an enum, which rustc's own derives call.
const INTRINSICS: [&str; 2] = ["::gpu::gpu_launch_sized_workgroup_mem", "::discriminant_value"];

/// The first line that names `core::intrinsics` for anything but [`INTRINSICS`]. Some intrinsics
/// are safe functions of any `Copy` type, whose types rustc checks only while it makes code.
///
/// No line is left out, not even documentation. rustc prints a string of several lines as it
/// stands, so what follows the string may stand in a line that begins with `//`.
pub(crate) fn intrinsic(text: &str) -> Option<&str> {
    const WORD: &str = "intrinsics";
    let others = places(text, WORD).filter(|at| {
        let behind = &text[at + WORD.len()..];
        let mut behind = INTRINSICS.iter().filter_map(|known| behind.strip_prefix(known));
        let is_whole = behind.any(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'));
        !(is_whole && text[..*at].ends_with("core::"))
    });
    others.map(|at| line(text, at)).next()
}

/// The places at which the text has the word, and not a longer one.
fn places<'t>(text: &'t str, word: &'t str) -> impl Iterator<Item = usize> + 't {
    let is_part = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let places = text.match_indices(word).map(|(at, _)| at);
    places.filter(move |at| {
        let bytes = text.as_bytes();
        let (before, after) = (&bytes[..*at], &bytes[at + word.len()..]);
        !is_part(before.last()) && !is_part(after.first())
    })
}

/// Whether the text behind the word `extern` makes it part of an `extern crate`, a function, or the
/// type of one. Nothing may stand between, not even a comment: rustc prints comments there.
fn is_crate_or_function(text: &str) -> bool {
    let text = text.trim_start();
    let after_abi = || {
        let (abi, rest) = text.strip_prefix('"')?.split_once('"')?;
        let is_plain = abi
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        is_plain.then(|| rest.trim_start())
    };
    text.starts_with("crate ") || after_abi().unwrap_or(text).starts_with("fn")
}

fn line(text: &str, at: usize) -> &str {
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    text[start..].lines().next().unwrap_or("").trim()
}

/// Whether the place is in a comment of one line. rustc prints an item, with its attributes, in
/// lines of its own, behind nothing but a comment. If the comment begins with two slashes, rustc
/// ends the line behind it; another comment ends with a star and a slash. A line of a string may
/// begin with two slashes too, and then a quotation mark ends the string before any code.
fn is_comment(text: &str, at: usize) -> bool {
    let line = line(text, at);
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    line.starts_with("//") && !line.contains("*/") && !text[start..at].contains('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_outside_unsafe_and_extern_blocks_are_found() {
        for line in [
            "#[no_mangle]",
            "#[export_name = \"k\"]",
            "#![link_section = \".text\"]",
            "#[/* a comment */ no_mangle]",
            "#[/* unsafe(*/no_mangle]",
            "// of two lines */ #[no_mangle]",
            "/// of two lines */ #[no_mangle]",
            "//\", #[no_mangle] || {})",
            "/// \"#; extern { fn a(); }",
            "#[r#no_mangle]",
            "#![no_builtins]",
            "#[no_link]",
            "#[macro_use] #[no_link] extern crate dl;",
            "#[linkage = \"weak\"]",
            "extern \"C\" {",
            "extern {",
            "extern r\"C\" {",
            "extern r#\"C\"# {",
            "extern \"\\u{43}\" {",
            "extern /* fn */ \"C\" {",
            "/* unsafe */ extern \"C\" {",
            "let text = \"extern\";",
        ] {
            let text = format!("fn a() {{}}\n// unsafe(\n    {line}\n");
            assert_eq!(found(&text), Some(line));
        }
        // The word at the end of a line belongs to that line.
        assert_eq!(found("// unsafe(\nno_mangle]"), Some("no_mangle]"));
        assert_eq!(found("// unsafe \nextern {"), Some("extern {"));
        assert_eq!(found("extern // fn\n\"C\" {"), Some("extern // fn"));
    }

    #[test]
    fn other_intrinsics_are_found() {
        for line in [
            "core::intrinsics::wrapping_add(a, b)",
            "use core::intrinsics;",
            "use core::intrinsics as other;",
            "use core::{intrinsics::*};",
            "core :: intrinsics :: gpu :: gpu_launch_sized_workgroup_mem",
            "core::r#intrinsics::wrapping_add(a, b)",
            "core::intrinsics::gpu::*",
            "core::intrinsics::gpu::gpu_launch_sized_workgroup_mem_of_another",
            "m!(intrinsics);",
            "/* */ core::intrinsics::wrapping_add(a, b)",
            "//\", core::intrinsics::wrapping_add(a, b))",
            "/// \", core::intrinsics::wrapping_add(a, b))",
            "core::intrinsics::gpu::gpu_launch_sized_workgroup_mem::<u8>(); core::intrinsics::x();",
        ] {
            assert_eq!(intrinsic(&format!("fn a() {{}}\n    {line}\n")), Some(line));
        }
        for line in [
            "core::intrinsics::gpu::gpu_launch_sized_workgroup_mem::<u128>().cast()",
            "let own = ::core::intrinsics::discriminant_value(self);",
            "#![feature(core_intrinsics, gpu_intrinsics)]",
            "let my_intrinsics_ = 1;",
        ] {
            assert_eq!(intrinsic(&format!("fn a() {{}}\n    {line}\n")), None, "{line}");
        }
    }

    #[test]
    fn functions_unsafe_code_and_documentation_are_not_found() {
        for line in [
            "#[unsafe(no_mangle)]",
            "#[unsafe(export_name = \"k\")]",
            "unsafe extern \"C\" {",
            "extern crate core;",
            "pub extern \"ptx-kernel\" fn k() {}",
            "let f: extern fn() = g;",
            "/// An `extern` block, `#[no_mangle]`.",
            "//! An `extern` block, `#[no_mangle]`.",
            "/// `extern \"C\"`",
            "external!(no_mangled, not_no_mangle_, my_extern);",
            "#[inline]",
        ] {
            assert_eq!(found(&format!("fn a() {{}}\n    {line}\n")), None, "{line}");
        }
    }
}
