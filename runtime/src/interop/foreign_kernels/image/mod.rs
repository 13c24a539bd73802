//! [`Image`]: the bytes of a module, recognised and checked, and the parameters of its entries.
//!
//! A driver reads as many bytes as the headers of an image state, so they are checked before.

mod elf;
mod fatbin;

use std::fmt;

use elf::Cubin;

/// The bytes of a module, ready for a driver: a copy that is aligned to 8 bytes and ends in zeros.
#[derive(Clone)]
pub(super) struct Image {
    words: Vec<u64>,
    len_bytes: usize,
    kind: Kind,
}

/// Bytes that are no module which can be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageError {
    /// The bytes are no PTX, no cubin and no fatbin.
    NotRecognised,
    /// The image states a place outside its bytes: it is cut off, or damaged.
    CutOff {
        /// The part that does not fit.
        part: &'static str,
    },
    /// An ELF file for another machine, or of another class: no cubin.
    OtherMachine {
        /// The number of the machine in the file. CUDA's is 190.
        machine: u16,
    },
    /// The fatbin holds an image that is compressed, so its parameters cannot be compared.
    Compressed,
    /// The fatbin holds no image of code.
    Empty,
    /// The parameters of an entry cannot be read.
    UnreadableParameters {
        /// The entry's name.
        entry: String,
        /// The line of PTX that begins the entry, if the image is PTX.
        line: Option<String>,
    },
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRecognised => f.write_str(
                "the bytes are no PTX (text with a line `.version`), no cubin and no fatbin: \
                 compile with `nvcc --ptx`, `nvcc --cubin` or `nvcc --fatbin`, or with `Nvrtc`",
            ),
            Self::CutOff { part } => write!(
                f,
                "the image is cut off or damaged: {part} lies outside its bytes; read the whole file"
            ),
            Self::OtherMachine { machine } => write!(
                f,
                "an ELF file for machine {machine}, and no cubin of 64 bits (machine 190): \
                 an object file of the host cannot be loaded; compile with `nvcc --cubin`"
            ),
            Self::Compressed => f.write_str(
                "the fatbin holds a compressed image, whose parameters cannot be compared: \
                 compile with `nvcc --fatbin --no-compress`, or load PTX or a cubin",
            ),
            Self::Empty => f.write_str("the fatbin holds neither PTX nor a cubin"),
            Self::UnreadableParameters { entry, line } => {
                write!(
                    f,
                    "the parameters of entry `{entry}` cannot be read from the image"
                )?;
                match line {
                    Some(line) => write!(f, ": `{line}` (a parameter is `.param .type name`)"),
                    None => Ok(()),
                }
            }
        }
    }
}

impl std::error::Error for ImageError {}

/// The part of each image that a lookup reads.
#[derive(Clone)]
enum Kind {
    Ptx(String),
    Cubin(Cubin),
    Fatbin(Vec<Self>),
}

/// The sizes of an entry's parameters, in bytes, in their order; `None` if there is no entry of
/// the name.
type Sizes = Option<Vec<usize>>;

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.name();
        write!(f, "Image({kind}, {} bytes)", self.len_bytes)
    }
}

impl Image {
    /// Recognises an image by its first bytes, and checks the places that its headers state.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, ImageError> {
        let kind = match fatbin::images(bytes)? {
            Some(images) => {
                let kinds = images
                    .into_iter()
                    .map(Kind::read)
                    .collect::<Result<Vec<_>, _>>()?;
                if kinds.is_empty() {
                    return Err(ImageError::Empty);
                }
                Kind::Fatbin(kinds)
            }
            None => Kind::read(bytes)?,
        };
        // Zeros behind the bytes end a text, and fill the last word.
        let mut words = vec![0_u64; bytes.len() / 8 + 1];
        let (places, _) = bytemuck::cast_slice_mut::<u64, u8>(&mut words).split_at_mut(bytes.len());
        places.copy_from_slice(bytes);
        Ok(Self {
            words,
            len_bytes: bytes.len(),
            kind,
        })
    }

    /// The bytes for a driver: aligned to 8, with a NUL at the end.
    pub(super) fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..=self.len_bytes]
    }

    /// The sizes of the parameters of the entry `name`, in each image that a driver may choose.
    pub(super) fn parameters(&self, name: &str) -> Result<Vec<Vec<usize>>, ImageError> {
        let all = match &self.kind {
            Kind::Fatbin(images) => images.iter().map(|image| image.parameters(name)).collect(),
            kind => kind.parameters(name).map(|sizes| vec![sizes]),
        };
        // An entry that one image of a fatbin lacks counts as missing.
        let all: Option<Vec<_>> = all?.into_iter().collect();
        Ok(all.unwrap_or_default())
    }

    /// The types that PTX states for the parameters of the entry `name`, such as `.f32`, in each
    /// image; of a cubin none.
    pub(super) fn types(&self, name: &str) -> Vec<Vec<String>> {
        match &self.kind {
            Kind::Fatbin(images) => images.iter().map(|image| image.types(name)).collect(),
            kind => vec![kind.types(name)],
        }
    }

    /// The names of the entries, for messages.
    pub(super) fn entries(&self) -> Vec<String> {
        match &self.kind {
            Kind::Fatbin(images) => images.first().map_or(Vec::new(), Kind::entries),
            kind => kind.entries(),
        }
    }
}

impl Kind {
    fn name(&self) -> &'static str {
        match self {
            Self::Ptx(_) => "PTX",
            Self::Cubin(_) => "cubin",
            Self::Fatbin(_) => "fatbin",
        }
    }

    fn read(bytes: &[u8]) -> Result<Self, ImageError> {
        if let Some(cubin) = Cubin::read(bytes)? {
            return Ok(Self::Cubin(cubin));
        }
        // Files of text may end in NULs.
        let end = bytes
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |last| last + 1);
        let text = std::str::from_utf8(&bytes[..end]).map_err(|_| ImageError::NotRecognised)?;
        let has_version = text.lines().any(|line| line.trim_start().starts_with(".version"));
        if !has_version || text.contains('\0') {
            return Err(ImageError::NotRecognised);
        }
        Ok(Self::Ptx(text.to_owned()))
    }

    fn parameters(&self, name: &str) -> Result<Sizes, ImageError> {
        match self {
            Self::Ptx(text) => match device_std::ptx::parameters(text, name) {
                Some(parameters) => Ok(Some(parameters.into_iter().map(|(size, _)| size).collect())),
                None if device_std::ptx::entries(text).contains(&name) => {
                    Err(ImageError::UnreadableParameters {
                        entry: name.to_owned(),
                        line: entry_line(text, name),
                    })
                }
                None => Ok(None),
            },
            Self::Cubin(cubin) => cubin.parameters(name),
            Self::Fatbin(_) => unreachable!("a fatbin holds no fatbin"),
        }
    }

    fn types(&self, name: &str) -> Vec<String> {
        match self {
            Self::Ptx(text) => device_std::ptx::parameter_types(text, name).unwrap_or_default(),
            Self::Cubin(_) | Self::Fatbin(_) => Vec::new(),
        }
    }

    fn entries(&self) -> Vec<String> {
        match self {
            Self::Ptx(text) => device_std::ptx::entries(text)
                .into_iter()
                .map(str::to_owned)
                .collect(),
            Self::Cubin(cubin) => cubin.entries(),
            Self::Fatbin(_) => Vec::new(),
        }
    }
}

/// The line of PTX that begins an entry, shortened.
fn entry_line(text: &str, name: &str) -> Option<String> {
    let begins = |line: &&str| {
        let (_, rest) = line.split_once(".entry")?;
        let rest = rest.trim_start().strip_prefix(name)?;
        rest.chars()
            .next()
            .is_none_or(|next| next == '(' || next.is_whitespace())
            .then_some(())
    };
    let line = text.lines().find(|line| begins(line).is_some())?.trim();
    Some(line.chars().take(LONGEST_LINE).collect())
}

/// Characters of a line of PTX in a message.
const LONGEST_LINE: usize = 120;

/// Reads numbers at stated places of bytes. A place outside is an error.
#[derive(Clone, Copy)]
struct Reader<'a> {
    bytes: &'a [u8],
    /// The part that the error names.
    part: &'static str,
}

impl<'a> Reader<'a> {
    fn slice(self, start: u64, len: u64) -> Result<&'a [u8], ImageError> {
        let cut_off = ImageError::CutOff { part: self.part };
        let range = usize::try_from(start).ok().zip(usize::try_from(len).ok());
        let found = range.and_then(|(start, len)| self.bytes.get(start..start.checked_add(len)?));
        found.ok_or(cut_off)
    }

    fn u16(self, at: u64) -> Result<u16, ImageError> {
        let bytes = self.slice(at, 2)?;
        Ok(u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    fn u32(self, at: u64) -> Result<u32, ImageError> {
        Ok(u32::from(self.u16(at)?) | u32::from(self.u16(at.saturating_add(2))?) << 16)
    }

    fn u64(self, at: u64) -> Result<u64, ImageError> {
        Ok(u64::from(self.u32(at)?) | u64::from(self.u32(at.saturating_add(4))?) << 32)
    }
}

#[cfg(test)]
mod tests;
