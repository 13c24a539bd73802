//! `#[derive(Bundle)]`: a struct or an enum of buffers that moves between streams as a whole.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::punctuated::Punctuated;
use syn::visit_mut::VisitMut;
use syn::{
    Attribute, BoundLifetimes, Data, DeriveInput, Error, Field, Fields, GenericParam, Generics, Ident, Index,
    Member, Result, Token, Type, TypeParamBound, TypePath, WherePredicate, parse_quote,
};

use crate::device_of_place::device_of;

const NO_PLACE: &str =
    "a bundle needs a type parameter that says who owns its buffers: `struct Name<P: Place = Idle> { .. }`";
const SEVERAL_PLACES: &str = "only one type parameter can be the place that owns the buffers";
const UNION: &str = "only structs and enums can be bundles: nobody knows which field of a union is a buffer";
const FOREIGN_FIELD: &str = "this field does not have the bundle's place, and would stay behind when the bundle moves: give its buffers the \
     place parameter, mark a `Copy` field without buffers `#[bundle(plain)]`, or put a value of the host into `Metadata`";
const PLAIN_BUFFER: &str = "this field has the bundle's place, so it moves with the bundle: `#[bundle(plain)]` is for fields without buffers";
const BOUND_ON_THE_DEVICE: &str = "a bundle goes to every stream, also to streams of captures, and this bound on the place's device cannot hold \
     there: put it on the functions that need it";
const ATTRIBUTE_OF_A_VARIANT: &str = "`#[bundle(plain)]` marks a field, in a variant too";
const UNKNOWN_ATTRIBUTE: &str = "the only attribute is `#[bundle(plain)]`, for fields without buffers";

/// The fields of a struct, or of a variant of an enum.
struct Form {
    /// The name of the variant.
    variant: Option<Ident>,
    style: Style,
    parts: Vec<Part>,
}

/// How the fields of a form are written.
#[derive(Clone, Copy)]
enum Style {
    Named,
    Tuple,
    Unit,
}

/// A field, and whether it moves with the bundle as a plain value.
struct Part {
    member: Member,
    binding: Ident,
    ty: Type,
    visibility: syn::Visibility,
    plain: bool,
}

pub(crate) fn expand(input: DeriveInput) -> Result<TokenStream> {
    let forms = match &input.data {
        Data::Struct(data) => vec![form(None, &data.fields)?],
        Data::Enum(data) => data
            .variants
            .iter()
            .map(|variant| {
                let mut attributes = variant.attrs.iter();
                match attributes.find(|one| one.path().is_ident("bundle")) {
                    Some(attribute) => Err(Error::new_spanned(attribute, ATTRIBUTE_OF_A_VARIANT)),
                    None => form(Some(&variant.ident), &variant.fields),
                }
            })
            .collect::<Result<Vec<_>>>()?,
        Data::Union(_) => return Err(Error::new_spanned(&input.ident, UNION)),
    };
    let place = place_of(&input)?;
    let derive = Derive {
        input: &input,
        place,
        forms,
    };
    derive.check()?;
    Ok(derive.tokens())
}

fn form(variant: Option<&Ident>, fields: &Fields) -> Result<Form> {
    let parts = fields
        .iter()
        .enumerate()
        .map(|(index, field)| part(index, field))
        .collect::<Result<Vec<_>>>()?;
    let style = match fields {
        Fields::Named(_) => Style::Named,
        Fields::Unnamed(_) => Style::Tuple,
        Fields::Unit => Style::Unit,
    };
    Ok(Form {
        variant: variant.cloned(),
        style,
        parts,
    })
}

/// The type parameter that is bound by `Place`.
fn place_of(input: &DeriveInput) -> Result<Ident> {
    let is_place = |bound: &TypeParamBound| {
        matches!(bound, TypeParamBound::Trait(bound)
            if bound.path.segments.last().is_some_and(|last| last.ident == "Place"))
    };
    let bound_in_where = |ident: &Ident| {
        input
            .generics
            .where_clause
            .iter()
            .flat_map(|clause| &clause.predicates)
            .any(|predicate| {
                matches!(predicate, WherePredicate::Type(predicate)
                if matches!(&predicate.bounded_ty, Type::Path(path) if path.path.is_ident(ident))
                    && predicate.bounds.iter().any(is_place))
            })
    };
    let mut places = input
        .generics
        .type_params()
        .filter(|parameter| parameter.bounds.iter().any(is_place) || bound_in_where(&parameter.ident));
    let place = places
        .next()
        .ok_or_else(|| Error::new_spanned(&input.ident, NO_PLACE))?;
    match places.next() {
        Some(second) => Err(Error::new_spanned(&second.ident, SEVERAL_PLACES)),
        None => Ok(place.ident.clone()),
    }
}

fn part(index: usize, field: &Field) -> Result<Part> {
    let member = match &field.ident {
        Some(ident) => Member::Named(ident.clone()),
        None => Member::Unnamed(Index::from(index)),
    };
    Ok(Part {
        member,
        binding: format_ident!("__part{index}", span = Span::mixed_site()),
        ty: field.ty.clone(),
        visibility: field.vis.clone(),
        plain: is_plain(&field.attrs)?,
    })
}

fn is_plain(attributes: &[Attribute]) -> Result<bool> {
    let mut plain = false;
    for attribute in attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("bundle"))
    {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("plain") {
                plain = true;
                Ok(())
            } else {
                Err(meta.error(UNKNOWN_ATTRIBUTE))
            }
        })?;
    }
    Ok(plain)
}

/// Replaces the place parameter by another type.
struct Substitute<'a> {
    place: &'a Ident,
    with: Type,
}

impl VisitMut for Substitute<'_> {
    fn visit_type_mut(&mut self, ty: &mut Type) {
        if let Type::Path(TypePath {
            qself: None,
            path,
            attrs,
        }) = ty
            && attrs.is_empty()
            && path.is_ident(self.place)
        {
            *ty = self.with.clone();
            return;
        }
        syn::visit_mut::visit_type_mut(self, ty);
    }
}

struct Derive<'a> {
    input: &'a DeriveInput,
    place: Ident,
    forms: Vec<Form>,
}

impl Derive<'_> {
    fn parts(&self) -> impl Iterator<Item = &Part> {
        self.forms.iter().flat_map(|form| &form.parts)
    }

    /// rustc would also refuse the generated code. This check gives the reason, at the field.
    fn check(&self) -> Result<()> {
        let elsewhere: Type = parse_quote!(());
        for part in self.parts() {
            let replaced = self.substituted(&part.ty, &elsewhere).to_token_stream();
            let placed = replaced.to_string() != part.ty.to_token_stream().to_string();
            match (placed, part.plain) {
                (false, false) => return Err(Error::new_spanned(&part.ty, FOREIGN_FIELD)),
                (true, true) => return Err(Error::new_spanned(&part.ty, PLAIN_BUFFER)),
                _ => {}
            }
            if let Some(device) = device_of(&self.place, |find| find.visit_type_mut(&mut part.ty.clone())) {
                return Err(Error::new_spanned(device, self.name_the_device()));
            }
        }
        let mut generics = self.input.generics.clone();
        match device_of(&self.place, |find| find.visit_generics_mut(&mut generics)) {
            Some(device) => Err(Error::new_spanned(device, BOUND_ON_THE_DEVICE)),
            None => Ok(()),
        }
    }

    /// The message for a field whose type names the device of the place.
    fn name_the_device(&self) -> String {
        let (name, place) = (&self.input.ident, &self.place);
        let others = if self.input.generics.params.len() > 1 {
            ".., "
        } else {
            ""
        };
        format!(
            "what a `Constant` or a `Lease` holds stays on its device when the place of the bundle changes, so the bundle \
             has a parameter for the device: declare `{name}<{others}D: DeviceTag, {place}: Place = Idle<D>>`, and write `D` here"
        )
    }

    fn substituted(&self, ty: &Type, with: &Type) -> Type {
        let mut ty = ty.clone();
        Substitute {
            place: &self.place,
            with: with.clone(),
        }
        .visit_type_mut(&mut ty);
        ty
    }

    /// The bundle's arguments without lifetimes, with the place replaced.
    fn arguments(&self, with: &Type) -> Vec<TokenStream> {
        let argument = |parameter: &GenericParam| match parameter {
            GenericParam::Type(parameter) if parameter.ident == self.place => Some(quote!(#with)),
            GenericParam::Type(parameter) => Some(parameter.ident.to_token_stream()),
            GenericParam::Const(parameter) => Some(parameter.ident.to_token_stream()),
            GenericParam::Lifetime(_) => None,
        };
        self.input.generics.params.iter().filter_map(argument).collect()
    }

    /// The bundle's parameters without the place, and `extra`. In the bounds, the place is
    /// replaced; each plain field must be `Copy`.
    fn generics(&self, with: &Type, extra: &[GenericParam]) -> Generics {
        let mut generics = self.input.generics.clone();
        generics.params = generics
            .params
            .into_iter()
            .filter(|parameter| !matches!(parameter, GenericParam::Type(ty) if ty.ident == self.place))
            .chain(extra.iter().cloned())
            .map(|mut parameter| {
                if let GenericParam::Type(ty) = &mut parameter {
                    ty.default = None;
                }
                parameter
            })
            .collect();
        let clause = generics.make_where_clause();
        let mut substitute = Substitute {
            place: &self.place,
            with: with.clone(),
        };
        for predicate in &mut clause.predicates {
            substitute.visit_where_predicate_mut(predicate);
        }
        for part in self.parts().filter(|part| part.plain) {
            let ty = self.substituted(&part.ty, with);
            clause
                .predicates
                .push(parse_quote!(#ty: ::cuda_rt::__private::core::marker::Copy));
        }
        generics
    }

    /// A struct or enum with a view for each part, and with the names of the bundle's variants and
    /// fields.
    fn view_type(&self, name: &Ident, projection: &Ident, doc: &str) -> TokenStream {
        let idle: Type = parse_quote!(::cuda_rt::Idle<__D>);
        let extra: [GenericParam; 3] = [
            parse_quote!('__v),
            parse_quote!(__D: ::cuda_rt::DeviceTag),
            parse_quote!(__S: ::cuda_rt::StreamTag),
        ];
        let mut generics = self.generics(&idle, &extra);
        // Lifetimes come first.
        let (lifetimes, others): (Vec<_>, Vec<_>) = generics
            .params
            .into_iter()
            .partition(|parameter| matches!(parameter, GenericParam::Lifetime(_)));
        generics.params = lifetimes.into_iter().chain(others).collect();
        let (parameters, _, clause) = generics.split_for_impl();
        let visibility = &self.input.vis;
        let attributes = quote!(#[doc = #doc] #[allow(dead_code)] #visibility);
        let fields = |form: &Form| {
            let fields = form.parts.iter().map(|part| {
                let ty = self.substituted(&part.ty, &idle);
                // The fields of a variant have the visibility of their enum.
                let visibility = form.variant.is_none().then_some(&part.visibility);
                let ty = if part.plain {
                    quote!(#ty)
                } else {
                    quote!(<#ty as ::cuda_rt::Bundle>::#projection<'__v, __S>)
                };
                match &part.member {
                    Member::Named(ident) => {
                        let doc = format!("View of `{ident}`.");
                        quote!(#[doc = #doc] #visibility #ident: #ty)
                    }
                    Member::Unnamed(_) => quote!(#visibility #ty),
                }
            });
            match form.style {
                Style::Named => quote!({ #(#fields),* }),
                Style::Tuple => quote!((#(#fields),*)),
                Style::Unit => TokenStream::new(),
            }
        };
        if let [
            form @ Form {
                variant: None, style, ..
            },
        ] = &self.forms[..]
        {
            let fields = fields(form);
            return match style {
                Style::Named => quote!(#attributes struct #name #parameters #clause #fields),
                _ => quote!(#attributes struct #name #parameters #fields #clause;),
            };
        }
        let variants = self.forms.iter().map(|form| {
            let (variant, fields) = (&form.variant, fields(form));
            let doc = variant.as_ref().map(|variant| format!("View of `{variant}`."));
            quote!(#[doc = #doc] #variant #fields,)
        });
        // A lint about names has reported the bundle's own variants.
        quote!(#[allow(non_camel_case_types)] #attributes enum #name #parameters #clause { #(#variants)* })
    }

    /// `'a: 'b;` for each lifetime that must outlive others.
    fn outlives(&self) -> TokenStream {
        let generics = &self.input.generics;
        let declared = generics.lifetimes().map(|one| (&one.lifetime, &one.bounds));
        let demanded = generics
            .where_clause
            .iter()
            .flat_map(|clause| &clause.predicates)
            .filter_map(|one| match one {
                WherePredicate::Lifetime(one) => Some((&one.lifetime, &one.bounds)),
                _ => None,
            });
        let all = declared.chain(demanded).map(|(longer, shorter)| {
            let shorter = shorter.iter();
            quote!(#longer: #(#shorter)*;)
        });
        quote!([#(#all)*])
    }

    fn tokens(&self) -> TokenStream {
        let name = &self.input.ident;
        let (view, by_ref) = (format_ident!("{name}View"), format_ident!("{name}Ref"));
        let idle: Type = parse_quote!(::cuda_rt::Idle<__D>);
        let on: Type = parse_quote!(__S);
        let idle_of_stream: Type = parse_quote!(::cuda_rt::Idle<<__S as ::cuda_rt::Place>::Device>);
        let view_type = self.view_type(
            &view,
            &format_ident!("View"),
            &format!("Views of a [`{name}`], for reading and writing."),
        );
        let ref_type = self.view_type(
            &by_ref,
            &format_ident!("Ref"),
            &format!("Views of a [`{name}`], for reading."),
        );

        let generics = &self.input.generics;
        let lifetimes = generics.lifetimes().map(|one| &one.lifetime);
        let types = generics
            .type_params()
            .map(|one| &one.ident)
            .filter(|one| **one != self.place);
        let constants = generics.const_params().map(|one| {
            let (ident, ty) = (&one.ident, &one.ty);
            quote!(#ident: #ty;)
        });
        let others = generics.params.iter().filter_map(|one| match one {
            GenericParam::Type(one) => (one.ident != self.place).then_some(&one.ident),
            GenericParam::Const(one) => Some(&one.ident),
            GenericParam::Lifetime(_) => None,
        });
        let outlives = self.outlives();
        let (idle_where, on_where) = (
            clause(&self.generics(&idle, &[])),
            clause(&self.generics(&on, &[])),
        );
        let (idle_arguments, on_arguments, idle_of_stream_arguments) = (
            self.arguments(&idle),
            self.arguments(&on),
            self.arguments(&idle_of_stream),
        );
        let forms = self.forms.iter().map(|form| {
            let variant = form.variant.iter();
            let paths = [name, &view, &by_ref].map(|of| {
                let variant = variant.clone();
                quote!(#of #(:: #variant)*)
            });
            let fields = |plain: bool| {
                let fields = form.parts.iter().filter(move |part| part.plain == plain);
                fields.map(|part| {
                    let (member, binding) = (&part.member, &part.binding);
                    quote!(#member: #binding;)
                })
            };
            let (buffers, plain) = (fields(false), fields(true));
            quote!([#(#paths),*] buffers = [#(#buffers)*], plain = [#(#plain)*];)
        });

        quote! {
            #view_type
            #ref_type
            ::cuda_rt::__bundle! {
                #name, #view, #by_ref,
                lifetimes = [#(#lifetimes)*],
                types = [#(#types)*],
                constants = [#(#constants)*],
                others = [#(#others)*],
                outlives = #outlives,
                idle = [#(#idle_arguments,)*],
                idle_where = #idle_where,
                on = [#(#on_arguments,)*],
                on_where = #on_where,
                idle_of_stream = [#(#idle_of_stream_arguments,)*],
                forms = [#(#forms)*],
            }
        }
    }
}

/// The bounds of an impl, in the form that `__bundle!` and `__element!` take: each part is marked
/// as a path or as a lifetime.
pub(crate) fn clause(generics: &Generics) -> TokenStream {
    let declared = generics.type_params().map(|parameter| {
        let ident = &parameter.ident;
        predicate(&None, &quote!(#ident), &parameter.bounds)
    });
    let demanded = generics
        .where_clause
        .iter()
        .flat_map(|clause| &clause.predicates)
        .filter_map(|one| match one {
            WherePredicate::Type(one) => Some(predicate(
                &one.lifetimes,
                &one.bounded_ty.to_token_stream(),
                &one.bounds,
            )),
            _ => None,
        });
    quote!([#(#declared)* #(#demanded)*])
}

/// `for<'a> T: 'b + ?Sized + for<'c> Trait<'c>` as
/// `['a] T: { 'b } { ? Sized; } { ['c] Trait<'c> };`.
fn predicate(
    lifetimes: &Option<BoundLifetimes>,
    bounded: &TokenStream,
    bounds: &Punctuated<TypeParamBound, Token![+]>,
) -> TokenStream {
    let names = |lifetimes: &Option<BoundLifetimes>| -> TokenStream {
        let all = lifetimes.iter().flat_map(|bound| &bound.lifetimes);
        all.map(ToTokens::to_token_stream).collect()
    };
    let bounds = bounds.iter().map(|bound| match bound {
        TypeParamBound::Lifetime(lifetime) => quote!({ #lifetime }),
        TypeParamBound::Trait(bound) if bound.modifiers.require_empty().is_ok() => {
            let (path, higher) = (&bound.path, names(&bound.lifetimes));
            match bound.maybe {
                Some(_) => quote!({ ? #path; }),
                None => quote!({ [#higher] #path }),
            }
        }
        // Bounds of Rust that syn does not know: the macro refuses them, at these tokens.
        other => quote!({ #other }),
    });
    let lifetimes = names(lifetimes);
    quote!([#lifetimes] #bounded: #(#bounds)*;)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output has no `unsafe`, so no crate that takes the place of `cuda_rt` gets one of ours.
    #[test]
    fn nothing_in_the_output_is_unsafe() {
        let structure = quote!(
            struct Bundle<'a: 'b, 'b, T: ?Sized + 'a, const N: usize, P: Place>
            where
                for<'x> T: Fn(&'x u8) + for<'y> Trait<'y>,
            {
                buffer: DeviceBuffer<[u8; N], P>,
                #[bundle(plain)]
                number: PhantomData<&'b T>,
            }
        );
        let enumeration = quote!(
            enum Bundle<T, P: Place> {
                One(DeviceBuffer<T, P>, #[bundle(plain)] usize),
                Two { r#fn: PinnedBuffer<T, P> },
                Three,
            }
        );
        for item in [structure, enumeration] {
            let output = expand(syn::parse2(item.clone()).unwrap()).unwrap();
            crate::names::assert_ours(&item, &output);
            let output = output.to_string();
            assert!(
                output.contains("__bundle") && !output.contains("unsafe"),
                "{output}"
            );
        }
    }

    /// An attribute that would change nothing is refused where it stands.
    #[test]
    fn attributes_in_the_wrong_place_are_refused() {
        let refused = |item| expand(syn::parse2(item).unwrap()).unwrap_err().to_string();
        let variant = quote!(
            enum Bundle<P: Place> {
                One(DeviceBuffer<u8, P>),
                #[bundle(plain)]
                Two,
            }
        );
        assert_eq!(refused(variant), ATTRIBUTE_OF_A_VARIANT);
        let buffer = quote!(
            enum Bundle<P: Place> {
                One,
                Two(#[bundle(plain)] DeviceBuffer<u8, P>),
            }
        );
        assert_eq!(refused(buffer), PLAIN_BUFFER);
    }

    /// A type of the device that changes with the place is refused, in each way to write it.
    #[test]
    fn the_device_of_the_place_is_no_type_of_a_field() {
        let refused = |field: TokenStream| {
            let item = quote!(struct Scaler<T, P: Place> { weights: #field });
            expand(syn::parse2(item).unwrap()).map_err(|error| error.to_string())
        };
        for device in [
            quote!(P::Device),
            quote!(<P as Place>::Device),
            quote!(<P>::Device),
        ] {
            let message = refused(quote!(Constant<DeviceBuffer<T, Idle<#device>>, P>)).unwrap_err();
            let mend = "declare `Scaler<.., D: DeviceTag, P: Place = Idle<D>>`, and write `D` here";
            assert!(message.ends_with(mend), "{message}");
        }
        for other in [
            quote!(T::Device),
            quote!(::P::Device),
            quote!(<T as P::Device>::P),
        ] {
            refused(quote!(Constant<DeviceBuffer<T, Idle<#other>>, P>)).unwrap();
        }
        let bounded = quote!(
            struct Scaler<T, P: Place>(DeviceBuffer<T, P>)
            where
                P::Device: Live;
        );
        let error = expand(syn::parse2(bounded).unwrap()).unwrap_err();
        assert_eq!(error.to_string(), BOUND_ON_THE_DEVICE);
    }
}
