//! The attribute's arguments: declared once, all mistakes in them gathered.

mod values;

use proc_macro2::{Group, Ident, Punct, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{
    Error, Expr, ExprLit, Lit, LitStr, Path, Result, Token, Type,
    ext::IdentExt,
    parse::{Parse, ParseStream, Parser, discouraged::Speculative},
};

use self::values::Given;
use crate::{
    errors::{Errors, with_help},
    senders::Sender,
    suggest::{all_of, closest, one_of},
    tokens::Tokens,
    validate::Names,
};

/// Declares every option: its field, its name, its value's type, how it is read and an example.
macro_rules! options {
    ($($field:ident $name:literal: $value:ty = $read:expr, $example:literal;)*) => {
        /// What the attribute says.
        #[derive(Default)]
        pub(crate) struct Arguments {
            pub(crate) pass: Pass,
            $(pub(crate) $field: Slot<$value>,)*
        }

        /// Every option's name, in the order of the documentation.
        pub(crate) const NAMES: &[&str] = &[$($name),*];

        impl Arguments {
            fn set(&mut self, name: &Ident, form: &Form, errors: &mut Errors) {
                match name.to_string().as_str() {
                    $($name => self.$field.set(&Given { name, form, example: $example }, $read, errors),)*
                    _ => unknown(name, errors),
                }
            }
        }
    };
}

options! {
    ttl "ttl": u64 = values::duration, "ttl = \"24h\"";
    retry_window "retry_window": Window = values::window, "retry_window = \"72h\"";
    lease "lease": u64 = values::duration, "lease = \"30s\"";
    wait "wait": u64 = values::duration, "wait = \"5s\"";
    header "header": LitStr = values::header, "header = \"X-Request-Id\"";
    key "key": Expression = values::expression, "key = event.id";
    optional "optional": () = values::flag, "optional";
    scope "scope": Expression = values::expression, "scope = user.tenant_id";
    fingerprint "fingerprint": Fingerprint = values::fingerprint, "fingerprint = json";
    record "record": Ident = |given| given.choice(&["deterministic", "success", "all"]), "record = deterministic";
    unknown "unknown": Ident = |given| given.choice(&["retry", "hold"]), "unknown = hold";
    outage "outage": Ident = |given| given.choice(&["reject", "run"]), "outage = reject";
    max_response "max_response": u64 = values::size, "max_response = \"1MiB\"";
    operation "operation": LitStr = values::operation, "operation = \"payments.create\"";
    store "store": Ident = |given| given.choice(&["state", "layer"]), "store = layer";
    inner "inner": Inner = values::inner, "inner = create_unguarded";
    state "state": Tokens = values::state, "state = AppState";
    krate "crate": Path = values::krate, "crate = ::idem_runtime";
}

/// One option: its name where it was written, and its value where that was good.
pub(crate) struct Slot<T>(Option<(Ident, TokenStream, Option<T>)>);

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Slot<T> {
    fn set(&mut self, given: &Given<'_>, read: impl Fn(&Given<'_>) -> Result<T>, errors: &mut Errors) {
        if self.0.is_some() {
            errors.at(given.name, format!("`{}` is set twice: leave one", given.name));
            return;
        }
        let tokens = match given.form {
            Form::Flag => given.name.to_token_stream(),
            Form::Assigned(value) => value.tokens.clone(),
            Form::List(list) => list.to_token_stream(),
        };
        self.0 = Some((given.name.clone(), tokens, errors.keep(read(given))));
    }

    /// The name as written, even where the value was no good.
    pub(crate) fn name(&self) -> Option<&Ident> {
        self.0.as_ref().map(|(name, ..)| name)
    }

    /// What was written as the value.
    pub(crate) fn tokens(&self) -> TokenStream {
        self.0.as_ref().map(|(_, tokens, _)| tokens.clone()).unwrap_or_default()
    }

    pub(crate) fn value(&self) -> Option<&T> {
        self.0.as_ref().and_then(|(.., value)| value.as_ref())
    }

    /// Notes that it was meant.
    fn mention(&mut self, name: &Ident) {
        self.0.get_or_insert_with(|| (name.clone(), TokenStream::new(), None));
    }

    /// Forgets the value, not that it was given.
    pub(crate) fn discard(&mut self) {
        if let Some((.., value)) = &mut self.0 {
            *value = None;
        }
    }
}

/// What a `key` or `scope` is read from.
pub(crate) struct Expression {
    pub(crate) expr: Expr,
    pub(crate) tokens: Tokens,
    pub(crate) names: Names,
    /// Whether it is made of literals only.
    pub(crate) is_literal: bool,
}

impl Expression {
    fn new(expr: Expr, tokens: Tokens) -> Self {
        Self { names: Names::of(&tokens), is_literal: is_literal(&expr), expr, tokens }
    }

    pub(crate) fn stream(&self) -> TokenStream {
        self.tokens.iter().cloned().collect()
    }
}

/// The sender's longest retry schedule.
pub(crate) struct Window {
    pub(crate) ms: u64,
    pub(crate) sender: Option<&'static Sender>,
}

pub(crate) enum Fingerprint {
    Json,
    Raw,
    None,
    Skip(Vec<LitStr>),
    Only(Vec<LitStr>),
}

/// The name under which the handler as written stays callable.
pub(crate) enum Inner {
    Free(Ident),
    Associated(Ident),
}

/// Foreign attributes below ours expand between two passes.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Pass {
    #[default]
    First,
    Second,
    /// The second pass, where the first has reported the arguments' mistakes.
    Reported,
}

impl Pass {
    const SECOND: &str = "__idem_second_pass";
    const REPORTED: &str = "__idem_reported";

    /// The private argument that marks this pass.
    pub(crate) fn marker(self) -> Ident {
        let name = if self == Self::Reported { Self::REPORTED } else { Self::SECOND };
        Ident::new(name, Span::call_site())
    }
}

/// How an option was written.
enum Form {
    Flag,
    Assigned(Value),
    List(Group),
}

/// What stands behind `=`.
struct Value {
    tokens: TokenStream,
    /// Where it is a whole expression that isn't just a string.
    expression: Option<(Expr, Tokens)>,
}

impl From<TokenStream> for Value {
    fn from(tokens: TokenStream) -> Self {
        Self { tokens, expression: None }
    }
}

impl Arguments {
    /// Reads all options, records every mistake and goes on.
    pub(crate) fn parse(tokens: TokenStream, errors: &mut Errors) -> Self {
        let mut arguments = Self::default();
        let result = (|input: ParseStream<'_>| {
            while !input.is_empty() {
                arguments.parse_one(input, errors);
            }
            Ok(())
        })
        .parse2(tokens);
        errors.keep(result);
        if arguments.ttl.name().is_none() {
            let message = with_help(
                "`ttl` is missing: for how long should an answer be kept?",
                "`#[idempotent(ttl = \"24h\")]` keeps it for a day; choose more than the client's longest retry",
            );
            errors.take(Error::new(Span::call_site(), message));
        }
        arguments
    }

    fn parse_one(&mut self, input: ParseStream<'_>, errors: &mut Errors) {
        let Ok(name) = input.call(Ident::parse_any) else {
            if input.peek(LitStr) {
                // The retention, without its name: it isn't missing as well.
                self.ttl.mention(&Ident::new("ttl", input.span()));
            }
            errors.take(not_an_option(input));
            skip_to_comma(input);
            return;
        };
        if name == Pass::SECOND || name == Pass::REPORTED {
            self.pass = if name == Pass::SECOND { Pass::Second } else { Pass::Reported };
            let _ = input.parse::<Token![,]>();
            return;
        }
        let form = if input.peek(Token![=]) {
            let _ = input.parse::<Token![=]>();
            Form::Assigned(value(&name, input))
        } else if let Ok(list) = input.parse::<Group>() {
            Form::List(list)
        } else {
            Form::Flag
        };
        if alias(&name) == Some("ttl") {
            self.ttl.mention(&name);
        }
        self.set(&name, &form, errors);
        if !input.is_empty() && input.parse::<Token![,]>().is_err() {
            errors.take(input.error(format!("expected `,` after `{name}`")));
            skip_to_comma(input);
        }
    }
}

/// A whole expression or type where there is one, else all up to the next comma.
fn value(name: &Ident, input: ParseStream<'_>) -> Value {
    let ahead = input.fork();
    if let Ok(text) = ahead.parse::<LitStr>() {
        input.advance_to(&ahead);
        return text.into_token_stream().into();
    }
    let value = if name == "state" {
        whole::<Type>(input).map(|(_, tokens)| (None, tokens))
    } else {
        fields(input).or_else(|| whole(input)).map(|(expression, tokens)| (Some(expression), tokens))
    };
    match value {
        Some((expression, tokens)) => {
            let stream = tokens.iter().cloned().collect();
            Value { tokens: stream, expression: expression.map(|expression| (expression, tokens)) }
        }
        None => skip_to_comma_keeping(input).into(),
    }
}

/// `a.b.c`, for which a parser takes long.
fn fields(input: ParseStream<'_>) -> Option<(Expr, Tokens)> {
    let ahead = input.fork();
    let mut tokens = Tokens::new();
    loop {
        tokens.push(ahead.parse::<Ident>().ok()?.into());
        if ends(&ahead) {
            input.advance_to(&ahead);
            return Some((Expr::Verbatim(tokens.iter().cloned().collect()), tokens));
        }
        tokens.push(ahead.parse::<Punct>().ok().filter(|dot| dot.as_char() == '.')?.into());
    }
}

/// What is parsed, and its tokens as written.
fn whole<T: Parse + ToTokens>(input: ParseStream<'_>) -> Option<(T, Tokens)> {
    let (ahead, written) = (input.fork(), input.fork());
    let value: T = ahead.parse().ok()?;
    if !ends(&ahead) {
        return None;
    }
    input.advance_to(&ahead);
    let mut tokens = Tokens::new();
    while written.cursor() != ahead.cursor() {
        let Ok(token) = written.parse() else {
            let tokens = value.to_token_stream();
            return Some((value, tokens.into_iter().collect()));
        };
        tokens.push(token);
    }
    Some((value, tokens))
}

fn ends(input: ParseStream<'_>) -> bool {
    input.is_empty() || input.peek(Token![,])
}

fn skip_to_comma_keeping(input: ParseStream<'_>) -> TokenStream {
    let mut skipped = TokenStream::new();
    while !input.is_empty() && !input.peek(Token![,]) {
        if let Ok(token) = input.parse::<TokenTree>() {
            skipped.extend([token]);
        }
    }
    skipped
}

fn skip_to_comma(input: ParseStream<'_>) {
    skip_to_comma_keeping(input);
    let _ = input.parse::<Token![,]>();
}

fn not_an_option(input: ParseStream<'_>) -> Error {
    let help = match input.fork().parse::<LitStr>() {
        Ok(text) => format!("name it: `ttl = {}`", text.token()),
        Err(_) => format!("an option is one of {}", one_of(NAMES)),
    };
    input.error(with_help("expected an option's name", help))
}

/// What an unknown name stands for elsewhere, or is close to.
fn alias(name: &Ident) -> Option<&'static str> {
    let name = name.to_string();
    if NAMES.contains(&name.as_str()) {
        return None;
    }
    Some(match name.to_lowercase().as_str() {
        "time_to_live" | "expires" | "expiry" | "expires_in" | "expire_in" | "expires_after" | "expire"
        | "retention" | "duration" | "timeout" | "max_age" => "ttl",
        "required" => "optional",
        "header_name" | "key_header" => "header",
        "tenant" | "principal" | "user" | "caller" => "scope",
        "hash" | "body" | "payload" => "fingerprint",
        "cache" | "responses" | "store_errors" => "record",
        "max_body" | "max_body_size" | "max_size" | "limit" | "max_response_size" => "max_response",
        "name" | "op" => "operation",
        "fail_open" | "fail_closed" | "on_error" => "outage",
        "lock" | "lock_timeout" | "lock_ttl" => "lease",
        other => return closest(other, NAMES.iter().copied()),
    })
}

fn unknown(name: &Ident, errors: &mut Errors) {
    let message = format!("`#[idempotent]` has no option `{name}`");
    let help = match alias(name) {
        None => format!("the options are {}", all_of(NAMES)),
        Some(meant) => format!("did you mean `{meant}`?"),
    };
    errors.at(name, with_help(message, help));
}

/// Whether an expression is made of literals only.
fn is_literal(expression: &Expr) -> bool {
    match expression {
        Expr::Lit(ExprLit {
            lit: Lit::Str(_) | Lit::ByteStr(_) | Lit::Int(_) | Lit::Char(_) | Lit::Bool(_), ..
        }) => true,
        Expr::Tuple(tuple) => tuple.elems.iter().all(is_literal),
        Expr::Paren(inner) => is_literal(&inner.expr),
        Expr::Group(inner) => is_literal(&inner.expr),
        Expr::Reference(inner) => is_literal(&inner.expr),
        _ => false,
    }
}
