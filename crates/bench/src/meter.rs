//! Samples, statistics, calibration.

use std::hint::black_box;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use serde::{Serialize, Serializer};
use toolgate_wire::Report;

use super::one_core::OneCore;
use super::workloads::Workload;

/// Between two samples: the latency of a request to an engine at rest is measured, with its workers
/// forked ahead and the last one buried. `throughput` is the row for an engine that gets no rest.
const REFILL_PAUSE: Duration = Duration::from_millis(3);

/// Steps of the loop that calibrates.
const SPINS: u32 = 1_000_000;

/// Where a row runs: a call to a worker on the same core is the cheapest there is, and the rows
/// of one core do not profit from a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cores {
    /// One core.
    One,
    /// All cores.
    All,
}

/// What a row's numbers count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowUnit {
    Microseconds,
    Bytes,
    PerSecond,
    Percent,
}

impl RowUnit {
    fn name(self) -> &'static str {
        match self {
            RowUnit::Microseconds => "us",
            RowUnit::Bytes => "bytes",
            RowUnit::PerSecond => "per_s",
            RowUnit::Percent => "percent",
        }
    }
}

impl Serialize for RowUnit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// What a row measured.
#[derive(Debug)]
pub struct Samples {
    /// Runs behind the values.
    pub n: usize,
    /// At least one.
    pub values: Vec<f64>,
}

impl From<Vec<f64>> for Samples {
    fn from(values: Vec<f64>) -> Self {
        Samples { n: values.len(), values }
    }
}

/// One line of the result.
#[derive(Debug, Serialize)]
pub struct Row {
    workload: &'static str,
    n: usize,
    p50: f64,
    p99: f64,
    mean: f64,
    unit: RowUnit,
    calibration: f64,
}

impl Row {
    fn new(workload: &Workload, samples: Samples, calibration: f64) -> Self {
        let mut sorted = samples.values;
        sorted.sort_by(f64::total_cmp);
        // Of a rate, the bad end is the low one.
        let worst = if workload.unit == RowUnit::PerSecond { 0.01 } else { 0.99 };
        let mean = sorted.iter().sum::<f64>() / sorted.len().max(1) as f64;
        Row {
            workload: workload.name,
            n: samples.n,
            p50: tenths(quantile(&sorted, 0.5)),
            p99: tenths(quantile(&sorted, worst)),
            mean: tenths(mean),
            unit: workload.unit,
            calibration: tenths(calibration),
        }
    }

    /// The row of a table.
    pub fn line(&self) -> String {
        let Row { workload, n, p50, p99, mean, unit, calibration } = self;
        let unit = unit.name();
        format!("  {workload:<27} {n:>7} {p50:>12.1} {p99:>12.1} {mean:>12.1}  {unit:<7} {calibration:>11.1}")
    }
}

/// The smallest value that this share of all values does not exceed.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or(0.0)
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// Takes the samples of one row.
#[derive(Debug)]
pub struct Meter {
    pub runs: u32,
    pub progress: ProgressBar,
}

impl Meter {
    /// Measures a row, and the machine right before and after it.
    pub fn row(&self, workload: &Workload, cores: Cores) -> anyhow::Result<Row> {
        let _kept = (cores == Cores::One).then(OneCore::keep);
        let before = calibrate();
        let samples = (workload.measure)(self)?;
        Ok(Row::new(workload, samples, (before + calibrate()) / 2.0))
    }

    /// As many samples as were asked for, after a few that do not count, each of an engine at rest.
    pub fn sample(&self, mut one: impl FnMut() -> anyhow::Result<f64>) -> anyhow::Result<Samples> {
        self.sample_in_a_row(|| {
            std::thread::sleep(REFILL_PAUSE);
            one()
        })
    }

    /// What one thing takes in percent of another right before it: a machine that gets slower slows both.
    pub fn compare(
        &self,
        mut one: impl FnMut() -> anyhow::Result<f64>,
        mut other: impl FnMut() -> anyhow::Result<f64>,
    ) -> anyhow::Result<Samples> {
        self.sample(|| {
            let other = other()?;
            std::thread::sleep(REFILL_PAUSE);
            Ok(100.0 * one()? / other)
        })
    }

    /// The same without a rest between two: where nothing is made ahead, there is nothing to wait for.
    pub fn sample_in_a_row(&self, mut one: impl FnMut() -> anyhow::Result<f64>) -> anyhow::Result<Samples> {
        for _ in 0..(self.runs / 10).clamp(1, 20) {
            one()?;
        }
        let mut values = Vec::with_capacity(self.runs as usize);
        for _ in 0..self.runs {
            values.push(one()?);
            self.progress.inc(1);
        }
        Ok(values.into())
    }
}

/// Microseconds that something takes, if its report has the value expected of it.
pub(crate) fn timed(expected: &str, run: impl FnOnce() -> Report) -> anyhow::Result<f64> {
    let since = Instant::now();
    let report = run();
    let elapsed = since.elapsed();
    must_return(&report, expected)?;
    Ok(micros(elapsed))
}

/// A benchmark of wrong answers would be worth nothing.
pub(crate) fn must_return(report: &Report, expected: &str) -> anyhow::Result<()> {
    match report.value() {
        Ok(value) if value.get() == expected => Ok(()),
        Ok(_) => anyhow::bail!("a run gave a wrong result"),
        Err(failure) => anyhow::bail!("a run failed with {failure}"),
    }
}

pub(crate) fn micros(elapsed: Duration) -> f64 {
    elapsed.as_secs_f64() * 1e6
}

/// Microseconds of a fixed loop: the median of five.
fn calibrate() -> f64 {
    let mut times: Vec<f64> = (0..5).map(|_| spin()).collect();
    times.sort_by(f64::total_cmp);
    quantile(&times, 0.5)
}

/// A million steps of a generator in which each needs the one before.
fn spin() -> f64 {
    let since = Instant::now();
    let mut x = black_box(0x9e37_79b9_7f4a_7c15_u64);
    for _ in 0..SPINS {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    black_box(x);
    micros(since.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_a_value_that_was_measured() {
        let sorted: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(quantile(&sorted, 0.5), 50.0);
        assert_eq!(quantile(&sorted, 0.99), 99.0);
        assert_eq!(quantile(&sorted, 0.01), 1.0);
        assert_eq!(quantile(&[7.0], 0.99), 7.0);
    }

    #[test]
    fn calibration_takes_time() {
        assert!(spin() > 0.0);
    }
}
