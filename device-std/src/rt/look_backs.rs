//! Kernels have one source of tiles.

use super::{LOOK_BACK, Row, USE, WRITES};

/// The rows of a layout table, which compile only with one [`LookBack`](crate::LookBack) at most.
/// With two, two blocks could have tiles of one number, and write one tile of a `PerTile`
/// (LOOK-BACK-2).
///
/// ```
/// # use device_std::LookBack;
/// # use device_std::rt::{Row, one_look_back, output_layout};
/// const ROW: Row = output_layout::<LookBack<'static, u64>>();
/// const ROWS: [Row; 2] = one_look_back([ROW, [0; 4]]);
/// # let _ = ROWS;
/// ```
/// ```compile_fail,E0080
/// # use device_std::LookBack;
/// # use device_std::rt::{Row, one_look_back, output_layout};
/// const ROW: Row = output_layout::<LookBack<'static, u64>>();
/// const ROWS: [Row; 2] = one_look_back([ROW, ROW]);
/// ```
pub const fn one_look_back<const N: usize>(rows: [Row; N]) -> [Row; N] {
    assert_one_look_back(&rows);
    rows
}

/// Compiles only for a layout table with one [`LookBack`](crate::LookBack) at most, as
/// [`one_look_back`].
///
/// # Panics
/// If there are two.
pub const fn assert_one_look_back(rows: &[Row]) {
    let (mut count, mut at) = (0, 0);
    while at < rows.len() {
        if rows[at][USE] == WRITES | LOOK_BACK << 8 {
            count += 1;
        }
        at += 1;
    }
    assert!(
        count <= 1,
        "H32: a kernel has one `LookBack` at most: by two, two blocks would have one tile"
    );
}
