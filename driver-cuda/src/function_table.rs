//! Function tables: the entry points of a library loaded at run time, all looked up together.

use std::fmt;

use libloading::Library;

/// Declares a table with a field for each entry point of a list in [`ffi`](super::ffi), as in
/// `nccl_entry_points!(function_table [Nccl returns ncclResult_t])`.
macro_rules! function_table {
    (@returned $status:ty) => { $status };
    (@returned $status:ty, $returned:ty) => { $returned };
    (
        [$table:ident returns $status:ty]
        $(since $since:literal $(until $until:literal)?:
            fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $returned:ty)?;)*
    ) => {
        /// Every function of the library that this crate calls.
        #[expect(non_snake_case, reason = "the names are the library's")]
        pub(super) struct $table { $(
            pub(super) $name:
                unsafe extern "C" fn($($type),*) -> function_table!(@returned $status $(, $returned)?),
        )* }

        impl $table {
            /// Looks up all entry points; the error is the first missing one.
            fn of(library: &'static libloading::Library) -> Result<Self, super::function_table::Missing> {
                Ok(Self { $(
                    // SAFETY: the field's type is the signature in the library's header:
                    // `ffi::bindings` compares them.
                    $name: unsafe { super::function_table::symbol(library, stringify!($name), $since) }?,
                )* })
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
        match unsafe { Library::new(*name) } {
            Ok(library) => return Ok(((*name).to_owned(), Box::leak(Box::new(library)))),
            Err(why) => first = first.or_else(|| Some(why.to_string())),
        }
    }
    Err(first.unwrap_or_else(|| "no name was given".into()))
}
