//! Runs one guarded exchange: check, send, follow redirects and read, within one timeout.

use super::client::guarded_client;
use super::redirect::next_hop;
use super::{FetchError, Guard, HttpRequest, HttpResponse, RawResponse};
use crate::CallContext;
use reqwest::header::{CONTENT_LENGTH, HeaderValue};
use reqwest::{Client, Method, Response};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::Instant;
use toolgate_wire::ByteBudget;

/// The limits of one exchange. Sizes in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpLimits {
    /// Maximum size of the request body.
    pub request_body: usize,
    /// Maximum size of the response body, after decompression.
    pub response_body: usize,
    /// Maximum number of response headers.
    pub response_headers: usize,
    /// Maximum total size of the names and values of the response headers.
    pub response_header_bytes: usize,
    /// Maximum number of redirects.
    pub redirects: usize,
    /// Timeout from the lookup of the name to the last byte of the body, including all redirects.
    pub time: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            request_body: 1024 * 1024,
            response_body: 5 * 1024 * 1024,
            response_headers: 100,
            response_header_bytes: 64 * 1024,
            redirects: 5,
            time: Duration::from_secs(30),
        }
    }
}

/// Sends requests of sandboxed programs that its guard allows. Cheap to clone; clones share connections.
#[derive(Debug, Clone)]
pub struct Fetcher {
    guard: Guard,
    limits: HttpLimits,
    /// Created on first use: on a machine without root certificates this fails, which must not prevent the gateway from
    /// starting.
    client: Arc<OnceLock<Result<Client, FetchError>>>,
}

impl Fetcher {
    /// A fetcher with a guard.
    pub fn new(guard: Guard, limits: HttpLimits) -> Self {
        Self { guard, limits, client: Arc::default() }
    }

    fn client(&self) -> Result<&Client, FetchError> {
        let make = || guarded_client(&self.guard, &self.limits).map_err(FetchError::NoClient);
        self.client.get_or_init(make).as_ref().map_err(Clone::clone)
    }

    /// Its limits.
    pub fn limits(&self) -> &HttpLimits {
        &self.limits
    }

    /// Sends a request and reads the whole response, until the timeout, the cancellation of the run or a limit.
    pub async fn fetch(&self, context: &CallContext, request: HttpRequest) -> Result<HttpResponse, FetchError> {
        self.fetch_noting(context, request, &AtomicBool::new(false)).await
    }

    /// The same; sets `redirected` once a first request was answered, so that a later refusal is not taken for one
    /// before anything was sent.
    pub(crate) async fn fetch_noting(
        &self,
        context: &CallContext,
        request: HttpRequest,
        redirected: &AtomicBool,
    ) -> Result<HttpResponse, FetchError> {
        let start = Instant::now();
        let mut end = start + self.limits.time;
        if let Some(deadline) = context.deadline {
            end = end.min(deadline);
        }
        tokio::select! {
            biased;
            () = context.cancel.cancelled() => Err(FetchError::Cancelled),
            response = self.exchange(request, redirected, &context.budget) => response,
            () = tokio::time::sleep_until(end) => Err(FetchError::Timeout(end.duration_since(start))),
        }
    }

    /// Sends one request of a caller that is not a sandboxed program, and follows no redirect. The caller bounds its time;
    /// the budget counts the response while it is received.
    ///
    /// # Errors
    /// If the request is not permitted or fails, or the response is too large or does not fit into the budget.
    pub async fn send_once(&self, request: HttpRequest, budget: &ByteBudget) -> Result<RawResponse, FetchError> {
        let response = self.send(&request).await?;
        RawResponse::read(response, &self.limits, budget).await
    }

    async fn exchange(
        &self,
        mut request: HttpRequest,
        redirected: &AtomicBool,
        budget: &ByteBudget,
    ) -> Result<HttpResponse, FetchError> {
        for _ in 0..=self.limits.redirects {
            let response = self.send(&request).await?;
            redirected.store(true, Ordering::Relaxed);
            match next_hop(&request, response.status(), response.headers())? {
                Some(next) => request = next,
                None => return HttpResponse::read(response, &self.limits, budget).await,
            }
        }
        Err(FetchError::TooManyRedirects(self.limits.redirects))
    }

    async fn send(&self, request: &HttpRequest) -> Result<Response, FetchError> {
        self.guard.check_url(&request.url)?;
        let client = self.client()?;
        let mut builder = client.request(request.method.clone(), request.url.clone()).headers(request.headers.clone());
        match request.body.as_ref().filter(|body| !body.is_empty()) {
            Some(body) => builder = builder.body(body.clone()),
            // The client leaves the length of an empty body out over HTTP/1.1, and servers answer 411 to that.
            None if expects_body(&request.method) => {
                builder = builder.header(CONTENT_LENGTH, HeaderValue::from_static("0"));
            }
            None => {}
        }
        builder.send().await.map_err(FetchError::from_client)
    }
}

/// Whether requests with this method have a body by the HTTP standard, so that an empty one is sent with its length.
fn expects_body(method: &Method) -> bool {
    matches!(*method, Method::POST | Method::PUT | Method::PATCH) || method.as_str() == "QUERY"
}
