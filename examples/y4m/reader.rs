//! [`Reader`]: reads frames straight into the caller's memory.

use std::io::{self, Read};

use super::error::{Error, Problem, Quoted};
use super::{FRAME, Header, MAGIC, MAX_LINE_BYTES};

/// Reads a stream's frames, one after another.
///
/// It reads a plane with one large read, and the lines between planes byte by byte. So pass a
/// [`BufReader`](io::BufReader): large reads bypass its buffer.
#[derive(Debug)]
pub struct Reader<R> {
    source: R,
    header: Header,
    offset: u64,
    frame: u64,
}

/// The line before a frame's planes, byte for byte as in the stream, without its newline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameLine(pub(super) Vec<u8>);

impl FrameLine {
    /// A line without parameters.
    pub fn plain() -> Self {
        Self(FRAME.to_vec())
    }

    /// The bytes of the line.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl<R: Read> Reader<R> {
    /// Reads the stream's header.
    ///
    /// # Errors
    /// If the source fails, or does not begin with a header of a supported format.
    pub fn new(mut source: R) -> Result<Self, Error> {
        let mut offset = 0;
        let header = read_header(&mut source, &mut offset);
        match header {
            Ok(header) => Ok(Self {
                source,
                header,
                offset,
                frame: 0,
            }),
            Err(problem) => Err(Error {
                frame: None,
                offset,
                problem,
            }),
        }
    }

    /// The stream's header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Number of bytes read so far.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads the next frame. Returns `false` at the end of the stream; `luma` and `chroma` are then
    /// unchanged.
    ///
    /// # Errors
    /// If the source fails, ends inside a frame, or has other bytes in the place of a frame. The
    /// contents of the buffers, and the results of further calls, are then unspecified.
    ///
    /// # Panics
    /// If the buffers do not have the header's sizes.
    pub fn read_frame(
        &mut self,
        line: &mut FrameLine,
        luma: &mut [u8],
        chroma: &mut [u8],
    ) -> Result<bool, Error> {
        self.header.check_planes(luma, chroma);
        let started = self.read_parts(&mut line.0, luma, chroma);
        let started = started.map_err(|problem| Error {
            frame: Some(self.frame),
            offset: self.offset,
            problem,
        })?;
        self.frame += u64::from(started);
        Ok(started)
    }

    fn read_parts(
        &mut self,
        line: &mut Vec<u8>,
        luma: &mut [u8],
        chroma: &mut [u8],
    ) -> Result<bool, Problem> {
        if !read_frame_line(&mut self.source, line, &mut self.offset)? {
            return Ok(false);
        }
        let expected = luma.len() + chroma.len();
        let mut read = 0;
        for plane in [luma, chroma] {
            let wanted = plane.len();
            let got = fill(&mut self.source, plane, &mut self.offset)?;
            read += got;
            if got < wanted {
                return Err(Problem::TruncatedFrame {
                    expected,
                    missing: expected - read,
                });
            }
        }
        Ok(true)
    }
}

fn read_header(source: &mut impl Read, offset: &mut u64) -> Result<Header, Problem> {
    let mut line = Vec::new();
    match read_line(source, MAGIC, &mut line, offset) {
        // The source has another format, for example an empty file or `YUV4`. An error about the
        // end of its line would not help.
        Ok(false) => Err(Problem::NotY4m),
        Err(Problem::TruncatedLine) if !line.starts_with(MAGIC) => Err(Problem::NotY4m),
        Err(problem) => Err(problem),
        Ok(true) => Header::parse(line),
    }
    .inspect_err(|problem| {
        if matches!(problem, Problem::NotY4m) {
            *offset = 0;
        }
    })
}

/// Reads the line before a frame's planes. Returns `false` at the end of the source.
pub(super) fn read_frame_line(
    source: &mut impl Read,
    line: &mut Vec<u8>,
    offset: &mut u64,
) -> Result<bool, Problem> {
    let start = *offset;
    if !read_line(source, FRAME, line, offset)? {
        return Ok(false);
    }
    if !matches!(line.strip_prefix(FRAME), Some([] | [b' ', ..])) {
        *offset = start;
        return Err(Problem::NotAFrame(Quoted::new(line)));
    }
    Ok(true)
}

/// Reads up to the end of a line, and leaves out the newline. Returns `false` at the end of the
/// source.
///
/// Stops as soon as the line can't begin with `word`, so that megabytes of another format are not
/// searched for a newline.
fn read_line(
    source: &mut impl Read,
    word: &[u8],
    line: &mut Vec<u8>,
    offset: &mut u64,
) -> Result<bool, Problem> {
    line.clear();
    let mut byte = [0];
    while line.len() < MAX_LINE_BYTES {
        if fill(source, &mut byte, offset)? == 0 {
            return if line.is_empty() {
                Ok(false)
            } else {
                Err(Problem::TruncatedLine)
            };
        }
        if byte == *b"\n" {
            return Ok(true);
        }
        line.push(byte[0]);
        // Read eight bytes more than the word, so that the message can quote them.
        if line.len() == word.len() + 8 && !line.starts_with(word) {
            return Ok(true);
        }
    }
    Err(Problem::LineTooLong)
}

/// Reads until `buffer` is full or the source ends. Returns the number of bytes read, and adds it
/// to `offset`.
fn fill(source: &mut impl Read, buffer: &mut [u8], offset: &mut u64) -> Result<usize, Problem> {
    let mut filled = 0;
    while filled < buffer.len() {
        match source.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(bytes) => {
                filled += bytes;
                *offset += bytes as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Problem::Read(error)),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads all frames as (line, luma, chroma).
    #[allow(clippy::type_complexity)]
    fn read_all(bytes: &[u8]) -> Result<Vec<(Vec<u8>, Vec<u8>, Vec<u8>)>, Error> {
        let mut reader = Reader::new(bytes)?;
        let mut luma = vec![0; reader.header().luma_bytes()];
        let mut chroma = vec![0; reader.header().chroma_bytes()];
        let (mut line, mut frames) = (FrameLine::default(), Vec::new());
        while reader.read_frame(&mut line, &mut luma, &mut chroma)? {
            frames.push((line.bytes().to_vec(), luma.clone(), chroma.clone()));
        }
        Ok(frames)
    }

    fn message(bytes: &[u8]) -> String {
        read_all(bytes).unwrap_err().to_string()
    }

    #[test]
    fn frames_and_their_parameters_are_read() {
        let stream = b"YUV4MPEG2 W3 H1 C420\nFRAME\nabcUVuvFRAME Ixyz Xnote\ndefXYxy";
        let frames = read_all(stream).unwrap();
        let frame = |line: &str, luma: &str, chroma: &str| (line.into(), luma.into(), chroma.into());
        assert_eq!(
            frames,
            [
                frame("FRAME", "abc", "UVuv"),
                frame("FRAME Ixyz Xnote", "def", "XYxy")
            ]
        );
    }

    #[test]
    fn a_stream_may_have_no_frames() {
        assert_eq!(read_all(b"YUV4MPEG2 W3 H1\n").unwrap(), []);
    }

    #[test]
    fn a_truncated_frame_is_reported_with_its_place() {
        let stream = b"YUV4MPEG2 W2 H1 C444\nFRAME\n123456FRAME\n1234";
        assert_eq!(
            message(stream),
            "frame 1, byte 43: the stream ends here, 2 bytes short of the frame's 6"
        );
        assert_eq!(
            message(b"YUV4MPEG2 W2 H1 Cmono\nFRAME\n"),
            "frame 0, byte 28: the stream ends here, 2 bytes short of the frame's 2"
        );
    }

    #[test]
    fn other_bytes_between_frames_are_quoted() {
        let stream = b"YUV4MPEG2 W2 H1 Cmono\nFRAME\n12\0FRAMEx\n12";
        assert_eq!(
            message(stream),
            "frame 1, byte 30: expected `FRAME`, found `\\x00FRAMEx`"
        );
        assert_eq!(
            message(b"YUV4MPEG2 W2 H1 Cmono\nFRAMES\n12"),
            "frame 0, byte 22: expected `FRAME`, found `FRAMES`"
        );
    }

    #[test]
    fn lines_that_never_end_are_refused_early() {
        assert_eq!(
            message(b"YUV4MPEG2 W2 H2"),
            "header, byte 15: the stream ends inside a line"
        );
        assert_eq!(
            message(b"YUV4MPEG2 W2 H1 Cmono\nFRA"),
            "frame 0, byte 25: the stream ends inside a line"
        );
        let long = [b"YUV4MPEG2 W2 H2 X".as_slice(), &[b'x'; 1 << 20]].concat();
        assert_eq!(
            message(&long),
            "header, byte 16384: no end of line within 16384 bytes"
        );
    }

    #[test]
    fn other_files_are_refused_at_byte_0_and_not_read_whole() {
        let expected = "header, byte 0: not a YUV4MPEG2 stream: it does not begin with `YUV4MPEG2 `";
        for bytes in [b"".as_slice(), b"YUV4", b"\x89PNG\r\n", &[0; 1 << 20], b"\n"] {
            assert_eq!(message(bytes), expected);
        }
        let mut rest: &[u8] = &[0; 1000];
        Reader::new(&mut rest).unwrap_err();
        assert!(rest.len() > 900, "{} bytes left", rest.len());
    }

    #[test]
    fn long_comments_pass() {
        let line = [b"YUV4MPEG2 W1 H1 Cmono X".as_slice(), &[b'x'; 10_000]].concat();
        let reader =
            Reader::new([&line, b"\n".as_slice()].concat().as_slice()).map(|r| r.header().line().to_vec());
        assert_eq!(reader.unwrap(), line);
    }

    /// A source that gives one byte at a time, is interrupted each time, and fails at the end.
    struct Grudging<'a>(&'a [u8], bool);

    impl Read for Grudging<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            match (self.1, self.0) {
                (true, _) => Err(io::ErrorKind::Interrupted.into()),
                (_, []) => Err(io::Error::other("the disk is gone")),
                (_, [first, rest @ ..]) => {
                    buffer[0] = *first;
                    self.0 = rest;
                    Ok(1)
                }
            }
        }
    }

    #[test]
    fn short_reads_and_interruptions_pass_and_failures_are_errors() {
        let mut reader = Reader::new(Grudging(b"YUV4MPEG2 W2 H1 Cmono\nFRAME\n12FRAME\n3", false)).unwrap();
        let (mut line, mut luma) = (FrameLine::default(), [0; 2]);
        assert!(reader.read_frame(&mut line, &mut luma, &mut []).unwrap());
        assert_eq!(&luma, b"12");
        let error = reader.read_frame(&mut line, &mut luma, &mut []).unwrap_err();
        assert_eq!(error.to_string(), "frame 1, byte 37: the disk is gone");
    }
}
