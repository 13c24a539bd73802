// H26 (E0521): a scope is kept for closures that come after it has waited.
// Twin: h26_closure_of_a_scope_borrows_from_its_body
#![forbid(unsafe_code)]
use cuda_rt::{DoneScope, Error, Handoff, PinnedBuffer, done_scope};

fn sum(download: Handoff<PinnedBuffer<f32>>) -> Result<f32, Error> {
    let mut sum = 0.0;
    let mut kept: Option<&DoneScope<'_, '_>> = None;
    done_scope(|scope| kept = Some(scope));
    if let Some(scope) = kept {
        download.on_done_in(scope, |host| {
            sum = host.map_or(0.0, |host| host.iter().sum());
        })?;
    }
    Ok(sum)
}

fn main() {}
