//! Checks the names in a macro's output, for the tests of each macro.
//!
//! A path in the output must start at `::cuda_rt` or `::device_std`. A name of the prelude, of a
//! primitive type or of a macro could mean an item of the user's crate.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};

/// Names that rustc looks up in the user's crate first.
const LOOKED_UP: &str = "Option Some None Result Ok Err Box String Vec Copy Clone Send Sync Sized Drop Fn Default Iterator Into From \
     u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64 bool char str";

/// Fails if `output` has a name that is neither in `input` nor in a path of ours.
#[track_caller]
pub(crate) fn assert_ours(input: &TokenStream, output: &TokenStream) {
    let users: BTreeSet<String> = words(input).into_iter().collect();
    let words = with_paths(words(output));
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    for at in 0..words.len() {
        let in_a_path = at > 0 && word(at - 1) == "::";
        if word(at) == "::" {
            let before = if at > 0 { word(at - 1) } else { "" };
            let after_generics = before == ">" && (at < 2 || word(at - 2) != "-");
            let goes_on = after_generics || is_segment(before);
            let ours = ["cuda_rt", "device_std", "<"].contains(&word(at + 1));
            assert!(goes_on || ours, "a path from `::{}` in {output}", word(at + 1));
        } else if !in_a_path && !users.contains(word(at)) {
            let looked_up = LOOKED_UP.split_whitespace().any(|name| name == word(at));
            assert!(!looked_up, "`{}` alone in {output}", word(at));
            let is_name = word(at).starts_with(|c: char| c.is_alphabetic() || c == '_');
            let called = is_name && word(at + 1) == "!" && word(at + 2) != "=";
            assert!(!called, "`{}!` alone in {output}", word(at));
        }
    }
}

/// Whether a path may continue after this word.
fn is_segment(word: &str) -> bool {
    ["Self", "self", "crate", "super"].contains(&word) || syn::parse_str::<syn::Ident>(word).is_ok()
}

/// Joins two colons into one word. Of three colons, the first stays alone (`a: ::b`).
fn with_paths(words: Vec<String>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        if word != ":" {
            found.push(word);
            continue;
        }
        let colons = 1 + std::iter::from_fn(|| words.next_if(|next| next == ":")).count();
        found.extend((colons % 2 == 1).then(|| ":".to_owned()));
        found.extend((colons > 1).then(|| "::".to_owned()));
    }
    found
}

/// The words and marks of the tokens, in order.
fn words(tokens: &TokenStream) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for token in tokens.clone() {
        match token {
            TokenTree::Group(group) => {
                found.push("(".to_owned());
                found.extend(words(&group.stream()));
                found.push(")".to_owned());
            }
            token => found.push(token.to_string()),
        }
    }
    found
}

mod tests {
    use quote::quote;

    use super::assert_ours;

    #[test]
    fn names_that_are_not_ours_are_found() {
        let input = quote!(
            fn f(a: u32) {}
        );
        for output in [
            quote!(::core::mem::drop),
            quote!(-> ::std::vec::X),
            quote!(a: usize),
            quote!(assert!(true)),
            quote!(Some(1)),
        ] {
            let result = std::panic::catch_unwind(|| assert_ours(&input, &output));
            assert!(result.is_err(), "{output}");
        }
        assert_ours(
            &input,
            &quote!(
                const _: u32 = ::device_std::__private::core::assert!(a != 1);
            ),
        );
    }
}
