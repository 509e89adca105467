//! Who waits in this process for the end or the pause of a run. Several may wait for the same one.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::RunReport;

/// Those who wait, by the run.
#[derive(Default)]
pub(super) struct RunEnds(Arc<Mutex<Waiting>>);

#[derive(Default)]
struct Waiting {
    /// The number of the next one.
    next: u64,
    by_run: HashMap<String, Vec<(u64, oneshot::Sender<RunReport>)>>,
}

/// One who waits, until it is dropped.
pub(super) struct NextEnd {
    ends: Arc<Mutex<Waiting>>,
    run: String,
    number: u64,
    report: oneshot::Receiver<RunReport>,
}

impl RunEnds {
    /// Waits from now on for the next end or pause of a run.
    pub(super) fn next_of(&self, run: &str) -> NextEnd {
        let (send, report) = oneshot::channel();
        let mut waiting = self.0.lock();
        let number = waiting.next;
        waiting.next += 1;
        waiting.by_run.entry(run.to_owned()).or_default().push((number, send));
        NextEnd { ends: self.0.clone(), run: run.to_owned(), number, report }
    }

    /// Hands the report of a run to all who wait for it.
    pub(super) fn tell(&self, report: &RunReport) {
        let waiting = self.0.lock().by_run.remove(&report.id).unwrap_or_default();
        for (_, send) in waiting {
            // The request that waited may be gone.
            let _ = send.send(report.clone());
        }
    }
}

impl NextEnd {
    /// The report, when it comes.
    pub(super) async fn report(&mut self) -> Option<RunReport> {
        (&mut self.report).await.ok()
    }
}

impl Drop for NextEnd {
    fn drop(&mut self) {
        let mut waiting = self.ends.lock();
        let Some(of_run) = waiting.by_run.get_mut(&self.run) else { return };
        of_run.retain(|(number, _)| *number != self.number);
        if of_run.is_empty() {
            waiting.by_run.remove(&self.run);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolgate_wire::Code;

    #[tokio::test]
    async fn all_who_wait_for_a_run_hear_of_its_end() {
        let ends = RunEnds::default();
        let (gone, mut first, mut second) = (ends.next_of("run"), ends.next_of("run"), ends.next_of("run"));
        let other = ends.next_of("other");
        drop(gone);
        let report = RunReport { id: "run".to_owned(), ..RunReport::refused(Code::Aborted, "it ended") };
        ends.tell(&report);
        for waiting in [&mut first, &mut second] {
            assert_eq!(waiting.report().await.map(|report| report.id).as_deref(), Some("run"));
        }
        // Dropping an earlier receiver does not remove a later one of the same run.
        let mut third = ends.next_of("run");
        drop((first, second));
        ends.tell(&report);
        assert!(third.report().await.is_some());
        drop((third, other));
        assert!(ends.0.lock().by_run.is_empty(), "nothing is left of those who are gone");
    }
}
