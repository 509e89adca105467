//! Traces and metrics for a collector: OTLP, as JSON over plain HTTP.
//!
//! Spans wait in a bounded list and are sent by a thread of its own; histograms are sums in memory that the same thread sends
//! from time to time. A collector that is slow or away costs spans, which are counted, and never time of a run. Plain
//! HTTP only: a collector is on this machine or beside it, and adds TLS towards elsewhere.
//!
//! # Layout
//! - [`Telemetry`]: takes spans and durations; [`Span`]: one of them
//! - [`TraceId`], [`SpanId`]: their names
//! - `waiting`: spans that are not sent yet; `histogram`: durations by attributes; `encode`: OTLP's JSON; `export`: the thread and
//!   its HTTP
//!
//! What the spans are about is up to the caller.

#![forbid(unsafe_code)]

mod encode;
mod export;
mod histogram;
mod ids;
mod waiting;

use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

pub use export::Collector;
use histogram::Histograms;
pub use histogram::Metric;
pub use ids::{SpanId, TraceId};
use waiting::Waiting;

/// How long the last spans may take at the end.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// Names and values that describe a span or a duration.
pub type Attributes = Vec<(&'static str, AttributeValue)>;

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AttributeValue {
    /// Text.
    Text(Cow<'static, str>),
    /// A whole number.
    Number(i64),
    /// True or false.
    Flag(bool),
}

impl From<&'static str> for AttributeValue {
    fn from(text: &'static str) -> Self {
        AttributeValue::Text(Cow::Borrowed(text))
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        AttributeValue::Text(Cow::Owned(text))
    }
}

/// Which side of a request a span is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// Work within this process.
    Internal,
    /// A request that was served.
    Server,
    /// A request that was sent.
    Client,
}

/// Something that took time.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// The trace that it belongs to.
    pub trace_id: TraceId,
    /// Its id.
    pub span_id: SpanId,
    /// The span around it.
    pub parent: Option<SpanId>,
    /// What `tracestate` says.
    pub tracestate: Option<String>,
    /// Its name.
    pub name: Cow<'static, str>,
    /// Which side it is about.
    pub kind: SpanKind,
    /// When it began.
    pub began: SystemTime,
    /// How long it took.
    pub took: Duration,
    /// What describes it.
    pub attributes: Attributes,
    /// Why it failed, if it did.
    pub error: Option<Cow<'static, str>>,
}

/// Sends spans and durations to a collector.
#[derive(Debug, Clone)]
pub struct Telemetry(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    waiting: Arc<Waiting>,
    histograms: Arc<Mutex<Histograms>>,
    lost: Arc<AtomicU64>,
    /// Whether the last wait for the collector was in vain: the end does not wait for it once more.
    is_late: AtomicBool,
}

impl Telemetry {
    /// Starts to send.
    ///
    /// # Errors
    /// If there can be no thread for it.
    pub fn start(collector: Collector) -> io::Result<Self> {
        let waiting = Arc::new(Waiting::default());
        let histograms = Arc::new(Mutex::new(Histograms::new(SystemTime::now())));
        let lost = Arc::new(AtomicU64::new(0));
        let exporter = export::Exporter::new(collector, histograms.clone(), lost.clone());
        let inbox = waiting.clone();
        std::thread::Builder::new().name("telemetry".into()).spawn(move || exporter.send_all(&inbox))?;
        Ok(Telemetry(Arc::new(Handle { waiting, histograms, lost, is_late: AtomicBool::new(false) })))
    }

    /// Takes spans, such as those of one run. Never waits: those that find no room are lost, and counted.
    pub fn spans(&self, spans: Vec<Span>) {
        let lost = self.0.waiting.add(spans);
        self.0.lost.fetch_add(lost as u64, Ordering::Relaxed);
    }

    /// Adds a duration to a histogram.
    pub fn duration(&self, metric: Metric, took: Duration, attributes: &[(&'static str, AttributeValue)]) {
        self.0.histograms.lock().add(metric, took.as_secs_f64(), attributes);
    }

    /// Spans that were lost so far.
    pub fn lost(&self) -> u64 {
        self.0.lost.load(Ordering::Relaxed)
    }

    /// Waits until what was taken before is sent or lost, at most three seconds; false if that was not long enough.
    pub fn flush(&self) -> bool {
        self.0.flush()
    }
}

impl Handle {
    fn flush(&self) -> bool {
        let (done, flushed) = sync_channel(1);
        self.waiting.flush(done);
        let is_sent = flushed.recv_timeout(FLUSH_TIMEOUT).is_ok();
        self.is_late.store(!is_sent, Ordering::Relaxed);
        is_sent
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if !self.is_late.load(Ordering::Relaxed) {
            self.flush();
        }
        self.waiting.close();
    }
}
