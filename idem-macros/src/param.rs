//! A parameter of the annotated function, and the names that it binds.

use std::cell::OnceCell;

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::format_ident;
use syn::{
    Attribute, Meta, Pat, PatIdent, PatType, Type,
    parse::Parser,
    visit_mut::{self, VisitMut},
};

use crate::{
    tokens::{Tokens, list},
    usual,
};

/// One parameter, and how the wrapper and the expressions see it.
pub(crate) struct Param {
    pub(crate) pattern: Tokens,
    pub(crate) ty: Tokens,
    /// The wrapper's name for it: the author's where that is a plain one.
    pub(crate) name: Ident,
    /// What its `#[cfg]`s ask for.
    pub(crate) cfgs: Vec<TokenStream>,
    /// Whether the type may have a lifetime that is left to infer, or an `impl Trait`.
    pub(crate) may_borrow: bool,
    /// Asked for by `key` and `scope` only.
    by_reference: OnceCell<ByReference>,
}

/// What the wrapper calls a parameter; `name` is the author's own.
fn wrapper_name(name: Option<&Ident>, others: &[Param]) -> Ident {
    match name {
        // Located at the author's name, but not theirs: passing an `_unused` one on is no use of it.
        Some(ident) if !others.iter().any(|other| other.name == *ident) => {
            let mut name = ident.clone();
            name.set_span(Span::call_site().located_at(ident.span()));
            name
        }
        _ => format_ident!("__idem_arg{}", others.len(), span = Span::mixed_site()),
    }
}

impl Param {
    /// One with a `pattern` and `ty` that [`usual`] has told apart.
    pub(crate) fn usual(pattern: &[TokenTree], ty: &[TokenTree], may_borrow: bool, others: &[Self]) -> Self {
        let name = match pattern {
            [TokenTree::Ident(name)] if name != "_" => Some(name),
            [TokenTree::Ident(mutable), TokenTree::Ident(name)] if mutable == "mut" => Some(name),
            _ => None,
        };
        let name = wrapper_name(name, others);
        let (pattern, ty) = (pattern.to_vec(), ty.to_vec());
        Self { pattern, ty, name, cfgs: Vec::new(), may_borrow, by_reference: OnceCell::new() }
    }

    pub(crate) fn new(original: &PatType, others: &[Self]) -> Self {
        let name = match &*original.pat {
            Pat::Ident(PatIdent { ident, by_ref: None, subpat: None, .. }) => Some(ident),
            _ => None,
        };
        Self {
            pattern: list(&original.pat),
            ty: list(&original.ty),
            name: wrapper_name(name, others),
            cfgs: original.attrs.iter().filter_map(cfg_predicate).collect(),
            may_borrow: true,
            by_reference: OnceCell::new(),
        }
    }

    /// The pattern without `mut`, `ref` and `&`: it binds references when matched against one.
    pub(crate) fn by_reference(&self) -> &Tokens {
        &self.stripped().pattern
    }

    /// The names it binds.
    pub(crate) fn bindings(&self) -> &[Binding] {
        &self.stripped().bindings
    }

    /// Whether a macro in the pattern hides what it binds.
    pub(crate) fn is_opaque(&self) -> bool {
        self.stripped().opaque
    }

    pub(crate) fn parsed(&self) -> Type {
        let tokens: TokenStream = self.ty.iter().cloned().collect();
        syn::parse2(tokens.clone()).unwrap_or(Type::Verbatim(tokens))
    }

    fn stripped(&self) -> &ByReference {
        self.by_reference.get_or_init(|| {
            let mut bound = Vec::new();
            if usual::bindings(&self.pattern, &mut bound).is_some() {
                let bindings = bound.into_iter().map(Binding::new).collect();
                return ByReference { pattern: self.pattern.clone(), bindings, opaque: false };
            }
            let tokens: TokenStream = self.pattern.iter().cloned().collect();
            let mut pat = Pat::parse_single.parse2(tokens.clone()).unwrap_or(Pat::Verbatim(tokens));
            let mut strip = Strip { bindings: Vec::new(), opaque: false };
            strip.visit_pat_mut(&mut pat);
            let bindings = strip.bindings.into_iter().map(Binding::new).collect();
            ByReference { pattern: list(pat), bindings, opaque: strip.opaque }
        })
    }
}

fn cfg_predicate(attribute: &Attribute) -> Option<TokenStream> {
    match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => Some(list.tokens.clone()),
        _ => None,
    }
}

/// A pattern that binds references, and the names it binds.
struct ByReference {
    pattern: Tokens,
    bindings: Vec<Binding>,
    opaque: bool,
}

/// A name that a pattern binds.
pub(crate) struct Binding {
    pub(crate) ident: Ident,
    /// Without `r#`.
    pub(crate) name: String,
    /// Whether it may stay unused.
    pub(crate) is_hidden: bool,
}

impl Binding {
    fn new(ident: Ident) -> Self {
        let name = ident.to_string();
        let is_hidden = name.starts_with('_');
        Self { ident, name: name.strip_prefix("r#").map(str::to_owned).unwrap_or(name), is_hidden }
    }
}

/// Turns a pattern into one that binds references, and notes the names.
struct Strip {
    bindings: Vec<Ident>,
    opaque: bool,
}

impl VisitMut for Strip {
    fn visit_pat_mut(&mut self, pat: &mut Pat) {
        while let Pat::Reference(reference) = pat {
            *pat = (*reference.pat).clone();
        }
        visit_mut::visit_pat_mut(self, pat);
    }

    fn visit_pat_ident_mut(&mut self, pat: &mut PatIdent) {
        pat.by_ref = None;
        pat.mutability = None;
        self.bindings.push(pat.ident.clone());
        visit_mut::visit_pat_ident_mut(self, pat);
    }

    fn visit_macro_mut(&mut self, _: &mut syn::Macro) {
        self.opaque = true;
    }
}
