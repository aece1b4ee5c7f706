//! What the options say, as the runtime's literal.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;

use super::Printer;
use crate::args::{Fingerprint, number};

impl Printer<'_> {
    /// `Policy::new(…)`, or `Policy { lease_ms: …, ..Policy::new(…) }` with what differs from the default.
    pub(super) fn policy(&self, at: Span) -> TokenStream {
        let arguments = self.arguments;
        let policy = self.runtime("Policy", at);
        let name = self.handler.plain_name();
        let ttl = number(arguments.ttl.value().copied().unwrap_or_default());
        let new = quote_spanned!(at=> #policy::new(::core::module_path!(), #name, #ttl));
        let mut fields = TokenStream::new();
        let numbers =
            [("lease_ms", &arguments.lease), ("wait_ms", &arguments.wait), ("max_response", &arguments.max_response)];
        for (field, slot) in numbers {
            if let Some(value) = slot.value() {
                let (field, value) = (Ident::new(field, at), number(*value));
                fields.extend(quote_spanned!(at=> #field: #value,));
            }
        }
        if let Some(header) = self.header() {
            fields.extend(quote_spanned!(at=> header: #header,));
        }
        if arguments.optional.value().is_some() {
            fields.extend(quote_spanned!(at=> optional: true,));
        }
        if let Some(operation) = arguments.operation.value() {
            fields.extend(quote_spanned!(at=> operation: ::core::option::Option::Some(#operation),));
        }
        if let Some(fingerprint) = arguments.fingerprint.value() {
            let value = self.fingerprint(fingerprint, at);
            fields.extend(quote_spanned!(at=> fingerprint: #value,));
        }
        let choices = [
            ("record", "Record", &arguments.record),
            ("unknown", "Unknown", &arguments.unknown),
            ("outage", "Outage", &arguments.outage),
        ];
        for (field, ty, slot) in choices {
            if let Some(choice) = slot.value() {
                let (field, ty) = (Ident::new(field, at), self.runtime(ty, at));
                let variant = Ident::new(&capitalised(&choice.to_string()), at);
                fields.extend(quote_spanned!(at=> #field: #ty::#variant,));
            }
        }
        if fields.is_empty() { new } else { quote_spanned!(at=> #policy { #fields ..#new }) }
    }

    fn fingerprint(&self, fingerprint: &Fingerprint, at: Span) -> TokenStream {
        let (body, members) = (self.runtime("BodyFingerprint", at), self.runtime("Members", at));
        match fingerprint {
            Fingerprint::Json => quote_spanned!(at=> #body::Json(#members::All)),
            Fingerprint::Raw => quote_spanned!(at=> #body::Raw),
            Fingerprint::None => quote_spanned!(at=> #body::None),
            Fingerprint::Skip(pointers) => quote_spanned!(at=> #body::Json(#members::Skip(&[#(#pointers),*]))),
            Fingerprint::Only(pointers) => quote_spanned!(at=> #body::Json(#members::Only(&[#(#pointers),*]))),
        }
    }
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
