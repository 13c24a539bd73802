//! `#[kernel]`: [`parse`] reads the syntax, [`check`] refuses what cannot be a kernel, [`symbol`]
//! names the entry, and [`host`] and [`device`] write the two sides.

/// `quote!` with the hygiene of `macro_rules!`: our `stream` or `extent` differs from a user's
/// parameter of the same name.
macro_rules! mixed {
    ($($tokens:tt)*) => { ::quote::quote_spanned!(::proc_macro2::Span::mixed_site()=> $($tokens)*) };
}

mod check;
mod device;
mod host;
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
    let symbol = symbol::symbol(&package, &kernel);
    let device = device::expand(&kernel, &symbol);
    let host = host::expand(&kernel, &symbol);
    Ok(quote!(#device #host))
}
