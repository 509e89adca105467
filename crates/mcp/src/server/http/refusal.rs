//! Responses to requests that are refused before dispatch: an HTTP status, and the reason as a JSON-RPC error.
//!
//! Errors of dispatched requests are JSON-RPC replies and not built here.

use crate::protocol::ErrorCode;
use axum::http::header::{ALLOW, RETRY_AFTER};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use toolgate_wire::OverBudget;

use super::super::message::{RpcError, error, no_tree, over_budget, too_large};
use super::super::server_message::ServerMessage;
use crate::json_text::TreeError;

/// The response to a refused request.
#[derive(Debug)]
pub(super) struct Refusal(Box<Reason>);

#[derive(Debug)]
struct Reason {
    status: StatusCode,
    id: Value,
    error: RpcError,
    header: Option<(HeaderName, HeaderValue)>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, error: RpcError) -> Self {
        Self(Box::new(Reason { status, id: Value::Null, error, header: None }))
    }

    fn because(status: StatusCode, reason: &str) -> Self {
        Self::new(status, error(ErrorCode::INVALID_REQUEST, reason))
    }

    fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.header = Some((name, value));
        self
    }

    pub(super) fn bad(error: RpcError) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error)
    }

    pub(super) fn forbidden(reason: &str) -> Self {
        Self::because(StatusCode::FORBIDDEN, reason)
    }

    pub(super) fn too_large(limit: usize) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, too_large(limit))
    }

    /// The body does not fit into a byte budget; the request may be sent again later.
    pub(super) fn over_budget(refused: &OverBudget) -> Self {
        let refusal = Self::new(StatusCode::SERVICE_UNAVAILABLE, over_budget(refused));
        refusal.with_header(RETRY_AFTER, HeaderValue::from_static("1"))
    }

    /// The body is JSON, but does not become a tree.
    pub(super) fn no_tree(error: &TreeError) -> Self {
        match error {
            TreeError::OverBudget(refused) => Self::over_budget(refused),
            TreeError::TooManyValues { .. } => Self::new(StatusCode::PAYLOAD_TOO_LARGE, no_tree(error)),
            TreeError::NotJson(_) => Self::bad(no_tree(error)),
        }
    }

    pub(super) fn broken_body() -> Self {
        Self::because(StatusCode::BAD_REQUEST, "the body ended before it was complete")
    }

    pub(super) fn too_slow() -> Self {
        Self::because(StatusCode::REQUEST_TIMEOUT, "the body took too long to arrive")
    }

    pub(super) fn wrong_type() -> Self {
        Self::because(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body must be application/json")
    }

    pub(super) fn not_acceptable(reason: &str) -> Self {
        Self::because(StatusCode::NOT_ACCEPTABLE, reason)
    }

    pub(super) fn only_post() -> Self {
        let refusal =
            Self::because(StatusCode::METHOD_NOT_ALLOWED, "in this revision of the protocol only POST is allowed");
        refusal.with_header(ALLOW, HeaderValue::from_static("POST"))
    }

    pub(super) fn no_session() -> Self {
        Self::because(
            StatusCode::BAD_REQUEST,
            "no Mcp-Session-Id: send initialize first, then its session id with every request",
        )
    }

    pub(super) fn too_many_sessions() -> Self {
        let refusal = Self::because(StatusCode::SERVICE_UNAVAILABLE, "too many sessions of this caller are in use");
        refusal.with_header(RETRY_AFTER, HeaderValue::from_static("1"))
    }

    pub(super) fn unknown_session() -> Self {
        let error = RpcError { code: -32001, message: "no such session".to_owned(), data: None };
        Self::new(StatusCode::NOT_FOUND, error)
    }

    /// The same refusal as the reply to request `id`.
    pub(super) fn to(mut self, id: &Value) -> Self {
        self.0.id = id.clone();
        self
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Reason { status, id, error, header } = *self.0;
        let mut response = (status, ServerMessage::reply(&id, Err(error))).into_response();
        if let Some((name, value)) = header {
            response.headers_mut().insert(name, value);
        }
        response
    }
}
