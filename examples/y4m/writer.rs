//! [`Writer`]: writes frames, with each line as it was read.

use std::io::{self, Write};

use super::{FrameLine, Header};

/// Writes a stream: the header at the start, then one frame with each call.
#[derive(Debug)]
pub struct Writer<W> {
    sink: W,
    luma_bytes: usize,
    chroma_bytes: usize,
}

impl<W: Write> Writer<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// Errors of the sink.
    pub fn new(mut sink: W, header: &Header) -> io::Result<Self> {
        sink.write_all(header.line())?;
        sink.write_all(b"\n")?;
        Ok(Self::resume(sink, header))
    }

    /// Continues a stream whose header has been written.
    pub fn resume(sink: W, header: &Header) -> Self {
        Self {
            sink,
            luma_bytes: header.luma_bytes(),
            chroma_bytes: header.chroma_bytes(),
        }
    }

    /// Writes one frame.
    ///
    /// # Errors
    /// Errors of the sink. The number of bytes that the sink took is then unknown.
    ///
    /// # Panics
    /// If the planes do not have the header's sizes.
    pub fn write_frame(&mut self, line: &FrameLine, luma: &[u8], chroma: &[u8]) -> io::Result<()> {
        assert_eq!(luma.len(), self.luma_bytes, "bytes of a luma plane");
        assert_eq!(chroma.len(), self.chroma_bytes, "bytes of the chroma planes");
        self.sink.write_all(line.bytes())?;
        self.sink.write_all(b"\n")?;
        self.sink.write_all(luma)?;
        self.sink.write_all(chroma)
    }

    /// Flushes the sink. A full disk may fail only here.
    ///
    /// # Errors
    /// Errors of the sink.
    pub fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Reader;
    use super::*;

    fn copy(stream: &[u8]) -> Vec<u8> {
        let mut reader = Reader::new(stream).unwrap();
        let mut copy = Vec::new();
        let mut writer = Writer::new(&mut copy, reader.header()).unwrap();
        let mut luma = vec![0; reader.header().luma_bytes()];
        let mut chroma = vec![0; reader.header().chroma_bytes()];
        let mut line = FrameLine::default();
        while reader.read_frame(&mut line, &mut luma, &mut chroma).unwrap() {
            writer.write_frame(&line, &luma, &chroma).unwrap();
        }
        writer.flush().unwrap();
        copy
    }

    #[test]
    fn a_stream_is_written_byte_for_byte_as_it_was_read() {
        let planes: Vec<u8> = (0..5 * 3 + 2 * 3 * 2).collect();
        let stream = [
            b"YUV4MPEG2 W5 H3 F25:1 Im A0:0 C420paldv Zfuture  XYSCSS=420PALDV X\xff\xfe\n".as_slice(),
            b"FRAME\n",
            &planes,
            b"FRAME I1pp Xtimecode=00:00:00:01 \n",
            &planes,
        ]
        .concat();
        assert_eq!(copy(&stream), stream);
    }

    #[test]
    #[should_panic = "bytes of a luma plane"]
    fn a_frame_of_another_size_is_refused() {
        let mut writer = Writer::new(Vec::new(), &Header::new(4, 4, 25)).unwrap();
        let _ = writer.write_frame(&FrameLine::plain(), &[0; 15], &[0; 8]);
    }
}
