//! A saved configuration comes into force: only what changed is restarted.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::backend_records::BackendSource;
use super::cache::CacheFile;
use super::catalog_sync::{disabled, incomplete};
use super::functions::GrantedFunctions;
use super::settings::bound_process;
use super::{Gateway, program_types};
use toolgate_config::values::BackendName;
use toolgate_config::watch::State;
use toolgate_config::{Changes, Checked, Problem, diff};
use toolgate_mcp::server::Change;

impl Gateway {
    /// Brings a new configuration into force and says what it changed. What shapes the engine itself
    /// (isolation, pool, concurrency) and the bounds of the result store stay until a restart.
    pub async fn reload(self: &Arc<Self>, config: Checked) -> Changes {
        let _changing = self.changing.lock().await;
        let old = self.config();
        for problem in config.warnings.iter().filter(|problem| !old.warnings.contains(problem)) {
            tracing::warn!(%problem, "a part of the saved configuration may not have the effect that was meant");
        }
        let changes = diff(&old, &config);
        if changes.settings_changed {
            self.adopt_settings(&old, &config);
        }
        if let Some(learning) = &self.learning {
            learning.adopt(&config);
        }
        let config = Arc::new(config);
        *self.config.write() = Arc::clone(&config);
        self.read_again.note_in_effect(&config);
        self.remove_all(changes.removed.iter().chain(&changes.changed).map(ToString::to_string)).await;
        self.remove_all(self.overruled(&config)).await;
        self.show_disabled(&old, &config);
        for name in changes.added.iter().chain(&changes.changed) {
            if let Some(backend) = config.backends.get(name) {
                self.add_backend(name.as_str(), backend, BackendSource::Configured);
            }
        }
        for name in &changes.retuned {
            if let Some(backend) = config.backends.get(name) {
                self.apply_policy(name.as_str(), &backend.policy);
            }
        }
        if !changes.is_empty() || old.disabled != config.disabled || old.incomplete != config.incomplete {
            self.tools_changed();
            self.notify(Change::Resource("toolgate://backends".to_owned()));
        }
        changes
    }

    /// Follows a watched file until the gateway ends.
    pub fn follow_file(self: &Arc<Self>, mut states: watch::Receiver<State>) {
        let (gateway, stop) = (Arc::downgrade(self), self.stop.clone());
        tokio::spawn(async move {
            loop {
                let changed = tokio::select! {
                    () = stop.cancelled() => return,
                    changed = states.changed() => changed,
                };
                let Some(gateway) = gateway.upgrade().filter(|_| changed.is_ok()) else { return };
                let state = states.borrow_and_update().clone();
                gateway.take_problems(state.problems);
                gateway.reload(Checked::clone(&state.config)).await;
            }
        });
    }

    fn take_problems(&self, problems: Vec<Problem>) {
        for problem in &problems {
            tracing::warn!(%problem, "the saved configuration can't be used; the old one stays in force");
        }
        *self.problems.write() = problems;
        self.notify(Change::Resource("toolgate://health".to_owned()));
    }

    fn adopt_settings(&self, old: &Checked, new: &Checked) {
        if old.settings.type_check != new.settings.type_check {
            let wanted = &new.settings.type_check;
            *self.types.write() =
                program_types(&wanted.compiler, wanted.budget_or_default(), self.runner.engine()).ok();
            self.prepare_types();
        }
        if old.settings.policy != new.settings.policy {
            self.bridge().set_policy(new.settings.policy.clone());
        }
        bound_process(&new.settings, &old.settings.limits.bytes_in_flight);
        let learned = self.learning.clone().map(|learning| learning as _);
        let functions = GrantedFunctions::new(&new.settings, self.bridge(), learned);
        *self.functions.write() = Arc::new(functions);
        if old.settings.cache != new.settings.cache {
            *self.cache.write() = CacheFile::of(new).map(Arc::new);
        }
    }

    /// A server may hold a lock or a port, so the old one goes before the new one comes.
    async fn remove_all(self: &Arc<Self>, names: impl Iterator<Item = String>) {
        let mut leaving: JoinSet<()> = names
            .map(|name| {
                let gateway = Arc::clone(self);
                async move { gateway.remove_backend(&name).await }
            })
            .collect();
        while leaving.join_next().await.is_some() {}
    }

    /// Backends of an agent's whose names the file now wants for itself.
    fn overruled(&self, config: &Checked) -> impl Iterator<Item = String> + use<> {
        let registered: Vec<String> = self
            .records()
            .iter()
            .filter(|(_, it)| it.origin == BackendSource::Registered)
            .map(|(name, _)| name.clone())
            .collect();
        let wanted: Vec<String> = config
            .backends
            .keys()
            .chain(&config.disabled)
            .chain(config.incomplete.keys())
            .map(ToString::to_string)
            .collect();
        registered.into_iter().filter(move |name| wanted.iter().any(|wanted| super::register::clash(wanted, name)))
    }

    fn show_disabled(&self, old: &Checked, new: &Checked) {
        let known = |config: &Checked, name: &BackendName| {
            config.disabled.contains(name) || config.incomplete.contains_key(name)
        };
        self.bridge().catalog_handle().update(|catalog| {
            let gone = old.disabled.iter().chain(old.incomplete.keys()).filter(|name| !known(new, name));
            let catalog = gone.fold(catalog.clone(), |catalog, name| catalog.without(name.as_str()));
            let catalog = new.disabled.iter().fold(catalog, |catalog, name| catalog.with(disabled(name.as_str())));
            let waiting = new.incomplete.iter().map(|(name, server)| incomplete(name.as_str(), server));
            waiting.fold(catalog, |catalog, listing| catalog.with(listing))
        });
    }
}
