//! `#[derive(Resource)]`: a struct of buffers that moves between streams as a whole.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::visit_mut::VisitMut;
use syn::{
    Attribute, Data, DeriveInput, Error, Field, GenericParam, Generics, Ident, Index, Member, Result, Type,
    TypeParamBound, TypePath, WherePredicate, parse_quote,
};

const NO_PLACE: &str =
    "the struct needs a type parameter that says who owns its buffers: `struct Name<P: Place = Idle> { .. }`";
const SEVERAL_PLACES: &str = "only one type parameter can be the place that owns the buffers";
const NOT_A_STRUCT: &str =
    "only structs can be bundles: which variant an enum holds is not known while it is pending";
const FOREIGN_FIELD: &str = "this is not of the bundle's place, and would stay behind when the bundle moves: give its buffers the \
     place parameter, or mark what is no buffer `#[resource(plain)]`";
const PLAIN_BUFFER: &str =
    "what has the bundle's place moves with it: `#[resource(plain)]` is for fields that are no buffers";
const UNKNOWN_ATTRIBUTE: &str = "the only attribute is `#[resource(plain)]`, for fields that are no buffers";

/// A field, and whether it is carried along as a plain value.
struct Part {
    member: Member,
    binding: Ident,
    ty: Type,
    visibility: syn::Visibility,
    plain: bool,
}

pub(crate) fn expand(input: DeriveInput) -> Result<TokenStream> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new_spanned(&input.ident, NOT_A_STRUCT));
    };
    let place = place_of(&input)?;
    let parts = data
        .fields
        .iter()
        .enumerate()
        .map(|(index, field)| part(index, field))
        .collect::<Result<Vec<_>>>()?;
    let derive = Derive {
        input: &input,
        place,
        parts,
        named: matches!(data.fields, syn::Fields::Named(_)),
    };
    derive.check()?;
    Ok(derive.tokens())
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
        .filter(|attribute| attribute.path().is_ident("resource"))
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
        if let Type::Path(TypePath { qself: None, path }) = ty
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
    parts: Vec<Part>,
    named: bool,
}

impl Derive<'_> {
    /// The generated code would be refused without this too; here rustc can say why, on the field.
    fn check(&self) -> Result<()> {
        let elsewhere: Type = parse_quote!(());
        for part in &self.parts {
            let placed = self.substituted(&part.ty, &elsewhere) != part.ty;
            match (placed, part.plain) {
                (false, false) => return Err(Error::new_spanned(&part.ty, FOREIGN_FIELD)),
                (true, true) => return Err(Error::new_spanned(&part.ty, PLAIN_BUFFER)),
                _ => {}
            }
        }
        Ok(())
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

    /// The struct's arguments with the place replaced.
    fn arguments(&self, with: &Type) -> Vec<TokenStream> {
        let argument = |parameter: &GenericParam| match parameter {
            GenericParam::Type(parameter) if parameter.ident == self.place => quote!(#with),
            GenericParam::Type(parameter) => {
                let ident = &parameter.ident;
                quote!(#ident)
            }
            GenericParam::Const(parameter) => {
                let ident = &parameter.ident;
                quote!(#ident)
            }
            GenericParam::Lifetime(parameter) => {
                let lifetime = &parameter.lifetime;
                quote!(#lifetime)
            }
        };
        self.input.generics.params.iter().map(argument).collect()
    }

    /// The struct's parameters but the place, with `extra`; its bounds with the place replaced, and plain fields bound to be `Copy`.
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
        for part in self.parts.iter().filter(|part| part.plain) {
            let ty = self.substituted(&part.ty, with);
            clause.predicates.push(parse_quote!(#ty: ::core::marker::Copy));
        }
        generics
    }

    /// A struct literal with `value` of each part.
    fn literal(&self, name: &TokenStream, value: impl Fn(&Part) -> TokenStream) -> TokenStream {
        let fields = self.parts.iter().map(|part| {
            let (member, value) = (&part.member, value(part));
            quote!(#member: #value)
        });
        quote!(#name { #(#fields),* })
    }

    /// A struct of one view for each part, with the same field names.
    fn view_struct(&self, name: &Ident, projection: &Ident, doc: &str) -> TokenStream {
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
        let fields = self.parts.iter().map(|part| {
            let ty = self.substituted(&part.ty, &idle);
            let (visibility, member) = (&part.visibility, &part.member);
            let ty = if part.plain {
                quote!(#ty)
            } else {
                quote!(<#ty as ::cuda_rt::Resource>::#projection<'__v, __S>)
            };
            match member {
                Member::Named(ident) => {
                    let doc = format!("View of `{ident}`.");
                    quote!(#[doc = #doc] #visibility #ident: #ty)
                }
                Member::Unnamed(_) => quote!(#visibility #ty),
            }
        });
        if self.named {
            quote!(#[doc = #doc] #[allow(dead_code)] #visibility struct #name #parameters #clause { #(#fields),* })
        } else {
            quote!(#[doc = #doc] #[allow(dead_code)] #visibility struct #name #parameters (#(#fields),*) #clause;)
        }
    }

    fn view_type(&self, name: &Ident) -> TokenStream {
        let (lifetimes, others): (Vec<_>, Vec<_>) = self
            .input
            .generics
            .params
            .iter()
            .filter(|parameter| !matches!(parameter, GenericParam::Type(ty) if ty.ident == self.place))
            .partition(|parameter| matches!(parameter, GenericParam::Lifetime(_)));
        let lifetimes = lifetimes.iter().map(|parameter| match parameter {
            GenericParam::Lifetime(parameter) => &parameter.lifetime,
            _ => unreachable!("partitioned above"),
        });
        let others = others.iter().map(|parameter| match parameter {
            GenericParam::Type(parameter) => &parameter.ident,
            GenericParam::Const(parameter) => &parameter.ident,
            GenericParam::Lifetime(_) => unreachable!("partitioned above"),
        });
        quote!(#name<#(#lifetimes,)* '__v, #(#others,)* __D, __S>)
    }

    fn tokens(&self) -> TokenStream {
        let name = &self.input.ident;
        let (view, by_ref) = (format_ident!("{name}View"), format_ident!("{name}Ref"));
        let idle: Type = parse_quote!(::cuda_rt::Idle<__D>);
        let on: Type = parse_quote!(__S);
        let idle_of_stream: Type = parse_quote!(::cuda_rt::Idle<<__S as ::cuda_rt::Place>::Device>);
        let (idle_arguments, on_arguments) = (self.arguments(&idle), self.arguments(&on));
        let idle_of_stream_arguments = self.arguments(&idle_of_stream);

        let idle_generics = self.generics(&idle, &[parse_quote!(__D: ::cuda_rt::DeviceTag)]);
        let (idle_parameters, _, idle_clause) = idle_generics.split_for_impl();
        let on_generics = self.generics(&on, &[parse_quote!(__S: ::cuda_rt::StreamTag)]);
        let (on_parameters, _, on_clause) = on_generics.split_for_impl();

        let destructured = self.literal(&quote!(#name), |part| {
            let binding = &part.binding;
            quote!(#binding)
        });
        // SAFETY of what is generated: structural; the caller's promise covers every field, and each is named once.
        let converted = |name: TokenStream, convert: TokenStream| {
            self.literal(&name, |part| {
                let binding = &part.binding;
                if part.plain {
                    quote!(#binding)
                } else {
                    quote!(unsafe { #convert(#binding) })
                }
            })
        };
        let attach = self.literal(&quote!(#name), |part| {
            let binding = &part.binding;
            if part.plain {
                quote!(#binding)
            } else {
                quote!(unsafe { ::cuda_rt::Resource::attach::<__S>(#binding, __at) })
            }
        });
        let back = self.literal(&quote!(#name), |part| {
            let binding = &part.binding;
            let ty = self.substituted(&part.ty, &idle);
            if part.plain {
                quote!(#binding)
            } else {
                quote!(unsafe { <#ty as ::cuda_rt::Resource>::back::<__S>(#binding) })
            }
        });
        let detach = converted(quote!(#name), quote!(::cuda_rt::OwnedBy::<__S>::detach));
        let views = |name: &Ident, method: TokenStream| {
            self.literal(&quote!(#name), |part| {
                let binding = &part.binding;
                if part.plain {
                    quote!(*#binding)
                } else {
                    quote!(unsafe { #method(#binding) })
                }
            })
        };
        let view_value = views(&view, quote!(::cuda_rt::Resource::view::<__S>));
        let ref_value = views(&by_ref, quote!(::cuda_rt::Resource::by_ref::<__S>));
        let retire = self.parts.iter().map(|part| {
            let binding = &part.binding;
            if part.plain {
                quote!(let _ = #binding;)
            } else {
                quote!(unsafe { ::cuda_rt::Resource::retire(#binding, __fence) };)
            }
        });

        let host_has = self.parts.iter().map(|part| {
            let binding = &part.binding;
            if part.plain {
                quote!(let _ = #binding;)
            } else {
                quote!(::cuda_rt::Resource::host_has(#binding, __passed);)
            }
        });

        let view_struct = self.view_struct(
            &view,
            &format_ident!("View"),
            &format!("Views of a [`{name}`], for reading and writing."),
        );
        let ref_struct = self.view_struct(
            &by_ref,
            &format_ident!("Ref"),
            &format!("Views of a [`{name}`], for reading."),
        );
        let (view_type, ref_type) = (self.view_type(&view), self.view_type(&by_ref));

        quote! {
            #view_struct
            #ref_struct

            // SAFETY: structural: every field is named once in each method, and plain ones are `Copy`.
            unsafe impl #idle_parameters ::cuda_rt::Resource for #name<#(#idle_arguments),*> #idle_clause {
                type Device = __D;
                type On<__S: ::cuda_rt::StreamTag> = #name<#(#on_arguments),*>;
                type View<'__v, __S: ::cuda_rt::StreamTag> = #view_type;
                type Ref<'__v, __S: ::cuda_rt::StreamTag> = #ref_type;

                #[inline]
                unsafe fn attach<__S: ::cuda_rt::StreamTag>(self, __at: ::cuda_rt::__private::StreamAt) -> Self::On<__S> {
                    let #destructured = self;
                    #attach
                }

                #[inline]
                unsafe fn back<__S: ::cuda_rt::StreamTag>(__on: Self::On<__S>) -> Self {
                    let #destructured = __on;
                    #back
                }

                unsafe fn view<'__v, __S: ::cuda_rt::StreamTag>(&mut self) -> Self::View<'__v, __S> {
                    let #destructured = self;
                    #view_value
                }

                unsafe fn by_ref<'__v, __S: ::cuda_rt::StreamTag>(&self) -> Self::Ref<'__v, __S> {
                    let #destructured = self;
                    #ref_value
                }

                unsafe fn retire(self, __fence: &mut ::cuda_rt::__private::Fence) {
                    let #destructured = self;
                    #(#retire)*
                }

                #[inline]
                fn host_has(&self, __passed: ::cuda_rt::__private::Passed) {
                    let #destructured = self;
                    #(#host_has)*
                }
            }

            // SAFETY: structural: every field is owned by the stream.
            unsafe impl #on_parameters ::cuda_rt::OwnedBy<__S> for #name<#(#on_arguments),*> #on_clause {
                type Idle = #name<#(#idle_of_stream_arguments),*>;

                #[inline]
                unsafe fn detach(self) -> Self::Idle {
                    let #destructured = self;
                    #detach
                }
            }
        }
    }
}
