//! What the programs of the benchmark call.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use toolgate_engine::host::{HeldBytes, Question};
use toolgate_engine::wire::CallId;
use toolgate_engine::{Host, HostCall, HostError, HostFuture};

/// One function, `record`, that answers at once with a kilobyte.
pub(super) struct Records(String);

impl Records {
    /// The length of `text` in a record.
    pub(super) const TEXT: usize = 1_000;

    pub(super) fn new() -> Arc<Self> {
        Arc::new(Records(json!({ "id": 1, "text": "x".repeat(Self::TEXT) }).to_string()))
    }
}

impl Host for Records {
    fn call(&self, _: HostCall) -> HostFuture {
        let record = self.0.clone();
        Box::pin(std::future::ready(Ok(record)))
    }

    fn functions(&self) -> Vec<String> {
        vec!["record".into()]
    }

    fn take_held(&self, _: CallId) -> Option<HeldBytes> {
        None
    }
}

/// Backends named `backend_0` and on, each with tools named `tool_0` and on, which are never called.
pub(super) struct ManyTools {
    /// What each backend lists.
    backends: BTreeMap<String, String>,
}

impl ManyTools {
    pub(super) fn new(backends: usize, tools: usize) -> Arc<Self> {
        let tools: Vec<_> = (0..tools).map(|n| format!("tool_{n}")).collect();
        let names = (0..backends).map(|n| format!("backend_{n}"));
        let listing = |name| json!({ "name": name, "tools": tools }).to_string();
        Arc::new(ManyTools { backends: names.map(|name| (name.clone(), listing(name))).collect() })
    }
}

impl Host for ManyTools {
    fn call(&self, call: HostCall) -> HostFuture {
        let refusal = HostError::not_sent("UNKNOWN", format!("{} is only for looking at", call.target));
        Box::pin(std::future::ready(Err(refusal)))
    }

    fn answer(&self, question: &Question) -> Option<String> {
        match question {
            Question::Backend(name) | Question::Global(name) => self.backends.get(name).cloned(),
            Question::Backends => {
                let names = self.backends.keys().map(|name| json!({ "name": name, "id": name }));
                Some(Value::from_iter(names).to_string())
            }
            Question::Interface { .. } | Question::InterfaceOf(_) => None,
        }
    }

    fn has_tools(&self) -> bool {
        true
    }

    fn take_held(&self, _: CallId) -> Option<HeldBytes> {
        None
    }
}
