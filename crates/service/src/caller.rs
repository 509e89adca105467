//! Who asks: an API key, or someone on this machine; and what each may use and how often.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, header};
use ring::digest::{SHA256, digest};
use subtle::ConstantTimeEq;

use super::refusal::Refusal;
use toolgate_config::checked::Key;
use toolgate_config::values::{Glob, Rate};
use toolgate_wire::{Access, CallerScope};

/// Who asks. The door puts it into every request it lets through, as an extension.
#[derive(Debug, Clone)]
pub enum Caller {
    /// Someone on this machine, where the service has no keys.
    Local,
    /// The holder of a key.
    Key(Arc<Key>),
}

impl Caller {
    /// A name for logs, and for what the caller owns. No key can have the empty name.
    pub fn name(&self) -> &str {
        match self {
            Caller::Local => "",
            Caller::Key(key) => &key.name,
        }
    }

    /// What it may use. Without keys only this machine can come, and it may use everything, as over standard input.
    pub fn scope(&self) -> CallerScope {
        let access = |patterns: &Option<Vec<Glob>>| patterns.clone().map_or(Access::All, Access::Only);
        match self {
            Caller::Local => CallerScope::default(),
            Caller::Key(key) => CallerScope {
                name: key.name.clone(),
                fairness: Some(number_of(&key.name)),
                backends: access(&key.backends),
                functions: access(&key.functions),
            },
        }
    }
}

/// A number for a key: its holders share one turn in queues, however many connections they have.
fn number_of(name: &str) -> u64 {
    let digest = digest(&SHA256, name.as_bytes());
    digest.as_ref().iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// The keys there are.
#[derive(Debug, Default)]
pub(super) struct Keys(Vec<Arc<Key>>);

impl Keys {
    pub(super) fn new(keys: Vec<Key>) -> Self {
        Keys(keys.into_iter().map(Arc::new).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whose key a request carries. Every key is compared, in constant time, whichever fits.
    pub(super) fn holder(&self, headers: &HeaderMap) -> Result<Caller, Refusal> {
        if self.is_empty() {
            return Ok(Caller::Local);
        }
        let presented = digest(&SHA256, bearer(headers).unwrap_or_default().as_bytes());
        let mut holder = None;
        for key in &self.0 {
            if bool::from(key.hash.digest().as_slice().ct_eq(presented.as_ref())) {
                holder = Some(key.clone());
            }
        }
        holder.map(Caller::Key).ok_or(Refusal::Unauthorised)
    }

    /// The caller of that name, as long as it has a right to be here.
    pub(super) fn named(&self, name: &str) -> Option<Caller> {
        if self.is_empty() {
            return name.is_empty().then_some(Caller::Local);
        }
        self.0.iter().find(|key| key.name == name).cloned().map(Caller::Key)
    }
}

/// What follows `Bearer` in the one `Authorization` header.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(one), None) = (all.next(), all.next()) else { return None };
    let (scheme, token) = one.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// How much of its rate each key has left.
#[derive(Debug, Default)]
pub(super) struct Rates(Mutex<HashMap<String, Bucket>>);

#[derive(Debug, Clone, Copy)]
struct Bucket {
    rate: Rate,
    left: f64,
    at: Instant,
}

impl Rates {
    /// Takes one request from the key's rate.
    pub(super) fn take(&self, caller: &Caller, now: Instant) -> Result<(), Refusal> {
        let Caller::Key(key) = caller else { return Ok(()) };
        let Some(rate) = key.rate else { return Ok(()) };
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let full = Bucket { rate, left: f64::from(rate.count.get()), at: now };
        let bucket = match buckets.get_mut(&key.name) {
            // A rate that was changed starts afresh.
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
    fn a_rate_is_used_up_and_comes_back_by_and_by() {
        let start = Instant::now();
        let mut bucket = bucket("2/s", start);
        assert_eq!([bucket.take(start), bucket.take(start)], [Ok(()), Ok(())]);
        assert_eq!(bucket.take(start), Err(Duration::from_millis(500)));
        assert_eq!(bucket.take(start + Duration::from_millis(500)), Ok(()));
        assert!(bucket.take(start + Duration::from_millis(500)).is_err());
        let later = start + Duration::from_secs(60);
        assert_eq!([bucket.take(later), bucket.take(later)], [Ok(()), Ok(())]);
        assert!(bucket.take(later).is_err(), "what was not used is not saved up");
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
