//! Which members of a JSON body count, by JSON Pointer (RFC 6901).

use std::{borrow::Cow, collections::BTreeSet};

use super::digest::Sink;

/// A set of pointers; their order doesn't count.
pub(super) struct Selection {
    pointers: Vec<Pointer>,
    pub(super) keep: bool,
}

struct Pointer {
    text: &'static str,
    tokens: Vec<Token>,
}

struct Token {
    name: Cow<'static, str>,
    index: Option<usize>,
}

impl Selection {
    /// All but what these point at; an ill-formed pointer points at nothing.
    pub(super) fn skip(pointers: &[&'static str]) -> Self {
        Self::new(pointers.iter().copied().filter(|pointer| well_formed(pointer)), false)
    }

    /// Only what these point at; an ill-formed pointer points at everything.
    pub(super) fn only(pointers: &[&'static str]) -> Self {
        Self::new(pointers.iter().map(|pointer| if well_formed(pointer) { pointer } else { "" }), true)
    }

    fn new(pointers: impl Iterator<Item = &'static str>, keep: bool) -> Self {
        let pointers: BTreeSet<_> = pointers.collect();
        let tokens = |text: &'static str| text.split('/').skip(1).map(Token::read).collect();
        Self { pointers: pointers.into_iter().map(|text| Pointer { text, tokens: tokens(text) }).collect(), keep }
    }

    pub(super) fn len(&self) -> usize {
        self.pointers.len()
    }

    /// Whether a pointer's token at this depth names this member.
    pub(super) fn names(&self, pointer: usize, depth: usize, name: &[u8]) -> bool {
        self.token(pointer, depth).is_some_and(|token| token.name.as_bytes() == name)
    }

    /// Whether a pointer's token at this depth is this index.
    pub(super) fn indexes(&self, pointer: usize, depth: usize, index: usize) -> bool {
        self.token(pointer, depth).is_some_and(|token| token.index == Some(index))
    }

    /// Whether a pointer has no more tokens than this.
    pub(super) fn ends(&self, pointer: usize, depth: usize) -> bool {
        self.pointers.get(pointer).is_some_and(|pointer| pointer.tokens.len() == depth)
    }

    fn token(&self, pointer: usize, depth: usize) -> Option<&Token> {
        self.pointers.get(pointer)?.tokens.get(depth)
    }

    pub(super) fn write(&self, out: &mut impl Sink) {
        out.length(self.pointers.len());
        for pointer in &self.pointers {
            out.framed(pointer.text.as_bytes());
        }
    }
}

impl Token {
    fn read(text: &'static str) -> Self {
        let name = if text.contains('~') { text.replace("~1", "/").replace("~0", "~").into() } else { text.into() };
        let index = text.parse().ok().filter(|index: &usize| index.to_string() == text);
        Self { name, index }
    }
}

fn well_formed(pointer: &str) -> bool {
    pointer.is_empty() || pointer.starts_with('/')
}
