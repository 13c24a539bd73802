//! Procedural macros of cuda-rt.

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

mod resource;

/// Makes a struct of buffers a bundle that moves between streams as a whole, behind one event.
///
/// The struct has one type parameter bound by `Place`, which is that of its buffers. Fields that are no buffers are marked
/// `#[resource(plain)]` and must be `Copy`. `NameView` and `NameRef`, structs with the same field names, are what views
/// of it are.
///
/// ```ignore
/// #[derive(cuda_rt::Resource)]
/// struct Frame<P: Place = Idle> {
///     pixels: DeviceBuffer<u8, P>,
///     host: PinnedBuffer<u8, P>,
///     #[resource(plain)]
///     number: u64,
/// }
/// ```
#[proc_macro_derive(Resource, attributes(resource))]
pub fn derive_resource(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    resource::expand(input)
        .unwrap_or_else(|error| error.into_compile_error())
        .into()
}
