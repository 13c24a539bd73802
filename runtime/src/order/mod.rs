//! Order: events, fences made of them, and handoffs, which carry bundles from one stream to
//! another.

pub(crate) mod completion;
pub(crate) mod event;
pub(crate) mod event_pool;
pub(crate) mod fence;
pub(crate) mod future;
pub(crate) mod handoff;
pub(crate) mod join;
pub(crate) mod last_uses;
pub(crate) mod stream_ref;
pub(crate) mod timed_event;
pub(crate) mod unless;
