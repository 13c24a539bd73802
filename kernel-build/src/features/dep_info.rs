//! Reads rustc's list of the files that a compilation has read (the *dep-info*).

/// The files of the dep-info `text`, which rustc has written to `path`, in a directory with its
/// other outputs.
///
/// The text has a rule for each output (its path, a colon and all names), each with an empty line
/// behind it. A line for each name follows, then the environment. rustc marks a space in a name
/// with a backslash. Nothing marks the end of a line, so a name may look like several names and
/// rules. Therefore the text must be the very text that rustc writes for the names found. No list
/// with the end of a line in a name has such a text: the first rule then ends where the name has
/// its first end of a line, so the names found are those up to there. The name's own line ends
/// there too, and so has no colon; but it is neither empty nor a rule, because a rule is longer
/// than its names.
pub(crate) fn files(path: &str, text: &str) -> Option<Vec<String>> {
    let (directory, own) = path.rsplit_once(['/', std::path::MAIN_SEPARATOR])?;
    let mut lines: Vec<&str> = text.split('\n').collect();
    while lines
        .last()
        .is_some_and(|line| line.is_empty() || line.starts_with("# env-dep:"))
    {
        lines.pop();
    }
    let (rules, names) = lines.split_at(lines.iter().rposition(|line| line.is_empty())? + 1);
    let names = names.iter().map(|line| line.strip_suffix(':'));
    let names: Vec<&str> = names.collect::<Option<_>>()?;
    if names.is_empty() || names.contains(&"") {
        return None;
    }
    let all = format!(": {}", names.join(" "));
    let mut outputs = Vec::new();
    for rule in rules.chunks(2) {
        let [rule, ""] = rule else {
            return None;
        };
        outputs.push(output(rule.strip_suffix(&all)?, directory)?);
    }
    outputs
        .contains(&own)
        .then(|| names.iter().map(|name| name.replace("\\ ", " ")).collect())
}

/// The name of an output in the directory. Cargo makes such names of letters, digits and `-_.`.
fn output<'t>(path: &'t str, directory: &str) -> Option<&'t str> {
    let marked = directory.replace(' ', "\\ ");
    let name = path
        .strip_prefix(directory)
        .or_else(|| path.strip_prefix(&marked))?;
    let name = name.strip_prefix(['/', std::path::MAIN_SEPARATOR])?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (!name.is_empty() && name.bytes().all(is_plain)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What rustc writes for these files.
    fn rendered(files: &[&str]) -> String {
        let files: Vec<String> = files.iter().map(|file| file.replace(' ', "\\ ")).collect();
        let rules = ["/t/liba.rmeta", "/t/a.d"].map(|output| format!("{output}: {}\n\n", files.join(" ")));
        let lines: String = files.iter().map(|file| format!("{file}:\n")).collect();
        format!("{}{lines}\n# env-dep:CARGO_PKG_NAME=a\n", rules.concat())
    }

    #[test]
    fn the_files_of_a_list_are_found() {
        for list in [
            &["src/lib.rs"][..],
            &[
                "src/lib.rs",
                "src/a b.rs",
                "src/a\\ b.rs",
                "src/a:.rs",
                "/x/table.in",
            ],
        ] {
            assert_eq!(files("/t/a.d", &rendered(list)).unwrap(), list);
        }
        let text = "/a b/t/a.d: src/lib.rs\n\nsrc/lib.rs:\n\n# env-dep:X:\n";
        assert_eq!(files("/a b/t/a.d", text).unwrap(), ["src/lib.rs"]);
        let text = text.replace("/a b/", "/a\\ b/");
        assert_eq!(files("/a b/t/a.d", &text).unwrap(), ["src/lib.rs"]);
    }

    /// A file is hidden behind others, by a name with the end of a line.
    #[test]
    fn a_name_with_the_end_of_a_line_is_refused() {
        for hidden in [
            "good.rs:\n# env-dep:x",
            "good.rs:\nother.rs",
            "good.rs\nother.rs",
            "good.rs:\n",
            "good.rs:\n\n/t/a.d: src/lib.rs good.rs",
            "good.rs\n\n/t/a.d: src/lib.rs good.rs",
            "good.rs\n\nsrc/lib.rs:\ngood.rs",
            "\n\n",
        ] {
            for list in [
                &["src/lib.rs", hidden][..],
                &["src/lib.rs", "good.rs", "good.rs:", hidden],
                &["src/lib.rs", "src/a\nsrc/q.rs", "src/p/1\n\nsrc/lib.rs:\nsrc/a"],
                &[hidden, "src/lib.rs"],
            ] {
                assert_eq!(files("/t/a.d", &rendered(list)), None, "{list:?}");
            }
        }
    }

    /// No list of names of a few pieces reads as another list.
    #[test]
    fn a_list_is_found_as_it_is_or_refused() {
        let pieces = ["a", ":", "\n", " ", "/t/a.d: a", "\n\n", "\\", "# env-dep:"];
        let names: Vec<String> = pieces
            .iter()
            .flat_map(|first| pieces.map(|second| [*first, second]))
            .flat_map(|two| pieces.map(|third| format!("{}{}{third}", two[0], two[1])))
            .chain(pieces.map(str::to_owned))
            .collect();
        let mut found = 0;
        for name in &names {
            for list in [
                &["a", name][..],
                &[name, "a"],
                &["a", name, "a:"],
                &["b", "a", name],
                &["a", "a:", name, "b"],
            ] {
                if let Some(files) = files("/t/a.d", &rendered(list)) {
                    assert_eq!(files, list);
                    found += 1;
                }
            }
        }
        assert!(found > 500, "{found}");
    }

    #[test]
    fn texts_of_another_form_are_refused() {
        for text in [
            "",
            "/t/a.d: x\n",
            "/t/a.d:\n\n",
            "/t/b.d: a\n\na:\n",
            "/u/a.d: a\n\na:\n",
            "/t/a.d: a\n\na:\nb:\n",
            "/t/a.d: a\n\nx\na:\n",
        ] {
            assert_eq!(files("/t/a.d", text), None, "{text:?}");
        }
    }
}
