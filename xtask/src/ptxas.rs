//! Runs `ptxas`, NVIDIA's assembler, if it is installed. It finds errors that LLVM lets pass, and
//! prints the registers that a kernel uses.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Architectures for which the PTX is assembled: the oldest that it targets, and the next two
/// generations.
const ARCHITECTURES: [&str; 3] = ["sm_80", "sm_90", "sm_100"];

/// Assembles `ptx` for each architecture, and prints registers and spills of each kernel. Prints
/// that it was skipped if there is no `ptxas`.
pub(crate) fn assemble(ptx: &str) -> Result<(), Box<dyn Error>> {
    let Some(ptxas) = find("ptxas") else {
        eprintln!(
            "SKIPPED: the PTX was not assembled, because there is no ptxas: \
             install CUDA or `pip install nvidia-cuda-nvcc`, or set PTXAS"
        );
        return Ok(());
    };
    let directory = std::env::temp_dir().join(format!("cuda-rt-ptxas-{}", std::process::id()));
    fs::create_dir_all(&directory)?;
    let result = ARCHITECTURES
        .iter()
        .try_for_each(|architecture| assemble_for(&ptxas, architecture, ptx, &directory));
    fs::remove_dir_all(&directory)?;
    result
}

/// Like [`assemble`], for many kernels: prints only the sum of their spills.
pub(crate) fn assemble_quietly(ptx: &str) -> Result<(), Box<dyn Error>> {
    let Some(ptxas) = find("ptxas") else {
        eprintln!("SKIPPED: the PTX was not assembled, because there is no ptxas");
        return Ok(());
    };
    let directory = std::env::temp_dir().join(format!("cuda-rt-ptxas-{}", std::process::id()));
    fs::create_dir_all(&directory)?;
    let result = assembled(&ptxas, ARCHITECTURES[1], ptx, &directory);
    fs::remove_dir_all(&directory)?;
    let spills: u32 = result?.iter().map(|usage| usage.spill_bytes).sum();
    println!(
        "ptxas takes them for {}, with {spills} bytes of spills",
        ARCHITECTURES[1]
    );
    Ok(())
}

fn assemble_for(ptxas: &Path, architecture: &str, ptx: &str, directory: &Path) -> Result<(), Box<dyn Error>> {
    let usages = assembled(ptxas, architecture, ptx, directory)?;
    println!("{architecture}:");
    for usage in usages {
        println!(
            "  {:<12} {:>3} registers, {} bytes of spills",
            usage.kernel, usage.registers, usage.spill_bytes
        );
    }
    Ok(())
}

pub(crate) fn assembled(
    ptxas: &Path,
    architecture: &str,
    ptx: &str,
    directory: &Path,
) -> Result<Vec<Usage>, Box<dyn Error>> {
    let source = directory.join("kernels.ptx");
    fs::write(&source, ptx)?;
    let output = Command::new(ptxas)
        .args(["-v", "-arch", architecture, "-o"])
        .arg(directory.join("kernels.cubin"))
        .arg(&source)
        .output()
        .map_err(|error| format!("{}: {error}", ptxas.display()))?;
    let log = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("ptxas refuses the PTX for {architecture}:\n{log}").into());
    }
    Ok(usages(&log))
}

/// What `ptxas -v` says of a kernel.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    /// The name of the entry.
    pub(crate) symbol: String,
    /// The name of the function: the entry's without its hash.
    pub(crate) kernel: String,
    pub(crate) registers: u32,
    /// Shared memory of a block, which the entry has itself; without the memory of a launch.
    pub(crate) shared_bytes: u32,
    pub(crate) stack_bytes: u32,
    pub(crate) spill_bytes: u32,
}

/// Reads the output of `ptxas -v`. A kernel's name comes first, then the properties of the kernel
/// and of the functions that it calls, then its registers.
fn usages(log: &str) -> Vec<Usage> {
    let mut usages = Vec::new();
    let (mut symbol, mut stack_bytes, mut spill_bytes) = (String::new(), 0, 0);
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            symbol = rest.split('\'').next().unwrap_or("").to_owned();
            (stack_bytes, spill_bytes) = (0, 0);
        } else if line.contains("bytes spill stores") {
            stack_bytes += line
                .trim()
                .split(' ')
                .next()
                .and_then(|bytes| bytes.parse::<u32>().ok())
                .unwrap_or(0);
            spill_bytes += line
                .split(", ")
                .filter(|part| part.contains("spill"))
                .filter_map(|part| part.trim().split(' ').next()?.parse::<u32>().ok())
                .sum::<u32>();
        } else if let Some((_, rest)) = line.split_once(": Used ") {
            let registers = rest
                .split(' ')
                .next()
                .and_then(|count| count.parse().ok())
                .unwrap_or(0);
            // An entry's name is the function's name, two underscores and a hash.
            let kernel = symbol.rsplit_once("__").map_or(&*symbol, |(name, _)| name);
            usages.push(Usage {
                kernel: kernel.to_owned(),
                symbol: std::mem::take(&mut symbol),
                registers,
                shared_bytes: before(rest, " bytes smem"),
                stack_bytes,
                spill_bytes,
            });
        }
    }
    usages
}

/// The number in front of `words`; 0 without them.
fn before(text: &str, words: &str) -> u32 {
    text.split_once(words)
        .and_then(|(text, _)| text.rsplit([' ', ',']).next()?.parse().ok())
        .unwrap_or(0)
}

/// Looks for a tool of CUDA's (`ptxas`, `nvdisasm`) in the variable of its name in capitals, on
/// `PATH`, in the toolkit's usual place, and among pip's packages.
pub(crate) fn find(tool: &str) -> Option<PathBuf> {
    if let Some(path) = std::env::var_os(tool.to_uppercase()) {
        return Some(PathBuf::from(path));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/local/cuda/bin")])
        .map(|directory| directory.join(tool))
        .find(|file| file.is_file())
        .or_else(|| in_site_packages(tool))
}

fn in_site_packages(tool: &str) -> Option<PathBuf> {
    let script = "import site, sys; print('\\n'.join(site.getsitepackages() + [site.getusersitepackages()]))";
    let output = Command::new("python3").args(["-c", script]).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .find_map(|directory| find_below(&Path::new(directory).join("nvidia"), tool, 3))
}

/// Looks for `bin/ptxas`, or another tool, at most `depth` directories down, as in
/// `nvidia/cu13/bin` and `nvidia/cuda_nvcc/bin`.
fn find_below(directory: &Path, tool: &str, depth: u32) -> Option<PathBuf> {
    let candidate = directory.join("bin").join(tool);
    if candidate.is_file() {
        return Some(candidate);
    }
    if depth == 0 {
        return None;
    }
    let directories = fs::read_dir(directory)
        .ok()?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()));
    directories
        .filter(|path| path.is_dir())
        .find_map(|path| find_below(&path, tool, depth - 1))
}

#[cfg(test)]
mod tests {
    use super::{Usage, find_below, usages};

    #[test]
    fn registers_and_spills_are_read_for_each_kernel() {
        let log = "\
ptxas info    : 224 bytes gmem
ptxas info    : Compiling entry function 'block_sum__081509d29c619c4e' for 'sm_90'
ptxas info    : Function properties for block_sum__081509d29c619c4e
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 13 registers, used 1 barriers
ptxas info    : Compiling entry function 'add__a4' for 'sm_90'
    16 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 255 registers, used 0 barriers, 1040 bytes smem, 8 bytes cmem[2]
";
        let expected = [
            ("block_sum", "081509d29c619c4e", 13, 0, 0, 0),
            ("add", "a4", 255, 1040, 16, 20),
        ]
        .map(
            |(kernel, hash, registers, shared_bytes, stack_bytes, spill_bytes)| Usage {
                symbol: format!("{kernel}__{hash}"),
                kernel: kernel.to_owned(),
                registers,
                shared_bytes,
                stack_bytes,
                spill_bytes,
            },
        );
        assert_eq!(usages(log), expected);
    }

    #[test]
    fn a_search_without_ptxas_finds_nothing() {
        assert_eq!(find_below(std::path::Path::new("/nonexistent"), "ptxas", 3), None);
    }
}
