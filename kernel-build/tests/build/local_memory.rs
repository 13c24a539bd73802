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
