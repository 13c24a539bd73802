//! Tensors of DLPack, both ways. Raw calls of the driver stand for the other library.

mod export;
mod import;
mod pinned;
mod refused;
mod shared;

use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cuda_rt::driver::{DeviceAddress, RawStream};
use cuda_rt::interop::dlpack::{
    DL_CUDA, DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLTensor, DlpackElement,
    VERSION,
};
use cuda_rt::{Device, Live};

/// A time limit longer than any deleter takes to be called.
const PATIENCE: Duration = Duration::from_secs(20);

/// A producer's tensor. It is leaked, so that a second call of its deleter is counted, too.
struct Producer {
    versioned: DLManagedTensorVersioned,
    unversioned: DLManagedTensor,
    shape: Vec<i64>,
    strides: Vec<i64>,
    ended: AtomicUsize,
}

/// # Safety
/// `managed` is the tensor of a [`Producer`].
unsafe extern "C" fn delete_versioned(managed: *mut DLManagedTensorVersioned) {
    // SAFETY: the tensor and its producer are never freed.
    let producer = unsafe { (*managed).manager_ctx }.cast::<AtomicUsize>();
    // SAFETY: as above.
    unsafe { &*producer }.fetch_add(1, Ordering::SeqCst);
}

/// # Safety
/// As for [`delete_versioned`].
unsafe extern "C" fn delete_unversioned(managed: *mut DLManagedTensor) {
    // SAFETY: the tensor and its producer are never freed.
    let producer = unsafe { (*managed).manager_ctx }.cast::<AtomicUsize>();
    // SAFETY: as above.
    unsafe { &*producer }.fetch_add(1, Ordering::SeqCst);
}

/// The addresses of all producers: they live as long as the process, because a deleter may run
/// late. What stands in a list is no leak for the leak sanitizer.
static KEPT: Mutex<Vec<usize>> = Mutex::new(Vec::new());

impl Producer {
    /// A tensor of `T` at `address`. `change` makes it a tensor of another kind.
    fn new<T: DlpackElement>(
        address: DeviceAddress,
        shape: &[i64],
        strides: &[i64],
        change: impl FnOnce(&mut DLManagedTensorVersioned),
    ) -> &'static mut Self {
        let dl_tensor = DLTensor {
            data: ptr::with_exposed_provenance_mut(address.0 as usize),
            device: DLDevice {
                device_type: DL_CUDA,
                device_id: 0,
            },
            ndim: shape.len() as i32,
            dtype: T::DTYPE,
            shape: ptr::null_mut(),
            strides: ptr::null_mut(),
            byte_offset: 0,
        };
        let producer = Box::leak(Box::new(Self {
            versioned: DLManagedTensorVersioned {
                version: VERSION,
                manager_ctx: ptr::null_mut(),
                deleter: Some(delete_versioned),
                flags: 0,
                dl_tensor,
            },
            unversioned: DLManagedTensor {
                dl_tensor,
                manager_ctx: ptr::null_mut(),
                deleter: Some(delete_unversioned),
            },
            shape: shape.to_vec(),
            strides: strides.to_vec(),
            ended: AtomicUsize::new(0),
        }));
        KEPT.lock()
            .unwrap()
            .push(ptr::from_mut(producer).expose_provenance());
        let tensor = &mut producer.versioned.dl_tensor;
        tensor.shape = producer.shape.as_mut_ptr();
        if !strides.is_empty() {
            tensor.strides = producer.strides.as_mut_ptr();
        }
        let ended = (&raw const producer.ended).cast_mut();
        producer.versioned.manager_ctx = ended.cast();
        producer.unversioned.manager_ctx = ended.cast();
        change(&mut producer.versioned);
        producer.unversioned.dl_tensor = producer.versioned.dl_tensor;
        producer
    }

    /// How often the deleter was called.
    fn ended(&self) -> usize {
        self.ended.load(Ordering::SeqCst)
    }

    /// Waits until the deleter is called, and then for a second call, which must not come.
    #[track_caller]
    fn ends_once(&self) {
        let start = Instant::now();
        while self.ended() == 0 {
            assert!(start.elapsed() < PATIENCE, "the deleter was not called");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(self.ended(), 1, "the deleter is called once");
    }
}

/// A stream of another library.
fn their_stream<D: Live>(gpu: &Device<D>) -> RawStream {
    gpu.driver().create_stream(0).unwrap()
}

/// Makes `waiting` wait for the present work of `stream`, as a producer does for the stream that it
/// was told.
fn order<D: Live>(gpu: &Device<D>, stream: RawStream, waiting: RawStream) {
    let event = gpu.driver().create_event(false).unwrap();
    // SAFETY: both are live.
    unsafe { gpu.driver().record_event(event, stream) }.unwrap();
    // SAFETY: as above.
    unsafe { gpu.driver().wait_event(waiting, event) }.unwrap();
    // SAFETY: the event is not used again.
    unsafe { gpu.driver().destroy_event(event) }.unwrap();
}

/// The type of `T`, for messages.
fn dtype<T: DlpackElement>() -> DLDataType {
    T::DTYPE
}
