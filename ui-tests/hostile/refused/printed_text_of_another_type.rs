// H42 (E0308): `print!` is given a number for its text.
#![forbid(unsafe_code)]
pub fn main() {
    device_std::print!(7, 1u32);
}
