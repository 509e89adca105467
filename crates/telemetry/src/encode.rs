//! OTLP's JSON: ids as hexadecimal digits, 64-bit numbers as texts, enumerations as numbers.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::histogram::{BOUNDS, Histograms, Metric, Series};
use crate::{AttributeValue, Attributes, Span, SpanKind};

/// The body of `/v1/traces`.
pub(crate) fn traces(resource: &Value, spans: &[Span]) -> Value {
    let spans: Vec<Value> = spans.iter().map(span).collect();
    json!({"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope(), "spans": spans}]}]})
}

/// The body of `/v1/metrics`.
pub(crate) fn metrics(resource: &Value, all: &Histograms, now: SystemTime) -> Value {
    let metrics: Vec<Value> = [Metric::ServerOperation, Metric::ClientOperation]
        .into_iter()
        .filter_map(|metric| {
            let mut series: Vec<_> = all.of(metric).iter().collect();
            series.sort_by_cached_key(|(attributes, _)| format!("{attributes:?}"));
            let points: Vec<Value> =
                series.iter().map(|(attributes, series)| point(attributes, series, all.since, now)).collect();
            let histogram = json!({"aggregationTemporality": 2, "dataPoints": points});
            (!points.is_empty()).then(|| json!({"name": metric.name(), "unit": "s", "histogram": histogram}))
        })
        .collect();
    json!({"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"scope": scope(), "metrics": metrics}]}]})
}

/// What says where all of it comes from.
pub(crate) fn resource(service: &str) -> Value {
    let attributes: Attributes = vec![
        ("service.name", service.to_owned().into()),
        ("service.version", env!("CARGO_PKG_VERSION").into()),
        ("process.pid", AttributeValue::Number(i64::from(std::process::id()))),
    ];
    json!({"attributes": pairs(&attributes)})
}

fn scope() -> Value {
    json!({"name": "toolgate", "version": env!("CARGO_PKG_VERSION")})
}

fn span(span: &Span) -> Value {
    let mut written = json!({
        "traceId": span.trace_id.to_string(),
        "spanId": span.span_id.to_string(),
        "name": span.name,
        "kind": match span.kind { SpanKind::Internal => 1, SpanKind::Server => 2, SpanKind::Client => 3 },
        "startTimeUnixNano": nanoseconds(span.began),
        "endTimeUnixNano": nanoseconds(span.began + span.took),
        "attributes": pairs(&span.attributes),
        "status": match &span.error { Some(error) => json!({"code": 2, "message": error}), None => json!({}) },
    });
    if let Some(parent) = &span.parent {
        written["parentSpanId"] = json!(parent.to_string());
    }
    if let Some(state) = &span.tracestate {
        written["traceState"] = json!(state);
    }
    written
}

fn point(attributes: &Attributes, series: &Series, since: SystemTime, now: SystemTime) -> Value {
    json!({
        "attributes": pairs(attributes),
        "startTimeUnixNano": nanoseconds(since),
        "timeUnixNano": nanoseconds(now),
        "count": series.count.to_string(),
        "sum": series.sum,
        "bucketCounts": series.buckets.iter().map(u64::to_string).collect::<Vec<_>>(),
        "explicitBounds": BOUNDS,
    })
}

fn pairs(attributes: &Attributes) -> Vec<Value> {
    let value = |value: &AttributeValue| match value {
        AttributeValue::Text(text) => json!({"stringValue": text}),
        AttributeValue::Number(number) => json!({"intValue": number.to_string()}),
        AttributeValue::Flag(flag) => json!({"boolValue": flag}),
    };
    attributes.iter().map(|(key, it)| json!({"key": key, "value": value(it)})).collect()
}

fn nanoseconds(time: SystemTime) -> String {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}
