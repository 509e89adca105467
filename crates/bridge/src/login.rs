//! A call that needs a login waits for it, in a run that can wait.
//!
//! The server did not execute the call, so it is made again once a person has logged in. The run is paused meanwhile, like one
//! that waits for an approval, and looks now and then whether the login is there. A run that cannot wait and has changed nothing
//! begins again as one that can. Elsewhere such a call fails as `NEEDS_LOGIN`, and its tool is remembered, so that the next program is
//! kept from its start. A call that a person has decided about before does not wait once more: it fails as elsewhere.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Map, Value};
use toolgate_catalog::{Backend, BackendState, ToolRef};
use toolgate_engine::HostError;
use toolgate_wire::{CallErrorCode, Target};

use super::{Answer, Bridge, RequestContext, RunCalls};
use crate::approvals::{Approver, AskedCall, LoginWait, Verdict};

/// The most tools that are known to miss a login.
const MAX_MISSING: usize = 1_024;

/// How long a tool is taken to miss its login when no further call of it is made.
const MISSING_LOGIN_TIME: Duration = Duration::from_secs(3600);

/// Tools whose last call was refused for want of a login, by the names that their backends give. A tool that is not in the catalog is
/// none: its backend's state says that a login is needed.
#[derive(Debug, Default)]
pub(super) struct MissingLogins {
    /// Whether there are any: calls that succeed look at this alone.
    any: AtomicBool,
    tools: Mutex<HashMap<(String, String), Instant>>,
}

impl MissingLogins {
    fn note(&self, tool: Option<ToolRef<'_>>) {
        let Some(key) = tool.map(key_of) else { return };
        let mut tools = self.tools.lock();
        if tools.len() >= MAX_MISSING {
            tools.retain(|_, since| since.elapsed() < MISSING_LOGIN_TIME);
        }
        if tools.len() < MAX_MISSING {
            tools.insert(key, Instant::now());
            self.any.store(true, Ordering::Release);
        }
    }

    fn came(&self, tool: impl FnOnce() -> Option<(String, String)>) {
        if !self.any.load(Ordering::Acquire) {
            return;
        }
        let Some(key) = tool() else { return };
        let mut tools = self.tools.lock();
        tools.remove(&key);
        self.any.store(!tools.is_empty(), Ordering::Release);
    }

    fn of_backend(&self, name: &str) -> bool {
        let is_missing = |((backend, _), since): (&(String, String), &Instant)| {
            backend == name && since.elapsed() < MISSING_LOGIN_TIME
        };
        self.any.load(Ordering::Acquire) && self.tools.lock().iter().any(is_missing)
    }
}

fn key_of(tool: ToolRef<'_>) -> (String, String) {
    (tool.backend.name().to_owned(), tool.tool().name.clone())
}

/// A call that may have to wait.
struct WaitingCall<'a> {
    backend: &'a str,
    tool: &'a str,
    arguments: &'a Map<String, Value>,
    asked: &'a RequestContext,
    /// The address of the page, where there is one.
    page: Option<&'a str>,
}

impl Bridge {
    /// Notes the address of the page, on which people of this machine decide and log in. The first one stays.
    pub fn set_page(&self, address: String) {
        // There is one page of a process, or any of them will do.
        let _ = self.page.set(address);
    }

    /// The address of the page, where there is one.
    pub fn page(&self) -> Option<&str> {
        self.page.get().map(String::as_str)
    }

    /// Whether a call of this backend may have to wait for a login: it says so, or has refused a call for want of one since the last
    /// that succeeded.
    pub fn may_need_login(&self, backend: &Backend) -> bool {
        matches!(backend.state(), BackendState::NeedsLogin { .. }) || self.missing_logins.of_backend(backend.name())
    }

    /// Calls a tool, by any spelling of its names.
    ///
    /// # Errors
    /// If the call is not made, or fails.
    pub async fn call(
        &self,
        backend: &str,
        tool: &str,
        arguments: Map<String, Value>,
        asked: RequestContext,
    ) -> Result<Answer, HostError> {
        let answer = match asked.approver.clone() {
            None => {
                let (run, call_id) = (asked.run.clone(), asked.call_id);
                // No question was asked, so no attempt of it was sent before.
                let answer = self.decide_and_send(backend, tool, arguments, Box::new(asked)).await;
                match answer {
                    Err(refused) if refused.code == CallErrorCode::NeedsLogin => {
                        self.missing_logins.note(self.catalog.load().tool(backend, tool));
                        Box::pin(self.begin_again_or_fail(refused, run, call_id)).await
                    }
                    answer => answer,
                }
            }
            Some(approver) => Box::pin(self.call_with_approver(backend, tool, arguments, asked, approver)).await,
        };
        if answer.is_ok() {
            self.missing_logins.came(|| self.catalog.load().tool(backend, tool).map(key_of));
        }
        answer
    }

    /// Ends the run so that it begins again as one that waits for the login. Where it cannot, the call fails.
    async fn begin_again_or_fail(
        &self,
        refused: HostError,
        run: Option<Arc<RunCalls>>,
        call_id: u64,
    ) -> Result<Answer, HostError> {
        if let Some(run) = &run
            && run.begin_again(call_id, None).await
        {
            // The call is dropped with the run.
            return std::future::pending().await;
        }
        let has_changed = run.as_ref().is_some_and(|run| run.has_changed_before(call_id));
        // The overview has a button for backends in this state only.
        let page = self.page().filter(|_| refused.data.as_ref().is_some_and(|data| data["state"] == "needs login"));
        let mut message = with_link(&refused.message, page.map(|page| format!("{page}#/overview")));
        if has_changed {
            message = format!(
                "{}. The program has changed something already, so it does not begin again to wait for the login: run the rest of it \
                 afterwards, or such a program with durable: true from its start",
                message.trim_end_matches('.')
            );
        }
        Err(HostError { message, ..refused })
    }

    /// Calls a tool in a run that can wait for a login.
    async fn call_with_approver(
        &self,
        backend: &str,
        tool: &str,
        arguments: Map<String, Value>,
        asked: RequestContext,
        approver: Arc<dyn Approver>,
    ) -> Result<Answer, HostError> {
        let call = WaitingCall { backend, tool, arguments: &arguments, asked: &asked, page: self.page() };
        let login = approver.login_wait(asked.call_id);
        if login == LoginWait::Decided {
            call.wait(&approver, HostError::not_sent(CallErrorCode::NeedsLogin, "a login is needed")).await?;
            return self.call_once(backend, tool, arguments, asked).await;
        }
        match self.call_once(backend, tool, arguments.clone(), asked.clone()).await {
            Err(refused) if refused.code == CallErrorCode::NeedsLogin => {
                self.missing_logins.note(self.catalog.load().tool(backend, tool));
                call.wait(&approver, refused).await?;
                self.call_once(backend, tool, arguments, asked).await
            }
            answer => {
                if login == LoginWait::Waits {
                    approver.login_came(asked.call_id).await;
                }
                answer
            }
        }
    }
}

impl WaitingCall<'_> {
    /// Completes when the call is to be made again; an error is why it is not.
    async fn wait(&self, approver: &Arc<dyn Approver>, refused: HostError) -> Result<(), HostError> {
        let command = refused.data.as_ref().and_then(|data| data["command"].as_str()).unwrap_or_default().to_owned();
        let question = AskedCall {
            call_id: self.asked.call_id,
            target: Target::Tool { backend: self.backend.to_owned(), tool: self.tool.to_owned() },
            arguments: Value::Object(self.arguments.clone()).to_string(),
            reason: with_link(&refused.message, self.page.map(|page| format!("{page}#/pending"))),
            rule: None,
            rule_key: None,
            approvers: Vec::new(),
            expires: toolgate_policy::DEFAULT_EXPIRY,
            form: None,
        };
        match approver.await_login(question, command).await {
            Verdict::Approve { .. } => Ok(()),
            Verdict::Deny { .. } | Verdict::Expired => Err(refused),
            Verdict::Stop { reason } => {
                self.asked.stop_run(&reason).await;
                Err(refused)
            }
        }
    }
}

/// What is said about a missing login, with where else than by a command a person logs in.
fn with_link(message: &str, link: Option<String>) -> String {
    match link {
        Some(link) => format!("{}. The user can also log in at {link}", message.trim_end_matches('.')),
        None => message.to_owned(),
    }
}
