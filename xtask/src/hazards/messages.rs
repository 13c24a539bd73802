//! `docs/messages.md`: what rustc says where memory is touched too early, error by error.
//!
//! The page lists each error of each case that has a line `// Table: ..`. An error must name a
//! hazard, and in the same note a call that mends it. Otherwise its line in the case ends with
//! `// Why not: ..`.

use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::Path;

pub(super) const PAGE: &str = "docs/messages.md";

const HEAD: &str = "# Messages

`cargo xtask hazards` writes this page from cases in [`ui-tests/cases`](../ui-tests/cases), and
fails if an error names no hazard and no call that mends it, unless the case says why not. Each row
is a line that does not compile, with the headline that rustc prints, and the hazards that the
notes below the headline name. The whole message is in the `.stderr` file beside the case.

";

/// A case of the table.
#[derive(Debug)]
struct Case<'a> {
    name: &'a str,
    title: &'a str,
    source: &'a str,
    stderr: &'a str,
}

/// An error of a case.
#[derive(Debug, PartialEq, Eq)]
struct Row<'a> {
    line: usize,
    /// `E0277`.
    code: &'a str,
    headline: &'a str,
    /// The hazards of the notes that also show a call, without repetition.
    hazards: Vec<&'a str>,
}

/// The page, or what is wrong with the cases.
pub(super) fn page(root: &Path) -> Result<String, Box<dyn Error>> {
    let folder = root.join("ui-tests/cases");
    let mut files = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            let stem = path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let source = fs::read_to_string(&path)?;
            if title(&source).is_some() {
                let stderr = fs::read_to_string(path.with_extension("stderr"))?;
                files.push((stem, source, stderr));
            }
        }
    }
    files.sort();
    let cases: Vec<_> = files
        .iter()
        .filter_map(|(name, source, stderr)| {
            let title = title(source)?;
            Some(Case {
                name,
                title,
                source,
                stderr,
            })
        })
        .collect();
    let problems: Vec<_> = cases.iter().flat_map(problems).collect();
    match (cases.is_empty(), problems.is_empty()) {
        (false, true) => Ok(markdown(&cases)),
        (true, _) => Err("no case has a line `// Table: ..`".into()),
        (false, false) => Err(format!("messages that do not help:\n  {}", problems.join("\n  ")).into()),
    }
}

fn title(source: &str) -> Option<&str> {
    source.lines().find_map(|line| line.strip_prefix("// Table: "))
}

/// The statement and the remark on a line of a case.
fn statement(source: &str, line: usize) -> (&str, &str) {
    let text = line
        .checked_sub(1)
        .and_then(|at| source.lines().nth(at))
        .unwrap_or_default();
    let (code, remark) = text.split_once(" // ").unwrap_or((text, ""));
    (code.trim(), remark)
}

fn rows<'a>(case: &Case<'a>) -> Vec<Row<'a>> {
    let place = format!("--> cases/{}.rs:", case.name);
    let mut rows: Vec<Row<'a>> = Vec::new();
    for line in case.stderr.lines() {
        if let Some((code, headline)) = line
            .strip_prefix("error[")
            .and_then(|rest| rest.split_once("]: "))
        {
            rows.push(Row {
                line: 0,
                code,
                headline,
                hazards: Vec::new(),
            });
            continue;
        }
        let Some(row) = rows.last_mut() else { continue };
        if let (0, Some((_, place))) = (row.line, line.split_once(&place)) {
            row.line = place
                .split(':')
                .next()
                .and_then(|number| number.parse().ok())
                .unwrap_or(0);
        }
        if line.contains('`') {
            for hazard in hazards(line) {
                if !row.hazards.contains(&hazard) {
                    row.hazards.push(hazard);
                }
            }
        }
    }
    rows
}

/// The hazards at the start of a note: `H13/H14: ..`.
fn hazards(line: &str) -> Vec<&str> {
    let Some((_, note)) = line.split_once("= note: ") else {
        return Vec::new();
    };
    let Some((numbers, _)) = note.split_once(": ") else {
        return Vec::new();
    };
    let number = |text: &&str| {
        let digits = text.strip_prefix('H').unwrap_or_default();
        digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    numbers.split('/').filter(number).collect()
}

fn problems(case: &Case<'_>) -> Vec<String> {
    let rows = rows(case);
    let mut problems = Vec::new();
    for row in &rows {
        let mut wrong = |what: &str| problems.push(format!("{}.rs:{}: {what}", case.name, row.line));
        let excused = statement(case.source, row.line).1.starts_with("Why not: ");
        let helped = rows
            .iter()
            .any(|other| other.line == row.line && !other.hazards.is_empty());
        match (row.line, helped, excused) {
            (0, ..) => wrong("the error points at no line of the case"),
            (_, false, false) => {
                wrong("the message names no hazard with its mend, and no `// Why not: ..` says why")
            }
            (_, true, true) => {
                wrong("the message names a hazard, but `// Why not: ..` says that it does not")
            }
            _ => {}
        }
    }
    for (at, _) in case.source.lines().enumerate() {
        let (_, remark) = statement(case.source, at + 1);
        let refused = rows.iter().any(|row| row.line == at + 1);
        let mut wrong = |what: &str| problems.push(format!("{}.rs:{}: {what}", case.name, at + 1));
        if remark.starts_with("Why not: ") && !refused {
            wrong("the line compiles, and says why its message does not help");
        }
        if remark.starts_with("compiles") && refused {
            wrong("the line does not compile, and says that it does");
        }
    }
    problems
}

fn markdown(cases: &[Case<'_>]) -> String {
    let mut page = HEAD.to_owned();
    let all: Vec<_> = cases.iter().map(rows).collect();
    let count: usize = all.iter().map(Vec::len).sum();
    let named = all.iter().flatten().filter(|row| !row.hazards.is_empty()).count();
    let _ = writeln!(
        page,
        "{count} errors in {} cases; {named} name a hazard and a call that mends it.",
        cases.len()
    );
    for (case, rows) in cases.iter().zip(all) {
        let _ = write!(
            page,
            "\n## {}\n\n[`{name}`](../ui-tests/cases/{name}.rs)\n\n| line | error | rustc's headline | hazards named, or why none |\n|---|---|---|---|\n",
            capital(case.title),
            name = case.name,
        );
        let compiling = case.source.lines().enumerate().filter_map(|(at, _)| {
            let (code, remark) = statement(case.source, at + 1);
            remark
                .starts_with("compiles")
                .then(|| format!("| {} | | | {remark} |\n", cell(code)))
        });
        for row in &rows {
            let (code, remark) = statement(case.source, row.line);
            let last = match row.hazards.is_empty() {
                true => capital(
                    remark
                        .strip_prefix("Why not: ")
                        .unwrap_or("see the row of this line that names one"),
                ),
                false => row.hazards.join(", "),
            };
            let _ = writeln!(
                page,
                "| {} | {} | {} | {} |",
                cell(code),
                row.code,
                row.headline.replace('|', "\\|"),
                last.replace('|', "\\|")
            );
        }
        page.extend(compiling);
    }
    page
}

fn cell(code: &str) -> String {
    format!("`{}`", code.replace('|', "\\|"))
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "// Table: pinned\nfn f() {\n    host.iter();\n    sum(host); // Why not: rustc's.\n    len(host); // compiles\n}\n";
    const STDERR: &str = "error[E0277]: the host cannot read\n --> cases/a.rs:3:10\n  |\n  = note: H13/H14: wait: `x.synchronize()?`\n\n\
        error[E0308]: mismatched types\n --> cases/a.rs:4:9\n  |\n  = note: expected `A`\n";

    fn case<'a>(source: &'a str, stderr: &'a str) -> Case<'a> {
        Case {
            name: "a",
            title: title(source).unwrap(),
            source,
            stderr,
        }
    }

    #[test]
    fn errors_are_read_with_their_hazards() {
        let case = case(SOURCE, STDERR);
        let found = rows(&case);
        assert_eq!(
            (found[0].line, found[0].code, &found[0].hazards[..]),
            (3, "E0277", &["H13", "H14"][..])
        );
        assert_eq!(
            (found[1].line, found[1].headline, found[1].hazards.len()),
            (4, "mismatched types", 0)
        );
        assert_eq!(problems(&case), [""; 0]);
        let page = markdown(&[case]);
        assert!(
            page.contains("| `host.iter();` | E0277 | the host cannot read | H13, H14 |"),
            "{page}"
        );
        assert!(
            page.contains("| `sum(host);` | E0308 | mismatched types | Rustc's. |"),
            "{page}"
        );
        assert!(page.contains("| `len(host);` | | | compiles |"), "{page}");
    }

    #[test]
    fn a_message_without_a_hazard_or_without_a_call_is_reported() {
        let silent = STDERR.replace("H13/H14: ", "");
        let what = "a.rs:3: the message names no hazard with its mend, and no `// Why not: ..` says why";
        assert_eq!(problems(&case(SOURCE, &silent)), [what]);
        let no_call = STDERR.replace('`', "");
        assert_eq!(problems(&case(SOURCE, &no_call)), [what]);
    }

    #[test]
    fn a_stale_remark_is_reported() {
        let helped = STDERR.replace("expected `A`", "H13: `wait`");
        assert_eq!(
            problems(&case(SOURCE, &helped)),
            ["a.rs:4: the message names a hazard, but `// Why not: ..` says that it does not"]
        );
        let (first, _) = STDERR.split_once("\n\n").unwrap();
        assert_eq!(
            problems(&case(SOURCE, first)),
            ["a.rs:4: the line compiles, and says why its message does not help"]
        );
        let refused = SOURCE.replace("Why not: rustc's.", "compiles");
        assert_eq!(problems(&case(&refused, STDERR)).len(), 2);
    }
}
