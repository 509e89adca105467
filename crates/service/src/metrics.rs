//! `GET /metrics`: counters of runs, calls, requests and memory, in the text format of Prometheus.
//!
//! Every label is a name of the code or of the configuration, so the number of series is bounded.

use std::fmt::{Display, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::header;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use toolgate_run::{RUN_SECONDS, RunCounts};

use super::HttpService;
use super::caller::MetricsReader;
use toolgate_wire::CallerScope;

/// The version that Prometheus expects for this format.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Responses by the first digit of their status.
#[derive(Debug, Default)]
pub(super) struct ResponseCounts([AtomicU64; 6]);

impl ResponseCounts {
    fn add(&self, status: u16) {
        if let Some(count) = self.0.get(usize::from(status / 100)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Middleware: counts responses.
pub(super) async fn count_responses(State(service): State<HttpService>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    service.responses().add(response.status().as_u16());
    response
}

pub(super) async fn metrics(
    State(service): State<HttpService>,
    Extension(reader): Extension<MetricsReader>,
) -> Response {
    let mut text = Text::default();
    runs(&mut text, &service.runner().history().metrics().counts());
    let shown = match reader {
        MetricsReader::Caller(caller) => Some(caller.scope()),
        MetricsReader::Key => Some(CallerScope::default()),
        // Everyone may read them: totals only.
        MetricsReader::Anyone => None,
    };
    text.family("toolgate_backend_ready", "gauge", "Whether a backend is ready for calls.");
    for (name, is_ready) in shown.map(|scope| service.runner().backends_ready(&scope)).into_iter().flatten() {
        text.sample("toolgate_backend_ready", &[("backend", &name)], u8::from(is_ready));
    }
    requests(&mut text, &service);
    process(&mut text);
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], text.0).into_response()
}

fn runs(text: &mut Text, counts: &RunCounts) {
    text.family("toolgate_runs_total", "counter", "Runs by door, route and outcome.");
    for ((door, route, outcome), count) in &counts.runs {
        text.sample("toolgate_runs_total", &[("door", door), ("route", route), ("outcome", outcome)], count);
    }
    text.family("toolgate_runs_in_flight", "gauge", "Runs that have begun and not ended.");
    text.sample("toolgate_runs_in_flight", &[], counts.in_flight);
    text.family("toolgate_run_seconds", "histogram", "Time of runs by door, waiting for a turn included.");
    for (door, times) in &counts.seconds {
        let mut below = 0;
        for (bound, count) in RUN_SECONDS.iter().zip(times.buckets) {
            below += count;
            let le = bound.to_string();
            text.sample("toolgate_run_seconds_bucket", &[("door", door), ("le", &le)], below);
        }
        text.sample("toolgate_run_seconds_bucket", &[("door", door), ("le", "+Inf")], times.count);
        text.sample("toolgate_run_seconds_sum", &[("door", door)], times.sum);
        text.sample("toolgate_run_seconds_count", &[("door", door)], times.count);
    }
    text.family(
        "toolgate_calls_total",
        "counter",
        "Calls of tools and host functions by what is known of their effect.",
    );
    for (state, count) in &counts.calls {
        text.sample("toolgate_calls_total", &[("state", state)], count);
    }
}

fn requests(text: &mut Text, service: &HttpService) {
    text.family("toolgate_http_responses_total", "counter", "Responses of the HTTP service by class of status.");
    for (class, count) in service.responses().0.iter().enumerate().skip(1) {
        let class = format!("{class}xx");
        text.sample("toolgate_http_responses_total", &[("status", &class)], count.load(Ordering::Relaxed));
    }
    text.family("toolgate_failed_keys_total", "counter", "Requests with a wrong key or token.");
    text.sample("toolgate_failed_keys_total", &[], service.failed_keys().total());
    text.family("toolgate_websockets", "gauge", "Open WebSockets.");
    text.sample("toolgate_websockets", &[], service.open_websockets());
    text.family("toolgate_body_bytes", "gauge", "Memory of request and reply bodies that are being received or sent.");
    text.sample("toolgate_body_bytes", &[], service.body_bytes());
}

/// What the system knows of this process; nothing where there is no `/proc`.
fn process(text: &mut Text) {
    if let Some(bytes) = resident_bytes() {
        text.family("process_resident_memory_bytes", "gauge", "Resident memory of this process, without workers.");
        text.sample("process_resident_memory_bytes", &[], bytes);
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        text.family("process_open_fds", "gauge", "Open file descriptors.");
        text.sample("process_open_fds", &[], open.count());
    }
}

fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

/// Text in the format of Prometheus.
#[derive(Default)]
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (at, (label, value)) in labels.iter().enumerate() {
            let open = if at == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{open}{label}=\"{}\"", escaped(value));
        }
        let close = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{close} {value}");
    }
}

/// The value of a label, as the format demands.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_its_labels_escaped() {
        let mut text = Text::default();
        text.family("a_total", "counter", "Counts.");
        text.sample("a_total", &[], 1);
        text.sample("a_total", &[("b", "c\"\\\n"), ("d", "e")], 0.5);
        let expected =
            "# HELP a_total Counts.\n# TYPE a_total counter\na_total 1\na_total{b=\"c\\\"\\\\\\n\",d=\"e\"} 0.5\n";
        assert_eq!(text.0, expected);
    }

    #[test]
    fn buckets_are_cumulative() {
        let mut counts = RunCounts::default();
        let times = counts.seconds.entry("http").or_default();
        (times.buckets[0], times.buckets[2], times.count, times.sum) = (2, 1, 4, 100.0);
        let mut text = Text::default();
        runs(&mut text, &counts);
        for line in [
            "toolgate_run_seconds_bucket{door=\"http\",le=\"0.001\"} 2",
            "toolgate_run_seconds_bucket{door=\"http\",le=\"0.0025\"} 2",
            "toolgate_run_seconds_bucket{door=\"http\",le=\"60\"} 3",
            "toolgate_run_seconds_bucket{door=\"http\",le=\"+Inf\"} 4",
            "toolgate_run_seconds_sum{door=\"http\"} 100",
        ] {
            assert!(text.0.lines().any(|it| it == line), "{line}\n{}", text.0);
        }
    }
}
