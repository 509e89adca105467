//! What a call of an HTTP API costs over the request itself: a backend of type `openapi` and a plain client side by side.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Map, json};
use toolgate_gateway::backends::{ApiSpec, BackendKind, BackendSpec, Backends, CallOptions, DocumentSource};

use super::meter::{Meter, Samples, micros};

/// How long the backend may take to come up.
const START_TIMEOUT: Duration = Duration::from_secs(30);
const BODY: &str = r#"{"id":7,"name":"Rex","status":"sold"}"#;

/// One operation through the backend, less the same request by a plain client over a kept connection right before it.
pub(super) fn overhead(meter: &Meter) -> anyhow::Result<Samples> {
    let address = serve()?;
    let file = std::env::temp_dir().join(format!("toolgate-bench-api-{}.json", std::process::id()));
    std::fs::write(&file, document().to_string()).context("cannot write the document")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let api = ApiSpec {
        document: DocumentSource::File(file.clone()),
        base: format!("http://{address}/v1").parse().context("no URL")?,
        auth: Default::default(),
        login: None,
        headers: Vec::new(),
        include: Vec::new(),
        exclude: Vec::new(),
        allow: vec!["127.0.0.1".to_owned()],
    };
    let backend = runtime.block_on(async {
        let backends = Backends::start_all([BackendSpec::new("api", BackendKind::OpenApi(Box::new(api)))]);
        let backend = backends.get("api").context("no backend")?;
        backend.ready(START_TIMEOUT).await?;
        anyhow::Ok(backend)
    });
    let _ = std::fs::remove_file(&file);
    let backend = backend?;
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
