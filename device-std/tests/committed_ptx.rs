//! Reads the layout tables and the instructions of the committed PTX.

use device_std::rt::{self, Row};
use device_std::{
    Atomic, BlockUninit, Element, PerBlock, PerThread, PerThreadChunk, PerThreadColumn, PerThreadTile,
    Scalar, ptx,
};

fn committed() -> String {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../device-kernels/ptx/device_kernels.ptx"
    );
    std::fs::read_to_string(path).unwrap()
}

fn table(text: &str, kernel: &str) -> Vec<u64> {
    let prefix = format!("{kernel}__");
    let entries = ptx::entries(text);
    let symbol = entries
        .iter()
        .find(|entry| entry.starts_with(&prefix))
        .expect("an entry");
    ptx::layout_table(text, symbol).expect("a table")
}

/// The tables of all instances of a kernel.
fn tables(text: &str, kernel: &str) -> Vec<Vec<u64>> {
    let prefix = format!("{kernel}__");
    let entries = ptx::entries(text).into_iter();
    let entries = entries.filter(|entry| entry.starts_with(&prefix));
    entries
        .map(|symbol| ptx::layout_table(text, symbol).expect("a table"))
        .collect()
}

/// Compares without the order.
fn assert_same(mut left: Vec<Vec<u64>>, mut right: Vec<Vec<u64>>) {
    left.sort();
    right.sort();
    assert_eq!(left, right);
}

fn in_a_line() -> Row {
    rt::launch_layout(1, None)
}

fn read<T: Element>() -> Row {
    rt::slice_layout::<T>()
}

fn written<T: Element>() -> Row {
    rt::output_layout::<PerThread<'static, T>>()
}

fn shared<T: Element, const N: usize>() -> Row {
    rt::shared_layout::<BlockUninit<'static, T, N>>()
}

/// The table in the PTX, which rustc computed for the GPU, equals the rows that rustc computes for
/// the host.
#[test]
fn layout_rows_of_device_and_host_are_equal() {
    let text = committed();
    let (word, float) = (rt::scalar_layout::<u32>(), rt::scalar_layout::<f32>());
    let scale = [in_a_line(), read::<f32>(), written::<f32>(), float];
    assert_eq!(table(&text, "scale"), scale.as_flattened());
    let counts = rt::output_layout::<Atomic<'static, u32>>();
    let blocks = rt::launch_layout(1, Some([256, 1]));
    let histogram = |input| {
        [blocks, shared::<u32, 2048>(), input, counts]
            .as_flattened()
            .to_vec()
    };
    let expected = [histogram(read::<u8>()), histogram(read::<u32>())];
    assert_same(tables(&text, "histogram"), expected.to_vec());
    let rows = rt::launch_layout(2, Some([32, 8]));
    fn wide<T: Element>(rows: Row, word: Row) -> Vec<u64> {
        let output = rt::output_layout::<PerThreadTile<'static, T, 1, 4>>();
        let table = [rows, shared::<T, 1024>(), read::<T>(), output, word, word];
        table.as_flattened().to_vec()
    }
    let expected = [
        wide::<[f32; 4]>(rows, word),
        wide::<[u32; 4]>(rows, word),
        wide::<[f64; 2]>(rows, word),
    ];
    assert_same(tables(&text, "transpose_wide"), expected.to_vec());
}

/// The host decides how much shared memory a launch has. A block whose PTX was built for more would
/// access memory beyond it.
#[test]
fn shared_memory_of_another_size_has_another_layout() {
    let text = committed();
    let (built, changed) = (shared::<f32, 8>(), shared::<f32, 16>());
    assert_eq!(table(&text, "block_sum")[4..8], built);
    assert_ne!(built, changed);
}

/// Two elements with equal hashes. A user can choose names of fields that lead to them.
#[test]
fn rows_tell_types_and_uses_of_one_hash_apart() {
    #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
    #[repr(transparent)]
    struct Forged<T>(T);
    // SAFETY: no kernel is launched. The impl stands for a derived one whose names lead to this
    // hash.
    unsafe impl<T: bytemuck::Pod> Element for Forged<T> {
        const LAYOUT: u64 = 7;
    }
    // SAFETY: no kernel is launched.
    unsafe impl<T: bytemuck::Pod> Scalar for Forged<T> {
        const LAYOUT: u64 = <bool as Scalar>::LAYOUT;
    }
    let (small, large) = (read::<Forged<[u32; 1]>>(), read::<Forged<[u32; 64]>>());
    assert_eq!(small[0], large[0]);
    let bytes = read::<Forged<[u8; 4]>>();
    let rows = [
        small,
        large,
        bytes,
        written::<Forged<u32>>(),
        rt::output_layout::<Atomic<'static, u32>>(),
        rt::output_layout::<PerBlock<'static, Forged<u32>>>(),
        rt::output_layout::<PerThreadColumn<'static, Forged<u32>, 2>>(),
        rt::output_layout::<PerThreadColumn<'static, Forged<u32>, 3>>(),
        rt::output_layout::<PerThreadChunk<'static, Forged<u32>, 2>>(),
        rt::output_layout::<PerThreadTile<'static, Forged<u32>, 2, 3>>(),
        rt::output_layout::<PerThreadTile<'static, Forged<u32>, 3, 2>>(),
        rt::scalar_layout::<Forged<u32>>(),
        rt::scalar_layout::<Forged<u8>>(),
        // A `bool` takes only 0 and 1, so its row must differ from a `u8`'s.
        rt::scalar_layout::<bool>(),
    ];
    let numbers: Vec<&[u64]> = rows.iter().map(|row| &row[1..]).collect();
    for (at, row) in numbers.iter().enumerate() {
        assert!(!numbers[at + 1..].contains(row), "{numbers:?}");
    }
}

#[test]
fn every_entry_has_a_table() {
    let text = committed();
    let entries = ptx::entries(&text);
    assert_eq!(entries.len(), 71);
    for entry in entries {
        assert!(
            ptx::layout_table(&text, entry).is_some_and(|table| !table.is_empty()),
            "{entry}"
        );
    }
}

#[test]
fn an_unknown_symbol_has_no_table() {
    let text = committed();
    assert_eq!(ptx::layout_table(&text, "scale"), None);
    assert_eq!(ptx::layout_table(&text, "scale__0000000000000000"), None);
}

/// The body of an entry, without comments: `kernel-build` names there what it rewrote.
fn body(text: &str, kernel: &str) -> String {
    let start = text
        .find(&format!(".visible .entry {kernel}__"))
        .expect("an entry");
    let body = text[start..].split("\n}\n").next().unwrap();
    let instructions = body.lines().map(|line| line.split("//").next().unwrap());
    instructions.collect::<Vec<_>>().join("\n")
}

/// A phase that can reach shared memory ends in a barrier. In simulation, threads run one after the
/// other, so a missing barrier would not show.
#[test]
fn phases_end_in_barriers_and_share_real_shared_memory() {
    let text = committed();
    let body = |kernel: &str| body(&text, kernel);
    for (kernel, barriers) in [("block_sum", 2), ("histogram", 3), ("transpose", 2), ("scale", 0)] {
        assert_eq!(body(kernel).matches("bar.sync").count(), barriers, "{kernel}");
    }
    for kernel in ["block_sum", "transpose"] {
        let body = body(kernel);
        assert!(
            body.contains("ld.shared") && body.contains("st.shared"),
            "{kernel}"
        );
    }
    assert!(body("histogram").contains("atom.shared") || body("histogram").contains("red.shared"));
}

/// Kernels read their inputs through the read-only cache. The compiler uses it only if it knows
/// that nobody writes the inputs.
///
/// In kernels that hold a row in registers, an address of a chunk may be one or the other half of a
/// choice, and the compiler no longer knows of which input it is. They reach the speed of a copy.
#[test]
fn kernels_read_inputs_through_the_read_only_cache() {
    let text = committed();
    let holds_rows = |kernel: &&str| {
        ["softmax_held__", "layer_norm_held__"]
            .iter()
            .any(|name| kernel.starts_with(name))
    };
    for kernel in text
        .split(".visible .entry ")
        .skip(1)
        .filter(|kernel| !holds_rows(kernel))
    {
        assert!(
            kernel.contains("ld.global.nc"),
            "{}",
            kernel.lines().next().unwrap()
        );
    }
}

/// A thread moves four elements in one instruction of 16 bytes. Scalar instructions with `.global`
/// belong to the last chunk, of at most three elements. Instructions for unaligned memory use
/// generic addresses.
#[test]
fn a_thread_moves_four_elements_at_once() {
    let text = committed();
    for (kernel, inputs, reads_back) in [
        ("scale4", 1, 0),
        ("add4", 2, 0),
        ("saxpy4", 1, 1),
        ("process4", 1, 0),
    ] {
        let body = body(&text, kernel);
        let count = |instruction: &str| body.matches(instruction).count();
        assert_eq!(count("ld.global.nc.v4.b32"), inputs, "{kernel}");
        assert_eq!(count("ld.global.nc.b32"), 3 * inputs, "{kernel}");
        assert_eq!(count("ld.global.v4.b32"), reads_back, "{kernel}");
        assert_eq!(count("st.global.v4.b32"), 1, "{kernel}");
        assert!(count("st.global.b32") <= 4, "{kernel}");
    }
}

fn library() -> String {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/kernels/ptx/library_kernels.ptx"
    );
    std::fs::read_to_string(path).unwrap()
}

/// Each function compiles to the instructions that the documentation names: for each kernel, an
/// instruction and its number of occurrences.
#[test]
fn functions_compile_to_the_documented_instructions() {
    let text = library();
    for (kernel, instruction, count) in [
        ("shuffle_down_u32", "shfl.sync.down.b32", 1),
        ("shuffle_down_u64", "shfl.sync.down.b32", 2),
        ("shuffle_up_i32", "shfl.sync.up.b32", 1),
        ("shuffle_xor_f32", "shfl.sync.bfly.b32", 1),
        ("shuffle_from_u32", "shfl.sync.idx.b32", 1),
        ("shuffle_by_itself", "shfl.sync.idx.b32", 1),
        ("ballot_odd", "vote.sync.ballot.b32", 1),
        ("warp_any_large", "vote.sync.any.pred", 1),
        ("warp_all_large", "vote.sync.all.pred", 1),
        ("match_u32", "match.any.sync.b32", 1),
        ("match_i64", "match.any.sync.b64", 1),
        ("warp_sum_u32", "redux.sync.add", 1),
        ("warp_min_u32", "redux.sync.min.u32", 1),
        ("warp_min_i32", "redux.sync.min.s32", 1),
        ("warp_max_u32", "redux.sync.max.u32", 1),
        ("warp_max_i32", "redux.sync.max.s32", 1),
        ("warp_and_u32", "redux.sync.and.b32", 1),
        ("warp_or_u32", "redux.sync.or.b32", 1),
        ("warp_xor_u32", "redux.sync.xor.b32", 1),
        ("warp_sum_f32", "shfl.sync.bfly.b32", 5),
        ("warp_sum_f64", "shfl.sync.bfly.b32", 10),
        ("warp_inclusive_sum_u32", "shfl.sync.up.b32", 5),
        ("warp_exclusive_sum_u64", "shfl.sync.up.b32", 12),
        ("block_sum_u32", "bar.sync", 4),
        ("inclusive_sum_u32", "bar.sync", 3),
        ("votes", "bar.red.or.pred", 1),
        ("votes", "bar.red.and.pred", 1),
        ("votes", "bar.red.popc.u32", 1),
        ("atomic_u32", "atom.global.add.u32", 1),
        ("atomic_u32", "atom.relaxed.gpu.global.cas.b32", 2),
        ("atomic_u32", "fence.acq_rel.gpu", 1),
        ("shared_atomic_u32", "atom.shared.add.u32", 1),
        ("atomic_f32", "atom.relaxed.gpu.global.add.f32", 1),
        ("shared_atomic_f64", "atom.relaxed.cta.shared.add.f64", 1),
        ("fast_exp2", "ex2.approx.ftz.f32", 1),
        ("fast_log2", "lg2.approx.ftz.f32", 1),
        ("fast_sin", "sin.approx.ftz.f32", 1),
        ("fast_cos", "cos.approx.ftz.f32", 1),
        ("fast_tanh", "tanh.approx.f32", 1),
        ("fast_sqrt", "sqrt.approx.ftz.f32", 1),
        ("fast_rsqrt", "rsqrt.approx.ftz.f32", 1),
        ("fast_rcp", "rcp.approx.ftz.f32", 1),
        ("fast_div", "div.approx.ftz.f32", 1),
        ("sqrt_f32", "sqrt.rn.f32", 1),
        ("mul_add_f32", "fma.rn.f32", 1),
        ("widen_f16", "cvt.f32.f16", 1),
        ("narrow_f16", "cvt.rn.f16.f32", 1),
        ("narrow_bf16", "cvt.rn.bf16.f32", 1),
        ("mul_add_f16", "fma.rn.f16", 1),
        ("add_f16x2", "add.rn.f16x2", 1),
        ("mul_add_bf16x2", "fma.rn.bf16x2", 1),
        ("chunks_u8x16", "ld.global.nc.v4.b32", 1),
        ("chunks_u8x16", "st.global.v4.b32", 1),
        ("print", "vprintf", 3),
    ] {
        let found = body(&text, kernel).matches(instruction).count();
        assert_eq!(found, count, "{kernel}: {instruction}");
    }
    // Instructions that round to nearest and are not fused give equal results on every device.
    for (kernel, unwanted) in [
        ("accurate_exp", "fma.rn.f32"),
        ("random_normal", "approx"),
        ("random_bits", ".local"),
    ] {
        assert!(!body(&text, kernel).contains(unwanted), "{kernel}: {unwanted}");
    }
}
