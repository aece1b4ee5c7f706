//! What a handler's answer must be, said in the handler's own terms.

use axum::response::{IntoResponse, Response};

/// An answer that can be recorded.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a response",
    label = "an annotated handler's return type must implement `IntoResponse`",
    note = "see https://docs.rs/axum/0.8/axum/response/index.html for what can be returned"
)]
pub trait Recordable: 'static {
    #[doc(hidden)]
    fn answer(self) -> Response;
}

#[diagnostic::do_not_recommend]
impl<R: IntoResponse + 'static> Recordable for R {
    fn answer(self) -> Response {
        self.into_response()
    }
}
