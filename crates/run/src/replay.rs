//! A recorded run as a request: repeated without tools, by the interpreter of its record and with time enough.

use std::borrow::Cow;
use std::time::Duration;

use serde::Deserialize;
use toolgate_engine::EngineChoice;
use toolgate_engine::transcript::LineCheck;
use toolgate_wire::{Limit, LimitRequest, Profile};

use super::request::{RecordedRun, RunRequest};

/// The least time that a replay gets: this machine may be slower than the one of the record.
const MIN_REPLAY_TIME: Duration = Duration::from_secs(60);

/// A request for a recorded run with its limits, and time enough.
pub fn replay_request(profile: Profile, limits: LimitRequest, code: &str, recorded: RecordedRun) -> RunRequest {
    let most = Duration::from_millis(Limit::Wall.spec().max);
    let wall = limits.wall.unwrap_or_default().saturating_mul(2).max(MIN_REPLAY_TIME).min(most);
    // A snippet's time is clamped, with a warning that the recorded run did not have.
    let wall = Some(wall).filter(|_| profile != Profile::Snippet);
    RunRequest { limits: LimitRequest { wall, ..limits }, recorded: Some(recorded), ..RunRequest::new(profile, code) }
}

/// What is read of a recorded report.
#[derive(Default, Deserialize)]
struct Recorded<'a> {
    #[serde(borrow, default)]
    engine: Cow<'a, str>,
}

/// The interpreter that is asked for, or that of the record (the JSON text of its report). Texts of errors differ between
/// interpreters, so console lines are compared on the same one only.
pub fn replay_engine(asked: Option<EngineChoice>, recorded: &str) -> (EngineChoice, LineCheck) {
    // The report has the run's value too, of up to 16 MB, which is skipped.
    let Recorded { engine } = serde_json::from_str(recorded).unwrap_or_default();
    let then = if engine == "v8" { EngineChoice::V8 } else { EngineChoice::QuickJs };
    let now = match asked {
        Some(EngineChoice::V8) => EngineChoice::V8,
        Some(EngineChoice::Auto | EngineChoice::QuickJs) => EngineChoice::QuickJs,
        None => then,
    };
    let is_same = now == then && engine != "quickjs+v8";
    (now, if is_same { LineCheck::Compared } else { LineCheck::Counted })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interpreter_is_that_of_the_record() {
        use EngineChoice::{QuickJs, V8};
        let check = |report: &str, asked: Option<EngineChoice>, expected: (EngineChoice, bool)| {
            let (engine, lines) = replay_engine(asked, report);
            assert_eq!((engine, matches!(lines, LineCheck::Compared)), expected, "{report}");
        };
        check(r#"{"ok":true,"value":[1,{"engine":"v8"}],"engine":"quickjs"}"#, None, (QuickJs, true));
        check(r#"{"value":[1],"engine":"v8","path":"script"}"#, None, (V8, true));
        check(r#"{"engine":"v8"}"#, Some(QuickJs), (QuickJs, false));
        check(r#"{"engine":"quickjs+v8"}"#, None, (QuickJs, false));
        for unreadable in ["{}", "", r#"{"engine":1}"#] {
            check(unreadable, None, (QuickJs, true));
        }
    }
}
