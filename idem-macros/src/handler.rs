//! The annotated function. Its body stays opaque tokens, so that a half-typed one survives.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use syn::{
    Attribute, Error, FnArg, Generics, Result, ReturnType, Signature, Token, Visibility,
    ext::IdentExt,
    parse::{Parse, ParseStream, Parser},
    punctuated::Punctuated,
};

use crate::{
    errors::with_help,
    param::Param,
    tokens::{Tokens, at_commas, list},
    usual::{self, Parts},
};

/// A handler as its author wrote it.
pub(crate) struct Handler {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Tokens,
    /// The parameters and the return type are in it only where something is unusual.
    pub(crate) sig: Signature,
    /// All of the signature.
    pub(crate) written: Tokens,
    /// The return type.
    pub(crate) output: Tokens,
    /// Where the parentheses of the parameters are.
    pub(crate) parens: Span,
    pub(crate) body: Group,
    pub(crate) params: Vec<Param>,
    /// All of it, as text.
    text: String,
}

impl Handler {
    /// Reads a function. The tokens of its body are never looked at one by one: that would cost more than all the rest.
    pub(crate) fn of(item: TokenStream) -> Result<Self> {
        let text = item.to_string();
        let mut tokens: Tokens = item.into_iter().collect();
        if let Some(handler) = usual::parts(&tokens).and_then(|parts| Self::usual(&parts, &text)) {
            return Ok(handler);
        }
        let body = match tokens.last_mut() {
            Some(TokenTree::Group(last)) if last.delimiter() == Delimiter::Brace => {
                let mut emptied = Group::new(Delimiter::Brace, TokenStream::new());
                emptied.set_span(last.span());
                Some(std::mem::replace(last, emptied))
            }
            _ => None,
        };
        let mut handler: Self = syn::parse2(tokens.into_iter().collect())?;
        handler.text = text;
        if let Some(body) = body {
            handler.body = body;
        }
        Ok(handler)
    }

    fn usual(parts: &Parts<'_>, text: &str) -> Option<Self> {
        let may_borrow = {
            let params = parts.params.to_string();
            params.contains(['&', '\'']) || params.contains("impl")
        };
        let mut params: Vec<Param> = Vec::new();
        for written in at_commas(parts.params.stream()) {
            let (pattern, ty) = usual::parameter(&written)?;
            let param = Param::usual(pattern, ty, may_borrow, &params);
            params.push(param);
        }
        let attrs = match parts.attrs {
            [] => Vec::new(),
            attrs => Attribute::parse_outer.parse2(attrs.iter().cloned().collect()).ok()?,
        };
        let [asyncness, function] = parts.keywords.map(Ident::span);
        let sig = Signature {
            constness: None,
            asyncness: Some(Token![async](asyncness)),
            safety: syn::Safety::Default,
            abi: None,
            fn_token: Token![fn](function),
            ident: parts.name.clone(),
            generics: Generics::default(),
            paren_token: syn::token::Paren::default(),
            inputs: Punctuated::new(),
            variadic: None,
            output: ReturnType::Default,
        };
        Some(Self {
            attrs,
            vis: parts.vis.to_vec(),
            sig,
            written: parts.signature.to_vec(),
            output: parts.output.to_vec(),
            parens: parts.params.span(),
            body: parts.body.clone(),
            params,
            text: text.to_owned(),
        })
    }

    /// Removes what a handler can't be.
    pub(crate) fn make_callable(&mut self) {
        if self.sig.constness.take().is_some() | self.sig.abi.take().is_some() | self.sig.variadic.take().is_some() {
            self.written = list(&self.sig);
        }
    }
}

impl Parse for Handler {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let vis: Visibility = input.parse()?;
        if let Some(error) = wrong_item(input) {
            return Err(error);
        }
        let sig: Signature = input.parse()?;
        let body = body(input, &sig)?;
        let mut params: Vec<Param> = Vec::new();
        for argument in &sig.inputs {
            if let FnArg::Typed(argument) = argument {
                let param = Param::new(argument, &params);
                params.push(param);
            }
        }
        let output = match &sig.output {
            ReturnType::Type(_, ty) => list(ty),
            ReturnType::Default => Tokens::new(),
        };
        let (written, parens) = (list(&sig), sig.paren_token.span.join());
        Ok(Self { attrs, vis: list(vis), sig, written, output, parens, body, params, text: String::new() })
    }
}

fn body(input: ParseStream<'_>, sig: &Signature) -> Result<Group> {
    if input.peek(Token![;]) {
        let message = with_help(
            format!("`{}` has no body to guard", sig.ident),
            "put `#[idempotent]` on the function that handles the request, not on its declaration",
        );
        return Err(Error::new_spanned(sig.fn_token, message));
    }
    match unwrapped(input.parse()?) {
        Ok(body) if input.is_empty() => Ok(body),
        Ok(_) => Err(input.error("nothing is expected after the handler's body")),
        Err(other) => Err(Error::new(other.span(), "expected the handler's body, `{ … }`")),
    }
}

/// The braces of a body; a macro's fragment comes with invisible delimiters round it.
fn unwrapped(token: TokenTree) -> std::result::Result<Group, TokenTree> {
    match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Ok(group),
        TokenTree::Group(group) if group.delimiter() == Delimiter::None => {
            let mut inside = group.stream().into_iter();
            match (inside.next(), inside.next()) {
                (Some(only), None) => unwrapped(only),
                _ => Err(TokenTree::Group(group)),
            }
        }
        other => Err(other),
    }
}

/// Names the item's kind where it is no function.
fn wrong_item(input: ParseStream<'_>) -> Option<Error> {
    let ahead = input.fork();
    let first = Ident::parse_any(&ahead).ok()?;
    let mut keyword = first;
    if keyword == "unsafe" || keyword == "const" {
        // `const FOO: …` is an item, `const fn` is a function.
        if ahead.peek(Ident::peek_any)
            && let Ok(next) = Ident::parse_any(&ahead)
            && ["impl", "trait", "mod"].iter().any(|kind| next == kind)
        {
            keyword = next;
        }
    }
    let (kind, advice) = match keyword.to_string().as_str() {
        "impl" => ("an `impl` block", "put it on each handler in the block"),
        "trait" => ("a trait", "put it on the functions that handle requests"),
        "mod" => ("a module", "put it on each handler in the module"),
        "struct" | "enum" | "union" => ("a type", "put it on the function that handles the request"),
        "type" | "use" | "static" | "extern" | "macro_rules" if !is_extern_fn(input) => {
            ("this item", "put it on the function that handles the request")
        }
        "const" if input.peek2(syn::Ident) && input.peek3(Token![:]) => {
            ("a constant", "put it on the function that handles the request")
        }
        "let" => ("a statement", "put it on the function that handles the request, and pass that to the route"),
        _ => return None,
    };
    Some(Error::new(keyword.span(), with_help(format!("`#[idempotent]` guards an `async fn`, not {kind}"), advice)))
}

fn is_extern_fn(input: ParseStream<'_>) -> bool {
    input.peek(Token![extern]) && (input.peek2(Token![fn]) || input.peek3(Token![fn]))
}

impl Handler {
    /// The name, without `r#`.
    pub(crate) fn plain_name(&self) -> String {
        self.sig.ident.unraw().to_string()
    }

    /// Whether the body begins with an attribute of its own.
    pub(crate) fn has_inner_attribute(&self) -> bool {
        // The text first, as above.
        (self.text.contains("#!") || self.text.contains("# !"))
            && matches!(self.body.stream().into_iter().next(), Some(TokenTree::Punct(punct)) if punct.as_char() == '#')
    }

    /// Whether an attribute is left that may be a macro, and has to expand first.
    pub(crate) fn has_other_macros(&self) -> bool {
        const INERT: [&str; 16] = [
            "allow",
            "automatically_derived",
            "cfg",
            "cold",
            "deny",
            "deprecated",
            "doc",
            "expect",
            "forbid",
            "idempotent",
            "inline",
            "must_use",
            "no_mangle",
            "rustfmt",
            "track_caller",
            "warn",
        ];
        let is_inert =
            |path: &syn::Path| path.segments.first().is_some_and(|first| INERT.iter().any(|name| first.ident == name));
        !self.attrs.iter().all(|attribute| is_inert(attribute.path()) || crate::validate::is_ours(attribute.path()))
    }

    /// `Self` in the signature or the body can only mean the `impl` around it, which a nested function can't name.
    pub(crate) fn mentions_self(&self) -> bool {
        // The text first, as the compiler has it sooner than the tokens.
        self.text.contains("Self")
            && (mentions_self(self.written.iter().cloned().collect()) || mentions_self(self.body.stream()))
    }
}

/// Looks for `Self`, leaving out items within the body: theirs is another one.
fn mentions_self(tokens: TokenStream) -> bool {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(ident) if ident == "Self" => return true,
            TokenTree::Ident(ident) => {
                let named = matches!(tokens.peek(), Some(TokenTree::Ident(_)));
                let item = ["impl", "trait", "struct", "enum"].iter().any(|kind| ident == kind);
                if item || (ident == "fn" && named) {
                    let mut ahead = tokens.clone();
                    if ahead.any(|token| ends_item(&token)) {
                        tokens = ahead;
                    }
                }
            }
            TokenTree::Group(group) if mentions_self(group.stream()) => return true,
            _ => {}
        }
    }
    false
}

fn ends_item(token: &TokenTree) -> bool {
    match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(punct) => punct.as_char() == ';',
        _ => false,
    }
}
