//! `check-hazard-programs FILE [--json]`, which `cargo xtask hazards check` calls: runs a file's
//! hazard programs through the checker, and compares the verdicts. Each line of the file is a
//! program, as a JSON object.
#![forbid(unsafe_code)]

use std::fmt;
use std::io::Write;
use std::process::ExitCode;

use cuda_rt_checker::Race;
use hazard_programs::Program;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

/// A line of the file. Other members of the object are ignored.
#[derive(Deserialize)]
struct Line<'a> {
    id: String,
    #[serde(borrow)]
    sequence: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    verdict: Option<&'a RawValue>,
}

/// A line that is no program, with the place of its error.
#[derive(Debug, PartialEq, Eq)]
struct BadLine {
    column: usize,
    message: String,
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Race(Vec<Race>),
    Ok,
    /// The column in the line, and the reason.
    Unsupported(usize, String),
}

impl Verdict {
    fn word(&self) -> &'static str {
        match self {
            Self::Race(_) => "race",
            Self::Ok => "ok",
            Self::Unsupported(..) => "unsupported",
        }
    }
}

struct Checked {
    id: String,
    verdict: Verdict,
    expected: Option<String>,
    statements: Vec<String>,
}

impl Checked {
    fn agrees(&self) -> bool {
        self.expected
            .as_deref()
            .is_none_or(|expected| expected == self.verdict.word())
    }
}

/// Numbers of programs by their outcome.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    race: usize,
    ok: usize,
    unsupported: usize,
    agree: usize,
    differ: usize,
    bad_lines: usize,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            race,
            ok,
            unsupported,
            agree,
            differ,
            bad_lines,
        } = self;
        let programs = race + ok + unsupported;
        write!(
            f,
            "{programs} programs: {race} race, {ok} ok, {unsupported} unsupported; {agree} as their verdict says, \
             {differ} not; {bad_lines} bad lines"
        )
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments.as_slice() {
        ["--json", file] | [file, "--json"] => check(file, true),
        [file] => check(file, false),
        _ => {
            eprintln!("check-hazard-programs FILE [--json]");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Checks every program of a file, and prints a line for each.
fn check(file: &str, as_json: bool) -> Result<(), Box<dyn std::error::Error>> {
    let text = std::fs::read(file).map_err(|error| format!("{file}: {error}"))?;
    let mut out = std::io::stdout().lock();
    let counts = run(&text, file, as_json, &mut out, &mut std::io::stderr().lock())?;
    if counts.differ + counts.bad_lines == 0 {
        return Ok(());
    }
    Err(format!(
        "{file}: {} verdicts differ, {} bad lines",
        counts.differ, counts.bad_lines
    )
    .into())
}

fn run(
    text: &[u8],
    file: &str,
    as_json: bool,
    out: &mut impl Write,
    complaints: &mut impl Write,
) -> std::io::Result<Counts> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut counts = Counts::default();
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let checked = match check_line(line) {
            Ok(checked) => checked,
            Err(BadLine { column, message }) => {
                counts.bad_lines += 1;
                writeln!(complaints, "{file}:{number}:{column}: {message}")?;
                if as_json {
                    writeln!(
                        out,
                        "{}",
                        json!({ "line": number, "column": column, "error": message })
                    )?;
                }
                continue;
            }
        };
        match checked.verdict {
            Verdict::Race(_) => counts.race += 1,
            Verdict::Ok => counts.ok += 1,
            Verdict::Unsupported(..) => counts.unsupported += 1,
        }
        if as_json {
            writeln!(out, "{}", to_json(number, &checked))?;
        } else {
            match &checked.verdict {
                Verdict::Unsupported(column, why) => {
                    writeln!(out, "{} unsupported {file}:{number}:{column}: {why}", checked.id)?;
                }
                verdict => writeln!(out, "{} {}", checked.id, verdict.word())?,
            }
        }
        if let Some(expected) = &checked.expected {
            if checked.agrees() {
                counts.agree += 1;
            } else {
                counts.differ += 1;
                let (id, word) = (&checked.id, checked.verdict.word());
                writeln!(
                    complaints,
                    "{file}:{number}: {id} is {word}, and its verdict says {expected}"
                )?;
            }
        }
    }
    if as_json {
        let Counts {
            race,
            ok,
            unsupported,
            agree,
            differ,
            bad_lines,
        } = counts;
        let counts = json!({
            "race": race, "ok": ok, "unsupported": unsupported, "agree": agree, "differ": differ, "bad_lines": bad_lines,
        });
        writeln!(out, "{}", json!({ "counts": counts }))?;
    } else {
        writeln!(out, "{counts}")?;
    }
    Ok(counts)
}

fn check_line(line: &[u8]) -> Result<Checked, BadLine> {
    let text = std::str::from_utf8(line).map_err(|error| BadLine {
        column: String::from_utf8_lossy(&line[..error.valid_up_to()])
            .chars()
            .count()
            + 1,
        message: "this is not UTF-8".to_owned(),
    })?;
    let parsed: Line<'_> = serde_json::from_str(text).map_err(|error| bad_json(text, &error))?;
    let expected = match parsed.verdict.map(RawValue::get) {
        None | Some("null") => None,
        Some("\"race\"") => Some("race".to_owned()),
        Some("\"ok\"") => Some("ok".to_owned()),
        Some(other) => {
            let message = format!("there is no verdict {other}: a verdict is \"race\", \"ok\" or null");
            return Err(BadLine {
                column: column_of(text, other, 0),
                message,
            });
        }
    };
    let mut statements = Vec::new();
    for raw in &parsed.sequence {
        let statement = serde_json::from_str::<String>(raw.get()).map_err(|_| BadLine {
            column: column_of(text, raw.get(), 0),
            message: "a statement is a string".to_owned(),
        })?;
        statements.push(statement);
    }
    let verdict = match Program::parse(&statements).and_then(|program| program.run()) {
        Ok(races) if races.is_empty() => Verdict::Ok,
        Ok(races) => Verdict::Race(races),
        Err(error) => {
            let raw = parsed.sequence[error.statement].get();
            let column = column_of(text, raw, offset_of(raw, error.column - 1));
            Verdict::Unsupported(column, error.message)
        }
    };
    Ok(Checked {
        id: parsed.id,
        verdict,
        expected,
        statements,
    })
}

fn bad_json(text: &str, error: &serde_json::Error) -> BadLine {
    // serde_json counts bytes, and appends the position to its message.
    let bytes = error.column().saturating_sub(1).min(text.len());
    let column = String::from_utf8_lossy(&text.as_bytes()[..bytes]).chars().count() + 1;
    let message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    BadLine {
        column,
        message: message.strip_suffix(&place).unwrap_or(&message).to_owned(),
    }
}

/// The column in `text`, in characters from 1, of the byte `offset` of `part`, a slice of `text`.
fn column_of(text: &str, part: &str, offset: usize) -> usize {
    let start = part.as_ptr().addr() - text.as_ptr().addr();
    text[..start + offset].chars().count() + 1
}

/// Position of a string's character in its JSON form, in bytes from the opening quote.
fn offset_of(raw: &str, index: usize) -> usize {
    let mut offset = 1;
    for _ in 0..index {
        let rest = &raw[offset..];
        offset += match rest.as_bytes() {
            // A character past U+FFFF needs two escapes.
            [
                b'\\',
                b'u',
                b'd' | b'D',
                b'8' | b'9' | b'a' | b'b' | b'A' | b'B',
                ..,
            ] => 12,
            [b'\\', b'u', ..] => 6,
            [b'\\', ..] => 2,
            _ => rest.chars().next().map_or(0, char::len_utf8),
        };
    }
    offset
}

fn to_json(line: usize, checked: &Checked) -> serde_json::Value {
    let mut value = json!({ "id": checked.id, "line": line, "verdict": checked.verdict.word() });
    if let Some(expected) = &checked.expected {
        value["expected"] = json!(expected);
        value["agrees"] = json!(checked.agrees());
    }
    match &checked.verdict {
        Verdict::Ok => {}
        Verdict::Unsupported(column, why) => {
            value["column"] = json!(column);
            value["why"] = json!(why);
        }
        Verdict::Race(races) => {
            let races = races.iter().map(|race| {
                let party = |party: &cuda_rt_checker::Party| {
                    let statement = match party.operation.site {
                        cuda_rt_checker::Site::Statement(index) => {
                            Some((index + 1, &checked.statements[index]))
                        }
                        _ => None,
                    };
                    json!({
                        "actor": party.name,
                        "access": format!("{:?}", party.access).to_lowercase(),
                        "statement": statement.map(|(number, _)| number),
                        "text": statement.map(|(_, text)| text),
                    })
                };
                json!({
                    "first": party(&race.first),
                    "second": party(&race.second),
                    "missing": race.missing_edge(),
                    "mend": race.mending(),
                })
            });
            value["races"] = races.collect();
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(text: &str) -> (Counts, String, String) {
        let (mut out, mut complaints) = (Vec::new(), Vec::new());
        let counts = run(text.as_bytes(), "f", false, &mut out, &mut complaints).unwrap();
        (
            counts,
            String::from_utf8(out).unwrap(),
            String::from_utf8(complaints).unwrap(),
        )
    }

    #[test]
    fn bad_lines_are_reported_with_their_place_and_the_rest_runs() {
        let text = r#"{"id": "a", "sequence": ["mem d:dev", "k(W d)@0", "ext R d"], "verdict": "race"}
{"id": "b", "sequence": ["mem d:dev"
{"id": "c", "sequence": ["mem d:dev", 7]}
{"id": "d", "sequence": ["mem d:dev", "k(W d@0"], "verdict": null}
{"id": "e", "sequence": ["mem h:page", "h\u006fst W \"h"]}

{"id": "f", "sequence": ["mem d:dev"], "verdict": "perhaps"}
{"sequence": []}
{"id": "g", "sequence": ["mem d:dev", "k(W d)@0"], "verdict": "ok"}
"#;
        let (counts, out, complaints) = on(text);
        assert_eq!(
            out,
            "a race\n\
             d unsupported f:4:45: expected `)`, found `@`\n\
             e unsupported f:5:53: expected a name of memory, found `\"`\n\
             g ok\n\
             4 programs: 1 race, 1 ok, 2 unsupported; 2 as their verdict says, 0 not; 4 bad lines\n"
        );
        assert_eq!(
            complaints,
            "f:2:36: EOF while parsing a list\n\
             f:3:39: a statement is a string\n\
             f:7:51: there is no verdict \"perhaps\": a verdict is \"race\", \"ok\" or null\n\
             f:8:16: missing field `id`\n"
        );
        assert_eq!((counts.differ, counts.bad_lines), (0, 4));
    }

    #[test]
    fn a_verdict_that_differs_is_counted() {
        let (counts, _, complaints) = on(r#"{"id": "x", "sequence": ["mem d:dev"], "verdict": "race"}"#);
        assert_eq!((counts.agree, counts.differ), (0, 1));
        assert_eq!(complaints, "f:1: x is ok, and its verdict says race\n");
    }

    /// Checks the project's own programs, and the programs of the file that
    /// `CUDA_RT_HAZARD_PROGRAMS` names.
    #[test]
    fn programs_of_files_get_their_verdicts() {
        let own = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../cuda-rt/tests/litmus/programs.jsonl"
        );
        let others = std::env::var("CUDA_RT_HAZARD_PROGRAMS").ok();
        for file in std::iter::once(own.to_owned()).chain(others) {
            let text = std::fs::read(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
            let (mut out, mut complaints) = (Vec::new(), Vec::new());
            let counts = run(&text, &file, false, &mut out, &mut complaints).unwrap();
            println!("{file}: {counts}");
            assert_eq!(String::from_utf8(complaints).unwrap(), "");
            assert!(counts.agree > 0 && counts.differ == 0);
        }
    }
}
