//! What is known of a simulated device without knowing which.

use std::any::Any;
use std::fmt;

/// The handle of a simulated device. Which one it is, [`Any`] tells: its backend has a type for it.
pub trait Simulated: Any + Send + Sync + fmt::Debug {
    /// The seed; with the same seed and the same calls from one thread, all happens in the same
    /// order.
    fn seed(&self) -> u64;
}
