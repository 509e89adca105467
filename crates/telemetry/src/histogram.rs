//! Durations by attributes, as sums since the start.

use std::collections::HashMap;
use std::time::SystemTime;

use crate::{AttributeValue, Attributes};

/// Upper bounds of the buckets in seconds, as the conventions of MCP name them.
pub(crate) const BOUNDS: [f64; 14] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];
/// Different sets of attributes; names of tools come from outside. Durations of further ones are counted together.
const MAX_SERIES: usize = 2_000;
/// The attribute of those, as the specification of metrics names it.
const OVERFLOW: [(&str, AttributeValue); 1] = [("otel.metric.overflow", AttributeValue::Flag(true))];

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// `mcp.server.operation.duration`: requests that were served.
    ServerOperation,
    /// `mcp.client.operation.duration`: requests to servers behind.
    ClientOperation,
}

impl Metric {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Metric::ServerOperation => "mcp.server.operation.duration",
            Metric::ClientOperation => "mcp.client.operation.duration",
        }
    }
}

/// The durations of one set of attributes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Series {
    pub(crate) count: u64,
    pub(crate) sum: f64,
    /// One more than there are bounds.
    pub(crate) buckets: [u64; BOUNDS.len() + 1],
}

/// All durations.
#[derive(Debug, Clone)]
pub(crate) struct Histograms {
    pub(crate) since: SystemTime,
    server: HashMap<Attributes, Series>,
    client: HashMap<Attributes, Series>,
    pub(crate) changed: bool,
}

impl Histograms {
    pub(crate) fn new(since: SystemTime) -> Self {
        Histograms { since, server: HashMap::new(), client: HashMap::new(), changed: false }
    }

    pub(crate) fn of(&self, metric: Metric) -> &HashMap<Attributes, Series> {
        match metric {
            Metric::ServerOperation => &self.server,
            Metric::ClientOperation => &self.client,
        }
    }

    pub(crate) fn add(&mut self, metric: Metric, seconds: f64, attributes: &[(&'static str, AttributeValue)]) {
        let is_full = self.server.len() + self.client.len() >= MAX_SERIES;
        let all = match metric {
            Metric::ServerOperation => &mut self.server,
            Metric::ClientOperation => &mut self.client,
        };
        // Attributes are copied for the first duration only.
        let series = match all.get_mut(attributes) {
            Some(series) => series,
            None if is_full => all.entry(OVERFLOW.to_vec()).or_default(),
            None => all.entry(attributes.to_vec()).or_default(),
        };
        series.count += 1;
        series.sum += seconds;
        let bucket = BOUNDS.iter().position(|bound| seconds <= *bound).unwrap_or(BOUNDS.len());
        series.buckets[bucket] += 1;
        self.changed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_fall_into_buckets_and_series_are_bounded() {
        let mut all = Histograms::new(SystemTime::UNIX_EPOCH);
        for seconds in [0.01, 0.011, 301.0] {
            all.add(Metric::ServerOperation, seconds, &[("a", "b".into())]);
        }
        let series = &all.of(Metric::ServerOperation)[&vec![("a", "b".into())]];
        assert_eq!((series.count, series.buckets[0], series.buckets[1], series.buckets[BOUNDS.len()]), (3, 1, 1, 1));
        for name in 0..3_000 {
            all.add(Metric::ClientOperation, 1.0, &[("tool", name.to_string().into())]);
        }
        assert_eq!(all.server.len() + all.client.len(), MAX_SERIES + 1);
        assert_eq!(all.of(Metric::ClientOperation)[OVERFLOW.as_slice()].count, 3_000 - (MAX_SERIES as u64 - 1));
    }
}
