//! What the schemas of one server may take together: as trees of values, and compiled.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of all schemas of a server. They are estimated, and the estimate errs upwards.
const SERVER_BYTES: u64 = 128 << 20;
/// Bytes of the compiled schemas of a host function.
const FUNCTION_BYTES: u64 = 8 << 20;

/// The bytes that are left for schemas.
#[derive(Debug)]
pub struct SchemaMemory(AtomicU64);

impl SchemaMemory {
    /// For all schemas of a server.
    pub(crate) fn of_server() -> Self {
        SchemaMemory(AtomicU64::new(SERVER_BYTES))
    }

    /// For the schemas of a host function's parameters.
    pub fn of_function() -> Self {
        SchemaMemory(AtomicU64::new(FUNCTION_BYTES))
    }

    /// Takes some bytes; `false` if there are not as many left.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }
}
