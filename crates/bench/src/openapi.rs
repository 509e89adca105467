//! HTTP APIs with an OpenAPI document: what a call costs over the request itself, by a backend and a plain client side by
//! side, and what a large document costs in time and memory.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Map, json};
use toolgate_backends::{ApiSpec, Backend, BackendKind, BackendSpec, Backends, CallOptions, DocumentSource};

use super::gateway::resident;
use super::meter::{Meter, Samples, micros};

/// How long the backend may take to come up.
const START_TIMEOUT: Duration = Duration::from_secs(30);
const BODY: &str = r#"{"id":7,"name":"Rex","status":"sold"}"#;

/// One operation through the backend, less the same request by a plain client over a kept connection right before it.
pub(super) fn overhead(meter: &Meter) -> anyhow::Result<Samples> {
    let address = serve()?;
    let file = DocumentFile::new(&document())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let backend = runtime.block_on(started(&file, &format!("http://{address}/v1")))?;
    let mut plain = TcpStream::connect(address)?;
    plain.set_nodelay(true)?;
    let arguments = Map::from_iter([("id".to_owned(), json!(7))]);
    let samples = meter.sample_in_a_row(|| {
        let alone = timed(|| request(&mut plain, address))?;
        let call = || runtime.block_on(backend.call("getPet", arguments.clone(), CallOptions::default()));
        let there = timed(|| Ok(call()?.into_text()))?;
        Ok(there - alone)
    });
    runtime.block_on(backend.shut_down());
    samples
}

/// From the start of a backend with a document of 600 operations until its tools are known.
pub(super) fn load(meter: &Meter) -> anyhow::Result<Samples> {
    let file = DocumentFile::new(&large_document())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    meter.sample(|| {
        let since = Instant::now();
        let backend = runtime.block_on(started(&file, BASE))?;
        let took = micros(since.elapsed());
        anyhow::ensure!(backend.tools().len() == OPERATIONS, "{} tools", backend.tools().len());
        runtime.block_on(backend.shut_down());
        Ok(took)
    })
}

/// Memory that such a backend keeps: the growth of this process, divided among all that were started. None is ended before
/// the last is there, so that none is made of what another one gave back.
pub(super) fn kept_memory(meter: &Meter) -> anyhow::Result<Samples> {
    let file = DocumentFile::new(&large_document())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut kept = Vec::new();
    let before = resident(std::process::id())?;
    let samples = meter.sample(|| {
        let backend = runtime.block_on(started(&file, BASE))?;
        anyhow::ensure!(backend.tools().len() == OPERATIONS, "{} tools", backend.tools().len());
        kept.push(backend);
        Ok((resident(std::process::id())? - before) / kept.len() as f64)
    });
    for backend in kept {
        runtime.block_on(backend.shut_down());
    }
    samples
}

/// Where no request goes.
const BASE: &str = "https://api.example.com/v1";
const OPERATIONS: usize = 600;
const SCHEMAS: usize = 300;

/// A document of the size and the habits of large real ones: a megabyte, schemas that refer to some others.
fn large_document() -> serde_json::Value {
    let text = |about: &str| json!({ "type": "string", "description": format!("{about}, as the service names it in all of its answers.") });
    let reference = |n: usize| json!({ "$ref": format!("#/components/schemas/Schema{}", n % SCHEMAS) });
    let schema = |n: usize| {
        let mut properties: Map<String, serde_json::Value> =
            (0..12).map(|field| (format!("field_{field}"), text(&format!("Field {field} of schema {n}")))).collect();
        // Four schemas belong together, as in real documents; were all of them to reach all others, every tool would be cut.
        if n % 4 < 3 {
            properties.insert("next".to_owned(), reference(n + 1));
            properties.insert("items".to_owned(), json!({ "type": "array", "items": reference(n - n % 4) }));
        }
        (format!("Schema{n}"), json!({ "type": "object", "required": ["field_0"], "properties": properties }))
    };
    let operation = |n: usize| {
        let query = |name: &str| json!({ "name": name, "in": "query", "schema": text("A value to look for") });
        let content = |n: usize| json!({ "application/json": { "schema": reference(n) } });
        let post = json!({
            "operationId": format!("operation_{n}"), "summary": format!("Does the thing number {n} to an item of the collection."),
            "parameters": [{ "name": "id", "in": "path", "required": true, "schema": { "type": "integer" } },
                query("filter"), query("sort"), query("page"), query("fields")],
            "requestBody": { "required": true, "content": content(n) },
            "responses": { "200": { "description": "Done.", "content": content(n * 3 + 1) } },
        });
        (format!("/collection{n}/{{id}}"), json!({ "post": post }))
    };
    json!({
        "openapi": "3.0.3", "info": { "title": "large", "version": "1" },
        "paths": (0..OPERATIONS).map(operation).collect::<Map<_, _>>(),
        "components": { "schemas": (0..SCHEMAS).map(schema).collect::<Map<_, _>>() },
    })
}

/// A document in a file of its own, which goes with it.
struct DocumentFile(PathBuf);

impl DocumentFile {
    fn new(document: &serde_json::Value) -> anyhow::Result<Self> {
        let file = std::env::temp_dir().join(format!("toolgate-bench-api-{}.json", std::process::id()));
        std::fs::write(&file, document.to_string()).context("cannot write the document")?;
        Ok(Self(file))
    }
}

impl Drop for DocumentFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A backend with a document, ready for calls.
async fn started(file: &DocumentFile, base: &str) -> anyhow::Result<Backend> {
    let api = ApiSpec {
        document: DocumentSource::File(file.0.clone()),
        base: base.parse().context("no URL")?,
        auth: Default::default(),
        login: None,
        headers: Vec::new(),
        include: Vec::new(),
        exclude: Vec::new(),
        allow: vec!["127.0.0.1".to_owned()],
    };
    let backends = Backends::start_all([BackendSpec::new("api", BackendKind::OpenApi(Box::new(api)))]);
    let backend = backends.get("api").context("no backend")?;
    backend.ready(START_TIMEOUT).await?;
    Ok(backend)
}

fn timed<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<f64> {
    let since = Instant::now();
    work()?;
    Ok(micros(since.elapsed()))
}

fn document() -> serde_json::Value {
    json!({
        "openapi": "3.1.0", "info": { "title": "pets", "version": "1" },
        "paths": { "/pets/{id}": { "get": {
            "operationId": "getPet",
            "parameters": [{ "name": "id", "in": "path", "required": true, "schema": { "type": "integer" } }],
            "responses": { "200": { "description": "A pet.", "content": { "application/json": { "schema": { "type": "object" } } } } },
        } } },
    })
}

/// An API that answers every request with one pet, until this process ends.
fn serve() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer_all(stream));
        }
    });
    Ok(address)
}

fn answer_all(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let length = BODY.len();
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{BODY}");
    while read_until(&mut stream, b"\r\n\r\n")? {
        stream.write_all(answer.as_bytes())?;
    }
    Ok(())
}

fn request(stream: &mut TcpStream, address: SocketAddr) -> anyhow::Result<()> {
    write!(stream, "GET /v1/pets/7 HTTP/1.1\r\nhost: {address}\r\naccept: application/json\r\n\r\n")?;
    anyhow::ensure!(read_until(stream, BODY.as_bytes())?, "the API went away");
    Ok(())
}

/// Reads a message, which ends with these bytes; false at the end of the stream.
fn read_until(stream: &mut TcpStream, end: &[u8]) -> std::io::Result<bool> {
    let (mut received, mut chunk) = (Vec::new(), [0; 4096]);
    while !received.ends_with(end) {
        match stream.read(&mut chunk)? {
            0 => return Ok(false),
            read => received.extend_from_slice(chunk.get(..read).unwrap_or_default()),
        }
    }
    Ok(true)
}
