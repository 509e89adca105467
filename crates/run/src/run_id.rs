//! Names of runs: 128 random bits each.
//!
//! A system call for each name would be a tenth of the time of a run that is one tool call, so random bytes are fetched for many names
//! at once. Each byte is used for one name.

use parking_lot::Mutex;

/// Names that are made of one system call.
const NAMES_AHEAD: usize = 64;
const NAME_BYTES: usize = 16;

static AHEAD: Mutex<RandomBytes> = Mutex::new(RandomBytes { bytes: [0; NAMES_AHEAD * NAME_BYTES], names: 0 });

/// Random bytes for the names to come.
struct RandomBytes {
    bytes: [u8; NAMES_AHEAD * NAME_BYTES],
    /// How many names are left in `bytes`.
    names: usize,
}

impl RandomBytes {
    fn next(&mut self) -> u128 {
        if self.names == 0 {
            // Without random numbers a run still has a name, if not one of its own.
            let _ = getrandom::fill(&mut self.bytes);
            self.names = NAMES_AHEAD;
        }
        self.names -= 1;
        let mut name = [0; NAME_BYTES];
        name.copy_from_slice(&self.bytes[self.names * NAME_BYTES..][..NAME_BYTES]);
        u128::from_be_bytes(name)
    }
}

/// A new name for a run.
pub fn execution_id() -> String {
    format!("{:032x}", AHEAD.lock().next())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_runs_have_one_name() {
        let many = NAMES_AHEAD * 3 + 1;
        let names: BTreeSet<String> = (0..many).map(|_| execution_id()).collect();
        assert_eq!(names.len(), many);
        assert!(names.iter().all(|name| name.len() == 2 * NAME_BYTES));
    }
}
