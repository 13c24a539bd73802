//! Layouts of structs as hashes, which the compiler evaluates for each target.
//!
//! The host and the PTX are compiled apart, perhaps from sources of different dates. Each holds a
//! table with one hash for each type that a launch passes. A module whose table differs from the
//! host's is refused when it is loaded.

use core::marker::PhantomData;

use crate::element::Element;
pub use crate::hash::Layout;

/// Builder for the layout of the struct `S`. Each field is named once, in the order in which the
/// fields lie in memory.
///
/// The names that a caller gives need not be right: the compiler supplies each field's type and
/// offset.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Fields<S> {
    layout: Layout,
    end_bytes: usize,
    of: PhantomData<fn(S) -> S>,
}

impl<S> Fields<S> {
    /// Starts the layout of the struct that `_pattern` takes apart. The pattern has no `..`, so it
    /// names every field.
    pub const fn of(_pattern: fn(S)) -> Self {
        Self {
            layout: Layout::of::<S>("struct"),
            end_bytes: 0,
            of: PhantomData,
        }
    }

    /// Adds a field at `offset_bytes`. Two closures, which are never called, fix the field's type,
    /// `T`. `_value` returns the field, which safe code cannot do for a union. `_place` returns a
    /// pointer to it, because behind a pointer no type is coerced to another sized type.
    /// Counterexample to `_value` alone: a field of type `!` passed for `[u8; 0]`, and a struct
    /// without values was an element.
    ///
    /// # Panics
    /// If the field does not begin where the field before it ends.
    pub const fn field<T: Element>(
        self,
        name: &str,
        offset_bytes: usize,
        _value: fn(S) -> T,
        _place: fn(&S) -> *const T,
    ) -> Self {
        assert!(
            offset_bytes == self.end_bytes,
            "an element names its fields in the order in which they lie in memory, and has no padding"
        );
        Self {
            layout: self.layout.field(name, offset_bytes, T::LAYOUT),
            end_bytes: offset_bytes + size_of::<T>(),
            of: PhantomData,
        }
    }

    /// The hash.
    ///
    /// # Panics
    /// If the struct does not end where its last field does.
    #[must_use]
    pub const fn finish(self) -> u64 {
        assert!(
            self.end_bytes == size_of::<S>(),
            "an element has no padding at its end"
        );
        self.layout.finish()
    }
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use crate::Element;

    macro_rules! pair {
        ($name:ident { $($field:ident: $type:ty),* }) => {{
            #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable, Element)]
            #[repr(C)]
            struct $name { $($field: $type),* }
            $name::LAYOUT
        }};
    }

    #[test]
    fn types_of_one_size_differ() {
        let hashes = [
            f32::LAYOUT,
            u32::LAYOUT,
            i32::LAYOUT,
            <[u16; 2]>::LAYOUT,
            <[u8; 4]>::LAYOUT,
        ];
        for (at, hash) in hashes.iter().enumerate() {
            assert!(!hashes[at + 1..].contains(hash), "{hashes:x?}");
        }
    }

    #[test]
    fn arrays_differ_by_element_and_length() {
        assert_ne!(<[f32; 2]>::LAYOUT, <[f32; 3]>::LAYOUT);
        assert_ne!(<[f32; 2]>::LAYOUT, <[u32; 2]>::LAYOUT);
        assert_ne!(<[[f32; 2]; 3]>::LAYOUT, <[[f32; 3]; 2]>::LAYOUT);
    }

    #[test]
    fn structs_differ_by_field_name_order_and_type() {
        let xy = pair!(P { x: f32, y: f32 });
        assert_ne!(xy, pair!(P { y: f32, x: f32 }));
        assert_ne!(xy, pair!(P { x: f32, z: f32 }));
        assert_ne!(xy, pair!(P { x: f32, y: u32 }));
        assert_eq!(xy, pair!(P { x: f32, y: f32 }));
    }

    #[test]
    fn a_change_in_a_nested_struct_shows() {
        let outer = |inner: u64| {
            super::Layout::of::<[u32; 2]>("O")
                .field("inner", 0, inner)
                .finish()
        };
        assert_ne!(outer(pair!(I { a: u32 })), outer(pair!(I { b: u32 })));
    }

    #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable, Element)]
    #[repr(transparent)]
    struct Row<T, const N: usize>([T; N])
    where
        T: Copy;

    #[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable, Element)]
    #[repr(C)]
    struct Image {
        rows: [Row<f32, 3>; 2],
    }

    #[test]
    fn generic_structs_differ_by_their_arguments() {
        assert_ne!(Row::<f32, 3>::LAYOUT, Row::<f32, 4>::LAYOUT);
        assert_ne!(Row::<f32, 3>::LAYOUT, Row::<u32, 3>::LAYOUT);
        assert_ne!(
            Row::<f32, 3>::LAYOUT,
            <[f32; 3]>::LAYOUT,
            "the struct's field has a name, which an array's elements lack"
        );
        assert_eq!(
            Image::LAYOUT,
            super::Layout::of::<[f32; 6]>("struct")
                .field("rows", 0, <[Row<f32, 3>; 2]>::LAYOUT)
                .finish()
        );
    }
}
