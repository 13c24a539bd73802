//! [`Report`]: the figures as Markdown and as JSON.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::machine::Machine;
use crate::programs::Program;
use crate::rounds::{Figures, Metric, Outcome, quartiles, ratio};

/// The name of the way to which others are compared.
pub(crate) const RAW: &str = "raw calls";
pub(crate) const OURS: &str = "cuda-rt";
pub(crate) const PIPELINE: &str = "cuda-rt, `Pipeline`";
pub(crate) const POOL: &str = "cuda-rt, `StreamPool`";
pub(crate) const CUDARC: &str = "cudarc, tracked";
pub(crate) const TORCH: &str = "PyTorch";

/// The cost of an operation with some number of objects or threads.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) operation: &'static str,
    /// What the number counts.
    pub(crate) of: &'static str,
    pub(crate) number: usize,
    pub(crate) figures: Vec<Figures>,
}

/// All that was measured.
#[derive(Debug)]
pub(crate) struct Report {
    machine: Machine,
    quick: bool,
    /// The version of PyTorch, if it took part.
    torch: Option<String>,
    /// What was not measured, and why.
    skipped: Vec<String>,
    programs: Vec<(Program, Vec<Figures>)>,
    cells: Vec<Cell>,
}

impl Report {
    pub(crate) fn new(machine: Machine, quick: bool) -> Self {
        Self {
            machine,
            quick,
            torch: None,
            skipped: Vec::new(),
            programs: Vec::new(),
            cells: Vec::new(),
        }
    }

    pub(crate) fn torch(&mut self, version: &str) {
        self.torch = Some(version.to_owned());
    }

    /// Notes, and says aloud, that something is not measured.
    pub(crate) fn skip(&mut self, what: String) {
        println!("SKIPPED: {what}");
        self.skipped.push(what);
    }

    /// Notes and prints a program's figures.
    pub(crate) fn program(&mut self, program: Program, figures: Vec<Figures>) {
        println!("{}", program_table(&program, &figures));
        self.programs.push((program, figures));
    }

    pub(crate) fn cell(&mut self, cell: Cell) {
        self.cells.push(cell);
    }

    /// The page, in the form of docs/RESULTS.md.
    pub(crate) fn markdown(&self) -> String {
        let (day, machine) = (self.machine.day(), self.machine.sentence());
        let mut text = format!("## Whole programs and scaling, {day}\n\n{machine}");
        if self.quick {
            text.push_str(" A quick run.");
        }
        if let Some(version) = &self.torch {
            let _ = write!(text, " PyTorch {version}, with its own element-wise operations.");
        }
        text.push_str(
            "\n\nAll ways of a program ran in alternating rounds of one run. Figures are medians, \
             with quartiles in brackets; ratios are medians of the ratios to raw calls in the same \
             round. More is better for throughput, less for times.\n",
        );
        for what in &self.skipped {
            let _ = writeln!(text, "\nNot measured: {what}");
        }
        for (program, figures) in &self.programs {
            let _ = write!(text, "\n{}", program_table(program, figures));
        }
        let mut written = Vec::new();
        for Cell { operation, of, .. } in &self.cells {
            if !written.contains(&(operation, of)) {
                written.push((operation, of));
                let _ = write!(text, "\n{}", self.scaling_table(operation, of));
            }
        }
        wrapped(&text)
    }

    /// The cost of one operation with growing numbers.
    pub(crate) fn scaling_table(&self, operation: &str, of: &str) -> String {
        let is_here = |cell: &&Cell| cell.operation == operation && cell.of == of;
        let cells: Vec<_> = self.cells.iter().filter(is_here).collect();
        let rounds = |figures: &Figures| figures.samples(Metric::PerCall).map(<[f64]>::len);
        let rounds = cells.iter().flat_map(|cell| &cell.figures).find_map(rounds);
        let mut text = format!(
            "**{operation}**, ns by number of {of}, {} rounds:\n\n| |",
            rounds.unwrap_or(0)
        );
        for cell in &cells {
            let _ = write!(text, " {} |", cell.number);
        }
        text.push_str("\n|---|");
        text.push_str(&"--:|".repeat(cells.len()));
        text.push('\n');
        let Some(first) = cells.first() else { return text };
        for (at, figures) in first.figures.iter().enumerate() {
            let _ = write!(text, "| {} |", figures.way);
            for cell in &cells {
                match cell.figures.get(at).and_then(|one| one.samples(Metric::PerCall)) {
                    Some(samples) => {
                        let [low, median, high] = quartiles(samples).map(number);
                        let _ = write!(text, " {median} [{low}, {high}] |");
                    }
                    None => text.push_str(" |"),
                }
            }
            text.push('\n');
        }
        text
    }

    pub(crate) fn json(&self) -> Value {
        let program = |(program, figures): &(Program, Vec<Figures>)| {
            json!({
                "program": program.name, "what": program.what, "item": program.item,
                "items_per_round": program.items, "figures": figures_json(figures),
            })
        };
        let cell = |cell: &Cell| {
            json!({
                "operation": cell.operation, "of": cell.of, "number": cell.number,
                "figures": figures_json(&cell.figures),
            })
        };
        json!({
            "machine": self.machine.json(),
            "quick": self.quick,
            "torch": self.torch,
            "skipped": self.skipped,
            "programs": self.programs.iter().map(program).collect::<Vec<_>>(),
            "scaling": self.cells.iter().map(cell).collect::<Vec<_>>(),
        })
    }

    /// Writes `bench.md` and `bench.json` into `folder`.
    pub(crate) fn write(&self, folder: &Path) -> Outcome {
        let into = |name: &str, text: String| -> Outcome {
            let path = folder.join(name);
            fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
            println!("wrote {}", path.display());
            Ok(())
        };
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        into("bench.md", self.markdown())?;
        into("bench.json", format!("{:#}\n", self.json()))
    }
}

/// The samples of the same metric of the way to which others are compared.
fn base(all: &[Figures], metric: Metric) -> Option<&[f64]> {
    all.iter()
        .find(|figures| figures.way == RAW)
        .and_then(|figures| figures.samples(metric))
}

fn program_table(program: &Program, all: &[Figures]) -> String {
    let mut text = format!(
        "**{}**: {}. An item is {}.\n\n| | way | median | quartiles | to raw | rounds |\n\
         |---|---|--:|---|--:|--:|\n",
        program.name, program.what, program.item
    );
    let Some(first) = all.first() else { return text };
    for series in &first.series {
        let (metric, unit) = series.metric.name();
        for (at, figures) in all.iter().enumerate() {
            let Some(samples) = figures.samples(series.metric) else {
                continue;
            };
            let [low, median, high] = quartiles(samples).map(number);
            let to_raw = base(all, series.metric)
                .map_or("-".to_owned(), |base| format!("{:.3}", ratio(samples, base)));
            let name = if at == 0 {
                format!("{metric}, {unit}")
            } else {
                String::new()
            };
            let (way, rounds) = (figures.way, samples.len());
            let _ = writeln!(
                text,
                "| {name} | {way} | {median} | [{low}, {high}] | {to_raw} | {rounds} |"
            );
        }
    }
    text
}

/// Wraps lines of prose at 100 columns, as the project's documents are. Rows of tables stay.
fn wrapped(text: &str) -> String {
    let mut wrapped = String::new();
    for line in text.lines() {
        let mut column = 0;
        for word in line.split(' ') {
            let len = word.chars().count();
            if column > 0 && column + 1 + len > 100 && !line.starts_with('|') {
                wrapped.push('\n');
                column = 0;
            } else if column > 0 {
                wrapped.push(' ');
                column += 1;
            }
            wrapped.push_str(word);
            column += len;
        }
        wrapped.push('\n');
    }
    wrapped
}

/// Three digits at least, and no more than needed.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn figures_json(all: &[Figures]) -> Value {
    let mut rows = Vec::new();
    for figures in all {
        for series in &figures.series {
            let (metric, unit) = series.metric.name();
            let [low, median, high] = quartiles(&series.samples);
            let to_raw = base(all, series.metric).map(|base| ratio(&series.samples, base));
            rows.push(json!({
                "way": figures.way, "metric": metric, "unit": unit, "median": median,
                "quartile_low": low, "quartile_high": high, "rounds": series.samples.len(),
                "to_raw": to_raw,
            }));
        }
    }
    Value::Array(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_wrapped_and_tables_are_not() {
        let (prose, row) = ("word ".repeat(30), format!("| {} |", "x ".repeat(80)));
        let text = wrapped(&format!("{}\n\n{row}\n", prose.trim_end()));
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert_eq!([lines[0], lines[1]].join(" "), prose.trim_end());
        assert!(lines[0].len() <= 100 && lines[0].len() > 95, "{text}");
        assert_eq!(lines[3], row);
    }
}
