//! `toolgate runs`, `pending`, `approve` and `deny`: durable runs, by their store.
//!
//! No run is executed here: a decision or an abort is written to the store, and a service with the same store acts on it.

use std::time::Duration;

use anyhow::Context;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use toolgate_bridge::approvals::{Remember, RememberedRules};
use toolgate_config::Checked;
use toolgate_gateway::runtime::{cached_catalog, secret_values};
use toolgate_journal::durable::{Decision, Journal, PendingCall};
use toolgate_journal::redact::Redaction;
use toolgate_journal::store::{Find, Prune, RunRow, RunStatus, StoreError};
use toolgate_journal::unix_ms;
use toolgate_journal::{cassette, page};
use toolgate_run::durable::{About, CallDecision, DecisionKind, PendingView, events_of, journal_of, undecided};
use toolgate_wire::CallId;
use toolgate_wire::foreign_text::head;

use super::replay::cannot_write;
use super::replay::cassette_file::CassetteFile;
use super::servers::{configuration, table};
use super::{Exit, Usage};
use crate::args::runs::{
    ApproveArgs, DenyArgs, ExportArgs, ListRunsArgs, PendingArgs, PruneArgs, RememberFor, RunStoreArgs, RunsCommand,
    ShowRunArgs, Status,
};
use crate::args::servers::Servers;
use crate::print::{Style, counted, escape, note, out, pretty};

/// Runs that are read at one time, where all are looked through.
const PAGE: usize = 1_000;
/// Entries of a record that are read at one time.
const MAX_ENTRIES: usize = 500;
/// Hexadecimal digits of an id in a list.
const SHOWN_ID: usize = 32;

pub(crate) fn runs(command: &RunsCommand) -> anyhow::Result<Exit> {
    match command {
        RunsCommand::List(args) => with_store(&args.store.servers, async |store| list(args, store).await),
        RunsCommand::Show(args) => with_store(&args.store.servers, async |store| show(args, store).await),
        RunsCommand::Events(args) => with_store(&args.store.servers, async |store| events(args, store).await),
        RunsCommand::Abort(args) => with_store(&args.store.servers, async |store| abort(args, store).await),
        RunsCommand::Prune(args) => with_store(&args.store.servers, async |store| prune(args, store).await),
        RunsCommand::Export(args) => {
            let config = configuration(&args.servers)?;
            let secrets = secret_values(&config);
            with_store_of(&config, async |store| export(args, store, secrets).await)
        }
    }
}

/// The store of a configuration.
pub(super) struct RunStore {
    journal: Journal,
    /// What the configuration keeps.
    retention: Prune,
}

impl RunStore {
    /// A store to look for runs in.
    pub(super) fn of(journal: Journal) -> Self {
        RunStore { journal, retention: Prune::default() }
    }
}

fn with_store(servers: &Servers, work: impl AsyncFnOnce(&RunStore) -> anyhow::Result<Exit>) -> anyhow::Result<Exit> {
    with_store_of(&configuration(servers)?, work)
}

fn with_store_of(config: &Checked, work: impl AsyncFnOnce(&RunStore) -> anyhow::Result<Exit>) -> anyhow::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let done = runtime.block_on(async {
        let settings = &config.settings.runs;
        let journal = journal_of(settings, &config.file).await.context("cannot open the store of durable runs")?;
        let retention = Prune { older_than: Some(settings.keep), max_bytes: Some(settings.max_size.get()) };
        work(&RunStore { journal, retention }).await
    });
    runtime.shutdown_background();
    done
}

async fn list(args: &ListRunsArgs, store: &RunStore) -> anyhow::Result<Exit> {
    let status = args.status.map(|status| match status {
        Status::Running => RunStatus::Running,
        Status::Paused => RunStatus::Paused,
        Status::Done => RunStatus::Done,
    });
    let find = Find { caller: args.caller.clone(), status, most: usize::from(args.limit), ..Find::default() };
    let rows = store.journal.store().find(find).await?;
    if args.store.json {
        let list: Vec<Value> = rows.iter().map(summary).collect();
        out(escape::json(&Value::Array(list).to_string()))?;
        return Ok(Exit::Done);
    }
    if rows.is_empty() {
        note("no durable runs");
        return Ok(Exit::Done);
    }
    let lines = rows.iter().map(|row| {
        let id = head(&row.run, SHOWN_ID).to_owned();
        vec![id, row.status.name().to_owned(), ago(row.began), row.caller.clone(), format!("{} B", row.bytes)]
    });
    let lines: Vec<Vec<String>> = lines.collect();
    out(table(&["run", "status", "began", "caller", "size"], &lines, Style::stdout()))?;
    Ok(Exit::Done)
}

fn summary(row: &RunRow) -> Value {
    json!({
        "runId": row.run, "status": row.status.name(), "caller": row.caller, "beganAt": row.began,
        "changedAt": row.changed, "bytes": row.bytes,
    })
}

async fn show(args: &ShowRunArgs, store: &RunStore) -> anyhow::Result<Exit> {
    let row = find(store, &args.run).await?;
    let waiting = undecided(&store.journal.pending(&row.run).await?);
    let report = if row.status == RunStatus::Done { store.journal.report(&row).await? } else { None };
    if args.store.json {
        let mut shown = summary(&row);
        if row.status != RunStatus::Done {
            shown["pending"] = serde_json::to_value(&waiting)?;
        }
        // The report is shown as it was written, digits and all.
        let mut text = shown.to_string();
        if let Some(report) = report {
            text.pop();
            text.push_str(&format!(",\"report\":{report}}}"));
        }
        out(escape::json(&text))?;
        return Ok(Exit::Done);
    }
    let style = Style::stdout();
    let caller =
        if row.caller.is_empty() { "the local user".to_owned() } else { escape::line(&row.caller).into_owned() };
    out(format_args!("{} {}", style.strong(escape::line(&row.run)), row.status.name()))?;
    out(style.faint(format_args!("began {} ago, by {caller}, {} bytes", ago(row.began), row.bytes)))?;
    if row.status != RunStatus::Done {
        waiting.iter().try_for_each(|call| out(line_of(&row.run, call)))?;
    }
    if let Some(report) = report {
        out(escape::json(&pretty::pretty(&report)))?;
    }
    Ok(Exit::Done)
}

async fn events(args: &ShowRunArgs, store: &RunStore) -> anyhow::Result<Exit> {
    let row = find(store, &args.run).await?;
    let mut from = 0;
    loop {
        let record = store.journal.entries(&row.run, from, MAX_ENTRIES).await?;
        for event in events_of(&record, from) {
            let line = json!({ "number": event.number, "event": event.name, "data": event.data });
            out(escape::json(&line.to_string()))?;
        }
        match record.entries.len() as u64 {
            0 => return Ok(Exit::Done),
            read => from += read,
        }
    }
}

async fn abort(args: &ShowRunArgs, store: &RunStore) -> anyhow::Result<Exit> {
    let row = find(store, &args.run).await?;
    store.journal.store().abort(&row.run).await?;
    if args.store.json {
        out(json!({ "runId": row.run, "status": row.status.name() }))?;
    } else if row.status == RunStatus::Done {
        note("the run has ended already");
    } else {
        note("the run ends as soon as a service with this store sees it");
    }
    Ok(Exit::Done)
}

async fn prune(args: &PruneArgs, store: &RunStore) -> anyhow::Result<Exit> {
    let prune = match (args.older_than, args.max_size) {
        (None, None) => store.retention,
        (older_than, max_bytes) => Prune { older_than, max_bytes },
    };
    let forgotten = store.journal.store().prune(prune).await?;
    if args.store.json {
        out(json!({ "forgotten": forgotten }))?;
    } else {
        note(format_args!("forgot {}", counted(forgotten, "run")));
    }
    Ok(Exit::Done)
}

/// Writes a run with stand-ins for secrets, among them these.
async fn export(args: &ExportArgs, store: &RunStore, secrets: Vec<String>) -> anyhow::Result<Exit> {
    let row = find(store, &args.run).await?;
    let file =
        args.output.as_ref().map(|path| CassetteFile::at(path).with_context(|| cannot_write(path))).transpose()?;
    let mut record = store.journal.load(&row.run).await?;
    let secrets = Redaction::new(secrets).apply(&mut record)?;
    let mut bytes = Vec::new();
    if args.html {
        bytes.extend_from_slice(page::page(&record).as_bytes());
    } else {
        cassette::write(&record, &mut bytes)?;
    }
    match (file, &args.output) {
        (Some(file), Some(path)) => file.write(&|out| out.write_all(&bytes)).with_context(|| cannot_write(path))?,
        _ => out(String::from_utf8_lossy(&bytes).trim_end())?,
    }
    if secrets > 0 {
        note(format_args!("secrets that became stand-ins: {secrets}"));
    }
    Ok(Exit::Done)
}

/// `toolgate pending`.
pub(crate) fn pending(args: &PendingArgs) -> anyhow::Result<Exit> {
    with_store(&args.store.servers, async |store| {
        let rows = match &args.run {
            Some(run) => vec![find(store, run).await?],
            None => open_runs(store).await?,
        };
        let mut waiting = Vec::new();
        for row in rows.iter().filter(|row| row.status != RunStatus::Done) {
            let asked = match store.journal.pending(&row.run).await {
                // One run that cannot be read does not hide the others.
                Err(error @ StoreError::Damaged(_)) if args.run.is_none() => {
                    note(format_args!("{}: {}", escape::line(&row.run), escape::line(&error.to_string())));
                    continue;
                }
                asked => asked?,
            };
            let calls = undecided(&asked);
            waiting.extend(calls.into_iter().map(|call| (row.run.clone(), call)));
        }
        if args.store.json {
            let list = waiting.iter().map(|(run, call)| {
                let mut shown = serde_json::to_value(call)?;
                shown["runId"] = json!(run);
                Ok(shown)
            });
            let list = list.collect::<Result<Vec<Value>, serde_json::Error>>()?;
            out(escape::json(&Value::Array(list).to_string()))?;
        } else if waiting.is_empty() {
            note("no call waits for a decision");
        } else {
            waiting.iter().try_for_each(|(run, call)| out(line_of(run, call)))?;
        }
        Ok(Exit::Done)
    })
}

async fn open_runs(store: &RunStore) -> anyhow::Result<Vec<RunRow>> {
    let mut rows = Vec::new();
    for status in [RunStatus::Paused, RunStatus::Running] {
        each_run(store, Some(status), |row| rows.push(row)).await?;
    }
    Ok(rows)
}

/// Looks at all runs, the newest first.
async fn each_run(store: &RunStore, status: Option<RunStatus>, mut look: impl FnMut(RunRow)) -> anyhow::Result<()> {
    let mut before = None;
    loop {
        let rows = store.journal.store().find(Find { status, before, most: PAGE, ..Find::default() }).await?;
        let is_last = rows.len() < PAGE;
        before = rows.last().map(|row| (row.began, row.run.clone()));
        rows.into_iter().for_each(&mut look);
        if is_last {
            return Ok(());
        }
    }
}

/// One call that waits: what decides it, and what would be sent.
pub(super) fn line_of(run: &str, call: &PendingView) -> String {
    let style = Style::stdout();
    let name = call.backend.as_ref().map_or_else(|| call.tool.clone(), |backend| format!("{backend}.{}", call.tool));
    let head = style.strong(format_args!("{} {} {}", escape::line(run), call.call_id, escape::line(&name)));
    let reason = style.faint(escape::line(&call.reason));
    let details: String = details_of(call, unix_ms()).iter().map(|it| format!("\n  {}", escape::line(it))).collect();
    format!("{head}  {reason}\n  {}{details}", escape::json(call.arguments.0.get()))
}

/// What else a person should know about a call that waits, a line each.
fn details_of(call: &PendingView, now: u64) -> Vec<String> {
    let mut details = Vec::new();
    if let About::Form { message, schema } = &call.about {
        let fields = schema["properties"].as_object().into_iter().flatten();
        let fields: Vec<String> =
            fields.map(|(name, field)| format!("{name} ({})", field["type"].as_str().unwrap_or("any"))).collect();
        details.push(format!("the server asks: {message}"));
        details.push(format!("answer with --answer, a JSON object of {}", fields.join(", ")));
    }
    if let Some(value) = call.staged.as_ref().and_then(|staged| staged.commit_point.as_ref()) {
        details.push(format!("the program waits here for the real value of {value}"));
    }
    if !call.approvers.is_empty() {
        details.push(format!("for {} to decide", call.approvers.join(" or ")));
    }
    let minutes = call.expires_at.saturating_sub(now) / 60_000;
    if call.expires_at > 0 {
        details.push(if minutes < 120 {
            format!("expires in {minutes} min")
        } else {
            format!("expires in {} h", minutes / 60)
        });
    }
    details
}

/// `toolgate approve`.
pub(crate) fn approve(args: &ApproveArgs) -> anyhow::Result<Exit> {
    let arguments = match &args.arguments {
        Some(_) if args.calls.len() > 1 => return Err(Usage("--arguments are for one call".to_owned()).into()),
        Some(text) => {
            let json = RawValue::from_string(text.clone());
            Some(json.map_err(|error| Usage(format!("--arguments are not JSON: {error}")))?)
        }
        None => None,
    };
    let (decision, arguments) = match (arguments, answer_of(args)?) {
        (Some(arguments), _) => (DecisionKind::Edit, Some(arguments)),
        (None, Some(answer)) => (DecisionKind::Answer, Some(answer)),
        (None, None) => (DecisionKind::Approve, None),
    };
    let made = Made { decision, arguments, reason: args.reason.clone(), remember: remember_of(args)? };
    decide(&args.store, &args.run, &args.calls, &made)
}

/// For which later calls the approval stands, as decisions say it.
fn remember_of(args: &ApproveArgs) -> anyhow::Result<Option<Value>> {
    match (args.remember, &args.when) {
        (RememberFor::Always, Some(when)) => Ok(Some(json!({ "always": when }))),
        (_, Some(_)) => Err(Usage("--when needs --remember always".to_owned()).into()),
        (RememberFor::Once, None) => Ok(None),
        (RememberFor::Run, None) => Ok(Some(json!("run"))),
        (RememberFor::Session, None) => Ok(Some(json!("session"))),
        (RememberFor::Always, None) => Ok(Some(json!("always"))),
    }
}

/// What the program gets instead of a second call.
fn answer_of(args: &ApproveArgs) -> anyhow::Result<Option<Box<RawValue>>> {
    match &args.answer {
        Some(_) if args.calls.len() > 1 => Err(Usage("--answer is for one call".to_owned()).into()),
        Some(text) => {
            let json = RawValue::from_string(text.clone());
            Ok(Some(json.map_err(|error| Usage(format!("--answer is not JSON: {error}")))?))
        }
        None => Ok(None),
    }
}

/// `toolgate deny`.
pub(crate) fn deny(args: &DenyArgs) -> anyhow::Result<Exit> {
    let decision = if args.stop { DecisionKind::Stop } else { DecisionKind::Deny };
    let made = Made { decision, arguments: None, reason: args.reason.clone(), remember: None };
    decide(&args.store, &args.run, &args.calls, &made)
}

/// A decision that was made, for each of some calls.
struct Made {
    decision: DecisionKind,
    arguments: Option<Box<RawValue>>,
    reason: Option<String>,
    remember: Option<Value>,
}

fn decide(args: &RunStoreArgs, run: &str, calls: &[u32], made: &Made) -> anyhow::Result<Exit> {
    // Read once: each reading runs the commands of `${cmd:…}`.
    let config = configuration(&args.servers)?;
    with_store_of(&config, async |store| {
        let row = find(store, run).await?;
        let asked = store.journal.pending(&row.run).await?;
        // All are checked before one is written.
        let decided = calls.iter().map(|call| checked(&config, &row, &asked, made.about(*call)));
        let decided = decided.collect::<Result<Vec<_>, Usage>>()?;
        let mut held = Vec::new();
        for (decision, question) in &decided {
            let text = serde_json::to_string(decision)?;
            let kept = match store.journal.decide(&row.run, CallId(decision.call_id), &text).await? {
                Decision::Now => {
                    question.iter().for_each(|question| remember(&config, &row, question, decision));
                    text
                }
                Decision::Before(before) => before,
                Decision::NotAsked => {
                    return Err(Usage(format!("no call {} of this run waits", decision.call_id)).into());
                }
            };
            held.push(serde_json::from_str::<CallDecision>(&kept)?);
        }
        store.journal.sync().await?;
        report_decisions(args, &row.run, &held, made)
    })
}

impl Made {
    /// The decision about one call.
    fn about(&self, call_id: u32) -> CallDecision {
        CallDecision {
            call_id,
            decision: self.decision,
            arguments: self.arguments.clone(),
            reason: self.reason.clone(),
            remember: self.remember.clone(),
            by: String::new(),
            at: unix_ms(),
        }
    }
}

/// A decision that can be taken, with its question where that can be read.
fn checked(
    config: &Checked,
    row: &RunRow,
    asked: &[PendingCall],
    decision: CallDecision,
) -> Result<(CallDecision, Option<PendingView>), Usage> {
    let wrong = |message: String| Usage(format!("nothing was decided: {}", escape::line(&message)));
    let asked = asked.iter().find(|asked| asked.call.0 == decision.call_id);
    let asked = asked.ok_or_else(|| Usage(format!("no call {} of this run waits for a decision", decision.call_id)))?;
    let question = serde_json::from_str::<PendingView>(&asked.question).ok();
    if let Some(question) = &question {
        if asked.decision.is_none() {
            question.check_open(row.status, decision.at).map_err(wrong)?;
        }
        question.takes(&decision).map_err(wrong)?;
        // Of the tools as they were last seen: no server is started for a decision.
        let catalog = cached_catalog(config, question.backend.as_deref().unwrap_or_default());
        question.check_edit(&decision, &catalog).map_err(wrong)?;
    }
    Ok((decision, question))
}

/// Keeps an approval that stands for good. One for the run is remembered by the process that goes on with it.
fn remember(config: &Checked, row: &RunRow, question: &PendingView, decision: &CallDecision) {
    let Some((call, remember @ Remember::Always { .. })) = question.remembered(&row.run, decision) else { return };
    let caller = if row.caller.is_empty() { "local" } else { row.caller.as_str() };
    let settings = &config.settings;
    let rules = RememberedRules::new(config.remembered_rules_file());
    if let Err(error) = rules.remember(&settings.policy, caller, &call, &remember) {
        note(format_args!("the approval holds, and is not remembered: {}", escape::line(&error.to_string())));
    }
}

fn report_decisions(args: &RunStoreArgs, run: &str, held: &[CallDecision], made: &Made) -> anyhow::Result<Exit> {
    if args.json {
        out(escape::json(&json!({ "runId": run, "decisions": held }).to_string()))?;
    }
    let others: Vec<&CallDecision> = held.iter().filter(|held| held.decision != made.decision).collect();
    for other in &others {
        let was = serde_json::to_value(other.decision)?;
        note(format_args!("call {} was decided before: {}", other.call_id, was.as_str().unwrap_or_default()));
    }
    Ok(if others.is_empty() { Exit::Done } else { Exit::Failed })
}

/// The run with this id, or the only one whose id begins so.
pub(super) async fn find(store: &RunStore, id: &str) -> anyhow::Result<RunRow> {
    if let Some(row) = store.journal.row(id).await? {
        return Ok(row);
    }
    let mut found = Vec::new();
    let is_it = |row: &RunRow| !id.is_empty() && row.run.starts_with(id);
    each_run(store, None, |row| found.extend(Some(row).filter(is_it))).await?;
    let mut found = found.into_iter();
    match (found.next(), found.next()) {
        (Some(row), None) => Ok(row),
        (Some(_), Some(_)) => Err(Usage(format!("several runs begin with {}", escape::line(id))).into()),
        (None, _) => Err(Usage(format!("there is no run {}", escape::line(id))).into()),
    }
}

fn ago(then: u64) -> String {
    let seconds = Duration::from_millis(unix_ms().saturating_sub(then)).as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_waits_is_shown_with_who_decides_until_when_and_what_is_asked() {
        let question = json!({
            "callId": 1, "tool": "pay", "arguments": {}, "reason": "because", "askedAt": 0, "expiresAt": 0,
        });
        let mut call: PendingView = serde_json::from_str(&question.to_string()).expect("a question");
        assert_eq!(details_of(&call, 5), Vec::<String>::new());
        call.approvers = vec!["ann".to_owned(), "boss-*".to_owned()];
        call.expires_at = 24 * 3_600_000;
        call.about = About::Form {
            message: "which account?".to_owned(),
            schema: json!({ "type": "object", "properties": { "account": { "type": "string" } } }),
        };
        let expected = [
            "the server asks: which account?",
            "answer with --answer, a JSON object of account (string)",
            "for ann or boss-* to decide",
            "expires in 24 h",
        ];
        assert_eq!(details_of(&call, 0), expected.map(str::to_owned));
        assert_eq!(details_of(&call, 24 * 3_600_000 - 60_000).last().map(String::as_str), Some("expires in 1 min"));
    }

    #[test]
    fn a_decision_runs_the_commands_of_the_configuration_once() {
        let folder = tempfile::tempdir().expect("folder");
        let (config, ran) = (folder.path().join("toolgate.json"), folder.path().join("ran"));
        let command = format!("${{cmd:echo x >> '{}'; echo value}}", ran.display());
        let content = json!({
            "mcpServers": { "one": { "command": "true", "env": { "KEY": command } } },
            "toolgate": { "secrets": { "commands": true }, "runs": { "store": folder.path().join("runs.db") } },
        });
        std::fs::write(&config, content.to_string()).expect("configuration");
        let servers = Servers { config: Some(config), demo: false, require_trust: false };
        let made = Made { decision: DecisionKind::Deny, arguments: None, reason: None, remember: None };
        let decided = decide(&RunStoreArgs { servers, json: false }, "none", &[1], &made);
        assert_eq!(decided.err().map(|error| error.to_string()).as_deref(), Some("there is no run none"));
        assert_eq!(std::fs::read_to_string(ran).expect("it ran"), "x\n");
    }
}
