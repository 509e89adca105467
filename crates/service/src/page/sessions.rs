//! Who is signed in to the page: sessions of browsers, and the one-time links that begin them.
//!
//! A session needs two secrets: a cookie, which scripts cannot read (`HttpOnly`) and other sites cannot make a browser send
//! (`SameSite=Strict`), and a token that the page sends as a header with every request. The token protects writes against
//! forged requests. It is asked for on reads too, since browsers send cookies to every port of a host: another server
//! on this machine that gets the cookie can do nothing with it.
//!
//! Sessions are in memory, bounded in number and time, and end when the key that they began with is removed or replaced. The
//! streams that a session has opened end with it.

use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderName, header};
use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::Caller;
use crate::refusal::Refusal;
use crate::rpc_sessions::{SessionStoreError, Token, TokenHash};
use crate::service::AdmissionRules;

/// The header with the token of a session.
pub(crate) const CSRF_HEADER: HeaderName = HeaderName::from_static("x-toolgate-csrf");
/// How long a session lasts.
pub(super) const SESSION_TIME: Duration = Duration::from_secs(12 * 3600);
/// How long a one-time link can be used.
pub(super) const LINK_TIME: Duration = Duration::from_secs(10 * 60);
/// Sessions of one caller; the oldest ends for one more.
const MAX_SESSIONS_PER_CALLER: usize = 16;
/// Sessions of all callers.
const MAX_SESSIONS: usize = 1_024;
/// Links of one caller; the oldest is forgotten for one more.
const MAX_LINKS_PER_CALLER: usize = 8;
/// Links of all callers.
const MAX_LINKS: usize = 512;

/// What a token of an issuer gets instead of a session or a link.
const TOKEN_SIGN_IN: Refusal = Refusal::NotPermitted(
    "a token of an issuer signs no browser in, since a session would outlive it: sign in with a key of the \
     configuration, or run `toolgate ui` on the machine of the service",
);

/// The sessions and links of one service.
#[derive(Default)]
pub(crate) struct PageSessions(Mutex<State>);

#[derive(Default)]
struct State {
    sessions: Vec<PageSession>,
    links: Vec<Link>,
}

struct PageSession {
    cookie: TokenHash,
    csrf: TokenHash,
    owner: Owner,
    expires: Instant,
    removed: CancellationToken,
    /// Cancels it whenever the session is removed, whatever for.
    _cancel: DropGuard,
}

/// The end of a session, for streams that it has opened.
#[derive(Debug, Clone)]
pub(crate) struct PageSessionEnd {
    removed: CancellationToken,
    expires: Instant,
}

impl PageSessionEnd {
    /// Waits until the session has ended.
    pub(crate) async fn wait(&self) {
        tokio::select! {
            () = self.removed.cancelled() => {}
            () = tokio::time::sleep_until(self.expires.into()) => {}
        }
    }
}

struct Link {
    token: TokenHash,
    owner: Owner,
    expires: Instant,
}

/// The caller that a session acts for: its name, and the hash of its key at that time.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Owner {
    name: String,
    key: Option<Vec<u8>>,
}

impl Owner {
    fn local() -> Self {
        Owner { name: String::new(), key: None }
    }

    /// # Errors
    /// If the caller came with a token of an issuer: a session would outlive it.
    fn of(caller: &Caller) -> Result<Self, Refusal> {
        match caller {
            Caller::Local => Ok(Owner::local()),
            Caller::Key(key) => {
                Ok(Owner { name: key.name.clone(), key: Some(key.hash.digest().as_slice().to_owned()) })
            }
            Caller::Token(_) => Err(TOKEN_SIGN_IN),
        }
    }

    /// The caller as the rules have it now; none if its key is gone or another one.
    fn now(&self, rules: &AdmissionRules) -> Option<Caller> {
        rules.keys.named(&self.name).filter(|caller| Owner::of(caller).as_ref() == Ok(self))
    }
}

/// The two secrets of a new session.
pub(super) struct NewSession {
    pub(super) cookie: Token,
    pub(super) csrf: Token,
}

impl PageSessions {
    /// Begins a session for a caller.
    ///
    /// # Errors
    /// If the caller came with a token of an issuer, or the system provides no random numbers.
    pub(super) fn begin(&self, caller: &Caller, now: Instant) -> Result<NewSession, Refusal> {
        let owner = Owner::of(caller)?;
        let new = NewSession { cookie: Token::random()?, csrf: Token::random()? };
        let removed = CancellationToken::new();
        let session = PageSession {
            cookie: TokenHash::of(new.cookie.reveal()),
            csrf: TokenHash::of(new.csrf.reveal()),
            owner,
            expires: now + SESSION_TIME,
            _cancel: removed.clone().drop_guard(),
            removed,
        };
        let sessions = &mut self.0.lock().sessions;
        sessions.retain(|session| session.expires > now);
        make_room(sessions, MAX_SESSIONS_PER_CALLER, MAX_SESSIONS, |known| known.owner.name == session.owner.name);
        sessions.push(session);
        Ok(new)
    }

    /// A link that begins one session for a caller; fails as [`begin`](Self::begin) does.
    pub(super) fn link(&self, caller: &Caller, now: Instant) -> Result<Token, Refusal> {
        Ok(self.link_of(Owner::of(caller)?, now)?)
    }

    /// A link for the user of this machine.
    pub(super) fn local_link(&self, now: Instant) -> Result<Token, SessionStoreError> {
        self.link_of(Owner::local(), now)
    }

    fn link_of(&self, owner: Owner, now: Instant) -> Result<Token, SessionStoreError> {
        let token = Token::random()?;
        let link = Link { token: TokenHash::of(token.reveal()), owner, expires: now + LINK_TIME };
        let links = &mut self.0.lock().links;
        links.retain(|link| link.expires > now);
        make_room(links, MAX_LINKS_PER_CALLER, MAX_LINKS, |known| known.owner.name == link.owner.name);
        links.push(link);
        Ok(token)
    }

    /// The caller of a link, which cannot be used again.
    pub(super) fn follow(&self, token: &str, rules: &AdmissionRules, now: Instant) -> Option<Caller> {
        let token = TokenHash::of(token);
        let mut state = self.0.lock();
        let at = state.links.iter().position(|link| link.token.matches(&token))?;
        let link = state.links.remove(at);
        (link.expires > now).then(|| link.owner.now(rules)).flatten()
    }

    /// The caller of a request with the cookie of a session; `None` without one.
    ///
    /// # Errors
    /// If the session is known and the request lacks its token.
    pub(crate) fn caller(
        &self,
        headers: &HeaderMap,
        rules: &AdmissionRules,
        now: Instant,
    ) -> Result<Option<Caller>, Refusal> {
        Ok(self.signed_in(headers, rules, now)?.map(|(caller, _)| caller))
    }

    /// The same with the end of the session.
    pub(crate) fn signed_in(
        &self,
        headers: &HeaderMap,
        rules: &AdmissionRules,
        now: Instant,
    ) -> Result<Option<(Caller, PageSessionEnd)>, Refusal> {
        // Browsers let a page of any origin open a WebSocket with cookies, and headers cannot be added to it.
        if headers.contains_key(header::UPGRADE) {
            return Ok(None);
        }
        let state = self.0.lock();
        let cookies = cookies(headers);
        let known = |session: &&PageSession| cookies.iter().any(|cookie| session.cookie.matches(cookie));
        let Some(session) = state.sessions.iter().find(known).filter(|session| session.expires > now) else {
            return Ok(None);
        };
        let Some(caller) = session.owner.now(rules) else { return Ok(None) };
        let presented = headers.get(CSRF_HEADER).and_then(|value| value.to_str().ok()).unwrap_or_default();
        match session.csrf.matches(&TokenHash::of(presented)) {
            true => {
                let end = PageSessionEnd { removed: session.removed.clone(), expires: session.expires };
                Ok(Some((caller, end)))
            }
            false => Err(Refusal::NoPageToken),
        }
    }

    /// Ends the session of a request that has its cookie and its token.
    pub(super) fn end(&self, headers: &HeaderMap) {
        let cookies = cookies(headers);
        self.0.lock().sessions.retain(|session| !cookies.iter().any(|cookie| session.cookie.matches(cookie)));
    }
}

/// Removes the oldest that match, and then the oldest of all, until there is room for one more.
fn make_room<T>(all: &mut Vec<T>, most_matching: usize, most: usize, matches: impl Fn(&T) -> bool) {
    while all.iter().filter(|it| matches(it)).count() >= most_matching {
        let Some(oldest) = all.iter().position(&matches) else { break };
        all.remove(oldest);
    }
    while all.len() >= most {
        all.remove(0);
    }
}

/// The most cookies of ours that a request may have: servers at other ports of this host have theirs.
const MAX_COOKIES: usize = 8;
/// The name of our cookie; the port of the service follows, so that two on one host do not replace each other's.
const COOKIE_NAME: &str = "toolgate-session-";

/// The hashes of the session cookies of a request.
fn cookies(headers: &HeaderMap) -> Vec<TokenHash> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = all.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let ours = pairs.filter(|(name, _)| name.starts_with(COOKIE_NAME));
    ours.take(MAX_COOKIES).map(|(_, value)| TokenHash::of(value)).collect()
}

/// The name of the cookie of a service that is addressed by this `Host`.
pub(super) fn cookie_name(headers: &HeaderMap) -> String {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let port = host.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok()).unwrap_or_default();
    format!("{COOKIE_NAME}{port}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolgate_config::checked::Http;
    use toolgate_config::values::HttpAuth;

    fn rules() -> AdmissionRules {
        AdmissionRules::new(Http { auth: HttpAuth::None, ..Http::default() }, None)
    }

    fn headers(pairs: &[(HeaderName, String)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), value.parse().expect("a value"))).collect()
    }

    fn check(sessions: &PageSessions, pairs: &[(HeaderName, String)], now: Instant, expected: &str) {
        let found = match sessions.caller(&headers(pairs), &rules(), now) {
            Ok(Some(_)) => "admitted",
            Ok(None) => "unknown",
            Err(_) => "no token",
        };
        assert_eq!(found, expected, "{pairs:?}");
    }

    #[test]
    fn a_session_needs_its_cookie_and_its_token() {
        let (sessions, now) = (PageSessions::default(), Instant::now());
        let new = sessions.begin(&Caller::Local, now).expect("a session");
        let cookie = (header::COOKIE, format!("a=b; toolgate-session-7878={}; c=d", new.cookie.reveal()));
        let csrf = (CSRF_HEADER, new.csrf.reveal().to_owned());
        check(&sessions, &[cookie.clone(), csrf.clone()], now, "admitted");
        check(&sessions, std::slice::from_ref(&cookie), now, "no token");
        check(&sessions, &[cookie.clone(), (CSRF_HEADER, new.cookie.reveal().to_owned())], now, "no token");
        check(&sessions, std::slice::from_ref(&csrf), now, "unknown");
        check(&sessions, &[(header::COOKIE, format!("other={}", new.cookie.reveal())), csrf.clone()], now, "unknown");
        check(&sessions, &[cookie.clone(), csrf.clone(), (header::UPGRADE, "websocket".into())], now, "unknown");
        check(&sessions, &[cookie.clone(), csrf.clone()], now + SESSION_TIME, "unknown");
        sessions.end(&headers(std::slice::from_ref(&cookie)));
        check(&sessions, &[cookie, csrf], now, "unknown");
    }

    #[test]
    fn a_link_signs_in_once_and_not_for_long() {
        let (sessions, now) = (PageSessions::default(), Instant::now());
        let link = sessions.link(&Caller::Local, now).expect("a link");
        assert!(sessions.follow("", &rules(), now).is_none());
        assert!(sessions.follow(link.reveal(), &rules(), now).is_some());
        assert!(sessions.follow(link.reveal(), &rules(), now).is_none(), "used twice");
        let link = sessions.link(&Caller::Local, now).expect("a link");
        assert!(sessions.follow(link.reveal(), &rules(), now + LINK_TIME).is_none(), "too late");
    }

    #[test]
    fn sessions_and_links_are_bounded() {
        let (sessions, now) = (PageSessions::default(), Instant::now());
        let first = sessions.begin(&Caller::Local, now).expect("a session");
        for _ in 0..100 {
            sessions.begin(&Caller::Local, now).expect("a session");
            sessions.link(&Caller::Local, now).expect("a link");
        }
        let state = sessions.0.lock();
        assert_eq!((state.sessions.len(), state.links.len()), (MAX_SESSIONS_PER_CALLER, MAX_LINKS_PER_CALLER));
        let gone = TokenHash::of(first.cookie.reveal());
        assert!(!state.sessions.iter().any(|session| session.cookie.matches(&gone)), "the oldest ends first");
    }

    #[test]
    fn two_services_on_one_host_have_cookies_of_their_own() {
        let name = |host: &str| cookie_name(&headers(&[(header::HOST, host.to_owned())]));
        assert_eq!(name("localhost:7878"), "toolgate-session-7878");
        assert_eq!(name("[::1]:81"), "toolgate-session-81");
        assert_eq!(name("tools.example"), "toolgate-session-0");
    }
}
