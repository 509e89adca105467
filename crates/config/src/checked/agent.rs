//! Validates what agents are offered beside the servers' tools: tools of Toolgate's own, data sources, the weather function.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::checker::Checker;
use super::flag;
use super::parts::FilePart;
use crate::raw::{self, Located, Table};
use crate::values::Endpoint;

/// Longest name of a data source.
const MAX_NAME: usize = 64;

/// Which of Toolgate's own tools agents have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentTools {
    /// `run_code`; `None` lists it where there are host functions.
    pub run_code: Option<bool>,
    /// `query_tools`.
    pub query_tools: bool,
}

/// Data that agents compute on without seeing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataSource {
    /// A file of JSON or of JSON lines.
    pub file: PathBuf,
    /// What it has, for the model.
    pub description: String,
}

/// The weather function.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Weather {
    /// Whether programs have it; `None` is where egress allows the service or its URL is set.
    pub enabled: Option<bool>,
    /// The service; `None` is the public one.
    pub base_url: Option<Endpoint>,
}

pub(super) fn tools(raw: &raw::AgentTools) -> AgentTools {
    let run_code = raw.run_code.as_ref().map(|setting| setting.value);
    AgentTools { run_code, query_tools: flag(&raw.query_tools, true) }
}

pub(super) fn weather(checker: &mut Checker<'_>, raw: &raw::Weather) -> Weather {
    let enabled = raw.enabled.as_ref().map(|setting| setting.value);
    Weather { enabled, base_url: checker.get(&raw.base_url) }
}

/// Checks all data sources. Those with problems are left out later, by their part of the file.
pub(super) fn data(
    checker: &mut Checker<'_>,
    raw: &Option<Located<Table<raw::DataSource>>>,
) -> BTreeMap<String, DataSource> {
    let mut sources = BTreeMap::new();
    let Some(Located { value: Table(rows, unreadable), .. }) = raw else { return sources };
    for name in rows.iter().map(|(name, _)| name).chain(unreadable) {
        checker.parts.add(&name.place, FilePart::Data(name.value.clone()));
    }
    for (name, raw) in rows {
        if let Some(source) = source(checker, name, &raw.value) {
            sources.insert(name.value.clone(), source);
        }
    }
    sources
}

fn source(checker: &mut Checker<'_>, name: &Located<String>, raw: &raw::DataSource) -> Option<DataSource> {
    let is_clear = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.value.is_empty() || name.value.len() > MAX_NAME || !name.value.chars().all(is_clear) {
        let message = format!("a name of data has 1 to {MAX_NAME} letters, digits, dots, hyphens and underscores");
        checker.wrong(&name.place, message, "choose another name");
    }
    let description = checker.get(&raw.description).unwrap_or_default();
    let Some(file) = &raw.file else {
        checker.wrong(&name.place, "the data has no file", "add \"file\"");
        return None;
    };
    let file = checker.text(file).and_then(|text| checker.path(&text, &file.place))?;
    Some(DataSource { file, description })
}
