use super::elf::LONGEST_NAME;
use super::*;

/// One record of a parameter: ordinal, offset and size.
fn parameter(ordinal: u16, offset: u16, size: u32) -> Vec<u8> {
    let mut record = vec![4, 0x17, 12, 0, 0, 0, 0, 0];
    record.extend(ordinal.to_le_bytes());
    record.extend(offset.to_le_bytes());
    record.extend((size << 18 | 0x1_f000).to_le_bytes());
    record
}

/// The record of the size of all parameters.
fn in_all(bytes: u8) -> Vec<u8> {
    vec![3, 0x19, bytes, 0]
}

/// A cubin with the entry `f`, and these records of its parameters.
fn cubin(records: &[Vec<u8>]) -> Vec<u8> {
    let names = b"\0.nv.info.f\0f\0";
    let mut symbol = vec![0; 24];
    // The name `f`, a function, an entry.
    (symbol[0], symbol[4], symbol[5]) = (12, 0x12, 0x10);
    // (name, kind, link, bytes)
    let sections: [(u32, u32, u32, Vec<u8>); 4] = [
        (0, 0, 0, Vec::new()),
        (0, 3, 0, names.to_vec()),
        (0, 2, 1, symbol),
        (1, 0x7000_0000, 0, records.concat()),
    ];
    let mut file = vec![0; 64];
    file[..6].copy_from_slice(b"\x7fELF\x02\x01");
    file[18] = 190;
    let mut table = Vec::new();
    for (name, kind, link, bytes) in sections {
        let mut row = vec![0; 64];
        row[..4].copy_from_slice(&name.to_le_bytes());
        row[4..8].copy_from_slice(&kind.to_le_bytes());
        row[24..32].copy_from_slice(&(file.len() as u64).to_le_bytes());
        row[32..40].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        row[40..44].copy_from_slice(&link.to_le_bytes());
        table.extend(row);
        file.extend(bytes);
    }
    let start = file.len() as u64;
    file[40..48].copy_from_slice(&start.to_le_bytes());
    (file[58], file[60], file[62]) = (64, 4, 1);
    file.extend(table);
    file
}

/// Many symbols and sections of one name, each with the whole file, would be copied for each pair.
#[test]
fn attack_read_a_small_cubin_whose_sections_overlap() {
    let mut file = cubin(&[in_all(0)]);
    let start = u64::from_le_bytes(file[40..48].try_into().unwrap()) as usize;
    let mut table = file.split_off(start);
    let symbols = file.len();
    let mut symbol = [0; 24];
    (symbol[0], symbol[4], symbol[5]) = (12, 0x12, 0x10);
    file.extend(symbol.repeat(300));
    // The table of symbols, and the sections `.nv.info.f`: the whole file.
    table[128 + 24..128 + 32].copy_from_slice(&(symbols as u64).to_le_bytes());
    table[128 + 32..128 + 40].copy_from_slice(&(300_u64 * 24).to_le_bytes());
    let mut row = table.split_off(192);
    row[24..32].fill(0);
    row[32..40].copy_from_slice(&(file.len() as u64).to_le_bytes());
    table.extend(row.repeat(300));
    let start = file.len() as u64;
    file[40..48].copy_from_slice(&start.to_le_bytes());
    file[60..62].copy_from_slice(&303_u16.to_le_bytes());
    file.extend(table);
    let image = Image::read(&file).unwrap();
    assert_eq!(image.entries(), ["f"]);

    // Names of one entry each that overlap: the copies are more than the file.
    let names: Vec<u8> = b".nv.info.".repeat(80);
    let names_at = 64;
    let mut file = vec![0; 64];
    file[..6].copy_from_slice(b"\x7fELF\x02\x01");
    file[18] = 190;
    file.extend(&names);
    file.push(0);
    let symbols_at = file.len();
    for entry in 1..80_u32 {
        let mut symbol = vec![0; 24];
        symbol[..4].copy_from_slice(&(9 * entry).to_le_bytes());
        (symbol[4], symbol[5]) = (0x12, 0x10);
        file.extend(symbol);
    }
    let table_at = file.len() as u64;
    let mut section = |name: u32, kind: u32, from: usize, len: usize| {
        let mut row = vec![0; 64];
        row[..4].copy_from_slice(&name.to_le_bytes());
        row[4..8].copy_from_slice(&kind.to_le_bytes());
        row[24..32].copy_from_slice(&(from as u64).to_le_bytes());
        row[32..40].copy_from_slice(&(len as u64).to_le_bytes());
        file.extend(row);
    };
    section(0, 3, names_at, names.len() + 1);
    section(0, 2, symbols_at, 79 * 24);
    for entry in 0..79_u32 {
        section(9 * entry, 0x7000_0000, 0, 64);
    }
    file[40..48].copy_from_slice(&table_at.to_le_bytes());
    (file[58], file[60]) = (64, 81);
    assert!(matches!(
        Image::read(&file),
        Err(ImageError::UnreadableParameters { .. })
    ));
}

/// Symbols and tables of symbols that overlap would be read for hours.
#[test]
fn attack_read_a_cubin_whose_names_or_tables_overlap() {
    let name_len = LONGEST_NAME - 2;
    let mut file = vec![0; 64];
    file[..6].copy_from_slice(b"\x7fELF\x02\x01");
    file[18] = 190;
    let names_at = file.len();
    file.extend(b"f".repeat(name_len));
    file.push(0);
    let symbols_at = file.len();
    let mut symbol = [0; 24];
    (symbol[4], symbol[5]) = (0x12, 0x10);
    // Names of more than a thousand times the file.
    file.extend(symbol.repeat(4000));
    let table_at = file.len() as u64;
    file[40..48].copy_from_slice(&table_at.to_le_bytes());
    (file[58], file[60]) = (64, 2);
    let row = |kind: u32, from: usize, len: usize| {
        let mut row = vec![0; 64];
        // The last byte of the names: the name of no bytes.
        row[..4].copy_from_slice(&(name_len as u32).to_le_bytes());
        row[4..8].copy_from_slice(&kind.to_le_bytes());
        row[24..32].copy_from_slice(&(from as u64).to_le_bytes());
        row[32..40].copy_from_slice(&(len as u64).to_le_bytes());
        row
    };
    let names = row(3, names_at, name_len + 1);
    let symbols = |count: usize| row(2, symbols_at, count * 24);
    let overlapping = [&file[..], &names, &symbols(4000)].concat();
    let part = "the table of symbols";
    assert_eq!(Image::read(&overlapping).err(), Some(ImageError::CutOff { part }));

    // 40 tables of 10 symbols each: only the first is read.
    file[60] = 41;
    let tables = symbols(10).repeat(40);
    let many = [&file[..], &names, &tables].concat();
    assert_eq!(Image::read(&many).unwrap().entries(), [""; 0]);
}

fn sizes(bytes: &[u8], name: &str) -> Result<Vec<Vec<usize>>, ImageError> {
    Image::read(bytes)?.parameters(name)
}

#[test]
fn parameters_of_a_cubin_are_read_in_the_order_of_their_ordinals() {
    let records = [
        parameter(2, 16, 24),
        parameter(0, 0, 8),
        in_all(40),
        parameter(1, 8, 2),
    ];
    assert_eq!(sizes(&cubin(&records), "f"), Ok(vec![vec![8, 2, 24]]));
    assert_eq!(sizes(&cubin(&records), "g"), Ok(vec![]));
    assert_eq!(sizes(&cubin(&[]), "f"), Ok(vec![vec![]]));
    // A record that says something else, without a value and with one.
    let others = [
        vec![1, 0x35, 0, 0],
        vec![4, 0x37, 4, 0, 1, 2, 3, 4],
        parameter(0, 0, 4),
        in_all(4),
    ];
    assert_eq!(sizes(&cubin(&others), "f"), Ok(vec![vec![4]]));
}

#[test]
fn records_that_do_not_describe_all_parameters_are_refused() {
    let entry = "f".to_owned();
    let unreadable = Err(ImageError::UnreadableParameters { entry, line: None });
    let cut_off = parameter(0, 0, 8)[..10].to_vec();
    for records in [
        vec![parameter(0, 0, 8), in_all(16)],
        vec![parameter(0, 0, 8)],
        vec![in_all(8)],
        vec![parameter(1, 0, 8), in_all(8)],
        vec![parameter(0, 0, 8), parameter(0, 8, 8), in_all(16)],
        vec![parameter(0, 0, 8), parameter(1, 4, 8), in_all(12)],
        vec![parameter(0, 0, 0), in_all(0)],
        vec![cut_off],
        vec![vec![4, 0x17, 4, 0, 0, 0, 0, 0], in_all(0)],
        vec![vec![4, 0x17]],
    ] {
        assert_eq!(sizes(&cubin(&records), "f"), unreadable, "{records:?}");
    }
}

#[test]
fn each_prefix_of_a_cubin_is_refused() {
    let whole = cubin(&[parameter(0, 0, 8), in_all(8)]);
    for end in 0..whole.len() {
        assert!(
            Image::read(&whole[..end]).is_err(),
            "{end} of {} bytes",
            whole.len()
        );
    }
    let object_file = {
        let mut file = whole.clone();
        file[18] = 62;
        file
    };
    assert_eq!(
        Image::read(&object_file).unwrap_err(),
        ImageError::OtherMachine { machine: 62 }
    );
    // A section behind the end, and one whose end is beyond all numbers.
    for (at, value) in [(32, 1_u64 << 40), (24, u64::MAX), (32, u64::MAX)] {
        let mut damaged = whole.clone();
        let row = whole.len() - 64 + at;
        damaged[row..row + 8].copy_from_slice(&value.to_le_bytes());
        assert_eq!(
            Image::read(&damaged).unwrap_err(),
            ImageError::CutOff { part: "a section" }
        );
    }
}

#[test]
fn a_driver_gets_aligned_bytes_that_end_in_a_nul() {
    for padding in 0..9 {
        let text = format!(
            "{}.version 7.0\n.visible .entry f(.param .u64 x) {{ }}",
            " ".repeat(padding)
        );
        for text in [text.clone(), format!("{text}\0"), format!("{text}\0\0\0")] {
            let image = Image::read(text.as_bytes()).unwrap();
            let bytes = image.bytes();
            assert!(bytes.as_ptr().addr().is_multiple_of(8));
            assert_eq!((&bytes[..text.len()], bytes.last()), (text.as_bytes(), Some(&0)));
            assert_eq!(
                (image.entries(), image.parameters("f")),
                (vec!["f".to_owned()], Ok(vec![vec![8]]))
            );
        }
    }
    assert_eq!(
        Image::read(b".version 7.0\n.visible .entry f(.param .texref x) { }")
            .unwrap()
            .parameters("f"),
        Err(ImageError::UnreadableParameters {
            entry: "f".to_owned(),
            line: Some(".visible .entry f(.param .texref x) { }".to_owned()),
        })
    );
}
