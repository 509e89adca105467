//! One rule of a policy.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Condition, Glob, Traits};

/// How long a question to a person stands where a rule does not say.
pub const DEFAULT_EXPIRY: Duration = Duration::from_secs(24 * 60 * 60);

/// What happens to a call. The later wins over the earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// The call is made.
    Allow,
    /// A person is asked first.
    Ask,
    /// The call is not made.
    Deny,
}

impl Action {
    /// The word in rules and reports.
    pub fn name(self) -> &'static str {
        match self {
            Action::Allow => "allow",
            Action::Ask => "ask",
            Action::Deny => "deny",
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which annotations a tool must have; `None` is any.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TraitFilter {
    /// Only tools that change nothing, or only others.
    pub read_only: Option<bool>,
    /// Only tools that may destroy or overwrite something, or only others.
    pub destructive: Option<bool>,
    /// Only tools that reach beyond a closed system, or only others.
    pub open_world: Option<bool>,
}

impl TraitFilter {
    /// Whether a tool with these traits is meant.
    pub fn permits(self, traits: Traits) -> bool {
        let fits = |wanted: Option<bool>, is: bool| wanted.is_none_or(|wanted| wanted == is);
        fits(self.read_only, traits.read_only)
            && fits(self.destructive, traits.destructive)
            && fits(self.open_world, traits.open_world)
    }

    fn count(self) -> usize {
        [self.read_only, self.destructive, self.open_world].into_iter().flatten().count()
    }
}

/// How many calls a rule lets through; `None` is as many as there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallLimits {
    /// In one run.
    pub run: Option<u64>,
    /// By one caller since midnight UTC.
    pub day: Option<u64>,
}

/// One rule: what it is about, and what happens then.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Its name in reports and lists, such as `policy[2]`.
    pub id: String,
    /// The tools: a pattern over `backend.tool`, or over the name of a host function.
    pub tool: Glob,
    /// The annotations that the tool must have.
    pub traits: TraitFilter,
    /// The callers: patterns over names; every caller when empty.
    pub callers: Vec<Glob>,
    /// The kinds of run; every kind when empty.
    pub profiles: Vec<String>,
    /// What must hold for the call.
    pub when: Option<Condition>,
    /// What happens then.
    pub action: Action,
    /// Why, for the program and for people.
    pub reason: Option<String>,
    /// Who may decide: patterns over names of callers; everyone who may decide at all when empty.
    pub approvers: Vec<Glob>,
    /// How long a question stands.
    pub expiry: Duration,
    /// Whether a program that may make such a call is staged, where the rule asks: all its writes are reviewed before any is sent.
    pub stage: bool,
    /// How many calls it lets through.
    pub limits: CallLimits,
}

impl Rule {
    /// A rule about these tools without conditions.
    pub fn new(id: impl Into<String>, tool: impl Into<String>, action: Action) -> Self {
        Rule {
            id: id.into(),
            tool: Glob::new(tool),
            traits: TraitFilter::default(),
            callers: Vec::new(),
            profiles: Vec::new(),
            when: None,
            action,
            reason: None,
            approvers: Vec::new(),
            expiry: DEFAULT_EXPIRY,
            stage: false,
            limits: CallLimits::default(),
        }
    }

    /// What the rule is about, as one text: its calls are counted under it, since its place in the list may change.
    pub fn key(&self) -> String {
        let texts = |globs: &[Glob]| globs.iter().map(Glob::as_str).collect::<Vec<_>>().join(",");
        let when = self.when.as_ref().map_or("", |when| when.text());
        let Rule { tool, traits, action, .. } = self;
        let TraitFilter { read_only, destructive, open_world } = traits;
        format!(
            "{action} {tool} {read_only:?} {destructive:?} {open_world:?} {} {} {when}",
            texts(&self.callers),
            self.profiles.join(",")
        )
    }

    /// The same with who may decide, where that is not everyone: an approval stands for the rule under which it was given.
    pub fn approval_key(&self) -> String {
        if self.approvers.is_empty() {
            return self.key();
        }
        let approvers: Vec<&str> = self.approvers.iter().map(Glob::as_str).collect();
        format!("{}\napprovers {approvers:?}", self.key())
    }

    /// Whether it counts the calls that it lets through.
    pub fn has_limits(&self) -> bool {
        self.limits != CallLimits::default()
    }

    /// Whether what it does depends on the calls of a day.
    pub fn depends_on_day(&self) -> bool {
        self.limits.day.is_some() || self.when.as_ref().is_some_and(Condition::reads_day)
    }

    /// Decides between rules with the same action: one tool before a pattern, the longer pattern before the shorter, then
    /// the rule with more conditions.
    pub fn specificity(&self) -> (bool, usize, usize) {
        let (exact, literals) = self.tool.specificity();
        let conditions = self.traits.count()
            + usize::from(!self.callers.is_empty())
            + usize::from(!self.profiles.is_empty())
            + usize::from(self.when.is_some());
        (exact, literals, conditions)
    }
}

/// Reads `at most 20 a run`, `100 a day` or both with a comma or `and` between.
///
/// # Errors
/// A sentence about what is wrong.
pub fn parse_limits(text: &str) -> Result<CallLimits, String> {
    let mut limits = CallLimits::default();
    let expected = || "must be such as \"at most 20 a run\" or \"at most 20 a run, 100 a day\"".to_owned();
    for part in text.split([',', ';']).flat_map(|part| part.split(" and ")) {
        let mut words = part.split_whitespace().filter(|word| !matches!(*word, "at" | "most" | "calls" | "a" | "per"));
        let (count, unit) = match (words.next(), words.next(), words.next()) {
            (Some(count), Some(unit), None) => (count, unit),
            (Some(both), None, None) => both.split_once('/').ok_or_else(expected)?,
            _ => return Err(expected()),
        };
        let count = count.parse::<u64>().map_err(|_| expected())?;
        let place = match unit {
            "run" => &mut limits.run,
            "day" => &mut limits.day,
            _ => return Err(expected()),
        };
        if place.replace(count).is_some() {
            return Err(format!("names the {unit} twice"));
        }
    }
    Ok(limits)
}

impl fmt::Display for CallLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.run, self.day) {
            (Some(run), Some(day)) => write!(f, "at most {run} a run, {day} a day"),
            (Some(run), None) => write!(f, "at most {run} a run"),
            (None, Some(day)) => write!(f, "at most {day} a day"),
            (None, None) => write!(f, "no limit"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<(Option<u64>, Option<u64>)>) {
        assert_eq!(parse_limits(text).ok().map(|limits| (limits.run, limits.day)), expected, "{text}");
    }

    #[test]
    fn limits_are_read_as_they_are_said() {
        check("at most 20 a run", Some((Some(20), None)));
        check("at most 20 a run, 100 a day", Some((Some(20), Some(100))));
        check("at most 20 calls per run and at most 100 per day", Some((Some(20), Some(100))));
        check("5/day", Some((None, Some(5))));
        check("0 a run", Some((Some(0), None)));
        for wrong in ["", "20", "at most a run", "20 a week", "-1 a run", "20 a run, 3 a run", "20 a run 3"] {
            check(wrong, None);
        }
    }

    #[test]
    fn an_approval_is_for_the_approvers_of_the_rule() {
        let rule = |approvers: &[&str]| Rule {
            approvers: approvers.iter().copied().map(Glob::new).collect(),
            ..Rule::new("policy[0]", "bank.pay", Action::Ask)
        };
        assert_eq!(rule(&[]).approval_key(), rule(&[]).key());
        assert_eq!(rule(&["ann"]).key(), rule(&["bob"]).key(), "calls are counted for the rule, not for its approvers");
        for (one, other) in [(&["ann"][..], &["bob"][..]), (&["ann"], &[]), (&["ann", "bob"], &["ann,bob"])] {
            assert_ne!(rule(one).approval_key(), rule(other).approval_key(), "{one:?} {other:?}");
        }
    }

    #[test]
    fn limits_are_shown_as_they_are_read() {
        for text in ["at most 20 a run", "at most 7 a day", "at most 20 a run, 100 a day"] {
            assert_eq!(parse_limits(text).expect("limits").to_string(), text);
        }
    }
}
