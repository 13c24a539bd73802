//! The handle of a simulated device, for code that does not know which simulator it is.

use std::any::Any;
use std::fmt;

/// The handle of a simulated device. Its backend has a concrete type, which [`Any`] tells.
pub trait Simulated: Any + Send + Sync + fmt::Debug {
    /// The seed. The same seed and the same calls from one thread give the same order of all work.
    fn seed(&self) -> u64;
}
