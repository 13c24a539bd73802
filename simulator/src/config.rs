//! The configuration of a simulated device: its seed, order, size and speed.

use cuda_rt_checker::Check;

use super::occupancy::Limits;

/// The order, among the orders that CUDA allows, in which the simulated device runs its work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Adversarial: at each call, some work may run, in an order chosen by the seed. The order
    /// favours one stream for a while and starves the others.
    #[default]
    Random,
    /// Nothing runs before a wait or a query, and then only the work that it needs, in an order
    /// chosen by the seed. Finds each use that no wait orders.
    Lazy,
    /// One stream runs only work that someone waits for; all other streams run as much as they can
    /// at each call. The seed chooses the stream by its creation: 0 is the first stream, 15 the
    /// last of sixteen, and then it repeats. Finds each use that comes too early for that stream's
    /// work; [`Random`](Self::Random) finds it only by luck.
    Starve,
    /// Each operation runs at once, in the order of the calls. Finds nothing: it is the order that
    /// a wrong program hopes for.
    Eager,
}

/// The speed of the simulated device. The default is fitted to an H200. One GB/s is one byte per
/// nanosecond.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Rate of copies from host to device, in GB/s.
    pub to_device_gb_per_s: f64,
    /// Rate of copies from device to host, in GB/s.
    pub to_host_gb_per_s: f64,
    /// Rate of the device's own memory, in GB/s. A copy within the device counts as a read and a
    /// write.
    pub device_gb_per_s: f64,
    /// Rate of copies between devices with access to each other, in GB/s, for each of them.
    pub peer_gb_per_s: f64,
    /// Rate of copies between devices without access to each other, in GB/s.
    pub staged_gb_per_s: f64,
    /// Time that each copy between host and device, or between two devices, occupies its engine
    /// besides the time of its bytes, in ns.
    pub copy_latency_ns: u64,
    /// The least time of a kernel, a fill or a copy within the device, in ns.
    pub kernel_floor_ns: u64,
    /// Time of a kernel per thread, in ns, unless its memory traffic takes longer. See
    /// [`SimConfig::kernel_ns_per_thread`].
    pub kernel_ns_per_thread: f64,
    /// Number of equal parts into which kernels divide the device. Each kernel takes the parts that
    /// its threads fill, of [`RESIDENT_THREADS`] in all, so small kernels of several streams run
    /// side by side. The default is 1: one kernel at a time, as if each filled the device.
    ///
    /// [`RESIDENT_THREADS`]: Self::RESIDENT_THREADS
    pub kernel_parts: usize,
    /// Host time of launching a kernel or a graph, in ns.
    pub launch_call_ns: u64,
    /// Host time of enqueueing a copy or a fill, in ns.
    pub copy_call_ns: u64,
    /// Host time of recording an event, in ns.
    pub record_call_ns: u64,
    /// Host time of making a stream wait for an event, in ns.
    pub wait_call_ns: u64,
    /// Host time of allocating, freeing, querying or synchronising, in ns. A call that blocks ends
    /// this long after the work that it waits for.
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

/// The configuration of a simulated device. The default has seed 0, [`Order::Random`], 4 GiB of
/// memory and the speed of an H200, and denies races.
///
/// ```
/// use cuda_rt_simulator::{Order, SimConfig, SimDriver};
///
/// let driver = SimDriver::new(SimConfig::new().seed(7).order(Order::Lazy).memory_bytes(1 << 20));
/// assert_eq!(driver.config().seed, 7);
/// ```
///
/// ```
/// use cuda_rt_checker::Check;
/// use cuda_rt_driver::Tools;
/// use cuda_rt_simulator::{Model, Order, SimConfig, SimDriver};
///
/// // A small and slow device, on which races are noted and not denied.
/// let model = Model { to_device_gb_per_s: 12.0, ..Model::default() };
/// let config = SimConfig::new()
///     .name("half a GPU")
///     .model(model)
///     .kernel_ns_per_thread("image::blur", 0.5)
///     .order(Order::Lazy)
///     .most_pending(64)
///     .check(Check::Record)
///     .peer_access(false)
///     .managed_memory(false);
/// let driver = SimDriver::new(config);
/// assert_eq!(driver.config().name, "half a GPU");
/// assert!(driver.races().is_empty());
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SimConfig {
    /// Seed of the work's order, of the addresses of memory, and of the contents of unwritten
    /// memory.
    pub seed: u64,
    /// Kind of order.
    pub order: Order,
    /// Memory of the device, in bytes.
    pub memory_bytes: u64,
    /// Speed of the device.
    pub model: Model,
    /// Name of the device.
    pub name: String,
    /// Number of pending operations at which some run although no one waits for them.
    pub most_pending: usize,
    /// What happens with a race that the checker finds.
    pub check: Check,
    /// Whether the devices of a host access each other's memory; by default they do.
    pub peer_access: bool,
    /// Whether there is managed memory; by default there is.
    pub managed_memory: bool,
    /// Modelled time per thread, in ns, of kernels with a time given by name.
    pub kernel_times: Vec<(String, f64)>,
    /// A compute capability that [`Limits`] knows.
    pub(super) compute_capability: (u32, u32),
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
            managed_memory: true,
            kernel_times: Vec::new(),
            compute_capability: (9, 0),
        }
    }
}

impl SimConfig {
    /// The default configuration.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the seed.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Sets the kind of order.
    pub fn order(self, order: Order) -> Self {
        Self { order, ..self }
    }

    /// Sets the size of device memory, in bytes.
    pub fn memory_bytes(self, memory_bytes: u64) -> Self {
        Self { memory_bytes, ..self }
    }

    /// Sets the compute capability, and with it the shared memory, threads and blocks that a
    /// multiprocessor holds. The default is 9.0. So a program can see what a GPU with less shared
    /// memory would refuse; [`model`](Self::model) sets the speed apart from this.
    ///
    /// ```
    /// use cuda_rt_driver::Driver;
    /// use cuda_rt_simulator::{SimConfig, SimDriver};
    ///
    /// let driver = SimDriver::new(SimConfig::new().compute_capability(8, 6));
    /// let device = driver.properties();
    /// assert_eq!(device.max_shared_bytes_per_block_optin, 99 << 10);
    /// assert_eq!(device.max_threads_per_multiprocessor, 1536);
    /// ```
    ///
    /// # Panics
    /// If it is none of 8.0, 8.6, 8.7, 8.9, 9.0, 10.0, 10.3, 12.0 and 12.1.
    #[must_use]
    #[track_caller]
    pub fn compute_capability(self, major: u32, minor: u32) -> Self {
        let compute_capability = (major, minor);
        assert!(
            Limits::of(compute_capability).is_some(),
            "compute capability {major}.{minor} is not modelled: {} are",
            Limits::all_known()
        );
        Self {
            compute_capability,
            ..self
        }
    }

    /// Sets the speed.
    pub fn model(self, model: Model) -> Self {
        Self { model, ..self }
    }

    /// Sets the device's name.
    pub fn name(self, name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..self
        }
    }

    /// Sets the number of pending operations at which some run although no one waits for them.
    pub fn most_pending(self, most_pending: usize) -> Self {
        Self { most_pending, ..self }
    }

    /// Sets what happens with races; by default they are denied.
    pub fn check(self, check: Check) -> Self {
        Self { check, ..self }
    }

    /// Sets whether devices of one host access each other's memory. If they do not, copies between
    /// them are staged, and slower.
    pub fn peer_access(self, peer_access: bool) -> Self {
        Self { peer_access, ..self }
    }

    /// Sets whether there is managed memory.
    #[must_use]
    pub fn managed_memory(self, managed_memory: bool) -> Self {
        Self {
            managed_memory,
            ..self
        }
    }

    /// Rate of a copy between two devices, in GB/s.
    pub(super) fn peer_gb_per_s(&self) -> f64 {
        if self.peer_access {
            self.model.peer_gb_per_s
        } else {
            self.model.staged_gb_per_s
        }
    }

    /// Sets a modelled time of `ns` per thread for the kernel of this name ([`Kernel::name`]). It
    /// replaces the estimate from threads and memory traffic.
    ///
    /// [`Kernel::name`]: cuda_rt_driver::Kernel::name
    pub fn kernel_ns_per_thread(mut self, kernel: impl Into<String>, ns: f64) -> Self {
        self.kernel_times.push((kernel.into(), ns));
        self
    }
}
