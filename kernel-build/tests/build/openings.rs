//! Kernels in which a value of block-level code differs by thread: LLVM computes a NaN for one
//! thread, and the hardware computes it for the others.
//!
//! The kernels are safe code. On an H200, a phase of similar kernels read shared memory that the
//! same phase wrote. A compiler that computes the NaN in one way only is correct too; with such a
//! compiler, the tests need another kernel.

use kernel_build::BuildError;

use crate::{compile, package};

fn assert_refused(name: &str, source: &str) {
    let package = package(name, source);
    let Some(result) = compile(package.path()) else {
        return;
    };
    let error = result.unwrap_err();
    assert!(matches!(error, BuildError::Refused(_)), "{error}");
    // The chain of reasons ends at the thread's own number.
    assert!(error.to_string().contains("%tid.x"), "{error}");
}

#[test]
fn shared_memory_split_by_the_bits_of_a_nan_is_refused() {
    assert_refused(
        "split-by-nan",
        r#"
#[kernel(block = 64)]
pub fn by_map(mut block: Block, tile: BlockUninit<u32, 64>, x: u32, b: f32, k: u32, input: &[u32], mut out: PerThread<u32>) {
    let a = f32::from_bits(x);
    let mut tile = tile.init(&mut block, |_, _| 0);
    let p = block.map(|l| {
        if l.index() == k as usize {
            if x == 0x7f80_0000 && b == f32::INFINITY { input[0] } else { input[1].wrapping_mul((a - b).to_bits()) }
        } else {
            input[2].wrapping_mul((a - b).to_bits())
        }
    });
    let mid = if (a - b).to_bits() & 0x3f_ffff == 0 { 0 } else { 64 };
    let (low, high) = tile.split_at_mut(mid);
    block.threads(|t| {
        low.set(t, 7);
        let sum: u32 = high.slice(t).iter().sum();
        if let Some(i) = t.index_in_launch() {
            out.set(i, sum + p.get(t));
        }
    });
}
"#,
    );
}

#[test]
fn an_array_chosen_by_the_sign_of_a_nan_is_refused() {
    assert_refused(
        "chosen-by-nan",
        r#"
#[kernel(block = 64)]
pub fn swapped(mut block: Block, one: BlockUninit<u32, 64>, two: BlockUninit<u32, 64>, f: f32, b: f32, mut out: PerThread<u32>) {
    let mut one = one.init(&mut block, |t, _| t.index() as u32);
    let mut two = two.init(&mut block, |t, _| t.index() as u32);
    {
        let (one, two) = (one.each_mut(), two.each_mut());
        block.threads(|t| {
            if t.index() == 3 {
                if f == -1.0 {
                    one.set(t, 1);
                } else {
                    two.set(t, (b * f).to_bits());
                }
            } else {
                two.set(t, (b * f).to_bits() + 1);
            }
        });
    }
    let (w, r) = if (b * f).is_sign_negative() { (one.each_mut(), two.view()) } else { (two.each_mut(), one.view()) };
    block.threads(|t| {
        w.set(t, 7);
        if let Some(i) = t.index_in_launch() {
            out.set(i, r.slice(t)[5] + r.slice(t)[63]);
        }
    });
}
"#,
    );
}
