//! Asks the person at the terminal about calls that wait, and hands the decisions to the run as any other channel does.
//!
//! A program that may have to wait is run as a durable run in the memory of this process, so that questions, remembered approvals,
//! edits and reports are those of a gateway, and the time that the person takes is not the program's. One call without a
//! program waits where it is.

use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::Duration;

use indicatif::ProgressBar;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::{Mutex, mpsc};
use toolgate_bridge::Bridge;
use toolgate_bridge::approvals::{Approver, AskedCall, Verdict, VerdictFuture};
use toolgate_run::durable::{About, CallDecision, DecisionKind, DurableRuns, PendingView};
use toolgate_run::{Durability, PausedRun, RunReport, RunRequest, Runner};
use toolgate_wire::Target;

use crate::print::{Style, error, escape, note, review};
use crate::runner::cancel_on_signal;

/// Longer than a person sits at a terminal: what ends the wait is a decision, the end of the question, or Ctrl-C.
const NO_TIMEOUT: Duration = Duration::from_secs(30 * 86_400);
/// How long the end of a run that was aborted is waited for.
const ABORT_TIMEOUT: Duration = Duration::from_secs(10);
/// Lines that were typed ahead of a question.
const MAX_LINES_AHEAD: usize = 16;
const READ_INTERVAL: std::time::Duration = std::time::Duration::from_millis(20);

/// Runs a program; the person at the terminal decides about its calls that wait. Ctrl-C and SIGTERM end it as `ABORTED`.
pub(crate) async fn run(runner: &Runner, request: RunRequest) -> RunReport {
    let cancel = request.cancel.clone();
    let signals = cancel_on_signal(cancel.clone());
    let runs = DurableRuns::in_memory(runner);
    let durable = if request.staging.is_on() { Durability::Durable } else { Durability::WhenAsked };
    let request = RunRequest { durable, withdrawn: Some(cancel.clone()), ..request };
    let mut run = runner.run(request).await;
    // Nothing is read from the terminal before there is something to ask.
    let mut terminal = None;
    while let (Some(paused), Ok(runs)) = (run.paused.clone(), &runs) {
        let terminal = terminal.get_or_insert_with(Terminal::of_process);
        run = tokio::select! {
            next = decided(runs, &paused, terminal) => next.unwrap_or(run),
            () = cancel.cancelled() => {
                run = aborted(runs, &paused).await.unwrap_or(run);
                break;
            }
        };
    }
    signals.abort();
    run
}

/// Asks about all calls that wait, and gives the report of the run at its end or at its next pause. `None` where it waits as before.
async fn decided(runs: &DurableRuns, paused: &PausedRun, terminal: &mut Terminal) -> Option<RunReport> {
    let id = &paused.run_id;
    let mut next = Box::pin(runs.next_end(id, NO_TIMEOUT));
    let mut asking = std::pin::pin!(ask_all(runs, &paused.pending, terminal));
    let decisions = loop {
        tokio::select! {
            biased;
            report = &mut next => match report {
                // A look for a login that is not there yet asks the same again.
                Some(report) if asks_the_same(&report, paused) => next = Box::pin(runs.next_end(id, NO_TIMEOUT)),
                report => {
                    note("the questions have changed meanwhile");
                    return report;
                }
            },
            decisions = &mut asking => break decisions,
        }
    };
    match runs.decide(id, None, decisions).await {
        Ok(_) => next.await,
        Err(fault) => {
            error(&escape::line(&fault.to_string()));
            None
        }
    }
}

fn asks_the_same(report: &RunReport, paused: &PausedRun) -> bool {
    fn calls(paused: &PausedRun) -> Vec<u32> {
        paused.pending.iter().map(|question| question.call_id).collect()
    }
    report.paused.as_ref().is_some_and(|next| calls(next) == calls(paused))
}

async fn aborted(runs: &DurableRuns, paused: &PausedRun) -> Option<RunReport> {
    note("");
    let (report, _) = tokio::join!(runs.next_end(&paused.run_id, ABORT_TIMEOUT), runs.abort(&paused.run_id, None));
    report
}

/// A decision about each call, other than those that an approval before it answers too.
async fn ask_all(runs: &DurableRuns, pending: &[PendingView], terminal: &mut Terminal) -> Vec<CallDecision> {
    let mut decisions: Vec<CallDecision> = Vec::new();
    let mut remembered: Vec<&PendingView> = Vec::new();
    for question in pending {
        let is_same = |it: &&PendingView| {
            (&it.backend, &it.tool, &it.rule_key) == (&question.backend, &question.tool, &question.rule_key)
        };
        if question.about.is_rule() && remembered.iter().any(is_same) {
            continue;
        }
        let check = |answer: &Answer| runs.check(question, &answer.decision(question.call_id));
        let answer = terminal.ask(&Question::of(question), check).await;
        if answer == Answer::ApproveForRun {
            remembered.push(question);
        }
        let is_stop = matches!(answer, Answer::Stop(_));
        decisions.push(answer.decision(question.call_id));
        if is_stop {
            // The run ends: what else it asks need not be answered.
            break;
        }
    }
    decisions
}

/// Asks about one call that belongs to no run.
pub(crate) struct CallApprover {
    bridge: Arc<Bridge>,
    /// Says that the call is being made, until there is something to ask.
    waiting: ProgressBar,
    /// Once there is something to ask.
    terminal: Mutex<Option<Terminal>>,
}

impl CallApprover {
    pub(crate) fn new(bridge: Arc<Bridge>, waiting: ProgressBar) -> Self {
        CallApprover { bridge, waiting, terminal: Mutex::default() }
    }

    /// Edited arguments fit the tool.
    fn check(&self, call: &AskedCall, answer: &Answer) -> Result<(), String> {
        let (Answer::Edit(text), Target::Tool { backend, tool }) = (answer, &call.target) else { return Ok(()) };
        let arguments: Value = serde_json::from_str(text).map_err(|error| format!("that is no JSON: {error}"))?;
        if !arguments.is_object() {
            return Err("the arguments of a tool are an object".to_owned());
        }
        let catalog = self.bridge.catalog();
        let problems = catalog.tool(backend, tool).map(|tool| tool.entry.check_arguments(&arguments));
        match problems.iter().flatten().next() {
            Some(problem) => Err(format!("the arguments do not fit {}: {}", call.target, problem.message)),
            None => Ok(()),
        }
    }
}

impl Approver for CallApprover {
    fn ask(&self, call: AskedCall) -> VerdictFuture<'_> {
        Box::pin(async move {
            self.waiting.finish_and_clear();
            let question = Question::of_call(&call);
            let mut terminal = self.terminal.lock().await;
            let terminal = terminal.get_or_insert_with(Terminal::of_process);
            let answer = terminal.ask(&question, |answer| self.check(&call, answer)).await;
            match answer {
                Answer::Approve | Answer::ApproveForRun => Verdict::Approve { arguments: None },
                Answer::Edit(arguments) | Answer::Fill(arguments) => Verdict::Approve { arguments: Some(arguments) },
                Answer::Deny(reason) => Verdict::Deny { reason: reason.unwrap_or_default() },
                Answer::Stop(reason) => Verdict::Stop { reason: reason.unwrap_or_default() },
            }
        })
    }
}

/// What is shown about a call that waits.
struct Question {
    /// What is called.
    name: String,
    reason: String,
    /// JSON text.
    arguments: String,
    /// Who is to decide, where a rule says that.
    approvers: Vec<String>,
    /// The fields of a server's form.
    form: Option<Value>,
    /// Whether the arguments may be edited, and the approval may stand for other calls of the run.
    may_edit: bool,
    may_remember: bool,
    /// Of a line of a review: what is filled in once the lines before it are sent.
    filled_in: Vec<String>,
    /// Whether the call waits for a login.
    awaits_login: bool,
}

impl Question {
    fn of(pending: &PendingView) -> Self {
        let tool = &pending.tool;
        let is_rule = pending.about.is_rule() && pending.login.is_none();
        Question {
            name: pending.backend.as_ref().map_or_else(|| tool.clone(), |backend| format!("{backend}.{tool}")),
            reason: pending.reason.clone(),
            arguments: pending.arguments.0.get().to_owned(),
            approvers: pending.approvers.clone(),
            form: match &pending.about {
                About::Form { schema, .. } => Some(schema.clone()),
                About::Rule | About::UnknownEffect { .. } | About::ChangedSchema { .. } => None,
            },
            may_edit: is_rule,
            may_remember: is_rule && pending.staged.is_none(),
            filled_in: substitutions(pending),
            awaits_login: pending.login.is_some(),
        }
    }

    fn of_call(call: &AskedCall) -> Self {
        Question {
            name: call.target.to_string(),
            reason: call.reason.clone(),
            arguments: call.arguments.clone(),
            approvers: call.approvers.clone(),
            form: call.form.as_ref().and_then(|form| serde_json::from_str(&form.schema).ok()),
            may_edit: call.form.is_none(),
            may_remember: false,
            filled_in: Vec::new(),
            awaits_login: false,
        }
    }

    fn menu(&self) -> String {
        let choices = [
            ("[a]pprove", self.form.is_none()),
            ("approve for this [r]un", self.form.is_none() && self.may_remember),
            ("[e]dit", self.form.is_none() && self.may_edit),
            ("[f]ill in", self.form.is_some()),
            ("[d]eny", true),
            ("[s]top", true),
        ];
        let choices: Vec<&str> = choices.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name).collect();
        format!("{}? ", choices.join(", "))
    }
}

/// What a line of a review gets from the lines before it, and on what the program depends after it.
fn substitutions(pending: &PendingView) -> Vec<String> {
    let Some(staged) = &pending.staged else { return Vec::new() };
    let mut sentences: Vec<String> = staged.substitutions.iter().map(review::filled_in).collect();
    sentences.extend(staged.commit_point.iter().map(|value| format!("what follows depends on {value}")));
    sentences
}

/// What the person answered.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Answer {
    Approve,
    /// Later calls of the tool in the run too.
    ApproveForRun,
    /// JSON text of other arguments.
    Edit(String),
    /// JSON text of the fields of a form.
    Fill(String),
    /// Why, where the person says it.
    Deny(Option<String>),
    Stop(Option<String>),
}

impl Answer {
    /// Whether what was typed for the arguments is JSON.
    fn check_text(&self) -> Result<(), String> {
        let Answer::Edit(text) = self else { return Ok(()) };
        serde_json::from_str::<IgnoredAny>(text).map(drop).map_err(|error| format!("that is no JSON: {error}"))
    }

    fn decision(&self, call_id: u32) -> CallDecision {
        let (decision, arguments, reason, remember) = match self {
            Answer::Approve => (DecisionKind::Approve, None, None, None),
            Answer::ApproveForRun => (DecisionKind::Approve, None, None, Some(json!("run"))),
            Answer::Edit(text) => (DecisionKind::Edit, Some(text), None, None),
            Answer::Fill(text) => (DecisionKind::Answer, Some(text), None, None),
            Answer::Deny(reason) => (DecisionKind::Deny, None, reason.clone(), None),
            Answer::Stop(reason) => (DecisionKind::Stop, None, reason.clone(), None),
        };
        // A text that is no JSON is a decision without arguments, which is refused.
        let arguments = arguments.and_then(|text| RawValue::from_string(text.clone()).ok());
        CallDecision { call_id, decision, arguments, reason, remember, by: String::new(), at: 0 }
    }
}

/// Lines of a person, and where questions are written.
struct Terminal {
    lines: mpsc::Receiver<String>,
    /// Whether lines that were typed before a question was shown are left out: they are no answer to it.
    drops_early_lines: bool,
    output: Box<dyn Write + Send>,
    style: Style,
}

impl Terminal {
    /// Standard input and standard error. The thread that reads ends with the process: a read of a terminal cannot be cancelled.
    fn of_process() -> Self {
        let (send, lines) = mpsc::channel(MAX_LINES_AHEAD);
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines() {
                let Ok(line) = line else { return };
                if send.blocking_send(line).is_err() {
                    return;
                }
            }
        });
        Terminal { lines, drops_early_lines: true, output: Box::new(std::io::stderr()), style: Style::stderr() }
    }

    /// Shows a question until it has an answer that fits. The end of the input stops the run.
    async fn ask(&mut self, question: &Question, check: impl Fn(&Answer) -> Result<(), String>) -> Answer {
        self.drop_early_lines().await;
        let head = self.style.strong(escape::line(&question.name));
        self.write(&format!("{head} waits for your decision: {}\n", escape::line(&question.reason)));
        self.write(&format!("  {}\n", escape::json(&question.arguments)));
        for sentence in &question.filled_in {
            self.write(&format!("  {}\n", escape::line(sentence)));
        }
        if question.awaits_login {
            self.write("  it goes on by itself after the login; approve looks at once, deny lets the call fail\n");
        }
        if !question.approvers.is_empty() {
            self.write(&format!("  for {} to decide\n", escape::line(&question.approvers.join(" or "))));
        }
        loop {
            let Some(answer) = self.choose(question).await else { return Answer::Stop(None) };
            match answer.check_text().and_then(|()| check(&answer)) {
                Ok(()) => return answer,
                Err(problem) => self.write(&format!("  {}\n", escape::line(&problem))),
            }
        }
    }

    /// Leaves out what was typed before the question is shown.
    async fn drop_early_lines(&mut self) {
        if !self.drops_early_lines {
            return;
        }
        for _ in 0..MAX_LINES_AHEAD {
            // The thread that reads passes on what the terminal has.
            tokio::time::sleep(READ_INTERVAL).await;
            let mut is_quiet = true;
            while self.lines.try_recv().is_ok() {
                is_quiet = false;
            }
            if is_quiet {
                return;
            }
        }
    }

    /// One choice, with what it needs; `None` at the end of the input.
    async fn choose(&mut self, question: &Question) -> Option<Answer> {
        loop {
            let choice = self.prompt(&question.menu()).await?.to_ascii_lowercase();
            let (is_call, is_form) = (question.form.is_none(), question.form.is_some());
            match choice.chars().next() {
                Some('a') if is_call => return Some(Answer::Approve),
                Some('r') if is_call && question.may_remember => return Some(Answer::ApproveForRun),
                Some('e') if is_call && question.may_edit => {
                    return Some(Answer::Edit(self.prompt("arguments, as JSON: ").await?));
                }
                Some('f') if is_form => {
                    let form = question.form.clone().unwrap_or_default();
                    return Some(Answer::Fill(self.fill(&form).await?));
                }
                Some('d') => return Some(Answer::Deny(self.reason().await?)),
                Some('s') => return Some(Answer::Stop(self.reason().await?)),
                _ => {}
            }
        }
    }

    async fn reason(&mut self) -> Option<Option<String>> {
        let reason = self.prompt("reason (may be empty): ").await?;
        Some(Some(reason).filter(|reason| !reason.is_empty()))
    }

    /// The fields of a form, one by one. What is left empty has its default, or is left out.
    async fn fill(&mut self, form: &Value) -> Option<String> {
        let mut answer = Map::new();
        for (name, field) in form["properties"].as_object().into_iter().flatten() {
            let typed = self.prompt(&format!("{}: ", escape::line(&described(name, field)))).await?;
            let value = if typed.is_empty() { field.get("default").cloned() } else { Some(read(&typed, field)) };
            answer.extend(value.map(|value| (name.clone(), value)));
        }
        Some(Value::Object(answer).to_string())
    }

    async fn prompt(&mut self, text: &str) -> Option<String> {
        self.write(text);
        self.lines.recv().await.map(|line| line.trim().to_owned())
    }

    fn write(&mut self, text: &str) {
        // A terminal that is gone gives no lines either.
        let _ = self.output.write_all(text.as_bytes()).and_then(|()| self.output.flush());
    }
}

/// What a person is told about a field of a form.
fn described(name: &str, field: &Value) -> String {
    let kind = field["type"].as_str().unwrap_or("text");
    let choices: Vec<&str> = field["enum"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let choices = if choices.is_empty() { String::new() } else { format!(": {}", choices.join(", ")) };
    let default = field.get("default").map_or_else(String::new, |default| format!(", otherwise {default}"));
    format!("{name} ({kind}{choices}{default})")
}

/// A field as it was typed; what is no number or truth value stays a text, which the check of the form refuses.
fn read(typed: &str, field: &Value) -> Value {
    let text = || Value::from(typed);
    match field["type"].as_str() {
        Some("number" | "integer") => typed.parse::<serde_json::Number>().map_or_else(|_| text(), Value::Number),
        Some("boolean") => match typed.to_ascii_lowercase().as_str() {
            "true" | "yes" | "y" => Value::Bool(true),
            "false" | "no" | "n" => Value::Bool(false),
            _ => text(),
        },
        _ => text(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex as Shared;

    /// What was written, for a test to look at.
    #[derive(Clone, Default)]
    struct Written(Arc<Shared<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    async fn conversation(question: &Question, typed: &[&str]) -> (Answer, String) {
        let (send, lines) = mpsc::channel(MAX_LINES_AHEAD);
        for line in typed {
            send.send((*line).to_owned()).await.expect("room");
        }
        drop(send);
        let written = Written::default();
        let mut terminal =
            Terminal { lines, drops_early_lines: false, output: Box::new(written.clone()), style: Style::plain() };
        let check = |answer: &Answer| match answer {
            Answer::Edit(text) if !text.starts_with('{') => Err("the arguments are no object".to_owned()),
            _ => Ok(()),
        };
        let answer = terminal.ask(question, check).await;
        let written = String::from_utf8(written.0.lock().clone()).expect("UTF-8");
        (answer, written)
    }

    fn question() -> Question {
        Question {
            name: "bank.pay".into(),
            reason: "large\u{1b}[2J transfers".into(),
            arguments: "{\"amount\":500}".into(),
            approvers: vec!["finance".into()],
            form: None,
            may_edit: true,
            may_remember: true,
            filled_in: Vec::new(),
            awaits_login: false,
        }
    }

    #[tokio::test]
    async fn a_question_is_shown_and_answered() {
        let (answer, written) = conversation(&question(), &["what", "a"]).await;
        let menu = "[a]pprove, approve for this [r]un, [e]dit, [d]eny, [s]top? ";
        let head = "bank.pay waits for your decision: large\\u{1b}[2J transfers\n  {\"amount\":500}\n  for finance to decide\n";
        assert_eq!((answer, written), (Answer::Approve, format!("{head}{menu}{menu}")));
        assert_eq!(conversation(&question(), &["r"]).await.0, Answer::ApproveForRun);
        assert_eq!(conversation(&question(), &["d", " too much "]).await.0, Answer::Deny(Some("too much".into())));
        assert_eq!(conversation(&question(), &["s", ""]).await.0, Answer::Stop(None));
        assert_eq!(conversation(&question(), &[]).await.0, Answer::Stop(None), "the input has ended");
    }

    #[tokio::test]
    async fn what_does_not_fit_is_asked_again() {
        let (answer, written) = conversation(&question(), &["e", "7", "e", "{\"amount\":5}"]).await;
        assert_eq!(answer, Answer::Edit("{\"amount\":5}".into()));
        assert!(written.contains("  the arguments are no object\n[a]pprove"), "{written}");
    }

    #[tokio::test]
    async fn the_form_of_a_server_is_filled_in() {
        let form = json!({ "properties": {
            "count": { "type": "integer", "default": 2 },
            "name": { "type": "string", "enum": ["Ann", "Bob"] },
            "sure": { "type": "boolean" },
        } });
        let asks = Question { form: Some(form), ..question() };
        let (answer, written) = conversation(&asks, &["a", "f", "", "Ann", "yes"]).await;
        assert_eq!(answer, Answer::Fill(r#"{"count":2,"name":"Ann","sure":true}"#.into()));
        assert!(written.contains("[f]ill in, [d]eny, [s]top? "), "{written}");
        assert!(written.contains("name (string: Ann, Bob): "), "{written}");
    }
}
