//! Shared memory of entries: a warning where a kernel declares more than GPUs of its architecture
//! have.

use crate::verify::{Refusal, entry_blocks};

/// Most shared memory of a block, in KiB, by compute capability (CUDA C++ Programming Guide,
/// "Technical Specifications per Compute Capability").
const MOST_KIB: [((u32, u32), u64); 12] = [
    ((7, 0), 96),
    ((7, 2), 96),
    ((7, 5), 64),
    ((8, 0), 163),
    ((8, 6), 99),
    ((8, 7), 163),
    ((8, 9), 99),
    ((9, 0), 227),
    ((10, 0), 227),
    ((10, 3), 227),
    ((12, 0), 99),
    ((12, 1), 99),
];

/// A line for each entry with more shared memory than a block has on the GPUs that `architecture`
/// is named after. The kernel builds: newer GPUs, which the PTX also runs on, may have more. A
/// device that has less refuses the kernel when it is first used.
pub(crate) fn warnings(ptx: &str, architecture: &str) -> Result<Vec<String>, Refusal> {
    let Some((major, minor)) = compute_capability(architecture) else {
        return Ok(Vec::new());
    };
    let known = MOST_KIB.iter().find(|(known, _)| *known == (major, minor));
    let Some(most) = known.map(|(_, kib)| kib << 10) else {
        return Ok(Vec::new());
    };
    let mut lines = Vec::new();
    for block in entry_blocks(ptx)? {
        if block.shared_bytes <= most {
            continue;
        }
        let (entry, bytes) = (&block.entry, block.shared_bytes);
        let kernel = entry.rsplit_once("__").map_or(&**entry, |(name, _)| name);
        let advice = newer((major, minor), bytes).map_or(String::new(), |(major, minor)| {
            format!(", or build for newer GPUs only: `.architecture(\"sm_{major}{minor}\")`")
        });
        lines.push(format!(
            "kernel `{kernel}` declares {bytes} bytes of shared memory for a block, and a GPU of compute capability \
             {major}.{minor} has {most} at most, so it does not load there, though the PTX is for `{architecture}`: give \
             its `BlockUninit`s fewer elements{advice}"
        ));
    }
    Ok(lines)
}

/// The next compute capability with so much.
fn newer(than: (u32, u32), bytes: u64) -> Option<(u32, u32)> {
    let mut newer = MOST_KIB.iter().filter(|(capability, _)| *capability > than);
    let enough = newer.find(|(_, kib)| bytes <= kib << 10);
    enough.map(|(capability, _)| *capability)
}

/// 9 and 0, of `sm_90a`.
fn compute_capability(architecture: &str) -> Option<(u32, u32)> {
    let digits = architecture.strip_prefix("sm_")?.trim_end_matches(['a', 'f']);
    let number: u32 = digits.parse().ok()?;
    Some((number / 10, number % 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A module with one entry, whose `BlockUninit`s have these bytes.
    fn module(sizes: &[u64]) -> String {
        let rows: String = sizes.iter().map(|size| format!(", 0, {size}, 16, 4")).collect();
        let words = 4 * (sizes.len() + 1);
        format!(
            ".version 7.0\n.target sm_80\n.address_size 64\n\
             .visible .global .align 8 .u64 __cuda_rt_layout_tile__0123456789abcdef[{words}] = {{1, 1, 256, 1{rows}}};\n\
             .visible .entry tile__0123456789abcdef() {{\nret;\n}}\n"
        )
    }

    #[test]
    fn more_than_the_architecture_has_is_said_with_the_sum_and_the_limit() {
        let ptx = module(&[100 << 10, 64 << 10]);
        let [line] = &warnings(&ptx, "sm_80").unwrap()[..] else {
            panic!("no warning");
        };
        for part in [
            "`tile`",
            "167936 bytes",
            "166912 at most",
            "8.0",
            "`sm_80`",
            "\"sm_90\"",
        ] {
            assert!(line.contains(part), "{part}: {line}");
        }
        assert_eq!(warnings(&ptx, "sm_90a").unwrap(), [""; 0]);
        let newest = &warnings(&ptx, "sm_120").unwrap()[0];
        assert!(
            !newest.contains(".architecture("),
            "no newer GPU has more: {newest}"
        );
    }

    #[test]
    fn as_much_as_the_architecture_has_is_no_warning() {
        assert_eq!(warnings(&module(&[163 << 10]), "sm_80").unwrap(), [""; 0]);
        assert_eq!(warnings(&module(&[]), "sm_75").unwrap(), [""; 0]);
        let one_too_many = module(&[163 << 10, 16]);
        assert_eq!(warnings(&one_too_many, "sm_80").unwrap().len(), 1);
    }

    #[test]
    fn an_unknown_architecture_has_no_warning() {
        for name in ["sm_200", "compute", "sm_"] {
            assert_eq!(warnings(&module(&[1 << 20]), name).unwrap(), [""; 0]);
        }
    }
}
