use device_std::prelude::*;

fn kernel(i: Index1, input: &[f32]) {
    device_std::print!("{}: {}\n", i.get(), input);
}

fn main() {}
