//! A call that needs a login waits for it, in a run that can wait.
//!
//! The server did not execute the call, so it is made again once a person has logged in. The run is paused meanwhile, like one
//! that waits for an approval, and looks now and then whether the login is there. Elsewhere such a call fails as `NEEDS_LOGIN`.
//! A call that a person has decided about before does not wait once more: it fails as elsewhere.

use std::sync::Arc;

use serde_json::{Map, Value};
use toolgate_engine::HostError;
use toolgate_wire::Target;

use super::{Answer, Bridge, NEEDS_LOGIN, RequestContext};
use crate::approvals::{Approver, AskedCall, LoginWait, Verdict};

/// A call that may have to wait.
struct WaitingCall<'a> {
    backend: &'a str,
    tool: &'a str,
    arguments: &'a Map<String, Value>,
    asked: &'a RequestContext,
}

impl Bridge {
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
        match asked.approver.clone() {
            // Nobody was asked, so no attempt of it was sent before.
            None => self.decide_and_send(backend, tool, arguments, Box::new(asked)).await,
            Some(approver) => Box::pin(self.call_with_approver(backend, tool, arguments, asked, approver)).await,
        }
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
        let call = WaitingCall { backend, tool, arguments: &arguments, asked: &asked };
        let login = approver.login_wait(asked.call_id);
        if login == LoginWait::Decided {
            call.wait(&approver, HostError::not_sent(NEEDS_LOGIN, "a login is needed")).await?;
            return self.call_once(backend, tool, arguments, asked).await;
        }
        match self.call_once(backend, tool, arguments.clone(), asked.clone()).await {
            Err(refused) if refused.code == NEEDS_LOGIN => {
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
            reason: refused.message.clone(),
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
