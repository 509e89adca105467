//! Durable runs whose writes are reviewed before they are sent: rehearsed, paused with the review, executed when it is decided.
//!
//! A rehearsal sends nothing, so a process that dies in it leaves nothing behind: the next one rehearses again. What it found is
//! written to the record before the run is paused, and the record of the second execution follows it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;
use toolgate_journal::durable::{DurableRun, PendingCall};
use toolgate_journal::recording::Record;
use toolgate_wire::{CallId, Code, Failure, Outcome};

use super::super::request::{Durability, PausedRun, RunReport, RunRequest};
use super::super::{Counted, Runner};
use super::approver::{RunApprover, reviewer_of};
use super::decision::{CallDecision, DecisionKind};
use super::unsettled::{own_names, stopped};
use super::view::{About, PendingView, RawJson, StagedView, decision_of, question_of};
use super::{Inner, unix_ms};
use crate::stage::{Commit, CommitApprover, LineDecision, LineVerdict, Rehearsal, Review, StagedLine, Staging};
use toolgate_bridge::approvals::Approver;
use toolgate_bridge::{AllowedEffects, QuestionWatch};

/// What becomes of a run whose review was found earlier.
pub(super) enum Reviewed {
    /// It is executed.
    GoOn(Box<RunRequest>),
    /// Lines are not decided yet; it is paused again.
    Waits,
    /// It ends with this failure.
    Ends(Box<RunRequest>, Failure),
}

/// The same request with a seed, where it is executed twice: both executions draw the same random numbers.
pub(super) fn seeded(request: RunRequest) -> RunRequest {
    if !request.staging.is_on() || request.seed.is_some() {
        return request;
    }
    let mut bytes = [0; 8];
    // Without random numbers both executions still draw the same ones.
    let _ = getrandom::fill(&mut bytes);
    RunRequest { seed: Some(u64::from_be_bytes(bytes)), ..request }
}

/// The same request, staged where a rule says so.
pub(super) fn by_rule(runner: &Runner, request: RunRequest) -> RunRequest {
    let may = !request.staging.is_on() && request.effects == AllowedEffects::Any && request.kept.is_none();
    if may && runner.may_stage(&request) {
        return RunRequest { staging: Staging::Wanted, ..request };
    }
    request
}

/// The last line of a run's review; zero without one.
pub(super) fn last_line(request: &RunRequest) -> u32 {
    match &request.staging {
        Staging::Commit(commit) => commit.last_line(),
        Staging::No | Staging::Wanted | Staging::Rehearsal(_) => 0,
    }
}

/// The arguments that a person gave to a call when its line was reviewed.
pub(super) fn edited_line(request: &RunRequest, call: CallId) -> Option<String> {
    match &request.staging {
        Staging::Commit(commit) => commit.edited_arguments(call),
        Staging::No | Staging::Wanted | Staging::Rehearsal(_) => None,
    }
}

/// The approver of a run, which does not ask again about what was reviewed.
pub(super) fn approver(request: &RunRequest, real: Arc<RunApprover>) -> Arc<dyn Approver> {
    match &request.staging {
        Staging::Commit(commit) => Arc::new(CommitApprover { commit: commit.clone(), real }),
        Staging::No | Staging::Wanted | Staging::Rehearsal(_) => real,
    }
}

impl Runner {
    /// Executes a program without sending its writes, and tells which ones it would send. Nothing is kept.
    pub async fn rehearse(&self, request: RunRequest) -> (Review, RunReport) {
        let rehearsal = Arc::new(Rehearsal::default());
        let cancel = rehearsal.end().clone();
        let stop = request.cancel.clone();
        let mut request = Box::new(RunRequest {
            staging: Staging::Rehearsal(rehearsal.clone()),
            durable: Durability::Volatile,
            cancel: cancel.clone(),
            watch: Some(Arc::new(QuestionWatch::of_rehearsal())),
            ..request
        });
        let mut performing = std::pin::pin!(self.perform(&mut request, Counted::No));
        let report = tokio::select! {
            report = &mut performing => report,
            () = stop.cancelled() => {
                cancel.cancel();
                performing.await
            }
        };
        (rehearsal.review(unix_ms()), report)
    }
}

impl Runner {
    /// The rehearsal of a program as a report, with the review. Nothing is kept, and nothing is sent later.
    pub(crate) async fn dry_run(&self, request: RunRequest) -> RunReport {
        let (review, mut report) = self.rehearse(request).await;
        if let Some(value) = &review.commit_point {
            let message = format!("the program depends on what is not there before its writes are sent: {value}");
            report.report.outcome = Outcome::Failed(Failure::new(Code::Aborted, message));
        }
        RunReport { review: Some(questions(&review.lines, &review)), ..report }
    }
}

impl Inner {
    /// Rehearses a run that is to be staged. `None` where it is paused with its review, or goes on elsewhere.
    pub(super) async fn rehearsed(
        &self,
        run: &Arc<DurableRun>,
        request: RunRequest,
        webhook: Option<&str>,
    ) -> Option<RunRequest> {
        if !matches!(request.staging, Staging::Wanted) {
            return Some(request);
        }
        let cancel = CancellationToken::new();
        let rehearsal = RunRequest { id: Some(run.id().to_owned()), cancel: cancel.clone(), ..request.clone() };
        let mut rehearsing = std::pin::pin!(self.runner.rehearse(rehearsal));
        let (review, report) = tokio::select! {
            found = &mut rehearsing => found,
            () = run.lost().cancelled() => return None,
            () = self.stop.cancelled() => {
                self.release(run).await;
                return None;
            }
            // The execution that follows ends at once, and says so.
            () = run.aborted().cancelled() => {
                let staging = Staging::Commit(Commit::new(Review::default(), HashMap::new()));
                return Some(RunRequest { staging, ..request });
            }
        };
        let kept = match serde_json::to_string(&review) {
            Ok(text) => run.staged(&text).await.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = kept {
            // Its lease ends, and it is rehearsed again.
            tracing::warn!(run = run.id(), error, "the review of a run could not be kept");
            return None;
        }
        if review.lines.is_empty() {
            return Some(RunRequest { staging: Staging::Commit(Commit::new(review, HashMap::new())), ..request });
        }
        if self.pause_with(run, &review.lines, &review, Some(report)).await {
            self.tell_paused(run.id(), webhook, questions(&review.lines, &review), &[]);
        }
        None
    }

    /// Pauses a run with these lines of its review.
    async fn pause_with(
        &self,
        run: &DurableRun,
        lines: &[StagedLine],
        review: &Review,
        report: Option<RunReport>,
    ) -> bool {
        let questions = questions(lines, review);
        let texts = questions.iter().map(|it| (CallId(it.call_id), it.stored()));
        let wake = questions.iter().map(|question| question.expires_at).min();
        if let Err(error) = run.pause(&texts.collect::<Vec<_>>(), wake).await {
            tracing::warn!(run = run.id(), %error, "a run could not be paused");
            return false;
        }
        if let Some(report) = report {
            let paused = Some(PausedRun { run_id: run.id().to_owned(), pending: questions });
            self.ends.tell(&RunReport { paused, ..report });
        }
        true
    }

    /// What was decided about the review of a run that is taken up again.
    pub(super) async fn reviewed(&self, run: &Arc<DurableRun>, record: &Record, request: RunRequest) -> Reviewed {
        let Some(text) = record.staged().filter(|_| request.staging.is_on()) else {
            return Reviewed::GoOn(Box::new(request));
        };
        let failed = |message: String, request| Reviewed::Ends(Box::new(request), Failure::new(Code::Runtime, message));
        let mut review: Review = match serde_json::from_str(text) {
            Ok(review) => review,
            Err(error) => return failed(format!("the review of the run cannot be read: {error}"), request),
        };
        let asked = match self.journal.pending(run.id()).await {
            Ok(asked) => DecidedLines::of(&asked),
            Err(error) => return failed(format!("the decisions about the run cannot be read: {error}"), request),
        };
        if record.has_start() {
            // A run that began as a fork has the review and not its decisions: its writes are asked about as they come.
            review.lines.retain(|line| asked.lines.contains(&line.number));
        }
        let decisions = asked.decisions;
        if let Some(stop) = decisions.values().find(|decision| decision.decision == DecisionKind::Stop) {
            return Reviewed::Ends(Box::new(request), stopped(stop.reason.as_deref()));
        }
        let is_open =
            |line: &&StagedLine| !decisions.contains_key(&line.number) && expires_at(line, &review) > unix_ms();
        let open: Vec<StagedLine> = review.lines.iter().filter(is_open).cloned().collect();
        // What has begun had its review.
        if !open.is_empty() && !record.has_start() {
            self.pause_with(run, &open, &review, None).await;
            return Reviewed::Waits;
        }
        let decided = decisions.into_iter().map(|(line, decision)| (line, line_decision(decision))).collect();
        let commit = Commit::new(review, decided);
        commit.without(record, |target| own_names(&self.runner.bridge, target));
        Reviewed::GoOn(Box::new(RunRequest { staging: Staging::Commit(commit), ..request }))
    }
}

/// The lines of a review that were asked about, and what was decided about them in time. Questions about calls have numbers that
/// lines may have too, where the run is a fork and has no lines of its own.
#[derive(Default)]
struct DecidedLines {
    lines: HashSet<u32>,
    decisions: HashMap<u32, CallDecision>,
}

impl DecidedLines {
    fn of(asked: &[PendingCall]) -> Self {
        let mut decided = DecidedLines::default();
        for call in asked {
            let Some(question) = question_of(call).filter(|question| question.staged.is_some()) else { continue };
            decided.lines.insert(question.call_id);
            let decision = decision_of(call).filter(|decision| !decision.is_late(question.expires_at));
            decided.decisions.extend(decision.map(|decision| (question.call_id, decision)));
        }
        decided
    }
}

fn line_decision(decision: CallDecision) -> LineDecision {
    let reason = || decision.reason.clone().unwrap_or_else(|| "a person denied it".to_owned());
    let verdict = match (decision.decision, &decision.arguments) {
        (DecisionKind::Approve, _) => LineVerdict::Approve,
        (DecisionKind::Edit, Some(arguments)) => LineVerdict::Edit(arguments.get().to_owned()),
        // A line was not sent, so there is nothing to answer for it.
        (DecisionKind::Edit, None) | (DecisionKind::Answer | DecisionKind::Deny | DecisionKind::Stop, _) => {
            LineVerdict::Deny(reason())
        }
    };
    LineDecision { verdict, reviewer: reviewer_of(&decision) }
}

fn expires_at(line: &StagedLine, review: &Review) -> u64 {
    review.at.saturating_add(u64::try_from(line.expires.as_millis()).unwrap_or(u64::MAX))
}

/// Lines as questions.
fn questions(lines: &[StagedLine], review: &Review) -> Vec<PendingView> {
    lines.iter().filter_map(|line| question(line, review)).collect()
}

/// A line as a question.
fn question(line: &StagedLine, review: &Review) -> Option<PendingView> {
    let is_last = review.lines.last().is_some_and(|last| last.number == line.number);
    Some(PendingView {
        call_id: line.number,
        backend: line.backend.clone(),
        tool: line.tool.clone(),
        arguments: Box::new(RawJson(RawValue::from_string(line.arguments.clone()).ok()?)),
        reason: line.reason.clone(),
        rule: line.rule.clone(),
        rule_key: line.rule_key.clone(),
        asked_input: None,
        approvers: line.approvers.clone(),
        asked_at: review.at,
        expires_at: expires_at(line, review),
        about: About::Rule,
        login: None,
        staged: Some(StagedView {
            substitutions: line.substitutions(),
            commit_point: review.commit_point.clone().filter(|_| is_last),
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a line, or of a call that is asked about alone, decided at this time.
    fn asked(call: u32, is_line: bool, at: u64) -> PendingCall {
        let mut question = serde_json::json!({
            "callId": call, "tool": "pay", "arguments": {}, "reason": "", "askedAt": 0, "expiresAt": 1_000,
        });
        if is_line {
            question["staged"] = serde_json::json!({ "substitutions": [] });
        }
        let decision = serde_json::json!({ "callId": call, "decision": "approve", "at": at });
        PendingCall { call: CallId(call), question: question.to_string(), decision: Some(decision.to_string()) }
    }

    #[test]
    fn verdicts_on_lines_come_from_questions_about_lines_that_were_decided_in_time() {
        let decided = DecidedLines::of(&[asked(1, true, 1_000), asked(2, true, 1_001), asked(3, false, 0)]);
        assert_eq!(decided.lines, HashSet::from([1, 2]));
        assert_eq!(decided.decisions.keys().collect::<Vec<_>>(), [&1]);
    }
}
