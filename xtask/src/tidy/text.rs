//! The length of files, and the width of lines.

use super::{MOST_LINES, WIDTH};

/// Documents that a task writes, with one item on each line.
const GENERATED: &[&str] = &["docs/hazards.md"];

/// The error of a file with too many lines.
pub(crate) fn length(file: &str, source: &str) -> Option<String> {
    let lines = source.lines().count();
    (lines > MOST_LINES).then(|| format!("{file}: {lines} lines, of {MOST_LINES} at most"))
}

/// The errors of comments that are too wide, examples and tables included. Only an address that
/// fills its line may be wider: the target of any other link fits into a line of its own. C has
/// comments of several lines, which begin with a star.
pub(crate) fn wide_comments(file: &str, source: &str) -> Vec<String> {
    let marks: &[&str] = if file.ends_with(".rs") {
        &["//"]
    } else {
        &["//", "/*", "* "]
    };
    let comments = (1..).zip(source.lines()).filter_map(|(number, line)| {
        let line_start = line.trim_start();
        let comment = marks.iter().find_map(|mark| line_start.strip_prefix(mark))?;
        Some((number, line, comment.trim_start_matches(['/', '!']).trim_start()))
    });
    comments
        .filter(|(_, line, text)| columns(line) > WIDTH && (text.contains(' ') || !text.contains("://")))
        .map(|(number, line, _)| too_wide(file, number, line))
        .collect()
}

/// The errors of lines in a TOML file that are too wide. A row of a list, `{ .. },`, cannot be
/// wrapped in TOML, and may be wider.
pub(crate) fn wide_configuration(file: &str, text: &str) -> Vec<String> {
    let lines = (1..).zip(text.lines());
    lines
        .filter(|(_, line)| is_wide(line, line.trim_start_matches([' ', '#'])))
        .filter(|(_, line)| !line.trim_start().starts_with('{'))
        .map(|(number, line)| too_wide(file, number, line))
        .collect()
}

/// The errors of lines in a script that are too wide.
pub(crate) fn wide_script(file: &str, text: &str) -> Vec<String> {
    let lines = (1..).zip(text.lines());
    lines
        .filter(|(_, line)| is_wide(line, line.trim_start_matches([' ', '#'])))
        .map(|(number, line)| too_wide(file, number, line))
        .collect()
}

/// The errors of lines in a document that are too wide. Code blocks and tables may be wider, and so
/// may documents that a task writes.
pub(crate) fn wide_lines(file: &str, document: &str) -> Vec<String> {
    if GENERATED.contains(&file) {
        return Vec::new();
    }
    let mut in_block = false;
    let mut wrong = Vec::new();
    for (number, line) in (1..).zip(document.lines()) {
        if is_fence(line.trim_start()) {
            in_block = !in_block;
        } else if !in_block && !line.trim_start().starts_with('|') && is_wide(line, unlisted(line)) {
            wrong.push(too_wide(file, number, line));
        }
    }
    wrong
}

/// Whether a line opens or closes a code block.
pub(crate) fn is_fence(line: &str) -> bool {
    line.starts_with("```")
}

/// A line without the mark of a list.
fn unlisted(line: &str) -> &str {
    line.trim_start().trim_start_matches("- ")
}

/// Whether a line is too wide, and its text is more than one word.
fn is_wide(line: &str, text: &str) -> bool {
    columns(line) > WIDTH && text.contains(' ')
}

fn columns(line: &str) -> usize {
    line.chars().count()
}

fn too_wide(file: &str, number: usize, line: &str) -> String {
    format!("{file}:{number}: {} columns, of {WIDTH} at most", columns(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_of_several_lines_in_c_are_held_to_the_width() {
        let wide = "x ".repeat(60);
        let source = format!("/* {wide}\n * {wide}\n * fits */\nint a = 1;\n");
        assert_eq!(wide_comments("a.c", &source).len(), 2);
        assert_eq!(wide_comments("a.rs", &source).len(), 0);
    }

    #[test]
    fn files_of_too_many_lines_are_refused() {
        assert_eq!(length("a.rs", &"\n".repeat(600)), None);
        assert_eq!(
            length("a.rs", &"\n".repeat(601)).as_deref(),
            Some("a.rs: 601 lines, of 600 at most")
        );
    }

    #[test]
    fn wide_comments_are_refused_and_wide_code_is_not() {
        let wide = "é ".repeat(50);
        let fits = "é".repeat(94) + " é";
        let source = format!(
            "/// {wide}\n/// {fits}\nlet a = \"{wide}\"; // {wide}\n    // {wide}\n/// | {wide}\n/// ```\n/// {wide}\n/// ```\n//! {wide}\n// https://e.org/{0}\n// [{0}](crate::{0})\n",
            "x".repeat(200)
        );
        let wrong = wide_comments("a.rs", &source);
        let lines: Vec<&str> = wrong.iter().filter_map(|line| line.split(':').nth(1)).collect();
        assert_eq!(lines, ["1", "4", "5", "7", "9", "11"], "{wrong:?}");
    }

    #[test]
    fn wide_lines_of_manifests_are_refused_and_wide_rows_are_not() {
        let wide = "é ".repeat(50) + "é";
        let link = format!("# https://example.org/{}", "x".repeat(100));
        let text = format!("# {wide}\nname = \"{wide}\"\n{{ name = \"{wide}\" }},\n{link}\n## {wide}\n");
        let wrong = wide_configuration("a.toml", &text);
        let lines: Vec<&str> = wrong.iter().filter_map(|line| line.split(':').nth(1)).collect();
        assert_eq!(lines, ["1", "2", "5"], "{wrong:?}");
    }

    #[test]
    fn wide_lines_of_scripts_are_refused() {
        let fits = format!("# {} é", "é".repeat(96));
        let text = format!("{fits}\n{fits} é\necho {fits}\n# {}\n", "x".repeat(120));
        assert_eq!(
            wide_script(".ci/run", &text),
            [
                ".ci/run:2: 102 columns, of 100 at most",
                ".ci/run:3: 105 columns, of 100 at most",
            ]
        );
    }

    #[test]
    fn wide_lines_of_documents_are_refused_outside_tables_and_code() {
        let wide = "word ".repeat(21);
        let document = format!("{wide}\n| {wide} |\n```\n{wide}\n```\n- {}\n", "x".repeat(120));
        assert_eq!(
            wide_lines("a.md", &document),
            ["a.md:1: 105 columns, of 100 at most"]
        );
    }
}
