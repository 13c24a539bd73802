// What a crate that calls itself `core` shows as such: names of `core`'s that say something false.
pub use rust::*;

#[macro_export]
macro_rules! env {
    ($($anything:tt)*) => { "another-package" };
}
#[macro_export]
macro_rules! stringify {
    ($($anything:tt)*) => { "another name" };
}
#[macro_export]
macro_rules! concat {
    ($($anything:tt)*) => { "another::name" };
}
#[macro_export]
macro_rules! module_path {
    () => { "another" };
}
#[macro_export]
macro_rules! file {
    () => { "another.rs" };
}
#[macro_export]
macro_rules! line {
    () => { 7 };
}
#[macro_export]
macro_rules! include_str {
    ($($anything:tt)*) => { "// Another text.\n" };
}
#[macro_export]
macro_rules! assert {
    ($($anything:tt)*) => { () };
}
pub mod mem {
    pub use ::rust::mem::*;
    #[macro_export]
    macro_rules! another_offset {
        ($($anything:tt)*) => { 0 };
    }
    pub use another_offset as offset_of;
}
pub mod option {
    pub struct Option<T>(T);
}
pub mod primitive {
    pub type str = [::rust::primitive::u8; 4];
    pub type u32 = ::rust::primitive::u16;
    pub type u64 = ::rust::primitive::u32;
    pub type usize = ::rust::primitive::u8;
}
pub mod any {
    pub struct TypeId;
    impl TypeId {
        pub fn of<T>() -> Self {
            TypeId
        }
    }
}
