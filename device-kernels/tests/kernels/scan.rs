//! Scans of all elements.

use cuda_rt::Grid1;
use device_kernels::{
    LookBack, Max, Min, Sum, exclusive_scan, exclusive_scan_tiles, inclusive_scan, inclusive_scan_tiles,
    scan_words,
};

use super::{assert_refused, compute, download, random, random_floats, upload};

/// Elements of a tile.
const TILE: usize = 5120;

/// Around the elements of chunks, warps and tiles.
const LENGTHS: [usize; 15] = [
    0,
    1,
    3,
    31,
    32,
    33,
    127,
    128,
    129,
    768,
    TILE - 1,
    TILE,
    TILE + 1,
    3 * TILE,
    300 * TILE + 77,
];

/// Scans of each length from and to each address, one after the other with the same words.
macro_rules! scans {
    ($kernel:ident, $type:ty, $operator:ty, $values:expr, $from:expr, $next:expr, $first:expr) => {{
        let combine: fn($type, $type) -> $type = $next;
        let stream = compute();
        let most = LENGTHS[LENGTHS.len() - 1];
        let values: Vec<$type> = $values(most + 3);
        assert!(values.len() == most + 3);
        let device = upload(&stream, &values);
        let mut words = stream.alloc_zeroed::<u64>(scan_words::<$type>(most)).unwrap();
        for len in LENGTHS {
            for (from, to) in [(0, 0), (1, 0), (0, 1)] {
                if len == most && from + to > 0 {
                    continue;
                }
                let mut output = upload(&stream, &vec![values[0]; to + len + 5]);
                let (input, written) = (&device[from..from + len], &mut output[to..to + len]);
                $kernel::<$type, $operator, _>(&stream, input, &mut words, written).unwrap();
                let output = download(&stream, &output);
                let mut before: $type = $from;
                for at in 0..len {
                    let next = combine(before, values[from + at]);
                    let expected = if $first == 0 { next } else { before };
                    assert!(
                        output[to + at] == expected,
                        "{len} elements from {from} to {to}, {at}: {} instead of {expected}",
                        output[to + at]
                    );
                    before = next;
                }
                assert!(
                    output[..to]
                        .iter()
                        .chain(&output[to + len..])
                        .all(|value| *value == values[0])
                );
            }
        }
    }};
}

fn words(len: usize) -> impl Iterator<Item = u32> {
    random(len, 40)
}

/// Small whole numbers, whose sums are exact in any order.
fn small(len: usize) -> impl Iterator<Item = u32> {
    words(len).map(|bits| bits % 4)
}

/// Sums of all types of element, by the kernel `$scan`, as [`scans!`] compares them.
macro_rules! sums {
    ($scan:ident, $from:expr) => {{
        let wrapping = |len| words(len).map(|bits| bits as i32);
        let large = |len| words(len).map(|bits| u64::from(bits) << 25);
        scans!(
            $scan,
            u32,
            Sum,
            |len| words(len).collect(),
            0,
            u32::wrapping_add,
            $from
        );
        scans!(
            $scan,
            i32,
            Sum,
            |len| wrapping(len).collect(),
            0,
            i32::wrapping_add,
            $from
        );
        scans!(
            $scan,
            u64,
            Sum,
            |len| large(len).collect(),
            0,
            u64::wrapping_add,
            $from
        );
        let small = |len| small(len).map(|bits| bits as f32);
        scans!(
            $scan,
            f32,
            Sum,
            |len| small(len).collect(),
            0.0,
            |sum, value| sum + value,
            $from
        );
        let exact = |len| words(len).map(f64::from);
        scans!(
            $scan,
            f64,
            Sum,
            |len| exact(len).collect(),
            0.0,
            |sum, value| sum + value,
            $from
        );
    }};
}

#[test]
fn inclusive_sums_hold_every_element_up_to_their_own() {
    sums!(inclusive_scan, 0);
}

#[test]
fn exclusive_sums_hold_every_element_before_their_own() {
    sums!(exclusive_scan, 1);
}

#[test]
fn scans_of_the_smallest_and_the_largest() {
    // Extremes come late, so that each tile changes the result.
    let falling = |len: usize| {
        words(len)
            .enumerate()
            .map(move |(at, bits)| (len - at) as u32 * 1000 + bits % 1000)
    };
    let rising = |len: usize| {
        words(len)
            .enumerate()
            .map(|(at, bits)| at as u32 * 1000 + bits % 1000)
    };
    scans!(
        inclusive_scan,
        u32,
        Min,
        |len| falling(len).collect(),
        u32::MAX,
        |before, value| before.min(value),
        0
    );
    scans!(
        inclusive_scan,
        i32,
        Min,
        |len| falling(len).map(|bits| bits as i32 - 9_000_000).collect(),
        i32::MAX,
        |before, value| before.min(value),
        0
    );
    scans!(
        inclusive_scan,
        f32,
        Min,
        |len| random_floats(len, 41),
        f32::INFINITY,
        |before, value| before.min(value),
        0
    );
    scans!(
        inclusive_scan,
        u32,
        Max,
        |len| rising(len).collect(),
        0,
        |before, value| before.max(value),
        0
    );
    scans!(
        inclusive_scan,
        i32,
        Max,
        |len| rising(len).map(|bits| bits as i32 - 9_000_000).collect(),
        i32::MIN,
        |before, value| before.max(value),
        0
    );
    scans!(
        inclusive_scan,
        f32,
        Max,
        |len| random_floats(len, 42),
        f32::NEG_INFINITY,
        |before, value| before.max(value),
        0
    );
}

/// The words serve launches of other sizes and elements, and a larger grid than the data has tiles.
#[test]
fn words_serve_one_launch_after_the_other() {
    let stream = compute();
    let input = upload(&stream, &vec![1_u32; 4 * TILE]);
    let wide = upload(&stream, &vec![1_u64; 2 * TILE]);
    let mut words = stream.alloc_zeroed::<u64>(LookBack::words::<u64>(9)).unwrap();
    for round in 0..5 {
        for tiles in [4, 1, 3] {
            let mut output = stream.alloc_zeroed::<u32>(tiles * TILE).unwrap();
            let grid = Grid1::blocks(tiles + round);
            inclusive_scan_tiles::<u32, Sum, _>(&stream, grid, &input, &mut words, &mut output).unwrap();
            assert!(
                download(&stream, &output)
                    .into_iter()
                    .eq(1..=(tiles * TILE) as u32)
            );
            let mut output = stream.alloc_zeroed::<u64>(2 * TILE).unwrap();
            let grid = Grid1::blocks(2);
            exclusive_scan_tiles::<u64, Sum, _>(&stream, grid, &wide, &mut words, &mut output).unwrap();
            assert!(download(&stream, &output).into_iter().eq(0..2 * TILE as u64));
        }
    }
}

#[test]
fn scans_refuse_lengths_before_they_launch() {
    let stream = compute();
    let input = upload(&stream, &vec![1_u32; TILE + 1]);
    let wide = upload(&stream, &[1_u64; 3]);
    let mut words = stream.alloc_zeroed::<u64>(2).unwrap();
    let (mut output, mut sums) = (
        upload(&stream, &vec![7_u32; TILE + 1]),
        upload(&stream, &[7_u64; 3]),
    );

    let line = line!() + 1;
    let result = inclusive_scan::<u32, Sum, _>(&stream, &input[..12], &mut words, &mut output[..10]);
    assert_refused(
        result,
        (file!(), line),
        "inclusive_scan: the input has 12 elements, the output 10: pass slices of one length",
    );

    let line = line!() + 1;
    let result = exclusive_scan::<u32, Sum, _>(&stream, &input[..10], &mut words, &mut output[..12]);
    assert_refused(
        result,
        (file!(), line),
        "exclusive_scan: the input has 10 elements, the output 12: pass slices of one length",
    );

    // Enough for one tile of `u32`, and neither for two nor for one of `u64`.
    let line = line!() + 1;
    let result = inclusive_scan::<u32, Sum, _>(&stream, &input, &mut words, &mut output);
    assert_refused(
        result,
        (file!(), line),
        "inclusive_scan: 2 words were passed, and the scan needs 3: allocate \
                    `scan_words::<T>(output.len())` of them with `alloc_zeroed`",
    );
    let line = line!() + 1;
    let result = exclusive_scan::<u64, Sum, _>(&stream, &wide, &mut words, &mut sums);
    assert_refused(
        result,
        (file!(), line),
        "exclusive_scan: 2 words were passed, and the scan needs 3: allocate \
                    `scan_words::<T>(output.len())` of them with `alloc_zeroed`",
    );

    // Nothing was launched, and the words still serve the scan for which they are enough.
    assert!(download(&stream, &output).iter().all(|value| *value == 7));
    inclusive_scan::<u32, Sum, _>(&stream, &input[1..], &mut words, &mut output[1..]).unwrap();
    assert!(
        download(&stream, &output)[1..]
            .iter()
            .copied()
            .eq(1..=TILE as u32)
    );
    // A scan of nothing needs no words.
    inclusive_scan::<u32, Sum, _>(&stream, &input[..0], &mut words[..0], &mut output[..0]).unwrap();
}
