//! OAuth towards servers, against an authorization server of the tests: registration, discovery and `iss` in all
//! combinations, step-up, refresh in races and among processes, hostile documents, and that no token is ever shown.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod fake;

use std::io::Write;
use std::sync::{Arc, LazyLock, Mutex};

use serde_json::{Map, Value};
use toolgate_mcp::client::auth::{
    AuthError, AuthSettings, AuthorizationResponse, Authorizer, ClientRegistration, FileTokenStore, Grant, LoginStatus,
    MemoryTokenStore, RegisteredClient, SecretText, TokenStore,
};
use toolgate_mcp::client::{HttpLink, Inbox, Link, LinkError, McpSession, ToolCallOptions, ToolName, Transport};
use toolgate_mcp::protocol::Era;

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
    let client = RegisteredClient { id: "mine".to_owned(), secret: secret.map(SecretText::new) };
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
    let pending = authorizer.begin_login(REDIRECT).await?;
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
    let LoginStatus::LoggedIn { issuer, scopes, refreshable: true, until: Some(_) } = status else {
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
    assert_eq!(call(&session, "write").await, Err(login_required(&["read", "write"])));
    log_in(&authorizer).await.unwrap();
    assert!(call(&session, "write").await.unwrap().contains("done"));
    assert_eq!(fake.seen.lock().unwrap().scopes, ["read", "read write"]);
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
        let store = Arc::new(FileTokenStore::open(folder.path()).unwrap());
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
    let pending = authorizer.begin_login(REDIRECT).await.unwrap();
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
