//! Host functions: the built-in ones below those of the configuration.

use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value, json};

use crate::bridge::{self, Access, Answer, Bridge, RequestContext, ScopedCatalog, is_annotated_read_only};
use toolgate_config::checked::{self, Function, FunctionEffect, FunctionTarget, Settings};
use toolgate_config::values::{Allowed, Method};
use toolgate_functions::builtin::registry as built_in;
use toolgate_functions::endpoint::{DeclaredEffect, EndpointMethod, HttpEndpoint, secret_header};
use toolgate_functions::http::{AllowList, Egress, Fetcher, Guard, HttpLimits};
use toolgate_functions::weather::WeatherSettings;
use toolgate_functions::{
    CallContext, ErrorCode, FailedEffect, FunctionError, HostFunction, Param, Presence, Registry, SignatureError,
};
use toolgate_wire::{CallState, CallerScope};

/// All host functions, and for those that are tools, whose.
pub(super) struct GrantedFunctions {
    settings: Settings,
    bridge: Arc<Bridge>,
    /// Made at first use: an HTTP client reads the system's certificates, which a start should not wait for.
    all: OnceLock<Registry>,
}

impl GrantedFunctions {
    pub(super) fn new(settings: &Settings, bridge: &Arc<Bridge>) -> Self {
        GrantedFunctions { settings: settings.clone(), bridge: Arc::clone(bridge), all: OnceLock::new() }
    }

    /// Makes them now, on a thread that may wait.
    pub(super) fn prepare(&self) {
        self.all.get_or_init(|| self.build());
    }

    /// Without those that reach a backend which the caller may not use.
    pub(super) fn for_caller(&self, caller: &CallerScope) -> Registry {
        let all = self.all.get_or_init(|| self.build());
        let forbidden = |function: &Function| match &function.target {
            FunctionTarget::Tool { backend, tool, .. } => !caller.permits_tool(backend.as_str(), tool.as_str()),
            FunctionTarget::Http { .. } => false,
        };
        let configured = self.settings.functions.iter();
        let out: Vec<&str> = configured.filter(|(_, it)| forbidden(it)).map(|(name, _)| name.as_str()).collect();
        if out.is_empty() {
            return all.clone();
        }
        let names: Vec<String> = all.names().into_iter().filter(|name| !out.contains(&name.as_str())).collect();
        all.restricted(&names).unwrap_or_default()
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
            match configured(name.as_str(), function, &self.bridge) {
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

fn configured(name: &str, function: &Function, bridge: &Arc<Bridge>) -> Result<HostFunction, SignatureError> {
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
        FunctionTarget::Tool { backend, tool } => {
            let params = if params.is_empty() { vec![argument(json!({ "type": "object" }))] } else { params };
            let returns = function.returns.clone().unwrap_or(Value::Bool(true));
            let builder = HostFunction::builder(name).describe(description).returns(returns).is_tool();
            let builder = params.into_iter().fold(builder, |builder, param| builder.param(param));
            let (bridge, backend, tool) = (Arc::clone(bridge), backend.to_string(), tool.clone());
            let timeout = function.timeout;
            let builder = builder.reads_only({
                let (bridge, backend, tool) = (Arc::clone(&bridge), backend.clone(), tool.clone());
                move |_| {
                    let catalog = bridge.catalog();
                    let found = ScopedCatalog::new(&catalog, &Access::All, &Access::All).tool(&backend, &tool);
                    found.is_some_and(is_annotated_read_only)
                }
            });
            declared(function.effect).on(builder).handle(move |context, args| {
                let (bridge, backend, tool) = (Arc::clone(&bridge), backend.clone(), tool.clone());
                async move {
                    let asked = RequestContext { timeout: Some(timeout), ..asked(&context) };
                    call(&bridge, &backend, &tool, args, asked).await
                }
            })
        }
    }
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

/// The configuration granted the function, so it may reach its backend for every caller that may use the function.
fn asked(context: &CallContext) -> RequestContext {
    let deadline = context.deadline.map(tokio::time::Instant::into_std);
    // Who asks, in which run: the policy decides about the tool as if the program had named it.
    let caller = context.host.as_ref().and_then(|host| host.downcast_ref::<RequestContext>());
    let RequestContext { name, profile, call_id, run, approver, .. } = caller.cloned().unwrap_or_default();
    RequestContext {
        name,
        profile,
        call_id,
        run,
        approver,
        access: Access::All,
        cancel: context.cancel.clone(),
        deadline,
        ..RequestContext::default()
    }
}

async fn call(
    bridge: &Bridge,
    backend: &str,
    tool: &str,
    args: Vec<Value>,
    asked: RequestContext,
) -> Result<Value, FunctionError> {
    let arguments: Map<String, Value> = match args.into_iter().next() {
        Some(Value::Object(arguments)) => arguments,
        _ => Map::new(),
    };
    let answer = bridge.call(backend, tool, arguments, asked).await;
    answer.and_then(Answer::into_value).map_err(|error| {
        let code = match error.code.as_str() {
            "INVALID_ARGUMENTS" => ErrorCode::InvalidArguments,
            "TIMEOUT" => ErrorCode::Timeout,
            "NOT_READY" | "FAILED_TO_START" | "NEEDS_LOGIN" | "UNREACHABLE" | "OVERLOADED" => ErrorCode::Unavailable,
            _ => ErrorCode::Failed,
        };
        let effect = match error.state {
            CallState::NotSent => FailedEffect::NotSent,
            CallState::Failed => FailedEffect::Failed,
            CallState::Applied | CallState::Unknown => FailedEffect::Unknown,
        };
        let mut failed = FunctionError::new(code, error.message).with_effect(effect);
        if bridge::is_denial(&error.code) {
            failed = failed.with_custom_code(&error.code);
        }
        match error.data {
            Some(data) => failed.with_data(data),
            None => failed,
        }
    })
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
