//! The simulated device, through the driver seam alone.

mod capture;
mod check;
mod check_rate;
mod faults;
mod kernels;
mod memory;
mod order;
mod peers;
mod programs;
mod rig;
mod time;
