//! The atomic operations. On the device, the instruction names its scope and its memory. rustc's
//! own atomics name neither: the scope is then `.gpu`, the order is relaxed, and LLVM finds the
//! memory.

use core::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64, Ordering};

#[cfg(target_arch = "nvptx64")]
use super::place::Kind;
use super::place::Place;
use crate::element::Element;

mod sealed {
    pub trait Sealed {}
}

/// An element that the hardware changes atomically: `u32`, `i32`, `u64`, `i64`, `f32` or `f64`. For
/// floats, the operations are add, swap, load and store.
pub trait AtomicElement: Element + sealed::Sealed {
    /// # Safety
    /// `at` is valid and aligned, and lies in the memory that `P` names. All concurrent access to
    /// it is atomic, by threads inside the scope of `P`.
    #[doc(hidden)]
    unsafe fn fetch_add<P: Place>(at: *mut Self, value: Self) -> Self;
    /// # Safety
    /// As [`fetch_add`](Self::fetch_add).
    #[doc(hidden)]
    unsafe fn swap<P: Place>(at: *mut Self, value: Self) -> Self;
    /// # Safety
    /// As [`fetch_add`](Self::fetch_add).
    #[doc(hidden)]
    unsafe fn load<P: Place>(at: *mut Self) -> Self;
    /// # Safety
    /// As [`fetch_add`](Self::fetch_add).
    #[doc(hidden)]
    unsafe fn store<P: Place>(at: *mut Self, value: Self);
}

macro_rules! declared {
    ($($name:ident)*) => {
        /// An [`AtomicElement`] that is an integer.
        pub trait AtomicInteger: AtomicElement {
            $(
                /// # Safety
                /// As [`AtomicElement::fetch_add`].
                #[doc(hidden)]
                unsafe fn $name<P: Place>(at: *mut Self, value: Self) -> Self;
            )*
            /// # Safety
            /// As [`AtomicElement::fetch_add`].
            #[doc(hidden)]
            unsafe fn compare_exchange<P: Place>(at: *mut Self, current: Self, new: Self) -> Self;
        }
    };
}
declared!(fetch_max fetch_min fetch_and fetch_or fetch_xor);

/// One instruction for each scope and kind of memory. `$before` stands before scope and memory in
/// its text, and `$after`, with the operands, stands after them.
#[cfg(target_arch = "nvptx64")]
macro_rules! instruction {
    ($place:ident, $before:literal, $after:literal, $at:ident, $($operands:tt)*) => {
        match $place::KIND {
            // SAFETY, of each: the caller says that the element is valid, aligned and in this
            // memory; the instruction touches nothing but the element.
            Kind::Shared => unsafe {
                core::arch::asm!(
                    concat!("{{\n\t.reg .b64 address;\n\tcvta.to.shared.u64 address, {at};\n\t", $before, ".relaxed.cta.shared.", $after, ";\n\t}}"),
                    at = in(reg64) $at, $($operands)*, options(nostack)
                )
            },
            Kind::Block => unsafe {
                core::arch::asm!(
                    concat!("{{\n\t.reg .b64 address;\n\tcvta.to.global.u64 address, {at};\n\t", $before, ".relaxed.cta.global.", $after, ";\n\t}}"),
                    at = in(reg64) $at, $($operands)*, options(nostack)
                )
            },
            Kind::Device => unsafe {
                core::arch::asm!(
                    concat!("{{\n\t.reg .b64 address;\n\tcvta.to.global.u64 address, {at};\n\t", $before, ".relaxed.gpu.global.", $after, ";\n\t}}"),
                    at = in(reg64) $at, $($operands)*, options(nostack)
                )
            },
            Kind::System => unsafe {
                core::arch::asm!(
                    concat!("{{\n\t.reg .b64 address;\n\tcvta.to.global.u64 address, {at};\n\t", $before, ".relaxed.sys.global.", $after, ";\n\t}}"),
                    at = in(reg64) $at, $($operands)*, options(nostack)
                )
            },
        }
    };
}

/// `load` and `store`, of an integer or of a float's bits.
macro_rules! moves {
    ($register:ident, $load:literal, $store:literal, $atomic:ident) => {
        #[inline(always)]
        unsafe fn load<P: Place>(at: *mut Self) -> Self {
            #[cfg(target_arch = "nvptx64")]
            return {
                let value: Self;
                instruction!(P, "ld", $load, at, value = out($register) value);
                value
            };
            #[cfg(not(target_arch = "nvptx64"))]
            // SAFETY: the caller says that the element is valid and aligned, and that all
            // concurrent access is atomic.
            return bytemuck::cast(unsafe { $atomic::from_ptr(at.cast()) }.load(Ordering::Relaxed));
        }

        #[inline(always)]
        unsafe fn store<P: Place>(at: *mut Self, value: Self) {
            #[cfg(target_arch = "nvptx64")]
            instruction!(P, "st", $store, at, value = in($register) value);
            #[cfg(not(target_arch = "nvptx64"))]
            // SAFETY: the caller says that the element is valid and aligned, and that all
            // concurrent access is atomic.
            unsafe { $atomic::from_ptr(at.cast()) }.store(bytemuck::cast(value), Ordering::Relaxed);
        }
    };
}

/// `fetch_…` by rustc's own atomics if they have the wanted scope, otherwise by an instruction.
macro_rules! fetches {
    ($atomic:ident, $register:ident, $($name:ident = $instruction:literal;)*) => { $(
        #[inline(always)]
        unsafe fn $name<P: Place>(at: *mut Self, value: Self) -> Self {
            #[cfg(target_arch = "nvptx64")]
            if matches!(P::KIND, Kind::Block | Kind::System) {
                let old: Self;
                instruction!(P, "atom", $instruction, at, old = out($register) old, value = in($register) value);
                return old;
            }
            // SAFETY: the caller says that the element is valid and aligned, and that all
            // concurrent access is atomic, in the scope that these atomics have.
            unsafe { $atomic::from_ptr(at) }.$name(value, Ordering::Relaxed)
        }
    )* };
}

macro_rules! integers {
    ($($integer:ident = $atomic:ident, $register:ident, $load:literal, $store:literal,
        $add:literal, $swap:literal, $max:literal, $min:literal, $and:literal, $or:literal, $xor:literal, $cas:literal;)*) => { $(
        impl sealed::Sealed for $integer {}
        impl AtomicElement for $integer {
            fetches!($atomic, $register, fetch_add = $add; swap = $swap;);
            moves!($register, $load, $store, $atomic);
        }
        impl AtomicInteger for $integer {
            fetches!(
                $atomic, $register,
                fetch_max = $max; fetch_min = $min; fetch_and = $and; fetch_or = $or; fetch_xor = $xor;
            );
            #[inline(always)]
            unsafe fn compare_exchange<P: Place>(at: *mut Self, current: Self, new: Self) -> Self {
                #[cfg(target_arch = "nvptx64")]
                return {
                    let old: Self;
                    instruction!(
                        P, "atom", $cas, at,
                        old = out($register) old, current = in($register) current, new = in($register) new
                    );
                    old
                };
                #[cfg(not(target_arch = "nvptx64"))]
                // SAFETY: the caller says that the element is valid and aligned, and that all
                // concurrent access is atomic.
                match unsafe { $atomic::from_ptr(at) }.compare_exchange(current, new, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(old) | Err(old) => old,
                }
            }
        }
    )* };
}

integers! {
    u32 = AtomicU32, reg32, "b32 {value}, [address]", "b32 [address], {value}",
        "add.u32 {old}, [address], {value}", "exch.b32 {old}, [address], {value}",
        "max.u32 {old}, [address], {value}", "min.u32 {old}, [address], {value}",
        "and.b32 {old}, [address], {value}", "or.b32 {old}, [address], {value}", "xor.b32 {old}, [address], {value}",
        "cas.b32 {old}, [address], {current}, {new}";
    i32 = AtomicI32, reg32, "b32 {value}, [address]", "b32 [address], {value}",
        "add.u32 {old}, [address], {value}", "exch.b32 {old}, [address], {value}",
        "max.s32 {old}, [address], {value}", "min.s32 {old}, [address], {value}",
        "and.b32 {old}, [address], {value}", "or.b32 {old}, [address], {value}", "xor.b32 {old}, [address], {value}",
        "cas.b32 {old}, [address], {current}, {new}";
    u64 = AtomicU64, reg64, "b64 {value}, [address]", "b64 [address], {value}",
        "add.u64 {old}, [address], {value}", "exch.b64 {old}, [address], {value}",
        "max.u64 {old}, [address], {value}", "min.u64 {old}, [address], {value}",
        "and.b64 {old}, [address], {value}", "or.b64 {old}, [address], {value}", "xor.b64 {old}, [address], {value}",
        "cas.b64 {old}, [address], {current}, {new}";
    i64 = AtomicI64, reg64, "b64 {value}, [address]", "b64 [address], {value}",
        "add.u64 {old}, [address], {value}", "exch.b64 {old}, [address], {value}",
        "max.s64 {old}, [address], {value}", "min.s64 {old}, [address], {value}",
        "and.b64 {old}, [address], {value}", "or.b64 {old}, [address], {value}", "xor.b64 {old}, [address], {value}",
        "cas.b64 {old}, [address], {current}, {new}";
}

macro_rules! floats {
    ($($float:ident = $bits:ident, $atomic:ident, $register:ident, $load:literal, $store:literal, $add:literal;)*) => { $(
        impl sealed::Sealed for $float {}
        impl AtomicElement for $float {
            #[inline(always)]
            unsafe fn fetch_add<P: Place>(at: *mut Self, value: Self) -> Self {
                #[cfg(target_arch = "nvptx64")]
                return {
                    let old: Self;
                    instruction!(P, "atom", $add, at, old = out($register) old, value = in($register) value);
                    old
                };
                #[cfg(not(target_arch = "nvptx64"))]
                {
                    // SAFETY: a float has the size and alignment of its bits, and the caller says
                    // that the element is valid, and that all concurrent access is atomic.
                    let bits = unsafe { $atomic::from_ptr(at.cast()) };
                    let mut old = bits.load(Ordering::Relaxed);
                    loop {
                        let new = ($float::from_bits(old) + value).to_bits();
                        match bits.compare_exchange_weak(old, new, Ordering::Relaxed, Ordering::Relaxed) {
                            Ok(old) => return $float::from_bits(old),
                            Err(seen) => old = seen,
                        }
                    }
                }
            }
            #[inline(always)]
            unsafe fn swap<P: Place>(at: *mut Self, value: Self) -> Self {
                // SAFETY: a float has the size and alignment of its bits, and the caller says that
                // the element is valid, and that all concurrent access is atomic.
                $float::from_bits(unsafe { <$bits as AtomicElement>::swap::<P>(at.cast(), value.to_bits()) })
            }
            moves!($register, $load, $store, $atomic);
        }
    )* };
}

floats! {
    f32 = u32, AtomicU32, reg32, "b32 {value}, [address]", "b32 [address], {value}", "add.f32 {old}, [address], {value}";
    f64 = u64, AtomicU64, reg64, "b64 {value}, [address]", "b64 [address], {value}", "add.f64 {old}, [address], {value}";
}
