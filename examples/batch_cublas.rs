//! NVIDIA's sample `batchCUBLAS`: many small products, one by one, as a list, and as a batch of
//! matrices at equal distances.

#![forbid(unsafe_code)]

use clap::Parser;
use cuda_rt::{Device, DeviceBuffer, Live, Stream};
use cuda_rt_cublas::{Blas, Matrix, MatrixMut, Multiply, Real, Result};
use cuda_rt_examples::cli::{DeviceChoice, Outcome, heading};
use cuda_rt_examples::on_device;

cuda_rt::streams! { Compute; }

/// Multiplies many small matrices, in three ways.
#[derive(Parser)]
struct Args {
    /// The device to run on.
    #[arg(long, value_enum, default_value_t)]
    device: DeviceChoice,
    /// Number of products.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    products: u32,
    /// Rows and columns of each matrix.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=512))]
    side: u16,
}

/// The matrices of one type: `count` of `side` rows and columns, one behind the other.
struct Batch<T, D: Live> {
    a: DeviceBuffer<T, Compute<D>>,
    b: DeviceBuffer<T, Compute<D>>,
    c: DeviceBuffer<T, Compute<D>>,
    side: usize,
    count: usize,
}

type Way<T, D> = fn(&Blas<Compute<D>>, &mut Batch<T, D>) -> Result<()>;

fn one_by_one<T: Real, D: Live>(blas: &Blas<Compute<D>>, batch: &mut Batch<T, D>) -> Result<()> {
    let (side, len) = (batch.side, batch.side * batch.side);
    let inputs = batch.a.chunks_exact(len).zip(batch.b.chunks_exact(len));
    for ((a, b), c) in inputs.zip(batch.c.chunks_exact_mut(len)) {
        let (a, b) = (Matrix::new(a, side, side), Matrix::new(b, side, side));
        blas.gemm(T::ONE, a, b, T::ZERO, MatrixMut::new(c, side, side))?;
    }
    Ok(())
}

fn as_list<T: Real, D: Live>(blas: &Blas<Compute<D>>, batch: &mut Batch<T, D>) -> Result<()> {
    let (side, len) = (batch.side, batch.side * batch.side);
    let a: Vec<_> = batch
        .a
        .chunks_exact(len)
        .map(|a| Matrix::new(a, side, side))
        .collect();
    let b: Vec<_> = batch
        .b
        .chunks_exact(len)
        .map(|b| Matrix::new(b, side, side))
        .collect();
    let outputs = batch.c.chunks_exact_mut(len);
    let mut c: Vec<_> = outputs.map(|c| MatrixMut::new(c, side, side)).collect();
    blas.gemm_batched(T::ONE, &a, &b, T::ZERO, &mut c)
}

fn as_batch<T: Real, D: Live>(blas: &Blas<Compute<D>>, batch: &mut Batch<T, D>) -> Result<()> {
    let (side, len, count) = (batch.side, batch.side * batch.side, batch.count);
    let a = Matrix::new(&batch.a, side, side).batch(count, len);
    let b = Matrix::new(&batch.b, side, side).batch(count, len);
    let c = MatrixMut::new(&mut batch.c, side, side).batch(count, len);
    blas.gemm(T::ONE, a, b, T::ZERO, c)
}

/// Runs each way, and compares all results with the product of equal numbers.
fn measure<T, D>(
    name: &str,
    (compute, blas): (&Stream<Compute<D>>, &Blas<Compute<D>>),
    args: &Args,
    (half, sum): (T, T),
) -> Outcome
where
    T: Real + Multiply<T>,
    D: Live,
{
    let (side, count) = (usize::from(args.side), args.products as usize);
    let filled = |value| compute.init_filled(compute.alloc_uninit(side * side * count)?, value);
    let mut batch = Batch {
        a: filled(half)?,
        b: filled(half)?,
        c: filled(T::ZERO)?,
        side,
        count,
    };
    let ways: [(&str, Way<T, D>); 3] = [
        ("one by one", one_by_one),
        ("as a list", as_list),
        ("as a batch", as_batch),
    ];
    for (way, multiply) in ways {
        multiply(blas, &mut batch)?; // the first call loads cuBLAS' kernels
        let start = compute.record_timed_event()?;
        multiply(blas, &mut batch)?;
        let end = compute.record_timed_event()?;
        let ms = end.synchronize()?.elapsed_ms_since(&start.synchronize()?)?;
        if compute.copy_to_vec(&batch.c)?.iter().any(|value| *value != sum) {
            return Err(format!("{name} {way}: a wrong element").into());
        }
        compute.fill(&mut batch.c, T::ZERO)?;
        let operations = 2.0 * count as f64 * (side as f64).powi(3);
        println!(
            "{name} {way:>10}: {ms:8.3} ms, {:8.1} GFLOP/s",
            operations / f64::from(ms) / 1e6
        );
    }
    Ok(())
}

fn run<D: Live>(gpu: &Device<D>, args: &Args) -> Outcome {
    println!("{}", heading(gpu));
    let compute = gpu.stream::<Compute<D>>()?;
    let blas = Blas::new(&compute)?;
    let on = (&compute, &blas);
    println!("{} products of {side} x {side}", args.products, side = args.side);
    let quarter = f32::from(args.side) / 4.0;
    measure("f32", on, args, (0.5_f32, quarter))?;
    measure("f64", on, args, (0.5_f64, f64::from(quarter)))?;
    println!("all elements right");
    Ok(())
}

fn main() -> Outcome {
    let args = Args::parse();
    on_device!(args.device, |gpu| run(gpu, &args))
}
