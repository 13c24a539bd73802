//! Entries: the lines of a list, one for each item, method, field and implementation.

use std::collections::BTreeSet;
use std::fmt;

use rustdoc_types::{
    Attribute, Id, Impl, Item, ItemEnum, MacroKind, StructKind, Trait, Type, VariantKind, Visibility,
};

use super::reached::{Reach, Way, is_hidden};
use super::text::{Text, header};

/// A line of a list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    /// The path without parameters, by which reasons and cases name it.
    pub(super) path: String,
    pub(super) kind: Kind,
    pub(super) hidden: bool,
    pub(super) way: Way,
    /// The line's text without its marks.
    pub(super) text: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Function {
        is_unsafe: bool,
    },
    Macro,
    Trait(TraitMarks),
    /// An implementation of another crate's trait; users can call the trait's methods.
    Implementation {
        of: String,
    },
    Other,
}

/// A trait's marks, which say who may implement it, and the names of its functions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TraitMarks {
    pub(super) is_sealed: bool,
    pub(super) is_unsafe: bool,
    /// `dyn Trait` exists. It implements the trait, even if the trait makes a promise.
    pub(super) has_objects: bool,
    pub(super) functions: Vec<String>,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.hidden {
            f.write_str("hidden ")?;
        }
        match self.way {
            Way::Path => {}
            Way::Bound => f.write_str("by-bound ")?,
            Way::Asked => f.write_str("asked ")?,
        }
        f.write_str(&self.text)?;
        if let Kind::Trait(marks) = &self.kind {
            let who = match (marks.is_sealed, marks.is_unsafe) {
                (true, _) => "sealed",
                (false, true) => "implementable with `unsafe`",
                (false, false) => "implementable",
            };
            write!(f, " [{who}{}]", if marks.has_objects { ", `dyn`" } else { "" })?;
        }
        Ok(())
    }
}

/// All lines of the items reached so far. `text` remembers the items that the lines name.
pub(super) fn of(reach: &Reach<'_>, text: &Text) -> Vec<Entry> {
    let mut list = List {
        reach,
        text,
        entries: Vec::new(),
        impls: BTreeSet::new(),
    };
    for (id, reached) in &reach.items {
        if let Some(item) = reach.item(*id) {
            let at = At {
                path: &reached.path,
                hidden: reached.hidden,
                way: reached.way,
            };
            list.item(item, at);
        }
    }
    for id in std::mem::take(&mut list.impls) {
        list.implementation(id);
    }
    for alias in &reach.aliases {
        let at = At {
            path: &alias.path,
            hidden: alias.hidden,
            way: Way::Path,
        };
        list.push(at, Kind::Other, format!("use {} = {}", alias.path, alias.of));
    }
    list.entries.sort();
    list.entries.dedup();
    list.entries
}

#[derive(Clone, Copy)]
struct At<'a> {
    path: &'a str,
    hidden: bool,
    way: Way,
}

impl<'a> At<'a> {
    fn inside<'b>(self, path: &'b str, item: &Item) -> At<'b>
    where
        'a: 'b,
    {
        At {
            path,
            hidden: self.hidden || is_hidden(item),
            way: self.way,
        }
    }
}

struct List<'r, 'c> {
    reach: &'r Reach<'c>,
    text: &'r Text,
    entries: Vec<Entry>,
    impls: BTreeSet<Id>,
}

impl<'c> List<'_, 'c> {
    fn push(&mut self, at: At<'_>, kind: Kind, text: String) {
        self.entries.push(Entry {
            path: at.path.to_owned(),
            kind,
            hidden: at.hidden,
            way: at.way,
            text,
        });
    }

    fn items(&self, ids: &[Id]) -> Vec<&'c Item> {
        ids.iter().filter_map(|id| self.reach.item(*id)).collect()
    }

    fn item(&mut self, item: &'c Item, at: At<'_>) {
        let path = at.path;
        let text = self.text;
        match &item.inner {
            ItemEnum::Module(_) => self.push(at, Kind::Other, format!("mod {path}")),
            ItemEnum::Function(_) => self.function(item, at, None, Vec::new()),
            ItemEnum::Struct(of) => {
                let fields: Vec<Id> = match &of.kind {
                    StructKind::Unit => Vec::new(),
                    StructKind::Tuple(fields) => fields.iter().flatten().copied().collect(),
                    StructKind::Plain { fields, .. } => fields.clone(),
                };
                let what = format!("struct {path}{}", text.params(&of.generics.params));
                let mut what = with_wheres(what, text.wheres(&of.generics));
                let is_open = |field: &&Item| field.visibility == Visibility::Public;
                if self.items(&fields).iter().all(is_open) && !item.attrs.contains(&Attribute::NonExhaustive)
                {
                    what += " [anyone makes one]";
                }
                self.push(at, Kind::Other, what);
                self.fields(&fields, at);
                self.impls_of(&of.impls, at);
            }
            ItemEnum::Union(of) => {
                let what = format!("union {path}{}", text.params(&of.generics.params));
                self.push(at, Kind::Other, with_wheres(what, text.wheres(&of.generics)));
                self.fields(&of.fields, at);
                self.impls_of(&of.impls, at);
            }
            ItemEnum::Enum(of) => {
                let what = format!("enum {path}{}", text.params(&of.generics.params));
                self.push(at, Kind::Other, with_wheres(what, text.wheres(&of.generics)));
                for variant in self.items(&of.variants) {
                    self.variant(variant, at);
                }
                self.impls_of(&of.impls, at);
            }
            ItemEnum::Trait(of) => self.one_trait(item, of, at),
            ItemEnum::TypeAlias(of) => {
                let what = format!(
                    "type {path}{} = {}",
                    text.params(&of.generics.params),
                    text.ty(&of.type_)
                );
                self.push(at, Kind::Other, with_wheres(what, text.wheres(&of.generics)));
            }
            ItemEnum::Constant { type_, .. } => {
                self.push(at, Kind::Other, format!("const {path}: {}", text.ty(type_)));
            }
            ItemEnum::Static(of) => {
                let mutable = if of.is_mutable { "mut " } else { "" };
                self.push(
                    at,
                    Kind::Other,
                    format!("static {mutable}{path}: {}", text.ty(&of.type_)),
                );
            }
            ItemEnum::Macro(_) => self.push(at, Kind::Macro, format!("macro {path}!")),
            ItemEnum::ProcMacro(of) => {
                let what = match of.kind {
                    MacroKind::Bang => format!("macro {path}!"),
                    MacroKind::Attr => format!("macro #[{path}]"),
                    MacroKind::Derive => format!("macro #[derive({path})]"),
                };
                self.push(at, Kind::Macro, what);
            }
            other => self.push(at, Kind::Other, format!("{:?} {path}", other.item_kind())),
        }
    }

    /// Adds a function, or a method of an `impl` with the given type and bounds.
    fn function(&mut self, item: &Item, at: At<'_>, of: Option<String>, mut wheres: Vec<String>) {
        let ItemEnum::Function(function) = &item.inner else {
            return;
        };
        wheres.extend(self.text.wheres(&function.generics));
        let of = of.map(|of| format!(" of {of}")).unwrap_or_default();
        let what = format!(
            "{}fn {}{}{of}",
            header(&function.header),
            at.path,
            self.text.signature(function)
        );
        let is_unsafe = function.header.is_unsafe;
        self.push(at, Kind::Function { is_unsafe }, with_wheres(what, wheres));
    }

    fn fields(&mut self, fields: &[Id], at: At<'_>) {
        for field in self.items(fields) {
            if field.visibility == Visibility::Public {
                self.field(field, at);
            }
        }
    }

    fn field(&mut self, field: &Item, at: At<'_>) {
        let ItemEnum::StructField(ty) = &field.inner else {
            return;
        };
        let path = format!("{}.{}", at.path, field.name.as_deref().unwrap_or("_"));
        let what = format!("field {path}: {}", self.text.ty(ty));
        self.push(at.inside(&path, field), Kind::Other, what);
    }

    fn variant(&mut self, item: &Item, at: At<'_>) {
        let ItemEnum::Variant(variant) = &item.inner else {
            return;
        };
        let path = format!("{}::{}", at.path, item.name.as_deref().unwrap_or("_"));
        let at = at.inside(&path, item);
        self.push(at, Kind::Other, format!("variant {path}"));
        let fields: Vec<Id> = match &variant.kind {
            VariantKind::Plain => Vec::new(),
            VariantKind::Tuple(fields) => fields.iter().flatten().copied().collect(),
            VariantKind::Struct { fields, .. } => fields.clone(),
        };
        for field in self.items(&fields) {
            self.field(field, at);
        }
    }

    fn one_trait(&mut self, item: &Item, of: &Trait, at: At<'_>) {
        let (path, text) = (at.path, self.text);
        let items = self.items(&of.items);
        let word = match (of.is_unsafe, of.is_auto) {
            (true, true) => "unsafe auto trait",
            (true, false) => "unsafe trait",
            (false, true) => "auto trait",
            (false, false) => "trait",
        };
        let supers = if of.bounds.is_empty() {
            String::new()
        } else {
            format!(": {}", text.bounds(&of.bounds))
        };
        let what = format!("{word} {path}{}{supers}", text.params(&of.generics.params));
        let functions = items
            .iter()
            .filter(|item| matches!(item.inner, ItemEnum::Function(_)))
            .filter_map(|item| item.name.clone());
        let marks = TraitMarks {
            is_sealed: self.reach.is_sealed(item.id),
            is_unsafe: of.is_unsafe,
            has_objects: of.is_dyn_compatible,
            functions: functions.collect(),
        };
        self.push(
            at,
            Kind::Trait(marks),
            with_wheres(what, text.wheres(&of.generics)),
        );
        for item in items {
            let path = format!("{path}::{}", item.name.as_deref().unwrap_or("_"));
            let at = at.inside(&path, item);
            match &item.inner {
                ItemEnum::Function(_) => self.function(item, at, None, Vec::new()),
                ItemEnum::AssocConst { type_, .. } => {
                    self.push(at, Kind::Other, format!("const {path}: {}", text.ty(type_)));
                }
                ItemEnum::AssocType { generics, bounds, .. } => {
                    let bounds = if bounds.is_empty() {
                        String::new()
                    } else {
                        format!(": {}", text.bounds(bounds))
                    };
                    let what = format!("type {path}{}{bounds}", text.params(&generics.params));
                    self.push(at, Kind::Other, with_wheres(what, text.wheres(generics)));
                }
                _ => {}
            }
        }
        self.impls.extend(&of.implementations);
    }

    fn impls_of(&mut self, impls: &[Id], at: At<'_>) {
        for item in self.items(impls) {
            let ItemEnum::Impl(of) = &item.inner else { continue };
            if of.trait_.is_some() {
                self.impls.insert(item.id);
                continue;
            }
            for item in self.items(&of.items) {
                if item.visibility != Visibility::Public {
                    continue;
                }
                let path = format!("{}::{}", at.path, item.name.as_deref().unwrap_or("_"));
                let at = at.inside(&path, item);
                match &item.inner {
                    ItemEnum::Function(_) => {
                        self.function(
                            item,
                            at,
                            Some(self.text.ty(&of.for_)),
                            self.text.wheres(&of.generics),
                        );
                    }
                    ItemEnum::AssocConst { type_, .. } => {
                        self.push(at, Kind::Other, format!("const {path}: {}", self.text.ty(type_)));
                    }
                    _ => {}
                }
            }
        }
    }

    /// Adds an implementation of a trait. Of automatic implementations it adds only `Send` and
    /// `Sync`. It leaves out implementations that follow from a blanket implementation, and the
    /// compiler's own traits.
    fn implementation(&mut self, id: Id) {
        let Some(Item {
            inner: ItemEnum::Impl(of),
            ..
        }) = self.reach.item(id)
        else {
            return;
        };
        let Some(path) = &of.trait_ else { return };
        let name = path.path.rsplit("::").next().unwrap_or_default();
        if of.blanket_impl.is_some() || matches!(name, "StructuralPartialEq" | "TrivialClone") {
            return;
        }
        if of.is_synthetic && !matches!(name, "Send" | "Sync") {
            return;
        }
        let query = |id: &Id| self.reach.item(*id).is_none() || self.reach.items.contains_key(id);
        let subject = match &of.for_ {
            Type::ResolvedPath(subject) => Some(subject.id),
            _ => None,
        };
        if !query(&path.id) || subject.is_some_and(|id| !query(&id)) {
            return;
        }
        let of_subject = subject.and_then(|id| self.reach.items.get(&id));
        if of.is_synthetic && of_subject.is_some_and(|reached| reached.way != Way::Path) {
            return;
        }
        let of_trait = self.reach.items.get(&path.id);
        let both = [of_subject, of_trait];
        let (hidden, way) = (
            both.iter().flatten().any(|reached| reached.hidden),
            both.iter()
                .flatten()
                .map(|reached| reached.way)
                .max()
                .unwrap_or(Way::Path),
        );
        let path_id = path.id;
        let (what, named) = self.implemented(of, path);
        let named = subject
            .and_then(|id| self.reach.path_of(id))
            .map_or(named, str::to_owned);
        let path = format!("{named}: {name}");
        let at = At {
            path: &path,
            hidden,
            way,
        };
        let kind = match self.reach.item(path_id) {
            Some(_) => Kind::Other,
            None => Kind::Implementation { of: name.to_owned() },
        };
        self.push(at, kind, what);
    }

    fn implemented(&self, of: &Impl, path: &rustdoc_types::Path) -> (String, String) {
        let text = self.text;
        let subject = text.ty(&of.for_);
        let word = if of.is_unsafe { "unsafe impl" } else { "impl" };
        let not = if of.is_negative { "!" } else { "" };
        let what = format!(
            "{word}{} {not}{} for {subject}",
            text.params(&of.generics.params),
            text.path(path)
        );
        let mut what = with_wheres(what, text.wheres(&of.generics));
        let types = self
            .items(&of.items)
            .into_iter()
            .filter_map(|item| match &item.inner {
                ItemEnum::AssocType {
                    type_: Some(ty),
                    generics,
                    ..
                } => Some(format!(
                    "{}{} = {}",
                    item.name.as_deref()?,
                    text.params(&generics.params),
                    text.ty(ty)
                )),
                _ => None,
            });
        let types: Vec<String> = types.collect();
        if !types.is_empty() {
            what += &format!(" {{ {} }}", types.join(", "));
        }
        (what, subject)
    }
}

fn with_wheres(what: String, wheres: Vec<String>) -> String {
    if wheres.is_empty() {
        what
    } else {
        format!("{what} where {}", wheres.join(", "))
    }
}
