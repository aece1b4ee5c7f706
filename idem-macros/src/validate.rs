//! The rules. Nothing is printed here.
//!
//! [`arguments`] looks at the options alone, [`signature`] at the function alone, [`together`] at what needs both and is
//! asked only where the first two found nothing.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::quote;
use syn::{FnArg, GenericParam, Safety, ext::IdentExt};

use crate::{
    args::{Arguments, Expression, Inner},
    duration,
    errors::{Errors, with_help},
    handler::Handler,
    param::Param,
    rules::{self, Broken},
    senders::READ,
    suggest::{all_of, closest},
};

/// Rules between options.
pub(crate) fn arguments(arguments: &Arguments, errors: &mut Errors) {
    ttl_outlives_retries(arguments, errors);
    lease_leaves_time_to_renew(arguments, errors);
    lease_is_shorter_than_ttl(arguments, errors);
    wait_is_no_longer_than_ttl(arguments, errors);
    key_has_one_source(arguments, errors);
    for (name, expression) in expressions(arguments) {
        stays_inside(name, expression, errors);
    }
}

fn ttl_outlives_retries(arguments: &Arguments, errors: &mut Errors) {
    let (Some(ttl), Some(window)) = (arguments.ttl.value(), arguments.retry_window.value()) else { return };
    let retries = match window.sender {
        Some(sender) => format!("{} retries {} (as of {READ})", sender.name, sender.schedule),
        None => format!("the sender retries for {}", duration::format(window.ms)),
    };
    broken(rules::ttl_outlives_retries(*ttl, window.ms, &retries), arguments.ttl.tokens(), errors);
}

fn lease_leaves_time_to_renew(arguments: &Arguments, errors: &mut Errors) {
    let Some(lease) = arguments.lease.value() else { return };
    broken(rules::lease_leaves_time_to_renew(*lease), arguments.lease.tokens(), errors);
}

fn lease_is_shorter_than_ttl(arguments: &Arguments, errors: &mut Errors) {
    let Some(ttl) = arguments.ttl.value() else { return };
    let (lease, at) = match arguments.lease.value() {
        Some(lease) => (Some(*lease), arguments.lease.tokens()),
        None if arguments.lease.name().is_some() => return,
        None => (None, arguments.ttl.tokens()),
    };
    broken(rules::lease_is_shorter_than_ttl(lease, *ttl), at, errors);
}

fn wait_is_no_longer_than_ttl(arguments: &Arguments, errors: &mut Errors) {
    let (Some(ttl), Some(wait)) = (arguments.ttl.value(), arguments.wait.value()) else { return };
    broken(rules::wait_is_no_longer_than_ttl(*wait, *ttl), arguments.wait.tokens(), errors);
}

fn broken(rule: Option<Broken>, at: TokenStream, errors: &mut Errors) {
    if let Some(Broken { what, help }) = rule {
        errors.at(at, with_help(what, help));
    }
}

/// `key` takes the place of a header, so what describes the header says nothing.
fn key_has_one_source(arguments: &Arguments, errors: &mut Errors) {
    if arguments.key.name().is_none() {
        return;
    }
    if let Some(header) = arguments.header.name() {
        errors.at(header, rules::KEY_AND_HEADER);
    }
    if let Some(optional) = arguments.optional.name() {
        errors.at(optional, rules::KEY_AND_OPTIONAL);
    }
}

/// An expression is evaluated before the handler runs, so it can't wait or answer.
fn stays_inside(name: &Ident, expression: &Expression, errors: &mut Errors) {
    if !expression.names.may_leave {
        return;
    }
    walk(expression.tokens.iter().cloned(), &mut |token, previous| {
        let (found, what, instead) = match token {
            TokenTree::Punct(punct) if punct.as_char() == '?' => {
                ("`?`", "answer", "use what is there, such as `.ok()`, or let an extractor refuse the request")
            }
            TokenTree::Ident(ident) if ident == "return" => {
                ("`return`", "answer", "let an extractor refuse the request")
            }
            TokenTree::Ident(ident) if ident == "await" && matches!(previous, Some(TokenTree::Punct(_))) => {
                ("`.await`", "wait", "let an extractor fetch the value")
            }
            _ => return,
        };
        let message = with_help(
            format!("{found} can't be used in `{name}`: it is read before the handler runs and can't {what}"),
            instead,
        );
        errors.at(token, message);
    });
}

fn walk(tokens: impl IntoIterator<Item = TokenTree>, visit: &mut dyn FnMut(&TokenTree, Option<&TokenTree>)) {
    let mut previous = None;
    for token in tokens {
        visit(&token, previous.as_ref());
        if let TokenTree::Group(group) = &token {
            walk(group.stream(), visit);
        }
        previous = Some(token);
    }
}

fn expressions(arguments: &Arguments) -> impl Iterator<Item = (&Ident, &Expression)> {
    [&arguments.key, &arguments.scope].into_iter().filter_map(|slot| slot.name().zip(slot.value()))
}

/// What keeps a function from being an axum handler, or from being guarded.
pub(crate) fn signature(handler: &Handler, errors: &mut Errors) {
    is_async(handler, errors);
    has_no_qualifiers(handler, errors);
    has_no_self(handler, errors);
    has_no_lifetimes(handler, errors);
    does_not_stream(handler, errors);
    once(handler, errors);
}

/// Two guards round one handler would claim the same key twice.
pub(crate) fn once(handler: &Handler, errors: &mut Errors) {
    for duplicate in handler.attrs.iter().filter(|attribute| is_ours(attribute.path())) {
        errors.at(duplicate, format!("`{}` is `#[idempotent]` twice: leave one", handler.sig.ident));
    }
}

/// Whether a path names this attribute.
pub(crate) fn is_ours(path: &syn::Path) -> bool {
    path.segments.last().is_some_and(|segment| segment.ident == "idempotent")
}

fn is_async(handler: &Handler, errors: &mut Errors) {
    let sig = &handler.sig;
    if sig.asyncness.is_some() {
        return;
    }
    let rewritten = sig.generics.lifetimes().any(|lifetime| lifetime.lifetime.ident == "async_trait");
    let (why, help) = if rewritten {
        let why = format!("`#[async_trait]` has already rewritten `{}`", sig.ident);
        (why, "move the handler out of the `impl`, and call the trait's method from it".to_owned())
    } else if hand_written_future(handler) {
        let why = format!("`{}` must be an `async fn`", sig.ident);
        (why, "return the value instead of a future of it, and await the future in the body".to_owned())
    } else {
        (format!("`{}` must be an `async fn`", sig.ident), format!("write `async fn {}`", sig.ident))
    };
    errors.at(sig.fn_token, with_help(why, help));
}

/// Whether the return type plainly is a future.
fn hand_written_future(handler: &Handler) -> bool {
    let mut found = false;
    walk(handler.output.iter().cloned(), &mut |token, _| {
        found |=
            matches!(token, TokenTree::Ident(ident) if ident == "Future" || ident == "BoxFuture" || ident == "Ready");
    });
    found
}

fn has_no_qualifiers(handler: &Handler, errors: &mut Errors) {
    let sig = &handler.sig;
    let mut refuse = |token: TokenStream, what: &str, why: &str| {
        errors.at(token, format!("`{}` can't be {what}: {why}", sig.ident));
    };
    if let Some(token) = &sig.constness {
        refuse(quote!(#token), "`const`", "a handler runs for a request; remove it");
    }
    if let Safety::Unsafe(token) = &sig.safety {
        refuse(quote!(#token), "`unsafe`", "axum calls handlers from safe code; put an `unsafe` block into the body");
    }
    if let Some(token) = &sig.abi {
        refuse(quote!(#token), "`extern`", "axum calls it as a Rust function; remove it");
    }
    if let Some(token) = &sig.variadic {
        refuse(quote!(#token), "variadic", "each argument of a handler has a type; remove it");
    }
}

fn has_no_self(handler: &Handler, errors: &mut Errors) {
    if let Some(FnArg::Receiver(receiver)) = handler.sig.inputs.first() {
        let message = with_help(
            format!("`{}` takes `self`, which can't be guarded", handler.sig.ident),
            "take the value as a parameter, such as `State(this): State<Arc<Self>>`",
        );
        errors.at(receiver, message);
    }
}

/// A guarded handler runs in its own task and may borrow nothing from the request.
fn has_no_lifetimes(handler: &Handler, errors: &mut Errors) {
    for parameter in &handler.sig.generics.params {
        // An `async_trait` rewrite has its own error.
        if let GenericParam::Lifetime(lifetime) = parameter
            && handler.sig.asyncness.is_some()
        {
            let message = with_help(
                "a guarded handler can't have a lifetime: it runs in its own task and may outlive the request",
                "write `'static`, or take an owned value",
            );
            errors.at(&lifetime.lifetime, message);
        }
    }
}

/// Server-sent events have no end that could be recorded.
fn does_not_stream(handler: &Handler, errors: &mut Errors) {
    let mut found = None;
    walk(handler.output.iter().cloned(), &mut |token, _| {
        if matches!(token, TokenTree::Ident(ident) if ident == "Sse") {
            found.get_or_insert_with(|| token.clone());
        }
    });
    if let Some(sse) = found {
        let message = with_help(
            "server-sent events can't be recorded, so they can't be replayed",
            "guard the request that starts the work, and stream its progress from another route",
        );
        errors.at(sse, message);
    }
}

/// Rules between the options and the function.
pub(crate) fn together(arguments: &Arguments, handler: &Handler, errors: &mut Errors) {
    for (name, expression) in expressions(arguments) {
        names_a_parameter(name, expression, handler, errors);
    }
    if let Some(Inner::Free(name) | Inner::Associated(name)) = arguments.inner.value()
        && name.unraw() == handler.sig.ident.unraw()
    {
        let message = format!("`inner` needs another name than the handler's: `inner = {name}_unguarded`");
        errors.at(name, message);
    }
}

/// A `key` that names no parameter is the same for every request, and so is a `scope` unless that is said by a literal.
fn names_a_parameter(name: &Ident, expression: &Expression, handler: &Handler, errors: &mut Errors) {
    if handler.params.iter().any(Param::is_opaque) || (name == "scope" && expression.is_literal) {
        return;
    }
    let names = &expression.names;
    let bindings: Vec<&str> =
        handler.params.iter().flat_map(Param::bindings).map(|binding| binding.name.as_str()).collect();
    if bindings.iter().any(|binding| names.read(binding)) {
        return;
    }
    let stranger = names.idents.first().map(|(ident, _)| ident);
    let handler_name = &handler.sig.ident;
    let suggestion = stranger.and_then(|word| closest(word, bindings.iter().copied()));
    let mut problem = format!("`{name}` reads none of the parameters of `{handler_name}`");
    let mut help = match (suggestion, bindings.is_empty()) {
        (Some(meant), _) => format!("did you mean `{meant}`?"),
        (None, true) => format!("bind what it should read in the parameters of `{handler_name}`"),
        (None, false) => format!("`{handler_name}` binds {}", all_of(&bindings)),
    };
    if name == "key" {
        problem.push_str(", so every request would have the same key");
    } else if suggestion.is_none() {
        help.push_str("; if all callers share their answers, write a text: `scope = \"public\"`");
    }
    errors.at(expression.stream(), with_help(problem, help));
}

/// The names in an expression.
pub(crate) struct Names {
    /// Each identifier, and whether it stands alone: not behind a `.` or `::`.
    idents: Vec<(String, bool)>,
    literals: Vec<String>,
    /// Whether there is a `?`, `return` or `await` among them.
    may_leave: bool,
}

impl Names {
    pub(crate) fn of(tokens: &[TokenTree]) -> Self {
        let mut names = Self { idents: Vec::new(), literals: Vec::new(), may_leave: false };
        walk(tokens.iter().cloned(), &mut |token, previous| match token {
            TokenTree::Ident(ident) => {
                let behind = matches!(previous, Some(TokenTree::Punct(punct)) if matches!(punct.as_char(), '.' | ':'));
                let name = ident.to_string();
                names.may_leave |= name == "return" || name == "await";
                names.idents.push((name.strip_prefix("r#").map(str::to_owned).unwrap_or(name), !behind));
            }
            TokenTree::Punct(punct) => names.may_leave |= punct.as_char() == '?',
            TokenTree::Literal(literal) => names.literals.push(literal.to_string()),
            TokenTree::Group(_) => {}
        });
        names
    }

    /// Whether a binding is read, also by capturing it in a format string.
    pub(crate) fn read(&self, binding: &str) -> bool {
        let captured = || self.literals.iter().any(|literal| literal.contains(&format!("{{{binding}")));
        self.idents.iter().any(|(ident, _)| ident == binding) || captured()
    }

    /// Whether there is a name that is no parameter's, and may be a misspelt one.
    pub(crate) fn has_stranger(&self, handler: &Handler) -> bool {
        let known = |name: &str| handler.params.iter().flat_map(Param::bindings).any(|own| own.name == name);
        handler.params.iter().any(Param::is_opaque) || self.idents.iter().any(|(ident, alone)| *alone && !known(ident))
    }
}
