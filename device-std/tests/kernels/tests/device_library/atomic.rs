//! Atomic operations, by element, scope and memory. The results do not depend on the order of the
//! threads.

use cuda_rt::Grid1;
use library_kernels::atomic::{self as kernels, RESULTS};

use crate::Compute;
use crate::devices::for_each_device;
use crate::harness::{COUNT, Sample, THREADS, download, groups, upload};

/// The elements' values before the launch: neutral for each operation.
macro_rules! start {
    ($type:ident) => {
        [0, $type::MAX, $type::MIN, !0, 0, 0, 0, 0]
    };
}

/// Checks the elements after threads with these values have made their operations. `passed` holds
/// the results of the swaps, in some order.
macro_rules! check_integers {
    ($type:ident, $values:expr, $results:expr, $passed:expr) => {
        let (values, results): (&[$type], &[$type]) = ($values, $results);
        let sum = values
            .iter()
            .fold(0, |all: $type, value| all.wrapping_add(*value));
        let expected = [
            ("fetch_add", sum),
            ("fetch_min", *values.iter().min().unwrap()),
            ("fetch_max", *values.iter().max().unwrap()),
            ("fetch_and", values.iter().fold(!0, |all, value| all & value)),
            ("fetch_or", values.iter().fold(0, |all, value| all | value)),
            ("fetch_xor", values.iter().fold(0, |all, value| all ^ value)),
            ("compare_exchange", sum),
        ];
        for (got, (operation, expected)) in results.iter().zip(expected) {
            assert_eq!(*got, expected, "{operation}");
        }
        assert_eq!(&results[RESULTS..], values, "store");
        // Each value was swapped out once, except for the last value, which is still in the
        // element. The first result is the element's value before the launch.
        let mut passed: Vec<$type> = $passed.to_vec();
        passed.push(results[7]);
        passed.sort();
        let mut all: Vec<$type> = values.to_vec();
        all.push(0);
        all.sort();
        assert_eq!(passed, all, "swap");
    };
}

macro_rules! integers {
    ($($name:ident: $type:ident;)*) => { $(
        #[test]
        fn $name() {
            let input = $type::samples(COUNT);
            let mut start = start!($type).to_vec();
            start.resize(RESULTS + COUNT, 0);
            for_each_device(|gpu| {
                let stream = gpu.stream::<Compute<_>>().unwrap();
                let mut results = upload(&stream, &start);
                let mut passed = stream.alloc_zeroed(COUNT).unwrap();
                kernels::$name(&stream, Grid1::covering(COUNT), &upload(&stream, &input), &mut results, &mut passed)
                    .unwrap();
                check_integers!($type, &input, &download(&stream, &results), download(&stream, &passed));
            });
        }
    )* };
}

integers! {
    atomic_u32: u32;
    atomic_i32: i32;
    atomic_u64: u64;
    atomic_i64: i64;
}

macro_rules! shared_integers {
    ($($name:ident: $type:ident;)*) => { $(
        #[test]
        fn $name() {
            let count = THREADS * 5;
            let input = $type::samples(count);
            for_each_device(|gpu| {
                let stream = gpu.stream::<Compute<_>>().unwrap();
                let mut results = stream.alloc_zeroed((RESULTS + THREADS) * 5).unwrap();
                let mut passed = stream.alloc_zeroed(count).unwrap();
                kernels::$name(&stream, Grid1::covering(count), &upload(&stream, &input), &mut passed, &mut results)
                    .unwrap();
                let (results, passed) = (download(&stream, &results), download(&stream, &passed));
                let blocks = results.chunks_exact(RESULTS + THREADS).zip(groups(&passed, THREADS));
                for (values, (results, passed)) in groups(&input, THREADS).zip(blocks) {
                    check_integers!($type, values, results, passed);
                }
            });
        }
    )* };
}

shared_integers! {
    shared_atomic_u32: u32;
    shared_atomic_i32: i32;
    shared_atomic_u64: u64;
    shared_atomic_i64: i64;
}

/// Multiples of 1/64 below 4, whose sums are exact in any order.
fn exact_floats(count: usize) -> Vec<f64> {
    u8::samples(count)
        .into_iter()
        .map(|value| f64::from(value) / 64.0)
        .collect()
}

macro_rules! floats {
    ($($name:ident: $type:ident;)*) => { $(
        #[test]
        fn $name() {
            let input: Vec<$type> = exact_floats(COUNT).into_iter().map(|value| value as $type).collect();
            for_each_device(|gpu| {
                let stream = gpu.stream::<Compute<_>>().unwrap();
                let mut results = stream.alloc_zeroed(RESULTS + COUNT).unwrap();
                let mut passed = stream.alloc_zeroed(COUNT).unwrap();
                kernels::$name(&stream, Grid1::covering(COUNT), &upload(&stream, &input), &mut results, &mut passed)
                    .unwrap();
                let (results, mut passed) = (download(&stream, &results), download(&stream, &passed));
                assert_eq!(results[0], input.iter().sum::<$type>(), "fetch_add");
                assert_eq!(results[RESULTS..], input, "store");
                passed.push(results[7]);
                passed.sort_by($type::total_cmp);
                let mut all = input.clone();
                all.push(0.0);
                all.sort_by($type::total_cmp);
                assert_eq!(passed, all, "swap and load");
            });
        }
    )* };
}

floats! {
    atomic_f32: f32;
    atomic_f64: f64;
}

macro_rules! shared_floats {
    ($($name:ident: $type:ident;)*) => { $(
        #[test]
        fn $name() {
            let input: Vec<$type> = exact_floats(THREADS * 5).into_iter().map(|value| value as $type).collect();
            let expected: Vec<$type> = groups(&input, THREADS).map(|block| block.iter().sum::<$type>() + 2.5).collect();
            for_each_device(|gpu| {
                let stream = gpu.stream::<Compute<_>>().unwrap();
                let mut sums = stream.alloc_zeroed(5).unwrap();
                kernels::$name(&stream, Grid1::covering(input.len()), &upload(&stream, &input), &mut sums).unwrap();
                assert_eq!(download(&stream, &sums), expected);
            });
        }
    )* };
}

shared_floats! {
    shared_atomic_f32: f32;
    shared_atomic_f64: f64;
}

#[test]
fn each_ticket_is_drawn_once() {
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let mut counter = stream.alloc_zeroed::<u32>(1).unwrap();
        let mut order = stream.alloc_zeroed::<u32>(COUNT).unwrap();
        kernels::tickets(&stream, Grid1::covering(COUNT), &mut counter, &mut order).unwrap();
        assert_eq!(download(&stream, &counter), [COUNT as u32]);
        let mut order = download(&stream, &order);
        order.sort();
        assert_eq!(order, (0..COUNT as u32).collect::<Vec<_>>());
    });
}
