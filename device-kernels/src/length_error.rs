//! [`LengthError`]: lengths that a function of this package refuses before it launches anything.

use std::error::Error as StdError;
use std::fmt;
use std::panic::Location;

/// Lengths that do not fit each other, in a call of [`softmax`](crate::softmax),
/// [`layer_norm`](crate::layer_norm), [`inclusive_scan`](crate::inclusive_scan) or
/// [`exclusive_scan`](crate::exclusive_scan). Nothing was enqueued.
///
/// The functions return it in [`Error::Library`](cuda_rt::Error::Library).
///
/// ```
/// # cuda_rt::streams! { pub Compute; }
/// use device_kernels::{LengthError, Mismatch};
///
/// # let gpu = cuda_rt::Device::open_or_simulate()?;
/// # let compute = gpu.stream::<Compute>()?;
/// let input = compute.alloc_zeroed::<f32>(12)?;
/// let mut output = compute.alloc_zeroed::<f32>(12)?;
/// let error = device_kernels::softmax(&compute, &input, &mut output, 5).unwrap_err();
/// let cuda_rt::Error::Library(error) = error else {
///     panic!("{error}");
/// };
/// let error = error.downcast_ref::<LengthError>().expect("lengths");
/// assert_eq!((error.function, error.why), ("softmax", Mismatch::Width { width: 5, output: 12 }));
/// # Ok::<(), cuda_rt::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LengthError {
    /// The function that was called.
    pub function: &'static str,
    /// The place of the call.
    pub called_at: &'static Location<'static>,
    /// The lengths.
    pub why: Mismatch,
}

/// The lengths of a [`LengthError`], in elements.
///
/// ```
/// use device_kernels::Mismatch;
///
/// fn advice(why: Mismatch) -> &'static str {
///     match why {
///         Mismatch::Words { .. } => "allocate `scan_words::<T>(len)` words",
///         _ => "compare the shapes",
///     }
/// }
/// assert!(advice(Mismatch::Words { words: 2, needed: 3 }).contains("scan_words"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mismatch {
    /// The input and the output have other lengths.
    Input {
        /// Elements of the input.
        input: usize,
        /// Elements of the output.
        output: usize,
    },
    /// The output is not made of whole rows.
    Width {
        /// Elements of a row.
        width: usize,
        /// Elements of the output.
        output: usize,
    },
    /// The weights or the biases are not as many as the elements of a row.
    Columns {
        /// Elements of the weights.
        weight: usize,
        /// Elements of the biases.
        bias: usize,
        /// Elements of a row.
        width: usize,
    },
    /// A scan has too few words ([`scan_words`](crate::scan_words)).
    Words {
        /// The words that were passed.
        words: usize,
        /// The words that the scan needs.
        needed: usize,
    },
}

impl LengthError {
    /// The error of the call whose place is the caller's.
    #[cold]
    #[track_caller]
    pub(crate) fn of(function: &'static str, why: Mismatch) -> cuda_rt::Error {
        let called_at = Location::caller();
        cuda_rt::Error::Library(Box::new(Self {
            function,
            called_at,
            why,
        }))
    }
}

impl fmt::Display for LengthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            function,
            called_at,
            why,
        } = self;
        write!(f, "{function} ({}:{}): ", called_at.file(), called_at.line())?;
        match why {
            Mismatch::Input { input, output } => write!(
                f,
                "the input has {input} elements, the output {output}: pass slices of one length"
            ),
            Mismatch::Width { width: 0, .. } => f.write_str("the width is 0: pass the elements of a row"),
            Mismatch::Width { width, .. } if u32::try_from(*width).is_err() => {
                write!(f, "the width is {width}: a row has fewer than 2^32 elements")
            }
            Mismatch::Width { width, output } => write!(
                f,
                "the output has {output} elements, which is no multiple of the width {width}: pass whole rows"
            ),
            Mismatch::Columns { weight, bias, width } => write!(
                f,
                "weight has {weight} elements, bias {bias}, and a row {width}: pass one of each for each column"
            ),
            Mismatch::Words { words, needed } => write!(
                f,
                "{words} words were passed, and the scan needs {needed}: allocate `scan_words::<T>(output.len())` of \
                 them with `alloc_zeroed`"
            ),
        }
    }
}

impl StdError for LengthError {}
