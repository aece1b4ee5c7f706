//! What a `key` or `scope` reads: the parameters, bound by reference, before the handler runs.

use proc_macro2::{Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, TokenStreamExt, quote, quote_spanned};
use syn::{Expr, ext::IdentExt};

use super::{Printer, spans::located};
use crate::errors::edges;

impl Printer<'_> {
    /// `{ let State(app) = &__idem_arg0; scoped(&mut head, &(app.tenant)); }`
    pub(super) fn expressions(&self, head: &Ident) -> Option<TokenStream> {
        let given = [("scoped", &self.arguments.scope), ("keyed", &self.arguments.key)];
        let given: Vec<_> = given.into_iter().filter_map(|(name, slot)| Some((name, slot.value()?))).collect();
        let reads = match given.as_slice() {
            [] => return None,
            // One call costs the compiler less than two.
            [(_, scope), (_, key)] if ![scope, key].iter().any(|one| has_macro(one.to_token_stream())) => {
                let at = start(scope);
                let (function, scope, key) = (self.runtime("scoped_and_keyed", at), operand(scope), operand(key));
                quote_spanned!(at=> #function(&mut #head, #scope, #key);)
            }
            given => given.iter().map(|(function, expression)| self.read(function, expression, head)).collect(),
        };
        let bindings = self.bindings();
        Some(quote!({ #bindings #reads }))
    }

    fn read(&self, function: &str, expression: &Expr, head: &Ident) -> TokenStream {
        let at = start(expression);
        let (function, operand) = (self.runtime(function, at), operand(expression));
        let call = quote_spanned!(at=> #function(&mut #head, #operand););
        if !has_macro(expression.to_token_stream()) {
            return call;
        }
        // Nothing that a macro hides can leave the wrapper.
        let (inside, read) = (self.runtime("inside", at), self.runtime("Read", at));
        quote_spanned!(at=> #inside(|| { #call #read });)
    }

    /// The parameters that are read; all of them where a name is no parameter's, so that the compiler can suggest one.
    fn bindings(&self) -> TokenStream {
        let all = self.read.iter().any(|names| names.has_stranger(self.handler));
        let mut bindings = TokenStream::new();
        for slot in &self.slots {
            let Some(param) = slot.param else { continue };
            if self.read.is_empty() || !(all || param.bindings().iter().any(|name| self.reads(name))) {
                continue;
            }
            let (cfg, pattern, name) = (&slot.cfg, param.by_reference(), slot.value(&self.last));
            bindings.extend(quote!(#cfg let #pattern = &#name;));
            // Naming an `_unused` one here would be a use of it.
            let unread = param.bindings().iter().filter(|name| !name.to_string().starts_with('_') && !self.reads(name));
            let unread: Vec<&Ident> = unread.collect();
            if !unread.is_empty() {
                bindings.extend(quote!(#cfg let _ = (#(&#unread,)*);));
            }
        }
        bindings
    }

    fn reads(&self, binding: &Ident) -> bool {
        let name = binding.unraw().to_string();
        self.read.iter().any(|names| names.read(&name))
    }

    /// The body as written; what a `key` or `scope` reads is no unused variable in it.
    pub(super) fn inner_body(&self) -> Group {
        let body = &self.handler.body;
        if self.read.is_empty() {
            return body.clone();
        }
        let read = |binding: &Ident| !binding.unraw().to_string().starts_with('_') && self.reads(binding);
        let mut uses = TokenStream::new();
        for param in &self.handler.params {
            let cfgs = &param.cfgs;
            for binding in param.bindings().iter().filter(|binding| read(binding)) {
                let span = located(binding.span());
                uses.extend(quote_spanned!(span=> #(#[cfg(#cfgs)])* let _ = &#binding;));
            }
        }
        let inner_attribute =
            matches!(body.stream().into_iter().next(), Some(TokenTree::Punct(punct)) if punct.as_char() == '#');
        if uses.is_empty() || inner_attribute {
            return body.clone();
        }
        uses.extend(body.stream());
        let mut block = Group::new(body.delimiter(), uses);
        block.set_span(body.span());
        block
    }
}

fn start(expression: &Expr) -> Span {
    edges(expression).map_or_else(Span::call_site, |(start, _)| located(start))
}

/// Whether a macro is called, which may expand to anything.
fn has_macro(tokens: TokenStream) -> bool {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let found = match &token {
            TokenTree::Punct(punct) => punct.as_char() == '!' && matches!(tokens.peek(), Some(TokenTree::Group(_))),
            TokenTree::Group(group) => has_macro(group.stream()),
            _ => false,
        };
        if found {
            return true;
        }
    }
    false
}

/// `&(a.b)`; of a tuple each element by itself, as a tuple of places can't be built by reference.
fn operand(expression: &Expr) -> TokenStream {
    let (start, end) = edges(expression).unwrap_or_else(|| (Span::call_site(), Span::call_site()));
    let inside = match expression {
        Expr::Paren(inner) => return operand(&inner.expr),
        Expr::Group(inner) => return operand(&inner.expr),
        Expr::Tuple(tuple) if !tuple.elems.is_empty() => {
            let elements = tuple.elems.iter().map(operand);
            quote!(#(#elements,)*)
        }
        other => other.to_token_stream(),
    };
    let mut group = Group::new(proc_macro2::Delimiter::Parenthesis, inside);
    group.set_span(located(end));
    let mut tokens = quote_spanned!(located(start)=> &);
    tokens.append(group);
    tokens
}
