//! `cargo xtask unsafe-budget`: counts `unsafe` in each file, and compares with the committed
//! counts.
//!
//! The task counts tokens. So comments and strings do not count, and the bodies of macros count,
//! `quote!` included. Any change of a count must be committed, so that a reviewer sees it.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};
use std::{fs, io};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

const FILE: &str = "unsafe-budget.txt";

const HEADING: &str = "\
# Occurrences of `unsafe` in each file, as counted by `cargo xtask unsafe-budget`, which also writes this.
# blocks functions    impls   traits    other  file
";

/// The folder of programs that must not compile; no crate contains them.
const UNCOUNTED: &str = "ui-tests/cases";

/// Writes the counts.
pub(crate) fn write() -> Result<(), Box<dyn Error>> {
    let counts = count_all(root())?;
    fs::write(root().join(FILE), render(&counts))?;
    report(&counts);
    Ok(())
}

/// Compares the counts with the committed ones.
pub(crate) fn check() -> Result<(), Box<dyn Error>> {
    let counted = count_all(root())?;
    let text = fs::read_to_string(root().join(FILE)).map_err(|error| format!("{FILE}: {error}"))?;
    let differences = differences(&parse(&text)?, &counted);
    if !differences.is_empty() {
        let what = format!(
            "{FILE} differs from the sources; if the change is meant, run `cargo xtask unsafe-budget`"
        );
        return Err(format!("{what}\n{differences}").into());
    }
    report(&counted);
    Ok(())
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the workspace")
}

fn report(counts: &Counts) {
    let total = counts.values().fold(Count::default(), |sum, count| sum + *count);
    println!("unsafe: {total} in {} files", counts.len());
}

/// Counts of `unsafe`, by the token after the keyword. The type `unsafe fn(..)` does not count,
/// because the code that calls it has a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    blocks: usize,
    functions: usize,
    impls: usize,
    traits: usize,
    /// Attributes such as `#[unsafe(export_name = "…")]`, and `unsafe extern` blocks.
    other: usize,
}

impl Count {
    fn of(source: &str) -> Result<Self, proc_macro2::LexError> {
        let mut count = Self::default();
        count.walk(source.parse()?);
        Ok(count)
    }

    fn walk(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for (at, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Group(group) => self.walk(group.stream()),
                TokenTree::Ident(ident) if ident == "unsafe" => self.classify(&tokens[at + 1..]),
                _ => {}
            }
        }
    }

    fn classify(&mut self, after: &[TokenTree]) {
        let word = |at: usize| match after.get(at) {
            Some(TokenTree::Ident(ident)) => Some(ident.to_string()),
            _ => None,
        };
        let is_brace = |at: usize| matches!(after.get(at), Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace);
        let kind = match word(0).as_deref() {
            None if is_brace(0) => &mut self.blocks,
            Some("impl") => &mut self.impls,
            Some("trait" | "auto") => &mut self.traits,
            Some("fn" | "extern") => {
                let abi = matches!(after.get(1), Some(TokenTree::Literal(_)));
                let keyword = if word(0).as_deref() == Some("fn") {
                    0
                } else {
                    1 + usize::from(abi)
                };
                match (word(keyword).as_deref(), after.get(keyword + 1)) {
                    // The function's name, or in `quote!` its placeholder.
                    (Some("fn"), Some(TokenTree::Ident(_))) => &mut self.functions,
                    (Some("fn"), Some(TokenTree::Punct(punct))) if punct.as_char() != '<' => {
                        &mut self.functions
                    }
                    (Some("fn"), _) => return,
                    _ => &mut self.other,
                }
            }
            _ => &mut self.other,
        };
        *kind += 1;
    }

    fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

impl std::ops::Add for Count {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            blocks: self.blocks + other.blocks,
            functions: self.functions + other.functions,
            impls: self.impls + other.impls,
            traits: self.traits + other.traits,
            other: self.other + other.other,
        }
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            blocks,
            functions,
            impls,
            traits,
            other,
        } = self;
        write!(
            f,
            "{blocks} blocks, {functions} functions, {impls} impls, {traits} traits, {other} other"
        )
    }
}

type Counts = BTreeMap<String, Count>;

/// Counts of the files that have any `unsafe`, by their path from the root, with `/` between its
/// parts.
fn count_all(root: &Path) -> Result<Counts, Box<dyn Error>> {
    let mut files = Vec::new();
    rust_files(root, &mut files)?;
    let mut counts = Counts::new();
    for file in files {
        let parts: Vec<_> = file
            .strip_prefix(root)?
            .iter()
            .map(|part| part.to_string_lossy())
            .collect();
        let name = parts.join("/");
        if name.starts_with(UNCOUNTED) {
            continue;
        }
        let count = Count::of(&fs::read_to_string(&file)?).map_err(|error| format!("{name}: {error}"))?;
        if !count.is_zero() {
            counts.insert(name, count);
        }
    }
    Ok(counts)
}

fn rust_files(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let hidden = name.to_string_lossy().starts_with('.');
        if entry.file_type()?.is_dir() {
            if !hidden && name != "target" {
                rust_files(&path, files)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

fn render(counts: &Counts) -> String {
    let mut text = HEADING.to_owned();
    for (
        name,
        Count {
            blocks,
            functions,
            impls,
            traits,
            other,
        },
    ) in counts
    {
        writeln!(
            text,
            "{blocks:8} {functions:9} {impls:8} {traits:8} {other:8}  {name}"
        )
        .expect("writing to a string does not fail");
    }
    text
}

fn parse(text: &str) -> Result<Counts, String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let wrong = || format!("{FILE}: expected five numbers and a file, found {line:?}");
            let words: Vec<&str> = line.split_whitespace().collect();
            let [numbers @ .., name] = words.as_slice() else {
                return Err(wrong());
            };
            let numbers: Vec<usize> = numbers
                .iter()
                .map(|word| word.parse().map_err(|_| wrong()))
                .collect::<Result<_, _>>()?;
            let [blocks, functions, impls, traits, other] = numbers[..] else {
                return Err(wrong());
            };
            Ok((
                name.to_string(),
                Count {
                    blocks,
                    functions,
                    impls,
                    traits,
                    other,
                },
            ))
        })
        .collect()
}

/// A line for each file whose count differs from the committed count.
fn differences(committed: &Counts, counted: &Counts) -> String {
    let mut names: Vec<&String> = committed.keys().chain(counted.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let mut text = String::new();
    for name in names {
        let (was, is) = [committed, counted]
            .map(|counts| counts.get(name).copied().unwrap_or_default())
            .into();
        if was != is {
            writeln!(text, "  {name}\n    committed: {was}\n    counted:   {is}")
                .expect("writing to a string does not fail");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(source: &str) -> [usize; 5] {
        let Count {
            blocks,
            functions,
            impls,
            traits,
            other,
        } = Count::of(source).unwrap();
        [blocks, functions, impls, traits, other]
    }

    #[test]
    fn each_kind_of_unsafe_is_counted_apart() {
        assert_eq!(
            count("fn f() { unsafe { g() }; let x = [unsafe { h() }; 2]; }"),
            [2, 0, 0, 0, 0]
        );
        assert_eq!(
            count("unsafe fn f() {} trait T { unsafe fn g(); }"),
            [0, 2, 0, 0, 0]
        );
        assert_eq!(
            count(r#"unsafe extern "C" fn f() {} unsafe extern fn g() {}"#),
            [0, 2, 0, 0, 0]
        );
        assert_eq!(
            count("unsafe impl<T> Send for X<T> {} unsafe trait T {} unsafe auto trait U {}"),
            [0, 0, 1, 2, 0]
        );
        assert_eq!(
            count(r#"unsafe extern "C" { fn f(); } #[unsafe(no_mangle)] fn g() {}"#),
            [0, 0, 0, 0, 2]
        );
    }

    #[test]
    fn bodies_of_macros_count_and_comments_and_strings_do_not() {
        assert_eq!(
            count("macro_rules! m { () => { unsafe { f() } } }"),
            [1, 0, 0, 0, 0]
        );
        assert_eq!(
            count("fn f() { quote!(unsafe impl T for #x { unsafe fn #g() { unsafe { h() } } }); }"),
            [1, 1, 1, 0, 0]
        );
        assert_eq!(
            count("/// unsafe { }\n// unsafe { }\n#![forbid(unsafe_code)] const X: &str = \"unsafe {}\";"),
            [0; 5]
        );
        assert_eq!(
            count("type F = unsafe fn(u8); type G = unsafe extern \"C\" fn();"),
            [0; 5]
        );
    }

    #[test]
    fn written_counts_are_read_back() {
        let counts = Counts::from([
            (
                "a.rs".into(),
                Count {
                    blocks: 12,
                    functions: 3,
                    impls: 0,
                    traits: 1,
                    other: 2,
                },
            ),
            (
                "b/c.rs".into(),
                Count {
                    impls: 1,
                    ..Count::default()
                },
            ),
        ]);
        assert_eq!(parse(&render(&counts)).unwrap(), counts);
        assert!(parse("1 2 3 4 a.rs").is_err() && parse("1 2 3 4 x a.rs").is_err() && parse("\n").is_err());
    }

    #[test]
    fn a_new_missing_or_changed_file_is_a_difference() {
        let one = Count {
            blocks: 1,
            ..Count::default()
        };
        let two = Count {
            blocks: 2,
            ..Count::default()
        };
        let committed = Counts::from([
            ("gone.rs".into(), one),
            ("more.rs".into(), one),
            ("same.rs".into(), two),
        ]);
        let counted = Counts::from([
            ("more.rs".into(), two),
            ("new.rs".into(), one),
            ("same.rs".into(), two),
        ]);
        let text = differences(&committed, &counted);
        assert!(
            ["gone.rs", "more.rs", "new.rs"]
                .iter()
                .all(|name| text.contains(name)),
            "{text}"
        );
        assert!(!text.contains("same.rs"), "{text}");
        assert_eq!(differences(&counted, &counted), "");
    }
}
