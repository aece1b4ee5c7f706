//! What an operation is called.

use std::borrow::Cow;

use axum::extract::MatchedPath;
use http::Method;

/// What metrics and events call an operation; written out only for those who listen.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    door: &'static str,
    name: Name,
}

#[derive(Clone, Debug)]
enum Name {
    Given(&'static str),
    #[cfg(feature = "once")]
    Made(std::sync::Arc<str>),
    Route(&'static str, Option<MatchedPath>),
}

impl Operation {
    /// The one a policy names.
    pub(crate) fn given(door: &'static str, name: &'static str) -> Self {
        Self { door, name: Name::Given(name) }
    }

    #[cfg(feature = "once")]
    pub(crate) fn made(name: std::sync::Arc<str>) -> Self {
        Self { door: "", name: Name::Made(name) }
    }

    /// An operation without a name of its own. Any path may reach a fallback and any method an `any` route, so these are
    /// left out: labels must stay few, and a path may hold a secret.
    pub(crate) fn of_route(door: &'static str, method: &Method, route: Option<&MatchedPath>) -> Self {
        let method = match *method {
            Method::POST => "POST",
            Method::PUT => "PUT",
            Method::PATCH => "PATCH",
            Method::DELETE => "DELETE",
            _ => "OTHER",
        };
        Self { door, name: Name::Route(method, route.cloned()) }
    }

    /// The name, as labels and events have it.
    pub(super) fn name(&self) -> Cow<'_, str> {
        let parts = match &self.name {
            Name::Given(name) if self.door.is_empty() => return Cow::Borrowed(name),
            #[cfg(feature = "once")]
            Name::Made(name) => return Cow::Borrowed(name),
            Name::Given(name) => [self.door, name, "", ""],
            Name::Route(method, route) => {
                [self.door, method, " ", route.as_ref().map_or("(no route)", MatchedPath::as_str)]
            }
        };
        Cow::Owned(parts.concat())
    }
}
