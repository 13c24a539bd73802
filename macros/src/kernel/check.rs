//! Refuses functions that cannot be kernels, each at the wrong token.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Error, Result, Safety, Type};

use super::parse::{Kernel, Output, Role, Way};
use crate::message;

pub(crate) fn check(kernel: &Kernel) -> Result<()> {
    signature(kernel)?;
    block_size(kernel)?;
    parameters(kernel)
}

fn refuse(at: &dyn ErrorSpan, message: &str) -> Result<()> {
    Err(at.error(message))
}

/// Object-safe `ToTokens`, for the table below.
trait ErrorSpan {
    fn error(&self, message: &str) -> Error;
}

impl<T: ToTokens> ErrorSpan for T {
    fn error(&self, message: &str) -> Error {
        Error::new_spanned(self, message)
    }
}

fn signature(kernel: &Kernel) -> Result<()> {
    let signature = &kernel.function.sig;
    if let Some(token) = &signature.asyncness {
        refuse(token, message::ASYNC)?;
    }
    if let Some(token) = &signature.constness {
        refuse(token, message::CONST)?;
    }
    if !matches!(signature.safety, Safety::Default) {
        refuse(&signature.safety, message::UNSAFE)?;
    }
    if let Some(token) = &signature.abi {
        refuse(token, message::ABI)?;
    }
    if let Some(token) = &signature.variadic {
        refuse(token, message::VARIADIC)?;
    }
    projections(kernel)?;
    if let Some(returned) = &kernel.returned {
        match &returned.ty {
            Type::Path(_) | Type::Array(_) | Type::Paren(_) | Type::Group(_) | Type::Macro(_) => {}
            ty => refuse(ty, message::RETURNS)?,
        }
    }
    if !signature.ident.to_string().is_ascii() {
        refuse(&signature.ident, message::NAME)?;
    }
    Ok(())
}

fn block_size(kernel: &Kernel) -> Result<()> {
    let Some(block) = kernel.block else { return Ok(()) };
    let threads = block.threads.map(u64::from);
    if threads[0] == 0 || threads[1] == 0 || threads[0] * threads[1] > 1024 {
        return Err(Error::new(block.span, message::BLOCK_SIZE));
    }
    Ok(())
}

fn parameters(kernel: &Kernel) -> Result<()> {
    let mut position = None;
    for parameter in &kernel.parameters {
        if let Role::Index(dimensions) | Role::Block(dimensions) = parameter.role {
            if position.is_some() {
                refuse(&parameter.ty, message::TWO_POSITIONS)?;
            }
            position = Some((parameter, dimensions));
        }
    }
    let Some((position, dimensions)) = position else {
        return refuse(&kernel.function.sig.ident, message::NO_POSITION);
    };
    let is_block = matches!(position.role, Role::Block(_));
    match kernel.block {
        None if is_block => refuse(&position.ty, message::BLOCK_UNSIZED)?,
        Some(block) if is_block && block.dimensions != dimensions => {
            refuse(&position.ty, message::BLOCK_DIMENSIONS)?
        }
        // Threads that differ only along the other axis would hold equal indices.
        Some(block) if block.dimensions > dimensions => {
            return Err(Error::new(block.span, message::INDEX_DIMENSIONS));
        }
        _ => {}
    }
    let (mut writes, mut has_look_back) = (kernel.returned.is_some(), false);
    if let Some(returned) = &kernel.returned
        && returned.way == Way::EachThread
        && !is_block
    {
        refuse(&returned.ty, message::PRIVATE_NEEDS_BLOCK)?;
    }
    for parameter in &kernel.parameters {
        match &parameter.role {
            Role::Shared if !is_block => refuse(&parameter.ty, message::NEEDS_BLOCK)?,
            Role::Output { kind, .. } => {
                writes = true;
                let of_block = [
                    Output::PerBlock,
                    Output::PerRow,
                    Output::PerTile,
                    Output::LookBack,
                ];
                if of_block.contains(kind) && !is_block {
                    refuse(&parameter.ty, message::NEEDS_BLOCK)?;
                }
                if *kind == Output::LookBack && std::mem::replace(&mut has_look_back, true) {
                    refuse(&parameter.ty, message::TWO_LOOK_BACKS)?;
                }
                if matches!(kind, Output::PerThreadColumn | Output::PerThreadTile) && dimensions != 2 {
                    refuse(&parameter.ty, message::NEEDS_PLANE)?;
                }
            }
            _ => {}
        }
    }
    if !writes {
        refuse(&kernel.function.sig.ident, message::NO_OUTPUT)?;
    }
    Ok(())
}

/// Refuses `T::Output` in the signature: of an alias, rustc does not know the trait.
fn projections(kernel: &Kernel) -> Result<()> {
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
