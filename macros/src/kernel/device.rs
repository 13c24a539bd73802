//! The device side: the user's function, unchanged, and an entry that calls it.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;

use super::hygiene::{brand, local};
use super::parse::{Kernel, Parameter, Returned, Role, Way};
use super::{instances, symbol};
use crate::message;

pub(crate) fn expand(kernel: &Kernel, package: &str) -> TokenStream {
    let name = &kernel.function.sig.ident;
    let visibility = &kernel.function.vis;
    let body = body(kernel);
    let entries = if kernel.is_generic() {
        let instances = kernel.instances.iter().map(|instance| {
            let function = instance.function(kernel);
            let called = instances::function_name();
            let entry = entry(kernel, &symbol::symbol(package, kernel, Some(instance)), &called);
            instance.scope(mixed!(#function #entry))
        });
        mixed!(#(#instances)*)
    } else {
        entry(kernel, &symbol::symbol(package, kernel, None), name)
    };

    mixed! {
        #[cfg(target_arch = "nvptx64")]
        const _: () = {
            #body
            #entries
        };

        // With this item, paths to the kernel (`pub use`) resolve on the device too.
        #[cfg(target_arch = "nvptx64")]
        #[doc(hidden)]
        #[allow(dead_code)]
        #visibility fn #name() {}
    }
}

/// The entry, which calls `function`, and the aliases of its types.
fn entry(kernel: &Kernel, symbol: &str, function: &Ident) -> TokenStream {
    let aliases = aliases(kernel);
    let (mut parameters, mut given) = (Vec::new(), Vec::new());
    let mut position = mixed!();
    for (at, parameter) in kernel.parameters.iter().enumerate() {
        let (value, len, ty) = (local("value", at), local("len", at), alias(at, parameter));
        match &parameter.role {
            Role::Slice { .. } => parameters.push(mixed!(slice(#value, #len: #ty);)),
            Role::Output { kind, .. } if kind.is_exclusive() => {
                parameters.push(mixed!(exclusive(#value, #len: #ty);))
            }
            Role::Output { .. } => parameters.push(mixed!(atomic(#value, #len: #ty);)),
            Role::Shared => parameters.push(mixed!(shared(#value: #ty);)),
            Role::Scalar => parameters.push(mixed!(scalar(#value: #ty);)),
            Role::Index(dimensions) => {
                let current = format_ident!("Index{dimensions}");
                position = mixed!(index = #value: #current,);
            }
            Role::Block(dimensions) => {
                let dimensions = dimensions_type(*dimensions);
                let [x, y] = kernel.block.map_or([1, 1], |block| block.threads);
                position = mixed!(block = #value: #dimensions(#x, #y),);
            }
        }
        given.push(value);
    }
    if let Some(of) = &kernel.returned {
        let [value, len] = ["returned", "returned_len"].map(|name| Ident::new(name, Span::mixed_site()));
        let (way, ty) = (way(of), returned_alias(of));
        parameters.push(mixed!(returned(#value, #len: #way #ty);));
    }
    mixed! {
        #aliases
        // In a block of its own: the user's body must not find the entry by its name.
        const _: () = {
            ::device_std::__entry! {
                #symbol, #function(#(#given),*),
                parameters = [#(#parameters)*],
                #position
                checked = __CUDA_RT_CHECKED,
            }
        };
    }
}

/// The user's function: private, branded, and without its documentation, which belongs to the
/// launch.
pub(super) fn body(kernel: &Kernel) -> TokenStream {
    let mut function = kernel.function.clone();
    function.attrs.retain(|attribute| {
        !["doc", "deprecated", "must_use"]
            .iter()
            .any(|outer| attribute.path().is_ident(outer))
    });
    function.vis = syn::Visibility::Inherited;
    let brand = brand();
    let brand = syn::LifetimeParam::new(brand);
    let generics = &mut function.sig.generics.params;
    generics.insert(0, syn::GenericParam::Lifetime(brand));
    mixed!(#[inline(always)] #[allow(clippy::too_many_arguments)] #function)
}

/// Aliases for the user's types, with names that the user's code does not use, because items are
/// not hygienic. With them, no token of the user's stands inside an `unsafe` block, not even an
/// expression in a type (`[f32; { … }]`).
pub(super) fn aliases(kernel: &Kernel) -> TokenStream {
    let brand = brand();
    let aliases = kernel
        .parameters
        .iter()
        .zip(kernel.branded_types())
        .enumerate()
        .map(|(at, (parameter, branded))| {
            let alias = alias(at, parameter);
            match &parameter.role {
                Role::Slice { element } => mixed!(type #alias = #element;),
                Role::Output { element, .. } => {
                    let element_alias = element_alias(at, parameter);
                    mixed!(type #alias<#brand> = #branded; type #element_alias = #element;)
                }
                Role::Shared => mixed!(type #alias<#brand> = #branded;),
                Role::Scalar => mixed!(type #alias = #branded;),
                Role::Index(_) | Role::Block(_) => mixed!(),
            }
        });
    let checks = kernel
        .parameters
        .iter()
        .enumerate()
        .flat_map(|(at, parameter)| sizes(at, parameter));
    let (returned, returned_check) = match &kernel.returned {
        Some(of) => {
            let (alias, written) = (returned_alias(of), &of.ty);
            let check = assert_at(&of.ty, has_size(&alias), message::RETURNED_OF_NO_SIZE.to_owned());
            (mixed!(type #alias = #written;), check)
        }
        None => (mixed!(), mixed!()),
    };
    mixed!(#(#aliases)* #returned const __CUDA_RT_CHECKED: () = { #(#checks)* #returned_check };)
}

/// The alias of the type that the kernel returns.
pub(super) fn returned_alias(returned: &Returned) -> Ident {
    let span = at_type(&returned.ty);
    format_ident!("__CudaRtReturned", span = span)
}

/// The name of the type in `device_std::rt` that describes how the returned values lie in the
/// output.
pub(super) fn way(returned: &Returned) -> Ident {
    format_ident!(
        "{}",
        match returned.way {
            Way::Each => "Each",
            Way::EachChunk => "EachChunk",
            Way::EachThread => "EachThread",
        }
    )
}

/// Checks that each type has a size that a launch can pass. An error points at the type, and names
/// the parameter.
///
/// `device_std::rt` refuses the same types, but knows neither the place nor the name. Its macro and
/// the macro of `cuda_rt` evaluate this check first, so that there is one error.
fn sizes(at: usize, parameter: &Parameter) -> Vec<TokenStream> {
    let name = parameter.name.unraw();
    match &parameter.role {
        Role::Slice { element } => vec![assert_at(
            element,
            has_size(&alias(at, parameter)),
            message::element_of_no_size(&name),
        )],
        Role::Output { element, kind } => {
            let (ty, written) = (alias(at, parameter), &parameter.ty);
            let is_exclusive = kind.is_exclusive();
            let has_role =
                mixed!(<#ty<'static> as ::device_std::rt::OutputArgument>::IS_EXCLUSIVE == #is_exclusive);
            vec![
                assert_at(
                    element,
                    has_size(&element_alias(at, parameter)),
                    message::element_of_no_size(&name),
                ),
                assert_at(written, has_role, message::output_by_another_name(&name)),
            ]
        }
        Role::Scalar => {
            let (ty, written) = (alias(at, parameter), &parameter.ty);
            let is_aligned = mixed!(::device_std::__private::core::mem::align_of::<#ty>() <= 16);
            vec![
                assert_at(written, has_size(&ty), message::scalar_of_no_size(&name)),
                assert_at(written, is_aligned, message::scalar_too_aligned(&name)),
            ]
        }
        Role::Shared => {
            let ty = alias(at, parameter);
            let fits = mixed!(<#ty<'static> as ::device_std::rt::SharedArgument>::FITS);
            vec![assert_at(&parameter.ty, fits, message::shared_too_large(&name))]
        }
        Role::Index(_) | Role::Block(_) => Vec::new(),
    }
}

fn has_size(ty: &Ident) -> TokenStream {
    mixed!(::device_std::__private::core::mem::size_of::<#ty>() > 0)
}

fn assert_at(written: &syn::Type, condition: TokenStream, message: String) -> TokenStream {
    quote_spanned!(at_type(written)=> ::device_std::__private::core::assert!(#condition, #message);)
}

/// The span of the user's type, with the hygiene of our names.
fn at_type(written: &syn::Type) -> Span {
    written.span().resolved_at(Span::mixed_site())
}

/// Checks that a block can have all arguments in shared memory together. An error points at the
/// last one, and says the size of each.
pub(super) fn shared_sum(kernel: &Kernel) -> TokenStream {
    let shared = kernel.parameters.iter().enumerate();
    let shared: Vec<_> = shared
        .filter(|(_, parameter)| matches!(parameter.role, Role::Shared))
        .collect();
    let Some((_, last)) = shared.last() else {
        return TokenStream::new();
    };
    let each = shared.iter().map(|(at, parameter)| {
        let (name, ty) = (parameter.name.unraw().to_string(), alias(*at, parameter));
        mixed!((#name, <#ty<'_> as ::device_std::rt::SharedArgument>::BYTES))
    });
    // A `const` here would be evaluated though an earlier check has failed.
    let ty = mixed!(::device_std::rt::SharedSum);
    let fits = mixed!(#ty::fits(&sum), "{}", #ty::text(&sum));
    let check = quote_spanned!(at_type(&last.ty)=> ::device_std::__private::core::assert!(#fits););
    mixed! {
        let sum @ _ = #ty::of(&[#(#each),*]);
        #check
    }
}

pub(super) fn dimensions_type(dimensions: usize) -> Ident {
    format_ident!("{}", if dimensions == 1 { "OneD" } else { "TwoD" })
}

/// The alias of a parameter's type. It has the span of the user's type, so that rustc's errors
/// point there.
pub(super) fn alias(at: usize, parameter: &Parameter) -> Ident {
    let written = match &parameter.role {
        Role::Slice { element } => element,
        _ => &parameter.ty,
    };
    let span = at_type(written);
    format_ident!("__CudaRtParameter{at}", span = span)
}

pub(super) fn element_alias(at: usize, parameter: &Parameter) -> Ident {
    let written = match &parameter.role {
        Role::Output { element, .. } => element,
        _ => &parameter.ty,
    };
    let span = at_type(written);
    format_ident!("__CudaRtElement{at}", span = span)
}
