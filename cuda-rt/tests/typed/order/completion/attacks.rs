//! Attacks on the thread that waits for tasks.
#![forbid(unsafe_code)]

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use cuda_rt::simulator::{Order, SimConfig};
use cuda_rt::{Device, Handoff, PinnedBuffer, Scoped, Stream};

cuda_rt::streams! {
    Download;
}

const LEN: usize = 64;

fn downloading<'id>(
    gpu: &Device<Scoped<'id>>,
    download: &Stream<Download<Scoped<'id>>>,
) -> Handoff<PinnedBuffer<u32, cuda_rt::Idle<Scoped<'id>>>> {
    let mut data = download.alloc_zeroed::<u32>(LEN).unwrap();
    for value in 0..200 {
        download.fill(&mut data, value).unwrap();
    }
    let mut host = download.adopt(gpu.pinned(LEN).unwrap()).unwrap();
    download.copy_to_host(&data, &mut host).unwrap();
    download.release(host).unwrap()
}

/// After the future is dropped, the thread that waits for the event holds the last waker. A panic
/// in the waker's drop must not end that thread: all other futures of the device need it.
#[test]
fn attack_panic_in_the_drop_of_a_cancelled_waker() {
    struct Bomb(Arc<AtomicUsize>);
    impl Wake for Bomb {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for Bomb {
        fn drop(&mut self) {
            if thread::current().name() == Some("cuda-rt-events") {
                self.0.fetch_add(1, Ordering::SeqCst);
                panic!("a waker of the test panics when it is dropped");
            }
        }
    }
    struct Tell(mpsc::Sender<()>);
    impl Wake for Tell {
        fn wake(self: Arc<Self>) {
            let _ = self.0.send(());
        }
    }
    let config = SimConfig::default().order(Order::Lazy).most_pending(usize::MAX);
    Device::simulated(config, |gpu| {
        let download = gpu.stream::<Download<_>>().unwrap();
        let dropped = Arc::new(AtomicUsize::new(0));
        for _ in 0..20 {
            let mut future = downloading(&gpu, &download).into_future();
            let waker = Waker::from(Arc::new(Bomb(Arc::clone(&dropped))));
            let polled = Pin::new(&mut future).poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
            drop(waker);
            drop(future);
        }
        let (sender, woken) = mpsc::channel();
        let waker = Waker::from(Arc::new(Tell(sender)));
        let mut future = downloading(&gpu, &download).into_future();
        let start = Instant::now();
        let host = loop {
            match Pin::new(&mut future).poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(host) => break host.unwrap(),
                Poll::Pending => drop(woken.recv_timeout(Duration::from_secs(5))),
            }
            assert!(start.elapsed() < Duration::from_secs(5), "never woken");
        };
        assert_eq!(*host, [199; LEN]);
        assert!(dropped.load(Ordering::SeqCst) > 0, "none was cancelled");
    })
    .unwrap();
}
