//! Cargo demands a build script beside `links`. This one does nothing.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
