//! Is told of the results of calls. It returns nothing, so it cannot change or delay a call.

use super::{Answer, Bridge};

/// Is told of every result that a program receives.
pub trait ResultObserver: Send + Sync + 'static {
    /// A tool of a backend, in their own names, gave this result, which is JSON text. Must return at once.
    fn observe(&self, backend: &str, tool: &str, result: &str);

    /// Longest result in bytes that it wants to see.
    fn max_result(&self) -> usize;
}

impl Bridge {
    /// Tells an observer of results from now on; only the first observer is told.
    pub fn observe_results(&self, observer: std::sync::Arc<dyn ResultObserver>) {
        let _ = self.observer.set(observer);
    }

    /// Tells the observer of an answer.
    pub(super) fn tell(&self, backend: &str, tool: &str, answer: &Answer) {
        let Some(observer) = self.observer.get() else { return };
        let catalog = self.catalog();
        let Some(backend) = catalog.backend(backend) else { return };
        match answer {
            Answer::Text(text) if text.as_str().len() <= observer.max_result() => {
                observer.observe(backend.name(), tool, text.as_str());
            }
            Answer::Value(value) => observer.observe(backend.name(), tool, &value.to_string()),
            // A client that gets results as they came is not a program.
            Answer::Text(_) | Answer::Raw(_) => {}
        }
    }
}
