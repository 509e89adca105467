//! Notices that a call has to wait for a person, in a run that is not kept and can begin again as one that is.
//!
//! A run loses nothing by beginning again before it has changed anything. So a run of which nothing tells beforehand that a
//! person will be asked is executed without a record, and pays for one only when a question comes. After its first change such a
//! run does not begin again: the call fails, as in a run that cannot ask. A call that was refused before it was sent is no change, so
//! a question waits for the calls that are open, for some seconds: they may turn out to be refused, or to ask as well.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use toolgate_wire::CallState;

/// How long a question waits for other calls that are open. One that takes longer counts as a change.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);

/// What is noticed in one run.
#[derive(Debug, Default)]
pub struct QuestionWatch {
    noticed: Mutex<Noticed>,
    /// Tells questions that wait that a call has ended.
    settled: Notify,
}

#[derive(Debug, Default)]
struct Noticed {
    /// Calls that were sent and may change something; refused calls are not in it.
    changes: HashMap<u64, Change>,
    /// Questions that wait for calls that are open.
    questions: usize,
    /// Whether the run is to begin again.
    begins_again: bool,
    /// Whether the run is a rehearsal, which does not begin again.
    is_rehearsal: bool,
    /// Calls of a rehearsal for which a person is needed.
    needs_person: HashSet<u64>,
    /// The backend that asked something, whether the run begins again or not.
    asking_backend: Option<String>,
    /// What the run has counted, by day and name.
    counted: HashMap<u64, HashMap<String, u64>>,
}

/// How far a call is that may change something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    /// It was sent, and is not answered.
    Open,
    /// Its server asks something first.
    Asks,
    /// It may have changed something.
    Made,
}

impl Noticed {
    fn has_other(&self, call_id: u64, is_in: impl Fn(Change) -> bool) -> bool {
        self.changes.iter().any(|(id, change)| *id != call_id && is_in(*change))
    }

    /// Whether no call has changed anything; `None` as long as that is open.
    fn is_unchanged(&self) -> Option<bool> {
        let is_any = |wanted| self.changes.values().any(|change| *change == wanted);
        if is_any(Change::Made) {
            return Some(false);
        }
        (!is_any(Change::Open)).then_some(true)
    }
}

impl QuestionWatch {
    /// For a rehearsal: servers are told that a person can be asked, and a call that has to wait fails. The host of the rehearsal ends
    /// it there.
    pub fn of_rehearsal() -> Self {
        let noticed = Noticed { is_rehearsal: true, ..Noticed::default() };
        QuestionWatch { noticed: Mutex::new(noticed), ..QuestionWatch::default() }
    }

    /// Whether the run is to begin again as one that can wait for a person.
    pub fn begins_again(&self) -> bool {
        self.noticed.lock().begins_again
    }

    /// Whether a person is needed for this call of a rehearsal.
    pub fn needs_person(&self, call_id: u64) -> bool {
        self.noticed.lock().needs_person.contains(&call_id)
    }

    /// The backend that asked something inside a call.
    pub fn asking_backend(&self) -> Option<String> {
        self.noticed.lock().asking_backend.clone()
    }

    /// Notes what a call was counted for on a day.
    pub(super) fn counted(&self, day: u64, names: &[String]) {
        let mut noticed = self.noticed.lock();
        let counted = noticed.counted.entry(day).or_default();
        names.iter().for_each(|name| *counted.entry(name.clone()).or_default() += 1);
    }

    /// Notes that a call does not count after all.
    pub(super) fn took_back(&self, day: u64, names: &[String]) {
        let mut noticed = self.noticed.lock();
        let Some(counted) = noticed.counted.get_mut(&day) else { return };
        for name in names {
            counted.get_mut(name).into_iter().for_each(|count| *count = count.saturating_sub(1));
        }
    }

    /// Takes out what the run has counted: how often under which names, by day.
    pub(super) fn take_counted(&self) -> Vec<(u64, Vec<(String, u64)>)> {
        let counted = std::mem::take(&mut self.noticed.lock().counted);
        counted.into_iter().map(|(day, names)| (day, names.into_iter().collect())).collect()
    }

    /// Notes that a call is about to be sent. `false` where it must not be any more, because the run begins again.
    pub(super) fn sends(&self, call_id: u64, changes_nothing: bool) -> bool {
        let mut noticed = self.noticed.lock();
        if noticed.begins_again {
            return false;
        }
        if !changes_nothing {
            noticed.changes.insert(call_id, Change::Open);
        }
        true
    }

    /// Notes the end of a call that was sent and may change something.
    pub(super) fn ended(&self, call_id: u64, state: CallState) {
        let mut noticed = self.noticed.lock();
        match state {
            CallState::NotSent => drop(noticed.changes.remove(&call_id)),
            CallState::Applied | CallState::Failed | CallState::Unknown => {
                noticed.changes.insert(call_id, Change::Made);
            }
        }
        // Decided here, so that the program cannot send another call before the question is decided about.
        if noticed.questions > 0 && noticed.is_unchanged() == Some(true) {
            noticed.begins_again = true;
        }
        drop(noticed);
        self.settled.notify_waiters();
    }

    /// Whether the run could begin again for a question of this call, unless one that is open changes something.
    pub(super) fn may_begin_again(&self, call_id: u64) -> bool {
        let noticed = self.noticed.lock();
        noticed.is_rehearsal || !noticed.has_other(call_id, |change| change == Change::Made)
    }

    /// Whether another call than this one has changed something, or may do so at any time.
    pub(super) fn has_changed_before(&self, call_id: u64) -> bool {
        let noticed = self.noticed.lock();
        !noticed.is_rehearsal && noticed.has_other(call_id, |change| change != Change::Asks)
    }

    /// Notes that a person is to be asked about a call, or by its backend. Whether the run begins again for it, which is known when
    /// the calls that are open have ended.
    pub(super) async fn asks(&self, call_id: u64, backend: Option<&str>) -> bool {
        self.asks_within(SETTLE_TIMEOUT, call_id, backend).await
    }

    async fn asks_within(&self, settle_timeout: Duration, call_id: u64, backend: Option<&str>) -> bool {
        if !self.note_question(call_id, backend) {
            return false;
        }
        let question = OpenQuestion(self);
        let settling = async {
            loop {
                let mut settled = std::pin::pin!(self.settled.notified());
                // Before the look at the calls: one that ends after it is not missed.
                settled.as_mut().enable();
                if let Some(begins_again) = self.decides() {
                    return begins_again;
                }
                settled.await;
            }
        };
        match tokio::time::timeout(settle_timeout, settling).await {
            Ok(begins_again) => begins_again,
            Err(_) => question.give_up(),
        }
    }

    /// `false` where the run does not begin again, whatever comes of its other calls.
    fn note_question(&self, call_id: u64, backend: Option<&str>) -> bool {
        let mut noticed = self.noticed.lock();
        noticed.asking_backend = backend.map(str::to_owned).or_else(|| noticed.asking_backend.take());
        if noticed.is_rehearsal {
            noticed.needs_person.insert(call_id);
            return false;
        }
        // The call that asks has changed nothing yet.
        if let Some(change) = noticed.changes.get_mut(&call_id) {
            *change = Change::Asks;
        }
        noticed.questions += 1;
        true
    }

    fn decides(&self) -> Option<bool> {
        let mut noticed = self.noticed.lock();
        if !noticed.begins_again {
            noticed.begins_again = noticed.is_unchanged()?;
        }
        Some(noticed.begins_again)
    }
}

/// A question that waits for calls that are open.
struct OpenQuestion<'a>(&'a QuestionWatch);

impl OpenQuestion<'_> {
    /// Waits no longer; whether the run begins again all the same. Both at one time: a call that ends after it decides nothing.
    fn give_up(self) -> bool {
        let mut noticed = self.0.noticed.lock();
        noticed.questions -= 1;
        let begins_again = noticed.begins_again;
        drop(noticed);
        std::mem::forget(self);
        begins_again
    }
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        self.0.noticed.lock().questions -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::task::{Context, Poll, Waker};

    /// What comes of a question at once; `None` as long as it waits for calls that are open.
    fn asks_now(watch: &QuestionWatch, call_id: u64, backend: Option<&str>) -> Option<bool> {
        match std::pin::pin!(watch.asks(call_id, backend)).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(begins_again) => Some(begins_again),
            Poll::Pending => None,
        }
    }

    #[tokio::test]
    async fn a_run_begins_again_for_a_question_before_its_first_change() {
        let watch = QuestionWatch::default();
        assert!(watch.sends(1, true) && watch.sends(2, false));
        assert_eq!(asks_now(&watch, 2, Some("booking")), Some(true), "the call that asks has changed nothing yet");
        assert!(watch.begins_again());
        assert!(!watch.sends(3, true) && !watch.sends(4, false), "nothing is sent any more");
        assert_eq!(watch.asking_backend().as_deref(), Some("booking"));
    }

    #[tokio::test]
    async fn a_run_does_not_begin_again_after_a_change() {
        let watch = QuestionWatch::default();
        assert!(watch.sends(1, false) && watch.sends(2, false));
        watch.ended(1, CallState::Applied);
        assert!(!watch.may_begin_again(2) && watch.has_changed_before(2));
        assert_eq!(asks_now(&watch, 2, Some("booking")), Some(false));
        assert_eq!(asks_now(&watch, 3, None), Some(false));
        assert!(!watch.begins_again());
        assert_eq!(watch.asking_backend().as_deref(), Some("booking"), "the next program is kept from its start");
        assert!(watch.sends(3, false), "the program goes on");
    }

    #[tokio::test]
    async fn calls_that_are_refused_are_no_changes() {
        let watch = QuestionWatch::default();
        assert!(watch.sends(1, false) && watch.sends(2, false) && watch.sends(3, false));
        watch.ended(1, CallState::NotSent);
        let first = watch.asks(1, None);
        tokio::pin!(first);
        let is_open = first.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending();
        assert!(is_open && watch.has_changed_before(1), "the others may change something");
        watch.ended(2, CallState::NotSent);
        // Its server asks inside of the call.
        let second = watch.asks(3, Some("booking"));
        assert!(second.await && watch.begins_again());
        assert!(!watch.sends(4, false), "the program cannot send another one");
        assert!(first.await);
    }

    #[tokio::test]
    async fn a_question_is_decided_by_the_call_that_was_open() {
        for (state, begins_again) in [
            (CallState::NotSent, true),
            (CallState::Applied, false),
            (CallState::Failed, false),
            (CallState::Unknown, false),
        ] {
            let watch = QuestionWatch::default();
            assert!(watch.sends(1, false));
            let (asked, ()) = tokio::join!(watch.asks(2, None), async { watch.ended(1, state) });
            assert_eq!((asked, watch.begins_again()), (begins_again, begins_again), "{state:?}");
            assert_eq!(watch.sends(3, false), !begins_again);
        }
    }

    #[tokio::test]
    async fn a_question_does_not_wait_for_ever() {
        let watch = QuestionWatch::default();
        assert!(watch.sends(1, false));
        assert!(!watch.asks_within(Duration::ZERO, 2, None).await && watch.has_changed_before(2));
        watch.ended(1, CallState::NotSent);
        assert!(!watch.begins_again(), "the call has failed already");
    }

    #[tokio::test]
    async fn a_rehearsal_is_asked_and_does_not_begin_again() {
        let watch = QuestionWatch::of_rehearsal();
        assert!(watch.sends(1, false) && watch.sends(2, false));
        assert!(watch.may_begin_again(3) && !watch.has_changed_before(3), "its calls change nothing");
        assert!(!watch.needs_person(3));
        assert_eq!(asks_now(&watch, 3, Some("booking")), Some(false));
        assert!(watch.needs_person(3) && !watch.begins_again());
        assert!(watch.sends(4, true));
    }

    #[test]
    fn what_a_run_counted_is_known_until_it_is_taken_out() {
        let watch = QuestionWatch::default();
        let names = ["tool".to_owned()];
        watch.counted(7, &names);
        watch.counted(7, &names);
        watch.took_back(7, &names);
        watch.took_back(8, &names);
        assert_eq!(watch.take_counted(), [(7, vec![("tool".to_owned(), 1)])]);
        assert!(watch.take_counted().is_empty());
    }
}
