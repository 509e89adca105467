//! The HTTP clients: one that asks the guard for every address, one for URLs the user configured.
//!
//! Both: no proxy from the environment, no cookies, no redirects of their own, no `Referer`.

use super::{Guard, HttpLimits};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder};
use rustls::ClientConfig;
use rustls_platform_verifier::BuilderVerifierExt;
use std::sync::{Arc, OnceLock};

/// A client whose every connection goes where the guard says.
pub(super) fn guarded_client(guard: &Guard, limits: &HttpLimits) -> Result<Client, String> {
    base()?
        .dns_resolver(Arc::new(guard.clone()))
        .http1_max_headers(limits.response_headers)
        .http2_max_header_list_size(u32::try_from(limits.response_header_bytes).unwrap_or(u32::MAX))
        .build()
        .map_err(|error| error.to_string())
}

/// A client for configured URLs, which may lead into the user's own network. Made when it is first needed: most
/// gateways call no endpoint in their life, and a client takes milliseconds.
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

/// Reading the machine's root certificates takes milliseconds, so all clients share one configuration.
static TLS: OnceLock<Result<ClientConfig, String>> = OnceLock::new();

/// The provider is named here and not installed for the process: that choice belongs to the binary.
fn tls() -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = builder.with_platform_verifier()?.with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
