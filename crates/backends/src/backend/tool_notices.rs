//! What a person is told about the tools of a backend: those that changed what they say, and those that are left out.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use toolgate_catalog::cache::ChangedTool;
use toolgate_mcp::client::{LeftOutTools, ToolChange};
use toolgate_wire::foreign_text::one_line;

use super::MAX_SHOWN_NAME;

/// Changes of tools that are told and logged; of more the latest.
pub(super) const MAX_CHANGES: usize = 20;
/// How long a change of a tool is told.
pub(super) const CHANGE_SHOWN: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Changes of an earlier start that are still told.
pub(super) fn recent_changes(known: Vec<ChangedTool>) -> Vec<ChangedTool> {
    let oldest = unix_seconds().saturating_sub(CHANGE_SHOWN.as_secs());
    let mut recent = Vec::new();
    note_changes(&mut recent, known.into_iter().filter(|change| change.at >= oldest).collect());
    recent
}

/// The latest changes of one list, at this time.
pub(super) fn latest_changes(changes: &[ToolChange], at: u64) -> Vec<ChangedTool> {
    let told = changes.iter().skip(changes.len().saturating_sub(MAX_CHANGES));
    told.map(|change| ChangedTool {
        tool: one_line(&change.tool, MAX_SHOWN_NAME),
        parts: change.parts.iter().map(|part| part.name().to_owned()).collect(),
        at,
    })
    .collect()
}

/// What a person should know about the tools that are not kept, beside so many that are.
pub(super) fn left_out_notices(left_out: &LeftOutTools, kept: usize, sees: impl Fn(&str) -> bool) -> Vec<String> {
    let cut = format!("it lists more tools than are kept: {kept} are, the others are left out");
    let named = left_out.named.iter().filter(|tool| sees(&tool.name)).map(|tool| match tool.name.as_str() {
        "" => format!("a tool is left out: {}", tool.reason),
        name => format!("the tool {name} is left out: {}", tool.reason),
    });
    let unnamed = left_out.unnamed;
    let more = format!("{unnamed} more tool{} left out", if unnamed == 1 { " is" } else { "s are" });
    let cut = left_out.is_cut.then_some(cut);
    cut.into_iter().chain(named).chain((unnamed > 0).then_some(more)).collect()
}

/// Adds changes. Of a tool that changed twice, only the last is kept.
pub(super) fn note_changes(changed: &mut Vec<ChangedTool>, new: Vec<ChangedTool>) {
    for change in new {
        changed.retain(|before| before.tool != change.tool);
        changed.push(change);
    }
    changed.drain(..changed.len().saturating_sub(MAX_CHANGES));
}

pub(super) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// How long ago this was, roughly.
pub(super) fn ago(at: u64) -> String {
    match unix_seconds().saturating_sub(at) / 60 {
        0 => "just now".to_owned(),
        minutes @ 1..60 => format!("{minutes} min ago"),
        minutes @ 60..2_880 => format!("{} h ago", minutes / 60),
        minutes => format!("{} days ago", minutes / 1_440),
    }
}
