//! The bits of NaNs, of which LLVM believes the sign, and by which it drops checks of bounds.

use std::fs;

use kernel_build::verify::verify;
use kernel_build::{BuildError, Kernels};

use crate::{compile, compile_with, package};

/// LLVM drops the check of each index here. For a NaN, `neg` and `max` of PTX give 0x7fffffff.
const KERNELS: &str = r"
    const SIGN: u32 = 1 << 31;
    fn number(y: f32) -> usize { 7u32.wrapping_sub(y.to_bits() >> 29) as usize }
    fn negative(x: f32) -> f32 { f32::from_bits(x.to_bits() | SIGN) }

    #[kernel]
    fn forge(i: Index1, input: &[f32], mut out: PerThread<u32>, mut seen: PerThread<f32>, at: u32, to: u64) {
        let y = -(input[i.get()].abs());
        let mut indices = [None; 4];
        indices[at as usize % 4] = Some(i);
        let mut mine = [[0u64; 2]; 4];
        mine[number(y)] = [1, to];
        if let Some(o) = seen.get_mut(i) { *o = y; }
        let Some(index) = indices[(at as usize + 1) % 4] else { return };
        if let Some(o) = out.get_mut(index) { *o = mine[(at as usize + 2) % 4][1] as u32; }
    }
    #[kernel]
    fn bins(i: Index1, input: &[f32], mut out: PerThread<u32>, mut largest: PerThread<f32>) {
        let mut counts = [0u32; 256];
        let mut low = -0.0f32;
        for value in input {
            let low_of = -value.abs();
            low = low.min(low_of);
            counts[(low_of.to_bits() >> 23) as usize - 256] += 1;
            if let Some(l) = largest.get_mut(i) { *l += low_of; }
        }
        if let (Some(o), Some(l)) = (out.get_mut(i), largest.get_mut(i)) { *o = counts[i.get() % 256]; *l = low; }
    }
    #[kernel(block = 64)]
    fn shared(mut block: Block, tile: BlockUninit<u32, 4>, input: &[f32], mut out: PerThread<u32>) {
        let tile = tile.init(&mut block, |_, at| at as u32);
        let view = tile.view();
        block.threads(|t| {
            let y = negative(input[t.position()]).max(negative(input[0]));
            if let Some(i) = t.index_in_launch() { out.set(i, view.slice(t)[number(y)]); }
        });
    }
    #[kernel]
    fn doubles(i: Index1, input: &[f64], table: &[u32], mut out: PerThread<f64>, mut chosen: PerThread<u32>) {
        let Some(table) = table.first_chunk::<4>() else { return };
        let y = -(input[i.get()].abs());
        if let (Some(o), Some(s)) = (out.get_mut(i), chosen.get_mut(i)) {
            *o = y;
            *s = table[7usize.wrapping_sub((y.to_bits() >> 61) as usize)];
        }
    }";

#[test]
fn a_sign_that_llvm_believes_of_a_nan_is_kept() {
    let package = package("signs-of-nans", KERNELS);
    let Some(module) = compile_with(&Kernels::new(package.path()).local_memory("*")) else {
        return;
    };
    let ptx = module.unwrap().ptx;
    // The text with the instructions of LLVM again.
    let mut count = 0;
    for line in ptx.lines().filter(|line| line.ends_with("of NaNs too")) {
        let (code, comment) = line.trim().split_once(" // ").unwrap();
        let opcode = comment.split(',').next().unwrap();
        let operands: Vec<&str> = code
            .split([' ', ',', ';'])
            .filter(|word| word.starts_with("%r"))
            .collect();
        let inexact = match opcode.split('.').next().unwrap() {
            "neg" | "abs" => format!("{opcode} {}, {};", operands[0], operands[1]),
            // The operands of the minimum, and then its result.
            _ => format!("{opcode} {}, {}, {};", operands[2], operands[0], operands[1]),
        };
        let refusal = verify(&ptx.replacen(line, &inexact, 1)).unwrap_err().to_string();
        assert!(refusal.contains("gives any NaN"), "{inexact}: {refusal}");
        count += 1;
    }
    assert!(count >= 8, "{ptx}");
}

/// LLVM asks the sign of `y` in place of the sign of `y as f32`, and drops the check of each index.
/// For a NaN, `cvt` of PTX gives 0x7fffffff.
const CONVERSIONS: &str = r"
    macro_rules! conversions { ($($name:ident $from:ident $bits:ident $to:ident $shift:literal $top:literal;)*) => { $(
        #[kernel]
        fn $name(i: Index1, ys: &[$bits], table: &[u32], mut out: PerThread<u32>, mut more: PerThread<u64>) {
            let Some(table) = table.first_chunk::<4>() else { return };
            let Some(y) = ys.get(i.get()) else { return };
            let s = $from::from_bits(*y) as $to;
            let (b, w) = (s.to_bits(), (-s).to_bits());
            let t = if b & $top == 0 { 0 } else { table[3usize.wrapping_sub((w >> $shift) as usize)] };
            if let Some(o) = more.get_mut(i) { *o = w as u64; }
            if let Some(o) = out.get_mut(i) { *o = t; }
        }
    )* } }
    conversions! {
        narrow_f32_f16 f32 u32 f16 13 0x8000;
        narrow_f64_f16 f64 u64 f16 13 0x8000;
        narrow_f64_f32 f64 u64 f32 29 0x8000_0000;
        widen_f16_f32 f16 u16 f32 29 0x8000_0000;
        widen_f16_f64 f16 u16 f64 61 0x8000_0000_0000_0000;
        widen_f32_f64 f32 u32 f64 61 0x8000_0000_0000_0000;
    }
    #[kernel]
    fn write(i: Index1, ys: &[f64], mut out: PerThread<[u32; 4]>, mut more: PerThread<u32>) {
        let Some(y) = ys.get(i.get()) else { return };
        let s = *y as f32;
        let w = (-s).to_bits();
        let mut mine = [1u32; 4];
        if s.to_bits() >> 31 != 0 { mine[3usize.wrapping_sub((w >> 29) as usize)] = 5; }
        if let Some(o) = more.get_mut(i) { *o = w; }
        if let Some(o) = out.get_mut(i) { *o = mine; }
    }
    #[kernel]
    fn sign(i: Index1, ys: &[u64], ms: &[u16], table: &[u32], mut seen: PerThread<[u16; 2]>, mut out: PerThread<u32>) {
        let Some(table) = table.first_chunk::<4>() else { return };
        let (Some(y), Some(m)) = (ys.get(i.get()), ms.get(i.get())) else { return };
        let s = f64::from_bits(*y) as f16;
        let v = f16::from_bits(*m).copysign(s);
        if let Some(o) = seen.get_mut(i) { *o = [v.to_bits(), s.to_bits()]; }
        if s.is_sign_positive() {
            if let Some(o) = out.get_mut(i) { *o = table[(v.to_bits() >> 13) as usize]; }
        }
    }
    #[kernel]
    fn whole(i: Index1, xs: &[f32], mut out: PerThread<f32>, mut wide: PerThread<f64>) {
        let Some(x) = xs.get(i.get()) else { return };
        let w = device_std::Float::floor(*x as f64);
        if let Some(o) = out.get_mut(i) { *o = -(w as f32); }
        if let Some(o) = wide.get_mut(i) { *o = w; }
    }";

#[test]
fn a_sign_that_llvm_takes_from_the_source_of_a_conversion_is_kept() {
    let package = package("signs-of-conversions", CONVERSIONS);
    let root = package.path().join("src/lib.rs");
    let text = fs::read_to_string(&root).unwrap();
    fs::write(&root, text.replace("feature(abi_ptx)", "feature(abi_ptx, f16)")).unwrap();
    let Some(module) = compile_with(&Kernels::new(package.path()).local_memory("*")) else {
        return;
    };
    let ptx = module.unwrap().ptx;
    let mut conversions = Vec::new();
    for line in ptx.lines().filter(|line| line.contains("// cvt.")) {
        let (code, comment) = line.trim().split_once(" // ").unwrap();
        let opcode = comment.split(',').next().unwrap();
        let after = |word: &str| {
            let rest = code.rsplit_once(word).unwrap().1.trim();
            rest.split([',', ';']).next().unwrap().to_owned()
        };
        let result = after(&format!(
            " or.b{} ",
            if opcode.contains(".f16.") {
                16
            } else if opcode.contains(".f64.") {
                64
            } else {
                32
            }
        ));
        let inexact = format!("{opcode} {result}, {};", after("%exact_t, "));
        let refusal = verify(&ptx.replacen(line, &inexact, 1)).unwrap_err().to_string();
        assert!(refusal.contains("gives any NaN"), "{inexact}: {refusal}");
        conversions.push(opcode);
    }
    for opcode in [
        "cvt.rn.f16.f32",
        "cvt.rn.f16.f64",
        "cvt.rn.f32.f64",
        "cvt.f32.f16",
        "cvt.f64.f16",
        "cvt.f64.f32",
    ] {
        assert!(conversions.contains(&opcode), "{opcode}: {ptx}");
    }
    assert!(
        conversions.iter().any(|opcode| opcode.starts_with("cvt.rmi.")),
        "{ptx}"
    );
    assert!(conversions.len() >= 9, "{ptx}");
}

/// The sign of an operand of a sum stays in the sum's instruction, where it costs nothing.
#[test]
fn a_sign_that_nobody_looks_at_stays_as_it_is() {
    let source = "#[kernel]
         pub fn k(i: Index1, x: &[f32], y: &[f32], mut out: PerThread<f32>) {
             let (Some(x), Some(y)) = (x.get(i.get()), y.get(i.get())) else { return };
             if let Some(o) = out.get_mut(i) { *o = device_std::Float::mul_add(-x, *y, y.abs()); }
         }";
    let package = package("signs-of-operands", source);
    if let Some(module) = compile(package.path()) {
        let ptx = module.unwrap().ptx;
        assert!(ptx.contains("neg.f32") && ptx.contains("abs.f32"), "{ptx}");
        assert!(!ptx.contains("NaNs too"), "{ptx}");
    }
}

/// A crate chooses its name. LLVM reads four elements of the array of three.
#[test]
fn a_part_of_a_vector_is_read_by_no_crate_of_any_name() {
    let source = "use core::simd::prelude::*;
         #[kernel]
         fn unwritten(i: Index1, input: &[u32], at: u32, mut out: PerThread<[u32; 4]>) {
             let mut mine = [5u32; 3];
             mine[at as usize % 3] = input[i.get()];
             let v = Simd::<u32, 4>::load_or_default(&mine);
             if let Some(o) = out.get_mut(i) { *o = v.to_array(); }
         }";
    let package = package("parts-of-vectors", source);
    let manifest = package.path().join("Cargo.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, format!("{text}[lib]\nname = \"bytemuck\"\n")).unwrap();
    let root = package.path().join("src/lib.rs");
    let text = fs::read_to_string(&root).unwrap();
    fs::write(&root, text.replace("abi_ptx", "abi_ptx, portable_simd")).unwrap();
    match compile(package.path()) {
        Some(Err(BuildError::UnstableFeature { .. })) | None => {}
        other => panic!("{other:?}"),
    }
}

/// A `None` has no value, so LLVM writes none into the parameter of the call.
#[test]
fn a_none_is_passed_to_a_function() {
    let source = "#[inline(never)]
         fn pick(a: Option<u64>, b: u64) -> u64 { a.unwrap_or(b.rotate_left(3)) }
         #[kernel]
         fn none(i: Index1, mut out: PerThread<u64>) {
             if let Some(o) = out.get_mut(i) { let x = pick(None, *o); *o = pick(Some(x), 5); }
         }";
    let package = package("nones", source);
    if let Some(module) = compile(package.path()) {
        module.unwrap();
    }
}

/// From sm_100 on, LLVM ends such a function with the call.
#[test]
fn functions_that_never_return_end_for_sm_100() {
    let source = "#[kernel]
         fn k(i: Index1, input: &[u32], mut out: PerThread<u32>) {
             if let (Some(o), Some(x)) = (out.get_mut(i), input.get(i.get())) { *o = x.checked_mul(3).unwrap(); }
         }";
    let package = package("unwraps", source);
    if let Some(module) = compile_with(&Kernels::new(package.path()).architecture("sm_103")) {
        let ptx = module.unwrap().ptx;
        assert!(ptx.contains(".noreturn"), "{ptx}");
    }
}

/// From sm_100 on, LLVM writes sums of two floats at once, loads of 32 bytes, loads whose bytes are
/// not all read, and the smaller of two halves.
#[test]
fn instructions_that_sm_100_brings_are_proved() {
    let source = "#[derive(Clone, Copy, device_std::bytemuck::Pod, device_std::bytemuck::Zeroable, Element)]
         #[bytemuck(crate = \"device_std::bytemuck\")]
         #[repr(C, align(32))]
         pub struct Eight([f32; 8]);
         #[kernel]
         fn sums(i: Index1, a: &[f32], out: PerThreadChunk<f32, 4>) {
             let (read, had): ([f32; 4], [f32; 4]) = (a.chunk_or(i.get(), 0.5), out.get_or(i, 0.5));
             out.set(i, core::array::from_fn(|lane| had[lane] + read[lane]));
         }
         #[kernel]
         fn some(i: Index1, a: &[Eight], mut out: PerThread<f32>) {
             if let (Some(o), Some(a)) = (out.get_mut(i), a.get(i.get())) {
                 *o = a.0[0] + a.0[1] + a.0[2] + a.0[3] + a.0[5] + a.0[6];
             }
         }
         #[kernel]
         fn smaller(i: Index1, a: &[[u16; 2]], mut out: PerThread<[u16; 2]>) {
             if let (Some(o), Some(a)) = (out.get_mut(i), a.get(i.get())) {
                 *o = [a[0].min(o[0]), a[1].min(o[1])];
             }
         }";
    let package = package("sm100", source);
    // sm_103 has the version of PTX that all of them need.
    if let Some(module) = compile_with(&Kernels::new(package.path()).architecture("sm_103")) {
        let ptx = module.unwrap().ptx;
        for part in [".f32x2", ".v8.", "min.u16x2"] {
            assert!(ptx.contains(part), "{part}: {ptx}");
        }
    }
}
