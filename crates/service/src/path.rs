//! The parameters of a route's path.
//!
//! In place of axum's extractor, whose own answer to a path that is not UTF-8 is plain text: every error of the service has one form.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::refusal::Refusal;

/// The parameters of a path.
pub(super) struct Path<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let found = axum::extract::Path::from_request_parts(parts, state).await;
        found.map(|axum::extract::Path(value)| Path(value)).map_err(|_| Refusal::BadRequest("the path is not UTF-8"))
    }
}
