//! Every twin runs, and asserts its results: on the GPU if there is one, and on simulated devices.
//!
//! Each twin is a program that can be read by itself. All twins are in one test target, so that one
//! build makes all of them.
// One twin is about `unsafe`, and allows it.
#![deny(unsafe_code)]

macro_rules! twins {
    ($($twin:ident;)*) => { $(
        mod $twin {
            include!(concat!("../twins/", stringify!($twin), ".rs"));

            #[test]
            fn runs() -> Result<(), cuda_rt::Error> {
                main()
            }
        }
    )* };
}

twins! {
    h01_foreign_kernel_reads_without_handoff;
    h01_kept_bundle_used_without_opening;
    h01_kernel_reads_without_handoff;
    h01_product_of_another_streams_matrix;
    h01_read_from_struct_field;
    h01_read_in_generic_function;
    h01_read_on_another_thread;
    h01_read_without_handoff;
    h01_tensors_of_another_library;
    h01_transform_of_another_streams_signal;
    h02_overwrite_in_next_round;
    h02_overwrite_while_read;
    h02_transform_destroys_a_lent_spectrum;
    h03_host_function_of_another_stream;
    h02_written_while_lent_for_reading;
    h03_two_streams_write;
    h04_release_one_of_a_vec;
    h04_use_after_release;
    h05_acquire_from_option;
    h05_acquire_through_a_reference;
    h05_acquire_twice;
    h05_joined_handoff_acquired_again;
    h06_derive_for_an_enum;
    h06_derive_with_a_buffer_of_another_stream;
    h06_derive_with_a_constant;
    h06_release_in_generic_function;
    h06_release_of_a_part_of_another;
    h06_release_of_what_is_idle;
    h08_write_through_a_constant;
    h08_write_through_a_lease;
    h08_write_weights_in_a_graph;
    h09_view_outlives_its_lease;
    h10_writer_waits_for_one_of_two_readers;
    h11_overlapping_views;
    h11_part_read_on_another_stream;
    h11_view_read_on_another_stream;
    h12_swap_owners;
    h12_vec_of_two_streams;
    h13_managed_memory;
    h13_mapped_memory;
    h13_read_before_download_is_done;
    h13_read_what_is_not_settled;
    h13_read_what_was_peeked_at;
    h14_write_combined_memory;
    h14_write_during_upload;
    h14_write_under_a_host_function;
    h14_write_what_is_shared_with_the_host;
    h15_copy_from_a_vec;
    h16_drop_under_a_view;
    h17_refilled_while_it_is_written_to_disk;
    h18_in_flight_buffer_sent_as_ready;
    h19_slot_used_within_itself;
    h20_borrow_in_flight;
    h21_freed_under_a_view;
    h22_forgotten_tokens;
    h23_buffer_leaves_the_pool;
    h23_scoped_buffer_leaves_its_device;
    h23_scopes_mixed_by_recursion;
    h23_two_pooled_streams_mixed;
    h25_blas_of_outside_in_a_capture;
    h25_buffer_leaves_a_capture;
    h25_captured_streams_mixed;
    h25_graph_launched_from_two_threads;
    h25_host_views_leave_a_graph;
    h25_event_enters_a_capture;
    h25_foreign_memory_in_a_capture;
    h25_pinned_memory_adopted_in_a_capture;
    h25_plan_of_outside_in_a_capture;
    h25_updated_between_launches;
    h26_closure_borrows_the_stack;
    h26_closure_of_a_scope_borrows_from_its_body;
    h26_host_function_borrows_the_stack;
    h27_read_inside_a_future;
    h28_wrong_element_type;
    h29_input_is_the_output;
    h29_product_into_its_own_factor;
    h29_transform_into_its_own_input;
    h31_struct_without_repr_c;
    h32_scatter_through_a_slice;
    h32_shared_memory_read_while_written;
    h33_generic_kernel;
    h34_elapsed_before_completion;
    h37_destination_read_on_another_stream;
    h37_destination_there_used_early;
    h37_memory_on_loan;
    h37_source_not_handed_over;
    h37_source_written_under_the_copy;
    h38_buffer_used_in_flight;
    h38_read_on_another_stream;
    h39_kernel_returns_its_element;
    h39_read_of_memory_never_written;
    h40_zeroed_references;
    h36_kept_bundle_of_a_named_device;
    h42_foreign_call_without_unsafe;
    h42_foreign_memory_given_back;
    h44_cuda_call_in_a_closure;
    pipeline;
    server;
    tour;
}
