//! What the options say, as the runtime's literal.

use proc_macro2::{Ident, Literal, Span};

use super::Printer;
use crate::{
    args::Fingerprint,
    tokens::{Tokens, put, tokens},
};

/// How a policy is given to the runtime.
pub(super) enum Printed {
    /// Its parts, as the arguments of a function: each call in the wrapper costs the compiler.
    Default(Tokens),
    Literal(Tokens),
}

impl Printed {
    pub(super) fn into_tokens(self) -> Tokens {
        match self {
            Self::Default(tokens) | Self::Literal(tokens) => tokens,
        }
    }
}

impl Printer<'_> {
    /// `module_path!(), …`, or `Policy { lease_ms: …, ..Policy::new(module_path!(), …) }` with what differs from the default.
    pub(super) fn policy(&self, at: Span) -> Printed {
        let arguments = self.arguments;
        let name = Literal::string(&self.handler.plain_name());
        let ttl = Literal::u64_unsuffixed(arguments.ttl.value().copied().unwrap_or_default());
        let parts = tokens!(at; ::core::module_path!(), #name, #ttl);
        let mut fields = Tokens::new();
        let out = &mut fields;
        let numbers =
            [("lease_ms", &arguments.lease), ("wait_ms", &arguments.wait), ("max_response", &arguments.max_response)];
        for (field, slot) in numbers {
            if let Some(value) = slot.value() {
                let (field, value) = (Ident::new(field, at), Literal::u64_unsuffixed(*value));
                put!(out, at; #field: #value,);
            }
        }
        if let Some(header) = self.header() {
            let header = header.token();
            put!(out, at; header: #header,);
        }
        if arguments.optional.value().is_some() {
            put!(out, at; optional: true,);
        }
        if let Some(operation) = arguments.operation.value() {
            let operation = operation.token();
            put!(out, at; operation: ::core::option::Option::Some(#operation),);
        }
        if let Some(fingerprint) = arguments.fingerprint.value() {
            let value = self.fingerprint(fingerprint, at);
            put!(out, at; fingerprint: #value,);
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
                put!(out, at; #field: #ty::#variant,);
            }
        }
        if fields.is_empty() {
            return Printed::Default(parts);
        }
        let policy = self.runtime("Policy", at);
        Printed::Literal(tokens!(at; #policy { #fields ..#policy::new(#parts) }))
    }

    fn fingerprint(&self, fingerprint: &Fingerprint, at: Span) -> Tokens {
        let (body, members) = (self.runtime("BodyFingerprint", at), self.runtime("Members", at));
        let (choice, pointers) = match fingerprint {
            Fingerprint::Json => return tokens!(at; #body::Json(#members::All)),
            Fingerprint::Raw => return tokens!(at; #body::Raw),
            Fingerprint::None => return tokens!(at; #body::None),
            Fingerprint::Skip(pointers) => ("Skip", pointers),
            Fingerprint::Only(pointers) => ("Only", pointers),
        };
        let mut list = Tokens::new();
        for pointer in pointers {
            let (pointer, out) = (pointer.token(), &mut list);
            put!(out, at; #pointer,);
        }
        let choice = Ident::new(choice, at);
        tokens!(at; #body::Json(#members::#choice(&[#list])))
    }
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
