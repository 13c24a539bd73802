//! Copies between two devices by handoffs, in one direction and in both.

use cuda_rt::{Device, DeviceBuffer, Handoff, Idle, Live, Result, Stream};
use cuda_rt_examples::cli::Outcome;

use crate::Args;
use crate::clock::{Clock, best, gb_per_s};

cuda_rt::streams! {
    /// Copies.
    Copies;
}

/// Rates of copies, in GB/s.
pub(crate) struct Rates {
    /// A device copies from the other device.
    pub(crate) pull: f64,
    /// A device copies to the other device.
    pub(crate) push: f64,
    /// Each device copies from the other at the same time: the sum of both rates.
    pub(crate) both: f64,
}

/// A device, its stream, and the memory that the other device copies.
struct Side<'a, D: Live> {
    gpu: &'a Device<D>,
    copies: Stream<Copies<D>>,
    /// The destination of copies from the other device.
    here: DeviceBuffer<u32, Copies<D>>,
    /// The memory that the other device copies.
    lent: Option<Handoff<DeviceBuffer<u32, Idle<D>>>>,
}

impl<'a, D: Live> Side<'a, D> {
    fn new(gpu: &'a Device<D>, len: usize, first: u32) -> Result<Self> {
        let copies = gpu.stream::<Copies<D>>()?;
        let mut host = gpu.pinned::<u32>(len)?;
        (first..)
            .zip(host.iter_mut())
            .for_each(|(number, word)| *word = number);
        let host = copies.adopt(host)?;
        let lent = copies.init_from_host(copies.alloc_uninit(len)?, &host)?;
        Ok(Self {
            gpu,
            here: copies.alloc_zeroed(len)?,
            lent: Some(copies.release(lent)?),
            copies,
        })
    }

    fn pull<E: Live>(&mut self, from: &mut Side<'_, E>) -> Result<()> {
        let lent = from.lent.take().expect("each that is taken comes back");
        from.lent = Some(self.copies.copy_from_peer(lent, .., &mut self.here)?);
        Ok(())
    }

    fn push<E: Live>(&mut self, to: &mut Side<'_, E>) -> Result<()> {
        let lent = to.lent.take().expect("each that is taken comes back");
        to.lent = Some(self.copies.copy_to_peer(&self.here, lent, ..)?);
        Ok(())
    }

    /// Compares the received data with the numbers from `first` on.
    fn check(&self, first: u32) -> Outcome {
        let mut host = self.copies.adopt(self.gpu.pinned::<u32>(self.here.len())?)?;
        self.copies.copy_to_host(&self.here, &mut host)?;
        let host = self.copies.release(host)?.synchronize()?;
        match (first..)
            .zip(host.iter())
            .position(|(number, word)| number != *word)
        {
            None => Ok(()),
            Some(wrong) => Err(format!("word {wrong} was not copied correctly").into()),
        }
    }
}

pub(crate) fn measure<A: Live, B: Live>(
    first: &Device<A>,
    second: &Device<B>,
    args: &Args,
) -> Outcome<Rates> {
    let len = args.mib_on(first) << 18;
    let (mut a, mut b) = (Side::new(first, len, 1)?, Side::new(second, len, 1 << 31)?);
    a.pull(&mut b)?;
    b.pull(&mut a)?;
    a.check(1 << 31)?;
    b.check(1)?;

    let bytes = args.copies as usize * len * size_of::<u32>();
    let pull = best(first, || -> Result<_> {
        let clock = Clock::start(first);
        for _ in 0..args.copies {
            a.pull(&mut b)?;
        }
        a.copies.synchronize()?;
        Ok(clock.elapsed(first))
    })?;
    let both = best(first, || -> Result<_> {
        let clock = Clock::start(first);
        for _ in 0..args.copies {
            a.pull(&mut b)?;
            b.pull(&mut a)?;
        }
        a.copies.synchronize()?;
        b.copies.synchronize()?;
        Ok(clock.elapsed(first))
    })?;
    // The handoff gives the same buffer back.
    let push = best(first, || -> Result<_> {
        let clock = Clock::start(first);
        for _ in 0..args.copies {
            a.push(&mut b)?;
        }
        a.copies.synchronize()?;
        Ok(clock.elapsed(first))
    })?;
    a.pull(&mut b)?;
    a.check(1 << 31)?;
    Ok(Rates {
        pull: gb_per_s(bytes, pull),
        push: gb_per_s(bytes, push),
        both: gb_per_s(2 * bytes, both),
    })
}
