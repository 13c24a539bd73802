//! `unroll!`: the passes of a loop, written out.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::{Block, Error, Ident, Lifetime, LitInt, Result, Token};

/// More passes would make builds of minutes.
const MOST: u64 = 256;

struct Unrolled {
    index: Ident,
    start: LitInt,
    end: LitInt,
    body: Block,
}

impl Parse for Unrolled {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        input.parse::<Token![for]>()?;
        let index = input.parse()?;
        input.parse::<Token![in]>()?;
        let literal = |input: ParseStream<'_>| {
            input.parse::<LitInt>().map_err(|error| {
                Error::new(
                    error.span(),
                    "the bounds of an unrolled loop are literals, as in `0..8`: each pass is written out before \
                     constants have values",
                )
            })
        };
        let start = literal(input)?;
        if input.peek(Token![..=]) {
            return Err(input.error("write `start..end` with the end left out of the loop, as in `0..8`"));
        }
        input.parse::<Token![..]>()?;
        let end = literal(input)?;
        let body = input.parse()?;
        if !input.is_empty() {
            return Err(input.error("an unrolled loop is one `for` loop: `unroll!(for k in 0..8 { .. })`"));
        }
        Ok(Self {
            index,
            start,
            end,
            body,
        })
    }
}

/// Writes the passes out. `break` and `continue` act as in a loop: each pass is a `while` loop that
/// runs once, and counts how often its condition was asked. After `break` it was asked once; after
/// `continue`, and at the end of the body, twice.
pub(crate) fn expand(input: TokenStream) -> Result<TokenStream> {
    let Unrolled {
        index,
        start,
        end,
        body,
    } = syn::parse2(input)?;
    let (first, last) = (start.base10_parse::<u64>()?, end.base10_parse::<u64>()?);
    if last.saturating_sub(first) > MOST {
        return Err(Error::new(
            end.span(),
            format!("an unrolled loop has at most {MOST} passes: unroll an inner loop instead"),
        ));
    }
    if start.suffix() != end.suffix() && !(start.suffix().is_empty() || end.suffix().is_empty()) {
        return Err(Error::new(end.span(), "the bounds have two types"));
    }
    let suffix = match (start.suffix(), end.suffix()) {
        ("", "") => "usize",
        ("", suffix) | (suffix, _) => suffix,
    };
    let asked = Ident::new("asked", Span::mixed_site());
    let all = Lifetime::new("'unrolled", Span::mixed_site());
    let passes = (first..last).map(|at| {
        let at = LitInt::new(&format!("{at}{suffix}"), Span::mixed_site());
        quote! {
            let mut #asked = 0u8;
            while { #asked += 1; #asked == 1 } {
                let #index = #at;
                #body
            }
            if #asked == 1 { break #all; }
        }
    });
    Ok(quote! {{
        #[allow(clippy::never_loop, unused_assignments, unused_labels, unreachable_code)]
        let () = #all: { #(#passes)* };
    }})
}
