//! What errors say about shapes that do not fit each other.

mod common;

use common::Compute;
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, DeviceSlice};
use cuda_rt_cublas::{Blas, BlasError, Matrix, MatrixMut, Side, Triangle};

fn out<P>(memory: &mut DeviceSlice<f32, P>, rows: usize, columns: usize) -> MatrixMut<'_, f32, P> {
    MatrixMut::new(memory, rows, columns)
}

/// Each message names the program's line, the matrices that the program passed, and what to do.
#[test]
fn messages_show_the_shapes_that_the_program_passed_and_say_what_to_do() {
    Device::simulated(SimConfig::default(), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let blas = Blas::new(&compute).unwrap();
        let a = compute.alloc_from_slice(&[1.0_f32; 64]).unwrap();
        let mut c = compute.alloc_zeroed::<f32>(64).unwrap();
        let m = |rows, columns| Matrix::new(&a, rows, columns);
        let says = |result: Result<(), BlasError>, call: &str, line: u32, words: &str| {
            let expected = format!("{call} ({}:{line}): {words}", file!());
            assert_eq!(result.unwrap_err().to_string(), expected);
        };
        let transpose = "`.transposed()` exchanges the rows and columns of a matrix";
        let result = blas.gemm(1.0, m(3, 4), m(5, 4), 0.0, out(&mut c, 3, 5));
        let line = line!() - 1;
        let inner = "A is 3 x 4, B is 5 x 4: columns of A (4) must equal rows of B (5); ";
        says(result, "Blas::gemm", line, &format!("{inner}{transpose}"));
        let result = blas.multiply(m(3, 4), m(5, 4)).map(drop);
        let line = line!() - 1;
        says(result, "Blas::multiply", line, &format!("{inner}{transpose}"));
        let result = blas.gemm(1.0, m(3, 4), m(4, 2), 0.0, out(&mut c, 3, 4));
        let line = line!() - 1;
        let words = "A is 3 x 4, B is 4 x 2, C is 3 x 4: columns of B (2) must equal columns of C (4); \
                     the product has the rows of A and the columns of B";
        says(result, "Blas::gemm", line, words);
        // The program passed no C.
        let batches = (m(2, 2).batch(6, 4), m(2, 2).batch(3, 4));
        let result = blas.multiply(batches.0, batches.1).map(drop);
        let line = line!() - 1;
        let words = "matrices of the batch A (6) must equal matrices of the batch B (3); \
                     give both `.batch(count, ..)` the same count, or pass one matrix for all products";
        says(result, "Blas::multiply", line, words);
        let result = blas.gemm(1.0, m(2, 2), batches.1, 0.0, out(&mut c, 2, 2));
        let line = line!() - 1;
        let words = "matrices of the batch B (3) must equal matrices of C (1); \
                     give both `.batch(count, ..)` the same count, or pass one matrix for all products";
        says(result, "Blas::gemm", line, words);
        let result = blas.gemm_batched(1.0, &[m(2, 2); 2], &[m(2, 2)], 0.0, &mut [out(&mut c, 2, 2)]);
        let line = line!() - 1;
        let words =
            "matrices in the list A (2) must equal matrices in the list C (1); pass lists of one length";
        says(result, "Blas::gemm_batched", line, words);
        let result = blas.gemv(1.0, m(2, 4), &a[..2], 0.0, &mut c[..4]);
        let line = line!() - 1;
        let words = "A is 2 x 4: columns of A (4) must equal elements of x (2); \
                     pass a slice of that length, or `.transposed()` for A";
        says(result, "Blas::gemv", line, words);
        let result = blas.trsm(Side::Left, Triangle::LOWER, 1.0, m(3, 2), out(&mut c, 3, 2));
        let line = line!() - 1;
        says(result, "Blas::trsm", line, "A must be square, and is 3 x 2");
        let result = blas.trsm(Side::Right, Triangle::LOWER, 1.0, m(3, 3), out(&mut c, 3, 2));
        let line = line!() - 1;
        let words = "A is 3 x 3, B is 3 x 2: rows of A (3) must equal columns of B (2); \
                     `Side::Left` solves A·X = B, and `Side::Right` X·A = B";
        says(result, "Blas::trsm", line, words);
        let result = blas.axpy(1.0, &a[..3], &mut c[..4]);
        let line = line!() - 1;
        let words = "elements of x (3) must equal elements of y (4); pass slices of one length";
        says(result, "Blas::axpy", line, words);
        let result = blas.dot(&a[..3], &a[..3], &mut c[..2]);
        let line = line!() - 1;
        let words = "the result has 2 elements, and the sum is one: pass a slice of one element, such as `&mut y[..1]`";
        says(result, "Blas::dot", line, words);
    })
    .unwrap();
}
