//! Where traces and metrics go.

use super::backends::headers;
use super::checker::Checker;
use crate::raw;
use crate::values::Secret;

/// A collector of OpenTelemetry.
#[derive(Debug, Clone, PartialEq)]
pub struct TelemetrySettings {
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// What comes before `/v1/traces`, without a slash at its end.
    pub path: String,
    /// Headers of each request to it.
    pub headers: Vec<(String, Secret)>,
    /// The name of this service in traces.
    pub service_name: String,
}

pub(super) fn check(checker: &mut Checker<'_>, raw: &raw::Telemetry) -> Option<TelemetrySettings> {
    let headers = headers(checker, &raw.headers);
    let service_name = checker.get(&raw.service_name).filter(|name| !name.is_empty());
    let (written, endpoint) = (raw.endpoint.as_ref()?, checker.get(&raw.endpoint)?);
    let url = endpoint.url();
    if url.scheme() != "http" {
        let help = "name a collector on this machine by http://; it sends on with TLS";
        checker.wrong(&written.place, "traces are sent over plain HTTP only", help);
        return None;
    }
    Some(TelemetrySettings {
        host: url.host_str()?.trim_matches(['[', ']']).to_owned(),
        port: url.port_or_known_default()?,
        path: url.path().trim_end_matches('/').to_owned(),
        headers,
        service_name: service_name.unwrap_or_else(|| "toolgate".to_owned()),
    })
}
