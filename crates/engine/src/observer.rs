//! Callbacks for callers that watch a run.

use std::time::Duration;

use toolgate_wire::CallRecord;
use toolgate_wire::frame::{Stream, Target};

/// Is told what happens during a run. Its methods return nothing, so it cannot fail or change the run; they must not
/// block.
pub trait Observer: Send + Sync + 'static {
    /// The program printed a line.
    fn logged(&self, stream: Stream, line: &str) {
        let _ = (stream, line);
    }

    /// A host call is in the ledger at this index, with its arguments as JSON text: it is about to be made, or repeated from a
    /// record in which it was made `then` after the start of the run. A run that moves to another interpreter repeats calls
    /// that were noted before.
    fn call_noted(&self, index: usize, arguments: &str, then: Option<Duration>) {
        let _ = (index, arguments, then);
    }

    /// A host call is about to be made.
    fn call_began(&self, target: &Target) {
        let _ = target;
    }

    /// The arguments of the host call that has just begun, as JSON text, and whether it is known to change nothing.
    fn call_arguments(&self, target: &Target, arguments: &str, read_only: bool) {
        let _ = (target, arguments, read_only);
    }

    /// A host call was answered.
    fn call_ended(&self, record: &CallRecord) {
        let _ = record;
    }
}
