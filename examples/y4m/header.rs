//! [`Header`]: the first line of a stream.

use super::error::{Problem, Quoted};
use super::{MAGIC, MAX_FRAME_BYTES};

/// The data of the first line, and the line itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    line: Vec<u8>,
    width: u32,
    height: u32,
    chroma: Chroma,
}

/// The planes that follow the luma plane. Each sample has eight bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chroma {
    /// Luma only.
    Mono,
    /// Two planes, a quarter of the width.
    C411,
    /// Two planes, half the width and half the height (`420`, `420jpeg`, `420paldv`, `420mpeg2`).
    C420,
    /// Two planes, half the width.
    C422,
    /// Two planes of the luma plane's size.
    C444,
    /// Three planes of the luma plane's size: chroma and opacity.
    C444Alpha,
}

impl Chroma {
    fn parse(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"mono" => Self::Mono,
            b"411" => Self::C411,
            b"420" | b"420jpeg" | b"420paldv" | b"420mpeg2" => Self::C420,
            b"422" => Self::C422,
            b"444" => Self::C444,
            b"444alpha" => Self::C444Alpha,
            _ => return None,
        })
    }

    /// Number of bytes of all planes except luma; `None` if it overflows. Odd sizes round up.
    fn bytes(self, width: usize, height: usize) -> Option<usize> {
        let (planes, across, down) = match self {
            Self::Mono => return Some(0),
            Self::C411 => (2, 4, 1),
            Self::C420 => (2, 2, 2),
            Self::C422 => (2, 2, 1),
            Self::C444 => (2, 1, 1),
            Self::C444Alpha => (3, 1, 1),
        };
        width
            .div_ceil(across)
            .checked_mul(height.div_ceil(down))?
            .checked_mul(planes)
    }
}

impl Header {
    /// Makes a header.
    ///
    /// # Panics
    /// If the size is 0 or too large. This program chooses the size; it is not read from a file.
    pub fn new(width: u32, height: u32, frames_per_second: u32) -> Self {
        let line = format!("YUV4MPEG2 W{width} H{height} F{frames_per_second}:1 Ip A1:1 C420jpeg");
        Self::parse(line.into_bytes()).unwrap_or_else(|problem| panic!("{problem}"))
    }

    /// Parses a first line, given without its newline.
    ///
    /// Tags without influence on a frame's size are kept, but neither read nor checked.
    pub(super) fn parse(line: Vec<u8>) -> Result<Self, Problem> {
        let mut words = line.split(|&byte| byte == b' ');
        if words.next() != Some(MAGIC) {
            return Err(Problem::NotY4m);
        }
        let (mut width, mut height, mut chroma, mut extension) = (None, None, None, None);
        for word in words {
            match word {
                [b'W', number @ ..] => set(&mut width, 'W', dimension(number)?)?,
                [b'H', number @ ..] => set(&mut height, 'H', dimension(number)?)?,
                [b'C', name @ ..] => set(&mut chroma, 'C', chroma_format(name)?)?,
                // An older extension, by which mjpegtools and ffmpeg named chroma formats that `C`
                // lacked.
                _ => extension = word.strip_prefix(b"XYSCSS=").or(extension),
            }
        }
        let width = width.ok_or(Problem::Missing('W'))?;
        let height = height.ok_or(Problem::Missing('H'))?;
        let chroma = match (chroma, extension) {
            (Some(chroma), _) => chroma,
            (None, Some(name)) => chroma_format(&name.to_ascii_lowercase())?,
            (None, None) => Chroma::C420,
        };
        let header = Self {
            width,
            height,
            chroma,
            line,
        };
        match header.checked_frame_bytes() {
            Some(bytes) if bytes <= MAX_FRAME_BYTES => Ok(header),
            _ => Err(Problem::TooLarge { width, height }),
        }
    }

    /// The first line as it was read, without its newline.
    pub fn line(&self) -> &[u8] {
        &self.line
    }

    /// Width and height in pixels, each at least 1.
    pub fn size(&self) -> (u32, u32) {
        (self.width, self.height)
    }

    /// The planes that follow the luma plane.
    pub fn chroma(&self) -> Chroma {
        self.chroma
    }

    /// Number of bytes in a frame's luma plane.
    pub fn luma_bytes(&self) -> usize {
        self.width as usize * self.height as usize
    }

    /// Number of bytes in a frame's other planes.
    pub fn chroma_bytes(&self) -> usize {
        self.frame_bytes() - self.luma_bytes()
    }

    /// Number of bytes in all planes of a frame.
    pub fn frame_bytes(&self) -> usize {
        self.checked_frame_bytes().expect("checked when parsed")
    }

    /// Checks the lengths of a caller's planes.
    ///
    /// # Panics
    /// If the planes do not have this header's sizes.
    pub(super) fn check_planes(&self, luma: &[u8], chroma: &[u8]) {
        assert_eq!(luma.len(), self.luma_bytes(), "bytes of a luma plane");
        assert_eq!(chroma.len(), self.chroma_bytes(), "bytes of the chroma planes");
    }

    fn checked_frame_bytes(&self) -> Option<usize> {
        let (width, height) = (
            usize::try_from(self.width).ok()?,
            usize::try_from(self.height).ok()?,
        );
        width
            .checked_mul(height)?
            .checked_add(self.chroma.bytes(width, height)?)
    }
}

fn set<T>(slot: &mut Option<T>, tag: char, value: T) -> Result<(), Problem> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(Problem::Twice(tag)),
    }
}

fn chroma_format(name: &[u8]) -> Result<Chroma, Problem> {
    Chroma::parse(name).ok_or_else(|| Problem::Unsupported(Quoted::new(name)))
}

fn dimension(digits: &[u8]) -> Result<u32, Problem> {
    // `parse` alone would accept "+4".
    let number = digits
        .iter()
        .all(u8::is_ascii_digit)
        .then(|| std::str::from_utf8(digits).ok()?.parse().ok());
    number
        .flatten()
        .filter(|&number| number > 0)
        .ok_or_else(|| Problem::BadNumber(Quoted::new(digits)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Header, String> {
        Header::parse(line.as_bytes().to_vec()).map_err(|problem| problem.to_string())
    }

    #[test]
    fn sizes_of_every_chroma_format_round_up() {
        for (format, chroma_bytes) in [
            ("Cmono", 0),
            ("C411", 2 * 2 * 3),
            ("C420", 2 * 3 * 2),
            ("C420jpeg", 2 * 3 * 2),
            ("C420paldv", 2 * 3 * 2),
            ("C420mpeg2", 2 * 3 * 2),
            ("C422", 2 * 3 * 3),
            ("C444", 2 * 15),
            ("C444alpha", 3 * 15),
        ] {
            let header = parse(&format!("YUV4MPEG2 W5 H3 {format}")).unwrap();
            assert_eq!(
                (header.luma_bytes(), header.chroma_bytes()),
                (15, chroma_bytes),
                "{format}"
            );
        }
    }

    #[test]
    fn the_whole_line_is_kept() {
        let line = "YUV4MPEG2 W640 H360 F30000:1001 It A128:117 C422 Zunknown Xfree=text";
        let header = parse(line).unwrap();
        assert_eq!(header.line(), line.as_bytes());
        assert_eq!((header.size(), header.chroma()), ((640, 360), Chroma::C422));
    }

    #[test]
    fn without_a_chroma_tag_the_old_extension_counts_and_420_is_the_default() {
        assert_eq!(parse("YUV4MPEG2 W2 H2").unwrap().chroma(), Chroma::C420);
        assert_eq!(
            parse("YUV4MPEG2 W2 H2 XYSCSS=444").unwrap().chroma(),
            Chroma::C444
        );
        assert_eq!(
            parse("YUV4MPEG2 W2 H2 XYSCSS=420MPEG2 XCOLORRANGE=FULL")
                .unwrap()
                .chroma(),
            Chroma::C420
        );
        assert_eq!(
            parse("YUV4MPEG2 W2 H2 C422 XYSCSS=444").unwrap().chroma(),
            Chroma::C422
        );
        assert!(
            parse("YUV4MPEG2 W2 H2 XYSCSS=420P10")
                .unwrap_err()
                .contains("`420p10` is not supported")
        );
    }

    #[test]
    fn other_streams_are_refused() {
        for line in ["", "YUV4MPEG", "YUV4MPEG22 W2 H2", "RIFF", "yuv4mpeg2 W2 H2"] {
            assert!(
                parse(line).unwrap_err().starts_with("not a YUV4MPEG2 stream"),
                "{line}"
            );
        }
    }

    #[test]
    fn width_and_height_must_stand_once_and_in_digits() {
        assert_eq!(parse("YUV4MPEG2 H2").unwrap_err(), "the header has no `W`");
        assert_eq!(parse("YUV4MPEG2 W2").unwrap_err(), "the header has no `H`");
        assert_eq!(
            parse("YUV4MPEG2 W2 H2 W2").unwrap_err(),
            "the header has `W` twice"
        );
        assert_eq!(
            parse("YUV4MPEG2 W2 H2 C420 Cmono").unwrap_err(),
            "the header has `C` twice"
        );
        for number in [
            "",
            "0",
            "-1",
            "+4",
            "1e3",
            "4294967296",
            "99999999999999999999",
            "2\u{662}",
            "0x10",
        ] {
            let message = parse(&format!("YUV4MPEG2 W{number} H2")).unwrap_err();
            assert!(message.ends_with("is no width or height"), "{number}: {message}");
        }
    }

    #[test]
    fn sizes_that_overflow_or_exhaust_memory_are_refused() {
        for size in [
            "W4294967295 H4294967295",
            "W65536 H65536",
            "W1073741825 H1 Cmono",
            "W18919 H37838",
        ] {
            let message = parse(&format!("YUV4MPEG2 {size}")).unwrap_err();
            assert!(
                message.contains("larger than 1073741824 bytes"),
                "{size}: {message}"
            );
        }
        assert!(parse("YUV4MPEG2 W1073741824 H1 Cmono").is_ok());
    }

    #[test]
    fn deeper_samples_are_refused_with_their_format_named() {
        for format in ["420p10", "422p12", "444p16", "mono16", "420P", ""] {
            let message = parse(&format!("YUV4MPEG2 W2 H2 C{format}")).unwrap_err();
            assert!(
                message.contains(&format!("`{format}` is not supported")),
                "{message}"
            );
        }
    }

    #[test]
    fn quotes_in_messages_are_short_and_escaped() {
        let hostile = format!("YUV4MPEG2 W\u{1b}[2J{}", "9".repeat(5000));
        let message = parse(&hostile).unwrap_err();
        assert!(
            message.len() < 100 && message.contains("\\x1b[2J") && message.contains('…'),
            "{message}"
        );
    }
}
