//! Arrays in local memory: refused, unless a kernel asks for them.

use kernel_build::{BuildError, Kernels};

use crate::{compile, compile_with, package};

/// A kernel that sums its elements after a rotation, by a loop that the blanks make.
fn rotated(each: &str, close: &str) -> String {
    format!(
        "#[kernel]
         pub fn rotated(i: Index1, input: &[u32], by: u32) -> u32 {{
             let values: [u32; 16] = input.chunk_or(i.get(), 0);
             let mut sum = 0;
             {each} {{
                 sum = sum * 31 + values[{}];
             }} {close}
             sum
         }}",
        if close.is_empty() {
            "(k + by as usize) % 16"
        } else {
            "k"
        }
    )
}

#[test]
fn an_array_with_indices_of_run_time_is_refused_unless_asked_for() {
    let source = rotated("for k in 0..16", "");
    let package = package("rotated", &source);
    let Some(result) = compile(package.path()) else {
        return;
    };
    match result {
        Err(BuildError::LocalMemory { kernels }) => {
            assert_eq!(kernels.len(), 1, "{kernels:?}");
            assert_eq!(kernels[0].0, "rotated");
            assert!(kernels[0].1 >= 64, "{kernels:?}");
        }
        other => panic!("{other:?}"),
    }
    let other = compile_with(&Kernels::new(package.path()).local_memory("other")).unwrap();
    match other {
        Err(BuildError::NoSuchKernel { name, kernels }) => {
            assert_eq!((&*name, &*kernels), ("other", &["rotated".to_owned()][..]));
        }
        other => panic!("{other:?}"),
    }
    let asked = compile_with(&Kernels::new(package.path()).local_memory("rotated")).unwrap();
    assert!(asked.unwrap().ptx.contains("__local_depot"));
}

#[test]
fn an_unrolled_loop_keeps_its_array_in_registers() {
    let package = package("unrolled", &rotated("device_std::unroll!(for k in 0..16", ");"));
    let Some(result) = compile(package.path()) else {
        return;
    };
    assert!(!result.unwrap().ptx.contains("__local_depot"));
}

/// Builds a kernel that asks for all local memory it wants, and returns the text of the refusal.
/// `None` without a nightly compiler.
fn too_large(name: &str, source: &str) -> Option<String> {
    let package = package(name, source);
    let error = compile_with(&Kernels::new(package.path()).local_memory("*"))?
        .map(|module| module.ptx)
        .expect_err("accepted");
    let refusal = matches!(&error, BuildError::TooLarge { .. });
    let refused = matches!(
        &error,
        BuildError::Refused(kernel_build::verify::Refusal::LocalMemoryTooLarge { .. })
    );
    assert!(refusal || refused, "{name}: {error}");
    let text = error.to_string();
    assert!(text.contains("524288"), "{text}");
    Some(text)
}

/// A type of which few bytes are ever written.
const ROW: &str = "use core::mem::MaybeUninit;
     struct Row<const ROOM: usize> { value: u64, _room: MaybeUninit<[u8; ROOM]> }
     const fn row<const ROOM: usize>() -> Row<ROOM> { Row { value: 0, _room: MaybeUninit::uninit() } }
     const M: usize = (1 << 32) - 8;";

/// LLVM counted the places of variables in 32 bits: both arrays began at one address, and a number
/// took the place of a slice's address, of an index or of an element.
#[test]
fn arrays_that_would_lie_at_one_address_are_refused() {
    let kernels = [
        // An array of the caller's lies behind one of 4 GiB and 16 bytes.
        (
            "large-array",
            "`large_array::scribble`",
            "#[inline(never)]
             fn scribble(at: usize, n: usize, from: &[u8]) -> u8 {
                 let mut array = [0u8; (1 << 32) + 16];
                 for k in 0..n {
                     if let Some(slot) = array.get_mut(at + k) { *slot = from[k % from.len()]; }
                 }
                 array[at]
             }
             #[kernel]
             fn k(i: Index1, input: &[u8], at: u64, n: u64, mut output: PerThread<u32>) {
                 let mut mine = [1u8; 24];
                 mine[i.get() % 24] = 2;
                 let read = scribble(at as usize, n as usize, input);
                 let sum: u32 = mine.iter().map(|b| *b as u32).sum();
                 if let Some(out) = output.get_mut(i) { *out = sum + mine[read as usize % 24] as u32; }
             }",
        ),
        (
            "large-rows",
            "`large_rows::mix`",
            "#[inline(never)]
             fn mix(input: &[u32], at: usize) -> u32 {
                 let mut mine = [0u32; 4];
                 let mut rows = [row::<M>(), row::<M>(), row::<M>(), row::<M>()];
                 for (k, value) in input.iter().enumerate() {
                     mine[k & 3] = *value;
                     rows[(k ^ at) & 3].value = !*value as u64;
                 }
                 mine[at & 3].wrapping_add(rows[(at >> 2) & 3].value as u32)
             }
             #[kernel]
             fn k(i: Index1, input: &[u32], mut output: PerThread<u32>) {
                 let mixed = mix(input, i.get());
                 if let Some(out) = output.get_mut(i) { *out = mixed; }
             }",
        ),
        (
            "large-beside-slices",
            "`large_beside_slices::peek`",
            "#[inline(never)]
             fn peek(one: &[u32], other: &[u32], at: usize, address: u64) -> u32 {
                 let mut slices = [one, other];
                 let mut rows = [row::<M>(), row::<M>()];
                 for k in 0..at {
                     slices.swap(k & 1, (k >> 1) & 1);
                     rows[k & 1].value = address;
                 }
                 let value = slices[at & 1].first().copied().unwrap_or(0);
                 value.wrapping_add(rows[at & 1].value as u32)
             }
             #[kernel]
             fn k(i: Index1, one: &[u32], other: &[u32], address: u64, mut output: PerThread<u32>) {
                 let value = peek(one, other, i.get(), address);
                 if let Some(out) = output.get_mut(i) { *out = value; }
             }",
        ),
        (
            "large-beside-indices",
            "`large_beside_indices::pick`",
            "#[inline(never)]
             fn pick<'k>(i: Index1<'k>, steps: usize, number: u64) -> (Index1<'k>, u64) {
                 let mut indices = [i, i];
                 let mut rows = [row::<M>(), row::<M>()];
                 for k in 0..steps {
                     indices.swap(k & 1, (k >> 1) & 1);
                     rows[k & 1].value = number;
                 }
                 (indices[steps & 1], rows[steps & 1].value)
             }
             #[kernel]
             fn k(i: Index1, steps: u64, number: u64, output: PerThread<u64>) {
                 let (index, value) = pick(i, steps as usize, number);
                 output.set(index, value ^ i.get() as u64);
             }",
        ),
    ];
    for (name, function, source) in kernels {
        let Some(text) = too_large(name, &format!("{ROW}\n{source}")) else {
            return;
        };
        assert!(text.contains(function), "{text}");
    }
}

/// 1024 · K wraps to 1024, the number of elements: each thread wrote far beyond shared memory.
#[test]
fn elements_whose_number_wraps_are_not_written() {
    let source = "const K: usize = (1 << 54) + 1;
         #[kernel(block = 1024)]
         fn k(mut block: Block, tile: BlockUninit<u8, 1024>, input: &[u8], mut out: PerBlock<u8>) {
             let x = input.first().copied().unwrap_or(0);
             let tile = tile.init_strided(&mut block, |_t| [x; K]);
             let v = block.broadcast(&tile, 5);
             out.set(&block, v);
         }";
    let package = package("elements-that-wrap", source);
    match compile_with(&Kernels::new(package.path()).local_memory("*")) {
        Some(Ok(module)) => assert!(!module.ptx.contains("st.shared"), "{}", module.ptx),
        Some(Err(error)) => panic!("{error}"),
        None => {}
    }
}

/// Each function keeps less than a thread may have, and all of them keep more.
#[test]
fn functions_that_call_each_other_share_the_limit() {
    let functions: String = (0..4)
        .map(|at| {
            let below = if at == 3 {
                "0u64".to_owned()
            } else {
                format!("f{}(input, at.wrapping_mul(5), n)", at + 1)
            };
            format!(
                "#[inline(never)]
                 fn f{at}(input: &[u32], at: usize, n: usize) -> u64 {{
                     let mut rows = [row::<ROOM>(), row::<ROOM>()];
                     for k in 0..n {{ rows[(k ^ at) & 1].value += (input[k & 7] ^ {at}) as u64; }}
                     let below = {below};
                     for k in 0..n {{ rows[(k ^ at) & 1].value ^= below.wrapping_add(k as u64); }}
                     rows[at & 1].value
                 }}\n"
            )
        })
        .collect();
    let source = format!(
        "{ROW}\nconst ROOM: usize = (80 << 10) - 8;\n{functions}
         #[kernel]
         fn deep(i: Index1, input: &[u32], n: u64, mut output: PerThread<u64>) {{
             let mixed = f0(input, i.get(), n as usize);
             if let Some(out) = output.get_mut(i) {{ *out = mixed; }}
         }}"
    );
    let Some(text) = too_large("deep-stack", &source) else {
        return;
    };
    assert!(
        text.contains("655") && text.contains("bytes for each thread"),
        "{text}"
    );
    assert!(text.contains("whatever `.local_memory(..)` asks for"), "{text}");
    // The same functions fit if their arrays are smaller.
    let package = package("shallow-stack", &source.replace("80 << 10", "60 << 10"));
    compile_with(&Kernels::new(package.path())).unwrap().unwrap();
}

/// LLVM declares all variables of a function as one. Its size is a sum of 64 bits, here 0.
#[test]
fn arrays_whose_sum_wraps_are_refused() {
    let arrays: String = (0..16)
        .map(|at| format!("let v{at} = [(number + {at}) as u8; 1 << 60]; sum ^= read(&v{at}, number);\n"))
        .collect();
    let source = format!(
        "#[inline(never)]
         fn read(room: &[u8; 1 << 60], at: u64) -> u64 {{ room[at as usize] as u64 }}
         #[kernel]
         fn k(i: Index1, number: u64, mut output: PerThread<u64>) {{
             let mut sum = 0;
             {arrays}
             if let Some(out) = output.get_mut(i) {{ *out = sum; }}
         }}"
    );
    too_large("sum-that-wraps", &source);
}

/// LLVM takes the addresses of two local variables for different, and drops a check of bounds by
/// this (rust-lang/rust#107975). So they must not lie at one place.
#[test]
fn local_variables_that_are_dead_keep_their_places() {
    let package = package("places", PLACES);
    let Some(result) = compile(package.path()) else {
        return;
    };
    let text = result.unwrap().ptx;
    assert!(text.contains("clz.b64"), "{text}");
    let differences = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("sub.s64"));
    let mut count = 0;
    for difference in differences {
        let operands: Vec<&str> = difference
            .trim_end_matches(';')
            .split(',')
            .map(str::trim)
            .collect();
        assert_ne!(operands[1], operands[2], "{text}");
        count += 1;
    }
    assert!(count > 0, "{text}");
}

/// A kernel that writes to an array at the number of zeros in front of the difference of two
/// addresses, which is below 64 if they differ.
const PLACES: &str = r"
    #[inline(always)]
    fn place(by: u64, factor: u64, sum: &mut u64) -> usize {
        let mut words = [factor; 8];
        for k in 0..by {
            words[(k & 7) as usize] = k.wrapping_mul(factor);
        }
        *sum ^= words[(by >> 6 & 7) as usize];
        &raw const words as usize
    }

    #[inline(always)]
    fn sixty_four(by: u64, sum: &mut u64) -> usize {
        let one = place(by, 3, sum);
        let other = place(by, 5, sum);
        one.wrapping_sub(other).leading_zeros() as usize
    }

    #[inline(never)]
    fn pick<'k>(i: Index1<'k>, by: u64, steps: usize, number: u64) -> (Index1<'k>, u64) {
        let mut sum = 0;
        let at = sixty_four(by, &mut sum);
        let mut indices = [i, i];
        let mut small = [0u64; 64];
        for k in 0..steps {
            small[k & 63] ^= number;
            indices.swap(k & 1, (k >> 1) & 1);
        }
        small[at] = number;
        (indices[steps & 1], small[steps & 63] ^ sum)
    }

    #[kernel]
    pub fn race(i: Index1, by: u64, steps: u64, number: u64, output: PerThread<u64>) {
        let (index, value) = pick(i, by, steps as usize, number);
        output.set(index, value ^ i.get() as u64);
    }
";
