//! Prints the wrapper.
//!
//! Tokens of the author's keep their spans. Those added here are located at the author's code, so that an error
//! underlines it, but come from the macro, so that lints stay quiet.

mod expressions;
mod outlive;
mod policy;
mod slots;
mod spans;
mod transactions;

use proc_macro2::{Delimiter, Ident, Literal, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident};
use syn::{Attribute, GenericParam, Generics, ext::IdentExt};

use self::{
    slots::{ParamSlot, slots},
    spans::{located, relocated_to},
};
use crate::{
    args::{Arguments, Inner},
    errors::edges,
    handler::Handler,
    param::Param,
    tokens::{Put, Tokens, group, list, put, tokens},
    validate::Names,
};

/// clippy's own limit, which the handler as written passes just as well.
const TOO_MANY_ARGUMENTS: usize = 7;

/// The wrapper, and where it can't be nested, the handler as written beside it.
///
/// ```text
/// async fn create(State(app): S, Json(b): E) -> R { … }
///
/// fn create(__idem_arg0: S, __idem_captured: NeedsIdempotency<E>) -> IdemFuture {
///     async fn create(State(app): S, Json(b): E) -> R { … }
///     let last = captured.last;
///     let head = { let State(app) = &__idem_arg0; scoped(captured.head, &(app.tenant)) };
///     run({ create }(__idem_arg0, last), head, module_path!(), "create", 86400000)
/// }
/// ```
pub(crate) fn expand(arguments: &Arguments, handler: &Handler) -> TokenStream {
    let printer = Printer::new(arguments, handler);
    let mut content = Tokens::new();
    let inner = printer.inner();
    let beside = if printer.place.is_nested() {
        content = inner;
        Tokens::new()
    } else {
        inner
    };
    content.extend(printer.transactions());
    printer.body(&mut content);
    let mut wrapper = printer.wrapper(content);
    wrapper.extend(beside);
    wrapper.into_iter().collect()
}

/// A wrapper of the same type round a function that can't be called, so that its error stays the only one.
pub(crate) fn stub(arguments: &Arguments, handler: &Handler) -> TokenStream {
    let printer = Printer::new(arguments, handler);
    let Handler { written, body, .. } = handler;
    let callee = &printer.callee;
    let content = tokens!(Span::call_site(); #written #body let _ = #callee; ::core::unreachable!());
    printer.wrapper(content).into_iter().collect()
}

/// Where the handler as written goes.
enum Place {
    /// Into the wrapper, by its own name: errors read as in ordinary code.
    Nested,
    /// Next to the wrapper, as it names `Self`, which only the `impl` itself can.
    Sibling,
    /// Next to the wrapper, by a name of the author's.
    Named,
}

impl Place {
    fn is_nested(&self) -> bool {
        matches!(self, Self::Nested)
    }
}

struct Printer<'a> {
    arguments: &'a Arguments,
    handler: &'a Handler,
    place: Place,
    /// The inner function's name.
    name: Ident,
    /// The inner function as a value.
    callee: Tokens,
    /// The parameters of each configuration.
    slots: Vec<ParamSlot<'a>>,
    /// What the expressions read; nothing of those made of literals.
    read: Vec<&'a Names>,
    incoming: Ident,
    captured: Ident,
    last: Ident,
}

impl<'a> Printer<'a> {
    fn new(arguments: &'a Arguments, handler: &'a Handler) -> Self {
        let ident = &handler.sig.ident;
        let at = located(ident.span());
        let (place, name, of_self) = match arguments.inner.value() {
            Some(Inner::Free(name)) => (Place::Named, name.clone(), false),
            Some(Inner::Associated(name)) => (Place::Named, name.clone(), true),
            None if handler.mentions_self() => {
                (Place::Sibling, format_ident!("__idem_{}", ident.unraw(), span = at), true)
            }
            None => (Place::Nested, ident.clone(), false),
        };
        let mut callee = if of_self { tokens!(at; Self::#name) } else { vec![name.clone().into()] };
        turbofish(&handler.sig.generics, at).put(&mut callee);
        let expressions = [&arguments.scope, &arguments.key].into_iter().filter_map(|slot| slot.value());
        Self {
            arguments,
            handler,
            place,
            name,
            callee,
            slots: slots(&handler.params),
            read: expressions.filter(|one| !one.is_literal).map(|one| &one.names).collect(),
            incoming: local("incoming"),
            captured: local("captured"),
            last: local("last"),
        }
    }

    /// A name in the runtime's private door, located at `span`.
    fn runtime(&self, name: &str, span: Span) -> Tokens {
        let mut path = runtime_crate(self.arguments, span);
        let (path_out, name) = (&mut path, Ident::new(name, span));
        put!(path_out, span; ::__private::#name);
        path
    }

    /// The handler as its author wrote it.
    fn inner(&self) -> Tokens {
        let Handler { vis, attrs, written, .. } = self.handler;
        let mut inner = Tokens::new();
        let out = &mut inner;
        let lints = || -> TokenStream {
            attrs.iter().filter(|attribute| moves_to_sibling(attribute)).map(ToTokens::to_token_stream).collect()
        };
        match self.place {
            Place::Nested => self.allow_too_many_arguments(out),
            Place::Sibling => {
                let lints = lints();
                put!(out, Span::call_site(); #lints #[doc(hidden)]);
            }
            Place::Named => {
                let doc = Literal::string(&format!("`{}` as written, without its guard.", self.handler.plain_name()));
                let lints = lints();
                put!(out, Span::call_site(); #lints #[doc = #doc] #vis);
            }
        }
        let before = out.len();
        written.put(out);
        let function =
            out.iter().skip(before).position(|token| matches!(token, TokenTree::Ident(word) if word == "fn"));
        if let Some(name) = function.and_then(|function| out.get_mut(before + function + 1)) {
            *name = self.name.clone().into();
        }
        out.push(self.inner_body().into());
        inner
    }

    /// One function of the two keeps the lint, so that it is reported once.
    fn allow_too_many_arguments(&self, out: &mut Tokens) {
        if self.handler.params.len() > TOO_MANY_ARGUMENTS {
            put!(out, located(self.handler.sig.ident.span()); #[allow(clippy::too_many_arguments)]);
        }
    }

    fn wrapper(&self, content: Tokens) -> Tokens {
        let Handler { attrs, vis, sig, body, output, .. } = self.handler;
        let nested = self.place.is_nested();
        let mut wrapper = Tokens::new();
        let out = &mut wrapper;
        for attribute in attrs.iter().filter(|attribute| nested || !moves_to_sibling(attribute)) {
            attribute.to_token_stream().put(out);
        }
        if !nested {
            self.allow_too_many_arguments(out);
        }
        let ident = &sig.ident;
        vis.put(out);
        out.push(Ident::new("fn", sig.fn_token.span).into());
        ident.put(out);
        let generics = (!sig.generics.params.is_empty()).then(|| outlive::generics(&sig.generics));
        generics.as_ref().map(ToTokens::to_token_stream).put(out);
        out.push(group(Delimiter::Parenthesis, self.params(), self.handler.parens));
        // The author's spans: lints of the signature stand at its return type and body.
        let (start, end) = edges(output).unwrap_or((ident.span(), ident.span()));
        let mut future = self.runtime("IdemFuture", start);
        for token in &mut future {
            token.set_span(start);
        }
        if let Some(name) = future.last_mut() {
            name.set_span(end);
        }
        put!(out, start; -> #future);
        let where_clause = generics.as_ref().map_or(&sig.generics, |generics| generics).where_clause.to_token_stream();
        where_clause.put(out);
        out.push(group(Delimiter::Brace, content, body.span()));
        wrapper
    }

    /// The wrapper's parameters: axum extracts as before, but the last one through the runtime.
    fn params(&self) -> Tokens {
        let mut params = Tokens::new();
        let out = &mut params;
        for slot in &self.slots {
            let (cfg, ty) = (&slot.cfg, slot.ty());
            let at = start(&ty);
            cfg.put(out);
            match (self.arguments.state.value(), slot.last) {
                (Some(state), true) => {
                    let (incoming, name) = (self.runtime("Incoming", at), &self.incoming);
                    put!(out, at; #name: #incoming<#state>,);
                }
                (Some(_), false) => {
                    let skipped = self.runtime("Skipped", at);
                    put!(out, at; _: #skipped,);
                }
                (None, true) => {
                    let (needs, captured) = (self.runtime("NeedsIdempotency", at), &self.captured);
                    let mode = self.mode(at);
                    put!(out, at; #captured: #needs<#ty #mode>,);
                }
                (None, false) => {
                    let name = slot.name(&self.last);
                    put!(out, at; #name: #ty,);
                }
            }
        }
        params
    }

    /// `, InState<OtherHeader>`; nothing where all is at its default, to keep the type short in axum's errors.
    fn mode(&self, at: Span) -> Tokens {
        let layer = self.in_layer();
        let key = self.key_mode();
        if !layer && key == "Required" {
            return Tokens::new();
        }
        let place = self.runtime(if layer { "InLayer" } else { "InState" }, at);
        let key = self.runtime(key, at);
        tokens!(at; , #place<#key>)
    }

    fn in_layer(&self) -> bool {
        self.arguments.store.value().is_some_and(|store| store == "layer")
    }

    /// Where the key comes from, as the extractor must know.
    fn key_mode(&self) -> &'static str {
        if self.arguments.key.name().is_some() {
            "Expression"
        } else if self.header().is_some() {
            "OtherHeader"
        } else if self.arguments.optional.value().is_some() {
            "Optional"
        } else {
            "Required"
        }
    }

    /// The key's header where it is not the usual one.
    fn header(&self) -> Option<&syn::LitStr> {
        self.arguments.header.value().filter(|header| !header.value().eq_ignore_ascii_case("idempotency-key"))
    }

    fn body(&self, out: &mut Tokens) {
        match self.arguments.state.value() {
            Some(state) => self.extract(state, out),
            None => self.guarded(out),
        }
    }

    /// With `state = X` the wrapper extracts itself, so that each mistake is one error at its type. All that waits is in
    /// the runtime: a future of the wrapper's own would cost the compiler more than the rest together.
    fn extract(&self, state: &Tokens, out: &mut Tokens) {
        let (incoming, captured, parts) = (&self.incoming, &self.captured, local("parts"));
        let at = start(state);
        let supply = self.runtime(if self.in_layer() { "supplied_by_layer" } else { "supply" }, at);
        let inferred = if self.in_layer() { Tokens::new() } else { tokens!(at; , _) };
        put!(out, at; let #parts = #supply::<#state #inferred>(#incoming););
        let (mut parted, mut last) = (Vec::new(), Tokens::new());
        for slot in &self.slots {
            let (cfg, ty) = (&slot.cfg, slot.ty());
            let at = start(&ty);
            if slot.last {
                let (last_of, key, out) = (self.runtime("last_of", at), self.runtime(self.key_mode(), at), &mut last);
                put!(out, at; #cfg let #parts = #last_of::<#ty, #key, #state, _, _>(#parts););
            } else {
                let (part_of, name) = (self.runtime("part_of", at), slot.name(&self.last));
                put!(out, at; #cfg let #parts = #part_of::<#ty, #state, _>(#parts););
                parted.push(tokens!(at; #cfg let (#parts, #name) = #parts;));
            }
        }
        let mut guarded: Tokens = parted.into_iter().rev().flatten().collect();
        let at = Span::call_site();
        guarded.extend(tokens!(at; let () = #parts;));
        self.guarded(&mut guarded);
        let then = self.runtime("then", at);
        put!(out, at; #last #then(#parts, |#parts, #captured| { #guarded }));
    }

    /// The wrapper's parameters are read, then given to the handler in `run(…)`.
    fn guarded(&self, out: &mut Tokens) {
        let at = located(self.handler.sig.ident.span());
        let (captured, last) = (&self.captured, &self.last);
        let head = tokens!(at; #captured.head);
        if self.is_parted() {
            put!(out, at; let #last = #captured.last;);
        }
        let head = self.expressions(head, out);
        self.run(&head, out);
    }

    /// Whether the last parameter has a variable of its own, for expressions to read or because `#[cfg]` chooses it.
    fn is_parted(&self) -> bool {
        let given = [&self.arguments.scope, &self.arguments.key];
        given.into_iter().any(|slot| slot.value().is_some()) || self.slots.iter().any(|slot| !slot.cfg.is_empty())
    }

    /// `run(…)` reaches from the return type's first token to its last, as that is what is underlined where it is no
    /// response; the call in it is located at the handler's name, for a future that isn't `Send`. It stands first: whatever
    /// is called while the arguments are alive costs the compiler the way out of a panic.
    fn run(&self, head: &Tokens, out: &mut Tokens) {
        let ident = self.handler.sig.ident.span();
        let (start, end) = edges(&self.handler.output).unwrap_or((ident, ident));
        let at = located(start);
        let policy = self.policy(at);
        let by = !matches!(policy, policy::Printed::Default(_));
        let (call, policy) = (self.call(), policy.into_tokens());
        let arguments = tokens!(at; #call, #head, #policy);
        self.call_runtime(if by { "run_by" } else { "run" }, arguments, (at, located(end)), out);
    }

    /// `name(…)` from one place to another, as the compiler underlines the call or its path.
    fn call_runtime(&self, name: &str, arguments: Tokens, (start, end): (Span, Span), out: &mut Tokens) {
        let mut function = self.runtime(name, start);
        if let Some(name) = function.last_mut() {
            name.set_span(end);
        }
        out.extend(function);
        out.push(group(Delimiter::Parenthesis, arguments, end));
    }

    /// `{ create }(…)`: clippy takes a function that is used as a value for one that has to be `async`.
    fn call(&self) -> Tokens {
        let at = located(self.handler.sig.ident.span());
        let callee = relocated_to(self.callee.clone(), at);
        let parted = self.is_parted();
        let mut values = Tokens::new();
        let out = &mut values;
        for slot in self.slots.iter().filter(|slot| slot.param.is_some()) {
            let (cfg, name, captured) = (&slot.cfg, slot.value(&self.last), &self.captured);
            if slot.last && !parted {
                put!(out, at; #captured.last);
            } else {
                put!(out, at; #cfg #name,);
            }
        }
        tokens!(at; { #callee }(#values))
    }
}

/// Where an error in some tokens is underlined.
fn start(tokens: &[TokenTree]) -> Span {
    edges(tokens).map_or_else(Span::call_site, |(start, _)| located(start))
}

/// A name of the wrapper's own, which the author's code can't see.
fn local(name: &str) -> Ident {
    format_ident!("__idem_{name}", span = Span::mixed_site())
}

/// `::<T, N>`; lifetimes are inferred.
fn turbofish(generics: &Generics, at: Span) -> Tokens {
    let mut names = Tokens::new();
    for parameter in &generics.params {
        let name = match parameter {
            GenericParam::Type(parameter) => &parameter.ident,
            GenericParam::Const(parameter) => &parameter.ident,
            GenericParam::Lifetime(_) => continue,
        };
        let out = &mut names;
        put!(out, at; #name,);
    }
    if names.is_empty() { names } else { tokens!(at; ::<#names>) }
}

/// Lints of the body go where the body goes; those of the item stay with the name that is public.
fn moves_to_sibling(attribute: &Attribute) -> bool {
    const OF_THE_ITEM: [&str; 6] =
        ["dead_code", "unused", "missing_docs", "unreachable_pub", "private_interfaces", "private_bounds"];
    let is_lint = ["allow", "warn", "deny", "forbid", "expect"].iter().any(|level| attribute.path().is_ident(level));
    let Ok(list) = attribute.meta.require_list() else { return false };
    is_lint
        && !list.tokens.clone().into_iter().any(|lint| OF_THE_ITEM.iter().any(|of_item| lint.to_string() == *of_item))
}

/// The runtime crate's path, located at `span`.
pub(crate) fn runtime_crate(arguments: &Arguments, span: Span) -> Tokens {
    arguments.krate.value().map_or_else(|| tokens!(span; ::idem_runtime), |path| relocated_to(list(path), span))
}

/// Whether a parameter's type is `impl Trait`, so that the function is no value by itself.
pub(crate) fn has_impl_trait(handler: &Handler) -> bool {
    struct Find(bool);
    impl syn::visit::Visit<'_> for Find {
        fn visit_type_impl_trait(&mut self, _: &syn::TypeImplTrait) {
            self.0 = true;
        }
    }
    let mut find = Find(false);
    for ty in handler.params.iter().map(Param::parsed) {
        syn::visit::Visit::visit_type(&mut find, &ty);
    }
    find.0
}
