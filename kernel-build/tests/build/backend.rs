//! What LLVM's code for GPUs makes of conversions, other than LLVM believes: null among addresses
//! of shared and local memory, and the sign of a shift.

use kernel_build::Kernels;
use kernel_build::verify::verify;

use crate::{compile, compile_with, package};

/// `None` of a reference into shared memory, which LLVM converts to an address of the space.
const NULL: &str = r"
    #[inline(never)]
    fn at(part: Option<&[u32]>, at: usize) -> u32 {
        match part {
            Some(part) => part.get(at).copied().unwrap_or(78),
            None => 77,
        }
    }
    #[kernel(block = 64)]
    fn none(mut block: Block, s: BlockUninit<u32, 64>, start: u64, len: u64, index: u64, output: PerThread<u32>) {
        let s = s.init(&mut block, |t, _| t.index() as u32);
        let view = s.view();
        block.threads(|t| {
            let start = start as usize + t.index();
            let part = view.slice(t).get(start..start.wrapping_add(len as usize));
            let seen = at(part, index as usize);
            let again = part.is_some() as u32;
            if let Some(i) = t.index_in_launch() { output.set(i, seen ^ again << 8); }
        });
    }
    #[kernel(block = 64)]
    fn stored(mut block: Block, s: BlockUninit<u32, 64>, n: u32, output: PerThread<u32>) {
        let s = s.init(&mut block, |t, _| t.index() as u32);
        let view = s.view();
        block.threads(|t| {
            let mut all = [None; 4];
            for (at, one) in all.iter_mut().enumerate() {
                *one = view.slice(t).get(t.index() * at + n as usize);
            }
            let seen = all[n as usize % 4].copied().unwrap_or(77);
            if let Some(i) = t.index_in_launch() { output.set(i, seen); }
        });
    }";

#[test]
fn none_of_a_reference_into_shared_memory_is_exact() {
    let package = package("null-in-shared-memory", NULL);
    let Some(module) = compile_with(&Kernels::new(package.path()).local_memory("*")) else {
        return;
    };
    let ptx = module.unwrap().ptx;
    // The text with the instructions of LLVM again.
    let (mut to, mut from) = (0, 0);
    for line in ptx.lines().filter(|line| line.ends_with("of null too")) {
        let words: Vec<&str> = line
            .split([' ', ',', ';', '\t'])
            .filter(|word| word.starts_with("%r"))
            .collect();
        let inexact = if line.contains("cvta.to.shared.u64,") {
            to += 1;
            format!("cvta.to.shared.u64 {}, {};", words[0], words[1])
        } else {
            from += 1;
            format!("cvta.shared.u64 {}, {};", words[words.len() - 1], words[0])
        };
        let refusal = verify(&ptx.replacen(line, &inexact, 1)).unwrap_err().to_string();
        assert!(refusal.contains("if the operand is null"), "{inexact}: {refusal}");
    }
    assert!(to >= 1 && from >= 1, "{ptx}");
}

fn shifts(shift: &str) -> String {
    format!(
        "#[kernel]
        fn shifts(i: Index1, x: &[i32], table: &[u32], mut out: PerThread<u32>) {{
            let Some(x) = x.get(i.get()) else {{ return }};
            let Some(table) = table.first_chunk::<2>() else {{ return }};
            let x = *x;
            if x < -1 || x > 0 {{ return; }}
            {shift}
            if let Some(o) = out.get_mut(i) {{ *o = table[at]; }}
        }}"
    )
}

/// LLVM writes `mul.wide.s32 v, x, -2147483648`, and drops the check of the index.
#[test]
fn a_shift_whose_sign_llvm_changes_is_refused() {
    let half = "#[kernel]
        fn half(i: Index1, x: &[i16], mut out: PerThread<i32>) {
            let Some(x) = x.get(i.get()) else { return };
            if *x < -1 || *x > 0 { return; }
            if let Some(o) = out.get_mut(i) { *o = (*x << 15) as i32; }
        }";
    let word = shifts("let at = (((x << 31) as i64 + (1 << 31)) >> 31) as usize;");
    for (number, (source, words)) in [
        (&*word, "write `(x as i64) << 31`"),
        (half, "write `(x as i32) << 15`"),
    ]
    .into_iter()
    .enumerate()
    {
        let package = package(&format!("shifts-{number}"), source);
        let Some(result) = compile(package.path()) else {
            return;
        };
        let refusal = result.expect_err(source).to_string();
        assert!(refusal.contains(words), "{refusal}");
    }
}

#[test]
fn shifts_behind_the_conversion_are_built() {
    for (number, shift) in [
        "let at = ((((x as i64) << 31) + (1 << 31)) >> 31) as usize;",
        "let at = ((((x as i16 as i32) << 15) + (1 << 15)) >> 15) as usize;",
        "let at = ((x << 30) as i64 + (1 << 30) >> 30) as usize;",
        "let at = (-(-((x as i64) << 31)) + (1 << 31) >> 31) as usize;",
    ]
    .into_iter()
    .enumerate()
    {
        let package = package(&format!("wide-shifts-{number}"), &shifts(shift));
        let Some(result) = compile(package.path()) else {
            return;
        };
        result.unwrap_or_else(|error| panic!("{shift}\n{error}"));
    }
}
