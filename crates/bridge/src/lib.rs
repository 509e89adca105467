//! The one way from a program to a tool.
//!
//! Whatever wants a tool called, a script, a fast path or a pass-through client, comes through
//! [`Bridge::call`]: the same look-up, policy, argument check and accounting for all. A tool that
//! a caller may not use looks to it as if it did not exist.
//!
//! # Layout
//! - `scoped_catalog`: the part of the catalog that a caller may use
//! - `provider`: what stands behind a backend's name
//! - `mcp`, `scripted`: providers: a real MCP server, a scripted set of tools
//! - `day_counts`: the calls of a day, in memory or in a store
//! - `decide`: the policy: what is allowed, asked about, denied; `explain`: the same about a call that is not made
//! - `foretell`: what would be decided about a call, without making it
//! - `server_questions`: what a server asks before it carries out a call; `question_watch`: notices it in a run that cannot wait
//! - `login`: calls that wait for a login
//! - `rates`: how many calls a caller may make
//! - `observer`: is told of results
//! - `host`: the bridge as a running program sees it
//! - [`approvals`]: how a person is asked about a call
//! - [`marks`]: values of calls that were not sent, inside arguments

#![forbid(unsafe_code)]

pub mod approvals;
mod day_counts;
mod decide;
mod explain;
mod foretell;
mod host;
mod login;
pub mod marks;
mod mcp;
mod observer;
mod provider;
mod question_watch;
mod rates;
mod scoped_catalog;
pub mod scripted;
mod server_questions;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use serde_json::{Map, Value, json};
use toolgate_engine::{HostError, RepeatedCall};
use toolgate_functions::{CallContext, ErrorCode, FunctionAnswer, FunctionError, Registry};
use toolgate_mcp::{bounded_tree, process_budget};

use toolgate_plan::suggest::listed;
use toolgate_policy::Policy;

use toolgate_catalog::{ArgumentProblem, Backend, BackendState, Catalog, CatalogHandle};

pub use day_counts::{CountError, CountFuture, DayCounts};
pub use decide::RunCalls;
pub use decide::foresee;
use decide::{CallPolicy, EditCheck, Subject, note_recorded_refusal, open_question, refused_before};
pub use explain::{Explained, QuestionedCall, caller_in_rules, standing_applies, standing_words};
pub use foretell::{Foretold, stages};
use host::MAX_TREE_BYTES;
pub use host::RunHost;
pub use host::is_annotated_read_only;
use login::MissingLogins;
pub use mcp::McpProvider;
pub use observer::ResultObserver;
pub use provider::{AllowedEffects, Answer, ComingUp, Provider, ProviderFuture, RequestContext};
pub use question_watch::QuestionWatch;
use rates::CallRates;
pub use scoped_catalog::ScopedCatalog;
pub use server_questions::check_answer;
pub use toolgate_wire::Access;
use toolgate_wire::{CallErrorCode, CallRate, CallState, Target};

use crate::approvals::{Approver, AskedCall, Remember, RememberError, RememberedRule, RememberedRules};

/// Longest list of argument problems in one message.
const SHOWN_PROBLEMS: usize = 5;

/// Tools by name, and who answers for them.
pub struct Bridge {
    catalog: CatalogHandle,
    providers: RwLock<HashMap<String, Arc<dyn Provider>>>,
    rates: CallRates,
    observer: OnceLock<Arc<dyn ResultObserver>>,
    policy: CallPolicy,
    missing_logins: MissingLogins,
    /// The address of the page on which people of this machine decide about calls and log in.
    page: OnceLock<String>,
}

impl Bridge {
    /// A bridge over a catalog that others keep up to date.
    pub fn new(catalog: CatalogHandle) -> Self {
        Bridge {
            catalog,
            providers: RwLock::default(),
            rates: CallRates::default(),
            observer: OnceLock::new(),
            policy: CallPolicy::default(),
            missing_logins: MissingLogins::default(),
            page: OnceLock::new(),
        }
    }

    /// What tools there are now.
    pub fn catalog(&self) -> Catalog {
        self.catalog.load()
    }

    /// The catalog's owner handle.
    pub fn catalog_handle(&self) -> &CatalogHandle {
        &self.catalog
    }

    /// Puts a provider behind a backend's own name, in place of an earlier one.
    pub fn provide(&self, backend: impl Into<String>, provider: Arc<dyn Provider>) {
        self.providers.write().insert(backend.into(), provider);
    }

    /// Takes the provider away.
    pub fn withdraw(&self, backend: &str) {
        self.providers.write().remove(backend);
    }

    /// Puts a policy in force, for every call that is not decided yet.
    pub fn set_policy(&self, policy: Policy) {
        self.policy.replace(policy);
    }

    /// Counts the calls of a day in another place from now on, in place of the memory of this process.
    pub fn set_day_counts(&self, counts: Arc<dyn DayCounts>) {
        self.policy.count_in(counts);
    }

    /// Takes back what a run has counted in its day that begins again, so that its calls count once.
    pub fn take_back_first_attempt(&self, watch: &QuestionWatch) {
        self.policy.take_back_first_attempt(watch);
    }

    /// Remembers approvals in other rules from now on.
    pub fn set_remembered(&self, rules: RememberedRules) {
        *self.policy.remembered.write() = Arc::new(rules);
    }

    /// Approvals that stand for later calls, to list and to revoke.
    pub fn remembered(&self) -> Arc<RememberedRules> {
        Arc::clone(&self.policy.remembered.read())
    }

    /// Remembers a person's approval of a call for later calls of this caller, by its name (empty for the local user).
    ///
    /// # Errors
    /// If it cannot be remembered; the approval itself stands.
    pub fn remember(
        &self,
        caller: &str,
        call: &AskedCall,
        remember: &Remember,
    ) -> Result<RememberedRule, RememberError> {
        let caller = if caller.is_empty() { decide::LOCAL } else { caller };
        self.remembered().remember(&self.policy.current(), caller, call, remember)
    }

    /// Notes whether an agent added a backend: where there are rules, calls that none is about are asked about then.
    pub fn note_added(&self, backend: &str, is_added: bool) {
        self.policy.note_added(backend, is_added);
    }

    /// Decides about a request other than a tool call, such as `resources/read`: rules see it as `backend.resources/read`.
    ///
    /// # Errors
    /// If the policy or a person denies it.
    pub async fn permit_request(
        &self,
        backend: &str,
        method: &str,
        params: Value,
        asked: &RequestContext,
    ) -> Result<(), HostError> {
        if self.policy.current().allows_everything() {
            return Ok(());
        }
        let subject = Subject::request(backend, method);
        let unchanged = |_: Value| -> EditCheck<'_> {
            let refused = HostError::not_sent(CallErrorCode::InvalidArguments, "such a request cannot be edited");
            Box::pin(std::future::ready(Err(refused)))
        };
        self.policy.permit(&subject, params, asked, unchanged).await.map(|_| ())
    }

    /// Counts a call of a run that goes on from its record, and notes what the record says was decided about it.
    pub(crate) fn note_repeated(&self, call: RepeatedCall<'_>, functions: &Registry, asked: &RequestContext) {
        note_recorded_refusal(call, asked);
        if self.policy.current().allows_everything() {
            return;
        }
        // A call whose arguments take more was not made.
        let tree = std::str::from_utf8(call.args).ok().map(|args| bounded_tree(args, MAX_TREE_BYTES));
        let Some(Ok(arguments)) = tree else { return };
        let (subject, arguments) = match call.target {
            Target::Tool { backend, tool } => match self.subject(backend, tool, asked) {
                Ok(subject) => (subject, arguments),
                Err(_) => return,
            },
            Target::Function(name) => {
                let aliased = functions.get(name).and_then(|function| self.aliased(function, &arguments));
                aliased.unwrap_or_else(|| (Subject::function(name, false), arguments))
            }
        };
        self.policy.note_repeated(&subject, &arguments, asked, call);
    }

    /// The error of a call that a person has decided about, so that it is not made: whatever the policy, the catalog and the
    /// tool's schema are by now. Ends the run where the person stopped it.
    pub async fn refused_before(&self, target: &Target, asked: &RequestContext) -> Option<HostError> {
        let own = match target {
            Target::Tool { backend, tool } => self.subject(backend, tool, asked).ok().map(|subject| subject.target),
            Target::Function(_) => None,
        };
        refused_before(own.as_ref().unwrap_or(target), asked).await
    }

    /// Whether no rule and no question of a person is about this call.
    fn is_free(&self, asked: &RequestContext) -> bool {
        self.policy.current().allows_everything() && open_question(asked).is_none()
    }

    /// The policy in force.
    pub fn policy(&self) -> Arc<Policy> {
        self.policy.current()
    }

    /// Calls a tool, without waiting for a login.
    async fn call_once(
        &self,
        backend: &str,
        tool: &str,
        arguments: Map<String, Value>,
        asked: RequestContext,
    ) -> Result<Answer, HostError> {
        let (approver, call) = (asked.approver.clone(), asked.call_id);
        let answer = self.decide_and_send(backend, tool, arguments, Box::new(asked)).await;
        answer.map_err(|error| match error.state {
            // What the attempt did in which the server asked is not known.
            CallState::NotSent if was_sent_before(approver.as_ref(), call) => {
                HostError { state: CallState::Unknown, ..error }
            }
            _ => error,
        })
    }

    async fn decide_and_send(
        &self,
        backend: &str,
        tool: &str,
        arguments: Map<String, Value>,
        asked: Box<RequestContext>,
    ) -> Result<Answer, HostError> {
        let arguments = Value::Object(arguments);
        check_time(&asked)?;
        if asked.kept_question().is_some() {
            Box::pin(self.check_refusal(backend, tool, &asked)).await?;
        }
        let admitted = self.admit_now(backend, tool, &arguments, &asked).await?;
        if self.is_free(&asked) {
            let answer = self.send(admitted, arguments, asked)?.await?;
            self.tell(backend, tool, &answer);
            return Ok(answer);
        }
        Box::pin(self.decide_by_rules_and_send(backend, tool, admitted, arguments, asked)).await
    }

    /// Fails where a person has decided that the call is not made.
    async fn check_refusal(&self, backend: &str, tool: &str, asked: &RequestContext) -> Result<(), HostError> {
        let target = Target::Tool { backend: backend.to_owned(), tool: tool.to_owned() };
        self.refused_before(&target, asked).await.map_or(Ok(()), Err)
    }

    /// The same where there are rules.
    async fn decide_by_rules_and_send(
        &self,
        backend: &str,
        tool: &str,
        mut admitted: AdmittedCall,
        arguments: Value,
        asked: Box<RequestContext>,
    ) -> Result<Answer, HostError> {
        let subject = match admitted.subject.take() {
            Some(subject) => subject,
            // The first rules came meanwhile.
            None => self.subject(backend, tool, &asked)?,
        };
        let context: &RequestContext = &asked;
        let check = |edited: Value| -> EditCheck<'_> {
            Box::pin(async move { self.admit_now(backend, tool, &edited, context).await.map(drop) })
        };
        let (arguments, counted) = self.policy.permit(&subject, arguments, context, check).await?;
        let (approver, run, call) = (asked.approver.clone(), asked.run.clone(), asked.call_id);
        // A person may have taken hours.
        let sent = match counted.was_asked {
            true => self.admit_now(backend, tool, &arguments, &asked).await,
            false => Ok(admitted),
        };
        let answer = match sent.and_then(|admitted| self.send(admitted, arguments, asked)) {
            Ok(answer) => answer.await,
            Err(refused) => Err(refused),
        };
        match &answer {
            Ok(answer) => self.tell(backend, tool, answer),
            // Looking for a login again and again must not use up what a rule grants.
            Err(error)
                if error.state == CallState::NotSent
                    && (error.code == CallErrorCode::NeedsLogin || !was_sent_before(approver.as_ref(), call)) =>
            {
                self.policy.take_back(&counted, run.as_deref());
            }
            Err(_) => {}
        }
        answer
    }

    /// Sends a call that everything has been decided about.
    fn send(
        &self,
        admitted: AdmittedCall,
        arguments: Value,
        asked: Box<RequestContext>,
    ) -> Result<ProviderFuture, HostError> {
        // The argument check may have taken the rest of the run's time.
        check_time(&asked)?;
        if let Some((name, rate)) = &asked.rate {
            self.rates.take(name, *rate, Instant::now()).map_err(|wait| too_many_calls(*rate, wait))?;
        }
        // Checked as a value, sent as what a value of this kind holds.
        let Value::Object(arguments) = arguments else { return Err(not_an_object()) };
        let AdmittedCall { provider, name, reads_only, .. } = admitted;
        if !asked.sends(reads_only) {
            return Ok(Box::pin(std::future::pending()));
        }
        let sent = asked.ends(reads_only);
        let answer = provider.call(name, arguments, *asked);
        let Some(sent) = sent else { return Ok(answer) };
        Ok(Box::pin(async move {
            let answer = answer.await;
            sent.ended(answer.as_ref().map_or_else(|error| error.state, |_| CallState::Applied));
            answer
        }))
    }

    /// Calls a host function. One that calls a tool is decided about as that tool, when it calls it.
    ///
    /// # Errors
    /// If the policy or a person denies the call, or the function fails.
    pub async fn call_function(
        &self,
        functions: &Registry,
        name: &str,
        context: CallContext,
        args: Vec<Value>,
        asked: RequestContext,
    ) -> Result<FunctionAnswer, FunctionError> {
        let decided_here = functions.get(name).is_some_and(|function| !function.is_tool());
        let mut args = Value::Array(args);
        let refused = |error: HostError| {
            let denied = FunctionError::new(ErrorCode::Refused, error.message).with_custom_code(error.code.as_str());
            FunctionError { data: error.data, ..denied }
        };
        if asked.kept_question().is_some() {
            let before = Box::pin(self.refused_before(&Target::Function(name.to_owned()), &asked)).await;
            before.map_or(Ok(()), |error| Err(refused(error)))?;
        }
        if decided_here && !self.is_free(&asked) {
            let reads_only = functions.get(name).is_some_and(|function| function.reads_only_with(&args));
            let subject = Subject::function(name, reads_only);
            let any = |_: Value| -> EditCheck<'_> { Box::pin(std::future::ready(Ok(()))) };
            (args, _) = self.policy.permit(&subject, args, &asked, any).await.map_err(refused)?;
        }
        let Value::Array(args) = args else { return Err(FunctionError::failed("the arguments are no list")) };
        // One that is a tool is noted when it calls the tool.
        let may_repeat = functions.get(name).is_some_and(|function| function.is_tool() || function.is_idempotent());
        if !asked.sends(may_repeat) {
            return std::future::pending().await;
        }
        let sent = asked.ends(may_repeat);
        let budget = asked.budget.clone().unwrap_or_else(|| process_budget().clone());
        let context = CallContext { host: Some(Arc::new(asked)), budget, ..context };
        let answer = functions.answer(name, context, args).await;
        if let Some(sent) = sent {
            sent.ended(answer.as_ref().map_or_else(|error| host::state_of(error.effect), |_| CallState::Applied));
        }
        answer
    }

    /// What the policy is asked about.
    fn subject(&self, backend: &str, tool: &str, asked: &RequestContext) -> Result<Subject, HostError> {
        let catalog = self.catalog.load();
        let view = ScopedCatalog::new(&catalog, &asked.access, &asked.tools);
        let known = view.backend(backend).ok_or_else(|| unknown_backend(view, backend))?;
        let found = view.tool(backend, tool).ok_or_else(|| unknown_tool(view, known, tool))?;
        Ok(Subject::of(found))
    }

    /// Everything that is decided before anything is sent, the policy aside.
    fn admit(
        &self,
        backend: &str,
        tool: &str,
        arguments: &Value,
        asked: &RequestContext,
    ) -> Result<AdmittedCall, HostError> {
        let catalog = self.catalog.load();
        let view = ScopedCatalog::new(&catalog, &asked.access, &asked.tools);
        let Some(known) = view.backend(backend) else { return Err(unknown_backend(view, backend)) };
        let provider = || self.providers.read().get(known.name()).cloned();
        let Some(found) = view.tool(backend, tool) else {
            let mut error = unknown_tool(view, known, tool);
            if provider().is_some_and(|provider| provider.has_more_tools()) {
                error.message += ". The server lists more tools than are kept, so some of them are left out";
            }
            return Err(error);
        };
        if asked.effects == AllowedEffects::ReadOnly && !is_annotated_read_only(found) {
            return Err(not_read_only(&found.path()));
        }
        let problems = found.entry.check_arguments(arguments);
        if !problems.is_empty() {
            return Err(invalid_arguments(&found.path(), &problems));
        }
        match provider() {
            Some(provider) => {
                let (name, reads_only) = (found.tool().name.clone(), is_annotated_read_only(found));
                let subject = (!self.policy.current().allows_everything()).then(|| Subject::of(found));
                Ok(AdmittedCall { provider, name, reads_only, subject })
            }
            None => Err(not_ready(known.name(), Some(&found.tool().name), known.state())),
        }
    }
}

impl Bridge {
    /// The same once more where the backend is not up and may have other tools, or other schemas, than are known of it: it is
    /// started and waited for first.
    async fn admit_now(
        &self,
        backend: &str,
        tool: &str,
        arguments: &Value,
        asked: &RequestContext,
    ) -> Result<AdmittedCall, HostError> {
        match self.admit(backend, tool, arguments, asked) {
            Err(refused) if self.may_come_up(&refused, backend, asked) => {
                Box::pin(self.wait_until_up(backend, asked, refused)).await?;
                self.admit(backend, tool, arguments, asked)
            }
            admitted => admitted,
        }
    }

    /// Whether a call was refused because its backend is not up: by its state, or by what was known of its tools before.
    fn may_come_up(&self, refused: &HostError, backend: &str, asked: &RequestContext) -> bool {
        match refused.code {
            CallErrorCode::NotReady | CallErrorCode::FailedToStart => true,
            CallErrorCode::InvalidArguments | CallErrorCode::ReadOnly => {
                let catalog = self.catalog.load();
                let view = ScopedCatalog::new(&catalog, &asked.access, &asked.tools);
                let state = view.backend(backend).map(Backend::state);
                matches!(state, Some(BackendState::Starting | BackendState::Cached | BackendState::Failed { .. }))
            }
            _ => false,
        }
    }

    /// Starts a backend again that refused a call because it is not up, and waits for it within the time of the run.
    async fn wait_until_up(&self, backend: &str, asked: &RequestContext, refused: HostError) -> Result<(), HostError> {
        let provider = {
            let catalog = self.catalog.load();
            let view = ScopedCatalog::new(&catalog, &asked.access, &asked.tools);
            view.backend(backend).and_then(|known| self.providers.read().get(known.name()).cloned())
        };
        let Some(provider) = provider else { return Err(refused) };
        provider.come_up(asked).await?;
        check_time(asked)
    }
}

/// A call about which everything but the policy is decided.
struct AdmittedCall {
    provider: Arc<dyn Provider>,
    /// The tool's own name.
    name: String,
    /// Whether its server says that it changes nothing.
    reads_only: bool,
    /// What the policy is asked about, where there are rules.
    subject: Option<Subject>,
}

/// Whether the run around a call still goes on: nothing is sent after its end.
fn check_time(asked: &RequestContext) -> Result<(), HostError> {
    if asked.cancel.is_cancelled() {
        return Err(HostError::not_sent(CallErrorCode::Cancelled, "the call was cancelled"));
    }
    if asked.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
        return Err(HostError::not_sent(CallErrorCode::Timeout, "the run's time was over before the call was sent"));
    }
    Ok(())
}

/// Whether an attempt of this call was sent: one in which its server asked something.
fn was_sent_before(approver: Option<&Arc<dyn Approver>>, call_id: u64) -> bool {
    approver.is_some_and(|approver| !approver.asked_forms(call_id).is_empty())
}

fn too_many_calls(rate: CallRate, wait: Duration) -> HostError {
    let seconds = wait.as_secs() + 1;
    let message = format!("this caller may make {} tool calls a minute; try again in {seconds} s", rate.calls());
    HostError::not_sent(CallErrorCode::RateLimited, message).with_data(json!({ "retry_after_seconds": seconds }))
}

/// A call that a program which only reads may not make.
fn not_read_only(target: &str) -> HostError {
    let message = format!("{target} is not known to change nothing, and query_tools only reads: use call_tool_chain");
    HostError::not_sent(CallErrorCode::ReadOnly, message)
}

fn not_an_object() -> HostError {
    HostError::not_sent(CallErrorCode::InvalidArguments, "the arguments are no object")
}

fn unknown_backend(view: ScopedCatalog<'_>, backend: &str) -> HostError {
    let near = view.near_backends(backend);
    HostError::not_sent(
        CallErrorCode::UnknownBackend,
        format!("there is no backend named {backend}{}", did_you_mean(&near)),
    )
}

/// A backend that is not up may have more tools than are known.
fn unknown_tool(view: ScopedCatalog<'_>, backend: &Backend, tool: &str) -> HostError {
    if *backend.state() != BackendState::Ready {
        return not_ready(backend.name(), None, backend.state());
    }
    let near = view.near_tools(backend.name(), tool);
    let mut message = format!("{} has no tool named {tool}{}", backend.name(), did_you_mean(&near));
    if near.is_empty() {
        let names = view.tools_of(backend).map(|entry| entry.tool().name.as_str());
        message.extend(listed(names).map(|has| format!(". {has}")));
    }
    HostError::not_sent(CallErrorCode::UnknownTool, message)
}

fn did_you_mean(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!(": did you mean {}?", near.join(" or ")) }
}

fn invalid_arguments(path: &str, problems: &[ArgumentProblem]) -> HostError {
    let shown: Vec<&str> = problems.iter().take(SHOWN_PROBLEMS).map(|problem| problem.message.as_str()).collect();
    let message = format!("the arguments do not fit {path}: {}", shown.join("; "));
    let data = problems.iter().map(|problem| json!({ "path": problem.path, "message": problem.message }));
    HostError::not_sent(CallErrorCode::InvalidArguments, message).with_data(data.collect())
}

/// The backend cannot be called now. `data` has its state, and the reason where there is one.
pub fn not_ready(backend: &str, tool: Option<&str>, state: &BackendState) -> HostError {
    let (code, data) = match state {
        BackendState::Failed { reason } => {
            (CallErrorCode::FailedToStart, json!({ "backend": backend, "state": "failed", "reason": reason }))
        }
        BackendState::Starting | BackendState::Cached => {
            (CallErrorCode::NotReady, json!({ "backend": backend, "state": "starting" }))
        }
        BackendState::NeedsLogin { command } => {
            (CallErrorCode::NeedsLogin, json!({ "backend": backend, "state": "needs login", "command": command }))
        }
        BackendState::Disabled => (CallErrorCode::NotReady, json!({ "backend": backend, "state": "disabled" })),
        BackendState::Ready => (CallErrorCode::NotReady, json!({ "backend": backend, "state": "restarting" })),
    };
    HostError::not_sent(code, unready(backend, tool, state)).with_data(data)
}

/// In what state a backend is that cannot be called now, and what shows it.
pub fn unready(backend: &str, tool: Option<&str>, state: &BackendState) -> String {
    let shown = format!("The resource toolgate://backend/{backend} shows its state.");
    match (state, tool) {
        (BackendState::Starting | BackendState::Cached, Some(tool)) => format!(
            "Backend '{backend}' is still starting. Tool '{tool}' is cached but the backend hasn't connected yet. \
             Try again shortly."
        ),
        (BackendState::Starting, None) => {
            format!("Backend '{backend}' is still starting, and its tools are not all known yet. {shown}")
        }
        (BackendState::Cached, None) => format!("Backend '{backend}' is {state}. {shown}"),
        (BackendState::Ready, _) => format!("Backend '{backend}' has just gone away. Try again shortly. {shown}"),
        (BackendState::Failed { reason }, _) => format!("Backend '{backend}' failed to start: {reason}. {shown}"),
        (BackendState::NeedsLogin { command }, _) => {
            format!("Backend '{backend}' needs a login by its user, who runs: {command}. {shown}")
        }
        (BackendState::Disabled, _) => format!("Backend '{backend}' is disabled in the configuration. {shown}"),
    }
}
