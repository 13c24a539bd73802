//! The memory of a launch, at generic addresses.
//!
//! The windows of shared and local memory lie as they do on GPUs from sm_90 on: an address inside a
//! window is the lower half of a generic address, and the upper half is a constant of the window.
//! So a conversion of an address outside the window gives another address.

use super::parse::Result;

/// The upper halves of generic addresses of shared and local memory.
pub(super) const SHARED: u64 = 0x7f01 << 32;
pub(super) const LOCAL: u64 = 0x7f02 << 32;
/// The first address of global memory.
const GLOBAL: u64 = 0x7f10 << 32;
/// What memory holds that nothing wrote.
pub(super) const JUNK: u8 = 0xa7;

/// An allocation of global memory.
#[derive(Debug)]
pub(super) struct Block {
    start: u64,
    pub(super) bytes: Vec<u8>,
    is_constant: bool,
}

/// Global memory: arguments and constants. Blocks lie far apart.
#[derive(Debug, Default)]
pub(super) struct Global {
    pub(super) blocks: Vec<Block>,
}

impl Global {
    /// A new allocation, at the address that it gives back.
    pub(super) fn add(&mut self, bytes: Vec<u8>, is_constant: bool) -> u64 {
        let start = GLOBAL + ((self.blocks.len() as u64) << 36);
        self.blocks.push(Block {
            start,
            bytes,
            is_constant,
        });
        start
    }

    fn place(&self, address: u64) -> Option<(usize, usize)> {
        let number = usize::try_from(address.checked_sub(GLOBAL)? >> 36).ok()?;
        let block = self.blocks.get(number)?;
        Some((number, usize::try_from(address - block.start).ok()?))
    }

    /// Whether a load touches the aligned 32 bytes around some byte of the block: LLVM loads up to
    /// 32 bytes at once, of which the program may read some.
    pub(super) fn load(&self, address: u64, size: usize) -> Result<Vec<u8>> {
        let outside = || format!("a load of {size} bytes at {address:#x}, outside of each argument");
        let (number, at) = self.place(address).ok_or_else(outside)?;
        let bytes = &self.blocks[number].bytes;
        if at >= bytes.len() {
            return Err(format!(
                "a load of {size} bytes at byte {at} of an argument of {} bytes",
                bytes.len()
            ));
        }
        Ok((at..at + size)
            .map(|at| bytes.get(at).copied().unwrap_or(JUNK))
            .collect())
    }

    pub(super) fn store(&mut self, address: u64, value: &[u8]) -> Result<()> {
        let size = value.len();
        let (number, at) = self
            .place(address)
            .ok_or_else(|| format!("a store of {size} bytes at {address:#x}, outside of each argument"))?;
        let block = &mut self.blocks[number];
        let len = block.bytes.len();
        match block.bytes.get_mut(at..at + size) {
            Some(bytes) if !block.is_constant => {
                bytes.copy_from_slice(value);
                Ok(())
            }
            Some(_) => Err("a store to a constant".to_owned()),
            None => Err(format!(
                "a store of {size} bytes at byte {at} of an argument of {len} bytes"
            )),
        }
    }
}

/// Bytes of shared or local memory.
pub(super) fn window<'m>(memory: &'m mut [u8], at: u64, size: usize, name: &str) -> Result<&'m mut [u8]> {
    let len = memory.len();
    let range = usize::try_from(at)
        .ok()
        .and_then(|at| Some(at..at.checked_add(size)?));
    range
        .and_then(|range| memory.get_mut(range))
        .ok_or_else(|| format!("an access of {size} bytes at byte {at:#x} of {len} bytes of {name} memory"))
}
