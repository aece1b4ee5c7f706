//! How each option's value is read.

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};
use syn::{
    Error, Expr, LitStr, Path, Result, Token, Type,
    ext::IdentExt,
    parse::{ParseStream, Parser},
    punctuated::Punctuated,
};

use super::{Expression, Fingerprint, Form, Inner, Value, Window};
use crate::{
    duration,
    errors::with_help,
    rules,
    senders::{READ, SENDERS},
    suggest::{all_of, closest, one_of},
    tokens::Tokens,
};

/// One option as written, for the functions that read its value.
pub(super) struct Given<'a> {
    pub(super) name: &'a Ident,
    pub(super) form: &'a Form,
    pub(super) example: &'a str,
}

impl Given<'_> {
    /// The tokens behind `=`.
    fn assigned(&self) -> Result<&TokenStream> {
        let Self { name, form, example } = self;
        match form {
            Form::Assigned(value) if !value.tokens.is_empty() => Ok(&value.tokens),
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
            let message = if is_value(value) {
                let of = if quotable { format!("`{written}`") } else { "an expression".to_owned() };
                with_help(
                    format!("`{name}` is a string: the attribute reads text, and can't know the value of {of}"),
                    format!("write it out: `{example}`"),
                )
            } else if syn::parse2::<syn::LitInt>(value.clone()).is_ok_and(|number| number.suffix().is_empty()) {
                format!("`{name}` is a string with a unit: `{example}`")
            } else if quotable && written.starts_with(|c: char| c.is_ascii_digit()) {
                format!("`{name}` is a string: `{name} = \"{written}\"`")
            } else {
                format!("`{name}` is a string: `{example}`")
            };
            Error::new_spanned(value, message)
        })
    }

    pub(super) fn choice(&self, choices: &[&str]) -> Result<Ident> {
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
                let message = match quoted {
                    Some(text) if choices.contains(&text.as_str()) => without_quotes(name, &text),
                    Some(text) => {
                        let meant = closest(&text, choices.iter().copied());
                        let question = meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
                        format!("`{name}` is {expected}, without quotes{question}")
                    }
                    None => format!("`{name}` is {expected}"),
                };
                Err(Error::new_spanned(value, message))
            }
        }
    }
}

/// Whether a constant, a call or another macro stands where a text should.
fn is_value(tokens: &TokenStream) -> bool {
    let is_name = |token: TokenTree| match token {
        TokenTree::Ident(name) => name != "true" && name != "false",
        TokenTree::Punct(punct) => punct.as_char() == ':',
        _ => false,
    };
    tokens.clone().into_iter().next().is_some_and(is_name)
}

fn without_quotes(name: &Ident, word: &str) -> String {
    format!("write it without quotes: `{name} = {word}`")
}

pub(super) fn expression(given: &Given<'_>) -> Result<Expression> {
    let value = given.assigned()?;
    if let Form::Assigned(Value { expression: Some((expr, tokens)), .. }) = given.form {
        return Ok(Expression::new(expr.clone(), tokens.clone()));
    }
    let parsed: Result<Expr> = syn::parse2(value.clone());
    parsed.map(|expr| Expression::new(expr, value.clone().into_iter().collect())).map_err(|error| {
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

pub(super) fn duration(given: &Given<'_>) -> Result<u64> {
    let text = given.string()?;
    duration::parse(&text.value()).map_err(|message| Error::new_spanned(&text, message))
}

pub(super) fn size(given: &Given<'_>) -> Result<u64> {
    let text = given.string()?;
    duration::parse_size(&text.value()).map_err(|message| Error::new_spanned(&text, message))
}

pub(super) fn window(given: &Given<'_>) -> Result<Window> {
    let value = given.assigned()?;
    let Ok(name) = syn::parse2::<Ident>(value.clone()) else {
        return duration(given).map(|ms| Window { ms, sender: None }).map_err(|error| {
            let text = syn::parse2::<LitStr>(value.clone()).map(|text| text.value()).unwrap_or_default();
            let known = SENDERS.iter().find(|sender| sender.name == text);
            known.map_or(error, |sender| Error::new_spanned(value, without_quotes(given.name, sender.name)))
        });
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
            all_of(&names),
            given.example
        ),
    );
    Err(Error::new_spanned(value, message))
}

pub(super) fn flag(given: &Given<'_>) -> Result<()> {
    let name = given.name;
    match given.form {
        Form::Flag => Ok(()),
        Form::Assigned(Value { tokens, .. }) if tokens.to_string() == "false" => {
            Err(Error::new_spanned(tokens, format!("`{name}` takes no value: leave it out")))
        }
        Form::Assigned(Value { tokens, .. }) => {
            Err(Error::new_spanned(tokens, format!("`{name}` takes no value: write `{name}`")))
        }
        Form::List(list) => Err(Error::new_spanned(list, format!("`{name}` takes no value: write `{name}`"))),
    }
}

pub(super) fn header(given: &Given<'_>) -> Result<LitStr> {
    let text = given.string()?;
    rules::header(&text.value()).map_err(|message| Error::new_spanned(&text, message))?;
    Ok(text)
}

pub(super) fn operation(given: &Given<'_>) -> Result<LitStr> {
    let text = given.string()?;
    rules::operation(&text.value()).map_err(|message| Error::new_spanned(&text, message))?;
    Ok(text)
}

pub(super) fn fingerprint(given: &Given<'_>) -> Result<Fingerprint> {
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
    let pointers = Punctuated::<LitStr, Token![,]>::parse_terminated
        .parse2(members.stream())
        .map_err(|error| Error::new(error.span(), rules::POINTERS))?;
    if pointers.is_empty() {
        return Err(Error::new_spanned(members, rules::POINTERS));
    }
    let mut wrong: Option<Error> = None;
    let mut seen: Vec<String> = Vec::new();
    for pointer in &pointers {
        let text = pointer.value();
        match (rules::pointer(&text, &seen), &mut wrong) {
            (Ok(()), _) => seen.push(text),
            (Err(message), Some(errors)) => errors.combine(Error::new_spanned(pointer, message)),
            (Err(message), None) => wrong = Some(Error::new_spanned(pointer, message)),
        }
    }
    wrong.map_or_else(|| Ok(pointers.into_iter().collect()), Err)
}

pub(super) fn inner(given: &Given<'_>) -> Result<Inner> {
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

pub(super) fn state(given: &Given<'_>) -> Result<Tokens> {
    let value = given.assigned()?;
    let parsed: Result<Type> = syn::parse2(value.clone());
    parsed
        .map(|_| value.clone().into_iter().collect())
        .map_err(|_| Error::new_spanned(value, format!("`state` is the router's state, a type: `{}`", given.example)))
}

pub(super) fn krate(given: &Given<'_>) -> Result<Path> {
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
