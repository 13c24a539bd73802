//! CUPTI.

use std::mem::offset_of;

use cudarc::cupti::sys;

use super::super::cupti::{
    CUpti_Activity, CUpti_ActivityFlag, CUpti_ActivityKind, CUpti_ActivityMemcpyKind, CUptiResult, Launch,
    Transfer, cupti_entry_points, cupti_numbers,
};
use super::{Same, same, same_entry_points, same_field, same_fields, same_function, same_numbers};
use crate::ffi;

same!(CUpti_Activity = sys::CUpti_Activity);
same_fields!(CUpti_Activity = sys::CUpti_Activity: kind = kind);

// The beginning of records, in versions that a known library writes.
same_fields!(Transfer = sys::CUpti_ActivityMemcpy5: kind = kind, bytes = bytes, start_ns = start, end_ns = end,
    device = deviceId, context = contextId, stream = streamId, correlation = correlationId);
same_fields!(Transfer = sys::CUpti_ActivityMemcpy6: kind = kind, bytes = bytes, start_ns = start, end_ns = end,
    device = deviceId, context = contextId, stream = streamId, correlation = correlationId);
same_fields!(Transfer = sys::CUpti_ActivityMemset4: kind = kind, bytes = bytes, start_ns = start, end_ns = end,
    device = deviceId, context = contextId, stream = streamId, correlation = correlationId);
same_fields!(Launch = sys::CUpti_ActivityKernel9: kind = kind, start_ns = start, end_ns = end,
    completed_ns = completed, device = deviceId, context = contextId, stream = streamId,
    correlation = correlationId, grid_id = gridId, name = name);
// The direction of a copy is one byte in the bindings, and the first byte of our field.
const _: () = assert!(offset_of!(Transfer, way) == offset_of!(sys::CUpti_ActivityMemcpy5, copyKind));
const _: () = assert!(offset_of!(Transfer, way) == offset_of!(sys::CUpti_ActivityMemcpy6, copyKind));

cupti_numbers!(same_numbers[sys]);
cupti_entry_points!(same_entry_points [sys returns CUptiResult]);

impl<A: Same<D>, B: Same<E>, C: Same<F>, D, E, F> Same<Option<unsafe extern "C" fn(D, E, F)>>
    for unsafe extern "C" fn(A, B, C)
{
}
impl<A: Same<F>, B: Same<G>, C: Same<H>, D: Same<I>, E: Same<J>, F, G, H, I, J>
    Same<Option<unsafe extern "C" fn(F, G, H, I, J)>> for unsafe extern "C" fn(A, B, C, D, E)
{
}
