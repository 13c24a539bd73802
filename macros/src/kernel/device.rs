//! The device side: the user's function as it stands, and an entry around it.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote_spanned};
use syn::spanned::Spanned;

use super::parse::{Kernel, Output, Parameter, Role, brand};

pub(crate) fn expand(kernel: &Kernel, symbol: &str) -> TokenStream {
    let name = &kernel.function.sig.ident;
    let visibility = &kernel.function.vis;
    let body = body(kernel);
    let aliases = aliases(kernel);
    let block = block_literal(kernel);

    let (mut declared, mut passed, mut shared) = (Vec::new(), Vec::new(), Vec::new());
    let mut position = None;
    for (at, parameter) in kernel.parameters.iter().enumerate() {
        let (value, len, ty) = (local("value", at), local("len", at), alias(at));
        match &parameter.role {
            Role::Slice { .. } => {
                declared.push(mixed!(#value: &[#ty; 0], #len: usize));
                passed.push(mixed!(unsafe { ::device_std::rt::entry::slice::<#ty>(#value, #len) }));
            }
            Role::Output { kind, .. } => {
                let element = element_alias(at);
                // Exclusive for all but atomics, which other threads change meanwhile.
                let (declaration, pointer) = match kind {
                    Output::Atomic => (mixed!(#value: *mut #element), mixed!(#value)),
                    _ => (
                        mixed!(#value: &mut [#element; 0]),
                        mixed!(<[#element]>::as_mut_ptr(#value)),
                    ),
                };
                declared.push(mixed!(#declaration, #len: usize));
                passed.push(
                    mixed!(unsafe { <#ty<'_> as ::device_std::rt::OutputArgument>::new(#pointer, #len) }),
                );
            }
            Role::Shared => {
                let offset = shared_bytes(&shared);
                passed.push(mixed!(unsafe { ::device_std::rt::entry::shared::<#ty<'_>, { #offset }>() }));
                shared.push(ty);
            }
            Role::Index(dimensions) => {
                position = Some(format_ident!("index{dimensions}"));
                passed.push(mixed!(index));
            }
            Role::Block(dimensions) => {
                let dimensions = dimensions_type(*dimensions);
                passed.push(mixed!(unsafe { ::device_std::rt::entry::block::<#dimensions>(#block, extent) }));
            }
            Role::Scalar => {
                declared.push(mixed!(#value: #ty));
                passed.push(mixed!(#value));
            }
        }
    }
    let call = match position {
        Some(position) => mixed! {
            if let ::core::option::Option::Some(index) = unsafe { ::device_std::rt::entry::#position(extent) } {
                #name(#(#passed),*);
            }
        },
        None => mixed!(#name(#(#passed),*);),
    };
    let table_symbol = format!("__cuda_rt_layout_{symbol}");
    let layout = layout(kernel);
    let count = layout.len();

    mixed! {
        #[cfg(target_arch = "nvptx64")]
        const _: () = {
            #aliases
            #body

            #[unsafe(export_name = #symbol)]
            #[allow(improper_ctypes_definitions)]
            pub unsafe extern "ptx-kernel" fn __cuda_rt_entry(#(#declared,)* extent: ::device_std::Extent) {
                #call
            }

            #[unsafe(export_name = #table_symbol)]
            pub static __CUDA_RT_LAYOUT: [u64; #count] = [#(#layout),*];
        };

        // So that paths to the kernel (`pub use`) resolve on the device too.
        #[cfg(target_arch = "nvptx64")]
        #[doc(hidden)]
        #[allow(dead_code)]
        #visibility fn #name() {}
    }
}

/// The user's function: private, branded, and without the documentation, which goes to the launch.
pub(super) fn body(kernel: &Kernel) -> TokenStream {
    let mut function = kernel.function.clone();
    function.attrs.retain(|attribute| {
        !["doc", "deprecated", "must_use"]
            .iter()
            .any(|outer| attribute.path().is_ident(outer))
    });
    function.vis = syn::Visibility::Inherited;
    let brand = brand();
    function.sig.generics = syn::parse_quote!(<#brand>);
    mixed!(#[inline(always)] #[allow(clippy::too_many_arguments)] #function)
}

/// Names for the user's types, and ones that the user's code has no use for: items are not hygienic. So no token of the user's, and no expression in one (`[f32; { … }]`), stands inside an `unsafe` block.
pub(super) fn aliases(kernel: &Kernel) -> TokenStream {
    let brand = brand();
    let aliases = kernel
        .parameters
        .iter()
        .zip(branded_types(kernel))
        .enumerate()
        .map(|(at, (parameter, branded))| {
            let alias = alias(at);
            match &parameter.role {
                Role::Slice { element } => mixed!(type #alias = #element;),
                Role::Output { element, .. } => {
                    let element_alias = element_alias(at);
                    mixed!(type #alias<#brand> = #branded; type #element_alias = #element;)
                }
                Role::Shared => mixed!(type #alias<#brand> = #branded;),
                Role::Scalar => mixed!(type #alias = #branded;),
                Role::Index(_) | Role::Block(_) => mixed!(),
            }
        });
    mixed!(#(#aliases)*)
}

fn branded_types(kernel: &Kernel) -> impl Iterator<Item = &syn::Type> {
    kernel.function.sig.inputs.iter().filter_map(|input| match input {
        syn::FnArg::Typed(input) => Some(&*input.ty),
        syn::FnArg::Receiver(_) => None,
    })
}

/// One layout hash for each element or scalar type, in order.
pub(super) fn layout(kernel: &Kernel) -> Vec<TokenStream> {
    let hash = |parameter: &Parameter| {
        // On the user's own type, so that rustc points there when it cannot cross.
        let span = parameter.ty.span().resolved_at(Span::mixed_site());
        match &parameter.role {
            Role::Slice { element } | Role::Output { element, .. } => {
                Some(quote_spanned!(span=> ::device_std::rt::element_layout::<#element>()))
            }
            Role::Scalar => {
                let ty = &parameter.ty;
                Some(quote_spanned!(span=> ::device_std::rt::scalar_layout::<#ty>()))
            }
            Role::Shared | Role::Index(_) | Role::Block(_) => None,
        }
    };
    kernel.parameters.iter().filter_map(hash).collect()
}

/// Bytes of these shared arguments together.
pub(super) fn shared_bytes(shared: &[Ident]) -> TokenStream {
    mixed!(0 #(+ <#shared<'_> as ::device_std::rt::SharedArgument>::BYTES)*)
}

pub(super) fn block_literal(kernel: &Kernel) -> TokenStream {
    let [x, y] = kernel.block.map_or([1, 1], |block| block.threads);
    mixed!([#x, #y])
}

pub(super) fn dimensions_type(dimensions: usize) -> TokenStream {
    if dimensions == 1 {
        mixed!(::device_std::OneD)
    } else {
        mixed!(::device_std::TwoD)
    }
}

pub(super) fn alias(at: usize) -> Ident {
    format_ident!("__CudaRtParameter{at}")
}

pub(super) fn element_alias(at: usize) -> Ident {
    format_ident!("__CudaRtElement{at}")
}

pub(super) fn local(name: &str, at: usize) -> Ident {
    format_ident!("{name}{at}", span = Span::mixed_site())
}
