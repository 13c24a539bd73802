//! `cargo xtask pages --check`: checks the pages that rustdoc makes of public items.
//!
//! 1. The page of each public type, trait, function and macro has an example that runs, or an
//!    example of its module names the item. An example of the page, or of the module, calls each
//!    inherent method; `try_release` needs no example beside that of `release`.
//!    `docs/surface/no-example.txt` names the page that shows an item instead, which the check
//!    compares, or gives the reason of an exception.
//! 2. A hazard's number on a page is a link to the sentence that says what the hazard is:
//!    `[H01](crate::hazards#h01)`.
//!
//! Only lines that readers see count as an example: no hidden line (`# `), and no block that is
//! text, that does not compile, or that is compiled alone.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;

use rustdoc_types::{Id, Impl, Item, ItemEnum, MacroKind, StructKind, VariantKind, Visibility};

use super::reached::{Reach, Way, is_hidden};
use super::root;
use super::rustdoc::{self, SOURCES};
use crate::hazards;

const REASONS: &str = "docs/surface/no-example.txt";

/// The lists whose documentation nobody reads: items that exist on the device alone have the pages
/// of the host's list.
const NO_PAGES: [&str; 1] = ["device-std-on-the-device"];

pub(crate) fn check() -> Result<(), Box<dyn Error>> {
    if let Some(missing) = rustdoc::missing() {
        eprintln!("SKIPPED: the check of the pages of items; to run it, first run {missing}");
        return Ok(());
    }
    let numbers: BTreeSet<String> = hazards::numbers()?.into_iter().collect();
    let mut found = Found::default();
    for source in SOURCES.iter().filter(|source| !NO_PAGES.contains(&source.list)) {
        let krate = source.read(root())?;
        let mut of_crate = Found::default();
        of_crate.read(&Reach::of(&krate), &numbers);
        println!(
            "{}: {} items and methods, {} of them in no example; {} numbers of hazards",
            source.list,
            of_crate.asked,
            of_crate.without.len(),
            of_crate.links
        );
        found.add(of_crate);
    }
    found.see_re_exports();
    let reasons = fs::read_to_string(root().join(REASONS)).map_err(|error| format!("{REASONS}: {error}"))?;
    let mut problems = unreasoned(&found, &reasons);
    if found.links == 0 {
        problems.push("no page has a link to a hazard: has the form of the links changed?".to_owned());
    }
    problems.extend(found.unlinked);
    match problems.is_empty() {
        true => Ok(()),
        false => Err(problems.join("\n").into()),
    }
}

/// What the pages of a crate lack.
#[derive(Debug, Default)]
struct Found {
    /// How many items and methods must have an example.
    asked: usize,
    /// The paths of items and methods that no example shows, and how an example would name them.
    without: BTreeMap<String, Form>,
    /// The examples of each page.
    pages: BTreeMap<String, String>,
    /// The examples that a re-export adds to the page of an item, by the item's path.
    re_exports: Vec<(String, String)>,
    /// How many numbers of hazards are links.
    links: usize,
    /// A line for each number that is no link.
    unlinked: Vec<String>,
}

impl Found {
    fn add(&mut self, other: Self) {
        self.asked += other.asked;
        self.without.extend(other.without);
        self.pages.extend(other.pages);
        self.re_exports.extend(other.re_exports);
        self.links += other.links;
        self.unlinked.extend(other.unlinked);
    }

    /// Counts the examples of re-exports, once all crates are read.
    fn see_re_exports(&mut self) {
        for (path, code) in std::mem::take(&mut self.re_exports) {
            self.without.retain(|item, form| {
                let name = item.rsplit("::").next().unwrap_or(item);
                let is_method = item.strip_suffix(name) == Some(&format!("{path}::"));
                !(*item == path || is_method && form.is_in(name, &code))
            });
            self.pages.entry(path).or_default().push_str(&code);
        }
    }

    fn read(&mut self, reach: &Reach<'_>, numbers: &BTreeSet<String>) {
        for item in reach.krate.index.values() {
            if let ItemEnum::Use(of) = &item.inner {
                let code = example(docs(item));
                if !code.is_empty() {
                    self.re_exports.push((of.source.clone(), code));
                }
            }
        }
        let modules: BTreeMap<&str, String> = shown(reach)
            .filter(|(_, item)| matches!(item.inner, ItemEnum::Module(_)))
            .chain(reach.item(reach.krate.root).map(|item| (crate_name(item), item)))
            .map(|(path, item)| (path, example(docs(item))))
            .collect();
        let root = reach.item(reach.krate.root);
        for (path, item) in root
            .map(|item| (crate_name(item), item))
            .into_iter()
            .chain(shown(reach))
        {
            self.numbers(path, docs(item), numbers);
            for (name, member) in members(reach, item) {
                self.numbers(&format!("{path}::{name}"), docs(member), numbers);
            }
            let Some(form) = Form::of(item) else { continue };
            let name = path.rsplit("::").next().unwrap_or(path);
            let module = path.strip_suffix(name).and_then(|path| path.strip_suffix("::"));
            let of_module = module
                .and_then(|module| modules.get(module))
                .map_or("", String::as_str);
            let members = members(reach, item);
            let on_page: String = members.iter().map(|(_, member)| example(docs(member))).collect();
            let on_page = example(docs(item)) + &on_page;
            self.asked += 1;
            if on_page.is_empty() && !form.is_in(name, of_module) {
                self.without.insert(path.to_owned(), form);
            }
            for (name, _) in members
                .iter()
                .filter(|(_, member)| is_inherent_method(reach, item, member))
            {
                self.asked += 1;
                let is_shown = |name| {
                    [&on_page, of_module]
                        .iter()
                        .any(|code| Form::Function.is_in(name, code))
                };
                if !is_shown(name) && !name.strip_prefix("try_").is_some_and(is_shown) {
                    self.without.insert(format!("{path}::{name}"), Form::Function);
                }
            }
            self.pages.insert(path.to_owned(), on_page);
        }
    }

    /// Counts the numbers of hazards that are links, and notes the others.
    fn numbers(&mut self, path: &str, docs: &str, known: &BTreeSet<String>) {
        for (number, is_link) in numbers_in(docs) {
            if !known.contains(number) {
                self.unlinked.push(format!("{path}: {number} is no hazard"));
            } else if is_link {
                self.links += 1;
            } else {
                let anchor = number.to_lowercase();
                self.unlinked.push(format!(
                    "{path}: {number} is no link: write `[{number}](crate::hazards#{anchor})`"
                ));
            }
        }
    }
}

/// How an example names an item.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// By its name alone.
    Name,
    /// `name(`, `name::<`, or a path that ends with it.
    Function,
    /// `name!`
    Macro,
}

impl Form {
    /// The form in which an example names the item, if its page must have an example.
    fn of(item: &Item) -> Option<Self> {
        match &item.inner {
            ItemEnum::Struct(_) | ItemEnum::Enum(_) | ItemEnum::Union(_) => Some(Self::Name),
            ItemEnum::Trait(_) | ItemEnum::TypeAlias(_) => Some(Self::Name),
            ItemEnum::Function(_) => Some(Self::Function),
            ItemEnum::Macro(_) => Some(Self::Macro),
            ItemEnum::ProcMacro(of) => Some(match of.kind {
                MacroKind::Bang => Self::Macro,
                MacroKind::Attr | MacroKind::Derive => Self::Name,
            }),
            _ => None,
        }
    }

    fn is_in(self, name: &str, code: &str) -> bool {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        code.match_indices(name).any(|(at, _)| {
            let (before, after) = (&code[..at], &code[at + name.len()..]);
            if before.ends_with(is_word) || after.starts_with(is_word) {
                return false;
            }
            match self {
                Self::Name => true,
                Self::Function => {
                    after.starts_with('(') || after.starts_with("::<") || before.ends_with("::")
                }
                Self::Macro => after.starts_with('!'),
            }
        })
    }
}

fn docs(item: &Item) -> &str {
    item.docs.as_deref().unwrap_or_default()
}

fn crate_name(root: &Item) -> &str {
    root.name.as_deref().unwrap_or_default()
}

/// The items that have a page: with a path, and not hidden.
fn shown<'a>(reach: &'a Reach<'_>) -> impl Iterator<Item = (&'a str, &'a Item)> {
    let reached = reach
        .items
        .iter()
        .filter(|(_, reached)| reached.way == Way::Path && !reached.hidden);
    reached.filter_map(|(id, reached)| Some((reached.path.as_str(), reach.item(*id)?)))
}

/// The documented parts of an item's page, by name: fields, variants, blocks of methods, methods.
fn members<'c>(reach: &Reach<'c>, item: &Item) -> Vec<(&'c str, &'c Item)> {
    let of = |ids: &[Id]| -> Vec<&'c Item> {
        let items = ids.iter().filter_map(|id| reach.item(*id));
        items.filter(|item| !is_hidden(item)).collect()
    };
    let mut members = Vec::new();
    let mut impls = Vec::new();
    match &item.inner {
        ItemEnum::Struct(of_struct) => {
            if let StructKind::Plain { fields, .. } = &of_struct.kind {
                members.extend(
                    of(fields)
                        .into_iter()
                        .filter(|field| field.visibility == Visibility::Public),
                );
            }
            impls = of(&of_struct.impls);
        }
        ItemEnum::Union(of_union) => impls = of(&of_union.impls),
        ItemEnum::Enum(of_enum) => {
            for variant in of(&of_enum.variants) {
                members.push(variant);
                if let ItemEnum::Variant(rustdoc_types::Variant {
                    kind: VariantKind::Struct { fields, .. },
                    ..
                }) = &variant.inner
                {
                    members.extend(of(fields));
                }
            }
            impls = of(&of_enum.impls);
        }
        ItemEnum::Trait(of_trait) => members.extend(of(&of_trait.items)),
        _ => {}
    }
    for block in impls {
        let ItemEnum::Impl(Impl {
            trait_,
            items,
            blanket_impl: None,
            ..
        }) = &block.inner
        else {
            continue;
        };
        members.push(block);
        let is_public = |item: &&Item| trait_.is_some() || item.visibility == Visibility::Public;
        members.extend(of(items).into_iter().filter(is_public));
    }
    members
        .into_iter()
        .map(|member| (member.name.as_deref().unwrap_or("impl"), member))
        .collect()
}

/// Whether the member is a method that a block without a trait holds.
fn is_inherent_method(reach: &Reach<'_>, item: &Item, member: &Item) -> bool {
    let impls = match &item.inner {
        ItemEnum::Struct(of) => &of.impls,
        ItemEnum::Union(of) => &of.impls,
        ItemEnum::Enum(of) => &of.impls,
        _ => return false,
    };
    matches!(member.inner, ItemEnum::Function(_))
        && impls
            .iter()
            .filter_map(|id| reach.item(*id))
            .any(|block| match &block.inner {
                ItemEnum::Impl(of) => of.trait_.is_none() && of.items.contains(&member.id),
                _ => false,
            })
}

/// The lines that readers see of the examples that run.
fn example(docs: &str) -> String {
    let mut code = String::new();
    for (line, block) in lines(docs) {
        let is_hidden = line == "#" || line.starts_with("# ");
        if block.is_some_and(runs) && !is_hidden {
            code += line;
            code.push('\n');
        }
    }
    code
}

/// Whether the words after a block's opening fence say that the block is an example that runs.
fn runs(words: &str) -> bool {
    let mut words = words.split([',', ' ']).filter(|word| !word.is_empty());
    words.all(|word| matches!(word, "rust" | "should_panic" | "standalone_crate"))
}

/// The lines without fences, each with the words after the fence of the block that it stands in.
fn lines(docs: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let mut block = None;
    docs.lines().filter_map(move |line| {
        let line = line.trim_start();
        let Some(words) = line.strip_prefix("```") else {
            return Some((line, block));
        };
        block = match block {
            None => Some(words.trim()),
            Some(_) => None,
        };
        None
    })
}

/// The numbers of hazards in the text outside of blocks, each with whether it is a link to its
/// sentence.
fn numbers_in(docs: &str) -> Vec<(&str, bool)> {
    let mut numbers = Vec::new();
    // The headings of the module of hazards are the targets of the links.
    for (line, _) in lines(docs).filter(|(line, block)| block.is_none() && !line.starts_with('#')) {
        for (at, _) in line.match_indices('H') {
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            let Some(number) = line.get(at..at + 3) else {
                continue;
            };
            let (before, after) = (&line[..at], &line[at + 3..]);
            let is_number = number[1..].chars().all(|c| c.is_ascii_digit());
            if !is_number || before.ends_with(is_word) || after.starts_with(is_word) {
                continue;
            }
            let target = after.strip_prefix("](").and_then(|rest| rest.split_once(')'));
            let anchor = format!("hazards#{}", number.to_lowercase());
            let page = format!("hazards/index.html#{}", number.to_lowercase());
            let leads = |(target, _): (&str, &str)| target.ends_with(&anchor) || target.ends_with(&page);
            numbers.push((number, before.ends_with('[') && target.is_some_and(leads)));
        }
    }
    numbers
}

/// The start of a reason that names the page whose example shows the item.
const SHOWN: &str = "shown by ";

/// Lists the items without an example and without a reason, reasons without an item, and reasons
/// that name a page without such an example. A line of `reasons` has the form `path | reason`,
/// where a `*` at the start or end of the path matches any text.
fn unreasoned(found: &Found, reasons: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let mut patterns: BTreeMap<&str, bool> = BTreeMap::new();
    for line in reasons
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let Some((pattern, reason)) = line
            .split_once('|')
            .filter(|(_, reason)| !reason.trim().is_empty())
        else {
            problems.push(format!(
                "{REASONS}: a line must have the form `path | reason`: {line}"
            ));
            continue;
        };
        let pattern = pattern.trim();
        patterns.insert(pattern, false);
        let Some(page) = reason.trim().strip_prefix(SHOWN) else {
            continue;
        };
        for (path, form) in found.without.iter().filter(|(path, _)| matches(pattern, path)) {
            let name = path.rsplit("::").next().unwrap_or(path);
            if !found.pages.get(page).is_some_and(|code| form.is_in(name, code)) {
                problems.push(format!("{REASONS}: no example of {page} shows {path}"));
            }
        }
    }
    for path in found.without.keys() {
        let mut is_known = false;
        for (pattern, is_used) in &mut patterns {
            if matches(pattern, path) {
                (*is_used, is_known) = (true, true);
            }
        }
        if !is_known {
            problems.push(format!(
                "{path}: no example on its page or its module's shows it: write one that runs, or say in {REASONS} why none \
                 is needed"
            ));
        }
    }
    let stale = patterns.iter().filter(|(_, is_used)| !**is_used);
    problems.extend(
        stale.map(|(pattern, _)| format!("{REASONS}: nothing without an example is called {pattern}")),
    );
    problems
}

fn matches(pattern: &str, path: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), _) => path.ends_with(end),
        (_, Some(start)) => path.starts_with(start),
        _ => path == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::{Form, Found, example, numbers_in, unreasoned};

    #[test]
    fn only_lines_that_run_and_that_readers_see_are_an_example() {
        let docs = "Text.\n\n```\n# hidden();\nshown();\n```\n\n```text\ndrawn();\n```\n\n```compile_fail,E0277\nrefused();\n```\n\
                    ```no_run\ncompiled();\n```\n```should_panic\npanics();\n```\n";
        assert_eq!(example(docs), "shown();\npanics();\n");
    }

    #[test]
    fn an_example_names_an_item_by_a_whole_word() {
        assert!(Form::Function.is_in("fill", "stream.fill(&mut x, 1)?;"));
        assert!(Form::Function.is_in("fill", "fill::<f32>(x)"));
        assert!(Form::Function.is_in("fill", "map(Stream::fill)"));
        assert!(!Form::Function.is_in("fill", "stream.refill(x)"));
        assert!(!Form::Function.is_in("fill", "let fill = 1;"));
        assert!(Form::Macro.is_in("streams", "streams! { A; }"));
        assert!(!Form::Macro.is_in("streams", "let streams = 1;"));
        assert!(Form::Name.is_in("Slot", "let slot: Slot<u32> = make();"));
        assert!(!Form::Name.is_in("Slot", "Slots::new()"));
    }

    #[test]
    fn numbers_are_links_to_their_own_sentence() {
        let docs = "# H10\n[H01](crate::hazards#h01)–[H04](https://docs.rs/x/hazards/index.html#h04), H05 (`H06`),\n\
                    [H07](crate::hazards#h08). H100, SH12.\n```\n// H09\n```\n";
        assert_eq!(
            numbers_in(docs),
            [
                ("H01", true),
                ("H04", true),
                ("H05", false),
                ("H06", false),
                ("H07", false)
            ]
        );
    }

    #[test]
    fn reasons_fit_items_without_examples() {
        let found = Found {
            without: [
                ("a::B".to_owned(), Form::Name),
                ("a::B::len".to_owned(), Form::Function),
            ]
            .into(),
            pages: [("a::C".to_owned(), "let b: B = c();".to_owned())].into(),
            ..Found::default()
        };
        assert_eq!(unreasoned(&found, "# Comment\na::B* | numbers"), [""; 0]);
        assert_eq!(
            unreasoned(&found, "*::len | a number\na::B | shown by a::C"),
            [""; 0]
        );
        let problems = unreasoned(&found, "a::B | shown by a::D\na::D | numbers\na::B::len |");
        assert_eq!(problems.len(), 4, "{problems:?}");
        assert!(problems[0].ends_with("no example of a::D shows a::B"));
        assert!(problems[1].contains("the form `path | reason`"));
        assert!(problems[2].starts_with("a::B::len: no example"));
        assert!(problems[3].ends_with("is called a::D"));
    }
}
