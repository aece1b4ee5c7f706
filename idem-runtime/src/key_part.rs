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

impl KeyPart for String {
    fn append(&self, out: &mut Vec<u8>) -> bool {
        self.as_str().append(out)
    }
}
impl KeyPart for () {
    fn append(&self, _: &mut Vec<u8>) -> bool {
        false
    }
}
impl KeyPart for u32 {
    fn append(&self, out: &mut Vec<u8>) -> bool {
        self.to_string().append(out)
    }
}
impl KeyPart for u64 {
    fn append(&self, out: &mut Vec<u8>) -> bool {
        self.to_string().append(out)
    }
}
impl<T: KeyPart> KeyPart for Option<T> {
    fn append(&self, out: &mut Vec<u8>) -> bool {
        self.as_ref().is_some_and(|v| v.append(out))
    }
}
impl<A: KeyPart, B: KeyPart> KeyPart for (A, B) {
    fn append(&self, out: &mut Vec<u8>) -> bool {
        self.0.append(out) && self.1.append(out)
    }
}
