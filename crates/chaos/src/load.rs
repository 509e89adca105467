//! Sends programs, and checks what comes back.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::gateway::{Connection, Files};
use crate::programs::{Expected, Program};

/// How long a client waits for a gateway that was killed.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(90);
const RECONNECT_INTERVAL: Duration = Duration::from_millis(20);

/// What all clients share.
pub(crate) struct Load<'a> {
    files: &'a Files,
    next: AtomicU64,
    pub(crate) stop: AtomicBool,
    /// Counted before the gateway is killed and again when it is gone: odd in between.
    gateway_kills: AtomicU64,
    /// The same for Redis.
    pub(crate) redis_kills: AtomicU64,
}

/// What one client saw.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) runs: u64,
    pub(crate) right: u64,
    /// Sessions that were opened and used.
    pub(crate) sessions: u64,
    pub(crate) disturbed: BTreeMap<String, u64>,
    pub(crate) cut_off: u64,
    pub(crate) wrong: Vec<String>,
    ledgers: Vec<Ledger>,
    millis: Vec<f64>,
    disturbance: Option<String>,
}

/// What a report says about the effects of one program.
struct Ledger {
    number: u64,
    /// The number of effects that the program can have.
    possible: usize,
    /// Absent if no report came.
    told: Option<ReportedEffects>,
}

struct ReportedEffects {
    applied: u64,
    unsure: u64,
}

impl<'a> Load<'a> {
    pub(crate) fn new(files: &'a Files) -> Self {
        let zero = AtomicU64::default;
        Load { files, next: zero(), stop: AtomicBool::new(false), gateway_kills: zero(), redis_kills: zero() }
    }

    pub(crate) fn send_until_told(&self) -> Tally {
        self.send(|_| !self.stop.load(Ordering::Relaxed))
    }

    /// Sends programs until all with a lower number are answered.
    pub(crate) fn send_up_to(&self, until: u64) -> Tally {
        self.send(|number| number < until)
    }

    fn send(&self, goes_on: impl Fn(u64) -> bool) -> Tally {
        let mut tally = Tally::default();
        // With the kills that were counted before it was opened.
        let mut connection = None;
        loop {
            let next =
                self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| goes_on(next).then_some(next + 1));
            let Ok(number) = next else { return tally };
            if connection.is_none() {
                connection = self.reconnect();
            }
            let Some((open, kills)) = connection.as_mut() else {
                tally.wrong.push(format!("run {number}: no gateway within {RECONNECT_TIMEOUT:?}"));
                return tally;
            };
            let program = Program::numbered(number);
            let since = Instant::now();
            match program.door.send(open, self.files, &program.body) {
                Ok((status, answer)) => {
                    tally.millis.push(since.elapsed().as_secs_f64() * 1e3);
                    tally.answered(number, &program, status, &answer);
                }
                Err(error) => {
                    tally.cut_off += 1;
                    tally.ledgers.push(Ledger { number, possible: program.effects, told: None });
                    // Only a killed gateway may leave a program without an answer.
                    if !self.gateway_was_killed_since(*kills) {
                        tally.wrong.push(format!(
                            "run {number}: the connection ended ({error}), and the gateway was not killed"
                        ));
                    }
                    connection = None;
                }
            }
        }
    }

    /// Does what kills the gateway.
    pub(crate) fn while_gateway_dies(&self, kill: impl FnOnce()) {
        self.gateway_kills.fetch_add(1, Ordering::SeqCst);
        kill();
        self.gateway_kills.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether a connection that was opened after so many kills may have ended with its gateway.
    pub(crate) fn gateway_was_killed_since(&self, kills: u64) -> bool {
        self.gateway_kills.load(Ordering::SeqCst) != kills || !kills.is_multiple_of(2)
    }

    pub(crate) fn reconnect(&self) -> Option<(Connection, u64)> {
        let since = Instant::now();
        loop {
            let kills = self.gateway_kills.load(Ordering::SeqCst);
            if let Ok(connection) = self.files.connect() {
                return Some((connection, kills));
            }
            if since.elapsed() > RECONNECT_TIMEOUT {
                return None;
            }
            std::thread::sleep(RECONNECT_INTERVAL);
        }
    }
}

impl Tally {
    pub(crate) fn of_a_panic() -> Self {
        Tally { wrong: vec!["a client panicked".to_owned()], ..Tally::default() }
    }

    pub(crate) fn plus(mut self, mut other: Tally) -> Self {
        self.runs += other.runs;
        self.right += other.right;
        self.sessions += other.sessions;
        self.cut_off += other.cut_off;
        for (code, count) in other.disturbed {
            *self.disturbed.entry(code).or_default() += count;
        }
        self.wrong.append(&mut other.wrong);
        self.ledgers.append(&mut other.ledgers);
        self.millis.append(&mut other.millis);
        self.disturbance = self.disturbance.or(other.disturbance);
        self
    }

    /// A program that failed where nothing was killed.
    pub(crate) fn first_disturbance(&self) -> Option<String> {
        self.disturbance.clone()
    }

    pub(crate) fn percentile(&self, share: f64) -> f64 {
        let mut millis = self.millis.clone();
        millis.sort_by(f64::total_cmp);
        millis.get((millis.len() as f64 * share) as usize).copied().unwrap_or_default()
    }

    fn answered(&mut self, number: u64, program: &Program, status: u16, answer: &Value) {
        self.runs += 1;
        let told = ReportedEffects::of(answer);
        let applied = told.applied;
        self.ledgers.push(Ledger { number, possible: program.effects, told: Some(told) });
        let is_ok = answer.get("ok") == Some(&Value::Bool(true));
        let value = answer.get("value");
        let code = answer.get("code").or_else(|| answer.pointer("/error/code")).and_then(Value::as_str);
        let is_right = match &program.expected {
            Expected::Value(expected) => is_ok && value == Some(expected),
            Expected::TextWith(part) => is_ok && value.and_then(Value::as_str).is_some_and(|text| text.contains(part)),
            Expected::AnyValue => is_ok,
            Expected::Failure(expected) => code == Some(*expected),
        };
        if is_right {
            self.right += 1;
            return;
        }
        // Programs that catch failed calls return how many succeeded.
        let caught_as_told = is_ok && program.effects > 0 && value.and_then(Value::as_u64) == Some(applied);
        let fault = match code {
            _ if caught_as_told => None,
            // While a server starts, a search lists it among those whose tools are not known yet.
            _ if is_search_of_some(program, value) => None,
            _ if is_ok => Some("a wrong value"),
            Some("MEMORY") if !program.fills_memory => Some("a run that was killed is said to have used up its memory"),
            Some("RUNTIME" | "UNAVAILABLE" | "TIMEOUT" | "ABORTED" | "MEMORY") => None,
            // A tool is not known while its server starts for the first time.
            Some("INVALID_CODE") if program.effects > 0 => None,
            _ => Some("an answer that no kill explains"),
        };
        let described = format!("run {number} (status {status}): {}: {}", program.body, shortened(answer));
        match fault {
            Some(fault) => self.wrong.push(format!("{fault}: {described}")),
            None => {
                *self.disturbed.entry(code.unwrap_or("caught").to_owned()).or_default() += 1;
                self.disturbance.get_or_insert(described);
            }
        }
    }

    /// Everything that was wrong, given how often each effect was written down.
    pub(crate) fn mistakes(&self, written: &HashMap<&str, u64>) -> Vec<String> {
        let mut mistakes = self.wrong.clone();
        for Ledger { number, possible, told } in &self.ledgers {
            let counts: Vec<u64> = (0..*possible)
                .map(|n| written.get(format!("{number}-{n}").as_str()).copied().unwrap_or_default())
                .collect();
            if counts.iter().any(|count| *count > 1) {
                mistakes.push(format!("run {number}: an effect was made more than once: {counts:?}"));
            }
            let total: u64 = counts.iter().sum();
            if let Some(ReportedEffects { applied, unsure }) = told
                && !(*applied..=applied + unsure).contains(&total)
            {
                mistakes.push(format!(
                    "run {number}: {total} effects, but the report says {applied} applied and {unsure} unsure"
                ));
            }
        }
        mistakes
    }
}

impl ReportedEffects {
    fn of(answer: &Value) -> Self {
        let calls = answer.get("calls").and_then(Value::as_array).into_iter().flatten();
        let mut told = ReportedEffects { applied: 0, unsure: 0 };
        for call in calls.filter(|call| call.get("tool").and_then(Value::as_str) == Some("apply")) {
            match call.get("state").and_then(Value::as_str) {
                Some("applied") => told.applied += 1,
                Some("failed" | "unknown") => told.unsure += 1,
                _ => {}
            }
        }
        told
    }
}

/// Whether an answer is that of a search while a server started for the first time.
fn is_search_of_some(program: &Program, value: Option<&Value>) -> bool {
    let is_search = matches!(program.expected, Expected::TextWith(_));
    is_search && value.and_then(Value::as_str).is_some_and(|text| text.contains("still starting"))
}

fn shortened(answer: &Value) -> String {
    answer.to_string().chars().take(600).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tally(number: u64, answer: &Value) -> Tally {
        let mut tally = Tally::default();
        tally.answered(number, &Program::numbered(number), 200, answer);
        tally
    }

    fn two_calls(first: &str, second: &str) -> Value {
        json!({ "ok": false, "code": "RUNTIME", "calls": [{ "tool": "apply", "state": first }, { "tool": "apply", "state": second }] })
    }

    #[test]
    fn wrong_values_and_wrong_codes_are_found() {
        assert_eq!(tally(0, &json!({ "ok": true, "value": 1 })).right, 1);
        assert_eq!(tally(0, &json!({ "ok": true, "value": 2 })).wrong.len(), 1);
        assert_eq!(tally(0, &json!({ "ok": false, "code": "RUNTIME" })).wrong.len(), 0);
        assert_eq!(tally(0, &json!({ "ok": false, "code": "MEMORY" })).wrong.len(), 1);
        assert_eq!(tally(0, &json!({ "ok": false, "code": "SYNTAX" })).wrong.len(), 1);
        assert_eq!(tally(7, &json!({ "ok": false, "code": "MEMORY" })).right, 1);
    }

    #[test]
    fn reports_are_compared_with_what_was_written() {
        let check = |answer: &Value, written: &[(&str, u64)], mistakes: usize| {
            let found = tally(3, answer).mistakes(&written.iter().copied().collect());
            assert_eq!(found.len(), mistakes, "{found:?}");
        };
        let (zero, one) = ("3-0", "3-1");
        check(&two_calls("applied", "unknown"), &[(zero, 1)], 0);
        check(&two_calls("applied", "unknown"), &[(zero, 1), (one, 1)], 0);
        check(&two_calls("applied", "not_sent"), &[(zero, 1), (one, 1)], 1);
        check(&two_calls("applied", "applied"), &[(zero, 1)], 1);
        check(&two_calls("unknown", "unknown"), &[(zero, 2)], 1);
    }
}
