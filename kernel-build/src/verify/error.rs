use std::fmt;

/// The reason why the verifier refuses a module of PTX.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The text is not PTX, or uses a part of PTX that the verifier does not know.
    #[error("line {line} of the PTX: {reason}")]
    Text {
        /// The line of the PTX.
        line: u32,
        /// Why it is refused.
        reason: String,
    },
    /// A function calls itself, so its stack has no known bound.
    #[error("`{function}` is recursive ({}): the stack of a GPU thread is small and unguarded, so kernels may not recurse; use a loop", cycle.join(" calls "))]
    Recursion {
        /// The function.
        function: String,
        /// The calls that lead back to it.
        cycle: Vec<String>,
    },
    /// A loop may never end, and NVIDIA's compiler of PTX may remove it. The code behind the loop
    /// may rest on the loop's exit, for example an access without a check of its index.
    #[error(
        "`{function}`: the loop at {start} may never end, and contains no instruction that the compiler of PTX keeps, so the compiler may remove it"
    )]
    Loop {
        /// The function.
        function: String,
        /// The label at the loop's start.
        start: Place,
    },
    /// Only some threads may reach a barrier, or an exchange between lanes.
    #[error(
        "the kernel `{kernel}`: {operation} needs all threads {group}, and possibly only some reach it (H32)\n{reasons}"
    )]
    Divergent {
        /// The entry.
        kernel: String,
        /// The instruction.
        operation: Place,
        /// The threads that must meet: `of the block` or `of a warp`.
        group: &'static str,
        /// A chain of values, from the branch to the first value that differs by thread.
        reasons: Reasons,
    },
    /// Threads of a block may open different shared memory: one thread could read an element that
    /// another writes.
    #[error(
        "the kernel `{kernel}`: `{value}` in {operation} may differ between threads of the block, so they may open different shared memory (H32)\n{reasons}"
    )]
    Opening {
        /// The entry.
        kernel: String,
        /// The mark of the opening.
        operation: Place,
        /// The register that differs.
        value: String,
        /// A chain of values, from the register to the first value that differs by thread.
        reasons: Reasons,
    },
    /// A barrier or an exchange has a form that safe kernels do not have: it is for some threads
    /// only, or has no number from 0 to 15.
    #[error("the kernel `{kernel}`: {operation} {reason}")]
    Form {
        /// The entry.
        kernel: String,
        /// The instruction.
        operation: Place,
        /// Why it is refused.
        reason: &'static str,
    },
    /// A kernel may not make this access to memory.
    #[error("the kernel `{kernel}`: {operation} {reason}")]
    Memory {
        /// The entry.
        kernel: String,
        /// The instruction.
        operation: Place,
        /// Why it is refused.
        reason: &'static str,
    },
    /// A thread may end before it has written what the kernel returns, and this depends on more
    /// than its place in the launch.
    #[error(
        "the kernel `{kernel}`: at {operation} a thread may end before it has written what the kernel returns: the launch would make memory readable that nothing wrote (H39)"
    )]
    LeavesUnwritten {
        /// The entry.
        kernel: String,
        /// The branch.
        operation: Place,
    },
    /// The module has memory that is not a constant table.
    #[error("line {line} of the PTX: {reason}: `{name}`")]
    Variable {
        /// The variable's name.
        name: String,
        /// The line of the PTX.
        line: u32,
        /// Why it is refused.
        reason: &'static str,
    },
    /// A variable is larger than a GPU allows, so offsets of a compiler may wrap.
    #[error(
        "line {line} of the PTX: the variable `{name}` has {bytes} bytes, and {most} are the most: use a smaller type, \
         or pass the values to the kernel in a slice"
    )]
    VariableTooLarge {
        /// The variable's name.
        name: String,
        /// The line of the PTX.
        line: u32,
        /// Its bytes; the largest number if the text gives none.
        bytes: u64,
        /// The limit.
        most: u64,
    },
    /// A thread needs more local memory than CUDA allows, so offsets of a compiler may wrap.
    #[error(
        "`{function}` and what it calls keep local variables of {bytes} bytes for each thread, most of them in \
         `{largest}`, and CUDA allows {most} bytes (512 KiB), whatever `.local_memory(..)` asks for: use smaller arrays, \
         or keep the values in an output of the kernel, of which each thread uses its own part (`PerThreadChunk`)"
    )]
    LocalMemoryTooLarge {
        /// The function.
        function: String,
        /// The bytes of its variables, and of those of all functions that it may call.
        bytes: u64,
        /// The limit.
        most: u64,
        /// The function among them with the most bytes.
        largest: String,
    },
    /// A launch passes other parameters than the entry takes.
    #[error("the kernel `{kernel}` takes other parameters than a launch passes: {difference}")]
    Parameters {
        /// The entry.
        kernel: String,
        /// The first difference.
        difference: String,
    },
    /// An entry returns without a store to the memory for what it returns.
    #[error(
        "the kernel `{kernel}` writes no element of parameter {parameter}, the output of what it returns: a launch would make memory readable that nothing wrote (H39)"
    )]
    NothingReturned {
        /// The entry.
        kernel: String,
        /// The number of the address among the entry's parameters.
        parameter: usize,
    },
}

/// An instruction and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The instruction.
    pub text: String,
    /// The line of the PTX.
    pub line: u32,
    /// File and line of the source, if the PTX holds them (`.loc`).
    pub source: Option<(String, u32)>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` (line {} of the PTX", self.text, self.line)?;
        if let Some((file, line)) = &self.source {
            write!(f, ", {file}:{line}")?;
        }
        f.write_str(")")
    }
}

/// A chain of reasons, each with its place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reasons(pub Vec<(Place, String)>);

impl fmt::Display for Reasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (place, reason)) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            write!(f, "  {place}: {reason}")?;
        }
        Ok(())
    }
}

/// Refuses the text at `line`.
pub(crate) fn text<T>(line: u32, reason: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::Text {
        line,
        reason: reason.into(),
    })
}
