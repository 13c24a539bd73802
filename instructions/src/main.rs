//! Repeats one operation of cuda-rt, for a profiler that counts instructions:
//! `cargo xtask instructions` runs it over `libcuda.c`, a driver library that does nothing.
//!
//! `cuda-rt-instructions` lists the operations, `cuda-rt-instructions NAME COUNT` repeats one.
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::hint::black_box;
use std::process::ExitCode;

use cuda_rt::{AnyStream, Device, DeviceBuffer, Grid1, Handoff, Idle, PinnedBuffer, Priority, Stream};
use cuda_rt_cublas::{Blas, Matrix, MatrixMut};
use cuda_rt_cufft::{Complex, Plan, Shape};
use device_kernels::{add, process, scale};

cuda_rt::streams! {
    Compute;
    Other;
    Third;
}

const LEN: usize = 1024;

/// The name of an operation, and what it does each time.
type Operation<'a> = (&'static str, Box<dyn FnMut() + 'a>);

/// What the operations work on.
struct Setting {
    gpu: Device,
    compute: Stream<Compute>,
    other: Stream<Other>,
    third: Stream<Third>,
}

type Data<S> = DeviceBuffer<f32, S>;

/// The memory of one item of the program `small-items` of the package `bench`.
type Slot = (
    PinnedBuffer<f32, Idle>,
    DeviceBuffer<f32, Idle>,
    DeviceBuffer<f32, Idle>,
    PinnedBuffer<f32, Idle>,
);

impl Setting {
    fn open() -> cuda_rt::Result<Self> {
        let gpu = Device::open()?;
        Ok(Self {
            compute: gpu.stream()?,
            other: gpu.stream()?,
            third: gpu.stream()?,
            gpu,
        })
    }

    fn data(&self) -> Data<Compute> {
        self.compute.alloc_zeroed(LEN).unwrap()
    }

    fn pinned(&self) -> PinnedBuffer<f32, Compute> {
        self.compute.adopt(self.gpu.pinned(LEN).unwrap()).unwrap()
    }

    fn operations(&self) -> Vec<Operation<'_>> {
        let mut all = self.launches();
        all.extend(self.memory());
        all.extend(self.handoffs());
        all.push(self.item());
        all.extend(self.at_run_time());
        all.push(self.product());
        all.push(self.transform());
        all
    }

    fn launches(&self) -> Vec<Operation<'_>> {
        let (compute, grid) = (&self.compute, Grid1::covering(LEN));
        let (input, mut output, mut processed) = (self.data(), self.data(), self.data());
        let (left, right) = (self.data(), self.data());
        let step = compute.capture((self.data(), self.data()), |stream, (input, mut output)| {
            scale(stream, grid, &input, &mut output, 2.0)
        });
        let mut graph = step.unwrap();
        vec![
            (
                "launch with two buffers and a number",
                Box::new({
                    let input = self.data();
                    move || scale(compute, grid, &input, &mut output, 2.0).unwrap()
                }),
            ),
            (
                "launch with two buffers and two numbers",
                Box::new(move || process(compute, grid, &input, &mut processed, 2.0, 1.0).unwrap()),
            ),
            (
                "launch into new memory, which is freed",
                Box::new(move || {
                    let sum = compute.alloc_uninit::<f32>(LEN).unwrap();
                    drop(add(compute, grid, &left, &right, sum).unwrap());
                }),
            ),
            (
                "launch of a graph",
                Box::new(move || graph.launch(compute).unwrap()),
            ),
        ]
    }

    fn memory(&self) -> Vec<Operation<'_>> {
        let compute = &self.compute;
        let (mut filled, mut target, source) = (self.data(), self.data(), self.data());
        let (mut host, uploaded) = (self.pinned(), self.pinned());
        vec![
            (
                "allocation, fill and free",
                Box::new(|| drop(compute.alloc_zeroed::<f32>(LEN).unwrap())),
            ),
            ("fill", Box::new(move || compute.fill(&mut filled, 1.0).unwrap())),
            (
                "upload from pinned memory",
                Box::new(move || compute.copy_to_device(&uploaded, &mut target).unwrap()),
            ),
            (
                "download to pinned memory",
                Box::new(move || compute.copy_to_host(&source, &mut host).unwrap()),
            ),
            (
                "a pinned block from the pool, to a stream and back",
                Box::new(|| {
                    let host = compute
                        .adopt(self.gpu.pinned_uninit::<f32>(LEN).unwrap())
                        .unwrap();
                    drop(black_box(host));
                }),
            ),
        ]
    }

    fn handoffs(&self) -> Vec<Operation<'_>> {
        let (compute, other) = (&self.compute, &self.other);
        let one = RefCell::new(Some(self.data()));
        let pair = RefCell::new(Some((self.data(), self.pinned())));
        let three = RefCell::new(Some((self.data(), self.data(), self.data())));
        let singly = RefCell::new(Some([self.data(), self.data(), self.data()]));
        let waited = RefCell::new(Some(self.pinned()));
        let shared = compute.share(self.data()).unwrap();
        let lent = self.data();
        let mut read = other.alloc_zeroed::<f32>(LEN).unwrap();
        vec![
            (
                "handoff of a device buffer, there and back",
                Box::new(move || {
                    let there = compute.release(one.take().unwrap()).unwrap();
                    let there = other.acquire(there).unwrap();
                    let back = compute.acquire(other.release(there).unwrap()).unwrap();
                    *one.borrow_mut() = Some(back);
                }),
            ),
            (
                "handoff of a device and a pinned buffer, there and back",
                Box::new(move || {
                    let there = compute.release(pair.take().unwrap()).unwrap();
                    let there = other.acquire(there).unwrap();
                    let back = compute.acquire(other.release(there).unwrap()).unwrap();
                    *pair.borrow_mut() = Some(back);
                }),
            ),
            (
                "handoff of a bundle of three, there and back",
                Box::new(move || {
                    let there = compute.release(three.take().unwrap()).unwrap();
                    let there = other.acquire(there).unwrap();
                    let back = compute.acquire(other.release(there).unwrap()).unwrap();
                    *three.borrow_mut() = Some(back);
                }),
            ),
            (
                "handoffs of three buffers one by one, there and back",
                Box::new(move || {
                    let there = singly.take().unwrap().map(|one| compute.release(one).unwrap());
                    let there = there.map(|one| other.acquire(one).unwrap());
                    let back = there.map(|one| other.release(one).unwrap());
                    *singly.borrow_mut() = Some(back.map(|one| compute.acquire(one).unwrap()));
                }),
            ),
            (
                "the host waits for a pinned buffer",
                Box::new(move || {
                    let there = compute.release(waited.take().unwrap()).unwrap();
                    *waited.borrow_mut() = Some(compute.adopt(there.synchronize().unwrap()).unwrap());
                }),
            ),
            (
                "a lease of a shared buffer, on another stream",
                Box::new(move || drop(black_box(other.lease(&shared).unwrap()))),
            ),
            (
                "a loan to another stream, which copies, and back",
                Box::new(move || {
                    let copied = compute.lend_ref(other, &lent, |lent| other.copy(lent, &mut read));
                    copied.unwrap().unwrap();
                }),
            ),
        ]
    }

    /// An item of the program `small-items` of the package `bench`, with its four slots.
    fn item(&self) -> Operation<'_> {
        let (upload, compute, download) = (&self.other, &self.compute, &self.third);
        let slot = || {
            let (input, output) = (self.pinned(), self.pinned());
            compute
                .release((input, self.data(), self.data(), output))
                .unwrap()
        };
        let mut slots: VecDeque<Handoff<Slot>> = (0..4).map(|_| slot()).collect();
        let enqueue = move |slot: Slot| -> cuda_rt::Result<Handoff<Slot>> {
            let (input, mut a, b, output) = upload.adopt(slot)?;
            upload.copy_to_device(&input, &mut a)?;
            let uploaded = upload.release((input, a, b, output))?;
            let (input, mut a, mut b, output) = compute.acquire(uploaded)?;
            for _ in 0..2 {
                scale(compute, Grid1::covering(LEN), &a, &mut b, 2.0)?;
                scale(compute, Grid1::covering(LEN), &b, &mut a, 2.0)?;
            }
            let computed = compute.release((input, a, b, output))?;
            let (input, a, b, mut output) = download.acquire(computed)?;
            download.copy_to_host(&a, &mut output)?;
            download.release((input, a, b, output))
        };
        (
            "a small item: an upload, four launches, a download, on three streams",
            Box::new(move || {
                let mut slot = slots.pop_front().unwrap().synchronize().unwrap();
                slot.0[0] = black_box(slot.3[0]);
                slots.push_back(enqueue(slot).unwrap());
            }),
        )
    }

    fn at_run_time(&self) -> Vec<Operation<'_>> {
        let create = |name| self.gpu.create_stream(name, Priority::High).unwrap();
        let (one, two) = (create("one"), create("two"));
        let new =
            |stream: &AnyStream| stream.run(|s| Ok::<_, cuda_rt::Error>(s.keep(s.alloc_zeroed::<f32>(LEN)?)));
        let mut viewed = new(&one).unwrap();
        let here = RefCell::new(Some(new(&one).unwrap()));
        let viewer = one.clone();
        vec![
            (
                "a view on a stream of run time, and a fill of it",
                Box::new(move || {
                    let filled = viewer.run(|s| s.fill(&mut s.view(&mut viewed)?, 1.0));
                    filled.unwrap();
                }),
            ),
            (
                "another stream of run time takes a buffer over, there and back",
                Box::new(move || {
                    let there = two.run(|s| s.open_ordered(here.take().unwrap()).map(|data| s.keep(data)));
                    let back = one.run(|s| s.open_ordered(there.unwrap()).map(|data| s.keep(data)));
                    *here.borrow_mut() = Some(back.unwrap());
                }),
            ),
        ]
    }

    /// Over a cuBLAS that does nothing.
    fn product(&self) -> Operation<'_> {
        const SIDE: usize = 32;
        let blas = Blas::new(&self.compute).unwrap();
        let (a, b, mut c) = (self.data(), self.data(), self.data());
        (
            "a product of two matrices by cuBLAS",
            Box::new(move || {
                let (a, b) = (Matrix::new(&a, SIDE, SIDE), Matrix::new(&b, SIDE, SIDE));
                blas.gemm(1.0, a, b, 0.0, MatrixMut::new(&mut c, SIDE, SIDE))
                    .unwrap();
            }),
        )
    }

    /// Over a cuFFT that does nothing.
    fn transform(&self) -> Operation<'_> {
        let plan = Plan::<f32, Complex<f32>, _>::new(&self.compute, Shape::line(LEN)).unwrap();
        let signal = self.data();
        let mut spectrum = self.compute.alloc_zeroed(plan.output_len()).unwrap();
        (
            "a Fourier transform by cuFFT",
            Box::new(move || plan.forward(&signal, &mut spectrum).unwrap()),
        )
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let setting = Setting::open().expect("a driver library");
    let mut operations = setting.operations();
    match arguments.as_slice() {
        [] => {
            for (name, _) in operations {
                println!("{name}");
            }
            ExitCode::SUCCESS
        }
        [name, count] => {
            let count: u64 = count.parse().expect("a number");
            let found = operations.iter_mut().find(|(found, _)| found == name);
            let (_, operation) = found.expect("the name of an operation");
            for _ in 0..count {
                operation();
            }
            ExitCode::SUCCESS
        }
        _ => ExitCode::from(2),
    }
}
