//! Kernels with arguments whose type names mean other types.

use kernel_build::BuildError;

use crate::{compile, package};

/// `#[kernel]` finds the role of a parameter by the name of its type. Here each name means a type
/// that lives longer than the launch, so the kernel could keep the memory.
#[test]
fn an_argument_that_outlives_its_launch_is_refused() {
    let kernels = [
        (
            "type PerThread<'k, T> = device_std::PerThread<'static, T>;",
            "fn output(i: Index1, mut kept: PerThread<u32>) { if let Some(out) = kept.get_mut(i) { *out = 1; } }",
            "",
        ),
        (
            "type Atomic<'k, T> = device_std::Atomic<'static, T>;",
            "fn atomic(i: Index1, kept: Atomic<u32>) { kept.fetch_add(&i, 0, 1); }",
            "",
        ),
        (
            "type BlockUninit<'k, T, const N: usize> = device_std::BlockUninit<'static, T, N>;",
            "fn shared(mut block: Block, kept: BlockUninit<u32, 64>, mut out: PerBlock<u32>) {
                 let kept = kept.init(&mut block, |_, at| at as u32);
                 let first = block.broadcast(&kept, 0);
                 out.set(&block, first);
             }",
            "(block = 64)",
        ),
    ];
    let modules = |with_aliases: bool| -> String {
        let module = |(at, (alias, kernel, block)): (usize, &(&str, &str, &str))| {
            let alias = if with_aliases { *alias } else { "" };
            format!("mod m{at} {{ use device_std::prelude::*; {alias} #[kernel{block}] pub {kernel} }}\n")
        };
        kernels.iter().enumerate().map(module).collect()
    };
    let honest = package("honest-names", &modules(false));
    let Some(honest) = compile(honest.path()) else {
        return;
    };
    assert_eq!(honest.unwrap().entries.len(), kernels.len());

    let aliased = package("aliased-names", &modules(true));
    let error = compile(aliased.path()).unwrap().unwrap_err();
    let BuildError::Compile { diagnostics } = &error else {
        panic!("{error}");
    };
    let refused = diagnostics.matches("requires that `'k` must outlive `'static`");
    assert_eq!(refused.count(), kernels.len(), "{diagnostics}");
}
