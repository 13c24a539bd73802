//! Shared memory that GPUs of the architecture do not have: built, with a warning.

use crate::{compile, package};

#[test]
fn a_kernel_with_more_shared_memory_than_its_architecture_has_is_built_with_a_warning() {
    let kernel = |name: &str, elements: usize| {
        format!(
            "#[kernel(block = 32)]
             fn {name}(mut block: Block, tile: BlockUninit<f32, {elements}>, mut out: PerBlock<f32>) {{
                 let tile = tile.init(&mut block, |_, at| at as f32);
                 let first = block.broadcast(&tile, 0);
                 out.set(&block, first);
             }}"
        )
    };
    let (most, more) = (163 * 256, 163 * 256 + 1);
    let package = package(
        "shared-memory",
        &(kernel("fits", most) + &kernel("is_too_large", more)),
    );
    let Some(module) = compile(package.path()) else {
        return;
    };
    let module = module.unwrap();
    assert_eq!(module.entries.len(), 2);
    let [line] = &module.warnings[..] else {
        panic!("{:?}", module.warnings);
    };
    assert!(
        line.starts_with("kernel `is_too_large` declares 166928 bytes"),
        "{line}"
    );
}
