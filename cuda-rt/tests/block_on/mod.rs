//! [`block_on`]: an executor of one thread, for tests and benchmarks.
#![forbid(unsafe_code)]

use std::future::{Future, IntoFuture};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// A time limit that only a lost wake-up exceeds.
const WOKEN_WITHIN: Duration = Duration::from_secs(60);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls the future once, and again at each wake-up; the thread parks in between.
///
/// # Panics
/// If the future is not done within [`WOKEN_WITHIN`], so that a lost waker fails the test and does
/// not hang it.
#[track_caller]
pub(crate) fn block_on<T>(future: impl IntoFuture<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future.into_future());
    let start = Instant::now();
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park_timeout(WOKEN_WITHIN);
        assert!(start.elapsed() < WOKEN_WITHIN, "no one woke the task");
    }
}
