//! By hand: each thread has an event of its own, and waits for it.

use super::{FACTOR, LEN, compare, fill, serve};
use crate::raw::{Event, Memory, Pinned, Raw, Stream};
use crate::rounds::{Check, Outcome, Round, Way};

struct Client {
    input: Pinned,
    uploaded: Memory,
    scaled: Memory,
    output: Pinned,
    answered: Event,
}

pub(in super::super) struct ByRaw {
    raw: &'static Raw,
    streams: Vec<Stream>,
    clients: Vec<Client>,
}

impl ByRaw {
    pub(in super::super) fn new(raw: &'static Raw, threads: usize, streams: usize) -> Self {
        let client = |_| Client {
            input: Pinned::new(LEN),
            uploaded: Memory::new(LEN),
            scaled: Memory::new(LEN),
            output: Pinned::new(LEN),
            answered: Event::new(),
        };
        Self {
            raw,
            streams: (0..streams).map(|_| Stream::new()).collect(),
            clients: (0..threads).map(client).collect(),
        }
    }
}

impl Way for ByRaw {
    fn round(&mut self, items: u32, check: Check) -> Outcome<Round> {
        let (raw, streams) = (self.raw, &self.streams);
        let prepare = || {
            raw.bind();
            Ok(())
        };
        serve(&mut self.clients, items, prepare, |client, request, thread| {
            let stream = &streams[thread % streams.len()];
            // SAFETY: the thread's last request was answered.
            fill(check, request, thread, unsafe { client.input.get_mut() });
            stream.upload(&client.input, &client.uploaded);
            raw.scale(stream, &client.uploaded, &client.scaled, FACTOR);
            stream.download(&client.scaled, 0, &client.output);
            stream.record(&client.answered);
            client.answered.synchronize();
            // SAFETY: the download is over.
            compare(check, request, thread, unsafe { client.output.get() })
        })
    }
}
