//! The differences between two runs of a body.

use super::entries::{Entries, Entry};

/// The reason why one run is no update of another.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// The number of the body's operation, counted from 1.
    pub(crate) operation: usize,
    pub(crate) why: String,
}

/// The differences between two runs that make the same calls.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Launches with other arguments or shapes.
    pub(super) launches: Vec<usize>,
    /// The first changed call that needs a capture.
    pub(super) capture: Option<usize>,
}

impl Entries {
    /// The changes from `self` to `new`, if `new` makes the same calls on the same streams in the
    /// same order.
    pub(super) fn changes(&self, new: &Self) -> Result<Changes, Difference> {
        let mut changes = Changes::default();
        for place in 0..self.0.len().max(new.0.len()) {
            let (old, new) = (self.0.get(place), new.0.get(place));
            let change = match (old, new) {
                (Some(old), Some(new)) => old.change(new),
                _ => None,
            };
            match change {
                Some(Change::None) => {}
                Some(Change::Launch) => changes.launches.push(place),
                Some(Change::Other) => {
                    changes.capture.get_or_insert(place);
                }
                Some(Change::Rows) => {
                    let old = old.map_or_else(String::new, ToString::to_string);
                    return Err(Difference {
                        operation: self.operation(place),
                        why: format!(
                            "was {old} when it was captured, and has changed: CUDA changes no copy of rows"
                        ),
                    });
                }
                None => {
                    let say = |entry: Option<&Entry>| entry.map_or("nothing".into(), ToString::to_string);
                    return Err(Difference {
                        operation: self.operation(place),
                        why: format!("was {} when it was captured, and is {}", say(old), say(new)),
                    });
                }
            }
        }
        Ok(changes)
    }
}

enum Change {
    None,
    Launch,
    Other,
    /// A copy of rows, which CUDA cannot change (`cuGraphExecMemcpyNodeSetParams` refuses
    /// multidimensional operands).
    Rows,
}

impl Change {
    fn other_if(changed: bool) -> Self {
        if changed { Self::Other } else { Self::None }
    }
}

impl Entry {
    /// The change from `self` to `new`. `None` if `new` is another call.
    fn change(&self, new: &Self) -> Option<Change> {
        let (same, change) = match (self, new) {
            (Self::Record { stream: a }, Self::Record { stream: b }) => (a == b, Change::None),
            (
                Self::Wait {
                    stream: a,
                    record: from,
                },
                Self::Wait {
                    stream: b,
                    record: to,
                },
            ) => ((a, from) == (b, to), Change::None),
            // A graph allocates its own addresses, which differ between captures.
            (
                Self::Alloc {
                    stream: a, bytes: x, ..
                },
                Self::Alloc {
                    stream: b, bytes: y, ..
                },
            ) => ((a, x) == (b, y), Change::None),
            // In a dry run, allocations have the addresses of the capture. If a run freed the wrong
            // one of two allocations, launches would use freed memory.
            (
                Self::Free {
                    stream: a,
                    address: x,
                },
                Self::Free {
                    stream: b,
                    address: y,
                },
            ) => ((a, x) == (b, y), Change::None),
            (
                Self::Copy {
                    stream: a,
                    kind: old,
                    to,
                    from,
                    bytes,
                },
                Self::Copy {
                    stream: b,
                    kind: new,
                    to: to_now,
                    from: from_now,
                    bytes: bytes_now,
                },
            ) => (
                (a, old) == (b, new),
                Change::other_if((to, from, bytes) != (to_now, from_now, bytes_now)),
            ),
            (
                Self::CopyRows {
                    stream: a,
                    kind: old,
                    to,
                    from,
                    extent,
                },
                Self::CopyRows {
                    stream: b,
                    kind: new,
                    to: to_now,
                    from: from_now,
                    extent: extent_now,
                },
            ) => (
                (a, old) == (b, new),
                match (to, from, extent) == (to_now, from_now, extent_now) {
                    true => Change::None,
                    false => Change::Rows,
                },
            ),
            (
                Self::Fill {
                    stream: a,
                    to,
                    pattern,
                    count,
                },
                Self::Fill {
                    stream: b,
                    to: to_now,
                    pattern: pattern_now,
                    count: count_now,
                },
            ) => (
                a == b,
                Change::other_if((to, pattern, count) != (to_now, pattern_now, count_now)),
            ),
            (Self::Launch(old), Self::Launch(new)) => {
                let same = old.stream == new.stream
                    && std::ptr::eq(old.parameters.kernel(), new.parameters.kernel());
                let comparable = same && old.shape == new.shape && !old.padded && !new.padded;
                // SAFETY: CAPTURE-LOG-1 (`CaptureLog`): neither launch is `padded`, so no parameter
                // has padding.
                let equal = comparable && unsafe { old.parameters.same_bytes(&new.parameters) };
                let change = match old.node {
                    _ if equal => Change::None,
                    Some(_) => Change::Launch,
                    None => Change::Other,
                };
                (same, change)
            }
            // Nothing tells two closures apart, so this closure may differ from the one before.
            (Self::HostFunction { stream: a }, Self::HostFunction { stream: b }) => (a == b, Change::Other),
            // The work of a foreign call is unknown, so it may have changed.
            (Self::Foreign { stream: a, name: x }, Self::Foreign { stream: b, name: y }) => {
                ((a, x) == (b, y), Change::Other)
            }
            _ => (false, Change::None),
        };
        same.then_some(change)
    }
}
