//! Host functions from the configuration: a call sends one HTTP request to a configured URL.
//!
//! The URL is trusted, so it may be in the user's own network. In return the arguments cannot change the target of the
//! request, and redirects are disabled. Headers may be secrets: they are marked as sensitive and appear neither in logs nor
//! in errors.
//!
//! The arguments are sent
//! - with POST, PUT and PATCH as the JSON body `{"args": […]}`;
//! - with GET and DELETE as the query: one pair per declared parameter (strings as they are, anything else as JSON text,
//!   `null` omitted), and for a rest parameter one pair per argument.
//!
//! The result is the JSON value of a 2xx response, its text if it is not JSON, `null` if it is empty.

use super::answer::{CountedBody, grow_to, is_json, quoted_bytes};
use super::http::FetchError;
use super::http::{TrustedClient, read_body, retry_after};
use super::idempotency;
use super::{
    ErrorCode, FailedEffect, FunctionAnswer, FunctionBuilder, FunctionError, HostFunction, Param, Presence,
    SignatureError,
};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Method, Response, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use toolgate_wire::ByteBudget;
use url::Url;

/// Maximum size of a response body, in bytes.
const MAX_BODY_BYTES: usize = 5 * 1024 * 1024;
/// Maximum number of bytes of an error response that the caller receives.
const MAX_EXCERPT_BYTES: usize = 2 * 1024;

/// A function that is an HTTP endpoint.
#[derive(Debug, Clone)]
pub struct HttpEndpoint {
    /// The function's name in the sandbox.
    pub name: String,
    /// What it does.
    pub description: String,
    /// Its parameters. Without any, it takes all arguments as `args`.
    pub params: Vec<Param>,
    /// JSON Schema of its result.
    pub result: Value,
    /// What is declared of its effect, besides what the method says.
    pub effect: DeclaredEffect,
    /// The URL of the endpoint.
    pub url: Url,
    /// The HTTP method.
    pub method: EndpointMethod,
    /// Headers of every request; see [`secret_header`].
    pub headers: HeaderMap,
    /// Timeout from the connection to the last byte of the response.
    pub timeout: Duration,
}

/// What is declared of the effect of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeclaredEffect {
    /// Nothing.
    #[default]
    Unknown,
    /// A call may be made again with the same arguments.
    Idempotent,
    /// A call changes nothing.
    ReadOnly,
}

impl DeclaredEffect {
    /// A builder that declares it.
    #[must_use]
    pub fn on(self, builder: FunctionBuilder) -> FunctionBuilder {
        match self {
            Self::Unknown => builder,
            Self::Idempotent => builder.idempotent(),
            Self::ReadOnly => builder.reads_only().idempotent(),
        }
    }
}

/// The methods an endpoint may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants are HTTP methods")]
pub enum EndpointMethod {
    Get,
    Delete,
    Post,
    Put,
    Patch,
}

impl EndpointMethod {
    fn carries_body(self) -> bool {
        match self {
            Self::Post | Self::Put | Self::Patch => true,
            Self::Get | Self::Delete => false,
        }
    }
}

impl From<EndpointMethod> for Method {
    fn from(method: EndpointMethod) -> Self {
        match method {
            EndpointMethod::Get => Self::GET,
            EndpointMethod::Delete => Self::DELETE,
            EndpointMethod::Post => Self::POST,
            EndpointMethod::Put => Self::PUT,
            EndpointMethod::Patch => Self::PATCH,
        }
    }
}

/// A header for [`HttpEndpoint::headers`] whose value `Debug` does not print. `None` if the name or the value is invalid.
pub fn secret_header(name: &str, value: &str) -> Option<(HeaderName, HeaderValue)> {
    let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some((name, value))
}

impl HttpEndpoint {
    /// The endpoint as a host function.
    pub fn into_function(mut self) -> Result<HostFunction, SignatureError> {
        if self.params.is_empty() {
            self.params.push(anything());
        }
        let client = TrustedClient::default();
        let builder = HostFunction::builder(&self.name).describe(&self.description).returns(self.result.clone());
        let builder = self.params.iter().cloned().fold(builder, |builder, param| builder.param(param));
        let builder = match self.method {
            EndpointMethod::Get => builder.reads_only(),
            EndpointMethod::Delete | EndpointMethod::Post | EndpointMethod::Put | EndpointMethod::Patch => builder,
        };
        let builder = self.effect.on(builder);
        let endpoint = Arc::new(self);
        builder.handle_counted(move |context, args| {
            let (endpoint, client) = (Arc::clone(&endpoint), client.clone());
            async move {
                let client = client.get().map_err(|error| FunctionError::new(ErrorCode::Unavailable, error))?;
                endpoint.call(&client, args, &context.budget).await
            }
        })
    }

    async fn call(
        &self,
        client: &Client,
        args: Vec<Value>,
        budget: &ByteBudget,
    ) -> Result<FunctionAnswer, FunctionError> {
        let request = client.request(self.method.into(), self.url_for(&args));
        let mut request = request.headers(self.headers.clone()).timeout(self.timeout);
        // Headers of the configuration take precedence.
        let key = idempotency::current().filter(|_| !self.headers.contains_key(idempotency::HEADER));
        if let Some(key) = key.filter(|_| self.method != EndpointMethod::Get) {
            request = request.header(idempotency::HEADER, key);
        }
        if self.method.carries_body() {
            request = request.json(&json!({ "args": args }));
        }
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        self.answer(response, budget).await
    }

    fn url_for(&self, args: &[Value]) -> Url {
        let mut url = self.url.clone();
        if self.method.carries_body() || args.iter().all(Value::is_null) {
            return url;
        }
        let mut query = url.query_pairs_mut();
        for (at, value) in args.iter().enumerate().filter(|(_, value)| !value.is_null()) {
            let Some(param) = self.params.get(at).or(self.params.last()) else { continue };
            match value {
                Value::String(text) => query.append_pair(&param.name, text),
                other => query.append_pair(&param.name, &other.to_string()),
            };
        }
        drop(query);
        url
    }

    async fn answer(&self, response: Response, budget: &ByteBudget) -> Result<FunctionAnswer, FunctionError> {
        let status = response.status();
        let wait = retry_after(response.headers());
        let body = read_body(response, MAX_BODY_BYTES, budget).await?;
        if status.is_success() {
            return Ok(value_of(body)?);
        }
        let body = body.bytes;
        let code = match status {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => ErrorCode::Unavailable,
            _ => ErrorCode::Failed,
        };
        let excerpt = String::from_utf8_lossy(body.get(..MAX_EXCERPT_BYTES).unwrap_or(&body)).into_owned();
        Err(FunctionError::new(code, format!("{}: the endpoint answered {status}", self.name))
            .with_effect(FailedEffect::Failed)
            .with_data(json!({ "status": status.as_u16(), "body": excerpt }))
            .with_retry_after(wait))
    }

    /// Does not use the text of the error, which contains the URL.
    fn unreachable(&self, error: &reqwest::Error) -> FunctionError {
        let effect = if error.is_connect() { FailedEffect::NotSent } else { FailedEffect::Unknown };
        if error.is_timeout() {
            let message = format!("{}: no answer within {} ms", self.name, self.timeout.as_millis());
            return FunctionError::new(ErrorCode::Timeout, message).with_effect(effect);
        }
        let message = format!("{}: the endpoint cannot be reached", self.name);
        FunctionError::new(ErrorCode::Unavailable, message).with_effect(effect)
    }
}

fn anything() -> Param {
    Param { name: "args".to_owned(), schema: json!(true), presence: Presence::Rest, description: String::new() }
}

/// The JSON text of a body: the body itself if it is JSON, else a string.
fn value_of(body: CountedBody) -> Result<FunctionAnswer, FetchError> {
    let CountedBody { bytes, mut permit } = body;
    if bytes.is_empty() {
        return Ok(Value::Null.into());
    }
    let text = String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    if is_json(&text, 0) {
        return Ok(FunctionAnswer::of_text(text, permit));
    }
    grow_to(&mut permit, text.len().saturating_add(quoted_bytes(&text)))?;
    Ok(FunctionAnswer::of_text(Value::String(text).to_string(), permit))
}
