//! What it costs to learn from a result: its shape is read and merged into what was learned before.

use std::hint::black_box;
use std::time::Instant;

use anyhow::ensure;
use serde_json::json;
use toolgate_catalog::types::learned::LearnedType;

use super::meter::{Meter, Samples, micros};

const RECORDS: usize = 200;

/// A list of issues with nested objects, optional keys, dates and nulls.
fn result() -> String {
    let issue = |n: usize| {
        let mut issue = json!({
            "id": n, "title": format!("Issue {n} of the list"), "state": if n.is_multiple_of(3) { "closed" } else { "open" },
            "labels": ["bug", "urgent"], "created_at": "2026-03-04T05:06:07Z", "milestone": null,
            "author": { "login": format!("user-{n}"), "site": "https://example.com/", "admin": n.is_multiple_of(2) },
        });
        if n.is_multiple_of(4) {
            issue["closed_by"] = json!({ "login": "someone" });
        }
        issue
    };
    json!({ "total": RECORDS, "issues": (0..RECORDS).map(issue).collect::<Vec<_>>() }).to_string()
}

/// Microseconds for each kilobyte of a result.
pub(super) fn measure(meter: &Meter) -> anyhow::Result<Samples> {
    let text = result();
    let kilobytes = text.len() as f64 / 1024.0;
    let mut learned = LearnedType::of(&text)?;
    let samples = meter.sample_in_a_row(|| {
        let since = Instant::now();
        learned.merge(&LearnedType::of(black_box(&text))?);
        Ok(micros(since.elapsed()) / kilobytes)
    })?;
    ensure!(learned.keys_at(&["issues"]).is_some_and(|keys| keys.len() == 8), "another type");
    Ok(samples)
}
