//! What a `key` or `scope` expression may be.

use std::{borrow::Cow, io::Write as _, num, rc::Rc, sync::Arc};

/// A value that names a caller or a request: its type decides what a `key = …` or `scope = …` expression may be.
///
/// Strings and bytes count as they are. Integers, `bool` and `char` count as their text, so `42` and `"42"` name the same
/// caller, and `Idempotency::forget` finds it by either. References, `Box`, `Arc`, `Rc`
/// and `Cow` count as what they hold, as does `Some`; `None` is missing.
///
/// A tuple keeps its elements apart: `("a", "bc")` isn't `("ab", "c")`. A `None` in it differs from every value, the empty
/// string included; a tuple is missing when all of its elements are.
///
/// ```
/// # use idem_runtime::KeyPart;
/// # fn is_key_part(_: impl KeyPart) {}
/// # let (tenant_id, user_id, event) = (7_u64, Some("u_1"), String::from("evt_1"));
/// is_key_part(&event);               // key = event.id
/// is_key_part(tenant_id);            // scope = user.tenant_id
/// is_key_part((tenant_id, user_id)); // scope = (tenant_id, user_id)
/// ```
///
/// Types of your own implement it by appending a value that has it:
///
/// ```
/// use idem_runtime::KeyPart;
///
/// struct TenantId(u64);
///
/// impl KeyPart for TenantId {
///     fn append(&self, out: &mut Vec<u8>) -> bool {
///         self.0.append(out)
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be a `key` or `scope` of `#[idempotent]`",
    label = "not a `KeyPart`",
    note = "read a part of it, such as a field, or its text, `.to_string()`: strings, bytes, integers, `bool` and `char` are \
            key parts, and so are an `Option` and a tuple of them",
    note = "or implement `KeyPart`, if the type is your own"
)]
#[cfg_attr(
    not(feature = "uuid"),
    diagnostic::on_unimplemented(note = "or enable the feature `uuid` of `idem-runtime`, if the type is `uuid::Uuid`")
)]
pub trait KeyPart {
    /// Appends the value, or says that it is missing by returning `false`.
    fn append(&self, out: &mut Vec<u8>) -> bool;
}

impl KeyPart for [u8] {
    fn append(&self, out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(self);
        true
    }
}

macro_rules! bytes {
    ($([$($generics:tt)*] $type:ty),*) => {$(
        impl<$($generics)*> KeyPart for $type {
            fn append(&self, out: &mut Vec<u8>) -> bool {
                AsRef::<[u8]>::as_ref(self).append(out)
            }
        }
    )*};
}

bytes!([] str, [] String, [] Vec<u8>, [] bytes::Bytes, [const N: usize] [u8; N]);

macro_rules! text {
    ($($type:ty),*) => {$(
        impl KeyPart for $type {
            fn append(&self, out: &mut Vec<u8>) -> bool {
                write!(out, "{self}").is_ok()
            }
        }
    )*};
}

text!(bool, char, i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize);
text!(num::NonZeroI8, num::NonZeroI16, num::NonZeroI32, num::NonZeroI64, num::NonZeroI128, num::NonZeroIsize);
text!(num::NonZeroU8, num::NonZeroU16, num::NonZeroU32, num::NonZeroU64, num::NonZeroU128, num::NonZeroUsize);
#[cfg(feature = "uuid")]
text!(uuid::Uuid);

macro_rules! holders {
    ($($type:ty),*) => {$(
        impl<T: KeyPart + ?Sized> KeyPart for $type {
            fn append(&self, out: &mut Vec<u8>) -> bool {
                (**self).append(out)
            }
        }
    )*};
}

holders!(&T, &mut T, Box<T>, Rc<T>, Arc<T>);

impl<T: KeyPart + ToOwned + ?Sized> KeyPart for Cow<'_, T> {
    fn append(&self, out: &mut Vec<u8>) -> bool {
        (**self).append(out)
    }
}

impl<T: KeyPart> KeyPart for Option<T> {
    fn append(&self, out: &mut Vec<u8>) -> bool {
        self.as_ref().is_some_and(|part| part.append(out))
    }
}

/// Appends an element of a tuple: `1`, its length and itself, or `0` where it is missing.
fn element(part: &impl KeyPart, out: &mut Vec<u8>) -> bool {
    let mut bytes = Vec::new();
    let there = part.append(&mut bytes);
    out.push(u8::from(there));
    if there {
        out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        out.extend_from_slice(&bytes);
    }
    there
}

macro_rules! tuples {
    ($($($name:ident)+;)*) => {$(
        impl<$($name: KeyPart),+> KeyPart for ($($name,)+) {
            #[allow(non_snake_case, reason = "a type parameter's name is its element's")]
            fn append(&self, out: &mut Vec<u8>) -> bool {
                let ($($name,)+) = self;
                [$(element($name, out)),+].contains(&true)
            }
        }
    )*};
}

tuples! {
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
    A B C D E F G;
    A B C D E F G H;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A scope's bytes go into the record id: they never change.
    #[test]
    fn the_framing_of_tuples_is_frozen() {
        let mut bytes = Vec::new();
        assert!(("a", None::<u8>, 42).append(&mut bytes));
        assert_eq!(bytes, b"\x01\x01\0\0\0\0\0\0\0a\0\x01\x02\0\0\0\0\0\0\x0042");
    }

    fn bytes(part: &(impl KeyPart + ?Sized)) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        part.append(&mut out).then_some(out)
    }

    #[test]
    fn a_value_counts_as_its_text() {
        let text = Some(b"42".to_vec());
        assert_eq!(bytes("42"), text);
        assert_eq!(bytes(&"42".to_owned()), text);
        assert_eq!(bytes(&b"42"[..]), text);
        assert_eq!(bytes(b"42"), text);
        assert_eq!(bytes(&vec![b'4', b'2']), text);
        assert_eq!(bytes(&bytes::Bytes::from_static(b"42")), text);
        assert_eq!(bytes(&42_u8), text);
        assert_eq!(bytes(&42_i128), text);
        assert_eq!(bytes(&num::NonZeroU64::new(42)), text);
        assert_eq!(bytes(&Some(&Box::new(Rc::new(Arc::new(42))))), text);
        assert_eq!(bytes(&Cow::Borrowed("42")), text);
        assert_eq!(bytes(&Arc::<str>::from("42")), text);
        assert_eq!(bytes(&-7), Some(b"-7".to_vec()));
        assert_eq!(bytes(&true), Some(b"true".to_vec()));
        assert_eq!(bytes(&'é'), Some("é".into()));
        assert_eq!(bytes(""), Some(Vec::new()));
        assert_eq!(bytes(&None::<&str>), None);
        assert_eq!(bytes(&Some(None::<&str>)), None);
        #[cfg(feature = "uuid")]
        assert_eq!(bytes(&uuid::Uuid::nil()), bytes("00000000-0000-0000-0000-000000000000"));
    }

    #[test]
    fn a_tuple_keeps_its_elements_apart() {
        let all = [
            bytes(&("a", "bc")),
            bytes(&("ab", "c")),
            bytes(&("abc",)),
            bytes(&("a\u{1}", "b")),
            bytes(&("a", "\u{1}b")),
            bytes(&("abc", "")),
            bytes(&("", "abc")),
            bytes(&("abc", None::<&str>)),
            bytes(&(None::<&str>, "abc")),
            bytes(&("a", "b", "c")),
            bytes(&(("a", "b"), "c")),
            bytes(&("a", ("b", "c"))),
            bytes(&("a", None::<&str>, "c")),
            bytes(&("a", (None::<&str>, Some("")))),
            bytes(&("a", (Some(""), None::<&str>))),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(one.is_some());
            assert!(all.iter().skip(at + 1).all(|other| one != other), "{at}");
        }
        assert_eq!(bytes(&(42, "x")), bytes(&("42", "x".to_owned())));
        assert_eq!(bytes(&(None::<u8>, (None::<u8>,))), None);
        assert!(bytes(&(1, 2, 3, 4, 5, 6, 7, 8)).is_some());
    }
}
