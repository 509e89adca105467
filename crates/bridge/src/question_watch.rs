//! Notices that a call has to wait for a person, in a run that is not kept and can begin again as one that is.
//!
//! A run loses nothing by beginning again before it has changed anything. So a run of which nothing tells beforehand that a
//! person will be asked is executed without a record, and pays for one only when a question comes. After its first change such a
//! run does not begin again: the call fails, as in a run that cannot ask.

use std::collections::HashMap;

use parking_lot::Mutex;

/// What is noticed in one run.
#[derive(Debug, Default)]
pub struct QuestionWatch(Mutex<Noticed>);

#[derive(Debug, Default)]
struct Noticed {
    /// The first call that was sent and may change something.
    first_change: Option<u64>,
    /// Whether there was another one.
    has_more_changes: bool,
    /// Whether the run is to begin again.
    begins_again: bool,
    /// The backend that asked something, whether the run begins again or not.
    asking_backend: Option<String>,
    /// What the run has counted, by day and name.
    counted: HashMap<u64, HashMap<String, u64>>,
}

impl Noticed {
    fn may_begin_again(&self, call_id: u64) -> bool {
        !self.has_more_changes && self.first_change.is_none_or(|first| first == call_id)
    }
}

impl QuestionWatch {
    /// Whether the run is to begin again as one that can wait for a person.
    pub fn begins_again(&self) -> bool {
        self.0.lock().begins_again
    }

    /// The backend that asked something inside a call.
    pub fn asking_backend(&self) -> Option<String> {
        self.0.lock().asking_backend.clone()
    }

    /// Notes what a call was counted for on a day.
    pub(super) fn counted(&self, day: u64, names: &[String]) {
        let mut noticed = self.0.lock();
        let counted = noticed.counted.entry(day).or_default();
        names.iter().for_each(|name| *counted.entry(name.clone()).or_default() += 1);
    }

    /// Notes that a call does not count after all.
    pub(super) fn took_back(&self, day: u64, names: &[String]) {
        let mut noticed = self.0.lock();
        let Some(counted) = noticed.counted.get_mut(&day) else { return };
        for name in names {
            counted.get_mut(name).into_iter().for_each(|count| *count = count.saturating_sub(1));
        }
    }

    /// Takes out what the run has counted: how often under which names, by day.
    pub(super) fn take_counted(&self) -> Vec<(u64, Vec<(String, u64)>)> {
        let counted = std::mem::take(&mut self.0.lock().counted);
        counted.into_iter().map(|(day, names)| (day, names.into_iter().collect())).collect()
    }

    /// Notes that a call is about to be sent. `false` where it must not be any more, because the run begins again.
    pub(super) fn sends(&self, call_id: u64, changes_nothing: bool) -> bool {
        let mut noticed = self.0.lock();
        if noticed.begins_again {
            return false;
        }
        if !changes_nothing {
            noticed.has_more_changes |= noticed.first_change.is_some_and(|first| first != call_id);
            noticed.first_change.get_or_insert(call_id);
        }
        true
    }

    /// Whether the run could begin again for a question of this call.
    pub(super) fn may_begin_again(&self, call_id: u64) -> bool {
        self.0.lock().may_begin_again(call_id)
    }

    /// Notes that a person is to be asked about a call, or by its backend. Whether the run begins again for it.
    pub(super) fn asks(&self, call_id: u64, backend: Option<&str>) -> bool {
        let mut noticed = self.0.lock();
        noticed.asking_backend = backend.map(str::to_owned).or_else(|| noticed.asking_backend.take());
        noticed.begins_again |= noticed.may_begin_again(call_id);
        noticed.begins_again
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_begins_again_for_a_question_before_its_first_change() {
        let watch = QuestionWatch::default();
        assert!(watch.sends(1, true) && watch.sends(2, false));
        assert!(watch.may_begin_again(2), "the call that asks has changed nothing yet");
        assert!(!watch.may_begin_again(1) && !watch.may_begin_again(3), "another call may have");
        assert!(watch.asks(2, Some("booking")));
        assert!(watch.begins_again());
        assert!(!watch.sends(3, true) && !watch.sends(4, false), "nothing is sent any more");
        assert_eq!(watch.asking_backend().as_deref(), Some("booking"));
    }

    #[test]
    fn a_run_does_not_begin_again_after_a_change() {
        let watch = QuestionWatch::default();
        assert!(watch.sends(1, false) && watch.sends(2, false));
        assert!(!watch.asks(2, Some("booking")) && !watch.asks(3, None));
        assert!(!watch.begins_again());
        assert_eq!(watch.asking_backend().as_deref(), Some("booking"), "the next program is kept from its start");
        assert!(watch.sends(3, false), "the program goes on");
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
