//! Runs one guarded exchange: check, send, follow, read, all within one span of time.

use super::client::guarded_client;
use super::redirect::next_hop;
use super::{FetchError, Guard, HttpRequest, HttpResponse};
use crate::CallContext;
use reqwest::{Client, Response};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::Instant;

/// Caps on one exchange. Sizes in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpLimits {
    /// Request body.
    pub request_body: usize,
    /// Response body, after decompression.
    pub response_body: usize,
    /// Number of response headers.
    pub response_headers: usize,
    /// Names and values of the response headers together.
    pub response_header_bytes: usize,
    /// Redirects followed.
    pub redirects: usize,
    /// From the look-up of the name to the last byte of the body, all redirects included.
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

/// Sends requests of sandboxed code, as far as its guard lets it. Cheap to clone; clones share connections.
#[derive(Debug, Clone)]
pub struct Fetcher {
    guard: Guard,
    limits: HttpLimits,
    /// Made when it is first needed. A machine without root certificates has none, which must not keep the gateway
    /// from starting.
    client: Arc<OnceLock<Result<Client, FetchError>>>,
}

impl Fetcher {
    /// A fetcher behind a guard.
    pub fn new(guard: Guard, limits: HttpLimits) -> Self {
        Self { guard, limits, client: Arc::default() }
    }

    fn client(&self) -> Result<&Client, FetchError> {
        let make = || guarded_client(&self.guard, &self.limits).map_err(FetchError::NoClient);
        self.client.get_or_init(make).as_ref().map_err(Clone::clone)
    }

    /// Its caps.
    pub fn limits(&self) -> &HttpLimits {
        &self.limits
    }

    /// Sends a request and reads the whole response, or gives up when the time, the run or a cap says so.
    pub async fn fetch(&self, context: &CallContext, request: HttpRequest) -> Result<HttpResponse, FetchError> {
        let start = Instant::now();
        let mut end = start + self.limits.time;
        if let Some(deadline) = context.deadline {
            end = end.min(deadline);
        }
        tokio::select! {
            biased;
            () = context.cancel.cancelled() => Err(FetchError::Cancelled),
            response = self.exchange(request) => response,
            () = tokio::time::sleep_until(end) => Err(FetchError::Timeout(end.duration_since(start))),
        }
    }

    async fn exchange(&self, mut request: HttpRequest) -> Result<HttpResponse, FetchError> {
        for _ in 0..=self.limits.redirects {
            let response = self.send(&request).await?;
            match next_hop(&request, response.status(), response.headers())? {
                Some(next) => request = next,
                None => return HttpResponse::read(response, &self.limits).await,
            }
        }
        Err(FetchError::TooManyRedirects(self.limits.redirects))
    }

    async fn send(&self, request: &HttpRequest) -> Result<Response, FetchError> {
        self.guard.check_url(&request.url)?;
        let client = self.client()?;
        let mut builder = client.request(request.method.clone(), request.url.clone()).headers(request.headers.clone());
        if let Some(body) = &request.body {
            builder = builder.body(body.clone());
        }
        builder.send().await.map_err(FetchError::from_client)
    }
}
