//! The list of a generic kernel's instances, `instances = […]`. [`Listed`] is its syntax, and
//! [`resolve`] makes [`Instance`]s of it when the function's generic parameters are known.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::ToTokens;
use syn::parse::ParseStream;
use syn::punctuated::Punctuated;
use syn::{
    AngleBracketedGenericArguments, Error, Expr, GenericArgument, GenericParam, Generics, Result, Token,
    Type, bracketed,
};

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

impl Instance {
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
