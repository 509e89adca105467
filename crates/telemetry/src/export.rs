//! The thread that sends spans and metrics, and the little HTTP that it speaks.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use serde_json::Value;

use crate::histogram::Histograms;
use crate::waiting::Waiting;
use crate::{Span, encode};

/// Spans of one request.
pub(crate) const MAX_BATCH: usize = 512;
/// How often metrics are sent.
const METRIC_INTERVAL: Duration = Duration::from_secs(15);
/// How long a collector may take for one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest answer that is read.
const MAX_ANSWER: u64 = 64 * 1024;

/// Where spans and metrics go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collector {
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// What comes before `/v1/traces`; empty or beginning with a slash.
    pub path: String,
    /// Headers of each request, such as a key.
    pub headers: Vec<(String, String)>,
    /// `service.name`
    pub service: String,
}

/// Sends what comes in.
pub(crate) struct Exporter {
    collector: Collector,
    resource: Value,
    histograms: Arc<Mutex<Histograms>>,
    lost: Arc<AtomicU64>,
    failed: bool,
}

impl Exporter {
    pub(crate) fn new(collector: Collector, histograms: Arc<Mutex<Histograms>>, lost: Arc<AtomicU64>) -> Self {
        let resource = encode::resource(&collector.service);
        Exporter { collector, resource, histograms, lost, failed: false }
    }

    /// Sends until no more can come.
    pub(crate) fn send_all(mut self, waiting: &Waiting) {
        let mut metrics_due = Instant::now() + METRIC_INTERVAL;
        loop {
            let taken = waiting.take(metrics_due);
            for spans in taken.spans.chunks(MAX_BATCH) {
                self.send_spans(spans);
            }
            if !taken.flushes.is_empty() || metrics_due <= Instant::now() {
                self.send_metrics();
                metrics_due = Instant::now() + METRIC_INTERVAL;
            }
            for done in taken.flushes {
                // The receiver may have given up.
                let _ = done.try_send(());
            }
            if taken.is_last {
                return;
            }
        }
    }

    fn send_spans(&mut self, spans: &[Span]) {
        let body = encode::traces(&self.resource, spans);
        if !self.send("/v1/traces", &body) {
            self.lost.fetch_add(spans.len() as u64, Ordering::Relaxed);
        }
    }

    fn send_metrics(&mut self) {
        // Copied, so that no run waits for the lock while the body is written.
        let all = {
            let mut all = self.histograms.lock();
            if !std::mem::take(&mut all.changed) {
                return;
            }
            all.clone()
        };
        let body = encode::metrics(&self.resource, &all, SystemTime::now());
        if !self.send("/v1/metrics", &body) {
            // They are sums: the next request says the same and more.
            self.histograms.lock().changed = true;
        }
    }

    fn send(&mut self, path: &str, body: &Value) -> bool {
        let sent = post(&self.collector, path, &body.to_string());
        if let Err(error) = &sent
            && !self.failed
        {
            tracing::warn!(%error, "the collector of traces and metrics takes nothing; spans are lost until it does");
        }
        self.failed = sent.is_err();
        sent.is_ok()
    }
}

/// A connection to the first of the addresses that takes one: `localhost` is two, and a collector may listen at either.
fn connect(addresses: impl Iterator<Item = SocketAddr>) -> io::Result<TcpStream> {
    let mut failed = io::Error::other("the name of the collector has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, REQUEST_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(in_words(failed))
}

/// A time-out is not what the system calls it: "resource temporarily unavailable".
fn in_words(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => io::Error::new(
            io::ErrorKind::TimedOut,
            format!("the collector did not answer within {} s", REQUEST_TIMEOUT.as_secs()),
        ),
        _ => error,
    }
}

/// One request on a connection of its own.
fn post(collector: &Collector, path: &str, body: &str) -> io::Result<()> {
    let Collector { host, port, path: prefix, headers, .. } = collector;
    let mut stream = connect((host.as_str(), *port).to_socket_addrs()?)?;
    stream.set_write_timeout(Some(REQUEST_TIMEOUT))?;
    stream.set_read_timeout(Some(REQUEST_TIMEOUT))?;
    let shown = if host.contains(':') { format!("[{host}]") } else { host.clone() };
    let mut head =
        format!("POST {prefix}{path} HTTP/1.1\r\nHost: {shown}:{port}\r\nContent-Type: application/json\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("Content-Length: {}\r\nConnection: close\r\n\r\n", body.len()));
    stream.write_all(head.as_bytes()).map_err(in_words)?;
    stream.write_all(body.as_bytes()).map_err(in_words)?;
    let mut reader = BufReader::new(stream.take(MAX_ANSWER));
    let mut line = String::new();
    reader.read_line(&mut line).map_err(in_words)?;
    match line.split(' ').nth(1) {
        Some(status) if status.starts_with('2') => Ok(()),
        _ => Err(io::Error::other(format!("the collector answered {:?}", line.trim()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn every_address_of_a_collector_is_tried() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let taken = listener.local_addr().expect("an address");
        // Nothing listens at a port that was free a moment ago.
        let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port");
        let connected = connect([free, taken].into_iter()).expect("the second address");
        assert_eq!(connected.peer_addr().expect("an address"), taken);
        assert!(connect([free].into_iter()).is_err());
        assert!(connect(std::iter::empty()).is_err_and(|error| error.to_string().contains("has no address")));
    }

    #[test]
    fn a_time_out_is_called_one() {
        let error = in_words(io::Error::from(io::ErrorKind::WouldBlock));
        assert_eq!(error.to_string(), "the collector did not answer within 2 s");
    }
}
