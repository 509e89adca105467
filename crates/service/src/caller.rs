//! The caller of a request: the holder of an API key, or a client on this machine; and the rate of each key.
//!
//! Keys are compared by SHA-256 in constant time. No key is written to a log.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, header};
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use subtle::ConstantTimeEq;

use super::refusal::Refusal;
use super::resource_server::TokenCaller;
use toolgate_config::checked::Key;
use toolgate_config::values::{KeyHash, MetricsAccess, Rate};
use toolgate_run::durable::scope_of_key;
use toolgate_wire::CallerScope;

/// The caller of a request; admission adds it to every request as an extension.
#[derive(Debug, Clone)]
pub enum Caller {
    /// A client of this user on this machine, where the service has no keys.
    Local,
    /// The holder of a key.
    Key(Arc<Key>),
    /// The holder of a token of the configured issuer.
    Token(Arc<TokenCaller>),
}

impl Caller {
    /// The name of the key, which owns sessions; empty for a local caller. No key has an empty name.
    pub fn name(&self) -> &str {
        match self {
            Caller::Local => "",
            Caller::Key(key) => &key.name,
            Caller::Token(token) => &token.name,
        }
    }

    /// What the caller may use. A local caller may use everything, as over standard input.
    pub fn scope(&self) -> CallerScope {
        match self {
            Caller::Local => CallerScope::default(),
            Caller::Key(key) => scope_of_key(key),
            Caller::Token(token) => token.scope.clone(),
        }
    }
}

/// The configured keys.
#[derive(Debug, Default)]
pub(super) struct Keys(Vec<Arc<Key>>);

impl Keys {
    pub(super) fn new(keys: Vec<Key>) -> Self {
        Keys(keys.into_iter().map(Arc::new).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The holder of a key. All keys are compared, in constant time, even after a match.
    pub(super) fn holder(&self, presented: &str) -> Option<Caller> {
        let presented = digest(&SHA256, presented.as_bytes());
        let mut holder = None;
        for key in &self.0 {
            if is_key(&key.hash, presented.as_ref()) {
                holder = Some(key.clone());
            }
        }
        holder.map(Caller::Key)
    }

    /// The caller of that name, if its key still exists.
    pub(super) fn named(&self, name: &str) -> Option<Caller> {
        if self.is_empty() {
            return name.is_empty().then_some(Caller::Local);
        }
        self.0.iter().find(|key| key.name == name).cloned().map(Caller::Key)
    }
}

/// Who may read the metrics.
#[derive(Debug)]
pub(super) struct MetricsRules {
    pub(super) access: MetricsAccess,
    key: Option<KeyHash>,
}

impl Default for MetricsRules {
    fn default() -> Self {
        MetricsRules::new(MetricsAccess::Callers, None)
    }
}

impl MetricsRules {
    pub(super) fn new(access: MetricsAccess, key: Option<KeyHash>) -> Self {
        MetricsRules { access, key }
    }

    /// Whether there is a key for metrics.
    pub(super) fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// Whether this is the key for metrics.
    pub(super) fn opens(&self, presented: &str) -> bool {
        self.key.as_ref().is_some_and(|key| is_key(key, digest(&SHA256, presented.as_bytes()).as_ref()))
    }
}

/// Who reads the metrics; admission adds it to the request as an extension.
#[derive(Debug, Clone)]
pub(super) enum MetricsReader {
    /// A caller of the service.
    Caller(Caller),
    /// The holder of the key for metrics.
    Key,
    /// Where metrics are open.
    Anyone,
}

/// Whether the digest is that of the key, in constant time.
fn is_key(key: &KeyHash, presented: &[u8]) -> bool {
    key.digest().as_slice().ct_eq(presented).into()
}

/// The bearer token, if there is exactly one `Authorization` header.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(one), None) = (all.next(), all.next()) else { return None };
    let (scheme, token) = one.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The token bucket of each key with a rate.
#[derive(Debug, Default)]
pub(super) struct Rates(Mutex<HashMap<String, Bucket>>);

#[derive(Debug, Clone, Copy)]
struct Bucket {
    rate: Rate,
    left: f64,
    at: Instant,
}

impl Rates {
    /// Takes one token from the key's bucket.
    pub(super) fn take(&self, caller: &Caller, now: Instant) -> Result<(), Refusal> {
        let Caller::Key(key) = caller else { return Ok(()) };
        let Some(rate) = key.rate else { return Ok(()) };
        let mut buckets = self.0.lock();
        let full = Bucket { rate, left: f64::from(rate.count.get()), at: now };
        let bucket = match buckets.get_mut(&key.name) {
            // A changed rate starts with a full bucket.
            Some(bucket) if bucket.rate == rate => bucket,
            _ => buckets.entry(key.name.clone()).insert_entry(full).into_mut(),
        };
        bucket.take(now).map_err(|retry_after| Refusal::RateLimited { retry_after })
    }
}

impl Bucket {
    fn take(&mut self, now: Instant) -> Result<(), Duration> {
        let most = f64::from(self.rate.count.get());
        let each = self.rate.per.as_secs_f64() / most;
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + since / each).min(most);
        self.at = now;
        if self.left >= 1.0 {
            self.left -= 1.0;
            return Ok(());
        }
        Err(Duration::from_secs_f64((1.0 - self.left) * each))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolgate_config::values::Setting;

    fn bucket(rate: &str, now: Instant) -> Bucket {
        let rate = Rate::parse(rate).expect("a rate");
        Bucket { rate, left: f64::from(rate.count.get()), at: now }
    }

    #[test]
    fn a_bucket_empties_and_refills_over_time() {
        let start = Instant::now();
        let mut bucket = bucket("2/s", start);
        assert_eq!([bucket.take(start), bucket.take(start)], [Ok(()), Ok(())]);
        assert_eq!(bucket.take(start), Err(Duration::from_millis(500)));
        assert_eq!(bucket.take(start + Duration::from_millis(500)), Ok(()));
        assert!(bucket.take(start + Duration::from_millis(500)).is_err());
        let later = start + Duration::from_secs(60);
        assert_eq!([bucket.take(later), bucket.take(later)], [Ok(()), Ok(())]);
        assert!(bucket.take(later).is_err(), "a bucket never holds more than the rate");
    }

    fn check_bearer(values: &[&str], expected: Option<&str>) {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, value.parse().expect("a header"));
        }
        assert_eq!(bearer(&headers), expected, "{values:?}");
    }

    #[test]
    fn one_bearer_token_is_one_and_two_are_none() {
        check_bearer(&["Bearer abc"], Some("abc"));
        check_bearer(&["bearer abc"], Some("abc"));
        check_bearer(&["Basic abc"], None);
        check_bearer(&["Bearer"], None);
        check_bearer(&["Bearer a", "Bearer b"], None);
        check_bearer(&[], None);
    }
}
