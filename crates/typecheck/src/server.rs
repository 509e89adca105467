//! The thread that owns the language server: its open documents, its restarts, and the order of checks.
//!
//! There is one project: the settings, the declarations of the language, those of the tools that a program mentions, and
//! the program. Each check replaces the last two, which costs less than many projects do or one with the declarations of
//! every tool. Documents exist in memory only. A check that takes too long ends the process.
//!
//! Once it was asked for, the process is there before the next check needs it: a start takes longer than a run waits. So
//! it is not ended while it is idle, and one that ended, failed or was replaced is started again without being asked.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::oneshot;
use toolgate_catalog::types::check::Declarations;
use toolgate_wire::foreign_text::head;

use crate::checker::Unchecked;
use crate::find::Compiler;
use crate::library::{LIBRARY, library};
use crate::process::{JailCommand, LanguageServer};

/// Longest time of one check, after which the process is ended. The run does not wait that long.
const CHECK_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest time of a start, with the check of an empty program that makes the process read the declarations of the language.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// Time between two looks at whether the process still runs.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// Failures in a row after which another process is started for a check only.
const MAX_UNASKED_STARTS: u32 = 8;
/// Time after an end that was not ours before another process is started; doubled with each further one.
const RESTART_DELAY: Duration = Duration::from_millis(250);
/// Longest such time.
const MAX_RESTART_DELAY: Duration = Duration::from_secs(60);
/// Findings of one check that are read.
pub(crate) const MAX_DIAGNOSTICS: usize = 200;
/// Checks between two looks at the memory of the process.
const CHECKS_PER_LOOK: u64 = 32;

/// What the thread is asked to do.
pub(crate) enum Task {
    /// Start the process, if it does not run.
    Warm,
    /// Check a program.
    Check(CheckTask),
}

pub(crate) struct CheckTask {
    pub(crate) text: Arc<str>,
    /// The declarations of what the program mentions.
    pub(crate) declarations: String,
    /// When the run goes on without an answer.
    pub(crate) deadline: Instant,
    pub(crate) answer: oneshot::Sender<Result<Arc<Vec<Diagnostic>>, Unchecked>>,
    /// Keeps the answer for the same program.
    pub(crate) keep: Box<dyn FnOnce(Arc<Vec<Diagnostic>>) + Send>,
}

/// A finding of the compiler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Diagnostic {
    /// Lines from zero.
    pub(crate) line: u32,
    /// UTF-16 units from zero.
    pub(crate) column: u32,
    pub(crate) code: u32,
    pub(crate) message: String,
}

/// The state of the thread.
pub(crate) struct Server {
    compiler: Compiler,
    jail: JailCommand,
    process: Option<LanguageServer>,
    project: Option<Project>,
    /// Whether the process was asked for.
    is_wanted: bool,
    checks: u64,
    failures: u32,
    not_before: Option<Instant>,
}

/// The documents of the process.
struct Project {
    /// The declarations that it has, and their version.
    declarations: String,
    declarations_version: u64,
    program_version: u64,
}

impl Server {
    pub(crate) fn new(compiler: Compiler, jail: JailCommand) -> Self {
        Server {
            compiler,
            jail,
            process: None,
            project: None,
            is_wanted: false,
            checks: 0,
            failures: 0,
            not_before: None,
        }
    }

    /// Serves until the last sender of requests is dropped.
    pub(crate) fn serve(mut self, tasks: &Receiver<Task>) {
        loop {
            match tasks.recv_timeout(self.next_look()) {
                Ok(Task::Warm) => self.warm(),
                Ok(Task::Check(task)) => self.perform(task),
                Err(RecvTimeoutError::Timeout) => self.look(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Starts the process, if it does not run.
    fn warm(&mut self) {
        self.is_wanted = true;
        if self.process.is_none() {
            let _ = self.check("", nothing());
        }
    }

    /// How long to wait for a task before the process is looked at.
    fn next_look(&self) -> Duration {
        if self.process.is_some() || !self.may_start_unasked() {
            return LOOK_INTERVAL;
        }
        self.not_before.map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()))
    }

    fn may_start_unasked(&self) -> bool {
        self.is_wanted && self.failures < MAX_UNASKED_STARTS
    }

    /// Notices that the process has ended, and starts a new one if none is running.
    fn look(&mut self) {
        if self.process.as_mut().is_some_and(LanguageServer::has_ended) {
            tracing::warn!("the type checker has ended; it is started again");
            self.stop();
        }
        if self.process.is_none() && self.may_start_unasked() {
            self.warm();
        }
    }

    fn perform(&mut self, task: CheckTask) {
        self.is_wanted = true;
        // The run went on already; its neighbours wait for theirs.
        if Instant::now() >= task.deadline {
            let _ = task.answer.send(Err(Unchecked::Late));
            return;
        }
        let found = self.check(&task.text, task.declarations).map(Arc::new);
        if let Ok(found) = &found {
            (task.keep)(Arc::clone(found));
        }
        let _ = task.answer.send(found);
    }

    fn check(&mut self, text: &str, declarations: String) -> Result<Vec<Diagnostic>, Unchecked> {
        if self.not_before.is_some_and(|at| Instant::now() < at) {
            return Err(Unchecked::Restarting);
        }
        let started = if self.process.is_none() { self.start() } else { Ok(()) };
        match started.and_then(|()| self.diagnose(text, declarations, Instant::now() + CHECK_TIMEOUT)) {
            Ok(found) => {
                self.failures = 0;
                self.not_before = None;
                if self.checks.is_multiple_of(CHECKS_PER_LOOK)
                    && self.process.as_ref().is_some_and(LanguageServer::is_worn)
                {
                    self.stop();
                }
                Ok(found)
            }
            Err(error) => {
                tracing::warn!(%error, "the type checker did not answer; it is started again");
                self.stop();
                let delay = RESTART_DELAY.saturating_mul(1 << self.failures.min(10)).min(MAX_RESTART_DELAY);
                self.failures += 1;
                self.not_before = Some(Instant::now() + delay);
                Err(Unchecked::Failed)
            }
        }
    }

    fn stop(&mut self) {
        self.process = None;
        self.project = None;
    }

    fn start(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        let process = LanguageServer::start(&self.jail, &self.compiler.program, deadline)?;
        tracing::debug!(process = process.id(), "the type checker is up");
        self.process = Some(process);
        self.diagnose("", nothing(), deadline).map(drop)
    }

    fn diagnose(&mut self, text: &str, declarations: String, deadline: Instant) -> io::Result<Vec<Diagnostic>> {
        let Some(server) = &mut self.process else { return Err(io::ErrorKind::NotFound.into()) };
        self.checks = self.checks.wrapping_add(1);
        match &mut self.project {
            Some(project) => project.change(server, text, declarations, deadline)?,
            None => self.project = Some(Project::open(server, &self.compiler, text, declarations, deadline)?),
        }
        let asked = json!({ "textDocument": { "uri": uri(PROGRAM) } });
        let answer = server.request("textDocument/diagnostic", asked, deadline)?;
        Ok(read(&answer))
    }
}

/// The declarations of a program that names nothing.
fn nothing() -> String {
    Declarations::default().text_for(&|_| false)
}

impl Project {
    fn open(
        server: &mut LanguageServer,
        compiler: &Compiler,
        text: &str,
        declarations: String,
        deadline: Instant,
    ) -> io::Result<Self> {
        let library = library(&compiler.program);
        if library.is_none() {
            tracing::debug!("the declarations of the language are read by the compiler");
        }
        let documents = library.as_deref().unwrap_or_default();
        let names = documents.iter().map(|one| one.name.as_str()).chain([DECLARATIONS, PROGRAM]);
        let settings = settings(names.collect(), library.is_some());
        open(server, SETTINGS, "json", &settings.to_string(), deadline)?;
        for one in documents {
            open(server, &one.name, "typescript", &one.text, deadline)?;
        }
        open(server, DECLARATIONS, "typescript", &declarations, deadline)?;
        open(server, PROGRAM, "javascript", text, deadline)?;
        Ok(Project { declarations, declarations_version: 1, program_version: 1 })
    }

    fn change(
        &mut self,
        server: &mut LanguageServer,
        text: &str,
        declarations: String,
        deadline: Instant,
    ) -> io::Result<()> {
        if self.declarations != declarations {
            self.declarations_version += 1;
            change(server, DECLARATIONS, self.declarations_version, &declarations, deadline)?;
            self.declarations = declarations;
        }
        self.program_version += 1;
        change(server, PROGRAM, self.program_version, text, deadline)
    }
}

const SETTINGS: &str = "tsconfig.json";
const DECLARATIONS: &str = "declarations.d.ts";
const PROGRAM: &str = "program.js";

/// Agents do not write strict TypeScript. The program is JavaScript by now, so no type of it is the writer's own.
fn settings(files: Vec<&str>, has_library: bool) -> Value {
    let mut options = json!({
        "allowJs": true, "checkJs": true, "strict": false, "noImplicitAny": false, "strictNullChecks": false,
        "target": "esnext", "module": "esnext", "moduleDetection": "legacy", "types": [],
        "noEmit": true, "noResolve": true, "skipLibCheck": true,
    });
    if has_library {
        options["noLib"] = json!(true);
    } else {
        options["lib"] = json!([LIBRARY]);
    }
    json!({ "compilerOptions": options, "files": files })
}

fn uri(document: &str) -> String {
    format!("file:///check/{document}")
}

fn open(server: &mut LanguageServer, document: &str, language: &str, text: &str, deadline: Instant) -> io::Result<()> {
    let document = json!({ "uri": uri(document), "languageId": language, "version": 1, "text": text });
    server.notify("textDocument/didOpen", json!({ "textDocument": document }), deadline)
}

fn change(server: &mut LanguageServer, document: &str, version: u64, text: &str, deadline: Instant) -> io::Result<()> {
    let document = json!({ "uri": uri(document), "version": version });
    let change = json!({ "textDocument": document, "contentChanges": [{ "text": text }] });
    server.notify("textDocument/didChange", change, deadline)
}

/// The errors of an answer. Whatever else the process says is not looked at.
fn read(answer: &Value) -> Vec<Diagnostic> {
    const ERROR: u64 = 1;
    let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
    let items = answer["items"].as_array().into_iter().flatten();
    let errors = items.filter(|item| item["severity"].as_u64() == Some(ERROR)).filter_map(|item| {
        let start = &item["range"]["start"];
        Some(Diagnostic {
            line: number(&start["line"])?,
            column: number(&start["character"])?,
            code: number(&item["code"])?,
            message: head(item["message"].as_str()?, 2_000).to_owned(),
        })
    });
    errors.take(MAX_DIAGNOSTICS).collect()
}
