//! A name that a macro binds is no constant of the user's.
//!
//! Locals of a macro are hygienic, but a name alone is a pattern of the constant, the static or the
//! unit struct of this name, if the user's crate has one: `let stream = ..` then compares instead
//! of binding. Behind `mut` or before `@`, a name is always bound, and rustc refuses the constant
//! (E0530). Counterexample: with a constant `start` of type `&mut [T; 0]`, the address of the
//! constant took the place of a buffer's.
//!
//! One test expands `hostile/constants.rs`, which calls the macros, and declares a constant for
//! each name that comes from a macro. Each is refused, or changes nothing. The other test reads the
//! rules of all macros that are exported, also those for the GPU and for drivers.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, Group, Spacing, TokenStream, TokenTree};

use crate::definitions::transcribers;
use crate::macros::{self, Kind};
use crate::rustc::Rustc;
use crate::{folder, read};

const CONSTANTS: &str = "CONSTANTS!();";

/// The source with a constant for each name. No macro binds a value of type `()` alone.
fn with_constants(source: &str, names: &BTreeSet<String>) -> String {
    let constants: String = names
        .iter()
        .map(|name| format!("pub const {name}: () = ();\n"))
        .collect();
    source.replace(CONSTANTS, &constants)
}

/// The names in a source that stand alone, and that a local may have. Methods, fields and parts of
/// paths do not stand alone.
fn names(source: &str) -> BTreeSet<String> {
    fn collect(tokens: TokenStream, found: &mut BTreeSet<String>) {
        let mut tokens = tokens.into_iter();
        let (mut stands_alone, mut before) = (true, None);
        while let Some(token) = tokens.next() {
            let mark = match &token {
                TokenTree::Punct(mark) => Some(mark.as_char()),
                _ => None,
            };
            match token {
                TokenTree::Group(group) => collect(group.stream(), found),
                // A lifetime.
                TokenTree::Punct(mark) if mark.as_char() == '\'' => drop(tokens.next()),
                TokenTree::Ident(name) if stands_alone => {
                    let name = name.to_string();
                    let is_lower = !name.contains(|c: char| c.is_uppercase()) && name != "_";
                    if is_lower && syn::parse_str::<syn::Ident>(&name).is_ok() {
                        found.insert(name);
                    }
                }
                _ => {}
            }
            stands_alone = mark != Some('.') && !(mark == Some(':') && before == Some(':'));
            before = mark;
        }
    }
    let mut found = BTreeSet::new();
    collect(source.parse().unwrap(), &mut found);
    found
}

/// The constants that rustc refuses because something binds their names.
fn refused(error: &str) -> BTreeSet<String> {
    let after = |line: &str| Some(line.split_once("the constant `")?.1.split_once('`')?.0.to_owned());
    let blocks = error
        .split("\nerror")
        .filter(|block| block.starts_with("[E0530]"));
    blocks.flat_map(|block| block.lines().filter_map(after)).collect()
}

#[test]
fn no_name_that_a_macro_binds_is_a_constant_of_the_users() {
    let rustc = Rustc::new("constants");
    rustc.file("none.ptx", &read(&folder("none.ptx")));
    let source = read(&folder("constants.rs"));
    let honest = with_constants(&source, &BTreeSet::new());
    let of_macros: BTreeSet<String> = names(&rustc.expanded("honest", &honest))
        .difference(&names(&source))
        .cloned()
        .collect();
    // Names of `#[kernel]`, of the derives and of `macro_rules!`.
    for name in [
        "stream",
        "grid",
        "output",
        "position",
        "value0",
        "__part0",
        "__with",
        "arguments",
        "asked",
    ] {
        assert!(of_macros.contains(name), "{name} is not found: {of_macros:?}");
    }

    let compile = |name: &str, names: &BTreeSet<String>| {
        let sources = [(name.to_owned(), with_constants(&source, names))];
        rustc.libraries(&sources).remove(name).unwrap()
    };
    compile("honest", &BTreeSet::new()).expect("a crate without constants");
    let bound = match compile("all", &of_macros) {
        Ok(()) => BTreeSet::new(),
        Err(error) => refused(&error),
    };
    let harmless: BTreeSet<String> = of_macros.difference(&bound).cloned().collect();
    if let Err(error) = compile("constants", &harmless) {
        panic!("in a macro a name alone is a pattern: bind it by `name @ _` or `mut name`\n{error}");
    }
    for name in ["stream", "value0", "__part0", "__with", "arguments", "asked"] {
        assert!(
            bound.contains(name),
            "`{name}` is bound, and its constant is not refused"
        );
    }
    let printed = rustc.run(&["honest", "constants"]);
    assert!(printed["honest"].contains("view 9"), "{printed:?}");
    assert_eq!(printed["honest"], printed["constants"]);
    println!(
        "{} names, {} of them refused: {bound:?}",
        of_macros.len(),
        bound.len()
    );
}

/// What the rules of a macro bind.
#[derive(Debug, Default)]
struct Bindings {
    /// Names behind `mut` or `ref`, or before `@`.
    bound: usize,
    /// Names alone, and fragments alone.
    bare: Vec<String>,
}

fn mark(tokens: &[TokenTree], at: usize) -> Option<char> {
    match tokens.get(at) {
        Some(TokenTree::Punct(mark)) => Some(mark.as_char()),
        _ => None,
    }
}

fn word(tokens: &[TokenTree], at: usize) -> Option<String> {
    match tokens.get(at) {
        Some(TokenTree::Ident(name)) => Some(name.to_string()),
        _ => None,
    }
}

fn group(tokens: &[TokenTree], at: usize, delimiter: Delimiter) -> Option<&Group> {
    match tokens.get(at) {
        Some(TokenTree::Group(group)) if group.delimiter() == delimiter => Some(group),
        _ => None,
    }
}

/// Whether `::` begins here.
fn colons(tokens: &[TokenTree], at: usize) -> bool {
    let joint = matches!(tokens.get(at), Some(TokenTree::Punct(mark)) if mark.spacing() == Spacing::Joint);
    joint && mark(tokens, at) == Some(':') && mark(tokens, at + 1) == Some(':')
}

fn goes_on_a_path(tokens: &[TokenTree], at: usize) -> bool {
    at >= 2 && colons(tokens, at - 2)
}

/// Whether `$` stands before this token: a fragment, or a repetition.
fn is_of_the_caller(tokens: &[TokenTree], at: usize) -> bool {
    at > 0 && mark(tokens, at - 1) == Some('$')
}

/// The first `:` alone, before a type.
fn type_of(tokens: &[TokenTree]) -> Option<usize> {
    (0..tokens.len()).find(|at| {
        mark(tokens, *at) == Some(':') && !colons(tokens, *at) && !(*at > 0 && colons(tokens, at - 1))
    })
}

fn trees(stream: TokenStream) -> Vec<TokenTree> {
    stream.into_iter().collect()
}

impl Bindings {
    /// Looks for what binds: `let`, `match`, `for`, closures, and functions with a body.
    fn code(&mut self, tokens: &[TokenTree]) {
        for (at, token) in tokens.iter().enumerate() {
            let rest = &tokens[at + 1..];
            match token {
                TokenTree::Ident(name) if name == "let" => {
                    let end = (0..rest.len()).find(|at| matches!(mark(rest, *at), Some('=' | ';')));
                    self.with_type(&rest[..end.unwrap_or(rest.len())]);
                }
                TokenTree::Ident(name) if name == "for" && mark(rest, 0) != Some('<') => {
                    let end = (0..rest.len()).take_while(|at| group(rest, *at, Delimiter::Brace).is_none());
                    if let Some(end) = end
                        .into_iter()
                        .find(|at| word(rest, *at).as_deref() == Some("in"))
                    {
                        self.pattern(&rest[..end]);
                    }
                }
                TokenTree::Ident(name) if name == "match" => {
                    let arms = (0..rest.len()).find_map(|at| group(rest, at, Delimiter::Brace));
                    self.arms(&trees(arms.expect("a match has arms").stream()));
                }
                TokenTree::Ident(name)
                    if name == "fn" && !matches!(rest.first(), Some(TokenTree::Group(_))) =>
                {
                    let parameters = (0..rest.len()).find_map(|at| {
                        let found = group(rest, at, Delimiter::Parenthesis);
                        found.filter(|_| !is_of_the_caller(rest, at))
                    });
                    let end = (0..rest.len())
                        .find(|at| mark(rest, *at) == Some(';'))
                        .unwrap_or(rest.len());
                    let has_body = (0..end).any(|at| group(rest, at, Delimiter::Brace).is_some());
                    if let Some(parameters) = parameters.filter(|_| has_body) {
                        self.parameters(&trees(parameters.stream()));
                    }
                }
                // The start of a closure, and no operator behind a value.
                TokenTree::Punct(bar) if bar.as_char() == '|' => {
                    let starts = match at.checked_sub(1).map(|before| &tokens[before]) {
                        None => true,
                        Some(TokenTree::Punct(before)) => !['?', '|'].contains(&before.as_char()),
                        Some(TokenTree::Ident(before)) => before == "move",
                        Some(_) => false,
                    };
                    let end = (0..rest.len()).find(|at| mark(rest, *at) == Some('|'));
                    if let Some(end) = end.filter(|_| starts) {
                        self.parameters(&rest[..end]);
                    }
                }
                TokenTree::Group(group) => self.code(&trees(group.stream())),
                _ => {}
            }
        }
    }

    /// `pattern: type, ..`. A repetition is a list of its own, and needs no comma behind it.
    fn parameters(&mut self, tokens: &[TokenTree]) {
        let (mut start, mut depth) = (0, 0);
        for at in 0..=tokens.len() {
            let arrow = at > 0 && mark(tokens, at - 1) == Some('-');
            match mark(tokens, at) {
                Some('<') => depth += 1,
                Some('>') if !arrow => depth -= 1,
                Some(',') if depth == 0 => {
                    self.with_type(&tokens[start..at]);
                    start = at + 1;
                }
                Some('$') if depth == 0 => {
                    if let Some(repeated) = group(tokens, at + 1, Delimiter::Parenthesis) {
                        self.with_type(&tokens[start..at]);
                        self.parameters(&trees(repeated.stream()));
                        // The dollar sign, the list, and the operator.
                        start = at + 3;
                    }
                }
                _ => {}
            }
        }
        self.with_type(tokens.get(start..).unwrap_or_default());
    }

    fn with_type(&mut self, tokens: &[TokenTree]) {
        self.pattern(&tokens[..type_of(tokens).unwrap_or(tokens.len())]);
    }

    /// `pattern => code, ..`, and repetitions of these.
    fn arms(&mut self, tokens: &[TokenTree]) {
        let arrow = |at: usize| mark(tokens, at) == Some('=') && mark(tokens, at + 1) == Some('>');
        let mut start = 0;
        while start < tokens.len() {
            if let (Some('$'), Some(repeated)) = (
                mark(tokens, start),
                group(tokens, start + 1, Delimiter::Parenthesis),
            ) && !colons(tokens, start + 2)
            {
                self.arms(&trees(repeated.stream()));
                start += 3;
                continue;
            }
            let Some(end) = (start..tokens.len()).find(|at| arrow(*at)) else {
                return;
            };
            self.pattern(&tokens[start..end]);
            let body = end + 2;
            start = match group(tokens, body, Delimiter::Brace) {
                Some(_) => body + 1,
                None => (body..tokens.len())
                    .find(|at| mark(tokens, *at) == Some(','))
                    .unwrap_or(tokens.len()),
            };
            start += usize::from(mark(tokens, start) == Some(','));
        }
    }

    fn pattern(&mut self, tokens: &[TokenTree]) {
        for (at, token) in tokens.iter().enumerate() {
            match token {
                // `$($form)::+` is a path.
                TokenTree::Group(_) if is_of_the_caller(tokens, at) && colons(tokens, at + 1) => {}
                TokenTree::Group(group) => self.pattern(&trees(group.stream())),
                TokenTree::Ident(name) => {
                    let name = name.to_string();
                    let before = at.checked_sub(1).and_then(|before| word(tokens, before));
                    let is_word = ["_", "mut", "ref", "self", "Self", "crate", "if"].contains(&name.as_str());
                    let is_type = name.starts_with(|c: char| c.is_uppercase());
                    let is_path = goes_on_a_path(tokens, at)
                        || colons(tokens, at + 1)
                        || matches!(tokens.get(at + 1), Some(TokenTree::Group(_)))
                        || mark(tokens, at + 1) == Some('!');
                    let is_field = mark(tokens, at + 1) == Some(':');
                    if is_word || is_type || is_path || is_field {
                        continue;
                    }
                    let is_fragment = is_of_the_caller(tokens, at);
                    let mutable = match is_fragment {
                        true => at.checked_sub(2).and_then(|before| word(tokens, before)),
                        false => before,
                    };
                    let is_bound = mark(tokens, at + 1) == Some('@')
                        || matches!(mutable.as_deref(), Some("mut" | "ref"));
                    match is_bound {
                        true => self.bound += 1,
                        false if is_fragment => self.bare.push(format!("${name}")),
                        false => self.bare.push(name),
                    }
                }
                _ => {}
            }
        }
    }
}

fn bindings(rules: &TokenStream) -> Bindings {
    let mut found = Bindings::default();
    for transcriber in transcribers(rules) {
        found.code(&trees(transcriber));
    }
    found
}

#[test]
fn the_rules_of_each_macro_bind_no_name_alone() {
    let rules = macros::exported()
        .into_iter()
        .filter(|found| found.kind == Kind::Rules);
    let (mut bound, mut bare) = (Vec::new(), Vec::new());
    for found in rules.chain(macros::written()) {
        let bindings = bindings(&found.rules);
        bare.extend(
            bindings
                .bare
                .iter()
                .map(|name| format!("{}!: `{name}`", found.name)),
        );
        bound.push((found.name, bindings.bound));
    }
    assert!(
        bare.is_empty(),
        "bind them by `name @ _` or `mut name`:\n{}",
        bare.join("\n")
    );
    // The macros that bind names at all. A form of binding that this test overlooks would miss
    // here.
    bound.retain(|(_, bound)| *bound > 0);
    let least = [
        ("__bundle", 38),
        ("__element", 4),
        ("__entry", 30),
        ("calls", 12),
        ("print", 1),
    ];
    for (name, least) in least {
        let found = bound.iter().find(|(found, _)| found == name);
        assert!(
            found.is_some_and(|(_, found)| *found >= least),
            "{name}: {bound:?}"
        );
    }
    println!("{bound:?}");
}

/// An example for each form of binding.
#[test]
fn names_that_are_bound_alone_are_found() {
    for (code, bare) in [
        ("let a = 1;", "a"),
        ("let a: $crate::A = 1;", "a"),
        ("let (mut b, a) = f();", "a"),
        ("let $a = 1;", "$a"),
        ("let Self { a } = b else { return };", "a"),
        ("let $crate::A { b: a } = c;", "a"),
        ("if let $crate::A(a) = b { c }", "a"),
        ("let a;", "a"),
        ("f(|a| a)", "a"),
        ("f(|b @ _, a: u8| a)", "a"),
        ("f(move |&a| a)", "a"),
        ("fn f(a: $crate::A) { }", "a"),
        ("fn f<A: $crate::B>($(mut $b: A,)* a: A) -> A { }", "a"),
        ("fn $f(&self $(, $a: $b)*) { }", "$a"),
        ("match b { a => c }", "a"),
        ("match b { $crate::A(1) => c, a if a > 1 => d }", "a"),
        ("match b { $($($c)::+ { $($m: $a,)* } => { $d })* }", "$a"),
        ("for a in b { c }", "a"),
        ("{ [ { let a = 1; } ] }", "a"),
    ] {
        let rules: TokenStream = format!("() => {{ {code} }};").parse().unwrap();
        let found = bindings(&rules).bare;
        assert!(
            !found.is_empty() && found.iter().all(|found| found == bare),
            "{code}: {found:?}"
        );
    }
    let whole = "() => { impl<A> $crate::B for $c where for<'a> A: $crate::D { fn f(self, mut a: A, b @ _: fn(u8) -> u8) {
            let Self { c: _, d: e @ _ } = self; match a | b { $crate::A::B { $($m: $n @ _,)* } => |x @ _| x, _ => 1 } }
            fn g(a: A); } };";
    let found = bindings(&whole.parse().unwrap());
    assert_eq!((found.bound, &found.bare[..]), (5, &[][..]), "{found:?}");
}
