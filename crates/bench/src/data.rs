//! A filter over records: what lazy data is for.

use std::time::Duration;

use toolgate_engine::{ComputeOptions, Engine, EngineChoice};
use toolgate_wire::LimitRequest;

use super::meter::{Meter, Samples, timed};
use super::v8::with_v8;
use toolgate_engine::EngineWithRuntime;

pub(super) const CODE: &str = "(data) => data.filter(d => d.risk > 90).map(d => d.name)";

pub(super) fn measure(meter: &Meter, records: u32) -> anyhow::Result<Samples> {
    let (data, names) = customers(records);
    let expected = serde_json::to_string(&names)?;
    let started = EngineWithRuntime::start(Engine::builder())?;
    // A slow build is to be measured, not stopped.
    let limits = LimitRequest { wall: Some(Duration::from_secs(60)), ..LimitRequest::default() };
    meter.sample(|| {
        // The copy that the caller gives away is the caller's, not the engine's.
        let data = data.clone();
        let options = ComputeOptions { limits: limits.clone(), ..ComputeOptions::default() };
        timed(&expected, || started.engine.compute_blocking(CODE, data, options))
    })
}

/// What a computation over all records takes where it may move to V8, beside QuickJS alone.
pub(super) fn auto_to_quickjs(meter: &Meter) -> anyhow::Result<Samples> {
    let (data, names) = customers(100_000);
    let expected = serde_json::to_string(&names)?;
    let started = with_v8()?;
    let timed = |engine| {
        let (data, engine) = (data.clone(), Some(engine));
        let options = ComputeOptions { engine, ..ComputeOptions::default() };
        timed(&expected, || started.engine.compute_blocking(CODE, data, options))
    };
    meter.compare(|| timed(EngineChoice::Auto), || timed(EngineChoice::QuickJs))
}

/// Records of about 150 bytes, and the names that the filter keeps: nine in a hundred.
pub(super) fn customers(records: u32) -> (String, Vec<String>) {
    let mut names = Vec::new();
    let lines: Vec<String> = (0..records)
        .map(|n| {
            // Every risk from 0 to 99 comes equally often, in no order that a branch predictor could learn.
            let risk = n.wrapping_mul(2_654_435_761) / 7 % 100;
            let name = format!("Customer {n:06}");
            let line = format!(
                r#"{{"id":{n},"name":"{name}","email":"customer.{n:06}@example.com","risk":{risk},"country":"NO","balance":{}.25,"active":{},"tags":["a","b"]}}"#,
                n % 10_000,
                n % 3 == 0,
            );
            if risk > 90 {
                names.push(name);
            }
            line
        })
        .collect();
    (format!("[{}]", lines.join(",")), names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_what_the_row_says() {
        let (data, names) = customers(10_000);
        let record = data.len() / 10_000;
        assert!((130..=170).contains(&record), "{record} bytes");
        assert!((600..=1_200).contains(&names.len()), "{} kept", names.len());
        let parsed: serde_json::Value = serde_json::from_str(&data).expect("JSON");
        let kept = parsed.as_array().expect("a list").iter().filter(|d| d["risk"].as_u64() > Some(90)).count();
        assert_eq!(kept, names.len());
    }
}
