//! What a `key` or `scope` expression may be.

use std::{borrow::Cow, num::NonZero, rc::Rc, sync::Arc};

use bytes::Bytes;

/// A value that names a caller or a request: its type decides what a `key = …` or `scope = …` expression may be.
///
/// Numbers count as their digits, so that an id that becomes a text later names the same caller. In a tuple each element
/// keeps its bounds: `("ab", "c")` is another caller than `("a", "bc")`. An empty `Option`, also within a tuple, means that
/// there is no key or scope.
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

/// Implements it by a view of the value as bytes.
macro_rules! by_bytes {
    ($($ty:ty),*) => {$(
        impl KeyPart for $ty {
            fn append(&self, out: &mut Vec<u8>) -> bool {
                let bytes: &[u8] = self.as_ref();
                out.extend_from_slice(bytes);
                true
            }
        }
    )*};
}
by_bytes!(str, String, [u8], Vec<u8>, Bytes);

/// Implements it by the value's text.
macro_rules! by_text {
    ($($ty:ty),*) => {$(
        impl KeyPart for $ty {
            fn append(&self, out: &mut Vec<u8>) -> bool {
                self.to_string().append(out)
            }
        }
    )*};
}
by_text!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, bool, char);
by_text!(NonZero<u32>, NonZero<u64>, NonZero<i32>, NonZero<i64>);
#[cfg(feature = "uuid")]
by_text!(uuid::Uuid);

impl<const N: usize> KeyPart for [u8; N] {
    fn append(&self, out: &mut Vec<u8>) -> bool {
        self.as_slice().append(out)
    }
}

/// Implements it for what points at a value.
macro_rules! by_pointer {
    ($($ty:ty),*) => {$(
        impl<T: KeyPart + ?Sized> KeyPart for $ty {
            fn append(&self, out: &mut Vec<u8>) -> bool {
                (**self).append(out)
            }
        }
    )*};
}
by_pointer!(&T, &mut T, Box<T>, Arc<T>, Rc<T>);

impl<T: KeyPart + ToOwned + ?Sized> KeyPart for Cow<'_, T> {
    fn append(&self, out: &mut Vec<u8>) -> bool {
        (**self).append(out)
    }
}

impl<T: KeyPart> KeyPart for Option<T> {
    fn append(&self, out: &mut Vec<u8>) -> bool {
        self.as_ref().is_some_and(|value| value.append(out))
    }
}

/// Appends one element behind its length.
fn framed(element: &dyn KeyPart, out: &mut Vec<u8>) -> bool {
    let mut bytes = Vec::new();
    let present = element.append(&mut bytes);
    out.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
    out.append(&mut bytes);
    present
}

macro_rules! by_element {
    ($(($($element:ident),*))*) => {$(
        impl<$($element: KeyPart),*> KeyPart for ($($element,)*) {
            fn append(&self, out: &mut Vec<u8>) -> bool {
                #[expect(non_snake_case, reason = "named as their types")]
                let ($($element,)*) = self;
                $(framed($element, out))&&*
            }
        }
    )*};
}
by_element!((A)(A, B)(A, B, C)(A, B, C, D)(A, B, C, D, E)(A, B, C, D, E, F));

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(value: impl KeyPart) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        value.append(&mut out).then_some(out)
    }

    #[test]
    fn a_number_is_its_digits() {
        assert_eq!(bytes(42_u64), bytes("42"));
        assert_eq!(bytes(-7_i128), bytes(String::from("-7")));
        assert_eq!(bytes(Arc::new(42_u8)), bytes(Cow::Borrowed("42")));
    }

    #[test]
    fn elements_keep_their_bounds() {
        assert_ne!(bytes(("ab", "c")), bytes(("a", "bc")));
        assert_ne!(bytes((("a", "b"), "c")), bytes(("a", ("b", "c"))));
        assert_ne!(bytes(("", "a")), bytes(("a", "")));
    }

    #[test]
    fn an_empty_option_is_no_part() {
        assert_eq!(bytes(Some("a")), bytes("a"));
        assert_eq!(bytes(None::<&str>), None);
        assert_eq!(bytes(("a", None::<u64>)), None);
        assert_eq!(bytes((None::<u64>, "a")), None);
    }
}
