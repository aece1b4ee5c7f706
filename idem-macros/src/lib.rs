//! The `#[idempotent]` attribute; use it through `idem-runtime`, whose docs explain it.

mod args;
mod duration;
mod errors;
mod expand;
mod fallback;
mod handler;
mod param;
mod rules;
mod senders;
mod suggest;
#[cfg(test)]
mod tests;
mod tokens;
mod usual;
mod validate;

use proc_macro::TokenStream;
use proc_macro2::TokenStream as TokenStream2;
use quote::quote;

use crate::{
    args::{Arguments, Pass},
    errors::{compile_errors, gather},
    handler::Handler,
};

#[doc = include_str!("docs/attribute.md")]
#[doc = include_str!("docs/errors.md")]
#[proc_macro_attribute]
pub fn idempotent(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let expansion = guard(&arguments.into(), &item.into());
    if std::env::var_os("IDEM_MACROS_DEBUG").is_some_and(|value| value != "0") {
        eprintln!("{expansion}");
    }
    expansion.into()
}

/// Parses, validates and expands, or falls back to the handler and its errors.
fn guard(written: &TokenStream2, item: &TokenStream2) -> TokenStream2 {
    let (arguments, argument_errors) = gather(|errors| {
        let arguments = Arguments::parse(written.clone(), errors);
        validate::arguments(&arguments, errors);
        arguments
    });
    let sound = argument_errors.is_none();
    let argument_errors = compile_errors(argument_errors.filter(|_| arguments.pass != Pass::Reported));
    let handler = match Handler::of(item.clone()) {
        Ok(handler) => handler,
        Err(error) => {
            // A parameter without a type: the compiler says so itself.
            let known = error.to_string() == "expected `:`";
            let error = if known { TokenStream2::new() } else { error.into_compile_error() };
            return quote!(#item #argument_errors #error);
        }
    };
    if arguments.pass == Pass::First && handler.has_other_macros() {
        let duplicates = compile_errors(gather(|errors| validate::once(&handler, errors)).1);
        let pass = if sound { Pass::Second } else { Pass::Reported };
        let reordered = fallback::after_the_others(&arguments, written, &handler, pass);
        return quote!(#reordered #argument_errors #duplicates);
    }
    let ((), errors) = gather(|errors| {
        validate::signature(&handler, errors);
        if sound && errors.is_empty() {
            validate::together(&arguments, &handler, errors);
        }
    });
    if sound && errors.is_none() {
        return expand::expand(&arguments, &handler);
    }
    let errors = compile_errors(errors);
    let handler = fallback::expand(arguments, handler);
    quote!(#handler #argument_errors #errors)
}
