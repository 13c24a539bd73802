//! The devices on which a test runs, and random numbers.

use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, Scoped};
use cuda_rt_cublas::{Blas, BlasError, Layout, Matrix, MatrixMut};

cuda_rt::streams! { pub Compute; pub Other; }

/// Orders of the simulated device in which each test runs.
const SEEDS: u64 = 4;

/// Runs `body` on a simulated device for each of several seeds, and on every GPU with cuBLAS.
/// Without a GPU it prints a message; with `CUDA_RT_REQUIRE_GPU=1` that is a failure.
#[allow(dead_code, reason = "not each test binary uses everything")]
pub(crate) fn for_each_device(body: impl for<'id> Fn(&Device<Scoped<'id>>)) {
    for seed in 0..SEEDS {
        Device::simulated(SimConfig::default().seed(seed), |gpu| body(&gpu)).unwrap();
    }
    for_each_gpu(body);
}

/// Runs `body` on every GPU with cuBLAS.
#[allow(dead_code, reason = "not each test binary uses everything")]
pub(crate) fn for_each_gpu(body: impl for<'id> Fn(&Device<Scoped<'id>>)) {
    let missing = std::cell::Cell::new(None);
    let gpus = Device::for_each_gpu(|gpu| match Blas::new(&gpu.stream::<Compute<_>>().unwrap()) {
        Err(error @ BlasError::Library { .. }) => missing.set(Some(error.to_string())),
        _ => body(&gpu),
    });
    let why = match gpus.unwrap().len() {
        0 => Some("there is no GPU".to_owned()),
        _ => missing.take(),
    };
    if let Some(why) = why {
        assert!(
            std::env::var_os("CUDA_RT_REQUIRE_GPU").is_none(),
            "CUDA_RT_REQUIRE_GPU is set, and {why}"
        );
        eprintln!("SKIPPED ON CUDA: {why}");
    }
}

/// Random numbers (xorshift64*).
pub(crate) struct Random(u64);

#[allow(dead_code, reason = "not each test binary uses everything")]
impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize) % end
    }

    pub(crate) fn from(&mut self, range: std::ops::Range<usize>) -> usize {
        range.start + self.below(range.len())
    }

    pub(crate) fn flip(&mut self) -> bool {
        self.below(2) == 1
    }

    /// A small number with few bits, so that sums of `f32` are exact.
    pub(crate) fn small(&mut self) -> f64 {
        self.below(9) as f64 - 4.0
    }
}

/// A matrix or a batch in memory, as a test describes it.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "not each test binary uses everything")]
pub(crate) struct Place {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) layout: Layout,
    pub(crate) leading: usize,
    pub(crate) batch: Option<(usize, usize)>,
    /// Elements of the memory before and behind the matrices.
    pub(crate) before: usize,
    pub(crate) behind: usize,
}

#[allow(dead_code, reason = "not each test binary uses everything")]
impl Place {
    /// A random place for a matrix, or for a batch that may be written. Numbers are multiples of
    /// `unit`.
    pub(crate) fn random(
        random: &mut Random,
        (rows, columns): (usize, usize),
        count: Option<usize>,
        unit: usize,
    ) -> Self {
        let layout = if random.flip() {
            Layout::RowMajor
        } else {
            Layout::ColumnMajor
        };
        let (line, lines) = match layout {
            Layout::RowMajor => (columns, rows),
            Layout::ColumnMajor => (rows, columns),
        };
        let padding = |random: &mut Random| if random.flip() { 0 } else { random.below(5) * unit };
        let rounded = |number: usize| number.next_multiple_of(unit);
        let beside = count.is_some_and(|count| count > 1) && random.below(3) == 0;
        let (leading, batch) = if beside {
            let stride = rounded(line) + padding(random);
            let count = count.unwrap();
            (count * stride + padding(random), Some((count, stride)))
        } else {
            let leading = rounded(line) + padding(random);
            let stride = |random: &mut Random| rounded(lines * leading) + padding(random);
            (leading, count.map(|count| (count, stride(random))))
        };
        Self {
            rows,
            columns,
            layout,
            leading,
            batch,
            before: padding(random),
            // Lines are read in units.
            behind: rounded(line) - line + random.below(3),
        }
    }

    pub(crate) fn at(&self, index: usize, row: usize, column: usize) -> usize {
        let start = self.before + index * self.batch.map_or(0, |(_, stride)| stride);
        match self.layout {
            Layout::RowMajor => start + row * self.leading + column,
            Layout::ColumnMajor => start + column * self.leading + row,
        }
    }

    /// Elements of the memory.
    pub(crate) fn len(&self) -> usize {
        let last = self.batch.map_or(0, |(count, _)| count - 1);
        self.at(last, self.rows - 1, self.columns - 1) + 1 + self.behind
    }

    pub(crate) fn matrix<'a, T, P>(&self, memory: &'a cuda_rt::DeviceSlice<T, P>) -> Matrix<'a, T, P> {
        let matrix = Matrix::new(&memory[self.before..], self.rows, self.columns);
        let matrix = match self.layout {
            Layout::RowMajor => matrix,
            Layout::ColumnMajor => matrix.column_major(),
        };
        let matrix = matrix.leading_dimension(self.leading);
        match self.batch {
            None => matrix,
            Some((count, stride)) => matrix.batch(count, stride),
        }
    }

    pub(crate) fn matrix_mut<'a, T, P>(
        &self,
        memory: &'a mut cuda_rt::DeviceSlice<T, P>,
    ) -> MatrixMut<'a, T, P> {
        let matrix = MatrixMut::new(&mut memory[self.before..], self.rows, self.columns);
        let matrix = match self.layout {
            Layout::RowMajor => matrix,
            Layout::ColumnMajor => matrix.column_major(),
        };
        let matrix = matrix.leading_dimension(self.leading);
        match self.batch {
            None => matrix,
            Some((count, stride)) => matrix.batch(count, stride),
        }
    }
}
