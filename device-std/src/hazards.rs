//! The hazards that the types of this project prevent, by number: what would go wrong, and how it
//! is refused.
//!
//! The documentation of an item names under "Hazards prevented" the hazards that the item
//! prevents. This module holds no code. `cargo xtask hazards` writes it, from
//! `ui-tests/hazards.txt`.
//!
//! # Between streams
//!
//! ## H01
//!
//! A stream reads what another wrote, with no handoff between (read after write): does not compile.
//!
//! ## H02
//!
//! A stream overwrites what another still reads (write after read): does not compile.
//!
//! ## H03
//!
//! Two streams write one buffer (write after write): does not compile.
//!
//! ## H04
//!
//! A buffer is used after its `release`: does not compile.
//!
//! ## H05
//!
//! One handoff is acquired twice: does not compile.
//!
//! ## H06
//!
//! A stream releases a bundle of which it owns nothing, or only some parts: does not compile.
//!
//! ## H07
//!
//! A wait for an event that was never recorded, or has been recorded again since: no way to write
//! it.
//!
//! ## H08
//!
//! A write through a shared lease, directly or through interior mutability: does not compile.
//!
//! ## H09
//!
//! A shared bundle is taken back while a lease is out: does not compile; runs, and does no harm.
//!
//! ## H10
//!
//! The writer waits for one of two readers: no way to write it; runs, and does no harm.
//!
//! ## H11
//!
//! Parts of a buffer: two overlapping `&mut` views, or a part used on a stream that does not own
//! it: does not compile.
//!
//! ## H12
//!
//! Owners are swapped between streams, or ownership is forged by implementing a trait for a tag:
//! does not compile.
//!
//! # Between a stream and the host
//!
//! ## H13
//!
//! The host reads a pinned buffer before the download is done: does not compile.
//!
//! ## H14
//!
//! The host writes a pinned buffer during its upload: does not compile.
//!
//! ## H15
//!
//! An asynchronous copy from or to pageable memory: a `Vec`, a slice, the stack: does not compile.
//!
//! ## H16
//!
//! A pinned buffer is dropped or reused in flight: does not compile.
//!
//! ## H17
//!
//! The next download fills a buffer that a worker still writes to disk: does not compile.
//!
//! ## H18
//!
//! A buffer in flight is sent to a worker as if it were ready: does not compile.
//!
//! ## H19
//!
//! A ring's slot is refilled before its I/O is done: does not compile.
//!
//! ## H20
//!
//! The caller returns while a host buffer that it lent is in flight: does not compile.
//!
//! # Lifetimes
//!
//! ## H21
//!
//! Device memory is freed, or given out again by the allocator, in flight: does not compile; runs,
//! and does no harm.
//!
//! ## H22
//!
//! `mem::forget` of a buffer, handoff, lease or graph: a leak, and nothing else: runs, and does no
//! harm.
//!
//! ## H23
//!
//! A scoped stream or buffer leaves its scope: does not compile.
//!
//! ## H24
//!
//! A brand is widened or narrowed by variance: does not compile.
//!
//! ## H25
//!
//! A graph outlives its buffers, or what belongs outside a capture is used inside, or the other way
//! round: does not compile.
//!
//! ## H26
//!
//! A function that runs on the host later borrows the stack: does not compile.
//!
//! ## H27
//!
//! A future is dropped or leaked in flight: a leak at most, and its memory is not reached through
//! it: does not compile; runs, and does no harm.
//!
//! # Kernels
//!
//! ## H28
//!
//! Kernel arguments of the wrong type, number or order: does not compile.
//!
//! ## H29
//!
//! `&` where the kernel writes, or `&` and `&mut` arguments that alias: does not compile.
//!
//! ## H30
//!
//! Host memory is passed to a kernel, or device memory is read on the host: does not compile.
//!
//! ## H31
//!
//! A parameter of a type that cannot cross to the device: does not compile.
//!
//! ## H32
//!
//! Two threads of a kernel write one element: an index that is forged, copied or kept, or a wrong
//! grid: does not compile.
//!
//! ## H33
//!
//! A kernel captures or calls what a GPU cannot run: does not compile.
//!
//! # Events, devices, memory
//!
//! ## H34
//!
//! The time between two marks is asked for before both are reached: does not compile.
//!
//! ## H35
//!
//! The time between events that take none, or of two devices: does not compile.
//!
//! ## H36
//!
//! A buffer of one GPU is used on a stream of another: does not compile.
//!
//! ## H37
//!
//! A peer copy that is not ordered after its source, or before the use of its destination: does not
//! compile.
//!
//! ## H38
//!
//! A buffer is used while a collective is in flight, or ranks give different lengths: does not
//! compile; runs, and does no harm.
//!
//! ## H39
//!
//! A read of memory never written: does not compile.
//!
//! ## H40
//!
//! Memory is zeroed for a type to which zeros are no value: does not compile.
//!
//! ## H41
//!
//! Work on the default stream: no way to write it.
//!
//! ## H42
//!
//! Raw handles are used without `unsafe`, or a type is forged by implementing a trait: does not
//! compile.
//!
//! ## H43
//!
//! Work for a stream that someone else captures, or a captured stream that got out: does not
//! compile.
//!
//! ## H44
//!
//! A CUDA call in a function that runs when the stream gets there: runs, and does no harm.
