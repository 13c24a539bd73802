//! The happens-before checker, and the driver that reports each call to it. Re-exported from
//! `cuda_rt_checker`.

pub use cuda_rt_checker::{
    AccessKind, ActorId, ActorKind, Check, Checker, Operation, Party, Race, Simulates, Site, VectorClock,
    Watch,
};

/// # Example
///
/// ```
/// use cuda_rt::checker::{Check, Checked};
/// use cuda_rt::driver::{Copies, Memory, Streams, Tools};
/// use cuda_rt::simulator::{SimConfig, SimDriver};
///
/// let unchecked = SimDriver::new(SimConfig::new().check(Check::Off));
/// let driver = Checked::over(unchecked, Check::Record);
/// let (a, b) = (driver.create_stream(0)?, driver.create_stream(0)?);
/// // SAFETY: handles are live and ranges in bounds; the simulated device runs racing operations
/// // one at a time.
/// unsafe {
///     let data = driver.alloc(64, a)?;
///     driver.fill(data, &[1], 64, b)?; // nothing makes `b` wait for the allocation
/// }
/// let races = driver.races();
/// assert_eq!(races.len(), 1);
/// println!("{}", races[0]);
/// # Ok::<(), cuda_rt::driver::DriverError>(())
/// ```
pub use cuda_rt_checker::Checked;

/// # Example
///
/// ```
/// use cuda_rt::checker::{Check, Site, at_statement};
/// use cuda_rt::driver::{Copies, Memory, Streams, Tools};
/// use cuda_rt::simulator::{SimConfig, SimDriver};
///
/// let driver = SimDriver::new(SimConfig::new().check(Check::Record));
/// let (a, b) = (driver.create_stream(0)?, driver.create_stream(0)?);
/// // SAFETY: handles are live and ranges in bounds; the simulated device runs racing operations
/// // one at a time.
/// at_statement(7, || unsafe {
///     let data = driver.alloc(64, a)?;
///     driver.fill(data, &[1], 64, b)
/// })?;
/// assert_eq!(driver.races()[0].second.operation.site, Site::Statement(7));
/// # Ok::<(), cuda_rt::driver::DriverError>(())
/// ```
pub use cuda_rt_checker::at_statement;
