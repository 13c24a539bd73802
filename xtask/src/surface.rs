//! `cargo xtask surface`: lists all items of the published crates that another crate can name, call
//! or implement, and compares the lists with the committed ones.
//!
//! A private or hidden function may still be callable from other crates. A method of a private
//! trait is callable through each bound that implies the trait. A doc-hidden function is callable
//! by its path. So the lists come from rustdoc's data, which includes both, and not from the
//! documentation that it shows. Marks tell them apart:
//!
//! - `hidden`: the item has a path, but documentation does not show it
//! - `by-bound`: the item has no path, but a bound or a value gives access to it
//! - `asked`: a trait without a path that types must satisfy: no other crate can call or implement
//!   it
//! - `[sealed]`: a trait that no other crate can implement

mod entries;
mod guards;
pub(crate) mod pages;
mod reach;
mod reached;
mod rustdoc;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use entries::Entry;
use reached::Reach;
use rustdoc::SOURCES;
use text::Text;

const FOLDER: &str = "docs/surface";

const HEADING: &str = "\
# What safe code of another crate can name, call or implement, as `cargo xtask surface` finds it, which also writes this.
";

/// The lists, by name.
type Lists = BTreeMap<&'static str, Vec<Entry>>;

/// Writes the lists.
pub(crate) fn write() -> Result<(), Box<dyn Error>> {
    if let Some(missing) = rustdoc::missing() {
        return Err(format!("nothing was written: first run {missing}").into());
    }
    let lists = read()?;
    fs::create_dir_all(root().join(FOLDER))?;
    for (name, entries) in &lists {
        fs::write(file(name), render(entries))?;
    }
    report(&lists);
    guards::check(root(), &lists)
}

/// Compares the lists with the committed ones.
pub(crate) fn check() -> Result<(), Box<dyn Error>> {
    if let Some(missing) = rustdoc::missing() {
        eprintln!("SKIPPED: the comparison of the callable surface; to run it, first run {missing}");
        return Ok(());
    }
    let lists = read()?;
    let mut changed = String::new();
    for (name, entries) in &lists {
        let committed = fs::read_to_string(file(name)).unwrap_or_default();
        let differences = differences(&committed, &render(entries));
        if !differences.is_empty() {
            write!(changed, "\n{FOLDER}/{name}.txt\n{differences}")?;
        }
    }
    report(&lists);
    // Check the guards too if nothing changed: lists that were regenerated carelessly must not
    // pass.
    let guarded = guards::check(root(), &lists).map_err(|error| error.to_string());
    let compared = match changed.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "the items that other crates can name, call or implement differ from the committed lists; if the change is meant, run `cargo xtask surface`{changed}"
        )),
    };
    match (guarded, compared) {
        (Ok(()), compared) => Ok(compared?),
        (guarded, Ok(())) => Ok(guarded?),
        (Err(problems), Err(changes)) => Err(format!("{problems}\n{changes}").into()),
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the workspace")
}

fn file(name: &str) -> PathBuf {
    root().join(FOLDER).join(name).with_extension("txt")
}

fn read() -> Result<Lists, Box<dyn Error>> {
    let mut lists = Lists::new();
    for source in &SOURCES {
        let krate = source.read(root())?;
        let mut entries = entries::of(&Reach::of(&krate), &Text::default());
        if let Some(known) = source.adds_to.and_then(|name| lists.get(name)) {
            entries.retain(|entry| !known.contains(entry));
        }
        lists.insert(source.list, entries);
    }
    Ok(lists)
}

fn render(entries: &[Entry]) -> String {
    let lines = entries.iter().map(|entry| format!("{entry}\n"));
    std::iter::once(HEADING.to_owned()).chain(lines).collect()
}

fn report(lists: &Lists) {
    for (name, entries) in lists {
        let unseen = entries.iter().filter(|entry| entry.is_unseen());
        println!(
            "{name}: {} entries, {} of them hidden or by bound",
            entries.len(),
            unseen.count()
        );
    }
}

/// The lines that were removed and added.
fn differences(committed: &str, found: &str) -> String {
    let (old, new): (BTreeSet<&str>, BTreeSet<&str>) = (committed.lines().collect(), found.lines().collect());
    let gone = old.difference(&new).map(|line| format!("  - {line}\n"));
    let come = new.difference(&old).map(|line| format!("  + {line}\n"));
    gone.chain(come).collect()
}

#[cfg(test)]
mod tests {
    use super::differences;

    #[test]
    fn removed_and_added_lines_are_shown() {
        assert_eq!(differences("a\nb\n", "b\nc\n"), "  - a\n  + c\n");
        assert_eq!(differences("a\nb\n", "a\nb\n"), "");
    }
}
