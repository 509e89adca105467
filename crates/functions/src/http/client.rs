//! The HTTP clients: one with the guard as its resolver, one for configured URLs.
//!
//! Both use no proxy from the environment, no cookies, no automatic redirects and no `Referer`.

use super::{Guard, HttpLimits};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder};
use rustls::ClientConfig;
use rustls_platform_verifier::BuilderVerifierExt;
use std::sync::{Arc, OnceLock};

/// A client that resolves every host with the guard.
pub(super) fn guarded_client(guard: &Guard, limits: &HttpLimits) -> Result<Client, String> {
    base()?
        .dns_resolver(Arc::new(guard.clone()))
        .http1_max_headers(limits.response_headers)
        .http2_max_header_list_size(u32::try_from(limits.response_header_bytes).unwrap_or(u32::MAX))
        .build()
        .map_err(|error| error.to_string())
}

/// A client for configured URLs, which may be in the user's own network. Created on first use: most gateways call no
/// endpoint, and creating a client takes milliseconds.
#[derive(Debug, Clone, Default)]
pub(crate) struct TrustedClient(Arc<OnceLock<Result<Client, String>>>);

impl TrustedClient {
    pub(crate) fn get(&self) -> Result<Client, String> {
        self.0.get_or_init(|| base()?.build().map_err(|error| error.to_string())).clone()
    }
}

fn base() -> Result<ClientBuilder, String> {
    let tls = TLS.get_or_init(|| tls().map_err(|error| error.to_string())).clone()?;
    Ok(Client::builder()
        .tls_backend_preconfigured(tls)
        .no_proxy()
        .redirect(Policy::none())
        .referer(false)
        .pool_max_idle_per_host(8)
        .user_agent(concat!("toolgate/", env!("CARGO_PKG_VERSION"))))
}

/// Shared by all clients, because reading the system's root certificates takes milliseconds.
static TLS: OnceLock<Result<ClientConfig, String>> = OnceLock::new();

/// Uses an explicit crypto provider; installing a process-wide default is the decision of the binary.
fn tls() -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = builder.with_platform_verifier()?.with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
