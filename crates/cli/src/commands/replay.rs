//! `toolgate run --record` and `toolgate replay`: a run as a file, and the run again from it, without tools or network unless
//! `--live` asks for them.

pub(crate) mod cassette_file;

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use toolgate_config::Checked;
use toolgate_engine::transcript::{AfterReplay, Replay};
use toolgate_gateway::runtime::secret_values;
use toolgate_journal::edited::RecordedHost;
use toolgate_journal::recording::{MemoryRecorder, Record, RunFacts};
use toolgate_journal::redact::Redaction;
use toolgate_journal::replay::{Replayable, offline};
use toolgate_journal::{cassette, report};
use toolgate_plan::Form;
use toolgate_run::{
    Door, Readiness, RecordedRun, ReplayHost, RunReport, RunRequest, execution_id, replay_engine, replay_request,
};
use toolgate_wire::{Code, LimitRequest, Profile};

use self::cassette_file::CassetteFile;
use super::servers::{Opened, spinner};
use super::{Exit, Usage};
use crate::args::programs::{LiveCalls, ReplayArgs};
use crate::print::console::Console;
use crate::print::report::{Origin, Shown};
use crate::print::{Style, error, escape, ledger, note, out};
use crate::runner::{run_once, run_until_signal};
use crate::tools;

/// The recorder of one run of the command.
pub(crate) struct Recording {
    id: String,
    recorder: Arc<MemoryRecorder>,
    path: PathBuf,
    file: CassetteFile,
}

impl Recording {
    /// Records a program that is about to run.
    ///
    /// # Errors
    /// If the cassette cannot be written there: the program is not run then.
    pub(crate) fn at(path: &Path, profile: Profile, code: &str) -> Result<Self, Usage> {
        let file = CassetteFile::at(path).map_err(|error| Usage(format!("{}: {error}", cannot_write(path))))?;
        let id = execution_id();
        let facts = RunFacts { run: id.clone(), profile, code: code.to_owned(), caller: String::new(), request: None };
        Ok(Recording { id, recorder: MemoryRecorder::new(facts), path: path.to_owned(), file })
    }

    /// The same request, recorded.
    pub(crate) fn recorded(&self, request: RunRequest) -> RunRequest {
        RunRequest { id: Some(self.id.clone()), recorder: Some(self.recorder.clone()), ..request }
    }

    /// Writes the cassette of the run that has ended, with stand-ins for secrets, among them those of its configuration.
    pub(crate) fn save(self, run: &mut RunReport, config: Option<&Checked>) -> anyhow::Result<()> {
        run.report.warnings.extend(self.recorder.remark());
        let mut record = self.recorder.finish(&serde_json::to_string(run)?);
        let style = Style::stderr();
        if !record.has_start() {
            note(format_args!("{} nothing was recorded: no program was started", style.warn("warning:")));
            return Ok(());
        }
        let secrets = Redaction::new(config.map(secret_values).unwrap_or_default()).apply(&mut record)?;
        let written = self.file.write(&|out| cassette::write(&record, out));
        written.with_context(|| cannot_write(&self.path))?;
        let redacted = if secrets > 0 { format!("; secrets that became stand-ins: {secrets}") } else { String::new() };
        let path = self.path.to_string_lossy();
        note(style.faint(format_args!("recorded: toolgate replay {}{redacted}", escape::text(&path))));
        Ok(())
    }
}

/// What is said of a file that cannot be written.
pub(super) fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", escape::text(&path.to_string_lossy()))
}

/// `toolgate replay`.
pub(crate) fn replay(args: &ReplayArgs) -> anyhow::Result<Exit> {
    let name = escape::text(&args.file.to_string_lossy()).into_owned();
    let file = File::open(&args.file).map_err(|error| Usage(format!("cannot read {name}: {error}")))?;
    let record = cassette::read(&mut BufReader::new(file)).map_err(|fault| Usage(format!("{name}: {fault}")))?;
    let replayable = offline(&record).map_err(|fault| Usage(format!("{name}: {fault}")))?;
    match &args.edit {
        Some(edited) => {
            let code = edited.code()?;
            edit(args, &record, replayable, Origin { name: edited.to_string(), code })
        }
        None => again(args, &record, replayable, name),
    }
}

/// The recorded program against the recorded messages.
fn again(args: &ReplayArgs, record: &Record, replayable: Replayable, name: String) -> anyhow::Result<Exit> {
    let recorded = record.report().unwrap_or_default().to_owned();
    let origin = Origin { name, code: replayable.code.clone() };
    let (engine, lines) = replay_engine(args.sandbox.engine(), &recorded);
    let replay = Replay { lines, ..replayable.replay };
    let recorded_run = RecordedRun { replay: Arc::new(replay), host: ReplayHost::Tools };
    let request = request(replayable.header.profile, replayable.limits, &origin.code, recorded_run);
    let run = carry_out(args, RunRequest { engine: Some(engine), ..request })?;
    let replayed = report::with_measurements(&run.report, &recorded)?;
    let difference = report::difference(&recorded, &replayed);
    let diverged = run.report.failure().is_some_and(|failure| failure.code == Code::Diverged);
    let end = if args.output.json {
        out(escape::json(&replayed))?;
        if run.report.value().is_ok() { Exit::Done } else { Exit::Failed }
    } else {
        show(run, origin, args)?
    };
    match difference {
        Some(difference) if args.assert => {
            error(&format!("the replay differs from the record: {}", escape::message(&difference)));
            Ok(Exit::Failed)
        }
        _ if args.assert => Ok(Exit::Done),
        _ if diverged => Ok(Exit::Failed),
        _ => Ok(end),
    }
}

/// A changed program against the recorded answers.
fn edit(args: &ReplayArgs, record: &Record, replayable: Replayable, origin: Origin) -> anyhow::Result<Exit> {
    let form = match replayable.header.profile {
        Profile::Compute => Form::Compute,
        Profile::Chain | Profile::Snippet => Form::Script,
    };
    let (engine, _) = replay_engine(args.sandbox.engine(), record.report().unwrap_or_default());
    let mut replay = Replay { steps: Vec::new(), then: AfterReplay::GoOn(Default::default()), ..replayable.replay };
    // A text that is no program is refused by the run itself, with its place.
    if let Ok(program) = toolgate_plan::compile(&origin.code, form) {
        replay.start.code = program.js;
    }
    let host = Arc::new(RecordedHost::new(record)?);
    let run = match args.live {
        None => {
            let recorded = RecordedRun { replay: Arc::new(replay), host: ReplayHost::Record(host) };
            let request = request(replayable.header.profile, replayable.limits, &origin.code, recorded);
            carry_out(args, RunRequest { engine: Some(engine), ..request })?
        }
        Some(LiveCalls::Read) => {
            let recorded = RecordedRun { replay: Arc::new(replay), host: ReplayHost::RecordThenReads(host) };
            let request = request(replayable.header.profile, replayable.limits, &origin.code, recorded);
            over_servers(args, RunRequest { engine: Some(engine), ..request })?
        }
    };
    if args.output.json {
        return Shown { run, origin }.print(args.output);
    }
    show(run, origin, args)
}

/// A request of the command line for a recorded run.
pub(super) fn request(profile: Profile, limits: LimitRequest, code: &str, recorded: RecordedRun) -> RunRequest {
    RunRequest { door: Door::CommandLine, ..replay_request(profile, limits, code, recorded) }
}

/// Runs it without tools, with its console on standard error.
fn carry_out(args: &ReplayArgs, request: RunRequest) -> anyhow::Result<RunReport> {
    with_console(args, request, |request| Ok(run_once(args.sandbox.isolation(), tools::bridge(None)?, request)))
}

/// Runs it over the servers of a configuration, with its console on standard error.
fn over_servers(args: &ReplayArgs, request: RunRequest) -> anyhow::Result<RunReport> {
    let opened = Opened::with_isolation(&args.servers, args.sandbox.isolation_if_asked())?;
    with_console(args, request, |mut request| {
        opened.within(async |gateway| {
            let spinner = spinner("starting the servers that the program names");
            let within = gateway.config().settings.limits.start_timeout;
            gateway.wait_for_named(&request.text, &request.caller, Readiness::Ready, within).await;
            spinner.finish_and_clear();
            if let Some(recorded) = &mut request.recorded {
                let mut replay = (*recorded.replay).clone();
                let functions = gateway.runner().functions(&request.caller).names();
                let new = functions.into_iter().filter(|name| !replay.start.functions.contains(name));
                let new: Vec<String> = new.collect();
                replay.start.functions.extend(new);
                replay.start.tools = true;
                recorded.replay = Arc::new(replay);
            }
            Ok(run_until_signal(gateway.runner(), request).await)
        })
    })
}

fn with_console(
    args: &ReplayArgs,
    request: RunRequest,
    run: impl FnOnce(RunRequest) -> anyhow::Result<RunReport>,
) -> anyhow::Result<RunReport> {
    let console = (!args.output.json).then(Console::start).transpose()?;
    let observer = console.as_ref().map(|console| Arc::new(console.observer()) as _);
    let run = run(RunRequest { observer, ..request });
    if let Some(console) = console {
        console.finish();
    }
    run
}

fn show(run: RunReport, origin: Origin, args: &ReplayArgs) -> anyhow::Result<Exit> {
    if !run.report.calls.is_empty() {
        note(ledger::table(&run.report.calls, Style::stderr()));
    }
    Shown { run, origin }.print(args.output)
}
