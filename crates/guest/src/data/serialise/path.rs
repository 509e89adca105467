//! Names the place inside a value, as a reader would write it in code.

use std::fmt::Write as _;

use toolgate_wire::foreign_text::head;
use toolgate_wire::limits::{MAX_PATH_KEY, MAX_PATH_STEPS};

/// One step from a container to something inside it.
pub(super) enum Step {
    Key(String),
    Index(u64),
}

/// `result.items[3]["a b"]`; the middle of a very long path is left out.
pub(super) fn spell(root: &str, steps: &[Step]) -> String {
    let mut path = root.to_owned();
    if steps.len() <= 2 * MAX_PATH_STEPS {
        steps.iter().for_each(|step| push(&mut path, step));
        return path;
    }
    steps[..MAX_PATH_STEPS].iter().for_each(|step| push(&mut path, step));
    path.push('…');
    steps[steps.len() - MAX_PATH_STEPS..].iter().for_each(|step| push(&mut path, step));
    path
}

fn push(path: &mut String, step: &Step) {
    match step {
        Step::Index(index) => {
            let _ = write!(path, "[{index}]");
        }
        Step::Key(key) if is_plain_name(key) => {
            let _ = write!(path, ".{key}");
        }
        Step::Key(key) => {
            let shown = head(key, MAX_PATH_KEY);
            let cut = if shown.len() < key.len() { "…" } else { "" };
            let _ = write!(path, "[{:?}{cut}]", shown);
        }
    }
}

fn is_plain_name(key: &str) -> bool {
    let ordinary = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$';
    !key.is_empty()
        && key.len() <= MAX_PATH_KEY
        && !key.starts_with(|c: char| c.is_ascii_digit())
        && key.chars().all(ordinary)
}
