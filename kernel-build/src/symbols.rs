//! Compares the symbols of all crates: no two crates define one symbol.
//!
//! LLVM has one value for each name in a module, so a reference to the symbol of another crate
//! means the module's own symbol of this name. Counterexample: an entry's table took the place of a
//! longer table in another crate, and LLVM dropped the check of an index into the longer one. A
//! linker refuses two definitions of one symbol, but it sees only the crates that take part in the
//! optimisation of the whole program. Here all crates are compared: a crate's LLVM module holds all
//! that the crate defines.
//!
//! A crate with `#![no_builtins]` takes no part in that optimisation. Its functions have the
//! attribute
//! `"no-builtins"`. Only rustc's own library may have them.

use std::collections::HashMap;

use crate::error::BuildError;

/// The symbols of the crates so far.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    /// The crate of each symbol.
    crates: HashMap<String, String>,
}

impl Symbols {
    /// Adds the symbols that the crate `krate` defines. `is_rustcs` says whether it is one of
    /// rustc's own library.
    ///
    /// # Errors
    /// The first symbol that another crate has defined, or a function with `"no-builtins"`.
    pub(crate) fn add(&mut self, krate: &str, llvm_ir: &str, is_rustcs: bool) -> Result<(), BuildError> {
        if has_no_builtins(llvm_ir) && !is_rustcs {
            let krate = krate.to_owned();
            return Err(BuildError::NoBuiltins { krate });
        }
        for symbol in llvm_ir.lines().filter_map(defined) {
            if let Some(other) = self.crates.insert(symbol.to_owned(), krate.to_owned()) {
                return Err(BuildError::SymbolTwice {
                    symbol: symbol.to_owned(),
                    crates: [other, krate.to_owned()],
                });
            }
        }
        Ok(())
    }
}

/// The symbol that a line of an LLVM module defines for other modules. LLVM writes a definition at
/// the start of a line, and no line of a function's body or of a string begins like one.
fn defined(line: &str) -> Option<&str> {
    if let Some(head) = line.strip_prefix("define ") {
        // The type before the name may have a name in quotation marks.
        let at = unquoted(head, b'@')?;
        let (words, name) = head.split_at(at);
        let linkage = words.split_whitespace().next();
        let is_local = linkage.is_some_and(|linkage| LOCAL.contains(&linkage));
        return Some(symbol(&name[1..]).0).filter(|_| !is_local);
    }
    let (name, rest) = symbol(line.strip_prefix('@')?);
    let linkage = rest.strip_prefix(" = ")?.split_whitespace().next()?;
    let is_elsewhere = LOCAL.contains(&linkage) || DECLARED.contains(&linkage);
    Some(name).filter(|_| !is_elsewhere)
}

/// Linkages of what no other module sees. A linkage is the first word of a definition.
const LOCAL: [&str; 2] = ["internal", "private"];
/// Linkages of variables that another module defines, and of lists of LLVM's own, which are joined.
const DECLARED: [&str; 3] = ["external", "extern_weak", "appending"];

/// The place of the first such byte outside of quotation marks. LLVM escapes a quotation mark in a
/// name as `\22`.
fn unquoted(text: &str, byte: u8) -> Option<usize> {
    let mut is_quoted = false;
    text.bytes().position(|found| {
        is_quoted ^= found == b'"';
        found == byte && !is_quoted
    })
}

/// The symbol at the start of a text, without its quotation marks, and the text behind it.
fn symbol(text: &str) -> (&str, &str) {
    if let Some((name, rest)) = text.strip_prefix('"').and_then(|text| text.split_once('"')) {
        return (name, rest);
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.' | '-');
    text.split_at(text.find(|c| !is_part(c)).unwrap_or(text.len()))
}

/// Whether a function of the module has the attribute of crates with `#![no_builtins]`. In LLVM's
/// text, no other line begins with this word.
fn has_no_builtins(llvm_ir: &str) -> bool {
    let mut lines = llvm_ir.lines().filter(|line| line.starts_with("attributes #"));
    lines.any(|line| line.contains("\"no-builtins\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "\
@alloc_1 = private unnamed_addr constant [4 x i8] c\"abcd\", align 1
@TABLE = constant [8 x i8] zeroinitializer, align 8
define noundef i32 @f(i32 %x) unnamed_addr #0 {
  call void @g()
define internal void @local() {
";

    #[test]
    fn a_symbol_of_two_crates_is_refused() {
        for (second, symbol) in [
            (
                "@TABLE = local_unnamed_addr constant [96 x i8] c\"\\22\", align 8",
                "TABLE",
            ),
            ("@TABLE = weak hidden constant i32 0", "TABLE"),
            ("@\"TABLE\" = constant i32 0", "TABLE"),
            ("@f = constant i32 0", "f"),
            ("@f = unnamed_addr alias void (), ptr @h", "f"),
            ("define void @f() {", "f"),
            (
                "define weak_odr hidden %\"a::@{closure internal }\" @f(ptr %x) {",
                "f",
            ),
            ("define ptx_kernel void @\"f\"(ptr %x) {", "f"),
        ] {
            let mut symbols = Symbols::default();
            symbols.add("one", FIRST, false).unwrap();
            let error = symbols
                .add("two", &format!("; a module\n{second}\n"), false)
                .unwrap_err();
            let BuildError::SymbolTwice {
                symbol: found,
                crates,
            } = &error
            else {
                panic!("{error}");
            };
            assert_eq!(
                (&**found, &crates[0], &crates[1]),
                (symbol, &"one".to_owned(), &"two".to_owned())
            );
            let words = error.to_string();
            assert!(
                words.contains("`one`") && words.contains("`two`") && words.contains(symbol),
                "{words}"
            );
        }
    }

    #[test]
    fn declarations_and_symbols_that_no_other_crate_sees_may_have_one_name() {
        let mut symbols = Symbols::default();
        symbols.add("one", FIRST, false).unwrap();
        for other in [
            "@TABLE = external constant [8 x i8]",
            "@alloc_1 = private unnamed_addr constant i32 0",
            "@TABLE = internal constant [8 x i8] zeroinitializer",
            "declare void @f()",
            "define internal void @f() {",
            "define private void @\"f\"() {",
            "define void @f2() {",
            "@F = constant i32 0",
            "  define void @f()",
        ] {
            symbols.add("two", other, false).unwrap();
        }
        for _ in 0..2 {
            symbols
                .add("two", "@llvm.used = appending global [1 x ptr] [ptr @f]", false)
                .unwrap();
        }
    }

    #[test]
    fn a_crate_without_builtins_is_refused() {
        let add = |text: &str, is_rustcs| {
            let text = format!("define void @h() #3 {{\n{text}\n");
            Symbols::default().add("two", &text, is_rustcs)
        };
        let attribute = "attributes #3 = { nounwind \"no-builtins\" \"target-cpu\"=\"sm_80\" }";
        let error = add(attribute, false).unwrap_err();
        assert!(
            matches!(&error, BuildError::NoBuiltins { krate } if krate == "two"),
            "{error}"
        );
        add(attribute, true).unwrap();
        for text in [
            "attributes #3 = { nounwind \"target-cpu\"=\"sm_80\" }",
            "@text = constant [13 x i8] c\"attributes #0 \\22no-builtins\\22\"",
            "  ; \"no-builtins\"",
        ] {
            add(text, false).unwrap();
        }
    }
}
