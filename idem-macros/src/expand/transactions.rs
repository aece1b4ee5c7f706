//! Refuses what a handler can't have beside its transaction: a second one, and `unknown = hold`.
//!
//! Only the compiler knows whether a type that is called `Tx` is the runtime's: it is asked by a constant. A handler whose
//! transaction is called otherwise, or hidden in another extractor, is refused at its first request.

use proc_macro2::{Literal, TokenTree};
use syn::Type;

use super::{Printer, start};
use crate::{
    errors::with_help,
    tokens::{Tokens, put, tokens},
};

impl Printer<'_> {
    /// Constants that don't evaluate where the rules are broken; nothing for a handler without a `Tx`.
    pub(super) fn transactions(&self) -> Tokens {
        // A constant sees no generics of the function round it.
        if !self.handler.sig.generics.params.is_empty() {
            return Tokens::new();
        }
        let params = self.handler.params.iter().filter(|param| param.cfgs.is_empty());
        let mut candidates = params.map(|param| &param.ty).filter(|ty| is_called_tx(ty));
        let Some(first) = candidates.next() else { return Tokens::new() };
        let handler = self.handler.plain_name();
        let mut checks = Tokens::new();
        for other in candidates {
            let message = with_help(
                format!("`{handler}` takes two transactions, and its record commits in one"),
                "leave one `Tx`; a savepoint in it is `tx.begin()`",
            );
            checks.extend(self.check(&[first, other], 2, other, &message));
        }
        if self.arguments.unknown.value().is_some_and(|unknown| unknown == "hold") {
            let message = with_help(
                format!("`{handler}` takes a transaction, which leaves no outcome unknown that could be held"),
                "leave out `unknown = hold`, or the `Tx`",
            );
            let written: Tokens = self.arguments.unknown.tokens().into_iter().collect();
            checks.extend(self.check(&[first], 1, &written, &message));
        }
        checks
    }

    /// Fails with `message` at `place` if as many of `types` as `limit` are transactions.
    fn check(&self, types: &[&Tokens], limit: usize, place: &Tokens, message: &str) -> Tokens {
        let at = start(place);
        let (count, other) = (self.runtime("Transactions", at), self.runtime("NotATransaction", at));
        let (message, limit) = (Literal::string(message), Literal::usize_unsuffixed(limit));
        let mut counted = Tokens::new();
        for ty in types {
            let out = &mut counted;
            put!(out, at; + #count::<#ty>::COUNT);
        }
        tokens! {at;
            const _: () = {
                #[allow(unused_imports)]
                use #other as _;
                if 0 #counted >= #limit {
                    ::core::panic!(#message)
                }
            };
        }
    }
}

fn is_called_tx(ty: &Tokens) -> bool {
    let is = |name: &'static str| move |token: &TokenTree| matches!(token, TokenTree::Ident(ident) if ident == name);
    if !ty.iter().any(is("Tx")) {
        return false;
    }
    let parsed: syn::Result<Type> = syn::parse2(ty.iter().cloned().collect());
    matches!(parsed, Ok(Type::Path(path))
        if path.qself.is_none()
            && path.path.segments.last().is_some_and(|last| last.ident == "Tx")
            && path.path.segments.iter().all(|segment| segment.ident != "Self"))
}
