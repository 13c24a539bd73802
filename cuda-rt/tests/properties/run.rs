//! Runs a plan: its threads, their mail, and the final check of all remaining objects.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use cuda_rt::driver::{ErrorCode, PeerAccess};
use cuda_rt::{Device, Live};

use crate::driver::until_unwound;
use crate::faults::Faults;
use crate::object::{Lanes, Object, State};
use crate::plan::{Act, Kernel, Make, Plan, Settle, Step, Way};
use crate::side::{Closure, KeptRecipe, Recipe, Side, Tally, on_lane};

/// An object on its way to another thread.
enum Mail<D: Live, E: Live> {
    Zero(Object<D>),
    One(Object<E>),
}

struct Thread<D: Live, E: Live> {
    zero: Side<D>,
    one: Side<E>,
    inbox: Receiver<Mail<D, E>>,
    outboxes: Vec<Sender<Mail<D, E>>>,
}

/// Runs the plan on two devices, and compares the remaining objects with the model. Returns a
/// tally.
pub(crate) fn run<D: Live, E: Live>(
    plan: &Plan,
    (zero, one): (Device<D>, Device<E>),
    (closure_zero, closure_one): (Option<Closure<D>>, Option<Closure<E>>),
    faults: &Faults,
) -> Tally {
    let zero = Arc::new(Lanes::of(zero).expect("no fault yet"));
    let one = Arc::new(Lanes::of(one).expect("no fault yet"));
    faults.begin();
    let (outboxes, inboxes): (Vec<_>, Vec<_>) = plan.threads.iter().map(|_| channel()).unzip();
    let threads: Vec<_> = inboxes
        .into_iter()
        .map(|inbox| Thread {
            zero: Side::new(Arc::clone(&zero), closure_zero, faults.clone()),
            one: Side::new(Arc::clone(&one), closure_one, faults.clone()),
            inbox,
            outboxes: outboxes.clone(),
        })
        .collect();
    drop(outboxes);
    let done: Vec<Thread<D, E>> = std::thread::scope(|scope| {
        let mut run = threads.into_iter().zip(&plan.threads);
        let (mut first, steps) = run.next().expect("a plan has a thread");
        let others: Vec<_> = run
            .map(|(mut thread, steps)| {
                scope.spawn(move || {
                    thread.steps(steps);
                    thread
                })
            })
            .collect();
        first.steps(steps);
        let others = others.into_iter().map(|other| {
            other
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        [first].into_iter().chain(others).collect()
    });
    for gpu in [zero.gpu.simulator(), one.gpu.simulator()].into_iter().flatten() {
        gpu.clear_faults();
    }
    let mut sum = Tally::default();
    done.into_iter().map(Thread::audit).for_each(|tally| sum += tally);
    sum.counts += zero.counters.counts();
    sum.counts += one.counters.counts();
    sum
}

impl<D: Live, E: Live> Thread<D, E> {
    fn steps(&mut self, steps: &[Step]) {
        self.attempt(None, Self::first_objects);
        for step in steps {
            self.attempt(Some(*step), |thread| {
                match step.device {
                    0 => thread.zero.step(*step),
                    _ => thread.one.step(*step),
                }
                thread.mail(*step);
            });
            self.zero.tidy();
            self.one.tidy();
        }
    }

    /// Does something, up to the call that unwinds, if one does. The model then does not know the
    /// objects of the step.
    fn attempt(&mut self, step: Option<Step>, body: impl FnOnce(&mut Self)) {
        self.zero.begin_step(step);
        self.one.begin_step(step);
        until_unwound(|| body(self));
        self.zero.end_step();
        self.one.end_step();
    }

    /// Objects to work on, for each device.
    fn first_objects(&mut self) {
        for (lane, host) in [(0, true), (1, false), (2, true)] {
            on_lane!(self.zero.lanes, lane, |stream| self.zero.make(
                stream,
                Make::FromHost(lane as i8),
                16,
                2,
                host
            ));
        }
        on_lane!(self.one.lanes, 1, |stream| self.one.make(
            stream,
            Make::Zeroed,
            16,
            1,
            true
        ));
        on_lane!(self.one.lanes, 2, |stream| self.one.new_managed(
            stream,
            0,
            Make::FromHost(2),
            16
        ));
    }

    /// An object that goes from thread to thread, or from device to device.
    fn mail(&mut self, step: Step) {
        match step.act {
            Act::Give { to } => {
                let to = &self.outboxes[usize::from(to) % self.outboxes.len()];
                let sent = match step.device {
                    0 => self.zero.part_with(step.x).map(Mail::Zero),
                    _ => self.one.part_with(step.x).map(Mail::One),
                };
                // The mailbox of an ended thread is checked at the end.
                if let Some(mail) = sent {
                    to.send(mail)
                        .unwrap_or_else(|_| unreachable!("inboxes live as long as threads"));
                }
            }
            Act::Take => {
                if let Ok(mail) = self.inbox.try_recv() {
                    self.receive(mail);
                }
            }
            Act::Ferry => match step.device {
                0 => ferry(&mut self.zero, step.x, &mut self.one, step.y),
                _ => ferry(&mut self.one, step.x, &mut self.zero, step.y),
            },
            Act::Abroad { to, kernel, way } => {
                let (x, y, there, here) = (step.x, step.y, step.lane, to);
                match step.device {
                    0 => abroad((&mut self.zero, x, there), (&mut self.one, y, here), kernel, way),
                    _ => abroad((&mut self.one, x, there), (&mut self.zero, y, here), kernel, way),
                }
            }
            _ => {}
        }
    }

    fn receive(&mut self, mail: Mail<D, E>) {
        match mail {
            Mail::Zero(object) => self.zero.objects.push(object),
            Mail::One(object) => self.one.objects.push(object),
        }
    }

    fn audit(mut self) -> Tally {
        self.outboxes.clear();
        while let Ok(mail) = self.inbox.try_recv() {
            self.receive(mail);
        }
        for x in 0..self.zero.objects.len() {
            self.attempt(None, |thread| thread.zero.audit(x));
        }
        for x in 0..self.one.objects.len() {
            self.attempt(None, |thread| thread.one.audit(x));
        }
        self.zero.tally += self.one.tally;
        self.zero.tally
    }
}

/// Moves the pinned memory of `x` to `y` of another device.
fn ferry<D: Live, E: Live>(from: &mut Side<D>, x: u8, to: &mut Side<E>, y: u8) {
    let (Some(x), Some(y)) = (from.index(x), to.index(y)) else {
        return;
    };
    if !from.settle(x, Settle::Synchronize) || !to.settle(y, Settle::Synchronize) {
        return;
    }
    let (source, target) = (&mut from.objects[x], &mut to.objects[y]);
    if let (State::Idle(idle), State::Idle(other)) = (&mut source.state, &mut target.state)
        && let Some(host) = idle.host.take()
    {
        other.host = Some(
            host.for_device(&to.lanes.gpu)
                .unwrap_or_else(|refused| panic!("{}", refused.error)),
        );
        target.expected.host = source.expected.host.take();
    }
}

/// A stream of the device `to` uses the first part of `x` of the device `from`.
fn abroad<D: Live, E: Live>(
    (from, x, there): (&mut Side<D>, u8, u8),
    (to, y, here): (&mut Side<E>, u8, u8),
    kernel: Kernel,
    way: Way,
) {
    let (Some(x), Some(y)) = (from.index(x), to.index(y)) else {
        return;
    };
    // Two instances of one GPU, or GPUs without a link.
    if !matches!(to.lanes.gpu.peer_access(&from.lanes.gpu), Ok(PeerAccess::Direct)) {
        return;
    }
    let Some(part) = on_lane!(from.lanes, there, |stream| from.lend_abroad(stream, x)) else {
        return;
    };
    if let Some(part) = on_lane!(to.lanes, here, |stream| to
        .use_abroad(stream, y, part, kernel, way))
    {
        // It comes back on another stream than it left from.
        let lane = there.wrapping_add(here);
        on_lane!(from.lanes, lane, |stream| from.take_back(stream, x, part));
    }
}

impl<D: Live> Side<D> {
    /// An object that can go to another thread.
    fn part_with(&mut self, x: u8) -> Option<Object<D>> {
        let x = self.index(x)?;
        self.release(x);
        let sent = matches!(self.objects[x].state, State::Pending(_));
        sent.then(|| self.objects.remove(x))
    }

    fn step(&mut self, Step { lane, x, y, act, .. }: Step) {
        self.tally.acts += 1;
        if let Act::Make {
            how,
            len,
            parts,
            host,
        } = act
        {
            let len = [4, 16, 24][usize::from(len) % 3];
            return on_lane!(self.lanes, lane, |stream| self
                .make(stream, how, len, parts, host));
        }
        if let Act::Fault { call, nth, sticky } = act {
            let code = if sticky {
                ErrorCode::LAUNCH_FAILED
            } else {
                ErrorCode::OUT_OF_MEMORY
            };
            if let Some(simulator) = self.lanes.gpu.simulator() {
                simulator.fail_nth(call, u64::from(nth), code);
            }
            return;
        }
        let (Some(x), Some(other)) = (self.index(x), self.index(y)) else {
            return;
        };
        macro_rules! on {
            (|$stream:ident| $body:expr) => {
                on_lane!(self.lanes, lane, |$stream| $body)
            };
        }
        match act {
            Act::Make { .. } | Act::Fault { .. } => unreachable!("done above"),
            Act::Work(work) => on!(|stream| self.work(stream, x, work)),
            Act::Both(work, meet) => on!(|stream| self.both(stream, x, other, work, meet)),
            Act::Lend { to, work, panics } => on!(|stream| self.lend(stream, x, to, work, panics)),
            Act::LendRef { to, kernel, panics } => on!(|stream| self.lend_ref(stream, x, to, kernel, panics)),
            Act::LendAll { to, kernel } => on!(|stream| self.lend_all(stream, x, to, kernel)),
            Act::Kept(how) => self.kept(x, other, lane, how),
            Act::KeptGraph {
                works,
                launches,
                between,
                host,
                drops,
            } => {
                let recipe = KeptRecipe {
                    works,
                    launches,
                    between,
                    host,
                    drops,
                };
                self.kept_graph(x, lane, recipe);
            }
            Act::HostPanic => on!(|stream| self.host_panic(stream, x)),
            Act::NewManaged { how, len } => {
                let len = [4, 16, 24][usize::from(len) % 3];
                on!(|stream| self.new_managed(stream, x, how, len));
            }
            Act::Prefetch { from, upto, to_host } => {
                on!(|stream| self.prefetch(stream, x, [from, upto], to_host));
            }
            Act::Divide {
                part,
                pieces,
                value,
                then,
            } => on!(|stream| self.divide(stream, x, part, (pieces, value), then)),
            Act::Slot { works, next, panics } => self.slot(x, lane, next, works, panics),
            Act::Graph {
                works,
                fork,
                launches,
                between,
                update,
                host,
                replace,
                drops,
            } => {
                let recipe = Recipe {
                    works,
                    fork,
                    launches,
                    between,
                    update,
                    host,
                    replace,
                    drops,
                    panics: false,
                };
                on!(|stream| self.graph(stream, x, recipe));
            }
            Act::Panic { captured: true, work } => {
                let works = [work; 2];
                let recipe = Recipe {
                    works,
                    fork: None,
                    launches: 0,
                    between: None,
                    update: None,
                    host: None,
                    replace: false,
                    drops: true,
                    panics: true,
                };
                on!(|stream| self.graph(stream, x, recipe));
            }
            Act::Panic {
                captured: false,
                work,
            } => self.panic(x, work),
            Act::Release => self.release(x),
            Act::Settle(how) => {
                self.settle(x, how);
            }
            Act::Write { value } => self.write(x, value),
            Act::Share => on!(|stream| self.share(stream, x, false)),
            Act::ShareLazily => on!(|stream| self.share(stream, x, true)),
            Act::ReadBoth { lazily, host_first } => {
                on!(|stream| self.read_both(stream, x, lazily, host_first));
            }
            Act::Read { kernel, keep } => on!(|stream| self.read(stream, x, other, kernel, keep)),
            Act::Constant => self.constant(x),
            Act::ReadConstant { kernel } => on!(|stream| self.read_constant(stream, x, y, kernel)),
            Act::Split { part, at } => on!(|stream| self.split(stream, x, part, at)),
            Act::Join { a, b } => on!(|stream| self.join(stream, x, a, b)),
            Act::Grow { how } => on!(|stream| self.grow(stream, x, how)),
            Act::Shrink { part } => on!(|stream| self.shrink(stream, x, part)),
            Act::NewHost(how) => on!(|stream| self.new_host(stream, x, how)),
            Act::Drop => self.drop(x),
            Act::Forget => self.forget(x),
            Act::Mark { to } => on!(|stream| self.mark(stream, to)),
            Act::TimedEvent => on!(|stream| self.timestamp(stream)),
            Act::Synchronize => on!(|stream| self.synchronize(stream)),
            Act::Trim => self.trim(),
            Act::Slice { part } => on!(|stream| self.slice(stream, x, part)),
            // These acts concern several threads or devices: see `Thread::mail`.
            Act::Give { .. } | Act::Take | Act::Ferry | Act::Abroad { .. } => {}
        }
    }
}
