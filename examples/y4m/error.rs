//! Errors of reading and writing YUV4MPEG2 streams, with their place.

use std::fmt;
use std::io;

use thiserror::Error;

use super::{MAX_FRAME_BYTES, MAX_LINE_BYTES};

/// The reason why a stream can't be read or written, and the place in the stream.
#[derive(Debug, Error)]
pub struct Error {
    /// The frame, counted from 0; `None` in the stream's own header.
    pub frame: Option<u64>,
    /// Byte offset from the start of the stream.
    pub offset: u64,
    /// The defect.
    #[source]
    pub problem: Problem,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.frame {
            Some(frame) => write!(f, "frame {frame}, byte {}: {}", self.offset, self.problem),
            None => write!(f, "header, byte {}: {}", self.offset, self.problem),
        }
    }
}

/// A defect of a stream.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Problem {
    /// The first bytes belong to another format.
    #[error("not a YUV4MPEG2 stream: it does not begin with `YUV4MPEG2 `")]
    NotY4m,
    /// A line does not end.
    #[error("no end of line within {MAX_LINE_BYTES} bytes")]
    LineTooLong,
    /// The stream ends inside a line.
    #[error("the stream ends inside a line")]
    TruncatedLine,
    /// The stream ends inside a frame's planes.
    #[error("the stream ends here, {missing} bytes short of the frame's {expected}")]
    TruncatedFrame {
        /// Number of bytes in a frame.
        expected: usize,
        /// Number of missing bytes.
        missing: usize,
    },
    /// Other bytes stand between two frames.
    #[error("expected `FRAME`, found {0}")]
    NotAFrame(Quoted),
    /// The header lacks its width or height.
    #[error("the header has no `{0}`")]
    Missing(char),
    /// The header has the same tag twice, and readers differ on which counts.
    #[error("the header has `{0}` twice")]
    Twice(char),
    /// The width or the height is no number from 1 to 2^32 - 1.
    #[error("{0} is no width or height")]
    BadNumber(Quoted),
    /// A frame has more bytes than this program accepts.
    #[error("frames of {width}x{height} are larger than {MAX_FRAME_BYTES} bytes")]
    TooLarge {
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
    },
    /// The samples are not eight-bit planes.
    #[error("chroma format {0} is not supported: only 8-bit mono, 411, 420, 422 and 444 are")]
    Unsupported(Quoted),
    /// The file became shorter since it was opened.
    #[error("the file ends here, but had {len} bytes when it was opened: somebody shortened it")]
    Shrunk {
        /// Number of bytes of the file when it was opened.
        len: u64,
    },
    /// The source failed.
    #[error("{0}")]
    Read(#[source] io::Error),
    /// The output failed.
    #[error("{0}")]
    Write(#[source] io::Error),
}

/// The first bytes of a file for a message: short, and escaped.
#[derive(Clone, PartialEq, Eq)]
pub struct Quoted(Vec<u8>);

impl Quoted {
    const MAX_BYTES: usize = 32;

    pub(super) fn new(bytes: &[u8]) -> Self {
        // One character more than the message shows, to know whether the text was cut.
        Self(bytes[..bytes.len().min(Self::MAX_BYTES + 1)].to_vec())
    }
}

impl fmt::Display for Quoted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.get(..Self::MAX_BYTES) {
            Some(start) if self.0.len() > Self::MAX_BYTES => write!(f, "`{}…`", start.escape_ascii()),
            _ => write!(f, "`{}`", self.0.escape_ascii()),
        }
    }
}

impl fmt::Debug for Quoted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
