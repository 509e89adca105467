//! Splits a query of several steps: `read the log files and post a summary` is two tasks for two tools.
//!
//! A step begins after a joint (`and`, `then`, a comma, the end of a sentence) if what follows is an imperative of its
//! own, and what precedes it is one too. `issues and labels` or `create and delete labels` is one step.

use super::operation::is_imperative;

/// Maximum number of steps that are searched on their own.
const MAX_STEPS: usize = 4;

/// Words between two steps.
const JOINTS: &[&str] = &["and", "then", "afterwards", "finally", "next", "also", "&"];

/// The steps of a query; the query itself if it is one.
pub(super) fn steps(query: &str) -> Vec<&str> {
    let mut steps = Vec::new();
    let mut begin = 0;
    for (end, next) in joints(query) {
        let (Some(step), Some(rest)) = (query.get(begin..end), query.get(next..)) else { continue };
        if is_imperative(step) && is_imperative(rest) && steps.len() + 1 < MAX_STEPS {
            steps.push(step.trim());
            begin = next;
        }
    }
    steps.push(query.get(begin..).unwrap_or_default().trim());
    steps
}

/// Where a step may end, and where the next may begin.
fn joints(query: &str) -> Vec<(usize, usize)> {
    let mut joints = Vec::new();
    let mut end = None;
    let mut at = 0;
    for word in query.split_inclusive(char::is_whitespace) {
        let begin = at;
        at += word.len();
        let plain = word.trim();
        if JOINTS.iter().any(|joint| plain.trim_end_matches(',').eq_ignore_ascii_case(joint)) {
            // `, and then` is one joint.
            let before = *end.get_or_insert(begin);
            joints.retain(|&(from, _)| from != before);
            joints.push((before, at));
        } else if plain.ends_with([',', ';', '.', '!', '?', ':']) {
            joints.push((at, at));
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

    #[test]
    fn each_imperative_is_a_step() {
        check("read the log files and post a summary", &["read the log files", "post a summary"]);
        check("Find the file, then delete it.", &["Find the file,", "delete it."]);
        check("find the bug; fix the code. Finally, send a mail", &["find the bug;", "fix the code.", "send a mail"]);
        check("list issues, and then also close the old ones", &["list issues,", "close the old ones"]);
    }

    #[test]
    fn what_is_one_task_is_one_step() {
        check("", &[""]);
        check("list the issues and labels", &["list the issues and labels"]);
        check("create and delete labels", &["create and delete labels"]);
        check("what is new and who wrote it", &["what is new and who wrote it"]);
        check("and and and", &["and and and"]);
        check("1,000 files, e.g. notes.md", &["1,000 files, e.g. notes.md"]);
    }

    #[test]
    fn the_number_of_steps_is_bounded() {
        let query = "read a file and ".repeat(100);
        assert_eq!(steps(&query).len(), MAX_STEPS);
    }
}
