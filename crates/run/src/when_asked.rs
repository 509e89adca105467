//! Which runs can wait for a person, without being asked for as durable ones.
//!
//! A run is kept from its start where a rule may ask about one of its calls, or where one of the backends that it names has asked
//! something before or misses a login. Of other runs nothing is kept. If a person has to be asked in one of them after all, and it has changed nothing
//! so far, it is ended and begins again as a durable run: its reads are made once more. The first attempt is an aborted run in
//! statistics, and those who watch the console and the calls see it.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use toolgate_bridge::{self as bridge, QuestionWatch};
use toolgate_catalog::{BackendState, ToolRef};
use toolgate_engine::Observer;
use toolgate_plan::Call;
use toolgate_policy::{Action, Policy};
use toolgate_wire::{CallErrorCode, Profile, Target, Warning};

use super::attempt::Attempt;
use super::call_program::program_of;
use super::durable::{DurableError, not_begun};
use super::request::{Durability, Route, RunReport, RunRequest};
use super::{Counted, Runner};

/// The most backends that are known to ask.
const MAX_ASKING: usize = 1_024;

/// Backends that have asked a person something inside a call, since this process began.
#[derive(Clone, Default)]
pub(super) struct AskingBackends(Arc<Mutex<HashSet<String>>>);

impl AskingBackends {
    fn note(&self, backend: &str) {
        let mut asking = self.0.lock();
        if asking.len() < MAX_ASKING {
            asking.insert(backend.to_owned());
        }
    }

    fn contains(&self, backend: &str) -> bool {
        self.0.lock().contains(backend)
    }

    fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

/// What becomes of a run in which a person may have to be asked.
pub(super) enum DurableAttempt {
    /// It was a durable run, or cannot be one.
    Over(Box<RunReport>),
    /// It is to run without a record, and says why where something is wrong.
    NotBegun(Option<Warning>),
}

/// A run that begins again when a person has to be asked, and what its request was.
pub(super) struct Watching {
    watch: Arc<QuestionWatch>,
    cancel: CancellationToken,
    observer: Option<Arc<dyn Observer>>,
}

impl Watching {
    /// Watches a program with tools. Others, and rehearsals, send nothing that a person is asked about here.
    pub(super) fn begin(request: &mut RunRequest) -> Option<Self> {
        if request.profile != Profile::Chain || request.staging.is_on() {
            return None;
        }
        let watch = Arc::new(QuestionWatch::default());
        request.watch = Some(watch.clone());
        Some(Watching { watch, cancel: request.cancel.clone(), observer: request.observer.clone() })
    }
}

impl Runner {
    /// Whether a program may have to wait for a person.
    pub(super) fn may_wait(&self, request: &RunRequest) -> bool {
        let policy = self.bridge.policy();
        if request.profile != Profile::Chain {
            return false;
        }
        let waits_for_login = self.waits_for_login();
        if !policy.may_ask() && self.asking.is_empty() && !waits_for_login {
            return false;
        }
        match Attempt::direct_call(self, request) {
            Ok(call) => self.asks_about(&policy, request, &call),
            // Also a call as JSON whose tool is not known yet: it begins again if a person has to be asked.
            Err(Route::Refused) => false,
            Err(_) => {
                self.names_asking_backend(request)
                    || (waits_for_login && self.names_backend_without_login(request))
                    || (policy.may_ask() && self.may_ask(request, &policy))
            }
        }
    }

    /// Whether a login is missing at any backend.
    fn waits_for_login(&self) -> bool {
        self.bridge.catalog().backends().iter().any(|backend| self.bridge.may_need_login(backend))
    }

    fn names_backend_without_login(&self, request: &RunRequest) -> bool {
        let catalog = self.bridge.catalog();
        self.named_backends(request, &catalog).into_iter().any(|backend| self.bridge.may_need_login(backend))
    }

    /// Whether a program may make a call that a person is asked about. Looks at the names in its text, so that programs
    /// which name no such backend are not kept in a store for nothing.
    fn may_ask(&self, request: &RunRequest, policy: &Policy) -> bool {
        let caller = &request.caller;
        let asks = |tool: ToolRef<'_>| {
            let foreseen = bridge::foresee(policy, tool, &caller.name, None);
            foreseen.is_none_or(|decision| decision.action == Action::Ask)
        };
        let functions = request.functions.clone().unwrap_or_else(|| self.functions(caller));
        self.may_call(request, asks)
            || self.names_unknown_tools(request)
            || functions.names().iter().any(|name| request.text.contains(name))
    }

    /// Whether a person may be asked about one call, or by its backend.
    fn asks_about(&self, policy: &Policy, request: &RunRequest, call: &Call) -> bool {
        if self.asking.contains(&call.backend) {
            return true;
        }
        let catalog = self.bridge.catalog();
        let Some(tool) = catalog.tool(&call.backend, &call.tool) else { return false };
        if self.bridge.may_need_login(tool.backend) {
            return true;
        }
        let foreseen = bridge::foresee(policy, tool, &request.caller.name, Some(&call.arguments));
        policy.may_ask() && foreseen.is_none_or(|decision| decision.action == Action::Ask)
    }

    fn names_asking_backend(&self, request: &RunRequest) -> bool {
        let catalog = self.bridge.catalog();
        !self.asking.is_empty()
            && self.named_backends(request, &catalog).iter().any(|backend| self.asking.contains(backend.name()))
    }

    /// Whether a program names a backend whose tools are not known yet, such as in the first run of all: a rule may ask about
    /// any of them.
    fn names_unknown_tools(&self, request: &RunRequest) -> bool {
        let catalog = self.bridge.catalog();
        let named = self.named_backends(request, &catalog);
        named.into_iter().any(|backend| {
            let is_settled = matches!(backend.state(), BackendState::Ready | BackendState::Disabled);
            backend.tools().is_empty() && !is_settled
        })
    }

    /// Makes a request one that can be kept: a call in JSON becomes a program. `false` where there is no store, or the call is one
    /// that no program can make.
    pub(super) async fn keep(&self, request: &mut RunRequest) -> Result<bool, DurableError> {
        let program = match Attempt::direct_call(self, request) {
            Ok(call) => match program_of(&call) {
                Some(program) => Some(program),
                None => return Ok(false),
            },
            Err(_) => None,
        };
        match self.durable().await {
            Ok(_) => {}
            Err(DurableError::NoStore) => return Ok(false),
            Err(error) => return Err(error),
        }
        if let Some(program) = program {
            request.text = program;
        }
        Ok(true)
    }

    /// Whether a run that has ended is to begin again. Backends that asked something are remembered in any case.
    pub(super) fn begins_again(&self, watching: &Watching, report: &RunReport) -> bool {
        let failed = report.report.calls.iter().filter(|call| call.error_code == Some(CallErrorCode::InputRequired));
        for call in failed {
            if let Target::Tool { backend, .. } = &call.target {
                self.asking.note(backend);
            }
        }
        watching.watch.asking_backend().iter().for_each(|backend| self.asking.note(backend));
        watching.watch.begins_again() && !watching.cancel.is_cancelled() && !self.abort.is_cancelled()
    }

    /// Runs a program in which a person may have to be asked as a durable run, where one can be begun.
    pub(super) async fn run_waiting(&self, request: &mut RunRequest) -> DurableAttempt {
        match self.keep(request).await {
            Ok(true) => {}
            Ok(false) => return DurableAttempt::NotBegun(None),
            Err(error) => return DurableAttempt::NotBegun(Some(cannot_ask(&error))),
        }
        let durable = RunRequest { durable: Durability::Durable, ..request.clone() };
        let begun = match self.durable().await {
            Ok(runs) => runs.start_run(durable).await.map(|awaited| (runs, awaited)),
            Err(error) => Err(error),
        };
        match begun {
            Ok((runs, awaited)) => {
                // The durable run has its own, and may wait for long.
                (request.text, request.data) = (String::new(), None);
                DurableAttempt::Over(Box::new(runs.report_of(awaited).await))
            }
            // Nothing was recorded of it. A correction is not begun without a record: others may be begun at the same time.
            Err(error) if error.is_of_store() && request.kept.is_none() => {
                DurableAttempt::NotBegun(Some(cannot_ask(&error)))
            }
            Err(error) => DurableAttempt::Over(Box::new(not_begun(&error, request.kept.as_deref()))),
        }
    }

    /// Runs a program again in which a person has to be asked: as a durable run, or as one that cannot ask where there is no
    /// store.
    pub(super) async fn begin_again(&self, mut request: Box<RunRequest>, watching: Watching) -> RunReport {
        let Watching { cancel, observer, watch } = watching;
        // The second attempt counts the same calls again.
        self.bridge.take_back_first_attempt(&watch);
        (request.cancel, request.observer, request.trace, request.watch) = (cancel, observer, None, None);
        match self.run_waiting(&mut request).await {
            DurableAttempt::Over(report) => *report,
            DurableAttempt::NotBegun(why) => {
                let mut report = self.perform(&mut request, Counted::Yes).await;
                report.report.warnings.extend(why);
                report
            }
        }
    }
}

/// Says why a run cannot wait for a person.
fn cannot_ask(error: &DurableError) -> Warning {
    Warning::Remark(format!("no person can be asked about its calls: {error}"))
}
