//! Work on one or two bundles, which come to the stream in different ways: moved, joined, lent, or
//! from a slot.

use std::sync::Arc;

use cuda_rt::{Handoff, Live, Slot, Stream};

use super::{Side, catch, on_lane, on_named, one_part, panic_on_purpose, work_on};
use crate::counts::Kind;
use crate::object::{Buffers, IdleBundle, Lane, Owned, State};
use crate::plan::{Kernel, Meet, Work};
use crate::work::{Op, apply, apply_read, enqueue, read, resolve};

impl<D: Live> Side<D> {
    pub(crate) fn both<S: Lane<D>>(
        &mut self,
        stream: &Stream<S>,
        x: usize,
        y: usize,
        work: Work,
        meet: Meet,
    ) {
        if x == y {
            return self.work(stream, x, work);
        }
        let Some((mut first, mut second)) = self.meet(stream, x, y, meet) else {
            return;
        };
        let mut expected = [x, y].map(|i| std::mem::take(&mut self.objects[i].expected));
        let [a, b] = &mut expected;
        let result = work_on(stream, work, &mut [&mut first, &mut second], &mut [a, b]);
        self.worked(result, &[a, b]);
        for ((i, bundle), expected) in [(x, first), (y, second)].into_iter().zip(expected) {
            self.objects[i].expected = expected;
            self.put(i, S::keep(stream, bundle));
        }
    }

    /// Both bundles on the stream. `None` if one could not come; both are then at other places.
    fn meet<S: Lane<D>>(
        &mut self,
        stream: &Stream<S>,
        x: usize,
        y: usize,
        meet: Meet,
    ) -> Option<(Buffers<S>, Buffers<S>)> {
        let lanes = Arc::clone(&self.lanes);
        if let Meet::Each = meet {
            let state = self.take(x);
            let first = lanes
                .bring(state, stream)
                .map_err(|instead| self.put(x, instead))
                .ok()?;
            let state = self.take(y);
            return match lanes.bring(state, stream) {
                Ok(second) => Some((first, second)),
                Err(instead) => {
                    self.put(y, instead);
                    self.put(x, S::keep(stream, first));
                    None
                }
            };
        }
        let joined = self.in_transit(x, y, meet)?;
        match stream.try_acquire(joined) {
            Ok(both) => Some(both),
            Err(refused) => {
                let (first, second) = refused.value.split();
                self.put(x, (State::Pending(first), Some(refused.error)));
                self.put(y, (State::Pending(second), None));
                None
            }
        }
    }

    /// Both bundles behind one handoff.
    fn in_transit(
        &mut self,
        x: usize,
        y: usize,
        meet: Meet,
    ) -> Option<Handoff<(IdleBundle<D>, IdleBundle<D>)>> {
        let lanes = Arc::clone(&self.lanes);
        macro_rules! together {
            ($stream:ident $name:ident $a:ident $b:ident $split:ident) => {
                match lanes.$stream.try_release(($a, $b)) {
                    Ok(handoff) if $split => Some(Handoff::join(handoff.split())),
                    Ok(handoff) => Some(handoff),
                    Err(refused) => {
                        let (a, b) = refused.value;
                        self.put(x, (State::On(Owned::$name(a)), Some(refused.error)));
                        self.put(y, (State::On(Owned::$name(b)), None));
                        None
                    }
                }
            };
        }
        let (first, second) = match (meet, self.take(x), self.take(y)) {
            (Meet::Tuple { split }, State::On(Owned::First(a)), State::On(Owned::First(b))) => {
                return together!(first First a b split);
            }
            (Meet::Tuple { split }, State::On(Owned::Second(a)), State::On(Owned::Second(b))) => {
                return together!(second Second a b split);
            }
            (Meet::Tuple { split }, State::On(Owned::Third(a)), State::On(Owned::Third(b))) => {
                return together!(third Third a b split);
            }
            (_, first, second) => (first, second),
        };
        let first = match lanes.hand_over(first) {
            Ok(first) => first,
            Err(instead) => {
                self.put(x, instead);
                self.put(y, (second, None));
                return None;
            }
        };
        let second = match lanes.hand_over(second) {
            Ok(second) => second,
            Err(instead) => {
                self.put(x, (State::Pending(first), None));
                self.put(y, instead);
                return None;
            }
        };
        if let Meet::List = meet {
            let list: Handoff<Vec<IdleBundle<D>>> = Handoff::join(vec![first, second]);
            let [first, second] = list.split().try_into().expect("two went in");
            return Some(Handoff::join((first, second)));
        }
        Some(Handoff::join((first, second)))
    }

    pub(crate) fn lend<S: Lane<D>>(
        &mut self,
        stream: &Stream<S>,
        x: usize,
        to: u8,
        work: Work,
        panics: bool,
    ) {
        let lanes = Arc::clone(&self.lanes);
        self.with(stream, x, |side, bundle, expected| {
            let (Some(part), Some(values)) = (bundle.parts.first_mut(), expected.parts.first_mut()) else {
                return;
            };
            let whole = Op::Fill {
                to: 0,
                start: 0,
                end: values.len(),
                value: 7.0,
            };
            let op = resolve(work, &[values.len()], None).unwrap_or(whole);
            let mut applied = false;
            let result = catch(|| {
                on_named!(lanes, to, |borrower| stream.lend(borrower, part, |lent| {
                    let result = enqueue(borrower, op, &mut [lent], None);
                    applied = result.is_ok();
                    if panics {
                        panic_on_purpose();
                    }
                    result
                }))
            });
            if applied {
                apply(op, &mut [values], None);
                side.did(Kind::Lend);
            }
            if let Some(result) = result {
                side.note(result.flatten());
            }
        });
    }

    /// Another stream and the stream itself read one part; then the stream writes it.
    pub(crate) fn lend_ref<S: Lane<D>>(
        &mut self,
        stream: &Stream<S>,
        x: usize,
        to: u8,
        kernel: Kernel,
        panics: bool,
    ) {
        let lanes = Arc::clone(&self.lanes);
        let made = self.with(stream, x, |side, bundle, expected| {
            let (part, others) = bundle.parts.split_first_mut()?;
            let (values, other_values) = expected.parts.split_first_mut()?;
            let (mut last, last_values) = (others.last_mut(), other_values.last_mut());
            let copied = values.clone();
            let mut owner_reads = None;
            let made = on_named!(lanes, to, |borrower| {
                let mut copy = None;
                let result = catch(|| {
                    stream.lend_ref(borrower, part, |lent| {
                        copy = Some(borrower.init_from(borrower.alloc_uninit(lent.len())?, lent)?);
                        if let Some(last) = &mut last {
                            let len = part.len().min(last.len());
                            read(stream, kernel, &part[..len], &mut last[..len])?;
                            owner_reads = Some(len);
                        }
                        if panics {
                            panic_on_purpose();
                        }
                        Ok(())
                    })
                });
                if let Some(result) = result {
                    side.note(result.flatten());
                }
                copy.map(|copy| Lane::keep(borrower, one_part(copy)))
            });
            if let (Some(len), Some(last)) = (owner_reads, last_values) {
                apply_read(kernel, &values[..len], &mut last[..len]);
                side.did(Kind::LendRef);
            }
            let filled = catch(|| stream.fill(part, 3.5));
            if filled.is_some_and(|filled| side.note(filled).is_some()) {
                values.fill(3.5);
            }
            made.map(|instead| (instead, copied))
        });
        if let Some(Some((instead, values))) = made {
            self.made(instead, values);
        }
    }

    /// Another stream reads the first part into the last part, while the stream copies the first
    /// part.
    pub(crate) fn lend_all<S: Lane<D>>(&mut self, stream: &Stream<S>, x: usize, to: u8, kernel: Kernel) {
        let lanes = Arc::clone(&self.lanes);
        let made = self.with(stream, x, |side, bundle, expected| {
            let [first, .., last] = &mut bundle.parts[..] else {
                return None;
            };
            let [values, .., last_values] = &mut expected.parts[..] else {
                return None;
            };
            let len = values.len().min(last_values.len());
            let (mut applied, mut copy) = (false, None);
            let result = catch(|| {
                on_named!(lanes, to, |borrower| {
                    stream.lend_all(borrower, (&*first, &mut *last), |(lent, mut last)| {
                        read(borrower, kernel, &lent[..len], &mut last[..len])?;
                        applied = true;
                        copy = Some(stream.init_from(stream.alloc_uninit(first.len())?, first)?);
                        Ok(())
                    })
                })
            });
            if applied {
                apply_read(kernel, &values[..len], &mut last_values[..len]);
                side.did(Kind::LendAll);
            }
            if let Some(result) = result {
                side.note(result.flatten());
            }
            copy.map(|copy| (S::keep(stream, one_part(copy)), values.clone()))
        });
        if let Some(Some((instead, values))) = made {
            self.made(instead, values);
        }
    }

    pub(crate) fn slot(&mut self, x: usize, lane: u8, next: u8, works: [Work; 2], panics: bool) {
        let lanes = Arc::clone(&self.lanes);
        let state = self.take(x);
        let mut slot = match lanes.hand_over(state) {
            Ok(handoff) => Slot::from(handoff),
            Err(instead) => return self.put(x, instead),
        };
        let mut expected = std::mem::take(&mut self.objects[x].expected);
        for ((lane, work), last) in [lane, next].into_iter().zip(works).zip([false, true]) {
            let result = catch(|| {
                on_lane!(self.lanes, lane, |stream| slot.on(stream, |bundle| {
                    let result = work_on(stream, work, &mut [bundle], &mut [&mut expected]);
                    if last && panics {
                        panic_on_purpose();
                    }
                    result
                }))
            });
            if let Some(result) = result {
                self.worked(result.flatten(), &[&expected]);
            }
        }
        let seen = catch(|| slot.host(|bundle| bundle.host.as_deref().map(<[f32]>::to_vec)));
        if let Some(seen) = seen.and_then(|seen| self.note(seen)) {
            self.compare(seen.as_deref(), expected.host.as_deref());
        }
        self.objects[x].expected = expected;
        match slot.into_handoff() {
            Ok(handoff) => self.put(x, (State::Pending(handoff), None)),
            Err(error) => self.put(x, (State::Gone, Some(error))),
        }
    }
}
