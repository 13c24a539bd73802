//! Has traits with the names of our methods, implemented for everything, in scope.
#![forbid(unsafe_code)]
#![allow(warnings)]
extern crate cuda_rt as real;
extern crate device_std as real_std;
extern crate std as rust;

pub trait Methods: Sized {
    fn part(self) {}
    fn attach(self) {}
    fn idle_from(self) {}
    fn by_ref(self) {}
    fn retire(self) {}
    fn detach(self) {}
    fn note_host_access(self) {}
    fn attach_parts(self) {}
    fn detach_parts(self) {}
    fn field(self) {}
    fn finish(self) {}
    fn of(self) {}
    fn len(self) {}
    fn key() {}
    fn kernel() {}
    fn call(self) {}
    const LAYOUT: () = ();
    const NAME: () = ();
    const BLOCK: () = ();
    const TEXT: () = ();
}
impl<T> Methods for T {}
BODY!();
