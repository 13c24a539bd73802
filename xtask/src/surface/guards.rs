//! Guards: rules for the lists, which hold whatever is committed.
//!
//! 1. A safe function or macro that documentation does not show does no harm, whoever calls it:
//!    `docs/surface/harmless.txt` gives the reason for each. It also gives the reason for each
//!    trait that a type without documentation implements, `Clone` and `Default` included.
//! 2. A safe function that takes a raw handle or an address, alone or inside another type, gets
//!    numbers that anyone makes. The same file says what it does with them.
//! 3. A sealed trait, or a trait that is `unsafe` to implement, makes a promise. `dyn Trait` would
//!    implement the trait without keeping the promise. So `dyn Trait` must not exist, or the same
//!    file says why it does no harm.
//! 4. A program calls the methods of each sealed trait through a bound, and says so in a comment.
//!    The program is a case or twin of `ui-tests`, or a test of the device library.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::Path;

use super::Lists;
use super::entries::{Entry, Kind, TraitMarks};
use super::reached::Way;

const REASONS: &str = "docs/surface/harmless.txt";
/// The comment by which a program names the traits whose methods it calls.
const MARK: &str = "// Through a bound: ";

impl Entry {
    /// Whether documentation does not show the entry.
    pub(super) fn is_unseen(&self) -> bool {
        self.hidden || self.way == Way::Bound
    }
}

/// Checks all rules. The error has a line for each problem.
pub(super) fn check(root: &Path, lists: &Lists) -> Result<(), Box<dyn Error>> {
    let entries: Vec<&Entry> = lists.values().flatten().collect();
    let reasons = fs::read_to_string(root.join(REASONS)).map_err(|error| format!("{REASONS}: {error}"))?;
    let mut problems = unreasoned(&entries, &reasons);
    if !raw_types(&entries).contains("Hint") {
        problems.push("`Hint` holds handles, and the search for such types does not find it".to_owned());
    }
    problems.extend(uncalled(&entries, &programs(root)?));
    match problems.is_empty() {
        true => Ok(()),
        false => Err(problems.join("\n").into()),
    }
}

/// Lists the entries without a reason, and reasons without an entry. A line of `reasons` has the
/// form `path | reason`. A `*` at the end of the path matches any text, within one type or trait:
/// a reason for all functions of a module would be one for later functions too.
fn unreasoned(entries: &[&Entry], reasons: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let mut patterns: BTreeMap<&str, bool> = BTreeMap::new();
    for line in reasons
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        match line.split_once('|') {
            Some((pattern, reason)) if !reason.trim().is_empty() => {
                let pattern = pattern.trim();
                if pattern
                    .strip_suffix('*')
                    .is_some_and(|start| !is_of_one_type(start))
                {
                    problems.push(format!(
                        "{REASONS}: a `*` stands for the methods of one type or trait (`Type::*`), or for its \
                         implementations (`Type: C*`): {pattern}"
                    ));
                }
                patterns.insert(pattern, false);
            }
            _ => problems.push(format!(
                "{REASONS}: a line must have the form `path | reason`: {line}"
            )),
        }
    }
    let raw = raw_types(entries);
    for entry in entries {
        let (name, what) = match &entry.kind {
            Kind::Function { is_unsafe: false } if entry.is_unseen() => {
                (entry.path.clone(), "safe code of any crate can call it")
            }
            Kind::Function { is_unsafe: false } if takes_raw(entry, &raw) => (
                entry.path.clone(),
                "safe code of any crate can call it with any handle or address",
            ),
            // Traits that only show or compare a value, or say where it may go, give no new access.
            Kind::Implementation { of }
                if entry.is_unseen()
                    && !matches!(&**of, "Debug" | "Drop" | "Eq" | "PartialEq" | "Send" | "Sync") =>
            {
                (entry.path.clone(), "safe code of any crate can call its methods")
            }
            Kind::Macro if entry.is_unseen() => (entry.path.clone(), "any crate can call it"),
            Kind::Trait(TraitMarks {
                is_sealed,
                is_unsafe,
                has_objects: true,
                functions: _,
            }) if (*is_sealed || *is_unsafe) && entry.way == Way::Path => {
                (format!("dyn {}", entry.path), "it implements its own trait")
            }
            _ => continue,
        };
        let mut is_known = false;
        for (pattern, is_used) in &mut patterns {
            if matches(pattern, &name) {
                (*is_used, is_known) = (true, true);
            }
        }
        if !is_known {
            problems.push(format!(
                "{name}: {what}: make that impossible, make it `unsafe`, or say in {REASONS} why it does no harm"
            ));
        }
    }
    let stale = patterns.iter().filter(|(_, is_used)| !**is_used);
    problems.extend(stale.map(|(pattern, _)| format!("{REASONS}: nothing is called {pattern}")));
    problems
}

/// The names of the types that hold a raw handle or an address: the handles themselves, and each
/// type with a public field of such a type.
fn raw_types(entries: &[&Entry]) -> BTreeSet<String> {
    let last = |path: &str| path.rsplit("::").next().unwrap_or_default().to_owned();
    let mut raw: BTreeSet<String> = ["DeviceAddress", "NonNull"].map(str::to_owned).into();
    for entry in entries {
        let name = last(&entry.path);
        let is_handle = name
            .strip_prefix("Raw")
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()));
        if is_handle && entry.text.contains("[anyone makes one]") {
            raw.insert(name);
        }
    }
    loop {
        let mut more = Vec::new();
        for entry in entries {
            let Some((field, ty)) = entry
                .text
                .strip_prefix("field ")
                .and_then(|text| text.split_once(": "))
            else {
                continue;
            };
            if !mentions(ty, &raw) {
                continue;
            }
            // `krate::Type.field` or `krate::Enum::Variant.field`.
            let of = field.rsplit_once('.').map_or(field, |(of, _)| of);
            let capital = |name: &&str| name.starts_with(|c: char| c.is_ascii_uppercase());
            let of = of.split("::").find(capital);
            more.extend(of.map(str::to_owned).filter(|of| !raw.contains(of)));
        }
        if more.is_empty() {
            return raw;
        }
        raw.extend(more);
    }
}

fn mentions(types: &str, raw: &BTreeSet<String>) -> bool {
    types.contains("*const ")
        || types.contains("*mut ")
        || types
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .any(|word| raw.contains(word))
}

/// Whether a function has a parameter that holds a raw handle or an address. The methods of such a
/// type itself see nothing but their own number.
fn takes_raw(entry: &Entry, raw: &BTreeSet<String>) -> bool {
    let parameters = entry
        .text
        .split_once(&format!("fn {}", entry.path))
        .and_then(|(_, rest)| {
            let start = rest.find('(')?;
            let mut depth = 0_usize;
            let end = rest[start..].find(|c: char| {
                match c {
                    '(' => depth += 1,
                    ')' => depth -= 1,
                    _ => {}
                }
                depth == 0
            })?;
            Some(&rest[start..start + end])
        });
    parameters.is_some_and(|parameters| mentions(parameters, raw))
}

/// Whether all that begins like this belongs to one type or trait. Their names begin with a capital
/// letter, and names of modules and functions do not.
fn is_of_one_type(start: &str) -> bool {
    let implementations = || Some(start.rsplit_once(": ")?.0);
    let of = start.strip_suffix("::").or_else(implementations);
    let name = of.and_then(|of| of.rsplit("::").next());
    name.is_some_and(|name| {
        name.trim_start_matches('_')
            .starts_with(|c: char| c.is_ascii_uppercase())
    })
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => pattern == name,
    }
}

const PROGRAMS: [&str; 3] = [
    "ui-tests/cases",
    "ui-tests/twins",
    "device-std/tests/kernels/tests/device_library",
];

/// The texts of the programs that may call methods of sealed traits, by name.
fn programs(root: &Path) -> Result<BTreeMap<String, String>, Box<dyn Error>> {
    let mut programs = BTreeMap::new();
    for folder in PROGRAMS {
        for entry in fs::read_dir(root.join(folder))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                programs.insert(format!("{folder}/{name}"), fs::read_to_string(&path)?);
            }
        }
    }
    Ok(programs)
}

fn uncalled(entries: &[&Entry], programs: &BTreeMap<String, String>) -> Vec<String> {
    let mut problems = Vec::new();
    // A trait may be on two lists, each with the functions of one target.
    let mut sealed: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for entry in entries {
        if let Kind::Trait(marks) = &entry.kind
            && marks.is_sealed
            && entry.way != Way::Asked
            && !marks.functions.is_empty()
        {
            let functions = marks.functions.iter().map(String::as_str);
            sealed.entry(&entry.path).or_default().extend(functions);
        }
    }
    let mut called: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, source) in programs {
        for line in source.lines().filter_map(|line| line.strip_prefix(MARK)) {
            for path in line.split(", ") {
                if !sealed.contains_key(path) {
                    problems.push(format!("{name}: no sealed trait with methods is called {path}"));
                }
                called.entry(path).or_default().push(source);
            }
        }
    }
    for (path, functions) in sealed {
        let sources = called.get(path).map(Vec::as_slice).unwrap_or_default();
        if sources.is_empty() {
            problems.push(format!(
                "{path}: no program with the comment `{MARK}{path}` calls the methods of this sealed trait"
            ));
            continue;
        }
        for function in functions {
            let is_called = |source: &&str| {
                [
                    format!("::{function}("),
                    format!(".{function}("),
                    format!("::{function}::<"),
                ]
                .iter()
                .any(|call| source.contains(call))
            };
            if !sources.iter().any(is_called) {
                problems.push(format!(
                    "{path}::{function}: the programs of its trait do not call it"
                ));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, kind: Kind, hidden: bool, way: Way) -> Entry {
        Entry {
            path: path.to_owned(),
            kind,
            hidden,
            way,
            text: path.to_owned(),
        }
    }

    fn sealed(functions: &[&str], has_objects: bool) -> Kind {
        Kind::Trait(TraitMarks {
            is_sealed: true,
            is_unsafe: false,
            has_objects,
            functions: functions.iter().map(|name| (*name).to_owned()).collect(),
        })
    }

    const SAFE: Kind = Kind::Function { is_unsafe: false };
    const UNSAFE: Kind = Kind::Function { is_unsafe: true };

    #[test]
    fn a_safe_undocumented_function_needs_a_reason() {
        for (hidden, way) in [(true, Way::Path), (false, Way::Bound)] {
            let found = entry("a::take", SAFE, hidden, way);
            assert_eq!(unreasoned(&[&found], "").len(), 1);
            assert_eq!(
                unreasoned(&[&found], "# Why\na::take | adds two numbers\n"),
                [""; 0]
            );
            assert_eq!(
                unreasoned(&[&found], "a::take |\n").len(),
                2,
                "a reason has words"
            );
        }
        let fine = [
            entry("a::shown", SAFE, false, Way::Path),
            entry("a::take", UNSAFE, true, Way::Path),
            entry("a::asked", SAFE, false, Way::Asked),
        ];
        assert_eq!(unreasoned(&fine.iter().collect::<Vec<_>>(), ""), [""; 0]);
    }

    #[test]
    fn a_safe_function_with_a_handle_inside_its_parameter_needs_a_reason() {
        let shown = |path: &str, kind, text: &str| Entry {
            text: text.to_owned(),
            ..entry(path, kind, false, Way::Path)
        };
        let types = [
            shown(
                "a::RawStream",
                Kind::Other,
                "struct a::RawStream [anyone makes one]",
            ),
            shown("a::Call::Wait._", Kind::Other, "field a::Call::Wait.0: RawStream"),
            shown("a::Note.call", Kind::Other, "field a::Note.call: Option<Call>"),
        ];
        let asked = |kind, text: &str| {
            let function = shown("a::T::tell", kind, text);
            let entries: Vec<&Entry> = types.iter().chain([&function]).collect();
            unreasoned(&entries, "").len()
        };
        assert_eq!(asked(SAFE, "fn a::T::tell(&self, note: &[Note]) -> bool"), 1);
        assert_eq!(
            asked(SAFE, "fn a::T::tell(&self, of: fn(u32) -> u8, at: *mut u8)"),
            1
        );
        assert_eq!(
            asked(UNSAFE, "unsafe fn a::T::tell(&self, note: &[Note]) -> bool"),
            0
        );
        assert_eq!(
            asked(SAFE, "fn a::T::tell(&self, of: fn(u32) -> u8) -> RawStream"),
            0
        );
    }

    #[test]
    fn a_star_stands_for_one_type_or_trait() {
        let functions = ["a::Token::take", "a::token::take", "a::Tokens::take"];
        let functions = functions.map(|path| entry(path, SAFE, true, Way::Path));
        for (at, pattern) in [(0, "a::Token::*"), (2, "a::Tokens::*")] {
            let reasons = format!("{pattern} | adds\n");
            assert_eq!(unreasoned(&[&functions[at]], &reasons), [""; 0]);
            assert_eq!(unreasoned(&functions.each_ref(), &reasons).len(), 2, "{pattern}");
        }
        let all = functions.each_ref();
        for pattern in [
            "a::token::*",
            "a::Token*",
            "a::*",
            "a::Token::t*",
            "*",
            "a::token::t*",
        ] {
            let problems = unreasoned(&all, &format!("{pattern} | adds\n"));
            assert!(
                problems[0].contains("methods of one type"),
                "{pattern}: {problems:?}"
            );
        }
        let found = entry(
            "a::Token: Clone",
            Kind::Implementation {
                of: "Clone".to_owned(),
            },
            true,
            Way::Path,
        );
        assert_eq!(unreasoned(&[&found], "a::Token: C* | a number\n"), [""; 0]);
        assert!(unreasoned(&[&found], "a::T* | a number\n")[0].contains("methods of one type"));
    }

    #[test]
    fn a_token_that_can_be_cloned_needs_a_reason() {
        let found = |of: &str| {
            entry(
                "a::Token: x",
                Kind::Implementation { of: of.to_owned() },
                true,
                Way::Path,
            )
        };
        assert!(unreasoned(&[&found("Clone")], "")[0].starts_with("a::Token: x"));
        assert_eq!(unreasoned(&[&found("Debug")], ""), [""; 0]);
    }

    #[test]
    fn a_reason_for_nothing_is_reported() {
        assert!(unreasoned(&[], "a::gone | adds\n")[0].contains("nothing is called a::gone"));
    }

    #[test]
    fn objects_of_a_sealed_trait_need_a_reason() {
        let found = entry("a::ReadBy", sealed(&[], true), false, Way::Path);
        assert!(unreasoned(&[&found], "")[0].starts_with("dyn a::ReadBy"));
        let found = entry("a::ReadBy", sealed(&[], false), false, Way::Path);
        assert_eq!(unreasoned(&[&found], ""), [""; 0]);
    }

    #[test]
    fn a_program_calls_the_methods_of_each_sealed_trait_and_says_so() {
        let found = entry("a::Parts", sealed(&["take", "put"], false), false, Way::Bound);
        let problems =
            |source: &str| uncalled(&[&found], &[("cases/x.rs".to_owned(), source.to_owned())].into());
        assert!(problems("fn main() {}")[0].contains("no program"));
        assert!(problems("// Through a bound: a::Parts\nh.take()")[0].contains("a::Parts::put"));
        assert_eq!(
            problems("// Through a bound: a::Parts\nh.take(); H::put(h)"),
            [""; 0]
        );
        assert!(
            problems("// Through a bound: a::Parts, a::Gone\nh.take(); H::put(h)")[0].contains("a::Gone")
        );
    }
}
