//! The calls of a followed driver: each call is made, and told to the checker.

use std::ffi::{CStr, c_void};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use super::called_at::operation;
use super::follow::each_buffer;
use super::{Checked, communicator, device, host};
use cuda_rt_driver::AccessKind::{self, Read, Write};
use cuda_rt_driver::{
    Advice, CallSite, Communicator, CopyExtent, DeviceAddress, DriverError, DriverResult, ForeignUse,
    HostFunction, HostMemory, Location, MemoryInfo, MemoryPoolStats, PeerAccess, Pitch, Properties, RawEvent,
    RawGraph, RawNode, RawPeer, RawStream,
};
use cuda_rt_driver::{Copies, Driver, Events, Graphs, Kernels, Managed, Memory, Peers, Streams};
use cuda_rt_driver::{
    FunctionLaunch, Kernel, KernelAttributes, LaunchShape, RawFunction, RawModule, SuggestedBlock,
};

/// The file in which a call through `dyn Driver` seems to have its place.
pub(super) const FILE: &str = file!();

// SAFETY: every call is passed on unchanged to `inner`, which keeps the contract of `Driver`.
unsafe impl<D: Driver + ?Sized> Driver for Checked<D> {
    fn properties(&self) -> &Properties {
        self.inner.properties()
    }
}

impl<D: Driver + ?Sized> Streams for Checked<D> {
    cuda_rt_driver::stream_calls! { for<D: ?Sized + Driver> forward to |this: &Checked<D>| -> &D { &*this.inner }; lose }

    cuda_rt_driver::stream_calls! { for<D: ?Sized + Driver> |this: &Checked<D>, call(&D)|
        create_stream(priority) => this.follow(call, |monitor, stream| monitor.create_stream(stream.0));
        destroy_stream(stream) => this.follow(call, |monitor, ()| monitor.destroy_stream(stream.0));
        synchronize_stream(stream) => this.synchronize(|monitor| monitor.stream_contents(stream.0), call);
        query_stream(stream) => this.follow(call, |monitor, done| {
            if *done {
                let contents = monitor.stream_contents(stream.0);
                monitor.seen_done(&contents);
            }
        });
        wait_event(stream, event) => this.follow(call, |monitor, ()| monitor.wait_event(stream.0, event.0));

        // The function's accesses are its stream's, although a thread of the host makes them: they
        // come after the stream's earlier work, and before its later work.
        #[track_caller]
        launch_host_function(stream, function, uses) => {
            let at = CallSite::here("host function");
            this.follow(call, |monitor, ()| {
                let begun = monitor.begin(stream.0);
                for used in uses {
                    let bytes = device(used.address, used.bytes);
                    let kind = if used.writes { Write } else { Read };
                    monitor.access(begun, bytes, kind, operation(at));
                }
            })
        };

        #[track_caller]
        foreign(name, stream, uses, body) => {
            let at = CallSite::here(name);
            if this.watch.is_off() {
                return call(&*this.inner);
            }
            this.watch.check_denied()?;
            // The call is made without the monitor's lock: the body may call this driver.
            call(&*this.inner)?;
            // The call was made, so an error of the checker must not become its error.
            let _ = this.watch.enter(|monitor| {
                this.watch.tell(monitor, |monitor| {
                    let begun = monitor.begin(stream.0);
                    for used in uses {
                        let bytes = device(used.address, used.bytes);
                        let kind = if used.writes { Write } else { Read };
                        monitor.access(begun, bytes, kind, operation(at));
                    }
                });
                Ok(())
            });
            Ok(())
        };
    }
}

impl<D: Driver + ?Sized> Events for Checked<D> {
    cuda_rt_driver::event_calls! { for<D: ?Sized + Driver> forward to |this: &Checked<D>| -> &D { &this.inner }; create_event, elapsed_ms }

    cuda_rt_driver::event_calls! { for<D: ?Sized + Driver> |this: &Checked<D>, call(&D)|
        destroy_event(event) => this.follow(call, |monitor, ()| monitor.destroy_event(event.0));
        record_event(event, stream) => {
            this.follow(call, |monitor, ()| monitor.record_event(event.0, stream.0))
        };
        query_event(event) => this.follow(call, |monitor, done| {
            if *done {
                let contents = monitor.event_contents(event.0);
                monitor.seen_done(&contents);
            }
        });
        synchronize_event(event) => this.synchronize(|monitor| monitor.event_contents(event.0), call);
    }
}

impl<D: Driver + ?Sized> Memory for Checked<D> {
    cuda_rt_driver::memory_calls! { for<D: ?Sized + Driver> forward to |this: &Checked<D>| -> &D { &this.inner };
        memory_info, pool_stats, reset_pool_peaks, set_release_threshold, trim_pool, mapped_address,
    }

    cuda_rt_driver::memory_calls! { for<D: ?Sized + Driver> |this: &Checked<D>, call(&D)|
        #[track_caller]
        alloc(bytes, stream) => {
            let at = CallSite::here("alloc");
            this.follow(call, |monitor, address| {
                monitor.alloc(address.0, bytes as u64, stream.0, operation(at));
            })
        };

        #[track_caller]
        free(address, stream) => {
            let at = CallSite::here("free");
            this.follow(call, |monitor, ()| monitor.free(address.0, stream.0, operation(at)))
        };

        #[track_caller]
        note_free(address, stream) => {
            let at = CallSite::here("free");
            this.follow(call, |monitor, ()| monitor.note_owner(address.0, stream.0, operation(at)))
        };

        #[track_caller]
        note_alloc(address, stream) => {
            let at = CallSite::here("alloc");
            this.follow(call, |monitor, ()| monitor.note_owner(address.0, stream.0, operation(at)))
        };

        register_host(memory) => this.follow(call, |monitor, ()| {
            monitor.register(host(memory.address(), memory.len_bytes()));
        });

        alloc_write_combined(bytes) => this.follow(call, |monitor, address| {
            monitor.alloc_host(host(*address, bytes));
        });

        #[track_caller]
        free_write_combined(address) => {
            let at = CallSite::here("free of write-combined memory");
            this.follow(call, |monitor, ()| monitor.free_host(host(address, 0).start, operation(at)))
        };

        #[track_caller]
        unregister_host(memory) => {
            let at = CallSite::here("unregister");
            this.follow(call, |monitor, ()| {
                monitor.unregister(host(memory.address(), memory.len_bytes()), operation(at));
            })
        };
    }
}

/// The bytes that a copy of rows reads and writes: the rows, and nothing between them.
fn rows(
    extent: CopyExtent,
    (source, from): (u64, Pitch),
    (destination, to): (u64, Pitch),
) -> impl Iterator<Item = (AccessKind, Range<u64>)> {
    let read = extent.touched(source, from).map(|bytes| (Read, bytes));
    read.chain(extent.touched(destination, to).map(|bytes| (Write, bytes)))
}

impl<D: Driver + ?Sized> Managed for Checked<D> {
    cuda_rt_driver::managed_calls! { for<D: ?Sized + Driver> forward to |this: &Checked<D>| -> &D { &this.inner };
        advise, while_mapped,
    }

    cuda_rt_driver::managed_calls! { for<D: ?Sized + Driver> |this: &Checked<D>, call(&D)|
        alloc_managed(bytes) => this.follow(call, |monitor, address| {
            monitor.alloc_host(host(*address, bytes));
        });

        // A prefetch changes no bytes. It counts as a read, so a free does not come before it.
        #[track_caller]
        prefetch(address, bytes, _to, stream) => {
            this.enqueue(CallSite::here("prefetch"), stream, [(Read, host(address, bytes))], call)
        };

        #[track_caller]
        free_managed(address) => {
            let at = CallSite::here("free of managed memory");
            this.follow(call, |monitor, ()| monitor.free_host(host(address, 0).start, operation(at)))
        };
    }
}

impl<D: Driver + ?Sized> Copies for Checked<D> {
    cuda_rt_driver::copy_calls! { for<D: ?Sized + Driver> |this: &Checked<D>, call(&D)|
        #[track_caller]
        copy_to_device(destination, source, bytes, stream) => {
            let accesses = [(Read, host(source, bytes)), (Write, device(destination, bytes))];
            this.enqueue(CallSite::here("copy to device"), stream, accesses, call)
        };

        #[track_caller]
        copy_to_host(destination, source, bytes, stream) => {
            let accesses = [(Read, device(source, bytes)), (Write, host(destination, bytes))];
            this.enqueue(CallSite::here("copy to host"), stream, accesses, call)
        };

        #[track_caller]
        copy(destination, source, bytes, stream) => {
            let accesses = [(Read, device(source, bytes)), (Write, device(destination, bytes))];
            this.enqueue(CallSite::here("copy"), stream, accesses, call)
        };

        #[track_caller]
        copy_rows_to_device(destination, source, extent, stream) => {
            let (to, from) = (destination.0.0, source.0.as_ptr().addr() as u64);
            let accesses = rows(extent, (from, source.1), (to, destination.1));
            this.enqueue(CallSite::here("copy to device"), stream, accesses, call)
        };

        #[track_caller]
        copy_rows_to_host(destination, source, extent, stream) => {
            let (to, from) = (destination.0.as_ptr().addr() as u64, source.0.0);
            let accesses = rows(extent, (from, source.1), (to, destination.1));
            this.enqueue(CallSite::here("copy to host"), stream, accesses, call)
        };

        #[track_caller]
        copy_rows(destination, source, extent, stream) => {
            let accesses = rows(extent, (source.0.0, source.1), (destination.0.0, destination.1));
            this.enqueue(CallSite::here("copy"), stream, accesses, call)
        };

        #[track_caller]
        fill(destination, pattern, count, stream) => {
            let bytes = pattern.len().saturating_mul(count);
            this.enqueue(CallSite::here("fill"), stream, [(Write, device(destination, bytes))], call)
        };
    }
}

impl<D: Driver + ?Sized> Peers for Checked<D> {
    cuda_rt_driver::peer_calls! { for<D: ?Sized + Driver> forward to |this: &Checked<D>| -> &D { &this.inner }; peer, peer_access }

    cuda_rt_driver::peer_calls! { for<D: ?Sized + Driver> |this: &Checked<D>, call(&D)|
        #[track_caller]
        copy_peer(destination, source, bytes, stream) => {
            let accesses = [(Read, device(source.1, bytes)), (Write, device(destination.1, bytes))];
            this.enqueue(CallSite::here("copy to peer"), stream, accesses, call)
        };

        communicator(ranks) => {
            let (inner, watch) = (call(&*this.inner)?, Arc::clone(&this.watch));
            Ok(Box::new(communicator::Checked { inner, watch }))
        };
    }
}

impl<D: Driver + ?Sized> Kernels for Checked<D> {
    cuda_rt_driver::kernel_calls! { for<D: ?Sized + Driver> forward to |this: &Checked<D>| -> &D { &this.inner };
        prepare, kernel_attributes, max_active_blocks, suggest_block, load_module, unload_module,
        module_function,
    }

    cuda_rt_driver::kernel_calls! { for<D: ?Sized + Driver> |this: &Checked<D>, call(&D)|
        #[track_caller]
        launch(kernel, shape, parameters, stream) => {
            let at = CallSite::here(kernel.name);
            // SAFETY: `call` launches this kernel with these parameters. By the contract of
            // `launch` there is one pointer for each parameter, to a live value of its size.
            unsafe { this.follow_launch(at, kernel, parameters, stream, call) }
        };

        #[track_caller]
        launch_padded(kernel, shape, parameters, stream) => {
            let at = CallSite::here(kernel.name);
            // SAFETY: as in `launch`; `launch_padded` demands the same of the pointers.
            unsafe { this.follow_launch(at, kernel, parameters, stream, call) }
        };

        #[track_caller]
        launch_function(_function, launch, stream) => {
            let accesses = launch.uses.iter().map(|used| {
                let kind = if used.writes { Write } else { Read };
                (kind, device(used.address, used.bytes))
            });
            this.enqueue(CallSite::here(launch.name), stream, accesses, call)
        };
    }
}

impl<D: Driver + ?Sized> Graphs for Checked<D> {
    cuda_rt_driver::graph_calls! { for<D: ?Sized + Driver> |this: &Checked<D>, call(&D)|
        begin_capture(stream) => this.follow(call, |monitor, ()| monitor.begin_capture(stream.0));
        end_capture(stream) => this.finish_capture(call, |monitor, graph| {
            monitor.end_capture(stream.0, graph.map(|graph| graph.0));
        });
        captured_node(stream) => {
            this.follow(call, |monitor, node| monitor.captured_node(stream.0, node.0))
        };
        update_graph(graph, stream) => this.finish_capture(call, |monitor, updated| {
            monitor.update_graph(stream.0, updated.map(|()| graph.0));
        });

        // At each replay, the changed accesses are checked against other work. They are not checked
        // against the graph's other nodes.
        #[track_caller]
        set_launch(graph, node, kernel, shape, parameters) => {
            let at = CallSite::here(kernel.name);
            this.follow(call, |monitor, ()| {
                let Some(by) = monitor.set_launch(graph.0, node.0) else {
                    return;
                };
                let tell = |bytes, kind| monitor.access_of_graph(graph.0, by, bytes, kind, operation(at));
                // SAFETY: by the contract of `set_launch` there is one pointer for each of the
                // kernel's parameters, and the driver's call with them has succeeded.
                unsafe { each_buffer(kernel, parameters, tell) };
            })
        };

        launch_graph(graph, stream) => {
            this.follow(call, |monitor, ()| monitor.launch_graph(graph.0, stream.0))
        };
        destroy_graph(graph) => this.follow(call, |monitor, ()| monitor.destroy_graph(graph.0));
    }
}
