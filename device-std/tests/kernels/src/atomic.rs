//! Atomic operations, by element, scope and memory.

use device_std::fence;
use device_std::prelude::*;

/// The number of elements of `results` that all threads change. After them, each thread has an
/// element of its own.
pub const RESULTS: usize = 8;

/// The operations of each thread on `results`, with its own `value`: sum, minimum, maximum, and,
/// or, exclusive or, and a sum by compare-and-exchange. Each thread also stores its value, and
/// makes an exchange that must fail. At last it swaps its value into element 7; the result is the
/// value of the thread before it.
macro_rules! integer_operations {
    ($results:ident, $token:ident, $value:ident, $at:expr) => {{
        $results.fetch_add($token, 0, $value);
        $results.fetch_min($token, 1, $value);
        $results.fetch_max($token, 2, $value);
        $results.fetch_and($token, 3, $value);
        $results.fetch_or($token, 4, $value);
        $results.fetch_xor($token, 5, $value);
        let mut seen = $results.load($token, 6);
        while let Err(other) = $results.compare_exchange($token, 6, seen, seen.wrapping_add($value)) {
            seen = other;
        }
        fence::block();
        fence::device();
        fence::system();
        $results.store($token, RESULTS + $at, $value);
        if $results.compare_exchange($token, RESULTS + $at, $value ^ 1, 0) != Err($value) {
            $results.store($token, RESULTS + $at, !$value);
        }
        $results.swap($token, 7, $value)
    }};
}

macro_rules! integers {
    ($($name:ident: $type:ident, |$atomic:ident| $at_scope:expr;)*) => { $(
        #[allow(missing_docs)]
        #[kernel]
        pub fn $name(i: Index1, input: &[$type], $atomic: Atomic<$type>, mut passed: PerThread<$type>) {
            let (results, token, value) = ($at_scope, &i, input[i.get()]);
            let got = integer_operations!(results, token, value, i.get());
            if let Some(passed) = passed.get_mut(i) {
                *passed = got;
            }
        }
    )* };
}

integers! {
    atomic_u32: u32, |atomic| atomic;
    atomic_i32: i32, |atomic| atomic;
    atomic_u64: u64, |atomic| atomic;
    atomic_i64: i64, |atomic| atomic;
}

/// `results` gets the block's shared memory after all threads have made their operations on it: 104
/// elements for each block.
macro_rules! shared_integers {
    ($($name:ident: $type:ident;)*) => { $(
        #[allow(missing_docs)]
        #[kernel(block = 96)]
        pub fn $name(
            mut block: Block,
            shared: BlockUninit<$type, 104>,
            input: &[$type],
            passed: PerThread<$type>,
            results: Atomic<$type>,
        ) {
            let start = [0, $type::MAX, $type::MIN, !0, 0, 0, 0, 0];
            let mut shared = shared.init(&mut block, |_, at| start.get(at).copied().unwrap_or(0));
            let atomic = shared.atomic();
            block.threads(|thread| {
                let (value, at) = (input[thread.position()], thread.index());
                let got = integer_operations!(atomic, thread, value, at);
                if let Some(index) = thread.index_in_launch() {
                    passed.set(index, got);
                }
            });
            let (view, first) = (shared.view(), block.x() * 104);
            block.threads(|thread| {
                for at in [thread.index(), thread.index() + 96] {
                    if let Some(value) = view.slice(thread).get(at) {
                        results.store(thread, first + at, *value);
                    }
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

macro_rules! floats {
    ($($name:ident: $type:ident, |$atomic:ident| $at_scope:expr;)*) => { $(
        /// A sum, a swap from thread to thread, and a store of each thread.
        #[kernel]
        pub fn $name(i: Index1, input: &[$type], $atomic: Atomic<$type>, mut passed: PerThread<$type>) {
            let (results, value) = ($at_scope, input[i.get()]);
            results.fetch_add(&i, 0, value);
            results.store(&i, RESULTS + i.get(), value);
            let got = results.swap(&i, 7, value);
            if let Some(passed) = passed.get_mut(i) {
                *passed = got + (results.load(&i, RESULTS + i.get()) - value);
            }
        }
    )* };
}

floats! {
    atomic_f32: f32, |atomic| atomic;
    atomic_f64: f64, |atomic| atomic;
}

macro_rules! shared_floats {
    ($($name:ident: $type:ident;)*) => { $(
        /// The sum of a block, in shared memory.
        #[kernel(block = 96)]
        pub fn $name(mut block: Block, shared: BlockUninit<$type, 2>, input: &[$type], mut sums: PerBlock<$type>) {
            let mut shared = shared.init(&mut block, |_, _| 0.0);
            let atomic = shared.atomic();
            block.threads(|thread| {
                atomic.fetch_add(thread, 0, input[thread.position()]);
                atomic.swap(thread, 1, 2.5);
                atomic.store(thread, 1, atomic.load(thread, 1));
            });
            let sum = block.broadcast(&shared, 0) + block.broadcast(&shared, 1);
            sums.set(&block, sum);
        }
    )* };
}

shared_floats! {
    shared_atomic_f32: f32;
    shared_atomic_f64: f64;
}

/// `order[n]` is the thread that drew the n-th ticket.
#[kernel]
pub fn tickets(i: Index1, counter: Atomic<u32>, order: Atomic<u32>) {
    let ticket = counter.fetch_add(&i, 0, 1);
    order.fetch_add(&i, ticket as usize, i.get() as u32);
}
