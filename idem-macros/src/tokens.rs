//! `quote!`, but into a list: a stream asks the compiler for every piece that is added, a list only at its end.

use proc_macro2::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};
use quote::ToTokens;

pub(crate) type Tokens = Vec<TokenTree>;

/// What [`put!`] takes for `#name`.
pub(crate) trait Put {
    fn put(&self, out: &mut Tokens);
}

impl Put for TokenTree {
    fn put(&self, out: &mut Tokens) {
        out.push(self.clone());
    }
}

impl Put for Ident {
    fn put(&self, out: &mut Tokens) {
        out.push(self.clone().into());
    }
}

impl Put for Literal {
    fn put(&self, out: &mut Tokens) {
        out.push(self.clone().into());
    }
}

impl Put for Group {
    fn put(&self, out: &mut Tokens) {
        out.push(self.clone().into());
    }
}

impl Put for Tokens {
    fn put(&self, out: &mut Tokens) {
        out.extend_from_slice(self);
    }
}

impl Put for TokenStream {
    fn put(&self, out: &mut Tokens) {
        if !self.is_empty() {
            out.extend(self.clone());
        }
    }
}

impl<T: Put> Put for Option<T> {
    fn put(&self, out: &mut Tokens) {
        if let Some(tokens) = self {
            tokens.put(out);
        }
    }
}

impl<T: Put + ?Sized> Put for &T {
    fn put(&self, out: &mut Tokens) {
        (**self).put(out);
    }
}

/// `put!(out, span; let #name = #path(1);)`: adds tokens at `span`, and what `#` names as it is.
macro_rules! put {
    ($out:ident, $at:expr;) => {};
    ($out:ident, $at:expr; # $piece:ident $($rest:tt)*) => {
        $crate::tokens::Put::put(&$piece, $out);
        put!($out, $at; $($rest)*);
    };
    ($out:ident, $at:expr; ($($inside:tt)*) $($rest:tt)*) => {
        put!(@group $out, $at; Parenthesis $($inside)*);
        put!($out, $at; $($rest)*);
    };
    ($out:ident, $at:expr; {$($inside:tt)*} $($rest:tt)*) => {
        put!(@group $out, $at; Brace $($inside)*);
        put!($out, $at; $($rest)*);
    };
    ($out:ident, $at:expr; [$($inside:tt)*] $($rest:tt)*) => {
        put!(@group $out, $at; Bracket $($inside)*);
        put!($out, $at; $($rest)*);
    };
    (@group $out:ident, $at:expr; $delimiter:ident $($inside:tt)*) => {
        $out.push($crate::tokens::group(proc_macro2::Delimiter::$delimiter, tokens!($at; $($inside)*), $at));
    };
    ($out:ident, $at:expr; $word:tt $($rest:tt)*) => {
        $crate::tokens::word($out, stringify!($word), $at);
        put!($out, $at; $($rest)*);
    };
}

/// [`put!`] into a new list.
macro_rules! tokens {
    ($at:expr;) => {
        $crate::tokens::Tokens::new()
    };
    ($at:expr; $($tokens:tt)*) => {{
        let mut list = $crate::tokens::Tokens::new();
        {
            let list = &mut list;
            put!(list, $at; $($tokens)*);
        }
        list
    }};
}

pub(crate) use {put, tokens};

/// A keyword, a name, a number or an operator.
pub(crate) fn word(out: &mut Tokens, text: &str, span: Span) {
    if text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
        return out.push(Ident::new(text, span).into());
    }
    if let Ok(number) = text.parse() {
        let mut number = Literal::u64_unsuffixed(number);
        number.set_span(span);
        return out.push(number.into());
    }
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let spacing = if letters.peek().is_some() { Spacing::Joint } else { Spacing::Alone };
        let mut punct = Punct::new(letter, spacing);
        punct.set_span(span);
        out.push(punct.into());
    }
}

pub(crate) fn group(delimiter: Delimiter, inside: Tokens, span: Span) -> TokenTree {
    let mut group = Group::new(delimiter, inside.into_iter().collect());
    group.set_span(span);
    group.into()
}

pub(crate) fn list(tokens: impl ToTokens) -> Tokens {
    tokens.into_token_stream().into_iter().collect()
}

/// The parts of a list at its commas, those in `<…>` aside.
pub(crate) fn at_commas(tokens: TokenStream) -> Vec<Tokens> {
    let (mut parts, mut part, mut depth, mut previous) = (Vec::new(), Tokens::new(), 0_usize, ' ');
    for token in tokens {
        let letter = if let TokenTree::Punct(punct) = &token { punct.as_char() } else { ' ' };
        match letter {
            ',' if depth == 0 => parts.push(std::mem::take(&mut part)),
            '<' => depth += 1,
            '>' if previous != '-' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if letter != ',' || depth > 0 {
            part.push(token);
        }
        previous = letter;
    }
    if !part.is_empty() {
        parts.push(part);
    }
    parts
}
