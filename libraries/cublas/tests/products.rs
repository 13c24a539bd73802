//! Products of random shapes and places, compared with plain loops: on simulated devices, and on
//! each GPU with cuBLAS.
#![forbid(unsafe_code)]

mod common;

use common::{Compute, Place, Random, for_each_device};
use cuda_rt::{Device, DeviceBuffer, Element, Scoped};
use cuda_rt_cublas::{Blas, BlasError, Matrix, MatrixMut, Multiply, Precision, Side, Status, Triangle};

/// A number that a test computes with as `f64`.
trait Number: Element {
    fn of(value: f64) -> Self;
    fn value(self) -> f64;
}

macro_rules! numbers {
    ($($type:ty: $of:expr, $value:expr;)*) => { $(
        impl Number for $type {
            fn of(value: f64) -> Self { $of(value) }
            fn value(self) -> f64 { $value(self) }
        }
    )* };
}

numbers! {
    f32: |value| value as f32, f64::from;
    f64: |value| value, |value| value;
    i8: |value| value as i8, f64::from;
    i32: |value| value as i32, f64::from;
}
#[cfg(feature = "half")]
numbers! {
    half::f16: half::f16::from_f64, half::f16::to_f64;
    half::bf16: half::bf16::from_f64, half::bf16::to_f64;
}

fn filled<T: Number>(random: &mut Random, len: usize) -> Vec<T> {
    (0..len).map(|_| T::of(random.small())).collect()
}

/// Random products of `T` into `C`. All numbers are small integers, so that sums are exact.
fn products<T, C>(gpu: &Device<Scoped<'_>>, seed: u64, unit: usize)
where
    T: Multiply<C> + Number,
    C: Number + PartialEq + std::fmt::Debug,
    T::Scalar: Number,
{
    let compute = gpu.stream::<Compute<_>>().unwrap();
    let blas = Blas::new(&compute).unwrap();
    let mut random = Random::new(seed);
    let mut multiplied = 0;
    for case in 0..60 {
        let sides = [(); 3].map(|()| random.from(1..20));
        let [m, n, k] = sides.map(|side| if random.below(4) == 0 { side * 3 } else { side });
        let count = random.flip().then(|| random.from(1..5));
        let factor_count = |random: &mut Random| count.filter(|_| random.below(3) > 0);
        let a_count = factor_count(&mut random);
        let a = Place::random(&mut random, (m, k), a_count, unit);
        let b_count = factor_count(&mut random);
        let b = Place::random(&mut random, (k, n), b_count, unit);
        let c = Place::random(&mut random, (m, n), count, 1);
        let (alpha, beta) = (random.small().abs() + 1.0, if random.flip() { 0.0 } else { -1.0 });
        let (a_host, b_host) = (
            filled::<T>(&mut random, a.len()),
            filled::<T>(&mut random, b.len()),
        );
        let mut expected = filled::<C>(&mut random, c.len());

        let (a_device, b_device) = (
            compute.alloc_from_slice(&a_host).unwrap(),
            compute.alloc_from_slice(&b_host).unwrap(),
        );
        let mut c_device = compute.alloc_from_slice(&expected).unwrap();
        let (one, two) = (a.matrix(&a_device), b.matrix(&b_device));
        let product = blas.gemm(
            T::Scalar::of(alpha),
            one,
            two,
            T::Scalar::of(beta),
            c.matrix_mut(&mut c_device),
        );
        // On an H200, cuBLAS 13.1 lacks some layouts of bytes.
        if unit == 4 && !gpu.is_simulated() && is_not_supported(&product) {
            continue;
        }
        product.unwrap_or_else(|error| panic!("case {case}, {a:?} {b:?} {c:?}: {error}"));
        multiplied += 1;

        let sum = |index: usize, row: usize, column: usize| -> f64 {
            let product =
                |at: usize| a_host[a.at(index, row, at)].value() * b_host[b.at(index, at, column)].value();
            (0..k).map(product).sum()
        };
        for index in 0..count.unwrap_or(1) {
            for row in 0..m {
                for column in 0..n {
                    let place = c.at(index, row, column);
                    let value = alpha * sum(index, row, column) + beta * expected[place].value();
                    expected[place] = C::of(value);
                }
            }
        }
        // All of the memory: what lies between and beside the matrices is unchanged.
        assert_eq!(
            compute.copy_to_vec(&c_device).unwrap(),
            expected,
            "case {case}, {a:?} {b:?} {c:?}"
        );

        if beta == 0.0 && alpha == 1.0 {
            let fresh = blas.multiply::<T, C, _, _>(one, two);
            if unit == 4 && !gpu.is_simulated() && is_not_supported(&fresh) {
                continue;
            }
            let fresh: DeviceBuffer<C, _> = fresh.unwrap();
            let fresh = compute.copy_to_vec(&fresh).unwrap();
            let matrices = a_count.or(b_count).unwrap_or(1);
            assert_eq!(fresh.len(), matrices * m * n);
            for (place, value) in fresh.into_iter().enumerate() {
                let (index, rest) = (place / (m * n), place % (m * n));
                assert_eq!(
                    value,
                    C::of(sum(index, rest / n, rest % n)),
                    "case {case}, {a:?} {b:?}"
                );
            }
        }
    }
    assert!(multiplied > 5, "cuBLAS supports {multiplied} of 60 products");
}

fn is_not_supported<R>(product: &Result<R, BlasError>) -> bool {
    const NOT_SUPPORTED: Status = Status(15);
    matches!(product, Err(BlasError::Status { status, .. }) if *status == NOT_SUPPORTED)
}

#[test]
fn products_of_f32_are_those_of_plain_loops() {
    for_each_device(|gpu| products::<f32, f32>(gpu, 1, 1));
}

#[test]
fn products_of_f64_are_those_of_plain_loops() {
    for_each_device(|gpu| products::<f64, f64>(gpu, 2, 1));
}

#[test]
fn products_of_bytes_are_those_of_plain_loops() {
    for_each_device(|gpu| products::<i8, i32>(gpu, 3, 4));
}

#[cfg(feature = "half")]
#[test]
fn products_of_halves_are_those_of_plain_loops() {
    for_each_device(|gpu| {
        products::<half::f16, half::f16>(gpu, 4, 1);
        products::<half::f16, f32>(gpu, 5, 1);
        products::<half::bf16, f32>(gpu, 7, 1);
    });
}

/// `bf16` has 8 bits, so a sum is rounded, once.
#[cfg(feature = "half")]
#[test]
fn products_of_bf16_are_rounded_once() {
    for_each_device(|gpu| products::<half::bf16, half::bf16>(gpu, 6, 1));
}

#[test]
fn sums_of_bytes_wrap_on_simulated_devices() {
    let config = cuda_rt::simulator::SimConfig::default();
    Device::simulated(config, |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let blas = Blas::new(&compute).unwrap();
        let a = compute.alloc_from_slice(&[127_i8; 8]).unwrap();
        let row = Matrix::new(&a, 1, 8);
        let column = row.transposed();
        let mut c = compute.alloc_from_slice(&[i32::MAX]).unwrap();
        blas.gemm(1 << 20, row, column, 1, MatrixMut::new(&mut c, 1, 1))
            .unwrap();
        let sum = (8 * 127 * 127_i32).wrapping_mul(1 << 20).wrapping_add(i32::MAX);
        assert_eq!(compute.copy_to_vec(&c).unwrap(), [sum]);
    })
    .unwrap();
}

#[test]
fn tf32_is_near() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let mut blas = Blas::new(&compute).unwrap();
        blas.set_precision(Precision::Tf32);
        let side = 64;
        let numbers: Vec<f32> = (0..side * side).map(|i| (i % 97) as f32 / 97.0).collect();
        let a = compute.alloc_from_slice(&numbers).unwrap();
        let square = blas
            .multiply(Matrix::new(&a, side, side), Matrix::new(&a, side, side))
            .unwrap();
        for (place, value) in compute.copy_to_vec(&square).unwrap().into_iter().enumerate() {
            let (row, column) = (place / side, place % side);
            let sum: f32 = (0..side)
                .map(|at| numbers[row * side + at] * numbers[at * side + column])
                .sum();
            assert!((value - sum).abs() <= 2e-3 * sum.abs(), "{value} {sum}");
        }
    });
}

/// An output that nothing wrote before: if beta is 0 it is not read.
#[test]
fn an_output_full_of_nan_is_overwritten() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let blas = Blas::new(&compute).unwrap();
        let ones = compute.alloc_from_slice(&[1.0_f32; 16]).unwrap();
        let mut c = compute.alloc_from_slice(&[f32::NAN; 16]).unwrap();
        let a = Matrix::new(&ones, 4, 4);
        blas.gemm(1.0, a, a, 0.0, MatrixMut::new(&mut c, 4, 4)).unwrap();
        assert_eq!(compute.copy_to_vec(&c).unwrap(), [4.0; 16]);
        let mut y = compute.alloc_from_slice(&[f32::NAN; 4]).unwrap();
        blas.gemv(1.0, a, &ones[..4], 0.0, &mut y).unwrap();
        assert_eq!(compute.copy_to_vec(&y).unwrap(), [4.0; 4]);
    });
}

#[test]
fn lists_of_matrices_are_multiplied_wherever_they_lie() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let blas = Blas::new(&compute).unwrap();
        let mut random = Random::new(8);
        for case in 0..20 {
            let (m, n, k) = (random.from(1..9), random.from(1..9), random.from(1..9));
            let count = random.from(1..6);
            // Half of the cases begin at odd places, where the products go one by one.
            let offset = if case % 2 == 0 { 0 } else { 1 };
            let host = |random: &mut Random, len: usize| -> Vec<Vec<f64>> {
                (0..count).map(|_| filled(random, len + offset)).collect()
            };
            let (a, b) = (host(&mut random, m * k), host(&mut random, k * n));
            let up = |lists: &[Vec<f64>]| -> Vec<_> {
                lists
                    .iter()
                    .map(|list| compute.alloc_from_slice(list).unwrap())
                    .collect()
            };
            let (a_device, b_device) = (up(&a), up(&b));
            let mut c_device = up(&vec![vec![1.0; m * n]; count]);
            let factors = a_device
                .iter()
                .map(|a| Matrix::new(&a[offset..], k, m).transposed());
            let factors: Vec<_> = factors.collect();
            let others: Vec<_> = b_device.iter().map(|b| Matrix::new(&b[offset..], k, n)).collect();
            let mut outputs: Vec<_> = c_device.iter_mut().map(|c| MatrixMut::new(c, m, n)).collect();
            blas.gemm_batched(2.0, &factors, &others, 1.0, &mut outputs)
                .unwrap();
            for index in 0..count {
                let product = |row: usize, column: usize| -> f64 {
                    let (a, b) = (&a[index][offset..], &b[index][offset..]);
                    (0..k).map(|at| a[at * m + row] * b[at * n + column]).sum()
                };
                let expected: Vec<f64> = (0..m * n)
                    .map(|place| 2.0 * product(place / n, place % n) + 1.0)
                    .collect();
                assert_eq!(
                    compute.copy_to_vec(&c_device[index]).unwrap(),
                    expected,
                    "case {case}"
                );
            }
        }
    });
}

#[test]
fn products_with_vectors_are_those_of_plain_loops() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let blas = Blas::new(&compute).unwrap();
        let mut random = Random::new(9);
        for case in 0..40 {
            let (rows, columns) = (random.from(1..40), random.from(1..40));
            let a = Place::random(&mut random, (rows, columns), None, 1);
            let (host, x) = (
                filled::<f32>(&mut random, a.len()),
                filled::<f32>(&mut random, columns),
            );
            let y = filled::<f32>(&mut random, rows);
            let a_device = compute.alloc_from_slice(&host).unwrap();
            let x_device = compute.alloc_from_slice(&x).unwrap();
            let mut y_device = compute.alloc_from_slice(&y).unwrap();
            blas.gemv(2.0, a.matrix(&a_device), &x_device, 3.0, &mut y_device)
                .unwrap();
            let expected: Vec<f32> = (0..rows)
                .map(|row| {
                    let sum: f32 = (0..columns).map(|at| host[a.at(0, row, at)] * x[at]).sum();
                    2.0 * sum + 3.0 * y[row]
                })
                .collect();
            assert_eq!(
                compute.copy_to_vec(&y_device).unwrap(),
                expected,
                "case {case}, {a:?}"
            );
        }
    });
}

#[test]
fn triangular_systems_are_solved_from_both_sides() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let blas = Blas::new(&compute).unwrap();
        let mut random = Random::new(10);
        for case in 0..80 {
            let (rows, columns) = (random.from(1..14), random.from(1..14));
            let side = if random.flip() { Side::Left } else { Side::Right };
            let size = if side == Side::Left { rows } else { columns };
            let lower = random.flip();
            let unit = random.flip();
            let a = Place::random(&mut random, (size, size), None, 1);
            let b = Place::random(&mut random, (rows, columns), None, 1);
            // What does not count is no number.
            let mut a_host = vec![f64::NAN; a.len()];
            for row in 0..size {
                for column in 0..size {
                    let counts = if lower { column <= row } else { column >= row };
                    if counts && !(unit && row == column) {
                        let value = random.small() / 8.0;
                        a_host[a.at(0, row, column)] = if row == column { value + 2.0 } else { value };
                    }
                }
            }
            let element =
                |row: usize, column: usize| match (row == column && unit, a_host[a.at(0, row, column)]) {
                    (true, _) => 1.0,
                    (_, value) if value.is_nan() => 0.0,
                    (_, value) => value,
                };
            let x: Vec<f64> = (0..rows * columns).map(|_| random.small()).collect();
            let mut b_host = filled::<f64>(&mut random, b.len());
            for row in 0..rows {
                for column in 0..columns {
                    b_host[b.at(0, row, column)] = match side {
                        Side::Left => (0..size)
                            .map(|at| element(row, at) * x[at * columns + column])
                            .sum(),
                        Side::Right => (0..size)
                            .map(|at| x[row * columns + at] * element(at, column))
                            .sum(),
                    };
                }
            }
            let a_device = compute.alloc_from_slice(&a_host).unwrap();
            let mut b_device = compute.alloc_from_slice(&b_host).unwrap();
            let triangle = if lower { Triangle::LOWER } else { Triangle::UPPER };
            let triangle = if unit {
                triangle.with_unit_diagonal()
            } else {
                triangle
            };
            let (matrix, right) = (a.matrix(&a_device), b.matrix_mut(&mut b_device));
            blas.trsm(side, triangle, 2.0, matrix, right).unwrap();
            let solved = compute.copy_to_vec(&b_device).unwrap();
            for (place, before) in b_host.iter().enumerate() {
                let inside = (0..rows * columns).find(|at| b.at(0, at / columns, at % columns) == place);
                let expected = inside.map_or(*before, |at| 2.0 * x[at]);
                let got = solved[place];
                assert!(
                    (got - expected).abs() < 1e-6,
                    "case {case} {side:?} {a:?} {b:?}: {got} {expected}"
                );
            }
        }
    });
}

#[test]
fn vectors_are_added_scaled_and_summed() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let blas = Blas::new(&compute).unwrap();
        let mut random = Random::new(11);
        for len in [0, 1, 2, 31, 1000, 4097] {
            let (x, y) = (filled::<f64>(&mut random, len), filled::<f64>(&mut random, len));
            let x_device = compute.alloc_from_slice(&x).unwrap();
            let mut y_device = compute.alloc_from_slice(&y).unwrap();
            let mut sums = compute.alloc_from_slice(&[7.0_f64; 3]).unwrap();
            blas.dot(&x_device, &y_device, &mut sums[1..2]).unwrap();
            blas.axpy(3.0, &x_device, &mut y_device).unwrap();
            blas.scal(-2.0, &mut y_device).unwrap();
            blas.nrm2(&x_device, &mut sums[2..]).unwrap();
            let dot: f64 = x.iter().zip(&y).map(|(x, y)| x * y).sum();
            let norm = x.iter().map(|x| x * x).sum::<f64>().sqrt();
            let got = compute.copy_to_vec(&sums).unwrap();
            assert_eq!(got[..2], [7.0, dot], "{len}");
            assert!((got[2] - norm).abs() < 1e-9 * (1.0 + norm), "{len}");
            let expected: Vec<f64> = x.iter().zip(&y).map(|(x, y)| -2.0 * (3.0 * x + y)).collect();
            assert_eq!(compute.copy_to_vec(&y_device).unwrap(), expected, "{len}");
        }
    });
}

#[test]
fn an_output_without_elements_costs_no_call() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let blas = Blas::new(&compute).unwrap();
        let a = compute.alloc_from_slice(&[1.0_f32; 4]).unwrap();
        let mut none = compute.alloc_zeroed::<f32>(0).unwrap();
        let (no_rows, square) = (Matrix::new(&a, 0, 2), Matrix::new(&a, 2, 2));
        blas.gemm(1.0, no_rows, square, 0.0, MatrixMut::new(&mut none, 0, 2))
            .unwrap();
        assert!(blas.multiply(no_rows, square).unwrap().is_empty());
        let batch = MatrixMut::new(&mut none, 2, 2).batch(0, 4);
        blas.gemm(1.0, square, square, 0.0, batch).unwrap();
        let lists: (
            &[Matrix<'_, f32, Compute<_>>],
            &mut [MatrixMut<'_, f32, Compute<_>>],
        ) = (&[], &mut []);
        blas.gemm_batched(1.0, lists.0, lists.0, 0.0, lists.1).unwrap();
        // Nothing to multiply, but something to write: refused, for the sums would be empty.
        let mut c = compute.alloc_from_slice(&[5.0_f32; 4]).unwrap();
        let (left, right) = (Matrix::new(&a, 2, 0), Matrix::new(&a, 0, 2));
        let refused = blas.gemm(1.0, left, right, 0.0, MatrixMut::new(&mut c, 2, 2));
        assert!(matches!(refused, Err(BlasError::Shape { .. })));
        assert_eq!(compute.copy_to_vec(&c).unwrap(), [5.0; 4]);
    });
}
