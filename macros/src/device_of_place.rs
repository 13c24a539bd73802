//! Finds a type that names the device of a bundle's place: `P::Device`, `<P as Place>::Device`.
//!
//! A derived bundle cannot have such a type. `P` is replaced by each stream that the bundle goes
//! to, and the streams of a capture have a device tag of their own. But the bundle in a `Constant`
//! or `Lease` keeps its type, which names its device.

use syn::visit_mut::VisitMut;
use syn::{Ident, Type, TypePath};

/// The first type that names the device of `place`, where `visit` looks.
pub(crate) fn device_of(place: &Ident, visit: impl FnOnce(&mut DeviceOfPlace<'_>)) -> Option<TypePath> {
    let mut find = DeviceOfPlace { place, found: None };
    visit(&mut find);
    find.found
}

pub(crate) struct DeviceOfPlace<'a> {
    place: &'a Ident,
    found: Option<TypePath>,
}

impl VisitMut for DeviceOfPlace<'_> {
    fn visit_type_path_mut(&mut self, ty: &mut TypePath) {
        let of_place = match &ty.qself {
            Some(of) => matches!(&*of.ty, Type::Path(of) if of.path.is_ident(self.place)),
            None => {
                let mut segments = ty.path.segments.iter();
                let first = segments.next().is_some_and(|first| first.ident == *self.place);
                first && segments.next().is_some() && ty.path.leading_colon.is_none()
            }
        };
        if of_place {
            self.found.get_or_insert_with(|| ty.clone());
        }
        syn::visit_mut::visit_type_path_mut(self, ty);
    }
}
