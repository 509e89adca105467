//! What a program may call: the host of its run, in the layers that the request wants.

use std::sync::Arc;

use toolgate_bridge::{RequestContext, RunHost};
use toolgate_engine::Host;

use super::attempt::{Attempt, has_deadline};
use super::durable::{KeptHost, KeyedHost};
use super::noted_calls::NotingHost;
use crate::stage::{CommitHost, RehearsalHost, Staging};

impl Attempt<'_> {
    /// What a program may call: with keys of its calls, and the effects of an earlier run that it keeps.
    pub(super) fn program_host(&self) -> Arc<dyn Host> {
        let mut real: Arc<dyn Host> = Arc::new(self.host());
        if let Some(keys) = self.request.keys.clone() {
            let (bridge, caller) = (self.runner.bridge.clone(), self.request.caller.clone());
            real = Arc::new(KeyedHost { keys, bridge, caller, real });
        }
        if let Some(kept) = &self.request.kept {
            real = Arc::new(KeptHost::new(kept.clone(), self.runner.bridge.clone(), real));
        }
        // In front of what is kept: a kept answer is an effect of this run too.
        self.staged(self.noting(real))
    }

    /// The same for a program that is one call: it has no keys, keeps nothing and is not staged.
    pub(super) fn noting_host(&self) -> Arc<dyn Host> {
        self.noting(Arc::new(self.host()))
    }

    /// Notes the calls where the run may be corrected later.
    fn noting(&self, real: Arc<dyn Host>) -> Arc<dyn Host> {
        match &self.request.noted {
            Some(noted) => Arc::new(NotingHost::new(noted.clone(), self.runner.bridge.clone(), real)),
            None => real,
        }
    }

    /// The host of a staged run's rehearsal or commit.
    pub(super) fn staged(&self, real: Arc<dyn Host>) -> Arc<dyn Host> {
        let (bridge, functions) = (self.runner.bridge.clone(), self.functions.clone());
        match &self.request.staging {
            Staging::No | Staging::Wanted => real,
            Staging::Rehearsal(rehearsal) => {
                let (rehearsal, learned) = (rehearsal.clone(), self.runner.environment.learned());
                Arc::new(RehearsalHost { rehearsal, bridge, functions, asked: self.asked(), learned, real })
            }
            Staging::Commit(commit) => {
                Arc::new(CommitHost { commit: commit.clone(), bridge, functions, asked: self.asked(), real })
            }
        }
    }

    /// What the program may call.
    pub(super) fn host(&self) -> RunHost {
        let configured = self.runner.environment.bytes_in_flight();
        let budgets = self.runner.budgets.of_run(&self.request.caller, self.limits.memory, configured);
        let request = RequestContext { budget: Some(budgets.answers), ..self.asked() };
        RunHost::new(self.runner.bridge.clone(), request)
            .with_functions(self.functions.clone(), self.context.clone())
            .with_argument_budget(budgets.arguments)
    }

    /// On whose behalf the program calls.
    fn asked(&self) -> RequestContext {
        RequestContext {
            cancel: self.calls.clone(),
            progress: self.request.progress.clone(),
            deadline: has_deadline(self.request).then(|| self.since + self.limits.wall),
            approver: self.request.approver.clone(),
            profile: Some(self.request.profile),
            run_id: self.request.id.clone(),
            run: Some(Arc::clone(&self.run_calls)),
            trace: self.request.trace_passed_on(),
            effects: self.request.effects,
            ..RequestContext::of(&self.request.caller)
        }
    }
}
