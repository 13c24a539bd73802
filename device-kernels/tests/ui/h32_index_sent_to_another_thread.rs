use device_std::prelude::*;

fn kernel(i: Index1, output: PerThread<f32>) {
    std::thread::scope(|scope| {
        scope.spawn(|| output.set(i, 1.0));
    });
}

fn main() {}
