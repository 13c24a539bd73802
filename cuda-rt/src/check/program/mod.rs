//! Short CUDA host programs as text, reduced to their ordering, and whether they race.
//!
//! One statement a string, such as `k(R a W b)@s1` or `wait(s2,e)`.
//!
//! ```
//! use cuda_rt::check::program::Program;
//!
//! let racy = Program::parse(["mem d:dev,p:pin", "str s:nb", "cpyA(p<-d)@s", "host R p"])?;
//! assert_eq!(racy.run()?.len(), 1);
//! let mended = Program::parse(["mem d:dev,p:pin", "str s:nb", "cpyA(p<-d)@s", "stSync(s)", "host R p"])?;
//! assert!(mended.run()?.is_empty());
//! # Ok::<(), cuda_rt::check::program::ProgramError>(())
//! ```

mod cursor;
mod layout;
mod parse;
mod run;
mod statement;

pub use statement::{
    Blocking, Called, Name, Operation, Part, Program, ProgramError, Region, Space, Statement, Step,
    StreamName, Touch,
};
