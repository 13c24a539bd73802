use std::fmt;

/// Why a module of PTX is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The text is not PTX, or uses a part of PTX that the verifier does not know.
    #[error("line {line} of the PTX: {reason}")]
    Text {
        /// The line of the PTX.
        line: u32,
        /// What is wrong with it.
        reason: String,
    },
    /// A function calls itself, so its stack has no bound that can be told.
    #[error("`{function}` is recursive ({}): the stack of a GPU thread is small and unguarded, so kernels may not recurse; use a loop", cycle.join(" calls "))]
    Recursion {
        /// The function.
        function: String,
        /// The calls that lead back to it.
        cycle: Vec<String>,
    },
    /// A barrier, or an exchange between lanes, that only some threads may reach.
    #[error(
        "the kernel `{kernel}`: {operation} may be reached by some threads {group} only (H32)\n{reasons}"
    )]
    Divergent {
        /// The entry.
        kernel: String,
        /// The instruction.
        operation: Place,
        /// Whose threads must meet: `of the block` or `of a warp`.
        group: &'static str,
        /// Why: a chain of values, from the branch to the first one that differs by thread.
        reasons: Reasons,
    },
    /// Threads of a block may open different shared memory, and one read what another writes.
    #[error(
        "the kernel `{kernel}`: `{value}` in {operation} may differ between threads of the block, and with it the shared memory that they open (H32)\n{reasons}"
    )]
    Opening {
        /// The entry.
        kernel: String,
        /// The mark of the opening.
        operation: Place,
        /// The register that differs.
        value: String,
        /// Why: a chain of values.
        reasons: Reasons,
    },
    /// A barrier or an exchange of another form than safe kernels have: for some threads, or of a
    /// number of its own.
    #[error("the kernel `{kernel}`: {operation} {reason}")]
    Form {
        /// The entry.
        kernel: String,
        /// The instruction.
        operation: Place,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// An access to memory that a kernel may not make.
    #[error("the kernel `{kernel}`: {operation} {reason}")]
    Memory {
        /// The entry.
        kernel: String,
        /// The instruction.
        operation: Place,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Memory of the module that is no constant table.
    #[error("line {line} of the PTX: {reason}: `{name}`")]
    Variable {
        /// Its name.
        name: String,
        /// The line of the PTX.
        line: u32,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The host would pass other parameters than the entry takes.
    #[error("the kernel `{kernel}` takes other parameters than a launch passes: {difference}")]
    Parameters {
        /// The entry.
        kernel: String,
        /// The first difference.
        difference: String,
    },
}

/// An instruction, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The instruction.
    pub text: String,
    /// The line of the PTX.
    pub line: u32,
    /// File and line of the source, where the PTX tells (`.loc`).
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
pub(super) fn text<T>(line: u32, reason: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::Text {
        line,
        reason: reason.into(),
    })
}
