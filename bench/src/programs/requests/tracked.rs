//! With cudarc, which tracks each use of memory: the host waits for the memory that it reads.

use std::sync::Arc;

use cudarc::driver::{CudaSlice, CudaStream, PinnedHostSlice};

use super::{FACTOR, LEN, compare, fill, serve};
use crate::rounds::{Check, Outcome, Round, Way};
use crate::tracked::{Tracked, pinned};

struct Client {
    input: PinnedHostSlice<f32>,
    uploaded: CudaSlice<f32>,
    scaled: CudaSlice<f32>,
    output: PinnedHostSlice<f32>,
}

pub(in super::super) struct ByCudarc<'a> {
    cudarc: &'a Tracked,
    streams: Vec<Arc<CudaStream>>,
    clients: Vec<Client>,
}

impl<'a> ByCudarc<'a> {
    pub(in super::super) fn new(cudarc: &'a Tracked, threads: usize, streams: usize) -> Outcome<Self> {
        let context = &cudarc.context;
        let stream = |_| Ok(context.new_stream()?);
        let streams = (0..streams).map(stream).collect::<Outcome<Vec<_>>>()?;
        let client = |thread| {
            let stream: &Arc<CudaStream> = &streams[thread % streams.len()];
            Ok(Client {
                input: pinned(context, LEN)?,
                uploaded: stream.alloc_zeros(LEN)?,
                scaled: stream.alloc_zeros(LEN)?,
                output: pinned(context, LEN)?,
            })
        };
        let clients = (0..threads).map(client).collect::<Outcome<_>>()?;
        Ok(Self {
            cudarc,
            streams,
            clients,
        })
    }
}

impl Way for ByCudarc<'_> {
    fn round(&mut self, items: u32, check: Check) -> Outcome<Round> {
        let (cudarc, streams) = (self.cudarc, &self.streams);
        let prepare = || Ok(cudarc.context.bind_to_thread()?);
        serve(&mut self.clients, items, prepare, |client, request, thread| {
            let stream = &streams[thread % streams.len()];
            fill(check, request, thread, client.input.as_mut_slice()?);
            stream.memcpy_htod(&client.input, &mut client.uploaded)?;
            cudarc.scale(stream, &client.uploaded, &mut client.scaled, FACTOR)?;
            stream.memcpy_dtoh(&client.scaled, &mut client.output)?;
            compare(check, request, thread, client.output.as_slice()?)
        })
    }
}
