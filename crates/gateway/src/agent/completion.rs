//! Completes names in resource URIs: those that the caller may know.

use super::Shared;
use super::resources::{TOPICS, templates};
use toolgate_mcp::server::Completion;

/// What the protocol allows in one answer.
const MAX_COMPLETIONS: usize = 100;

/// The values that begin like what is typed.
pub(super) fn complete(shared: &Shared, asked: &Completion) -> Vec<String> {
    let Some(uri) = asked.reference.get("uri").and_then(|uri| uri.as_str()) else { return Vec::new() };
    let known = templates().iter().any(|template| template["uriTemplate"] == uri);
    if !known {
        return Vec::new();
    }
    let (catalog, caller) = (shared.gateway.catalog(), &asked.scope.caller);
    let begins = |name: &String| name.to_lowercase().starts_with(&asked.typed.to_lowercase());
    match uri {
        "toolgate://backend/{name}" => {
            let backends = catalog.backends().iter().filter(|it| caller.backends.permits(it.name()));
            backends.map(|it| it.name().to_owned()).filter(begins).take(MAX_COMPLETIONS).collect()
        }
        "toolgate://tool/{name}" => {
            let tools = catalog.tools().filter(|it| caller.permits_tool(it.backend.name(), &it.tool().name));
            tools.map(|it| it.spelling()).filter(begins).take(MAX_COMPLETIONS).collect()
        }
        "toolgate://guide/{topic}" => TOPICS.iter().map(|(topic, ..)| (*topic).to_owned()).filter(begins).collect(),
        _ => Vec::new(),
    }
}
