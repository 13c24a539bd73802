//! Hash of a type's layout, which the host and the PTX compare.

/// FNV-1a over the parts of a layout. It is not a cryptographic hash: it guards against mistakes,
/// not against forgery.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Layout(u64);

impl Layout {
    /// The layout of a `T`: its size, its alignment, and a name, which tells primitives of one size
    /// apart (`f32` from `u32`).
    pub const fn of<T>(name: &str) -> Self {
        Self::of_text(name)
            .number(size_of::<T>() as u64)
            .number(align_of::<T>() as u64)
    }

    /// The hash of a text alone.
    pub(crate) const fn of_text(text: &str) -> Self {
        Self(0xcbf2_9ce4_8422_2325).text(text)
    }

    /// Adds a field: its name, its offset in bytes, and the hash of its type.
    pub const fn field(self, name: &str, offset_bytes: usize, layout: u64) -> Self {
        self.text(name).number(offset_bytes as u64).number(layout)
    }

    /// The hash.
    #[must_use]
    pub const fn finish(self) -> u64 {
        self.0
    }

    const fn byte(self, byte: u8) -> Self {
        Self((self.0 ^ byte as u64).wrapping_mul(0x0000_0100_0000_01b3))
    }

    const fn number(self, value: u64) -> Self {
        let bytes = value.to_le_bytes();
        let mut this = self;
        let mut at = 0;
        while at < bytes.len() {
            this = this.byte(bytes[at]);
            at += 1;
        }
        this
    }

    const fn text(self, text: &str) -> Self {
        // The length comes first, so that ("ab", "c") and ("a", "bc") differ.
        let bytes = text.as_bytes();
        let mut this = self.number(bytes.len() as u64);
        let mut at = 0;
        while at < bytes.len() {
            this = this.byte(bytes[at]);
            at += 1;
        }
        this
    }
}
