//! The transaction as a parameter of a handler.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use http::request::Parts;

use super::attempt;
use crate::store::postgres::Tx;

impl<S: Sync> FromRequestParts<S> for Tx {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::new(attempt::cell(&mut parts.extensions)))
    }
}
