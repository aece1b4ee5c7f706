//! What an OpenAPI document says of an annotated route.

use std::collections::BTreeMap;

use http::StatusCode;
use utoipa::{
    IntoParams, IntoResponses, Modify,
    openapi::{
        Content, Header, HeaderBuilder, Object, ObjectBuilder, OpenApi, RefOr, Required, Response, ResponseBuilder,
        path::{Operation, Parameter, ParameterBuilder, ParameterIn, PathItem},
        schema::Type,
    },
};

use super::{
    CommitUnknown, InProgress, KeyInvalid, KeyMissing, KeyReused, LeaseLost, OutcomeUnknown, RolledBack,
    StoreUnavailable,
};
use crate::policy::Policy;

const PROBLEM: &str = "application/problem+json";

/// A bare key, or a quoted one (RFC 9651 string); both are the same key.
const KEY_PATTERN: &str = r#"^(?:[!#-&(-+\-.-:<-\[\]-~][!#-+\-.-:<-\[\]-~]*|"(?:[ !#-\[\]-~]|\\["\\])+")$"#;

/// The required header `Idempotency-Key`: `#[utoipa::path(params(IdempotencyKey), …)]`.
#[derive(Clone, Copy, Debug)]
pub struct IdempotencyKey;

impl IntoParams for IdempotencyKey {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![key(Required::True)]
    }
}

/// The header `Idempotency-Key` where the attribute says `optional`: `#[utoipa::path(params(OptionalIdempotencyKey), …)]`.
#[derive(Clone, Copy, Debug)]
pub struct OptionalIdempotencyKey;

impl IntoParams for OptionalIdempotencyKey {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![key(Required::False)]
    }
}

fn key(required: Required) -> Parameter {
    let schema = ObjectBuilder::new()
        .schema_type(Type::String)
        .min_length(Some(1))
        .max_length(Some(255))
        .pattern(Some(KEY_PATTERN))
        .build();
    ParameterBuilder::new()
        .name(Policy::DEFAULT.header)
        .parameter_in(ParameterIn::Header)
        .required(required)
        .description(Some(
            "A value that is unique to this operation, such as a UUID. A retry with the same value gets the first answer again, \
             marked by `Idempotent-Replayed: true`, and nothing runs twice.",
        ))
        .schema(Some(schema))
        .build()
}

/// The problems that idempotency answers with, 400, 409, 422 and 503: `#[utoipa::path(responses(IdempotencyResponses), …)]`.
///
/// A status that the operation documents as well belongs to whichever comes last; [`IdempotentOperations`] adds to it instead.
#[derive(Clone, Copy, Debug)]
pub struct IdempotencyResponses;

impl IntoResponses for IdempotencyResponses {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        problems().map(|(status, response)| (status, response.into())).collect()
    }
}

fn problems() -> impl Iterator<Item = (String, Response)> {
    [
        (
            StatusCode::BAD_REQUEST,
            "The idempotency key is missing or can't be one.",
            &[KeyMissing::CODE, KeyInvalid::CODE][..],
        ),
        (
            StatusCode::CONFLICT,
            "Another attempt with this key runs (`Retry-After` says how long it may), or ended nobody knows how.",
            &[InProgress::CODE, OutcomeUnknown::CODE],
        ),
        (StatusCode::UNPROCESSABLE_ENTITY, "The key was used before with another request.", &[KeyReused::CODE]),
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "Nothing ran, or the run was stopped or undone. Retry with the same key.",
            &[StoreUnavailable::CODE, LeaseLost::CODE, RolledBack::CODE, CommitUnknown::CODE],
        ),
    ]
    .into_iter()
    .map(|(status, description, codes)| {
        let content = Content::new(Some(schema(status, codes)));
        let mut response = ResponseBuilder::new().description(description).content(PROBLEM, content);
        if matches!(status, StatusCode::CONFLICT | StatusCode::SERVICE_UNAVAILABLE) {
            response = response.header("Retry-After", retry_after());
        }
        (status.as_str().to_owned(), response.build())
    })
}

/// The members of a problem (RFC 9457) with this status.
fn schema(status: StatusCode, codes: &[&str]) -> Object {
    let text = || ObjectBuilder::new().schema_type(Type::String);
    let number = ObjectBuilder::new().schema_type(Type::Integer).enum_values(Some([status.as_u16()]));
    ObjectBuilder::new()
        .property("type", text())
        .property("title", text())
        .property("detail", text())
        .property("status", number)
        .property("code", text().enum_values(Some(codes.iter().copied())))
        .required("type")
        .required("title")
        .required("detail")
        .required("status")
        .required("code")
        .build()
}

fn retry_after() -> Header {
    HeaderBuilder::new()
        .description(Some("Seconds after which to retry with the same key."))
        .schema(Some(ObjectBuilder::new().schema_type(Type::Integer)))
        .build()
}

/// Adds the key and the problems to every operation of an annotated route: name a constant of it in `modifiers(…)`.
///
/// A document can't see which handlers are annotated. It takes those whose `operationId` is listed here (utoipa makes it
/// from the handler's name) and those that name [`IdempotencyKey`] or [`OptionalIdempotencyKey`] themselves. What an
/// operation documents already stays: where it has an answer of the same status, the problem becomes one more media type of
/// it. A listed name that no operation has is an error event, since a route would go undocumented.
///
/// ```
/// use idem_runtime::{http::IdempotentOperations, idempotent};
/// use utoipa::OpenApi;
///
/// #[utoipa::path(post, path = "/payments", responses((status = 201)))]
/// #[idempotent(ttl = "24h", store = layer)]
/// async fn create_payment() {}
///
/// const ANNOTATED: IdempotentOperations = IdempotentOperations(&["create_payment"]);
///
/// #[derive(OpenApi)]
/// #[openapi(paths(create_payment), modifiers(&ANNOTATED))]
/// struct Document;
///
/// let document = serde_json::to_value(Document::openapi())?;
/// let post = &document["paths"]["/payments"]["post"];
/// assert_eq!(post["parameters"][0]["name"], "Idempotency-Key");
/// assert!(post["responses"]["409"]["content"]["application/problem+json"].is_object());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct IdempotentOperations(
    /// The operations' `operationId`s.
    pub &'static [&'static str],
);

impl Modify for IdempotentOperations {
    fn modify(&self, openapi: &mut OpenApi) {
        let mut listed = Vec::new();
        for operation in openapi.paths.paths.values_mut().flat_map(operations) {
            let name = self.0.iter().find(|name| operation.operation_id.as_deref() == Some(**name));
            listed.extend(name);
            if name.is_some() || has_key(operation) {
                document(operation);
            }
        }
        for missing in self.0.iter().filter(|name| !listed.contains(name)) {
            tracing::error!(target: "idem", operation = missing, "the OpenAPI document has no such operation");
        }
    }
}

fn operations(path: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let PathItem { get, put, post, delete, options, head, patch, trace, query, additional_operations, .. } = path;
    [get, put, post, delete, options, head, patch, trace, query]
        .into_iter()
        .flatten()
        .chain(additional_operations.values_mut())
}

fn has_key(operation: &Operation) -> bool {
    operation.parameters.iter().flatten().any(|parameter| match parameter {
        RefOr::T(parameter) => {
            matches!(parameter.parameter_in, ParameterIn::Header)
                && parameter.name.eq_ignore_ascii_case(Policy::DEFAULT.header)
        }
        RefOr::Ref(_) => false,
    })
}

fn document(operation: &mut Operation) {
    if !has_key(operation) {
        operation.parameters.get_or_insert_default().push(key(Required::True).into());
    }
    for (status, problem) in problems() {
        match operation.responses.responses.get_mut(&status) {
            None => {
                operation.responses.responses.insert(status, problem.into());
            }
            Some(RefOr::T(own)) => {
                for (media_type, content) in problem.content {
                    own.content.entry(media_type).or_insert(content);
                }
                for (name, header) in problem.headers {
                    own.headers.entry(name).or_insert(header);
                }
            }
            // Shared by other operations: not ours to change.
            Some(RefOr::Ref(_)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn modified(document: Value, listed: IdempotentOperations) -> Value {
        let mut document: OpenApi = serde_json::from_value(document).unwrap();
        listed.modify(&mut document);
        serde_json::to_value(document).unwrap()
    }

    #[test]
    fn an_operation_keeps_what_it_says_and_others_are_left_alone() {
        let own = json!({ "description": "Mine.", "content": { "application/json": {} } });
        let key = json!([{ "name": "idempotency-key", "in": "header", "required": false }]);
        let document = json!({
            "openapi": "3.1.0",
            "info": { "title": "t", "version": "1" },
            "paths": {
                "/listed": { "post": { "operationId": "listed", "responses": { "422": own } } },
                "/marked": { "patch": { "operationId": "marked", "parameters": key, "responses": {} } },
                "/other": { "post": { "operationId": "other", "responses": {} } },
            },
        });
        let document = modified(document, IdempotentOperations(&["listed"]));
        let listed = &document["paths"]["/listed"]["post"];
        assert_eq!(listed["responses"]["422"]["description"], "Mine.");
        assert!(listed["responses"]["422"]["content"]["application/json"].is_object());
        let codes = &listed["responses"]["422"]["content"][PROBLEM]["schema"]["properties"]["code"]["enum"];
        assert_eq!(*codes, json!(["idempotency_key_reused"]));
        assert_eq!(listed["parameters"][0]["required"], true);
        let marked = &document["paths"]["/marked"]["patch"];
        assert_eq!(marked["parameters"].as_array().unwrap().len(), 1, "its own parameter stays");
        for status in ["400", "409", "422", "503"] {
            assert!(marked["responses"][status]["content"][PROBLEM].is_object(), "{status}");
        }
        assert!(marked["responses"]["503"]["headers"]["Retry-After"].is_object());
        assert_eq!(document["paths"]["/other"]["post"]["responses"], json!({}));
    }
}
