//! Asks a person about a call that a rule of the policy does not let through by itself.
//!
//! The bridge decides that a call must be asked about; who is asked, by which channel, and what the run does meanwhile is
//! up to the run's [`Approver`]. A call that waits for its verdict is one that has no answer yet: nothing was sent.
//! A verdict binds to the arguments that were shown: the bridge sends these, or the edited ones, and no others.
//!
//! # Layout
//! - `remembered`: approvals that stand for later calls, as rules that can be listed and revoked

mod remembered;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use toolgate_journal::entry::AllowedBy;
use toolgate_wire::report::DecisionRecord;
use toolgate_wire::{CallId, Target};

pub use remembered::{Remember, RememberError, RememberedRule, RememberedRules};

/// A verdict on its way.
pub type VerdictFuture<'a> = Pin<Box<dyn Future<Output = Verdict> + Send + 'a>>;

/// A call that waits for a person's verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedCall {
    /// Number of the call in its run, as the program numbers its calls.
    pub call_id: u64,
    /// What is called, by the names that the backend itself uses.
    pub target: Target,
    /// JSON text of the arguments, exactly as they would be sent.
    pub arguments: String,
    /// Why a person is asked.
    pub reason: String,
    /// The rule that says so, as `toolgate policy list` names it.
    pub rule: Option<String>,
    /// What that rule is about and who may decide ([`toolgate_policy::Rule::approval_key`]): the name is a place in the list, which
    /// another rule may have later.
    pub rule_key: Option<String>,
    /// Who may decide: patterns over the names of callers. Everyone who may decide at all when empty.
    pub approvers: Vec<String>,
    /// How long the question stands. The call fails when it is still undecided by then.
    pub expires: Duration,
    /// The form of a server that asks something itself before it carries out the call. Approving is answering it.
    pub form: Option<ServerForm>,
}

/// What a server asks inside a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerForm {
    /// How many questions it has asked about this call, with this one.
    pub round: u32,
    /// What it asks.
    pub message: String,
    /// JSON text of the schema of the answer: a flat object.
    pub schema: String,
    /// How the server is answered; `None` where it has to be asked again.
    pub asked: Option<AskedInput>,
}

/// What a server of MCP 2026-07-28 gave with its question, to be sent back with the answer: also by another process.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct AskedInput {
    /// The name of the question in `inputRequests`.
    pub key: String,
    /// `requestState`, which only the server understands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

/// What a person decided about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The call is made.
    Approve {
        /// JSON text of other arguments to send instead; as asked when absent.
        arguments: Option<String>,
    },
    /// The call fails, and the program may go on.
    Deny {
        /// Why.
        reason: String,
    },
    /// The call fails: there was no decision before the question expired.
    Expired,
    /// The call fails, and so does the run.
    Stop {
        /// Why.
        reason: String,
    },
}

/// A question about a call that is kept with its run. The policy may have changed since it was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptQuestion {
    /// [`AskedCall::rule`].
    pub rule: Option<String>,
    /// [`AskedCall::rule_key`] of the rule that asked.
    pub rule_key: Option<String>,
    /// [`AskedCall::approvers`].
    pub approvers: Vec<String>,
    /// Whether the answer was acted on before the call came to the bridge. Otherwise the bridge asks for it before it goes by the
    /// policy of now.
    pub is_acted_on: bool,
}

/// Whether a call waits for a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginWait {
    /// It does not.
    No,
    /// It does, and is made again to see whether the login is there.
    Waits,
    /// A person has decided not to wait, or to go on.
    Decided,
}

/// Gets verdicts for the calls of one run.
pub trait Approver: Send + Sync {
    /// Asks about a call, and gives the verdict when there is one. The future is dropped when the run ends before.
    fn ask(&self, call: AskedCall) -> VerdictFuture<'_>;

    /// Waits until a person has logged in at a backend, so that a call can be made that was refused for want of a login;
    /// `command` does it. [`Verdict::Approve`] when the call is to be made again. A run that cannot wait denies.
    fn await_login(&self, call: AskedCall, command: String) -> VerdictFuture<'_> {
        let _ = (call, command);
        Box::pin(std::future::ready(Verdict::Deny { reason: String::new() }))
    }

    /// Whether this call waits for a login, also since before this process had the run.
    fn login_wait(&self, call_id: u64) -> LoginWait {
        let _ = call_id;
        LoginWait::No
    }

    /// A call that waited for a login need not wait any more.
    fn login_came(&self, call_id: u64) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let _ = call_id;
        Box::pin(std::future::ready(()))
    }

    /// The forms that the server of a call has asked for, also before this process had the run, in the order of their rounds.
    /// Each was asked inside an attempt of the call that was sent.
    fn asked_forms(&self, call_id: u64) -> Vec<ServerForm> {
        let _ = call_id;
        Vec::new()
    }

    /// The question about a call that was asked first, also before this process had the run.
    fn kept_question(&self, call: CallId) -> Option<KeptQuestion> {
        let _ = call;
        None
    }

    /// The verdict that this call is not made, where a person has decided so or decided too late; also before this process had
    /// the run. It holds whatever the policy says by now.
    fn refusal(&self, call: CallId) -> Option<Verdict> {
        let _ = call;
        None
    }

    /// The policy lets a call through without a question of its own: a run that is kept keeps by what.
    fn lets_through(&self, call: CallId, by: AllowedBy) {
        let _ = (call, by);
    }

    /// What the policy let a call through by before this process had the run, where its record says so.
    fn let_through_before(&self, call: CallId) -> Option<AllowedBy> {
        let _ = call;
        None
    }

    /// What was answered about a call, also before this process had the run.
    fn answered(&self, call: CallId) -> Option<DecisionRecord> {
        let _ = call;
        None
    }
}

impl fmt::Debug for dyn Approver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Approver")
    }
}
