//! Function tables: the entry points of a library loaded at run time, all looked up together.

use std::fmt;

use libloading::Library;

/// Declares a table of the entry points of a list in [`ffi`](super::ffi), as in
/// `nccl_entry_points!(function_table [Nccl returns ncclResult_t])`. The table has a method for
/// each entry point, which passes the gate: it makes no call once the process ends
/// ([`process_end`](super::process_end)), and no call in a child of `fork`
/// ([`loader`](super::loader)). `Passed` has the same methods, for a thread that has passed the
/// gate.
macro_rules! function_table {
    // A function that returns no status returns text that is never freed.
    (@method $status:ty, $name:ident($($argument:ident: $type:ty),*), $returned:ty) => {
        /// # Safety
        /// What the library's documentation demands of the call of this name.
        #[allow(non_snake_case, reason = "the name is the library's")]
        pub(in super::super) unsafe fn $name(&self, $($argument: $type),*) -> $returned {
            // SAFETY: this method's contract is the call's own contract.
            unsafe { (self.$name)($($argument),*) }
        }
    };
    (@method $status:ty, $name:ident($($argument:ident: $type:ty),*)) => {
        /// # Safety
        /// What the library's documentation demands of the call of this name.
        #[inline]
        #[allow(
            clippy::too_many_arguments,
            dead_code,
            non_snake_case,
            reason = "names and arguments are the library's"
        )]
        pub(in super::super) unsafe fn $name(&self, $($argument: $type),*) -> $status {
            match crate::process_end::enter() {
                // SAFETY: this method's contract is the call's own contract.
                Ok(inside) => unsafe { self.passed(&inside).$name($($argument),*) },
                Err(refusal) => refusal.status(),
            }
        }
    };
    // A function that returns no status is not called where many calls share one passage.
    (@passed $status:ty, $name:ident($($argument:ident: $type:ty),*), $returned:ty) => {};
    (@passed $status:ty, $name:ident($($argument:ident: $type:ty),*)) => {
        /// # Safety
        /// What the library's documentation demands of the call of this name.
        #[inline]
        #[allow(
            clippy::too_many_arguments,
            non_snake_case,
            reason = "names and arguments are the library's"
        )]
        pub(in super::super) unsafe fn $name(&self, $($argument: $type),*) -> $status {
            // SAFETY: this method's contract is the call's own contract.
            unsafe { (self.table.$name)($($argument),*) }
        }
    };
    (@returned $status:ty) => { $status };
    (@returned $status:ty, $returned:ty) => { $returned };
    (
        [$table:ident returns $status:ty]
        $(since $since:literal $(until $until:literal)?:
            fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $returned:ty)?;)*
    ) => {
        /// The table, whose fields nothing else can call.
        mod table {
            #[allow(unused_imports, reason = "not every list names all of the file's types")]
            use super::*;

            /// Every function of the library that this crate calls.
            #[expect(non_snake_case, reason = "the names are the library's")]
            pub(in super::super) struct $table { $(
                $name: unsafe extern "C" fn($($type),*)
                    -> function_table!(@returned $status $(, $returned)?),
            )* }

            impl $table {
                /// Looks up all entry points; the error is the first missing one.
                pub(super) fn of(
                    library: &'static libloading::Library,
                ) -> Result<Self, crate::function_table::Missing> {
                    Ok(Self { $(
                        // SAFETY: the field's type is the signature in the library's header:
                        // `ffi::bindings` compares them.
                        $name: unsafe {
                            crate::function_table::symbol(library, stringify!($name), $since)
                        }?,
                    )* })
                }

                /// The table, for a thread that has passed the gate.
                #[inline]
                pub(in super::super) fn passed<'a>(&'a self, _: &'a crate::process_end::Inside) -> Passed<'a> {
                    Passed { table: self }
                }

                $( function_table!(@method $status, $name($($argument: $type),*) $(, $returned)?); )*
            }

            /// The table, for a thread that has passed the gate and does not leave it meanwhile.
            #[derive(Clone, Copy)]
            pub(in super::super) struct Passed<'a> {
                table: &'a $table,
            }

            impl Passed<'_> {
                $( function_table!(@passed $status, $name($($argument: $type),*) $(, $returned)?); )*
            }
        }
    };
}
pub(super) use function_table;

/// An entry point that the library lacks.
#[derive(Debug)]
pub(super) struct Missing {
    pub(super) name: &'static str,
    /// The library version that introduced it.
    pub(super) since: &'static str,
    /// The message of the system's loader.
    why: String,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, since, why } = self;
        write!(f, "{name}, which is new in {since} ({why})")
    }
}

/// Looks up one entry point.
///
/// # Safety
/// `F` is the type of the function with this name.
pub(super) unsafe fn symbol<F: Copy>(
    library: &'static Library,
    name: &'static str,
    since: &'static str,
) -> Result<F, Missing> {
    // SAFETY: by this function's contract `F` is the function's type.
    let found = unsafe { library.get::<F>(name) };
    found.map(|function| *function).map_err(|why| Missing {
        name,
        since,
        why: why.to_string(),
    })
}

/// Loads the first library found under these names, for the rest of the process. It may start
/// threads, so it is never unloaded. If no library can be loaded, the error is the loader's message
/// for the first name.
pub(super) fn load(names: &[&str]) -> Result<(String, &'static Library), String> {
    let mut first = None;
    for name in names {
        // SAFETY: these are NVIDIA's libraries, or the file that whoever started the process named
        // (docs/soundness.md, "What the proof rests on"). Their initialisers set up their own
        // state.
        match unsafe { open(name) } {
            Ok(library) => return Ok(((*name).to_owned(), Box::leak(Box::new(library)))),
            Err(why) => first = first.or_else(|| Some(why.to_string())),
        }
    }
    Err(first.unwrap_or_else(|| "no name was given".into()))
}

/// Loads the libraries among these that are found, for the rest of the process.
pub(super) fn load_early(names: &[&str]) {
    for name in names {
        // The driver loads the same file again, or another one if this name is not the driver's.
        let _ = load(&[name]);
    }
}

/// Loads a library from where the system's loader finds it.
///
/// # Safety
/// The library's initialisers set up its own state only.
#[cfg(not(windows))]
unsafe fn open(name: &str) -> Result<Library, libloading::Error> {
    // SAFETY: this function's contract.
    unsafe { Library::new(name) }
}

/// Loads a library from Windows' own directory, where NVIDIA's driver is. Windows would otherwise
/// look beside the program first, where other programs may write.
///
/// # Safety
/// The library's initialisers set up its own state only.
#[cfg(windows)]
unsafe fn open(name: &str) -> Result<Library, libloading::Error> {
    use libloading::os::windows::{LOAD_LIBRARY_SEARCH_SYSTEM32, Library as Opened};
    let flags = match name {
        "nvcuda.dll" => LOAD_LIBRARY_SEARCH_SYSTEM32,
        _ => 0,
    };
    // SAFETY: this function's contract.
    unsafe { Opened::load_with_flags(name, flags) }.map(Library::from)
}
