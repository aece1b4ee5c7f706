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

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::{Attribute, FnArg, GenericParam, Generics, ReturnType, Signature, Type, ext::IdentExt};

use self::{
    slots::{ParamSlot, slots},
    spans::{located, relocated_to, respanned},
};
use crate::{
    args::{Arguments, Inner, Slot, is_literal},
    errors::edges,
    handler::Handler,
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
///     let mut head = captured.head;
///     let last = captured.last;
///     { let State(app) = &__idem_arg0; scoped(&mut head, &(app.tenant)); }
///     run(send({ create }(__idem_arg0, last)), head, Policy::new(module_path!(), "create", 86400000))
/// }
/// ```
pub(crate) fn expand(arguments: &Arguments, handler: &Handler) -> TokenStream {
    let printer = Printer::new(arguments, handler);
    let inner = printer.inner();
    let (nested, beside) = if printer.place.is_nested() { (inner, None) } else { (TokenStream::new(), Some(inner)) };
    let (checks, body) = (printer.transactions(), printer.body());
    let wrapper = printer.wrapper(quote!(#nested #checks #body));
    quote!(#wrapper #beside)
}

/// A wrapper of the same type round a function that can't be called, so that its error stays the only one.
pub(crate) fn stub(arguments: &Arguments, handler: &Handler) -> TokenStream {
    let printer = Printer::new(arguments, handler);
    let Handler { sig, body, .. } = handler;
    let callee = &printer.callee;
    printer.wrapper(quote! {
        #sig #body
        let _ = #callee;
        ::core::unreachable!()
    })
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
    callee: TokenStream,
    /// The parameters of each configuration.
    slots: Vec<ParamSlot<'a>>,
    /// What the expressions read; nothing of those made of literals.
    read: Vec<Names>,
    incoming: Ident,
    captured: Ident,
    last: Ident,
}

impl<'a> Printer<'a> {
    fn new(arguments: &'a Arguments, handler: &'a Handler) -> Self {
        let ident = &handler.sig.ident;
        let located = located(ident.span());
        let (place, name, callee) = match arguments.inner.value() {
            Some(Inner::Free(name)) => (Place::Named, name.clone(), name.to_token_stream()),
            Some(Inner::Associated(name)) => {
                let callee = name.to_token_stream();
                (Place::Named, name.clone(), quote_spanned!(located=> Self::#callee))
            }
            None if handler.mentions_self() => {
                let name = format_ident!("__idem_{}", ident.unraw(), span = located);
                (Place::Sibling, name.clone(), quote_spanned!(located=> Self::#name))
            }
            None => (Place::Nested, ident.clone(), ident.to_token_stream()),
        };
        let turbofish = turbofish(&handler.sig.generics, located);
        Self {
            arguments,
            handler,
            place,
            name,
            callee: quote!(#callee #turbofish),
            slots: slots(&handler.params),
            read: {
                let expressions = [&arguments.scope, &arguments.key].into_iter().filter_map(Slot::value);
                expressions.filter(|expression| !is_literal(expression)).map(Names::of).collect()
            },
            incoming: local("incoming"),
            captured: local("captured"),
            last: local("last"),
        }
    }

    /// A name in the runtime's private door, located at `span`.
    fn runtime(&self, name: &str, span: Span) -> TokenStream {
        let mut path = runtime_crate(self.arguments, span);
        path.extend(spans::path(&["__private", name], span));
        path
    }

    /// The handler as its author wrote it.
    fn inner(&self) -> TokenStream {
        let Handler { sig, vis, attrs, .. } = self.handler;
        let body = self.inner_body();
        let mut sig = sig.clone();
        sig.ident = self.name.clone();
        let lints = attrs.iter().filter(|attribute| moves_to_sibling(attribute));
        match self.place {
            Place::Nested => {
                let allow = self.allow_too_many_arguments();
                quote!(#allow #sig #body)
            }
            Place::Sibling => quote!(#(#lints)* #[doc(hidden)] #sig #body),
            Place::Named => {
                let doc = format!("`{}` as written, without its guard.", self.handler.plain_name());
                quote!(#(#lints)* #[doc = #doc] #vis #sig #body)
            }
        }
    }

    /// One function of the two keeps the lint, so that it is reported once.
    fn allow_too_many_arguments(&self) -> Option<TokenStream> {
        let span = located(self.handler.sig.ident.span());
        (self.handler.sig.inputs.len() > TOO_MANY_ARGUMENTS)
            .then(|| quote_spanned!(span=> #[allow(clippy::too_many_arguments)]))
    }

    fn wrapper(&self, content: TokenStream) -> TokenStream {
        let Handler { attrs, vis, sig, body, .. } = self.handler;
        let nested = self.place.is_nested();
        let attrs = attrs.iter().filter(|attribute| nested || !moves_to_sibling(attribute));
        let allow = if nested { None } else { self.allow_too_many_arguments() };
        let generics = outlive::generics(&sig.generics);
        let (fn_token, ident) = (&sig.fn_token, &sig.ident);
        let (params, where_clause) = (self.params(), &generics.where_clause);
        let mut params_group = TokenStream::new();
        sig.paren_token.surround(&mut params_group, |tokens| tokens.extend(params));
        // The author's spans: lints of the signature stand at its return type and body.
        let (start, end) = edges(&sig.output).unwrap_or((ident.span(), ident.span()));
        let future = {
            let krate = respanned(self.runtime("IdemFuture", start), start);
            let mut tokens: Vec<TokenTree> = krate.into_iter().collect();
            if let Some(name) = tokens.last_mut() {
                name.set_span(end);
            }
            tokens.into_iter().collect::<TokenStream>()
        };
        let arrow = match &sig.output {
            ReturnType::Type(arrow, _) => quote!(#arrow),
            ReturnType::Default => quote_spanned!(start=> ->),
        };
        let mut block = Group::new(Delimiter::Brace, content);
        block.set_span(body.span());
        quote!(#(#attrs)* #allow #vis #fn_token #ident #generics #params_group #arrow #future #where_clause #block)
    }

    /// The wrapper's parameters: axum extracts as before, but the last one through the runtime.
    fn params(&self) -> TokenStream {
        let mut params = TokenStream::new();
        for slot in &self.slots {
            let cfg = &slot.cfg;
            let ty = slot.ty();
            let at = edges(&ty).map_or_else(Span::call_site, |(start, _)| located(start));
            let param = match (&self.arguments.state.value(), slot.last) {
                (Some(state), true) => {
                    let (incoming, name) = (self.runtime("Incoming", at), &self.incoming);
                    quote_spanned!(at=> #name: #incoming<#state>)
                }
                (Some(_), false) => {
                    let skipped = self.runtime("Skipped", at);
                    quote_spanned!(at=> _: #skipped)
                }
                (None, true) => {
                    let (needs, mode, captured) = (self.runtime("NeedsIdempotency", at), self.mode(at), &self.captured);
                    quote_spanned!(at=> #captured: #needs<#ty #mode>)
                }
                (None, false) => {
                    let name = slot.name(&self.last);
                    quote_spanned!(at=> #name: #ty)
                }
            };
            params.extend(quote!(#cfg #param,));
        }
        params
    }

    /// `, InState<OtherHeader>`; nothing where all is at its default, to keep the type short in axum's errors.
    fn mode(&self, at: Span) -> TokenStream {
        let layer = self.in_layer();
        let key = self.key_mode();
        if !layer && key == "Required" {
            return TokenStream::new();
        }
        let place = self.runtime(if layer { "InLayer" } else { "InState" }, at);
        let key = self.runtime(key, at);
        quote_spanned!(at=> , #place<#key>)
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

    fn body(&self) -> TokenStream {
        let guarded = self.guarded();
        match self.arguments.state.value() {
            Some(state) => self.extract(state, &guarded),
            None => guarded,
        }
    }

    /// With `state = X` the wrapper extracts itself, so that each mistake is one error at its type. All that waits is in
    /// the runtime: a future of the wrapper's own would cost the compiler more than the rest together.
    fn extract(&self, state: &Type, guarded: &TokenStream) -> TokenStream {
        let (incoming, captured, parts) = (&self.incoming, &self.captured, local("parts"));
        let at_state = edges(state).map_or_else(Span::call_site, |(start, _)| located(start));
        let supply = self.runtime(if self.in_layer() { "supplied_by_layer" } else { "supply" }, at_state);
        let inferred = (!self.in_layer()).then(|| quote!(, _));
        let mut extracted = quote_spanned!(at_state=> let #parts = #supply::<#state #inferred>(#incoming););
        let (mut parted, mut last) = (Vec::new(), TokenStream::new());
        for slot in &self.slots {
            let (cfg, ty) = (&slot.cfg, slot.ty());
            let at = edges(&ty).map_or_else(Span::call_site, |(start, _)| located(start));
            if slot.last {
                let (last_of, key) = (self.runtime("last_of", at), self.runtime(self.key_mode(), at));
                last.extend(quote_spanned!(at=> #cfg let #parts = #last_of::<#ty, #key, #state, _, _>(#parts);));
            } else {
                let (part_of, name) = (self.runtime("part_of", at), slot.name(&self.last));
                extracted.extend(quote_spanned!(at=> #cfg let #parts = #part_of::<#ty, #state, _>(#parts);));
                parted.push(quote_spanned!(at=> #cfg let (#parts, #name) = #parts;));
            }
        }
        parted.reverse();
        let then = self.runtime("then", Span::call_site());
        quote! {
            #extracted
            #last
            #then(#parts, |#parts, #captured| { #(#parted)* let () = #parts; #guarded })
        }
    }

    /// The wrapper's parameters are read, then given to the handler in `run(…)`.
    fn guarded(&self) -> TokenStream {
        let span = located(self.handler.sig.ident.span());
        let (captured, head) = (&self.captured, local("head"));
        let expressions = self.expressions(&head);
        let (parted, head) = if self.is_parted() {
            let last = &self.last;
            let mutable = expressions.is_some().then(|| quote_spanned!(span=> mut));
            let parted = quote_spanned! {span=>
                let #mutable #head = #captured.head;
                let #last = #captured.last;
            };
            (Some(parted), head.to_token_stream())
        } else {
            (None, quote_spanned!(span=> #captured.head))
        };
        let run = self.run(&head);
        quote!(#parted #expressions #run)
    }

    /// Whether the last parameter has a variable of its own, for expressions to read or because `#[cfg]` chooses it.
    fn is_parted(&self) -> bool {
        let given = [&self.arguments.scope, &self.arguments.key];
        given.into_iter().any(|slot| slot.value().is_some()) || self.slots.iter().any(|slot| !slot.cfg.is_empty())
    }

    /// `run(send(…), head, policy)`: `send(…)` reaches from the return type's first token to its last, as that is what is
    /// underlined where it is no response; the call in it is located at the handler's name, for a future that isn't `Send`.
    /// It stands first: whatever is called while the arguments are alive costs the compiler the way out of a panic.
    fn run(&self, head: &TokenStream) -> TokenStream {
        let ident = self.handler.sig.ident.span();
        let output = match &self.handler.sig.output {
            ReturnType::Type(_, ty) => edges(ty),
            ReturnType::Default => None,
        };
        let (start, end) = output.unwrap_or((ident, ident));
        let at = located(start);
        let (run, send) = (self.runtime("run", at), self.runtime("send", at));
        let policy = self.policy(at);
        let mut awaited = Group::new(Delimiter::Parenthesis, self.call());
        awaited.set_span(located(end));
        quote_spanned!(at=> #run(#send #awaited, #head, #policy))
    }

    /// `{ create }(…)`: clippy takes a function that is used as a value for one that has to be `async`.
    fn call(&self) -> TokenStream {
        let span = located(self.handler.sig.ident.span());
        let callee = relocated_to(self.callee.clone(), span);
        let parted = self.is_parted();
        let values = self.slots.iter().filter(|slot| slot.param.is_some()).map(|slot| {
            let (cfg, name) = (&slot.cfg, slot.value(&self.last));
            if slot.last && !parted {
                let captured = &self.captured;
                return quote_spanned!(span=> #captured.last);
            }
            quote_spanned!(span=> #cfg #name)
        });
        quote_spanned!(span=> { #callee }(#(#values),*))
    }
}

/// A name of the wrapper's own, which the author's code can't see.
fn local(name: &str) -> Ident {
    format_ident!("__idem_{name}", span = Span::mixed_site())
}

/// `::<T, N>`; lifetimes are inferred.
fn turbofish(generics: &Generics, span: Span) -> Option<TokenStream> {
    let names: Vec<TokenStream> = generics
        .params
        .iter()
        .filter_map(|parameter| match parameter {
            GenericParam::Type(parameter) => Some(parameter.ident.to_token_stream()),
            GenericParam::Const(parameter) => Some(parameter.ident.to_token_stream()),
            GenericParam::Lifetime(_) => None,
        })
        .collect();
    (!names.is_empty()).then(|| quote_spanned!(span=> ::<#(#names),*>))
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
pub(crate) fn runtime_crate(arguments: &Arguments, span: Span) -> TokenStream {
    let path = arguments.krate.value().map(|path| relocated_to(path.to_token_stream(), span));
    path.unwrap_or_else(|| spans::path(&["idem_runtime"], span).collect())
}

/// The function as written, without what a handler can't be.
pub(crate) fn callable(sig: &Signature) -> Signature {
    let mut sig = sig.clone();
    sig.constness = None;
    sig.abi = None;
    sig.variadic = None;
    sig
}

/// Whether a parameter's type is `impl Trait`, so that the function is no value by itself.
pub(crate) fn has_impl_trait(sig: &Signature) -> bool {
    struct Find(bool);
    impl syn::visit::Visit<'_> for Find {
        fn visit_type_impl_trait(&mut self, _: &syn::TypeImplTrait) {
            self.0 = true;
        }
    }
    let mut find = Find(false);
    for input in &sig.inputs {
        if let FnArg::Typed(input) = input {
            syn::visit::Visit::visit_type(&mut find, &input.ty);
        }
    }
    find.0
}
