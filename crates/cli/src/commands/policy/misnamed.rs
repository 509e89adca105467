//! Rules that name a tool which its server does not have: such a rule decides about no call, and the call that was meant is not asked
//! about or denied.
//!
//! Only rules about exactly one tool: a pattern may be meant for tools that come later.

use toolgate_catalog::{Catalog, Resolution};
use toolgate_config::closest;
use toolgate_policy::Policy;

/// What to tell about rules that name one tool of this server, which is not among its tools.
pub(crate) fn misnamed_tools(policy: &Policy, catalog: &Catalog, server: &str, tools: &[&str]) -> Vec<String> {
    let Some(backend) = catalog.backend(server).filter(|_| !tools.is_empty()) else { return Vec::new() };
    let names = [backend.name(), backend.identifier()];
    let told = policy.rules().iter().filter_map(|rule| {
        let pattern = rule.tool.as_str();
        let tool = names.iter().find_map(|name| pattern.strip_prefix(name)?.strip_prefix('.'))?;
        let is_known = tools.contains(&tool) || matches!(catalog.resolve(pattern), Resolution::Found(_));
        if is_known || tool.contains(['*', '?']) {
            return None;
        }
        let near = closest(tool, tools).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        Some(format!("{} is about no call: {server} has no tool {tool}{near}", rule.id))
    });
    told.collect()
}
