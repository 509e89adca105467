//! A server, and a client that shows everything it was answered.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use toolgate_bridge::approvals::{AskedCall, Verdict};
use toolgate_bridge::{Answer as ToolAnswer, Bridge, Provider, ProviderFuture, RequestContext, scripted::ToolScript};
use toolgate_catalog::CatalogHandle;
use toolgate_config::Env;
use toolgate_config::checked::{Http, Key};
use toolgate_config::text::{Format, Source};
use toolgate_config::values::{Glob, HttpAuth, KeyHash, Rate, Setting};
use toolgate_engine::host::Target;
use toolgate_engine::{Engine, EngineBuilder, HostError};
use toolgate_functions::http::{AllowList, Fetcher, Guard, HttpLimits};
use toolgate_functions::{HostFunction, Registry};
use toolgate_journal::durable::Journal;
use toolgate_journal::seal::Sealer;
use toolgate_journal::store::memory::MemoryStore as RunsInMemory;
use toolgate_output::results::{ResultLimits, ResultStore};
use toolgate_run::durable::{Callers, DurableRuns, DurableSettings, Webhooks};
use toolgate_run::{FixedEnvironment, Runner};
use toolgate_service::rpc_sessions::{MemorySessionStore, RpcSessions, SystemClock};
use toolgate_service::{
    AdmissionRules, HttpService, LocalToken, ServerLimits, ServiceLimits, ServiceParts, Shutdown, listen, serve,
};
use toolgate_wire::{CallerScope, LimitRequest, Profiles};

/// What a test may want different.
pub(crate) struct Setup {
    pub(crate) engine: EngineBuilder,
    pub(crate) http: Http,
    pub(crate) token: Option<LocalToken>,
    pub(crate) profiles: Profiles<LimitRequest>,
    pub(crate) functions: Registry,
    pub(crate) sessions: Arc<RpcSessions>,
    pub(crate) service: ServiceLimits,
    pub(crate) server: ServerLimits,
    /// Durable runs of one caller that have not ended.
    pub(crate) max_open_runs: u64,
    pub(crate) max_open_bytes: u64,
    /// What `bank.pay` was called with.
    pub(crate) paid: Paid,
    /// Who may decide about it, and for how long.
    pub(crate) approvers: Vec<String>,
    pub(crate) expires: Duration,
    /// Who is told of runs that wait and have no webhook of their own.
    pub(crate) webhook: Option<String>,
    /// Who may call what: rules as in a configuration.
    pub(crate) policy: Value,
    /// Where durable runs are; the same for replicas of one service.
    pub(crate) runs: Arc<RunsInMemory>,
}

/// The arguments of calls that were made.
pub(crate) type Paid = Arc<Mutex<Vec<Value>>>;

/// A backend that asks about each call, as a rule of a policy would. The program names the number of the call.
struct Bank {
    paid: Paid,
    approvers: Vec<String>,
    expires: Duration,
}

impl Provider for Bank {
    fn call(&self, tool: String, arguments: Map<String, Value>, asked: RequestContext) -> ProviderFuture {
        let (paid, approvers, expires) = (self.paid.clone(), self.approvers.clone(), self.expires);
        Box::pin(async move {
            let approver = asked.approver.clone();
            let approver = approver.ok_or_else(|| HostError::not_sent("DENIED", "no person can be asked"))?;
            let call = AskedCall {
                call_id: arguments["call"].as_u64().expect("a number"),
                target: Target::Tool { backend: "bank".into(), tool },
                arguments: Value::Object(arguments.clone()).to_string(),
                reason: "payments are approved".into(),
                rule: Some("1".into()),
                rule_key: None,
                approvers,
                expires,
                form: None,
            };
            match approver.ask(call).await {
                Verdict::Approve { arguments: edited } => {
                    let sent = edited.map(|text| serde_json::from_str(&text).expect("JSON"));
                    let sent = sent.unwrap_or(Value::Object(arguments));
                    paid.lock().push(sent.clone());
                    Ok(ToolAnswer::Value(json!({"paid": sent["amount"]})))
                }
                Verdict::Expired => Err(HostError::not_sent("EXPIRED", "no decision came in time")),
                Verdict::Deny { reason } => Err(HostError::not_sent("DENIED", reason)),
                Verdict::Stop { reason } => {
                    asked.stop_run(&reason).await;
                    Err(HostError::not_sent("DENIED", reason))
                }
            }
        })
    }
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            engine: Engine::builder(),
            http: http(vec![]),
            token: None,
            profiles: Profiles::default(),
            functions: [add(), fail()].into_iter().collect(),
            sessions: Arc::new(RpcSessions::new(
                Arc::new(MemorySessionStore::new(Arc::new(SystemClock))),
                Arc::new(SystemClock),
            )),
            service: ServiceLimits::default(),
            server: ServerLimits::default(),
            max_open_runs: 1000,
            max_open_bytes: 1 << 30,
            paid: Paid::default(),
            approvers: vec![],
            expires: Duration::from_secs(3600),
            webhook: None,
            policy: json!([]),
            runs: Arc::new(RunsInMemory::new()),
        }
    }
}

pub(crate) fn http(keys: Vec<Key>) -> Http {
    Http { keys, auth: HttpAuth::None, ..Http::default() }
}

/// A key whose text is its name with `-key` behind it.
pub(crate) fn key(name: &str) -> Key {
    let digest = ring::digest::digest(&ring::digest::SHA256, format!("{name}-key").as_bytes());
    let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let hash = KeyHash::parse(&format!("sha256:{hex}")).expect("a hash");
    Key {
        name: name.to_owned(),
        hash,
        functions: None,
        backends: Some(vec![]),
        tools: None,
        call_rate: None,
        rate: None,
    }
}

pub(crate) fn globs(patterns: &[&str]) -> Option<Vec<Glob>> {
    Some(patterns.iter().map(|pattern| Glob::parse(pattern).expect("a pattern")).collect())
}

pub(crate) fn rate(text: &str) -> Option<Rate> {
    Some(Rate::parse(text).expect("a rate"))
}

fn add() -> HostFunction {
    HostFunction::builder("add")
        .describe("Adds two numbers.")
        .required("a", json!({"type": "number"}), "")
        .required("b", json!({"type": "number"}), "")
        .returns(json!({"type": "number"}))
        .handle(|_, args| async move {
            let number = |at: usize| args.get(at).and_then(Value::as_f64).unwrap_or_default();
            Ok(json!(number(0) + number(1)))
        })
        .expect("a signature")
}

fn fail() -> HostFunction {
    use toolgate_functions::FunctionError;
    HostFunction::builder("fail").handle(|_, _| async { Err(FunctionError::failed("no luck")) }).expect("a signature")
}

/// A function that says when it is called, and answers or is dropped, whichever comes first.
pub(crate) struct Hold {
    pub(crate) function: HostFunction,
    pub(crate) began: mpsc::UnboundedReceiver<()>,
    pub(crate) dropped: mpsc::UnboundedReceiver<()>,
    pub(crate) release: Arc<Notify>,
}

/// Tells when it is dropped.
struct Bell(mpsc::UnboundedSender<()>);

impl Drop for Bell {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

pub(crate) fn hold() -> Hold {
    let (begin, began) = mpsc::unbounded_channel();
    let (drop, dropped) = mpsc::unbounded_channel();
    let release = Arc::new(Notify::new());
    let free = release.clone();
    let hold = HostFunction::builder("hold").optional("text", json!({"type": "string"}), "Is recorded.");
    let built = hold.handle(move |_, _| {
        let (begin, bell, free) = (begin.clone(), Bell(drop.clone()), free.clone());
        async move {
            let _bell = bell;
            let _ = begin.send(());
            free.notified().await;
            Ok(json!("released"))
        }
    });
    Hold { function: built.expect("a signature"), began, dropped, release }
}

/// A server of a test's own.
pub(crate) struct Server {
    pub(crate) at: SocketAddr,
    pub(crate) service: HttpService,
    pub(crate) shutdown: Shutdown,
    pub(crate) served: JoinHandle<std::io::Result<()>>,
    _runs: DurableRuns,
}

/// Every caller may use what a key without lists may.
struct AnyCaller;

impl Callers for AnyCaller {
    fn scope(&self, name: &str) -> Option<CallerScope> {
        Some(CallerScope { name: name.to_owned(), ..CallerScope::default() })
    }
}

/// Durable runs in memory.
fn durable(
    runner: &Runner,
    runs: Arc<RunsInMemory>,
    max_open: u64,
    max_open_bytes: u64,
    webhook: Option<String>,
) -> DurableRuns {
    let sealer = Sealer::new([7; 32]).expect("a key");
    let journal = Journal::new(runs, sealer, toolgate_run::execution_id(), Duration::from_secs(60));
    let journal = journal.with_max_open(max_open).with_max_open_bytes(max_open_bytes);
    let allow = AllowList::parse(&["127.0.0.1"]).expect("an address");
    let webhooks = Webhooks::new("secret", Fetcher::new(Guard::new(allow), HttpLimits::default())).of_pauses(webhook);
    let settings = DurableSettings { webhooks: Some(Arc::new(webhooks)), ..DurableSettings::default() };
    DurableRuns::start(journal, runner.clone(), Arc::new(AnyCaller), settings)
}

impl Drop for Server {
    fn drop(&mut self) {
        self.served.abort();
    }
}

pub(crate) async fn start(setup: Setup) -> Server {
    let shutdown = Shutdown::default();
    let pay = json!({"name": "pay", "reply": {}, "inputSchema": {"type": "object", "properties": {"call": {"type": "number"}, "amount": {"type": "number"}}}});
    let tools = json!({"backends": {
        "shop": {"tools": [{"name": "find", "reply": {"found": "{{what}}"}}]},
        "bank": {"tools": [pay]},
    }});
    let script = ToolScript::parse(&tools.to_string()).expect("a script");
    let bridge = Bridge::new(CatalogHandle::new(script.catalog()));
    script.providers().for_each(|(name, provider)| bridge.provide(name, provider));
    let bank = Arc::new(Bank { paid: setup.paid.clone(), approvers: setup.approvers, expires: setup.expires });
    bridge.provide("bank", bank);
    let rules = json!({"toolgate": {"policy": setup.policy}}).to_string();
    let rules = Source::new(Path::new("rules.json"), Format::Json, &rules);
    let checked = toolgate_config::check(rules, &Env::new(None, ".")).expect("rules");
    bridge.set_policy(checked.settings.policy);
    let environment = FixedEnvironment {
        functions: setup.functions,
        limits: setup.profiles,
        results: Some(ResultStore::new(ResultLimits::default())),
        ..FixedEnvironment::default()
    };
    let runner = Runner::new(setup.engine.build().expect("an engine"), Arc::new(bridge), Arc::new(environment));
    let runs = durable(&runner, setup.runs, setup.max_open_runs, setup.max_open_bytes, setup.webhook);
    let service = HttpService::new(ServiceParts {
        runner,
        sessions: setup.sessions,
        rules: AdmissionRules::new(setup.http, setup.token),
        shutdown: shutdown.clone(),
        limits: setup.service,
        public_url: None,
    });
    let listener = listen(([127, 0, 0, 1], 0).into()).expect("a free port");
    let at = listener.local_addr().expect("an address");
    let served = tokio::spawn(serve(listener, service.router(), shutdown.clone(), setup.server));
    Server { at, service, shutdown, served, _runs: runs }
}

/// An answer, head and all.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Lower case names, without `date`.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Status, code and pointer of an error, whose body must have the one shape.
    pub(crate) fn refusal(&self) -> String {
        let json = self.json();
        let error = json["error"].as_object().unwrap_or_else(|| panic!("{self:?}"));
        assert!(error["message"].is_string() && json.as_object().is_some_and(|all| all.len() == 1), "{self:?}");
        let pointer = error.get("pointer").and_then(Value::as_str).map(|it| format!(" {it}")).unwrap_or_default();
        format!("{} {}{pointer}", self.status, error["code"].as_str().unwrap_or_default())
    }
}

/// A request being written.
pub(crate) struct Ask {
    at: SocketAddr,
    head: String,
    body: Option<String>,
}

impl Server {
    pub(crate) fn ask(&self, method: &str, path: &str) -> Ask {
        ask(self.at, method, path)
    }

    /// Posts JSON.
    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.ask("POST", path).json(&body.to_string()).send().await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path).send().await
    }

    /// Runs code and shows its report.
    pub(crate) async fn run(&self, body: Value) -> Value {
        let answer = self.post("/v1/run", body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }
}

pub(crate) fn ask(at: SocketAddr, method: &str, path: &str) -> Ask {
    Ask { at, head: format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n"), body: None }.or_host(at)
}

impl Ask {
    fn or_host(self, at: SocketAddr) -> Self {
        self.header("Host", &at.to_string())
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        if name == "Host" {
            self.head = self.head.split_inclusive("\r\n").filter(|line| !line.starts_with("Host:")).collect();
        }
        self.head.push_str(&format!("{name}: {value}\r\n"));
        self
    }

    pub(crate) fn bearer(self, token: &str) -> Self {
        self.header("Authorization", &format!("Bearer {token}"))
    }

    pub(crate) fn json(self, body: &str) -> Self {
        self.header("Content-Type", "application/json").body(body)
    }

    pub(crate) fn body(mut self, body: &str) -> Self {
        self.head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        self.body = Some(body.to_owned());
        self
    }

    /// The connection with the request on its way.
    pub(crate) async fn begin(self) -> TcpStream {
        let stream = TcpStream::connect(self.at).await.expect("connected");
        self.begin_over(stream).await
    }

    /// The same over this connection.
    pub(crate) async fn begin_over(self, mut stream: TcpStream) -> TcpStream {
        stream.write_all(format!("{}\r\n", self.head).as_bytes()).await.expect("sent");
        if let Some(body) = self.body {
            // A server that refuses does not read to the end.
            let _ = stream.write_all(body.as_bytes()).await;
        }
        stream
    }

    /// Sends it over another connection.
    pub(crate) async fn send_over<S: AsyncRead + AsyncWrite + Unpin>(self, mut stream: S) -> Answer {
        let body = self.body.unwrap_or_default();
        stream.write_all(format!("{}\r\n{body}", self.head).as_bytes()).await.expect("sent");
        read(stream).await
    }

    pub(crate) async fn send(self) -> Answer {
        read(self.begin().await).await
    }
}

/// Reads an answer until the server closes.
pub(crate) async fn read<S: AsyncRead + Unpin>(mut stream: S) -> Answer {
    let mut bytes = Vec::new();
    // A server that refuses a body may reset the connection behind its answer.
    let _ = stream.read_to_end(&mut bytes).await;
    let text = String::from_utf8(bytes).expect("text");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
    let headers =
        lines.filter_map(|line| line.split_once(": ")).map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    let headers = headers.filter(|(name, _)| name != "date").collect();
    Answer { status: status.expect("a status"), headers, body: body.to_owned() }
}
