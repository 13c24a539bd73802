use std::io;
use std::path::PathBuf;

use crate::verify::Refusal;

/// Why a crate of kernels was not built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// There is no rustup.
    #[error(
        "a nightly compiler, which rustup installs, builds the kernels: install rustup from https://rustup.rs, \
         then run `rustup toolchain install nightly --component rust-src`"
    )]
    NoRustup(#[source] io::Error),
    /// The toolchain is not installed.
    #[error(
        "the toolchain `{toolchain}` is not installed: run `rustup toolchain install {toolchain} --component rust-src`"
    )]
    NoToolchain {
        /// The toolchain's name.
        toolchain: String,
    },
    /// The toolchain lacks the sources of `core`, which is built for the GPU together with the
    /// kernels.
    #[error(
        "the toolchain `{toolchain}` lacks the sources of `core`: run `rustup component add rust-src --toolchain {toolchain}`"
    )]
    NoRustSrc {
        /// The toolchain's name.
        toolchain: String,
    },
    /// There is no package with a library at this path.
    #[error("`{}` is not a package with a library: {reason}", path.display())]
    NotAKernelCrate {
        /// The given path.
        path: PathBuf,
        /// Why it is not one.
        reason: String,
    },
    /// The package of a [module](crate::Kernels::module) does not depend on `device-std`.
    #[error("`{}` does not depend on `device-std`, which kernels are written against", path.display())]
    NoDeviceStd {
        /// The package.
        path: PathBuf,
    },
    /// The committed PTX was built from other sources, and the toolchain that could build it again
    /// is missing.
    #[error("{} was not built from the present kernels, and cannot be built here: {missing}", path.display())]
    Stale {
        /// The committed file.
        path: PathBuf,
        /// The missing part of the toolchain.
        missing: Box<BuildError>,
    },
    /// The kernels of a [committed](crate::Kernels::committed) text include a file that its hash
    /// does not cover. Without the toolchain, the text could be used for another content of this
    /// file.
    #[error(
        "the kernels include {}, which the hash in the committed PTX does not cover: move the file into {}, or do not commit the PTX",
        file.display(),
        covered.display()
    )]
    UncoveredSource {
        /// The file.
        file: PathBuf,
        /// The directory whose files the hash covers.
        covered: PathBuf,
    },
    /// The compiler does not build for this architecture.
    #[error("the compiler does not build for `{asked}`, but for {known}")]
    Architecture {
        /// The architecture that was asked for.
        asked: String,
        /// The architectures that the compiler knows.
        known: String,
    },
    /// Two architectures have different entries, because the sources depend on the architecture.
    #[error("the kernels for {architecture} differ from the kernels for the architectures before it: {}", entries.join(", "))]
    OtherEntries {
        /// The architecture.
        architecture: String,
        /// Its entries.
        entries: Vec<String>,
    },
    /// The crate does not compile for the GPU.
    #[error("the kernels do not compile for the GPU (hazard H33):\n{diagnostics}")]
    Compile {
        /// The compiler's messages.
        diagnostics: String,
    },
    /// The module has no entries.
    #[error(
        "`{package}` has no kernels: mark functions with `#[kernel]`, and name the crate that has them in its library's root"
    )]
    NoEntries {
        /// The package.
        package: String,
    },
    /// A crate of the kernels has a static that can change. Through it, block-level code could see
    /// what other threads did, and threads could diverge at a barrier. The static's value would
    /// also outlive a launch.
    #[error("kernels must not share a mutable static: use an `Atomic` parameter instead of {}", names.join(", "))]
    MutableStatic {
        /// The paths of the statics.
        names: Vec<String>,
    },
    /// The search for mutable statics did not look at a crate, so it proves nothing: rustc did not
    /// write what is searched, or somebody removed it.
    #[error("the search for mutable statics did not look at {what}, so the kernels are refused")]
    Unsearched {
        /// The crate, or the file.
        what: String,
    },
    /// A crate of the kernels enables a feature of nightly that is not on the list of known
    /// features. Some features switch off checks of safe code.
    #[error(
        "a crate of the kernels enables an unstable feature: none may, because some features switch off checks of safe \
         code. Remove the feature, or depend on a version of the crate without it. rustc names the crate:\n{diagnostics}"
    )]
    UnstableFeature {
        /// The text of cargo and rustc.
        diagnostics: String,
    },
    /// A crate of the kernels has, with its macros expanded, code that is unsafe without the word
    /// `unsafe`: an attribute that chooses a symbol outside `unsafe(…)`, or a block `extern` that
    /// is not `unsafe`. Editions before 2024 take both for safe code, but an entry can be forged by
    /// the one, and a function declared wrongly by the other. A build script that lets rustc read
    /// arguments from a file is refused as well, and a crate with `#![no_builtins]`, whose symbols
    /// no linker would compare with those of other crates, and a crate called `device_std` that
    /// names an intrinsic of `core` which is not right for any type.
    #[error(
        "a crate of the kernels has code that is unsafe without the word `unsafe`. Write `#[unsafe(no_mangle)]`, \
         `#[unsafe(export_name = ..)]`, `#[unsafe(link_section = ..)]` and `unsafe extern`, also in bodies of macros; and \
         write these words in no string and no block comment. Leave `#![no_builtins]` and intrinsics of `core` out. The \
         crate is named \
         below:\n{diagnostics}"
    )]
    HiddenUnsafe {
        /// The text of cargo and of the program that runs rustc.
        diagnostics: String,
    },
    /// A crate of the kernels reads a file that may have changed between the search for hidden
    /// unsafe code and the compilation, so the search proves nothing.
    #[error(
        "a crate of the kernels reads a file that is not on a disk, or that may have changed while it was compiled. \
         Build again if you saved the file at that moment; else let the crate read files of its package, or of `OUT_DIR`. \
         The file is named below:\n{diagnostics}"
    )]
    ChangedFile {
        /// The text of cargo and of the program that runs rustc.
        diagnostics: String,
    },
    /// A crate of the kernels has assembly outside functions (`global_asm!`). It needs no `unsafe`
    /// block, and could write an entry that no compiler has checked.
    #[error("kernels must not have assembly outside functions: remove `global_asm!` from {}", crates.join(", "))]
    Assembly {
        /// The crates.
        crates: Vec<String>,
    },
    /// Two crates of the kernels define one symbol. LLVM would take the one definition for the
    /// other.
    #[error(
        "the crates `{}` and `{}` both define the symbol `{symbol}`, of which LLVM would take one for the other: give \
         one of them another name; if it belongs to an entry, call its kernel otherwise",
        crates[0],
        crates[1]
    )]
    SymbolTwice {
        /// The symbol.
        symbol: String,
        /// Both crates.
        crates: [String; 2],
    },
    /// A crate of the kernels has `#![no_builtins]`, so it takes no part in the optimisation of the
    /// whole program, and the module that is proved has nothing of it.
    #[error("the crate `{krate}` has functions with the attribute `no-builtins`: remove `#![no_builtins]`")]
    NoBuiltins {
        /// The crate.
        krate: String,
    },
    /// A cargo profile adds flags of rustc to a crate of the kernels. Flags can enable features,
    /// and hide statics.
    #[error(
        "a cargo profile adds flags to the crate `{krate}`, which kernels are refused for: remove {flags} from \
         `rustflags` in the profiles of the workspace's Cargo.toml and of cargo's configuration"
    )]
    ProfileFlags {
        /// The crate.
        krate: String,
        /// The flags, as JSON.
        flags: String,
    },
    /// A cargo profile has another setting for a crate of the kernels than the build gives to all
    /// crates. The crate is then compiled in a way that the searches and the proof do not know.
    #[error(
        "a cargo profile sets `{key}` of the crate `{krate}` to {value}, which the build of kernels sets itself for all \
         crates: remove the key from `[profile.release.package]` and `[profile.cuda-rt-kernels.package]` in the \
         workspace's Cargo.toml and in cargo's configuration, or name no crate of the kernels there"
    )]
    ProfileSetting {
        /// The crate.
        krate: String,
        /// The key, as in a Cargo.toml.
        key: String,
        /// Its value, as cargo writes it in the unit graph.
        value: String,
    },
    /// A dependency of the kernels is compiled as a dynamic or static library, too. Cargo then
    /// gives its files no names of their own, and may take one crate for another.
    #[error(
        "the crate `{krate}`, on which the kernels depend, is compiled as {kinds}: remove `crate-type` from `[lib]` in its \
         Cargo.toml, or let it be `[\"lib\"]`"
    )]
    LibraryKinds {
        /// The crate.
        krate: String,
        /// Its `crate-type`, as JSON.
        kinds: String,
    },
    /// Cargo's list of all compilations was not understood, so it does not prove that a profile
    /// adds no flags.
    #[error(
        "cargo's list of compilations, the unit graph, was not understood ({what}), so the kernels are refused"
    )]
    FlagsUnknown {
        /// The part that was not understood.
        what: String,
    },
    /// A kernel has a remainder of floats. A GPU computes it by a division that is rounded, so the
    /// result is not exact.
    #[error(
        "`%` of floats is not exact on a GPU, where 1e8 % 3 is -2: call `device_std::accurate::rem` or `rem_euclid` instead in {}",
        kernels.join(", ")
    )]
    InexactRemainder {
        /// The kernels, or functions that are part of one.
        kernels: Vec<String>,
    },
    /// The kernels access some elements of a vector of `core::simd`, and leave others out. LLVM
    /// reads all elements instead, also those behind the memory.
    #[error(
        "LLVM reads elements of a vector that the program leaves out: move arrays, or one element after the other, instead of parts of a `Simd`, in {}",
        functions.join(", ")
    )]
    MaskedVector {
        /// The kernels, or functions that are part of one.
        functions: Vec<String>,
    },
    /// The kernels round an `f32`, an `f64` or an `f128` by `round`. LLVM believes more of the sign
    /// of a NaN than a GPU keeps.
    #[error(
        "LLVM believes more of the sign of a NaN in a `round` of several types than a GPU keeps: of floats, round an \
         `f16` alone by `round`, in {}",
        functions.join(", ")
    )]
    WideRounding {
        /// The kernels, or functions that are part of one.
        functions: Vec<String>,
    },
    /// A kernel keeps an array in local memory, and did not [ask](crate::Kernels::local_memory) for
    /// it. Local memory is part of device memory.
    #[error(
        "kernels keep arrays in local memory, which is slow: {}. The compiler keeps an array in registers only if it \
         knows each index: write its loops as `device_std::unroll!(for k in 0..8 {{ .. }})`, and `[values; N]` by \
         reference (`values.iter()`, not `values.into_iter()`). If an index comes from data, as in `bins[x[k] % 16]`, \
         unrolling does not help: keep the array in shared memory (`BlockUninit`), or compare the index with each place \
         in an unrolled loop. If the memory is meant, let the build script say `.local_memory(\"{}\")`",
        kernels.iter().map(|(kernel, bytes)| format!("`{kernel}` ({bytes} bytes)")).collect::<Vec<_>>().join(", "),
        kernels.first().map_or("", |(kernel, _)| kernel.as_str())
    )]
    LocalMemory {
        /// The kernels, each with its bytes for one thread.
        kernels: Vec<(String, u64)>,
    },
    /// A type or the local variables of a function are so large that LLVM's offsets may wrap: two
    /// variables would lie at one address. [`local_memory`](crate::Kernels::local_memory) does not
    /// lift this limit.
    #[error(
        "{what}: more than {most} bytes, so the compiler may lay two variables at one address, whatever \
         `.local_memory(..)` asks for. Use smaller arrays, or pass the values to the kernel in a slice"
    )]
    TooLarge {
        /// What is too large, and its function.
        what: String,
        /// The limit in bytes.
        most: u128,
    },
    /// A name given to [`local_memory`](crate::Kernels::local_memory) is the name of no kernel.
    #[error(
        "`.local_memory(\"{name}\")` names no kernel: write the name of a function, without its module. The kernels are {}",
        kernels.iter().map(|kernel| format!("`{kernel}`")).collect::<Vec<_>>().join(", ")
    )]
    NoSuchKernel {
        /// The name.
        name: String,
        /// The names of all kernels.
        kernels: Vec<String>,
    },
    /// The verifier refuses the PTX: the compiler produced code that the types of the sources do
    /// not allow, or code that cannot be proved.
    #[error("the PTX of the kernels is refused: {0}")]
    Refused(#[from] Refusal),
    /// An entry lacks its layout table.
    #[error("the entry `{entry}` has no layout table: did another version of `#[kernel]` make it?")]
    NoLayoutTable {
        /// The entry.
        entry: String,
    },
    /// The kernels depend on another version of `cuda-handoff-device` than this package's own: the
    /// proof knows the tables and the marks of its own version only.
    #[error(
        "the entry `{entry}` was made by another version of cuda-handoff-device than {}, the version of \
         cuda-handoff-build: give both one version, for example by `cargo update` in the packages of the program and \
         of the kernels",
        env!("CARGO_PKG_VERSION")
    )]
    OtherVersion {
        /// The entry.
        entry: String,
    },
    /// [`build`](crate::Kernels::build) was called outside a build script.
    #[error("OUT_DIR is not set: outside a build script, use `Kernels::compile` with a target directory")]
    NoOutDir,
    /// A file could not be read or written.
    #[error("{}: {reason}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        reason: io::Error,
    },
}

impl BuildError {
    pub(crate) fn not_a_crate(path: impl Into<PathBuf>, reason: String) -> Self {
        Self::NotAKernelCrate {
            path: path.into(),
            reason,
        }
    }

    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |reason| Self::Io { path, reason }
    }
}
