//! The instances of a generic kernel: each listed instance gets an entry in the PTX, tables and a
//! launch, as a kernel that is not generic has.
//!
//! The user's function stays generic, and rustc checks it once. For each instance, a scope of its
//! own has an alias for each generic parameter (`type T = f32;`). In this scope the signature's
//! types are the instance's, so that everything else is written as for any other kernel.
//!
//! The launch is generic too. It calls a trait of the kernel's own, which has one implementation
//! for each instance. The trait promises nothing: another crate that implements it gets a function
//! of its own called.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::{GenericParam, Generics};

use super::hygiene::{brand, local};
use super::instance_list::{Argument, Instance};
use super::parse::Kernel;

/// The function of one instance, which calls the user's generic function.
pub(super) fn function_name() -> Ident {
    Ident::new("__cuda_rt_instance", Span::mixed_site())
}

/// The generic parameters as arguments: `<T, { N }>`. Without the braces, a type of the user's
/// crate with the name of a constant would be meant.
fn names(generics: &Generics) -> Vec<TokenStream> {
    let names = generics.params.iter().filter_map(|parameter| match parameter {
        GenericParam::Type(parameter) => Some(parameter.ident.to_token_stream()),
        GenericParam::Const(parameter) => {
            let name = &parameter.ident;
            Some(mixed!({ #name }))
        }
        GenericParam::Lifetime(_) => None,
    });
    names.collect()
}

/// The type that stands for the kernel's instances: its handle, or a hidden type.
fn instance_type(kernel: &Kernel) -> Ident {
    let name = kernel.function.sig.ident.unraw();
    let hidden = || format_ident!("__InstanceOf_{name}", span = Span::mixed_site());
    kernel.handle.clone().unwrap_or_else(hidden)
}

impl Instance {
    /// The arguments, by names that the user's code does not use.
    pub(super) fn aliases(&self) -> Vec<TokenStream> {
        let aliases = self.arguments.iter().enumerate();
        aliases
            .map(|(at, (_, argument))| {
                let alias = argument_alias(at, argument);
                match argument {
                    Argument::Type(_) => mixed!(#alias),
                    Argument::Constant(..) => mixed!({ #alias }),
                }
            })
            .collect()
    }

    /// A scope for `items`, in which each generic parameter is this instance's.
    ///
    /// The user's arguments stand in a scope around it. There a type with the name of a generic
    /// parameter is still the user's own.
    pub(super) fn scope(&self, items: TokenStream) -> TokenStream {
        let arguments = self.arguments.iter().enumerate().map(|(at, (_, argument))| {
            let alias = argument_alias(at, argument);
            match argument {
                Argument::Type(ty) => mixed!(type #alias = #ty;),
                Argument::Constant(ty, value) => mixed!(#[allow(unused_braces)] const #alias: #ty = #value;),
            }
        });
        let parameters = self
            .arguments
            .iter()
            .enumerate()
            .map(|(at, (parameter, argument))| {
                let alias = argument_alias(at, argument);
                match argument {
                    Argument::Type(_) => {
                        mixed!(#[allow(dead_code, non_camel_case_types)] type #parameter = #alias;)
                    }
                    Argument::Constant(ty, _) => {
                        mixed!(#[allow(dead_code, non_upper_case_globals)] const #parameter: #ty = #alias;)
                    }
                }
            });
        mixed! {
            const _: () = {
                #(#arguments)*
                const _: () = {
                    #(#parameters)*
                    #items
                };
            };
        }
    }

    /// The user's function with this instance's types, and without generic parameters.
    pub(super) fn function(&self, kernel: &Kernel) -> TokenStream {
        let (name, called) = (&kernel.function.sig.ident, function_name());
        let (brand, arguments) = (brand(), self.aliases());
        let types = kernel.branded_types();
        let values: Vec<Ident> = (0..kernel.parameters.len())
            .map(|at| local("value", at))
            .collect();
        let returned = &kernel.function.sig.output;
        mixed! {
            #[inline(always)]
            #[allow(clippy::too_many_arguments, clippy::type_complexity)]
            fn #called<#brand>(#(#values @ _: #types),*) #returned {
                #name::<#(#arguments),*>(#(#values),*)
            }
        }
    }
}

fn argument_alias(at: usize, argument: &Argument) -> Ident {
    match argument {
        Argument::Type(_) => format_ident!("__CudaRtInstance{at}", span = Span::mixed_site()),
        Argument::Constant(..) => format_ident!("__CUDA_RT_INSTANCE{at}", span = Span::mixed_site()),
    }
}

/// The trait that the generic launch calls, and the launch itself, for the host.
pub(super) struct GenericLaunch<'a> {
    pub(super) kernel: &'a Kernel,
    /// The launch's own generic parameters, behind the user's.
    pub(super) parameters: &'a TokenStream,
    pub(super) declared: &'a TokenStream,
    /// The same parameters where there is no body, and so no pattern.
    pub(super) named: &'a TokenStream,
    pub(super) passed: &'a TokenStream,
    pub(super) result: &'a TokenStream,
}

impl GenericLaunch<'_> {
    pub(super) fn trait_name(&self) -> Ident {
        let name = self.kernel.function.sig.ident.unraw();
        format_ident!("__LaunchOf_{name}", span = Span::mixed_site())
    }

    pub(super) fn declare_trait(&self) -> TokenStream {
        let Self {
            kernel,
            parameters,
            named,
            result,
            ..
        } = self;
        let (name, visibility) = (self.trait_name(), &kernel.function.vis);
        let generics = &kernel.function.sig.generics;
        let clause = &generics.where_clause;
        mixed! {
            #[cfg(not(target_arch = "nvptx64"))]
            #[doc(hidden)]
            #[allow(non_camel_case_types, dead_code)]
            #visibility trait #name #generics #clause {
                #[allow(clippy::too_many_arguments, clippy::type_complexity, missing_docs)]
                #[track_caller]
                fn launch<#parameters>(#named) -> #result;
            }
        }
    }

    /// The implementation for one instance, whose launch has `body`.
    pub(super) fn implement(&self, instance: &Instance, body: &TokenStream) -> TokenStream {
        let Self {
            parameters,
            declared,
            result,
            ..
        } = self;
        let (name, arguments) = (self.trait_name(), instance.aliases());
        let instance_type = instance_type(self.kernel);
        let function = instance.function(self.kernel);
        instance.scope(mixed! {
            #[allow(non_local_definitions)]
            impl ::cuda_rt::kernel::KernelInstance for #instance_type<#(#arguments),*> {
                type Launch = ();
            }
            #[allow(non_local_definitions)]
            impl #name<#(#arguments),*> for () {
                #[allow(clippy::too_many_arguments, clippy::type_complexity)]
                #[track_caller]
                #[inline]
                fn launch<#parameters>(#declared) -> #result {
                    #function
                    #body
                }
            }
        })
    }

    /// The launch of all instances.
    pub(super) fn function(&self, attributes: &TokenStream) -> TokenStream {
        let Self {
            kernel,
            parameters,
            declared,
            passed,
            result,
            ..
        } = self;
        let (trait_name, visibility) = (self.trait_name(), &kernel.function.vis);
        let generics = &kernel.function.sig.generics;
        let (name, params) = (&kernel.function.sig.ident, &generics.params);
        let predicates = generics.where_clause.iter().flat_map(|clause| &clause.predicates);
        let names = names(generics);
        let instance = instance_type(kernel);
        let launch = mixed!(<#instance<#(#names),*> as ::cuda_rt::kernel::KernelInstance>::Launch);
        let about = format!("\n\nThis kernel was built for {}.", kernel.listed_instances());
        let parameters_first: Vec<_> = params.iter().collect();
        mixed! {
            #[cfg(not(target_arch = "nvptx64"))]
            #attributes
            #[doc = #about]
            #[allow(clippy::too_many_arguments, clippy::type_complexity)]
            #[track_caller]
            #visibility fn #name<#(#parameters_first,)* #parameters>(#declared) -> #result
            where
                #instance<#(#names),*>: ::cuda_rt::kernel::KernelInstance,
                #launch: #trait_name<#(#names),*>,
                #(#predicates,)*
            {
                <#launch as #trait_name<#(#names),*>>::launch(#passed)
            }
        }
    }
}

/// The type that stands for a generic kernel, generic in the same parameters.
pub(super) fn declare_handle(kernel: &Kernel) -> TokenStream {
    let handle = instance_type(kernel);
    let parameters = kernel
        .function
        .sig
        .generics
        .params
        .iter()
        .map(|parameter| match parameter {
            GenericParam::Type(parameter) => {
                let name = &parameter.ident;
                quote!(#name)
            }
            GenericParam::Const(parameter) => {
                let (name, ty) = (&parameter.ident, &parameter.ty);
                quote!(const #name: #ty)
            }
            GenericParam::Lifetime(_) => TokenStream::new(),
        });
    let held = kernel.type_parameters().map(|name| mixed!(fn() -> #name));
    mixed! {
        enum #handle<#(#parameters),*> {
            #[doc(hidden)]
            __Never(
                ::device_std::__private::core::convert::Infallible,
                ::device_std::__private::core::marker::PhantomData<(#(#held,)*)>,
            ),
        }
    }
}
