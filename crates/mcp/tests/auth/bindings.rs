//! What a login is bound to: the issuer of its client, the client that the issuer knows, and the one process that changes it
//! at a time.

use std::sync::Arc;
use std::time::Duration;

use toolgate_mcp::client::LinkError;
use toolgate_mcp::client::auth::{
    AuthError, AuthSettings, Authorizer, Grant, LoginStatus, MemoryTokenStore, TokenStore,
};
use toolgate_secrets::{Preference, SecretStore};

use crate::fake::{Behaviour, Fake, Fault};
use crate::{REDIRECT, authorizer, call, finish, log_in, login_required, open, preregistered, settings};

/// How long a task that must not end yet is given to end.
const MOMENT: Duration = Duration::from_millis(300);

fn with_secret(grant: Grant) -> AuthSettings {
    let logout_command = "toolgate logout fake".to_owned();
    AuthSettings { grant, client: preregistered(Some("canary-client-secret")), logout_command, ..settings() }
}

fn other_issuer(expected: &Fake, found: &Fake) -> AuthError {
    let logout = "toolgate logout fake".to_owned();
    AuthError::OtherIssuer { expected: expected.origin.clone(), found: found.origin.clone(), logout }
}

/// The server has its protected resource metadata name another issuer, and refuses its tokens.
fn move_to(server: &Fake, issuer: &Fake) {
    server.behaviour.lock().unwrap().other_issuer = Some(issuer.origin.clone());
    server.revoke_access();
}

fn token_requests(fake: &Fake) -> usize {
    fake.seen.lock().unwrap().token_arrivals
}

#[tokio::test]
async fn a_secret_is_not_sent_to_another_issuer_that_the_server_names() {
    for grant in [Grant::ClientCredentials, Grant::AuthorizationCode] {
        let (server, evil) = (Fake::start(Behaviour::default()).await, Fake::start(Behaviour::default()).await);
        let store = Arc::new(MemoryTokenStore::default());
        let process = || Arc::new(Authorizer::new(&server.url(), with_secret(grant), Arc::clone(&store)).unwrap());
        let one = process();
        if grant == Grant::AuthorizationCode {
            log_in(&one).await.unwrap();
        }
        let session = open(&server, &one).await.unwrap();
        assert!(call(&session, "read").await.unwrap().contains("done"));
        let before = token_requests(&server);
        move_to(&server, &evil);
        let refused = LinkError::Auth(other_issuer(&server, &evil));
        assert_eq!(call(&session, "read").await, Err(refused.clone()), "{grant:?}");
        // Nor by another process, by a login of a person, or after the tokens are gone.
        assert_eq!(open(&server, &process()).await.map(drop), Err(refused.clone()), "{grant:?}");
        assert_eq!(one.begin_login(REDIRECT, &[]).await.map(drop), Err(other_issuer(&server, &evil)), "{grant:?}");
        let mut login = store.load("fake").unwrap().unwrap();
        login.tokens = None;
        store.save("fake", &login).unwrap();
        assert_eq!(open(&server, &process()).await.map(drop), Err(refused), "{grant:?}");
        assert_eq!((token_requests(&evil), token_requests(&server)), (0, before), "{grant:?}");
        // What the message names helps.
        one.log_out().await.unwrap();
        assert_eq!(one.begin_login(REDIRECT, &[]).await.unwrap().issuer(), evil.origin, "{grant:?}");
    }
}

#[tokio::test]
async fn a_client_belongs_to_an_issuer_before_that_has_its_secret() {
    let (server, evil) = (Fake::start(Behaviour::default()).await, Fake::start(Behaviour::default()).await);
    server.behaviour.lock().unwrap().fault = Fault::RedirectedToken;
    let store = Arc::new(MemoryTokenStore::default());
    let client = Arc::new(Authorizer::new(&server.url(), with_secret(Grant::ClientCredentials), store).unwrap());
    assert!(matches!(client.log_in_without_person().await, Err(AuthError::Unreachable { .. })));
    assert_eq!((token_requests(&server), client.status().await), (1, Ok(LoginStatus::LoggedOut)));
    move_to(&server, &evil);
    assert_eq!(client.log_in_without_person().await, Err(other_issuer(&server, &evil)));
    assert_eq!(token_requests(&evil), 0);
}

#[tokio::test]
async fn the_configured_issuer_holds_from_the_first_login_on() {
    for grant in [Grant::ClientCredentials, Grant::AuthorizationCode] {
        let (server, evil) = (Fake::start(Behaviour::default()).await, Fake::start(Behaviour::default()).await);
        let settings = AuthSettings { issuer: Some(format!("{}/", server.origin)), ..with_secret(grant) };
        let store = Arc::new(MemoryTokenStore::default());
        let client = Arc::new(Authorizer::new(&server.url(), settings, store).unwrap());
        move_to(&server, &evil);
        let Err(LinkError::Auth(AuthError::OtherIssuer { found, .. })) = open(&server, &client).await.map(drop) else {
            panic!("{grant:?}")
        };
        assert_eq!((found, token_requests(&evil)), (evil.origin.clone(), 0));
        server.behaviour.lock().unwrap().other_issuer = None;
        if grant == Grant::AuthorizationCode {
            log_in(&client).await.unwrap();
        }
        assert!(call(&open(&server, &client).await.unwrap(), "read").await.unwrap().contains("done"));
    }
}

#[tokio::test]
async fn an_issuer_that_is_away_is_not_asked_by_every_request_while_the_token_is_valid() {
    let (fake, store) = (Fake::start(Behaviour::default()).await, Arc::new(MemoryTokenStore::default()));
    let authorizer = Authorizer::new(&fake.url(), settings(), Arc::clone(&store)).unwrap();
    log_in(&authorizer).await.unwrap();
    // To be refreshed for the last minute, which has just begun.
    let mut login = store.load("fake").unwrap().unwrap();
    let tokens = login.tokens.as_mut().unwrap();
    (tokens.issued_at, tokens.expires_at) = (0, Some(soon()));
    store.save("fake", &login).unwrap();
    fake.behaviour.lock().unwrap().fault = Fault::RedirectedToken;
    let before = token_requests(&fake);
    for _ in 0..4 {
        assert!(authorizer.access_token().await.unwrap().is_some());
    }
    assert_eq!(token_requests(&fake), before + 1);
    // Once it has expired, nothing but a new one helps.
    login.tokens.as_mut().unwrap().expires_at = Some(1);
    store.save("fake", &login).unwrap();
    assert!(authorizer.access_token().await.unwrap().is_some());
    assert_eq!(token_requests(&fake), before + 2);
}

/// In less than a minute, in seconds since 1970.
fn soon() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    now + 55
}

/// Two processes with one store, of which the first one refreshes its token and waits for the issuer.
async fn during_a_refresh() -> (Arc<Fake>, Arc<Authorizer>, tokio::task::JoinHandle<()>, tempfile::TempDir) {
    let (fake, folder) = (Fake::start(Behaviour { life: 0, ..Default::default() }).await, tempfile::tempdir().unwrap());
    let process = || {
        let store = Arc::new(SecretStore::new(folder.path(), "toolgate test", Preference::File));
        Arc::new(Authorizer::new(&fake.url(), settings(), store).unwrap())
    };
    let (one, other) = (process(), process());
    log_in(&one).await.unwrap();
    let behaviour = Behaviour { fault: Fault::HeldRefresh, ..Default::default() };
    *fake.behaviour.lock().unwrap() = behaviour;
    let refresh = tokio::spawn(async move { drop(one.access_token().await.unwrap()) });
    fake.refresh_came.notified().await;
    (fake, other, refresh, folder)
}

#[tokio::test]
async fn a_logout_during_a_refresh_of_another_process_counts() {
    let (fake, other, refresh, _folder) = during_a_refresh().await;
    let mut logout = tokio::spawn({
        let other = Arc::clone(&other);
        async move { other.log_out().await }
    });
    // It waits for the refresh: otherwise it ends here, and the refresh keeps its tokens afterwards.
    let early = tokio::time::timeout(MOMENT, &mut logout).await;
    assert!(early.is_err(), "{early:?}");
    fake.refresh_permits.add_permits(1);
    refresh.await.unwrap();
    logout.await.unwrap().unwrap();
    assert_eq!(other.status().await, Ok(LoginStatus::LoggedOut));
}

#[tokio::test]
async fn a_login_during_a_refresh_of_another_process_counts() {
    let (fake, other, refresh, _folder) = during_a_refresh().await;
    let pending = other.begin_login(REDIRECT, &["write".to_owned()]).await.unwrap();
    let mut login = tokio::spawn({
        let other = Arc::clone(&other);
        async move { finish(&other, pending).await }
    });
    let early = tokio::time::timeout(MOMENT, &mut login).await;
    assert!(early.is_err(), "{early:?}");
    fake.refresh_permits.add_permits(1);
    refresh.await.unwrap();
    login.await.unwrap().unwrap();
    let status = other.status().await.unwrap();
    assert!(matches!(&status, LoginStatus::LoggedIn { scopes, .. } if scopes == &["read", "write"]), "{status:?}");
}

#[tokio::test]
async fn a_client_that_its_issuer_forgot_is_registered_anew() {
    let (fake, authorizer) = authorizer(Behaviour::default(), settings()).await;
    let registrations = || fake.seen.lock().unwrap().registrations.len();
    let forget = |forgets: bool| {
        fake.behaviour.lock().unwrap().fault = if forgets { Fault::ForgottenClients } else { Fault::None };
    };
    log_in(&authorizer).await.unwrap();
    let session = open(&fake, &authorizer).await.unwrap();
    // It is noticed by a refresh.
    forget(true);
    fake.revoke_access();
    assert_eq!(call(&session, "read").await, Err(login_required(&["read"])));
    forget(false);
    log_in(&authorizer).await.unwrap();
    assert_eq!(registrations(), 2);
    // It is noticed by the exchange of a code.
    forget(true);
    let refused = log_in(&authorizer).await;
    assert!(matches!(&refused, Err(AuthError::Refused { code, .. }) if code == "invalid_client"), "{refused:?}");
    assert_eq!((registrations(), authorizer.status().await), (2, Ok(LoginStatus::LoggedOut)));
    forget(false);
    log_in(&authorizer).await.unwrap();
    assert_eq!(registrations(), 3);
    assert!(call(&session, "read").await.unwrap().contains("done"));
}

#[tokio::test]
async fn the_issuer_of_a_registered_client_is_kept_when_it_is_refused() {
    let (fake, store) = (Fake::start(Behaviour::default()).await, Arc::new(MemoryTokenStore::default()));
    let settings = with_secret(Grant::AuthorizationCode);
    let authorizer = Arc::new(Authorizer::new(&fake.url(), settings, Arc::clone(&store)).unwrap());
    log_in(&authorizer).await.unwrap();
    let session = open(&fake, &authorizer).await.unwrap();
    fake.behaviour.lock().unwrap().fault = Fault::ForgottenClients;
    fake.revoke_access();
    assert_eq!(call(&session, "read").await, Err(login_required(&["read"])));
    assert!(log_in(&authorizer).await.is_err());
    let kept = store.load("fake").unwrap().unwrap();
    assert_eq!((kept.issuer, kept.tokens), (fake.origin.clone(), None));
}

#[test]
fn a_login_that_is_not_finished_names_what_forgets_its_client() {
    let settings = AuthSettings { logout_command: "toolgate logout 'a b'".to_owned(), ..settings() };
    let store = Arc::new(MemoryTokenStore::default());
    let authorizer = Authorizer::new("http://127.0.0.1:1/mcp", settings, store).unwrap();
    let told = authorizer.timed_out(Duration::from_secs(5)).to_string();
    assert_eq!(
        told,
        "the login was not finished within 5 s; if its page refused the client, run `toolgate logout 'a b'` and log in again"
    );
}

/// A token that was issued a moment ago and is refused: another login would be refused as well, whether it is refreshed or not.
#[tokio::test]
async fn a_new_token_that_the_server_refuses_is_told_with_its_reason() {
    for refreshes in [true, false] {
        let behaviour = Behaviour { refreshes, ..Default::default() };
        let settings = AuthSettings { logout_command: "toolgate logout fake".to_owned(), ..settings() };
        let (fake, authorizer) = authorizer(behaviour, settings).await;
        log_in(&authorizer).await.unwrap();
        fake.behaviour.lock().unwrap().fault = Fault::RefusedTokens;
        let refused = open(&fake, &authorizer).await.map(drop);
        let expected = AuthError::TokenRefused {
            issuer: fake.origin.clone(),
            resource: Some(fake.url()),
            description: Some("the audience is another".to_owned()),
            logout: "toolgate logout fake".to_owned(),
        };
        assert_eq!(refused, Err(LinkError::Auth(expected)), "refreshes: {refreshes}");
    }
}

/// Issuers lock the account of a client after some wrong secrets.
#[tokio::test]
async fn a_client_that_was_refused_asks_for_no_token_again_before_it_is_told_to() {
    let settings = AuthSettings { setting: "auth".to_owned(), ..with_secret(Grant::ClientCredentials) };
    let (fake, authorizer) = authorizer(Behaviour::default(), settings).await;
    let behave = |fault: Fault| fake.behaviour.lock().unwrap().fault = fault;
    let arrivals = || fake.seen.lock().unwrap().token_arrivals;
    behave(Fault::ForgottenClients);
    for _ in 0..3 {
        let refused = open(&fake, &authorizer).await.map(drop).unwrap_err().to_string();
        assert!(refused.contains("invalid_client; check `auth.clientId` and `auth.clientSecret`"), "{refused}");
        assert_eq!(arrivals(), 1);
    }
    // A login that a person asks for is a try of its own.
    assert!(authorizer.log_in_without_person().await.is_err());
    assert_eq!(arrivals(), 2);
    behave(Fault::None);
    authorizer.log_in_without_person().await.unwrap();
    assert!(open(&fake, &authorizer).await.is_ok());
    // What the issuer itself fails at is tried again.
    behave(Fault::BrokenToken);
    authorizer.log_out().await.unwrap();
    let before = arrivals();
    for tries in 1..=2 {
        assert!(open(&fake, &authorizer).await.is_err());
        assert!(arrivals() >= before + tries);
    }
}
