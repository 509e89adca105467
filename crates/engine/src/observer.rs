//! Who listens to a run while it goes on.

use toolgate_wire::CallRecord;
use toolgate_wire::frame::{Stream, Target};

/// Hears what happens. Returns nothing and so cannot fail or change a run; must not block.
pub trait Observer: Send + Sync + 'static {
    /// A line was printed.
    fn logged(&self, stream: Stream, line: &str) {
        let _ = (stream, line);
    }

    /// A host call is about to be carried out.
    fn call_began(&self, target: &Target) {
        let _ = target;
    }

    /// A host call was answered.
    fn call_ended(&self, record: &CallRecord) {
        let _ = record;
    }
}
