//! The parameters, and which of them is the last.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;

use super::outlive;
use crate::{
    param::Param,
    tokens::{Tokens, put, tokens},
};

/// A parameter in one configuration: `#[cfg]` on trailing ones makes different ones the last.
pub(super) struct ParamSlot<'a> {
    pub(super) cfg: TokenStream,
    /// Nothing where the handler has no parameter.
    pub(super) param: Option<&'a Param>,
    /// Whether it is the last, and so the one that is captured.
    pub(super) last: bool,
}

impl ParamSlot<'_> {
    /// The parameter's type, with no lifetime left to infer: the handler runs in its own task.
    pub(super) fn ty(&self) -> Tokens {
        match self.param {
            None => tokens!(Span::call_site(); ()),
            Some(param) if param.may_borrow => outlive::parameter(param.parsed()),
            Some(param) => param.ty.clone(),
        }
    }

    pub(super) fn name<'s>(&'s self, last: &'s Ident) -> &'s Ident {
        self.param.map_or(last, |param| &param.name)
    }

    /// The variable that holds it once the last one is parted from what was captured with it.
    pub(super) fn value<'s>(&'s self, last: &'s Ident) -> &'s Ident {
        if self.last { last } else { self.name(last) }
    }
}

/// Lists each trailing parameter with `#[cfg]`s twice: as the last one, and as one before a later one.
pub(super) fn slots(params: &[Param]) -> Vec<ParamSlot<'_>> {
    let mut slots = Vec::new();
    // What decides whether a later parameter exists: nothing later, some configurations, or always.
    let mut later: Option<Vec<TokenStream>> = Some(Vec::new());
    for param in params.iter().rev() {
        let own: TokenStream = param.cfgs.iter().map(|cfg| quote!(#[cfg(#cfg)])).collect();
        match &later {
            None => slots.push(ParamSlot { cfg: own, param: Some(param), last: false }),
            Some(cfgs) if cfgs.is_empty() => slots.push(ParamSlot { cfg: own, param: Some(param), last: true }),
            Some(cfgs) => {
                let (before, last) = (quote!(#own #[cfg(any(#(#cfgs),*))]), quote!(#own #[cfg(not(any(#(#cfgs),*)))]));
                slots.push(ParamSlot { cfg: last, param: Some(param), last: true });
                slots.push(ParamSlot { cfg: before, param: Some(param), last: false });
            }
        }
        if param.cfgs.is_empty() {
            later = None;
        } else if let Some(cfgs) = &mut later {
            let own = &param.cfgs;
            cfgs.push(quote!(all(#(#own),*)));
        }
    }
    slots.reverse();
    if let Some(cfgs) = later {
        let cfg = if cfgs.is_empty() { TokenStream::new() } else { quote!(#[cfg(not(any(#(#cfgs),*)))]) };
        slots.push(ParamSlot { cfg, param: None, last: true });
    }
    slots
}
