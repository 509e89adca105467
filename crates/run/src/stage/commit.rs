//! The second execution of a staged program: what was approved is sent, and nothing else without being asked about.
//!
//! A write is compared with the lines of the review, with the answers that are there in place of marks. One that equals an
//! approved line is sent. One that equals none is a question of its own: the program saw a real value and did something else.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use toolgate_engine::host::Target;
use toolgate_engine::{Host, HostCall, HostError, HostFuture, HostLayer, RepeatedCall};
use toolgate_functions::Registry;
use toolgate_journal::entry::{Event, ReplyBody};
use toolgate_journal::recording::Record;
use toolgate_mcp::{bounded_tree, tree_bytes};
use toolgate_wire::foreign_text::clipped;
use toolgate_wire::report::DecisionRecord;
use toolgate_wire::{CallErrorCode, CallId};

use super::{Called, MAX_TREE_BYTES, ReadAnswer, Review, StagedLine, arguments_of};
use toolgate_bridge::approvals::{Approver, AskedCall, KeptQuestion, LoginWait, ServerForm, Verdict, VerdictFuture};
use toolgate_bridge::marks::{Values, is_same, substituted};
use toolgate_bridge::{Bridge, Foretold, RequestContext};

/// What a person decided about a line of the review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LineVerdict {
    /// It is sent.
    Approve,
    /// It is sent with other arguments: JSON text, which may have marks.
    Edit(String),
    /// It fails, with this reason.
    Deny(String),
    /// It fails: no decision was made in time.
    Expired,
}

/// A line of the review that was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineDecision {
    /// What was decided.
    pub verdict: LineVerdict,
    /// Who decided, as reports say it.
    pub reviewer: String,
}

/// A review that was decided, and how much of it is done.
pub struct Commit {
    lines: Vec<StagedLine>,
    decided: HashMap<u32, LineDecision>,
    state: Mutex<CommitState>,
}

#[derive(Default)]
struct CommitState {
    reads: HashMap<Called, VecDeque<ReadAnswer>>,
    /// Lines of the calls of this execution.
    assigned: HashMap<u32, Assigned>,
    used: BTreeSet<u32>,
    /// Answers by the numbers of their lines.
    values: Values,
    /// The memory that these take.
    value_bytes: usize,
    /// Calls that a person has approved, by a line or alone, with the key of the rule that asked.
    approved: HashMap<u64, Option<String>>,
    decisions: HashMap<u32, DecisionRecord>,
}

/// The line of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Assigned {
    /// `None` where the review has no such call.
    line: Option<u32>,
    /// Whether the call is what was reviewed.
    is_equal: bool,
}

impl Commit {
    /// A review with what was decided about its lines. A line without a decision counts as expired.
    pub fn new(review: Review, decided: HashMap<u32, LineDecision>) -> Arc<Self> {
        let mut state = CommitState::default();
        for read in review.reads {
            state.reads.entry(read.called()).or_default().push_back(read.answer);
        }
        Arc::new(Commit { lines: review.lines, decided, state: Mutex::new(state) })
    }

    /// The number of the last line: questions of the second execution are numbered after it.
    pub fn last_line(&self) -> u32 {
        self.lines.last().map_or(0, |line| line.number)
    }

    /// Takes out what an execution that goes on from its own record has called already. Lines have the names that backends
    /// themselves use, and `own_names` gives those of what a program called.
    pub(crate) fn without(&self, record: &Record, own_names: impl Fn(&Target) -> Target) {
        let mut reads: HashMap<u32, Called> = HashMap::new();
        for entry in &record.entries {
            match &entry.event {
                Event::Call(call) => {
                    let args = record.blobs.text(&call.args).unwrap_or_default().to_owned();
                    let called: Called = ((&call.target).into(), args);
                    if self.state.lock().reads.contains_key(&called) {
                        reads.insert(call.id, called);
                    } else {
                        self.assign(CallId(call.id), &own_names(&called.0), &called.1);
                    }
                }
                Event::Answered(reply) | Event::Reply(reply) => {
                    if let Some(called) = reads.remove(&reply.id) {
                        self.read(&called);
                    }
                    if let ReplyBody::Value(text) = &reply.body {
                        self.note_value(CallId(reply.id), record.blobs.text(text).unwrap_or_default());
                    }
                }
                _ => {}
            }
        }
    }

    /// The answer that the rehearsal got.
    fn read(&self, called: &Called) -> Option<ReadAnswer> {
        self.state.lock().reads.get_mut(called)?.pop_front()
    }

    /// The line of a call: an equal one that no other call has, or the one that the rehearsal had in its place.
    fn assign(&self, call: CallId, target: &Target, arguments: &str) -> Assigned {
        let mut state = self.state.lock();
        if let Some(assigned) = state.assigned.get(&call.0) {
            return *assigned;
        }
        let (equal, in_place) = self.free_lines(&state, call, target, arguments);
        let assigned = Assigned { line: equal.or(in_place).map(|line| line.number), is_equal: equal.is_some() };
        state.used.extend(assigned.line);
        state.assigned.insert(call.0, assigned);
        assigned
    }

    /// The lines that no other call has: an equal one, and the one that the rehearsal had in the place of this call.
    fn free_lines(
        &self,
        state: &CommitState,
        call: CallId,
        target: &Target,
        arguments: &str,
    ) -> (Option<&StagedLine>, Option<&StagedLine>) {
        // What is longer than the text of the call cannot be equal to it.
        let max_bytes = arguments.len();
        let free = || self.lines.iter().filter(|line| !state.used.contains(&line.number) && line.target() == *target);
        if free().next().is_none() {
            return (None, None);
        }
        // A call that the review could have has a tree within the bound; no other is equal to a line.
        let arguments = bounded_tree(arguments, MAX_TREE_BYTES).ok();
        let is_equal = |line: &&StagedLine| {
            let template = bounded_tree(&line.arguments, MAX_TREE_BYTES).ok();
            let expected = template.and_then(|template| substituted(&template, &state.values, max_bytes));
            expected.zip(arguments.as_ref()).is_some_and(|(expected, arguments)| is_same(&expected, arguments))
        };
        let in_place = free().find(|line| line.call == call.0);
        (in_place.filter(is_equal).or_else(|| free().find(is_equal)), in_place)
    }

    /// Whether a call is what was reviewed, also where its tool is said to change nothing by now.
    fn has_line(&self, call: CallId, target: &Target, arguments: &str) -> bool {
        let state = self.state.lock();
        match state.assigned.get(&call.0) {
            Some(assigned) => assigned.is_equal,
            None => self.free_lines(&state, call, target, arguments).0.is_some(),
        }
    }

    /// Notes a call that is repeated from the record: its value, and what was decided about its line.
    fn repeated(&self, call: RepeatedCall<'_>) {
        let assigned = self.state.lock().assigned.get(&call.id.0).copied();
        let Some(Assigned { line: Some(line), is_equal }) = assigned else { return };
        if let Some(value) = call.body.ok().and_then(|body| std::str::from_utf8(body).ok()) {
            self.note_value(call.id, value);
        }
        if is_equal {
            let edited = self.edited_arguments(call.id);
            self.note_line(call.id, line, &String::from_utf8_lossy(call.args), edited.as_deref());
        }
    }

    fn note_value(&self, call: CallId, answer: &str) {
        let mut state = self.state.lock();
        let Some(line) = state.assigned.get(&call.0).and_then(|assigned| assigned.line) else { return };
        if state.values.contains_key(&line) {
            return;
        }
        // Without its value, lines that use it are asked about alone.
        let Ok(bytes) = tree_bytes(answer, MAX_VALUE_BYTES.saturating_sub(state.value_bytes)) else { return };
        if let Ok(value) = serde_json::from_str(answer) {
            state.value_bytes += bytes;
            state.values.insert(line, value);
        }
    }

    fn line(&self, number: u32) -> Option<&StagedLine> {
        self.lines.iter().find(|line| line.number == number)
    }

    /// The arguments that a person gave to a call that equals its line, with real values.
    pub(crate) fn edited_arguments(&self, call: CallId) -> Option<String> {
        let assigned = *self.state.lock().assigned.get(&call.0)?;
        match self.verdict(assigned.line.filter(|_| assigned.is_equal)?) {
            LineVerdict::Edit(edited) => self.filled(edited),
            LineVerdict::Approve | LineVerdict::Deny(_) | LineVerdict::Expired => None,
        }
    }

    fn verdict(&self, line: u32) -> &LineVerdict {
        self.decided.get(&line).map_or(&LineVerdict::Expired, |decided| &decided.verdict)
    }

    /// The edited arguments of a line, with real values.
    fn filled(&self, edited: &str) -> Option<String> {
        let edited: Value = serde_json::from_str(edited).ok()?;
        Some(toolgate_json::stringify(&substituted(&edited, &self.state.lock().values, MAX_EDITED)?))
    }

    /// Notes what was decided about the line of a call, for the report.
    fn note_line(&self, call: CallId, line: u32, arguments: &str, edited: Option<&str>) {
        let verdict = match self.verdict(line) {
            LineVerdict::Approve => "approved",
            LineVerdict::Edit(_) => "edited",
            LineVerdict::Deny(_) => "denied",
            LineVerdict::Expired => "expired",
        };
        let decision = DecisionRecord {
            rule: self.line(line).and_then(|line| line.rule.clone()),
            reviewer: self.decided.get(&line).map(|decided| decided.reviewer.clone()),
            ..asked(verdict)
        };
        self.note(call, decision, edited.map(|edited| (arguments, edited)));
    }

    fn note(&self, call: CallId, mut decision: DecisionRecord, edited: Option<(&str, &str)>) {
        if let Some((asked, sent)) = edited {
            decision.edited(asked, sent);
        }
        self.state.lock().decisions.insert(call.0, decision);
    }
}

/// What reports have of a call that a person was asked about.
fn asked(verdict: &'static str) -> DecisionRecord {
    DecisionRecord { action: "ask", verdict: Some(verdict), ..DecisionRecord::default() }
}

/// Approves what a person has approved already, so that the bridge does not ask again.
pub(crate) struct CommitApprover {
    pub(crate) commit: Arc<Commit>,
    pub(crate) real: Arc<dyn Approver>,
}

impl Approver for CommitApprover {
    fn ask(&self, call: AskedCall) -> VerdictFuture<'_> {
        // Approved under the rule that asks now: another one has its own approvers.
        let is_approved = self.commit.state.lock().approved.get(&call.call_id) == Some(&call.rule_key);
        if call.form.is_none() && is_approved {
            return Box::pin(std::future::ready(Verdict::Approve { arguments: None }));
        }
        self.real.ask(call)
    }

    fn await_login(&self, call: AskedCall, command: String) -> VerdictFuture<'_> {
        self.real.await_login(call, command)
    }

    fn login_wait(&self, call_id: u64) -> LoginWait {
        self.real.login_wait(call_id)
    }

    fn login_came(&self, call_id: u64) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.real.login_came(call_id)
    }

    fn asked_forms(&self, call_id: u64) -> Vec<ServerForm> {
        self.real.asked_forms(call_id)
    }

    fn answered(&self, call: CallId) -> Option<DecisionRecord> {
        self.real.answered(call)
    }

    fn kept_question(&self, call: CallId) -> Option<KeptQuestion> {
        let is_acted_on = self.commit.state.lock().approved.contains_key(&u64::from(call.0));
        self.real.kept_question(call).map(|kept| KeptQuestion { is_acted_on, ..kept })
    }

    fn refusal(&self, call: CallId) -> Option<Verdict> {
        self.real.refusal(call)
    }
}

/// The host of the second execution.
#[derive(Clone)]
pub(crate) struct CommitHost {
    pub(crate) commit: Arc<Commit>,
    pub(crate) bridge: Arc<Bridge>,
    pub(crate) functions: Registry,
    pub(crate) asked: RequestContext,
    pub(crate) real: Arc<dyn Host>,
}

/// The arguments to send: the program's, or others.
type Permitted = Result<Option<String>, HostError>;

impl CommitHost {
    /// Sends a write that is approved, or asks about it.
    async fn write(self, mut call: HostCall, foretold: Foretold) -> Result<String, HostError> {
        let assigned = self.commit.assign(call.id, &foretold.target, &call.args);
        let rule_key = match assigned {
            Assigned { line: Some(line), is_equal: true } => {
                self.commit.line(line).and_then(|line| line.rule_key.clone())
            }
            Assigned { .. } => foretold.decision.rule.as_ref().map(|rule| rule.approval_key()),
        };
        let permitted = match assigned {
            Assigned { line: Some(line), is_equal: true } => self.reviewed(&call, line, &foretold),
            Assigned { line, .. } => self.asked_alone(&call, line, &foretold).await,
        };
        if let Some(edited) = permitted? {
            call.args = edited;
        }
        self.commit.state.lock().approved.insert(u64::from(call.id.0), rule_key);
        let id = call.id;
        let answer = self.real.call(call).await;
        if let Ok(text) = &answer {
            self.commit.note_value(id, text);
        }
        answer
    }

    /// Fails where a person was asked about this call alone and decided that it is not made.
    async fn check_refusal(&self, call: &HostCall) -> Result<(), HostError> {
        let approver = self.asked.approver.as_ref();
        if approver.is_none_or(|approver| approver.kept_question(call.id).is_none()) {
            return Ok(());
        }
        let asked = RequestContext { call_id: u64::from(call.id.0), ..self.asked.clone() };
        self.bridge.refused_before(&call.target, &asked).await.map_or(Ok(()), Err)
    }

    /// What the review says.
    fn reviewed(&self, call: &HostCall, line: u32, foretold: &Foretold) -> Permitted {
        let commit = &self.commit;
        let edited = match commit.verdict(line) {
            LineVerdict::Edit(edited) => {
                let Some(edited) = commit.filled(edited) else {
                    let message = "the arguments that a person edited name a value that is not there";
                    return Err(HostError::not_sent(CallErrorCode::InvalidArguments, message));
                };
                Some(edited)
            }
            LineVerdict::Approve | LineVerdict::Deny(_) | LineVerdict::Expired => None,
        };
        commit.note_line(call.id, line, &call.args, edited.as_deref());
        match commit.verdict(line) {
            LineVerdict::Approve | LineVerdict::Edit(_) => Ok(edited),
            LineVerdict::Deny(reason) => Err(foretold.denied(reason)),
            LineVerdict::Expired => Err(foretold.expired()),
        }
    }

    /// A call that is not what was reviewed.
    async fn asked_alone(&self, call: &HostCall, line: Option<u32>, foretold: &Foretold) -> Permitted {
        let reason = match line.and_then(|line| self.commit.line(line)) {
            Some(line) => format!("line {} of the review was {}", line.number, line.arguments),
            None => "it was not in the review".to_owned(),
        };
        let rule = foretold.decision.rule.as_deref();
        let question = AskedCall {
            call_id: u64::from(call.id.0),
            target: foretold.target.clone(),
            arguments: call.args.clone(),
            reason: clipped(&reason, MAX_REASON).into_owned(),
            rule: rule.map(|rule| rule.id.clone()),
            rule_key: rule.map(|rule| rule.approval_key()),
            approvers: rule.map(|rule| rule.approvers.iter().map(ToString::to_string).collect()).unwrap_or_default(),
            expires: rule.map_or(toolgate_policy::DEFAULT_EXPIRY, |rule| rule.expiry),
            form: None,
        };
        let named = question.rule.clone();
        let Some(approver) = &self.asked.approver else { return Err(foretold.denied("no person can be asked")) };
        let note = |verdict, edited| {
            let reviewer = approver.answered(call.id).and_then(|answered| answered.reviewer);
            self.commit.note(call.id, DecisionRecord { rule: named, reviewer, ..asked(verdict) }, edited);
        };
        match approver.ask(question).await {
            Verdict::Approve { arguments: None } => {
                note("approved", None);
                Ok(None)
            }
            Verdict::Approve { arguments: Some(edited) } => {
                note("edited", Some((call.args.as_str(), edited.as_str())));
                Ok(Some(edited))
            }
            Verdict::Deny { reason } => {
                note("denied", None);
                Err(foretold.denied(&reason))
            }
            Verdict::Stop { reason } => {
                note("stopped", None);
                self.asked.stop_run(&reason).await;
                Err(foretold.denied(&reason))
            }
            Verdict::Expired => {
                note("expired", None);
                Err(foretold.expired())
            }
        }
    }
}

/// Bytes of arguments that a person edited, with real values in place of marks.
const MAX_EDITED: usize = 16 << 20;
/// The memory that answers of one run may take, which stand for marks.
const MAX_VALUE_BYTES: usize = 64 << 20;
/// Characters of a reason.
const MAX_REASON: usize = 2_000;

impl HostLayer for CommitHost {
    fn inner(&self) -> &dyn Host {
        &*self.real
    }

    fn make_call(&self, call: HostCall) -> HostFuture {
        let arguments = match arguments_of(&call) {
            Ok(Some(arguments)) => arguments,
            Ok(None) => return self.real.call(call),
            Err(error) => return Box::pin(std::future::ready(Err(error))),
        };
        let host = self.clone();
        Box::pin(async move {
            let CommitHost { bridge, functions, asked, .. } = &host;
            host.check_refusal(&call).await?;
            let foretold = bridge.foretell_once_up(&call.target, &arguments, functions, asked).await?;
            if !foretold.is_read() || host.commit.has_line(call.id, &foretold.target, &call.args) {
                return host.write(call, foretold).await;
            }
            match host.commit.read(&(call.target.clone(), call.args.clone())) {
                Some(answer) => answer.into(),
                None => host.real.call(call).await,
            }
        })
    }

    fn note_repeated(&self, call: RepeatedCall<'_>) {
        self.commit.repeated(call);
    }

    fn take_own_decision(&self, id: CallId) -> Option<DecisionRecord> {
        self.commit.state.lock().decisions.remove(&id.0)
    }
}
