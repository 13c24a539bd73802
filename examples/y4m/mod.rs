//! YUV4MPEG2, the uncompressed video format that ffmpeg and mpv read and write: `yuv4mpeg(5)` of
//! mjpegtools.
//!
//! A stream is a line of text, then for each frame a line of text and its planes. Eight bits a
//! sample, all the chroma formats of that page. Every line is kept byte for byte, so that what is
//! not understood here passes through.
//!
//! Our own parser, because the `y4m` crate (0.8) calls a truncated frame the end of the stream,
//! gives no byte offsets and reads into a buffer of its own, where this one reads straight into
//! page-locked memory.

mod error;
mod header;
mod reader;
mod writer;

pub use error::{Error, Problem};
pub use header::{Chroma, Header};
pub use reader::{FrameLine, Reader};
pub use writer::Writer;

/// First word of a stream.
const MAGIC: &[u8] = b"YUV4MPEG2";
/// First word of a frame.
const FRAME: &[u8] = b"FRAME";
/// Longest line accepted, its newline included. A comment (`X…`) may be long; a file with no
/// newline is not Y4M.
const MAX_LINE_BYTES: usize = 16 << 10;
/// Largest frame accepted, so that a hostile header can't ask for all the memory there is.
const MAX_FRAME_BYTES: usize = 1 << 30;
