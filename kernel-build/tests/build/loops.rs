//! Loops that may run for ever, and the machine code that NVIDIA's compiler makes of them.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{compile, package};

/// Each loop ends only if `m` lies inside the buffer, so LLVM drops the check of `m` behind it.
const KERNELS: &str = "
    #[kernel]
    pub fn read(i: Index1, input: &[u32], n: u32, m: u32) -> u32 {
        let len = input.len();
        let mut y = n ^ i.get() as u32;
        while y as usize >= len || y != m { y = y.wrapping_mul(5).wrapping_add(1); }
        input[m as usize]
    }
    #[kernel]
    pub fn write(i: Index1, output: Atomic<u32>, n: u32, m: u32) {
        let len = output.len();
        let mut y = n ^ i.get() as u32;
        while y as usize >= len || y != m { y = y.wrapping_mul(5).wrapping_add(1); }
        output.store(&i, m as usize, 7);
    }
    #[kernel]
    pub fn spin(i: Index1, output: Atomic<u32>, n: u32, m: u32) {
        let len = output.len();
        let mut y = n;
        while y as usize >= len || y != m { y = y.wrapping_mul(5).wrapping_add(output.load(&i, 0)); }
        output.store(&i, m as usize, 7);
    }
    #[kernel(block = 64)]
    pub fn phase(mut block: Block, tile: BlockUninit<u32, 64>, output: Atomic<u32>, n: u32, m: u32) {
        let len = output.len();
        let mut y = n;
        while y as usize >= len || y != m { y = y.wrapping_mul(5).wrapping_add(1); }
        let tile = tile.init(&mut block, |t, _| t.index() as u32);
        let v = tile.view();
        block.threads(|t| output.store(t, m as usize, v.slice(t)[63 - t.index()]));
    }";

/// A loop of a counter, which ends for every value of `n`.
const COUNTED: &str = "
    #[kernel]
    pub fn sum(i: Index1, input: &[u32], n: u32) -> u32 {
        let mut sum = 0_u32;
        for at in 0..n { sum = sum.wrapping_add(input.get(at as usize ^ i.get()).copied().unwrap_or(at)); }
        sum
    }";

const KEPT: &str = "pmevent";

#[test]
fn a_loop_that_may_never_end_stays_in_the_machine_code() {
    let package = package("endless-loops", KERNELS);
    let Some(module) = compile(package.path()) else {
        return;
    };
    let ptx = module.unwrap().ptx;
    for entry in entries(&ptx) {
        assert!(entry.contains(KEPT), "{entry}");
    }
    let Some(ptxas) = ptxas() else { return };
    for architecture in ["sm_80", "sm_90", "sm_100"] {
        for level in ["-O1", "-O3"] {
            let loops = loops_of(&ptxas, architecture, level, &ptx);
            assert_eq!(loops.len(), 4, "{loops:?}");
            for (entry, loops) in loops {
                assert!(loops > 0, "{entry} has no loop for {architecture} {level}");
            }
        }
    }
    // The test sees that a loop is gone: this compiler removes it without the instruction.
    let without: Vec<&str> = ptx.lines().filter(|line| !line.contains(KEPT)).collect();
    for (entry, loops) in loops_of(&ptxas, "sm_90", "-O3", &without.join("\n")) {
        assert!(
            loops == 0 || entry.starts_with("spin"),
            "{entry} has {loops} loops"
        );
    }
}

#[test]
fn a_loop_of_a_counter_is_left_as_it_is() {
    let package = package("counted-loops", COUNTED);
    let Some(module) = compile(package.path()) else {
        return;
    };
    let ptx = module.unwrap().ptx;
    assert!(ptx.contains("bra") && !ptx.contains(KEPT), "{ptx}");
}

/// The proof counts these instructions as kept (`is_kept` in `verify/loops.rs`).
#[test]
fn ptxas_keeps_a_loop_for_each_instruction_that_the_proof_counts() {
    let Some(ptxas) = ptxas() else { return };
    let text = |inside: &str, architecture: &str| {
        format!(
            ".version 8.6\n.target {architecture}\n.address_size 64\n.extern .shared .align 16 .b8 dynamic[];\n\
             .visible .entry k(.param .u64 at, .param .u32 n, .param .u32 m)\n{{\n\
             .reg .pred %p<4>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<4>;\n\
             ld.param.b64 %rd1, [at];\ncvta.to.global.u64 %rd2, %rd1;\n\
             ld.param.b32 %r1, [n];\nld.param.b32 %r2, [m];\n\
             L: mad.lo.s32 %r1, %r1, 5, 1;\n{inside}\nsetp.ne.b32 %p1, %r1, %r2;\n@%p1 bra L;\n\
             st.global.b32 [%rd2], 7;\nret;\n}}\n"
        )
    };
    for architecture in ["sm_80", "sm_90", "sm_100"] {
        for inside in [
            "pmevent 7;",
            "bar.sync 0;",
            "bar.red.popc.u32 %r3, 0, %p1;",
            "st.volatile.global.b32 [%rd2], 1;",
            "st.relaxed.gpu.global.b32 [%rd2], 1;",
            "st.relaxed.cta.shared.b32 [dynamic], 1;",
            "st.release.gpu.global.b32 [%rd2], 1;",
            "st.relaxed.gpu.b32 [%rd1], 1;",
            "atom.global.add.u32 %r3, [%rd2], 0;",
            "atom.global.or.b32 %r3, [%rd2], 0;",
            "atom.global.cas.b32 %r3, [%rd2], 7, 7;",
            "atom.max.u32 %r3, [%rd1], 0;",
            "red.global.add.u32 [%rd2], 0;",
            "red.relaxed.cta.shared.and.b32 [dynamic], -1;",
        ] {
            let loops = loops_of(&ptxas, architecture, "-O3", &text(inside, architecture));
            let [(_, loops)] = loops.as_slice() else {
                panic!("{loops:?}")
            };
            assert!(*loops > 0, "{architecture}: `{inside}` does not keep its loop");
        }
        let loops = loops_of(&ptxas, architecture, "-O3", &text("", architecture));
        assert!(matches!(loops.as_slice(), [(_, 0)]), "{loops:?}");
    }
}

/// The texts of the entries.
fn entries(ptx: &str) -> impl Iterator<Item = &str> {
    ptx.split(".visible .entry").skip(1)
}

/// Looks for `ptxas` as `cargo xtask ptx` does: in `$PTXAS`, on `PATH`, in the toolkit's usual
/// place, and among pip's packages. Prints that the test is skipped if there is none.
fn ptxas() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("PTXAS") {
        return Some(PathBuf::from(path));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain([PathBuf::from("/usr/local/cuda/bin")]);
    let mut files = directories.map(|directory| directory.join("ptxas"));
    let found = files.find(|file| file.is_file()).or_else(|| {
        let script = "import glob, site\n\
            for d in site.getsitepackages() + [site.getusersitepackages()]:\n\
            \x20   print(*glob.glob(d + '/nvidia/**/bin/ptxas', recursive=True), sep='\\n')";
        let output = Command::new("python3").args(["-c", script]).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().find(|line| !line.is_empty()).map(PathBuf::from)
    });
    if found.is_none() {
        eprintln!("SKIPPED: the machine code was not searched for loops, because there is no ptxas");
    }
    found
}

/// Assembles the text, and counts the loops of each entry.
fn loops_of(ptxas: &Path, architecture: &str, level: &str, ptx: &str) -> Vec<(String, usize)> {
    let directory = tempfile::tempdir().unwrap();
    let (source, code) = (directory.path().join("k.ptx"), directory.path().join("k.cubin"));
    std::fs::write(&source, ptx).unwrap();
    let output = Command::new(ptxas)
        .args(["-arch", architecture, level, "-o"])
        .args([&code, &source])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}\n{ptx}",
        String::from_utf8_lossy(&output.stderr)
    );
    sections(&std::fs::read(code).unwrap())
        .into_iter()
        .filter_map(|(name, code)| {
            Some((
                name.strip_prefix(".text.")?.to_owned(),
                backward_branches(code, architecture),
            ))
        })
        .collect()
}

/// The sections of an ELF file of 64 bits: name and contents.
fn sections(elf: &[u8]) -> Vec<(String, &[u8])> {
    let number = |at: usize, bytes: usize| {
        let mut all = [0; 8];
        all[..bytes].copy_from_slice(&elf[at..at + bytes]);
        usize::try_from(u64::from_le_bytes(all)).unwrap()
    };
    assert!(elf.starts_with(b"\x7fELF\x02"), "no ELF file of 64 bits");
    let (table, count, names) = (number(0x28, 8), number(0x3c, 2), number(0x3e, 2));
    let contents = |section: usize| {
        let at = table + 64 * section;
        &elf[number(at + 24, 8)..][..number(at + 32, 8)]
    };
    // A section of type 8 (NOBITS) has no contents in the file.
    let is_in_the_file = |section: &usize| number(table + 64 * section + 4, 4) != 8;
    let sections = (0..count).filter(is_in_the_file).map(|section| {
        let name = &contents(names)[number(table + 64 * section, 4)..];
        let name = name.split(|byte| *byte == 0).next().unwrap();
        (String::from_utf8_lossy(name).into_owned(), contents(section))
    });
    sections.collect()
}

/// Counts the branches to an earlier instruction. An instruction has 16 bytes from sm_70 on. `BRA`
/// has the code 0x947, or 0x547 with a predicate of the whole warp. Its distance counts 4 bytes,
/// and starts at bit 34; from sm_90 on, its last 8 bits lie at bit 16 (seen in the output of
/// `nvdisasm -hex`). A branch to itself ends the code, behind its last instruction.
fn backward_branches(code: &[u8], architecture: &str) -> usize {
    let branches = code.chunks_exact(16).filter(|instruction| {
        let bits = u128::from_le_bytes((*instruction).try_into().unwrap());
        let first = ((bits >> 34) << 80).cast_signed() >> 80;
        let distance = match architecture {
            "sm_80" => first,
            _ => first * 256 + (bits >> 16 & 0xff).cast_signed(),
        };
        matches!(bits & 0xfff, 0x947 | 0x547) && distance * 4 + 16 < 0
    });
    branches.count()
}
