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

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::punctuated::Punctuated;
use syn::{
    AngleBracketedGenericArguments, Error, Expr, GenericArgument, GenericParam, Generics, Result, Token,
    Type, bracketed,
};

use super::device::branded_types;
use super::parse::{Kernel, brand};
use crate::message;

/// The list `instances = […]`, and what is known of it once the function is read.
pub(crate) struct Listed {
    name: Ident,
    written: Vec<Written>,
}

/// One entry of the list: its arguments, and the tokens at which an error points.
struct Written {
    arguments: Vec<GenericArgument>,
    tokens: TokenStream,
}

/// One instance: an argument for each generic parameter, in their order.
pub(crate) struct Instance {
    pub(crate) arguments: Vec<(Ident, Argument)>,
}

pub(crate) enum Argument {
    Type(Type),
    /// The constant's type, as the parameter has it, and its value.
    Constant(Type, Expr),
}

impl ToTokens for Argument {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        match self {
            Self::Type(ty) => ty.to_tokens(tokens),
            Self::Constant(_, value) => value.to_tokens(tokens),
        }
    }
}

impl Listed {
    pub(super) fn parse(input: ParseStream<'_>, name: &Ident) -> Result<Self> {
        if !input.peek(syn::token::Bracket) {
            return Err(Error::new_spanned(name, message::INSTANCES_NOT_LIST));
        }
        let content;
        bracketed!(content in input);
        let not_list = |error: Error| Error::new(error.span(), message::INSTANCES_NOT_LIST);
        let list = Punctuated::<Written, Token![,]>::parse_terminated_with(&content, Written::parse)
            .map_err(not_list)?;
        Ok(Self {
            name: name.clone(),
            written: list.into_iter().collect(),
        })
    }
}

impl Written {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        // `<f32, 4>`, but not `<f32 as Trait>::Output`, which is one type.
        let ahead = input.fork();
        let is_list = ahead.parse::<AngleBracketedGenericArguments>().is_ok()
            && (ahead.is_empty() || ahead.peek(Token![,]));
        if is_list {
            let list: AngleBracketedGenericArguments = input.parse()?;
            let tokens = list.to_token_stream();
            let arguments = list.args.into_iter().collect();
            return Ok(Self { arguments, tokens });
        }
        let argument: GenericArgument = input.parse()?;
        let tokens = argument.to_token_stream();
        Ok(Self {
            arguments: vec![argument],
            tokens,
        })
    }

    fn instance(&self, generics: &Generics) -> Result<Instance> {
        if self.arguments.len() != generics.params.len() {
            let message = message::instance_arguments(generics.params.len());
            return Err(Error::new_spanned(&self.tokens, message));
        }
        let pairs = generics.params.iter().zip(&self.arguments);
        let arguments = pairs.map(|(parameter, argument)| match parameter {
            GenericParam::Type(parameter) => Ok((parameter.ident.clone(), as_type(argument)?)),
            GenericParam::Const(parameter) => {
                Ok((parameter.ident.clone(), as_constant(&parameter.ty, argument)?))
            }
            GenericParam::Lifetime(parameter) => Err(Error::new_spanned(parameter, message::LIFETIME)),
        });
        Ok(Instance {
            arguments: arguments.collect::<Result<_>>()?,
        })
    }
}

fn as_type(argument: &GenericArgument) -> Result<Argument> {
    match argument {
        GenericArgument::Type(ty) => Ok(Argument::Type(ty.clone())),
        other => Err(Error::new_spanned(other, message::INSTANCE_TYPE)),
    }
}

fn as_constant(ty: &Type, argument: &GenericArgument) -> Result<Argument> {
    let value = match argument {
        GenericArgument::Const(value) => value.clone(),
        // The name of a constant reads like the name of a type.
        GenericArgument::Type(Type::Path(path)) => syn::parse2(path.to_token_stream())
            .map_err(|_| Error::new_spanned(path, message::INSTANCE_CONSTANT))?,
        other => return Err(Error::new_spanned(other, message::INSTANCE_CONSTANT)),
    };
    Ok(Argument::Constant(ty.clone(), value))
}

/// Resolves the list against the function's generic parameters, and refuses what has no instance.
pub(super) fn resolve(generics: &Generics, listed: Option<&Listed>) -> Result<Vec<Instance>> {
    if let Some(lifetime) = generics.lifetimes().next() {
        return Err(Error::new_spanned(lifetime, message::LIFETIME));
    }
    for parameter in &generics.params {
        let default = match parameter {
            GenericParam::Type(parameter) => parameter.default.as_ref().map(|(_, ty)| ty.to_token_stream()),
            GenericParam::Const(parameter) => parameter
                .default
                .as_ref()
                .map(|(_, value)| value.to_token_stream()),
            GenericParam::Lifetime(_) => None,
        };
        if let Some(default) = default {
            return Err(Error::new_spanned(default, message::GENERIC_DEFAULT));
        }
    }
    let listed = match (listed, generics.params.is_empty()) {
        (Some(listed), false) if listed.written.is_empty() => {
            return Err(Error::new_spanned(&listed.name, message::INSTANCES_NOT_LIST));
        }
        (Some(listed), false) => listed,
        (Some(listed), true) => {
            return Err(Error::new_spanned(&listed.name, message::INSTANCES_NOT_GENERIC));
        }
        (None, false) => return Err(Error::new_spanned(generics, message::GENERIC)),
        (None, true) => {
            return match &generics.where_clause {
                Some(clause) => Err(Error::new_spanned(clause, message::WHERE_CLAUSE)),
                None => Ok(Vec::new()),
            };
        }
    };
    let mut seen = Vec::new();
    let mut instances = Vec::new();
    for written in &listed.written {
        let instance = written.instance(generics)?;
        let text = instance.text();
        if seen.contains(&text) {
            return Err(Error::new_spanned(&written.tokens, message::INSTANCE_TWICE));
        }
        seen.push(text);
        instances.push(instance);
    }
    Ok(instances)
}

/// Refuses `T::Output` in the signature: of an alias, rustc does not know the trait.
pub(super) fn check(kernel: &Kernel) -> Result<()> {
    let parameters: Vec<&Ident> = kernel.type_parameters().collect();
    let returned = kernel.returned.iter().map(|returned| &returned.ty);
    for ty in kernel.parameters.iter().map(|of| &of.ty).chain(returned) {
        if let Some(token) = projection(ty.to_token_stream(), &parameters) {
            return Err(Error::new_spanned(token, message::GENERIC_PROJECTION));
        }
    }
    Ok(())
}

/// The first token of `T::…`.
fn projection(tokens: TokenStream, parameters: &[&Ident]) -> Option<TokenTree> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let colon = |at: usize| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
    (0..tokens.len()).find_map(|at| match &tokens[at] {
        TokenTree::Group(group) => projection(group.stream(), parameters),
        TokenTree::Ident(ident)
            if parameters.contains(&ident)
                && colon(at + 1)
                && colon(at + 2)
                && !(at > 0 && colon(at - 1)) =>
        {
            Some(tokens[at].clone())
        }
        _ => None,
    })
}

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
        let types = branded_types(kernel);
        let values: Vec<Ident> = (0..kernel.parameters.len())
            .map(|at| super::device::local("value", at))
            .collect();
        let returned = &kernel.function.sig.output;
        mixed! {
            #[inline(always)]
            #[allow(clippy::too_many_arguments, clippy::type_complexity)]
            fn #called<#brand>(#(#values: #types),*) #returned {
                #name::<#(#arguments),*>(#(#values),*)
            }
        }
    }

    /// The instance as its user would write it: `f32`, `<f32, 4>`.
    pub(super) fn text(&self) -> String {
        let texts: Vec<String> = self
            .arguments
            .iter()
            .map(|(_, argument)| text(argument.to_token_stream()))
            .collect();
        match &texts[..] {
            [text] => text.clone(),
            texts => format!("<{}>", texts.join(", ")),
        }
    }
}

fn argument_alias(at: usize, argument: &Argument) -> Ident {
    match argument {
        Argument::Type(_) => format_ident!("__CudaRtInstance{at}", span = Span::mixed_site()),
        Argument::Constant(..) => format_ident!("__CUDA_RT_INSTANCE{at}", span = Span::mixed_site()),
    }
}

/// The tokens with a space only where two words would join.
fn text(tokens: TokenStream) -> String {
    let mut text = String::new();
    for token in tokens {
        let token = match token {
            TokenTree::Group(group) => {
                let inner = self::text(group.stream());
                match group.delimiter() {
                    proc_macro2::Delimiter::Parenthesis => format!("({inner})"),
                    proc_macro2::Delimiter::Brace => format!("{{{inner}}}"),
                    proc_macro2::Delimiter::Bracket => format!("[{inner}]"),
                    proc_macro2::Delimiter::None => inner,
                }
            }
            token => token.to_string(),
        };
        let word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        if word(text.chars().next_back()) && word(token.chars().next()) {
            text.push(' ');
        }
        text.push_str(&token);
    }
    text
}

/// The trait that the generic launch calls, and the launch itself, for the host.
pub(super) struct GenericLaunch<'a> {
    pub(super) kernel: &'a Kernel,
    /// The launch's own generic parameters, behind the user's.
    pub(super) parameters: &'a TokenStream,
    pub(super) declared: &'a TokenStream,
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
            declared,
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
                fn launch<#parameters>(#declared) -> #result;
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
