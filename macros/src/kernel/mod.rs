//! `#[kernel]`: [`parse`] reads the syntax, [`check`] refuses what cannot be a kernel, [`symbol`]
//! names the entries, and [`host`] and [`device`] write the two sides.
//! [`instances`] writes what a generic kernel has for each listed instance.

/// `quote!` with the hygiene of `macro_rules!`: our `stream` or `extent` differs from a user's
/// parameter of the same name.
macro_rules! mixed {
    ($($tokens:tt)*) => { ::quote::quote_spanned!(::proc_macro2::Span::mixed_site()=> $($tokens)*) };
}

mod check;
mod device;
mod host;
mod instances;
mod parse;
mod symbol;
#[cfg(test)]
mod tests;

use proc_macro2::TokenStream;
use quote::quote;
use syn::Result;

pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let kernel = parse::parse(arguments, item)?;
    check::check(&kernel)?;
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    let device = device::expand(&kernel, &package);
    let host = host::expand(&kernel, &package);
    Ok(quote!(#device #host))
}
