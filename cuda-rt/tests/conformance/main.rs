//! One suite for every [`Driver`](cuda_rt::driver::Driver): it tests its contract, and
//! uses nothing else.
//!
//! Each case is a function of a driver, and becomes one test for each backend. `simulated::…`
//! runs it under several seeds and orders. `cuda::…` runs it on the first GPU. `cust::…`
//! (feature `cust`) runs it there through objects of the crate cust. Without a GPU the last two
//! print that they were skipped; with `CUDA_RT_REQUIRE_GPU=1` they fail instead.
//!
//! ```text
//! cargo test -p cuda-handoff --test conformance
//! CUDA_RT_REQUIRE_GPU=1 cargo test -p cuda-handoff --test conformance cuda
//! ```

mod captures;
mod drivers;
mod fixtures;
mod support;

mod cases {
    pub(crate) mod captures;
    pub(crate) mod copies;
    pub(crate) mod errors;
    pub(crate) mod events;
    #[cfg(feature = "cuda")]
    pub(crate) mod foreign;
    pub(crate) mod graphs;
    pub(crate) mod host_functions;
    pub(crate) mod kernels;
    pub(crate) mod managed;
    pub(crate) mod mapped;
    pub(crate) mod memory;
    pub(crate) mod modules;
    pub(crate) mod peers;
    pub(crate) mod streams;
    pub(crate) mod threads;
    pub(crate) mod write_combined;
}

/// Makes a test for each case and backend.
macro_rules! suite {
    ($($group:ident { $($case:ident,)* })*) => {
        mod simulated { $(
            mod $group { $(
                #[test]
                fn $case() {
                    crate::drivers::on_simulated(crate::cases::$group::$case);
                }
            )* }
        )* }

        #[cfg(feature = "cuda")]
        mod cuda { $(
            mod $group { $(
                #[test]
                fn $case() {
                    crate::drivers::on_cuda(crate::cases::$group::$case);
                }
            )* }
        )* }

        #[cfg(feature = "cust")]
        mod cust { $(
            mod $group { $(
                #[test]
                fn $case() {
                    crate::drivers::on_cust(crate::cases::$group::$case);
                }
            )* }
        )* }
    };
}

suite! {
    streams {
        work_of_a_stream_runs_in_order,
        each_stream_keeps_its_own_order,
        any_priority_is_accepted,
        destroying_a_stream_lets_its_work_finish,
        synchronize_waits_for_all_of_a_stream,
        query_is_true_once_all_of_a_stream_is_done,
        query_asks_one_stream_only,
    }
    events {
        a_wait_orders_a_read_after_a_write,
        a_wait_orders_a_write_after_a_read,
        a_wait_orders_a_write_after_a_write,
        a_wait_covers_the_latest_record,
        a_wait_keeps_the_record_it_saw,
        an_event_never_recorded_holds_nothing_up,
        many_streams_wait_for_one_event,
        a_query_turns_true_once_the_record_is_done,
        synchronize_waits_for_the_record_only,
        elapsed_time_is_positive,
        destroying_an_event_keeps_the_order_it_made,
    }
    memory {
        blocks_are_aligned_and_disjoint,
        reuse_follows_the_order_of_the_stream,
        a_block_may_be_kept_for_its_next_owner,
        a_block_moves_between_streams,
        fills_of_every_length,
        a_fill_of_nothing_does_nothing,
        more_than_there_is_fails_and_nothing_breaks,
        memory_info_is_plausible,
        the_pool_reports_its_memory_and_returns_it,
        trimming_keeps_memory_that_pending_work_uses,
        host_memory_is_readable_once_unregistered,
    }
    modules {
        a_function_of_a_loaded_module_runs_in_order,
        images_and_names_that_are_wrong_are_refused,
    }
    mapped {
        kernels_read_and_write_host_memory,
        the_host_and_kernels_take_turns,
        fills_of_host_memory,
        copies_of_mapped_memory,
        mapped_memory_moves_between_streams,
        a_graph_works_on_host_memory,
        memory_that_is_not_page_locked_has_no_address,
    }
    managed {
        the_host_and_kernels_take_turns,
        the_host_uses_other_memory_than_a_running_kernel,
        copies_and_fills_of_managed_memory,
        prefetches_and_advice_change_no_bytes,
        a_graph_works_on_managed_memory,
        an_update_keeps_the_kind_of_the_memory_of_copies,
        a_panic_leaves_the_closure,
    }
    write_combined {
        uploads_read_what_the_host_wrote,
        a_kernel_reaches_write_combined_memory,
        a_graph_uploads_from_write_combined_memory,
    }
    copies {
        copies_at_odd_offsets_and_lengths_arrive,
        copies_within_the_device_arrive,
        copies_of_rows_arrive_and_leave_the_gaps,
        rows_that_overlap_are_refused,
        a_copy_of_rows_is_replayed_by_a_graph,
        a_copy_of_nothing_does_nothing,
        large_copies_are_asynchronous,
    }
    kernels {
        parameters_of_every_size_arrive,
        grid_and_block_arrive,
        threads_outside_the_extent_do_not_enter,
        parameters_are_copied_at_the_launch,
        prepare_is_repeatable,
        occupancy_is_plausible,
    }
    errors {
        invalid_launch_shapes_are_refused,
        a_refused_launch_enqueues_nothing,
    }
    graphs {
        a_captured_stream_runs_nothing_until_launched,
        replays_in_stream_order,
        streams_fork_and_join,
        memory_allocated_inside_is_freed_at_each_launch,
        a_graph_may_be_destroyed_while_it_runs,
        an_empty_capture_is_a_graph,
        an_unjoined_fork_fails_and_the_streams_go_on,
        other_threads_work_while_a_stream_is_captured,
        an_update_changes_later_launches_only,
        an_update_to_other_work_is_refused,
        a_launch_is_set_for_later_replays_only,
        a_launch_is_set_in_a_graph_that_allocates,
    }
    host_functions {
        a_function_runs_between_the_work_around_it,
        waits_of_the_host_cover_a_function,
        a_wait_of_another_stream_covers_a_function,
        a_graph_calls_its_functions_at_each_launch,
        an_update_replaces_a_function_for_later_launches,
        functions_of_several_streams_all_run,
    }
    captures {
        waiting_for_the_captured_stream_ends_the_capture,
        asking_the_captured_stream_ends_the_capture,
        a_fork_that_goes_on_after_its_join_fails,
        a_capture_may_end_on_another_thread,
        launches_of_one_graph_are_ordered,
        two_graphs_of_one_buffer_race_on_two_streams,
    }
    threads {
        streams_of_many_threads,
        a_handle_used_by_another_thread,
        a_handoff_between_threads,
    }
}

/// Cases of two devices. A single GPU plays both.
macro_rules! pairs {
    ($($case:ident,)*) => {
        mod simulated_pair { $(
            #[test]
            fn $case() {
                crate::drivers::on_simulated_pair(crate::cases::peers::$case);
            }
        )* }

        #[cfg(feature = "cuda")]
        mod cuda_pair { $(
            #[test]
            fn $case() {
                crate::drivers::on_cuda_pair(crate::cases::peers::$case);
            }
        )* }
    };
}

pairs! {
    access_can_be_asked_for_again,
    access_is_to_later_allocations_too,
    an_invalid_peer_is_refused,
    copies_in_the_order_that_events_make,
    copies_at_odd_offsets_and_lengths,
    a_copy_of_nothing_does_nothing,
    kernels_reach_the_memory_of_a_peer,
    copies_between_a_peer_and_host_memory,
    the_host_waits_for_both,
    collectives_of_two_ranks,
    a_communicator_that_was_aborted,
}

/// One test for each case, which `$on` runs.
#[cfg(feature = "cuda")]
macro_rules! tests {
    ($on:ident; $($group:ident::$case:ident,)*) => { $(
        #[test]
        fn $case() {
            $on($group::$case);
        }
    )* };
}

/// Cases that are meaningful only on a GPU.
#[cfg(feature = "cuda")]
mod cuda_only {
    use crate::cases::{errors, foreign, kernels, peers};
    use crate::drivers::{in_child, on_cuda, on_locked_cuda_pair};

    tests! { on_cuda;
        errors::ptx_that_does_not_compile,
        errors::a_kernel_missing_from_its_ptx,
        errors::layouts_that_differ,
        kernels::the_module_for_the_device_is_loaded,
        foreign::no_context_current,
        foreign::another_context_current,
        foreign::a_capture_of_other_code,
        foreign::a_global_capture_ended_by_another_thread,
        foreign::one_driver_for_each_ordinal,
    }

    /// The trap loses the context for good, so the case runs in its own process.
    #[test]
    fn a_kernel_that_traps() {
        in_child("cuda_only::a_kernel_that_traps", errors::a_kernel_that_traps);
    }

    /// Both contexts are lost. On a single GPU the two devices are one.
    #[test]
    fn a_trap_reaches_the_device_that_copies() {
        in_child("cuda_only::a_trap_reaches_the_device_that_copies", |_| {
            on_locked_cuda_pair(peers::a_trap_reaches_the_device_that_copies);
        });
    }
}

/// As above, for the driver built on cust's objects. It passes calls on to `cuda`, and these cases
/// check that: behaviour after other code changed the context, and messages of errors.
#[cfg(feature = "cust")]
mod cust_only {
    use crate::cases::{errors, kernels};
    use crate::drivers::{in_child_on_cust, on_cust};

    tests! { on_cust;
        errors::ptx_that_does_not_compile,
        errors::a_kernel_missing_from_its_ptx,
        errors::layouts_that_differ,
        kernels::the_module_for_the_device_is_loaded,
    }

    #[test]
    fn a_kernel_that_traps() {
        in_child_on_cust("cust_only::a_kernel_that_traps", errors::a_kernel_that_traps);
    }
}

/// The panic of a simulated kernel affects only its own device.
mod simulated_only {
    #[test]
    fn a_kernel_that_traps() {
        crate::drivers::on_simulated(crate::cases::errors::a_kernel_that_traps);
    }

    #[test]
    fn a_trap_reaches_the_device_that_copies() {
        crate::drivers::on_simulated_pair(crate::cases::peers::a_trap_reaches_the_device_that_copies);
    }
}
