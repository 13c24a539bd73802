//! What a simulated device is like: its seed, its order, its size and its speed.

use cuda_rt_checker::Check;

/// In which of the orders that CUDA allows the simulated device runs its work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Adversarial: at each call perhaps a little runs, in an order chosen by the seed, which
    /// favours one stream for a while and starves the others.
    #[default]
    Random,
    /// Nothing runs before someone waits or queries, and then only what must, in an order chosen by
    /// the seed. Finds each use that no wait orders.
    Lazy,
    /// One stream runs only what someone waits for; all others run whatever they can at each call.
    /// The seed says which, by when it was made: 0 is the first, 15 the last of sixteen, and so on.
    /// Finds each use that comes too early for that stream's work, where [`Random`](Self::Random)
    /// finds it by luck.
    Starve,
    /// Each operation runs at once, in the order of the calls. Finds nothing: it is what a program
    /// that is wrong hopes for.
    Eager,
}

/// How fast the simulated device is. The default is fitted to an H200; one GB/s is one byte a
/// nanosecond.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Rate of copies from host to device, in GB/s.
    pub to_device_gb_per_s: f64,
    /// Rate of copies from device to host, in GB/s.
    pub to_host_gb_per_s: f64,
    /// Rate of the device's own memory, in GB/s; a copy within the device reads and writes.
    pub device_gb_per_s: f64,
    /// Rate of copies between devices that get at each other, in GB/s, for each of them.
    pub peer_gb_per_s: f64,
    /// Rate of copies between devices that do not, in GB/s.
    pub staged_gb_per_s: f64,
    /// What each copy between host and device, or two devices, occupies its engine for besides its
    /// bytes, in ns.
    pub copy_latency_ns: u64,
    /// The least time of a kernel, a fill or a copy within the device, in ns.
    pub kernel_floor_ns: u64,
    /// Time of a kernel for each thread, in ns, if its memory traffic does not take longer. See
    /// [`SimConfig::kernel_ns_per_thread`].
    pub kernel_ns_per_thread: f64,
    /// Equal parts of the device that kernels take, each as many as its threads fill of
    /// [`RESIDENT_THREADS`], so that small ones of several streams run side by side. 1, the
    /// default: one kernel at a time, as if each filled the device.
    ///
    /// [`RESIDENT_THREADS`]: Self::RESIDENT_THREADS
    pub kernel_parts: usize,
    /// What launching a kernel or a graph costs the host, in ns.
    pub launch_call_ns: u64,
    /// What enqueueing a copy or a fill costs the host, in ns.
    pub copy_call_ns: u64,
    /// What recording an event costs the host, in ns.
    pub record_call_ns: u64,
    /// What making a stream wait for an event costs the host, in ns.
    pub wait_call_ns: u64,
    /// What allocating, freeing, querying or synchronising costs the host, in ns; a call that
    /// blocks ends this long after what it waits for.
    pub other_call_ns: u64,
}

impl Model {
    /// Threads that fill an H200: 2048 on each of 132 multiprocessors.
    pub const RESIDENT_THREADS: u64 = 132 * 2048;
}

impl Default for Model {
    fn default() -> Self {
        Self {
            to_device_gb_per_s: 55.0,
            to_host_gb_per_s: 55.0,
            device_gb_per_s: 4000.0,
            peer_gb_per_s: 396.0,
            staged_gb_per_s: 38.0,
            copy_latency_ns: 1_000,
            kernel_floor_ns: 1_500,
            kernel_ns_per_thread: 0.001,
            kernel_parts: 1,
            launch_call_ns: 2_400,
            copy_call_ns: 1_500,
            record_call_ns: 117,
            wait_call_ns: 122,
            other_call_ns: 400,
        }
    }
}

/// What to simulate. A default one has seed 0, [`Order::Random`], 4 GiB of memory, the speed of an
/// H200, and denies races.
///
/// ```
/// use cuda_rt_simulator::{Order, SimConfig, SimDriver};
///
/// let driver = SimDriver::new(SimConfig::new().seed(7).order(Order::Lazy).memory_bytes(1 << 20));
/// assert_eq!(driver.config().seed, 7);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SimConfig {
    /// Chooses the order of the work, where memory lies and what unwritten memory holds.
    pub seed: u64,
    /// Kind of order.
    pub order: Order,
    /// Memory of the device, in bytes.
    pub memory_bytes: u64,
    /// Speed of the device.
    pub model: Model,
    /// Name of the device.
    pub name: String,
    /// Operations that may be pending before some run though no one waits for them.
    pub most_pending: usize,
    /// What becomes of a race that the checker finds.
    pub check: Check,
    /// Whether the devices of a host get at each other's memory; they do by default.
    pub peer_access: bool,
    /// Modelled time for each thread, in ns, of the kernels whose time was given by name.
    pub kernel_times: Vec<(String, f64)>,
}

impl Default for SimConfig {
    fn default() -> Self {
        Self {
            seed: 0,
            order: Order::default(),
            memory_bytes: 4 << 30,
            model: Model::default(),
            name: "Simulated H200".to_owned(),
            most_pending: 8192,
            check: Check::default(),
            peer_access: true,
            kernel_times: Vec::new(),
        }
    }
}

impl SimConfig {
    /// The default.
    pub fn new() -> Self {
        Self::default()
    }

    /// With this seed.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// With this kind of order.
    pub fn order(self, order: Order) -> Self {
        Self { order, ..self }
    }

    /// With so many bytes of device memory.
    pub fn memory_bytes(self, memory_bytes: u64) -> Self {
        Self { memory_bytes, ..self }
    }

    /// With this speed.
    pub fn model(self, model: Model) -> Self {
        Self { model, ..self }
    }

    /// With this name.
    pub fn name(self, name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..self
        }
    }

    /// With at most so many operations pending.
    pub fn most_pending(self, most_pending: usize) -> Self {
        Self { most_pending, ..self }
    }

    /// With races treated so: denied by default.
    pub fn check(self, check: Check) -> Self {
        Self { check, ..self }
    }

    /// With devices of one host that get at each other's memory, or do not: copies between them are
    /// then staged, and slower.
    pub fn peer_access(self, peer_access: bool) -> Self {
        Self { peer_access, ..self }
    }

    /// Rate of a copy between two devices, in GB/s.
    pub(super) fn peer_gb_per_s(&self) -> f64 {
        if self.peer_access {
            self.model.peer_gb_per_s
        } else {
            self.model.staged_gb_per_s
        }
    }

    /// With a modelled time of `ns` for each thread of the kernel of this name ([`Kernel::name`]);
    /// it replaces the estimate from threads and memory traffic.
    ///
    /// [`Kernel::name`]: cuda_rt_driver::Kernel::name
    pub fn kernel_ns_per_thread(mut self, kernel: impl Into<String>, ns: f64) -> Self {
        self.kernel_times.push((kernel.into(), ns));
        self
    }
}
