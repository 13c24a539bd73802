//! [`FileReader`] and [`FileWriter`]: frames of a file that several threads read or write at once.

use std::fs::File;
use std::io::{self, BufReader};

use super::at_offset::{AtOffset, fill_at, write_all_at};
use super::error::{Error, Problem};
use super::reader::{Reader, read_frame_line};
use super::{FrameLine, Header};

/// One frame's place in a file, and its line. An output whose header has the same bytes has the
/// frame at the same place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Index of the frame, from 0.
    pub frame: u64,
    /// Byte offset of the frame's line.
    pub offset: u64,
    /// The line before the frame's planes.
    pub line: FrameLine,
}

impl Place {
    /// Byte offset of the luma plane: behind the line and its newline.
    fn planes(&self) -> u64 {
        self.offset + self.line.bytes().len() as u64 + 1
    }

    fn error(&self, offset: u64, problem: Problem) -> Error {
        Error {
            frame: Some(self.frame),
            offset,
            problem,
        }
    }
}

/// A stream in a file. One thread finds the frames one after another, as a frame's line may have
/// any length; then any thread reads the planes.
#[derive(Debug)]
pub struct FileReader {
    file: File,
    header: Header,
    /// Offset of the first frame.
    first: u64,
    /// Length of the file when it was opened.
    len: u64,
}

impl FileReader {
    /// Reads the stream's header.
    ///
    /// # Errors
    /// If the file can't be read, or does not begin with a header of a supported format.
    pub fn new(file: File) -> Result<Self, Error> {
        let len = file.metadata().map(|metadata| metadata.len());
        let len = len.map_err(|error| Error {
            frame: None,
            offset: 0,
            problem: Problem::Read(error),
        })?;
        let from_start = AtOffset {
            file: &file,
            offset: 0,
        };
        let reader = Reader::new(BufReader::new(from_start))?;
        let (header, first) = (reader.header().clone(), reader.offset());
        Ok(Self {
            file,
            header,
            first,
            len,
        })
    }

    /// The stream's header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Number of bytes of the file when it was opened.
    pub fn file_bytes(&self) -> u64 {
        self.len
    }

    /// Finds the frames, from the first.
    pub fn places(&self) -> Places<'_> {
        Places {
            reader: self,
            frame: 0,
            offset: self.first,
        }
    }

    /// Reads a frame's planes, with one large read for each. Any number of threads may read at
    /// once.
    ///
    /// # Errors
    /// If the file can't be read, ends inside the frame, or became shorter since it was opened. The
    /// contents of the buffers are then unspecified.
    ///
    /// # Panics
    /// If the buffers do not have the header's sizes.
    pub fn read(&self, place: &Place, luma: &mut [u8], chroma: &mut [u8]) -> Result<(), Error> {
        self.header.check_planes(luma, chroma);
        let expected = luma.len() + chroma.len();
        let (start, mut offset) = (place.planes(), place.planes());
        for plane in [luma, chroma] {
            let wanted = plane.len();
            let got = fill_at(&self.file, plane, &mut offset)
                .map_err(|error| place.error(offset, Problem::Read(error)))?;
            if got < wanted {
                let missing = expected - (offset - start) as usize;
                let truncated = Problem::TruncatedFrame { expected, missing };
                let shrunk = self.shrunk(place, offset);
                return Err(shrunk.unwrap_or_else(|| place.error(offset, truncated)));
            }
        }
        Ok(())
    }

    /// The error of a file that ends before `offset`, where it went on when it was opened.
    fn shrunk(&self, place: &Place, offset: u64) -> Option<Error> {
        let now = self.file.metadata().map_or(offset, |metadata| metadata.len());
        let problem = Problem::Shrunk { len: self.len };
        (offset < self.len).then(|| place.error(offset.min(now), problem))
    }
}

/// Finds the frames of a file, one after another.
#[derive(Debug)]
pub struct Places<'a> {
    reader: &'a FileReader,
    frame: u64,
    offset: u64,
}

/// Most lines are `FRAME` alone.
const LINE_BYTES: usize = 64;

impl Places<'_> {
    /// Finds the next frame, by reading its line; `None` at the end of the file.
    ///
    /// # Errors
    /// If the file can't be read, ends inside a line, became shorter since it was opened, or has
    /// other bytes in the place of a frame. The results of further calls are then unspecified.
    pub fn next_place(&mut self) -> Result<Option<Place>, Error> {
        let mut place = Place {
            frame: self.frame,
            offset: self.offset,
            line: FrameLine::default(),
        };
        let from_here = AtOffset {
            file: &self.reader.file,
            offset: self.offset,
        };
        let mut lines = BufReader::with_capacity(LINE_BYTES, from_here);
        let mut offset = self.offset;
        let found = read_frame_line(&mut lines, &mut place.line.0, &mut offset);
        if matches!(found, Ok(false) | Err(Problem::TruncatedLine))
            && let Some(shrunk) = self.reader.shrunk(&place, offset)
        {
            return Err(shrunk);
        }
        if !found.map_err(|problem| place.error(offset, problem))? {
            return Ok(None);
        }
        self.frame += 1;
        self.offset = offset + self.reader.header.frame_bytes() as u64;
        Ok(Some(place))
    }
}

/// Writes a stream to a file, frames in any order and from any number of threads. A frame's place
/// in the input is its place in the output.
#[derive(Debug)]
pub struct FileWriter<'a> {
    file: &'a File,
    header: Header,
}

impl<'a> FileWriter<'a> {
    /// Writes the header.
    ///
    /// # Errors
    /// Errors of the file.
    pub fn new(file: &'a File, header: &Header) -> io::Result<Self> {
        let mut offset = 0;
        write_all_at(file, &[header.line(), b"\n"].concat(), &mut offset)?;
        let header = header.clone();
        Ok(Self { file, header })
    }

    /// Writes one frame, its line and its planes.
    ///
    /// # Errors
    /// Errors of the file, with the first byte that was not written.
    ///
    /// # Panics
    /// If the planes do not have the header's sizes.
    pub fn write(&self, place: &Place, luma: &[u8], chroma: &[u8]) -> Result<(), Error> {
        self.header.check_planes(luma, chroma);
        let mut offset = place.offset;
        let line = [place.line.bytes(), b"\n"].concat();
        [&line, luma, chroma]
            .into_iter()
            .try_for_each(|part| write_all_at(self.file, part, &mut offset))
            .map_err(|error| place.error(offset, Problem::Write(error)))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const STREAM: &[u8] = b"YUV4MPEG2 W2 H1 C444\nFRAME\n012345FRAME Xnote\nabcdefFRAME\nABCDEF";

    fn file_of(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    /// Reads all frames, the last first.
    fn read_backwards(reader: &FileReader) -> Result<Vec<(Place, Vec<u8>, Vec<u8>)>, Error> {
        let (mut places, mut found) = (reader.places(), Vec::new());
        while let Some(place) = places.next_place()? {
            found.push(place);
        }
        let read = |place: Place| {
            let (mut luma, mut chroma) = (vec![0; 2], vec![0; 4]);
            reader.read(&place, &mut luma, &mut chroma)?;
            Ok((place, luma, chroma))
        };
        found.into_iter().rev().map(read).collect()
    }

    fn message(bytes: &[u8]) -> String {
        let reader = FileReader::new(file_of(bytes)).unwrap();
        read_backwards(&reader).unwrap_err().to_string()
    }

    #[test]
    fn frames_in_any_order_make_the_same_file() {
        let reader = FileReader::new(file_of(STREAM)).unwrap();
        let copy = tempfile::tempfile().unwrap();
        let writer = FileWriter::new(&copy, reader.header()).unwrap();
        let frames = read_backwards(&reader).unwrap();
        assert_eq!(frames.len(), 3);
        for (place, luma, chroma) in &frames {
            writer.write(place, luma, chroma).unwrap();
        }
        let (mut bytes, mut offset) = (vec![0; STREAM.len() + 1], 0);
        assert_eq!(fill_at(&copy, &mut bytes, &mut offset).unwrap(), STREAM.len());
        assert_eq!(&bytes[..STREAM.len()], STREAM);
    }

    #[test]
    fn the_errors_are_those_of_a_stream() {
        let len = STREAM.len();
        assert_eq!(
            message(&STREAM[..len - 1]),
            format!(
                "frame 2, byte {}: the stream ends here, 1 bytes short of the frame's 6",
                len - 1
            )
        );
        assert_eq!(
            message(&STREAM[..len - 9]),
            format!("frame 2, byte {}: the stream ends inside a line", len - 9)
        );
        assert_eq!(
            message(&[&STREAM[..33], b"FRAMEx\n"].concat()),
            "frame 1, byte 33: expected `FRAME`, found `FRAMEx`"
        );
    }

    #[test]
    fn a_file_that_shrinks_is_an_error_wherever_it_ends() {
        for len in 22..STREAM.len() {
            let reader = FileReader::new(file_of(STREAM)).unwrap();
            reader.file().set_len(len as u64).unwrap();
            let error = read_backwards(&reader).unwrap_err();
            assert!(matches!(error.problem, Problem::Shrunk { len } if len == STREAM.len() as u64));
            assert_eq!(error.offset, len as u64, "{error}");
        }
        // After the frames were found.
        let reader = FileReader::new(file_of(STREAM)).unwrap();
        let place = reader.places().next_place().unwrap().unwrap();
        reader.file().set_len(30).unwrap();
        let error = reader.read(&place, &mut [0; 2], &mut [0; 4]).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "frame 0, byte 30: the file ends here, but had {} bytes when it was opened: somebody \
                 shortened it",
                STREAM.len()
            )
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_an_error_with_its_frame_and_byte() {
        let reader = FileReader::new(file_of(STREAM)).unwrap();
        let full = File::options().write(true).open("/dev/full").unwrap();
        assert!(FileWriter::new(&full, reader.header()).is_err());
        let header = reader.header().clone();
        let writer = FileWriter { file: &full, header };
        let place = reader.places().next_place().unwrap().unwrap();
        let error = writer.write(&place, &[0; 2], &[0; 4]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "frame 0, byte 21: No space left on device (os error 28)"
        );
    }
}
