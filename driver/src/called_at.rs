//! The place in the program of a driver call. The runtime sets it, and a checker reads it.

use std::cell::Cell;
use std::panic::Location;

use crate::Site;

thread_local! {
    /// The call of the typed API, or the statement of a program, that this thread is inside.
    static CALLED_AT: Cell<Option<Site>> = const { Cell::new(None) };
}

// The cell must have no destructor: a cell with one is destroyed before other thread-locals of the
// thread. A user's thread-local that calls the library in its drop would then panic.
const _: () = assert!(!std::mem::needs_drop::<Cell<Option<Site>>>());

/// While this value lives, the driver calls of this thread count as made at one place. If calls of
/// the typed API are nested, the outermost call's place counts.
#[derive(Debug)]
pub struct CalledAt {
    outermost: bool,
}

impl CalledAt {
    /// The place of the calls of this thread, if a value is alive.
    pub fn current() -> Option<Site> {
        CALLED_AT.get()
    }

    /// Sets the place of the calls from now on, unless an outer value is alive.
    pub fn new(location: &'static Location<'static>) -> Self {
        Self::at(Site::Code(location))
    }

    /// Like [`new`](Self::new), for any kind of place.
    pub fn at(site: Site) -> Self {
        let outermost = CALLED_AT.get().is_none();
        if outermost {
            CALLED_AT.set(Some(site));
        }
        Self { outermost }
    }
}

impl Drop for CalledAt {
    // Inlined, with nothing but its flag passed on: a call without a checker then needs no memory
    // for this value.
    #[inline]
    fn drop(&mut self) {
        if self.outermost {
            forget_place();
        }
    }
}

#[cold]
fn forget_place() {
    CALLED_AT.set(None);
}
