//! The reader of layout tables, on the PTX that is shipped.

use device_std::{Element, Scalar, ptx};

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

/// Values that rustc computed for the GPU, against those it computes for the host.
#[test]
fn the_device_laid_types_out_as_the_host_does() {
    let text = committed();
    let (byte, word, float) = (
        <u8 as Element>::LAYOUT,
        <u32 as Scalar>::LAYOUT,
        <f32 as Element>::LAYOUT,
    );
    assert_eq!(table(&text, "scale"), [float, float, float]);
    assert_eq!(table(&text, "histogram"), [byte, word]);
    assert_eq!(
        table(&text, "bilateral"),
        [byte, byte, word, word, word, float, float]
    );
    assert_eq!(table(&text, "transpose"), [float, float, word, word]);
}

#[test]
fn every_entry_has_a_table() {
    let text = committed();
    let entries = ptx::entries(&text);
    assert_eq!(entries.len(), 8);
    for entry in entries {
        assert!(
            ptx::layout_table(&text, entry).is_some_and(|table| !table.is_empty()),
            "{entry}"
        );
    }
}

#[test]
fn a_symbol_that_is_not_there_has_no_table() {
    let text = committed();
    assert_eq!(ptx::layout_table(&text, "scale"), None);
    assert_eq!(ptx::layout_table(&text, "scale__0000000000000000"), None);
}

/// A phase that can reach shared memory ends in a barrier. In simulation threads take turns, and a missing one would not show.
#[test]
fn phases_end_in_barriers_and_share_real_shared_memory() {
    let text = committed();
    let body = |kernel: &str| {
        let start = text
            .find(&format!(".visible .entry {kernel}__"))
            .expect("an entry");
        text[start..].split("\n}\n").next().unwrap().to_owned()
    };
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

/// Inputs are read through the read-only cache, which needs the compiler to know that nothing else writes them.
#[test]
fn inputs_are_read_as_constant() {
    let text = committed();
    for kernel in text.split(".visible .entry ").skip(1) {
        assert!(
            kernel.contains("ld.global.nc"),
            "{}",
            kernel.lines().next().unwrap()
        );
    }
}
