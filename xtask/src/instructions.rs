//! `cargo xtask instructions`: counts the instructions of cuda-rt's calls, and of the driver calls
//! in them, in docs/instructions.md.
//!
//! The program of the package `cuda-rt-instructions` repeats an operation under Callgrind, over a
//! driver library that does nothing (`instructions/libcuda.c`), and over such a cuBLAS and cuFFT.
//! The difference between two counts of repetitions is the cost of one, without the start and the
//! end. It includes the few instructions of the empty libraries. Such counts do not depend on the
//! machine's speed or load. They change a little with the C library, whose allocator and `memcpy`
//! are counted too.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::tidy;

const FILE: &str = "docs/instructions.md";

/// How much a count may differ from the committed one, in percent.
const TOLERANCE: u64 = 3;

/// How often an operation is repeated, twice. The pools are warm before the smaller number.
const REPETITIONS: [u64; 2] = [500, 1500];

const HEADING: &str = "\
# Instructions of each call

What `cuda-rt` itself costs, beside the driver: the instructions on the host of one operation in the
steady state, over a driver library, a cuBLAS and a cuFFT that do nothing, and the driver calls in
them. x86-64, release build. `cargo xtask instructions` counts with Callgrind, and writes this page;
`--check` compares, and fails if a count differs by more than 3 percent. `there and back` is two
handoffs.

| operation | instructions | driver calls |
|---|--:|--:|
";

/// The cost of one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    name: String,
    instructions: u64,
    driver_calls: u64,
}

/// Counts, and writes the page.
pub(crate) fn write() -> Result<(), Box<dyn Error>> {
    let rows = count()?;
    fs::write(tidy::root().join(FILE), render(&rows))?;
    println!("{} operations are counted in {FILE}", rows.len());
    Ok(())
}

/// Counts, and compares with the page.
pub(crate) fn check() -> Result<(), Box<dyn Error>> {
    let text = fs::read_to_string(tidy::root().join(FILE)).map_err(|error| format!("{FILE}: {error}"))?;
    let committed = parse(&text);
    let counted = count()?;
    let wrong = differences(&committed, &counted);
    if wrong.is_empty() {
        println!("{} operations cost what {FILE} says", counted.len());
        return Ok(());
    }
    let hint = "if the change is meant, run `cargo xtask instructions`";
    Err(format!("{FILE} differs from the counts; {hint}\n  {}", wrong.join("\n  ")).into())
}

fn differences(committed: &[Row], counted: &[Row]) -> Vec<String> {
    let mut wrong = Vec::new();
    for row in counted {
        let Some(old) = committed.iter().find(|old| old.name == row.name) else {
            wrong.push(format!("{}: not in the page", row.name));
            continue;
        };
        if row.driver_calls != old.driver_calls {
            let (new, old) = (row.driver_calls, old.driver_calls);
            wrong.push(format!("{}: {new} driver calls instead of {old}", row.name));
        }
        if row.instructions.abs_diff(old.instructions) * 100 > old.instructions * TOLERANCE {
            let (new, old) = (row.instructions, old.instructions);
            wrong.push(format!("{}: {new} instructions instead of {old}", row.name));
        }
    }
    let is_gone = |old: &&Row| counted.iter().all(|row| row.name != old.name);
    let gone = committed.iter().filter(is_gone);
    wrong.extend(gone.map(|old| format!("{}: not counted any more", old.name)));
    wrong
}

fn render(rows: &[Row]) -> String {
    let mut text = HEADING.to_owned();
    for row in rows {
        let _ = writeln!(
            text,
            "| {} | {} | {} |",
            row.name, row.instructions, row.driver_calls
        );
    }
    text
}

fn parse(text: &str) -> Vec<Row> {
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ");
        Some(Row {
            name: cells.next()?.to_owned(),
            instructions: cells.next()?.parse().ok()?,
            driver_calls: cells.next()?.parse().ok()?,
        })
    };
    text.lines().filter_map(row).collect()
}

fn count() -> Result<Vec<Row>, Box<dyn Error>> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err("the committed counts are those of Linux on x86-64".into());
    }
    let program = Program::build()?;
    let names = program.run(Command::new(&program.binary))?;
    let names = String::from_utf8(names.stdout)?;
    names.lines().map(|name| program.count(name)).collect()
}

/// Compiles a library that does nothing.
fn compile(source: &str, library: &Path) -> Result<(), Box<dyn Error>> {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let name = library.file_name().expect("a file").display();
    let mut compile = Command::new(compiler);
    compile.args(["-shared", "-fPIC", "-O1", "-DWITHOUT_NOTES"]);
    compile.arg(format!("-Wl,-soname,{name}"));
    compile.arg("-o").arg(library).arg(tidy::root().join(source));
    match compile.status()?.success() {
        true => Ok(()),
        false => Err(format!("{source} does not compile").into()),
    }
}

/// The program, and the folder of the libraries that it finds.
struct Program {
    binary: PathBuf,
    library: PathBuf,
}

impl Program {
    fn build() -> Result<Self, Box<dyn Error>> {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
        let target = tidy::root().join(target);
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--release", "--locked"]);
        build.args(["--package", "cuda-rt-instructions"]);
        build.arg("--target-dir").arg(&target);
        if !build.current_dir(tidy::root()).status()?.success() {
            return Err("the program does not build".into());
        }
        let library = target.join("null-libcuda");
        fs::create_dir_all(&library)?;
        compile("instructions/libcuda.c", &library.join("libcuda.so.1"))?;
        compile(
            "libraries/cublas/tests/null_cublas/libcublas.c",
            &library.join("libcublas.so.13"),
        )?;
        compile(
            "libraries/cufft/tests/null_cufft/libcufft.c",
            &library.join("libcufft.so.12"),
        )?;
        let binary = target.join("release/cuda-rt-instructions");
        Ok(Self { binary, library })
    }

    fn run(&self, mut command: Command) -> Result<Output, Box<dyn Error>> {
        let output = command.env("LD_LIBRARY_PATH", &self.library).output();
        let output = output.map_err(|error| format!("{command:?}: {error}: is valgrind installed?"))?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{command:?}: {}\n{words}", output.status).into());
        }
        Ok(output)
    }

    /// The instructions and the driver calls of a whole run.
    fn whole(&self, name: &str, repetitions: u64) -> Result<[u64; 2], Box<dyn Error>> {
        let mut command = Command::new("valgrind");
        command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
        command
            .arg(&self.binary)
            .args([name, repetitions.to_string().as_str()]);
        let words = String::from_utf8(self.run(command)?.stderr)?;
        let number = |before: &str| {
            let rest = words.lines().find_map(|line| line.split_once(before))?.1;
            rest.trim().parse::<u64>().ok()
        };
        match (number("Collected :"), number("driver calls:")) {
            (Some(instructions), Some(calls)) => Ok([instructions, calls]),
            _ => Err(format!("no counts for `{name}`:\n{words}").into()),
        }
    }

    fn count(&self, name: &str) -> Result<Row, Box<dyn Error>> {
        let [few, many] = REPETITIONS;
        let (from, to) = (self.whole(name, few)?, self.whole(name, many)?);
        let one = |at: usize| (to[at].saturating_sub(from[at]) + (many - few) / 2) / (many - few);
        Ok(Row {
            name: name.to_owned(),
            instructions: one(0),
            driver_calls: one(1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, instructions: u64, driver_calls: u64) -> Row {
        Row {
            name: name.to_owned(),
            instructions,
            driver_calls,
        }
    }

    #[test]
    fn a_page_is_read_as_it_is_written() {
        let rows = [row("launch", 120, 1), row("a handoff, there and back", 400, 4)];
        assert_eq!(parse(&render(&rows)), rows);
    }

    #[test]
    fn differences_are_named() {
        let old = [row("launch", 1000, 1), row("fill", 1000, 1), row("gone", 1, 1)];
        let new = [row("launch", 1030, 1), row("fill", 969, 2), row("new", 1, 1)];
        assert_eq!(
            differences(&old, &new),
            [
                "fill: 2 driver calls instead of 1",
                "fill: 969 instructions instead of 1000",
                "new: not in the page",
                "gone: not counted any more",
            ]
        );
        assert!(differences(&old, &old).is_empty());
    }
}
