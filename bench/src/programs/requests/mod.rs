//! Requests: 16 KiB up, one launch, 16 KiB down, and the host waits for the answer. They come to
//! several threads, and are served on one or more streams.
//!
//! With as many streams as threads it is a server. With fewer streams, threads share them.

pub(super) mod raw;
pub(super) mod tracked;
pub(super) mod typed;

use std::sync::Barrier;
use std::time::{Duration, Instant};

use crate::processor;
use crate::rounds::{Check, Outcome, Round};

pub(super) const LEN: usize = 4096;
/// Requests of each thread in one round.
pub(super) const REQUESTS: u32 = 32;

const FACTOR: f32 = 2.0;

fn element(request: u32, thread: usize, index: usize) -> f32 {
    (request % 1000 + thread as u32 * 64 + index as u32 % 1000 + 1) as f32
}

fn fill(check: Check, request: u32, thread: usize, data: &mut [f32]) {
    check.fill(data, |index| element(request, thread, index));
}

fn compare(check: Check, request: u32, thread: usize, data: &[f32]) -> Outcome {
    let compared = check.compare(data, |index| element(request, thread, index) * FACTOR);
    compared.map_err(|error| format!("request {request} of thread {thread}: {error}").into())
}

/// Lets one thread for each client send its requests, all at once, and times them together, from
/// the first request to the last answer. `prepare` runs on each thread before the time; `answer`
/// serves a request of a client.
fn serve<C: Send>(
    clients: &mut [C],
    items: u32,
    prepare: impl Fn() -> Outcome + Sync,
    answer: impl Fn(&mut C, u32, usize) -> Outcome + Sync,
) -> Outcome<Round> {
    let requests = items / clients.len() as u32;
    if requests == 0 || requests * clients.len() as u32 != items {
        return Err("each thread has the same number of requests".into());
    }
    // All threads, and this one, which looks at the processor time between the two waits.
    let (prepared, start) = (Barrier::new(clients.len() + 1), Barrier::new(clients.len() + 1));
    std::thread::scope(|scope| {
        let (prepared, start, prepare, answer) = (&prepared, &start, &prepare, &answer);
        let mut threads = Vec::new();
        for (thread, client) in clients.iter_mut().enumerate() {
            threads.push(scope.spawn(move || -> Outcome<Served> {
                let ready = prepare();
                prepared.wait();
                start.wait();
                ready?;
                let began = Instant::now();
                let request = |number| {
                    let asked = Instant::now();
                    answer(client, number, thread)?;
                    Ok(asked.elapsed())
                };
                let latencies = (0..requests).map(request).collect::<Outcome<_>>()?;
                Ok((began, Instant::now(), latencies))
            }));
        }
        prepared.wait();
        let processor = processor::time();
        start.wait();
        let mut served = Vec::new();
        for thread in threads {
            served.push(thread.join().map_err(|_| "a thread panicked")??);
        }
        let processor = processor::time().saturating_sub(processor);
        let began = served.iter().map(|(began, ..)| *began).min();
        let ended = served.iter().map(|(_, ended, _)| *ended).max();
        let (began, ended) = began.zip(ended).ok_or("there are no clients")?;
        Ok(Round {
            wall: ended - began,
            processor,
            latencies: served.into_iter().flat_map(|(.., latencies)| latencies).collect(),
        })
    })
}

/// When a thread began and ended, and the time of each of its requests.
type Served = (Instant, Instant, Vec<Duration>);
