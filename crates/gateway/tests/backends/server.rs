//! A small MCP server over HTTP/1.1, written by hand so that it can also do the wrong thing.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use toolgate_mcp::protocol::Era;

/// One request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) verb: String,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) message: Value,
}

/// The server's side of the story.
#[derive(Debug)]
pub(crate) struct Server {
    era: Era,
    pub(crate) url: String,
    /// How many sessions were opened; only the newest is known.
    sessions: watch::Sender<u64>,
    requests: Mutex<Vec<Request>>,
    tools: Mutex<Vec<String>>,
    resources: Mutex<Vec<String>>,
    /// All news so far. Every open stream carries what comes; the next one also what none has carried yet.
    news: watch::Sender<Vec<Value>>,
    carried: AtomicUsize,
    /// How many streams of hanging calls the client closed.
    pub(crate) hung_up: watch::Sender<u64>,
    /// Every message heard, by method.
    pub(crate) heard: watch::Sender<Vec<String>>,
    /// The status of every refusal to come, if any.
    pub(crate) refuse_with: Mutex<Option<u16>>,
}

impl Server {
    pub(crate) async fn start(era: Era) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Arc::new(Self {
            era,
            url: format!("http://{}/mcp", listener.local_addr().unwrap()),
            sessions: watch::channel(0).0,
            requests: Mutex::default(),
            tools: Mutex::new(["echo", "stream", "hang", "resume", "large", "grow"].map(str::to_owned).to_vec()),
            resources: Mutex::new(["web://one", "web://two"].map(str::to_owned).to_vec()),
            news: watch::Sender::default(),
            carried: AtomicUsize::new(0),
            hung_up: watch::channel(0).0,
            heard: watch::channel(Vec::new()).0,
            refuse_with: Mutex::default(),
        });
        let accepting = Arc::clone(&server);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(Arc::clone(&accepting).serve(stream));
            }
        });
        server
    }

    /// Forgets every session, as a restarted server would.
    pub(crate) fn forget_sessions(&self) {
        self.sessions.send_modify(|sessions| *sessions += 1000);
    }

    /// Says something that nobody asked for.
    pub(crate) fn tell(&self, method: &str, params: &Value) {
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.news.send_modify(|news| news.push(message));
    }

    /// Has one more resource, and says so.
    pub(crate) fn grow(&self, uri: &str) {
        self.resources.lock().unwrap().push(uri.to_owned());
        self.tell("notifications/resources/list_changed", &json!({}));
    }

    /// How often it heard this method.
    pub(crate) fn times(&self, method: &str) -> usize {
        self.heard.borrow().iter().filter(|heard| *heard == method).count()
    }

    /// The last request with this method.
    pub(crate) fn last(&self, method: &str) -> Option<Request> {
        let requests = self.requests.lock().unwrap();
        requests.iter().rfind(|request| request.message["method"] == method).cloned()
    }

    async fn serve(self: Arc<Self>, stream: TcpStream) {
        let mut stream = BufReader::new(stream);
        let Some(request) = read(&mut stream).await else { return };
        self.requests.lock().unwrap().push(request.clone());
        let method = request.message["method"].as_str().unwrap_or("answer").to_owned();
        self.heard.send_modify(|heard| heard.push(method.clone()));
        let refused = *self.refuse_with.lock().unwrap();
        match refused {
            Some(status) => respond(&mut stream, status, "text/plain", "", "go away").await,
            None if request.verb == "GET" => self.serve_get(&request, &mut stream).await,
            None if request.verb == "DELETE" => respond(&mut stream, 200, "text/plain", "", "").await,
            None => self.serve_post(&method, &request, &mut stream).await,
        }
    }

    async fn serve_post(&self, method: &str, request: &Request, stream: &mut BufReader<TcpStream>) {
        let id = &request.message["id"];
        let session = format!("session-{}", *self.sessions.borrow());
        match (self.era, method) {
            (Era::Legacy, "server/discover") => return respond(stream, 400, "text/plain", "", "no session").await,
            (Era::Legacy, "initialize") => {
                self.sessions.send_modify(|sessions| *sessions += 1);
                let header = format!("Mcp-Session-Id: session-{}\r\n", *self.sessions.borrow());
                let result = json!({ "protocolVersion": "2025-06-18", "capabilities": capabilities(),
                    "serverInfo": { "name": "http", "version": "1" } });
                return json_reply(stream, id, &header, &result).await;
            }
            (Era::Legacy, _) if request.headers.get("mcp-session-id") != Some(&session) => {
                return respond(stream, 404, "text/plain", "", "unknown session").await;
            }
            (Era::Modern, _) if request.headers.get("mcp-method").map(String::as_str) != Some(method) => {
                let error =
                    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32020, "message": "header mismatch" } });
                return respond(stream, 400, "application/json", "", &error.to_string()).await;
            }
            (Era::Modern, "server/discover") => {
                let result = json!({ "resultType": "complete", "supportedVersions": ["2026-07-28"],
                    "capabilities": capabilities() });
                return json_reply(stream, id, "", &result).await;
            }
            _ => {}
        }
        match method {
            "tools/list" => {
                let tools = self.tools.lock().unwrap().clone();
                let schema = json!({ "type": "object", "properties": { "region": { "type": "string", "x-mcp-header": "Region" } } });
                let tools: Vec<_> = tools.iter().map(|name| json!({ "name": name, "inputSchema": schema })).collect();
                json_reply(stream, id, "", &json!({ "resultType": "complete", "tools": tools })).await;
            }
            "tools/call" => self.serve_call(request, stream).await,
            "subscriptions/listen" => self.serve_news(Some(&request.message), stream).await,
            _ => match self.kind(method, &request.message["params"]) {
                Some(result) => json_reply(stream, id, "", &result).await,
                None => respond(stream, 202, "text/plain", "", "").await,
            },
        }
    }

    /// What there is besides tools.
    fn kind(&self, method: &str, params: &Value) -> Option<Value> {
        let value = match method {
            "resources/list" => {
                let uris = self.resources.lock().unwrap().clone();
                let entries: Vec<_> = uris.iter().map(|uri| json!({ "uri": uri, "name": uri })).collect();
                json!({ "resources": entries })
            }
            "resources/templates/list" => {
                json!({ "resourceTemplates": [{ "uriTemplate": "web://item/{id}", "name": "item" }] })
            }
            "resources/read" => json!({ "contents": [{ "uri": params["uri"], "text": "from the web" }] }),
            "resources/subscribe" | "resources/unsubscribe" => json!({}),
            "prompts/list" => json!({ "prompts": [{ "name": "greet" }] }),
            "prompts/get" => {
                let text = format!("greet {}", params["arguments"]["whom"].as_str().unwrap_or_default());
                json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": text } }] })
            }
            "completion/complete" => json!({ "completion": { "values": [params["argument"]["value"]] } }),
            _ => return None,
        };
        Some(value)
    }

    async fn serve_call(&self, request: &Request, stream: &mut BufReader<TcpStream>) {
        let (id, params) = (&request.message["id"], &request.message["params"]);
        let result = |text: &str| json!({ "content": [{ "type": "text", "text": text }] });
        match params["name"].as_str().unwrap_or_default() {
            "echo" => json_reply(stream, id, "", &json!({ "structuredContent": params["arguments"] })).await,
            "stream" => {
                open_stream(stream).await;
                let token = &params["_meta"]["progressToken"];
                let news = json!({ "progressToken": token, "progress": 1 });
                event(stream, "", &json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": news }))
                    .await;
                event(stream, "", &json!({ "jsonrpc": "2.0", "id": "q", "method": "roots/list" })).await;
                event(stream, "", &json!({ "jsonrpc": "2.0", "id": id, "result": result("streamed") })).await;
            }
            "hang" => {
                open_stream(stream).await;
                let _ = stream.read_u8().await;
                self.hung_up.send_modify(|count| *count += 1);
            }
            "resume" => {
                open_stream(stream).await;
                let cursor = format!("id: {id}\nretry: 1\n");
                event(stream, &cursor, &json!({ "jsonrpc": "2.0", "method": "notifications/message" })).await;
            }
            "large" => json_reply(stream, id, "", &result(&"x".repeat(1 << 20))).await,
            "grow" => {
                self.tools.lock().unwrap().push("fresh".to_owned());
                self.tell("notifications/tools/list_changed", &json!({}));
                json_reply(stream, id, "", &result("grown")).await;
            }
            _ => json_reply(stream, id, "", &result("?")).await,
        }
    }

    async fn serve_get(&self, request: &Request, stream: &mut BufReader<TcpStream>) {
        if let Some(last) = request.headers.get("last-event-id") {
            let id: Value = last.parse().unwrap();
            open_stream(stream).await;
            let result = json!({ "content": [{ "type": "text", "text": "resumed" }] });
            return event(stream, "", &json!({ "jsonrpc": "2.0", "id": id, "result": result })).await;
        }
        self.serve_news(None, stream).await;
    }

    /// A stream of news until the client closes it; one that was asked for is acknowledged first.
    async fn serve_news(&self, asked: Option<&Value>, stream: &mut BufReader<TcpStream>) {
        open_stream(stream).await;
        if let Some(asked) = asked {
            let meta = json!({ "io.modelcontextprotocol/subscriptionId": asked["id"] });
            let params = json!({ "_meta": meta, "notifications": asked["params"]["notifications"] });
            let method = "notifications/subscriptions/acknowledged";
            event(stream, "", &json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
        }
        let mut news = self.news.subscribe();
        let mut next = self.carried.load(Ordering::SeqCst);
        loop {
            let fresh = news.borrow_and_update()[next..].to_vec();
            next += fresh.len();
            self.carried.fetch_max(next, Ordering::SeqCst);
            for message in &fresh {
                event(stream, "", message).await;
            }
            tokio::select! {
                _ = news.changed() => {}
                _ = stream.read_u8() => return,
            }
        }
    }
}

fn capabilities() -> Value {
    json!({
        "tools": { "listChanged": true }, "resources": { "listChanged": true, "subscribe": true }, "prompts": {},
        "completions": {},
    })
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    let verb = line.split(' ').next()?.to_owned();
    let mut headers = HashMap::new();
    loop {
        line.clear();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(Request { verb, headers, message: serde_json::from_slice(&body).unwrap_or_default() })
}

async fn json_reply(stream: &mut BufReader<TcpStream>, id: &Value, headers: &str, result: &Value) {
    let body = json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string();
    respond(stream, 200, "application/json", headers, &body).await;
}

async fn respond(stream: &mut BufReader<TcpStream>, status: u16, kind: &str, headers: &str, body: &str) {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{headers}Connection: close\r\n\r\n"
    );
    // A client that left is none of the server's business.
    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
}

async fn open_stream(stream: &mut BufReader<TcpStream>) {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
    let _ = stream.write_all(head.as_bytes()).await;
}

async fn event(stream: &mut BufReader<TcpStream>, fields: &str, message: &Value) {
    let _ = stream.write_all(format!("{fields}data: {message}\n\n").as_bytes()).await;
}
