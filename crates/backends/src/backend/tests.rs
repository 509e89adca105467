//! Which changes of tools are told, and how often a backend is started.

use super::tool_notices::{CHANGE_SHOWN, MAX_CHANGES};
use super::*;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use url::Url;

use crate::openapi::{ApiSpec, DocumentSource};

/// No test waits longer than this for anything.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);
const DOCUMENT: &str = r#"{"openapi":"3.0.0","paths":{"/a":{"get":{"operationId":"a"}}}}"#;

fn change(tool: &str, at: u64) -> ChangedTool {
    ChangedTool { tool: tool.to_owned(), parts: vec!["description".to_owned()], at }
}

#[test]
fn the_latest_changes_of_a_week_are_told_once_for_each_tool() {
    let now = unix_seconds();
    let old = [change("old", now - CHANGE_SHOWN.as_secs() - 60), change("a", now - 60), change("b", now)];
    let mut changed = recent_changes(old.to_vec());
    note_changes(&mut changed, vec![change("a", now)]);
    assert_eq!(changed.iter().map(|it| it.tool.as_str()).collect::<Vec<_>>(), ["b", "a"]);
    note_changes(&mut changed, (0..100).map(|n| change(&n.to_string(), now)).collect());
    assert_eq!((changed.len(), changed[0].tool.as_str()), (MAX_CHANGES, "80"));
}

/// Counts the warnings of a thread.
struct Warnings(Arc<AtomicUsize>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test]
async fn a_server_that_changes_all_its_tools_is_logged_in_a_few_lines() {
    let server = DocumentServer::start().await;
    let spec = BackendSpec { start: StartTime::WhenNeeded, ..server.spec() };
    let (sender, mut events) = broadcast::channel(16);
    let backend = Backend::start(spec, sender);
    let lines = Arc::<AtomicUsize>::default();
    tracing::subscriber::with_default(Warnings(Arc::clone(&lines)), || {
        let say = |words: &str| {
            let tools = (0..5_000).map(|n| serde_json::json!({ "name": format!("t{n}"), "description": words }));
            backend.shared.report_changed_tools(tools);
        };
        say("before");
        assert_eq!(lines.load(Ordering::SeqCst), 0);
        say("after");
    });
    assert_eq!(lines.load(Ordering::SeqCst), MAX_CHANGES + 1, "the latest, and how many more");
    let told = backend.changed_tools();
    assert_eq!(
        (told.len(), told[0].tool.as_str(), told[MAX_CHANGES - 1].tool.as_str()),
        (MAX_CHANGES, "t4980", "t4999")
    );
    let Ok(BackendEvent { change: BackendChange::ToolsChanged(all), .. }) = events.try_recv() else {
        panic!("no event")
    };
    assert_eq!(all.len(), 5_000, "listeners get all of them");
}

#[test]
fn tools_that_are_left_out_are_told_with_their_reasons_to_callers_who_may_see_them() {
    use toolgate_mcp::client::{LeftOutReason, LeftOutTool};
    let tool = |name: &str, reason| LeftOutTool { name: name.to_owned(), reason };
    let named = vec![tool("large", LeftOutReason::TooLarge), tool("", LeftOutReason::NoName)];
    let left_out = LeftOutTools { named, unnamed: 3, is_cut: true };
    let notices = left_out_notices(&left_out, 7, |_| true);
    let expected = [
        "it lists more tools than are kept: 7 are, the others are left out",
        "the tool large is left out: its description and schemas take more than 4 MB of memory",
        "a tool is left out: it has no name",
        "3 more tools are left out",
    ];
    assert_eq!(notices, expected);
    let own = LeftOutTools { unnamed: 0, is_cut: false, ..left_out };
    assert_eq!(left_out_notices(&own, 7, |name| name != "large"), ["a tool is left out: it has no name"]);
    assert_eq!(left_out_notices(&LeftOutTools::default(), 7, |_| true), Vec::<String>::new());
}

/// An HTTP server for documents: the first response is not a document, and each later one is held back until the test releases it.
struct DocumentServer {
    origin: String,
    requests: Arc<AtomicUsize>,
    let_through: Arc<Semaphore>,
}

impl DocumentServer {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let origin = format!("http://{}", listener.local_addr().expect("an address"));
        let (requests, let_through) = (Arc::<AtomicUsize>::default(), Arc::new(Semaphore::new(0)));
        let (counted, waited) = (Arc::clone(&requests), Arc::clone(&let_through));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, Arc::clone(&counted), Arc::clone(&waited)));
            }
        });
        Self { origin, requests, let_through }
    }

    fn spec(&self) -> BackendSpec {
        let base = Url::parse(&self.origin).expect("a URL");
        let api = ApiSpec {
            document: DocumentSource::Url(base.clone()),
            base,
            auth: BTreeMap::new(),
            login: None,
            headers: Vec::new(),
            include: Vec::new(),
            exclude: Vec::new(),
            allow: vec!["127.0.0.1".to_owned()],
        };
        BackendSpec::new("api", BackendKind::OpenApi(Box::new(api)))
    }

    /// Waits until so many documents were asked for.
    async fn asked(&self, times: usize) {
        let asked = async {
            while self.requests.load(Ordering::SeqCst) < times {
                tokio::task::yield_now().await;
            }
        };
        timeout(TEST_TIMEOUT, asked).await.expect("in time");
    }
}

async fn answer(mut stream: TcpStream, requests: Arc<AtomicUsize>, let_through: Arc<Semaphore>) {
    let _ = stream.read(&mut [0; 4096]).await;
    let is_first = requests.fetch_add(1, Ordering::SeqCst) == 0;
    if !is_first {
        let _permit = let_through.acquire().await;
    }
    let body = if is_first { "{}" } else { DOCUMENT };
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
}

/// A backend whose first start failed some time ago and whose background retry is in progress.
async fn in_the_middle_of_a_retry(server: &DocumentServer) -> Backend {
    let backend = Backend::start(server.spec(), broadcast::channel(16).0);
    let mut state = backend.watch();
    let failed = state.wait_for(|state| matches!(state, BackendState::Failed { .. }));
    timeout(TEST_TIMEOUT, failed).await.expect("in time").expect("a living backend");
    // As the end of the pause does.
    backend.shared.restart.notify_one();
    server.asked(2).await;
    assert!(matches!(backend.state(), BackendState::Failed { .. }));
    *backend.shared.failed_at.lock() = Instant::now().checked_sub(2 * RETRY_PAUSE);
    backend
}

#[tokio::test]
async fn a_call_during_a_retry_waits_for_it_and_causes_no_other_start() {
    let server = DocumentServer::start().await;
    let backend = in_the_middle_of_a_retry(&server).await;
    backend.retry_failed_start();
    assert_eq!(backend.state(), BackendState::Starting);
    server.let_through.add_permits(10);
    backend.ready(TEST_TIMEOUT).await.expect("up");
    assert_eq!(server.requests.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_restart_during_a_start_begins_it_again_at_once() {
    let server = DocumentServer::start().await;
    let backend = in_the_middle_of_a_retry(&server).await;
    backend.restart();
    // The start that was under way still waits for its document.
    server.asked(3).await;
    server.let_through.add_permits(10);
    backend.ready(TEST_TIMEOUT).await.expect("up");
    assert_eq!(server.requests.load(Ordering::SeqCst), 3);
}
