//! What a `key` or `scope` reads: the parameters, bound by reference, before the handler runs.

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use syn::Expr;

use super::{Printer, local, spans::located, start};
use crate::{
    args::Expression,
    errors::edges,
    param::Binding,
    tokens::{Tokens, group, list, put, tokens},
};

impl Printer<'_> {
    /// `let head = { let State(app) = &__idem_arg0; scoped(captured.head, &(app.tenant)) };`; returns what the head is called
    /// from then on.
    pub(super) fn expressions(&self, head: Tokens, out: &mut Tokens) -> Tokens {
        let given = [("scoped", &self.arguments.scope), ("keyed", &self.arguments.key)];
        let given: Vec<_> = given.into_iter().filter_map(|(name, slot)| Some((name, slot.value()?))).collect();
        let at = Span::call_site();
        let name = local("head");
        let read = match given.as_slice() {
            [] => return head,
            // One call costs the compiler less than two.
            [(_, scope), (_, key)] if !has_macro(&scope.tokens) && !has_macro(&key.tokens) => {
                let at = start(&scope.tokens);
                let (scope, key) = (operand(&scope.expr, &scope.tokens), operand(&key.expr, &key.tokens));
                let function = self.runtime("scoped_and_keyed", at);
                tokens!(at; #function(#head, #scope, #key))
            }
            [(function, expression)] if !has_macro(&expression.tokens) => self.read(function, expression, &head),
            given => {
                let mut each = Tokens::new();
                let out = &mut each;
                put!(out, at; let #name = #head;);
                for (function, expression) in given {
                    let read = self.read(function, expression, &tokens!(at; #name));
                    let at = start(&expression.tokens);
                    // Nothing that a macro hides can leave the wrapper.
                    let inside = self.runtime("inside", at);
                    put!(out, at; let #name = #inside(|| #read););
                }
                put!(out, at; #name);
                each
            }
        };
        let bindings = self.bindings();
        put!(out, at; let #name = { #bindings #read };);
        tokens!(located(self.handler.sig.ident.span()); #name)
    }

    fn read(&self, function: &str, expression: &Expression, head: &Tokens) -> Tokens {
        let (start, end) = edges(&expression.tokens).unwrap_or_else(|| (Span::call_site(), Span::call_site()));
        let (operand, mut read) = (operand(&expression.expr, &expression.tokens), Tokens::new());
        let arguments = tokens!(located(start); #head, #operand);
        self.call_runtime(function, arguments, (located(start), located(end)), &mut read);
        read
    }

    /// The parameters that are read; all of them where a name is no parameter's, so that the compiler can suggest one.
    fn bindings(&self) -> Tokens {
        let mut bindings = Tokens::new();
        if self.read.is_empty() {
            return bindings;
        }
        let (at, out) = (Span::call_site(), &mut bindings);
        let all = self.read.iter().any(|names| names.has_stranger(self.handler));
        for slot in &self.slots {
            let Some(param) = slot.param else { continue };
            if !(all || param.bindings().iter().any(|name| self.reads(name))) {
                continue;
            }
            let (cfg, pattern, name) = (&slot.cfg, param.by_reference(), slot.value(&self.last));
            put!(out, at; #cfg let #pattern = &#name;);
            // Naming an `_unused` one here would be a use of it.
            let unread = param.bindings().iter().filter(|binding| !binding.is_hidden && !self.reads(binding));
            let mut references = Tokens::new();
            for Binding { ident, .. } in unread {
                let out = &mut references;
                put!(out, at; &#ident,);
            }
            if !references.is_empty() {
                put!(out, at; #cfg let _ = (#references););
            }
        }
        bindings
    }

    fn reads(&self, binding: &Binding) -> bool {
        self.read.iter().any(|names| names.read(&binding.name))
    }

    /// The body as written; what a `key` or `scope` reads is no unused variable in it.
    pub(super) fn inner_body(&self) -> Group {
        let body = &self.handler.body;
        let mut uses = Tokens::new();
        for param in self.handler.params.iter().filter(|_| !self.read.is_empty()) {
            for binding in param.bindings().iter().filter(|binding| !binding.is_hidden && self.reads(binding)) {
                let ident = &binding.ident;
                let (at, out) = (located(ident.span()), &mut uses);
                for cfg in &param.cfgs {
                    put!(out, at; #[cfg(#cfg)]);
                }
                put!(out, at; let _ = &#ident;);
            }
        }
        if uses.is_empty() || self.handler.has_inner_attribute() {
            return body.clone();
        }
        let mut stream: TokenStream = uses.into_iter().collect();
        stream.extend([body.stream()]);
        let mut block = Group::new(body.delimiter(), stream);
        block.set_span(body.span());
        block
    }
}

/// Whether a macro is called, which may expand to anything.
fn has_macro(tokens: &[TokenTree]) -> bool {
    let calls = tokens
        .windows(2)
        .any(|pair| matches!(pair, [TokenTree::Punct(punct), TokenTree::Group(_)] if punct.as_char() == '!'));
    let within = |token: &TokenTree| {
        let TokenTree::Group(group) = token else { return false };
        let inside: Tokens = group.stream().into_iter().collect();
        has_macro(&inside)
    };
    calls || tokens.iter().any(within)
}

/// `&(a.b)`; of a tuple each element by itself, as a tuple of places can't be built by reference.
fn operand(expression: &Expr, tokens: &Tokens) -> Tokens {
    let (start, end) = edges(tokens).unwrap_or_else(|| (Span::call_site(), Span::call_site()));
    let inside = match expression {
        Expr::Paren(inner) => return operand(&inner.expr, &list(&inner.expr)),
        Expr::Group(inner) => return operand(&inner.expr, &list(&inner.expr)),
        Expr::Tuple(tuple) if !tuple.elems.is_empty() => {
            let mut elements = Tokens::new();
            for element in &tuple.elems {
                let (element, out) = (operand(element, &list(element)), &mut elements);
                put!(out, Span::call_site(); #element,);
            }
            elements
        }
        _ => tokens.clone(),
    };
    let mut operand = tokens!(located(start); &);
    operand.push(group(Delimiter::Parenthesis, inside, located(end)));
    operand
}
