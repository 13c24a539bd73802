//! Writes types, bounds and signatures as text, and collects the items that the text names.

use std::cell::RefCell;
use std::collections::BTreeSet;

use rustdoc_types::{
    AssocItemConstraintKind, Function, FunctionHeader, FunctionSignature, GenericArg, GenericArgs,
    GenericBound, GenericParamDef, GenericParamDefKind, Generics, Id, Path, PreciseCapturingArg, Term,
    TraitBoundModifier, Type, WherePredicate,
};

/// Writes types as text, and remembers the items in them.
#[derive(Debug, Default)]
pub(super) struct Text {
    named: RefCell<BTreeSet<Id>>,
    objects: RefCell<BTreeSet<Id>>,
}

impl Text {
    /// All types and traits that have been written.
    pub(super) fn named(&self) -> BTreeSet<Id> {
        self.named.borrow().clone()
    }

    /// The traits that have been written after `dyn`, or as `impl`. The holder of a value may call
    /// their methods.
    pub(super) fn objects(&self) -> BTreeSet<Id> {
        self.objects.borrow().clone()
    }

    pub(super) fn ty(&self, ty: &Type) -> String {
        match ty {
            Type::ResolvedPath(path) => self.path(path),
            Type::DynTrait(object) => {
                let traits = object.traits.iter().map(|of| {
                    self.objects.borrow_mut().insert(of.trait_.id);
                    format!(
                        "{}{}",
                        self.higher_ranked(&of.generic_params),
                        self.path(&of.trait_)
                    )
                });
                let all: Vec<String> = traits.chain(object.lifetime.clone()).collect();
                format!("dyn {}", all.join(" + "))
            }
            Type::Generic(name) => name.clone(),
            Type::Primitive(name) if name == "never" => "!".to_owned(),
            Type::Primitive(name) => name.clone(),
            Type::FunctionPointer(pointer) => {
                let ranked = self.higher_ranked(&pointer.generic_params);
                let inputs: Vec<String> = pointer.sig.inputs.iter().map(|(_, ty)| self.ty(ty)).collect();
                let output = self.output(&pointer.sig);
                format!(
                    "{ranked}{}fn({}){output}",
                    header(&pointer.header),
                    inputs.join(", ")
                )
            }
            Type::Tuple(parts) => match &parts[..] {
                [only] => format!("({},)", self.ty(only)),
                _ => format!("({})", self.list(parts)),
            },
            Type::Slice(of) => format!("[{}]", self.ty(of)),
            Type::Array { type_, len } => format!("[{}; {len}]", self.ty(type_)),
            Type::Pat { type_, .. } => self.ty(type_),
            Type::ImplTrait(bounds) => {
                for bound in bounds {
                    if let GenericBound::TraitBound { trait_, .. } = bound {
                        self.objects.borrow_mut().insert(trait_.id);
                    }
                }
                format!("impl {}", self.bounds(bounds))
            }
            Type::Infer => "_".to_owned(),
            Type::RawPointer { is_mutable, type_ } => {
                format!(
                    "*{} {}",
                    if *is_mutable { "mut" } else { "const" },
                    self.ty(type_)
                )
            }
            Type::BorrowedRef {
                lifetime,
                is_mutable,
                type_,
            } => {
                let lifetime = lifetime
                    .as_ref()
                    .map(|name| format!("{name} "))
                    .unwrap_or_default();
                format!(
                    "&{lifetime}{}{}",
                    if *is_mutable { "mut " } else { "" },
                    self.ty(type_)
                )
            }
            Type::QualifiedPath {
                name,
                args,
                self_type,
                trait_,
            } => {
                let of = self.ty(self_type);
                let args = args.as_deref().map(|args| self.args(args)).unwrap_or_default();
                match trait_
                    .as_ref()
                    .map(|path| self.path(path))
                    .filter(|path| !path.is_empty())
                {
                    Some(path) if of != "Self" => format!("<{of} as {path}>::{name}{args}"),
                    _ => format!("{of}::{name}{args}"),
                }
            }
        }
    }

    fn list(&self, types: &[Type]) -> String {
        types.iter().map(|ty| self.ty(ty)).collect::<Vec<_>>().join(", ")
    }

    /// The last part of the path's name, and its arguments.
    pub(super) fn path(&self, path: &Path) -> String {
        self.named.borrow_mut().insert(path.id);
        let name = path.path.rsplit("::").next().unwrap_or_default();
        let args = path
            .args
            .as_deref()
            .map(|args| self.args(args))
            .unwrap_or_default();
        format!("{name}{args}")
    }

    fn args(&self, args: &GenericArgs) -> String {
        match args {
            GenericArgs::AngleBracketed { args, constraints } => {
                let args = args.iter().map(|arg| match arg {
                    GenericArg::Lifetime(name) => name.clone(),
                    GenericArg::Type(ty) => self.ty(ty),
                    GenericArg::Const(value) => value.expr.clone(),
                    GenericArg::Infer => "_".to_owned(),
                });
                let constraints = constraints.iter().map(|constraint| {
                    let args = constraint
                        .args
                        .as_deref()
                        .map(|args| self.args(args))
                        .unwrap_or_default();
                    let name = format!("{}{args}", constraint.name);
                    match &constraint.binding {
                        AssocItemConstraintKind::Equality(term) => format!("{name} = {}", self.term(term)),
                        AssocItemConstraintKind::Constraint(bounds) => {
                            format!("{name}: {}", self.bounds(bounds))
                        }
                    }
                });
                let all: Vec<String> = args.chain(constraints).collect();
                if all.is_empty() {
                    String::new()
                } else {
                    format!("<{}>", all.join(", "))
                }
            }
            GenericArgs::Parenthesized { inputs, output } => {
                let output = output
                    .as_ref()
                    .map(|ty| format!(" -> {}", self.ty(ty)))
                    .unwrap_or_default();
                format!("({}){output}", self.list(inputs))
            }
            GenericArgs::ReturnTypeNotation => "(..)".to_owned(),
        }
    }

    pub(super) fn bounds(&self, bounds: &[GenericBound]) -> String {
        let each = bounds.iter().map(|bound| match bound {
            GenericBound::TraitBound {
                trait_,
                generic_params,
                modifier,
            } => {
                let modifier = match modifier {
                    TraitBoundModifier::None => "",
                    TraitBoundModifier::Maybe => "?",
                    TraitBoundModifier::MaybeConst => "[const] ",
                };
                format!(
                    "{}{modifier}{}",
                    self.higher_ranked(generic_params),
                    self.path(trait_)
                )
            }
            GenericBound::Outlives(lifetime) => lifetime.clone(),
            GenericBound::Use(captured) => {
                let names = captured.iter().map(|captured| match captured {
                    PreciseCapturingArg::Lifetime(name) | PreciseCapturingArg::Param(name) => name.as_str(),
                });
                format!("use<{}>", names.collect::<Vec<_>>().join(", "))
            }
        });
        each.collect::<Vec<_>>().join(" + ")
    }

    fn term(&self, term: &Term) -> String {
        match term {
            Term::Type(ty) => self.ty(ty),
            Term::Constant(value) => value.expr.clone(),
        }
    }

    fn higher_ranked(&self, params: &[GenericParamDef]) -> String {
        match params {
            [] => String::new(),
            _ => format!("for{} ", self.params(params)),
        }
    }

    /// The parameters, as `<'a, T, const N: usize>`. Their bounds are in [`wheres`](Self::wheres).
    pub(super) fn params(&self, params: &[GenericParamDef]) -> String {
        let named = params.iter().filter_map(|param| match &param.kind {
            GenericParamDefKind::Lifetime { .. } => Some(param.name.clone()),
            // A parameter for `impl Trait` in the place of a type.
            GenericParamDefKind::Type {
                is_synthetic: true, ..
            } => None,
            GenericParamDefKind::Type { default, .. } => {
                let default = default
                    .as_ref()
                    .map(|ty| format!(" = {}", self.ty(ty)))
                    .unwrap_or_default();
                Some(format!("{}{default}", param.name))
            }
            GenericParamDefKind::Const { type_, default } => {
                let default = default
                    .as_ref()
                    .map(|value| format!(" = {value}"))
                    .unwrap_or_default();
                Some(format!("const {}: {}{default}", param.name, self.ty(type_)))
            }
        });
        let named: Vec<String> = named.collect();
        if named.is_empty() {
            String::new()
        } else {
            format!("<{}>", named.join(", "))
        }
    }

    /// The bounds of parameters, wherever they are written.
    pub(super) fn wheres(&self, generics: &Generics) -> Vec<String> {
        let inline = generics.params.iter().filter_map(|param| match &param.kind {
            GenericParamDefKind::Lifetime { outlives } if !outlives.is_empty() => {
                Some(format!("{}: {}", param.name, outlives.join(" + ")))
            }
            GenericParamDefKind::Type {
                bounds,
                is_synthetic: false,
                ..
            } if !bounds.is_empty() => Some(format!("{}: {}", param.name, self.bounds(bounds))),
            _ => None,
        });
        let written = generics.where_predicates.iter().map(|predicate| match predicate {
            WherePredicate::BoundPredicate {
                type_,
                bounds,
                generic_params,
            } => {
                let ranked = self.higher_ranked(generic_params);
                format!("{ranked}{}: {}", self.ty(type_), self.bounds(bounds))
            }
            WherePredicate::LifetimePredicate { lifetime, outlives } => {
                format!("{lifetime}: {}", outlives.join(" + "))
            }
            WherePredicate::EqPredicate { lhs, rhs } => format!("{} = {}", self.ty(lhs), self.term(rhs)),
        });
        inline.chain(written).collect()
    }

    /// A function's parameters and result.
    pub(super) fn signature(&self, function: &Function) -> String {
        let inputs = function
            .sig
            .inputs
            .iter()
            .map(|(name, ty)| match (name.as_str(), ty) {
                ("self", Type::Generic(of)) if of == "Self" => "self".to_owned(),
                (
                    "self",
                    Type::BorrowedRef {
                        lifetime: None,
                        is_mutable,
                        type_,
                    },
                ) if matches!(&**type_, Type::Generic(of) if of == "Self") => {
                    if *is_mutable { "&mut self" } else { "&self" }.to_owned()
                }
                _ => format!("{name}: {}", self.ty(ty)),
            });
        let inputs: Vec<String> = inputs.collect();
        format!(
            "{}({}){}",
            self.params(&function.generics.params),
            inputs.join(", "),
            self.output(&function.sig)
        )
    }

    fn output(&self, signature: &FunctionSignature) -> String {
        signature
            .output
            .as_ref()
            .map(|ty| format!(" -> {}", self.ty(ty)))
            .unwrap_or_default()
    }
}

/// The words before `fn`, for example `const unsafe extern "C" `.
pub(super) fn header(header: &FunctionHeader) -> String {
    let mut text = String::new();
    for (is, word) in [
        (header.is_const, "const "),
        (header.is_async, "async "),
        (header.is_unsafe, "unsafe "),
    ] {
        if is {
            text += word;
        }
    }
    match &header.abi {
        rustdoc_types::Abi::Rust => text,
        other => format!("{text}extern {other:?} "),
    }
}
