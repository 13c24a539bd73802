//! What compiles, and what does not.

use super::{assert_entry_name, assert_one_look_back, output_layout, slice_layout};
use crate::{Atomic, LookBack};

#[test]
fn a_kernel_has_one_source_of_tiles() {
    let look_back = output_layout::<LookBack<'static, u64>>();
    let others = [output_layout::<Atomic<'static, u64>>(), slice_layout::<u64>()];
    assert_one_look_back(&others);
    assert_one_look_back(&[others[0], look_back, others[1]]);
    let two = [look_back, others[0], look_back];
    assert!(std::panic::catch_unwind(|| assert_one_look_back(&two)).is_err());
}

#[test]
fn only_names_with_a_hash_are_names_of_entries() {
    let is_name = |name: &str| std::panic::catch_unwind(|| assert_entry_name(name)).is_ok();
    for name in [
        "k__0123456789abcdef",
        "_k__0123456789abcdef",
        "__k__0123456789abcdef",
        "Scale_2__x__ffffffffffffffff",
    ] {
        assert!(is_name(name), "{name}");
    }
    for name in [
        "",
        "memcpy",
        "__0123456789abcdef",
        "2k__0123456789abcdef",
        "_RNvCs0_1kf__0123456789abcdef",
        "k_0123456789abcdef",
        "k__0123456789abcde",
        "k__0123456789abcdeF",
        "k__0123456789abcdef ",
        "k(__0123456789abcdef",
        "k\n__0123456789abcdef",
        "k\0__0123456789abcdef",
        "größe__0123456789abcdef",
        "__cuda_rt_layout_k__0123456789abcdef",
        "__cuda_rt_parameters_k__0123456789abcdef",
    ] {
        assert!(!is_name(name), "{name}");
    }
}
