//! A copy of foreign memory, which goes back to its owner once the copy is known to be over.

use crate::error::{During, Refused, Result};
use crate::memory::{DeviceBuffer, Element};
use crate::order::unless::Leaked;
use crate::stream::Stream;
use crate::tag::{Live, StreamTag};
use cuda_rt_driver::DeviceAddress;

impl<S: StreamTag> Stream<S>
where
    S::Device: Live,
{
    /// Copies the memory of `owner` into memory of this stream, waits for the copy, and drops the
    /// owner. Blocks the host.
    ///
    /// # Safety
    /// Until `owner` is dropped or returned, it keeps `len` elements of device memory at `source`,
    /// which hold values of `T`. No pending or later work uses them.
    ///
    /// # Errors
    /// [`Refused`] with the owner. If the copy may still be running, the owner is leaked, and
    /// [`Refused`] is empty.
    pub(crate) unsafe fn copied<T: Element, O>(
        &self,
        owner: O,
        source: DeviceAddress,
        len: usize,
        during: &'static str,
    ) -> Result<DeviceBuffer<T, S>, Refused<Option<O>>> {
        let allocated = self
            .alloc_uninit::<T>(len)
            .and_then(|copy| Ok((copy, self.call(during).driver()?)));
        let (copy, driver) = match allocated {
            Ok(allocated) => allocated,
            Err(error) => {
                let value = Some(owner);
                return Err(Refused { error, value });
            }
        };
        // A failed wait is not a finished wait, and neither is a wait that unwinds: the owner is
        // then leaked.
        let owner = Leaked::new(owner);
        // SAFETY: source and target are live and of that length. Nothing else uses the target,
        // which is new, or the source, by this function's contract.
        let copy_all = |at| unsafe { driver.copy(copy.address(), source, len * size_of::<T>(), at) };
        let copied = self.at().enqueue(copy_all);
        // The wait follows a failed copy too: the driver's error does not prove that no copy was
        // enqueued.
        let waited = self.core().wait_for_stream(self.at());
        if let Err(error) = copied.clone().and(waited.clone()).during(during) {
            let value = waited.is_ok().then(|| owner.take_back());
            return Err(Refused { error, value });
        }
        drop(owner.take_back());
        // SAFETY: the copy wrote every element.
        Ok(unsafe { copy.assume_init() })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::Device;
    use crate::error::Refused;
    use cuda_rt_driver::ErrorCode;
    use cuda_rt_simulator::{Call, SimConfig};

    crate::streams! { Compute; }

    #[test]
    fn memory_under_a_copy_whose_wait_fails_is_leaked_and_goes_back_otherwise() {
        let cases: [(&[Call], bool, usize); 5] = [
            (&[], false, 1),
            (&[Call::Alloc], true, 2),
            (&[Call::Copy], true, 2),
            (&[Call::SynchronizeStream], false, 2),
            // The driver may have enqueued the copy although the call failed.
            (&[Call::Copy, Call::SynchronizeStream], false, 2),
        ];
        for (fails, comes_back, holders) in cases {
            Device::simulated(SimConfig::new(), |gpu| {
                // Otherwise an allocation that finds no memory is made once more.
                gpu.set_memory_caching(false);
                let compute = gpu.stream::<Compute<_>>().unwrap();
                let mut source = compute.alloc_zeroed::<u32>(4).unwrap();
                compute.fill(&mut source, 7).unwrap();
                compute.synchronize().unwrap();
                let counted = Arc::new(());
                let simulator = gpu.simulator().unwrap();
                for call in fails {
                    simulator.fail_next(*call, ErrorCode::OUT_OF_MEMORY);
                }
                let owner = Arc::clone(&counted);
                // SAFETY: the source is live to the end of this closure, and used by nothing else.
                let copied = unsafe { compute.copied::<u32, _>(owner, source.address(), 4, "test") };
                let kept = match copied {
                    Ok(copy) => {
                        let mut back = [0; 4];
                        compute.copy_to_slice(&copy, &mut back).unwrap();
                        assert_eq!(back, [7; 4]);
                        None
                    }
                    Err(Refused { value, .. }) => value,
                };
                assert_eq!(
                    (kept.is_some(), Arc::strong_count(&counted)),
                    (comes_back, holders),
                    "{fails:?}"
                );
            })
            .unwrap();
        }
    }
}
