//! With `Pipeline`, which has threads and slots of its own. The time runs from the first fill to
//! the end of the last sink, without the start of the threads and the allocation of memory.

use std::sync::OnceLock;

use cuda_rt::pipeline::Pipeline;
use cuda_rt::{Device, Grid1, Live};
use device_kernels::scale;

use super::typed::{Compute, Download, Upload};
use super::{FACTOR, LEN, SLOTS, compare, fill};
use crate::rounds::{Check, Outcome, Round, Watch, Way};

pub(in super::super) struct ByPipeline<D: Live>(Device<D>);

impl<D: Live> ByPipeline<D> {
    pub(in super::super) fn new(gpu: &Device<D>) -> Self {
        Self(gpu.clone())
    }
}

impl<D: Live> Way for ByPipeline<D> {
    fn round(&mut self, items: u32, check: Check) -> Outcome<Round> {
        let mut between = self.0.stream::<Compute<D>>()?.alloc_zeroed(LEN)?;
        let (watch, mut round) = (OnceLock::new(), None);
        let ready = Pipeline::new(&self.0, SLOTS)
            .untimed()
            .source(LEN, 0..items, |item, data: &mut [f32]| {
                watch.get_or_init(Watch::start);
                fill(check, *item, data);
                Ok(data.len())
            })
            .upload::<Upload<D>>()
            .stage::<Compute<D>>(|stream, _item, input, output| {
                let grid = || Grid1::covering(LEN);
                scale(stream, grid(), input, &mut between, FACTOR)?;
                scale(stream, grid(), &between, output, FACTOR)?;
                scale(stream, grid(), output, &mut between, FACTOR)?;
                scale(stream, grid(), &between, output, FACTOR)
            })
            .download::<Download<D>>()
            .sink(|item, data| {
                compare(check, item, data)?;
                if item == items - 1 {
                    round = watch.get().map(Watch::so_far);
                }
                Ok(())
            });
        let report = ready.run()?;
        if report.items != u64::from(items) {
            return Err(format!("{} items came back instead of {items}", report.items).into());
        }
        Ok(round.ok_or("the last item did not come back")?)
    }
}
