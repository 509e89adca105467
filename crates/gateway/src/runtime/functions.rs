//! Host functions: the built-in ones below those of the configuration.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::inline::inlined;
use toolgate_backends::ReplyMode;
use toolgate_bridge::{Access, AllowedEffects, Answer, Bridge, RequestContext, ScopedCatalog, is_annotated_read_only};
use toolgate_catalog::types::learned::LearnedType;
use toolgate_catalog::types::result_schema;
use toolgate_catalog::{Backend, Tool};
use toolgate_config::checked::{self, Function, FunctionEffect, FunctionTarget, Settings};
use toolgate_config::values::{Allowed, Method};
use toolgate_functions::builtin::registry as built_in;
use toolgate_functions::endpoint::{DeclaredEffect, EndpointMethod, HttpEndpoint, secret_header};
use toolgate_functions::http::{AllowList, Egress, Fetcher, Guard, HttpLimits};
use toolgate_functions::weather::WeatherSettings;
use toolgate_functions::{
    CallContext, ErrorCode, FailedEffect, FunctionAnswer, FunctionError, HostFunction, Param, Presence, Registry,
    SignatureError,
};
use toolgate_mcp::process_budget;
use toolgate_mcp::result::Wrapping;
use toolgate_run::LearnedResults;
use toolgate_wire::{CallErrorCode, CallState, CallerScope};

/// All host functions, and for those that are tools, whose.
pub(super) struct GrantedFunctions {
    settings: Settings,
    bridge: Arc<Bridge>,
    learned: Option<Arc<dyn LearnedResults>>,
    /// Made at first use: an HTTP client reads the system's certificates, which a start should not wait for.
    all: OnceLock<Registry>,
    typed: Mutex<TypedAliases>,
}

/// Functions that are tools under another name, with the types of those tools as they are now.
#[derive(Default)]
struct TypedAliases {
    /// The backends of the tools, in one state of their tools.
    backends: Vec<Backend>,
    /// The version of what was learned of their results.
    learned: u64,
    functions: Registry,
}

impl GrantedFunctions {
    pub(super) fn new(settings: &Settings, bridge: &Arc<Bridge>, learned: Option<Arc<dyn LearnedResults>>) -> Self {
        GrantedFunctions {
            settings: settings.clone(),
            bridge: Arc::clone(bridge),
            learned,
            all: OnceLock::new(),
            typed: Mutex::default(),
        }
    }

    /// Makes them now, on a thread that may wait.
    pub(super) fn prepare(&self) {
        self.all.get_or_init(|| self.build());
    }

    /// Without those that reach a backend which the caller may not use.
    pub(super) fn for_caller(&self, caller: &CallerScope) -> Registry {
        let all = self.with_tool_types(self.all.get_or_init(|| self.build()));
        let forbidden = |function: &Function| match &function.target {
            FunctionTarget::Tool { backend, tool, .. } => !caller.permits_tool(backend.as_str(), tool.as_str()),
            FunctionTarget::Http { .. } => false,
        };
        let configured = self.settings.functions.iter();
        let out: Vec<&str> = configured.filter(|(_, it)| forbidden(it)).map(|(name, _)| name.as_str()).collect();
        if out.is_empty() {
            return all;
        }
        let names: Vec<String> = all.names().into_iter().filter(|name| !out.contains(&name.as_str())).collect();
        all.restricted(&names).unwrap_or_default()
    }

    /// A function that is a tool has the tool's description and types where the configuration gives none: declared ones, or, to be
    /// shown, what was learned. They are made anew when the tools of its backend are others, or more was learned.
    fn with_tool_types(&self, all: &Registry) -> Registry {
        let is_alias = |function: &Function| matches!(function.target, FunctionTarget::Tool { .. });
        if !self.settings.functions.values().any(is_alias) {
            return all.clone();
        }
        let catalog = self.bridge.catalog();
        let named = self.settings.functions.values().filter_map(|function| match &function.target {
            FunctionTarget::Tool { backend, .. } => catalog.backend(backend.as_str()).cloned(),
            FunctionTarget::Http { .. } => None,
        });
        let backends: Vec<Backend> = named.collect();
        let learned = self.learned.as_ref().map_or(0, |learned| learned.version());
        let mut typed = self.typed.lock();
        let is_known = typed.learned == learned
            && typed.backends.len() == backends.len()
            && typed.backends.iter().zip(&backends).all(|(one, other)| one.has_same_tools(other));
        if !is_known {
            let everything = ScopedCatalog::new(&catalog, &Access::All, &Access::All);
            let mut functions = Registry::new();
            for (name, function) in &self.settings.functions {
                let FunctionTarget::Tool { backend, tool } = &function.target else { continue };
                let Some(found) = everything.tool(backend.as_str(), tool) else { continue };
                let results = self.learned.as_ref().map(|learned| learned.types()).unwrap_or_default();
                let result = results.get(found.backend.name(), &found.tool().name).filter(|it| it.results() > 0);
                let known = KnownTool { tool: found.tool(), learned: result };
                match configured(name.as_str(), function, Some(known), &self.bridge) {
                    Ok(function) => functions.insert(function),
                    Err(error) => tracing::debug!(%error, "the function has no types of its tool"),
                }
            }
            *typed = TypedAliases { backends, learned, functions };
        }
        all.merged(&typed.functions)
    }

    fn build(&self) -> Registry {
        let settings = &self.settings;
        let egress = match &settings.egress {
            checked::EgressSetting::Off => None,
            checked::EgressSetting::All => Some(Egress::All),
            checked::EgressSetting::Hosts(hosts) => Some(Egress::Hosts(allow_list(hosts))),
        };
        let weather = weather(settings, egress.as_ref());
        let fetcher = egress.map(|egress| {
            Fetcher::new(Guard::new(allow_list(&settings.guard)).with_egress(egress), HttpLimits::default())
        });
        let mut registry = built_in(fetcher.as_ref(), weather.as_ref()).unwrap_or_else(|error| {
            tracing::error!(%error, "there are no built-in functions");
            Registry::new()
        });
        for (name, function) in &settings.functions {
            match configured(name.as_str(), function, None, &self.bridge) {
                Ok(function) => registry.insert(function),
                Err(error) => tracing::warn!(%error, "the configured function is left out"),
            }
        }
        registry
    }
}

/// The weather service: as switched on or off, else where egress permits its host or the configuration names it.
fn weather(settings: &Settings, egress: Option<&Egress>) -> Option<WeatherSettings> {
    let usual = WeatherSettings::default();
    let configured = &settings.weather;
    let permits = || egress.zip(usual.base_url.host()).is_some_and(|(egress, host)| egress.permits(host));
    if !configured.enabled.unwrap_or_else(|| configured.base_url.is_some() || permits()) {
        return None;
    }
    let base_url = configured.base_url.as_ref().map(|base| base.url().clone());
    Some(WeatherSettings { base_url: base_url.unwrap_or_else(|| usual.base_url.clone()), ..usual })
}

pub(super) fn allow_list(allowed: &[Allowed]) -> AllowList {
    let entries: Vec<String> = allowed
        .iter()
        .map(|entry| match entry {
            Allowed::Host(name) => name.to_string(),
            Allowed::Net(network) => network.to_string(),
        })
        .collect();
    AllowList::parse(&entries).unwrap_or_else(|bad| {
        for entry in bad {
            tracing::warn!(%entry, "the exception to the HTTP guard is left out");
        }
        AllowList::none()
    })
}

/// The tool that a function calls, and what was learned of its results.
#[derive(Clone, Copy)]
struct KnownTool<'t> {
    tool: &'t Tool,
    learned: Option<&'t LearnedType>,
}

/// A function of the configuration; `known` is the one that it calls, as far as it is known.
fn configured(
    name: &str,
    function: &Function,
    known: Option<KnownTool<'_>>,
    bridge: &Arc<Bridge>,
) -> Result<HostFunction, SignatureError> {
    let tool = known.map(|known| known.tool);
    let params: Vec<Param> = function.schema.clone().map(argument).into_iter().collect();
    let description = function.description.clone().unwrap_or_default();
    match &function.target {
        FunctionTarget::Http { url, method, headers } => HttpEndpoint {
            name: name.to_owned(),
            description,
            params,
            result: function.returns.clone().unwrap_or(Value::Bool(true)),
            effect: declared(function.effect),
            url: url.url().clone(),
            method: endpoint_method(*method),
            headers: headers.iter().filter_map(|(name, value)| secret_header(name, value.expose())).collect(),
            timeout: function.timeout,
        }
        .into_function(),
        FunctionTarget::Tool { backend, tool: tool_name } => {
            let of_tool = tool.and_then(Tool::description).filter(|_| function.description.is_none());
            let description = of_tool.map_or(description, str::to_owned);
            let returns = function.returns.clone().or_else(|| tool.and_then(result_of));
            let learned = known.and_then(|known| known.learned).filter(|_| returns.is_none());
            let returns = returns.unwrap_or(Value::Bool(true));
            let builder = HostFunction::builder(name).describe(description).returns(returns);
            let mut builder = builder.calls_tool(backend.as_str(), tool_name);
            if let Some(learned) = learned {
                // Without the number of results, which changes more often than the type.
                builder = builder.shows_result(format!("{} /* learned from its results */", learned.typescript()));
            }
            builder = match (params.into_iter().next(), tool) {
                (Some(own), _) => builder.param(own),
                (None, None) => builder.param(argument(json!({ "type": "object" }))),
                // The tool's schema is shown; the bridge checks arguments by it, as of any call of the tool.
                (None, Some(tool)) => {
                    let schema = inlined(tool.input_schema(), tool.input_schema());
                    let presence = argument(schema.clone()).presence;
                    let checked = Param { presence, ..argument(json!({ "type": "object" })) };
                    builder.param(checked).shows_argument(schema)
                }
            };
            let tool = tool_name;
            let (bridge, backend, tool) = (Arc::clone(bridge), backend.to_string(), tool.clone());
            let timeout = function.timeout;
            let builder = builder.reads_only_while({
                let (bridge, backend, tool) = (Arc::clone(&bridge), backend.clone(), tool.clone());
                move || {
                    let catalog = bridge.catalog();
                    let found = ScopedCatalog::new(&catalog, &Access::All, &Access::All).tool(&backend, &tool);
                    found.is_some_and(is_annotated_read_only)
                }
            });
            declared(function.effect).on(builder).handle_counted(move |context, args| {
                let (bridge, backend, tool) = (Arc::clone(&bridge), backend.clone(), tool.clone());
                async move {
                    let asked = RequestContext { timeout: Some(timeout), ..asked(&context) };
                    call(&bridge, &backend, &tool, args, asked).await
                }
            })
        }
    }
}

/// The schema of what a program receives of a tool.
fn result_of(tool: &Tool) -> Option<Value> {
    Some(inlined(tool.output_schema()?, result_schema(tool)?))
}

fn declared(effect: FunctionEffect) -> DeclaredEffect {
    match effect {
        FunctionEffect::Unknown => DeclaredEffect::Unknown,
        FunctionEffect::Idempotent => DeclaredEffect::Idempotent,
        FunctionEffect::ReadOnly => DeclaredEffect::ReadOnly,
    }
}

/// The one argument, which may be left out where its schema asks for nothing.
fn argument(schema: Value) -> Param {
    let required = schema.get("required").and_then(Value::as_array).is_some_and(|names| !names.is_empty());
    let presence = if required { Presence::Required } else { Presence::Optional };
    Param { name: "argument".to_owned(), schema, presence, description: String::new() }
}

/// The configuration granted the function, so it may reach its backend for every caller that may use the function. In everything
/// else the call is one of the program: its caller, run, rate, trace and approver are those of the function's call.
fn asked(context: &CallContext) -> RequestContext {
    let caller = context.host.as_ref().and_then(|host| host.downcast_ref::<RequestContext>());
    RequestContext {
        access: Access::All,
        tools: Access::All,
        cancel: context.cancel.clone(),
        deadline: context.deadline.map(tokio::time::Instant::into_std),
        reply: ReplyMode::default(),
        // Decided by what is declared of the function, before it was called.
        effects: AllowedEffects::default(),
        ..caller.cloned().unwrap_or_default()
    }
}

async fn call(
    bridge: &Bridge,
    backend: &str,
    tool: &str,
    args: Vec<Value>,
    asked: RequestContext,
) -> Result<FunctionAnswer, FunctionError> {
    let arguments: Map<String, Value> = match args.into_iter().next() {
        Some(Value::Object(arguments)) => arguments,
        _ => Map::new(),
    };
    let answer = bridge.call(backend, tool, arguments, asked).await;
    answer.map(into_function_answer).map_err(|error| {
        let code = match error.code {
            CallErrorCode::InvalidArguments => ErrorCode::InvalidArguments,
            CallErrorCode::Timeout => ErrorCode::Timeout,
            CallErrorCode::OverBudget => ErrorCode::OverBudget,
            CallErrorCode::TooLarge => ErrorCode::TooLarge,
            CallErrorCode::NotReady
            | CallErrorCode::FailedToStart
            | CallErrorCode::NeedsLogin
            | CallErrorCode::Unreachable
            | CallErrorCode::Overloaded => ErrorCode::Unavailable,
            _ => ErrorCode::Failed,
        };
        let effect = match error.state {
            CallState::NotSent => FailedEffect::NotSent,
            CallState::Failed => FailedEffect::Failed,
            CallState::Applied | CallState::Unknown => FailedEffect::Unknown,
        };
        let message = gone(&error.code).map_or(error.message, str::to_owned);
        let mut failed = FunctionError::new(code, message).with_effect(effect);
        if error.code.is_denial() || error.code == CallErrorCode::RateLimited {
            failed = failed.with_custom_code(error.code.as_str());
        }
        match error.data {
            Some(data) => failed.with_data(data),
            None => failed,
        }
    })
}

/// The message where the function's tool does not exist. It repeats no name: the bridge searched the tools of all callers,
/// so its own message may name tools that this caller may not use.
fn gone(code: &CallErrorCode) -> Option<&'static str> {
    match code {
        CallErrorCode::UnknownTool => Some(
            "the backend no longer has the tool that this function calls: change `tool` of the function in the configuration",
        ),
        CallErrorCode::UnknownBackend => Some(
            "the backend of the tool that this function calls no longer exists: change `tool` of the function in the configuration",
        ),
        _ => None,
    }
}

/// The value for a program; what came as text stays text, counted.
fn into_function_answer(answer: Answer) -> FunctionAnswer {
    match answer {
        Answer::Text(text) => {
            let (text, permit) = text.into_parts();
            FunctionAnswer::of_text(text, permit)
        }
        Answer::Raw(raw) => into_function_answer(Answer::Text(raw.into_value(Wrapping::Plain))),
        Answer::Value(_) => FunctionAnswer::of_text(answer.into_text(), process_budget().empty_permit()),
    }
}

fn endpoint_method(method: Method) -> EndpointMethod {
    match method {
        Method::Get => EndpointMethod::Get,
        Method::Post => EndpointMethod::Post,
        Method::Put => EndpointMethod::Put,
        Method::Patch => EndpointMethod::Patch,
        Method::Delete => EndpointMethod::Delete,
    }
}
