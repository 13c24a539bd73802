//! The driver's calls: the log passes them on and logs them, or only logs them.

use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

use super::entries::{Copied, Entry, Launch};
use super::{CaptureLog, Mode, Run, State};
use cuda_rt_driver::OwnedArguments;
use cuda_rt_driver::{
    Advice, Communicator, CopyExtent, DeviceAddress, DriverError, DriverResult, ErrorCode, ForeignUse,
    HostFunction, HostMemory, Location, MemoryInfo, MemoryPoolStats, PeerAccess, Pitch, Properties, RawEvent,
    RawGraph, RawNode, RawPeer, RawStream,
};
use cuda_rt_driver::{Copies, Driver, Events, Graphs, Kernels, Managed, Memory, Peers, Streams};
use cuda_rt_driver::{
    FunctionLaunch, Kernel, KernelAttributes, LaunchShape, RawFunction, RawModule, SuggestedBlock,
};

/// An address of no memory, for an allocation in a dry run that its capture did not make. No launch
/// of that run is ever made.
const NOWHERE: DeviceAddress = DeviceAddress(1 << 20);

/// The driver that a capture log wraps.
type Inner = dyn Driver;

fn number(address: NonNull<c_void>) -> u64 {
    address.addr().get() as u64
}

impl CaptureLog {
    /// Makes a call, or pretends to, and logs it.
    fn pass<T>(
        &self,
        call: impl FnOnce(&Inner) -> DriverResult<T>,
        pretend: impl FnOnce(&State) -> T,
        note: impl FnOnce(&mut Run, &T) -> Entry,
    ) -> DriverResult<T> {
        let mut state = self.lock();
        let result = match state.mode {
            Mode::Off => {
                drop(state);
                return call(&*self.inner);
            }
            // The call is made under the lock, so that the log has the order of the calls.
            Mode::Capture => call(&*self.inner)?,
            Mode::DryRun => pretend(&state),
        };
        let entry = note(&mut state.run, &result);
        state.run.entries.push(entry);
        Ok(result)
    }

    /// Logs work that the log cannot compare. In a dry run it returns an error, because the work
    /// must not be enqueued: the stream is not being captured.
    fn note_foreign(&self, name: &'static str, stream: RawStream) -> DriverResult<()> {
        let mut state = self.lock();
        if state.mode != Mode::Off {
            let stream = state.run.stream(stream);
            state.run.entries.push(Entry::Foreign { stream, name });
        }
        if state.mode == Mode::DryRun {
            return Err(DriverError::with_detail(
                "cuStreamIsCapturing",
                ErrorCode::NOT_SUPPORTED,
                "a dry run makes no foreign calls",
            ));
        }
        Ok(())
    }

    /// # Safety
    /// `call` makes this launch under the contract of [`Kernels::launch`]. Values have no padding
    /// unless `padded` is true.
    unsafe fn pass_launch(
        &self,
        kernel: &'static Kernel,
        shape: &LaunchShape,
        parameters: &[*const c_void],
        stream: RawStream,
        padded: bool,
        call: impl FnOnce(&Inner) -> DriverResult<()>,
    ) -> DriverResult<()> {
        self.pass(
            |inner| {
                call(inner)?;
                // Without a node a change of the launch needs a capture.
                // SAFETY: the stream is live: the launch above used it by this function's contract.
                Ok(unsafe { inner.captured_node(stream) }.ok())
            },
            |_| None,
            |run, node| {
                Entry::Launch(Launch {
                    stream: run.stream(stream),
                    shape: *shape,
                    // SAFETY: `parameters` are the parameters of a launch of `kernel` by this
                    // function's contract.
                    parameters: unsafe { OwnedArguments::new(kernel, parameters) },
                    padded,
                    node: *node,
                })
            },
        )
        .map(drop)
    }

    fn pass_rows(
        &self,
        (kind, to, from, extent): (Copied, (u64, Pitch), (u64, Pitch), CopyExtent),
        stream: RawStream,
        call: impl FnOnce(&Inner) -> DriverResult<()>,
    ) -> DriverResult<()> {
        self.pass(
            call,
            |_| (),
            |run, ()| Entry::CopyRows {
                stream: run.stream(stream),
                kind,
                to,
                from,
                extent,
            },
        )
    }

    fn pass_copy(
        &self,
        (kind, to, from, bytes): (Copied, u64, u64, usize),
        stream: RawStream,
        call: impl FnOnce(&Inner) -> DriverResult<()>,
    ) -> DriverResult<()> {
        self.pass(
            call,
            |_| (),
            |run, ()| Entry::Copy {
                stream: run.stream(stream),
                kind,
                to,
                from,
                bytes,
            },
        )
    }
}

// SAFETY: `inner` keeps the contract, and calls are passed on to it unchanged. A dry run enqueues
// nothing, and nothing waits for its work. `apply` makes the logged calls later, or they are never
// made.
unsafe impl Driver for CaptureLog {
    fn properties(&self) -> &Properties {
        self.inner.properties()
    }
}

impl Streams for CaptureLog {
    cuda_rt_driver::stream_calls! { forward to |this: &CaptureLog| -> &Inner { &*this.inner };
        create_stream, destroy_stream, synchronize_stream, query_stream, lose,
    }

    cuda_rt_driver::stream_calls! { |this: &CaptureLog, call(&Inner)|
        wait_event(stream, event) => this.pass(
            call,
            |_| (),
            |run, ()| Entry::Wait {
                stream: run.stream(stream),
                record: run.records.get(&event).copied(),
            },
        );

        launch_host_function(stream, function, uses) => this.pass(
            call,
            |_| (),
            |run, ()| Entry::HostFunction {
                stream: run.stream(stream),
            },
        );

        foreign(name, stream, uses, body) => {
            this.note_foreign(name, stream)?;
            // The body may call this driver.
            call(&*this.inner)
        };
    }
}

impl Events for CaptureLog {
    cuda_rt_driver::event_calls! { forward to |this: &CaptureLog| -> &Inner { &*this.inner };
        create_event, destroy_event, query_event, synchronize_event, elapsed_ms,
    }

    cuda_rt_driver::event_calls! { |this: &CaptureLog, call(&Inner)|
        record_event(event, stream) => this.pass(
            call,
            |_| (),
            |run, ()| {
                run.records.insert(event, run.entries.len());
                Entry::Record {
                    stream: run.stream(stream),
                }
            },
        );
    }
}

impl Memory for CaptureLog {
    cuda_rt_driver::memory_calls! { forward to |this: &CaptureLog| -> &Inner { &*this.inner };
        note_free, note_alloc, memory_info, pool_stats, reset_pool_peaks, set_release_threshold,
        trim_pool, register_host, unregister_host, alloc_write_combined, free_write_combined,
        mapped_address,
    }

    cuda_rt_driver::memory_calls! { |this: &CaptureLog, call(&Inner)|
        alloc(bytes, stream) => this.pass(
            call,
            |state| match state.captured.0.get(state.run.entries.len()) {
                // The graph's own address: each replay allocates it at this place.
                Some(Entry::Alloc {
                    bytes: same, address, ..
                }) if *same == bytes => *address,
                _ => NOWHERE,
            },
            |run, address| Entry::Alloc {
                stream: run.stream(stream),
                bytes,
                address: *address,
            },
        );

        free(address, stream) => this.pass(
            call,
            |_| (),
            |run, ()| Entry::Free {
                stream: run.stream(stream),
                address,
            },
        );
    }
}

impl Managed for CaptureLog {
    cuda_rt_driver::managed_calls! { forward to |this: &CaptureLog| -> &Inner { &*this.inner };
        alloc_managed, free_managed, prefetch, advise, while_mapped,
    }
}

impl Copies for CaptureLog {
    cuda_rt_driver::copy_calls! { |this: &CaptureLog, call(&Inner)|
        copy_to_device(destination, source, bytes, stream) => {
            this.pass_copy((Copied::ToDevice, destination.0, number(source), bytes), stream, call)
        };

        copy_to_host(destination, source, bytes, stream) => {
            this.pass_copy((Copied::ToHost, number(destination), source.0, bytes), stream, call)
        };

        copy(destination, source, bytes, stream) => {
            this.pass_copy((Copied::Within, destination.0, source.0, bytes), stream, call)
        };

        copy_rows_to_device(destination, source, extent, stream) => {
            let (to, from) = ((destination.0.0, destination.1), (number(source.0), source.1));
            this.pass_rows((Copied::ToDevice, to, from, extent), stream, call)
        };

        copy_rows_to_host(destination, source, extent, stream) => {
            let (to, from) = ((number(destination.0), destination.1), (source.0.0, source.1));
            this.pass_rows((Copied::ToHost, to, from, extent), stream, call)
        };

        copy_rows(destination, source, extent, stream) => {
            let (to, from) = ((destination.0.0, destination.1), (source.0.0, source.1));
            this.pass_rows((Copied::Within, to, from, extent), stream, call)
        };

        fill(destination, pattern, count, stream) => this.pass(
            call,
            |_| (),
            |run, ()| Entry::Fill {
                stream: run.stream(stream),
                to: destination,
                pattern: pattern.into(),
                count,
            },
        );
    }
}

impl Peers for CaptureLog {
    cuda_rt_driver::peer_calls! { forward to |this: &CaptureLog| -> &Inner { &*this.inner }; peer, peer_access, communicator }

    cuda_rt_driver::peer_calls! { |_this: &CaptureLog|
        // A stream of a capture copies within its device only: the typed API demands a `Live`
        // device.
        copy_peer(_destination, _source, _bytes, _stream) => Err(DriverError::new(
            "cuMemcpyPeerAsync",
            ErrorCode::STREAM_CAPTURE_UNSUPPORTED,
        ));
    }
}

impl Kernels for CaptureLog {
    cuda_rt_driver::kernel_calls! { forward to |this: &CaptureLog| -> &Inner { &*this.inner };
        prepare, kernel_attributes, max_active_blocks, suggest_block, load_module, unload_module,
        module_function,
    }

    cuda_rt_driver::kernel_calls! { |this: &CaptureLog, call(&Inner)|
        launch(kernel, shape, parameters, stream) => {
            // SAFETY: `call` makes this launch, whose values have no padding by the contract of
            // `launch`.
            unsafe { this.pass_launch(kernel, shape, parameters, stream, false, call) }
        };

        launch_padded(kernel, shape, parameters, stream) => {
            // SAFETY: `call` makes this launch, whose values may have padding.
            unsafe { this.pass_launch(kernel, shape, parameters, stream, true, call) }
        };

        // The graph's node takes no other function, and the log keeps no function alive. So an
        // update captures again.
        launch_function(_function, launch, stream) => {
            this.note_foreign(launch.name, stream)?;
            call(&*this.inner)
        };
    }
}

impl Graphs for CaptureLog {
    cuda_rt_driver::graph_calls! { forward to |this: &CaptureLog| -> &Inner { &*this.inner };
        begin_capture, end_capture, captured_node, update_graph, set_launch, launch_graph, destroy_graph,
    }
}
