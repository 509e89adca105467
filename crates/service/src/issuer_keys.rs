//! The public keys of the issuer whose tokens callers present.
//!
//! Keys are fetched when they are first needed, kept, and fetched again when they are old or a token names another one, at
//! most once in a while: a token with an invented key id costs no request. A key that is known is used at once, and old ones
//! are replaced in the background: an issuer that is away or stalls delays no caller whose key is known. Only after an hour
//! without newer keys does a caller wait for a fetch, so that a withdrawn key is not used after a long idle time. Every fetch
//! has a time limit.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jsonwebtoken::DecodingKey;
use jsonwebtoken::jwk::{AlgorithmParameters, JwkSet, PublicKeyUse};
use parking_lot::RwLock;
use serde_json::Value;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::task::JoinHandle;
use toolgate_config::checked::HttpOAuth;
use toolgate_functions::http::{AllowList, Fetcher, Guard, HttpLimits, HttpRequest};
use toolgate_mcp::process_budget;
use url::Url;

use super::resource_server::TokenRefusal;

/// The largest document of an issuer.
const MAX_DOCUMENT_BYTES: usize = 512 << 10;
/// The most keys of an issuer.
const MAX_KEYS: usize = 100;
/// Keys that are older than this many of their lives are used only after an attempt to fetch newer ones.
const MAX_LIVES: u32 = 6;
/// Younger keys are always used at once.
const MIN_STALE: Duration = Duration::from_secs(60);

/// How long keys are used, and how they are fetched.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyTimes {
    /// How long keys are used before they are fetched again.
    pub(super) life: Duration,
    /// The least time between two fetches.
    pub(super) interval: Duration,
    /// How long a fetch may take as a whole.
    pub(super) timeout: Duration,
}

impl Default for KeyTimes {
    fn default() -> Self {
        Self { life: Duration::from_secs(600), interval: Duration::from_secs(15), timeout: Duration::from_secs(10) }
    }
}

/// Keeps the keys of an issuer.
pub(super) struct IssuerKeys {
    issuer: String,
    /// Where the keys are, if the configuration tells.
    location: Option<Url>,
    times: KeyTimes,
    fetcher: Fetcher,
    keys: RwLock<Keyset>,
    /// When the last fetch ended. Held while keys are fetched.
    fetching: Arc<Mutex<Option<Instant>>>,
}

/// The keys of one fetch.
#[derive(Default)]
struct Keyset {
    by_id: HashMap<String, Arc<DecodingKey>>,
    /// The key of an issuer that has one and gives it no id.
    only: Option<Arc<DecodingKey>>,
    fetched: Option<Instant>,
}

impl IssuerKeys {
    /// Of the issuer of a configuration. Nothing is fetched yet.
    pub(super) fn new(settings: &HttpOAuth, times: KeyTimes) -> Self {
        let location = settings.jwks.as_ref().map(|url| url.url().clone());
        // The user configured the issuer, at whichever address.
        let hosts = [Url::parse(&settings.issuer).ok(), location.clone()];
        let hosts: Vec<String> = hosts.iter().flatten().filter_map(|url| url.host_str().map(plain_host)).collect();
        let guard = Guard::new(AllowList::parse(&hosts).unwrap_or_default());
        let limits = HttpLimits { response_body: MAX_DOCUMENT_BYTES, ..HttpLimits::default() };
        let (keys, fetching) = (RwLock::default(), Arc::default());
        Self { issuer: settings.issuer.clone(), location, times, fetcher: Fetcher::new(guard, limits), keys, fetching }
    }

    /// The key of that id. One that is not known is waited for, until a fetch ends.
    pub(super) async fn key(self: &Arc<Self>, id: Option<&str>) -> Result<Arc<DecodingKey>, TokenRefusal> {
        let longest = self.times.life.saturating_mul(MAX_LIVES).max(MIN_STALE);
        if let Some(key) = self.known(id).filter(|_| self.is_younger(longest)) {
            self.replace_old_keys();
            return Ok(key);
        }
        let last = Arc::clone(&self.fetching).lock_owned().await;
        // Another request may have fetched it meanwhile.
        let is_known = self.known(id).is_some() && self.is_younger(longest);
        if !is_known && let Some(fetch) = self.begin_fetch(last) {
            let _ = fetch.await;
        }
        self.known(id).ok_or_else(|| match self.keys.read().fetched {
            None => TokenRefusal::NoKeys,
            Some(_) => TokenRefusal::Invalid,
        })
    }

    fn is_younger(&self, age: Duration) -> bool {
        self.keys.read().fetched.is_some_and(|at| at.elapsed() < age)
    }

    fn known(&self, id: Option<&str>) -> Option<Arc<DecodingKey>> {
        let keys = self.keys.read();
        let key = match id {
            Some(id) => keys.by_id.get(id).or(keys.only.as_ref().filter(|_| keys.by_id.is_empty())),
            None => keys.only.as_ref(),
        };
        key.cloned()
    }

    /// Fetches keys that are old in the background, unless that is under way.
    fn replace_old_keys(self: &Arc<Self>) {
        if self.is_younger(self.times.life) {
            return;
        }
        if let Ok(last) = Arc::clone(&self.fetching).try_lock_owned() {
            drop(self.begin_fetch(last));
        }
    }

    /// Fetches keys, unless that was tried a moment ago. In a task of its own: a caller that hangs up does not end it, so it
    /// cannot have one begun after the other.
    fn begin_fetch(self: &Arc<Self>, mut last: OwnedMutexGuard<Option<Instant>>) -> Option<JoinHandle<()>> {
        if last.is_some_and(|at| at.elapsed() < self.times.interval) {
            return None;
        }
        let this = Arc::clone(self);
        Some(tokio::spawn(async move {
            this.fetch_in_time().await;
            *last = Some(Instant::now());
        }))
    }

    async fn fetch_in_time(&self) {
        let fetched = tokio::time::timeout(self.times.timeout, self.fetch()).await;
        match fetched.unwrap_or_else(|_| Err(format!("it did not answer within {} s", self.times.timeout.as_secs()))) {
            Ok(keys) => *self.keys.write() = keys,
            // Old keys are better than none: the issuer may be away for a while.
            Err(reason) => tracing::warn!(issuer = self.issuer, reason, "the keys of the issuer can't be fetched"),
        }
    }

    async fn fetch(&self) -> Result<Keyset, String> {
        let url = match &self.location {
            Some(url) => url.clone(),
            None => self.discover().await?,
        };
        let set: JwkSet = serde_json::from_value(self.document(url).await?).map_err(|error| error.to_string())?;
        Ok(Keyset::of(&set))
    }

    /// Where the issuer's metadata says that its keys are.
    async fn discover(&self) -> Result<Url, String> {
        let issuer = Url::parse(&self.issuer).map_err(|error| error.to_string())?;
        let path = issuer.path().trim_matches('/').to_owned();
        let mut reason = String::new();
        for place in ["oauth-authorization-server", "openid-configuration", "openid-configuration after"] {
            let mut url = issuer.clone();
            url.set_path(&match place.strip_suffix(" after") {
                _ if path.is_empty() => format!("/.well-known/{}", place.trim_end_matches(" after")),
                Some(name) => format!("/{path}/.well-known/{name}"),
                None => format!("/.well-known/{place}/{path}"),
            });
            match self.document(url).await {
                Ok(found) if found.get("issuer").and_then(Value::as_str) != Some(&self.issuer) => {
                    reason = "its metadata names another issuer".to_owned();
                }
                Ok(found) => {
                    let keys = found.get("jwks_uri").and_then(Value::as_str).ok_or("its metadata has no jwks_uri")?;
                    return Url::parse(keys).map_err(|error| error.to_string());
                }
                Err(error) => reason = error,
            }
        }
        Err(reason)
    }

    async fn document(&self, url: Url) -> Result<Value, String> {
        let is_local = url.host_str().is_some_and(|host| matches!(host, "localhost" | "127.0.0.1" | "[::1]"));
        if url.scheme() != "https" && !is_local {
            return Err("its URL is not HTTPS".to_owned());
        }
        let request = HttpRequest::from_parts("GET", url, &[], None).map_err(|error| error.to_string())?;
        let answer = self.fetcher.send_once(request, process_budget()).await.map_err(|error| error.to_string())?;
        if answer.status != 200 {
            return Err(format!("it answered {}", answer.status));
        }
        serde_json::from_slice(&answer.body).map_err(|error| error.to_string())
    }
}

impl Keyset {
    /// The public keys of a document with which tokens are signed.
    fn of(set: &JwkSet) -> Self {
        let mut keys = Self { fetched: Some(Instant::now()), ..Self::default() };
        let mut anonymous = Vec::new();
        for jwk in set.keys.iter().take(MAX_KEYS) {
            let signs = jwk.common.public_key_use.as_ref().is_none_or(|it| *it == PublicKeyUse::Signature);
            // A shared secret in a public document is none.
            let is_public = !matches!(jwk.algorithm, AlgorithmParameters::OctetKey(_));
            let Some(key) = DecodingKey::from_jwk(jwk).ok().filter(|_| signs && is_public) else { continue };
            match &jwk.common.key_id {
                Some(id) => drop(keys.by_id.insert(id.clone(), Arc::new(key))),
                None => anonymous.push(Arc::new(key)),
            }
        }
        keys.only = match (anonymous.as_slice(), keys.by_id.len()) {
            ([one], 0) => Some(Arc::clone(one)),
            ([], 1) => keys.by_id.values().next().cloned(),
            _ => None,
        };
        keys
    }
}

/// A host as an entry of an allow list: an IPv6 address without its brackets.
fn plain_host(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches(']').to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::Router;
    use axum::routing::get;
    use serde_json::json;
    use toolgate_config::values::{Endpoint, Setting};

    use super::*;

    /// Far more than anything here takes on a loaded machine.
    const WAIT_TIMEOUT: Duration = Duration::from_secs(120);

    /// An issuer that answers so many fetches and stalls after them.
    struct Issuer {
        settings: HttpOAuth,
        fetches: Arc<AtomicUsize>,
    }

    impl Issuer {
        async fn start(answers: usize) -> Self {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let origin = format!("http://{}", listener.local_addr().unwrap());
            let key = json!({ "kty": "OKP", "crv": "Ed25519", "kid": "one", "x": "A".repeat(43) });
            let fetches = Arc::<AtomicUsize>::default();
            let counted = Arc::clone(&fetches);
            let answer = async move || {
                if counted.fetch_add(1, Ordering::SeqCst) >= answers {
                    std::future::pending::<()>().await;
                }
                axum::Json(json!({ "keys": [key] }))
            };
            let router = Router::new().route("/keys", get(answer));
            tokio::spawn(async move { axum::serve(listener, router).await });
            let jwks = Endpoint::parse(&format!("{origin}/keys")).ok();
            let audience = "https://tools.example".to_owned();
            Self { settings: HttpOAuth { issuer: origin, audience, jwks, scopes: Default::default() }, fetches }
        }

        fn keys(&self, times: KeyTimes) -> Arc<IssuerKeys> {
            Arc::new(IssuerKeys::new(&self.settings, times))
        }

        async fn fetched(&self, times: usize) {
            while self.fetches.load(Ordering::SeqCst) < times {
                tokio::task::yield_now().await;
            }
        }
    }

    async fn key(keys: &Arc<IssuerKeys>, id: &str) -> Result<(), TokenRefusal> {
        tokio::time::timeout(WAIT_TIMEOUT, keys.key(Some(id))).await.expect("it waits for the issuer").map(drop)
    }

    #[tokio::test]
    async fn an_issuer_that_stalls_delays_no_caller_whose_key_is_known() {
        let issuer = Issuer::start(1).await;
        // Keys are old as soon as they are there, and a fetch ends long after this test.
        let times = KeyTimes { life: Duration::ZERO, interval: Duration::ZERO, timeout: WAIT_TIMEOUT * 10 };
        let keys = issuer.keys(times);
        assert_eq!(key(&keys, "one").await, Ok(()));
        for _ in 0..3 {
            assert_eq!(key(&keys, "one").await, Ok(()));
            // The fetch that stalls is under way, and no other one is begun beside it.
            tokio::time::timeout(WAIT_TIMEOUT, issuer.fetched(2)).await.expect("old keys are fetched again");
        }
        assert_eq!(issuer.fetches.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn a_fetch_that_stalls_is_given_up_and_not_begun_again_at_once() {
        let issuer = Issuer::start(0).await;
        let times = KeyTimes { timeout: Duration::from_millis(50), interval: WAIT_TIMEOUT * 10, ..KeyTimes::default() };
        let keys = issuer.keys(times);
        for _ in 0..3 {
            assert_eq!(key(&keys, "one").await, Err(TokenRefusal::NoKeys));
        }
        assert!(issuer.fetches.load(Ordering::SeqCst) <= 1);
    }

    #[tokio::test]
    async fn a_caller_that_hangs_up_does_not_end_a_fetch() {
        let issuer = Issuer::start(0).await;
        let keys = issuer.keys(KeyTimes { timeout: WAIT_TIMEOUT * 10, ..KeyTimes::default() });
        let caller = tokio::spawn({
            let keys = Arc::clone(&keys);
            async move { keys.key(Some("one")).await.map(drop) }
        });
        tokio::time::timeout(WAIT_TIMEOUT, issuer.fetched(1)).await.expect("keys are fetched");
        caller.abort();
        let _ = caller.await;
        assert!(keys.fetching.try_lock().is_err());
    }
}
