//! x
use cuda_rt::Device;
use cuda_rt::driver::sim::{Order, SimConfig};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
cuda_rt::streams! { pub Compute; }

#[test]
fn load() {
    static STOP: AtomicBool = AtomicBool::new(false);
    for _ in 0..4 {
        std::thread::spawn(|| {
            while !STOP.load(Ordering::Relaxed) {
                std::hint::spin_loop()
            }
        });
    }
    let config = || {
        SimConfig::new()
            .seed(1)
            .order(Order::Lazy)
            .most_pending(usize::MAX)
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for way in 0..3 {
        let gpu = Device::open_or_simulate_with(config()).unwrap();
        let compute = gpu.stream::<Compute>().unwrap();
        let mut data = compute.alloc_zeroed::<u32>(1024).unwrap();
        for i in 0..2000 {
            compute.fill(&mut data, i).unwrap();
        }
        let start = Instant::now();
        match way {
            0 => compute.synchronize().unwrap(),
            1 => drop(
                runtime
                    .block_on(async { compute.release(data).unwrap().await })
                    .unwrap(),
            ),
            _ => {
                let (s, r) = std::sync::mpsc::channel();
                compute
                    .release(data)
                    .unwrap()
                    .on_done(move |d| s.send(d.is_ok()).unwrap())
                    .unwrap();
                assert!(r.recv().unwrap());
            }
        }
        eprintln!(
            "{}: {:?}",
            ["synchronize", "await", "on_done"][way],
            start.elapsed()
        );
    }
    STOP.store(true, Ordering::Relaxed);
}
