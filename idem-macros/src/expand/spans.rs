//! Where the tokens of ours are.

use proc_macro2::{Span, TokenTree};

use crate::tokens::{Tokens, group};

/// A place of the author's for a token of ours.
pub(super) fn located(span: Span) -> Span {
    Span::call_site().located_at(span)
}

/// Tokens of the author's at another place of theirs.
pub(super) fn relocated_to(tokens: Tokens, span: Span) -> Tokens {
    let relocated = |mut token: TokenTree| {
        let at = token.span().located_at(span);
        if let TokenTree::Group(inside) = &token {
            return group(inside.delimiter(), relocated_to(inside.stream().into_iter().collect(), span), at);
        }
        token.set_span(at);
        token
    };
    tokens.into_iter().map(relocated).collect()
}
