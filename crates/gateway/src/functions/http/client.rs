//! The HTTP clients: one that asks the guard for every address, one for URLs the user configured.
//!
//! Both: no proxy from the environment, no cookies, no redirects of their own, no `Referer`.

use super::{Guard, HttpLimits};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder};
use std::sync::Arc;

/// A client whose every connection goes where the guard says.
pub(super) fn guarded_client(guard: &Guard, limits: &HttpLimits) -> Result<Client, reqwest::Error> {
    base()
        .dns_resolver(Arc::new(guard.clone()))
        .http1_max_headers(limits.response_headers)
        .http2_max_header_list_size(u32::try_from(limits.response_header_bytes).unwrap_or(u32::MAX))
        .build()
}

/// A client for configured URLs, which may lead into the user's own network.
pub(in crate::functions) fn trusted_client() -> Result<Client, reqwest::Error> {
    base().build()
}

fn base() -> ClientBuilder {
    // The first provider wins, and an embedder's own choice stays: the error only says that there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .no_proxy()
        .redirect(Policy::none())
        .referer(false)
        .pool_max_idle_per_host(8)
        .user_agent(concat!("toolgate/", env!("CARGO_PKG_VERSION")))
}
