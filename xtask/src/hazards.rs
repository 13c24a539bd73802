//! `cargo xtask hazards`: lists the programs and tests for each hazard of `ui-tests/hazards.txt`,
//! and reports missing ones.
//!
//! A hazard that is refused needs cases. Each case must be refused as its header says, and needs a
//! twin. A hazard that does no harm needs a test or a twin that runs. A race needs two programs of
//! raw calls: a program that the checker reports, and a mended program.

mod messages;
mod page;
mod tree;

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;

use tree::{Case, Tree};

const PAGE: &str = "docs/hazards.md";

/// The module whose headings are the targets of links in the documentation of items. It is in the
/// lowest crate whose documentation names hazards.
const MODULE: &str = "device-std/src/hazards.rs";

/// Prints the table, and writes it, the module of hazards and the page of messages if they are
/// complete.
pub(crate) fn write() -> Result<(), Box<dyn Error>> {
    fs::write(root().join(PAGE), complete_page()?)?;
    fs::write(root().join(MODULE), page::module(&list()?))?;
    Ok(fs::write(root().join(messages::PAGE), messages::page(root())?)?)
}

/// Prints the table, and compares it, the module of hazards and the page of messages with the
/// committed files.
pub(crate) fn check() -> Result<(), Box<dyn Error>> {
    compare(PAGE, &complete_page()?)?;
    compare(MODULE, &page::module(&list()?))?;
    compare(messages::PAGE, &messages::page(root())?)
}

fn compare(name: &str, page: &str) -> Result<(), Box<dyn Error>> {
    let committed = fs::read_to_string(root().join(name)).map_err(|error| format!("{name}: {error}"))?;
    match committed == page {
        true => Ok(()),
        false => Err(format!("{name} differs from the tree: run `cargo xtask hazards`").into()),
    }
}

/// Runs the hazard programs of a file through the checker: `FILE [--json]`.
pub(crate) fn check_programs(arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    let status = Command::new("cargo")
        .args([
            "run",
            "--quiet",
            "--package",
            "hazard-programs",
            "--manifest-path",
        ])
        .arg(root().join("Cargo.toml"))
        .arg("--")
        .args(arguments)
        .status()?;
    match status.success() {
        true => Ok(()),
        false => Err("a verdict differs from the checker's, or a line is no program".into()),
    }
}

/// The numbers of all hazards: `H01` and so on.
pub(crate) fn numbers() -> Result<Vec<String>, Box<dyn Error>> {
    Ok(list()?.into_iter().map(|hazard| hazard.number).collect())
}

fn list() -> Result<Vec<Hazard>, Box<dyn Error>> {
    Ok(parse(&fs::read_to_string(root().join("ui-tests/hazards.txt"))?)?)
}

fn complete_page() -> Result<String, Box<dyn Error>> {
    let hazards = list()?;
    let tree = Tree::read(root())?;
    print!("{}", page::text(&hazards, &tree));
    let problems = problems(&hazards, &tree);
    match problems.is_empty() {
        true => Ok(page::markdown(&hazards, &tree)),
        false => Err(format!("hazards that are not covered:\n  {}", problems.join("\n  ")).into()),
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the workspace")
}

/// A line of `hazards.txt`.
#[derive(Debug)]
struct Hazard {
    section: String,
    /// `H01`.
    number: String,
    ways: BTreeSet<Way>,
    title: String,
}

impl Hazard {
    fn is(&self, way: Way) -> bool {
        self.ways.contains(&way)
    }

    /// How the hazard is refused, in words for readers.
    fn refusal(&self) -> String {
        let words = self.ways.iter().filter_map(|way| match way {
            Way::Compile => Some("does not compile"),
            Way::Unwritable => Some("no way to write it"),
            Way::Runs => Some("runs, and does no harm"),
            Way::NotYet => Some("not there yet"),
            Way::Race => None,
        });
        words.collect::<Vec<_>>().join("; ")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Compile,
    Unwritable,
    Runs,
    NotYet,
    Race,
}

fn parse(text: &str) -> Result<Vec<Hazard>, String> {
    let mut hazards: Vec<Hazard> = Vec::new();
    let mut section = String::new();
    for (at, line) in text.lines().enumerate() {
        let wrong = |what: &str| format!("ui-tests/hazards.txt:{}: {what}", at + 1);
        if line.is_empty() || line.starts_with("//") {
            continue;
        }
        if let Some(heading) = line.strip_prefix("# ") {
            section = heading.to_owned();
            continue;
        }
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let [number, ways, title] = fields[..] else {
            return Err(wrong(
                "a line must have the form `number | how it is refused | what happens`",
            ));
        };
        if number != format!("H{:02}", hazards.len() + 1) {
            return Err(wrong("the number must follow the previous number"));
        }
        let ways = ways.split(", ").map(|word| match word {
            "compile" => Ok(Way::Compile),
            "unwritable" => Ok(Way::Unwritable),
            "runs" => Ok(Way::Runs),
            "not yet" => Ok(Way::NotYet),
            "race" => Ok(Way::Race),
            _ => Err(wrong(&format!("`{word}` does not name a way to refuse a hazard"))),
        });
        let ways: BTreeSet<Way> = ways.collect::<Result<_, _>>()?;
        if ways.iter().all(|way| *way == Way::Race) {
            return Err(wrong("no word says how the hazard is refused"));
        }
        hazards.push(Hazard {
            section: section.clone(),
            number: number.to_owned(),
            ways,
            title: title.to_owned(),
        });
    }
    Ok(hazards)
}

/// Lists missing and wrong entries, a line for each.
fn problems(hazards: &[Hazard], tree: &Tree) -> Vec<String> {
    let mut problems = Vec::new();
    for hazard in hazards {
        let mut lacks = |what: &str| problems.push(format!("{} ({}): {what}", hazard.number, hazard.title));
        let no_case = tree.cases_of(&hazard.number).next().is_none();
        if hazard.is(Way::NotYet) {
            if !no_case {
                lacks("the list says `not yet`, but it has cases");
            }
            continue;
        }
        if (hazard.is(Way::Compile) || hazard.is(Way::Unwritable)) && no_case {
            lacks("no case");
        }
        let runs = tree.tests_of(&hazard.number).count() + tree.twins_named_after(&hazard.number).count();
        if hazard.is(Way::Runs) && runs == 0 {
            lacks("no test and no twin runs");
        }
        for verdict in ["race", "ok"] {
            let found = tree
                .programs_of(&hazard.number)
                .any(|program| program.verdict == verdict);
            if hazard.is(Way::Race) && !found {
                lacks(&format!("no raw program with the verdict `{verdict}`"));
            }
        }
    }
    let known = |number: &str| hazards.iter().any(|hazard| hazard.number == number);
    for (name, case) in &tree.cases {
        problems.extend(problem(name, case, tree, known).map(|what| format!("case {name}: {what}")));
    }
    for program in &tree.programs {
        let strangers = program.hazards.iter().filter(|number| !known(number));
        problems.extend(strangers.map(|number| format!("raw program {}: {number} is no hazard", program.id)));
    }
    problems
}

fn problem(name: &str, case: &Case, tree: &Tree, known: impl Fn(&str) -> bool) -> Option<String> {
    let Some(header) = &case.header else {
        return Some(
            "the first line does not have the form `// HNN (E0000): what would go wrong`".to_owned(),
        );
    };
    let number = &header.hazard;
    let twin = case.twin(name);
    if !known(number) {
        return Some(format!("{number} is no hazard"));
    }
    if !name.starts_with(&format!("{}_", number.to_lowercase())) {
        return Some(format!("its header says {number}"));
    }
    if !tree.twins.contains(twin) {
        return Some(format!("ui-tests/twins/{twin}.rs is missing"));
    }
    (header.expected != case.refusals).then(|| {
        format!(
            "should be refused with {:?}, but is refused with {:?}",
            header.expected, case.refusals
        )
    })
}

#[cfg(test)]
mod tests {
    use super::tree::RawProgram;
    use super::*;

    const LIST: &str =
        "// A comment\n# Streams\nH01 | compile, race | read\nH02 | runs | forget\nH03 | not yet | peer\n";

    fn case(source: &str, stderr: &str) -> Case {
        Case::new(source, stderr)
    }

    fn program(id: &str, hazard: &str, verdict: &str) -> RawProgram {
        RawProgram {
            id: id.to_owned(),
            hazards: vec![hazard.to_owned()],
            description: String::new(),
            verdict: verdict.to_owned(),
        }
    }

    fn whole() -> Tree {
        let refused = case(
            "// H01 (E0277): a read.\n",
            "error[E0277]: may not read\n --> cases/a.rs\n",
        );
        Tree {
            cases: [("h01_read".to_owned(), refused)].into(),
            twins: ["h01_read".to_owned()].into(),
            tests: [("cuda-rt/tests/a.rs".to_owned(), "h02_forget".to_owned())].into(),
            programs: vec![program("rawr", "H01", "race"), program("rawk", "H01", "ok")],
        }
    }

    /// The problems of `whole()` after a change.
    fn after(change: impl FnOnce(&mut Tree)) -> Vec<String> {
        let mut tree = whole();
        change(&mut tree);
        problems(&parse(LIST).unwrap(), &tree)
    }

    #[test]
    fn a_complete_tree_has_no_problems() {
        assert_eq!(after(|_| {}), [""; 0]);
    }

    #[test]
    fn missing_entries_are_reported() {
        assert_eq!(
            after(|tree| tree.twins.clear()),
            ["case h01_read: ui-tests/twins/h01_read.rs is missing"]
        );
        assert_eq!(after(|tree| tree.cases.clear()), ["H01 (read): no case"]);
        assert_eq!(
            after(|tree| tree.tests.clear()),
            ["H02 (forget): no test and no twin runs"]
        );
        let mended_only = after(|tree| tree.programs.retain(|program| program.verdict == "ok"));
        assert_eq!(
            mended_only,
            ["H01 (read): no raw program with the verdict `race`"]
        );
        let racy_only = after(|tree| tree.programs.retain(|program| program.verdict == "race"));
        assert_eq!(racy_only, ["H01 (read): no raw program with the verdict `ok`"]);
    }

    #[test]
    fn a_wrong_code_is_reported() {
        let found = after(|tree| {
            tree.cases.insert(
                "h01_read".to_owned(),
                case("// H01 (E0277): a read.", "error[E0382]: moved"),
            );
        });
        assert_eq!(
            found,
            [r#"case h01_read: should be refused with {"E0277"}, but is refused with {"E0382"}"#]
        );
    }

    #[test]
    fn a_case_may_name_the_twin_of_another_case() {
        let variant = "// H01 (E0277): in a loop.\n// Twin: h01_read\n";
        let found = after(|tree| {
            tree.cases
                .insert("h01_loop".to_owned(), case(variant, "error[E0277]: no"));
        });
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn cases_and_programs_of_unlisted_hazards_are_reported() {
        let refused = |number: &str| case(&format!("// {number} (E0277): x."), "error[E0277]: no");
        let early = after(|tree| {
            tree.twins.insert("h03_x".to_owned());
            tree.cases.insert("h03_x".to_owned(), refused("H03"));
        });
        assert_eq!(early, ["H03 (peer): the list says `not yet`, but it has cases"]);
        let stranger = after(|tree| drop(tree.cases.insert("h09_x".to_owned(), refused("H09"))));
        assert_eq!(stranger, ["case h09_x: H09 is no hazard"]);
        let stranger = after(|tree| tree.programs.push(program("x", "H09", "ok")));
        assert_eq!(stranger, ["raw program x: H09 is no hazard"]);
    }

    #[test]
    fn a_malformed_list_is_refused() {
        let refused = |text: &str| parse(text).unwrap_err();
        assert!(refused("H01 | compile | x\nH03 | compile | y").contains(":2: the number must follow"));
        assert!(refused("H01 | maybe | x").contains("`maybe`"));
        assert!(refused("H01 | race | x").contains("no word says how"));
        assert!(refused("H01 | compile").contains("the form `number"));
    }

    #[test]
    fn the_page_lists_the_tree() {
        let (hazards, tree) = (parse(LIST).unwrap(), whole());
        let page = page::markdown(&hazards, &tree);
        for part in [
            "| [H01](#h01) | read | does not compile | E0277 | 1 | 1 | 2 |",
            "cases/h01_read.rs",
            "`rawr`",
            "not there yet",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
        let module = page::module(&hazards);
        let part = "//!\n//! # Streams\n//!\n//! ## H01\n//!\n//! Read: does not compile.\n";
        assert!(module.contains(part), "{module}");
        assert!(page::text(&hazards, &tree).contains("not there yet: 1 (H03)"));
    }
}
