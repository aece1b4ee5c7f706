//! The `#[idempotent]` attribute; use it through `idem-runtime`, whose docs explain it.

use proc_macro::TokenStream;

/// Makes an axum handler safe to retry.
#[proc_macro_attribute]
pub fn idempotent(_arguments: TokenStream, item: TokenStream) -> TokenStream {
    item
}
