//! Reads the exported `macro_rules!` themselves. Three rules keep a user's crate from changing what
//! our macros vouch for:
//!
//! 1. Where `unsafe` is allowed (in an `unsafe` block, or in the body of an `unsafe fn`) there are
//!    only paths from `$crate`, and the macro's own locals and generic parameters. No fragment is
//!    there, and so no token of the user's. A safe function inside such a body is not a part of it:
//!    in the function `unsafe` is not allowed. No other `unsafe` of a macro holds code.
//! 2. No path begins with `::`, and every macro is called by a path from `$crate`: other names are
//!    looked up in the user's crate.
//! 3. No name of the prelude or of a primitive type stands alone: an item of that name in the
//!    user's crate would take precedence.
//!
//! Names of one letter or with two underscores are ours: generic parameters, and items that the
//! macro makes.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use crate::macros::{self, Kind};

/// Names that every module has without an import. A crate may define others with these names.
const PRELUDE: &str = "Option Some None Result Ok Err Box String Vec Copy Clone Send Sync Sized Unpin Drop Fn FnMut FnOnce AsRef AsMut \
     Into From TryFrom TryInto Default Iterator IntoIterator Extend FromIterator DoubleEndedIterator ExactSizeIterator Eq PartialEq \
     Ord PartialOrd ToOwned ToString Future drop size_of align_of \
     u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f16 f32 f64 bool char str";

/// Macros without `unsafe` that may be called by a path from `::`. Reason: device-std cannot depend
/// on cuda-rt.
const FROM_THE_ROOT: [(&str, &str); 1] = [("kernel_module", ":: cuda_rt :: __module")];

const KEYWORDS: &str = "as break const continue crate else enum extern fn for if impl in let loop match mod move mut pub ref return self \
     Self static struct super trait type union unsafe use where while _";

fn words(list: &'static str) -> BTreeSet<&'static str> {
    list.split_whitespace().collect()
}

/// The breaches of the rules in a macro, in words.
fn faults(name: &str, rules: &TokenStream) -> Vec<String> {
    let mut faults = Vec::new();
    for transcriber in transcribers(rules) {
        let flat = flatten(&transcriber);
        paths(name, &flat, &mut faults);
        let own = own_names(&flat);
        for body in unsafe_bodies(&transcriber, &mut faults) {
            unsafe_code(&flatten(&without_functions(&body)), &own, &mut faults);
        }
    }
    faults
}

/// The right sides of `(..) => { .. };`.
pub(crate) fn transcribers(rules: &TokenStream) -> Vec<TokenStream> {
    let groups: Vec<TokenStream> = rules
        .clone()
        .into_iter()
        .filter_map(|token| match token {
            TokenTree::Group(group) => Some(group.stream()),
            _ => None,
        })
        .collect();
    assert!(
        groups.len() >= 2 && groups.len().is_multiple_of(2),
        "rules are pairs"
    );
    groups.into_iter().skip(1).step_by(2).collect()
}

/// A token of a macro's right side; brackets are tokens too.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// A name written in the macro.
    Name(String),
    /// `$name`, a fragment of the user's.
    Fragment(String),
    /// `$crate`.
    Crate,
    /// `::`.
    Colons,
    /// `'name`.
    Lifetime(String),
    Open,
    Close,
    Other(String),
}

fn flatten(stream: &TokenStream) -> Vec<Token> {
    let mut found = Vec::new();
    let mut tokens = stream.clone().into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Group(group) => {
                let invisible = group.delimiter() == Delimiter::None;
                found.extend((!invisible).then_some(Token::Open));
                found.extend(flatten(&group.stream()));
                found.extend((!invisible).then_some(Token::Close));
            }
            TokenTree::Punct(punct) if punct.as_char() == '$' => match tokens.peek() {
                Some(TokenTree::Ident(name)) => {
                    let name = name.to_string();
                    tokens.next();
                    found.push(if name == "crate" {
                        Token::Crate
                    } else {
                        Token::Fragment(name)
                    });
                }
                _ => found.push(Token::Other("$".to_owned())),
            },
            TokenTree::Punct(punct) if punct.as_char() == '\'' => {
                let name = tokens.next().map(|name| name.to_string()).unwrap_or_default();
                found.push(Token::Lifetime(name));
            }
            TokenTree::Punct(punct) if punct.as_char() == ':' => match tokens.peek() {
                Some(TokenTree::Punct(second)) if second.as_char() == ':' => {
                    tokens.next();
                    found.push(Token::Colons);
                }
                _ => found.push(Token::Other(":".to_owned())),
            },
            TokenTree::Ident(name) => found.push(Token::Name(name.to_string())),
            other => found.push(Token::Other(other.to_string())),
        }
    }
    found
}

/// Rules 2 and 3.
fn paths(name: &str, tokens: &[Token], faults: &mut Vec<String>) {
    let (known, keywords) = (words(PRELUDE), words(KEYWORDS));
    let text = |tokens: &[Token]| -> String {
        let words = tokens.iter().map(|token| match token {
            Token::Name(name) => name.clone(),
            Token::Colons => "::".to_owned(),
            other => format!("{other:?}"),
        });
        words.collect::<Vec<_>>().join(" ")
    };
    for (at, token) in tokens.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| &tokens[before]);
        let after = tokens.get(at + 1);
        let is = |token: Option<&Token>, text: &str| token == Some(&Token::Other(text.to_owned()));
        match token {
            Token::Colons => {
                let goes_on = matches!(before, Some(Token::Name(_) | Token::Fragment(_) | Token::Crate))
                    || is(before, ">");
                let turbofish = is(after, "<");
                // `$($name)::+`: the separator of a repetition, which stands between two elements.
                let repeats = is(after, "+") || is(after, "*");
                let separates = before == Some(&Token::Close) && repeats;
                let excepted = FROM_THE_ROOT
                    .iter()
                    .any(|(of, path)| *of == name && text(&tokens[at..(at + 4).min(tokens.len())]) == *path);
                if !goes_on && !turbofish && !separates && !excepted {
                    faults.push(format!(
                        "a path from the root of the user's crate: {}",
                        text(&tokens[at..(at + 4).min(tokens.len())])
                    ));
                }
            }
            Token::Name(word) => {
                let in_a_path = before == Some(&Token::Colons);
                if known.contains(word.as_str()) && !in_a_path {
                    faults.push(format!("`{word}` is what the user's crate calls so"));
                }
                let called = is(after, "!") && !is(tokens.get(at + 2), "=");
                if called && !in_a_path && !keywords.contains(word.as_str()) {
                    faults.push(format!("`{word}!` is the user's macro, where there is one"));
                }
            }
            _ => {}
        }
    }
}

/// Names that a right side defines itself: locals, parameters, constants, generic parameters. A
/// local counts only behind `mut` or before `@`: a name alone is a pattern of the user's constant
/// of this name, if there is one (H42).
fn own_names(tokens: &[Token]) -> BTreeSet<String> {
    let mut own = BTreeSet::new();
    for (at, token) in tokens.iter().enumerate() {
        let Token::Name(word) = token else { continue };
        let next = |offset: usize| tokens.get(at + offset);
        match (word.as_str(), next(1), next(2)) {
            ("const" | "mut", Some(Token::Name(name)), _) => {
                own.insert(name.clone());
            }
            (name, Some(Token::Other(at)), _) if at == "@" => {
                own.insert(name.to_owned());
            }
            // A function inside a body.
            ("fn", Some(Token::Name(name)), _) if name.starts_with("__") => {
                own.insert(name.clone());
            }
            // The parameter of a closure: `|name|`.
            (name, Some(Token::Other(bar)), _)
                if bar == "|" && at > 0 && tokens[at - 1] == Token::Other("|".to_owned()) =>
            {
                own.insert(name.to_owned());
            }
            // A parameter of a function, or a generic parameter.
            (name, Some(Token::Other(colon)), _) if colon == ":" => {
                own.insert(name.to_owned());
            }
            _ => {}
        }
    }
    own
}

/// The tokens without the functions that they define. These functions are safe: an `unsafe fn` is a
/// body of its own.
fn without_functions(stream: &TokenStream) -> TokenStream {
    let tokens: Vec<TokenTree> = stream.clone().into_iter().collect();
    let is_group = |token: Option<&TokenTree>, starts: &str| {
        token.is_some_and(
            |token| matches!(token, TokenTree::Group(group) if group.to_string().starts_with(starts)),
        )
    };
    let is = |token: Option<&TokenTree>, text: &str| token.is_some_and(|token| token.to_string() == text);
    let mut kept: Vec<TokenTree> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let named = matches!(tokens.get(at + 1), Some(TokenTree::Ident(_)));
        if is(Some(&tokens[at]), "fn") && named {
            // Its attributes: `#[..]`, or `$(#[..])?`.
            loop {
                let before = |back: usize| kept.len().checked_sub(back).map(|at| &kept[at]);
                let attribute = is(before(2), "#") && is_group(before(1), "[");
                let optional = is(before(3), "$") && is_group(before(2), "(#") && is(before(1), "?");
                match (attribute, optional) {
                    (true, _) => kept.truncate(kept.len() - 2),
                    (_, true) => kept.truncate(kept.len() - 3),
                    _ => break,
                }
            }
            let body = tokens[at..].iter().position(|token| is_group(Some(token), "{"));
            at += body.expect("a function has a body") + 1;
            continue;
        }
        kept.push(match &tokens[at] {
            TokenTree::Group(group) => {
                Group::new(group.delimiter(), without_functions(&group.stream())).into()
            }
            other => other.clone(),
        });
        at += 1;
    }
    kept.into_iter().collect()
}

/// The contents of `unsafe { .. }`, and of the bodies of `unsafe fn`.
fn unsafe_bodies(stream: &TokenStream, faults: &mut Vec<String>) -> Vec<TokenStream> {
    let mut found = Vec::new();
    let tokens: Vec<TokenTree> = stream.clone().into_iter().collect();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => found.extend(unsafe_bodies(&group.stream(), faults)),
            TokenTree::Ident(word) if word == "unsafe" => match tokens.get(at + 1) {
                Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                    found.push(group.stream())
                }
                Some(TokenTree::Ident(next)) if next == "fn" || next == "extern" => {
                    let body = tokens[at..].iter().find_map(|token| match token {
                        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                            Some(group.stream())
                        }
                        _ => None,
                    });
                    if body.is_none() {
                        faults.push("the body of an `unsafe fn` is where this test does not look".to_owned());
                    }
                    found.extend(body);
                }
                // An `unsafe impl` and an attribute, `#[unsafe(..)]`, hold no code.
                Some(TokenTree::Ident(next)) if next == "impl" => {}
                Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis && at == 0 => {}
                next => faults.push(format!("`unsafe` before {next:?}")),
            },
            _ => {}
        }
    }
    found
}

/// Rule 1.
fn unsafe_code(tokens: &[Token], own: &BTreeSet<String>, faults: &mut Vec<String>) {
    let keywords = words(KEYWORDS);
    for (at, token) in tokens.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| &tokens[before]);
        match token {
            Token::Fragment(name) => faults.push(format!("`${name}` stands where `unsafe` is allowed")),
            Token::Name(name) => {
                let from_crate = before == Some(&Token::Colons) && starts_with_crate(&tokens[..at]);
                if !from_crate && !own.contains(name) && !keywords.contains(name.as_str()) {
                    faults.push(format!(
                        "`{name}` stands where `unsafe` is allowed, and is not ours"
                    ));
                }
            }
            Token::Other(text) if text == "." || text == "$" => {
                faults.push(format!(
                    "`{text}` stands where `unsafe` is allowed: methods are found by the traits in scope"
                ));
            }
            _ => {}
        }
    }
}

/// Whether the path that ends here, `$crate::a::b::`, begins with `$crate`.
fn starts_with_crate(tokens: &[Token]) -> bool {
    let mut rest = tokens;
    loop {
        rest = match rest {
            [.., Token::Crate, Token::Colons] => return true,
            [before @ .., Token::Name(_), Token::Colons] => match before.last() {
                Some(Token::Colons) => before,
                _ => return false,
            },
            _ => return false,
        };
    }
}

#[test]
fn nothing_of_the_users_stands_where_unsafe_is_allowed() {
    let rules: Vec<_> = macros::exported()
        .into_iter()
        .filter(|found| found.kind == Kind::Rules)
        .chain(macros::written())
        .collect();
    let count = |found: &macros::Exported| -> usize {
        let transcribers = transcribers(&found.rules).into_iter();
        transcribers
            .map(|transcriber| unsafe_bodies(&transcriber, &mut Vec::new()).len())
            .sum()
    };
    let bodies: usize = rules.iter().map(count).sum();
    assert!(
        bodies >= 23,
        "only {bodies} bodies where `unsafe` is allowed were found"
    );
    let calls = rules.iter().find(|found| found.name == "calls");
    // Four forms of a call are an `unsafe fn`, and three of them make the call in a block.
    assert_eq!(count(calls.expect("`group!` writes the macros of calls")), 7);
    let faults: Vec<String> = rules
        .iter()
        .flat_map(|found| {
            let faults = faults(&found.name, &found.rules);
            faults
                .into_iter()
                .map(|fault| format!("{}!: {fault}", found.name))
        })
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    println!("{} macros, {bodies} bodies", rules.len());
}

/// An example for each rule.
#[test]
fn macros_that_break_a_rule_are_found() {
    let broken = [
        ("(($e:expr) => { unsafe { $crate::f($e) } };)", "`$e` stands"),
        (
            "(($n:ident) => { unsafe fn f(self) { let $n { a } = self; } };)",
            "`$n` stands",
        ),
        (
            "(($p:expr) => { unsafe { $crate::new(env, 1) } };)",
            "`env` stands",
        ),
        ("(() => { unsafe { $crate::new(self.len()) } };)", "`.` stands"),
        ("(() => { unsafe { other::f() } };)", "`f` stands"),
        (
            "(() => { unsafe impl $crate::A for B { unsafe fn f() { g() } } };)",
            "`g` stands",
        ),
        (
            "(($e:expr) => { unsafe fn f() { $crate::g(|| $e) } };)",
            "`$e` stands",
        ),
        (
            "(($e:expr) => { unsafe fn f() { fn __g() { 1 } let a = $e; } };)",
            "`$e` stands",
        ),
        (
            "(($e:expr) => { unsafe fn f() { unsafe fn __g() { $e } } };)",
            "`$e` stands",
        ),
        ("(($e:expr) => { unsafe fn f() $e };)", "does not look"),
        ("(($b:block) => { unsafe $b };)", "`unsafe` before"),
        ("(() => { ::core::mem::drop(1) };)", "a path from the root"),
        ("(() => { <::std::vec::X>::f() };)", "a path from the root"),
        ("(($($n:ident)*) => { $(:: $n)* };)", "a path from the root"),
        ("(() => { stringify!(a) };)", "`stringify!`"),
        ("(() => { const A: &'static str = \"\"; };)", "`str`"),
        (
            "(() => { fn f(a: $crate::A) -> Option<$crate::A> { a } };)",
            "`Option`",
        ),
    ];
    for (rules, fault) in broken {
        let rules: TokenStream = rules.parse().unwrap();
        let Some(TokenTree::Group(group)) = rules.into_iter().next() else {
            unreachable!()
        };
        let found = faults("broken", &group.stream());
        assert!(
            found.iter().any(|found| found.contains(fault)),
            "{fault}: {found:?}"
        );
    }
    let whole: TokenStream =
        "($n:ident) => { unsafe impl $crate::A for $n { unsafe fn f<__S: $crate::B>(self, __at: $crate::C) {\
          unsafe { $crate::__private::f::<Self, __S>(self, __at) } } } };"
            .parse()
            .unwrap();
    assert_eq!(faults("whole", &whole), Vec::<String>::new());
    let inside: TokenStream =
        "($e:expr) => { unsafe fn f(a: $crate::A) { $(#[track_caller])? fn __g() { $e } __g(); } };"
            .parse()
            .unwrap();
    assert_eq!(faults("inside", &inside), Vec::<String>::new());
    let separated: TokenStream = "($($n:ident)::+) => { let a = $($n)::+; };".parse().unwrap();
    assert_eq!(faults("separated", &separated), Vec::<String>::new());
}
