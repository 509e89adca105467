//! The thread that owns the language server: its open documents, its restarts, and the order of checks.
//!
//! Each set of declarations is a project of its own with three documents: settings, declarations, and the program, whose
//! text each check replaces. Documents exist in memory only. A check that takes too long ends the process, and the next
//! check starts another.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::oneshot;
use toolgate_catalog::types::check::Declarations;

use crate::checker::Unchecked;
use crate::find::Compiler;
use crate::process::{JailCommand, LanguageServer};

/// Projects that are open at one time.
const MAX_PROJECTS: usize = 8;
/// Longest time of one check, after which the process is ended. The run does not wait that long.
const CHECK_TIMEOUT: Duration = Duration::from_secs(3);
/// Time without checks after which the process is ended.
const IDLE_TIMEOUT: Duration = Duration::from_secs(900);
/// Time after an end that was not ours before another process is started; doubled with each further one.
const RESTART_DELAY: Duration = Duration::from_millis(250);
/// Longest such time.
const MAX_RESTART_DELAY: Duration = Duration::from_secs(60);
/// Findings of one check that are read.
const MAX_DIAGNOSTICS: usize = 200;
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
    pub(crate) declarations: Arc<Declarations>,
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
    projects: Vec<Project>,
    /// Number of the next project; a folder is never used twice.
    next: u64,
    checks: u64,
    failures: u32,
    not_before: Option<Instant>,
}

struct Project {
    number: u64,
    declarations: Arc<Declarations>,
    version: u64,
    used: u64,
}

impl Server {
    pub(crate) fn new(compiler: Compiler, jail: JailCommand) -> Self {
        let (process, projects, not_before) = (None, Vec::new(), None);
        Server { compiler, jail, process, projects, next: 0, checks: 0, failures: 0, not_before }
    }

    /// Serves until nobody can ask any more.
    pub(crate) fn serve(mut self, tasks: &Receiver<Task>) {
        loop {
            match tasks.recv_timeout(IDLE_TIMEOUT) {
                Ok(Task::Warm) => {
                    let empty = Arc::new(Declarations::default());
                    let _ = self.check("", &empty);
                }
                Ok(Task::Check(task)) => self.perform(task),
                Err(RecvTimeoutError::Timeout) => self.stop(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn perform(&mut self, task: CheckTask) {
        // The run went on already; its neighbours wait for theirs.
        if Instant::now() >= task.deadline {
            let _ = task.answer.send(Err(Unchecked::Late));
            return;
        }
        let found = self.check(&task.text, &task.declarations).map(Arc::new);
        if let Ok(found) = &found {
            (task.keep)(Arc::clone(found));
        }
        let _ = task.answer.send(found);
    }

    fn check(&mut self, text: &str, declarations: &Arc<Declarations>) -> Result<Vec<Diagnostic>, Unchecked> {
        if self.not_before.is_some_and(|at| Instant::now() < at) {
            return Err(Unchecked::Restarting);
        }
        let deadline = Instant::now() + CHECK_TIMEOUT;
        match self.diagnose(text, declarations, deadline) {
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
        self.projects.clear();
    }

    fn diagnose(
        &mut self,
        text: &str,
        declarations: &Arc<Declarations>,
        deadline: Instant,
    ) -> io::Result<Vec<Diagnostic>> {
        if self.process.is_none() {
            let process = LanguageServer::start(&self.jail, &self.compiler.program, deadline)?;
            tracing::debug!(process = process.id(), "the type checker is up");
            self.process = Some(process);
        }
        let Some(server) = &mut self.process else { return Err(io::ErrorKind::NotFound.into()) };
        self.checks = self.checks.wrapping_add(1);
        let used = self.checks;
        let known = self
            .projects
            .iter_mut()
            .find(|one| Arc::ptr_eq(&one.declarations, declarations) || one.declarations.text == declarations.text);
        let number = match known {
            Some(project) => {
                project.version += 1;
                project.used = used;
                let document = json!({ "uri": uri(project.number, PROGRAM), "version": project.version });
                let change = json!({ "textDocument": document, "contentChanges": [{ "text": text }] });
                server.notify("textDocument/didChange", change, deadline)?;
                project.number
            }
            None => {
                if self.projects.len() >= MAX_PROJECTS {
                    close_oldest(server, &mut self.projects, deadline)?;
                }
                let number = self.next;
                self.next += 1;
                open(server, number, SETTINGS, "json", COMPILER_OPTIONS, deadline)?;
                open(server, number, DECLARATIONS, "typescript", &declarations.text, deadline)?;
                open(server, number, PROGRAM, "javascript", text, deadline)?;
                self.projects.push(Project { number, declarations: Arc::clone(declarations), version: 1, used });
                number
            }
        };
        let asked = json!({ "textDocument": { "uri": uri(number, PROGRAM) } });
        let answer = server.request("textDocument/diagnostic", asked, deadline)?;
        Ok(read(&answer))
    }
}

const SETTINGS: &str = "tsconfig.json";
const DECLARATIONS: &str = "declarations.d.ts";
const PROGRAM: &str = "program.js";

/// Agents do not write strict TypeScript. The program is JavaScript by now, so no type of it is the writer's own.
const COMPILER_OPTIONS: &str = r#"{"compilerOptions":{"allowJs":true,"checkJs":true,"strict":false,"noImplicitAny":false,
"strictNullChecks":false,"target":"esnext","module":"esnext","moduleDetection":"legacy","lib":["esnext"],"types":[],
"noEmit":true,"noResolve":true,"skipLibCheck":true},"files":["declarations.d.ts","program.js"]}"#;

fn uri(project: u64, document: &str) -> String {
    format!("file:///check/{project}/{document}")
}

fn open(
    server: &mut LanguageServer,
    project: u64,
    document: &str,
    language: &str,
    text: &str,
    deadline: Instant,
) -> io::Result<()> {
    let document = json!({ "uri": uri(project, document), "languageId": language, "version": 1, "text": text });
    server.notify("textDocument/didOpen", json!({ "textDocument": document }), deadline)
}

fn close_oldest(server: &mut LanguageServer, projects: &mut Vec<Project>, deadline: Instant) -> io::Result<()> {
    let oldest = projects.iter().enumerate().min_by_key(|(_, one)| one.used).map(|(index, _)| index);
    let Some(oldest) = oldest.map(|index| projects.swap_remove(index)) else { return Ok(()) };
    for document in [PROGRAM, DECLARATIONS, SETTINGS] {
        let closed = json!({ "textDocument": { "uri": uri(oldest.number, document) } });
        server.notify("textDocument/didClose", closed, deadline)?;
    }
    Ok(())
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
            message: item["message"].as_str()?.chars().take(2_000).collect(),
        })
    });
    errors.take(MAX_DIAGNOSTICS).collect()
}
