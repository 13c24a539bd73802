//! The simulated device, used only through the driver interface.

mod capture;
mod check;
mod check_rate;
mod faults;
mod kernels;
mod memory;
mod order;
mod peers;
mod programs;
mod reuse;
mod rig;
mod time;
