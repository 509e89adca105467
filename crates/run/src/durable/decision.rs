//! What a person decided about a call: how it is written down, and who may decide.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use toolgate_catalog::Catalog;
use toolgate_journal::durable::{Decision as Kept, PendingCall};
use toolgate_journal::replay::clock;
use toolgate_journal::store::{RunStatus, StoreError};
use toolgate_mcp::bounded_tree;
use toolgate_wire::{CallId, CallerScope, Pattern, Profile, Target, foreign_text};

use super::super::Runner;
use super::repeated_member::repeated_member;
use super::view::{About, PendingView, question_of, undecided};
use super::{DurableError, DurableRuns, Inner};
use toolgate_bridge::approvals::{AskedCall, Remember, RememberError, RememberedRule};
use toolgate_bridge::check_answer;
use toolgate_bridge::marks::has_marks;

/// The memory that the values of edited arguments may take.
const MAX_EDITED_TREE: usize = 32 << 20;
/// Characters of the name of an edited argument.
const MAX_NAME: usize = 100;
/// Problems of edited arguments that are told.
const MAX_PROBLEMS: usize = 5;

/// What to do with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DecisionKind {
    /// Make it.
    Approve,
    /// Make it with other arguments.
    Edit,
    /// Do not send it again, and give the program this answer: for a call whose effect is unknown.
    Answer,
    /// Let it fail; the program may go on.
    Deny,
    /// Let it fail, and end the run.
    Stop,
}

impl DecisionKind {
    /// What came of the question, as reports say it.
    pub(super) fn verdict(self) -> &'static str {
        match self {
            DecisionKind::Approve => "approved",
            DecisionKind::Edit => "edited",
            DecisionKind::Answer => "answered",
            DecisionKind::Deny => "denied",
            DecisionKind::Stop => "stopped",
        }
    }
}

/// A decision about one call.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallDecision {
    /// The number of the call in its run.
    pub call_id: u32,
    /// What to do with it.
    pub decision: DecisionKind,
    /// The arguments to send instead, or the answer to give.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Box<RawValue>>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// For what else the decision holds; the rule store reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remember: Option<Value>,
    /// The name of the caller who decided; empty for the local user.
    #[serde(default)]
    pub by: String,
    /// When, in milliseconds since 1970.
    #[serde(default)]
    pub at: u64,
}

impl CallDecision {
    /// Whether it lets a call be made after its question had expired. What keeps a call from being made is never late.
    pub(super) fn is_late(&self, expires_at: u64) -> bool {
        match self.decision {
            DecisionKind::Approve | DecisionKind::Edit | DecisionKind::Answer => self.at > expires_at,
            DecisionKind::Deny | DecisionKind::Stop => false,
        }
    }
}

impl DurableRuns {
    /// Decides calls of a run on behalf of this caller; of anybody when absent. The first decision about a call holds.
    /// Returns, for each, the decision that holds.
    ///
    /// # Errors
    /// If the caller may not decide about this run, a call does not wait or no longer, or its new arguments do not fit.
    /// Nothing is decided then.
    pub async fn decide(
        &self,
        run: &str,
        caller: Option<&str>,
        decisions: Vec<CallDecision>,
    ) -> Result<Vec<CallDecision>, DurableError> {
        let inner = &self.0;
        let found = inner.journal.look_at(run).await?;
        let (row, asked) = found.ok_or_else(|| DurableError::NoSuchRun(run.to_owned()))?;
        let questions: Vec<PendingView> = asked.iter().filter_map(question_of).collect();
        let is_owner = caller.is_none_or(|caller| caller == row.caller);
        if !is_owner && !questions.iter().any(|question| may_decide(question, caller, is_owner)) {
            return Err(DurableError::NoSuchRun(run.to_owned()));
        }
        for (at, decision) in decisions.iter().enumerate() {
            let question = questions.iter().find(|question| question.call_id == decision.call_id);
            let wrong = |message: String| DurableError::BadDecision { at, message };
            let question = question.ok_or_else(|| wrong(format!("no call {} waits", decision.call_id)))?;
            if !may_decide(question, caller, is_owner) {
                return Err(wrong(format!("this caller may not decide about call {}", decision.call_id)));
            }
            if is_undecided(&asked, decision.call_id) {
                question.check_open(row.status, super::unix_ms()).map_err(wrong)?;
            }
            self.check(question, decision).map_err(wrong)?;
        }
        let mut held = Vec::new();
        let mut remembered = None;
        let mut is_decided_now = false;
        for decision in decisions {
            let decision = CallDecision { by: caller.unwrap_or_default().to_owned(), at: super::unix_ms(), ..decision };
            let text = serde_json::to_string(&decision).map_err(|error| DurableError::Unreadable(error.to_string()))?;
            let kept = match inner.journal.decide(run, CallId(decision.call_id), &text).await? {
                Kept::Now => {
                    is_decided_now = true;
                    // What is remembered lets calls through that are not in the record of this run.
                    if decision.remember.is_some() {
                        inner.journal.sync().await?;
                    }
                    let question = questions.iter().find(|question| question.call_id == decision.call_id);
                    question.into_iter().for_each(|question| inner.remember(run, &row.caller, question, &decision));
                    remembered = decision.remember.as_ref().map(|_| decision.by.clone()).or(remembered);
                    text
                }
                Kept::Before(before) => before,
                Kept::NotAsked => return Err(DurableError::NoSuchRun(run.to_owned())),
            };
            let kept: CallDecision =
                serde_json::from_str(&kept).map_err(|error| DurableError::Unreadable(error.to_string()))?;
            let approver = inner.live.lock().get(run).and_then(|live| live.approver.clone());
            if let Some(approver) = approver {
                approver.decided(kept.clone());
            }
            held.push(kept);
        }
        if let Some(by) = remembered {
            inner.approve_others(run, &row.caller, &by).await;
        }
        if row.status != RunStatus::Done {
            // A repeated decision wakes no worker: otherwise it could keep one waiting without end.
            if is_decided_now {
                inner.wake(run, &row.caller);
            } else {
                inner.due.notify_one();
            }
            inner.changed(run);
        }
        // The run goes on meanwhile: its next effect is sent only after the decision is on the disk too.
        inner.journal.sync().await?;
        Ok(held)
    }

    /// Decides what the receiver of a run's webhook answered, with the rights of the run's caller.
    pub(super) async fn decide_as_owner(&self, run: &str, decisions: Vec<CallDecision>) {
        let decided = match self.0.journal.row(run).await {
            Ok(Some(row)) => self.decide(run, Some(&row.caller), decisions).await,
            Ok(None) => Err(DurableError::NoSuchRun(run.to_owned())),
            Err(error) => Err(error.into()),
        };
        if let Err(error) = decided {
            tracing::warn!(run, %error, "the answer to the webhook of a run decides nothing");
        }
    }

    /// Whether a question can be decided so: new arguments are there exactly where they are asked for, and fit the tool.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn check(&self, question: &PendingView, decision: &CallDecision) -> Result<(), String> {
        question.takes(decision)?;
        question.check_edit(decision, &self.0.runner.bridge.catalog())
    }
}

impl Runner {
    /// Forgets an approval that stands for later calls of this caller, also where another process goes on with its run.
    ///
    /// # Errors
    /// If this caller has none of that name, or the file or the run's store cannot be written.
    pub async fn forget_approval(&self, scope: &CallerScope, id: &str) -> Result<(), RememberError> {
        let gone = self.bridge.forget_for(scope, id)?;
        match (&gone.run, self.durable.get()) {
            (Some(run), Some(runs)) => Ok(runs.0.forget_decisions(run, &gone).await?),
            _ => Ok(()),
        }
    }
}

impl Inner {
    /// Takes from the decisions of a run that they hold for later calls, where this rule stood for them.
    async fn forget_decisions(&self, run: &str, gone: &RememberedRule) -> Result<(), StoreError> {
        for call in self.journal.pending(run).await? {
            let approval = RunApproval::of(run, &call);
            let Some(RunApproval { asked, remember: Remember::Run(_), mut decision }) = approval else { continue };
            if asked.rule_key.unwrap_or_default() == gone.asked_by && asked.target.to_string() == gone.rule.tool {
                decision.remember = None;
                let text = serde_json::to_string(&decision).map_err(|error| StoreError::Damaged(error.to_string()))?;
                self.journal.amend(run, call.call, &text).await?;
            }
        }
        Ok(())
    }

    /// Remembers an approval for later calls where the person wants that. The approval holds in any case.
    fn remember(&self, run: &str, caller: &str, question: &PendingView, decision: &CallDecision) {
        if let Some((asked, remember)) = question.remembered(run, decision) {
            self.remember_call(run, caller, &asked, &remember);
        }
    }

    fn remember_call(&self, run: &str, caller: &str, asked: &AskedCall, remember: &Remember) {
        if let Err(error) = self.runner.bridge.remember(caller, asked, remember) {
            tracing::warn!(run, %error, "an approval is not remembered");
        }
    }

    /// Approves the other calls of a run that wait already, where what was just remembered holds for them. One that cannot be
    /// approved so is asked about as before.
    async fn approve_others(&self, run: &str, caller: &str, by: &str) {
        let Ok(asked) = self.journal.pending(run).await else { return };
        let Ok(record) = self.journal.header(run).await else { return };
        let Some(profile) = record.header().map(|header| header.profile) else { return };
        let approver = self.live.lock().get(run).and_then(|live| live.approver.clone());
        let mut waiting = undecided(&asked);
        // Those that came since the run was paused are not in the store.
        let is_new = |it: &PendingView| asked.iter().all(|call| call.call.0 != it.call_id);
        waiting.extend(approver.iter().flat_map(|approver| approver.waiting()).filter(is_new));
        for decision in self.approved_by_others(run, caller, profile, by, &waiting).await {
            approver.iter().for_each(|approver| approver.decided(decision.clone()));
        }
    }

    /// Approves those of the questions for which an approval that is remembered holds, and gives the decisions that hold.
    pub(super) async fn approved_by_others(
        &self,
        run: &str,
        caller: &str,
        profile: Profile,
        by: &str,
        waiting: &[PendingView],
    ) -> Vec<CallDecision> {
        let mut decisions = Vec::new();
        let is_asked_by_rule = |it: &&PendingView| it.about.is_rule() && it.login.is_none() && it.staged.is_none();
        for question in waiting.iter().filter(is_asked_by_rule) {
            let asked = question.asked_call(question.arguments.0.get());
            let Ok(arguments) = bounded_tree(&asked.arguments, MAX_EDITED_TREE) else { continue };
            if !self.runner.bridge.is_approved(caller, profile.name(), &asked, &arguments, run) {
                continue;
            }
            let decision = CallDecision {
                call_id: question.call_id,
                decision: DecisionKind::Approve,
                arguments: None,
                reason: Some("an approval that is remembered holds for it".to_owned()),
                remember: None,
                by: by.to_owned(),
                at: super::unix_ms(),
            };
            let Ok(text) = serde_json::to_string(&decision) else { continue };
            match self.journal.decide(run, CallId(question.call_id), &text).await {
                Ok(Kept::Now | Kept::NotAsked) => decisions.push(decision),
                Ok(Kept::Before(before)) => decisions.extend(serde_json::from_str::<CallDecision>(&before).ok()),
                Err(error) => tracing::warn!(run, %error, "a call is asked about although its approval is remembered"),
            }
        }
        decisions
    }

    /// Remembers approvals for later calls again: they are kept in memory, and were given before this process had the run, or at
    /// the command line. One for a session holds from then on only in processes that had begun by then.
    pub(super) fn remember_again(&self, run: &str, caller: &str, asked: &[PendingCall]) {
        for RunApproval { asked, remember, decision } in asked.iter().filter_map(|call| RunApproval::of(run, call)) {
            let (is_over, of_run) = match &remember {
                Remember::Session => (decision.at < self.began, None),
                Remember::Run(_) | Remember::Always { .. } => (false, Some(run)),
            };
            if !is_over && !self.runner.bridge.remembered().is_revoked(of_run, &asked, decision.at) {
                self.remember_call(run, caller, &asked, &remember);
            }
        }
    }
}

/// A stored decision that also holds for the other calls of its run, or of its caller.
struct RunApproval {
    asked: AskedCall,
    remember: Remember,
    decision: CallDecision,
}

impl RunApproval {
    fn of(run: &str, call: &PendingCall) -> Option<Self> {
        let decision: CallDecision = serde_json::from_str(call.decision.as_deref()?).ok()?;
        let (asked, remember) = question_of(call)?.remembered(run, &decision)?;
        (!matches!(remember, Remember::Always { .. })).then_some(RunApproval { asked, remember, decision })
    }
}

fn is_undecided(asked: &[PendingCall], call: u32) -> bool {
    asked.iter().any(|it| it.call.0 == call && it.decision.is_none())
}

impl PendingView {
    /// Whether this undecided question waits in a run of this status.
    ///
    /// # Errors
    /// Why it does not, in words.
    pub fn check_open(&self, status: RunStatus, now: u64) -> Result<(), String> {
        if status == RunStatus::Done {
            return Err(format!("the run has ended: call {} does not wait any more", self.call_id));
        }
        if self.expires_at <= now {
            let at = clock(self.expires_at);
            return Err(format!("the question about call {} expired at {at}: the call is not made", self.call_id));
        }
        Ok(())
    }

    /// What a decision about this question says about later calls: the call that was approved, and for which others that holds.
    /// `None` where it is about this call alone.
    pub fn remembered(&self, run: &str, decision: &CallDecision) -> Option<(AskedCall, Remember)> {
        let remember = remember_of(decision.remember.as_ref()?, run).ok()??;
        let is_approved = matches!(decision.decision, DecisionKind::Approve | DecisionKind::Edit);
        if !self.about.is_rule() || !is_approved {
            return None;
        }
        let arguments = decision.arguments.as_ref().map_or(self.arguments.0.get(), |edited| edited.get());
        Some((self.asked_call(arguments), remember))
    }

    /// The call that is asked about, with these arguments.
    fn asked_call(&self, arguments: &str) -> AskedCall {
        let target = match self.backend.clone() {
            Some(backend) => Target::Tool { backend, tool: self.tool.clone() },
            None => Target::Function(self.tool.clone()),
        };
        AskedCall {
            call_id: u64::from(self.call_id),
            target,
            arguments: arguments.to_owned(),
            reason: self.reason.clone(),
            rule: self.rule.clone(),
            rule_key: self.rule_key.clone(),
            approvers: self.approvers.clone(),
            expires: Duration::ZERO,
            form: None,
        }
    }

    /// Whether the arguments that a person edited fit the tool. A tool that this catalog does not have checks them when it is called.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn check_edit(&self, decision: &CallDecision, catalog: &Catalog) -> Result<(), String> {
        let arguments = match (decision.decision, &decision.arguments) {
            (DecisionKind::Edit, Some(arguments)) => arguments,
            _ => return Ok(()),
        };
        let tree = bounded_tree(arguments.get(), MAX_EDITED_TREE).map_err(|error| error.to_string())?;
        if let Some(name) = repeated_member(arguments.get()) {
            return Err(format!("the arguments have the member {} twice", foreign_text::one_line(&name, MAX_NAME)));
        }
        let Some(backend) = &self.backend else {
            return if tree.is_array() { Ok(()) } else { Err("the arguments of a function are a list".to_owned()) };
        };
        if !tree.is_object() {
            return Err("the arguments of a tool are an object".to_owned());
        }
        // A mark has the kind of the value that takes its place, which is checked when the call is made.
        if self.staged.is_some() && has_marks(arguments.get()) {
            return Ok(());
        }
        let problems = catalog.tool(backend, &self.tool).map(|tool| tool.entry.check_arguments(&tree));
        let problems: Vec<String> = problems.into_iter().flatten().map(|it| it.message).take(MAX_PROBLEMS).collect();
        match problems.is_empty() {
            true => Ok(()),
            false => Err(format!("the arguments do not fit {backend}.{}: {}", self.tool, problems.join("; "))),
        }
    }

    /// Whether what a decision says about later calls can hold for them.
    fn check_remember(&self, decision: &CallDecision) -> Result<(), String> {
        let Some(remember) = decision.remember.as_ref().map(|wanted| remember_of(wanted, "")).transpose()?.flatten()
        else {
            return Ok(());
        };
        if !self.about.is_rule() || !matches!(decision.decision, DecisionKind::Approve | DecisionKind::Edit) {
            return Err("remember: only the approval of a call that was not sent is remembered".to_owned());
        }
        let arguments = decision.arguments.as_ref().map_or(self.arguments.0.get(), |edited| edited.get());
        remember.check(arguments).map_err(|error| format!("remember: {error}"))
    }

    /// Whether this question can be decided so.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn takes(&self, decision: &CallDecision) -> Result<(), String> {
        use DecisionKind::{Answer, Approve, Deny, Edit, Stop};
        self.check_remember(decision)?;
        match (&self.about, decision.decision) {
            (About::UnknownEffect { .. }, Edit) => {
                return Err("a call that was sent cannot be edited: approve sends it again as it was".to_owned());
            }
            (About::Form { .. }, Edit) => return Err("a form is answered: decide answer with its fields".to_owned()),
            (About::Form { schema, .. }, Approve | Answer) => {
                let answer = decision.arguments.as_ref().and_then(|json| serde_json::from_str(json.get()).ok());
                return check_answer(schema, &answer.unwrap_or_else(|| Value::Object(Default::default())));
            }
            (About::Rule, Edit) if self.login.is_some() => {
                return Err("a call that waits for a login is sent as it is: approve or deny it".to_owned());
            }
            (About::Rule, Answer) => return Err("a call that was not sent has no answer".to_owned()),
            (About::ChangedSchema { .. }, Answer | Edit) => {
                return Err("the run goes on with the changed tool (approve), or ends (deny)".to_owned());
            }
            (_, Approve | Edit | Answer | Deny | Stop) => {}
        }
        match (decision.decision, &decision.arguments) {
            (Edit | Answer, Some(_)) | (Approve | Deny | Stop, None) => Ok(()),
            (Edit, None) => Err("edit needs arguments".to_owned()),
            (Answer, None) => Err("answer needs arguments: what the program gets".to_owned()),
            (Approve | Deny | Stop, Some(_)) => Err("only edit and answer take arguments".to_owned()),
        }
    }
}

/// `once`, `run`, `session`, `always`, or `{"always": "args.amount < 50"}`; `None` where nothing is to be remembered.
fn remember_of(wanted: &Value, run: &str) -> Result<Option<Remember>, String> {
    let always = || match wanted.as_object() {
        Some(fields) if fields.len() == 1 => fields.get("always").and_then(Value::as_str),
        _ => None,
    };
    match (wanted.as_str(), always()) {
        (Some("once"), _) => Ok(None),
        (Some("run"), _) => Ok(Some(Remember::Run(run.to_owned()))),
        (Some("session"), _) => Ok(Some(Remember::Session)),
        (Some("always"), _) => Ok(Some(Remember::Always { when: None })),
        (_, Some(when)) => Ok(Some(Remember::Always { when: Some(when.to_owned()) })),
        _ => Err("remember is once, run, session, always or {\"always\": CONDITION}".to_owned()),
    }
}

/// The rule's approvers may decide; without any, the caller of the run. A process with access to the store may decide everything.
pub(super) fn may_decide(question: &PendingView, caller: Option<&str>, is_owner: bool) -> bool {
    let Some(caller) = caller else { return true };
    // As rules name the user of this machine.
    let caller = if caller.is_empty() { "local" } else { caller };
    match question.approvers.is_empty() {
        true => is_owner,
        false => question.approvers.iter().any(|pattern| Pattern::new(pattern).matches(caller)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durable::view::RawJson;

    fn question(approvers: &[&str]) -> PendingView {
        PendingView {
            call_id: 1,
            backend: Some("bank".into()),
            tool: "pay".into(),
            arguments: Box::new(RawJson(RawValue::from_string("{}".into()).unwrap())),
            reason: String::new(),
            rule: None,
            rule_key: None,
            asked_input: None,
            approvers: approvers.iter().map(ToString::to_string).collect(),
            login: None,
            asked_at: 0,
            expires_at: 1_000,
            about: About::Rule,
            staged: None,
        }
    }

    fn decision(decision: DecisionKind, at: u64) -> CallDecision {
        CallDecision { call_id: 1, decision, arguments: None, reason: None, remember: None, by: String::new(), at }
    }

    #[test]
    fn a_question_is_decided_before_it_expires_and_before_its_run_has_ended() {
        let check = |status, now| question(&[]).check_open(status, now).err().unwrap_or_default();
        assert_eq!(check(RunStatus::Paused, 999), "");
        assert_eq!(check(RunStatus::Running, 999), "");
        assert!(check(RunStatus::Paused, 1_000).starts_with("the question about call 1 expired at "));
        assert_eq!(check(RunStatus::Done, 999), "the run has ended: call 1 does not wait any more");
        let is_late = |kind, at| decision(kind, at).is_late(1_000);
        assert_eq!([is_late(DecisionKind::Approve, 1_000), is_late(DecisionKind::Edit, 1_001)], [false, true]);
        assert!(!is_late(DecisionKind::Stop, 1_001), "it keeps the call from being made");
    }

    #[test]
    fn what_is_to_be_remembered_is_checked() {
        let check = |remember: &str| {
            let remember = Some(serde_json::from_str(remember).unwrap());
            question(&[]).takes(&CallDecision { remember, ..decision(DecisionKind::Approve, 0) })
        };
        for right in [r#""once""#, r#""run""#, r#""session""#, r#""always""#, r#"{"always": "args.amount < 50"}"#] {
            assert_eq!(check(right), Ok(()), "{right}");
        }
        for wrong in [
            r#""forever""#,
            r#"{"always": 5}"#,
            r#"{"always": "args.amount <"}"#,
            r#"{"always": "counts.day < 5"}"#,
            r#"{"always": "args.amount < 50 && counts.run == 0"}"#,
            r#"{"always": "true", "run": "true"}"#,
            "true",
        ] {
            assert!(check(wrong).is_err_and(|message| message.starts_with("remember")), "{wrong}");
        }
    }

    /// A person who is told that an approval is remembered is not asked again.
    #[test]
    fn what_cannot_be_remembered_is_refused() {
        let check = |arguments: String, kind: DecisionKind, remember: &str| {
            let arguments = Box::new(RawJson(RawValue::from_string(arguments).unwrap()));
            let remember = Some(Value::from(remember));
            PendingView { arguments, ..question(&[]) }.takes(&CallDecision { remember, ..decision(kind, 0) })
        };
        let (long, large) =
            (format!(r#"{{"note":"{}"}}"#, "x".repeat(20_000)), r#"{"n":18446744073709551615}"#.to_owned());
        for arguments in [long, large] {
            assert!(check(arguments.clone(), DecisionKind::Approve, "always").is_err(), "{arguments}");
            assert_eq!(check(arguments, DecisionKind::Approve, "run"), Ok(()), "any arguments");
        }
        for kind in [DecisionKind::Deny, DecisionKind::Stop] {
            assert!(check("{}".to_owned(), kind, "always").is_err(), "{kind:?}");
            assert_eq!(check("{}".to_owned(), kind, "once"), Ok(()));
        }
    }

    /// The text that is shown as sent has each member once, as the server reads it.
    #[test]
    fn edited_arguments_have_each_member_once() {
        let check = |arguments: &str| {
            let arguments = Some(RawValue::from_string(arguments.to_owned()).unwrap());
            let edit = CallDecision { arguments, ..decision(DecisionKind::Edit, 0) };
            question(&[]).check_edit(&edit, &Catalog::new(Vec::new()))
        };
        assert_eq!(check(r#"{"amount":5,"to":{"amount":5}}"#), Ok(()));
        let twice = Err("the arguments have the member amount twice".to_owned());
        assert_eq!(check(r#"{"amount":50000,"amount":5}"#), twice);
        assert_eq!(check(r#"{"list":[{"amount":50000,"\u0061mount":5}]}"#), twice);
    }

    #[test]
    fn approvers_decide_or_else_the_owner() {
        for (approvers, caller, is_owner, expected) in [
            (&[][..], Some("ann"), true, true),
            (&[], Some("bob"), false, false),
            (&["lead-*"], Some("ann"), true, false),
            (&["lead-*"], Some("lead-1"), false, true),
            (&["lead-*"], None, true, true),
            (&["local"], Some(""), true, true),
        ] {
            assert_eq!(may_decide(&question(approvers), caller, is_owner), expected, "{approvers:?} {caller:?}");
        }
    }
}
