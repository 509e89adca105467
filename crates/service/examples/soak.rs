//! Runs many small programs through one HTTP service, and prints the memory of its process:
//! `cargo run -p toolgate-service --example soak -- 100000 [8]` for so many runs over so many connections.
//!
//! The programs return values, fail, print, call tools that exist and that do not, compute over data, return long values
//! that are shaped and kept, and run out of time and memory. Every answer is checked. Each line has the runs so far, the
//! resident memory and its part that is no file in KB, the file descriptors, and the median and the 99th percentile of the
//! last runs' milliseconds.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde_json::{Value, json};
use toolgate_catalog::CatalogHandle;
use toolgate_config::checked::Http;
use toolgate_config::values::HttpAuth;
use toolgate_engine::Engine;
use toolgate_gateway::bridge::Bridge;
use toolgate_gateway::bridge::scripted::Script;
use toolgate_gateway::run::{FixedEnvironment, Runner};
use toolgate_output::results::{ResultLimits, ResultStore};
use toolgate_service::rpc_sessions::{MemoryStore, RpcSessions, SystemClock};
use toolgate_service::{
    AdmissionRules, HttpService, ServerLimits, ServiceLimits, ServiceParts, Shutdown, listen, serve,
};

type Failure = Box<dyn Error + Send + Sync>;

/// Runs between two lines.
const LINE_INTERVAL: u64 = 10_000;

fn main() -> Result<(), Failure> {
    // The engine starts this program again to get its sandboxes.
    toolgate_engine::take_over_if_asked();
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let runs = arguments.next().transpose()?.unwrap_or(100_000);
    let connections = arguments.next().transpose()?.unwrap_or(8);
    let runtime = tokio::runtime::Runtime::new()?;
    let shutdown = Shutdown::default();
    let at = runtime.block_on(start(&shutdown))?;
    println!("{:>9} {:>9} {:>9} {:>5} {:>8} {:>8}", "runs", "rss KB", "anon KB", "fds", "p50 ms", "p99 ms");
    let mut done = 0;
    while done < runs {
        let times = load(at, done, LINE_INTERVAL.min(runs - done), connections)?;
        done += times.len() as u64;
        println!("{}", line(done, times)?);
    }
    shutdown.begin.cancel();
    Ok(())
}

/// Starts the service at a free port.
async fn start(shutdown: &Shutdown) -> Result<SocketAddr, Failure> {
    let tools = json!({"backends": {"shop": {"tools": [{"name": "find", "reply": {"found": "{{what}}"}}]}}});
    let script = Script::parse(&tools.to_string())?;
    let bridge = Bridge::new(CatalogHandle::new(script.catalog()));
    script.providers().for_each(|(name, provider)| bridge.provide(name, provider));
    // Small enough to be full soon: what grows after that is kept by mistake.
    let results = ResultLimits { max_bytes: 4 << 20, ..ResultLimits::default() };
    let environment = FixedEnvironment { results: Some(ResultStore::new(results)), ..FixedEnvironment::default() };
    let clock = Arc::new(SystemClock);
    let service = HttpService::new(ServiceParts {
        runner: Runner::new(Engine::new()?, Arc::new(bridge), Arc::new(environment)),
        sessions: Arc::new(RpcSessions::new(Arc::new(MemoryStore::new(clock.clone())), clock)),
        rules: AdmissionRules::new(Http { auth: HttpAuth::None, ..Http::default() }, None),
        shutdown: shutdown.clone(),
        limits: ServiceLimits::default(),
        public_url: None,
    });
    let listener = listen(([127, 0, 0, 1], 0).into())?;
    let at = listener.local_addr()?;
    tokio::spawn(serve(listener, service.router(), shutdown.clone(), ServerLimits::default()));
    Ok(at)
}

/// The request of a run by its number, and a field of the reply with its value.
fn request(number: u64) -> (&'static str, Value, &'static str, Value) {
    match number % 12 {
        0 => ("/v1/run", json!({"code": format!("return {number} + 1")}), "/value", json!(number + 1)),
        1 => ("/v1/run", json!({"code": "throw new Error('no')"}), "/code", json!("RUNTIME")),
        2 => ("/v1/run", json!({"code": "for (let n = 0; n < 50; n++) console.log('line', n)"}), "/ok", json!(true)),
        3 => {
            let code = format!("return (await shop.find({{ what: 'tea {number}' }})).found");
            ("/v1/run", json!({ "code": code }), "/value", json!(format!("tea {number}")))
        }
        4 => ("/v1/run", json!({"code": "return shop.fnid({})"}), "/code", json!("INVALID_CODE")),
        5 => {
            let data: Vec<u64> = (0..1000).collect();
            ("/v1/compute", json!({"code": "(data) => data.length", "data": data}), "/value", json!(1000))
        }
        6 => {
            let code = "return Array.from({length: 2000}, (_, id) => ({id, name: 'row ' + id}))";
            ("/v1/run", json!({"code": code, "maxOutputSize": 4096}), "/ok", json!(true))
        }
        7 => ("/v1/run", json!({"code": "return 'x'.repeat(200_000)"}), "/ok", json!(true)),
        8 => ("/v1/run", json!({"code": "for (;;);", "timeoutMs": 20}), "/code", json!("TIMEOUT")),
        9 => {
            let code = "const all = []; for (;;) all.push(new Array(10000).fill(1))";
            ("/v1/run", json!({"code": code, "maxHeapMB": 4, "timeoutMs": 60_000}), "/code", json!("MEMORY"))
        }
        10 => {
            let code = "for (let n = 0; n < 30; n++) try { await shop['x'.repeat(60_000) + n]({}) } catch {} return 1";
            ("/v1/run", json!({ "code": code }), "/value", json!(1))
        }
        _ => ("/v1/run", json!({"code": "return 'x'.repeat(4_000_000)"}), "/ok", json!(true)),
    }
}

/// Makes runs over all connections; the milliseconds of each.
fn load(at: SocketAddr, first: u64, count: u64, connections: u64) -> Result<Vec<f64>, Failure> {
    let next = AtomicU64::new(first);
    let client = || -> Result<Vec<f64>, Failure> {
        let mut stream = BufReader::new(TcpStream::connect(at)?);
        stream.get_ref().set_nodelay(true)?;
        let mut times = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= first + count {
                return Ok(times);
            }
            let (path, body, field, expected) = request(number);
            let since = Instant::now();
            let reply = ask(&mut stream, path, &body)?;
            times.push(since.elapsed().as_secs_f64() * 1e3);
            if reply.pointer(field) != Some(&expected) {
                return Err(format!("run {number}: {reply}").into());
            }
        }
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..connections).map(|_| scope.spawn(client)).collect();
        let joined = clients.into_iter().map(|client| client.join().map_err(|_| "a client panicked")?);
        joined.collect::<Result<Vec<_>, Failure>>().map(|times| times.concat())
    })
}

fn ask(stream: &mut BufReader<TcpStream>, path: &str, body: &Value) -> Result<Value, Failure> {
    let body = body.to_string();
    let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n");
    let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    stream.get_mut().write_all(request.as_bytes())?;
    let (mut length, mut line) = (0, String::new());
    loop {
        line.clear();
        stream.read_line(&mut line)?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut reply = vec![0; length];
    stream.read_exact(&mut reply)?;
    Ok(serde_json::from_slice(&reply)?)
}

fn line(done: u64, mut times: Vec<f64>) -> Result<String, Failure> {
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times.get((times.len() as f64 * share) as usize).copied().unwrap_or_default();
    let status = std::fs::read_to_string("/proc/self/status")?;
    let field = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        value.trim().trim_end_matches(" kB").to_owned()
    };
    let (resident, anonymous) = (field("VmRSS:"), field("RssAnon:"));
    let descriptors = std::fs::read_dir("/proc/self/fd")?.count();
    Ok(format!("{done:>9} {resident:>9} {anonymous:>9} {descriptors:>5} {:>8.2} {:>8.2}", at(0.5), at(0.99)))
}
