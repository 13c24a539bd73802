//! Pipelines: items go through stages that all work at once, with N buffers between each two
//! stages.
//!
//! ```
//! use cuda_rt::{Device, pipeline::Pipeline};
//!
//! cuda_rt::streams! { Upload; Compute, priority = High; Download; }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let gpu = Device::open_or_simulate()?;
//! let mut sums = Vec::new();
//! let report = Pipeline::new(&gpu, 3) // buffers at each boundary
//!     .source(1024, 0..10_u32, |item, pinned: &mut [u32]| { // fills pinned memory
//!         pinned.fill(*item);
//!         Ok(pinned.len())
//!     })
//!     .upload::<Upload>()
//!     .stage::<Compute>(|stream, _item, input, output| stream.copy(input, output)) // or a kernel
//!     .download::<Download>()
//!     .sink(|item, data| { // in order
//!         sums.push((item, data.iter().sum::<u32>()));
//!         Ok(())
//!     })
//!     .run()?;
//! println!("{report}");
//! assert_eq!(sums[9], (9, 9 * 1024));
//! # Ok(())
//! # }
//! ```
//!
//! # Shapes
//!
//! ```text
//!   source ─▶ upload ─▶ stage … ─▶ download ─▶ sink       through the GPU and back
//!   reader ─▶ upload ─▶ stage … ─▶ consume                input only, to the end of a file
//!   generate ─▶ stage … ─▶ download ─▶ sink               output only
//!   generate ─▶ stage … ─▶ consume                        stays on the device
//! ```
//!
//! From the device, to several threads:
//!
//! ```
//! use std::sync::atomic::{AtomicU32, Ordering};
//!
//! use cuda_rt::{Device, pipeline::Pipeline};
//!
//! # cuda_rt::streams! { Compute; Download; }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let gpu = Device::open_or_simulate()?;
//! let total = AtomicU32::new(0);
//! Pipeline::new(&gpu, 4)
//!     .generate::<Compute, u32, _>(16, 0..10_u32, |stream, item, data| {
//!         stream.fill(data, *item)?;
//!         Ok(data.len())
//!     })
//!     .download::<Download>()
//!     .sink_unordered(4, |_item, data| {
//!         total.fetch_add(data[0], Ordering::Relaxed); // any order gives the same sum
//!         Ok(())
//!     })
//!     .run()?;
//! assert_eq!(total.into_inner(), 45);
//! # Ok(())
//! # }
//! ```
//!
//! From a file, whose end the reader finds, to memory that stays on the device:
//!
//! ```
//! use cuda_rt::{Device, pipeline::Pipeline};
//!
//! # cuda_rt::streams! { Upload; Compute; }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let gpu = Device::open_or_simulate()?;
//! let compute = gpu.stream::<Compute>()?;
//! let mut last = compute.alloc_zeroed::<u16>(2)?;
//! let mut input = &[1_u8, 2, 3, 4, 5, 6][..];
//! Pipeline::new(&gpu, 2)
//!     .reader(2, |pinned: &mut [u8]| {
//!         // Two bytes at a time, to the end of the file.
//!         let Some((read, rest)) = input.split_at_checked(2) else { return Ok(None) };
//!         input = rest;
//!         pinned.copy_from_slice(read);
//!         Ok(Some(((), read.len())))
//!     })
//!     .upload::<Upload>()
//!     .stage_into::<Compute, u16>(1, |stream, _item, bytes, words| {
//!         stream.copy(bytes.cast::<u16>()?, words)?; // two bytes are one word
//!         Ok(1)
//!     })
//!     .consume::<Compute>(|stream, _item, word| stream.copy(word, &mut last[..1]))
//!     .run()?;
//! assert_eq!(compute.copy_to_vec(&last)?, [u16::from_le_bytes([5, 6]), 0]);
//! # Ok(())
//! # }
//! ```
//!
//! Several threads at the two ends, for work of the host that one thread is too slow for:
//!
//! | | one thread | several threads |
//! |---|---|---|
//! | items from an iterator | [`Pipeline::source`] | [`Pipeline::source_ordered`] |
//! | items found by reading | [`Pipeline::reader`] | [`Pipeline::reader_ordered`] |
//! | results in order | [`Stages::sink`] | [`Stages::sink_ordered`] |
//! | results with a place of their own, such as an offset | | [`Stages::sink_unordered`] |
//!
//! Stages between the ends get all items in order in each case.
//!
//! # What keeps it right
//!
//! Every boundary is a [`Ring`] of N slots. A stage fills a slot and sends it on; the next stage
//! uses the slot and returns it to the ring. Each use waits for the use before it: on the GPU
//! between streams, and on the host at the two ends.
//!
//! - The source fills pinned memory again after its upload. Without the wait, half of the old item
//!   is uploaded, half of the new ([H14](cuda_rt_runtime::hazards#h14)).
//! - An upload writes device memory again after the kernel that reads it. Without the wait, the
//!   kernel reads two items ([H02](cuda_rt_runtime::hazards#h02)).
//! - A kernel writes its output again after its download. Without the wait, the sink gets two items
//!   ([H02](cuda_rt_runtime::hazards#h02)).
//! - A download writes pinned memory again after the sink, which holds it. Without the wait, a file
//!   gets two items ([H17](cuda_rt_runtime::hazards#h17), [H19](cuda_rt_runtime::hazards#h19)).
//!
//! # What keeps it busy
//!
//! Each stage has a thread, and a source or a sink may have several. The threads of stages on
//! streams only enqueue. Only the source waits for uploads, and only the sink waits for downloads.
//! One thread holds a slot at a time, so with N slots at a boundary at most N workers are busy. A
//! ring without a free slot holds the workers before it back. Once every slot has been used, no
//! item needs an allocation.
//!
//! # When something fails
//!
//! The source takes no further item. Stages before the failed stage give up their items, and stages
//! after it finish theirs, so no finished item is lost. [`Ready::run`] returns when all threads
//! have ended, with the stage, the item and the cause; a panic in a closure is a cause too. If
//! several items failed, the error is that of the earliest. If a worker of a source fails, earlier
//! items still go on, and later ones are given up. A sink that fails gets no more items. If a sink
//! has several workers, the others go on; in an ordered sink they go on up to the item that failed.
//! So a file that an unordered sink writes at offsets has its full length then, and a hole: rename
//! it to its final name when `run` has returned `Ok`.
//! [`Cancel`] ends a pipeline as if its items had
//! ended.
#![forbid(unsafe_code)]

mod advice;
mod build;
mod clock;
mod error;
mod meter;
mod order;
mod ready;
mod report;
mod ring;
mod run;
mod source_workers;
mod sources;
mod stages;

pub use build::{Pipeline, Stages};
pub use error::{BoxError, Cause, Panic, PipelineError, Stage, StageKind};
pub use ready::Ready;
pub use report::{MoreBuffers, Report, StageReport};
pub use ring::{Ring, SlotGuard};
pub use run::{Cancel, Worked};
