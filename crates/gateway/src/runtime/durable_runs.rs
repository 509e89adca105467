//! Durable runs of a configuration: which store they are in, and what their callers may use.

use std::sync::{Arc, Weak};

use toolgate_functions::http::{Fetcher, Guard, HttpLimits};
use toolgate_journal::store::Prune;
use toolgate_wire::CallerScope;

use super::Gateway;
use super::functions::allow_list;
use super::secret_values::secret_values;
use toolgate_run::durable::{Callers, DurableRuns, DurableSettings, OpenError, SecretSource, Webhooks, scope_of_key};

impl Gateway {
    /// Whether the store may have runs: a file that is not there has none, and is made for the first one.
    pub fn has_kept_runs(&self) -> bool {
        let config = self.config();
        let store = config.settings.runs.store.as_ref();
        store.is_some_and(|store| store.file(&config.file).is_none_or(|path| path.exists()))
    }

    /// Keeps durable runs from now on, in the store of the configuration, and takes over those that are due. The store
    /// is opened once: a change of its settings needs a restart.
    ///
    /// # Errors
    /// If the store or its key cannot be used.
    pub async fn keep_runs(self: &Arc<Self>) -> Result<DurableRuns, OpenError> {
        if let Some(runs) = self.durable.lock().clone() {
            return Ok(runs);
        }
        let config = self.config();
        let settings = &config.settings.runs;
        let journal = self.journal().await?;
        let retention = Prune { older_than: Some(settings.keep), max_bytes: Some(settings.max_size.get()) };
        let mut durable = self.durable.lock();
        if let Some(runs) = durable.clone() {
            return Ok(runs);
        }
        let callers = Arc::new(ConfiguredCallers(Arc::downgrade(self)));
        let gateway = Arc::downgrade(self);
        let secrets: SecretSource =
            Arc::new(move || gateway.upgrade().map(|gateway| secret_values(&gateway.config())).unwrap_or_default());
        let webhooks = settings.webhook_secret.as_deref().map(|secret| {
            let fetcher = Fetcher::new(Guard::new(allow_list(&config.settings.guard)), HttpLimits::default());
            let webhooks = Webhooks::new(secret, fetcher).of_pauses(settings.webhook.clone());
            Arc::new(webhooks.without_secrets(secrets.clone()))
        });
        let durable_settings = DurableSettings {
            retention,
            webhooks,
            unknown_calls: settings.unknown_calls,
            secrets,
            ..DurableSettings::default()
        };
        let runs = DurableRuns::start(journal, self.runner().clone(), callers, durable_settings);
        *durable = Some(runs.clone());
        Ok(runs)
    }
}

/// The holders of the configured keys, and the local user.
struct ConfiguredCallers(Weak<Gateway>);

impl Callers for ConfiguredCallers {
    fn scope(&self, name: &str) -> Option<CallerScope> {
        if name.is_empty() {
            return Some(CallerScope::default());
        }
        let config = self.0.upgrade()?.config();
        config.settings.http.keys.iter().find(|key| key.name == name).map(scope_of_key)
    }

    fn admits_tokens(&self) -> bool {
        self.0.upgrade().is_some_and(|gateway| gateway.config().settings.http.oauth.is_some())
    }
}
