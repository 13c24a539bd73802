//! The drivers that the suite runs on.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use cuda_rt::driver::Driver;
use cuda_rt::simulator::{Order, SimConfig, SimDriver};

/// A case of the suite.
pub(crate) type Case = fn(&Arc<dyn Driver>);

/// Seeds tried in each adversarial order.
const SEEDS: u64 = 12;

/// A case of two devices.
pub(crate) type PairCase = fn(&Arc<dyn Driver>, &Arc<dyn Driver>);

/// Runs a case on simulated devices of every order. A failure prints the order and the seed.
pub(crate) fn on_simulated(case: Case) {
    on_each_order(SimConfig::new(), &|driver| {
        case(&(Arc::clone(driver) as Arc<dyn Driver>))
    });
}

/// As [`on_simulated`], on two devices of one host, once with a link between them and once without.
pub(crate) fn on_simulated_pair(case: PairCase) {
    for direct in [true, false] {
        on_each_order(SimConfig::new().peer_access(direct), &|first| {
            let (first, second) = (Arc::clone(first) as Arc<dyn Driver>, first.another());
            case(&first, &(second as Arc<dyn Driver>));
        });
    }
}

fn on_each_order(config: SimConfig, case: &dyn Fn(&Arc<SimDriver>)) {
    let adversarial = [Order::Random, Order::Lazy]
        .into_iter()
        .flat_map(|order| (0..SEEDS).map(move |seed| (order, seed)));
    for (order, seed) in adversarial.chain([(Order::Eager, 0)]) {
        let driver = SimDriver::new(config.clone().seed(seed).order(order));
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| case(&driver))) {
            eprintln!("failed on the simulated device with order {order:?} and seed {seed}");
            resume_unwind(panic);
        }
    }
}

/// The lock for the GPU: one case uses it at a time. Some cases depend on the time of a kernel, and
/// one on the amount of free memory.
#[cfg(feature = "cuda")]
fn lock_gpu() -> std::sync::MutexGuard<'static, ()> {
    static GPU: std::sync::Mutex<()> = std::sync::Mutex::new(());

    // A case that panicked has already failed.
    GPU.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Runs a case on the first GPU, or prints that there is none.
#[cfg(feature = "cuda")]
pub(crate) fn on_cuda(case: Case) {
    if let Some(driver) = cuda() {
        let _gpu = lock_gpu();
        case(&driver);
    }
}

/// As [`on_cuda`], on the first two GPUs, or on a single GPU that plays both.
#[cfg(feature = "cuda")]
pub(crate) fn on_cuda_pair(case: PairCase) {
    if cuda().is_some() {
        let _gpu = lock_gpu();
        on_locked_cuda_pair(case);
    }
}

/// As [`on_cuda_pair`], for a caller that holds the lock.
#[cfg(feature = "cuda")]
pub(crate) fn on_locked_cuda_pair(case: PairCase) {
    use cuda_rt::driver_cuda::CudaDriver;

    if let Some(first) = cuda() {
        let count = CudaDriver::count().expect("counted before");
        if count == 1 {
            eprintln!("ONE GPU ONLY: it is both devices");
        }
        let second: Arc<dyn Driver> = CudaDriver::open(1.min(count - 1)).expect("open the second GPU");
        case(&first, &second);
    }
}

#[cfg(feature = "cuda")]
fn cuda() -> Option<Arc<dyn Driver>> {
    use cuda_rt::driver_cuda::CudaDriver;
    use std::io::Write;

    static SAID: std::sync::Once = std::sync::Once::new();

    match CudaDriver::count() {
        // If a GPU exists, every failure to open it is an error.
        Ok(_) => {
            Some(CudaDriver::open(0).unwrap_or_else(|why| panic!("the first GPU cannot be used: {why}")))
        }
        Err(why) if required() => panic!("CUDA_RT_REQUIRE_GPU is set, and {why}"),
        Err(why) => {
            SAID.call_once(|| {
                let text = format!("\n*** SKIPPED: no test of `cuda` was run on a GPU: {why} ***\n\n");
                // Not `eprint!`: the harness hides its output for tests that pass.
                let _ = std::io::stderr().write_all(text.as_bytes());
            });
            None
        }
    }
}

#[cfg(feature = "cuda")]
fn required() -> bool {
    std::env::var_os("CUDA_RT_REQUIRE_GPU").is_some_and(|value| value != "0" && !value.is_empty())
}

/// Runs a case on the first GPU through cust's objects.
#[cfg(feature = "cust")]
pub(crate) fn on_cust(case: Case) {
    if cuda().is_some() {
        let _gpu = lock_gpu();
        case(&over_cust());
    }
}

/// One driver for all cases, as for `cuda`, so that modules are loaded once.
#[cfg(feature = "cust")]
fn over_cust() -> Arc<dyn Driver> {
    use cuda_rt::interop::cust::{CustDriver, cust};
    static OPEN: std::sync::OnceLock<Arc<CustDriver>> = std::sync::OnceLock::new();
    let driver = OPEN.get_or_init(|| {
        let context = cust::quick_init().expect("cust takes the first GPU");
        CustDriver::over(context).expect("a driver over cust's context")
    });
    Arc::clone(driver) as Arc<dyn Driver>
}

/// As [`on_cust`], in its own process.
#[cfg(feature = "cust")]
pub(crate) fn in_child_on_cust(test: &str, case: Case) {
    in_child_on(test, case, on_cust);
}

/// As [`on_cuda`], in its own process; `test` is the path of the test that calls this.
#[cfg(feature = "cuda")]
pub(crate) fn in_child(test: &str, case: Case) {
    in_child_on(test, case, on_cuda);
}

#[cfg(feature = "cuda")]
fn in_child_on(test: &str, case: Case, on: fn(Case)) {
    const CHILD: &str = "CUDA_RT_CONFORMANCE_CHILD";
    if std::env::var_os(CHILD).is_some() {
        return on(case);
    }
    if cuda().is_none() {
        return;
    }
    let _gpu = lock_gpu();
    let output = std::process::Command::new(std::env::current_exe().expect("the path of this test"))
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .output()
        .expect("the test starts itself");
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "the child failed:\n{text}");
    assert!(
        text.contains("1 passed"),
        "the child ran another number of tests:\n{text}"
    );
}
