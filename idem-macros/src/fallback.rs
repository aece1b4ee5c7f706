//! What is printed besides errors: the handler never disappears, and keeps its type where that can be told, so that one
//! mistake is one error.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::Safety;

use crate::{
    args::{Arguments, Pass},
    expand,
    handler::Handler,
    validate,
};

/// The handler, guarded as far as its mistakes allow.
pub(crate) fn expand(mut arguments: Arguments, mut handler: Handler) -> TokenStream {
    arguments.key.discard();
    arguments.scope.discard();
    let sig = &handler.sig;
    let is_plain = sig.receiver().is_none() && sig.generics.lifetimes().next().is_none();
    handler.attrs.retain(|attribute| !validate::is_ours(attribute.path()));
    handler.make_callable();
    let runs = handler.sig.asyncness.is_some() && !matches!(handler.sig.safety, Safety::Unsafe(_));
    if !is_plain {
        as_written(&handler)
    } else if runs {
        let same_name = |name: &syn::Ident| *name == handler.sig.ident;
        if let Some(crate::args::Inner::Free(name) | crate::args::Inner::Associated(name)) = arguments.inner.value()
            && same_name(name)
        {
            arguments.inner.discard();
        }
        expand::expand(&arguments, &handler)
    } else if handler.mentions_self() || expand::has_impl_trait(&handler) {
        as_written(&handler)
    } else {
        arguments.inner.discard();
        expand::stub(&arguments, &handler)
    }
}

fn as_written(handler: &Handler) -> TokenStream {
    let Handler { attrs, vis, written, body, .. } = handler;
    quote!(#(#attrs)* #(#vis)* #(#written)* #body)
}

/// The handler with its other attributes before ours, so that they see it as its author wrote it.
pub(crate) fn after_the_others(
    arguments: &Arguments,
    written: &TokenStream,
    handler: &Handler,
    pass: Pass,
) -> TokenStream {
    let Handler { attrs, vis, written: signature, body, .. } = handler;
    let attrs = attrs.iter().filter(|attribute| !validate::is_ours(attribute.path())).map(ToTokens::to_token_stream);
    let krate = expand::runtime_crate(arguments, proc_macro2::Span::call_site());
    let marker = pass.marker();
    quote!(#(#attrs)* #[#(#krate)*::idempotent(#marker, #written)] #(#vis)* #(#signature)* #body)
}
