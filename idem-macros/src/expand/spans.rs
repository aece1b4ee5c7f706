//! Where the tokens of ours are.

use proc_macro2::{Group, Ident, Punct, Spacing, Span, TokenStream, TokenTree};

/// A place of the author's for a token of ours.
pub(super) fn located(span: Span) -> Span {
    Span::call_site().located_at(span)
}

/// `::a::b`. There are many of these, and `quote!` takes longer.
pub(super) fn path(names: &[&str], span: Span) -> impl Iterator<Item = TokenTree> {
    let colon = move |spacing| {
        let mut colon = Punct::new(':', spacing);
        colon.set_span(span);
        TokenTree::from(colon)
    };
    names
        .iter()
        .flat_map(move |name| [colon(Spacing::Joint), colon(Spacing::Alone), TokenTree::from(Ident::new(name, span))])
}

pub(super) fn relocated_to(tokens: TokenStream, span: Span) -> TokenStream {
    map_spans(tokens, &|own| own.located_at(span))
}

pub(super) fn respanned(tokens: TokenStream, span: Span) -> TokenStream {
    map_spans(tokens, &|_| span)
}

fn map_spans(tokens: TokenStream, map: &impl Fn(Span) -> Span) -> TokenStream {
    tokens
        .into_iter()
        .map(|mut token| {
            if let TokenTree::Group(group) = &token {
                let mut mapped = Group::new(group.delimiter(), map_spans(group.stream(), map));
                mapped.set_span(map(group.span()));
                return TokenTree::Group(mapped);
            }
            token.set_span(map(token.span()));
            token
        })
        .collect()
}
