//! Reports the end of a durable run, and that it waits for a person, to a URL of its caller, signed.
//!
//! The form is that of Standard Webhooks: `webhook-id`, `webhook-timestamp` and `webhook-signature`, which is `v1,` and
//! the HMAC-SHA256 of `id.timestamp.body` in Base64. A request goes through the guard of outgoing HTTP, so it reaches public
//! addresses and what the configuration allows. It is tried a few times; a receiver that needs certainty reads the run over HTTP. Values that are
//! secrets of the configuration leave as stand-ins, also where a backend put one into its answer.
//!
//! The answer to a pause may decide: `{"decisions": […]}` as for `POST /v1/runs/{runId}/decisions`, signed in the same form with the
//! same secret and under the `webhook-id` of the pause. So a receiver that was not given the secret cannot decide.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::hmac;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use toolgate_functions::http::{Fetcher, HttpRequest, RawResponse};
use toolgate_journal::redact::Redaction;
use toolgate_mcp::process_budget;
use url::Url;

use super::SecretSource;
use super::decision::CallDecision;
use super::deliveries::{Deliveries, Delivering};
use super::view::PendingView;

/// How long a request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// Pauses before the second attempt and those after it.
const RETRY_DELAYS: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(25), Duration::from_secs(125)];
/// Bytes of a body. A longer report is left out.
const MAX_BODY: usize = 1024 * 1024;
/// How far the time of a signed answer may be from ours.
const MAX_SIGNATURE_AGE: Duration = Duration::from_secs(5 * 60);
/// What a secret in the form of Standard Webhooks begins with; the rest is Base64.
const SECRET_PREFIX: &str = "whsec_";

/// Sends signed requests.
pub struct Webhooks {
    key: hmac::Key,
    fetcher: Fetcher,
    /// Who is told of pauses of runs that have no URL of their own.
    of_pauses: Option<String>,
    secrets: SecretSource,
    deliveries: Deliveries,
}

/// What is told to a URL. The run itself is not kept while it is sent.
pub(super) struct Message {
    url: String,
    run: String,
    /// Another one for each pause; that of an end is the run.
    id: String,
    body: String,
}

impl Message {
    /// That a run has ended, with this report.
    pub(super) fn of_end(url: &str, run: &str, report: &str) -> Option<Self> {
        let body = body(run, report)?;
        Some(Message { url: url.to_owned(), run: run.to_owned(), id: run.to_owned(), body })
    }

    /// That a run waits for decisions about these calls.
    pub(super) fn of_pause(url: &str, run: &str, pending: &[PendingView]) -> Option<Self> {
        let body = paused_body(run, pending)?;
        Some(Message { url: url.to_owned(), run: run.to_owned(), id: paused_id(run, pending), body })
    }
}

impl Webhooks {
    /// Webhooks that are signed with this secret and go out through this fetcher.
    pub fn new(secret: &str, fetcher: Fetcher) -> Self {
        let decoded = secret.strip_prefix(SECRET_PREFIX).and_then(|text| BASE64_STANDARD.decode(text).ok());
        let key = decoded.unwrap_or_else(|| secret.as_bytes().to_vec());
        let secrets: SecretSource = std::sync::Arc::new(Vec::new);
        Webhooks {
            key: hmac::Key::new(hmac::HMAC_SHA256, &key),
            fetcher,
            of_pauses: None,
            secrets,
            deliveries: Deliveries::default(),
        }
    }

    /// The same, and this URL is told when a run waits that has none of its own.
    #[must_use]
    pub fn of_pauses(self, url: Option<String>) -> Self {
        Webhooks { of_pauses: url, ..self }
    }

    /// The same, with stand-ins for these values.
    #[must_use]
    pub fn without_secrets(self, secrets: SecretSource) -> Self {
        Webhooks { secrets, ..self }
    }

    /// Who is told that a run with this URL, or without one, waits for a person.
    pub(super) fn told_of_pause<'a>(&'a self, own: Option<&'a str>) -> Option<&'a str> {
        own.or(self.of_pauses.as_deref())
    }

    /// Sends a message; gives what the answer to a pause decides. Tries again where that fails.
    pub(super) async fn send(&self, message: Message) -> Vec<CallDecision> {
        let Message { run, id, .. } = &message;
        let (run, id) = (run.clone(), id.clone());
        let is_pause = run != id;
        let Some(answer) = self.deliver(message).await.filter(|_| is_pause) else { return Vec::new() };
        self.decisions_of(&id, &answer).unwrap_or_else(|error| {
            tracing::warn!(run, error, "the answer to the webhook of a run decides nothing");
            Vec::new()
        })
    }

    /// Counts a message about a run of this caller until what is returned is dropped. `None` where too many are being sent.
    pub(super) fn begin_delivery(&self, caller: &str) -> Option<Delivering> {
        self.deliveries.begin(caller)
    }

    /// The answer to a request, if one came.
    async fn deliver(&self, message: Message) -> Option<RawResponse> {
        let Message { url, run, id, body } = message;
        let url = Url::parse(&url).ok()?;
        let secrets = self.secrets.clone();
        let redacted = tokio::task::spawn_blocking(move || Redaction::new(secrets()).text(&body));
        // A text that could not be looked into is not sent.
        let body = redacted.await.ok()?;
        let mut delays = RETRY_DELAYS.iter();
        loop {
            match self.attempt(&url, &id, &body).await {
                Ok(answer) => return Some(answer),
                Err(error) => match delays.next() {
                    Some(delay) => tokio::time::sleep(*delay).await,
                    None => {
                        tracing::warn!(run, error, "the webhook of a run was not accepted");
                        return None;
                    }
                },
            }
        }
    }

    async fn attempt(&self, url: &Url, id: &str, body: &str) -> Result<RawResponse, String> {
        let timestamp = (super::unix_ms() / 1000).to_string();
        let headers = [
            ("content-type".to_owned(), "application/json".to_owned()),
            ("webhook-id".to_owned(), id.to_owned()),
            ("webhook-timestamp".to_owned(), timestamp.clone()),
            ("webhook-signature".to_owned(), self.signature(id, &timestamp, body)),
        ];
        let request = HttpRequest::from_parts("POST", url.clone(), &headers, Some(body.as_bytes().to_vec()));
        let request = request.map_err(|error| error.to_string())?;
        let sent = tokio::time::timeout(REQUEST_TIMEOUT, self.fetcher.send_once(request, process_budget())).await;
        let response = sent.map_err(|_| "no answer in time".to_owned())?.map_err(|error| error.to_string())?;
        if (200..300).contains(&response.status) { Ok(response) } else { Err(format!("status {}", response.status)) }
    }

    fn signature(&self, id: &str, timestamp: &str, body: &str) -> String {
        let signed = hmac::sign(&self.key, format!("{id}.{timestamp}.{body}").as_bytes());
        format!("v1,{}", BASE64_STANDARD.encode(signed.as_ref()))
    }

    /// What the answer to a request with this id decides: nothing if it is not signed.
    fn decisions_of(&self, id: &str, answer: &RawResponse) -> Result<Vec<CallDecision>, &'static str> {
        let header =
            |name: &str| answer.headers.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str());
        let Some(signatures) = header("webhook-signature") else { return Ok(Vec::new()) };
        let timestamp = header("webhook-timestamp").ok_or("it has no webhook-timestamp")?;
        let at: u64 = timestamp.parse().map_err(|_| "its webhook-timestamp is no number of seconds")?;
        if (super::unix_ms() / 1000).abs_diff(at) > MAX_SIGNATURE_AGE.as_secs() {
            return Err("its webhook-timestamp is more than five minutes from the time here");
        }
        let body = std::str::from_utf8(&answer.body).map_err(|_| "it is no UTF-8")?;
        let message = format!("{id}.{timestamp}.{body}");
        // A receiver whose secret is being changed sends several.
        let tags = signatures.split(' ').filter_map(|one| BASE64_STANDARD.decode(one.strip_prefix("v1,")?).ok());
        if !tags.into_iter().any(|tag| hmac::verify(&self.key, message.as_bytes(), &tag).is_ok()) {
            return Err(
                "its webhook-signature is not that of toolgate.runs.webhook_secret over webhook-id.webhook-timestamp.body",
            );
        }
        let decided: Decided =
            serde_json::from_str(body).map_err(|_| "it is not {\"decisions\": [{callId, decision, …}]}")?;
        Ok(decided.decisions)
    }
}

/// The answer of a receiver that decides.
#[derive(Deserialize)]
struct Decided {
    decisions: Vec<CallDecision>,
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
    fn only_a_signed_answer_of_now_decides() {
        let fetcher = Fetcher::new(Guard::new(AllowList::none()), HttpLimits::default());
        let webhooks = Webhooks::new("secret", fetcher);
        let body = r#"{"decisions":[{"callId":3,"decision":"approve"}]}"#;
        let now = super::super::unix_ms() / 1000;
        let answer = |id: &str, at: u64, body: &str| RawResponse {
            status: 200,
            headers: vec![
                ("webhook-timestamp".to_owned(), at.to_string()),
                ("webhook-signature".to_owned(), format!("v1,eA== {}", webhooks.signature(id, &at.to_string(), body))),
            ],
            body: body.as_bytes().to_vec(),
        };
        let decided = |answer: &RawResponse| webhooks.decisions_of("id", answer).map(|decisions| decisions.len());
        assert_eq!(decided(&answer("id", now, body)), Ok(1));
        assert_eq!(decided(&RawResponse { headers: Vec::new(), ..answer("id", now, body) }), Ok(0), "not signed");
        assert!(decided(&answer("another pause", now, body)).is_err());
        assert!(decided(&answer("id", now - 301, body)).is_err(), "an old one");
        assert!(decided(&answer("id", u64::MAX, body)).is_err(), "one of the future");
        let changed = RawResponse { body: body.replace('3', "4").into_bytes(), ..answer("id", now, body) };
        assert!(decided(&changed).is_err());
        for other in ["", "{}", "[]", "{\"decisions\":[{\"callId\":3}]}", "\u{feff}"] {
            assert!(decided(&answer("id", now, other)).is_err(), "{other}");
        }
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
