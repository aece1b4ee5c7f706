//! How each option's value is read.

use proc_macro2::{Delimiter, Group, Ident, TokenStream};
use syn::{
    Error, Expr, LitStr, Path, Result, Token, Type,
    ext::IdentExt,
    parse::{ParseStream, Parser},
    punctuated::Punctuated,
};

use super::{Fingerprint, Form, Inner, Window};
use crate::{
    duration,
    errors::with_help,
    senders::{READ, SENDERS},
    suggest::{closest, one_of},
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

pub(super) fn expression(given: &Given<'_>) -> Result<Expr> {
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

pub(super) fn flag(given: &Given<'_>) -> Result<()> {
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

pub(super) fn header(given: &Given<'_>) -> Result<LitStr> {
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

pub(super) fn operation(given: &Given<'_>) -> Result<LitStr> {
    let text = given.string()?;
    if text.value().trim().is_empty() {
        return Err(Error::new_spanned(&text, format!("the operation's name is empty: `{}`", given.example)));
    }
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

pub(super) fn state(given: &Given<'_>) -> Result<Type> {
    let value = given.assigned()?;
    syn::parse2(value.clone())
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
