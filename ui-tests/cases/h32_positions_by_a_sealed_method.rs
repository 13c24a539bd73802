// H32 (E0451): the positions of a launch that nobody made are handed out.
// Twin: h32_scatter_through_a_slice
// Through a bound: cuda_rt_runtime::kernel::Position
#![forbid(unsafe_code)]
use cuda_rt::kernel::{Extent, Position};
use device_std::rt::SimulatedLaunch;

fn all<P: Position>(grid: &P::Grid) -> Result<(), cuda_rt::GridError> {
    let shape = P::shape(grid, None, 0)?;
    let launch = SimulatedLaunch {
        extent: Extent { x: 8, y: 1, z: 1 },
        grid: [1, 1, 1],
    };
    P::each(&launch, &shape, None, |_position| ());
    Ok(())
}

fn main() {}
