//! The hygiene of generated code: tokens and names that no name of the user's can mean or shadow.

use proc_macro2::{Ident, Span};
use quote::format_ident;
use syn::Lifetime;

/// `quote!` with the hygiene of `macro_rules!`: our `stream` or `extent` differs from a user's
/// parameter of the same name.
macro_rules! mixed {
    ($($tokens:tt)*) => { ::quote::quote_spanned!(::proc_macro2::Span::mixed_site()=> $($tokens)*) };
}

/// The lifetime that brands a launch.
pub(super) fn brand() -> Lifetime {
    Lifetime::new("'__launch", Span::mixed_site())
}

/// A local variable for the parameter at this place.
pub(super) fn local(name: &str, at: usize) -> Ident {
    format_ident!("{name}{at}", span = Span::mixed_site())
}
