//! What is logged, as a person writes it: a level, or levels of parts separated by commas.
//!
//! Each part is read before the whole is given to `tracing-subscriber`, which takes a word that is no level for the name of a
//! part: `--log inof` would log nothing at all, errors included.

use std::fmt;

use toolgate_wire::foreign_text::one_line;
use tracing_subscriber::EnvFilter;

/// Characters of a wrong part that are shown.
const MAX_SHOWN: usize = 60;

/// The levels, and none.
const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "off"];
/// The most that libraries log: below it they write what programs and servers say.
const OF_LIBRARIES: &str = "warn";
/// The first part of the targets of this program.
const OWN: &str = "toolgate";

/// Why a filter is not taken: this part of it has no level.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadFilter(String);

impl fmt::Display for BadFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BadFilter(part) = self;
        write!(
            f,
            "`{part}` is no log level; levels are error, warn, info, debug and off, and a part may have its own, "
        )?;
        f.write_str("as in warn,toolgate::run=info")
    }
}

impl BadFilter {
    fn new(part: &str) -> Self {
        BadFilter(one_line(part, MAX_SHOWN))
    }
}

/// The filter that a text names.
pub(super) fn parse(text: &str) -> Result<EnvFilter, BadFilter> {
    EnvFilter::try_new(directives(text)?.join(",")).map_err(|_| BadFilter::new(text))
}

/// Its parts; a level without a name is that of this program, and at most `warn` for libraries.
fn directives(text: &str) -> Result<Vec<String>, BadFilter> {
    let mut all = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (target, level) = part.rsplit_once('=').map_or((None, part), |(target, level)| (Some(target), level));
        let level = level.to_ascii_lowercase();
        let is_name = |name: &str| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_:-".contains(&byte))
        };
        if !LEVELS.contains(&level.as_str()) || !target.is_none_or(is_name) {
            return Err(BadFilter::new(part));
        }
        match target {
            Some(target) if target == OWN || target.starts_with("toolgate:") || target.starts_with("toolgate_") => {
                all.push(format!("{target}={level}"));
            }
            Some(target) => all.push(format!("{target}={}", at_most_of_libraries(&level))),
            // In front: of two directives for one name the later one counts, and that is the one that was written.
            None => drop(all.splice(0..0, [at_most_of_libraries(&level).to_owned(), format!("{OWN}={level}")])),
        }
    }
    Ok(all)
}

fn at_most_of_libraries(level: &str) -> &str {
    if matches!(level, "info" | "debug") { OF_LIBRARIES } else { level }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let found = directives(text).map_or_else(|BadFilter(part)| format!("bad: {part}"), |all| all.join(","));
        assert_eq!(found, expected, "{text}");
        assert_eq!(parse(text).is_ok(), !expected.starts_with("bad"), "{text}");
    }

    #[test]
    fn a_level_is_that_of_this_program_and_libraries_log_warnings_at_most() {
        check("error", "error,toolgate=error");
        check("DEBUG", "warn,toolgate=debug");
        check("off", "off,toolgate=off");
        check(
            "warn,toolgate::run=info, toolgate::backend=off",
            "warn,toolgate=warn,toolgate::run=info,toolgate::backend=off",
        );
        check("hyper=debug", "hyper=warn");
        check("toolgate=debug,warn", "warn,toolgate=warn,toolgate=debug");
    }

    #[test]
    fn a_word_that_is_no_level_is_refused() {
        for text in ["inof", "verbose", "trace", "toolgate::run=inof"] {
            check(text, &format!("bad: {text}"));
        }
        check("warn,nonsense=what", "bad: nonsense=what");
        check("[[", "bad: [[");
        check("warn,[span]=info", "bad: [span]=info");
    }
}
