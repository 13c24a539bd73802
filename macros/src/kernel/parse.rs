//! Parses tokens into a [`Kernel`], with the role of each parameter.

use proc_macro2::{Span, TokenStream};
use syn::parse::{Parse, ParseStream, Parser};
use syn::spanned::Spanned;
use syn::{
    Error, Expr, FnArg, GenericArgument, Ident, ItemFn, Lit, Pat, PathArguments, PathSegment, Result,
    ReturnType, Token, Type,
};

use super::hygiene::brand;
use super::instance_list::{self, Instance, Listed};
use crate::message;

/// A function marked `#[kernel]`.
pub(crate) struct Kernel {
    /// The user's function. Only one change is made: types with the launch's brand get its
    /// lifetime.
    pub(crate) function: ItemFn,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) returned: Option<Returned>,
    pub(crate) block: Option<BlockSize>,
    /// The type that stands for the kernel.
    pub(crate) handle: Option<Ident>,
    /// The instances of a generic kernel; empty if the kernel is not generic.
    pub(crate) instances: Vec<Instance>,
}

impl Kernel {
    pub(crate) fn is_generic(&self) -> bool {
        !self.instances.is_empty()
    }

    /// The names of the generic parameters that are types.
    pub(crate) fn type_parameters(&self) -> impl Iterator<Item = &Ident> {
        self.function
            .sig
            .generics
            .type_params()
            .map(|parameter| &parameter.ident)
    }

    /// The types of the parameters, with the launch's brand.
    pub(crate) fn branded_types(&self) -> impl Iterator<Item = &Type> {
        self.function.sig.inputs.iter().filter_map(|input| match input {
            FnArg::Typed(input) => Some(&*input.ty),
            FnArg::Receiver(_) => None,
        })
    }

    /// The instances, for a reader: `` `f32`, `u32` ``.
    pub(crate) fn listed_instances(&self) -> String {
        let texts: Vec<String> = self
            .instances
            .iter()
            .map(|instance| format!("`{}`", instance.text()))
            .collect();
        texts.join(", ")
    }
}

/// What the function returns: each thread or block writes it to the output.
pub(crate) struct Returned {
    /// The type that the function returns.
    pub(crate) ty: Type,
    /// The element of the output.
    pub(crate) element: Type,
    pub(crate) way: Way,
}

/// How the returned values lie in the output.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// `T`: one element for each thread or block.
    Each,
    /// `[T; N]`: N elements in a row for each thread or block.
    EachChunk,
    /// `Private<T>`: one element for each thread of a block.
    EachThread,
}

/// One parameter of the function.
pub(crate) struct Parameter {
    pub(crate) name: Ident,
    pub(crate) ty: Type,
    pub(crate) role: Role,
}

/// The role of a parameter.
#[derive(Clone)]
pub(crate) enum Role {
    /// `&[T]`
    Slice { element: Type },
    /// `PerThread<T>`, or another output.
    Output { element: Type, kind: Output },
    /// `BlockUninit<T, N>`
    Shared,
    /// `Index1`, `Index2` or `Index3`, with its number of dimensions.
    Index(usize),
    /// `Block` or `Block2`, with its number of dimensions.
    Block(usize),
    /// Any other type.
    Scalar,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    PerThread,
    PerThreadChunk,
    PerThreadColumn,
    PerThreadTile,
    PerRow,
    PerTile,
    PerBlock,
    Atomic,
    LookBack,
}

impl Output {
    /// Whether each thread has elements of its own. Other threads change the elements of other
    /// outputs at the same time.
    pub(crate) fn is_exclusive(self) -> bool {
        !matches!(self, Self::Atomic | Self::LookBack)
    }
}

/// The threads of a block, from the attribute.
#[derive(Clone, Copy)]
pub(crate) struct BlockSize {
    pub(crate) threads: [u32; 2],
    pub(crate) dimensions: usize,
    pub(crate) span: Span,
}

pub(crate) fn parse(arguments: TokenStream, item: TokenStream) -> Result<Kernel> {
    let Arguments {
        block,
        handle,
        instances,
    } = parse_arguments.parse2(arguments)?;
    let mut function: ItemFn =
        syn::parse2(item).map_err(|error| Error::new(error.span(), message::NOT_A_FUNCTION))?;
    let mut parameters = Vec::new();
    for input in &mut function.sig.inputs {
        let FnArg::Typed(input) = input else {
            return Err(Error::new_spanned(input, message::METHOD));
        };
        let is_cfg = |attribute: &&syn::Attribute| {
            attribute.path().is_ident("cfg") || attribute.path().is_ident("cfg_attr")
        };
        // rustc would drop the parameter behind `#[kernel]`, which has counted it.
        if let Some(cfg) = input.attrs.iter().find(is_cfg) {
            return Err(Error::new_spanned(cfg, message::PARAMETER_CFG));
        }
        let name = match &*input.pat {
            Pat::Ident(pattern) if pattern.by_ref.is_none() && pattern.subpat.is_none() => {
                pattern.ident.clone()
            }
            pattern => return Err(Error::new_spanned(pattern, message::PATTERN)),
        };
        let (ty, role) = parse_type(&mut input.ty)?;
        parameters.push(Parameter { name, ty, role });
    }
    let returned = parse_returned(&function.sig.output);
    let instances = instance_list::resolve(&function.sig.generics, instances.as_ref())?;
    Ok(Kernel {
        function,
        parameters,
        returned,
        block,
        handle,
        instances,
    })
}

/// The role of the returned type follows from its syntax, like the roles of parameters.
fn parse_returned(output: &ReturnType) -> Option<Returned> {
    let ReturnType::Type(_, ty) = output else {
        return None;
    };
    let (element, way) = match &**ty {
        Type::Tuple(unit) if unit.elems.is_empty() => return None,
        Type::Array(array) => ((*array.elem).clone(), Way::EachChunk),
        Type::Path(path) if path.qself.is_none() => match path.path.segments.last() {
            Some(segment) if segment.ident == "Private" => (
                element(segment).unwrap_or_else(|| (**ty).clone()),
                Way::EachThread,
            ),
            _ => ((**ty).clone(), Way::Each),
        },
        _ => ((**ty).clone(), Way::Each),
    };
    Some(Returned {
        ty: (**ty).clone(),
        element,
        way,
    })
}

/// The arguments of the attribute.
#[derive(Default)]
struct Arguments {
    block: Option<BlockSize>,
    handle: Option<Ident>,
    instances: Option<Listed>,
}

fn parse_arguments(input: ParseStream<'_>) -> Result<Arguments> {
    let mut arguments = Arguments::default();
    while !input.is_empty() {
        let unknown = |error: Error| Error::new(error.span(), message::UNKNOWN_ARGUMENT);
        let name: Ident = input.parse().map_err(unknown)?;
        let (given, syntax) = match name.to_string().as_str() {
            "block" => (arguments.block.is_some(), message::BLOCK_NOT_LITERAL),
            "handle" => (arguments.handle.is_some(), message::HANDLE_NOT_NAME),
            "instances" => (arguments.instances.is_some(), message::INSTANCES_NOT_LIST),
            _ => return Err(Error::new_spanned(name, message::UNKNOWN_ARGUMENT)),
        };
        if given {
            return Err(Error::new_spanned(&name, message::argument_twice(&name)));
        }
        input
            .parse::<Token![=]>()
            .map_err(|_| Error::new_spanned(&name, syntax))?;
        if name == "block" {
            arguments.block = Some(input.parse()?);
        } else if name == "instances" {
            arguments.instances = Some(Listed::parse(input, &name)?);
        } else {
            let handle = input
                .parse()
                .map_err(|error: Error| Error::new(error.span(), syntax))?;
            arguments.handle = Some(handle);
        }
        if !input.is_empty() {
            input.parse::<Token![,]>().map_err(unknown)?;
        }
    }
    Ok(arguments)
}

impl Parse for BlockSize {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let number = |expression: &Expr| match expression {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Int(int) => int
                    .base10_parse::<u32>()
                    .map_err(|_| Error::new_spanned(expression, message::BLOCK_SIZE)),
                _ => Err(Error::new_spanned(expression, message::BLOCK_NOT_LITERAL)),
            },
            _ => Err(Error::new_spanned(expression, message::BLOCK_NOT_LITERAL)),
        };
        let expression: Expr = input.parse()?;
        let span = expression.span();
        match &expression {
            Expr::Tuple(tuple) if tuple.elems.len() == 2 => {
                let threads = [number(&tuple.elems[0])?, number(&tuple.elems[1])?];
                Ok(Self {
                    threads,
                    dimensions: 2,
                    span,
                })
            }
            expression => Ok(Self {
                threads: [number(expression)?, 1],
                dimensions: 1,
                span,
            }),
        }
    }
}

/// Returns the user's type and its role, and inserts the lifetime of the launch into `ty`.
fn parse_type(ty: &mut Type) -> Result<(Type, Role)> {
    let written = ty.clone();
    let role = match ty {
        Type::Reference(reference) => {
            if let Some(lifetime) = &reference.lifetime {
                return Err(Error::new_spanned(lifetime, message::LIFETIME));
            }
            match (&*reference.elem, reference.mutability) {
                (Type::Slice(slice), None) => Role::Slice {
                    element: (*slice.elem).clone(),
                },
                (Type::Slice(_), Some(_)) => return Err(Error::new_spanned(ty, message::MUTABLE_SLICE)),
                _ => return Err(Error::new_spanned(ty, message::REFERENCE)),
            }
        }
        Type::Ptr(_) => return Err(Error::new_spanned(ty, message::POINTER)),
        Type::ImplTrait(_) => return Err(Error::new_spanned(ty, message::IMPL_TRAIT)),
        Type::Path(path) if path.qself.is_none() => match path.path.segments.last_mut() {
            Some(segment) => parse_segment(segment)?,
            None => Role::Scalar,
        },
        _ => Role::Scalar,
    };
    Ok((written, role))
}

fn parse_segment(segment: &mut PathSegment) -> Result<Role> {
    let output = |segment: &PathSegment, kind| match element(segment) {
        Some(element) => Ok(Role::Output { element, kind }),
        None => Err(Error::new_spanned(segment, message::ELEMENT_TYPE)),
    };
    let role = match segment.ident.to_string().as_str() {
        "PerThread" => output(segment, Output::PerThread)?,
        "PerThreadChunk" => output(segment, Output::PerThreadChunk)?,
        "PerThreadColumn" => output(segment, Output::PerThreadColumn)?,
        "PerThreadTile" => output(segment, Output::PerThreadTile)?,
        "PerRow" => output(segment, Output::PerRow)?,
        "PerTile" => output(segment, Output::PerTile)?,
        "PerBlock" => output(segment, Output::PerBlock)?,
        "Atomic" => output(segment, Output::Atomic)?,
        "LookBack" => output(segment, Output::LookBack)?,
        "BlockUninit" => Role::Shared,
        "Index1" => Role::Index(1),
        "Index2" => Role::Index(2),
        "Index3" => Role::Index(3),
        "Block" => Role::Block(1),
        "Block2" => Role::Block(2),
        _ => return Ok(Role::Scalar),
    };
    insert_brand(segment)?;
    Ok(role)
}

fn element(segment: &PathSegment) -> Option<Type> {
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else {
        return None;
    };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty.clone()),
        _ => None,
    })
}

fn insert_brand(segment: &mut PathSegment) -> Result<()> {
    let brand = brand();
    match &mut segment.arguments {
        PathArguments::AngleBracketed(arguments) => {
            if let Some(lifetime) = arguments
                .args
                .iter()
                .find(|a| matches!(a, GenericArgument::Lifetime(_)))
            {
                return Err(Error::new_spanned(lifetime, message::LIFETIME));
            }
            arguments.args.insert(0, GenericArgument::Lifetime(brand));
        }
        arguments => *arguments = PathArguments::AngleBracketed(syn::parse_quote!(<#brand>)),
    }
    Ok(())
}
