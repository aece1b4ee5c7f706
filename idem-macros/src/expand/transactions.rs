//! Refuses what a handler can't have beside its transaction: a second one, and `unknown = hold`.
//!
//! Only the compiler knows whether a type that is called `Tx` is the runtime's: it is asked by a constant. A handler whose
//! transaction is called otherwise, or hidden in another extractor, is refused at its first request.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::Type;

use super::{Printer, spans::located};
use crate::errors::{edges, with_help};

impl Printer<'_> {
    /// Constants that don't evaluate where the rules are broken; nothing for a handler without a `Tx`.
    pub(super) fn transactions(&self) -> TokenStream {
        // A constant sees no generics of the function round it.
        if !self.handler.sig.generics.params.is_empty() {
            return TokenStream::new();
        }
        let params = self.handler.params.iter().filter(|param| param.cfgs.is_empty());
        let mut candidates = params.map(|param| &*param.original.ty).filter(|ty| is_called_tx(ty));
        let Some(first) = candidates.next() else { return TokenStream::new() };
        let handler = self.handler.plain_name();
        let mut checks = TokenStream::new();
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
            checks.extend(self.check(&[first], 1, self.arguments.unknown.tokens(), &message));
        }
        checks
    }

    /// Fails with `message` at `place` if as many of `types` as `limit` are transactions.
    fn check(&self, types: &[&Type], limit: usize, place: impl ToTokens, message: &str) -> TokenStream {
        let at = edges(place).map_or_else(Span::call_site, |(start, _)| located(start));
        let (count, other) = (self.runtime("Transactions", at), self.runtime("NotATransaction", at));
        quote_spanned! {at=>
            const _: () = {
                #[allow(unused_imports)]
                use #other as _;
                if 0 #(+ #count::<#types>::COUNT)* >= #limit {
                    ::core::panic!(#message)
                }
            };
        }
    }
}

fn is_called_tx(ty: &Type) -> bool {
    matches!(ty, Type::Path(path)
        if path.qself.is_none()
            && path.path.segments.last().is_some_and(|last| last.ident == "Tx")
            && path.path.segments.iter().all(|segment| segment.ident != "Self"))
}
