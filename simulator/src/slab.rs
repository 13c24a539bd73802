//! [`Slab`]: values behind handles that are never given out twice.

/// Storage for values, each with a handle: its slot, and how often the slot was used before.
///
/// A handle is never 0. The handle of a removed value finds nothing, so a stale handle is an error
/// and never finds another value.
#[derive(Debug)]
pub(super) struct Slab<T> {
    slots: Vec<Slot<T>>,
    vacant: Vec<u32>,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            vacant: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    pub(super) fn insert(&mut self, value: T) -> u64 {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                value: None,
            });
            (self.slots.len() - 1) as u32
        });
        let place = &mut self.slots[slot as usize];
        place.generation += 1;
        place.value = Some(value);
        u64::from(place.generation) << 32 | u64::from(slot)
    }

    pub(super) fn get(&self, handle: u64) -> Option<&T> {
        let slot = self.slots.get(handle as u32 as usize)?;
        if slot.generation == (handle >> 32) as u32 {
            slot.value.as_ref()
        } else {
            None
        }
    }

    pub(super) fn get_mut(&mut self, handle: u64) -> Option<&mut T> {
        let slot = self.slots.get_mut(handle as u32 as usize)?;
        if slot.generation == (handle >> 32) as u32 {
            slot.value.as_mut()
        } else {
            None
        }
    }

    pub(super) fn remove(&mut self, handle: u64) -> Option<T> {
        let value = self
            .get_mut(handle)
            .is_some()
            .then(|| self.slots[handle as u32 as usize].value.take())?;
        // A slot whose generations are used up is retired.
        if self.slots[handle as u32 as usize].generation != u32::MAX {
            self.vacant.push(handle as u32);
        }
        value
    }

    pub(super) fn len(&self) -> usize {
        self.slots.iter().filter(|slot| slot.value.is_some()).count()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|slot| slot.value.as_ref())
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut T)> {
        self.slots.iter_mut().enumerate().filter_map(|(slot, place)| {
            let handle = u64::from(place.generation) << 32 | slot as u64;
            Some((handle, place.value.as_mut()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_handle_finds_nothing() {
        let mut slab = Slab::default();
        let a = slab.insert('a');
        assert_eq!(slab.remove(a), Some('a'));
        let b = slab.insert('b');
        assert_eq!(a as u32, b as u32, "the slot is used again");
        assert_eq!((slab.get(a), slab.get(b)), (None, Some(&'b')));
        assert_eq!(slab.remove(a), None);
        assert_eq!(slab.get(0), None);
    }
}
