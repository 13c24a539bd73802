//! [`NvrtcOptions`]: the architecture, the macros and the headers of a compilation.

use crate::device::Device;

/// A standard of C++.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CppStandard {
    /// C++11.
    Cpp11,
    /// C++14.
    Cpp14,
    /// C++17.
    Cpp17,
    /// C++20, from NVRTC 12.0 on.
    Cpp20,
}

impl CppStandard {
    fn flag(self) -> &'static str {
        match self {
            Self::Cpp11 => "--std=c++11",
            Self::Cpp14 => "--std=c++14",
            Self::Cpp17 => "--std=c++17",
            Self::Cpp20 => "--std=c++20",
        }
    }
}

/// The options of a compilation by [`Nvrtc`](super::Nvrtc).
///
/// ```
/// use cuda_rt::interop::{CppStandard, NvrtcOptions};
///
/// let options = NvrtcOptions::for_capability((9, 0))
///     .named("blur.cu") // in the log
///     .standard(CppStandard::Cpp17)
///     .define("RADIUS", "3")
///     .header("pixel.h", "struct Pixel { float r, g, b, a; };") // for `#include "pixel.h"`
///     .flag("--use_fast_math");
/// assert_ne!(options, options.clone().cubin());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use = "options are given to `Nvrtc::compile`"]
pub struct NvrtcOptions {
    name: String,
    capability: (u32, u32),
    is_cubin: bool,
    standard: Option<CppStandard>,
    defines: Vec<(String, String)>,
    headers: Vec<(String, String)>,
    flags: Vec<String>,
}

impl NvrtcOptions {
    /// PTX for the compute capability of `device`.
    ///
    /// ```
    /// # use cuda_rt::interop::NvrtcOptions;
    /// let gpu = cuda_rt::Device::open_or_simulate()?;
    /// let capability = gpu.properties().compute_capability;
    /// assert_eq!(NvrtcOptions::for_device(&gpu), NvrtcOptions::for_capability(capability));
    /// # Ok::<(), cuda_rt::Error>(())
    /// ```
    pub fn for_device<D>(device: &Device<D>) -> Self {
        Self::for_capability(device.core().driver().properties().compute_capability)
    }

    /// PTX for a compute capability, (major, minor). If the library does not know it yet, the
    /// newest older one that it knows is taken.
    pub fn for_capability(capability: (u32, u32)) -> Self {
        Self {
            name: "source.cu".to_owned(),
            capability,
            is_cubin: false,
            standard: None,
            defines: Vec::new(),
            headers: Vec::new(),
            flags: Vec::new(),
        }
    }

    /// The name of the source in the log; otherwise it is `source.cu`.
    pub fn named(self, name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..self
        }
    }

    /// A cubin instead of PTX: code for exactly this architecture and its family, which the driver
    /// need not compile. Also for a driver that is older than the library, and knows no PTX of its
    /// version.
    pub fn cubin(self) -> Self {
        Self {
            is_cubin: true,
            ..self
        }
    }

    /// The standard of C++ (`--std`); otherwise it is the library's default.
    pub fn standard(self, standard: CppStandard) -> Self {
        Self {
            standard: Some(standard),
            ..self
        }
    }

    /// Defines a macro (`--define-macro`).
    pub fn define(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.defines.push((name.into(), value.into()));
        self
    }

    /// The text of a header that the source includes by this name.
    pub fn header(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.headers.push((name.into(), text.into()));
        self
    }

    /// A flag of NVRTC, as its documentation writes it.
    pub fn flag(mut self, flag: impl Into<String>) -> Self {
        self.flags.push(flag.into());
        self
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn capability(&self) -> (u32, u32) {
        self.capability
    }

    pub(super) fn is_cubin(&self) -> bool {
        self.is_cubin
    }

    /// Whether a flag lets the compiler read files, which may change between two compilations.
    pub(super) fn reads_files(&self) -> bool {
        const READING: [&str; 6] = [
            "-I",
            "--include-path",
            "-include",
            "--pre-include",
            "-optf",
            "--options-file",
        ];
        let reads = |flag: &String| {
            READING
                .iter()
                .any(|reading| flag.trim_start().starts_with(reading))
        };
        self.flags.iter().any(reads)
    }

    pub(super) fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers.iter().map(|(name, text)| (&**name, &**text))
    }

    /// The flags for the compiler, with this architecture.
    pub(super) fn flags(&self, (major, minor): (u32, u32)) -> Vec<String> {
        let kind = if self.is_cubin { "sm" } else { "compute" };
        let mut flags = vec![format!("--gpu-architecture={kind}_{major}{minor}")];
        flags.extend(self.standard.map(|standard| standard.flag().to_owned()));
        let defines = self.defines.iter();
        flags.extend(defines.map(|(name, value)| format!("--define-macro={name}={value}")));
        flags.extend(self.flags.iter().cloned());
        flags
    }
}
