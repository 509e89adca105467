//! The backends' own tools as `backend__tool`, for clients without code mode.
//!
//! Calls go through the bridge like any other and come back as the backend sent them. A name is at most 64 characters
//! of `A-Z a-z 0-9 _ -`, as the strictest clients want it; `prefix: false` leaves the backend's out. Where two tools
//! would get one name, both get a number made from their own names: a new backend can make a name longer, never give it
//! to another tool.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use toolgate_engine::HostError;
use toolgate_wire::{CallRecord, CallState};

use super::Shared;
use super::answer::{failure, text};
use super::session::Run;
use super::tools::chain::execution_id;
use super::tools::is_taken;
use crate::bridge::Asked;
use crate::catalog::{Catalog, ToolRef};
use crate::doors::mcp::{Fault, Page, ToolCall};

/// Longest name.
const MAX_NAME: usize = 64;
/// Hexadecimal digits that tell apart what would look the same.
const DIGITS: usize = 12;

/// The names of one edition of the catalog.
#[derive(Default)]
pub(super) struct Direct(Mutex<Option<(u64, Arc<Names>)>>);

/// Every tool with its name, in the order of the catalog, and the place of each name.
struct Names {
    rows: Vec<Named>,
    places: HashMap<String, usize>,
}

/// A name, and the backend and tool it stands for.
#[derive(Debug, Clone)]
struct Named {
    name: String,
    backend: String,
    tool: String,
}

impl Names {
    fn of(catalog: &Catalog, is_bare: impl Fn(&str) -> bool) -> Self {
        let rows = named(catalog, is_bare);
        let places = rows.iter().enumerate().map(|(place, row)| (row.name.clone(), place)).collect();
        Names { rows, places }
    }
}

impl Direct {
    /// The names that hold now; made anew only when tools changed.
    fn names(&self, shared: &Shared) -> Arc<Names> {
        let edition = shared.gateway.edition();
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*held {
            Some((of, names)) if *of == edition => Arc::clone(names),
            _ => {
                let config = shared.gateway.config();
                let is_bare = |backend: &str| config.backends.get(backend).is_some_and(|it| !it.policy.prefix);
                let names = Arc::new(Names::of(&shared.gateway.catalog(), is_bare));
                *held = Some((edition, Arc::clone(&names)));
                names
            }
        }
    }
}

/// The tools of a page.
pub(super) fn list(shared: &Shared, page: &Page) -> Vec<Value> {
    let names = shared.direct.names(shared);
    let catalog = shared.gateway.catalog();
    let permitted = names.rows.iter().filter(|row| page.access.permits(&row.backend));
    permitted.filter_map(|row| Some(object(row.name.clone(), catalog.tool(&row.backend, &row.tool)?))).collect()
}

/// The tool that a client means.
pub(super) fn find(shared: &Shared, name: &str, page: &Page) -> Option<(String, String)> {
    let names = shared.direct.names(shared);
    let row = names.places.get(name).and_then(|place| names.rows.get(*place))?;
    page.access.permits(&row.backend).then(|| (row.backend.clone(), row.tool.clone()))
}

/// One tool of a page.
pub(super) fn one(shared: &Shared, name: &str, page: &Page) -> Option<Value> {
    let (backend, tool) = find(shared, name, page)?;
    Some(object(name.to_owned(), shared.gateway.catalog().tool(&backend, &tool)?))
}

/// Calls it; the result, or the error, is the backend's own.
pub(super) async fn call(shared: &Shared, backend: String, tool: String, call: ToolCall) -> Result<Value, Fault> {
    let asked = Asked {
        access: call.page.access,
        cancel: call.cancel,
        progress: call.progress,
        caller: call.caller,
        ..Asked::default()
    };
    let since = Instant::now();
    let request_bytes = serde_json::to_string(&call.arguments).map_or(0, |text| text.len() as u64);
    let answer = shared.gateway.bridge().call(&backend, &tool, call.arguments, asked).await;
    let (result, state, error) = match answer {
        Ok(answer) => (Ok(passed_on(answer.raw, answer.value)), CallState::Applied, None),
        Err(error) => (failed(&error), error.state, Some(error.message)),
    };
    let bytes = result.as_ref().map_or(0, |result| result.to_string().len() as u64);
    let ms = since.elapsed().as_secs_f64() * 1e3;
    let name = format!("{backend}.{tool}");
    let ok = state == CallState::Applied;
    let record = CallRecord { name, state, ms, request_bytes, reply_bytes: bytes, read_only: false, error };
    shared.session.record(Run {
        id: execution_id(),
        tool: "direct",
        road: "direct",
        ok,
        ms,
        calls: vec![record],
        bytes_processed: bytes,
        bytes_returned: bytes,
    });
    result
}

/// The door says what era a result is of.
fn passed_on(raw: Option<Value>, value: Value) -> Value {
    match raw {
        Some(Value::Object(mut result)) => {
            result.shift_remove("resultType");
            if !result.get("content").is_some_and(Value::is_array) {
                result.insert("content".to_owned(), json!([]));
            }
            Value::Object(result)
        }
        _ => text(match value {
            Value::String(text) => text,
            value => value.to_string(),
        }),
    }
}

/// A tool that failed is a result; a backend that refused the call is its own error.
fn failed(error: &HostError) -> Result<Value, Fault> {
    if error.code == "REJECTED"
        && let Some(code) = error.data.as_ref().and_then(|data| data["code"].as_i64())
    {
        let message = error.message.strip_suffix(&format!(" (code {code})")).unwrap_or(&error.message).to_owned();
        let data = error.data.as_ref().map(|data| data["data"].clone()).filter(|data| !data.is_null());
        return Err(Fault::Rejected { code, message, data });
    }
    let mut result = failure(error.message.clone());
    if let Some(data) = error.data.as_ref().filter(|data| data.is_object() && error.code == "TOOL_FAILED") {
        result["structuredContent"] = data.clone();
    }
    Ok(result)
}

/// The tool as its backend lists it, under the name that it has here.
fn object(name: String, tool: ToolRef<'_>) -> Value {
    let mut object = tool.tool().raw().as_object().cloned().unwrap_or_default();
    object.insert("name".to_owned(), Value::String(name));
    // Clients refuse the whole list for one schema that is none.
    let is_schema = |schema: Option<&Value>| schema.is_some_and(|it| it.get("type") == Some(&json!("object")));
    if !is_schema(object.get("inputSchema")) {
        object.insert("inputSchema".to_owned(), json!({ "type": "object" }));
    }
    if !is_schema(object.get("outputSchema")) {
        object.shift_remove("outputSchema");
    }
    // Tasks are between a client and its server; we run none.
    object.shift_remove("execution");
    if object.get("description").is_some_and(|text| !text.is_string()) {
        object.shift_remove("description");
    }
    Value::Object(object)
}

fn named(catalog: &Catalog, is_bare: impl Fn(&str) -> bool) -> Vec<Named> {
    let mut rows: Vec<Named> = catalog
        .tools()
        .map(|it| {
            let (backend, tool) = (it.backend.name().to_owned(), it.tool().name.clone());
            let name = if is_bare(&backend) { plain(&tool) } else { joined(&backend, &tool) };
            Named { name, backend, tool }
        })
        .collect();
    let mut wanted: HashMap<String, usize> = HashMap::new();
    rows.iter().for_each(|row| *wanted.entry(row.name.clone()).or_default() += 1);
    for row in &mut rows {
        let alone = wanted.get(&row.name) == Some(&1) && !is_taken(&row.name);
        if !alone || row.name.is_empty() || row.name.len() > MAX_NAME {
            row.name = numbered(&row.backend, &row.tool);
        }
    }
    // Nobody finds two names of one number by chance; who did it on purpose loses the tool.
    let mut seen = HashSet::new();
    rows.retain(|row| seen.insert(row.name.clone()));
    rows
}

fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' }).collect()
}

fn joined(backend: &str, tool: &str) -> String {
    format!("{}__{}", plain(backend), plain(tool))
}

fn numbered(backend: &str, tool: &str) -> String {
    let name = joined(backend, tool);
    let hash = digest(&SHA256, format!("{backend}\0{tool}").as_bytes());
    let digits: String = hash.as_ref().iter().take(DIGITS / 2).map(|byte| format!("{byte:02x}")).collect();
    // All ASCII by now, so every place is a boundary.
    format!("{}_{digits}", name.get(..name.len().min(MAX_NAME - DIGITS - 1)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{BackendState, Listing, Tool};

    /// A backend whose name begins with `bare` has no prefix.
    fn names(backends: &[(&str, &[&str])]) -> Vec<String> {
        let listings = backends.iter().map(|(name, tools)| Listing {
            name: (*name).to_owned(),
            state: BackendState::Ready,
            tools: tools.iter().filter_map(|name| Tool::from_raw(json!({ "name": name }))).collect(),
            tags: Vec::new(),
        });
        let rows = named(&Catalog::new(listings.collect()), |backend| backend.starts_with("bare"));
        rows.into_iter().map(|row| row.name).collect()
    }

    #[test]
    fn a_plain_name_is_backend_and_tool() {
        assert_eq!(names(&[("exa", &["web-search"])]), ["exa__web-search"]);
    }

    #[test]
    fn names_that_would_be_one_are_told_apart_on_both_sides() {
        let both = names(&[("a", &["b__c"]), ("a__b", &["c"])]);
        assert!(both.iter().all(|name| name.starts_with("a__b__c_") && name.len() == 8 + DIGITS), "{both:?}");
        assert_ne!(both[0], both[1]);
        assert_eq!(names(&[("a", &["x y", "x_y"])]).len(), 2);
    }

    #[test]
    fn without_a_prefix_a_tool_keeps_its_own_name() {
        assert_eq!(names(&[("a", &["find"]), ("bare", &["find", "web-search"])]), ["a__find", "find", "web-search"]);
    }

    #[test]
    fn a_bare_name_that_another_tool_has_is_neither_s() {
        let numbered = |name: &str, start: &str| name.starts_with(start) && name.len() == start.len() + DIGITS;
        let both = names(&[("bare1", &["find"]), ("bare2", &["find"])]);
        assert!(numbered(&both[0], "bare1__find_") && numbered(&both[1], "bare2__find_"), "{both:?}");
        let crossed = names(&[("a", &["find"]), ("bare", &["a__find"])]);
        assert!(numbered(&crossed[0], "a__find_") && numbered(&crossed[1], "bare__a__find_"), "{crossed:?}");
    }

    #[test]
    fn a_bare_name_is_never_one_of_the_gateway_s_own() {
        for own in ["call_tool_chain", "register_manual"] {
            assert!(names(&[("bare", &[own])])[0].starts_with(&format!("bare__{own}_")));
        }
    }

    #[test]
    fn a_long_or_odd_name_is_short_and_plain() {
        let long = "x".repeat(10_000);
        let odd: [&str; 5] = ["\"];evil//", "🙂", &long, "__proto__", ""];
        for name in names(&[("böse", &odd), ("bare", &odd)]) {
            assert!(!name.is_empty() && name.len() <= MAX_NAME, "{name}");
            assert!(name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_' || it == b'-'), "{name}");
        }
    }

    #[test]
    fn the_same_tool_has_the_same_name_every_time() {
        let long = "y".repeat(100);
        let alone = names(&[("b", &[&long])]);
        let among = names(&[("a", &["z"]), ("b", &[&long]), ("c", &["z"])]);
        assert!(among.contains(&alone[0]));
    }

    #[test]
    fn a_schema_that_is_none_is_replaced() {
        let raw = json!({ "name": "t", "inputSchema": "x", "outputSchema": 7, "execution": {}, "description": 5 });
        let listing = Listing {
            name: "b".into(),
            state: BackendState::Ready,
            tools: Tool::from_raw(raw).into_iter().collect(),
            tags: Vec::new(),
        };
        let catalog = Catalog::new(vec![listing]);
        let found = object("b__t".into(), catalog.tool("b", "t").unwrap());
        assert_eq!(found, json!({ "name": "b__t", "inputSchema": { "type": "object" } }));
    }
}
