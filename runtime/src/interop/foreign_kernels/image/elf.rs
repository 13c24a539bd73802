//! [`Cubin`]: an ELF file with code for one architecture of GPUs.
//!
//! NVIDIA documents no format of the parameters. A section `.nv.info.<entry>` holds records; each
//! has a format, an attribute and a value. The attribute `EIATTR_KPARAM_INFO` describes one
//! parameter: its ordinal, its offset and its size. A table of symbols tells entries from other
//! functions. This was compared with cubins that NVRTC of CUDA 13 made for sm_80 to sm_100.

use std::collections::HashMap;

use super::{ImageError, Reader, Sizes};

/// The machine of a cubin (`EM_CUDA`).
const CUDA: u16 = 190;
/// A section that has no bytes in the file (`SHT_NOBITS`), and CUDA's sections of this kind.
const NO_BYTES: [u32; 3] = [8, 0x7000_0007, 0x7000_000a];
/// The table of symbols (`SHT_SYMTAB`).
const SYMBOLS: u32 = 2;
/// The mark of an entry among symbols (`STO_CUDA_ENTRY`, in `st_other`).
const ENTRY: u8 = 0x10;
/// A record whose value has its length before it (`EIFMT_SVAL`).
const SIZED_VALUE: u8 = 4;
/// The description of one parameter (`EIATTR_KPARAM_INFO`).
const PARAMETER: u8 = 0x17;
/// The size of all parameters, in bytes (`EIATTR_CBANK_PARAM_SIZE`).
const PARAMETERS_BYTES: u8 = 0x19;

/// The entries of a cubin, with the records of each.
#[derive(Clone, Debug)]
pub(super) struct Cubin {
    entries: Vec<(String, Vec<u8>)>,
}

/// One row of the table of sections.
#[derive(Clone, Copy)]
struct Section<'a> {
    name: u32,
    kind: u32,
    link: u32,
    bytes: &'a [u8],
}

/// The longest name of a symbol or section that is read. Templates have names of some KiB.
pub(super) const LONGEST_NAME: usize = 64 << 10;

/// Reads texts of tables, without their NULs. Texts may overlap, so they are not copied, and a
/// small file could name gigabytes of them: they have a bound in all.
struct Texts {
    /// How many bytes may still be read.
    room: usize,
}

impl Texts {
    /// For a file of `len` bytes. Names that end alike may share bytes, as `.text.f` and
    /// `.rel.text.f` do.
    fn of(len: usize) -> Self {
        Self {
            room: len.saturating_mul(8),
        }
    }

    fn read<'a>(&mut self, table: &'a [u8], at: u32, part: &'static str) -> Result<&'a [u8], ImageError> {
        let cut_off = ImageError::CutOff { part };
        let rest = usize::try_from(at)
            .ok()
            .and_then(|at| table.get(at..))
            .ok_or(cut_off.clone())?;
        let longest = LONGEST_NAME.min(self.room);
        let mut bytes = rest.iter().take(longest);
        let end = bytes.position(|byte| *byte == 0).ok_or(cut_off)?;
        self.room -= end + 1;
        Ok(&rest[..end])
    }
}

/// The sections of an ELF file. Each place that the headers state is inside the file.
fn sections(file: Reader<'_>) -> Result<Vec<Section<'_>>, ImageError> {
    let table = Reader {
        part: "the table of sections",
        ..file
    };
    let (start, each, count) = (table.u64(40)?, table.u16(58)?, table.u16(60)?);
    if count > 0 && each < 64 {
        return Err(ImageError::CutOff { part: table.part });
    }
    (0..u64::from(count))
        .map(|index| {
            let at = start.saturating_add(index * u64::from(each));
            table.slice(at, u64::from(each))?;
            let kind = table.u32(at.saturating_add(4))?;
            let (from, len) = (
                table.u64(at.saturating_add(24))?,
                table.u64(at.saturating_add(32))?,
            );
            let section = Reader {
                part: "a section",
                ..file
            };
            let is_empty = NO_BYTES.contains(&kind);
            Ok(Section {
                name: table.u32(at)?,
                kind,
                link: table.u32(at.saturating_add(40))?,
                bytes: if is_empty { &[] } else { section.slice(from, len)? },
            })
        })
        .collect()
}

/// Checks the places of the segments, which a loader may read too.
fn check_segments(file: Reader<'_>) -> Result<(), ImageError> {
    let table = Reader {
        part: "the table of segments",
        ..file
    };
    let (start, each, count) = (table.u64(32)?, table.u16(54)?, table.u16(56)?);
    for index in 0..u64::from(count) {
        let at = start.saturating_add(index * u64::from(each));
        table.slice(at, u64::from(each))?;
        let (from, len) = (
            table.u64(at.saturating_add(8))?,
            table.u64(at.saturating_add(32))?,
        );
        Reader {
            part: "a segment",
            ..file
        }
        .slice(from, len)?;
    }
    Ok(())
}

impl Cubin {
    /// Reads a cubin. `None` if the bytes are no ELF file.
    pub(super) fn read(bytes: &[u8]) -> Result<Option<Self>, ImageError> {
        if !bytes.starts_with(b"\x7fELF") {
            return Ok(None);
        }
        let file = Reader {
            bytes,
            part: "the header of the ELF file",
        };
        let (machine, class) = (file.u16(18)?, file.slice(4, 2)?);
        // 64 bits, and the least significant byte first.
        if machine != CUDA || class != [2, 1] {
            return Err(ImageError::OtherMachine { machine });
        }
        file.slice(0, 64)?;
        check_segments(file)?;
        let sections = sections(file)?;
        let names = sections
            .get(usize::from(file.u16(62)?))
            .map_or(&[][..], |names| names.bytes);
        let mut texts = Texts::of(bytes.len());
        let mut records = HashMap::new();
        for section in &sections {
            let name = texts.read(names, section.name, "the name of a section")?;
            if let Some(entry) = name.strip_prefix(b".nv.info.") {
                records.entry(entry).or_insert(section.bytes);
            }
        }
        // Names and sections may overlap: without a bound the copies of a small file take
        // gigabytes.
        let mut room = bytes.len();
        let mut entries = Vec::new();
        for name in entry_names(&sections, &mut texts)? {
            // The first symbol of a name takes the records.
            let Some(records) = records.remove(name) else {
                continue;
            };
            let entry = String::from_utf8_lossy(name).into_owned();
            match room.checked_sub(name.len() + records.len()) {
                Some(left) => room = left,
                None => return Err(ImageError::UnreadableParameters { entry, line: None }),
            }
            entries.push((entry, records.to_vec()));
        }
        Ok(Some(Self { entries }))
    }

    pub(super) fn entries(&self) -> Vec<String> {
        self.entries.iter().map(|(name, _)| name.clone()).collect()
    }

    /// The sizes of an entry's parameters. They must be all of them, in order and apart.
    pub(super) fn parameters(&self, name: &str) -> Result<Sizes, ImageError> {
        let Some((_, records)) = self.entries.iter().find(|(entry, _)| entry == name) else {
            return Ok(None);
        };
        let unreadable = || ImageError::UnreadableParameters {
            entry: name.to_owned(),
            line: None,
        };
        sizes(records).ok_or_else(unreadable).map(Some)
    }
}

/// The names of the symbols that are entries, in the first table of symbols.
fn entry_names<'a>(sections: &[Section<'a>], texts: &mut Texts) -> Result<Vec<&'a [u8]>, ImageError> {
    const PART: &str = "the table of symbols";
    let mut found = Vec::new();
    // A file has one table of symbols; a hostile one could have 65,535 that overlap.
    let table = sections.iter().find(|section| section.kind == SYMBOLS);
    if let Some(table) = table {
        let linked = usize::try_from(table.link)
            .ok()
            .and_then(|link| sections.get(link));
        let names = linked.map_or(&[][..], |names| names.bytes);
        for symbol in table.bytes.chunks_exact(24) {
            if symbol[5] & ENTRY != 0 && symbol[4] & 0xf == 2 {
                let at = u32::from_le_bytes([symbol[0], symbol[1], symbol[2], symbol[3]]);
                found.push(texts.read(names, at, PART)?);
            }
        }
    }
    Ok(found)
}

/// The sizes that the records describe. `None` if a record is cut off, or if the parameters are
/// not described one after another up to their size in all.
fn sizes(mut records: &[u8]) -> Option<Vec<usize>> {
    // (ordinal, offset, size)
    let mut parameters: Vec<(u16, usize, usize)> = Vec::new();
    let mut in_all = 0;
    while !records.is_empty() {
        let (head, rest) = records.split_at_checked(4)?;
        let value = u16::from_le_bytes([head[2], head[3]]);
        let len = if head[0] == SIZED_VALUE {
            usize::from(value)
        } else {
            0
        };
        let (payload, rest) = rest.split_at_checked(len)?;
        records = rest;
        match (head[0], head[1]) {
            (SIZED_VALUE, PARAMETER) => {
                let payload: [u8; 12] = payload.try_into().ok()?;
                let [_, _, _, _, o0, o1, f0, f1, packed @ ..] = payload;
                // The size is in the upper 14 bits.
                let size = u32::from_le_bytes(packed) >> 18;
                let (ordinal, offset) = (u16::from_le_bytes([o0, o1]), u16::from_le_bytes([f0, f1]));
                parameters.push((ordinal, usize::from(offset), size as usize));
            }
            (format, PARAMETERS_BYTES) if format != SIZED_VALUE => in_all = usize::from(value),
            _ => {}
        }
    }
    parameters.sort_unstable();
    let mut end = 0;
    for (index, (ordinal, offset, size)) in parameters.iter().enumerate() {
        if usize::from(*ordinal) != index || *offset < end || *size == 0 {
            return None;
        }
        end = offset + size;
    }
    (end == in_all).then(|| parameters.into_iter().map(|(_, _, size)| size).collect())
}
