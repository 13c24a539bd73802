//! [`KernelInstance`]: the instances that a generic kernel lists.

/// A type that stands for a listed instance of a generic kernel. `#[kernel(instances = […])]`
/// implements it, for the kernel's handle with the arguments of each instance.
///
/// The bound on a generic launch carries the compiler's message about an instance that is not
/// listed ([H33](crate::hazards#h33)). It promises nothing: what reaches a driver is the
/// description of the instance, as for every kernel.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no instance that its kernel lists",
    label = "only the listed instances of a kernel have an entry in the PTX",
    note = "H33: list the instance beside the others, where the kernel is: `#[kernel(instances = […])]`"
)]
pub trait KernelInstance {
    /// The type that implements the kernel's own launch for this instance.
    #[doc(hidden)]
    type Launch;
}
