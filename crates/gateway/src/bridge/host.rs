//! The bridge as one running program sees it.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use toolgate_engine::host::{Question, Target};
use toolgate_engine::{Host, HostCall, HostError, HostFuture};

use super::{Bridge, RequestContext, ScopedCatalog};
use toolgate_catalog::{Catalog, ToolRef};
use toolgate_functions::{CallContext, FailedEffect, FunctionError, Registry};
use toolgate_wire::CallState;

/// What one run may call: the tools that its caller may use, and host functions.
pub struct RunHost {
    bridge: Arc<Bridge>,
    catalog: Catalog,
    functions: Registry,
    context: CallContext,
    asked: RequestContext,
    tools: bool,
}

impl RunHost {
    /// A host with tools and no functions. The catalog stays as it is now for the whole run.
    pub fn new(bridge: Arc<Bridge>, asked: RequestContext) -> Self {
        let catalog = bridge.catalog();
        let context = CallContext { cancel: asked.cancel.clone(), ..CallContext::default() };
        RunHost { bridge, catalog, functions: Registry::default(), context, asked, tools: true }
    }

    /// The same with host functions.
    pub fn with_functions(self, functions: Registry, context: CallContext) -> Self {
        RunHost { functions, context, ..self }
    }

    /// The same without tools.
    pub fn without_tools(self) -> Self {
        RunHost { tools: false, ..self }
    }

    fn view(&self) -> ScopedCatalog<'_> {
        ScopedCatalog::new(&self.catalog, &self.asked.access)
    }

    fn call_tool(&self, backend: String, tool: String, args: &str) -> HostFuture {
        let arguments = match serde_json::from_str::<Map<String, Value>>(args) {
            Ok(arguments) => arguments,
            Err(error) => return failed(HostError::not_sent("INVALID_ARGUMENTS", error.to_string())),
        };
        let (bridge, asked) = (self.bridge.clone(), self.asked.clone());
        Box::pin(async move {
            let answer = bridge.call(&backend, &tool, arguments, asked).await?;
            Ok(answer.into_text())
        })
    }

    fn call_function(&self, name: String, args: &str) -> HostFuture {
        let args = match serde_json::from_str::<Vec<Value>>(args) {
            Ok(args) => args,
            Err(error) => return failed(HostError::not_sent("INVALID_ARGUMENTS", error.to_string())),
        };
        let (functions, context) = (self.functions.clone(), self.context.clone());
        Box::pin(async move {
            let answer = functions.call(&name, context, args).await;
            answer.map(|value| value.to_string()).map_err(host_error)
        })
    }
}

fn host_error(error: FunctionError) -> HostError {
    let state = match error.effect {
        FailedEffect::NotSent => CallState::NotSent,
        FailedEffect::Failed => CallState::Failed,
        FailedEffect::Unknown => CallState::Unknown,
    };
    HostError { code: error.code_text().to_owned(), message: error.message, data: error.data, state }
}

fn failed(error: HostError) -> HostFuture {
    Box::pin(std::future::ready(Err(error)))
}

/// Whether the server says that the tool changes nothing.
pub(crate) fn is_annotated_read_only(tool: ToolRef<'_>) -> bool {
    tool.tool().raw()["annotations"]["readOnlyHint"] == Value::Bool(true)
}

impl Host for RunHost {
    fn call(&self, call: HostCall) -> HostFuture {
        match call.target {
            Target::Tool { backend, tool } => self.call_tool(backend, tool, &call.args),
            Target::Function(name) => self.call_function(name, &call.args),
        }
    }

    fn answer(&self, question: &Question) -> Option<String> {
        let view = self.view();
        match question {
            Question::Backend(name) => view.backend(name).map(|it| it.listing().to_owned()),
            Question::Global(name) => view.variable(name).map(|it| it.listing().to_owned()),
            Question::Backends => {
                let list = view.backends().map(|it| json!({ "name": it.name(), "id": it.identifier() }));
                Some(Value::Array(list.collect()).to_string())
            }
            Question::Interface { backend, tool } => {
                view.tool(backend, tool).map(|found| found.interface().to_string())
            }
            Question::InterfaceOf(name) => view.interface(name).map(|interface| interface.to_string()),
        }
    }

    fn functions(&self) -> Vec<String> {
        self.functions.names()
    }

    fn has_tools(&self) -> bool {
        self.tools
    }

    fn is_read_only(&self, target: &Target) -> bool {
        let Target::Tool { backend, tool } = target else { return false };
        let found = self.view().tool(backend, tool);
        found.is_some_and(is_annotated_read_only)
    }

    fn call_is_read_only(&self, target: &Target, args: &str) -> bool {
        match target {
            Target::Tool { .. } => self.is_read_only(target),
            Target::Function(name) => self.functions.get(name).is_some_and(|function| function.reads_only(args)),
        }
    }
}
