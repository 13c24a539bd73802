//! `unroll!`: the passes of a loop, written out.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::{Block, Error, Ident, Lifetime, LitInt, Result, Token, token};

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
        let index: Ident = input.parse()?;
        input.parse::<Token![in]>()?;
        let literal = |input: ParseStream<'_>| {
            let refusal = |error: Error| {
                let text = format!(
                    "the bounds of an unrolled loop are literals, as in `0..8`: each pass is written out before constants \
                     and variables have values. Write the largest bound, and ask inside the loop: `if {index} < end {{ .. }}`"
                );
                Error::new(error.span(), text)
            };
            let bound = input.parse::<LitInt>().map_err(refusal)?;
            // `24 - a` begins with a literal, and is none.
            let is_whole = input.is_empty() || input.peek(Token![..]) || input.peek(token::Brace);
            match is_whole {
                true => Ok(bound),
                false => Err(refusal(input.error(""))),
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(input: TokenStream) -> String {
        expand(input).expect_err("the loop is refused").to_string()
    }

    #[test]
    fn bounds_that_are_no_literals_are_refused_with_the_mend() {
        for input in [
            quote!(for b in 0..24 - a {
                use_it(b);
            }),
            quote!(for b in 0..N {
                use_it(b);
            }),
            quote!(for b in a..24 {
                use_it(b);
            }),
            quote!(for b in 0 + a..24 {
                use_it(b);
            }),
            quote!(for b in 0..8.min(n) {
                use_it(b);
            }),
        ] {
            let text = refused(input);
            assert!(text.contains("are literals, as in `0..8`"), "{text}");
            assert!(text.contains("`if b < end { .. }`"), "{text}");
        }
    }

    #[test]
    fn other_loops_have_messages_of_their_own() {
        assert!(
            refused(quote!(for b in 0..=24 {
                use_it(b);
            }))
            .contains("the end left out")
        );
        assert!(refused(quote!(for b in 0..24)).contains("curly braces"));
        assert!(refused(quote!(for b in 0..24 {} more())).contains("one `for` loop"));
        assert!(
            expand(quote!(for b in 0..24 {
                use_it(b);
            }))
            .is_ok()
        );
    }
}
