//! Generic kernels: each listed instance has an entry in the PTX.

use core::ops::{Add, Mul};

use device_std::prelude::*;
use device_std::unroll;
use device_std::{AtomicElement, Operator, PhaseSafe, ShuffleElement, Sum};

/// Each element times a factor.
#[kernel(instances = [f32, f64, u32], handle = Scale)]
pub fn scale<T: Element + Mul<Output = T>>(i: Index1, input: &[T], mut output: PerThread<T>, factor: T) {
    if let Some(out) = output.get_mut(i) {
        *out = input[i.get()] * factor;
    }
}

/// Each element as another type. Both types are parameters, and the second is returned.
#[kernel(instances = [<u8, f32>, <f32, f64>, <u16, i32>])]
pub fn convert<A, B>(i: Index1, input: &[A]) -> B
where
    A: Element,
    B: Element + From<A>,
{
    B::from(input[i.get()])
}

/// A constant with the name of a type's parameter elsewhere.
pub const EIGHT: usize = 8;

/// The thread's elements of the input, in reverse order.
#[kernel(instances = [<u32, 4>, <f64, 2>, <u8, { EIGHT * 2 }>, <u16, EIGHT>])]
pub fn reverse<T: Element, const N: usize>(i: Index1, input: &[T], fill: T) -> [T; N] {
    let mut values: [T; N] = input.chunk_or(i.get(), fill);
    values.reverse();
    values
}

/// Sums of a thread's eight elements: all of them, those up to the first 7, and those that are not
/// 3, and how many pairs of neighbours are equal.
#[kernel]
pub fn unrolled(i: Index1, input: &[u32]) -> [u32; 4] {
    let values: [u32; 8] = input.chunk_or(i.get(), 0);
    let mut sums = [0; 4];
    unroll!(for k in 0..8 {
        sums[0] += values[k];
    });
    unroll!(for k in 0..8 {
        if values[k] == 7 {
            break;
        }
        sums[1] += values[k];
    });
    for times in 1..3 {
        unroll!(for k in 0..8 {
            if values[k] == 3 {
                continue;
            }
            sums[2] += times * values[k];
        });
    }
    unroll!(for k in 0..7 {
        unroll!(for next in 1..8 {
            if next <= k {
                continue;
            }
            if next > k + 1 {
                break;
            }
            sums[3] += u32::from(values[k] == values[next]);
        });
    });
    sums
}

/// A constant that the body alone uses, so that no argument of the launch says it.
#[kernel(instances = [1, 3])]
pub fn repeated<const TIMES: u32>(i: Index1, input: &[u32], mut output: PerThread<u32>) {
    if let Some(out) = output.get_mut(i) {
        *out = (0..TIMES).fold(0, |sum, _| sum.wrapping_add(input[i.get()]));
    }
}

/// The sum of each block's elements, in shared memory of the instance's type.
#[kernel(block = 96, instances = [u32, f32])]
pub fn sum_of_block<T: ShuffleElement + Default + PhaseSafe>(
    mut block: Block,
    mut scratch: BlockUninit<T, 3>,
    input: &[T],
) -> T
where
    Sum: Operator<T>,
{
    let value = block.map(|lane| input.get(lane.position()).copied().unwrap_or_default());
    block.reduce::<Sum, _, 3>(&mut scratch, &value)
}

/// Adds each element to the counter of its remainder.
#[kernel(instances = [u32, f32])]
pub fn count<T: AtomicElement>(i: Index1, input: &[T], counts: Atomic<T>) {
    if let Some(value) = input.get(i.get()) {
        counts.fetch_add(&i, i.get() % 3, *value);
    }
}

/// A narrow number with a wide type for its sums.
pub trait Narrow: Element {
    /// The type of sums.
    type Wide: Element + From<Self> + Add<Output = Self::Wide>;
}
impl Narrow for u8 {
    type Wide = u32;
}
impl Narrow for f32 {
    type Wide = f64;
}

/// A sum in the wide type, which the signature names by the trait.
#[kernel(instances = [u8, f32])]
pub fn widen<T: Narrow>(i: Index1, input: &[T], bias: &[<T as Narrow>::Wide]) -> <T as Narrow>::Wide {
    T::Wide::from(input[i.get()]) + bias[i.get()]
}

/// A number of one thread, from one integer or from two.
pub trait Factors: Element {
    /// The number.
    fn product(self) -> i32;
}
impl Factors for i32 {
    fn product(self) -> i32 {
        self
    }
}
impl Factors for [i32; 2] {
    fn product(self) -> i32 {
        self[0].wrapping_mul(self[1])
    }
}

/// One name with three signatures, after CUDA's sample `cppOverload`: one buffer of integers, one
/// of pairs, or two of integers. An instance of one buffer takes an empty one as the second.
#[kernel(
    instances = [<i32, 1>, <[i32; 2], 1>, <i32, 2>],
    handle = SimpleKernel,
    block = 128
)]
pub fn simple_kernel<T: Factors, const INPUTS: usize>(
    i: Index1,
    first: &[T],
    second: &[T],
    mut output: PerThread<i32>,
    a: i32,
) {
    if let Some(out) = output.get_mut(i) {
        let sum = [first, second][..INPUTS]
            .iter()
            .fold(0i32, |sum, input| sum.wrapping_add(input[i.get()].product()));
        *out = sum.wrapping_mul(a);
    }
}

/// Types of the program with the names of the kernel's own parameters: in the list, they are these.
pub mod names {
    use device_std::prelude::*;

    /// Not the parameter `T`.
    pub type T = u16;
    /// Not the parameter `U`.
    pub type U = f64;

    /// Swapped names: the first parameter is the second type.
    #[kernel(instances = [<U, T>, <T, u8>])]
    pub fn swapped<T: Element, U: Element>(i: Index1, first: &[T], second: &[U]) -> [u64; 2] {
        let _ = (first[i.get()], second[i.get()]);
        [size_of::<T>() as u64, size_of::<U>() as u64]
    }

    /// A name and parameters that are keywords, or names of the macro's.
    #[allow(non_camel_case_types)]
    #[kernel(instances = [<u32, 5>])]
    pub fn r#type<r#fn: Element, const N: u32>(i: Index1, grid: &[r#fn], value1: u32) -> r#fn {
        let _ = N + value1;
        grid[i.get()]
    }
}
