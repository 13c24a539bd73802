//! Signatures that must not build: the host's and the device's compilers refuse each, with an error
//! that names it.

use super::random::Random;
use super::signatures::{Type, Types};

/// What a block of any GPU has at most, as `device_std::rt::MAX_SHARED_BYTES`.
const MAX_SHARED_BYTES: usize = 227 << 10;

/// A kernel that must not build.
pub(super) struct Refused {
    pub(super) source: String,
    /// Whether the device's compiler refuses it too. Only the host checks the size of all
    /// parameters together.
    pub(super) on_device: bool,
}

/// The kind of error that refuses a kernel. Errors of types come first, and hide errors of
/// constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// A constant that does not evaluate (E0080).
    Size,
    /// A trait that a type lacks (E0277).
    Type,
}

/// The refused signature `number` of the seed.
pub(super) fn refused(seed: u64, number: usize, how: How) -> Refused {
    let mut random = Random::of_case(seed.rotate_left(32), number);
    let name = format!("refused_{number}");
    let mut types = Types::new(&mut random, format!("R{number}"));
    let (parameter, on_device) = match how {
        How::Type => (by_type(&mut types), true),
        How::Size => by_size(&mut types, number),
    };
    let is_block = parameter.contains("BlockUninit");
    let (attribute, position) = if is_block {
        ("#[kernel(block = 32)]", "block: Block")
    } else {
        ("#[kernel]", "i: Index1")
    };
    let body = if is_block {
        "let _ = (out.len(), refused, block);"
    } else {
        "let _ = &refused; if out.get(i).is_some() { out.set(i, before); }"
    };
    let source = format!(
        "{}{attribute}\npub fn {name}({position}, {parameter}, before: u32, out: PerThread<u32>) {{ {body} }}\n",
        types.items
    );
    Refused { source, on_device }
}

/// A type of no size, of a random kind.
fn of_no_size(types: &mut Types<'_>, depth: usize) -> Type {
    let primitive = types.of_size(0, 16);
    let inner = if depth == 0 {
        Type {
            name: format!("[{}; 0]", primitive.name),
            size: 0,
            ..primitive
        }
    } else {
        of_no_size(types, depth - 1)
    };
    match types.random.below(4) {
        0 => types.structure(&[inner], None),
        1 => {
            let other = of_no_size(types, 0);
            let align = types.random.pick(&[1, 2, 4, 8, 16]);
            types.structure(
                &[inner.clone(), other],
                Some(align).filter(|align| *align > inner.align),
            )
        }
        2 => Type {
            name: format!("Row<{}, {}>", inner.name, types.random.below(4)),
            ..inner
        },
        _ => Type {
            name: format!("Row<{}, 0>", types.of_size(1, 16).name),
            size: 0,
            align: 1,
        },
    }
}

fn by_size(types: &mut Types<'_>, number: usize) -> (String, bool) {
    let depth = types.random.below(3);
    let none = of_no_size(types, depth);
    let primitive = types.of_size(0, 16);
    match number % 8 {
        0 | 1 => (format!("refused: {}", none.name), true),
        2 => (format!("refused: &[{}]", none.name), true),
        3 => (format!("refused: PerThread<{}>", none.name), true),
        4 => {
            let align = types.random.pick(&[32, 64, 128, 512]);
            let wide = types.structure(&[primitive], Some(align));
            (format!("refused: {}", wide.name), true)
        }
        5 => {
            let count = 4096 / primitive.size + types.random.below(100);
            (format!("refused: Row<{}, {count}>", primitive.name), false)
        }
        6 => {
            let count = MAX_SHARED_BYTES / primitive.size + types.random.within(1, 100);
            (format!("refused: BlockUninit<{}, {count}>", primitive.name), true)
        }
        // A size whose product wraps to a small number or 0.
        _ => {
            let count = (1u128 << 64) / primitive.size.max(2) as u128 + types.random.below(3) as u128;
            let name = if primitive.size == 1 {
                "u16"
            } else {
                &primitive.name
            };
            (format!("refused: BlockUninit<{name}, {count}>"), true)
        }
    }
}

fn by_type(types: &mut Types<'_>) -> String {
    let ty = types.random.pick(&[
        "char",
        "core::cmp::Ordering",
        "Option<u8>",
        "core::num::NonZeroU32",
        "(u32, u32)",
        "()",
        "u128",
        "*",
    ]);
    match types.random.below(4) {
        0 => format!(
            "refused: [{}; {}]",
            ty.replace('*', "core::time::Duration"),
            types.random.within(1, 4)
        ),
        1 => format!("refused: &[{}]", ty.replace('*', "bool")),
        2 => format!("refused: PerThread<{}>", ty.replace('*', "bool")),
        _ => format!("refused: {}", ty.replace('*', "core::time::Duration")),
    }
}
