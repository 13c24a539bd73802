//! Kernels that the build refuses, or proves: statics, parameters, remainders, barriers in
//! functions, recursion.

use std::fs;

use kernel_build::{BuildError, Kernels};

use crate::{compile, compile_with, package};

#[test]
fn a_static_that_kernels_change_is_refused() {
    let package = package(
        "mutable-static",
        "use core::sync::atomic::{AtomicU32, Ordering};
         static CALLS: AtomicU32 = AtomicU32::new(0);
         #[kernel]
         fn count(i: Index1, mut out: PerThread<u32>) {
             if let Some(out) = out.get_mut(i) { *out = CALLS.fetch_add(1, Ordering::Relaxed); }
         }",
    );
    let Some(result) = compile(package.path()) else {
        return;
    };
    let error = result.unwrap_err();
    assert!(matches!(error, BuildError::MutableStatic { .. }), "{error}");
    assert!(error.to_string().contains("CALLS"), "{error}");
}

/// On a GPU, the remainder would differ from the host's, without any error.
#[test]
fn a_remainder_of_floats_is_refused_and_the_exact_one_builds() {
    let kernel = |name: &str, remainder: &str| {
        let body = format!(
            "#[kernel] fn wrap(i: Index1, mut data: PerThread<f32>, by: f32) {{
                 if let Some(x) = data.get_mut(i) {{ {remainder} }}
             }}"
        );
        package(name, &body)
    };
    for (name, remainder) in [("operator", "*x = *x % by;"), ("assigning", "*x %= by;")] {
        let Some(result) = compile(kernel(name, remainder).path()) else {
            return;
        };
        let error = result.unwrap_err();
        assert!(
            matches!(&error, BuildError::InexactRemainder { kernels } if kernels == &["`wrap`"]),
            "{error}"
        );
    }
    let exact = kernel(
        "exact",
        "*x = device_std::accurate::rem(*x, by) + device_std::accurate::rem_euclid(*x, by);",
    );
    assert_eq!(compile(exact.path()).unwrap().unwrap().entries.len(), 1);
}

/// LLVM turns these statics into registers, or removes them. Block-level code then has a value that
/// differs by thread.
#[test]
fn a_static_that_the_compiler_removes_is_refused() {
    let package = package(
        "removed-statics",
        "use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
         static ROOT: AtomicU32 = AtomicU32::new(0);
         static TABLE: [u32; 4] = [1, 2, 3, 4];
         const EACH: AtomicU32 = AtomicU32::new(0);
         fn generic<T>() -> u32 { static LOCAL: AtomicU32 = AtomicU32::new(0); LOCAL.load(Relaxed) }
         #[kernel(block = 64)]
         fn diverge(mut block: Block, mut out: PerBlock<u32>) {
             let _ = block.map(|lane| ROOT.store(lane.index() as u32, Relaxed));
             if ROOT.load(Relaxed) % 2 == 0 { block.threads(|_| ()); }
             out.set(&block, TABLE[block.position() % 4] + EACH.load(Relaxed) + generic::<u8>());
         }",
    );
    let Some(result) = compile(package.path()) else {
        return;
    };
    let error = result.unwrap_err();
    let BuildError::MutableStatic { names } = &error else {
        panic!("{error}");
    };
    for name in ["`removed_statics::ROOT`", "LOCAL`"] {
        assert!(
            names.iter().any(|found| found.ends_with(name)),
            "{name}: {names:?}"
        );
    }
    assert_eq!(names.len(), 2, "{names:?}");
}

/// The static belongs to a crate that the kernels depend on. Its type implements `Sync` by an
/// `unsafe impl`.
#[test]
fn a_static_of_a_dependency_is_refused() {
    let package = package(
        "static-elsewhere",
        "#[kernel]
         fn count(i: Index1, mut out: PerThread<u32>) {
             if let Some(out) = out.get_mut(i) { *out = counter::next(*out); }
         }",
    );
    let counter = package.path().join("counter");
    fs::create_dir_all(counter.join("src")).unwrap();
    fs::write(
        counter.join("Cargo.toml"),
        "[package]\nname = \"counter\"\nversion = \"0.0.0\"\nedition = \"2024\"\n",
    )
    .unwrap();
    fs::write(
        counter.join("src/lib.rs"),
        "#![no_std]
         struct Shared(core::cell::Cell<u32>);
         unsafe impl Sync for Shared {}
         static COUNT: Shared = Shared(core::cell::Cell::new(0));
         #[inline(always)]
         pub fn next(by: u32) -> u32 { COUNT.0.set(by); COUNT.0.get() + 1 }",
    )
    .unwrap();
    let manifest = package.path().join("Cargo.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(
        &manifest,
        text.replace("[workspace]", "counter = { path = \"counter\" }\n[workspace]"),
    )
    .unwrap();
    let Some(result) = compile(package.path()) else {
        return;
    };
    let error = result.unwrap_err();
    assert!(
        matches!(&error, BuildError::MutableStatic { names } if names == &["`counter::COUNT`"]),
        "{error}"
    );
}

/// The entry has no parameter for a value of no size, but the launch passes an argument for it, so
/// each later argument would arrive one place too early.
#[test]
fn a_parameter_of_no_size_is_refused() {
    let package = package(
        "no-size",
        "#[derive(Clone, Copy, device_std::bytemuck::Pod, device_std::bytemuck::Zeroable, Element)]
         #[bytemuck(crate = \"device_std::bytemuck\")]
         #[repr(C)]
         pub struct Tag { none: [u32; 0] }
         #[kernel]
         fn poke(i: Index1, _tag: Tag, _address: u64, mut out: PerThread<u32>) {
             if let Some(out) = out.get_mut(i) { *out = 1; }
         }",
    );
    let Some(result) = compile(package.path()) else {
        return;
    };
    let error = result.unwrap_err().to_string();
    assert!(error.contains("no size"), "{error}");
}

/// A function with a barrier is called, and not inlined. `convergent` keeps LLVM from moving the
/// call, and the proof checks that LLVM did not move it.
#[test]
fn a_barrier_in_a_function_that_is_not_inlined_is_proved() {
    let package = package(
        "not-inlined",
        "#[inline(never)]
         fn meet(block: &mut Block, times: u32) { for _ in 0..times { block.threads(|_| ()); } }
         #[kernel(block = 64)]
         fn waits(mut block: Block, times: u32, mut out: PerBlock<u32>) {
             let odd = block.map(|lane| lane.index() % 2);
             meet(&mut block, times);
             let mut sum = 0;
             if times > 3 { meet(&mut block, 2); sum += 1; }
             block.threads(|thread| if odd.get(thread) == 1 { device_std::fence::block(); });
             meet(&mut block, times / 2);
             out.set(&block, sum);
         }",
    );
    let Some(result) = compile(package.path()) else {
        return;
    };
    let ptx = result.unwrap().ptx;
    let called = ptx
        .lines()
        .filter(|line| line.trim().starts_with("call") && line.contains("meet"));
    assert!(called.count() >= 2, "{ptx}");
}

/// A GPU has no atomics on local memory: their effect there is not defined.
#[test]
fn an_atomic_of_one_thread_is_refused_and_a_cell_builds() {
    let kernel = |name: &str, variable: &str, add: &str| {
        package(
            name,
            &format!(
                "use core::cell::Cell;
                 use core::sync::atomic::{{AtomicU32, Ordering::Relaxed}};
                 #[inline(never)]
                 fn add(to: &{variable}, by: u32) {{ {add} }}
                 #[kernel]
                 fn sum(i: Index1, mut out: PerThread<u32>) {{
                     let total = {variable}::new(1);
                     add(&total, i.get() as u32);
                     add(&total, 3);
                     if let Some(out) = out.get_mut(i) {{ *out = total.into_inner(); }}
                 }}"
            ),
        )
    };
    let atomic = kernel("local-atomic", "AtomicU32", "to.fetch_add(by, Relaxed);");
    let Some(result) = compile(atomic.path()) else {
        return;
    };
    let error = result.map(|module| module.ptx).unwrap_err().to_string();
    assert!(error.contains("use a plain variable or a `Cell`"), "{error}");
    let cell = kernel("local-cell", "Cell::<u32>", "to.set(to.get() + by);");
    assert_eq!(compile(cell.path()).unwrap().unwrap().entries.len(), 1);
}

/// The verifier refuses jump tables, so LLVM writes none.
#[test]
fn a_match_with_many_arms_has_no_jump_table() {
    let arms: String = (0..40)
        .map(|arm| format!("{arm} => x.rotate_left({arm}) ^ x.wrapping_mul({arm} + 7),"))
        .collect();
    let kernel = format!(
        "#[kernel]
         fn choose(i: Index1, by: &[u32], mut out: PerThread<u32>) {{
             let chosen = by.get(i.get()).copied().unwrap_or(0);
             if let Some(out) = out.get_mut(i) {{ let x = *out; *out = match chosen {{ {arms} _ => 0 }}; }}
         }}"
    );
    let Some(result) = compile(package("many-arms", &kernel).path()) else {
        return;
    };
    let ptx = result.unwrap().ptx;
    assert!(!ptx.contains("brx") && ptx.matches("setp.").count() > 20, "{ptx}");
}

/// The stack of a recursive kernel has no known bound.
#[test]
fn recursion_is_refused() {
    let package = package(
        "recursive",
        "#[inline(never)]
         fn depth(n: u32, m: u32) -> u32 { if n < 2 { m } else { depth(n / 2, m) ^ depth(n - 1, m + 1) } }
         #[kernel]
         fn deep(i: Index1, mut out: PerThread<u32>) {
             if let Some(out) = out.get_mut(i) { *out = depth(*out, 1); }
         }",
    );
    let Some(result) = compile(package.path()) else {
        return;
    };
    let error = result.unwrap_err().to_string();
    assert!(
        error.contains("is recursive") && error.contains("may not recurse"),
        "{error}"
    );
}

/// LLVM writes the names of source files into the text, with escapes that PTX does not know. Here
/// the name would end the string, and declare a variable.
#[cfg(unix)]
#[test]
fn the_name_of_a_source_file_is_no_ptx() {
    let directory = "x\" .global .align 4 .b32 counter; ";
    let package = package(
        "file-name",
        &format!("#[path = {:?}] pub mod m;", format!("{directory}//m.rs")),
    );
    fs::create_dir(package.path().join("src").join(directory)).unwrap();
    let kernel = "use device_std::prelude::*;
         #[kernel]
         pub fn k(i: Index1, mut out: PerThread<u32>) { if let Some(out) = out.get_mut(i) { *out += 1; } }";
    fs::write(package.path().join("src").join(directory).join("m.rs"), kernel).unwrap();
    let Some(result) = compile_with(&Kernels::new(package.path()).debug_info(true)) else {
        return;
    };
    let ptx = result.unwrap().ptx;
    let named: Vec<&str> = ptx.lines().filter(|line| line.contains("counter")).collect();
    assert!(!named.is_empty(), "{ptx}");
    for line in named {
        let path = line.trim().strip_prefix(".file").unwrap_or("");
        assert!(
            path.ends_with("m.rs\"") && path.matches('"').count() == 2,
            "{line}"
        );
        assert!(!line.contains('\\'), "{line}");
    }
}

/// LLVM writes `exit` where it takes the place for unreachable, here behind a panic.
#[test]
fn a_place_that_llvm_takes_for_unreachable_traps() {
    let kernel = "#[kernel] pub fn k(i: Index1, input: &[u32]) -> u32 { input[i.get()] + 7 }";
    let Some(result) = compile(package("returns-or-traps", kernel).path()) else {
        return;
    };
    let ptx = result.unwrap().ptx;
    let exits: Vec<&str> = ptx.lines().filter(|line| line.contains("exit;")).collect();
    assert!(!exits.is_empty(), "{ptx}");
    assert!(exits.iter().all(|line| line.trim() == "trap; exit;"), "{ptx}");
}
