// Another library, whose macros the hostile crates call. It has no `unsafe`, and neither has the
// crate that calls its macro.
#![forbid(unsafe_code)]

#[macro_export]
macro_rules! read {
    ($address:expr) => {
        *::std::ptr::with_exposed_provenance::<u64>($address)
    };
}
