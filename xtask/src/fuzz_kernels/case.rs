//! [`Case`]: a kernel with its arguments and the expected bytes of its outputs, and the host's code
//! that launches it and compares.

use super::emit;
use super::program::{Bits, Position, Program, Ty};
use super::reference;
use crate::interpreter::{self, Interpreter};

/// Enough shared memory for each kernel.
const SHARED_BYTES: usize = 96 << 10;

/// A kernel that is launched once.
pub(super) struct Case {
    pub(super) name: String,
    /// The module of the kernel, and of the types of its arguments.
    pub(super) module: &'static str,
    /// The source of the kernel and of its types.
    pub(super) source: String,
    /// Number of threads of the launch along each axis that the kernel has.
    pub(super) grid: Vec<usize>,
    pub(super) arguments: Vec<Argument>,
}

/// An argument of the launch.
pub(super) enum Argument {
    Scalar {
        ty: String,
        bytes: Vec<u8>,
    },
    Input {
        ty: String,
        len: usize,
        bytes: Vec<u8>,
    },
    Output {
        ty: String,
        len: usize,
        initial: Vec<u8>,
        expected: Vec<u8>,
    },
}

impl Case {
    /// The case of a random program, with the reference's results.
    pub(super) fn of_program(program: &Program, name: String) -> Self {
        let pack = |ty: Ty, values: &[Bits]| -> Vec<u8> {
            values
                .iter()
                .flat_map(|value| value.to_le_bytes().into_iter().take(ty.bytes()))
                .collect()
        };
        let scalars = program.scalars.iter().map(|(ty, bits)| Argument::Scalar {
            ty: ty.name().to_owned(),
            bytes: pack(*ty, &[*bits]),
        });
        let inputs = program.inputs.iter().map(|(ty, values)| Argument::Input {
            ty: ty.name().to_owned(),
            len: values.len(),
            bytes: pack(*ty, values),
        });
        let results = reference::run(program);
        let outputs = program
            .outputs
            .iter()
            .zip(&results)
            .map(|(output, result)| Argument::Output {
                ty: output.ty.name().to_owned(),
                len: result.len(),
                initial: pack(output.ty, &output.initial),
                expected: pack(output.ty, result),
            });
        let axes = match program.position {
            Position::Index1 | Position::Block(_) => 1,
            Position::Index2 | Position::Block2(..) => 2,
            Position::Index3 => 3,
        };
        Self {
            module: "programs",
            source: emit::kernel(program, &name),
            grid: program.extent[..axes].to_vec(),
            arguments: scalars.chain(inputs).chain(outputs).collect(),
            name,
        }
    }

    /// The threads of a block: those that the source says, or as many as the host would take.
    fn threads(&self) -> [u32; 3] {
        let attribute = self
            .source
            .lines()
            .find(|line| line.starts_with("#[kernel(block = "));
        match attribute {
            Some(line) => {
                let mut sizes = line
                    .split(|c: char| !c.is_ascii_digit())
                    .filter_map(|size| size.parse().ok());
                let mut next = || sizes.next().unwrap_or(1);
                [next(), next(), 1]
            }
            None => match self.grid.len() {
                1 => [128, 1, 1],
                2 => [32, 4, 1],
                _ => [8, 4, 4],
            },
        }
    }

    /// Runs the kernel's PTX, and compares the bytes of each output.
    ///
    /// # Errors
    /// What differs, or what the interpreter says.
    pub(super) fn interpret(&self, interpreter: &Interpreter) -> Result<(), String> {
        let passed: Vec<_> = self
            .arguments
            .iter()
            .map(|argument| match argument {
                Argument::Scalar { bytes, .. } => interpreter::Argument::Value(bytes.clone()),
                Argument::Input { len, bytes, .. }
                | Argument::Output {
                    len, initial: bytes, ..
                } => interpreter::Argument::Memory {
                    bytes: bytes.clone(),
                    len: *len as u64,
                },
            })
            .collect();
        let mut extent = [1; 3];
        for (to, from) in extent.iter_mut().zip(&self.grid) {
            *to = *from as u64;
        }
        let memory = interpreter.launch(&self.name, extent, self.threads(), SHARED_BYTES, &passed)?;
        let arguments = self
            .arguments
            .iter()
            .filter(|argument| !matches!(argument, Argument::Scalar { .. }));
        for (number, (argument, found)) in arguments.zip(&memory).enumerate() {
            let (expected, len) = match argument {
                Argument::Output { expected, len, .. } => (expected, *len),
                Argument::Input { bytes, len, .. } => (bytes, *len),
                Argument::Scalar { .. } => continue,
            };
            if expected != found {
                let size = expected.len() / len.max(1);
                let differs = |at: &usize| expected[at * size..][..size] != found[at * size..][..size];
                let wrong: Vec<usize> = (0..len).filter(differs).collect();
                let first = wrong.first().copied().unwrap_or(0);
                return Err(format!(
                    "memory {number}: {} of {len} elements differ; element {first} is {:02x?} instead of {:02x?}",
                    wrong.len(),
                    &found[first * size..][..size],
                    &expected[first * size..][..size]
                ));
            }
        }
        Ok(())
    }

    /// The source of the function that launches the kernel. Appends the function's data to `data`.
    pub(super) fn host(&self, data: &mut Vec<u8>) -> String {
        let (name, module, start) = (&self.name, self.module, data.len());
        let (mut declared, mut passed, mut compared) = (String::new(), String::new(), String::new());
        for (n, argument) in self.arguments.iter().enumerate() {
            match argument {
                Argument::Scalar { ty, bytes } => {
                    data.extend(bytes);
                    let read = if ty == "bool" {
                        "data.flag()".to_owned()
                    } else {
                        format!("data.scalar::<{ty}>()")
                    };
                    declared += &format!("    let a{n} = {read};\n");
                    passed += &format!(", a{n}");
                }
                Argument::Input { ty, len, bytes } => {
                    data.extend(bytes);
                    declared += &format!("    let a{n} = data.upload::<_, {ty}>(main, {len})?;\n");
                    passed += &format!(", &a{n}");
                }
                Argument::Output {
                    ty,
                    len,
                    initial,
                    expected,
                } => {
                    data.extend(initial);
                    data.extend(expected);
                    declared += &format!("    let mut a{n} = data.upload::<_, {ty}>(main, {len})?;\n");
                    declared += &format!("    let e{n} = data.take({});\n", expected.len());
                    passed += &format!(", &mut a{n}");
                    compared += &format!("    compare(main, \"output {n}\", &a{n}, e{n})?;\n");
                }
            }
        }
        let grid: Vec<String> = self.grid.iter().map(usize::to_string).collect();
        let (axes, grid) = (self.grid.len(), grid.join(", "));
        format!(
            "fn {name}<S: StreamTag>(main: &Stream<S>) -> Outcome\nwhere\n    S::Device: Live,\n{{\n    use kernels::{module}::*;\n    \
             let mut data = Data(&DATA[{start}..]);\n{declared}    \
             kernels::{module}::{name}(main, Grid{axes}::covering({grid}){passed})?;\n{compared}    Ok(())\n}}\n\n"
        )
    }
}
