//! `#[kernel]`: [`parse`] reads the syntax, [`check`] refuses what cannot be a kernel, [`symbol`]
//! names the entries, and [`host`] and [`device`] write the two sides. [`instance_list`] reads the
//! instances of a generic kernel, and [`instances`] writes what each of them has.

#[macro_use]
mod hygiene;

mod check;
mod device;
mod host;
mod instance_list;
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
