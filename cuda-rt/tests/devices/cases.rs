//! The number of cases that a test runs.

/// `all`, or fewer if `CUDA_RT_CASES` says so: under a sanitizer each case takes long.
pub(crate) fn at_most(all: u64) -> u64 {
    let asked = std::env::var("CUDA_RT_CASES").ok();
    let asked = asked.filter(|value| !value.is_empty() && value != "0");
    asked.map_or(all, |value| {
        all.min(value.parse().expect("CUDA_RT_CASES is a number of cases"))
    })
}
