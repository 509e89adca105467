//! Splits a query of several steps: `read the log files and post a summary` is two tasks for two tools.
//!
//! A step begins after a joint (`and`, `then`, a comma, a line break, the end of a sentence) if what follows is an
//! imperative of its own, and what precedes it is one too. `issues and labels` or `create and delete labels` is one step.
//!
//! What one step makes and another hands to people is a message for the tools that do it: [`delivery`](super::delivery)
//! words that search.

use super::delivery::Delivery;
use super::operation::{in_known_words, is_imperative};

/// Maximum number of steps that are searched on their own.
const MAX_STEPS: usize = 4;

/// Maximum number of joints that are looked at.
const MAX_JOINTS: usize = 64;

/// Words between two steps.
const JOINTS: &[&str] = &["and", "then", "afterwards", "finally", "next", "also", "so", "&", "+", "->", "→"];
/// Words between two steps if the second is in the `-ing` form: `post a summary after reading the log files`.
const JOINTS_BEFORE_GERUNDS: &[&str] = &["after", "before"];
/// Between two steps if the second hands over what the first made: `read the log files to post a summary`.
const PURPOSE: &str = "to";

/// The searches that find the tools of every step; the query itself if it is one step that needs one tool.
pub(super) fn searches(query: &str) -> Vec<String> {
    let steps = steps(query);
    let is_one = steps.len() == 1;
    let mut deliveries = 0;
    let mut searches = Vec::new();
    for step in steps {
        searches.push(in_known_words(step).unwrap_or_else(|| step.to_owned()));
        // A single step that names no source hands over what there is already.
        let delivery = Delivery::of(step).filter(|delivery| !is_one || delivery.source.is_some());
        let Some(delivery) = delivery.filter(|_| deliveries == 0) else { continue };
        deliveries += 1;
        searches.push(delivery.message);
        searches.extend(delivery.source.filter(|_| is_one));
    }
    searches
}

/// The steps of a query; the query itself if it is one.
fn steps(query: &str) -> Vec<&str> {
    let mut steps = Vec::new();
    let mut begin = 0;
    for Joint { end, next } in joints(query).into_iter().take(MAX_JOINTS) {
        let (Some(step), Some(rest)) = (query.get(begin..end), query.get(next..)) else { continue };
        let is_joint = || query.get(end..next).map(str::trim) != Some(PURPOSE) || Delivery::of(rest).is_some();
        if steps.len() + 1 < MAX_STEPS && is_imperative(step) && is_imperative(rest) && is_joint() {
            steps.push(step.trim());
            begin = next;
        }
    }
    steps.push(query.get(begin..).unwrap_or_default().trim());
    steps
}

/// Where a step may end, and where the next may begin.
struct Joint {
    end: usize,
    next: usize,
}

fn joints(query: &str) -> Vec<Joint> {
    let mut joints: Vec<Joint> = Vec::new();
    let mut end = None;
    let mut at = 0;
    let mut words = query.split_inclusive(char::is_whitespace).peekable();
    while let Some(word) = words.next() {
        let begin = at;
        at += word.len();
        let plain = word.trim();
        let is_in = |list: &[&str]| list.iter().any(|one| plain.trim_end_matches(',').eq_ignore_ascii_case(one));
        let mut is_before_gerund = || words.peek().is_some_and(|next| next.trim().ends_with("ing"));
        if is_in(JOINTS) || is_in(&[PURPOSE]) || is_in(JOINTS_BEFORE_GERUNDS) && is_before_gerund() {
            // `, and then` is one joint.
            let before = *end.get_or_insert(begin);
            joints.retain(|joint| joint.end != before);
            joints.push(Joint { end: before, next: at });
        } else if plain.ends_with([',', ';', '.', '!', '?', ':']) || word.ends_with('\n') {
            joints.push(Joint { end: at, next: at });
            end = Some(at);
        } else if !plain.is_empty() {
            end = None;
        }
    }
    joints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(query: &str, expected: &[&str]) {
        assert_eq!(steps(query), expected);
    }

    #[track_caller]
    fn check_searches(query: &str, expected: &[&str]) {
        assert_eq!(searches(query), expected);
    }

    #[test]
    fn each_imperative_is_a_step() {
        check("read the log files and post a summary", &["read the log files", "post a summary"]);
        check("Find the file, then delete it.", &["Find the file,", "delete it."]);
        check("find the bug; fix the code. Finally, send a mail", &["find the bug;", "fix the code.", "send a mail"]);
        check("list issues, and then also close the old ones", &["list issues,", "close the old ones"]);
        check("scrape the page and save a copy", &["scrape the page", "save a copy"]);
    }

    #[test]
    fn steps_are_found_however_they_are_strung_together() {
        check("First, read the log files. Then post a summary.", &["First, read the log files.", "post a summary."]);
        check("After reading the logs, post a summary", &["After reading the logs,", "post a summary"]);
        check("post a summary after reading the logs", &["post a summary", "reading the logs"]);
        check("read the logs before posting a summary", &["read the logs", "posting a summary"]);
        check("1. read the logs\n2. post a summary", &["1. read the logs", "2. post a summary"]);
        check("- read the logs\n- post a summary", &["- read the logs", "- post a summary"]);
        check("read the logs to post a summary", &["read the logs", "post a summary"]);
        check("read the logs so that I can post a summary", &["read the logs", "that I can post a summary"]);
    }

    #[test]
    fn what_is_one_task_is_one_step() {
        check("", &[""]);
        check("list the issues and labels", &["list the issues and labels"]);
        check("create and delete labels", &["create and delete labels"]);
        check("what is new and who wrote it", &["what is new and who wrote it"]);
        check("and and and", &["and and and"]);
        check("1,000 files, e.g. notes.md", &["1,000 files, e.g. notes.md"]);
        check("add a file to create a page", &["add a file to create a page"]);
        check("list events before the meeting", &["list events before the meeting"]);
    }

    #[test]
    fn what_is_handed_to_people_is_also_searched_as_a_message() {
        check_searches(
            "read the log files and post a summary",
            &["read the log files", "post a summary", "post a message"],
        );
        check_searches(
            "post a summary of the log files to the team",
            &["post a summary of the log files to the team", "post a message to the team", "read the log files"],
        );
        check_searches("post a summary", &["post a summary"]);
        check_searches(
            "go through the logs and let the team know",
            &["read the logs", "let the team know", "send a message to the team"],
        );
        check_searches("read the log files and delete them", &["read the log files", "delete them"]);
    }

    #[test]
    fn the_number_of_searches_is_bounded() {
        let query = "read a file and ".repeat(100);
        assert_eq!(steps(&query).len(), MAX_STEPS);
        assert!(searches(&"share the results of it and ".repeat(100)).len() <= MAX_STEPS + 1);
    }
}
