//! [`BeforeAfter`]: one frame as it was read and as it was written, and the picture of both.

use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::observer::Observer;
use super::rgb::{Colours, Planes};
use crate::y4m::Header;

/// Keeps one frame of a run: a wanted one, or the first if the clip ends before the wanted one.
#[derive(Debug)]
pub struct BeforeAfter {
    header: Header,
    wanted: u64,
    frames: Mutex<Frames>,
}

#[derive(Debug, Default)]
struct Frames {
    first: Option<Frame>,
    wanted: Option<Frame>,
}

#[derive(Debug)]
struct Frame {
    index: u64,
    before: Vec<u8>,
    chroma: Vec<u8>,
    after: Option<Vec<u8>>,
}

/// Width of the line between the two halves, in pixels.
const LINE: usize = 2;

impl BeforeAfter {
    /// Keeps frame `wanted` of a clip with this header.
    pub fn new(header: &Header, wanted: u64) -> Self {
        Self {
            header: header.clone(),
            wanted,
            frames: Mutex::default(),
        }
    }

    fn frames(&self) -> MutexGuard<'_, Frames> {
        // The pipeline passes a panic on, and there is no picture then.
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the picture as PNG: the left half of the frame as it was read, the right half
    /// denoised. Returns the frame's index; `None` if the clip had no frame, and then writes
    /// nothing.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn write_png(&self, out: impl Write) -> std::io::Result<Option<u64>> {
        let frames = self.frames();
        let done = |frame: &&Frame| frame.after.is_some();
        let frame = frames.wanted.as_ref().filter(done);
        let Some(frame) = frame.or(frames.first.as_ref()).filter(done) else {
            return Ok(None);
        };
        let (width, height) = self.header.size();
        let mut encoder = png::Encoder::new(out, width, height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&self.pixels(frame))?;
        writer.finish()?;
        Ok(Some(frame.index))
    }

    fn pixels(&self, frame: &Frame) -> Vec<u8> {
        let (width, height) = self.header.size();
        let (width, height) = (width as usize, height as usize);
        let (colours, planes) = (
            Colours::of(&self.header),
            Planes::new(&self.header, &frame.chroma),
        );
        let after = frame.after.as_deref().unwrap_or(&frame.before);
        let middle = width / 2;
        // A narrow picture has no room for a line.
        let line = middle - LINE.min(middle / 8) / 2..middle + LINE.min(middle / 8).div_ceil(2);
        let mut pixels = Vec::with_capacity(3 * width * height);
        for y in 0..height {
            for x in 0..width {
                let luma = if x < middle { &*frame.before } else { after }[y * width + x];
                let [blue, red] = planes.at(x, y);
                pixels.extend(if line.contains(&x) {
                    [255; 3]
                } else {
                    colours.rgb([luma, blue, red])
                });
            }
        }
        pixels
    }
}

impl Observer for BeforeAfter {
    fn read(&self, index: u64, luma: &[u8], chroma: &[u8]) {
        if index != 0 && index != self.wanted {
            return;
        }
        let mut frames = self.frames();
        let slot = if index == self.wanted {
            &mut frames.wanted
        } else {
            &mut frames.first
        };
        *slot = Some(Frame {
            index,
            before: luma.to_vec(),
            chroma: chroma.to_vec(),
            after: None,
        });
    }

    fn written(&self, index: u64, luma: &[u8], _frames: u64) {
        if index != 0 && index != self.wanted {
            return;
        }
        let mut frames = self.frames();
        let Frames { first, wanted } = &mut *frames;
        let of_index = [first, wanted]
            .into_iter()
            .flatten()
            .find(|frame| frame.index == index);
        if let Some(frame) = of_index {
            frame.after = Some(luma.to_vec());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(line: &str) -> Header {
        crate::y4m::Reader::new(line.as_bytes()).unwrap().header().clone()
    }

    fn decoded(picture: &[u8]) -> (u32, u32, Vec<u8>) {
        let mut reader = png::Decoder::new(std::io::Cursor::new(picture))
            .read_info()
            .unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        (info.width, info.height, pixels)
    }

    #[test]
    fn the_left_half_is_as_it_was_read_and_the_right_half_as_it_was_written() {
        let header = header("YUV4MPEG2 W40 H2 F1:1 Cmono XCOLORRANGE=FULL\n");
        let both = BeforeAfter::new(&header, 1);
        for index in 0..3 {
            both.read(index, &[10 * (index as u8 + 1); 80], &[]);
            both.written(index, &[100 * (index as u8 + 1).min(2); 80], index + 1);
        }
        let mut picture = Vec::new();
        assert_eq!(both.write_png(&mut picture).unwrap(), Some(1));
        let (width, height, pixels) = decoded(&picture);
        assert_eq!((width, height), (40, 2));
        let grey = |value: u8, pixels: usize| vec![value; 3 * pixels];
        let row = [grey(20, 19), grey(255, 2), grey(200, 19)].concat();
        assert_eq!(pixels, [&row[..], &row[..]].concat());
    }

    #[test]
    fn a_short_clip_shows_its_first_frame_and_an_empty_one_none() {
        let header = header("YUV4MPEG2 W1 H1 F1:1 C444 XCOLORRANGE=FULL\n");
        let both = BeforeAfter::new(&header, 7);
        let mut picture = Vec::new();
        assert_eq!(both.write_png(&mut picture).unwrap(), None);
        assert!(picture.is_empty());
        both.read(0, &[10], &[128, 128]);
        assert_eq!(both.write_png(&mut picture).unwrap(), None, "not written yet");
        both.written(0, &[60], 1);
        // Frame 7 was read, but the run ended before it was written.
        both.read(7, &[11], &[128, 128]);
        assert_eq!(both.write_png(&mut picture).unwrap(), Some(0));
        assert_eq!(decoded(&picture), (1, 1, vec![60; 3]));
    }
}
