//! With handoffs: `acquire_all` joins the branches, `split_off` and one `release` fan out.

use std::time::Instant;

use cuda_rt::{Device, DeviceBuffer, Grid1, Handoff, Idle, Live, PinnedBuffer, Result, Stream, StreamTag};
use device_kernels::{add, scale};

use super::{FACTORS, HALF, LEN, compare, fill};
use crate::rounds::{Check, Outcome, Round, Watch, Way};

cuda_rt::streams! { pub Left; pub Right; pub Compute; }

/// What a branch uploads from, and its two arrays.
type Branch<D> = (
    PinnedBuffer<f32, Idle<D>>,
    DeviceBuffer<f32, Idle<D>>,
    DeviceBuffer<f32, Idle<D>>,
);
/// A branch, half of the sum, and the memory on the host for it.
type Side<D> = (Branch<D>, DeviceBuffer<f32, Idle<D>>, PinnedBuffer<f32, Idle<D>>);

pub(in super::super) struct Typed<D: Live> {
    left: Stream<Left<D>>,
    right: Stream<Right<D>>,
    compute: Stream<Compute<D>>,
    /// Nothing is in flight between two diamonds.
    sides: Option<[Side<D>; 2]>,
}

impl<D: Live> Typed<D> {
    pub(in super::super) fn new(gpu: &Device<D>) -> Result<Self> {
        let compute = gpu.stream::<Compute<D>>()?;
        let side = |half| {
            let input = compute.adopt(gpu.pinned(LEN)?)?;
            let branch = (input, compute.alloc_zeroed(LEN)?, compute.alloc_zeroed(LEN)?);
            let output = compute.adopt(gpu.pinned(HALF)?)?;
            compute.release((branch, half, output))?.synchronize()
        };
        let mut first = compute.alloc_zeroed(LEN)?;
        let second = first.split_off(HALF);
        let sides = Some([side(first)?, side(second)?]);
        Ok(Self {
            left: gpu.stream()?,
            right: gpu.stream()?,
            compute,
            sides,
        })
    }

    fn enqueue(&self, [left, right]: [Side<D>; 2]) -> Result<[Handoff<Side<D>>; 2]> {
        let compute = &self.compute;
        let (left, first, first_output) = left;
        let (right, second, second_output) = right;
        let left = branch(&self.left, left, FACTORS[0])?;
        let right = branch(&self.right, right, FACTORS[1])?;
        let (left, right) = compute.acquire_all((left, right))?;
        let halves = vec![compute.adopt(first)?, compute.adopt(second)?];
        let mut first = DeviceBuffer::join_all(halves)?;
        add(compute, Grid1::covering(LEN), &left.2, &right.2, &mut first)?;
        let second = first.split_off(HALF);
        let (left, right) = compute.release(((left, first), (right, second)))?.split();
        Ok([
            half(&self.left, left, first_output)?,
            half(&self.right, right, second_output)?,
        ])
    }
}

/// Uploads and scales.
fn branch<S: StreamTag>(
    stream: &Stream<S>,
    branch: Branch<S::Device>,
    factor: f32,
) -> Result<Handoff<Branch<S::Device>>>
where
    S::Device: Live,
{
    let (input, mut uploaded, mut scaled) = stream.adopt(branch)?;
    stream.copy_to_device(&input, &mut uploaded)?;
    scale(stream, Grid1::covering(LEN), &uploaded, &mut scaled, factor)?;
    stream.release((input, uploaded, scaled))
}

/// Downloads half of the sum.
fn half<S: StreamTag>(
    stream: &Stream<S>,
    added: Handoff<(Branch<S::Device>, DeviceBuffer<f32, Idle<S::Device>>)>,
    output: PinnedBuffer<f32, Idle<S::Device>>,
) -> Result<Handoff<Side<S::Device>>>
where
    S::Device: Live,
{
    let (branch, half) = stream.acquire(added)?;
    let mut output = stream.adopt(output)?;
    stream.copy_to_host(&half, &mut output)?;
    stream.release((branch, half, output))
}

impl<D: Live> Way for Typed<D> {
    fn round(&mut self, items: u32, check: Check) -> Outcome<Round> {
        let mut sides = self.sides.take().ok_or("each side comes back")?;
        let watch = Watch::start();
        for item in 0..items {
            for (number, side) in sides.iter_mut().enumerate() {
                fill(check, item, number, &mut side.0.0);
            }
            let [left, right] = self.enqueue(sides)?;
            sides = [left.synchronize()?, right.synchronize()?];
            for (half, side) in sides.iter().enumerate() {
                compare(check, item, half, &side.2)?;
            }
        }
        let round = watch.stop();
        self.sides = Some(sides);
        Ok(round)
    }

    fn burst(&mut self) -> Outcome<Option<f64>> {
        let sides = self.sides.take().ok_or("each side comes back")?;
        let started = Instant::now();
        let [left, right] = self.enqueue(sides)?;
        let time = started.elapsed();
        self.sides = Some([left.synchronize()?, right.synchronize()?]);
        Ok(Some(time.as_nanos() as f64))
    }
}
