//! The attribute's arguments: declared once, all mistakes in them gathered.

use proc_macro2::{Delimiter, Group, Ident, Literal, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{
    Error, Expr, ExprLit, Lit, LitStr, Path, Result, Token, Type,
    ext::IdentExt,
    parse::{ParseStream, Parser},
    punctuated::Punctuated,
};

use crate::{
    duration,
    errors::{Errors, with_help},
    senders::{READ, SENDERS, Sender},
    suggest::{closest, one_of},
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
    ttl "ttl": u64 = duration, "ttl = \"24h\"";
    retry_window "retry_window": Window = window, "retry_window = \"72h\"";
    lease "lease": u64 = duration, "lease = \"30s\"";
    wait "wait": u64 = duration, "wait = \"5s\"";
    header "header": LitStr = header, "header = \"X-Request-Id\"";
    key "key": Expr = expression, "key = event.id";
    optional "optional": () = flag, "optional";
    scope "scope": Expr = expression, "scope = user.tenant_id";
    fingerprint "fingerprint": Fingerprint = fingerprint, "fingerprint = json";
    record "record": Ident = |given| given.choice(&["deterministic", "success", "all"]), "record = deterministic";
    unknown "unknown": Ident = |given| given.choice(&["retry", "hold"]), "unknown = hold";
    outage "outage": Ident = |given| given.choice(&["reject", "run"]), "outage = reject";
    max_response "max_response": u64 = size, "max_response = \"1MiB\"";
    operation "operation": LitStr = operation, "operation = \"payments.create\"";
    store "store": Ident = |given| given.choice(&["state", "layer"]), "store = layer";
    inner "inner": Inner = inner, "inner = create_unguarded";
    state "state": Type = state, "state = AppState";
    krate "crate": Path = krate, "crate = ::idem_runtime";
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
            errors.at(given.name, format!("`{}` is set twice", given.name));
            return;
        }
        let tokens = match given.form {
            Form::Flag => given.name.to_token_stream(),
            Form::Assigned(value) => value.clone(),
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
    Assigned(TokenStream),
    List(Group),
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

/// The value's tokens: a whole expression or type where there is one, else all up to the next comma.
fn value(name: &Ident, input: ParseStream<'_>) -> TokenStream {
    fn whole<T: syn::parse::Parse + ToTokens>(input: ParseStream<'_>) -> Option<TokenStream> {
        let ahead = input.fork();
        let value: T = ahead.parse().ok()?;
        (ahead.is_empty() || ahead.peek(Token![,])).then(|| {
            let _ = input.parse::<T>();
            value.into_token_stream()
        })
    }
    if let Ok(text) = input.fork().parse::<LitStr>() {
        let _ = input.parse::<LitStr>();
        return text.into_token_stream();
    }
    let value = if name == "state" { whole::<Type>(input) } else { whole::<Expr>(input) };
    value.unwrap_or_else(|| skip_to_comma_keeping(input))
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
        "time_to_live" | "expires" | "expiry" | "expires_in" | "expire" | "retention" | "duration" | "timeout" => "ttl",
        "required" => "optional",
        "header_name" | "key_header" => "header",
        "tenant" | "principal" | "user" | "caller" => "scope",
        "hash" | "body" | "payload" => "fingerprint",
        "cache" | "responses" | "store_errors" => "record",
        "max_body" | "max_size" | "limit" | "max_response_size" => "max_response",
        "name" | "op" => "operation",
        "fail_open" | "fail_closed" | "on_error" => "outage",
        "lock" | "lock_timeout" | "lock_ttl" => "lease",
        other => return closest(other, NAMES.iter().copied()),
    })
}

fn unknown(name: &Ident, errors: &mut Errors) {
    let message = format!("`#[idempotent]` has no option `{name}`");
    let help = match alias(name) {
        None => format!("the options are {}", one_of(NAMES)),
        Some(meant) => format!("did you mean `{meant}`? The options are {}", one_of(NAMES)),
    };
    errors.at(name, with_help(message, help));
}

/// One option as written, for the functions that read its value.
struct Given<'a> {
    name: &'a Ident,
    form: &'a Form,
    example: &'a str,
}

impl Given<'_> {
    /// The tokens behind `=`.
    fn assigned(&self) -> Result<&TokenStream> {
        let Self { name, form, example } = self;
        match form {
            Form::Assigned(value) if !value.is_empty() => Ok(value),
            Form::List(list) => {
                Err(Error::new_spanned(list, format!("`{name}` is set with `=`: `{}`", self.as_assignment(list))))
            }
            _ => Err(Error::new_spanned(name, format!("`{name}` needs a value: `{example}`"))),
        }
    }

    fn as_assignment(&self, list: &Group) -> String {
        let inside = list.stream().to_string();
        if inside.is_empty() { self.example.to_owned() } else { format!("{} = {inside}", self.name) }
    }

    fn string(&self) -> Result<LitStr> {
        let value = self.assigned()?;
        syn::parse2(value.clone()).map_err(|_| {
            let Self { name, example, .. } = self;
            let written = value.to_string();
            let quotable =
                !written.is_empty() && written.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
            let message = if syn::parse2::<syn::LitInt>(value.clone()).is_ok_and(|number| number.suffix().is_empty()) {
                format!("`{name}` is a string with a unit: `{example}`")
            } else if quotable && written.starts_with(|c: char| c.is_ascii_digit()) {
                format!("`{name}` is a string: `{name} = \"{written}\"`")
            } else {
                format!("`{name}` is a string: `{example}`")
            };
            Error::new_spanned(value, message)
        })
    }

    fn choice(&self, choices: &[&str]) -> Result<Ident> {
        let value = self.assigned()?;
        let name = self.name;
        let expected = one_of(choices);
        match syn::parse2::<Ident>(value.clone()) {
            Ok(choice) if choices.iter().any(|known| choice == known) => Ok(choice),
            Ok(choice) => {
                let meant = closest(&choice.to_string(), choices.iter().copied());
                let question = meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
                Err(Error::new_spanned(value, format!("`{name}` is {expected}, not `{choice}`{question}")))
            }
            Err(_) => {
                let quoted = syn::parse2::<LitStr>(value.clone()).ok().map(|text| text.value());
                Err(Error::new_spanned(
                    value,
                    match quoted.filter(|text| choices.contains(&text.as_str())) {
                        Some(text) => format!("write it without quotes: `{name} = {text}`"),
                        None => format!("`{name}` is {expected}"),
                    },
                ))
            }
        }
    }
}

fn expression(given: &Given<'_>) -> Result<Expr> {
    let value = given.assigned()?;
    syn::parse2(value.clone()).map_err(|error| {
        let name = given.name;
        let help = format!("an expression of the handler's parameters, such as `{}`", given.example);
        let text = error.to_string();
        match text.strip_prefix("unexpected end of input, ") {
            Some(expected) => {
                Error::new_spanned(value, with_help(format!("`{name}` ends too early: {expected}"), help))
            }
            None => Error::new(error.span(), with_help(format!("`{name}`: {text}"), help)),
        }
    })
}

fn duration(given: &Given<'_>) -> Result<u64> {
    let text = given.string()?;
    duration::parse(&text.value()).map_err(|message| Error::new_spanned(&text, message))
}

fn size(given: &Given<'_>) -> Result<u64> {
    let text = given.string()?;
    duration::parse_size(&text.value()).map_err(|message| Error::new_spanned(&text, message))
}

fn window(given: &Given<'_>) -> Result<Window> {
    let value = given.assigned()?;
    let Ok(name) = syn::parse2::<Ident>(value.clone()) else {
        return duration(given).map(|ms| Window { ms, sender: None });
    };
    if let Some(sender) = SENDERS.iter().find(|sender| name == sender.name) {
        return Ok(Window { ms: sender.window_ms, sender: Some(sender) });
    }
    let names: Vec<&str> = SENDERS.iter().map(|sender| sender.name).collect();
    let meant = closest(&name.to_string(), names.iter().copied());
    let question = meant.map(|meant| format!("did you mean `{meant}`? ")).unwrap_or_default();
    let message = with_help(
        format!("`{name}` is no sender whose schedule is known here (as of {READ})"),
        format!(
            "{question}The senders are {}; for others write the schedule's length: `{}`",
            one_of(&names),
            given.example
        ),
    );
    Err(Error::new_spanned(value, message))
}

fn flag(given: &Given<'_>) -> Result<()> {
    let name = given.name;
    match given.form {
        Form::Flag => Ok(()),
        Form::Assigned(value) if value.to_string() == "false" => {
            Err(Error::new_spanned(value, format!("`{name}` takes no value: leave it out")))
        }
        Form::Assigned(value) => Err(Error::new_spanned(value, format!("`{name}` takes no value: write `{name}`"))),
        Form::List(list) => Err(Error::new_spanned(list, format!("`{name}` takes no value: write `{name}`"))),
    }
}

fn header(given: &Given<'_>) -> Result<LitStr> {
    let text = given.string()?;
    let name = text.value();
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() {
        return Err(Error::new_spanned(&text, format!("a header's name is missing: `{}`", given.example)));
    }
    if let Some(wrong) = name.chars().find(|c| !token(*c)) {
        return Err(Error::new_spanned(&text, format!("a header's name can't contain {wrong:?}")));
    }
    if ["authorization", "cookie", "host", "content-type", "content-length"].contains(&name.to_lowercase().as_str()) {
        let message = format!("`{name}` is the same on different requests; the key must be new for each");
        return Err(Error::new_spanned(&text, message));
    }
    Ok(text)
}

fn operation(given: &Given<'_>) -> Result<LitStr> {
    let text = given.string()?;
    if text.value().trim().is_empty() {
        return Err(Error::new_spanned(&text, format!("the operation's name is empty: `{}`", given.example)));
    }
    Ok(text)
}

fn fingerprint(given: &Given<'_>) -> Result<Fingerprint> {
    const LISTS: &str = "`fingerprint(skip(\"/sent_at\"))` or `fingerprint(only(\"/amount\", \"/currency\"))`";
    let Form::List(list) = given.form else {
        if given.assigned().is_ok_and(|value| {
            value
                .clone()
                .into_iter()
                .next()
                .is_some_and(|token| token.to_string() == "skip" || token.to_string() == "only")
        }) {
            return Err(Error::new_spanned(given.assigned()?, format!("write {LISTS}")));
        }
        let choice = given.choice(&["json", "raw", "none"])?;
        return Ok(match choice.to_string().as_str() {
            "json" => Fingerprint::Json,
            "raw" => Fingerprint::Raw,
            _ => Fingerprint::None,
        });
    };
    let parse = |input: ParseStream<'_>| {
        let kind: Ident = input.call(Ident::parse_any)?;
        let members: Group = input.parse()?;
        let _ = input.parse::<Token![,]>();
        if input.is_empty() { Ok((kind, members)) } else { Err(input.error("one of them only")) }
    };
    let (kind, members) = parse
        .parse2(list.stream())
        .ok()
        .filter(|(kind, members)| (kind == "skip" || kind == "only") && members.delimiter() == Delimiter::Parenthesis)
        .ok_or_else(|| Error::new_spanned(list, format!("write either {LISTS}")))?;
    let pointers = pointers(&members)?;
    Ok(if kind == "skip" { Fingerprint::Skip(pointers) } else { Fingerprint::Only(pointers) })
}

/// JSON Pointers (RFC 6901), at least one.
fn pointers(members: &Group) -> Result<Vec<LitStr>> {
    let expected = "expected JSON Pointers such as `\"/amount\"` or `\"/items/0/sku\"`";
    let pointers = Punctuated::<LitStr, Token![,]>::parse_terminated
        .parse2(members.stream())
        .map_err(|error| Error::new(error.span(), expected))?;
    if pointers.is_empty() {
        return Err(Error::new_spanned(members, expected));
    }
    let mut wrong: Option<Error> = None;
    let mut seen: Vec<String> = Vec::new();
    for pointer in &pointers {
        let text = pointer.value();
        let escaped = text.split('~').skip(1).all(|after| after.starts_with(['0', '1']));
        let message = if !text.starts_with('/') {
            format!("a JSON Pointer starts with `/`: write {:?}", format!("/{}", text.replace('.', "/")))
        } else if !escaped {
            "in a JSON Pointer `~` is written `~0`, and `/` in a name is `~1`".to_owned()
        } else if seen.contains(&text) {
            format!("`{text}` is listed twice")
        } else {
            seen.push(text);
            continue;
        };
        let error = Error::new_spanned(pointer, message);
        match &mut wrong {
            Some(errors) => errors.combine(error),
            None => wrong = Some(error),
        }
    }
    wrong.map_or_else(|| Ok(pointers.into_iter().collect()), Err)
}

fn inner(given: &Given<'_>) -> Result<Inner> {
    let value = given.assigned()?;
    let path: Option<Path> = syn::parse2(value.clone()).ok();
    let names: Vec<Ident> = path.into_iter().flat_map(|path| path.segments).map(|segment| segment.ident).collect();
    match names.as_slice() {
        [name] if name != "Self" && name != "self" && name != "crate" => Ok(Inner::Free(name.clone())),
        [this, name] if this == "Self" => Ok(Inner::Associated(name.clone())),
        _ => {
            let message = "`inner` is a name for the unguarded handler: `inner = create_unguarded`, or in an `impl` \
                           `inner = Self::create_unguarded`";
            Err(Error::new_spanned(value, message))
        }
    }
}

fn state(given: &Given<'_>) -> Result<Type> {
    let value = given.assigned()?;
    syn::parse2(value.clone())
        .map_err(|_| Error::new_spanned(value, format!("`state` is the router's state, a type: `{}`", given.example)))
}

fn krate(given: &Given<'_>) -> Result<Path> {
    let value = given.assigned()?;
    let path: Option<Path> = syn::parse2(value.clone()).ok();
    let absolute =
        |path: &Path| path.leading_colon.is_some() || path.segments.first().is_some_and(|first| first.ident == "crate");
    path.filter(absolute).ok_or_else(|| {
        let message = format!(
            "`crate` is where `idem-runtime` is, from the root: `{}` or `crate = crate::reexport`",
            given.example
        );
        Error::new_spanned(value, message)
    })
}

/// Whether an expression is made of literals only.
pub(crate) fn is_literal(expression: &Expr) -> bool {
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

/// A number as the literal without suffix that generated code shows.
pub(crate) fn number(value: u64) -> TokenStream {
    let literal = Literal::u64_unsuffixed(value);
    quote!(#literal)
}
