//! Tags: one tag is one stream, whatever name it is used by.
#![forbid(unsafe_code)]

use cuda_rt::Device;
use cuda_rt::simulator::SimConfig;

use crate::devices::for_each_device;

cuda_rt::streams! {
    Compute, priority = High;
}

/// All other code treats equal types as one stream.
#[test]
fn a_tag_that_is_asked_for_twice_is_one_stream() {
    for_each_device(|gpu| {
        let [first, second] = [(); 2].map(|()| gpu.stream::<Compute<_>>().unwrap());
        assert_eq!(first.raw(), second.raw());
        let mut data = first.alloc_zeroed::<u32>(100).unwrap();
        let mut host = second.adopt(gpu.pinned::<u32>(100).unwrap()).unwrap();
        for round in 1..5 {
            first.fill(&mut data, round).unwrap();
            second.copy_to_host(&data, &mut host).unwrap();
        }
        assert_eq!(*first.release(host).unwrap().synchronize().unwrap(), [4; 100]);
    });
}

/// One tag, used by several names, is one stream. Another tag with the same text in another module
/// is another stream.
#[test]
fn attack_tags_of_one_name_in_two_modules() {
    mod a {
        cuda_rt::streams! { pub Same; }
    }
    mod b {
        cuda_rt::streams! { pub Same; }
    }
    type Alias<D> = a::Same<D>;
    Device::simulated(SimConfig::default(), |gpu| {
        let before = gpu.simulator().unwrap().counters().streams_live;
        let one = gpu.stream::<a::Same<_>>().unwrap();
        let two = gpu.stream::<Alias<_>>().unwrap();
        let three = gpu.stream::<b::Same<_>>().unwrap();
        assert_eq!(gpu.simulator().unwrap().counters().streams_live - before, 2);
        assert_eq!(format!("{one:?}"), format!("{two:?}"));
        assert_ne!(format!("{one:?}"), format!("{three:?}"));
    })
    .unwrap();
}
