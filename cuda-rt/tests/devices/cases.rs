//! How many cases a test runs.

/// `all` of them, or as many of them as `CUDA_RT_CASES` says: under a sanitizer each takes long.
pub(crate) fn at_most(all: u64) -> u64 {
    let asked = std::env::var("CUDA_RT_CASES").ok();
    let asked = asked.filter(|value| !value.is_empty() && value != "0");
    asked.map_or(all, |value| {
        all.min(value.parse().expect("CUDA_RT_CASES is a number of cases"))
    })
}
