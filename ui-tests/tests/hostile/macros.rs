//! Finds the macros that the crates of this workspace export to users, in their sources.

use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::TokenStream;
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

/// Files of macros that this harness does not expand, and the cases that show why it need not.
const ELSEWHERE: [(&str, &[&str]); 1] = [(
    "driver/src/driver/calls.rs",
    &[
        "h42_driver_call_with_an_unsafe_body",
        "h42_driver_call_with_an_attribute",
    ],
)];

/// Counterexample: the macros of the driver crate were not looked at. They wrote the caller's body
/// into an `unsafe fn`.
#[test]
fn every_file_of_exported_macros_is_looked_at() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folders = fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path().join("src"));
    // Folders that belong to no package that users depend on.
    let own = ["examples", "ui-tests", "xtask", "target"].map(|name| root.join(name).join("src"));
    let mut exporting = 0;
    for file in folders
        .filter(|src| src.is_dir() && !own.contains(src))
        .flat_map(|src| sources(&src))
    {
        let text = fs::read_to_string(&file).unwrap();
        if !text
            .lines()
            .any(|line| line.trim_start().starts_with("#[macro_export"))
        {
            continue;
        }
        exporting += 1;
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
        for case in cases.unwrap_or_default() {
            let refused = root.join("ui-tests/cases").join(case).with_extension("stderr");
            assert!(refused.is_file(), "{case} is no case");
        }
    }
    assert!(
        exporting >= 8,
        "only {exporting} files of exported macros were found"
    );
}
