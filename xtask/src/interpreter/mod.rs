//! Runs kernels from their PTX, without a GPU: what LLVM's code generator wrote is compared with
//! what the source means.
//!
//! Integers are exact, and so are floats but for the functions that PTX calls approximate. A NaN has
//! the bits that GPUs give. Memory that nothing wrote holds junk, and an access outside of the
//! arguments is an error. The threads of a block run one after the other between the places where
//! they meet. So this finds wrong code, and no races.

mod compute;
mod memory;
mod parse;
mod run;

use std::collections::HashMap;

use memory::Global;
use parse::Module;
use run::{Block, Launch};

/// An argument of a launch.
pub(crate) enum Argument {
    Value(Vec<u8>),
    /// Memory: an address and a number of elements.
    Memory {
        bytes: Vec<u8>,
        len: u64,
    },
}

/// The text of a module.
#[derive(Debug)]
pub(crate) struct Interpreter {
    module: Module,
}

impl Interpreter {
    /// # Errors
    /// A text that is not as `kernel-build` writes it.
    pub(crate) fn new(ptx: &str) -> Result<Self, String> {
        Ok(Self {
            module: parse::module(ptx)?,
        })
    }

    /// Launches the entry whose name begins with `name` and `__`, for `extent` threads in blocks of
    /// `threads`. Gives the bytes of each argument that is memory.
    ///
    /// # Errors
    /// A thread that traps or accesses memory outside of the arguments, and an instruction that is
    /// not modelled.
    pub(crate) fn launch(
        &self,
        name: &str,
        extent: [u64; 3],
        threads: [u32; 3],
        shared_bytes: usize,
        arguments: &[Argument],
    ) -> Result<Vec<Vec<u8>>, String> {
        let prefix = format!("{name}__");
        let entry = self
            .module
            .functions
            .iter()
            .find(|(name, _)| name.starts_with(&prefix));
        let (_, entry) = entry.ok_or_else(|| format!("no entry `{name}`"))?;
        let mut global = Global::default();
        let mut constants = HashMap::new();
        for constant in &self.module.constants {
            let address = global.add(constant.bytes.clone(), true);
            constants.insert(constant.name.as_str(), address);
        }
        for (number, constant) in self.module.constants.iter().enumerate() {
            for (at, symbol, offset) in &constant.addresses {
                let address = constants.get(symbol.as_str());
                let address = address
                    .ok_or_else(|| format!("no constant `{symbol}`"))?
                    .wrapping_add(*offset);
                global.blocks[number].bytes[*at..*at + 8].copy_from_slice(&address.to_le_bytes());
            }
        }
        let first = global.blocks.len();
        let mut passed: Vec<Vec<u8>> = Vec::new();
        for argument in arguments {
            match argument {
                Argument::Value(bytes) => passed.push(bytes.clone()),
                Argument::Memory { bytes, len } => {
                    let address = global.add(bytes.clone(), false);
                    passed.push(address.to_le_bytes().to_vec());
                    passed.push(len.to_le_bytes().to_vec());
                }
            }
        }
        passed.push(extent.iter().flat_map(|extent| extent.to_le_bytes()).collect());
        if passed.len() != entry.parameters.len() {
            return Err(format!(
                "{} parameters for the {} of the entry",
                passed.len(),
                entry.parameters.len()
            ));
        }
        for (parameter, bytes) in entry.parameters.iter().zip(&passed) {
            if parameter.size != bytes.len() {
                return Err(format!("{} bytes for `{}`", bytes.len(), parameter.name));
            }
        }
        let blocks = [0, 1, 2].map(|axis| extent[axis].div_ceil(threads[axis].into()) as u32);
        let launch = Launch {
            module: &self.module,
            constants,
            blocks,
            threads,
            shared_bytes,
        };
        for number in 0..blocks.iter().product::<u32>() {
            let [x, y, _] = blocks;
            let place = [number % x, number / x % y, number / x / y];
            Block::new(&launch, entry, &passed, place, &mut global)
                .run()
                .map_err(|error| format!("block {place:?}: {error}"))?;
        }
        Ok(global.blocks.drain(first..).map(|block| block.bytes).collect())
    }
}
