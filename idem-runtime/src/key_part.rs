//! What a `key` or `scope` expression may be.

/// A value that names a caller or a request: its type decides what a `key = …` or `scope = …` expression may be.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be a `key` or `scope` of `#[idempotent]`",
    label = "not a `KeyPart`",
    note = "use a string, bytes, an integer, `bool`, `char`, an `Option` or a tuple of these, or `.to_string()`"
)]
pub trait KeyPart {
    /// Appends the value, or says that it is missing by returning `false`.
    #[doc(hidden)]
    fn append(&self, out: &mut Vec<u8>) -> bool;
}

impl KeyPart for str {
    fn append(&self, out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(self.as_bytes());
        true
    }
}

impl<T: KeyPart + ?Sized> KeyPart for &T {
    fn append(&self, out: &mut Vec<u8>) -> bool {
        (**self).append(out)
    }
}
