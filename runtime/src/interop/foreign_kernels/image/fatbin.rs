//! Fatbins: several images in one file. A header states the length of all; each image has a header
//! with its kind, its length, and whether it is compressed.
//!
//! NVIDIA documents no format. This was compared with what `fatbinary` of CUDA 13 writes.

use super::{ImageError, Reader};

/// The first bytes of a fatbin.
const MAGIC: u32 = 0xba55_ed50;
/// The kinds of images that hold code: PTX and cubins.
const CODE: [u16; 2] = [1, 2];
/// The flags of the two ways to compress an image.
const COMPRESSED: u64 = 0x2000 | 0x8000;

/// The images of a fatbin that hold code. `None` if the bytes are no fatbin.
pub(super) fn images(bytes: &[u8]) -> Result<Option<Vec<&[u8]>>, ImageError> {
    if !bytes.starts_with(&MAGIC.to_le_bytes()) {
        return Ok(None);
    }
    let file = Reader {
        bytes,
        part: "the header of the fatbin",
    };
    let (header, len) = (u64::from(file.u16(6)?), file.u64(8)?);
    let all = Reader {
        part: "the list of images",
        ..file
    }
    .slice(header, len)?;
    let (mut at, mut found) = (0, Vec::new());
    while at < all.len() as u64 {
        let image = Reader {
            bytes: all,
            part: "the header of an image",
        };
        let (kind, header, len) = (image.u16(at)?, u64::from(image.u32(at + 4)?), image.u64(at + 8)?);
        let flags = image.u64(at + 40)?;
        if header < 64 {
            return Err(ImageError::CutOff { part: image.part });
        }
        let body = Reader {
            part: "an image of the fatbin",
            ..image
        }
        .slice(at + header, len)?;
        if CODE.contains(&kind) {
            if flags & COMPRESSED != 0 {
                return Err(ImageError::Compressed);
            }
            found.push(body);
        }
        // Both are inside the bytes, so the sum fits.
        at += header + len;
    }
    Ok(Some(found))
}
