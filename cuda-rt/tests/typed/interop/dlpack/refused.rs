//! Tensors that are refused: each message says why, and the deleter has run once.

use cuda_rt::bytemuck::{Pod, Zeroable};
use cuda_rt::driver::DeviceAddress;
use cuda_rt::interop::dlpack::{
    DL_CPU, DL_CUDA_HOST, DL_INT, DL_IS_COPIED, DL_READ_ONLY, DLDataType, DLManagedTensorVersioned,
    DLPackVersion, DlpackElement, consumer_stream,
};
use cuda_rt::simulator::SimConfig;
use cuda_rt::{Device, DlpackError, Element, Error, PinnedBuffer};

use super::super::Compute;
use super::{Producer, dtype};

/// An address of no memory: a refused tensor is not touched.
const NOWHERE: DeviceAddress = DeviceAddress(0x1000);

type Change = fn(&mut DLManagedTensorVersioned);

#[test]
fn a_tensor_of_another_kind_is_refused_in_words_and_ended_once() {
    let cases: [(Change, &str); 10] = [
        (
            |tensor| tensor.dl_tensor.device.device_type = DL_CPU,
            "the tensor is ordinary memory of the host (kDLCPU), and the call takes memory of GPU 0 (kDLCUDA)",
        ),
        (
            |tensor| tensor.dl_tensor.device.device_type = DL_CUDA_HOST,
            "the tensor is page-locked memory of the host (kDLCUDAHost)",
        ),
        (
            |tensor| tensor.dl_tensor.device.device_id = 1,
            "the tensor is memory of GPU 1 (kDLCUDA), and the call takes memory of GPU 0",
        ),
        (
            |tensor| tensor.dl_tensor.dtype = dtype::<i32>(),
            "the elements of the tensor are int32, and those of the buffer float32; \
             convert it first, for example with `x.astype(\"float32\")` or `x.to(torch.float32)`",
        ),
        (
            |tensor| tensor.dl_tensor.dtype.lanes = 2,
            "the elements of the tensor are float32x2, and those of the buffer float32",
        ),
        (
            |tensor| tensor.flags = DL_READ_ONLY | DL_IS_COPIED,
            "the tensor is read-only, and the owner of a buffer may write it; pass a copy, for example `x.copy()` or `x.clone()`",
        ),
        (
            |tensor| tensor.dl_tensor.byte_offset = 6,
            "the tensor begins 2 bytes behind a multiple of 4 bytes, where an element may begin; pass a copy",
        ),
        (
            |tensor| tensor.dl_tensor.data = std::ptr::null_mut(),
            "the tensor has elements, but no address of them",
        ),
        (
            |tensor| tensor.dl_tensor.ndim = -1,
            "the tensor has -1 dimensions, or no shape",
        ),
        (
            |tensor| tensor.dl_tensor.shape = std::ptr::null_mut(),
            "the tensor has 2 dimensions, or no shape",
        ),
    ];
    Device::simulated(SimConfig::default(), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        for (change, expected) in cases {
            let producer = Producer::new::<f32>(NOWHERE, &[2, 3], &[], change);
            // SAFETY: the tensor is refused before its memory is used.
            let refused = unsafe { compute.from_dlpack::<f32>(&raw mut producer.versioned) };
            let text = refused.unwrap_err().to_string();
            assert!(text.starts_with("Stream::from_dlpack: "), "{text}");
            assert!(text.contains(expected), "{text}");
            assert_eq!(producer.ended(), 1, "{text}");

            if producer.versioned.flags == 0 {
                // SAFETY: as above.
                let refused =
                    unsafe { compute.from_dlpack_unversioned::<f32>(&raw mut producer.unversioned) };
                let text = refused.unwrap_err().to_string();
                assert!(text.starts_with("Stream::from_dlpack_unversioned: "), "{text}");
                assert!(text.contains(expected), "{text}");
                assert_eq!(producer.ended(), 2, "{text}");
            }
        }
    })
    .unwrap();
}

/// Two numbers of four bits are one element of a byte, or two bytes of which each has one.
#[test]
fn elements_of_less_than_a_byte_are_packed_or_refused() {
    #[derive(Clone, Copy, Pod, Zeroable, Element)]
    #[repr(transparent)]
    struct Pair(u8);
    impl DlpackElement for Pair {
        const DTYPE: DLDataType = DLDataType {
            code: DL_INT,
            bits: 4,
            lanes: 2,
        };
    }
    Device::simulated(SimConfig::default(), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let producer = Producer::new::<Pair>(NOWHERE, &[4], &[], |tensor| tensor.flags = 1 << 2);
        // SAFETY: the tensor is refused before its memory is used.
        let refused = unsafe { compute.from_dlpack::<Pair>(&raw mut producer.versioned) };
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("takes a byte in the tensor"), "{text}");
        assert_eq!(producer.ended(), 1);
        // Of other elements the flag says nothing.
        let producer = Producer::new::<f32>(NOWHERE, &[0], &[], |tensor| tensor.flags = 1 << 2);
        // SAFETY: the tensor has no elements.
        drop(unsafe { compute.from_dlpack::<f32>(&raw mut producer.versioned) }.unwrap());
        producer.ends_once();
        // An extent that DLPack cannot count, with as many elements as the buffer has.
        let empty = compute.alloc_zeroed::<f32>(0).unwrap();
        // SAFETY: the export is refused.
        let refused = unsafe { compute.to_dlpack(empty, &[usize::MAX, 0], compute.raw()) };
        let text = refused.unwrap_err().error.to_string();
        assert!(text.contains("an extent that DLPack cannot hold"), "{text}");
    })
    .unwrap();
}

/// The message names the dimension.
#[test]
fn a_tensor_that_is_not_compact_is_refused() {
    let cases: [(&[i64], &[i64], &str); 5] = [
        (
            &[2, 3],
            &[1, 2],
            "the stride of dimension 1 is 2, not 1; make it contiguous first, \
             with `numpy.ascontiguousarray(x)` or `x.contiguous()`",
        ),
        (&[2, 3], &[4, 1], "the stride of dimension 0 is 4, not 3"),
        (&[2, 3, 4], &[12, 5, 1], "the stride of dimension 1 is 5, not 4"),
        (&[4], &[-1], "the stride of dimension 0 is -1, not 1"),
        (&[2, -3], &[], "dimension 1 of the tensor has -3 elements"),
    ];
    Device::simulated(SimConfig::default(), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        for (shape, strides, expected) in cases {
            let producer = Producer::new::<f32>(NOWHERE, shape, strides, |_| ());
            // SAFETY: the tensor is refused before its memory is used.
            let refused = unsafe { compute.from_dlpack::<f32>(&raw mut producer.versioned) };
            let text = refused.unwrap_err().to_string();
            assert!(text.contains(expected), "{text}");
            assert_eq!(producer.ended(), 1, "{text}");
        }
    })
    .unwrap();
}

/// Of another major version nothing but the version and the deleter is read.
#[test]
fn a_tensor_of_another_major_version_is_ended_and_not_read() {
    Device::simulated(SimConfig::default(), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        for major in [0, 2] {
            let producer = Producer::new::<f32>(NOWHERE, &[4], &[], |tensor| {
                tensor.version = DLPackVersion { major, minor: 7 };
                // A read of the shape would fault.
                tensor.dl_tensor.shape = std::ptr::dangling_mut();
            });
            // SAFETY: the tensor is refused before its memory is used.
            let refused = unsafe { compute.from_dlpack::<f32>(&raw mut producer.versioned) };
            let text = refused.unwrap_err().to_string();
            assert!(text.contains(&format!("version {major}.7 of DLPack")), "{text}");
            assert_eq!(producer.ended(), 1);
        }
        // A later minor version only adds codes.
        let producer = Producer::new::<f32>(NOWHERE, &[0], &[], |tensor| tensor.version.minor = 99);
        // SAFETY: the tensor has no elements.
        let tensor = unsafe { compute.from_dlpack::<f32>(&raw mut producer.versioned) }.unwrap();
        drop(tensor);
        producer.ends_once();
    })
    .unwrap();
}

#[test]
fn sizes_that_overflow_are_refused() {
    let cases: [(&[i64], u64); 4] = [
        (&[i64::MAX, 3], 0),
        (&[i64::MAX], 0),
        (&[1 << 61, 4], 0),
        (&[4], u64::MAX - 8),
    ];
    Device::simulated(SimConfig::default(), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        for (shape, byte_offset) in cases {
            let producer = Producer::new::<f32>(NOWHERE, shape, &[], |tensor| {
                tensor.dl_tensor.byte_offset = byte_offset;
            });
            // SAFETY: the tensor is refused before its memory is used.
            let refused = unsafe { compute.from_dlpack::<f32>(&raw mut producer.versioned) };
            assert!(
                matches!(
                    refused,
                    Err(Error::Dlpack {
                        why: DlpackError::TooLarge,
                        ..
                    })
                ),
                "{refused:?}"
            );
            assert_eq!(producer.ended(), 1);
        }
    })
    .unwrap();
}

#[test]
fn null_is_refused_and_a_tensor_may_have_no_deleter() {
    Device::simulated(SimConfig::default(), |gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        // SAFETY: null is refused.
        let refused = unsafe { compute.from_dlpack::<f32>(std::ptr::null_mut()) };
        assert!(refused.unwrap_err().to_string().contains("the pointer is null"));
        // SAFETY: as above.
        let refused = unsafe { compute.from_dlpack_unversioned::<f32>(std::ptr::null_mut()) };
        assert!(refused.unwrap_err().to_string().contains("the pointer is null"));
        // SAFETY: as above.
        let refused = unsafe { PinnedBuffer::<f32, _>::from_dlpack(&gpu, std::ptr::null_mut()) };
        assert!(refused.unwrap_err().to_string().contains("the pointer is null"));
        // SAFETY: as above.
        let refused = unsafe { PinnedBuffer::<f32, _>::copy_of_dlpack(&gpu, std::ptr::null_mut()) };
        assert!(refused.unwrap_err().to_string().contains("the pointer is null"));

        let producer = Producer::new::<f32>(NOWHERE, &[2], &[], |tensor| {
            tensor.deleter = None;
            tensor.dl_tensor.dtype = dtype::<u8>();
        });
        // SAFETY: the tensor is refused before its memory is used.
        let refused = unsafe { compute.from_dlpack::<f32>(&raw mut producer.versioned) };
        assert!(refused.unwrap_err().to_string().contains("uint8"));
        assert_eq!(producer.ended(), 0);
    })
    .unwrap();
}

#[test]
fn numbers_that_name_no_stream_are_refused() {
    assert_eq!(consumer_stream(None).unwrap().0, 1);
    assert_eq!(consumer_stream(Some(1)).unwrap().0, 1);
    assert_eq!(consumer_stream(Some(3)).unwrap().0, 3);
    for number in [0, 2, -1, i64::MIN] {
        let text = consumer_stream(Some(number)).unwrap_err().to_string();
        assert!(text.contains(&format!("the number {number} ")), "{text}");
    }
}
