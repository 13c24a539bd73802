//! The items of a crate that another crate can reach, each with its path and the way to it.

use std::collections::BTreeMap;

use rustdoc_types::{Attribute, Crate, GenericBound, Id, Item, ItemEnum, Trait, WherePredicate};

/// A reached item: its path, and the way to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reached {
    pub(super) path: String,
    /// Every path to the item is `#[doc(hidden)]`.
    pub(super) hidden: bool,
    pub(super) way: Way,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// The item has a path.
    Path,
    /// The item has no path. Its methods can be called on values, or through a bound that implies
    /// it.
    Bound,
    /// The item is a trait without a path that types must satisfy. No bound that another crate can
    /// write implies it.
    Asked,
}

/// A second path to an item, or a path to an item of another crate.
#[derive(Debug)]
pub(super) struct Alias {
    pub(super) path: String,
    pub(super) of: String,
    pub(super) hidden: bool,
}

#[derive(Debug)]
pub(super) struct Reach<'c> {
    pub(super) krate: &'c Crate,
    pub(super) items: BTreeMap<Id, Reached>,
    pub(super) aliases: Vec<Alias>,
}

pub(super) fn is_hidden(item: &Item) -> bool {
    let is = |text: &str| text.starts_with("#[doc(") && text.contains("hidden");
    item.attrs
        .iter()
        .any(|attribute| matches!(attribute, Attribute::Other(text) if is(text)))
}

impl<'c> Reach<'c> {
    pub(super) fn item(&self, id: Id) -> Option<&'c Item> {
        self.krate.index.get(&id)
    }

    pub(super) fn path_of(&self, id: Id) -> Option<&str> {
        self.items.get(&id).map(|reached| reached.path.as_str())
    }

    /// Whether other crates can't implement the trait, because it requires a trait that they can't
    /// name.
    pub(super) fn is_sealed(&self, id: Id) -> bool {
        let Some(Item {
            inner: ItemEnum::Trait(of),
            ..
        }) = self.item(id)
        else {
            return false;
        };
        let unnamed = self.items.get(&id).is_none_or(|reached| reached.way != Way::Path);
        unnamed || asked(of).any(|id| self.is_sealed(id))
    }
}

/// The bounds of a trait on its types, after its name or after `where`.
pub(super) fn asked(of: &Trait) -> impl Iterator<Item = Id> {
    let predicates = of.generics.where_predicates.iter();
    let more = predicates.flat_map(|predicate| match predicate {
        WherePredicate::BoundPredicate { bounds, .. } => bounds.as_slice(),
        _ => &[],
    });
    implied(of.bounds.iter().chain(more))
}

pub(super) fn implied<'a>(bounds: impl IntoIterator<Item = &'a GenericBound>) -> impl Iterator<Item = Id> {
    bounds.into_iter().filter_map(|bound| match bound {
        GenericBound::TraitBound { trait_, .. } => Some(trait_.id),
        _ => None,
    })
}
