//! OAuth towards servers, against an authorization server of the tests: registration, discovery and `iss` in all
//! combinations, step-up, refresh in races and among processes, hostile documents, and that no token is ever shown.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bindings;
mod fake;
mod redirects;

use std::io::Write;
use std::sync::{Arc, LazyLock, Mutex};

use serde_json::{Map, Value};
use toolgate_mcp::client::auth::{
    AuthError, AuthSettings, AuthorizationResponse, Authorizer, Challenge, ClientRegistration, Grant, LoginStatus,
    MemoryTokenStore, MissingScopes, PendingLogin, RedirectListener, RegisteredClient, SecretText, TokenStore,
};
use toolgate_mcp::client::{HttpLink, Inbox, Link, LinkError, McpSession, ToolCallOptions, ToolName, Transport};
use toolgate_mcp::protocol::Era;

use toolgate_secrets::{Preference, SecretStore};

use crate::fake::{Behaviour, Described, Fake, Fault, Issuer};

const REDIRECT: &str = "http://127.0.0.1:4321/callback";

/// Everything that is logged by any test of this file.
static LOGGED: LazyLock<Arc<Mutex<Vec<u8>>>> = LazyLock::new(|| {
    let logged = Arc::new(Mutex::new(Vec::new()));
    let writer = Arc::clone(&logged);
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_writer(move || Log(Arc::clone(&writer)));
    subscriber.init();
    logged
});

struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn settings() -> AuthSettings {
    AuthSettings { name: "fake".to_owned(), ..AuthSettings::default() }
}

fn preregistered(secret: Option<&str>) -> ClientRegistration {
    let client = RegisteredClient { id: "mine".to_owned(), secret: secret.map(SecretText::new), redirect_uri: None };
    ClientRegistration { preregistered: Some(client), metadata_document: None }
}

async fn authorizer(behaviour: Behaviour, settings: AuthSettings) -> (Arc<Fake>, Arc<Authorizer>) {
    LazyLock::force(&LOGGED);
    let fake = Fake::start(behaviour).await;
    let store = Arc::new(MemoryTokenStore::default());
    let authorizer = Arc::new(Authorizer::new(&fake.url(), settings, store).unwrap());
    (fake, authorizer)
}

/// Does what a browser and a person do.
async fn log_in(authorizer: &Authorizer) -> Result<LoginStatus, AuthError> {
    let pending = authorizer.begin_login(REDIRECT, &[]).await?;
    finish(authorizer, pending).await
}

async fn finish(authorizer: &Authorizer, pending: PendingLogin) -> Result<LoginStatus, AuthError> {
    let browser = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let response = browser.get(pending.url.clone()).send().await.unwrap();
    let location = response.headers()["location"].to_str().unwrap().to_owned();
    let query = location.strip_prefix(&format!("{REDIRECT}?")).unwrap();
    authorizer.finish_login(pending, &AuthorizationResponse::from_query(query)?).await
}

async fn open(fake: &Fake, authorizer: &Arc<Authorizer>) -> Result<McpSession, LinkError> {
    let inbox = Arc::new(Inbox::new(Arc::default()));
    let link =
        HttpLink::authorized(&fake.url(), &Default::default(), Arc::clone(authorizer), Arc::clone(&inbox), 1 << 20);
    McpSession::open(Arc::new(Link::new(Transport::Http(link.unwrap()), inbox)), Some(Era::Legacy)).await
}

async fn call(session: &McpSession, tool: &str) -> Result<String, LinkError> {
    let tool = ToolName { name: tool, input_schema: &Value::Null };
    let result = session.call(tool, Map::new(), ToolCallOptions::default()).await?;
    Ok(result.into_text().into_parts().0)
}

fn login_required(scopes: &[&str]) -> LinkError {
    LinkError::Auth(AuthError::LoginRequired { scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect() })
}

#[tokio::test]
async fn a_server_that_asks_for_a_login_is_usable_after_it() {
    let (fake, authorizer) = authorizer(Behaviour::default(), settings()).await;
    assert_eq!(authorizer.status().await, Ok(LoginStatus::LoggedOut));
    assert_eq!(open(&fake, &authorizer).await.map(drop), Err(login_required(&["read"])));
    let status = log_in(&authorizer).await.unwrap();
    let LoginStatus::LoggedIn { issuer, scopes, refreshable: true, until: Some(_), account: None } = status else {
        panic!("{status:?}")
    };
    assert_eq!((issuer, scopes), (fake.origin.clone(), vec!["read".to_owned()]));
    let session = open(&fake, &authorizer).await.unwrap();
    assert!(call(&session, "read").await.unwrap().contains("done"));
    authorizer.log_out().await.unwrap();
    assert_eq!(call(&session, "read").await, Err(login_required(&["read"])));
}

#[tokio::test]
async fn every_kind_of_registration_is_used_in_order_with_every_kind_of_discovery_and_issuer() {
    let document = "https://toolgate.example/client.json";
    for described in [Described::OAuth, Described::OpenId, Described::Nowhere] {
        for (settings_client, registers, reads, expected) in [
            (preregistered(None), true, true, Ok("mine")),
            (
                ClientRegistration { metadata_document: Some(document.to_owned()), ..Default::default() },
                true,
                true,
                Ok(document),
            ),
            (
                ClientRegistration { metadata_document: Some(document.to_owned()), ..Default::default() },
                true,
                false,
                Ok("registered"),
            ),
            (ClientRegistration::default(), true, true, Ok("registered")),
            (ClientRegistration::default(), false, true, Err(())),
        ] {
            // Servers without documents cannot say what they support.
            if described == Described::Nowhere && (reads || !registers) && settings_client.preregistered.is_none() {
                continue;
            }
            for (promises_issuer, issuer, accepted) in [
                (true, Issuer::Right, true),
                (true, Issuer::Absent, false),
                (true, Issuer::Wrong, false),
                (false, Issuer::Right, true),
                (false, Issuer::Absent, true),
                (false, Issuer::Wrong, false),
            ] {
                if described == Described::Nowhere && promises_issuer {
                    continue;
                }
                let case =
                    format!("{described:?} {settings_client:?} {registers} {reads} {promises_issuer} {issuer:?}");
                let behaviour = Behaviour {
                    described,
                    promises_issuer,
                    issuer,
                    registers,
                    reads_client_documents: reads,
                    ..Default::default()
                };
                let (fake, authorizer) =
                    authorizer(behaviour, AuthSettings { client: settings_client.clone(), ..settings() }).await;
                let outcome = log_in(&authorizer).await;
                let seen = fake.seen.lock().unwrap();
                match expected {
                    Err(()) => assert!(matches!(outcome, Err(AuthError::NoClient { .. })), "{case}: {outcome:?}"),
                    Ok(client) => {
                        assert_eq!(seen.clients, [client], "{case}");
                        assert_eq!(outcome.is_ok(), accepted, "{case}: {outcome:?}");
                        // A code of a wrong issuer is sent nowhere.
                        assert_eq!(seen.token_requests.len(), usize::from(accepted), "{case}");
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn a_call_that_needs_more_asks_for_what_was_granted_and_what_is_missing() {
    let (fake, authorizer) = authorizer(Behaviour::default(), settings()).await;
    log_in(&authorizer).await.unwrap();
    let session = open(&fake, &authorizer).await.unwrap();
    let more = LinkError::Auth(AuthError::ScopesRequired {
        scopes: vec!["read".to_owned(), "write".to_owned()],
        missing: MissingScopes::Named,
    });
    assert_eq!(call(&session, "write").await, Err(more));
    log_in(&authorizer).await.unwrap();
    assert!(call(&session, "write").await.unwrap().contains("done"));
    assert_eq!(fake.seen.lock().unwrap().scopes, ["read", "read write"]);
}

#[tokio::test]
async fn a_refusal_that_names_no_scope_is_told_from_one_that_does() {
    for (more, missing) in [(&[][..], MissingScopes::Unnamed), (&["write"], MissingScopes::UnnamedWithMoreToAsk)] {
        let behaviour = Behaviour { names_scopes: false, ..Default::default() };
        let scopes: Vec<String> = more.iter().map(|scope| (*scope).to_owned()).collect();
        let fake = Fake::start(behaviour).await;
        let store = Arc::new(MemoryTokenStore::default());
        let former = Arc::new(Authorizer::new(&fake.url(), settings(), Arc::clone(&store)).unwrap());
        log_in(&former).await.unwrap();
        // The user has written the scope into the configuration since.
        let settings = AuthSettings { scopes, ..settings() };
        let authorizer = Arc::new(Authorizer::new(&fake.url(), settings, store).unwrap());
        let session = open(&fake, &authorizer).await.unwrap();
        let refused = call(&session, "write").await.unwrap_err();
        let LinkError::Auth(error @ AuthError::ScopesRequired { .. }) = refused else { panic!("{refused}") };
        assert!(matches!(&error, AuthError::ScopesRequired { missing: found, .. } if *found == missing), "{error:?}");
        let said = error.to_string();
        assert!(said.starts_with("the server wants more rights than the login has, and does not say which"), "{said}");
        if missing == MissingScopes::UnnamedWithMoreToAsk {
            log_in(&authorizer).await.unwrap();
            assert!(call(&session, "write").await.unwrap().contains("done"));
        }
    }
}

#[tokio::test]
async fn a_due_token_is_refreshed_before_it_is_used() {
    let (fake, authorizer) = authorizer(Behaviour { life: 0, ..Default::default() }, settings()).await;
    log_in(&authorizer).await.unwrap();
    fake.behaviour.lock().unwrap().life = 3600;
    let session = open(&fake, &authorizer).await.unwrap();
    call(&session, "read").await.unwrap();
    assert_eq!(fake.refreshes(), 1);
    assert!(fake.seen.lock().unwrap().calls.iter().all(|valid| *valid));
}

#[tokio::test]
async fn many_calls_at_one_time_refresh_once() {
    let (fake, authorizer) = authorizer(Behaviour::default(), settings()).await;
    log_in(&authorizer).await.unwrap();
    let session = Arc::new(open(&fake, &authorizer).await.unwrap());
    fake.revoke_access();
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let session = Arc::clone(&session);
        calls.spawn(async move { call(&session, "read").await });
    }
    while let Some(done) = calls.join_next().await {
        assert!(done.unwrap().unwrap().contains("done"));
    }
    assert_eq!(fake.refreshes(), 1);
}

#[tokio::test]
async fn replicas_that_share_a_store_refresh_once() {
    let fake = Fake::start(Behaviour::default()).await;
    let folder = tempfile::tempdir().unwrap();
    let replica = || {
        let store = Arc::new(SecretStore::new(folder.path(), "toolgate test", Preference::File));
        Arc::new(Authorizer::new(&fake.url(), settings(), store).unwrap())
    };
    let replicas = [replica(), replica(), replica()];
    log_in(&replicas[0]).await.unwrap();
    let mut sessions = Vec::new();
    for replica in &replicas {
        sessions.push(Arc::new(open(&fake, replica).await.unwrap()));
    }
    fake.revoke_access();
    let mut calls = tokio::task::JoinSet::new();
    for session in sessions {
        calls.spawn(async move { call(&session, "read").await });
    }
    while let Some(done) = calls.join_next().await {
        assert!(done.unwrap().unwrap().contains("done"));
    }
    assert_eq!(fake.refreshes(), 1);
}

#[tokio::test]
async fn a_refused_refresh_ends_the_login_and_keeps_the_client() {
    let (fake, authorizer) = authorizer(Behaviour::default(), settings()).await;
    log_in(&authorizer).await.unwrap();
    let session = open(&fake, &authorizer).await.unwrap();
    fake.revoke_access();
    fake.revoke_refresh();
    assert_eq!(call(&session, "read").await, Err(login_required(&["read"])));
    assert_eq!(authorizer.status().await, Ok(LoginStatus::LoggedOut));
    fake.behaviour.lock().unwrap().registers = false;
    log_in(&authorizer).await.unwrap();
    assert!(call(&session, "read").await.unwrap().contains("done"));
}

#[tokio::test]
async fn a_client_logs_in_by_itself_and_widens_its_token() {
    let client = preregistered(Some("canary-client-secret"));
    let settings = AuthSettings { grant: Grant::ClientCredentials, client, ..settings() };
    let (fake, authorizer) = authorizer(Behaviour::default(), settings).await;
    let session = open(&fake, &authorizer).await.unwrap();
    assert!(call(&session, "read").await.unwrap().contains("done"));
    assert!(call(&session, "write").await.unwrap().contains("done"));
    let seen = fake.seen.lock().unwrap();
    let forms: Vec<_> = seen.token_requests.iter().map(|form| (&*form["grant_type"], &*form["scope"])).collect();
    assert_eq!(forms, [("client_credentials", "read"), ("client_credentials", "read write")]);
    assert!(seen.token_requests.iter().all(|form| form["basic"].starts_with("Basic ")));
    assert!(seen.token_requests.iter().all(|form| !form.contains_key("client_secret")));
}

#[tokio::test]
async fn hostile_documents_are_refused_before_anything_is_sent() {
    for (fault, expected) in [
        (Fault::HugeMetadata, "the metadata of the authorization server is larger than 262144 bytes"),
        (Fault::BrokenMetadata, "the metadata of the authorization server is not valid: it is not a JSON object"),
        (Fault::RedirectedMetadata, "the metadata of the authorization server can't be reached: it redirects"),
        (Fault::MetadataOfAnotherResource, "the metadata of the server is about https://victim.example/mcp"),
        (Fault::MetadataOfAnotherIssuer, "the answer comes from the issuer https://bank.example"),
        (Fault::MetadataElsewhere, "the metadata of the authorization server is not a URL that may be used"),
        (Fault::NoPkce, "does not support PKCE with S256"),
    ] {
        let (fake, authorizer) = authorizer(Behaviour { fault, ..Default::default() }, settings()).await;
        let refused = log_in(&authorizer).await.unwrap_err().to_string();
        assert!(refused.contains(expected), "{fault:?}: {refused}");
        let seen = fake.seen.lock().unwrap();
        assert!(seen.clients.is_empty() && seen.token_requests.is_empty(), "{fault:?}");
    }
}

#[tokio::test]
async fn a_public_server_names_no_metadata_at_an_inner_address() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let local = format!("https://{}/x", listener.local_addr().unwrap());
    let store = Arc::new(MemoryTokenStore::default());
    let authorizer = Authorizer::new("https://1.1.1.1/mcp", settings(), store).unwrap();
    for metadata in ["https://10.0.0.1/x", &local, "https://[fd00::1]/x", "https://169.254.169.254/x"] {
        let challenge = Challenge::parse(&format!(r#"Bearer resource_metadata="{metadata}""#));
        // Both by the refused request and by the login that follows.
        let refusals = [
            authorizer.after_refusal(None, &challenge).await.map(drop),
            authorizer.begin_login(REDIRECT, &[]).await.map(drop),
        ];
        for refused in refusals {
            let Err(AuthError::Url { what, reason }) = refused else { panic!("{metadata}: {refused:?}") };
            assert_eq!(what, "the metadata of the server");
            assert!(reason.starts_with("it leads to an inner address"), "{metadata}: {reason}");
        }
    }
    assert!(listener.accept().is_err(), "nothing was sent");
}

#[tokio::test]
async fn a_page_in_place_of_a_document_is_no_document() {
    let behaviour = |described| Behaviour { described, fault: Fault::PagesInPlaceOfDocuments, ..Default::default() };
    for described in [Described::OAuth, Described::OpenId] {
        let (_fake, authorizer) = authorizer(behaviour(described), settings()).await;
        assert!(matches!(log_in(&authorizer).await, Ok(LoginStatus::LoggedIn { .. })), "{described:?}");
    }
    let (_fake, authorizer) = authorizer(behaviour(Described::Nowhere), settings()).await;
    let refused = log_in(&authorizer).await.unwrap_err().to_string();
    assert!(refused.contains("the authorization server is not valid: it is not a JSON object"), "{refused}");
}

#[tokio::test]
async fn tokens_of_another_issuer_are_not_sent_to_the_new_one() {
    let fake = Fake::start(Behaviour::default()).await;
    let store = Arc::new(MemoryTokenStore::default());
    let authorizer = Arc::new(Authorizer::new(&fake.url(), settings(), Arc::clone(&store)).unwrap());
    log_in(&authorizer).await.unwrap();
    let mut login = store.load("fake").unwrap().unwrap();
    login.issuer = "https://former.example".to_owned();
    store.save("fake", &login).unwrap();
    let other = Arc::new(Authorizer::new(&fake.url(), settings(), store).unwrap());
    fake.revoke_access();
    assert_eq!(open(&fake, &other).await.map(drop), Err(login_required(&["read"])));
    assert_eq!(fake.refreshes(), 0);
}

#[tokio::test]
async fn no_token_is_logged_or_shown() {
    let client = preregistered(Some("canary-client-secret"));
    let (fake, authorizer) = authorizer(Behaviour::default(), AuthSettings { client, ..settings() }).await;
    let pending = authorizer.begin_login(REDIRECT, &[]).await.unwrap();
    let mut shown = format!("{pending:?}");
    drop(pending);
    log_in(&authorizer).await.unwrap();
    let session = open(&fake, &authorizer).await.unwrap();
    call(&session, "read").await.unwrap();
    fake.revoke_access();
    call(&session, "read").await.unwrap();
    let refused = call(&session, "write").await.unwrap_err();
    shown += &format!("{session:?} {authorizer:?} {refused:?} {refused} {:?}", authorizer.status().await);
    fake.revoke_access();
    fake.revoke_refresh();
    let refused = call(&session, "read").await.unwrap_err();
    shown += &format!("{refused:?} {refused} {authorizer:?}");
    assert!(!shown.contains("canary"), "{shown}");
    let logged = String::from_utf8_lossy(&LOGGED.lock().unwrap()).into_owned();
    assert!(logged.contains("TRACE") || logged.contains("DEBUG"), "nothing was logged");
    // The fake server and the browser of the tests are in this process and log nothing of their own.
    let leak = logged.lines().find(|line| line.contains("canary-access") || line.contains("canary-refresh"));
    assert_eq!(leak, None);
    assert!(!logged.contains("canary-client-secret"));
}

#[tokio::test]
async fn a_login_of_another_process_counts_from_the_next_request_on() {
    let fake = Fake::start(Behaviour::default()).await;
    let folder = tempfile::tempdir().unwrap();
    let process = || {
        let store = Arc::new(SecretStore::new(folder.path(), "toolgate test", Preference::File));
        Arc::new(Authorizer::new(&fake.url(), settings(), store).unwrap())
    };
    let (one, other) = (process(), process());
    assert_eq!(open(&fake, &one).await.map(drop), Err(login_required(&["read"])));
    log_in(&other).await.unwrap();
    let session = open(&fake, &one).await.unwrap();
    assert!(call(&session, "read").await.unwrap().contains("done"));
    // More scopes, also from the other one.
    assert!(call(&session, "write").await.is_err());
    let pending = other.begin_login(REDIRECT, &["write".to_owned()]).await.unwrap();
    finish(&other, pending).await.unwrap();
    assert!(call(&session, "write").await.unwrap().contains("done"));
    other.log_out().await.unwrap();
    assert_eq!(call(&session, "read").await, Err(login_required(&["read"])));
}

#[tokio::test]
async fn a_token_is_sent_to_no_other_server_of_the_same_name() {
    let (fake, other) = (Fake::start(Behaviour::default()).await, Fake::start(Behaviour::default()).await);
    let store = Arc::new(MemoryTokenStore::default());
    let here = Authorizer::new(&fake.url(), settings(), Arc::clone(&store)).unwrap();
    log_in(&here).await.unwrap();
    let there = Arc::new(Authorizer::new(&other.url(), settings(), store).unwrap());
    assert_eq!(there.status().await, Ok(LoginStatus::LoggedOut));
    assert_eq!(open(&other, &there).await.map(drop), Err(login_required(&["read"])));
    assert!(other.seen.lock().unwrap().tokens_sent.is_empty());
}

#[tokio::test]
async fn a_token_without_a_refresh_is_used_to_its_end_and_a_broken_issuer_does_not_end_it() {
    let behaviour = Behaviour { life: 30, ..Default::default() };
    let (fake, authorizer) = authorizer(behaviour, settings()).await;
    log_in(&authorizer).await.unwrap();
    let session = open(&fake, &authorizer).await.unwrap();
    fake.behaviour.lock().unwrap().fault = Fault::BrokenToken;
    fake.revoke_access();
    let refused = call(&session, "read").await.unwrap_err().to_string();
    assert_eq!(refused, "the token was refused: HTTP 502");
    fake.behaviour.lock().unwrap().fault = Fault::None;
    assert!(call(&session, "read").await.unwrap().contains("done"));
}

#[tokio::test]
async fn an_issuer_that_never_answers_is_given_up() {
    let (_fake, authorizer) =
        authorizer(Behaviour { fault: Fault::SlowMetadata, ..Default::default() }, settings()).await;
    let refused = authorizer.begin_login(REDIRECT, &[]).await.map(drop);
    assert!(matches!(refused, Err(AuthError::Unreachable { .. })), "{refused:?}");
}

#[tokio::test]
async fn a_token_endpoint_that_never_answers_is_given_up_and_the_old_token_still_used() {
    let (fake, slow) = authorizer(Behaviour { fault: Fault::SlowToken, ..Default::default() }, settings()).await;
    let refused = log_in(&slow).await;
    assert!(matches!(refused, Err(AuthError::Unreachable { what: "the token", .. })), "{refused:?}");
    assert_eq!(slow.status().await, Ok(LoginStatus::LoggedOut));
    drop(fake);
    // A refresh that is not answered: the token may still be good for a moment.
    let (fake, due) = authorizer(Behaviour { life: 0, ..Default::default() }, settings()).await;
    log_in(&due).await.unwrap();
    fake.behaviour.lock().unwrap().fault = Fault::SlowToken;
    assert!(due.access_token().await.unwrap().is_some());
}

#[tokio::test]
async fn a_local_clock_that_is_wrong_costs_one_refresh_at_most() {
    for (case, expires_at) in
        [("ahead: the token seems to be over", 1), ("behind: it seems to last for ever", u64::MAX)]
    {
        let (fake, store) = (Fake::start(Behaviour::default()).await, Arc::new(MemoryTokenStore::default()));
        let authorizer = Arc::new(Authorizer::new(&fake.url(), settings(), Arc::clone(&store)).unwrap());
        log_in(&authorizer).await.unwrap();
        let name = settings().name;
        let mut login = store.load(&name).unwrap().unwrap();
        let tokens = login.tokens.as_mut().unwrap();
        (tokens.issued_at, tokens.expires_at) = (0, Some(expires_at));
        store.save(&name, &login).unwrap();
        if expires_at > 1 {
            fake.revoke_access();
        }
        let session = open(&fake, &authorizer).await.unwrap();
        for _ in 0..3 {
            assert!(call(&session, "read").await.unwrap().contains("done"), "{case}");
        }
        assert_eq!(fake.refreshes(), 1, "{case}");
    }
}

#[tokio::test]
async fn a_client_proves_who_it_is_as_the_issuer_wants() {
    for (methods, basic, in_body) in
        [(&["none"][..], false, false), (&["client_secret_basic"], true, false), (&["client_secret_post"], false, true)]
    {
        let (fake, authorizer) =
            authorizer(Behaviour { auth_methods: methods, ..Default::default() }, settings()).await;
        log_in(&authorizer).await.unwrap();
        let seen = fake.seen.lock().unwrap();
        let form = &seen.token_requests[0];
        assert_eq!((form.contains_key("basic"), form.contains_key("client_secret")), (basic, in_body), "{methods:?}");
    }
}

#[tokio::test]
async fn a_client_is_registered_again_only_for_another_redirect() {
    let (fake, authorizer) = authorizer(Behaviour::default(), settings()).await;
    log_in(&authorizer).await.unwrap();
    log_in(&authorizer).await.unwrap();
    assert_eq!(authorizer.registered_redirect().await.as_deref(), Some(REDIRECT));
    drop(authorizer.begin_login("http://127.0.0.1:4322/callback", &[]).await.unwrap());
    assert_eq!(fake.seen.lock().unwrap().registrations, [REDIRECT, "http://127.0.0.1:4322/callback"]);
}

#[tokio::test]
async fn the_account_is_shown_and_a_logout_revokes_the_tokens() {
    let behaviour = Behaviour { tells_account: true, revokes: true, ..Default::default() };
    let (fake, authorizer) = authorizer(behaviour, settings()).await;
    let status = log_in(&authorizer).await.unwrap();
    assert!(
        matches!(&status, LoginStatus::LoggedIn { account: Some(account), .. } if account == "ada@example.com"),
        "{status:?}"
    );
    authorizer.log_out().await.unwrap();
    assert_eq!(authorizer.status().await, Ok(LoginStatus::LoggedOut));
    assert_eq!(fake.seen.lock().unwrap().revoked, ["canary-refresh-1"]);
}

#[tokio::test]
async fn the_browser_comes_back_to_this_machine_and_nothing_else_ends_the_wait() {
    let (_fake, authorizer) = authorizer(Behaviour::default(), settings()).await;
    let listener = RedirectListener::bind(None).await.unwrap();
    let pending = authorizer.begin_login(&listener.redirect_uri(), &[]).await.unwrap();
    let (url, base) = (pending.url.clone(), listener.redirect_uri());
    let browser = tokio::spawn(async move {
        let http = reqwest::Client::new();
        let get = |url: String| http.get(url).send();
        let mut statuses = Vec::new();
        for path in ["", "?code=a&state=wrong", "?state=&code=a", "?code=a&code=b&state=x"] {
            statuses.push(get(format!("{base}{path}")).await.unwrap().status().as_u16());
        }
        statuses.push(get(base.replace("callback", "favicon.ico")).await.unwrap().status().as_u16());
        statuses.push(http.post(&base).body("code=a").send().await.unwrap().status().as_u16());
        // A connection that says nothing holds nothing up.
        let _mute =
            tokio::net::TcpStream::connect(base.trim_start_matches("http://").trim_end_matches("/callback")).await;
        let page = get(url.into()).await.unwrap();
        statuses.push(page.status().as_u16());
        (statuses, page.text().await.unwrap())
    });
    let response = listener.response_to(&pending).await.unwrap();
    assert!(matches!(authorizer.finish_login(pending, &response).await, Ok(LoginStatus::LoggedIn { .. })));
    let (statuses, page) = browser.await.unwrap();
    assert_eq!(statuses, [400, 400, 400, 400, 400, 400, 200]);
    assert!(!page.contains("canary"), "{page}");
}

/// All that happens after a login, for every kind of registration and issuer: more scopes, tokens that end early because
/// the server's clock is another, and refreshes by three replicas at one time.
#[tokio::test]
async fn every_kind_of_login_is_widened_and_refreshed_once_by_three_replicas() {
    let document = "https://toolgate.example/client.json".to_owned();
    let by_document = ClientRegistration { metadata_document: Some(document), ..Default::default() };
    for client in [preregistered(None), preregistered(Some("s")), by_document, ClientRegistration::default()] {
        for (promises_issuer, issuer) in [(true, Issuer::Right), (false, Issuer::Right), (false, Issuer::Absent)] {
            for (described, rotates) in [(Described::OAuth, true), (Described::OpenId, false)] {
                let case = format!("{client:?} {promises_issuer} {issuer:?} {described:?}");
                let behaviour = Behaviour {
                    described,
                    promises_issuer,
                    issuer,
                    rotates,
                    reads_client_documents: true,
                    ..Default::default()
                };
                let fake = Fake::start(behaviour).await;
                let folder = tempfile::tempdir().unwrap();
                let replica = || {
                    let store = Arc::new(SecretStore::new(folder.path(), "toolgate test", Preference::File));
                    let settings = AuthSettings { client: client.clone(), ..settings() };
                    Arc::new(Authorizer::new(&fake.url(), settings, store).unwrap())
                };
                let replicas = [replica(), replica(), replica()];
                log_in(&replicas[0]).await.unwrap();
                let mut sessions = Vec::new();
                for replica in &replicas {
                    sessions.push(Arc::new(open(&fake, replica).await.unwrap()));
                }
                // Step-up at one of them counts for all.
                assert!(matches!(
                    call(&sessions[1], "write").await,
                    Err(LinkError::Auth(AuthError::ScopesRequired { .. }))
                ));
                log_in(&replicas[1]).await.unwrap();
                assert!(call(&sessions[2], "write").await.unwrap().contains("done"), "{case}");
                for round in 1..=2 {
                    // The server's clock is ahead: tokens end while this machine thinks that they are good.
                    fake.revoke_access();
                    let mut calls = tokio::task::JoinSet::new();
                    for session in &sessions {
                        let session = Arc::clone(session);
                        calls.spawn(async move { call(&session, "write").await });
                    }
                    while let Some(done) = calls.join_next().await {
                        assert!(done.unwrap().unwrap().contains("done"), "{case}");
                    }
                    assert_eq!(fake.refreshes(), round, "{case}");
                }
            }
        }
    }
}
