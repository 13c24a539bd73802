//! Hazard programs: short CUDA host programs as text, reduced to their ordering, which a checker
//! searches for races.
//!
//! Each string is one statement, for example `k(R a W b)@s1` or `wait(s2,e)`.
//!
//! ```
//! use hazard_programs::Program;
//!
//! let racy = Program::parse(["mem d:dev,p:pin", "str s:nb", "cpyA(p<-d)@s", "host R p"])?;
//! assert_eq!(racy.run()?.len(), 1);
//! let mended = ["mem d:dev,p:pin", "str s:nb", "cpyA(p<-d)@s", "stSync(s)", "host R p"];
//! let mended = Program::parse(mended)?;
//! assert!(mended.run()?.is_empty());
//! # Ok::<(), hazard_programs::ProgramError>(())
//! ```

mod cursor;
mod layout;
mod parse;
mod rules;
mod run;
mod statement;

use cuda_rt_driver::Race;

pub use statement::{
    Blocking, Called, Name, Operation, Part, Program, ProgramError, Region, Space, Statement, Step,
    StreamName, Touch,
};

impl Program {
    /// Parses one statement from each string.
    ///
    /// # Errors
    /// The first statement that the grammar does not have.
    pub fn parse<S: AsRef<str>>(statements: impl IntoIterator<Item = S>) -> Result<Self, ProgramError> {
        let parsed = statements.into_iter().enumerate().map(|(index, text)| {
            crate::parse::step(text.as_ref()).map_err(|error| error.in_statement(index))
        });
        Ok(Self {
            steps: parsed.collect::<Result<_, _>>()?,
        })
    }

    /// Runs the checker and returns the program's races: an empty list if all accesses are ordered.
    /// The sites of a race are statements.
    ///
    /// # Errors
    /// The first statement with an unknown name: of memory that was neither declared nor allocated,
    /// of a stream or of a request.
    pub fn run(&self) -> Result<Vec<Race>, ProgramError> {
        crate::run::run(self)
    }
}
