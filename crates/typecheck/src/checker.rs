//! What a run asks: whether its program fits the declarations, within a budget.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use toolgate_catalog::types::check::{Declarations, RESERVED};
use toolgate_plan::{Program, ProgramUsage};

use crate::find::Compiler;
use crate::judge::{Judged, judge};
use crate::process::JailCommand;
use crate::server::{CheckTask, Diagnostic, Server, Task};

/// Checks that may wait for their turn.
const MAX_WAITING: usize = 32;
/// Longest program that is checked, in bytes.
const MAX_PROGRAM: usize = 256 << 10;
/// Answers that are kept for programs that come again.
const MAX_KEPT: usize = 256;

/// Longest program whose answer is kept, in bytes.
const MAX_KEPT_PROGRAM: usize = 16 << 10;

/// What a check came to.
#[derive(Debug, Clone, PartialEq)]
pub enum CheckResult {
    /// The program was checked.
    Judged(Judged),
    /// It was not.
    Unchecked(Unchecked),
}

/// Why a program was not checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unchecked {
    /// The answer did not come within the budget.
    #[error("the type check took too long")]
    Late,
    /// The checker ended, or said what is no answer.
    #[error("the type checker failed")]
    Failed,
    /// The checker ended a moment ago and is not started again yet.
    #[error("the type checker is being restarted")]
    Restarting,
    /// Too many programs wait for it.
    #[error("the type checker has too much to do")]
    Busy,
    /// The program is too long, or it uses names that are reserved for the check.
    #[error("the program cannot be type-checked")]
    Unsuitable,
}

/// Checks programs. Cheap to share; one process serves all.
pub struct TypeChecker {
    compiler: Compiler,
    budget: Duration,
    tasks: SyncSender<Task>,
    hasher: RandomState,
    kept: Arc<Mutex<HashMap<u64, Kept>>>,
}

/// An answer, and the program that it is about. It keeps no declarations alive that are used no more.
struct Kept {
    text: Arc<str>,
    declarations: Weak<Declarations>,
    found: Arc<Vec<Diagnostic>>,
}

impl TypeChecker {
    /// A checker that starts its process when it is first needed.
    ///
    /// # Errors
    /// If the thread for it cannot be started.
    pub fn new(compiler: Compiler, jail: JailCommand, budget: Duration) -> std::io::Result<Self> {
        let (tasks, inbox) = sync_channel(MAX_WAITING);
        let server = Server::new(compiler.clone(), jail);
        std::thread::Builder::new().name("toolgate-types".into()).spawn(move || server.serve(&inbox))?;
        Ok(TypeChecker { compiler, budget, tasks, hasher: RandomState::new(), kept: Arc::default() })
    }

    /// The compiler that it uses.
    pub fn compiler(&self) -> &Compiler {
        &self.compiler
    }

    /// How long a run waits for it.
    pub fn budget(&self) -> Duration {
        self.budget
    }

    /// Starts the process, so that the first check does not wait for it.
    pub fn warm(&self) {
        let _ = self.tasks.try_send(Task::Warm);
    }

    /// Checks a program, and waits for that no longer than the budget.
    pub async fn check(&self, program: &Program, declarations: &Arc<Declarations>) -> CheckResult {
        self.check_within(program, declarations, self.budget).await
    }

    /// The same with another budget.
    pub async fn check_within(
        &self,
        program: &Program,
        declarations: &Arc<Declarations>,
        budget: Duration,
    ) -> CheckResult {
        let deadline = Instant::now() + budget;
        if program.js.len() > MAX_PROGRAM || program.js.contains(RESERVED) {
            return CheckResult::Unchecked(Unchecked::Unsuitable);
        }
        let Some(usage) = ProgramUsage::of(&program.js) else { return CheckResult::Unchecked(Unchecked::Unsuitable) };
        match self.diagnostics(&usage, declarations, deadline).await {
            Ok(found) => CheckResult::Judged(judge(program, &usage, declarations, &found)),
            Err(why) => CheckResult::Unchecked(why),
        }
    }

    async fn diagnostics(
        &self,
        usage: &ProgramUsage,
        declarations: &Arc<Declarations>,
        deadline: Instant,
    ) -> Result<Arc<Vec<Diagnostic>>, Unchecked> {
        let key = self.hasher.hash_one((&usage.text, Arc::as_ptr(declarations) as usize));
        if let Some(found) = self.kept(key, &usage.text, declarations) {
            return Ok(found);
        }
        let text: Arc<str> = usage.text.as_str().into();
        let (answer, answered) = oneshot::channel();
        let keep = self.keep_when_found(key, Arc::clone(&text), Arc::downgrade(declarations));
        let declarations = declarations.text_for(&|name| usage.mentions(name));
        let task = CheckTask { text, declarations, deadline, answer, keep };
        match self.tasks.try_send(Task::Check(task)) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => return Err(Unchecked::Busy),
            Err(TrySendError::Disconnected(_)) => return Err(Unchecked::Failed),
        }
        match tokio::time::timeout_at(deadline.into(), answered).await {
            Ok(Ok(found)) => found,
            Ok(Err(_)) => Err(Unchecked::Failed),
            Err(_) => Err(Unchecked::Late),
        }
    }

    fn kept(&self, key: u64, text: &str, declarations: &Arc<Declarations>) -> Option<Arc<Vec<Diagnostic>>> {
        let kept = self.kept.lock();
        let one = kept.get(&key)?;
        let is_same = *one.text == *text && one.declarations.ptr_eq(&Arc::downgrade(declarations));
        is_same.then(|| Arc::clone(&one.found))
    }

    fn keep_when_found(
        &self,
        key: u64,
        text: Arc<str>,
        declarations: Weak<Declarations>,
    ) -> Box<dyn FnOnce(Arc<Vec<Diagnostic>>) + Send> {
        let kept = Arc::clone(&self.kept);
        Box::new(move |found| {
            let mut kept = kept.lock();
            if text.len() > MAX_KEPT_PROGRAM {
                return;
            }
            if kept.len() >= MAX_KEPT {
                kept.clear();
            }
            kept.insert(key, Kept { text, declarations, found });
        })
    }
}
