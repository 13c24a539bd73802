//! [`NvrtcOptions`]: the architecture, the macros and the headers of a compilation.

use super::NvrtcError;
use super::texts::may_read_files;
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

/// More text than this is refused. NVRTC confuses names of 2^24 characters: a header's name of this
/// length, made by a macro, ended the process by a signal.
pub(super) const MAX_BYTES: usize = 1 << 24;

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
    flags: Vec<Flag>,
}

/// A flag that a user passes on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Flag {
    text: String,
    /// Whether the user promised what [`NvrtcOptions::flag_unchecked`] asks for.
    is_promised: bool,
}

/// What may stand behind a flag's name.
enum Value {
    /// Nothing.
    None,
    /// `=true` or `=false`.
    Bool,
    /// `=` and a number from 0 to this one, of digits only.
    Number(u32),
    /// `=` and one of these.
    One(&'static [&'static str]),
    /// `=` and any text.
    Text,
    /// Any text, also without a `=` before it.
    Joined,
}

/// The flags that safe code may pass, as NVRTC's documentation calls them (section "Supported
/// Compile Options"), without the dashes. They change how text is compiled, and what is said of it.
/// They read no files but text, and write none. Counterexample: a precompiled header
/// (`--use-pch`) is an image of the compiler's memory, whose pointers the compiler follows.
const PERMITTED: [(&[&str], Value); 31] = [
    (&["device-debug", "G"], Value::None),
    (&["generate-line-info", "lineinfo"], Value::None),
    (&["use_fast_math"], Value::None),
    (&["extra-device-vectorization"], Value::None),
    (&["disable-warnings", "w"], Value::None),
    (&["restrict"], Value::None),
    (
        &["device-as-default-execution-space", "default-device"],
        Value::None,
    ),
    (&["device-int128"], Value::None),
    (&["device-float128"], Value::None),
    (&["display-error-number", "err-no"], Value::None),
    (&["no-display-error-number", "no-err-no"], Value::None),
    (&["no-source-include"], Value::None),
    (&["minimal"], Value::None),
    (&["dopt"], Value::One(&["on"])),
    (&["ftz"], Value::Bool),
    (&["prec-sqrt"], Value::Bool),
    (&["prec-div"], Value::Bool),
    (&["fmad"], Value::Bool),
    (&["modify-stack-limit"], Value::Bool),
    (&["device-stack-protector"], Value::Bool),
    (&["brief-diagnostics", "brief-diag"], Value::Bool),
    (&["relocatable-device-code", "rdc"], Value::Bool),
    // The registers that a thread can have on any GPU.
    (&["maxrregcount"], Value::Number(255)),
    // What NVRTC says of other numbers: "must be between [0-101]". Of 2^31 it says nothing: it
    // throws an exception, which the caller would have to catch.
    (&["jump-table-density"], Value::Number(101)),
    (
        &["ptxas-options", "Xptxas"],
        Value::One(&["-v", "-O0", "-O1", "-O2", "-O3"]),
    ),
    (&["std"], Value::Text),
    (&["diag-error", "diag-suppress", "diag-warn"], Value::Text),
    (&["define-macro", "undefine-macro"], Value::Text),
    (&["include-path"], Value::Text),
    (&["pre-include", "include"], Value::Text),
    (&["D", "U", "I"], Value::Joined),
];

/// Refuses a flag that safe code may not pass.
fn check_flag(flag: &str) -> Result<(), NvrtcError> {
    let refused = || NvrtcError::Flag {
        flag: flag.to_owned(),
    };
    let dashed = flag;
    let flag = dashed.strip_prefix("--").or_else(|| dashed.strip_prefix('-'));
    let flag = flag.ok_or_else(refused)?;
    let (name, value) = match flag.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (flag, None),
    };
    let is_permitted = |(names, permitted): &(&[&str], Value)| match permitted {
        Value::Joined => names
            .iter()
            .any(|name| flag.strip_prefix(name).is_some_and(is_joined)),
        _ if !names.contains(&name) => false,
        Value::None => value.is_none(),
        Value::Bool => matches!(value, Some("true" | "false")),
        Value::Number(most) => value.is_some_and(|value| is_number(value, *most)),
        Value::One(values) => value.is_some_and(|value| values.contains(&value)),
        Value::Text => value.is_some_and(|value| !value.is_empty()),
    };
    if PERMITTED.iter().any(is_permitted) {
        return Ok(());
    }
    let most = PERMITTED.iter().find_map(|(names, permitted)| match permitted {
        Value::Number(most) if names.contains(&name) => Some(*most),
        _ => None,
    });
    Err(match most {
        Some(most) => NvrtcError::FlagNumber {
            flag: dashed.to_owned(),
            most,
        },
        None => refused(),
    })
}

/// Whether a text is a number of digits only, from 0 to `most`.
fn is_number(text: &str, most: u32) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse().is_ok_and(|number: u32| number <= most)
}

/// Whether a text may follow a flag of one letter. NVRTC takes the first character for the text's,
/// also if it is a blank or a `=`.
fn is_joined(text: &str) -> bool {
    !text.is_empty()
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

    /// A flag of NVRTC, as its documentation writes it, in one text: `--maxrregcount=32`.
    ///
    /// These may be passed, also by their short names: `--device-debug`, `--generate-line-info`,
    /// `--use_fast_math`, `--extra-device-vectorization`, `--disable-warnings`, `--restrict`,
    /// `--device-as-default-execution-space`, `--device-int128`, `--device-float128`,
    /// `--[no-]display-error-number`, `--no-source-include`, `--minimal`, `--dopt=on`, `--ftz=`,
    /// `--prec-sqrt=`, `--prec-div=`, `--fmad=`, `--modify-stack-limit=`,
    /// `--device-stack-protector=`, `--brief-diagnostics=`, `--relocatable-device-code=`,
    /// `--maxrregcount=` from 0 to 255, `--jump-table-density=` from 0 to 101, `--ptxas-options=`
    /// with `-v` or `-O0` to `-O3`, `--std=`, `--diag-error=`, `--diag-suppress=`, `--diag-warn=`,
    /// `--define-macro=`, `--undefine-macro=`, `--include-path=` and `--pre-include=`.
    ///
    /// With another flag the compilation is an [`NvrtcError::Flag`], and with another number an
    /// [`NvrtcError::FlagNumber`]: [`flag_unchecked`](Self::flag_unchecked) passes any.
    ///
    /// ```
    /// use cuda_rt::interop::{Nvrtc, NvrtcError, NvrtcOptions};
    ///
    /// if let Ok(nvrtc) = Nvrtc::load() {
    ///     let options = NvrtcOptions::for_capability((9, 0)).flag("--use-pch=of_a_stranger");
    ///     let error = nvrtc.compile("", &options).unwrap_err();
    ///     assert!(matches!(error, NvrtcError::Flag { .. }));
    /// }
    /// ```
    pub fn flag(mut self, flag: impl Into<String>) -> Self {
        self.flags.push(Flag {
            text: flag.into(),
            is_promised: false,
        });
        self
    }

    /// Any flag of NVRTC. A result with such a flag is not kept.
    ///
    /// # Safety
    /// NVRTC trusts what the flag makes it read. A precompiled header (`--use-pch`, `--pch`, also
    /// in an `--options-file`) is an image of the compiler's memory: it was written by this version
    /// of NVRTC, and nobody has changed it. NVRTC also trusts the flag itself: its values are in
    /// the ranges that NVRTC documents. Files that a flag makes NVRTC write are used by nothing
    /// else meanwhile.
    ///
    /// ```
    /// use cuda_rt::interop::NvrtcOptions;
    ///
    /// // SAFETY: the flag reads no file, and nothing else uses the file that it writes.
    /// let options =
    ///     unsafe { NvrtcOptions::for_capability((9, 0)).flag_unchecked("--time=times.csv") };
    /// ```
    pub unsafe fn flag_unchecked(mut self, flag: impl Into<String>) -> Self {
        self.flags.push(Flag {
            text: flag.into(),
            is_promised: true,
        });
        self
    }

    /// Refuses more text than NVRTC can tell apart.
    pub(super) fn check_size(&self, source: &str) -> Result<(), NvrtcError> {
        let pairs = self.defines.iter().chain(&self.headers);
        let texts = pairs.flat_map(|(name, text)| [name, text]);
        let texts = texts.chain(self.flags.iter().map(|flag| &flag.text));
        let texts = texts.chain([&self.name]).map(String::as_str).chain([source]);
        let bytes = texts.fold(0_usize, |bytes, text| bytes.saturating_add(text.len()));
        if bytes < MAX_BYTES {
            Ok(())
        } else {
            Err(NvrtcError::TooLarge { bytes })
        }
    }

    /// Refuses flags, and names that NVRTC would read as flags.
    pub(super) fn check(&self) -> Result<(), NvrtcError> {
        let unpromised = self.flags.iter().filter(|flag| !flag.is_promised);
        unpromised.map(|flag| &*flag.text).try_for_each(check_flag)?;
        let headers = self.headers.iter().map(|(name, _)| name);
        match std::iter::once(&self.name)
            .chain(headers)
            .find(|name| name.starts_with('-'))
        {
            Some(name) => Err(NvrtcError::Name { name: name.clone() }),
            None => Ok(()),
        }
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

    /// Whether the compiler may read files, which may change between two compilations.
    pub(super) fn may_read_files(&self, source: &str) -> bool {
        let reads = |flag: &Flag| {
            let name = flag.text.trim_start_matches('-');
            flag.is_promised
                || name.starts_with('I')
                || name.starts_with("include")
                || name.starts_with("pre-include")
        };
        let names: Vec<&str> = self.headers().map(|(name, _)| name).collect();
        let texts = self.headers().map(|(_, text)| text).chain([source]);
        self.flags.iter().any(reads) || texts.into_iter().any(|text| may_read_files(text, &names))
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
        flags.extend(self.flags.iter().map(|flag| flag.text.clone()));
        flags
    }
}
