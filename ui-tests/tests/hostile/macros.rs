//! Finds the macros that the crates of this workspace export to users, in their sources.

use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};
use syn::visit::Visit;

/// The crates with macros for users, and each crate's name in `hostile/body.rs`.
const CRATES: [(&str, &str); 3] = [
    ("runtime/src", "::real::"),
    ("device-std/src", "::real_std::"),
    ("macros/src", ""),
];

/// The kind of a macro.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `macro_rules!`, with its rules.
    Rules,
    Attribute,
    Derive,
    Function,
}

/// An exported macro.
#[derive(Debug)]
pub(crate) struct Exported {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) file: PathBuf,
    pub(crate) rules: TokenStream,
    krate: &'static str,
}

impl Exported {
    /// The calls of the macro that `hostile/body.rs` must contain.
    pub(crate) fn uses(&self) -> Vec<String> {
        match self.kind {
            Kind::Rules | Kind::Function => vec![format!("{}{}!", self.krate, self.name)],
            Kind::Attribute => vec![format!("#[::real_std::{}", self.name)],
            // This derive is exported as `cuda_rt::Element`.
            Kind::Derive if self.name == "HostElement" => vec!["::real::Element,".to_owned()],
            Kind::Derive if self.name == "Element" => vec!["::real_std::Element,".to_owned()],
            Kind::Derive => vec![format!("#[derive(::real::{})]", self.name)],
        }
    }
}

pub(crate) fn exported() -> Vec<Exported> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    for (folder, krate) in CRATES {
        for file in sources(&root.join(folder)) {
            let text = fs::read_to_string(&file).unwrap();
            let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            let mut finder = Finder {
                file: &file,
                krate,
                found: &mut found,
            };
            finder.visit_file(&parsed);
            assert_eq!(
                text.matches("\n#[macro_export").count() + text.matches(" #[macro_export").count(),
                found
                    .iter()
                    .filter(|one| one.file == file && one.kind == Kind::Rules)
                    .count(),
                "a macro of {} is where this test does not look",
                file.display()
            );
        }
    }
    assert!(found.len() > 14, "only {} macros were found", found.len());
    found
}

/// The exported macros that another macro writes, for example `stream_calls!`. The writing macro
/// takes a dollar sign as `$d`. The rules are as if each macro had been written by hand: `$d name`
/// is `$name`, a fragment of the user's. A fragment of the writing macro, `$name`, is the name
/// `__name`, and its repetitions are written once.
pub(crate) fn written() -> Vec<Exported> {
    let mut found = Vec::new();
    for file in exporting_files() {
        let parsed = syn::parse_file(&fs::read_to_string(&file).unwrap()).unwrap();
        for item in parsed.items {
            let syn::Item::Macro(item) = item else { continue };
            if item.mac.path.is_ident("macro_rules") {
                find_written(item.mac.tokens, &file, &mut found);
            }
        }
    }
    found
}

/// Finds `#[macro_export] macro_rules! name { .. }` in the rules of a macro.
fn find_written(rules: TokenStream, file: &Path, found: &mut Vec<Exported>) {
    let tokens: Vec<TokenTree> = rules.into_iter().collect();
    let texts: Vec<String> = tokens.iter().map(ToString::to_string).collect();
    for (at, token) in tokens.iter().enumerate() {
        let TokenTree::Group(group) = token else { continue };
        // `# [macro_export] macro_rules ! $ name { .. }`
        match at.checked_sub(6).map(|from| &texts[from..at]) {
            Some([_, export, rules, bang, dollar, name])
                if export == "[macro_export]" && rules == "macro_rules" && bang == "!" && dollar == "$" =>
            {
                found.push(Exported {
                    name: name.clone(),
                    kind: Kind::Rules,
                    file: file.to_owned(),
                    rules: as_written(group.stream()),
                    krate: "",
                });
            }
            _ => find_written(group.stream(), file, found),
        }
    }
}

fn as_written(rules: TokenStream) -> TokenStream {
    let is = |token: Option<&TokenTree>, text: &str| token.is_some_and(|token| token.to_string() == text);
    let mut written = Vec::new();
    let mut tokens = rules.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(dollar) if dollar.as_char() == '$' => match tokens.next() {
                Some(TokenTree::Ident(name)) if name == "d" => {
                    written.push(dollar.into());
                    if let Some(TokenTree::Group(repeated)) = tokens.peek() {
                        let inside = as_written(repeated.stream());
                        written.push(Group::new(repeated.delimiter(), inside).into());
                        tokens.next();
                    }
                }
                Some(TokenTree::Ident(name)) if name == "crate" => {
                    written.extend([dollar.into(), name.into()]);
                }
                Some(TokenTree::Ident(name)) => {
                    written.push(Ident::new(&format!("__{name}"), name.span()).into());
                }
                Some(TokenTree::Group(repeated)) => {
                    // A separator, and the operator of the repetition.
                    while !["*", "+", "?"].iter().any(|text| is(tokens.peek(), text)) {
                        tokens.next().expect("a repetition has an operator");
                    }
                    tokens.next();
                    let inside: Vec<TokenTree> = as_written(repeated.stream()).into_iter().collect();
                    // `$([$never])?` never occurs.
                    let never = matches!(&inside[..], [TokenTree::Group(only)] if only.delimiter() == Delimiter::Bracket);
                    written.extend(inside.into_iter().filter(|_| !never));
                }
                other => panic!("a dollar sign before {other:?}"),
            },
            TokenTree::Group(group) => {
                written.push(Group::new(group.delimiter(), as_written(group.stream())).into());
            }
            other => written.push(other),
        }
    }
    written.into_iter().collect()
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

struct Finder<'a> {
    file: &'a Path,
    krate: &'static str,
    found: &'a mut Vec<Exported>,
}

impl Finder<'_> {
    fn push(&mut self, name: String, kind: Kind, rules: TokenStream) {
        let (file, krate) = (self.file.to_owned(), self.krate);
        self.found.push(Exported {
            name,
            kind,
            file,
            rules,
            krate,
        });
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        let is_exported = item.attrs.iter().any(|one| one.path().is_ident("macro_export"));
        if let (true, Some(name)) = (is_exported, &item.ident) {
            self.push(name.to_string(), Kind::Rules, item.mac.tokens.clone());
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        for attribute in &item.attrs {
            let (name, kind) = match attribute.path() {
                path if path.is_ident("proc_macro") => (item.sig.ident.to_string(), Kind::Function),
                path if path.is_ident("proc_macro_attribute") => {
                    (item.sig.ident.to_string(), Kind::Attribute)
                }
                path if path.is_ident("proc_macro_derive") => {
                    let list = &attribute.meta.require_list().unwrap().tokens;
                    (list.clone().into_iter().next().unwrap().to_string(), Kind::Derive)
                }
                _ => continue,
            };
            self.push(name, kind, TokenStream::new());
        }
        syn::visit::visit_item_fn(self, item);
    }
}

/// Files of macros that the hostile crates do not call, and the programs that call them and must be
/// refused. `definitions` reads these macros too.
const ELSEWHERE: [(&str, &[&str]); 1] = [(
    "driver/src/driver/calls.rs",
    &[
        "cases/h42_driver_call_with_an_unsafe_body.stderr",
        "cases/h42_driver_call_with_an_attribute.stderr",
        "hostile/refused/driver_call_with_an_operation_of_another_crate.rs",
        "hostile/refused/driver_call_passed_on_by_an_operation_of_another_crate.rs",
        "hostile/refused/driver_calls_with_an_operation_of_another_crate.rs",
    ],
)];

/// Counterexample: the macros of the driver crate were not looked at. They wrote the caller's body
/// into an `unsafe fn`.
#[test]
fn every_file_of_exported_macros_is_looked_at() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let files = exporting_files();
    let written = written();
    for file in &files {
        let name = file.strip_prefix(root).unwrap();
        let expanded = CRATES.iter().any(|(folder, _)| name.starts_with(folder));
        let cases = ELSEWHERE
            .iter()
            .find(|(file, _)| name == Path::new(file))
            .map(|(_, cases)| *cases);
        assert!(
            expanded || cases.is_some(),
            "no hostile crate calls the macros of {}",
            name.display()
        );
        assert!(
            expanded || written.iter().any(|found| found.file == *file),
            "`definitions` reads no macro of {}",
            name.display()
        );
        for case in cases.unwrap_or_default() {
            let refused = root.join("ui-tests").join(case);
            assert!(refused.is_file(), "{case} is no case");
        }
    }
    assert!(
        files.len() >= 8,
        "only {} files of exported macros were found",
        files.len()
    );
}

/// The files of all packages that users depend on in which a macro is exported.
fn exporting_files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folders = fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path().join("src"));
    // Folders that belong to no package that users depend on.
    let own = ["examples", "ui-tests", "xtask", "target"].map(|name| root.join(name).join("src"));
    let exports = |file: &PathBuf| {
        let text = fs::read_to_string(file).unwrap();
        text.lines()
            .any(|line| line.trim_start().starts_with("#[macro_export"))
    };
    folders
        .filter(|src| src.is_dir() && !own.contains(src))
        .flat_map(|src| sources(&src))
        .filter(exports)
        .collect()
}
