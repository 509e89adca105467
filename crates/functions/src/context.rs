//! What a handler is told about the call besides its arguments.

use serde_json::{Map, Value};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How many warnings one run keeps; a loop over a warning function must not grow the report without bound.
const MAX_WARNINGS: usize = 20;

/// What a handler is told about the call besides its arguments.
#[derive(Debug, Clone, Default)]
pub struct CallContext {
    /// What the request said about its surroundings.
    pub hints: Hints,
    /// Cancelled when the run ends, for whatever reason.
    pub cancel: CancellationToken,
    /// When the run's time is over.
    pub deadline: Option<Instant>,
    /// Where to leave a remark for the report.
    pub warnings: Warnings,
}

/// Request context given by the caller, such as where its user is. Untrusted, and cheap to clone.
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
    /// Takes hints as the request carried them.
    pub fn new(hints: Map<String, Value>) -> Self {
        Self(Arc::new(hints))
    }

    /// One hint by its name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// All of them as JSON text, for a program to see; none if there are none.
    pub fn to_json(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| serde_json::to_string(&*self.0).unwrap_or_default())
    }

    /// Where the request comes from: `location: {latitude, longitude}`, or the usual short spellings of the two.
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

/// Remarks for the report of a run. Clones share one list.
#[derive(Debug, Clone, Default)]
pub struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    /// Leaves a remark. The same remark twice is kept once, and past a bound new ones are dropped.
    pub fn add(&self, text: impl Into<String>) {
        let text = text.into();
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MAX_WARNINGS && !kept.contains(&text) {
            kept.push(text);
        }
    }

    /// All remarks so far, in order.
    pub fn to_vec(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
