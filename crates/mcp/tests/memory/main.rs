//! How much memory a message of N bytes takes in this process: a reply at most three times N until a program has its value,
//! also when its values would make a large tree; a refused body no more than that.
//!
//! Memory is what was asked of the allocator by the thread under test, and a buffer that grows counts twice while it is
//! copied, so the figures do not depend on the allocator. Peers run in other threads or processes.

#![allow(clippy::print_stdout, reason = "what was measured is printed")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod counting;
mod peers;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio::sync::broadcast;
use toolgate_mcp::client::{
    HttpLink, Inbox, InheritedEnv, Launch, Link, LinkError, McpSession, StdioLink, ToolCallOptions, ToolName, Transport,
};
use toolgate_mcp::protocol::Era;
use toolgate_mcp::result::{ToolResult, Wrapping};
use toolgate_mcp::server::{
    ChangeNotice, HttpOptions, Identity, RequestScope, Service, ServiceAnswer, ServiceFuture, ToolCall, ready, router,
};
use toolgate_wire::ByteBudget;

use crate::counting::peak_of;
use crate::peers::{Body, Shape, Transfer};

/// The largest message that the peers under test may send.
const MAX_MESSAGE: usize = 64 << 20;

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

async fn session(transport: Transport, inbox: Arc<Inbox>) -> McpSession {
    McpSession::open(Arc::new(Link::new(transport, inbox)), Some(Era::Legacy)).await.unwrap()
}

async fn http(url: &str) -> McpSession {
    let inbox = Arc::new(Inbox::new(Arc::default()));
    let link = HttpLink::new(url, &Default::default(), Arc::clone(&inbox), MAX_MESSAGE).unwrap();
    session(Transport::Http(link), inbox).await
}

async fn stdio(script: String) -> McpSession {
    let inbox = Arc::new(Inbox::new(Arc::default()));
    let launch = Launch {
        command: "sh".into(),
        args: vec!["-c".into(), script],
        env: Default::default(),
        inherit: InheritedEnv::Basic,
        cwd: None,
        sandbox: None,
        redactor: Default::default(),
    };
    let link = StdioLink::start(&launch, Arc::clone(&inbox), Arc::default(), MAX_MESSAGE).unwrap();
    session(Transport::Stdio(link), inbox).await
}

async fn call(session: &McpSession, budget: &ByteBudget) -> Result<ToolResult, LinkError> {
    let options = ToolCallOptions { budget: budget.clone(), ..ToolCallOptions::default() };
    session.call(ToolName { name: "t", input_schema: &Value::Null }, Map::new(), options).await
}

fn check(name: &str, shape: Shape, connect: impl AsyncFnOnce() -> McpSession) {
    let length = shape.reply().len();
    assert!(length > 1_500_000, "{name}: {shape:?} has only {length} bytes");
    block_on(async {
        let session = connect().await;
        let budget = ByteBudget::new("this run", MAX_MESSAGE);
        let (peak, value) = peak_of(async { call(&session, &budget).await.unwrap().into_value(Wrapping::Plain) }).await;
        assert!(value.as_str().len() > 1_000_000, "{name}: {shape:?} gave {} bytes", value.as_str().len());
        assert!(budget.used() >= value.as_str().len(), "{name}: {shape:?} is not counted");
        drop(value);
        assert_eq!(budget.used(), 0, "{name}: {shape:?}");
        let times = peak as f64 / length as f64;
        println!("{name}, {shape:?}, {length} bytes: {times:.2} x");
        assert!(times <= 3.0, "{name}: {shape:?} takes {times:.2} times its size");
    });
}

#[test]
fn a_reply_of_a_child_process_takes_three_times_its_size() {
    for shape in Shape::ALL {
        check("stdio", shape, async || stdio(shape.script()).await);
    }
}

#[test]
fn a_reply_by_http_takes_three_times_its_size() {
    for transfer in [Transfer::Announced, Transfer::Chunked, Transfer::Events] {
        for shape in Shape::ALL {
            let url = peers::serve(Body { shape, transfer });
            check(&format!("{transfer:?}"), shape, async || http(&url).await);
        }
    }
}

#[test]
fn replies_of_announced_size_wait_for_the_budget_of_their_run() {
    let (shape, calls) = (Shape::Text, 8);
    let length = shape.reply().len();
    let url = peers::serve(Body { shape, transfer: Transfer::Announced });
    block_on(async {
        let session = http(&url).await;
        let budget = ByteBudget::new("this run", 2 * length);
        let one = || async { call(&session, &budget).await.map(drop) };
        let (peak, done) = peak_of(futures(&[(); 8].map(|()| one))).await;
        assert!(done.iter().all(Result::is_ok), "{done:?}");
        println!("{calls} replies of {length} bytes in a budget for two: {:.2} x", peak as f64 / length as f64);
        assert!(peak <= 7 * length, "{peak} bytes for two replies of {length}");
        assert_eq!(budget.used(), 0);
    });
}

#[test]
fn replies_of_unknown_size_are_refused_where_the_budget_is_full() {
    let shape = Shape::Text;
    let length = shape.reply().len();
    let url = peers::serve(Body { shape, transfer: Transfer::Chunked });
    block_on(async {
        let session = http(&url).await;
        let budget = ByteBudget::new("this run", length / 2);
        let refused = call(&session, &budget).await.unwrap_err();
        let LinkError::OverBudget { refused, sent: true } = refused else { panic!("{refused:?}") };
        assert_eq!((refused.budget, refused.limit), ("this run", length / 2));
        assert!(refused.to_string().contains("make fewer calls at one time"), "{refused}");
        assert_eq!(budget.used(), 0);
    });
}

#[test]
fn a_call_that_does_not_fit_its_budget_is_not_sent() {
    let url = peers::serve(Body { shape: Shape::Text, transfer: Transfer::Announced });
    block_on(async {
        let session = http(&url).await;
        let options = ToolCallOptions { budget: ByteBudget::new("this run", 100_000), ..ToolCallOptions::default() };
        let arguments = json!({ "text": "x".repeat(200_000) }).as_object().cloned().unwrap();
        let tool = ToolName { name: "t", input_schema: &Value::Null };
        let refused = session.call(tool, arguments, options).await.unwrap_err();
        assert!(matches!(refused, LinkError::OverBudget { sent: false, .. }), "{refused:?}");
    });
}

/// Runs all at one time.
async fn futures<F: AsyncFn() -> R, R>(work: &[F]) -> Vec<R> {
    let mut running: Vec<_> = work.iter().map(|work| (Box::pin(work()), None)).collect();
    std::future::poll_fn(|context| {
        for (future, result) in &mut running {
            if result.is_none()
                && let std::task::Poll::Ready(done) = future.as_mut().poll(context)
            {
                *result = Some(done);
            }
        }
        if running.iter().all(|(_, result)| result.is_some()) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    running.into_iter().filter_map(|(_, result)| result).collect()
}

/// A server that answers every call with the length of its only argument.
struct Length(broadcast::Sender<ChangeNotice>);

impl Service for Length {
    fn identity(&self) -> Identity {
        Identity { name: "length".to_owned(), version: "1".to_owned(), instructions: String::new() }
    }

    fn tools(&self, _: &RequestScope) -> Vec<Value> {
        Vec::new()
    }

    fn call(&self, call: ToolCall) -> ServiceFuture<ServiceAnswer> {
        let length = call.arguments.get("text").and_then(Value::as_str).map_or(0, str::len);
        ready(Ok(json!({ "content": [], "structuredContent": { "length": length } }).into()))
    }

    fn changes(&self) -> broadcast::Receiver<ChangeNotice> {
        self.0.subscribe()
    }
}

/// Posts a body to a server on this thread; its response, and the peak of this thread.
fn post(body: String) -> (usize, String) {
    block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let service = Arc::new(Length(broadcast::channel(1).0));
        let serving = tokio::spawn(async move { axum::serve(listener, router(service, HttpOptions::default())).await });
        let client = tokio::task::spawn_blocking(move || exchange(address, &body));
        let (peak, response) = peak_of(async { client.await.unwrap() }).await;
        serving.abort();
        (peak, response)
    })
}

fn exchange(address: std::net::SocketAddr, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write_request(&mut stream, body);
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

fn write_request(stream: &mut TcpStream, body: &str) {
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json\r\n\
         MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: t\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
}

fn request(arguments: &str) -> String {
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}"#;
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","arguments":{arguments},{meta}}}}}"#
    )
}

#[test]
fn a_body_takes_four_times_its_size() {
    let body = request(&json!({ "text": "x".repeat(8 << 20) }).to_string());
    let length = body.len();
    let (peak, response) = post(body);
    assert!(response.contains(r#"{"length":8388608}"#), "{response}");
    println!("a body of {length} bytes with one text: {:.2} x", peak as f64 / length as f64);
    // The text, its tree, and the argument that the service gets of it.
    assert!(peak <= 4 * length, "{peak} bytes for {length}");
}

#[test]
fn a_body_of_many_values_is_refused_before_they_take_memory() {
    let body = request(&format!(r#"{{"list":[{}1]}}"#, "1,".repeat(6 << 20)));
    let length = body.len();
    let (peak, response) = post(body);
    assert!(response.starts_with("HTTP/1.1 413"), "{response}");
    assert!(response.contains("send large data as one string, or in several parts"), "{response}");
    assert!(response.contains(r#""id":1"#), "{response}");
    println!("a body of {length} bytes with many values: {:.2} x", peak as f64 / length as f64);
    assert!(peak <= 3 * length, "{peak} bytes for {length}");
}

/// A server whose calls are answered with a text of this length, counted in a budget of its own.
struct Large(Length, usize, ByteBudget);

impl Service for Large {
    fn identity(&self) -> Identity {
        self.0.identity()
    }

    fn tools(&self, scope: &RequestScope) -> Vec<Value> {
        self.0.tools(scope)
    }

    fn call(&self, _: ToolCall) -> ServiceFuture<ServiceAnswer> {
        ready(Ok(json!({ "content": [{ "type": "text", "text": "x".repeat(self.1) }] }).into()))
    }

    fn reply_budget(&self, _: &RequestScope, _: u64) -> ByteBudget {
        self.2.clone()
    }

    fn changes(&self) -> broadcast::Receiver<ChangeNotice> {
        self.0.changes()
    }
}

#[test]
fn replies_count_until_their_clients_have_read_them() {
    // More than the buffers of a connection take.
    let (length, clients) = (16 << 20, 4);
    block_on(async {
        let budget = ByteBudget::new("this caller", 2 * length + 10_000);
        let service = Arc::new(Large(Length(broadcast::channel(1).0), length, budget.clone()));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move { axum::serve(listener, router(service, HttpOptions::default())).await });
        let reading: Vec<_> = (0..clients)
            .map(|_| {
                let (body, budget) = (request("{}"), budget.clone());
                tokio::task::spawn_blocking(move || {
                    let mut stream = TcpStream::connect(address).unwrap();
                    write_request(&mut stream, &body);
                    // Its own reply, or one before it, waits for a reader.
                    while budget.used() < length {
                        std::thread::sleep(std::time::Duration::from_millis(1));
                    }
                    let mut response = Vec::new();
                    stream.read_to_end(&mut response).unwrap();
                    response.len()
                })
            })
            .collect();
        for client in reading {
            assert!(client.await.unwrap() > length);
        }
        assert_eq!(budget.used(), 0);
        serving.abort();
    });
}
