//! Printing from kernels, for debugging.

use core::marker::PhantomData;

mod sealed {
    pub trait Sealed {}
}

/// Prints from a kernel, for debugging: `device_std::print!("thread {} has {}\n", i.get(), value)`.
///
/// Each thread that runs the macro prints. In block-level code, every thread of the block prints on
/// a GPU, but the simulated device prints once.
///
/// On a GPU the macro calls CUDA's `vprintf`. The text goes into a buffer of 1 MiB, in which new
/// text replaces the oldest. When the host next synchronizes, the text appears on the standard
/// output of the process. A kernel that prints needs more registers, and local memory.
///
/// The simulated device writes the text to standard output as the call ends that ran the kernel, on
/// the thread of the call. While another thread writes text of this device, that thread writes this
/// text too. An error of standard output, such as a closed pipe, loses text and nothing else.
///
/// The text takes up to eight integers, floats and `bool`s, one for each `{}`; `{{` and `}}` print
/// braces. On a GPU, floats have six digits (`%g`); the simulated device prints them as Rust does.
/// If the number of arguments differs from the number of `{}`, the crate does not build.
///
/// ```
/// # use device_std::prelude::*;
/// fn show(i: Index1, values: &[f32]) {
///     if let Some(value) = values.get(i.get()) {
///         device_std::print!("thread {} has {}\n", i.get(), *value);
///     }
/// }
/// ```
#[macro_export]
macro_rules! print {
    ($format:literal $(, $argument:expr)* $(,)?) => {
        // The arguments stand outside the block: inside, `__Format` is this macro's own type.
        match ($($argument,)*) {
            arguments @ _ => {
                enum __Format {}
                impl $crate::print::Format for __Format {
                    const TEXT: &'static $crate::__private::core::primitive::str = $format;
                }
                $crate::print::print::<__Format, _>(arguments)
            }
        }
    };
}

/// The text of one `print!`.
#[doc(hidden)]
pub trait Format {
    const TEXT: &'static str;
}

/// A type that `print!` can print: an integer, a float or `bool`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be printed from a kernel",
    label = "not a number",
    note = "`device_std::print!` prints integers, floats and `bool`"
)]
pub trait Printable: Copy + sealed::Sealed {
    /// The specifier with which C prints the type.
    #[doc(hidden)]
    const SPECIFIER: &'static str;
    /// The type as which C passes the value.
    #[doc(hidden)]
    type Promoted: Copy;
    #[doc(hidden)]
    fn promote(self) -> Self::Promoted;
    #[cfg(not(target_arch = "nvptx64"))]
    #[doc(hidden)]
    fn show(&self) -> String;
}

macro_rules! printables {
    ($($type:ident as $promoted:ident = $specifier:literal;)*) => { $(
        impl sealed::Sealed for $type {}
        impl Printable for $type {
            const SPECIFIER: &'static str = $specifier;
            type Promoted = $promoted;
            #[inline(always)]
            fn promote(self) -> $promoted {
                self as $promoted
            }
            #[cfg(not(target_arch = "nvptx64"))]
            fn show(&self) -> String {
                self.to_string()
            }
        }
    )* };
}
printables! {
    bool as u32 = "%u";
    u8 as u32 = "%u";
    u16 as u32 = "%u";
    u32 as u32 = "%u";
    i8 as i32 = "%d";
    i16 as i32 = "%d";
    i32 as i32 = "%d";
    u64 as u64 = "%llu";
    usize as u64 = "%llu";
    i64 as i64 = "%lld";
    isize as i64 = "%lld";
    f32 as f64 = "%g";
    f64 as f64 = "%g";
}

/// The arguments of one `print!`.
#[doc(hidden)]
pub trait Arguments: sealed::Sealed {
    const SPECIFIERS: &'static [&'static str];
    /// The arguments as `vprintf` reads them: one after the other, each aligned to its own size.
    type Packed: Copy;
    fn pack(self) -> Self::Packed;
    #[cfg(not(target_arch = "nvptx64"))]
    fn show(&self) -> Vec<String>;
}

macro_rules! arguments {
    ($($packed:ident($($type:ident $field:ident),*);)*) => { $(
        #[doc(hidden)]
        #[derive(Clone, Copy, Debug)]
        #[repr(C)]
        pub struct $packed<$($type),*>($($type),*);

        impl<$($type: Printable),*> sealed::Sealed for ($($type,)*) {}
        impl<$($type: Printable),*> Arguments for ($($type,)*) {
            const SPECIFIERS: &'static [&'static str] = &[$($type::SPECIFIER),*];
            type Packed = $packed<$($type::Promoted),*>;
            #[inline(always)]
            fn pack(self) -> Self::Packed {
                let ($($field,)*) = self;
                $packed($($field.promote()),*)
            }
            #[cfg(not(target_arch = "nvptx64"))]
            fn show(&self) -> Vec<String> {
                let ($($field,)*) = self;
                vec![$($field.show()),*]
            }
        }
    )* };
}
arguments! {
    Packed0();
    Packed1(A a);
    Packed2(A a, B b);
    Packed3(A a, B b, C c);
    Packed4(A a, B b, C c, D d);
    Packed5(A a, B b, C c, D d, E e);
    Packed6(A a, B b, C c, D d, E e, F f);
    Packed7(A a, B b, C c, D d, E e, F f, G g);
    Packed8(A a, B b, C c, D d, E e, F f, G g, H h);
}

/// Size of the text for C, in bytes, with the zero at its end.
const CAPACITY: usize = 512;

struct Compiled<F, A>(PhantomData<(F, A)>);

impl<F: Format, A: Arguments> Compiled<F, A> {
    const TEXT: [u8; CAPACITY] = compile(F::TEXT.as_bytes(), A::SPECIFIERS);
}

/// Translates Rust's `{}` to C's specifiers, such as `%u`.
const fn compile(text: &[u8], specifiers: &[&str]) -> [u8; CAPACITY] {
    let mut out = [0; CAPACITY];
    let (mut from, mut to, mut argument) = (0, 0, 0);
    while from < text.len() {
        let next = if from + 1 < text.len() { text[from + 1] } else { 0 };
        assert!(to + 8 < CAPACITY, "`print!` takes a text of up to 500 bytes");
        match (text[from], next) {
            (b'{', b'{') | (b'}', b'}') => {
                out[to] = next;
                (from, to) = (from + 2, to + 1);
            }
            (b'{', b'}') => {
                assert!(
                    argument < specifiers.len(),
                    "`print!` has more pairs of braces than arguments"
                );
                let specifier = specifiers[argument].as_bytes();
                let mut at = 0;
                while at < specifier.len() {
                    out[to + at] = specifier[at];
                    at += 1;
                }
                (from, to, argument) = (from + 2, to + at, argument + 1);
            }
            (b'{' | b'}', _) => {
                panic!("`print!` takes an empty pair of braces only; write a brace twice to print it")
            }
            (b'%', _) => {
                (out[to], out[to + 1]) = (b'%', b'%');
                (from, to) = (from + 1, to + 2);
            }
            (0, _) => panic!("the text of `print!` must not contain a zero byte"),
            (byte, _) => {
                out[to] = byte;
                (from, to) = (from + 1, to + 1);
            }
        }
    }
    assert!(
        argument == specifiers.len(),
        "`print!` has more arguments than pairs of braces"
    );
    out
}

#[cfg(target_arch = "nvptx64")]
#[doc(hidden)]
#[inline(always)]
pub fn print<F: Format, A: Arguments>(arguments: A) {
    unsafe extern "C" {
        fn vprintf(format: *const u8, arguments: *const core::ffi::c_void) -> i32;
    }
    let text: &'static [u8; CAPACITY] = const { &Compiled::<F, A>::TEXT };
    let packed = arguments.pack();
    // SAFETY: `compile` ends the text in a zero, and writes one specifier for each packed argument,
    // of its type.
    unsafe { vprintf(text.as_ptr(), (&raw const packed).cast()) };
}

#[cfg(not(target_arch = "nvptx64"))]
#[doc(hidden)]
pub fn print<F: Format, A: Arguments>(arguments: A) {
    // Evaluated on the host too, so that a text that does not build for a GPU does not build at
    // all.
    const { assert!(Compiled::<F, A>::TEXT[CAPACITY - 1] == 0) };
    let shown = arguments.show();
    let text = text(F::TEXT, &shown);
    if COLLECTS.get() {
        COLLECTED.with(|collected| collected.borrow_mut().push_str(&text));
    } else {
        write(&text);
    }
}

#[cfg(not(target_arch = "nvptx64"))]
std::thread_local! {
    // They have no destructors, so they exist as long as their thread.
    /// Whether this thread collects what it prints.
    static COLLECTS: core::cell::Cell<bool> = const { core::cell::Cell::new(false) };
    static COLLECTED: core::mem::ManuallyDrop<core::cell::RefCell<String>> =
        const { core::mem::ManuallyDrop::new(core::cell::RefCell::new(String::new())) };
}

/// Runs `kernel`, a simulated kernel. Text that it prints waits for [`take`]: the kernel runs under
/// the locks of a device, where it must not wait for a thread that has locked standard output.
#[cfg(not(target_arch = "nvptx64"))]
#[doc(hidden)]
pub fn collect<R>(kernel: impl FnOnce() -> R) -> R {
    struct Until(bool);
    impl Drop for Until {
        fn drop(&mut self) {
            COLLECTS.set(self.0);
        }
    }
    let _until = Until(COLLECTS.replace(true));
    kernel()
}

/// Takes the text that kernels have printed on this thread inside [`collect`].
#[cfg(not(target_arch = "nvptx64"))]
#[doc(hidden)]
pub fn take() -> String {
    COLLECTED.with(|collected| collected.take())
}

/// Writes to standard output, or to the output that a test captures. Errors are ignored.
#[cfg(not(target_arch = "nvptx64"))]
#[doc(hidden)]
pub fn write(text: &str) {
    struct Ignoring<'a>(&'a str);
    impl core::fmt::Display for Ignoring<'_> {
        fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
            // `print!` panics for an error that it is told of.
            let _ = f.write_str(self.0);
            Ok(())
        }
    }
    std::print!("{}", Ignoring(text));
    let _ = std::io::Write::flush(&mut std::io::stdout());
}

#[cfg(not(target_arch = "nvptx64"))]
fn text(format: &str, arguments: &[String]) -> String {
    let mut out = String::new();
    let (mut rest, mut arguments) = (format, arguments.iter());
    while let Some(at) = rest.find(['{', '}']) {
        let (before, from) = rest.split_at(at);
        let (pair, after) = from.split_at(2);
        out.push_str(before);
        match pair {
            "{}" => out.push_str(arguments.next().map_or("", String::as_str)),
            pair => out.push_str(&pair[..1]),
        }
        rest = after;
    }
    out + rest
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use super::*;

    fn c(text: &str, specifiers: &[&str]) -> String {
        let bytes = compile(text.as_bytes(), specifiers);
        let end = bytes.iter().position(|byte| *byte == 0).unwrap();
        String::from_utf8(bytes[..end].to_vec()).unwrap()
    }

    #[test]
    fn texts_become_formats_of_c() {
        assert_eq!(c("", &[]), "");
        assert_eq!(c("x = {}, 100 %\n", &["%u"]), "x = %u, 100 %%\n");
        assert_eq!(c("{}{}", &["%g", "%lld"]), "%g%lld");
        assert_eq!(c("{{{}}}", &["%d"]), "{%d}");
        assert_eq!(c("µ {}", &["%d"]), "µ %d");
    }

    #[test]
    fn the_host_prints_the_same_text() {
        assert_eq!(
            text("{{{}}} {} %\n", &["1".to_owned(), "2.5".to_owned()]),
            "{1} 2.5 %\n"
        );
    }

    #[test]
    fn a_simulated_kernel_prints_to_the_collected_text() {
        let prints = || {
            super::super::print!("{} of ", 1_u32);
            super::super::print!("{}\n", 2_u32);
        };
        collect(prints);
        let unwound = std::panic::catch_unwind(|| {
            collect(|| {
                super::super::print!("3");
                panic!("of the test")
            })
        });
        assert!(unwound.is_err() && !COLLECTS.get());
        assert_eq!((take(), take()), ("1 of 2\n3".to_owned(), String::new()));
    }

    #[test]
    #[should_panic(expected = "more pairs of braces than arguments")]
    fn an_argument_that_is_missing_is_refused() {
        c("{} {}", &["%d"]);
    }

    #[test]
    #[should_panic(expected = "more arguments than pairs of braces")]
    fn an_argument_too_many_is_refused() {
        c("{}", &["%d", "%d"]);
    }

    #[test]
    #[should_panic(expected = "an empty pair of braces only")]
    fn other_formats_are_refused() {
        c("{:x}", &["%d"]);
    }

    #[test]
    #[should_panic(expected = "up to 500 bytes")]
    fn a_text_that_does_not_fit_is_refused() {
        c(&"x".repeat(600), &[]);
    }

    /// A C compiler lays out a structure of the promoted arguments in the same way.
    #[test]
    fn arguments_are_packed_as_c_packs_them() {
        assert_eq!(size_of::<Packed3<u32, f64, i32>>(), 24);
        assert_eq!(core::mem::offset_of!(Packed3<u32, f64, i32>, 1), 8);
        assert_eq!(core::mem::offset_of!(Packed2<u32, i32>, 1), 4);
        let Packed3(a, b, c) = (true, 1.5f32, -3i8).pack();
        assert_eq!((a, b, c), (1u32, 1.5f64, -3i32));
    }
}
