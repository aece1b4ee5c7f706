//! Gathers mistakes, so that all of them are reported together.

use std::fmt::Display;

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::Error;

/// The mistakes found so far. [`gather`] is the only way to get one, so none can be forgotten.
pub(crate) struct Errors(Option<Error>);

impl Errors {
    /// Records a mistake, underlining `tokens`.
    pub(crate) fn at(&mut self, tokens: impl ToTokens, message: impl Display) {
        self.take(Error::new_spanned(tokens, message));
    }

    /// Records an error that was made elsewhere.
    pub(crate) fn take(&mut self, error: Error) {
        match &mut self.0 {
            Some(errors) => errors.combine(error),
            None => self.0 = Some(error),
        }
    }

    /// Keeps the value of a result and records its error.
    pub(crate) fn keep<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        result.map_err(|error| self.take(error)).ok()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

/// Runs `work` with a place for its mistakes and returns them beside its value.
pub(crate) fn gather<T>(work: impl FnOnce(&mut Errors) -> T) -> (T, Option<Error>) {
    let mut errors = Errors(None);
    let value = work(&mut errors);
    (value, errors.0)
}

/// A message with one indented line of help.
pub(crate) fn with_help(message: impl Display, help: impl Display) -> String {
    format!("{message}\n\nhelp: {help}")
}

/// The first and the last place of some tokens: what an error underlines lies between.
pub(crate) fn edges(tokens: &[TokenTree]) -> Option<(Span, Span)> {
    let ends = |token: &TokenTree| match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::None => {
            let inside: Vec<TokenTree> = group.stream().into_iter().collect();
            edges(&inside).unwrap_or((group.span(), group.span()))
        }
        TokenTree::Group(group) => (group.span_open(), group.span_close()),
        other => (other.span(), other.span()),
    };
    let (first, last) = (tokens.first()?, tokens.last()?);
    Some((ends(first).0, ends(last).1))
}

/// The errors as items.
pub(crate) fn compile_errors(errors: Option<Error>) -> TokenStream {
    errors.map(Error::into_compile_error).unwrap_or_default()
}
