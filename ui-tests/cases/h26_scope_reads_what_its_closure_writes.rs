// H26 (E0502): the body of a scope reads what a pending closure writes.
// Twin: h26_closure_of_a_scope_borrows_from_its_body
#![forbid(unsafe_code)]
use cuda_rt::{Error, Handoff, PinnedBuffer, done_scope};

fn sum(download: Handoff<PinnedBuffer<f32>>) -> Result<(), Error> {
    let mut sum = 0.0f32;
    done_scope(|scope| {
        let all = &mut sum;
        download.on_done_in(scope, move |host| {
            *all = host.map_or(0.0, |host| host.iter().sum());
        })?;
        println!("{sum}");
        Ok(())
    })
}

fn main() {}
