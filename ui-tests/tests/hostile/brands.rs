//! Reads every `PhantomData` of the crates that lend memory. Each function type in it must return
//! every lifetime and type that it takes, and take every one that it returns.
//!
//! `fn(&'v ()) -> S` is contravariant in `'v`, so a value of it for a short lifetime is also one
//! for `'static`. `fn() -> S` is covariant in `S`. `fn(&'v (), S) -> (&'v (), S)` is invariant in
//! both. A plain reference, `&'a mut [T]`, is a borrow, not a brand.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};

/// Crates whose types lend memory.
const CRATES: [&str; 3] = ["runtime/src", "device-std/src", "pipeline/src"];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The contents of the angle brackets of each `PhantomData<..>`.
fn brands(stream: TokenStream, found: &mut Vec<Vec<TokenTree>>) {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => brands(group.stream(), found),
            TokenTree::Ident(name) if name == "PhantomData" => found.extend(in_brackets(&tokens[at + 1..])),
            _ => {}
        }
    }
}

fn in_brackets(tokens: &[TokenTree]) -> Option<Vec<TokenTree>> {
    let (first, rest) = tokens.split_first()?;
    if first.to_string() != "<" {
        return None;
    }
    let mut open = 1;
    for (at, token) in rest.iter().enumerate() {
        let arrow = at > 0 && rest[at - 1].to_string() == "-";
        match token.to_string().as_str() {
            "<" => open += 1,
            ">" if !arrow => open -= 1,
            _ => {}
        }
        if open == 0 {
            return Some(rest[..at].to_vec());
        }
    }
    None
}

/// The lifetimes, types and fragments named by the tokens.
fn names(tokens: &[TokenTree]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                found.extend(names(&group.stream().into_iter().collect::<Vec<_>>()));
            }
            TokenTree::Ident(name) => {
                found.insert(name.to_string());
            }
            _ => {}
        }
    }
    found
}

/// The functions in a brand whose arguments and result name different lifetimes or types.
fn uneven(brand: &[TokenTree]) -> Vec<String> {
    let mut found = Vec::new();
    for (at, token) in brand.iter().enumerate() {
        match token {
            TokenTree::Group(group) => {
                found.extend(uneven(&group.stream().into_iter().collect::<Vec<_>>()));
            }
            TokenTree::Ident(name) if name == "fn" => {
                let rest = &brand[at + 1..];
                // Up to the comma after its result: `fn(A) -> A, ..`.
                let end = rest.iter().position(|token| token.to_string() == ",");
                let (taken, given) = rest[..end.unwrap_or(rest.len())].split_at(1);
                if names(taken) != names(given) {
                    found.push(brand[at..].iter().map(ToString::to_string).collect());
                }
            }
            _ => {}
        }
    }
    found
}

fn faults(text: &str) -> (usize, Vec<String>) {
    let mut found = Vec::new();
    brands(text.parse().unwrap(), &mut found);
    let with_functions = found.iter().filter(|brand| names(brand).contains("fn")).count();
    (
        with_functions,
        found.iter().flat_map(|brand| uneven(brand)).collect(),
    )
}

#[test]
fn each_brand_returns_the_names_that_it_takes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for name in CRATES {
        sources(&root.join(name), &mut files);
    }
    let mut seen = 0;
    let mut wrong = Vec::new();
    for file in files {
        let (brands, faults) = faults(&crate::read(&file));
        seen += brands;
        wrong.extend(
            faults
                .into_iter()
                .map(|fault| format!("{}: {fault}", file.display())),
        );
    }
    assert!(seen >= 20, "only {seen} brands were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{seen} brands");
}

#[test]
fn brands_that_vary_are_found() {
    for brand in [
        "fn(&'v ()) -> (S, D)",
        "fn() -> S",
        "fn(S)",
        "(&'a mut [T], fn(S))",
        "fn($(&$lifetime ())?) -> ($($parameter,)*)",
    ] {
        let (_, faults) = faults(&format!("struct Broken(PhantomData<{brand}>);"));
        assert_eq!(faults.len(), 1, "{brand}");
    }
    for brand in [
        "fn(S, D) -> (S, D)",
        "(fn(&'id ()) -> &'id (), fn(D) -> D)",
        "(&'a [T], fn(S) -> S)",
    ] {
        let (_, faults) = faults(&format!("struct Whole(PhantomData<{brand}>);"));
        assert!(faults.is_empty(), "{faults:?}");
    }
}
