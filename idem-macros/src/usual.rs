//! The usual handler, read without a parser, which would take longer than all else: `async fn name(pattern: Type) -> Type`
//! with no generics. What is not of this kind is left to `syn`.

use proc_macro2::{Delimiter, Group, Ident, Spacing, TokenTree};

use crate::tokens::Tokens;

/// Where the parts of an item are.
pub(crate) struct Parts<'a> {
    pub(crate) attrs: &'a [TokenTree],
    pub(crate) vis: &'a [TokenTree],
    /// From `async` to the return type.
    pub(crate) signature: &'a [TokenTree],
    pub(crate) keywords: [&'a Ident; 2],
    pub(crate) name: &'a Ident,
    pub(crate) params: &'a Group,
    pub(crate) output: &'a [TokenTree],
    pub(crate) body: &'a Group,
}

/// The parts of a usual handler.
pub(crate) fn parts(item: &[TokenTree]) -> Option<Parts<'_>> {
    let start = item.iter().position(|token| is_word(token, "async"))?;
    let (before, rest) = item.split_at_checked(start)?;
    let (last, signature) = rest.split_last()?;
    let [TokenTree::Ident(asyncness), TokenTree::Ident(function), TokenTree::Ident(name), params, after @ ..] =
        signature
    else {
        return None;
    };
    let params = delimited(params, Delimiter::Parenthesis)?;
    let output = match after {
        [] => after,
        [dash, arrow, output @ ..] if is_punct(dash, '-') && is_punct(arrow, '>') && !output.is_empty() => output,
        _ => return None,
    };
    if function != "fn" || output.iter().any(|token| is_word(token, "where")) {
        return None;
    }
    let (attrs, vis) = match before {
        [attrs @ .., vis] if is_word(vis, "pub") => (attrs, std::slice::from_ref(vis)),
        [attrs @ .., public, place] if is_word(public, "pub") && delimited(place, Delimiter::Parenthesis).is_some() => {
            (attrs, before.get(attrs.len()..)?)
        }
        attrs => (attrs, [].as_slice()),
    };
    let is_attribute = |pair: &[TokenTree]| matches!(pair, [hash, inside] if is_punct(hash, '#') && delimited(inside, Delimiter::Bracket).is_some());
    let keywords = [asyncness, function];
    let body = delimited(last, Delimiter::Brace)?;
    attrs.chunks(2).all(is_attribute).then_some(Parts { attrs, vis, signature, keywords, name, params, output, body })
}

/// A parameter's pattern and type; nothing for `self`, `...` and what has attributes.
pub(crate) fn parameter(tokens: &[TokenTree]) -> Option<(&[TokenTree], &[TokenTree])> {
    let colon = |token: &TokenTree, spacing| matches!(token, TokenTree::Punct(punct) if punct.as_char() == ':' && punct.spacing() == spacing);
    let mut joint = false;
    let at = tokens.iter().position(|token| {
        let alone = !joint && colon(token, Spacing::Alone);
        joint = colon(token, Spacing::Joint);
        alone
    })?;
    let (pattern, [_, ty @ ..]) = tokens.split_at_checked(at)? else { return None };
    let strange = |token: &TokenTree| is_punct(token, '#') || is_word(token, "self");
    let usual = !pattern.iter().any(strange) && !pattern.is_empty() && !ty.first().is_none_or(|dot| is_punct(dot, '.'));
    usual.then_some((pattern, ty))
}

/// The names that a pattern binds, where it is made of names, paths and parentheses only.
pub(crate) fn bindings(pattern: &[TokenTree], found: &mut Vec<Ident>) -> Option<()> {
    let mut tokens = pattern.iter().peekable();
    let mut in_path = false;
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(word) if word == "_" => {}
            TokenTree::Ident(word) if ["mut", "ref", "true", "false"].iter().any(|other| word == other) => return None,
            TokenTree::Ident(name) => {
                let names_more = in_path
                    || tokens.peek().is_some_and(|next| is_punct(next, ':') || matches!(next, TokenTree::Group(_)));
                if !names_more {
                    found.push(name.clone());
                }
                in_path = false;
            }
            TokenTree::Punct(punct) if punct.as_char() == ',' => in_path = false,
            TokenTree::Punct(punct) if punct.as_char() == ':' => in_path = true,
            TokenTree::Group(group) if group.delimiter() == Delimiter::Parenthesis => {
                let inside: Tokens = group.stream().into_iter().collect();
                bindings(&inside, found)?;
            }
            _ => return None,
        }
    }
    Some(())
}

fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == word)
}

fn is_punct(token: &TokenTree, punct: char) -> bool {
    matches!(token, TokenTree::Punct(found) if found.as_char() == punct)
}

fn delimited(token: &TokenTree, delimiter: Delimiter) -> Option<&Group> {
    match token {
        TokenTree::Group(group) if group.delimiter() == delimiter => Some(group),
        _ => None,
    }
}
