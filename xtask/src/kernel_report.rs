//! `cargo xtask kernel-report`: what `ptxas` makes of each shipped kernel, in
//! docs/kernel-report.md, so that a kernel that became worse shows without a GPU.
//!
//! The page belongs to one version of `ptxas`. With another one, `--check` compares nothing, and
//! says so.

mod occupancy;
mod sass;

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kernel_build::verify::entry_blocks;

use crate::{ptxas, tidy};
use sass::Code;

const FILE: &str = "docs/kernel-report.md";
const SHIPPED: &str = "device-kernels/ptx/device_kernels.ptx";
const ARCHITECTURES: [&str; 2] = ["sm_80", "sm_90"];

const HEADING: &str = "\
# Kernels, as ptxas compiles them

`cargo xtask kernel-report` writes this page from the committed PTX of `device-kernels`; `--check`
compares. `cargo xtask kernel-report FILE.ptx` prints the same of any PTX. It needs `ptxas` and
`nvdisasm`, of CUDA or of `pip install nvidia-cuda-nvcc nvidia-cuda-nvdisasm`. Without them, or with
another version of `ptxas`, `--check` compares nothing, prints `SKIPPED`, and succeeds.

- **stack, spills**: local memory for arrays, and for registers that did not fit, in bytes of a
  thread.
- **shared**: the shared memory that the kernel declares, in bytes of a block.
- **occupancy**: the warps that a multiprocessor holds at a time, of 64. The smallest of three
  limits counts: registers, shared memory and threads. Blocks have the threads that the kernel
  names, or 256. `Device::max_active_blocks` says how many blocks a device of yours holds.
- **instructions**: of the entry, without the functions for panics. **loops**: those of each
  innermost loop, the longest first.
- **16-byte**: how many of the loads from, and stores to, global memory move 16 bytes.
";

/// The threads of a block in the column of the occupancy, if the kernel names none: what a launch
/// without a block size takes.
const BLOCK: u32 = 256;

/// What is known of one kernel for one architecture.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    kernel: String,
    registers: u32,
    shared: u32,
    /// The warps of a multiprocessor.
    occupancy: u32,
    stack: u32,
    spills: u32,
    code: Code,
}

/// Writes the page.
pub(crate) fn write() -> Result<(), Box<dyn Error>> {
    let tools = Tools::find()?;
    fs::write(tidy::root().join(FILE), page(&tools)?)?;
    println!("{FILE} is written, by ptxas {}", tools.version);
    Ok(())
}

/// Compares with the page, if the same `ptxas` wrote it.
pub(crate) fn check() -> Result<(), Box<dyn Error>> {
    let committed =
        fs::read_to_string(tidy::root().join(FILE)).map_err(|error| format!("{FILE}: {error}"))?;
    let tools = match Tools::find() {
        Ok(tools) => tools,
        Err(error) => {
            eprintln!("SKIPPED: {FILE} was not compared: {error}");
            return Ok(());
        }
    };
    if !committed.contains(&written_by(&tools.version)) {
        eprintln!(
            "SKIPPED: {FILE} was not compared: another ptxas than {} wrote it",
            tools.version
        );
        return Ok(());
    }
    let made = page(&tools)?;
    let Some((old, new)) = first_difference(&committed, &made) else {
        println!("{FILE} is up to date");
        return Ok(());
    };
    Err(format!(
        "{FILE} is stale: run `cargo xtask kernel-report` if the change is meant\n  page: {old}\n  now:  {new}"
    )
    .into())
}

/// Prints the tables of a PTX file.
pub(crate) fn print(path: &str) -> Result<(), Box<dyn Error>> {
    let ptx = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    print!("{}", tables(&Tools::find()?, &ptx)?);
    Ok(())
}

fn page(tools: &Tools) -> Result<String, Box<dyn Error>> {
    let ptx = fs::read_to_string(tidy::root().join(SHIPPED))?;
    Ok(format!(
        "{HEADING}\n{}\n{}",
        written_by(&tools.version),
        tables(tools, &ptx)?
    ))
}

fn written_by(version: &str) -> String {
    format!("Written by ptxas {version}.\n")
}

fn first_difference<'a>(old: &'a str, new: &'a str) -> Option<(&'a str, &'a str)> {
    let (mut old, mut new) = (old.lines(), new.lines());
    loop {
        match (old.next(), new.next()) {
            (None, None) => return None,
            (old, new) if old == new => {}
            (old, new) => return Some((old.unwrap_or("(end)"), new.unwrap_or("(end)"))),
        }
    }
}

fn tables(tools: &Tools, ptx: &str) -> Result<String, Box<dyn Error>> {
    let mut text = String::new();
    for architecture in ARCHITECTURES {
        writeln!(
            text,
            "\n## {architecture}\n\n| kernel | registers | stack | spills | shared | occupancy | instructions | loops | 16-byte loads | \
             16-byte stores |\n|---|--:|--:|--:|--:|--:|--:|---|--:|--:|"
        )?;
        for row in rows(tools, ptx, architecture)? {
            writeln!(text, "{}", row.text())?;
        }
    }
    Ok(text)
}

impl Row {
    fn text(&self) -> String {
        let loops: Vec<String> = self.code.loops.iter().map(ToString::to_string).collect();
        let (loads, stores) = (self.code.loads, self.code.stores);
        format!(
            "| `{}` | {} | {} | {} | {} | {} | {} | {} | {} of {} | {} of {} |",
            self.kernel,
            self.registers,
            self.stack,
            self.spills,
            self.shared,
            self.occupancy,
            self.code.instructions,
            loops.join(", "),
            loads.wide,
            loads.all,
            stores.wide,
            stores.all
        )
    }
}

fn rows(tools: &Tools, ptx: &str, architecture: &str) -> Result<Vec<Row>, Box<dyn Error>> {
    let directory = std::env::temp_dir().join(format!("cuda-rt-report-{}", std::process::id()));
    fs::create_dir_all(&directory)?;
    let result = compiled(tools, ptx, architecture, &directory);
    fs::remove_dir_all(&directory)?;
    let (usages, code) = result?;
    // PTX of other compilers may have forms that the verifier does not read.
    let blocks = entry_blocks(ptx).unwrap_or_else(|refusal| {
        eprintln!("note: blocks have 256 threads here, because no table says otherwise: {refusal}");
        Vec::new()
    });
    let mut rows = Vec::new();
    for usage in usages {
        let code = sass::of(&code, &usage.symbol)
            .ok_or_else(|| format!("nvdisasm shows no code of `{}`", usage.symbol))?;
        let block = blocks.iter().find(|block| block.entry == usage.symbol);
        let declared = block.map_or(0, |block| block.shared_bytes);
        let shared = usage.shared_bytes + u32::try_from(declared)?;
        let threads = block.and_then(|block| block.threads);
        let threads = threads.map(u32::try_from).transpose()?.unwrap_or(BLOCK);
        rows.push(Row {
            kernel: usage.kernel,
            registers: usage.registers,
            shared,
            occupancy: occupancy::warps(architecture, threads, usage.registers, shared),
            stack: usage.stack_bytes,
            spills: usage.spill_bytes,
            code,
        });
    }
    rows.sort_by(|a, b| a.kernel.cmp(&b.kernel));
    Ok(rows)
}

fn compiled(
    tools: &Tools,
    ptx: &str,
    architecture: &str,
    directory: &Path,
) -> Result<(Vec<ptxas::Usage>, String), Box<dyn Error>> {
    let usages = ptxas::assembled(&tools.ptxas, architecture, ptx, directory)?;
    let output = Command::new(&tools.nvdisasm)
        .arg("-c")
        .arg(directory.join("kernels.cubin"))
        .output()
        .map_err(|error| format!("{}: {error}", tools.nvdisasm.display()))?;
    if !output.status.success() {
        let log = String::from_utf8_lossy(&output.stderr);
        return Err(format!("nvdisasm: {log}").into());
    }
    Ok((usages, String::from_utf8_lossy(&output.stdout).into_owned()))
}

struct Tools {
    ptxas: PathBuf,
    nvdisasm: PathBuf,
    version: String,
}

impl Tools {
    fn find() -> Result<Self, Box<dyn Error>> {
        let hint =
            "install CUDA, or `pip install nvidia-cuda-nvcc nvidia-cuda-nvdisasm`, or set PTXAS and NVDISASM";
        let ptxas = ptxas::find("ptxas").ok_or(format!("there is no ptxas: {hint}"))?;
        let beside = ptxas.with_file_name("nvdisasm");
        let nvdisasm = Some(beside)
            .filter(|path| path.is_file())
            .or_else(|| ptxas::find("nvdisasm"))
            .ok_or(format!("there is no nvdisasm: {hint}"))?;
        let output = Command::new(&ptxas)
            .arg("--version")
            .output()
            .map_err(|error| format!("{}: {error}", ptxas.display()))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = text
            .split(" V")
            .nth(1)
            .and_then(|rest| rest.split_whitespace().next())
            .ok_or(format!("ptxas names no version: {text}"))?
            .to_owned();
        Ok(Self {
            ptxas,
            nvdisasm,
            version,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_first_difference_is_shown() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(first_difference("a\nb\n", "a\nc\n"), Some(("b", "c")));
        assert_eq!(first_difference("a\n", "a\nc\n"), Some(("(end)", "c")));
    }

    #[test]
    fn the_page_lists_each_shipped_kernel() {
        let page = fs::read_to_string(tidy::root().join(FILE)).unwrap();
        let ptx = fs::read_to_string(tidy::root().join(SHIPPED)).unwrap();
        let entries = ptx
            .lines()
            .filter_map(|line| line.strip_prefix(".visible .entry "))
            .map(|entry| entry.rsplit_once("__").unwrap().0);
        // The instances of a generic kernel have one name.
        let mut instances: BTreeMap<&str, usize> = BTreeMap::new();
        entries.for_each(|kernel| *instances.entry(kernel).or_default() += 1);
        let count: usize = instances.values().sum();
        for (kernel, instances) in instances {
            let rows = page.matches(&format!("| `{kernel}` |")).count();
            assert_eq!(rows, instances * ARCHITECTURES.len(), "{kernel}");
        }
        assert!(count > 10);
    }
}
