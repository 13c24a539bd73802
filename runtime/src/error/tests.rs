use super::*;
use crate::interop::dlpack;

/// A value of each variant. It does not build if a variant is missing.
macro_rules! every {
    ($type:ident: $($variant:pat => $value:expr),* $(,)?) => {{
        let _ = |error: &$type| match error { $($variant => ()),* };
        [$($value),*]
    }};
}

/// The error of a launch with this grid.
fn in_launch(why: GridError) -> Error {
    Error::Grid {
        kernel: "scale",
        file: "kernels.rs",
        line: 1,
        called_at: Location::caller(),
        why,
    }
}

/// Each variant of each family, and of [`Error`] itself.
fn every_error(driver: &DriverError) -> Vec<Error> {
    let during = "Stream::fill";
    let source = || driver.clone();
    let nested = || io::Error::other(io::Error::other("the system's words"));
    let open = every!(OpenError:
        OpenError::NoGpu(_) => OpenError::NoGpu(source()),
        OpenError::AlreadySimulated { .. } => OpenError::AlreadySimulated { tag: "Gpu<0>".into() },
        OpenError::AlreadyBound { .. } => OpenError::AlreadyBound { tag: "First", bound: 0, asked: 1 },
        OpenError::NotSimulated => OpenError::NotSimulated,
        OpenError::Driver { .. } => OpenError::Driver { during, source: source() },
    );
    let pinned = every!(PinnedError:
        PinnedError::TooLarge { .. } => PinnedError::TooLarge { during, len: usize::MAX, element_bytes: 4 },
        PinnedError::Limit { .. } => PinnedError::Limit { during, bytes: 4096, held_bytes: 1, limit_bytes: 2 },
        PinnedError::HostMemory { .. } => PinnedError::HostMemory { during, bytes: 1, source: nested() },
        PinnedError::OtherBackend => PinnedError::OtherBackend,
        PinnedError::OtherProcess => PinnedError::OtherProcess,
    );
    let collective = every!(CollectiveError:
        CollectiveError::SameDevice { .. } => CollectiveError::SameDevice { first: 0, second: 1 },
        CollectiveError::RankLength { .. } => CollectiveError::RankLength {
            during,
            rank: 1,
            does: "sends",
            len: 1,
            expected: 2,
        },
        CollectiveError::SharedUnit { .. } => CollectiveError::SharedUnit {
            during,
            rank: 1,
            does: "sends",
            start: 0,
            end: 1,
        },
    );
    let grid = every!(GridError:
        GridError::Block(_) => GridError::Block([0, 1, 1]),
        GridError::Blocks { .. } => GridError::Blocks { axis: 'x', blocks: 1 << 40, limit: 1 },
        GridError::Threads(_) => GridError::Threads([1, 2, 3]),
        GridError::Output { .. } => GridError::Output {
            positions: 3,
            of_blocks: true,
            each: 2,
            len: 7,
        },
    );
    let layout = every!(LayoutError:
        LayoutError::Size { .. } => LayoutError::Size { source: [1, 2, 3], destination: [1, 2, 4] },
        LayoutError::Stride { .. } => LayoutError::Stride {
            side: CopySide::Source,
            stride: 1,
            width: 2,
        },
        LayoutError::PlaneRows { .. } => LayoutError::PlaneRows {
            side: CopySide::Destination,
            plane_rows: 1,
            height: 2,
        },
        LayoutError::PastEnd { .. } => LayoutError::PastEnd {
            side: CopySide::Source,
            end: 9,
            len: 8,
        },
        LayoutError::Overflow { .. } => LayoutError::Overflow { side: CopySide::Source },
    );
    let (found, expected) = (
        dlpack::DLDevice {
            device_type: 1,
            device_id: 0,
        },
        dlpack::DLDevice {
            device_type: 2,
            device_id: 0,
        },
    );
    let tensor = every!(DlpackError:
        DlpackError::Null => DlpackError::Null,
        DlpackError::Version(_) => DlpackError::Version(dlpack::DLPackVersion { major: 2, minor: 0 }),
        DlpackError::OtherDevice { .. } => DlpackError::OtherDevice { found, expected },
        DlpackError::Dtype { .. } => DlpackError::Dtype {
            found: dlpack::DLDataType::scalar(2, 16),
            expected: dlpack::DLDataType::scalar(2, 32),
        },
        DlpackError::ReadOnly => DlpackError::ReadOnly,
        DlpackError::Extent { .. } => DlpackError::Extent { dimension: Some(1), extent: -1 },
        DlpackError::Strides { .. } => DlpackError::Strides { dimension: 0, stride: 1, expected: 4 },
        DlpackError::TooLarge => DlpackError::TooLarge,
        DlpackError::NoAddress => DlpackError::NoAddress,
        DlpackError::Misaligned { .. } => DlpackError::Misaligned { misaligned_by: 2, align: 4 },
        DlpackError::Shape { .. } => DlpackError::Shape { elements: Some(6), len: 7 },
        DlpackError::Padded(_) => DlpackError::Padded(dlpack::DLDataType::scalar(dlpack::DL_INT, 4)),
        DlpackError::StreamNumber(_) => DlpackError::StreamNumber(0),
    );
    let others = every!(Error:
        Error::Open(_) => Error::Open(OpenError::NotSimulated),
        Error::Pinned(_) => Error::Pinned(PinnedError::OtherBackend),
        Error::Collective(_) => Error::Collective(CollectiveError::SameDevice { first: 0, second: 1 }),
        Error::Library(_) => Error::Library(Box::new(CollectiveError::SameDevice { first: 0, second: 1 })),
        Error::Grid { .. } => in_launch(GridError::Block([0, 1, 1])),
        Error::Driver { .. } => Error::Driver { during, source: source() },
        Error::Unordered { .. } => Error::Unordered { during, cause: source() },
        Error::Aborted { .. } => Error::Aborted { during, cause: source() },
        Error::LengthMismatch { .. } => Error::LengthMismatch {
            during,
            source_len: 1,
            destination_len: 2,
        },
        Error::Layout { .. } => Error::Layout {
            during,
            why: LayoutError::Overflow { side: CopySide::Source },
        },
        Error::Dlpack { .. } => Error::Dlpack { during, why: DlpackError::Null },
        Error::TooLarge { .. } => Error::TooLarge { during, len: 1, element_bytes: 2 },
        Error::Launch { .. } => Error::Launch {
            kernel: "scale",
            file: "kernels.rs",
            line: 1,
            called_at: Location::caller(),
            source: source(),
        },
        Error::HostThread { .. } => Error::HostThread { during, source: nested() },
        Error::AlreadyRecording => Error::AlreadyRecording,
        Error::NotAdjacent { .. } => Error::NotAdjacent { during },
        Error::PartNotAdjacent { .. } => Error::PartNotAdjacent { during, index: 2 },
        Error::Cast { .. } => Error::Cast {
            during,
            bytes: 12,
            element_bytes: 8,
            misaligned_by: 0,
        },
        Error::NotAnUpdate { .. } => Error::NotAnUpdate {
            during,
            operation: 1,
            why: "was a fill, and is a copy".into(),
        },
        Error::SlotEmpty => Error::SlotEmpty,
        Error::OtherStream { .. } => Error::OtherStream {
            during,
            owner: "`one` of GPU 0 (H200)".into(),
            asked: "`two` of GPU 0 (H200)".into(),
        },
        Error::OtherDevice { .. } => Error::OtherDevice {
            during,
            owner: "`one` of GPU 0 (H200)".into(),
            asked: "GPU 1 (H200)".into(),
        },
        Error::StreamInUse { .. } => Error::StreamInUse { tag: "Compute" },
    );
    // The family errors are wrapped, not converted: a program may nest a driver's error.
    (open.into_iter().map(Error::Open))
        .chain(pinned.into_iter().map(Error::Pinned))
        .chain(collective.into_iter().map(Error::Collective))
        .chain(grid.into_iter().map(in_launch))
        .chain(layout.into_iter().map(|why| Error::Layout { during, why }))
        .chain(tensor.into_iter().map(|why| Error::Dlpack { during, why }))
        .chain(others)
        .collect()
}

fn says_nothing_twice(error: &(dyn StdError + 'static)) {
    let (mut texts, mut next) = (Vec::new(), Some(error));
    while let Some(error) = next {
        texts.push(error.to_string());
        next = error.source();
    }
    for (behind, text) in texts.iter().enumerate().skip(1) {
        assert!(
            !texts[..behind].iter().any(|before| before.contains(text)),
            "{texts:?}"
        );
    }
    assert!(texts.concat().matches("the detail").count() <= 1, "{texts:?}");
    assert!(
        texts.concat().matches("the system's words").count() <= 1,
        "{texts:?}"
    );
}

#[test]
fn a_chain_of_errors_says_nothing_twice() {
    let driver = DriverError::with_detail("cuEventRecord", ErrorCode::OUT_OF_MEMORY, "the detail");
    for error in every_error(&driver) {
        match &error {
            Error::Open(family) => says_nothing_twice(family),
            Error::Pinned(family) => says_nothing_twice(family),
            Error::Collective(family) => says_nothing_twice(family),
            Error::Grid { why, .. } => says_nothing_twice(why),
            Error::Dlpack { why, .. } => says_nothing_twice(why),
            _ => {}
        }
        let refused = Refused { error, value: () };
        says_nothing_twice(&refused.error);
        says_nothing_twice(&refused);
    }
}

#[test]
fn an_error_is_sticky_if_it_says_that_the_device_is_lost_or_takes_no_more_work() {
    for code in [ErrorCode::OUT_OF_MEMORY, ErrorCode::LAUNCH_FAILED] {
        let driver = DriverError::new("cuEventRecord", code);
        for error in every_error(&driver) {
            let text = error.to_string();
            let lost = text.contains("the device is lost to this process")
                || text.contains("the device takes no more work");
            assert_eq!(error.is_sticky(), lost, "{text}");
            assert_eq!(error.driver().is_some(), text.contains("cuEventRecord"), "{text}");
        }
    }
}

/// The message begins with the call or the kernel, and a call that makes other calls of this crate
/// puts its own name there. `NoGpu` and its like are told apart by their type, and come of one
/// call.
#[test]
fn a_message_names_the_call_or_the_kernel() {
    let driver = DriverError::new("cuEventRecord", ErrorCode::OUT_OF_MEMORY);
    for error in every_error(&driver) {
        if matches!(error, Error::Open(_)) {
            continue;
        }
        let text = error.to_string();
        let (call, _) = text.split_once(": ").unwrap();
        assert!(
            call.contains("::")
                || call == "Slot"
                || call.starts_with("launch of `scale` at ") && call.ends_with(" (declared at kernels.rs:1)"),
            "{text}"
        );
        let renamed = error.of_call("Stream::copy_to_vec").to_string();
        assert!(!renamed.contains("Stream::fill"), "{renamed}");
        assert_eq!(
            renamed.starts_with("Stream::copy_to_vec: "),
            call == "Stream::fill",
            "{renamed}"
        );
    }
}

#[test]
fn memory_ran_out_where_a_repeated_call_may_succeed() {
    for code in [ErrorCode::OUT_OF_MEMORY, ErrorCode::LAUNCH_FAILED] {
        let driver = DriverError::new("cuMemAllocFromPoolAsync", code);
        for error in every_error(&driver) {
            let expected = match &error {
                Error::Pinned(PinnedError::Limit { .. } | PinnedError::HostMemory { .. }) => true,
                Error::Driver { .. }
                | Error::Launch { .. }
                | Error::Open(OpenError::Driver { .. } | OpenError::NoGpu(_)) => {
                    code == ErrorCode::OUT_OF_MEMORY
                }
                _ => false,
            };
            assert_eq!(error.is_out_of_memory(), expected, "{error}");
        }
    }
}

#[test]
fn an_error_of_the_driver_is_one_variant_for_all_families() {
    let error = Error::from(OpenError::Driver {
        during: "Device::open",
        source: DriverError::new("cuStreamCreate", ErrorCode::OUT_OF_MEMORY),
    });
    assert!(
        matches!(
            error,
            Error::Driver {
                during: "Device::open",
                ..
            }
        ),
        "{error}"
    );
}
