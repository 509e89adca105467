//! `compute`: a function over data of the user's, of which only the result leaves.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use toolgate_config::Checked;
use toolgate_config::checked::DataSource;
use toolgate_engine::delegation::{SandboxConfig, ToolDescription};
use toolgate_wire::{CallerScope, LimitRequest, Profile};

use super::super::arguments::{self, OutputBytes, Refusal, Text, schema_of};
use super::super::{Shared, request_of};
use super::chain::{OutputOptions, computed};
use super::data_file::{self, FileData};
use super::{Hints, Tool, ToolFuture};
use toolgate_mcp::server::{RequestScope, ToolCall};
use toolgate_output::Intent;
use toolgate_run::RunRequest;

pub(super) static TOOL: Tool = Tool {
    name: "compute",
    title: "Compute on data",
    description,
    schema: schema_of::<ComputeArguments>,
    hints: Hints::Computes,
    call: |shared, call| -> ToolFuture { Box::pin(compute(shared, call)) },
};

/// The data that a caller may compute on. A key that names functions names data as `data.NAME`.
pub(super) fn sources<'a>(
    config: &'a Checked,
    caller: &'a CallerScope,
) -> impl Iterator<Item = (&'a str, &'a DataSource)> {
    let all = config.settings.data.iter().map(|(name, source)| (name.as_str(), source));
    all.filter(|(name, _)| caller.functions.permits(&format!("data.{name}")))
}

/// What data there is, and the contract of computation delegation.
fn description(shared: &Shared, scope: &RequestScope) -> String {
    let config = shared.gateway.config();
    let rows = sources(&config, &scope.caller).map(|(name, source)| match source.description.trim() {
        "" => format!("\n- {name}"),
        about => format!("\n- {name}: {about}"),
    });
    let about = format!(
        "Computes on data that stays where it is: `data` names it, and `code` is a function that is called with all of it.\n\n\
         Data:{}",
        rows.collect::<String>()
    );
    let usual = SandboxConfig::default();
    let limits = shared.gateway.runner().limits(Profile::Compute, &LimitRequest::default());
    let limits = limits.and_then(|granted| granted.resolve(Profile::Compute)).map(|granted| granted.limits);
    let sandbox = match limits {
        Ok(limits) => SandboxConfig { timeout: limits.wall, max_output: limits.result, ..usual },
        Err(_) => usual,
    };
    ToolDescription::new(TOOL.name, about, Value::Null).sandboxed(sandbox).description().to_owned()
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ComputeArguments {
    /// The name of the data; may be left out where there is one.
    data: Option<String>,
    /// One arrow function, such as (data) => data.filter(d => d.open).length
    code: Text,
    /// Most bytes to return.
    max_output_size: Option<OutputBytes>,
    /// What you look for, in a few words.
    #[schemars(with = "Option<String>")]
    intent: Option<Intent>,
}

async fn compute(shared: Arc<Shared>, call: ToolCall) -> Result<Value, Refusal> {
    let ComputeArguments { data, code: Text(code), max_output_size, intent } = arguments::read(&call.arguments)?;
    let output = OutputOptions { settings: shared.output_within(max_output_size), intent };
    let (name, file) = chosen(&shared.gateway.config(), &call.scope.caller, data.as_deref())?;
    let read = tokio::select! {
        read = data_file::read(file, data_file::data_budget()) => read,
        // It may wait for room: as for a run, nothing is made of a call that was cancelled.
        () = call.cancel.cancelled() => return Err(Refusal::new("the call was cancelled")),
    };
    let FileData { text, permit } = read.map_err(|error| Refusal(format!("data: {name}: {error}")))?;
    let request = RunRequest { data: Some(text), ..request_of(&call, TOOL.name, Profile::Compute, &code) };
    let result = computed(&shared, request, &output).await;
    // The engine holds the data until the run has ended.
    drop(permit);
    Ok(result)
}

/// The data that a call means, by name and file.
fn chosen(
    config: &Checked,
    caller: &CallerScope,
    named: Option<&str>,
) -> Result<(String, std::path::PathBuf), Refusal> {
    let mut permitted = sources(config, caller);
    let found = match named {
        Some(named) => permitted.find(|(name, _)| *name == named),
        None => permitted.next().filter(|_| permitted.next().is_none()),
    };
    let names = || sources(config, caller).map(|(name, _)| name).collect::<Vec<_>>();
    let refused = || match &names()[..] {
        [] => Refusal::new("data: you have none to compute on: the configuration gives you no data"),
        names => Refusal(format!("data: must be one of: {}", names.join(", "))),
    };
    let (name, source) = found.ok_or_else(refused)?;
    Ok((name.to_owned(), source.file.clone()))
}
