//! How many calls were let through on a day: what limits such as `100 a day` and `counts.day` are decided by.
//!
//! Counts are in the memory of this process, unless [`Bridge::set_day_counts`](crate::Bridge::set_day_counts) gives them another
//! place, such as a store that outlives it and that several processes share. Adding gives what was counted before, so two calls
//! that are counted at the same time never see the same number. What cannot be counted is not sent.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use toolgate_policy::{CallCounts, Rule};

/// Seconds of a day.
const DAY: u64 = 24 * 60 * 60;
/// The most names that are counted in memory on one day.
const MAX_NAMES: usize = 100_000;

/// Why calls are not counted, in words for a person.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CountError(pub String);

/// Counts, one for each name that was asked about.
pub type CountFuture<'a> = Pin<Box<dyn Future<Output = Result<Vec<u64>, CountError>> + Send + 'a>>;

/// Where calls of a day are counted.
pub trait DayCounts: Send + Sync + 'static {
    /// How often each of these names was counted on a day.
    fn read(&self, day: u64, names: Vec<String>) -> CountFuture<'_>;

    /// Counts each of these names once more, all of them or none; gives what was counted before.
    fn add(&self, day: u64, names: Vec<String>) -> CountFuture<'_>;

    /// Takes back so many of what was counted, now or soon.
    fn take_back(&self, day: u64, names: Vec<(String, u64)>);

    /// What is known without waiting; nothing where counts are elsewhere.
    fn known(&self, day: u64, names: &[String]) -> Vec<u64> {
        let _ = day;
        vec![0; names.len()]
    }
}

/// Counts of one day in the memory of this process.
#[derive(Debug, Default)]
pub(super) struct MemoryCounts(Mutex<(u64, HashMap<String, u64>)>);

impl MemoryCounts {
    fn of(&self, day: u64, names: &[String]) -> Vec<u64> {
        let counted = self.0.lock();
        let of = |name: &String| counted.1.get(name).copied().filter(|_| counted.0 == day).unwrap_or_default();
        names.iter().map(of).collect()
    }

    fn count(&self, day: u64, names: Vec<String>) -> Result<Vec<u64>, CountError> {
        let mut counted = self.0.lock();
        if counted.0 != day {
            *counted = (day, HashMap::new());
        }
        let new = names.iter().filter(|name| !counted.1.contains_key(*name)).count();
        if new > 0 && counted.1.len() + new > MAX_NAMES {
            return Err(CountError(format!(
                "{MAX_NAMES} callers and tools have been counted today, which is the most"
            )));
        }
        let before = names.into_iter().map(|name| {
            let count = counted.1.entry(name).or_default();
            *count += 1;
            *count - 1
        });
        Ok(before.collect())
    }
}

impl DayCounts for MemoryCounts {
    fn read(&self, day: u64, names: Vec<String>) -> CountFuture<'_> {
        Box::pin(std::future::ready(Ok(self.of(day, &names))))
    }

    fn add(&self, day: u64, names: Vec<String>) -> CountFuture<'_> {
        Box::pin(std::future::ready(self.count(day, names)))
    }

    fn take_back(&self, day: u64, names: Vec<(String, u64)>) {
        let mut counted = self.0.lock();
        if counted.0 == day {
            for (name, by) in names {
                counted.1.get_mut(&name).into_iter().for_each(|count| *count = count.saturating_sub(by));
            }
        }
    }

    fn known(&self, day: u64, names: &[String]) -> Vec<u64> {
        self.of(day, names)
    }
}

/// What was counted today of that which decides about one call.
#[derive(Debug, Clone)]
pub(super) struct Today {
    pub(super) day: u64,
    caller: String,
    path: String,
    rules: Vec<std::sync::Arc<Rule>>,
    counts: Vec<u64>,
}

impl Today {
    /// For a call of this tool, about which these rules with a limit a day are. Nothing is counted yet.
    pub(super) fn new(caller: &str, path: String, rules: Vec<std::sync::Arc<Rule>>) -> Self {
        let counts = vec![0; rules.len() + 1];
        Today { day: today(), caller: caller.to_owned(), path, rules, counts }
    }

    /// Everything that decides: the tool, then the rules.
    pub(super) fn names(&self) -> Vec<String> {
        let rules = self.rules.iter().map(|rule| self.rule_name(rule));
        std::iter::once(self.tool_name()).chain(rules).collect()
    }

    /// What a call counts for that this rule lets through.
    pub(super) fn names_of(&self, rule: Option<&Rule>) -> Vec<String> {
        let rule = rule.filter(|rule| rule.limits.day.is_some()).map(|rule| self.rule_name(rule));
        std::iter::once(self.tool_name()).chain(rule).collect()
    }

    fn tool_name(&self) -> String {
        format!("{}:{} tool {}", self.caller.len(), self.caller, self.path)
    }

    fn rule_name(&self, rule: &Rule) -> String {
        format!("{}:{} rule {}", self.caller.len(), self.caller, rule.key())
    }

    /// Notes what was counted under all [names](Today::names).
    pub(super) fn set(&mut self, counts: Vec<u64>) {
        self.counts = counts;
    }

    /// Notes what was counted under some of the names; whether that is what was known.
    pub(super) fn update(&mut self, names: &[String], counts: &[u64]) -> bool {
        let mut is_same = true;
        let all = self.names();
        for (name, count) in names.iter().zip(counts) {
            let known = all.iter().position(|known| known == name).and_then(|at| self.counts.get_mut(at));
            is_same &= known.as_deref() == Some(count);
            known.into_iter().for_each(|known| *known = *count);
        }
        is_same
    }

    /// What rules see, with calls that are not counted yet because a person is asked about them.
    pub(super) fn usage(&self, waiting: impl Fn(&str) -> u64) -> CallCounts {
        let mut usage = CallCounts::default();
        let counted = |name: &str, count: Option<&u64>| count.copied().unwrap_or_default() + waiting(name);
        usage.set_tool(&self.path, counted(&self.tool_name(), self.counts.first()));
        for (rule, count) in self.rules.iter().zip(self.counts.iter().skip(1)) {
            usage.set_rule(rule, counted(&self.rule_name(rule), Some(count)));
        }
        usage
    }
}

/// Days since 1970, in UTC.
fn today() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / DAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_those_of_one_day_and_bounded() {
        let counts = MemoryCounts::default();
        let name = || vec!["a".to_owned()];
        assert_eq!(counts.count(1, name()), Ok(vec![0]));
        assert_eq!(counts.count(1, name()), Ok(vec![1]));
        counts.take_back(1, vec![("a".to_owned(), 1)]);
        assert_eq!((counts.of(1, &name()), counts.of(2, &name())), (vec![1], vec![0]));
        assert_eq!(counts.count(2, name()), Ok(vec![0]), "another day begins anew");
        counts.take_back(1, vec![("a".to_owned(), 1)]);
        assert_eq!(counts.of(2, &name()), vec![1], "what was counted yesterday is not taken from today");
        for n in 1..MAX_NAMES {
            counts.count(2, vec![n.to_string()]).expect("room");
        }
        assert!(counts.count(2, vec!["more".to_owned()]).is_err());
        assert_eq!(counts.count(2, name()), Ok(vec![1]), "what is counted already is counted on");
    }
}
