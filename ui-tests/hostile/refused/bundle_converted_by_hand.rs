// H42 (E0200, E0277): a crate writes the conversions of a bundle by hand, where it would be given
// the promise about another.
#![forbid(unsafe_code)]
use cuda_rt::__private::{Detach, PartByPartOf};
use cuda_rt::{DeviceBuffer, OwnedBy, StreamTag};
struct Own<S>(DeviceBuffer<u8, S>);
impl<S: StreamTag> PartByPartOf<S> for Own<S> {
    fn detach_parts(self, _: Detach<S>) -> <Self as OwnedBy<S>>::Idle {
        loop {}
    }
}
