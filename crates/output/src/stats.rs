//! What the pipeline saved a session, in the numbers that its footers show.

use serde::Serialize;

use super::Response;
use super::footer::percent_reduced;

/// Sums over the answers of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OutputStats {
    /// Answers given.
    pub calls: u64,
    /// Bytes of text before the first stage.
    pub bytes_processed: u64,
    /// Bytes of text returned, footers included.
    pub bytes_returned: u64,
}

impl OutputStats {
    /// Adds one answer.
    pub fn record(&mut self, response: &Response) {
        self.calls = self.calls.saturating_add(1);
        self.bytes_processed = self.bytes_processed.saturating_add(response.bytes_processed as u64);
        self.bytes_returned = self.bytes_returned.saturating_add(response.bytes_returned as u64);
    }

    /// The share of all bytes that was not returned, as a whole number of percent.
    pub fn percent_reduced(&self) -> u64 {
        percent_reduced(self.bytes_returned, self.bytes_processed)
    }
}
