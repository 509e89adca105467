//! The bridge as one running program sees it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolgate_engine::host::{HeldBytes, Question, Target};
use toolgate_engine::{Host, HostCall, HostError, HostFuture, RepeatedCall};

use super::{AllowedEffects, Bridge, RequestContext, ScopedCatalog, not_read_only};
use toolgate_catalog::{Catalog, ToolRef};
use toolgate_functions::{CallContext, ErrorCode, FailedEffect, FunctionError, Registry};
use toolgate_mcp::{JsonText, TreeError, process_budget};
use toolgate_wire::report::DecisionRecord;
use toolgate_wire::{ByteBudget, BytePermit, CallErrorCode, CallId, CallState};

/// The most memory that the arguments of one call take.
pub(crate) const MAX_TREE_BYTES: usize = 128 << 20;

/// What one run may call: the tools that its caller may use, and host functions.
pub struct RunHost {
    bridge: Arc<Bridge>,
    catalog: Catalog,
    functions: Registry,
    context: CallContext,
    asked: RequestContext,
    tools: bool,
    /// Counts the arguments of calls that have not ended.
    arguments: ByteBudget,
    held: HeldAnswers,
}

/// What counts large answers that the worker has not taken yet, by call.
#[derive(Clone, Default)]
struct HeldAnswers(Arc<Mutex<HashMap<CallId, BytePermit>>>);

impl HeldAnswers {
    fn keep(&self, id: CallId, permit: Option<BytePermit>) {
        if let Some(permit) = permit.filter(|permit| permit.bytes() > 0) {
            self.0.lock().insert(id, permit);
        }
    }
}

impl RunHost {
    /// A host with tools and no functions. The catalog stays as it is now for the whole run.
    pub fn new(bridge: Arc<Bridge>, asked: RequestContext) -> Self {
        let catalog = bridge.catalog();
        let context = CallContext { cancel: asked.cancel.clone(), ..CallContext::default() };
        let arguments = process_budget().clone();
        let (functions, held) = (Registry::default(), HeldAnswers::default());
        RunHost { bridge, catalog, functions, context, asked, tools: true, arguments, held }
    }

    /// The same with host functions.
    pub fn with_functions(self, functions: Registry, context: CallContext) -> Self {
        RunHost { functions, context, ..self }
    }

    /// The same with a budget for the arguments of its calls. A call whose arguments do not fit is not made: they are in
    /// memory already, so that waiting would free nothing.
    pub fn with_argument_budget(self, arguments: ByteBudget) -> Self {
        RunHost { arguments, ..self }
    }

    /// The same without tools.
    pub fn without_tools(self) -> Self {
        RunHost { tools: false, ..self }
    }

    fn view(&self) -> ScopedCatalog<'_> {
        ScopedCatalog::new(&self.catalog, &self.asked.access, &self.asked.tools)
    }

    /// The arguments as a tree, counted until the permit is dropped.
    fn read(&self, args: String) -> Result<(Value, BytePermit), HostError> {
        let tree = JsonText::counted(args, &self.arguments).and_then(|text| text.into_tree(MAX_TREE_BYTES));
        tree.map_err(|error| {
            let code = match error {
                TreeError::NotJson(_) => CallErrorCode::InvalidArguments,
                TreeError::TooManyValues { .. } => CallErrorCode::TooLarge,
                TreeError::OverBudget(_) => CallErrorCode::OverBudget,
            };
            HostError::not_sent(code, error.to_string())
        })
    }

    fn call_tool(&self, id: CallId, backend: String, tool: String, args: String) -> HostFuture {
        let (arguments, permit) = match self.read(args) {
            Ok((Value::Object(arguments), permit)) => (arguments, permit),
            Ok(_) => {
                return failed(HostError::not_sent(CallErrorCode::InvalidArguments, "the arguments are no object"));
            }
            Err(error) => return failed(error),
        };
        let (bridge, asked, held) = (self.bridge.clone(), self.asked_by(id), self.held.clone());
        let end = asked.cancel.clone();
        Box::pin(async move {
            let answer = unless_ended(&end, bridge.call(&backend, &tool, arguments, asked).await).await?;
            drop(permit);
            let (text, permit) = answer.into_counted_text();
            held.keep(id, permit);
            Ok(text)
        })
    }

    fn asked_by(&self, id: CallId) -> RequestContext {
        RequestContext { call_id: u64::from(id.0), ..self.asked.clone() }
    }

    fn reads_only(&self, function: &str, args: &str) -> bool {
        self.functions.get(function).is_some_and(|function| function.reads_only(args))
    }

    fn call_function(&self, id: CallId, name: String, args: String) -> HostFuture {
        if self.asked.effects == AllowedEffects::ReadOnly && !self.reads_only(&name, &args) {
            return failed(not_read_only(&name));
        }
        let (args, permit) = match self.read(args) {
            Ok((Value::Array(args), permit)) => (args, permit),
            Ok(_) => return failed(HostError::not_sent(CallErrorCode::InvalidArguments, "the arguments are no list")),
            Err(error) => return failed(error),
        };
        let (functions, context) = (self.functions.clone(), self.context.clone());
        let (bridge, asked, held) = (self.bridge.clone(), self.asked_by(id), self.held.clone());
        let end = asked.cancel.clone();
        Box::pin(async move {
            let _permit = permit;
            let answer = bridge.call_function(&functions, &name, context, args, asked).await.map_err(host_error);
            let answer = unless_ended(&end, answer).await?;
            let (text, permit) = answer.into_text();
            held.keep(id, permit);
            Ok(text)
        })
    }
}

/// Returns the answer of a call. If the call failed only because its run has ended, it never returns, so that the failure is not
/// recorded: the call stays open in the record, and is made or asked about when the run is resumed.
async fn unless_ended<T>(end: &CancellationToken, answer: Result<T, HostError>) -> Result<T, HostError> {
    if end.is_cancelled() && answer.as_ref().is_err_and(was_given_up) {
        // The engine drops the calls of a run that has ended.
        return std::future::pending().await;
    }
    answer
}

/// Whether a call was given up: one of a tool, or one of a host function.
fn was_given_up(error: &HostError) -> bool {
    matches!(error.code, CallErrorCode::Cancelled | CallErrorCode::Aborted)
}

/// No wildcard arm: a new code of functions must choose.
fn call_error_code(code: ErrorCode) -> CallErrorCode {
    match code {
        ErrorCode::UnknownFunction => CallErrorCode::UnknownFunction,
        ErrorCode::InvalidArguments => CallErrorCode::InvalidArguments,
        ErrorCode::Refused => CallErrorCode::Refused,
        ErrorCode::TooLarge => CallErrorCode::TooLarge,
        ErrorCode::OverBudget => CallErrorCode::OverBudget,
        ErrorCode::Timeout => CallErrorCode::Timeout,
        ErrorCode::Aborted => CallErrorCode::Aborted,
        ErrorCode::Unavailable => CallErrorCode::Unavailable,
        ErrorCode::Failed => CallErrorCode::Failed,
    }
}

/// What is known of a call of a function that failed.
pub(super) fn state_of(effect: FailedEffect) -> CallState {
    match effect {
        FailedEffect::NotSent => CallState::NotSent,
        FailedEffect::Failed => CallState::Failed,
        FailedEffect::Unknown => CallState::Unknown,
    }
}

fn host_error(error: FunctionError) -> HostError {
    let state = state_of(error.effect);
    let code = error.custom_code.as_deref().map_or_else(|| call_error_code(error.code), CallErrorCode::named);
    HostError { code, message: error.message, data: error.data, state }
}

fn failed(error: HostError) -> HostFuture {
    Box::pin(std::future::ready(Err(error)))
}

/// Whether the server, or the configuration in its place, says that the tool changes nothing.
pub fn is_annotated_read_only(tool: ToolRef<'_>) -> bool {
    tool.tool().is_read_only()
}

impl Host for RunHost {
    fn call(&self, call: HostCall) -> HostFuture {
        match call.target {
            Target::Tool { backend, tool } => self.call_tool(call.id, backend, tool, call.args),
            Target::Function(name) => self.call_function(call.id, name, call.args),
        }
    }

    fn answer(&self, question: &Question) -> Option<String> {
        let view = self.view();
        match question {
            Question::Backend(name) => view.backend(name).map(|it| view.listing(it)),
            Question::Global(name) => view.variable(name).map(|it| view.listing(it)),
            Question::Backends => {
                let list = view.backends().map(|it| json!({ "name": it.name(), "id": it.identifier() }));
                Some(Value::Array(list.collect()).to_string())
            }
            // A host function has no backend.
            Question::Interface { backend, tool: name } if backend.is_empty() => {
                self.functions.get(name).map(|function| function.interface().to_string())
            }
            Question::Interface { backend, tool } => {
                view.tool(backend, tool).map(|found| found.interface().to_string())
            }
            Question::InterfaceOf(name) => {
                let of_function = || self.functions.get(name).map(|function| function.interface());
                view.interface(name).or_else(of_function).map(|interface| interface.to_string())
            }
        }
    }

    fn functions(&self) -> Vec<String> {
        self.functions.names()
    }

    fn has_tools(&self) -> bool {
        self.tools
    }

    fn repeated(&self, call: RepeatedCall<'_>) {
        self.bridge.note_repeated(call, &self.functions, &self.asked_by(call.id));
    }

    fn decision(&self, id: CallId) -> Option<DecisionRecord> {
        let noted = self.asked.run.as_ref()?.take_decision(id);
        // Who answered, also before this process had the run, is known to the approver.
        self.asked.approver.as_ref().and_then(|approver| approver.answered(id)).or(noted)
    }

    fn take_held(&self, id: CallId) -> Option<HeldBytes> {
        let permit = self.held.0.lock().remove(&id)?;
        Some(Box::new(permit))
    }

    fn is_read_only(&self, target: &Target) -> bool {
        let Target::Tool { backend, tool } = target else { return false };
        let found = self.view().tool(backend, tool);
        found.is_some_and(is_annotated_read_only)
    }

    fn call_is_read_only(&self, target: &Target, args: &str) -> bool {
        match target {
            Target::Tool { .. } => self.is_read_only(target),
            Target::Function(name) => self.reads_only(name, args),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// What comes of an answer at once.
    fn polled(end: &CancellationToken, answer: Result<u8, HostError>) -> Poll<Result<u8, HostError>> {
        pin!(unless_ended(end, answer)).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_call_that_ended_with_its_run_has_no_answer() {
        let end = CancellationToken::new();
        let given_up = || Err(HostError::not_sent(CallErrorCode::Cancelled, "the call was cancelled"));
        assert!(polled(&end, given_up()).is_ready());
        end.cancel();
        assert!(polled(&end, given_up()).is_pending());
        // What the tool itself said is known, also after the end.
        assert!(polled(&end, Ok(1)).is_ready());
        assert!(polled(&end, Err(HostError::new("TOOL_ERROR", "no"))).is_ready());
    }
}
