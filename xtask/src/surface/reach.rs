//! Finds the items of a crate that another crate can reach: by a path, or only through the bounds
//! and signatures of items with a path.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rustdoc_types::{Attribute, Crate, Id, Item, ItemEnum, Use, Visibility};

use super::entries;
use super::reached::{Alias, Reach, Reached, Way, asked, implied, is_hidden};
use super::text::Text;

impl<'c> Reach<'c> {
    pub(super) fn of(krate: &'c Crate) -> Self {
        let mut reach = Self {
            krate,
            items: BTreeMap::new(),
            aliases: Vec::new(),
        };
        reach.follow_paths();
        reach.follow_signatures();
        reach.follow_bounds();
        reach
    }

    /// Names all items that public modules lead to. Documented paths come first.
    fn follow_paths(&mut self) {
        let krate = self.krate;
        let root = &krate.index[&krate.root];
        let name = root.name.clone().unwrap_or_default();
        let mut shown = VecDeque::from([(krate.root, name.clone())]);
        let mut hidden = VecDeque::new();
        let mut walked = BTreeSet::new();
        while let Some((module, path, is_below_hidden)) = shown
            .pop_front()
            .map(|(module, path)| (module, path, false))
            .or_else(|| hidden.pop_front().map(|(module, path)| (module, path, true)))
        {
            if !walked.insert((module, path.clone())) {
                continue;
            }
            for child in children(&krate.index[&module]) {
                let Some(item) = self.item(*child) else { continue };
                if item.visibility != Visibility::Public {
                    continue;
                }
                let is_hidden = is_below_hidden || is_hidden(item);
                let mut enter = |module, path| match is_hidden {
                    true => hidden.push_back((module, path)),
                    false => shown.push_back((module, path)),
                };
                match &item.inner {
                    ItemEnum::Use(of) => self.follow_use(of, &path, is_hidden, &mut enter),
                    ItemEnum::Module(_) => {
                        let path = join(&path, item);
                        self.name(item.id, path.clone(), is_hidden);
                        enter(item.id, path);
                    }
                    _ => self.name(item.id, join(&path, item), is_hidden),
                }
            }
        }
        // Exported macros are at the root, wherever their source is.
        for item in krate.index.values() {
            if item.attrs.contains(&Attribute::MacroExport) && !self.items.contains_key(&item.id) {
                self.name(item.id, join(&name, item), is_hidden(item));
            }
        }
    }

    fn follow_use(&mut self, of: &Use, path: &str, hidden: bool, enter: &mut impl FnMut(Id, String)) {
        let target = of.id.and_then(|id| self.item(id));
        let path = if of.is_glob {
            path.to_owned()
        } else {
            format!("{path}::{}", of.name)
        };
        match target {
            Some(Item {
                id,
                inner: ItemEnum::Module(_),
                ..
            }) => {
                if !of.is_glob {
                    self.name(*id, path.clone(), hidden);
                }
                enter(*id, path);
            }
            // The variants of an enum, which the enum's own path gives too.
            Some(_) if of.is_glob => {}
            Some(item) => self.name(item.id, path, hidden),
            None => self.aliases.push(Alias {
                path: if of.is_glob { format!("{path}::*") } else { path },
                of: of.source.clone(),
                hidden,
            }),
        }
    }

    fn name(&mut self, id: Id, path: String, hidden: bool) {
        if let Some(known) = self.items.get(&id) {
            if known.path != path {
                let of = known.path.clone();
                self.aliases.push(Alias { path, of, hidden });
            }
            return;
        }
        let way = Way::Path;
        self.items.insert(id, Reached { path, hidden, way });
    }

    /// Adds items without a path that stand in a signature, until no item is new.
    fn follow_signatures(&mut self) {
        loop {
            let text = Text::default();
            let _ = entries::of(self, &text);
            let new: Vec<Id> = text
                .named()
                .into_iter()
                .filter(|id| self.krate.index.contains_key(id) && !self.items.contains_key(id))
                .collect();
            if new.is_empty() {
                return;
            }
            for id in new {
                let path = self.krate.paths.get(&id).map(|summary| summary.path.join("::"));
                let way = match self.krate.index[&id].inner {
                    ItemEnum::Trait(_) => Way::Asked,
                    _ => Way::Bound,
                };
                let reached = Reached {
                    path: path.unwrap_or_else(|| format!("#{}", id.0)),
                    hidden: false,
                    way,
                };
                self.items.insert(id, reached);
            }
        }
    }

    /// Finds the traits without a path whose methods can be called: traits that a trait with a path
    /// implies, and traits of values.
    fn follow_bounds(&mut self) {
        let text = Text::default();
        let _ = entries::of(self, &text);
        let named = self.items.iter().filter(|(_, reached)| reached.way == Way::Path);
        let mut open: Vec<Id> = named.map(|(id, _)| *id).chain(text.objects()).collect();
        let mut seen = BTreeSet::new();
        while let Some(id) = open.pop() {
            let Some(Item {
                inner: ItemEnum::Trait(of),
                ..
            }) = self.item(id)
            else {
                continue;
            };
            if !seen.insert(id) {
                continue;
            }
            if let Some(reached) = self
                .items
                .get_mut(&id)
                .filter(|reached| reached.way == Way::Asked)
            {
                reached.way = Way::Bound;
            }
            open.extend(asked(of));
            for item in of.items.iter().filter_map(|id| self.item(*id)) {
                if let ItemEnum::AssocType { bounds, .. } = &item.inner {
                    open.extend(implied(bounds));
                }
            }
        }
    }
}

fn children(item: &Item) -> &[Id] {
    match &item.inner {
        ItemEnum::Module(module) => &module.items,
        _ => &[],
    }
}

fn join(path: &str, item: &Item) -> String {
    format!("{path}::{}", item.name.as_deref().unwrap_or("_"))
}
