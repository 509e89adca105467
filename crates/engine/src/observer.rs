//! Callbacks for callers that watch a run.

use toolgate_wire::CallRecord;
use toolgate_wire::frame::{Stream, Target};

/// Is told what happens during a run. Its methods return nothing, so it cannot fail or change the run; they must not
/// block.
pub trait Observer: Send + Sync + 'static {
    /// The program printed a line.
    fn logged(&self, stream: Stream, line: &str) {
        let _ = (stream, line);
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
