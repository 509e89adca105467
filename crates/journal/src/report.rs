//! The report of a replay, with what was measured taken from the record.
//!
//! A program determines its outcome, its console and its calls; times, sizes of processes, ids and remarks are those of
//! the recorded run. With them in place, the report of a faithful replay equals the recorded one byte for byte. Values
//! are never parsed, so their text stays.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use toolgate_wire::Report;
use toolgate_wire::foreign_text::clipped_with_length;

/// Fields that a program does not determine.
const MEASURED: [&str; 5] = ["executionMs", "usage", "isolation", "engine", "warnings"];
/// Fields that only one kind of outcome has.
const OUTCOME: [&str; 6] = ["value", "code", "error", "line", "column", "hint"];
/// Characters of a field that a difference shows.
const MAX_SHOWN: usize = 300;

/// The fields of a JSON object in their order, as text.
struct Fields(Vec<(String, Box<RawValue>)>);

impl Fields {
    fn get(&self, name: &str) -> Option<&RawValue> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.get(name).map(RawValue::get)
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// Whether a text has the form of a report.
///
/// # Errors
/// If it does not, with what is wrong.
pub(crate) fn check(recorded: &str) -> Result<(), serde_json::Error> {
    let recorded: Fields = serde_json::from_str(recorded)?;
    recorded.text("calls").map_or(Ok(()), |calls| serde_json::from_str::<Vec<Fields>>(calls).map(drop))
}

/// The JSON text of a replay's report.
///
/// # Errors
/// If the recorded report is not an object of the form of a report.
pub fn with_measurements(replayed: &Report, recorded: &str) -> Result<String, serde_json::Error> {
    let recorded: Fields = serde_json::from_str(recorded)?;
    let fresh: Fields = serde_json::from_str(&serde_json::to_string(replayed)?)?;
    // A replay that did not diverge has failed at the same place; only who maps the position to the source differs.
    let same_failure = ["code", "error"].iter().all(|name| fresh.text(name) == recorded.text(name));
    let mut fields = Vec::new();
    for (name, value) in &fresh.0 {
        let is_kept =
            MEASURED.contains(&name.as_str()) || (same_failure && ["line", "column", "hint"].contains(&name.as_str()));
        let value = match recorded.get(name) {
            Some(then) if is_kept => then.to_owned(),
            Some(then) if name == "calls" => with_times(value, then)?,
            _ => value.clone(),
        };
        fields.push((name.clone(), value));
    }
    // What a door added: the run's id and route.
    let added = recorded.0.iter().filter(|(name, _)| fresh.get(name).is_none() && !OUTCOME.contains(&name.as_str()));
    fields.extend(added.cloned());
    serde_json::to_string(&Fields(fields))
}

/// Calls with the times that they took then, and with what the policy of then decided about them.
fn with_times(calls: &RawValue, recorded: &RawValue) -> Result<Box<RawValue>, serde_json::Error> {
    let mut calls: Vec<Fields> = serde_json::from_str(calls.get())?;
    let recorded: Vec<Fields> = serde_json::from_str(recorded.get())?;
    for (call, then) in calls.iter_mut().zip(&recorded) {
        for (name, value) in &mut call.0 {
            if let Some(ms) = then.get("ms").filter(|_| name == "ms") {
                *value = ms.to_owned();
            }
        }
        call.0.retain(|(name, _)| name != "decision");
        call.0.extend(then.get("decision").map(|decision| ("decision".to_owned(), decision.to_owned())));
    }
    serde_json::value::to_raw_value(&calls)
}

/// The first field in which two reports differ, with both values; `None` when they are equal.
pub fn difference(recorded: &str, replayed: &str) -> Option<String> {
    if recorded == replayed {
        return None;
    }
    let (then, now) = (serde_json::from_str::<Fields>(recorded), serde_json::from_str::<Fields>(replayed));
    let (Ok(then), Ok(now)) = (then, now) else { return Some("one of the reports is not an object".to_owned()) };
    let names = then.0.iter().chain(&now.0).map(|(name, _)| name.as_str());
    let differs = names.into_iter().find(|name| then.text(name) != now.text(name));
    Some(match differs {
        Some(name) => {
            let shown = |fields: &Fields| fields.text(name).map_or_else(|| "absent".to_owned(), shortened);
            format!("`{name}` was {}, and is {}", shown(&then), shown(&now))
        }
        None => "the fields have another order".to_owned(),
    })
}

fn shortened(text: &str) -> String {
    clipped_with_length(text, MAX_SHOWN).into_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use toolgate_wire::report::DecisionRecord;
    use toolgate_wire::{CallRecord, Code, Failure, Outcome, Target};

    use super::*;

    const VALUE: &str = r#"[1.0,123456789012345678901234567890,"\ud800"]"#;

    fn report(outcome: Outcome, ms: f64) -> Report {
        let mut call = CallRecord::begin(&Target::Function("f".into()), 2, false);
        call.ms = ms;
        Report { calls: vec![call], ..Report::not_started(outcome, Duration::from_millis(ms as u64)) }
    }

    fn returned(text: &str, ms: f64) -> Report {
        report(Outcome::Returned(RawValue::from_string(text.into()).expect("JSON")), ms)
    }

    fn recorded(report: &Report) -> String {
        let text = serde_json::to_string(report).expect("JSON");
        format!("{},\"executionId\":\"run_1\",\"path\":\"script\"}}", &text[..text.len() - 1])
    }

    #[test]
    fn what_is_measured_is_taken_from_the_record() {
        let then = recorded(&returned(VALUE, 12.5));
        let now = with_measurements(&returned(VALUE, 99.0), &then).expect("a report");
        assert_eq!(now, then);
        assert_eq!(difference(&then, &now), None);
    }

    #[test]
    fn what_a_policy_decided_is_taken_from_the_record() {
        let mut then = returned(VALUE, 12.5);
        let (action, rule) = ("ask", Some("policy[0]".to_owned()));
        then.calls[0].decision = Some(Box::new(DecisionRecord { action, rule, ..DecisionRecord::default() }));
        let then = recorded(&then);
        let now = with_measurements(&returned(VALUE, 99.0), &then).expect("a report");
        assert_eq!((difference(&then, &now), now), (None, then));
    }

    #[test]
    fn what_the_program_did_is_not() {
        let then = recorded(&returned(VALUE, 12.5));
        let now = with_measurements(&returned("2", 99.0), &then).expect("a report");
        assert_eq!(difference(&then, &now), Some(format!("`value` was {VALUE}, and is 2")));
        let failed = report(Outcome::Failed(Failure::new(Code::Diverged, "step 3").with_hint("h")), 1.0);
        let now = with_measurements(&failed, &then).expect("a report");
        assert_eq!(difference(&then, &now).as_deref(), Some("`ok` was true, and is false"));
        assert!(
            now.contains(r#""hint":"h""#) && !now.contains("value") && now.ends_with(r#""path":"script"}"#),
            "{now}"
        );
    }

    #[test]
    fn the_hint_of_the_same_failure_is_the_recorded_one() {
        let failure = |hint: &str| Outcome::Failed(Failure::new(Code::Runtime, "no").with_hint(hint));
        let then = recorded(&report(failure("from the catalog"), 1.0));
        let now = with_measurements(&report(failure("from the engine"), 2.0), &then).expect("a report");
        assert_eq!(now, then);
    }
}
