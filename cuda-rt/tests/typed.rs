//! The typed core on the simulated device, in many adversarial orders.
#![forbid(unsafe_code)]

mod devices;

use cuda_rt::{
    Bundle, DeviceBuffer, Error, Handoff, Idle, Live, OwnedBy, PinnedBuffer, Place, Query, Slot, Stream,
    StreamTag,
};

use devices::for_each_device;

cuda_rt::streams! {
    Compute, priority = High;
    Upload;
    Download;
}

#[test]
fn what_is_uploaded_comes_back() {
    for_each_device(|gpu| {
        let (upload, download) = (
            gpu.stream::<Upload<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        let source: Vec<u32> = (0..1000).collect();
        let host = upload.adopt(gpu.pinned_from(&source).unwrap()).unwrap();
        let mut device = upload.alloc_zeroed::<u32>(1000).unwrap();
        upload.copy_to_device(&host, &mut device).unwrap();
        let device = download.acquire(upload.release(device).unwrap()).unwrap();
        let mut back = download.adopt(gpu.pinned::<u32>(1000).unwrap()).unwrap();
        download.copy_to_host(&device, &mut back).unwrap();
        let back = download.release(back).unwrap().synchronize().unwrap();
        assert_eq!(*back, *source);
    });
}

#[test]
fn fills_copies_and_ranges_meet_where_they_should() {
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let mut a = stream.alloc_zeroed::<[u8; 3]>(10).unwrap();
        stream.fill(&mut a, [1, 2, 3]).unwrap();
        let (left, right) = a.split_at_mut(4);
        stream.fill(&mut right[2..], [9, 9, 9]).unwrap();
        stream.copy(&right[5..], &mut left[1..2]).unwrap();
        let mut host = stream.adopt(gpu.pinned::<[u8; 3]>(10).unwrap()).unwrap();
        for (chunk, index) in a.chunks_exact(3).zip(0..) {
            stream
                .copy_to_host(chunk, &mut host[index * 3..index * 3 + 3])
                .unwrap();
        }
        let host = stream.release(host).unwrap().synchronize().unwrap();
        let (one, nine, none) = ([1, 2, 3], [9, 9, 9], [0; 3]);
        assert_eq!(*host, [one, nine, one, one, one, one, nine, nine, nine, none]);
    });
}

#[test]
fn memory_is_initialised_through_its_type() {
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let uninit = stream.alloc_uninit::<u64>(5).unwrap();
        let a = stream.init_filled(uninit, 0x0102_0304_0506_0708).unwrap();
        let b = stream.init_from(stream.alloc_uninit(5).unwrap(), &a).unwrap();
        let mut host = stream.adopt(gpu.pinned::<u64>(5).unwrap()).unwrap();
        stream.copy_to_host(&b, &mut host).unwrap();
        let c = stream
            .init_from_host(stream.alloc_uninit(5).unwrap(), &host)
            .unwrap();
        let mut second = stream.adopt(gpu.pinned::<u64>(5).unwrap()).unwrap();
        stream.copy_to_host(&c, &mut second).unwrap();
        let second = stream.release(second).unwrap().synchronize().unwrap();
        assert_eq!(*second, [0x0102_0304_0506_0708; 5]);
    });
}

#[test]
fn lengths_are_checked_before_anything_is_enqueued() {
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let mut device = stream.alloc_zeroed::<u32>(4).unwrap();
        let host = stream.adopt(gpu.pinned::<u32>(5).unwrap()).unwrap();
        let error = stream.copy_to_device(&host, &mut device).unwrap_err();
        assert!(
            matches!(
                error,
                Error::LengthMismatch {
                    source_len: 5,
                    destination_len: 4,
                    ..
                }
            ),
            "{error}"
        );
        let error = stream.alloc_zeroed::<u64>(usize::MAX / 4).unwrap_err();
        assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    });
}

#[test]
fn empty_buffers_need_no_memory() {
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let mut device = stream.alloc_zeroed::<f32>(0).unwrap();
        let mut host = stream.adopt(gpu.pinned::<f32>(0).unwrap()).unwrap();
        stream.fill(&mut device, 1.0).unwrap();
        stream.copy_to_host(&device, &mut host).unwrap();
        let (_, host) = stream.release((device, host)).unwrap().synchronize().unwrap();
        assert!(host.is_empty());
        assert_eq!(gpu.pinned_stats().blocks_mapped, 0);
    });
}

#[test]
fn a_handoff_settles_when_polled() {
    for_each_device(|gpu| {
        let stream = gpu.stream::<Compute<_>>().unwrap();
        let mut handoff = stream.release(stream.alloc_zeroed::<u8>(64).unwrap()).unwrap();
        let buffer = loop {
            match handoff.query().unwrap() {
                Query::Done(buffer) => break buffer,
                Query::Pending(again) => handoff = again,
            }
        };
        assert_eq!(buffer.len(), 64);
    });
}

#[derive(cuda_rt::Bundle)]
struct Frame<T, P: Place = Idle> {
    pixels: DeviceBuffer<T, P>,
    host: PinnedBuffer<T, P>,
    #[resource(plain)]
    number: u64,
}

#[derive(cuda_rt::Bundle)]
struct Pair<P: Place = Idle>(Frame<u32, P>, Option<Vec<DeviceBuffer<f32, P>>>);

#[test]
fn derived_bundles_move_as_a_whole() {
    for_each_device(|gpu| {
        let (compute, download) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        let mut pixels = compute.alloc_zeroed::<u32>(100).unwrap();
        compute.fill(&mut pixels, 7).unwrap();
        let host = compute.adopt(gpu.pinned(100).unwrap()).unwrap();
        let extra = Some(vec![
            compute.alloc_zeroed(3).unwrap(),
            compute.alloc_zeroed(4).unwrap(),
        ]);
        let pair = Pair(
            Frame {
                pixels,
                host,
                number: 42,
            },
            extra,
        );
        let Pair(mut frame, _) = download.acquire(compute.release(pair).unwrap()).unwrap();
        download.copy_to_host(&frame.pixels, &mut frame.host).unwrap();
        let frame = download.release(frame).unwrap().synchronize().unwrap();
        assert_eq!((frame.number, &*frame.host), (42, &[7u32; 100][..]));
    });
}

#[test]
fn parts_of_a_split_handoff_go_their_own_ways() {
    for_each_device(|gpu| {
        let (compute, download) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        let mut a = compute.alloc_zeroed::<u32>(8).unwrap();
        compute.fill(&mut a, 5).unwrap();
        let b = compute.alloc_zeroed::<u8>(8).unwrap();
        let (a, b) = compute.release((a, b)).unwrap().split();
        let (a, _b) = (download.acquire(a).unwrap(), compute.acquire(b).unwrap());
        let mut host = download.adopt(gpu.pinned::<u32>(8).unwrap()).unwrap();
        download.copy_to_host(&a, &mut host).unwrap();
        assert_eq!(*download.release(host).unwrap().synchronize().unwrap(), [5; 8]);
    });
}

/// A hop that knows no stream by name.
fn hop<A: StreamTag, B: StreamTag<Device = A::Device>, R: OwnedBy<A>>(
    from: &Stream<A>,
    to: &Stream<B>,
    bundle: R,
) -> <R::Idle as Bundle>::On<B> {
    to.acquire(from.release(bundle).unwrap()).unwrap()
}

#[test]
fn generic_code_moves_bundles() {
    for_each_device(|gpu| {
        let (compute, download) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        let bundle = (
            compute.alloc_zeroed::<f32>(8).unwrap(),
            [compute.alloc_zeroed::<u8>(4).unwrap()],
        );
        let (a, [_b]) = hop(&compute, &download, bundle);
        let _: &DeviceBuffer<f32, Download<_>> = &a;
    });
}

/// The double-buffered server that slots are for.
struct Server<D: Live> {
    compute: Stream<Compute<D>>,
    download: Stream<Download<D>>,
    slots: [Slot<(DeviceBuffer<u32, Idle<D>>, PinnedBuffer<u32, Idle<D>>)>; 2],
    steps: usize,
}

impl<D: Live> Server<D> {
    fn step(&mut self, sink: &mut Vec<u32>) -> Result<(), Error> {
        let slot = &mut self.slots[self.steps % 2];
        let step = self.steps as u32;
        self.steps += 1;
        slot.host(|(_, host)| sink.push(host[0]))?;
        slot.on(&self.compute, |(device, _)| self.compute.fill(device, step))??;
        slot.on(&self.download, |(device, host)| {
            self.download.copy_to_host(device, host)
        })?
    }
}

#[test]
fn slots_keep_a_server_double_buffered() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let slots = std::array::from_fn(|_| {
            let device = compute
                .release(compute.alloc_zeroed(64).unwrap())
                .unwrap()
                .synchronize()
                .unwrap();
            Slot::new((device, gpu.pinned(64).unwrap()))
        });
        let mut server = Server {
            compute,
            download: gpu.stream().unwrap(),
            slots,
            steps: 0,
        };
        let mut seen = Vec::new();
        for _ in 0..10 {
            server.step(&mut seen).unwrap();
        }
        assert_eq!(seen, [0, 0, 0, 1, 2, 3, 4, 5, 6, 7]);
    });
}

/// Types that are equal are taken for streams that are one, by everything else.
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

#[test]
fn a_slot_survives_a_panic_in_its_closure() {
    for_each_device(|gpu| {
        let (compute, download) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        let mut slot = Slot::from(compute.release(compute.alloc_zeroed::<u8>(16).unwrap()).unwrap());
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            slot.on(&compute, |buffer| {
                compute.fill(buffer, 1).unwrap();
                std::panic::panic_any("in the closure")
            })
            .unwrap();
        }));
        assert!(panicked.is_err());
        // What the closure had enqueued by then is waited for.
        let mut host = download.adopt(gpu.pinned::<u8>(16).unwrap()).unwrap();
        slot.on(&download, |buffer| download.copy_to_host(buffer, &mut host))
            .unwrap()
            .unwrap();
        assert_eq!(*download.release(host).unwrap().synchronize().unwrap(), [1; 16]);
    });
}

#[test]
fn two_readers_and_the_writer_waits_for_both() {
    for_each_device(|gpu| {
        let (upload, compute, download) = (
            gpu.stream::<Upload<_>>().unwrap(),
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Download<_>>().unwrap(),
        );
        let mut data = upload.alloc_zeroed::<u32>(500).unwrap();
        upload.fill(&mut data, 3).unwrap();
        let shared = upload.share(data).unwrap();
        let mut host = (
            compute.adopt(gpu.pinned::<u32>(500).unwrap()).unwrap(),
            download.adopt(gpu.pinned::<u32>(500).unwrap()).unwrap(),
        );
        {
            let (one, two) = (compute.lease(&shared).unwrap(), download.lease(&shared).unwrap());
            compute.copy_to_host(&one.view(), &mut host.0).unwrap();
            download.copy_to_host(&two.view(), &mut host.1).unwrap();
        }
        let mut data = upload.acquire(shared.reclaim().unwrap()).unwrap();
        upload.fill(&mut data, 9).unwrap();
        upload.synchronize().unwrap();
        assert_eq!(*compute.release(host.0).unwrap().synchronize().unwrap(), [3; 500]);
        assert_eq!(
            *download.release(host.1).unwrap().synchronize().unwrap(),
            [3; 500]
        );
    });
}

#[test]
fn h09_a_lease_that_is_out_blocks_reclaiming_and_a_leaked_one_for_ever() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let shared = compute.share(compute.alloc_zeroed::<u8>(8).unwrap()).unwrap();
        let lease = compute.lease(&shared).unwrap();
        let shared = shared.reclaim().unwrap_err();
        drop(lease);
        let buffer = compute.acquire(shared.reclaim().unwrap()).unwrap();
        let shared = compute.share(buffer).unwrap();
        std::mem::forget(compute.lease(&shared).unwrap());
        assert!(shared.reclaim().is_err());
    });
}

#[test]
fn dropped_handoffs_and_buffers_are_freed_behind_their_work() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        for _ in 0..20 {
            let mut device = compute.alloc_zeroed::<u32>(256).unwrap();
            let mut host = compute.adopt(gpu.pinned::<u32>(256).unwrap()).unwrap();
            compute.fill(&mut device, 1).unwrap();
            compute.copy_to_host(&device, &mut host).unwrap();
            drop(compute.release((device, host)).unwrap());
        }
        compute.synchronize().unwrap();
        assert!(gpu.pinned_stats().blocks_mapped <= 20);
    });
}

#[test]
fn h21_a_buffer_dropped_under_a_copy_is_freed_after_it() {
    for_each_device(|gpu| {
        let (compute, upload) = (
            gpu.stream::<Compute<_>>().unwrap(),
            gpu.stream::<Upload<_>>().unwrap(),
        );
        let mut copies = Vec::new();
        for value in 0..16u32 {
            let mut device = compute.alloc_zeroed::<u32>(4096).unwrap();
            compute.fill(&mut device, value).unwrap();
            let mut host = compute.adopt(gpu.pinned::<u32>(4096).unwrap()).unwrap();
            compute.copy_to_host(&device, &mut host).unwrap();
            drop(device);
            // The allocator may hand the memory out again at once, to whom it is ordered for.
            let mut other = upload.alloc_zeroed::<u32>(4096).unwrap();
            upload.fill(&mut other, 99).unwrap();
            copies.push(compute.release(host).unwrap());
        }
        for (handoff, value) in copies.into_iter().zip(0..) {
            assert_eq!(*handoff.synchronize().unwrap(), [value; 4096]);
        }
    });
}

#[test]
fn h22_leaking_tokens_leaks_memory_and_nothing_else() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        std::mem::forget(compute.release(compute.alloc_zeroed::<u8>(8).unwrap()).unwrap());
        std::mem::forget(compute.alloc_zeroed::<u8>(8).unwrap());
        let mut host = compute.adopt(gpu.pinned::<u8>(8).unwrap()).unwrap();
        compute
            .copy_to_host(&compute.alloc_zeroed::<u8>(8).unwrap(), &mut host)
            .unwrap();
        std::mem::forget(host);
        compute.synchronize().unwrap();
    });
}

#[test]
fn a_pinned_block_is_reused_only_when_its_copy_is_done() {
    for_each_device(|gpu| {
        let upload = gpu.stream::<Upload<_>>().unwrap();
        let mut devices = Vec::new();
        for round in 0..32u32 {
            let host = upload.adopt(gpu.pinned_from(&[round; 300]).unwrap()).unwrap();
            let mut device = upload.alloc_zeroed::<u32>(300).unwrap();
            upload.copy_to_device(&host, &mut device).unwrap();
            devices.push(device);
        }
        for (device, round) in devices.into_iter().zip(0..) {
            let mut back = upload.adopt(gpu.pinned::<u32>(300).unwrap()).unwrap();
            upload.copy_to_host(&device, &mut back).unwrap();
            assert_eq!(
                *upload.release(back).unwrap().synchronize().unwrap(),
                [round; 300]
            );
        }
    });
}

#[test]
fn pooled_streams_exchange_handoffs() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let pool = gpu.stream_pool(2).unwrap();
        let work: Vec<Handoff<_>> = (0..5u32)
            .map(|value| {
                pool.with(|stream| {
                    let mut buffer = stream.alloc_zeroed::<u32>(32)?;
                    stream.fill(&mut buffer, value)?;
                    stream.release(buffer)
                })
            })
            .collect::<Result<_, _>>()
            .unwrap();
        for (handoff, value) in work.into_iter().zip(0..) {
            let buffer = compute.acquire(handoff).unwrap();
            let mut host = compute.adopt(gpu.pinned::<u32>(32).unwrap()).unwrap();
            compute.copy_to_host(&buffer, &mut host).unwrap();
            assert_eq!(
                *compute.release(host).unwrap().synchronize().unwrap(),
                [value; 32]
            );
        }
    });
}

#[test]
fn a_capture_is_replayed_with_its_forks_and_temporaries() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let (mut a, b) = (
            compute.alloc_zeroed::<u32>(64).unwrap(),
            compute.alloc_zeroed::<u32>(64).unwrap(),
        );
        compute.fill(&mut a, 1).unwrap();
        let mut graph = compute
            .capture((a, b), |stream, (a, mut b)| {
                let fork = stream.fork::<Download<_>>()?;
                let mut temporary = stream.alloc_zeroed::<u32>(64)?;
                stream.copy(&a, &mut temporary)?;
                let temporary = fork.acquire(stream.release(temporary)?)?;
                stream.lend(&fork, &mut b, |b| fork.copy(&temporary, b))?
            })
            .unwrap();
        graph.launch(&compute).unwrap();
        {
            let (mut a, _) = graph.views();
            compute.fill(&mut a, 2).unwrap();
        }
        graph.launch(&compute).unwrap();
        let (_, b) = graph.into_inner();
        let mut host = compute.adopt(gpu.pinned::<u32>(64).unwrap()).unwrap();
        compute.copy_to_host(&b, &mut host).unwrap();
        assert_eq!(*compute.release(host).unwrap().synchronize().unwrap(), [2; 64]);
    });
}

#[test]
fn forking_the_tag_that_is_captured_gives_the_stream_of_the_capture() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let buffer = compute.alloc_zeroed::<u32>(64).unwrap();
        let mut graph = compute
            .capture(buffer, |stream, mut view| {
                let same = stream.fork::<Compute<_>>()?;
                for value in 0..50 {
                    stream.fill(&mut view, value)?;
                    same.fill(&mut view, value + 1)?;
                }
                Ok(())
            })
            .unwrap();
        graph.launch(&compute).unwrap();
        let buffer = graph.into_inner();
        let mut host = compute.adopt(gpu.pinned::<u32>(64).unwrap()).unwrap();
        compute.copy_to_host(&buffer, &mut host).unwrap();
        assert_eq!(*compute.release(host).unwrap().synchronize().unwrap(), [50; 64]);
    });
}

#[test]
fn a_capture_that_fails_or_panics_leaves_the_stream_usable() {
    for_each_device(|gpu| {
        let compute = gpu.stream::<Compute<_>>().unwrap();
        let failed = compute.capture(compute.alloc_zeroed::<u8>(4).unwrap(), |_, _| {
            Err(Error::SlotEmpty)
        });
        assert!(matches!(failed, Err(Error::SlotEmpty)));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = compute.capture(compute.alloc_zeroed::<u8>(4).unwrap(), |stream, mut view| {
                stream.fill(&mut view, 1)?;
                std::panic::panic_any("in the capture")
            });
        }));
        assert!(panicked.is_err());
        compute.alloc_zeroed::<u8>(4).unwrap();
        compute.synchronize().unwrap();
    });
}

#[test]
fn timestamps_tell_the_modelled_time() {
    for_each_device(|gpu| {
        let upload = gpu.stream::<Upload<_>>().unwrap();
        let bytes = 55_000_000;
        let host = upload.adopt(gpu.pinned::<u8>(bytes).unwrap()).unwrap();
        let mut device = upload.alloc_zeroed::<u8>(bytes).unwrap();
        let start = upload.record_timed_event().unwrap();
        upload.copy_to_device(&host, &mut device).unwrap();
        let end = upload.record_timed_event().unwrap();
        let (start, end) = (start.synchronize().unwrap(), end.synchronize().unwrap());
        let elapsed = end.elapsed_ms_since(&start).unwrap();
        // 55 GB/s is the modelled bandwidth; a real bus is within a factor of a few.
        let (least, most) = if gpu.is_simulated() {
            (0.9, 1.2)
        } else {
            (0.2, 50.0)
        };
        assert!((least..most).contains(&elapsed), "{elapsed} ms for 55 MB");
    });
}

#[test]
fn streams_and_handoffs_cross_threads() {
    for_each_device(|gpu| {
        let (upload, compute) = (
            gpu.stream::<Upload<_>>().unwrap(),
            gpu.stream::<Compute<_>>().unwrap(),
        );
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for value in 0..20u32 {
                    let mut buffer = upload.alloc_zeroed::<u32>(16).unwrap();
                    upload.fill(&mut buffer, value).unwrap();
                    send.send(upload.release(buffer).unwrap()).unwrap();
                }
            });
            for (handoff, value) in receive.iter().zip(0..) {
                let buffer = compute.acquire(handoff).unwrap();
                let mut host = compute.adopt(gpu.pinned::<u32>(16).unwrap()).unwrap();
                compute.copy_to_host(&buffer, &mut host).unwrap();
                assert_eq!(
                    *compute.release(host).unwrap().synchronize().unwrap(),
                    [value; 16]
                );
            }
        });
    });
}
