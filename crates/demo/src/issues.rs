//! The issue tracker: 240 issues that are the same every time.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::answer::{Outcome, arguments};

const COUNT: u32 = 240;
/// Issues in one answer.
const MOST: usize = 100;
const USUAL: usize = 30;

const AREAS: [&str; 8] = ["login", "search", "billing", "export", "sync", "editor", "mobile app", "notifications"];
const FAULTS: [&str; 10] = [
    "times out on slow networks",
    "shows stale data after a reload",
    "crashes with an empty input",
    "is slow with more than 1,000 entries",
    "loses changes made offline",
    "ignores the time zone",
    "needs a confirmation before deleting",
    "should remember the last choice",
    "has an unreadable contrast in dark mode",
    "reports success although it failed",
];
const PEOPLE: [&str; 6] = ["ada", "barbara", "donald", "edsger", "grace", "tony"];
const LABELS: [&str; 6] = ["bug", "feature", "performance", "accessibility", "security", "documentation"];
const PRIORITIES: [Priority; 4] = [Priority::Low, Priority::Medium, Priority::High, Priority::Critical];

/// How urgent an issue is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Priority {
    Low,
    Medium,
    High,
    Critical,
}

/// Whether there is something left to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Open,
    Closed,
}

/// One issue.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Issue {
    number: u32,
    title: String,
    body: String,
    state: State,
    priority: Priority,
    assignee: Option<String>,
    labels: Vec<&'static str>,
    comments: u32,
    created_at: String,
}

/// All issues.
#[derive(Debug)]
pub(super) struct Tracker {
    issues: Vec<Issue>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Filter {
    query: Option<String>,
    state: Option<State>,
    priority: Option<Priority>,
    assignee: Option<String>,
    label: Option<String>,
    #[serde(default)]
    offset: usize,
    limit: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    number: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Update {
    number: u32,
    state: Option<State>,
    priority: Option<Priority>,
    assignee: Option<String>,
    title: Option<String>,
}

impl Default for Tracker {
    fn default() -> Self {
        Self { issues: (1..=COUNT).map(issue).collect() }
    }
}

impl Tracker {
    pub(super) fn list(&self, given: Map<String, Value>) -> Outcome {
        let filter: Filter = arguments(given)?;
        if filter.query.is_some() {
            return Err("bad arguments: list_issues has no query, search_issues has".to_owned());
        }
        Ok(self.page(&filter))
    }

    pub(super) fn search(&self, given: Map<String, Value>) -> Outcome {
        let filter: Filter = arguments(given)?;
        if filter.query.as_deref().unwrap_or_default().trim().is_empty() {
            return Err("bad arguments: query is missing".to_owned());
        }
        Ok(self.page(&filter))
    }

    pub(super) fn get(&self, given: Map<String, Value>) -> Outcome {
        let Which { number } = arguments(given)?;
        self.find(number).map(|issue| json!(issue)).ok_or_else(|| missing(number))
    }

    pub(super) fn update(&mut self, given: Map<String, Value>) -> Outcome {
        let update: Update = arguments(given)?;
        let found = self.issues.iter_mut().find(|issue| issue.number == update.number);
        let issue = found.ok_or_else(|| missing(update.number))?;
        issue.state = update.state.unwrap_or(issue.state);
        issue.priority = update.priority.unwrap_or(issue.priority);
        issue.title = update.title.unwrap_or_else(|| issue.title.clone());
        if let Some(assignee) = update.assignee {
            issue.assignee = Some(assignee).filter(|name| !name.is_empty());
        }
        Ok(json!(issue))
    }

    pub(super) fn find(&self, number: u32) -> Option<&Issue> {
        self.issues.iter().find(|issue| issue.number == number)
    }

    /// The numbers of all issues, as texts.
    pub(super) fn numbers(&self) -> impl Iterator<Item = String> {
        self.issues.iter().map(|issue| issue.number.to_string())
    }

    fn page(&self, filter: &Filter) -> Value {
        let limit = filter.limit.unwrap_or(USUAL).clamp(1, MOST);
        let found: Vec<&Issue> = self.issues.iter().filter(|issue| filter.accepts(issue)).collect();
        let shown: Vec<Value> = found.iter().skip(filter.offset).take(limit).map(|issue| summary(issue)).collect();
        let end = filter.offset.saturating_add(shown.len());
        let next = (end < found.len() && !shown.is_empty()).then_some(end);
        json!({ "issues": shown, "total": found.len(), "next_offset": next })
    }
}

impl Filter {
    fn accepts(&self, issue: &Issue) -> bool {
        let words = || self.query.iter().flat_map(|query| query.split_whitespace()).map(str::to_lowercase);
        let text = || format!("{} {} {}", issue.title, issue.body, issue.labels.join(" ")).to_lowercase();
        self.state.is_none_or(|state| state == issue.state)
            && self.priority.is_none_or(|priority| priority == issue.priority)
            && self.assignee.as_ref().is_none_or(|name| issue.assignee.as_ref() == Some(name))
            && self.label.as_ref().is_none_or(|label| issue.labels.contains(&label.as_str()))
            && (self.query.is_none() || words().all(|word| text().contains(&word)))
    }
}

/// An issue without its long text.
fn summary(issue: &Issue) -> Value {
    let mut summary = json!(issue);
    if let Some(summary) = summary.as_object_mut() {
        summary.shift_remove("body");
    }
    summary
}

fn missing(number: u32) -> String {
    format!("there is no issue {number}; they are numbered 1 to {COUNT}")
}

fn issue(number: u32) -> Issue {
    // Each question about an issue takes another turn of the same wheel.
    let mut wheel = Wheel(number);
    let (area, fault) = (wheel.pick(&AREAS), wheel.pick(&FAULTS));
    let (priority, label) = (wheel.pick(&PRIORITIES), wheel.pick(&LABELS));
    let (is_closed, assignee) = (wheel.turn() % 5 < 2, wheel.pick(&PEOPLE));
    let (day, month) = (wheel.turn() % 28 + 1, wheel.turn() % 12 + 1);
    Issue {
        number,
        title: format!("{area} {fault}"),
        body: format!("Seen in the {area} area: it {fault}. Steps, logs and a screenshot are in the comments."),
        state: if is_closed { State::Closed } else { State::Open },
        priority,
        assignee: (!wheel.turn().is_multiple_of(4)).then(|| assignee.to_owned()),
        labels: vec![label],
        comments: wheel.turn() % 15,
        created_at: format!("2026-{month:02}-{day:02}"),
    }
}

/// Numbers that look thrown and never change.
struct Wheel(u32);

impl Wheel {
    fn turn(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 16) ^ (self.0 >> 24)
    }

    fn pick<T: Copy, const N: usize>(&mut self, choices: &[T; N]) -> T {
        choices[self.turn() as usize % N]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(given: Value) -> Value {
        Tracker::default().list(given.as_object().cloned().unwrap()).unwrap()
    }

    #[test]
    fn the_issues_are_the_same_every_time() {
        insta::assert_json_snapshot!(Tracker::default().find(1));
        assert_eq!(list(json!({})), list(json!({})));
    }

    #[test]
    fn pages_cover_what_a_filter_finds_once() {
        let total = list(json!({ "state": "open" }))["total"].as_u64().unwrap();
        assert!(total > 100 && total < u64::from(COUNT), "{total}");
        let (mut seen, mut offset) = (0, json!(0));
        while !offset.is_null() {
            let page = list(json!({ "state": "open", "offset": offset, "limit": 50 }));
            seen += page["issues"].as_array().unwrap().len() as u64;
            offset = page["next_offset"].clone();
        }
        assert_eq!(seen, total);
    }

    #[test]
    fn a_search_finds_all_words_in_any_order() {
        let search = |query: &str| Tracker::default().search(json!({ "query": query }).as_object().cloned().unwrap());
        let found = search("offline LOGIN").unwrap();
        assert!(found["total"].as_u64().unwrap() > 0);
        assert_eq!(found, search("login offline").unwrap());
        assert!(search(" ").is_err());
    }

    #[test]
    fn an_update_stays() {
        let mut tracker = Tracker::default();
        let given = json!({ "number": 7, "state": "closed", "assignee": "grace" });
        tracker.update(given.as_object().cloned().unwrap()).unwrap();
        assert_eq!(json!(tracker.find(7))["assignee"], json!("grace"));
        assert_eq!(json!(tracker.find(7))["state"], json!("closed"));
    }

    #[test]
    fn what_is_not_there_or_not_asked_for_rightly_is_said() {
        let get = |given: Value| Tracker::default().get(given.as_object().cloned().unwrap()).unwrap_err();
        insta::assert_snapshot!(get(json!({ "number": 999 })), @"there is no issue 999; they are numbered 1 to 240");
        insta::assert_snapshot!(get(json!({ "number": 1, "x": 2 })), @"bad arguments: unknown field `x`, expected `number`");
    }
}
