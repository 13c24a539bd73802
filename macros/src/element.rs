//! `#[derive(Element)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Fields, GenericParam, Result, parse2};

use crate::bundle::clause;
use crate::message;

/// Checks the struct, and calls a macro of `device_std`, which can name its own crate.
pub(crate) fn derive(item: TokenStream, device_std: &TokenStream) -> Result<TokenStream> {
    let item: DeriveInput = parse2(item)?;
    let fields = check(&item)?;
    let name = &item.ident;

    let fields = fields.iter().enumerate().map(|(at, field)| {
        let member = match &field.ident {
            Some(ident) => quote!(#ident),
            None => {
                let index = syn::Index::from(at);
                quote!(#index)
            }
        };
        let ty = &field.ty;
        quote!(#member: #ty,)
    });
    if item.generics.params.is_empty() {
        return Ok(quote!(#device_std::__element! { #name { #(#fields)* } }));
    }
    let generics = &item.generics;
    let types = generics.type_params().map(|one| &one.ident);
    let constants = generics.const_params().map(|one| {
        let (ident, ty) = (&one.ident, &one.ty);
        quote!(#ident: #ty;)
    });
    let arguments = generics.params.iter().map(|parameter| match parameter {
        GenericParam::Type(one) => Ok(&one.ident),
        GenericParam::Const(one) => Ok(&one.ident),
        GenericParam::Lifetime(one) => Err(Error::new_spanned(one, message::ELEMENT_LIFETIME)),
    });
    let arguments = arguments.collect::<Result<Vec<_>>>()?;
    let bounds = clause(generics);
    Ok(quote! {
        #device_std::__element! {
            #name { #(#fields)* },
            types = [#(#types)*],
            constants = [#(#constants)*],
            arguments = [#(#arguments,)*],
            bounds = #bounds,
        }
    })
}

fn check(item: &DeriveInput) -> Result<&Fields> {
    let Data::Struct(data) = &item.data else {
        return Err(Error::new_spanned(&item.ident, message::ELEMENT_NOT_STRUCT));
    };
    if !is_repr_c(item)? {
        return Err(Error::new_spanned(&item.ident, message::ELEMENT_REPR));
    }
    if data.fields.is_empty() {
        return Err(Error::new_spanned(&item.ident, message::ELEMENT_EMPTY));
    }
    Ok(&data.fields)
}

fn is_repr_c(item: &DeriveInput) -> Result<bool> {
    let mut found = false;
    for attribute in item
        .attrs
        .iter()
        .filter(|attribute| attribute.path().is_ident("repr"))
    {
        attribute.parse_nested_meta(|meta| {
            found |= meta.path.is_ident("C") || meta.path.is_ident("transparent");
            // Skips the argument of `align(16)`.
            if meta.input.peek(syn::token::Paren) {
                let argument;
                syn::parenthesized!(argument in meta.input);
                argument.parse::<TokenStream>()?;
            }
            Ok(())
        })?;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(item: TokenStream) -> String {
        derive(item, &quote!(::device_std)).unwrap_err().to_string()
    }

    #[test]
    fn each_misuse_has_its_message() {
        assert_eq!(
            error(quote!(
                enum E {
                    A,
                }
            )),
            message::ELEMENT_NOT_STRUCT
        );
        assert_eq!(
            error(quote!(
                struct S {
                    a: f32,
                }
            )),
            message::ELEMENT_REPR
        );
        assert_eq!(
            error(quote!(
                #[repr(packed)]
                struct S {
                    a: f32,
                }
            )),
            message::ELEMENT_REPR
        );
        assert_eq!(
            error(quote!(
                #[repr(C)]
                struct S;
            )),
            message::ELEMENT_EMPTY
        );
        assert_eq!(
            error(quote!(
                #[repr(C)]
                struct S<'a>(&'a u32);
            )),
            message::ELEMENT_LIFETIME
        );
    }

    #[test]
    fn alignment_beside_repr_c_is_accepted() {
        assert!(
            derive(
                quote!(
                    #[repr(C, align(16))]
                    struct S {
                        a: [f32; 4],
                    }
                ),
                &quote!(::device_std)
            )
            .is_ok()
        );
    }

    #[test]
    fn generic_parameters_are_passed_by_their_kind() {
        let item = quote!(
            #[repr(transparent)]
            struct Row<T: Copy = f32, const N: usize = 4>([T; N])
            where
                T: Send;
        );
        let output = derive(item, &quote!(::device_std)).unwrap().to_string();
        let expected = quote!(::device_std::__element! {
            Row { 0: [T; N], },
            types = [T],
            constants = [N: usize;],
            arguments = [T, N,],
            bounds = [[] T: { [] Copy }; [] T: { [] Send };],
        });
        assert_eq!(output, expected.to_string());
    }

    /// The output has no `unsafe`, so no crate that takes the place of `device_std` gets one of
    /// ours.
    #[test]
    fn nothing_in_the_output_is_unsafe() {
        let item = quote!(
            #[repr(C)]
            struct S(f32, [u32; 2]);
        );
        let output = derive(item.clone(), &quote!(::device_std)).unwrap();
        crate::names::assert_ours(&item, &output);
        let output = output.to_string();
        assert!(
            output.contains("__element") && !output.contains("unsafe"),
            "{output}"
        );
    }
}
