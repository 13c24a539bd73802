//! YUV4MPEG2, the uncompressed video format that ffmpeg and mpv read and write: `yuv4mpeg(5)` of
//! mjpegtools.
//!
//! A stream is a line of text, then for each frame a line of text and the frame's planes. This
//! parser reads samples of eight bits, in all chroma formats of that manual page. It keeps every
//! line byte for byte, so unknown tags pass through.
//!
//! The example has its own parser for three reasons. The `y4m` crate (0.8) takes a truncated frame
//! for the end of the stream. It gives no byte offsets. It reads into a buffer of its own, while
//! this parser reads straight into page-locked memory, also by several threads at once.

pub(crate) mod at_offset;
mod error;
mod file;
mod header;
mod reader;
mod writer;

pub use error::{Error, Problem};
pub use file::{FileReader, FileWriter, Place, Places};
pub use header::{Chroma, Header};
pub use reader::{FrameLine, Reader};
pub use writer::Writer;

/// First word of a stream.
const MAGIC: &[u8] = b"YUV4MPEG2";
/// First word of a frame.
const FRAME: &[u8] = b"FRAME";
/// Longest accepted line in bytes, with its newline. A comment (`X…`) may be long; a file without
/// a newline is not Y4M.
const MAX_LINE_BYTES: usize = 16 << 10;
/// Largest accepted frame in bytes, so that a hostile header can't ask for all memory.
const MAX_FRAME_BYTES: usize = 1 << 30;
