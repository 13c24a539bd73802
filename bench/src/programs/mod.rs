//! The whole programs, each in several ways. Each program has a folder with a file for each way.

mod decode;
mod diamond;
mod graph;
mod requests;
mod small_items;

use cuda_rt::{Device, Live};
use serde_json::{Value, json};

use crate::raw::Raw;
use crate::report::{OURS, PIPELINE, POOL, RAW};
use crate::rounds::{Named, Outcome, Way};
use crate::tracked::Tracked;
use small_items::raw::{ByRaw, Habits};

/// What a program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    SmallItems,
    SmallItemsCauses,
    Decode,
    Diamond,
    Graph,
    Requests { threads: usize, streams: usize },
}

/// A program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    /// The name on the command line.
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// The meaning of one item.
    pub(crate) item: &'static str,
    kind: Kind,
    /// Items of one round.
    pub(crate) items: u32,
}

const fn server(name: &'static str, what: &'static str, threads: usize, streams: usize) -> Program {
    Program {
        name,
        what,
        item: "a request",
        kind: Kind::Requests { threads, streams },
        items: requests::REQUESTS * threads as u32,
    }
}

/// All programs.
pub(crate) const ALL: [Program; 10] = [
    Program {
        name: "small-items",
        what: "16 KiB up, four launches, 16 KiB down; three streams, four slots",
        item: "16 KiB",
        kind: Kind::SmallItems,
        items: small_items::ITEMS,
    },
    Program {
        name: "small-items-causes",
        what: "the same, by raw calls with what cuda-rt does in another way, one by one",
        item: "16 KiB",
        kind: Kind::SmallItemsCauses,
        items: small_items::ITEMS,
    },
    Program {
        name: "decode-chunks",
        what: "chunks of 64 dependent launches over 16 KiB, each copied and downloaded; two slots",
        item: "a chunk",
        kind: Kind::Decode,
        items: decode::CHUNKS,
    },
    Program {
        name: "diamond",
        what: "two streams upload 32 KiB each and scale, a third adds, each brings back a half",
        item: "a diamond",
        kind: Kind::Diamond,
        items: diamond::ITEMS,
    },
    server(
        "server-1",
        "16 KiB up, a launch, 16 KiB down; a thread, a stream",
        1,
        1,
    ),
    server(
        "server-4",
        "16 KiB up, a launch, 16 KiB down; 4 threads, 4 streams",
        4,
        4,
    ),
    server(
        "server-16",
        "16 KiB up, a launch, 16 KiB down; 16 threads, 16 streams",
        16,
        16,
    ),
    server(
        "server-64",
        "16 KiB up, a launch, 16 KiB down; 64 threads, 64 streams",
        64,
        64,
    ),
    server(
        "shared-streams",
        "16 KiB up, a launch, 16 KiB down; 16 threads, 2 streams",
        16,
        2,
    ),
    Program {
        name: "graph",
        what: "a captured chain of 20 launches over 4 KiB, replayed",
        item: "a replay",
        kind: Kind::Graph,
        items: graph::REPLAYS,
    },
];

impl Program {
    /// By hand, in one way or more: the first is as a careful person writes it.
    pub(crate) fn by_raw(self, raw: &'static Raw) -> Vec<Named<'static>> {
        let one: Box<dyn Way> = match self.kind {
            Kind::SmallItems => Box::new(ByRaw::new(raw, Habits::NONE)),
            Kind::SmallItemsCauses => return causes(raw),
            Kind::Decode => Box::new(decode::raw::ByRaw::new(raw)),
            Kind::Diamond => Box::new(diamond::raw::ByRaw::new(raw)),
            Kind::Graph => Box::new(graph::raw::ByRaw::new(raw)),
            Kind::Requests { threads, streams } => Box::new(requests::raw::ByRaw::new(raw, threads, streams)),
        };
        vec![(RAW, one)]
    }

    /// With the typed API, in one way or more.
    pub(crate) fn typed<'a, D: Live + 'a>(self, gpu: &Device<D>) -> Outcome<Vec<Named<'a>>> {
        Ok(match self.kind {
            Kind::SmallItems => vec![
                (OURS, Box::new(small_items::typed::Typed::new(gpu)?)),
                (PIPELINE, Box::new(small_items::pipeline::ByPipeline::new(gpu))),
            ],
            Kind::SmallItemsCauses => vec![(OURS, Box::new(small_items::typed::Typed::new(gpu)?))],
            Kind::Decode => vec![(OURS, Box::new(decode::typed::Typed::new(gpu)?))],
            Kind::Diamond => vec![(OURS, Box::new(diamond::typed::Typed::new(gpu)?))],
            Kind::Graph => vec![(OURS, Box::new(graph::typed::Typed::new(gpu)?))],
            Kind::Requests { threads, streams } => vec![
                (
                    OURS,
                    Box::new(requests::typed::OnStreams::new(gpu, threads, streams)?),
                ),
                (
                    POOL,
                    Box::new(requests::typed::OnPool::new(gpu, threads, streams)?),
                ),
            ],
        })
    }

    /// With cudarc. `None` if the program is about cuda-rt alone.
    pub(crate) fn by_cudarc(self, cudarc: &Tracked) -> Outcome<Option<Box<dyn Way + '_>>> {
        Ok(Some(match self.kind {
            Kind::SmallItemsCauses => return Ok(None),
            Kind::SmallItems => Box::new(small_items::tracked::ByCudarc::new(cudarc)?),
            Kind::Decode => Box::new(decode::tracked::ByCudarc::new(cudarc)?),
            Kind::Diamond => Box::new(diamond::tracked::ByCudarc::new(cudarc)?),
            Kind::Graph => Box::new(graph::tracked::ByCudarc::new()?),
            Kind::Requests { threads, streams } => {
                Box::new(requests::tracked::ByCudarc::new(cudarc, threads, streams)?)
            }
        }))
    }

    /// What `torch.py` is told. `None` if the program is about cuda-rt alone.
    pub(crate) fn for_torch(self) -> Option<Value> {
        Some(match self.kind {
            Kind::SmallItemsCauses => return None,
            Kind::SmallItems => json!({
                "program": "small-items", "len": small_items::LEN, "slots": small_items::SLOTS,
            }),
            Kind::Decode => json!({
                "program": "decode-chunks", "len": decode::LEN, "slots": decode::SLOTS,
                "launches": decode::LAUNCHES,
            }),
            Kind::Diamond => json!({ "program": "diamond", "len": diamond::LEN }),
            Kind::Graph => json!({
                "program": "graph", "len": graph::LEN, "launches": graph::LAUNCHES,
            }),
            Kind::Requests { threads, streams } => json!({
                "program": "requests", "len": requests::LEN, "threads": threads, "streams": streams,
            }),
        })
    }
}

/// `small-items` by raw calls, with each habit of cuda-rt alone, and with all.
fn causes(raw: &'static Raw) -> Vec<Named<'static>> {
    let none = Habits::NONE;
    let (registered, apart, events) = (true, true, Habits::RING);
    let ways = [
        (RAW, none),
        ("raw, registered memory", Habits { registered, ..none }),
        ("raw, waits apart from captures", Habits { apart, ..none }),
        ("raw, 128 events in turn", Habits { events, ..none }),
        (
            "raw, all three",
            Habits {
                registered,
                apart,
                events,
            },
        ),
    ];
    let way = |(name, habits)| -> Named<'static> { (name, Box::new(ByRaw::new(raw, habits))) };
    ways.into_iter().map(way).collect()
}
