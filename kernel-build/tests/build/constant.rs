//! Arrays that are passed by value. Kernel parameters lie in constant memory.

use kernel_build::{BuildError, Kernels};

use crate::{compile, compile_with, package};

/// An array whose indices are known when the kernel is built is read in constant memory, where it
/// is. The compiler copies an array to each thread's local memory if an index is known only at run
/// time: `rustc` passes an array to a kernel as a value, not by its address. The second half says
/// so as soon as that changes.
#[test]
fn an_array_with_constant_indices_is_read_where_it_is() {
    let convolution = package(
        "constant-indices",
        "#[kernel]
         fn convolve(i: Index1, x: &[f32], weights: [f32; 9]) -> f32 {
             let mut sum = 0.0_f32;
             for at in 0..9 { sum += weights[at] * x[(i.get() + at) % x.len()]; }
             sum
         }",
    );
    let Some(module) = compile(convolution.path()) else {
        return;
    };
    let ptx = module.unwrap().ptx;
    assert!(ptx.contains("_param_2[36]"), "{ptx}");
    assert!(ptx.contains("_param_2+32]"), "the last weight:\n{ptx}");
    assert!(!ptx.contains(".local"), "a copy in local memory:\n{ptx}");

    let look_up = package(
        "indices-of-run-time",
        "#[kernel]
         fn look_up(i: Index1, at: &[u32], table: [f32; 64]) -> f32 {
             table[(at[i.get()] % 64) as usize]
         }",
    );
    let refused = compile(look_up.path()).unwrap().unwrap_err();
    assert!(matches!(refused, BuildError::LocalMemory { .. }), "{refused}");
    let asked = Kernels::new(look_up.path()).local_memory("look_up");
    let ptx = compile_with(&asked).unwrap().unwrap().ptx;
    assert!(ptx.contains("st.local"), "{ptx}");
}

/// Each parameter of the entry has the size and alignment in the table, or the build fails.
#[test]
fn arrays_of_every_kind_are_parameters() {
    let kinds = [
        "[u8; 1]",
        "[u8; 3]",
        "[u8; 8]",
        "[u8; 17]",
        "[u16; 2]",
        "[i16; 5]",
        "[f32; 1]",
        "[f32; 2]",
        "[f32; 4]",
        "[u64; 1]",
        "[u64; 2]",
        "[f64; 3]",
        "[[f32; 2]; 2]",
        "[[u8; 3]; 5]",
        "[usize; 4]",
        "[u8; 4000]",
    ];
    let kernels: String = (0..)
        .zip(kinds)
        .map(|(at, kind)| {
            format!(
                "#[kernel] fn takes_{at}(i: Index1, mut out: PerThread<u32>, before: u8, values: {kind}, after: u32) {{
                     if let Some(out) = out.get_mut(i) {{
                         let bytes = device_std::bytemuck::bytes_of(&values);
                         *out = u32::from(bytes[bytes.len() - 1]) + u32::from(before) + after;
                     }}
                 }}\n"
            )
        })
        .collect();
    let package = package("arrays", &kernels);
    let Some(module) = compile(package.path()) else {
        return;
    };
    assert_eq!(module.unwrap().entries.len(), kinds.len());
}
