//! Hints of LLVM that the proof does without.
//!
//! From sm_100 on, LLVM may load more bytes than the program reads, to load them at once, and says
//! before the load which bytes the program reads: `.pragma "used_bytes_mask 0x0fff";`. The load
//! leaves the other bytes undefined then (PTX ISA, chapter 12, "used_bytes_mask"). Without the hint
//! it loads them all.

/// The text without hints about the bytes of loads.
pub(super) fn without(ptx: &str) -> String {
    let is_hint = |line: &str| {
        let mask = line
            .trim()
            .strip_prefix(".pragma \"used_bytes_mask 0x")
            .and_then(|rest| rest.strip_suffix("\";"));
        mask.is_some_and(|mask| !mask.is_empty() && mask.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    ptx.split_inclusive('\n').filter(|line| !is_hint(line)).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn hints_about_the_bytes_of_loads_go_and_other_text_stays() {
        let load = "\tld.global.v4.b32 \t{%r1, %r2, %r3, %r4}, [%rd1];\n";
        let hint = "\t.pragma \"used_bytes_mask 0xfff\";\n";
        assert_eq!(super::without(&format!("{hint}{load}")), load);
        for other in [
            "\t.pragma \"nounroll\";\n",
            "\t.pragma \"used_bytes_mask 0x\";\n",
            "\t.pragma \"used_bytes_mask 0xf\"; mov.b32 %r1, %r2;\n",
            "L: .pragma \"used_bytes_mask 0xf\";\n",
        ] {
            assert_eq!(super::without(other), other);
        }
    }
}
