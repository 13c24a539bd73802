//! [`Handoff::join`] and [`Stream::acquire_all`]: several handoffs taken over as one.

use crate::error::Result;
use crate::memory::Bundle;
use crate::order::fence::Fence;
use crate::order::handoff::Handoff;
use crate::order::unless::Leaked;
use crate::stream::Stream;
use crate::tag::{SameAs, StreamTag};

mod sealed {
    use super::{Bundle, Fence, Handoff, Leaked};

    #[diagnostic::on_unimplemented(
        message = "`{Self}` is not a handoff, nor a tuple, array or `Vec` of handoffs",
        label = "cannot be joined",
        note = "H06: join what streams have released: `let handoff = owner.release(buffer)?;`"
    )]
    /// Several handoffs. Safe code of other crates can call the method through the bound
    /// [`Handoffs`](super::Handoffs), although it cannot name this trait. So the method returns a
    /// handoff, and never the pending bundle.
    pub trait Parts: Sized {
        /// The bundles of the handoffs, as one bundle.
        type Bundle: Bundle;

        /// One handoff of all of them.
        fn joined(self) -> Handoff<Self::Bundle>;
    }

    impl<R: Bundle> Parts for Handoff<R> {
        type Bundle = R;

        fn joined(self) -> Self {
            self
        }
    }

    impl<H: Parts> Parts for Vec<H> {
        type Bundle = Vec<H::Bundle>;

        fn joined(self) -> Handoff<Self::Bundle> {
            // Unwinding drops handoffs, which frees their bundles behind their fences.
            let handoffs: Vec<_> = self.into_iter().map(Parts::joined).collect();
            let mut fences = Vec::with_capacity(handoffs.len());
            let mut parts = Leaked::new(Vec::with_capacity(handoffs.len()));
            for handoff in handoffs {
                let (part, fence) = handoff.into_parts();
                fences.push(fence);
                parts.push(part.take_back());
            }
            let fence = Fence::all(fences);
            // SAFETY: HANDOFF-1 held of each handoff, and this fence is over when all of their
            // fences are.
            unsafe { Handoff::pending(parts.take_back(), fence) }
        }
    }

    impl<H: Parts, const N: usize> Parts for [H; N] {
        type Bundle = [H::Bundle; N];

        fn joined(self) -> Handoff<Self::Bundle> {
            // As for a `Vec`.
            let handoffs = self.map(Parts::joined);
            let mut fences = Vec::with_capacity(N);
            let parts = handoffs.map(|handoff| {
                let (part, fence) = handoff.into_parts();
                fences.push(fence);
                part
            });
            let fence = Fence::all(fences);
            // SAFETY: HANDOFF-1 held of each handoff, and this fence is over when all of their
            // fences are.
            unsafe { Handoff::pending(parts.map(Leaked::take_back), fence) }
        }
    }

    macro_rules! tuples {
        ($(($($part:ident $value:ident),*);)*) => { $(
            impl<$($part: Parts),*> Parts for ($($part,)*)
            where
                ($($part::Bundle,)*): Bundle,
            {
                type Bundle = ($($part::Bundle,)*);

                fn joined(self) -> Handoff<Self::Bundle> {
                    let ($($value,)*) = self;
                    // As for a `Vec`.
                    $(let $value = $value.joined();)*
                    $(let $value = $value.into_parts();)*
                    let fence = Fence::all([$($value.1,)*]);
                    // SAFETY: HANDOFF-1 held of each handoff, and this fence is over when all of
                    // their fences are.
                    unsafe { Handoff::pending(($($value.0.take_back(),)*), fence) }
                }
            }
        )* };
    }

    tuples! {
        (A a);
        (A a, B b);
        (A a, B b, C c);
        (A a, B b, C c, E e);
        (A a, B b, C c, E e, F f);
        (A a, B b, C c, E e, F f, G g);
        (A a, B b, C c, E e, F f, G g, H h);
        (A a, B b, C c, E e, F f, G g, H h, I i);
    }
}

/// Handoffs that can be taken over as one: a [`Handoff`], and tuples of up to 8, arrays and `Vec`s
/// of handoffs, nested to any depth. All are of one device.
pub trait Handoffs: sealed::Parts<Bundle = <Self as Handoffs>::Carried> {
    /// The bundles of all handoffs, as one bundle.
    type Carried: Bundle;
}

impl<H: sealed::Parts> Handoffs for H {
    type Carried = H::Bundle;
}

impl<R: Bundle> Handoff<R> {
    /// Makes one handoff of several, whose [fence](Handoff) holds the events of all. Calls nothing
    /// of the driver. [`split`](Handoff::split) undoes the join.
    ///
    /// # Hazards prevented
    /// [H10](crate::hazards#h10): the stream that acquires the result waits for every handoff.
    /// Counterexample: if the result kept the event of the last release only, a stream could read
    /// the bundle while an upload on another stream still writes its first part.
    ///
    /// ```
    /// # cuda_rt::streams! { pub Left; pub Right; pub Compute; }
    /// # use cuda_rt::Handoff;
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// # let (left, right) = (gpu.stream::<Left>()?, gpu.stream::<Right>()?);
    /// # let compute = gpu.stream::<Compute>()?;
    /// let a = left.release(left.alloc_zeroed::<f32>(64)?)?;
    /// let b = right.release(right.alloc_zeroed::<f32>(64)?)?;
    /// let both: Handoff<_> = Handoff::join((a, b));
    /// let (a, b) = compute.acquire(both)?; // waits for both streams, on the GPU
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn join<H: Handoffs<Carried = R>>(handoffs: H) -> Self {
        handoffs.joined()
    }
}

impl<S: StreamTag> Stream<S> {
    /// Takes over several handoffs at once: later work of this stream waits, on the GPU, for the
    /// events of each (`cuStreamWaitEvent`). The wait for an event that this stream recorded is
    /// skipped. Stream-ordered.
    ///
    /// # Hazards prevented
    /// As [`acquire`](Self::acquire), and [H10](crate::hazards#h10).
    ///
    /// # Errors
    /// [`Error::Driver`](crate::Error::Driver) if a wait cannot be enqueued. All bundles are then
    /// freed behind their events; [`try_acquire`](Self::try_acquire) of [`Handoff::join`] gives
    /// them back.
    ///
    /// ```
    /// # cuda_rt::streams! { pub Left; pub Right; pub Compute; }
    /// # let gpu = cuda_rt::Device::open_or_simulate()?;
    /// # let (left, right) = (gpu.stream::<Left>()?, gpu.stream::<Right>()?);
    /// # let compute = gpu.stream::<Compute>()?;
    /// let a = left.release(left.alloc_from_slice(&[1_u32])?)?;
    /// let b = right.release(right.alloc_from_slice(&[2_u32])?)?;
    /// let (a, b) = compute.acquire_all((a, b))?; // one call, and a wait for each
    /// assert_eq!((compute.copy_to_vec(&a)?, compute.copy_to_vec(&b)?), (vec![1], vec![2]));
    ///
    /// // As many as there are at run time:
    /// let tiles: Vec<_> = (0..3_u32)
    ///     .map(|tile| left.release(left.alloc_from_slice(&[tile])?))
    ///     .collect::<Result<_, _>>()?;
    /// let tiles = compute.acquire_all(tiles)?;
    /// assert_eq!(compute.copy_to_vec(&tiles[2])?, [2]);
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn acquire_all<H: Handoffs>(&self, handoffs: H) -> Result<<H::Carried as Bundle>::On<S>>
    where
        <H::Carried as Bundle>::Device: SameAs<S::Device>,
    {
        self.acquire(Handoff::join(handoffs))
    }
}
