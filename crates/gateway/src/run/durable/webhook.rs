//! Reports the end of a durable run, and that it waits for a person, to a URL of its caller, signed.
//!
//! The form is that of Standard Webhooks: `webhook-id`, `webhook-timestamp` and `webhook-signature`, which is `v1,` and
//! the HMAC-SHA256 of `id.timestamp.body` in Base64. A request goes through the guard of outgoing HTTP, so it reaches public
//! addresses and what the configuration allows. It is tried a few times; whoever needs certainty asks for the run.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::hmac;
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;
use toolgate_functions::http::{Fetcher, HttpRequest};
use url::Url;

use super::view::PendingView;

/// How long a request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// Pauses before the second attempt and those after it.
const RETRY_DELAYS: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(25), Duration::from_secs(125)];
/// Bytes of a body. A longer report is left out.
const MAX_BODY: usize = 1024 * 1024;
/// What a secret in the form of Standard Webhooks begins with; the rest is Base64.
const SECRET_PREFIX: &str = "whsec_";

/// Sends signed requests.
pub struct Webhooks {
    key: hmac::Key,
    fetcher: Fetcher,
}

impl Webhooks {
    /// Webhooks that are signed with this secret and go out through this fetcher.
    pub fn new(secret: &str, fetcher: Fetcher) -> Self {
        let decoded = secret.strip_prefix(SECRET_PREFIX).and_then(|text| BASE64_STANDARD.decode(text).ok());
        let key = decoded.unwrap_or_else(|| secret.as_bytes().to_vec());
        Webhooks { key: hmac::Key::new(hmac::HMAC_SHA256, &key), fetcher }
    }

    /// Tells a URL that a run has ended; tries again where that fails.
    pub(super) async fn send(&self, url: &str, run: &str, report: &str) {
        if let Some(body) = body(run, report) {
            self.deliver(url, run, run, &body).await;
        }
    }

    /// Tells a URL that a run waits for decisions about these calls.
    pub(super) async fn send_paused(&self, url: &str, run: &str, pending: &[PendingView]) {
        if let Some(body) = paused_body(run, pending) {
            self.deliver(url, run, &paused_id(run, pending), &body).await;
        }
    }

    async fn deliver(&self, url: &str, run: &str, id: &str, body: &str) {
        let Ok(url) = Url::parse(url) else { return };
        let mut delays = RETRY_DELAYS.iter();
        loop {
            match self.attempt(&url, id, body).await {
                Ok(()) => return,
                Err(error) => match delays.next() {
                    Some(delay) => tokio::time::sleep(*delay).await,
                    None => return tracing::warn!(run, error, "the webhook of a run was not accepted"),
                },
            }
        }
    }

    async fn attempt(&self, url: &Url, id: &str, body: &str) -> Result<(), String> {
        let timestamp = (super::unix_ms() / 1000).to_string();
        let headers = [
            ("content-type".to_owned(), "application/json".to_owned()),
            ("webhook-id".to_owned(), id.to_owned()),
            ("webhook-timestamp".to_owned(), timestamp.clone()),
            ("webhook-signature".to_owned(), self.signature(id, &timestamp, body)),
        ];
        let request = HttpRequest::from_parts("POST", url.clone(), &headers, Some(body.as_bytes().to_vec()));
        let request = request.map_err(|error| error.to_string())?;
        let sent = tokio::time::timeout(REQUEST_TIMEOUT, self.fetcher.send_once(request)).await;
        let response = sent.map_err(|_| "no answer in time".to_owned())?.map_err(|error| error.to_string())?;
        if (200..300).contains(&response.status) { Ok(()) } else { Err(format!("status {}", response.status)) }
    }

    fn signature(&self, id: &str, timestamp: &str, body: &str) -> String {
        let signed = hmac::sign(&self.key, format!("{id}.{timestamp}.{body}").as_bytes());
        format!("v1,{}", BASE64_STANDARD.encode(signed.as_ref()))
    }
}

/// The body: the run as `GET /v1/runs/{runId}` shows it.
fn body(run: &str, report: &str) -> Option<String> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Ended<'a> {
        run_id: &'a str,
        status: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        report: Option<&'a RawValue>,
    }
    let report: Option<&RawValue> =
        (report.len() <= MAX_BODY).then(|| serde_json::from_str(report)).transpose().ok()?;
    serde_json::to_string(&Ended { run_id: run, status: "done", report }).ok()
}

/// The same for one that waits. Arguments that are too long are looked at by `GET`.
fn paused_body(run: &str, pending: &[PendingView]) -> Option<String> {
    let whole = serde_json::to_string(&json!({ "runId": run, "status": "paused", "pending": pending })).ok()?;
    if whole.len() <= MAX_BODY { Some(whole) } else { Some(json!({ "runId": run, "status": "paused" }).to_string()) }
}

/// The same for each attempt to tell of this pause, and another one for the next.
fn paused_id(run: &str, pending: &[PendingView]) -> String {
    let calls: Vec<String> = pending.iter().map(|question| question.call_id.to_string()).collect();
    let digest = ring::digest::digest(&ring::digest::SHA256, calls.join(",").as_bytes());
    let digits: String = digest.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{run}-{digits}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolgate_functions::http::{AllowList, Guard, HttpLimits};

    #[test]
    fn the_signature_is_that_of_standard_webhooks() {
        let fetcher = || Fetcher::new(Guard::new(AllowList::none()), HttpLimits::default());
        // The example of the specification of Standard Webhooks.
        let webhooks = Webhooks::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", fetcher());
        let signature = webhooks.signature("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", r#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert_ne!(Webhooks::new("another", fetcher()).signature("a", "1", "{}"), signature);
    }

    #[test]
    fn a_long_report_is_left_out() {
        assert_eq!(
            body("r", "{\"ok\":true}").as_deref(),
            Some(r#"{"runId":"r","status":"done","report":{"ok":true}}"#)
        );
        let long = format!("\"{}\"", "x".repeat(MAX_BODY));
        assert_eq!(body("r", &long).as_deref(), Some(r#"{"runId":"r","status":"done"}"#));
    }
}
