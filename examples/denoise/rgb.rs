//! Colours of the picture: a frame's luma and chroma become red, green and blue.

use crate::y4m::{Chroma, Header};

/// Converts one pixel of a video to red, green and blue: BT.601 in the narrow range, which is what
/// a stream that says nothing about its colours has, or in the full range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Colours {
    full_range: bool,
}

impl Colours {
    pub(super) fn of(header: &Header) -> Self {
        let mut words = header.line().split(|&byte| byte == b' ');
        Self {
            full_range: words.any(|word| word == b"XCOLORRANGE=FULL"),
        }
    }

    pub(super) fn rgb(self, [luma, blue, red]: [u8; 3]) -> [u8; 3] {
        // In units of 1/2^16.
        let (scale, black, to_red, to_greens, to_blue) = if self.full_range {
            (65_536, 0, 91_881, (22_554, 46_802), 116_130)
        } else {
            (76_309, 16, 104_597, (25_675, 53_279), 132_201)
        };
        let luma = (i64::from(luma) - black) * scale;
        let (blue, red) = (i64::from(blue) - 128, i64::from(red) - 128);
        let channels = [
            luma + to_red * red,
            luma - to_greens.0 * blue - to_greens.1 * red,
            luma + to_blue * blue,
        ];
        channels.map(|channel| ((channel + (1 << 15)) >> 16).clamp(0, 255) as u8)
    }
}

/// The chroma planes of a frame, of any format.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planes<'a> {
    chroma: &'a [u8],
    /// Pixels to a sample, across and down; `None` without chroma.
    pixels: Option<(usize, usize)>,
    /// Samples of a row, and of a plane.
    row: usize,
    plane: usize,
}

impl<'a> Planes<'a> {
    pub(super) fn new(header: &Header, chroma: &'a [u8]) -> Self {
        let pixels = match header.chroma() {
            Chroma::Mono => None,
            Chroma::C411 => Some((4, 1)),
            Chroma::C420 => Some((2, 2)),
            Chroma::C422 => Some((2, 1)),
            Chroma::C444 | Chroma::C444Alpha => Some((1, 1)),
        };
        let (width, height) = header.size();
        let (across, down) = pixels.unwrap_or((1, 1));
        let row = (width as usize).div_ceil(across);
        Self {
            chroma,
            pixels,
            row,
            plane: row * (height as usize).div_ceil(down),
        }
    }

    /// The two chroma samples of a pixel.
    pub(super) fn at(&self, x: usize, y: usize) -> [u8; 2] {
        let Some((across, down)) = self.pixels else {
            return [128; 2];
        };
        let sample = y / down * self.row + x / across;
        [self.chroma[sample], self.chroma[self.plane + sample]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn black_white_and_the_primaries_are_where_the_standard_puts_them() {
        let narrow = Colours { full_range: false };
        for (video, expected) in [
            ([16, 128, 128], [0, 0, 0]),
            ([235, 128, 128], [255, 255, 255]),
            ([81, 90, 240], [255, 0, 0]),
            ([145, 54, 34], [0, 255, 0]),
            ([41, 240, 110], [0, 0, 255]),
        ] {
            let rgb = narrow.rgb(video);
            let near = |(a, b): (u8, u8)| a.abs_diff(b) <= 2;
            assert!(rgb.into_iter().zip(expected).all(near), "{video:?}: {rgb:?}");
        }
        let full = Colours { full_range: true };
        assert_eq!(
            [full.rgb([0, 128, 128]), full.rgb([255, 128, 128])],
            [[0; 3], [255; 3]]
        );
    }

    #[test]
    fn each_format_has_its_chroma_samples() {
        for format in ["C411", "C420", "C422", "C444", "C444alpha", "Cmono"] {
            let line = format!("YUV4MPEG2 W5 H3 F1:1 {format}\n");
            let header = crate::y4m::Reader::new(line.as_bytes()).unwrap().header().clone();
            let chroma: Vec<u8> = (0..header.chroma_bytes() as u8).collect();
            let planes = Planes::new(&header, &chroma);
            let corners = [planes.at(0, 0), planes.at(4, 2)];
            let samples = match format {
                "C411" => 2 * 3,
                "C420" => 3 * 2,
                "C422" => 3 * 3,
                _ => 5 * 3,
            };
            let expected = match format {
                "Cmono" => [[128, 128]; 2],
                _ => [[0, samples], [samples - 1, 2 * samples - 1]],
            };
            assert_eq!(corners, expected, "{format}");
        }
    }
}
