//! Devices that are found at run time.
#![forbid(unsafe_code)]

use std::collections::HashSet;

use cuda_rt::simulator::{Order, SimConfig};
use cuda_rt::{AnyDevice, Device, Error, Gpu, Priority};

use crate::buffers::{LEN, filled, read};
use crate::devices::for_each_device;

cuda_rt::streams! {
    Compute;
}

/// The configuration of the process's simulated host, as other tests set it.
fn config() -> SimConfig {
    SimConfig::new().order(Order::Lazy)
}

/// A GPU of the machine, or a simulated device in its place.
fn open(ordinal: usize) -> AnyDevice {
    AnyDevice::open_or_simulate_with(ordinal, config()).unwrap()
}

#[test]
fn an_ordinal_names_one_instance_of_the_process() {
    let (first, second) = (open(0), open(1));
    assert_eq!(first, open(0));
    assert_ne!(first, second);
    #[expect(clippy::mutable_key_type, reason = "the hash is of the instance's identity")]
    let set: HashSet<AnyDevice> = [first.clone(), second.clone(), open(0), open(1)].into();
    assert_eq!(set.len(), 2);
    // The same instance as the tag of the ordinal.
    let typed = Device::open_or_simulate_gpu_with::<1>(config()).unwrap();
    assert_eq!(AnyDevice::from(&typed), second);
    assert_ne!(AnyDevice::from(&typed), first);
    // `AnyDevice::open` gives no simulated device in the place of a GPU.
    match AnyDevice::open(1) {
        Ok(gpu) => assert_eq!((gpu.is_simulated(), gpu), (false, second)),
        Err(_) => assert!(second.is_simulated()),
    }
}

/// What streams of an ordinal keep goes to a tag of that device and back, and to no other device.
#[test]
fn h36_memory_of_an_ordinal_is_memory_of_its_tag_and_of_no_other() {
    let (first, second) = (open(0), open(1));
    let zero = Device::open_or_simulate_with(config()).unwrap();
    let one = Device::open_or_simulate_gpu_with::<1>(config()).unwrap();
    let compute = one.stream::<Compute<Gpu<1>>>().unwrap();
    let worker = second.create_stream("of the second", Priority::Low).unwrap();
    let held = worker.run(|s| s.keep(filled(s, 3)));
    let elsewhere = first.create_stream("of the first", Priority::Low).unwrap();
    let refused = elsewhere.run(|s| s.open_ordered(held).map(drop)).unwrap_err();
    let text = refused.to_string();
    assert!(matches!(refused.error, Error::OtherDevice { .. }), "{text}");
    assert!(text.contains("of the second") && text.contains("GPU"), "{text}");
    let error = worker.run_on(&zero, |_| ()).unwrap_err();
    assert!(matches!(error, Error::OtherDevice { .. }), "{error}");
    let buffer = compute.open_ordered(refused.value).unwrap();
    assert_eq!(read(&one, &compute, &buffer), [3; LEN]);
    let held = compute.keep(buffer);
    assert_eq!(held.stream().device(), second);
}

#[test]
fn a_device_of_run_time_lends_all_of_its_typed_calls() {
    for_each_device(|gpu| {
        let any = AnyDevice::from(gpu);
        assert_eq!(any.properties().name, gpu.properties().name);
        let data = any.with(|gpu| {
            let compute = gpu.stream::<Compute<_>>().unwrap();
            read(gpu, &compute, &filled(&compute, 4))
        });
        assert_eq!(data, [4; LEN]);
        any.synchronize().unwrap();
        assert!(any.to_string().contains(&any.properties().name));
    });
    // Two devices, one closure inside the other.
    let (first, second) = (open(0), open(1));
    if first.is_simulated() && second.is_simulated() {
        first.with(|a| second.with(|b| a.peer_access(b).unwrap()));
    }
}

/// The instance of a scoped device lives as long as a value of it.
#[test]
fn a_scoped_device_outlives_its_closure_as_a_value() {
    let any = Device::simulated(SimConfig::new(), |gpu| AnyDevice::from(&gpu)).unwrap();
    let other = Device::simulated(SimConfig::new(), |gpu| AnyDevice::from(&gpu)).unwrap();
    assert_ne!(any, other);
    let stream = any.create_stream("late", Priority::Low).unwrap();
    let data = stream.run(|s| read(&s.device(), s, &filled(s, 1)));
    assert_eq!(data, [1; LEN]);
}
