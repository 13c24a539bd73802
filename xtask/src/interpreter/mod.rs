//! Runs kernels from their PTX, without a GPU: what LLVM's code generator wrote is compared with
//! what the source means.
//!
//! Integers are exact, and so are floats but for the functions that PTX calls approximate. A NaN
//! has the bits that GPUs give. Memory that nothing wrote holds junk, and an access outside of the
//! arguments is an error. The threads of a block run one after the other between the places where
//! they meet. So this finds wrong code, and no races.

mod compute;
mod meet;
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

#[cfg(test)]
mod tests {
    use super::{Argument, Interpreter};

    const THREADS: u32 = 64;

    /// A kernel with one output of `u32`, to which each thread stores `%r9`. The body begins with
    /// the thread's number in `%r1`.
    fn run(body: &str) -> Result<Vec<u32>, String> {
        let text = format!(
            ".version 8.6\n.target sm_90\n.address_size 64\n\
             .extern .shared .align 16 .b8 gpu_launch_sized_workgroup_mem[];\n\
             .global .align 4 .b8 table[8] = {{1, 0, 0, 0, 2, 0, 0, 0}};\n\
             .func (.param .b32 result) twice(.param .b32 of)\n{{\n.reg .b32 %r<3>;\n\
             ld.param.b32 %r1, [of];\nadd.s32 %r2, %r1, %r1;\nst.param.b32 [result], %r2;\nret;\n}}\n\
             .visible .entry k__1(.param .u64 .ptr .align 4 out, .param .u64 len, .param .align 8 .b8 extent[24])\n{{\n\
             .local .align 8 .b8 depot[16];\n\
             .reg .pred %p<9>;\n.reg .b16 %h<9>;\n.reg .b32 %r<10>;\n.reg .b64 %rd<10>;\n\
             mov.u32 %r1, %tid.x;\nld.param.b64 %rd1, [out];\ncvta.to.global.u64 %rd2, %rd1;\n\
             mul.wide.u32 %rd3, %r1, 4;\nadd.s64 %rd4, %rd2, %rd3;\n{body}\n\
             st.global.b32 [%rd4], %r9;\nret;\n}}\n"
        );
        let out = Argument::Memory {
            bytes: vec![0; 4 * THREADS as usize],
            len: THREADS.into(),
        };
        let found =
            Interpreter::new(&text)?.launch("k", [THREADS.into(), 1, 1], [THREADS, 1, 1], 1024, &[out])?;
        let words = found[0].chunks_exact(4);
        Ok(words
            .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
            .collect())
    }

    fn each(f: impl Fn(u32) -> u32) -> Result<Vec<u32>, String> {
        Ok((0..THREADS).map(f).collect())
    }

    #[test]
    fn instructions_compute_what_ptx_says() {
        for (body, expected) in [
            (
                "mad.lo.s32 %r9, %r1, 3, -1;",
                (|i| (3 * i).wrapping_sub(1)) as fn(u32) -> u32,
            ),
            // A shift by the width or more gives 0, a signed one the sign.
            ("shl.b32 %r9, %r1, 32;", |_| 0),
            ("sub.s32 %r2, %r1, 7; shr.s32 %r9, %r2, 40;", |i| {
                if i < 7 { u32::MAX } else { 0 }
            }),
            (
                "mul.wide.s32 %rd5, %r1, -2147483648; shr.u64 %rd6, %rd5, 32; cvt.u32.u64 %r9, %rd6;",
                |i| ((i64::from(i) * -(1 << 31)) as u64 >> 32) as u32,
            ),
            (
                "{ .reg .b32 %r1x; prmt.b32 %r1x, %r1, -1, 0x4810; mov.b32 %r9, %r1x; }",
                |i| 0xff00_0000 | i,
            ),
            (
                "cvt.rn.f32.u32 %r2, %r1; neg.f32 %r3, %r2; sqrt.rn.f32 %r9, %r3;",
                |i| {
                    if i == 0 { 0x8000_0000 } else { 0x7fff_ffff }
                },
            ),
            ("shf.l.wrap.b32 %r9, %r1, 0x80000000, 33;", |_| 0),
            ("mov.b32 {%h1, %h2}, %r1; mov.b32 %r9, {%h2, %h1};", |i| i << 16),
            ("add.cc.s32 %r2, %r1, -1; addc.s32 %r9, 0, 0;", |i| {
                u32::from(i > 0)
            }),
            (
                "setp.lt.u32 %p1, %r1, 5; mov.b32 %r9, 7; @!%p1 bra L; mov.b32 %r9, 8;\nL:",
                |i| if i < 5 { 8 } else { 7 },
            ),
            ("mov.b64 %rd5, table; ld.global.b32 %r9, [%rd5+4];", |_| 2),
            (
                "mov.b64 %rd5, depot; st.local.b32 [%rd5+8], %r1; cvta.local.u64 %rd6, %rd5; ld.b32 %r9, [%rd6+8];",
                |i| i,
            ),
        ] {
            assert_eq!(run(body), each(expected), "{body}");
        }
    }

    #[test]
    fn threads_exchange_values() {
        let call = "{ .param .b32 p; .param .b32 q; st.param.b32 [p], %r1; call.uni (q), twice, (p); ld.param.b32 %r9, [q]; }";
        assert_eq!(run(call), each(|i| 2 * i));
        let shuffle = "shfl.sync.bfly.b32 %r9, %r1, 1, 31, -1;";
        assert_eq!(run(shuffle), each(|i| i ^ 1));
        let up = "shfl.sync.up.b32 %r9|%p1, %r1, 1, 0, -1;\n@%p1 bra L;\nmov.b32 %r9, 99;\nL:";
        assert_eq!(run(up), each(|i| if i % 32 == 0 { 99 } else { i - 1 }));
        let shared = "cvt.u64.u32 %rd5, %r1; shl.b64 %rd6, %rd5, 2; st.shared.b32 [%rd6], %r1;\nbar.sync 0;\n\
                      xor.b64 %rd7, %rd6, 252; ld.shared.b32 %r9, [%rd7];";
        assert_eq!(run(shared), each(|i| 63 - i));
        let vote = "setp.lt.u32 %p1, %r1, 40; vote.sync.ballot.b32 %r9, %p1, -1;";
        assert_eq!(run(vote), each(|i| if i < 32 { u32::MAX } else { 0xff }));
        let count = "setp.lt.u32 %p1, %r1, 40; bar.red.popc.u32 %r9, 0, %p1;";
        assert_eq!(run(count), each(|_| 40));
        let counter = "mov.b64 %rd5, 0; atom.shared.exch.b32 %r2, [%rd5], 0;\nbar.sync 0;\n\
                       atom.shared.add.u32 %r3, [%rd5], %r1;\nbar.sync 0;\nld.shared.b32 %r9, [%rd5];";
        assert_eq!(run(counter), each(|_| 63 * 32));
    }

    #[test]
    fn what_is_wrong_is_an_error() {
        for (body, error) in [
            (
                "mov.b32 %r9, 1; st.global.b32 [%rd4+256], %r9;",
                "a store of 4 bytes at byte 256 of an argument of 256 bytes",
            ),
            ("ld.global.b32 %r9, [%rd4+256];", "a load of 4 bytes at byte 256"),
            (
                "mov.b64 %rd5, 16; ld.global.b32 %r9, [%rd5];",
                "outside of each argument",
            ),
            (
                "mov.b64 %rd5, table; st.global.b32 [%rd5], 1; mov.b32 %r9, 1;",
                "a store to a constant",
            ),
            (
                "mov.b64 %rd5, 1022; ld.shared.b32 %r9, [%rd5];",
                "of 1024 bytes of shared memory",
            ),
            ("trap;", "a thread traps"),
            (
                "setp.lt.u32 %p1, %r1, 5; @%p1 bra L; bar.sync 0;\nL: bar.sync 0;",
                "wait for each other",
            ),
            ("ex9.f32 %r9, %r1;", "`ex9.f32` is not modelled"),
            ("L: bra L;", "a thread runs for ever"),
        ] {
            let found = run(body).unwrap_err();
            assert!(found.contains(error), "{found}");
        }
    }

    /// On GPUs from sm_90 on, the address 0 is no address of shared memory, and comes back as the
    /// start of its window.
    #[test]
    fn null_does_not_survive_the_window_of_shared_memory() {
        let body = "mov.b64 %rd5, 0; cvta.to.shared.u64 %rd6, %rd5; cvta.shared.u64 %rd7, %rd6;\n\
                    setp.eq.b64 %p1, %rd7, 0; selp.b32 %r9, 1, 2, %p1;";
        assert_eq!(run(body), each(|_| 2));
    }
}
