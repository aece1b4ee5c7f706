//! Who is calling.

use axum::{
    extract::FromRequestParts,
    http::{StatusCode, header::AUTHORIZATION, request::Parts},
};
use utoipa::IntoParams;

/// The header that names the caller, for the OpenAPI document.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct Authorization {
    /// `Bearer NAME`; without it the caller is `guest`.
    #[param(rename = "Authorization", pattern = "^Bearer [!-~]+$")]
    _authorization: Option<String>,
}

/// The caller, by `Authorization: Bearer NAME`; without it the caller is `guest`, so that the first call needs no setup.
pub(crate) struct AuthUser {
    pub(crate) name: String,
}

impl<S: Sync> FromRequestParts<S> for AuthUser {
    type Rejection = (StatusCode, &'static str);

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let Some(header) = parts.headers.get(AUTHORIZATION) else { return Ok(Self { name: "guest".into() }) };
        header
            .to_str()
            .ok()
            .and_then(|header| header.strip_prefix("Bearer "))
            .filter(|name| !name.is_empty())
            .map(|name| Self { name: name.into() })
            .ok_or((StatusCode::UNAUTHORIZED, "send `Authorization: Bearer NAME`"))
    }
}
