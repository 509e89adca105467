//! The context of a call: what a handler receives besides the arguments.

use serde_json::{Map, Value};
use std::any::Any;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolgate_wire::ByteBudget;

/// Maximum number of warnings of one run.
const MAX_WARNINGS: usize = 20;

/// What a handler receives besides the arguments.
#[derive(Debug, Clone, Default)]
pub struct CallContext {
    /// The hints of the request.
    pub hints: Hints,
    /// Cancelled when the run ends.
    pub cancel: CancellationToken,
    /// The deadline of the run.
    pub deadline: Option<Instant>,
    /// Counts the bytes of the answer, from the first byte until it is handed on: the budget of the run or of its caller.
    pub budget: ByteBudget,
    /// Warnings for the report of the run.
    pub warnings: Warnings,
    /// What the caller of the registry passes on to handlers of its own.
    pub host: Option<Arc<dyn Any + Send + Sync>>,
}

/// Context given by the caller, such as the location of its user. Untrusted. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Hints(Arc<Map<String, Value>>);

/// A point on the globe, within range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Coordinates {
    /// Degrees north, -90 to 90.
    pub latitude: f64,
    /// Degrees east, -180 to 180.
    pub longitude: f64,
}

impl Hints {
    /// The hints of a request.
    pub fn new(hints: Map<String, Value>) -> Self {
        Self(Arc::new(hints))
    }

    /// One hint by its name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// All hints as JSON text for the program; `None` without hints.
    pub fn to_json(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| serde_json::to_string(&*self.0).unwrap_or_default())
    }

    /// The location of the request: `location: {latitude, longitude}`, or `lat` and `lon` or `lng`.
    pub fn location(&self) -> Option<Coordinates> {
        let location = self.0.get("location")?;
        let degrees = |names: &[&str]| names.iter().find_map(|name| location.get(name)?.as_f64());
        Coordinates::new(degrees(&["latitude", "lat"])?, degrees(&["longitude", "lon", "lng"])?)
    }
}

impl Coordinates {
    /// The point, if both are in range.
    pub fn new(latitude: f64, longitude: f64) -> Option<Self> {
        let inside = (-90.0..=90.0).contains(&latitude) && (-180.0..=180.0).contains(&longitude);
        inside.then_some(Self { latitude, longitude })
    }
}

/// Warnings for the report of a run. Clones share one list.
#[derive(Debug, Clone, Default)]
pub struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    /// Adds a warning. Duplicates and warnings beyond the maximum are dropped.
    pub fn add(&self, text: impl Into<String>) {
        let text = text.into();
        let mut kept = self.0.lock();
        if kept.len() < MAX_WARNINGS && !kept.contains(&text) {
            kept.push(text);
        }
    }

    /// All warnings so far, in order.
    pub fn to_vec(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(hints: Value, expected: Option<(f64, f64)>) {
        let Value::Object(map) = hints else { panic!("hints are an object") };
        assert_eq!(Hints::new(map).location().map(|at| (at.latitude, at.longitude)), expected);
    }

    #[test]
    fn a_location_needs_both_numbers_in_range() {
        check(json!({"location": {"latitude": 52.5, "longitude": 13.4}}), Some((52.5, 13.4)));
        check(json!({"location": {"lat": -33, "lon": 151}}), Some((-33.0, 151.0)));
        check(json!({"location": {"lat": 1, "lng": 2}}), Some((1.0, 2.0)));
        check(json!({"location": {"latitude": 52.5}}), None);
        check(json!({"location": {"latitude": 91, "longitude": 0}}), None);
        check(json!({"location": {"latitude": "52", "longitude": "13"}}), None);
        check(json!({"location": "Berlin"}), None);
        check(json!({}), None);
    }

    #[test]
    fn warnings_are_kept_once_and_bounded() {
        let warnings = Warnings::default();
        let same = warnings.clone();
        same.add("a");
        same.add("a");
        assert_eq!(warnings.to_vec(), ["a"]);
        (0..100).for_each(|n| same.add(format!("w{n}")));
        assert_eq!(warnings.to_vec().len(), MAX_WARNINGS);
    }
}
