//! What the OpenAPI document says beside the handlers.

use utoipa::IntoParams;

/// The header that names the caller, for the OpenAPI document.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct Authorization {
    /// `Bearer NAME`; without it the caller is `guest`.
    #[param(rename = "Authorization", pattern = "^Bearer [!-~]+$")]
    _authorization: Option<String>,
}
