//! The HTTP service under load: sixteen connections of this process, each asking for `return 1+1` again and again.
//!
//! Server and clients share the machine's cores, so the rate is a lower bound of what the service alone could do.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use tokio::runtime::Runtime;
use toolgate_bridge::Bridge;
use toolgate_catalog::CatalogHandle;
use toolgate_config::checked::Http;
use toolgate_config::values::HttpAuth;
use toolgate_engine::{Engine, EngineBuilder};
use toolgate_run::{FixedEnvironment, Runner};
use toolgate_service::rpc_sessions::{MemorySessionStore, RpcSessions, SystemClock};
use toolgate_service::{
    AdmissionRules, HttpService, ServerLimits, ServiceLimits, ServiceParts, Shutdown, listen, serve,
};

use super::latency::reusing_engine;
use super::meter::{Meter, Samples, micros};

const CONNECTIONS: u32 = 16;
/// Each gives one rate, so that the row shows how steady it is.
const BATCHES: u32 = 10;
const BODY: &str = r#"{"code":"return 1+1"}"#;
const EXPECTED: &str = r#""ok":true,"value":2,"#;
const REWOUND: &str = r#""rewound":true"#;

/// Requests a second.
pub(super) fn rate(meter: &Meter) -> anyhow::Result<Samples> {
    rates(meter, &Served::start(Engine::builder())?)
}

/// The same with workers that are put back after each run: without keys, every request is of one caller.
pub(super) fn rewound_rate(meter: &Meter) -> anyhow::Result<Samples> {
    let served = Served::start(reusing_engine())?;
    // Each connection may have got a fresh worker in the requests before: what is asked alone gets one that was used.
    let answer = Client::connect(served.at)?.ask()?;
    anyhow::ensure!(answer.contains(REWOUND), "this system does not permit a host to put its workers back");
    rates(meter, &served)
}

fn rates(meter: &Meter, served: &Served) -> anyhow::Result<Samples> {
    let batch = meter.runs.div_ceil(BATCHES);
    let batches = meter.runs.div_ceil(batch);
    let values = (0..batches)
        .map(|_| {
            let since = Instant::now();
            served.load(batch)?;
            meter.progress.inc(batch.into());
            Ok(f64::from(batch) / since.elapsed().as_secs_f64())
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    Ok(Samples { n: (batch * batches) as usize, values })
}

/// How long each of them takes.
pub(super) fn latency(meter: &Meter) -> anyhow::Result<Samples> {
    let served = Served::start(Engine::builder())?;
    let times = served.load(meter.runs)?;
    meter.progress.inc(meter.runs.into());
    Ok(times.into())
}

/// A service on a free port of this machine.
struct Served {
    at: SocketAddr,
    shutdown: Shutdown,
    _runtime: Runtime,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.shutdown.begin.cancel();
    }
}

impl Served {
    fn start(engine: EngineBuilder) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let shutdown = Shutdown::default();
        let at = {
            let _inside = runtime.enter();
            let clock = Arc::new(SystemClock);
            let http = Http { auth: HttpAuth::None, ..Http::default() };
            let service = HttpService::new(ServiceParts {
                runner: Runner::new(
                    engine.build()?,
                    Arc::new(Bridge::new(CatalogHandle::default())),
                    Arc::new(FixedEnvironment::default()),
                ),
                sessions: Arc::new(RpcSessions::new(Arc::new(MemorySessionStore::new(clock.clone())), clock)),
                rules: AdmissionRules::new(http, None),
                shutdown: shutdown.clone(),
                limits: ServiceLimits::default(),
                public_url: None,
            });
            let listener = listen(([127, 0, 0, 1], 0).into())?;
            let at = listener.local_addr()?;
            runtime.spawn(serve(listener, service.router(), shutdown.clone(), ServerLimits::default()));
            at
        };
        let served = Served { at, shutdown, _runtime: runtime };
        // Connections, workers and code paths are warm before anything counts.
        served.load(4 * CONNECTIONS)?;
        Ok(served)
    }

    /// Sends this many requests over all connections, and gives the microseconds of each.
    fn load(&self, requests: u32) -> anyhow::Result<Vec<f64>> {
        let taken = AtomicU32::new(0);
        let ask = || {
            let mut client = Client::connect(self.at)?;
            let mut times = Vec::new();
            while taken.fetch_add(1, Ordering::Relaxed) < requests {
                let since = Instant::now();
                client.ask()?;
                times.push(micros(since.elapsed()));
            }
            anyhow::Ok(times)
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(ask)).collect();
            let joined = threads.into_iter().map(|it| it.join().map_err(|_| anyhow::anyhow!("a client was lost"))?);
            joined.collect::<anyhow::Result<Vec<_>>>().map(|times| times.concat())
        })
    }
}

/// One connection that is kept.
struct Client {
    stream: BufReader<TcpStream>,
    request: String,
    line: String,
    body: Vec<u8>,
}

impl Client {
    fn connect(at: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(at)?;
        stream.set_nodelay(true)?;
        let head = format!("POST /v1/run HTTP/1.1\r\nHost: {at}\r\nContent-Type: application/json\r\n");
        let request = format!("{head}Content-Length: {}\r\n\r\n{BODY}", BODY.len());
        Ok(Client { stream: BufReader::new(stream), request, line: String::new(), body: Vec::new() })
    }

    /// Sends the request and reads its answer, which must be right: a benchmark of wrong answers is worth nothing.
    fn ask(&mut self) -> anyhow::Result<String> {
        self.stream.get_mut().write_all(self.request.as_bytes())?;
        let mut length = 0;
        loop {
            self.line.clear();
            anyhow::ensure!(self.stream.read_line(&mut self.line)? > 0, "the server closed a connection");
            let line = self.line.trim_end();
            if line.is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(": ")
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.parse()?;
            }
        }
        self.body.resize(length, 0);
        self.stream.read_exact(&mut self.body)?;
        let text = String::from_utf8_lossy(&self.body);
        anyhow::ensure!(text.contains(EXPECTED), "a run went wrong: {text}");
        Ok(text.into_owned())
    }
}
